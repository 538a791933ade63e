#include "nn/optimizer.h"

#include <algorithm>
#include <cmath>

namespace normlab {
namespace {

constexpr std::int64_t kBlock = 16384;  // elements; five float arrays of it fit the second-level cache

bool has_second_moment(OptimizerName name) {
  return name == OptimizerName::adamw || name == OptimizerName::big_vision_adam || name == OptimizerName::lamb;
}
DType moment_dtype(const OptimizerSettings& s, DType parameters) {
  const bool big_vision = s.name == OptimizerName::big_vision_adam || s.name == OptimizerName::momentum_hp;
  return big_vision && s.bf16_moment ? DType::bf16 : parameters;
}

double clip_factor(ClipForm form, double limit, double norm) {
  if (limit <= 0) return 1.0;
  if (form == ClipForm::optax) return norm < limit ? 1.0 : limit / norm;
  return std::min(1.0, limit / (norm + 1e-6));
}

}  // namespace

std::int64_t moment_bytes(const OptimizerSettings& settings, DType parameters) {
  const std::size_t second = has_second_moment(settings.name) ? size_of(parameters) : 0;
  return static_cast<std::int64_t>(size_of(moment_dtype(settings, parameters)) + second);
}

Optimizer::Optimizer(Backend& backend, ParameterSet& parameters, const OptimizerSettings& settings,
                     std::span<const UpdateFactors> factors)
    : backend_(backend), parameters_(parameters), settings_(settings) {
  moments_.push_back({"m", parameters.make_flat(moment_dtype(settings, parameters.dtype()))});
  if (has_second_moment(settings.name)) moments_.push_back({"v", parameters.make_flat()});
  decay_.assign(static_cast<std::size_t>(parameters.flat_size()), 0);
  for (const ParameterInfo& p : parameters.parameters()) {
    decaying_.push_back(p.decays || !settings.decay_matrices_only);
    std::fill_n(decay_.begin() + p.offset, p.shape.size(), decaying_.back());
  }
  cut_into_pieces(factors);
  squares_.resize(per_parameter() ? pieces_.size() : 0);
  ratios_.assign(per_parameter() ? parameters.parameters().size() : 0, 1.0);
}

void Optimizer::cut_into_pieces(std::span<const UpdateFactors> factors) {
  const std::vector<ParameterInfo>& all = parameters_.parameters();
  if (!factors.empty() && factors.size() != all.size())
    throw InputError(concat("optimizer: ", factors.size(), " factors for ", all.size(), " parameters"));
  const std::int64_t n = parameters_.flat_size();
  std::size_t p = 0;  // parameters lie in their order
  for (std::int64_t block = 0; block < n; block += kBlock) {
    begins_.push_back(pieces_.size());
    for (std::int64_t first = block, end = std::min(n, block + kBlock); first < end;) {
      while (p + 1 < all.size() && all[p + 1].offset <= first) ++p;
      const std::int64_t last = p + 1 < all.size() ? std::min(end, all[p + 1].offset) : end;
      const UpdateFactors own = factors.empty() ? UpdateFactors{} : factors[p];
      const bool joins = pieces_.size() > begins_.back() && !per_parameter() && pieces_.back().factors == own;
      if (joins)
        pieces_.back().count += last - first;
      else
        pieces_.push_back({first, last - first, own, p});
      first = last;
    }
  }
  begins_.push_back(pieces_.size());
}

std::span<const Optimizer::Piece> Optimizer::pieces_of(std::int64_t block) const {
  const std::size_t begin = begins_[static_cast<std::size_t>(block)],
                    end = begins_[static_cast<std::size_t>(block) + 1];
  return {pieces_.data() + begin, end - begin};
}

void Optimizer::step(ShardPool& pool, StepState& state) {
  const std::int64_t n = parameters_.flat_size(), lanes = parameters_.lanes(), blocks = (n + kBlock - 1) / kBlock;
  const Tensor lane0 = parameters_.flat_lane(0);
  const ParameterSet::Update update_of = parameters_.update();
  const auto part = [&](const Tensor& flat, std::int64_t b) {
    return flat.slice(b * kBlock, std::min(kBlock, n - b * kBlock));
  };
  const double square =
      pool.sum_blocks(blocks, [&](std::int64_t b) { return backend_.sum_lanes(lanes, n, part(lane0, b)); });
  state.grad_norm = std::sqrt(square);
  state.nonfinite = !std::isfinite(state.grad_norm);
  state.clip_factor = clip_factor(settings_.clip_form, state.clip_norm, state.grad_norm);
  const double t = double(state.step + 1);
  state.bias_correction1 = 1 - std::pow(settings_.beta1, t);
  state.bias_correction2 = 1 - std::pow(settings_.beta2, t);
  if (per_parameter()) update_lamb(pool, state);
  pool.for_blocks(blocks, [&](std::int64_t b) {
    for (const Piece& piece : pieces_of(b)) update(piece, state);
    if (update_of.copy) backend_.round_to_bf16(part(update_of.values, b), part(update_of.copy, b));  // still in a cache
  });
}

void Optimizer::update(const Piece& piece, const StepState& state) {
  const auto part = [&](const Tensor& flat) { return flat.slice(piece.first, piece.count); };
  const OptimizerSettings& s = settings_;
  const Tensor gradient = part(parameters_.flat_lane(0)), p = part(parameters_.update().values);
  const Tensor m = part(moments_[0].flat), decay(decay_.data() + piece.first, {piece.count}, DType::u8);
  switch (s.name) {
    case OptimizerName::adamw:
      return backend_.adamw({s.beta1, s.beta2, s.eps, s.weight_decay}, piece.factors, &state, gradient, decay, p, m,
                            part(moments_[1].flat));
    case OptimizerName::sgd:
      return backend_.sgd({s.momentum, s.weight_decay, s.nesterov}, piece.factors, &state, gradient, decay, p, m);
    case OptimizerName::big_vision_adam:
      return backend_.big_vision_adam({s.beta1, s.beta2, s.eps, s.weight_decay, s.moment_product}, piece.factors,
                                      &state, gradient, decay, p, m, part(moments_[1].flat));
    case OptimizerName::momentum_hp:
      return backend_.momentum_hp({s.momentum, s.weight_decay, s.nesterov, s.moment_product}, piece.factors, &state,
                                  gradient, decay, p, m);
    case OptimizerName::lion:
      return backend_.lion({s.beta1, s.beta2, s.weight_decay}, piece.factors, &state, gradient, decay, p, m);
    case OptimizerName::lamb:
      return backend_.lamb({s.beta1, s.beta2, s.eps, s.weight_decay}, piece.factors, &state, &ratios_[piece.parameter],
                           decaying_[piece.parameter], p, m, part(moments_[1].flat));
  }
}

/// The first pass of LAMB: moments, and from the norms of each tensor its ratio. Pieces end where a block or a
/// parameter ends, and their sums are added in their order.
void Optimizer::update_lamb(ShardPool& pool, const StepState& state) {
  const OptimizerSettings& s = settings_;
  pool.for_blocks(static_cast<std::int64_t>(begins_.size()) - 1, [&](std::int64_t b) {
    for (const Piece& piece : pieces_of(b)) {
      const auto part = [&](const Tensor& flat) { return flat.slice(piece.first, piece.count); };
      squares_[static_cast<std::size_t>(&piece - pieces_.data())] =
          backend_.lamb_moments({s.beta1, s.beta2, s.eps, s.weight_decay}, piece.factors, &state,
                                part(parameters_.flat_lane(0)), decaying_[piece.parameter],
                                part(parameters_.update().values), part(moments_[0].flat), part(moments_[1].flat));
    }
  });
  for (std::size_t i = 0; i < pieces_.size();) {
    const Piece& first = pieces_[i];
    LambSquares sum;
    for (; i < pieces_.size() && pieces_[i].parameter == first.parameter; ++i) {
      sum.parameters += squares_[i].parameters;
      sum.direction += squares_[i].direction;
    }
    const bool decays = decaying_[first.parameter] && s.weight_decay * first.factors.weight_decay > 0;
    const bool adapts = decays && sum.parameters > 0 && sum.direction > 0;
    ratios_[first.parameter] = adapts ? std::sqrt(sum.parameters / sum.direction) : 1.0;
  }
}

}  // namespace normlab
