// A trial on ranks with an emulated GPU each.
#include "experiments/lab/base/files.h"
#include "experiments/lab/train/checkpoint.h"
#include "tests/lab/train/small_trial.h"
#include "tests/nccl/on_gpus.h"

using namespace normlab;

namespace {

void run_on_gpus(const SmallTrial& trial, const std::filesystem::path& out, int ranks, TrialOptions options) {
  on_gpus(ranks, [&](Backend& backend, Group& group) {
    options.backend = &backend;
    options.team.group = &group;
    if (group.root())
      trial.run(out, options);
    else
      run_trial(trial.config, trial.id, trial.data, trial.folder(out), nullptr, options);
  });
}

}  // namespace

TEST_CASE("trial on GPUs: any number of ranks, also after a stop, has the bits of one with as many shards") {
  const Fresh fresh;
  const SmallTrial trial(SmallTrial::settings());
  const TemporaryFolder folder;
  TrialOptions options;
  options.gpu_shards = 3;
  options.checkpoint.keep = KeepCheckpoint::last;
  run_on_gpus(trial, folder / "one", 1, options);
  run_on_gpus(trial, folder / "three", 3, options);
  TrialOptions half = options;
  half.stop_at = 11;
  run_on_gpus(trial, folder / "resumed", 2, half);
  TrialOptions other = options;
  other.gpu_shards = 2;
  CHECK_THROWS_WITH_AS(run_on_gpus(trial, folder / "resumed", 2, other), doctest::Contains(" | 3 shards"), InputError);
  run_on_gpus(trial, folder / "resumed", 3, options);
  const auto result = [&](const char* name) { return *trial.folder(folder / name).load_result(); };
  CHECK(result("one").steps == 24);
  CHECK(*result("one").stated("gpu_shards") == "3");
  for (const char* name : {"three", "resumed"}) {
    CAPTURE(name);
    CHECK(result(name).metrics == result("one").metrics);
    const auto state = [&](const char* of) {
      const TrialFolder files = trial.folder(folder / of);
      return read_state_records(attempt_folder(files.path(), last_attempt(files.path())) / kStatesFile).back().state;
    };
    CHECK(state(name) == state("one"));
  }
}

TEST_CASE("trial on GPUs: what ranks cannot divide is refused") {
  TrialConfig c = SmallTrial::settings();
  CHECK_NOTHROW(require_divisible({.forked = 2}, c, 2));
  CHECK_THROWS_WITH_AS(
      require_divisible({.forked = 3}, c, 2),
      "--ranks 3: GPUs divide the 2 shards of a batch, and each rank needs one; use fewer ranks, or up "
      "to 8 --gpu-shards",
      InputError);
  CHECK_THROWS_AS(require_divisible({.forked = 9}, c, 9), InputError);
  std::get<ViTConfig>(c.model).placement = find_placement("bn")->placement;
  CHECK_NOTHROW(require_divisible({.forked = 1}, c, 1));
  CHECK_THROWS_WITH_AS(require_divisible({.forked = 1}, c, 2),
                       "--gpu-shards 2: batch norm and image-text training need the whole batch on one GPU; train with "
                       "one rank and --gpu-shards 1",
                       InputError);
}
