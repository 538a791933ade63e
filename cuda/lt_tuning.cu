// Which algorithm of cuBLASLt computes each product fastest.
#include <algorithm>
#include <cmath>

#include "core/dtype.h"
#include "core/error.h"
#include "cuda/lt_products.h"
#include "cuda/recording.h"
#include "cuda/transfer.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

constexpr double kRound = 3e-3;      // seconds of an algorithm in a round: long beside the events around it
constexpr std::size_t kRounds = 5;   // at least
constexpr double kGain = 0.97;       // of the first's time; what is closer is noise
constexpr int kMostRepeats = 1'000;  // of a product in a recording

/// Values in (-1, 1) of bf16. Two of them are a float in that range, too.
std::vector<std::uint16_t> noise(std::size_t bytes) {
  constexpr std::size_t kMost = std::size_t{2} << 20;
  std::vector<std::uint16_t> values(std::min(bytes, kMost) / sizeof(bf16));
  std::uint32_t state = 1;
  for (std::uint16_t& value : values) {
    state = state * 1664525u + 1013904223u;
    value = bf16(float(state >> 8) * 0x1p-23f - 1.0f).bits;
  }
  return values;
}

/// The operands of a product one after the other. C is D, as where gradients are added.
class TuningOperands {
 public:
  TuningOperands(const Stream& stream, Buffer& memory, const LtProduct& p) {
    const std::int64_t inputs = size_of(p.in), outputs = size_of(p.out);
    std::size_t bytes = 0;
    const auto place = [&](std::int64_t count, std::int64_t size) {
      constexpr std::size_t kAlignment = 256;
      const std::size_t at = bytes;
      bytes += (static_cast<std::size_t>(count * size) + kAlignment - 1) / kAlignment * kAlignment;
      return at;
    };
    const auto matrices = [&](std::int64_t values) { return p.batch * stride_in_batch(values); };
    const std::size_t a = place(matrices(p.m * p.k), inputs), b = place(matrices(p.k * p.n), inputs),
                      d = place(matrices(p.m * p.n), outputs), vector = place(p.n, size_of(p.vector)),
                      extra = place(has_extra(p) ? p.m * p.n : 0, outputs);
    auto* const begin = memory.get<std::byte>(static_cast<std::int64_t>(bytes));
    const std::vector<std::uint16_t> values = noise(bytes);
    const std::size_t drawn = values.size() * sizeof values[0];
    check("tuning", cudaMemcpyAsync(begin, values.data(), drawn, cudaMemcpyHostToDevice, stream.handle()));
    for (std::size_t done = drawn; done < bytes; done += std::min(done, bytes - done))
      check("tuning", cudaMemcpyAsync(begin + done, begin, std::min(done, bytes - done), cudaMemcpyDeviceToDevice,
                                      stream.handle()));
    stream.synchronize();  // `values` end here
    operands_ = {begin + a, begin + b, begin + d, begin + d, begin + vector, has_extra(p) ? begin + extra : nullptr};
  }
  const LtOperands& operator*() const { return operands_; }

 private:
  LtOperands operands_{};
};

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

TunedProduct LtProducts::tune(const LtProduct& p, Plan& plan, double seconds, Buffer& memory) {
  const TuningOperands with(stream_, memory, p);
  const std::vector<Candidate> found = look_up(plan, kCandidates);
  const auto take = [&](std::size_t candidate) {
    plan.algorithm = found[candidate].algorithm;
    plan.workspace = found[candidate].workspace;
  };
  const Event begin(Event::Kind::timed), end(Event::Kind::timed);
  const auto timed = [&](FunctionRef<void()> work) {
    begin.record(stream_);
    work();
    end.record(stream_);
    end.wait();
    return end.seconds_after(begin);
  };
  const auto multiply_once = [&] { multiply("tuning", p, plan, *with, stream_, workspace_); };
  for (std::size_t i = found.size(); i-- > 0;) {  // so that none is loaded in a recording
    take(i);
    multiply_once();
  }
  const double once = timed(multiply_once);
  const int repeats = int(std::clamp(std::ceil(kRound / std::max(once, 1e-9)), 1.0, double(kMostRepeats)));
  std::vector<std::unique_ptr<Recording>> runs;
  for (std::size_t i = 0; i < found.size(); ++i) {
    take(i);
    runs.push_back(record_graph(stream_, [&] {
      for (int repeat = 0; repeat < repeats; ++repeat) multiply_once();
    }));
  }
  std::vector<std::vector<double>> times(runs.size());
  for (double total = 0; times[0].size() < kRounds || total < seconds; total += times[0].back() * repeats)
    for (std::size_t i = 0; i < runs.size(); ++i) times[i].push_back(timed([&] { runs[i]->replay(); }) / repeats);
  std::vector<double> medians;
  for (const std::vector<double>& of : times) medians.push_back(median(of));
  auto best = std::min_element(medians.begin(), medians.end());
  if (*best > kGain * medians[0]) best = medians.begin();
  const auto taken = static_cast<std::size_t>(best - medians.begin());
  take(taken);
  return {words_of(p), plan.calls, medians[0], *best, int(taken), int(found.size())};
}

std::vector<TunedProduct> LtProducts::tune(double seconds) {
  if (stream_.waits_for_each()) throw InputError("tuning: NORMLAB_CUDA_SYNC=1 waits for each kernel; unset it");
  std::vector<TunedProduct> all;
  Buffer memory("operands of tuned products", stream_);
  for (auto& [product, plan] : plans_)
    if (plan.found) all.push_back(tune(product, plan, seconds, memory));
  return all;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
