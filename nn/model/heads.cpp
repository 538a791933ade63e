#include "nn/model/heads.h"

#include <cmath>

#include "core/backend.h"
#include "nn/model/norm_formula.h"

namespace normlab {
namespace {

Elementwise formula_of(const char* text, const BranchConfig& c, std::string_view path, std::int64_t width) {
  return {rows_formula(text), concat(c.place.prefix(), path), width, c.sizes, c.place.layer, "formula"};
}

std::int64_t head_dim(const BranchConfig& c) { return c.sizes.embed_dim / c.sizes.num_heads; }

}  // namespace

LearnedScale::LearnedScale(ParameterSet& p, const BranchConfig& c) {
  if (c.placement.attn_scale == AttnScale::fixed) return;
  constexpr const char* kPath = "attn.logit_scale";
  logarithms_ = p.add(c.place.prefix() + kPath, {c.sizes.num_heads},
                      {.role = Role::gain, .place = c.place, .start = std::log(10.0)});
  limited_ = formula_of("exp(min(x, log(100)))", c, kPath, c.sizes.num_heads);
  root_ = Factor(p, std::sqrt(double(head_dim(c))));
}

Var LearnedScale::operator()(const Var& queries, const Shard& shard) const {
  if (is_identity()) return queries;
  return scale(queries, root_(limited_(shard.parameter(logarithms_), Var(), shard), shard));
}

ExclusiveHeads::ExclusiveHeads(const BranchConfig& c) : head_dim_(head_dim(c)) {
  if (c.placement.attention_sites(c.place.layer - 1).exclude_self)
    rows_ = formula_of("x - g * (dot(x, g) / max(dot(g, g), 1e-24))", c, "attn.exclude_self", head_dim_);
}

Var ExclusiveHeads::operator()(const Var& heads, const Var& values, const Shard& shard) const {
  if (is_identity()) return heads;
  const Shape all = heads.shape(), single{all[0], all[1] * all[2] / head_dim_, head_dim_};
  return reshape(rows_(reshape(heads, single), reshape(values, single), shard), all);
}

HeadGate::HeadGate(ParameterSet& p, const BranchConfig& c) : width_(c.sizes.embed_dim), heads_(c.sizes.num_heads) {
  const AttnGate kind = c.placement.attn_gate;
  if (kind == AttnGate::none) return;
  gate_ = Linear(p, c.place, Role::gate, width_, kind == AttnGate::head ? heads_ : width_, c.qkv_bias);
  if (kind == AttnGate::head)
    spread_ = p.add_constant({width_, heads_}, [width = width_, heads = heads_] {
      std::vector<double> ones(std::size_t(width * heads));
      for (std::int64_t i = 0; i < width; ++i) ones[std::size_t(i * heads + i * heads / width)] = 1;
      return ones;
    });
  product_ = formula_of("x * sigmoid(g)", c, row_of(Role::gate).path, width_);
}

Var HeadGate::operator()(const Var& heads, const Var& h, const Shard& shard) const {
  if (!gate_) return heads;
  Var gate = (*gate_)(h, shard);
  if (spread_ >= 0) gate = linear(gate, shard.tape.input(shard.step.parameters.constant(spread_)), Var());
  return product_(heads, gate, shard);
}

void HeadGate::prepare(Backend& backend, std::int64_t rows, DType dtype) const {
  if (!gate_) return;
  gate_->prepare(backend, rows, dtype);
  if (spread_ >= 0) backend.prepare_linear({rows, heads_, width_}, dtype, false);
}

}  // namespace normlab
