// Trials of unlike kinds in one stack on an emulated GPU: each has the result that it has alone.
#include <doctest/doctest.h>

#include "core/backend.h"
#include "core/trial_stack.h"
#include "experiments/lab/base/files.h"
#include "tests/cuda_emulation/emulated_devices.h"
#include "tests/lab/train/small_trial.h"

using namespace normlab;

namespace {

TrialConfig mixed() {
  TrialConfig c = SmallTrial::settings();
  c.train.augment.mix.mixup = 0.8;
  c.train.label_smoothing = 0.1;
  c.train.ema.decay = 0.9;
  return c;
}

}  // namespace

TEST_CASE("stacked trials: pairs, probes, mixed targets and one that diverges have the results that they have alone") {
  const std::vector<TrialConfig> configs{SmallTrial::of_pairs(), SmallTrial::settings(), SmallTrial::diverging(),
                                         mixed()};
  std::vector<SmallTrial> trials(configs.begin(), configs.end());
  const TemporaryFolder one, all;
  const auto options = [](Backend& backend, std::size_t i) {
    TrialOptions o;
    o.backend = &backend;
    o.data_threads = 1;
    if (i == 1) o.probes.of(ProbeKind::gradients).every = 2;
    return o;
  };
  const auto found = [&](std::size_t i, const TemporaryFolder& folder) {
    const TrialFolder trial = trials[i].folder(folder.path());
    const auto result = trial.load_result();
    REQUIRE(result);
    return std::tuple(result->status, result->metrics, result->diverged_step, read_file(trial.metrics(1)));
  };
  const auto backend = cuda_emulated::make_backend(0);
  for (std::size_t i = 0; i < trials.size(); ++i) trials[i].run(one.path(), options(*backend, i));
  const auto stack = cuda_emulated::make_stack(static_cast<int>(trials.size()));
  stack->run([&](int place) {
    const auto i = static_cast<std::size_t>(place);
    trials[i].run(all.path(), options(stack->backend(place), i));
  });
  for (std::size_t i = 0; i < trials.size(); ++i) {
    CAPTURE(i);
    CHECK(found(i, all) == found(i, one));
  }
  CHECK(std::get<0>(found(2, all)) == TrialEnd::diverged);
  CHECK(std::get<3>(found(1, all)).find("grad_norm/blocks") != std::string::npos);
}
