#include "experiments/lab/sweep/launched.h"

#include <fmt/format.h>
#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <array>

#include "core/devices.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/sweep/worker.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/trials/store.h"

namespace normlab {
namespace {

/// How many of the ranks up to `end` have the same text as this one.
int count_equal(Group& world, const std::string& text, int end) {
  const std::string all = sha256_hex(text);
  std::array<char, 16> here{};
  std::copy_n(all.begin(), here.size(), here.begin());
  const std::vector<std::array<char, 16>> hashes = world.gathered(here);
  return static_cast<int>(std::count(hashes.begin(), hashes.begin() + end, here));
}

/// Those that may use the cores of this one. A launcher that binds ranks to cores gives each its own.
int ranks_with_these_cores(Group& world) {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  const std::string mask(reinterpret_cast<const char*>(&cores), sizeof cores);
  return count_equal(world, host_name() + mask, world.size());
}

void require_one_folder(Group& world, const std::filesystem::path& out) {
  std::filesystem::path mark;
  world.agree([&] {
    if (!world.root()) return;
    make_folders(out / "logs");
    mark = out / "logs" / fmt::format("{}-{}.ranks", host_name(), getpid());
    LineFile(mark).append("");
  });
  const std::filesystem::path found = world.shared_text(mark.string());
  const bool seen = std::filesystem::exists(found);
  world.gathered(int(seen));  // all have looked
  std::error_code ignored;
  if (world.root()) std::filesystem::remove(mark, ignored);
  world.agree([&] {
    if (!seen)
      throw InputError(
          fmt::format("--out {}: rank {} on {} does not see the file {} of rank 0; give a folder that all "
                      "hosts share",
                      out.string(), world.number(), host_name(), found.string()));
  });
}

}  // namespace

void LaunchedRanks::divide(const Launch& launch, const Experiment& experiment, RunOptions& options, int per_trial) {
  Group& world = mpi->world();
  const int size = world.size();
  const std::size_t trials = experiment.trials.size();
  const bool chosen = per_trial > 0;  // by the user
  try {
    std::string ids;
    for (const Trial& trial : experiment.trials) ids += trial.id;
    require_equal(world, "program or CPU", bits_identity(cpu_backend(), Precision::fp32));
    require_equal(world, "descriptor", sha256_hex(ids));
    require_equal(world, "--ranks-per-trial", std::to_string(per_trial));
    require_equal(world, "--gpu-shards", std::to_string(options.gpu_shards));
    require_equal(world, "--gpu-algorithms", options.algorithms.sha256);
    if (!chosen) per_trial = std::ssize(experiment.trials) >= size ? 1 : size;
    world.agree([&] {
      if (options.team.forked > 1)
        throw InputError(
            fmt::format("--ranks: {} has already started {} ranks; use --ranks-per-trial to say how many "
                        "train a trial",
                        launch.by, size));
      if (size % per_trial != 0)
        throw InputError(fmt::format("--ranks-per-trial {}: does not divide the {} ranks that {} has started",
                                     per_trial, size, launch.by));
      if (per_trial > 1 && options.workers > 1)
        throw InputError(
            fmt::format("--workers {}: {} ranks train each trial, and each group of them is one worker; "
                        "leave it out",
                        options.workers, per_trial));
    });
    require_one_folder(world, options.out);
    options.gpu = count_equal(world, host_name(), world.number());  // its number on this host
    if (options.device != DeviceKind::cpu)
      world.agree(
          [&] { require_device(options.device, device_needs(experiment, options), options.algorithms, options.gpu); });
  } catch (const Error&) {
    mpi->end();
    throw;
  }
  options.quiet = !world.root();
  const int sharing = ranks_with_these_cores(world);
  if (options.threads == 0) options.threads = std::max(1, available_cores() / sharing);
  if (options.workers == 0) options.workers = 1;
  words = fmt::format("{} ranks of {} ({}): ", size, launch.by, mpi->version());
  if (per_trial == 1) {
    words += "each trains trials of its own";
    if (!chosen)
      words +=
          fmt::format(", since there are {}; --ranks-per-trial {} trains each on all", plural(trials, "trial"), size);
    mpi->end();  // from here on the ranks share the work through the folder of results
    return;
  }
  words += fmt::format("{} train each trial together", per_trial);
  group = mpi->group(per_trial);
  options.team = {.group = group.get(), .option = "--ranks-per-trial"};
}

LaunchedRanks::~LaunchedRanks() {
  if (!group) return;
  if (group->root()) end_serving(*group);
  mpi->end();
}

}  // namespace normlab
