// What attention may do to its queries before, and to its heads after they are mixed.
#pragma once

#include <optional>

#include "nn/model/residual.h"

namespace normlab {

/// Multiplies queries by what makes scores exp(min(s, log 100)) q k^T in place of q k^T / sqrt(d), with a learned s for
/// each head, `BLOCK.attn.logit_scale`, log 10 at the start. With unit vectors as queries and keys it is the cosine
/// attention of Swin v2 (arXiv:2111.09883, section 3.3, and its code, which limits 1 / tau to 100).
class LearnedScale {
 public:
  LearnedScale() = default;
  LearnedScale(ParameterSet& parameters, const BranchConfig& config);
  Var operator()(const Var& queries, const Shard& shard) const;
  bool is_identity() const { return logarithms_ < 0; }

 private:
  int logarithms_ = -1;
  Elementwise limited_;
  Factor root_;  // of a head's width
};

/// y - (y v) v / |v|^2 for each head y and the value v of its own token (Exclusive Self Attention, arXiv:2603.09078). As
/// in PyTorch's normalize(v), |v| is at least 1e-12.
class ExclusiveHeads {
 public:
  ExclusiveHeads() = default;
  ExclusiveHeads(const BranchConfig& config);
  /// heads and values [B, N, D].
  Var operator()(const Var& heads, const Var& values, const Shard& shard) const;
  bool is_identity() const { return !rows_; }

 private:
  std::int64_t head_dim_ = 0;
  Elementwise rows_;
};

/// heads * sigmoid(gate(h)), where `BLOCK.attn.gate` has an output for each channel or for each head, and a bias if q, k
/// and v have one (arXiv:2505.06708 and its code, where it is a part of q; timm's Attention(gated=True)).
class HeadGate {
 public:
  HeadGate() = default;
  HeadGate(ParameterSet& parameters, const BranchConfig& config);
  /// heads [B, N, D], h the input of q, k and v for the same tokens.
  Var operator()(const Var& heads, const Var& h, const Shard& shard) const;
  void prepare(Backend& backend, std::int64_t rows, DType dtype) const;

 private:
  std::optional<Linear> gate_;
  std::int64_t width_ = 0, heads_ = 0;
  int spread_ = -1;  // [D, heads]: repeats a head's gate for its channels
  Elementwise product_;
};

}  // namespace normlab
