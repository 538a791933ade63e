#include "experiments/lab/bench/norm_timing.h"

#include <fmt/core.h>

#include <algorithm>
#include <deque>

#include "core/backend.h"
#include "core/error.h"
#include "nn/model/layers.h"

namespace normlab {
namespace {

/// Unavoidable reads and writes of large tensors. In training, batch statistics add one in the forward pass (x) and two
/// in the backward pass (x and dy), since every value must be read before the first result is known.
struct Passes {
  int train, eval;
};
Passes passes_of(Statistics statistics) {
  return statistics == Statistics::batch ? Passes{3 + 5, 2} : Passes{2 + 3, 2};
}

/// One part of the rows, with its own tape.
struct Part {
  Tensor x, dy;  // [images, rows, cols]
  std::int64_t first_image, images;
  Arena memory;
  Tape tape;
  Part(Backend& backend, Tensor x_of, Tensor dy_of, std::int64_t first, std::int64_t count)
      : x(x_of), dy(dy_of), first_image(first), images(count), memory(backend.memory()), tape(backend, memory) {}
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
  for (Tensor* t : {&x_, &dy_}) *t = noise(backend, memory_, {shape.size()}, dtype, 2.0f, 1);
}

NormTime NormTimer::measure(NormKind kind, double seconds) const {
  Backend& backend = backend_;
  const NormShape& s = shape_;
  const Statistics statistics = parts_of(kind).over;
  // Splits rows evenly over threads; keeps images whole if their rows share statistics.
  const std::int64_t unit = parts_of(kind).of_one_token() ? 1 : s.rows_per_image;
  const std::int64_t cuts = backend.whole_batch() ? 1 : pool_.threads();
  const std::int64_t units = s.images * s.rows_per_image / unit, shards = std::min<std::int64_t>(cuts, units);
  ParameterSet parameters(backend.memory());
  const Norm norm(parameters, {}, &Placement::pooled, {.pooled = norm_of(kind)}, {.embed_dim = s.cols});
  parameters.allocate(DType::f32, shards);
  for (std::size_t p = 0; p < parameters.parameters().size(); ++p)
    backend.fill(parameters.value(static_cast<int>(p)), parameters.parameters()[p].start);
  std::deque<Part> parts;
  for (std::int64_t i = 0; i < shards; ++i) {
    const std::int64_t first = units * i / shards, count = units * (i + 1) / shards - first;
    const auto cut = [&](const Tensor& t) { return t.reshape({units, unit, s.cols}).slice(first, count); };
    parts.emplace_back(backend, cut(x_), cut(dy_), first, count);
  }
  const auto forward = [&](Collective& c, bool training) {
    Part& part = parts[static_cast<std::size_t>(c.rank())];
    part.tape.reset();
    const Step step{.parameters = parameters, .training = training};
    const Shard shard{.step = step,
                      .tape = part.tape,
                      .lane = training ? c.rank() : -1,
                      .slice = {part.images, part.first_image, s.images, &c}};
    return norm(part.tape.input(part.x, training), shard);
  };
  const Timed training(backend, pool_, shards, statistics == Statistics::batch, [&](Collective& c) {
    Part& part = parts[static_cast<std::size_t>(c.rank())];
    part.tape.backward(forward(c, true), part.dy);
  });
  const Timed evaluation(backend, pool_, shards, false, [&](Collective& c) { forward(c, false); });
  const Timed copy = stream(backend, pool_, streams_, false), triad = stream(backend, pool_, streams_, true);
  const Passes passes = passes_of(statistics);
  const double bytes = double(x_.bytes());
  std::vector<double> rates, trains, evals, train_ratios, eval_ratios;
  constexpr std::size_t kRounds = 5;
  for (const BenchClock::time_point begin = BenchClock::now();
       rates.size() < kRounds || seconds_since(begin) < seconds;) {
    // A written cache line counts once, as in the bounds.
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
