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
#include "experiments/lab/sweep/worker.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/train/trial_ranks.h"
#include "experiments/lab/trials/store.h"

namespace normlab {

static std::array<char, 16> short_hash(const std::string& text) {
  const std::string all = sha256_hex(text);
  std::array<char, 16> hash{};
  std::copy_n(all.begin(), hash.size(), hash.begin());
  return hash;
}

LaunchedRun::LaunchedRun(std::unique_ptr<Mpi> mpi, const Launch& launch, const Experiment& experiment,
                         RunOptions& options, int ranks_per_trial)
    : launch_(launch),
      mpi_(std::move(mpi)),
      size_(mpi_->world().size()),
      trials_(static_cast<int>(experiment.trials.size())),
      per_trial_(ranks_per_trial > 0 ? ranks_per_trial
                 : trials_ >= size_  ? 1
                                     : size_),
      chosen_(ranks_per_trial > 0),
      version_(mpi_->version()) {
  Ranks& world = mpi_->world();
  try {
    std::string ids;
    for (const Trial& trial : experiment.trials) ids += trial.id;
    require_equal(world, "program or CPU", bits_identity(cpu_backend(), Precision::fp32));
    require_equal(world, "descriptor", sha256_hex(ids));
    require_equal(world, "--ranks-per-trial", std::to_string(ranks_per_trial));
    require_equal(world, "--gpu-shards", std::to_string(options.gpu_shards));
    world.agree([&] {
      if (options.ranks > 1)
        throw InputError(
            fmt::format("--ranks: {} has already started {} ranks; use --ranks-per-trial to say how many "
                        "train a trial",
                        launch.by, size_));
      if (size_ % per_trial_ != 0)
        throw InputError(fmt::format("--ranks-per-trial {}: does not divide the {} ranks that {} has started",
                                     per_trial_, size_, launch.by));
      if (per_trial_ > 1 && options.workers > 1)
        throw InputError(
            fmt::format("--workers {}: {} ranks train each trial, and each group of them is one worker; "
                        "leave it out",
                        options.workers, per_trial_));
    });
    require_one_folder(options.out);
    options.gpu = rank_on_this_host();
    if (options.device != DeviceKind::cpu) world.agree([&] { require_device(options.device, {}, options.gpu); });
  } catch (const Error&) {
    mpi_->end();
    throw;
  }
  options.quiet = world.rank() > 0;
  const int sharing = ranks_with_these_cores();
  if (options.threads == 0) options.threads = std::max(1, available_cores() / sharing);
  if (options.workers == 0) options.workers = 1;
  if (per_trial_ == 1) {
    mpi_->end();  // from here on the ranks share the work through the folder of results
    return;
  }
  group_ = mpi_->group(per_trial_);
  options.group = group_.get();
}

LaunchedRun::~LaunchedRun() {
  if (!group_) return;
  if (group_->root()) end_serving(*group_);
  mpi_->end();
}

void LaunchedRun::require_one_folder(const std::filesystem::path& out) {
  Ranks& world = mpi_->world();
  std::filesystem::path mark;
  world.agree([&] {
    if (!world.root()) return;
    make_folders(out / "logs");
    mark = out / "logs" / fmt::format("{}-{}.ranks", host_name(), getpid());
    LineFile(mark).append("");
  });
  const std::filesystem::path found = world.shared_text(mark.string());
  const auto check = [&] {
    if (!std::filesystem::exists(found))
      throw InputError(
          fmt::format("--out {}: rank {} on {} does not see the file {} of rank 0; give a folder that all "
                      "hosts share",
                      out.string(), world.rank(), host_name(), found.string()));
  };
  const auto remove = [&] {
    std::error_code ignored;
    if (world.root()) std::filesystem::remove(mark, ignored);
  };
  try {
    world.agree(check);
  } catch (const Error&) {
    remove();
    throw;
  }
  remove();
}

int LaunchedRun::rank_on_this_host() {
  const std::vector<std::array<char, 16>> all = mpi_->world().gathered(short_hash(host_name()));
  const auto own = all.begin() + mpi_->world().rank();
  return static_cast<int>(std::count(all.begin(), own, *own));
}

/// Including this one. A launcher that binds ranks to cores gives each its own.
int LaunchedRun::ranks_with_these_cores() {
  cpu_set_t cores;
  CPU_ZERO(&cores);
  sched_getaffinity(0, sizeof cores, &cores);
  const std::string mask(reinterpret_cast<const char*>(&cores), sizeof cores);
  const std::array<char, 16> key = short_hash(host_name() + mask);
  const std::vector<std::array<char, 16>> all = mpi_->world().gathered(key);
  return static_cast<int>(std::count(all.begin(), all.end(), key));
}

std::string LaunchedRun::words() const {
  const std::string ranks = fmt::format("{} ranks of {} ({})", size_, launch_.by, version_);
  if (per_trial_ == 1)
    return fmt::format("{}: each trains trials of its own{}", ranks,
                       chosen_ ? ""
                               : fmt::format(", since there are {}; --ranks-per-trial {} trains each on all",
                                             plural(static_cast<std::size_t>(trials_), "trial"), size_));
  return fmt::format("{}: {} train each trial together", ranks, per_trial_);
}

}  // namespace normlab
