// The layers of a Vision Transformer. Each declares its parameters on construction and reads them by number.
#pragma once

#include <array>
#include <memory>
#include <string>
#include <vector>

#include "nn/model/sites.h"
#include "nn/model/step.h"

namespace normlab {

/// y = x weight^T + bias, weight [out, in]. Parameters `LAYER.weight`, `LAYER.bias`.
class Linear {
 public:
  Linear() = default;
  Linear(ParameterSet& parameters, const Place& place, Role role, std::int64_t in, std::int64_t out,
         bool has_bias = true);
  Var operator()(const Activation& x, const Shard& shard) const;
  /// The result plus residual.
  Var added_to(const Var& residual, const Activation& x, const Shard& shard) const;
  /// GELU of the result.
  Var with_gelu(const Var& x, GeluForm form, const Shard& shard) const;
  Activation activation(const Var& x, GeluForm form, const Shard& shard) const;
  /// See Backend::prepare_linear.
  void prepare(Backend& backend, std::int64_t rows, DType dtype) const;

 private:
  Var bias(const Shard& shard) const { return bias_ < 0 ? Var() : shard.bias(bias_); }
  std::string name_;
  std::int64_t in_ = 0, out_ = 0;
  int weight_ = -1, bias_ = -1;
};

/// Queries, keys and values of one input: three linear layers with stacked weights, so that one product can compute
/// all three.
class QkvLinear {
 public:
  QkvLinear() = default;
  QkvLinear(ParameterSet& parameters, const Place& place, std::int64_t width, bool has_bias);
  /// The results of `count` of them from `first` on, concatenated: [B, N, count width]. 0 is q, 1 k, 2 v.
  Var operator()(int first, int count, const Var& x, const Shard& shard) const;
  void prepare(Backend& backend, std::int64_t rows, DType dtype) const;

 private:
  std::array<std::string, 3> names_;
  std::string together_name_, pair_name_;
  std::int64_t width_ = 0;
  int weight_ = -1, bias_ = -1;  // of q; those of k and v follow
};

/// Multiplies by a number that is fixed; the identity for 1.
class Factor {
 public:
  Factor() = default;
  Factor(ParameterSet& parameters, double value)
      : id_(value == 1 ? -1 : parameters.add_constant({1}, [value] { return std::vector{value}; })) {}
  Var operator()(const Var& x, const Shard& shard) const {
    return is_identity() ? x : scale(x, shard.tape.input(shard.step.parameters.constant(id_)));
  }
  bool is_identity() const { return id_ < 0; }

 private:
  int id_ = -1;
};

/// Running statistics of a batch norm that no batch has moved.
inline constexpr double kInitialMean = 0.0, kInitialVariance = 1.0;

/// A formula of each value, and perhaps of a gate, as an MLP's activation.
class Elementwise {
 public:
  Elementwise() = default;
  /// `formula`: null for none. `name` says where it is, in the block `layer`, counted from 1; `op` names the operation.
  Elementwise(const NormFormula* formula, std::string name, std::int64_t width, const BlockSizes& sizes,
              std::int64_t layer, const char* op = "activation");
  /// x and gate [..., width]; gate may be Var().
  Var operator()(const Var& x, const Var& gate, const Shard& shard) const;
  explicit operator bool() const { return programs_ != nullptr; }

 private:
  std::string name_;
  const char* op_ = "";
  std::shared_ptr<const formula::Programs> programs_;
};

/// The norm of a site; kind none is the identity. Parameters `SITE.gamma`, `SITE.beta`, `SITE.alpha`, `SITE.shift` as
/// the kind has them, and those that a formula names. Batch statistics have buffers `SITE.running_mean`,
/// `SITE.running_var`; whiten has `SITE.weight` [width, width] and `SITE.bias`, which are never trained; gated_norm has
/// `SITE.down` [rank, width] and `SITE.up` [width, rank]; prep_bn has `SITE.eta` [1] beside gamma and beta of its batch
/// norm, and `SITE.row_gamma`, `SITE.row_beta` of its LayerNorm.
class Norm {
 public:
  Norm() = default;
  /// `site` outlives the parameters.
  Norm(ParameterSet& parameters, const Place& place, const SiteRow& site, const Placement& placement,
       const BlockSizes& sizes);
  Norm(ParameterSet& parameters, const Place& place, SiteMember site, const Placement& placement,
       const BlockSizes& sizes)
      : Norm(parameters, place, row_of(site), placement, sizes) {}
  /// x [images, ..., width].
  Var operator()(const Var& x, const Shard& shard) const;
  /// x [images, N, heads * head width]: of all heads at once, or of each head with the same parameters.
  Var of_heads(const Var& x, std::int64_t heads, const Shard& shard) const;
  bool is_identity() const { return spec_.kind == NormKind::none; }

 private:
  /// Without the factor, with that gain and bias.
  Var normed(const Var& x, const Var& gamma, const Var& beta, const Shard& shard) const;
  Var batch_normed(const Var& x, const Var& gamma, const Var& beta, const Shard& shard) const;
  /// Whether the statistics of a batch norm are the batch's, not running ones.
  bool takes_batch_statistics(const Shard& shard) const;
  std::string name_;
  NormSpec spec_;
  std::int64_t width_ = 0;
  bool per_head_ = false;
  Factor factor_;  // of the depth
  int gamma_ = -1, beta_ = -1, alpha_ = -1, shift_ = -1, running_mean_ = -1, running_var_ = -1;
  int weight_ = -1, bias_ = -1;  // of a product
  int down_ = -1, up_ = -1;      // of gated_norm
  Elementwise hidden_;
  int eta_ = -1, row_gamma_ = -1, row_beta_ = -1;  // of prep_bn
  Elementwise mixed_;                              // the result of gated_norm and prep_bn
  std::shared_ptr<const formula::Programs> formula_;
  std::vector<int> parameters_;  // of the formula; -1: not learned
};

/// The ends of two residual streams x and y, which the blocks hold side by side as [images, 2 tokens, width]. Both
/// begin as the tokens, and end as final_x(x) + final_y(y). With one stream both functions are the identity.
class ResidualStreams {
 public:
  ResidualStreams() = default;
  ResidualStreams(ParameterSet& parameters, const Place& end, const Placement& placement, const BlockSizes& sizes);
  Var begin(const Var& tokens) const;
  Var end(const Var& both, const Shard& shard) const;
  /// x or y of both, [images, tokens, width].
  static Var one(const Var& both, int which);

 private:
  Norm x_, y_;
};

/// A learned gain, `PATH` of [width] values; the identity if absent.
class Gain {
 public:
  Gain() = default;
  Gain(ParameterSet& parameters, const Place& place, std::string_view path, std::int64_t width, Role role = Role::gain)
      : name_(concat(place.prefix(), path)), id_(parameters.add(name_, {width}, {.role = role, .place = place})) {}
  Var operator()(const Var& x, const Shard& shard) const {
    if (is_identity()) return x;
    shard.tape.at(name_.c_str());
    return scale(x, shard.parameter(id_));
  }
  bool is_identity() const { return id_ < 0; }

 private:
  std::string name_;
  int id_ = -1;
};

}  // namespace normlab
