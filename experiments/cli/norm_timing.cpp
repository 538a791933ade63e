#include "experiments/cli/norm_timing.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/error.h"

namespace normlab {
namespace {

/// Large tensors read or written: in training each pass over memory that no order of the work can spare, that is two
/// more for batch norm each way, since every value must have been seen before the first is normalised.
struct Passes {
  int train, eval;
};
Passes passes_of(NormKind kind) { return kind == NormKind::batch_norm ? Passes{3 + 5, 2} : Passes{2 + 3, 2}; }

/// The tensors of one part of the rows and what the kernels of `kind` do with them.
class Part {
 public:
  Part(Backend& backend, NormKind kind, Arena& memory, Tensor x, Tensor dy, Tensor y, Tensor dx, BatchNormDims dims)
      : backend_(backend),
        kind_(kind),
        x_(x),
        dy_(dy),
        y_(y),
        dx_(dx),
        batch_(dims),
        dims_{x.shape()[0], dims.cols, dims.eps} {
    const auto filled = [&](const Shape& shape, float value) {
      Tensor t = memory.empty(shape, DType::f32);
      std::fill_n(t.data<float>(), t.size(), value);
      return t;
    };
    gamma_ = filled({dims.cols}, 1.0f), beta_ = filled({dims.cols}, 0.1f), alpha_ = filled({1}, 0.5f);
    running_mean_ = filled({dims.cols}, 0.0f), running_var_ = filled({dims.cols}, 1.0f);
    const std::int64_t statistics = kind == NormKind::batch_norm ? dims.groups() * dims.cols : dims_.rows;
    mean_ = filled({statistics}, 0.0f), rstd_ = filled({statistics}, 1.0f);
    dgamma_ = {filled({dims.cols}, 0.0f), Write::add}, dbeta_ = {filled({dims.cols}, 0.0f), Write::add};
    dalpha_ = {filled({1}, 0.0f), Write::add};
  }

  void forward(Collective& shards, bool training) {
    Backend& b = backend_;
    switch (kind_) {
      case NormKind::layer_norm:
        return b.layer_norm(dims_, x_, gamma_, beta_, y_, mean_, rstd_);
      case NormKind::layer_norm_fixed:
        return b.layer_norm(dims_, x_, {}, {}, y_, mean_, rstd_);
      case NormKind::affine:
        return b.affine(x_, gamma_, beta_, y_);
      case NormKind::rms_norm:
        return b.rms_norm(dims_, x_, gamma_, y_, rstd_);
      case NormKind::batch_norm:
        if (training)
          return b.batch_norm(batch_, shards, x_, gamma_, beta_, running_mean_, running_var_, y_, mean_, rstd_);
        return b.batch_norm_frozen(dims_, x_, gamma_, beta_, running_mean_, running_var_, y_);
      case NormKind::dyt:
        return b.dyt(x_, alpha_, gamma_, beta_, y_);
      default:  // what is not measured
        return;
    }
  }

  void backward(Collective& shards) {
    Backend& b = backend_;
    const Gradient dx{dx_, Write::assign};
    switch (kind_) {
      case NormKind::layer_norm:
        return b.layer_norm_backward(dims_, dy_, x_, gamma_, mean_, rstd_, dx, dgamma_, dbeta_);
      case NormKind::layer_norm_fixed:
        return b.layer_norm_backward(dims_, dy_, x_, {}, mean_, rstd_, dx, {}, {});
      case NormKind::affine:
        return b.affine_backward(dy_, x_, gamma_, dx, dgamma_, dbeta_);
      case NormKind::rms_norm:
        return b.rms_norm_backward(dims_, dy_, x_, gamma_, rstd_, dx, dgamma_);
      case NormKind::batch_norm:
        return b.batch_norm_backward(batch_, shards, dy_, x_, gamma_, mean_, rstd_, dx, dgamma_, dbeta_);
      case NormKind::dyt:
        return b.dyt_backward(dy_, x_, alpha_, gamma_, dx, dalpha_, dgamma_, dbeta_);
      default:  // what is not measured
        return;
    }
  }

 private:
  Backend& backend_;
  NormKind kind_;
  Tensor x_, dy_, y_, dx_, gamma_, beta_, alpha_, running_mean_, running_var_, mean_, rstd_;
  Gradient dgamma_, dbeta_, dalpha_;
  BatchNormDims batch_;
  NormDims dims_;
};

}  // namespace

NormShape parse_norm_shape(const std::string& text) {
  NormShape s{text, 0, 1, 0};
  std::vector<std::int64_t> axes;
  std::size_t begin = 0;
  while (begin <= text.size()) {
    const std::size_t end = std::min(text.find('x', begin), text.size());
    const std::string axis = text.substr(begin, end - begin);
    if (axis.empty() || axis.size() > 9 || axis.find_first_not_of("0123456789") != std::string::npos ||
        std::stoll(axis) == 0)
      throw InputError(fmt::format("--shape {}: expected whole numbers above 0 such as 4096x4096", text));
    axes.push_back(std::stoll(axis));
    begin = end + 1;
  }
  if (axes.size() < 2) throw InputError(fmt::format("--shape {}: expected at least two axes", text));
  constexpr double kMost = 1 << 30;
  double size = 1;
  for (const std::int64_t axis : axes) size *= double(axis);
  if (size > kMost) throw InputError(fmt::format("--shape {}: more than 2^30 elements", text));
  s.images = axes.front();
  s.cols = axes.back();
  for (std::size_t i = 1; i + 1 < axes.size(); ++i) s.rows_per_image *= axes[i];
  if (axes.size() == 2) {
    for (const std::int64_t rows : {65, 64})
      if (s.rows_per_image == 1 && s.images % rows == 0) s.rows_per_image = rows;
    s.images /= s.rows_per_image;
  }
  return s;
}

NormTimer::NormTimer(Backend& backend, ShardPool& pool, const Streams& streams, const NormShape& shape, DType dtype)
    : backend_(backend), pool_(pool), streams_(streams), shape_(shape), memory_(backend.memory()) {
  // Written so that the pages are there.
  for (Tensor& t : whole_) t = noise(backend, memory_, {shape.size()}, dtype, 2.0f, 1);
}

NormTime NormTimer::measure(NormKind kind, double seconds) const {
  Backend& backend = backend_;
  const NormShape& s = shape_;
  Arena memory(backend.memory());
  // Rows are cut evenly over the threads; batch norm's images stay whole.
  const std::int64_t unit = kind == NormKind::batch_norm ? s.rows_per_image : 1;
  const std::int64_t cuts = backend.whole_batch() ? 1 : pool_.threads();
  const std::int64_t units = s.images * s.rows_per_image / unit, shards = std::min<std::int64_t>(cuts, units);
  std::vector<Part> parts;
  for (std::int64_t i = 0; i < shards; ++i) {
    const std::int64_t first = units * i / shards, count = units * (i + 1) / shards - first;
    const auto cut = [&](const Tensor& t) {
      return t.reshape({s.images * s.rows_per_image, s.cols}).slice(first * unit, count * unit);
    };
    const BatchNormDims dims{count, s.rows_per_image, s.cols, first, s.images, 0, 1e-6, 0.1};
    parts.emplace_back(backend, kind, memory, cut(whole_[0]), cut(whole_[1]), cut(whole_[2]), cut(whole_[3]), dims);
  }
  const bool lockstep = kind == NormKind::batch_norm;
  const auto part = [&](Collective& c) -> Part& { return parts[static_cast<std::size_t>(c.rank())]; };
  const Timed training(backend, pool_, shards, lockstep, [&](Collective& c) {
    part(c).forward(c, true);
    part(c).backward(c);
  });
  const Timed evaluation(backend, pool_, shards, false, [&](Collective& c) { part(c).forward(c, false); });
  const Timed copy = stream(backend, pool_, streams_, false), triad = stream(backend, pool_, streams_, true);
  const Passes passes = passes_of(kind);
  const double bytes = double(whole_[0].bytes());
  std::vector<double> rates, trains, evals, train_ratios, eval_ratios;
  constexpr std::size_t kRounds = 5;
  for (const BenchClock::time_point begin = BenchClock::now();
       rates.size() < kRounds || seconds_since(begin) < seconds;) {
    // A line that is written counts once, as it does in the bounds.
    rates.push_back(std::max(2 * streams_.bytes() / copy.round(), 3 * streams_.bytes() / triad.round()));
    trains.push_back(training.round());
    evals.push_back(evaluation.round());
    train_ratios.push_back(trains.back() * rates.back() / (passes.train * bytes));
    eval_ratios.push_back(evals.back() * rates.back() / (passes.eval * bytes));
  }
  const double rate = median(rates), pass = 1e3 * bytes / rate;
  return {to_string(kind),      rate,
          1e3 * median(trains), passes.train * pass,
          median(train_ratios), 1e3 * median(evals),
          passes.eval * pass,   median(eval_ratios)};
}

}  // namespace normlab
