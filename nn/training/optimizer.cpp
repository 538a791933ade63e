#include "nn/training/optimizer.h"

#include <algorithm>
#include <cmath>

#include "core/backend.h"

namespace normlab {
namespace {

constexpr std::int64_t kChunk = 16384;  // elements; five float arrays of this size fit the second-level cache

bool has_second_moment(OptimizerName name) {
  return name == OptimizerName::adamw || name == OptimizerName::big_vision_adam || name == OptimizerName::lamb ||
         name == OptimizerName::muon;
}
DType moment_dtype(const OptimizerSettings& s, DType parameters) {
  return s.is_big_vision() && s.bf16_moment ? DType::bf16 : parameters;
}

/// A device works on few large chunks: one for each process that there may be.
std::int64_t device_chunk(std::int64_t n, std::int64_t lanes) {
  constexpr std::int64_t kAligned = 128;  // values, so that a chunk begins with a whole vector
  return std::max<std::int64_t>(1, (n + lanes * kAligned - 1) / (lanes * kAligned)) * kAligned;
}

}  // namespace

std::int64_t moment_bytes(const OptimizerSettings& settings, DType parameters) {
  const std::size_t second = has_second_moment(settings.name) ? size_of(parameters) : 0;
  return static_cast<std::int64_t>(size_of(moment_dtype(settings, parameters)) + second);
}

Optimizer::Optimizer(Backend& backend, ParameterSet& parameters, const OptimizerSettings& settings,
                     std::span<const UpdateFactors> factors, ClipForm clip_form, Group& group, std::int64_t lanes)
    : backend_(backend),
      parameters_(parameters),
      settings_(settings),
      clip_form_(clip_form),
      chunk_(backend.whole_batch() ? device_chunk(parameters.trained_size(), std::max<std::int64_t>(1, lanes))
                                   : kChunk),
      decay_(parameters.make_zeroed({parameters.trained_size()}, DType::u8)),
      squares_(parameters.make_zeroed({cut_into_pieces(factors)}, DType::f64)),
      share_(group, backend, parameters, lanes, chunk_, squares_.size(), find_matrices(factors)) {
  for (const ParameterInfo& p : parameters.parameters()) decaying_.push_back(p.decays || !settings.decay_matrices_only);
  const auto make_moment = [&](const char* name, DType dtype) {
    const Stretch own = updated_here();
    moments_.push_back({name, parameters.make_trained(dtype, own.begin, own.size())});
  };
  make_moment("m", moment_dtype(settings, parameters.dtype()));
  if (has_second_moment(settings.name)) make_moment("v", parameters.dtype());
  if (settings_.name == OptimizerName::lamb) {
    lamb_squares_ = parameters.make_zeroed({static_cast<std::int64_t>(pieces_.size()), 2}, DType::f64);
    ratios_ = parameters.make_zeroed({static_cast<std::int64_t>(decaying_.size())}, DType::f64);
  }
  backend.synchronize();  // zeroed memory is writable from here on
  for (std::size_t p = 0; p < decaying_.size(); ++p) {
    if (parameters.is_frozen(static_cast<int>(p))) continue;
    const Tensor marks = parameters.view_flat(decay_, static_cast<int>(p));
    std::fill_n(marks.data<std::uint8_t>(), marks.size(), decaying_[p]);
  }
  if (ratios_) std::fill_n(ratios_.data<double>(), ratios_.size(), 1.0);
}

std::vector<Stretch> Optimizer::find_matrices(std::span<const UpdateFactors> factors) {
  const std::vector<ParameterInfo>& all = parameters_.parameters();
  std::vector<Stretch> ranges;
  by_muon_.resize(all.size());
  if (!settings_.is_muon()) return ranges;
  for (std::size_t p = 0; p < all.size(); ++p) {
    by_muon_[p] = !all[p].frozen && is_linear(all[p].role) && all[p].place.block >= 0 && all[p].shape.rank() == 2;
    if (!by_muon_[p]) continue;
    matrices_.push_back({all[p].offset, all[p].shape.size(), factors.empty() ? UpdateFactors{} : factors[p], p});
    ranges.push_back({all[p].offset, all[p].offset + all[p].shape.size()});
    if (parameters_.update().copy) backend_.prepare_muon(all[p].shape[0], all[p].shape[1]);
  }
  return ranges;
}

std::int64_t Optimizer::cut_into_pieces(std::span<const UpdateFactors> factors) {
  const std::vector<ParameterInfo>& all = parameters_.parameters();
  if (!factors.empty() && factors.size() != all.size())
    throw InputError(concat("optimizer: ", factors.size(), " factors for ", all.size(), " parameters"));
  std::vector<std::size_t> trained;  // in the order of their offsets
  for (std::size_t p = 0; p < all.size(); ++p)
    if (!all[p].frozen) trained.push_back(p);
  const std::int64_t n = parameters_.trained_size();
  std::size_t at = 0;
  for (std::int64_t chunk = 0; chunk < n; chunk += chunk_) {
    begins_.push_back(pieces_.size());
    for (std::int64_t first = chunk, end = std::min(n, chunk + chunk_); first < end;) {
      while (at + 1 < trained.size() && all[trained[at + 1]].offset <= first) ++at;
      const std::size_t p = trained[at];
      const std::int64_t last = at + 1 < trained.size() ? std::min(end, all[trained[at + 1]].offset) : end;
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
  return std::ssize(begins_) - 1;
}

std::span<const Optimizer::Piece> Optimizer::pieces_of(std::int64_t chunk) const {
  const std::size_t begin = begins_[static_cast<std::size_t>(chunk)],
                    end = begins_[static_cast<std::size_t>(chunk) + 1];
  return {pieces_.data() + begin, end - begin};
}

void Optimizer::begin_step(StepState& state) const {
  const double t = double(state.step + 1);
  const bool beside = settings_.is_muon();
  state.bias_correction1 = 1 - std::pow(beside ? settings_.adamw.beta1 : settings_.beta1, t);
  state.bias_correction2 = 1 - std::pow(beside ? settings_.adamw.beta2 : settings_.beta2, t);
}

Tensor Optimizer::chunk_of(const Tensor& flat, std::int64_t b) const {
  return flat.slice(b * chunk_, std::min(chunk_, parameters_.trained_size() - b * chunk_));
}

void Optimizer::sum_gradients(ShardPool& pool) {
  share_.sum(pool, squares_.data<double>());
  gather_gradient();
}

void Optimizer::gather_gradient() {
  share_.gather_gradient();
  backend_.synchronize();
}

void Optimizer::gather_moments() {
  for (const Moment& moment : moments_) share_.gather_in_root(moment.flat);
  backend_.synchronize();
}

bool Optimizer::uses(const Tensor& tensor) const {
  if (share_.in_root()) return true;
  const auto* begin = static_cast<const char*>(tensor.raw());
  const auto lies_in = [&](const Tensor& other) {
    const auto* at = static_cast<const char*>(other.raw());
    return begin < at + other.bytes() && at < begin + tensor.bytes();
  };
  const Stretch own = updated_here();
  return std::none_of(moments_.begin(), moments_.end(), [&](const Moment& moment) {
    return lies_in(moment.flat) && !lies_in(moment.flat.slice(own.begin, own.size()));
  });
}

template <class F, class Done>
void Optimizer::for_pieces(ShardPool& pool, const F& f, const Done& done) {
  const Stretch own = updated_here();
  const std::int64_t first = own.begin / chunk_, end = own.size() > 0 ? (own.end + chunk_ - 1) / chunk_ : first;
  pool.for_blocks(end - first, [&](std::int64_t b) {
    for (const Piece& piece : pieces_of(first + b))
      if (own.contains(piece.first)) f(piece);
    done(first + b);
  });
}

void Optimizer::step(ShardPool& pool, StepState* state) {
  const ParameterSet::Update to = parameters_.update();
  const auto round = [&](std::int64_t b) { backend_.round_to_bf16(chunk_of(to.values, b), chunk_of(to.copy, b)); };
  const bool updates_all = updated_here().size() == parameters_.trained_size();
  share_.sum(pool, squares_.data<double>());
  backend_.clip(clip_form_, squares_.size(), squares_.data<double>(), state);
  if (settings_.name == OptimizerName::lamb) update_lamb(pool, state);
  update_muon(pool, state);
  for_pieces(
      pool,
      [&](const Piece& piece) {
        if (!by_muon_[piece.parameter]) backend_.update(rule(piece), update_of(piece, state));
      },
      [&](std::int64_t b) {
        if (to.copy && updates_all) round(b);  // still in a cache
      });
  share_.gather(to.values);
  if (to.copy && !updates_all) pool.for_blocks(squares_.size(), round);
}

ParameterUpdate Optimizer::update_of(const Piece& piece, const StepState* state) const {
  const auto part = [&](const Tensor& flat) { return flat.slice(piece.first, piece.count); };
  return {.factors = piece.factors,
          .state = state,
          .gradient = part(parameters_.flat_lane(0)),
          .decay = part(decay_),
          .p = part(parameters_.update().values),
          .m = part(moments_[0].flat),
          .v = moments_.size() > 1 ? part(moments_[1].flat) : Tensor()};
}

LambSettings Optimizer::lamb(const Piece& piece) const {
  const OptimizerSettings& s = settings_;
  return {{s.beta1, s.beta2, s.eps, s.weight_decay},
          decaying_[piece.parameter] != 0,
          ratios_.data<double>() + piece.parameter};
}

UpdateRule Optimizer::rule(const Piece& piece) const {
  const OptimizerSettings& s = settings_;
  switch (s.name) {
    case OptimizerName::adamw:
      break;
    case OptimizerName::sgd:
      return {SgdSettings{s.momentum, s.weight_decay, s.nesterov}};
    case OptimizerName::big_vision_adam:
      return {BigVisionAdamSettings{s.beta1, s.beta2, s.eps, s.weight_decay, s.moment_product}};
    case OptimizerName::momentum_hp:
      return {MomentumSettings{s.momentum, s.weight_decay, s.nesterov, s.moment_product}};
    case OptimizerName::lion:
      return {LionSettings{s.beta1, s.beta2, s.weight_decay}};
    case OptimizerName::lamb:
      return {lamb(piece)};
    case OptimizerName::muon:
      return {AdamWSettings{s.adamw.beta1, s.adamw.beta2, s.adamw.eps, s.adamw.weight_decay, s.adamw.lr}};
  }
  return {AdamWSettings{s.beta1, s.beta2, s.eps, s.weight_decay}};
}

LambSquares* Optimizer::squares_of(std::size_t first) const {
  static_assert(sizeof(LambSquares) == 2 * sizeof(double));
  return reinterpret_cast<LambSquares*>(lamb_squares_.data<double>()) + first;
}

/// The first passes of LAMB: the moments, then each tensor's ratio from its norms. Pieces end at the end of a chunk or
/// parameter, and their sums are added in order.
void Optimizer::update_lamb(ShardPool& pool, const StepState* state) {
  for_pieces(
      pool,
      [&](const Piece& piece) {
        backend_.lamb_moments(lamb(piece), update_of(piece, state),
                              squares_of(static_cast<std::size_t>(&piece - pieces_.data())));
      },
      [](std::int64_t) {});
  share_.gather_parts([&](const Stretch& values) {
    const auto squares_from = [&](std::int64_t value) {
      const auto piece = std::lower_bound(pieces_.begin(), pieces_.end(), value,
                                          [](const Piece& p, std::int64_t v) { return p.first < v; });
      return squares_of(static_cast<std::size_t>(piece - pieces_.begin()));
    };
    return std::as_writable_bytes(std::span(squares_from(values.begin), squares_from(values.end)));
  });
  for (std::size_t i = 0; i < pieces_.size();) {
    const Piece& first = pieces_[i];
    const std::size_t begin = i;
    while (i < pieces_.size() && pieces_[i].parameter == first.parameter) ++i;
    // Without decay the ratio stays 1.
    if (decaying_[first.parameter] && settings_.weight_decay * first.factors.weight_decay > 0)
      backend_.lamb_ratio(static_cast<std::int64_t>(i - begin), squares_of(begin),
                          ratios_.data<double>() + first.parameter);
  }
}

/// Each matrix runs on one thread, so that the order of its sums depends on its size alone.
void Optimizer::update_muon(ShardPool& pool, const StepState* state) {
  const OptimizerSettings& s = settings_;
  const MuonSettings muon{s.momentum, s.weight_decay, s.nesterov, s.scale, bool(parameters_.update().copy)};
  const auto update = [&](std::int64_t i) {
    const Piece& matrix = matrices_[static_cast<std::size_t>(i)];
    if (!updated_here().contains(matrix.first)) return;
    const Shape& shape = parameters_.parameters()[matrix.parameter].shape;
    backend_.muon(muon, shape[0], shape[1], update_of(matrix, state));
  };
  const auto count = std::ssize(matrices_);
  if (backend_.whole_batch())  // a device works on one matrix at a time
    for (std::int64_t i = 0; i < count; ++i) update(i);
  else
    pool.for_blocks(count, update);
}

}  // namespace normlab
