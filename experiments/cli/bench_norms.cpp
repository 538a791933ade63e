// Measured speed of every norm kind beside the time that memory alone would take.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/arena.h"
#include "core/backend.h"
#include "core/error.h"
#include "core/shards.h"
#include "experiments/cli/bench.h"
#include "nn/placement.h"

namespace normlab {
namespace {

/// In five columns, also where a measurement was interrupted for long.
std::string ratio_text(double ratio) {
  return ratio < 99.995 ? fmt::format("{:.2f}", ratio) : fmt::format("{:.0f}", ratio);
}

using Clock = std::chrono::steady_clock;
double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

/// What is normalised, as batch norm sees it; `name` as it was given.
struct NormShape {
  std::string name;
  std::int64_t images, rows_per_image, cols;
  std::int64_t size() const { return images * rows_per_image * cols; }
};

/// "128x56x56x96": images first, channels last. Of two axes the first is cut into images of 65 tokens, of 64, or of
/// one, whichever divides it.
NormShape parse_shape(const std::string& text) {
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

/// Large tensors read or written: in training each pass over memory that no order of the work can spare, that is two
/// more for batch norm each way, since every value must have been seen before the first is normalised.
struct Passes {
  int train, eval;
};
Passes passes_of(NormKind kind) { return kind == NormKind::batch_norm ? Passes{3 + 5, 2} : Passes{2 + 3, 2}; }

constexpr std::array kKinds{NormKind::layer_norm, NormKind::layer_norm_fixed, NormKind::affine,
                            NormKind::rms_norm,   NormKind::batch_norm,       NormKind::dyt};

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
      default:  // what kKinds leaves out
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
      default:  // what kKinds leaves out
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

struct BenchNorms : BenchOptions {
  BenchNorms() { seconds = 0.5; }
  std::vector<std::string> shapes{"65x768",        "4096x4096",     "8320x192",   "128x56x56x96",
                                  "128x28x28x192", "128x14x14x384", "128x7x7x768"};

  /// Something that all threads do at once, so often in a round that starting the threads is nothing.
  class Timed {
   public:
    Timed(Backend& backend, ShardPool& pool, std::int64_t shards, bool lockstep, std::function<void(Collective&)> body)
        : backend_(backend),
          pool_(pool),
          shards_(static_cast<int>(shards)),
          lockstep_(lockstep),
          body_(std::move(body)) {
      constexpr double kRound = 0.01;
      for (double t = round(); t < kRound; t = round() * double(repeats_))
        repeats_ = std::max(repeats_ + 1, std::int64_t(double(repeats_) * std::min(100.0, kRound / t)));
    }
    /// Seconds of one call in a round.
    double round() const {
      const Clock::time_point begin = Clock::now();
      pool_.run(shards_, shards_, lockstep_, [&](Collective& c) {
        for (std::int64_t i = 0; i < repeats_; ++i) body_(c);
      });
      backend_.synchronize();
      return seconds_since(begin) / double(repeats_);
    }

   private:
    Backend& backend_;
    ShardPool& pool_;
    int shards_;
    bool lockstep_;
    std::function<void(Collective&)> body_;
    std::int64_t repeats_ = 1;
  };

  /// Three arrays that no cache holds.
  struct Streams {
    static constexpr std::int64_t kFloats = std::int64_t{24} << 20, kBytes = kFloats * 4;  // together 288 MB
    Arena memory;
    std::array<Tensor, 3> arrays{};
    explicit Streams(Backend& backend) : memory(backend.memory()) {
      for (Tensor& array : arrays) {
        array = memory.empty({kFloats}, DType::f32);
        backend.synchronize();
        std::fill_n(array.data<float>(), kFloats, 1.0f);
      }
    }
  };

  /// A copy, or a triad, of the streams; on a GPU by its kernels for a gradient and a sum, which move the same.
  Timed stream(Backend& backend, ShardPool& pool, const Streams& streams, bool triad) const {
    if (on_gpu())
      return {backend, pool, 1, false, [&backend, &streams, triad](Collective&) {
                const auto& [a, x, y] = streams.arrays;
                if (triad)
                  backend.add(x, y, a);
                else
                  backend.copy_gradient(x, {a, Write::assign});
              }};
    return {backend, pool, threads, false, [&streams, triad, this](Collective& c) {
              const std::int64_t n = Streams::kFloats, begin = n * c.rank() / threads,
                                 end = n * (c.rank() + 1) / threads;
              float* a = streams.arrays[0].data<float>();
              const float *x = streams.arrays[1].data<float>(), *y = streams.arrays[2].data<float>();
              if (triad)
                for (std::int64_t i = begin; i < end; ++i) a[i] = x[i] + 0.5f * y[i];
              else
                for (std::int64_t i = begin; i < end; ++i) a[i] = 0.5f * x[i];
            }};
  }

  static double median(std::vector<double> values) {
    const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
    std::nth_element(values.begin(), middle, values.end());
    return *middle;
  }

  struct Row {
    std::string_view norm;
    double rate;                             // bytes a second
    double train, train_bound, train_ratio;  // milliseconds
    double eval, eval_bound, eval_ratio;
  };

  /// Rounds of the streams, of training and of evaluation in turns, since the memory's rate changes from one second to
  /// the next; the ratios are medians of those of the rounds.
  Row measure(Backend& backend, ShardPool& pool, const NormShape& s, NormKind kind, const Streams& streams,
              const std::array<Tensor, 4>& whole) const {
    Arena memory(backend.memory());
    // Rows are cut evenly over the threads; batch norm's images stay whole.
    const std::int64_t unit = kind == NormKind::batch_norm ? s.rows_per_image : 1;
    const std::int64_t cuts = backend.whole_batch() ? 1 : threads;
    const std::int64_t units = s.images * s.rows_per_image / unit, shards = std::min<std::int64_t>(cuts, units);
    std::vector<Part> parts;
    for (std::int64_t i = 0; i < shards; ++i) {
      const std::int64_t begin = units * i / shards, count = units * (i + 1) / shards - begin;
      const auto cut = [&](const Tensor& t) {
        return t.reshape({s.images * s.rows_per_image, s.cols}).slice(begin * unit, count * unit);
      };
      const BatchNormDims dims{count, s.rows_per_image, s.cols, begin, s.images, 0, 1e-6, 0.1};
      parts.emplace_back(backend, kind, memory, cut(whole[0]), cut(whole[1]), cut(whole[2]), cut(whole[3]), dims);
    }
    const bool lockstep = kind == NormKind::batch_norm;
    const auto part = [&](Collective& c) -> Part& { return parts[static_cast<std::size_t>(c.rank())]; };
    const Timed training(backend, pool, shards, lockstep, [&](Collective& c) {
      part(c).forward(c, true);
      part(c).backward(c);
    });
    const Timed evaluation(backend, pool, shards, false, [&](Collective& c) { part(c).forward(c, false); });
    const Timed copy = stream(backend, pool, streams, false), triad = stream(backend, pool, streams, true);
    const Passes passes = passes_of(kind);
    const double bytes = double(s.size()) * sizeof(float);
    std::vector<double> rates, trains, evals, train_ratios, eval_ratios;
    constexpr std::size_t kRounds = 5;
    for (const Clock::time_point begin = Clock::now(); rates.size() < kRounds || seconds_since(begin) < seconds;) {
      // A line that is written counts once, as it does in the bounds.
      rates.push_back(
          std::max(2 * double(Streams::kBytes) / copy.round(), 3 * double(Streams::kBytes) / triad.round()));
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

  int operator()() const {
    const ComputeDevice computer(device);
    Backend& backend = computer.backend();
    std::vector<NormShape> parsed;
    for (const std::string& text : shapes) parsed.push_back(parse_shape(text));
    const LoadMeter meter;
    ShardPool pool(threads);
    const Streams streams(backend);
    if (json()) {
      fmt::print("{{\"device\": \"{}\", \"threads\": {}, \"rows\": [", device_words(backend), threads);
    } else {
      fmt::print(
          "{}. In ms, f32. train: forward, dx, dgamma, dbeta. eval: forward;\n"
          "batch_norm with frozen statistics. GB/s: the faster of a copy and a triad of\n"
          "288 MB, in turns with the norms; all are medians. bound: tensors read or\n"
          "written at that rate, in train 5 (y from x, dx from dy and x), batch_norm 8\n"
          "(x, and dy and x, once more for the sums), in eval 2. Below 1.00 the shape\n"
          "stays in a cache.\n\n"
          "{:<13} {:<16} {:>4} {:>8} {:>7} {:>5} {:>7} {:>7} {:>5}\n",
          on_gpu() ? device_words(backend) : fmt::format("{} threads", threads), "shape", "norm", "GB/s", "train",
          "bound", "ratio", "eval", "bound", "ratio");
    }
    const char* separator = "";
    for (const NormShape& s : parsed) {
      Arena memory(backend.memory());
      std::array<Tensor, 4> whole;
      for (Tensor& t : whole) {
        t = memory.empty({s.size()}, DType::f32);
        backend.synchronize();
        // Values do not change the time, as long as none is denormal; written so that the pages are there.
        for (std::int64_t i = 0; i < t.size(); ++i) t.data<float>()[i] = float(i * 7919 % 1009) * 0.004f - 2.0f;
      }
      for (const NormKind kind : kKinds) {
        const Row row = measure(backend, pool, s, kind, streams, whole);
        if (json())
          fmt::print(
              "{}\n  {{\"shape\": \"{}\", \"norm\": \"{}\", \"bandwidth_gb_per_second\": {:.2f}, \"train_ms\": {:.5f}, "
              "\"train_bound_ms\": {:.5f}, "
              "\"train_ratio\": {:.3f}, \"eval_ms\": {:.5f}, \"eval_bound_ms\": {:.5f}, \"eval_ratio\": {:.3f}}}",
              separator, s.name, row.norm, row.rate * 1e-9, row.train, row.train_bound, row.train_ratio, row.eval,
              row.eval_bound, row.eval_ratio);
        else
          fmt::print("{:<13} {:<16} {:>4.0f} {:>8.3f} {:>7.3f} {:>5} {:>7.3f} {:>7.3f} {:>5}\n", s.name, row.norm,
                     row.rate * 1e-9, row.train, row.train_bound, ratio_text(row.train_ratio), row.eval, row.eval_bound,
                     ratio_text(row.eval_ratio));
        std::fflush(stdout);
        separator = ",";
      }
    }
    if (json())
      fmt::print("\n], {}}}\n", load_json(meter, threads));
    else
      warn_of_load(meter, threads);
    return 0;
  }
};

}  // namespace

void add_bench_norms(CLI::App& bench, Action& action) {
  auto norms = std::make_shared<BenchNorms>();
  CLI::App& command = *bench.add_subcommand(
      "norms",
      "every norm kind beside the time that memory takes: tensors read or written once a pass (train 5, batch norm 8, "
      "eval 2), at the rate of a copy or triad measured in turns with it");
  command
      .add_option(
          "--shape", norms->shapes,
          "images first, channels last; of two axes the first is cut into images of 65 tokens, of 64, or of one")
      ->capture_default_str();
  norms->add_threads(command);
  add_device(command, norms->device);
  norms->add_seconds(command, "how long to measure each");
  norms->add_format(command);
  command.callback([norms, &action] { action = [norms] { return (*norms)(); }; });
}

}  // namespace normlab
