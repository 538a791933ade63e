#include "nn/training/optimizer.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/backend.h"

namespace normlab {
namespace {

constexpr std::int64_t kChunk = 16384;  // elements; five float arrays of this size fit the second-level cache

bool has_second_moment(OptimizerName name) {
  return name == OptimizerName::adamw || name == OptimizerName::adam || name == OptimizerName::big_vision_adam ||
         name == OptimizerName::lamb || name == OptimizerName::muon;
}
DType moment_dtype(const OptimizerSettings& s, DType parameters) {
  return s.is_big_vision() && s.bf16_moment ? DType::bf16 : parameters;
}

/// Values of a batch of matrices on a device: its intermediate results then take at most 170 MB, and more only for a
/// larger matrix. A CPU has one matrix in each, which runs on one thread.
constexpr std::int64_t kMuonBatch = std::int64_t{1} << 23;

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
      by_muon_(find_matrices()),
      decay_(parameters.make_zeroed({parameters.trained_size()}, DType::u8)),
      squares_(parameters.make_zeroed({cut_into_pieces(factors)}, DType::f64)),
      share_(group, backend, parameters, lanes, chunk_, squares_.size(), whole_ranges()) {
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
  if (settings.is_muon())
    matrices_ = parameters.make_zeroed(
        {std::ranges::count(by_muon_, true) * static_cast<std::int64_t>(sizeof(MuonMatrix))}, DType::u8);
  backend.synchronize();  // zeroed memory is writable from here on
  make_batches(factors);
  for (std::size_t p = 0; p < decaying_.size(); ++p) {
    if (parameters.is_frozen(static_cast<int>(p))) continue;
    const Tensor marks = parameters.view_flat(decay_, static_cast<int>(p));
    std::fill_n(marks.data<std::uint8_t>(), marks.size(), decaying_[p]);
  }
  if (ratios_) std::fill_n(ratios_.data<double>(), ratios_.size(), 1.0);
}

std::vector<bool> Optimizer::find_matrices() const {
  std::vector<bool> marks;
  for (const ParameterInfo& p : parameters_.parameters())
    marks.push_back(settings_.is_muon() && !p.frozen && (is_linear(p.role) || p.role == Role::norm) &&
                    p.place.block >= 0 && p.shape.rank() == 2);
  return marks;
}

std::vector<Stretch> Optimizer::whole_ranges() const {
  std::vector<Stretch> ranges;
  for (std::size_t i = 0; i < by_muon_.size(); ++i) {
    const ParameterInfo& p = parameters_.parameters()[i];
    if (by_muon_[i]) ranges.push_back({p.offset, p.offset + p.shape.size()});
  }
  return ranges;
}

/// Groups Muon's matrices by shape. A batch keeps the places of matrices that other processes update, so that its
/// products, and with them its bits, are the same for any number of processes.
void Optimizer::make_batches(std::span<const UpdateFactors> factors) {
  const std::vector<ParameterInfo>& all = parameters_.parameters();
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::size_t>> by_shape;
  for (std::size_t p = 0; p < all.size(); ++p)
    if (by_muon_[p]) by_shape[{all[p].shape[0], all[p].shape[1]}].push_back(p);
  auto* to = reinterpret_cast<MuonMatrix*>(matrices_.data<std::uint8_t>());
  for (const auto& [shape, numbers] : by_shape) {
    const auto [rows, cols] = shape;
    const std::int64_t count = std::ssize(numbers), size = std::max<std::int64_t>(1, rows * cols);
    const std::int64_t most = backend_.whole_batch() ? std::max<std::int64_t>(1, kMuonBatch / size) : 1;
    const std::int64_t batches = (count + most - 1) / most;
    for (std::int64_t b = 0; b < batches; ++b) {
      const Stretch own = share_of(count, static_cast<int>(b), static_cast<int>(batches));
      const MuonBatch batch{rows, cols, own.size(), to};
      bool here = false;
      for (std::int64_t i = own.begin; i < own.end; ++i) {
        const std::size_t p = numbers[static_cast<std::size_t>(i)];
        const bool updated = updated_here().contains(all[p].offset);
        here |= updated;
        *to++ = {updated ? all[p].offset : -1, factors.empty() ? UpdateFactors{} : factors[p]};
      }
      if (here) batches_.push_back(batch);
    }
    if (parameters_.update().copy) backend_.prepare_muon(rows, cols);
  }
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
      const bool joins = pieces_.size() > begins_.back() && settings_.name != OptimizerName::lamb &&
                         pieces_.back().factors == own && by_muon_[pieces_.back().parameter] == by_muon_[p];
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

template <class F>
void Optimizer::for_pieces(ShardPool& pool, const F& f) {
  const Stretch own = updated_here();
  const std::int64_t first = own.begin / chunk_, end = own.size() > 0 ? (own.end + chunk_ - 1) / chunk_ : first;
  pool.for_blocks(end - first, [&](std::int64_t b) {
    for (const Piece& piece : pieces_of(first + b))
      if (own.contains(piece.first)) f(piece);
  });
}

void Optimizer::step(ShardPool& pool, StepState* state) {
  share_.sum(pool, squares_.data<double>());
  backend_.clip(clip_form_, squares_.size(), squares_.data<double>(), state);
  if (settings_.name == OptimizerName::lamb) update_lamb(pool, state);
  update_muon(pool, state);
  for_pieces(pool, [&](const Piece& piece) {
    if (!by_muon_[piece.parameter]) backend_.update(rule(piece), update_of(piece, state));
  });
  const ParameterSet::Update to = parameters_.update();
  share_.gather(to.values);
  if (to.copy && !updates_all())
    pool.for_blocks(squares_.size(),
                    [&](std::int64_t b) { backend_.round_to_bf16(chunk_of(to.values, b), chunk_of(to.copy, b)); });
}

ParameterUpdate Optimizer::update_of(const Piece& piece, const StepState* state) const {
  const auto part = [&](const Tensor& flat) { return flat ? flat.slice(piece.first, piece.count) : Tensor(); };
  return {.factors = piece.factors,
          .state = state,
          .gradient = part(parameters_.flat_lane(0)),
          .decay = part(decay_),
          .p = part(parameters_.update().values),
          .m = part(moments_[0].flat),
          .v = part(moments_.size() > 1 ? moments_[1].flat : Tensor()),
          .rounded = part(updates_all() ? parameters_.update().copy : Tensor())};
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
    case OptimizerName::adam:
      return {AdamSettings{s.beta1, s.beta2, s.eps, s.weight_decay}};
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
  for_pieces(pool, [&](const Piece& piece) {
    backend_.lamb_moments(lamb(piece), update_of(piece, state),
                          squares_of(static_cast<std::size_t>(&piece - pieces_.data())));
  });
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

void Optimizer::update_muon(ShardPool& pool, const StepState* state) {
  const OptimizerSettings& s = settings_;
  const MuonSettings muon{s.momentum, s.weight_decay, s.nesterov, s.scale, bool(parameters_.update().copy)};
  const ParameterUpdate all = update_of({0, parameters_.trained_size(), {}, 0}, state);
  const auto update = [&](std::int64_t i) { backend_.muon(muon, batches_[static_cast<std::size_t>(i)], all); };
  const auto count = std::ssize(batches_);
  if (backend_.whole_batch())  // a device works on one batch at a time
    for (std::int64_t i = 0; i < count; ++i) update(i);
  else
    pool.for_blocks(count, update);
}

}  // namespace normlab
