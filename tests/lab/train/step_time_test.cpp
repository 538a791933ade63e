// Estimates of time from steps on this machine. No test here depends on how long anything takes.
#include <doctest/doctest.h>

#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>

#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/train/step_time.h"
#include "tests/lab/base/temporary_folder.h"

using namespace normlab;

namespace {

TrialConfig network(std::int64_t embed_dim, std::int64_t depth) {
  TrialConfig config;
  auto& vit = std::get<ViTConfig>(config.model);
  vit.image_size = {32, 32};
  vit.patch_size = 8;
  vit.embed_dim = embed_dim;
  vit.depth = depth;
  vit.num_heads = 2;
  vit.num_classes = 10;
  config.train.batch_size = 16;
  return config;
}

std::optional<MachineLoad> idle(const LoadMeter&) { return MachineLoad{0.05, 0.0}; }

/// Measured on an idle machine.
std::vector<StepTime> times_of(const std::vector<const TrialConfig*>& configs, int cores) {
  const StepTimes times = measured_step_times(configs, cores, idle);
  CHECK(times.disturbance == "");
  return times.of;
}

/// A new cache for a scope.
struct Cache {
  Cache() { setenv("XDG_CACHE_HOME", folder.path().c_str(), 1); }
  ~Cache() { unsetenv("XDG_CACHE_HOME"); }
  std::filesystem::path file() const { return folder / "normlab" / "step_times.json"; }
  TemporaryFolder folder;
};

}  // namespace

TEST_CASE("step_time: networks of one cost are measured once for this CPU") {
  const Cache cache;
  const TrialConfig small = network(16, 1);
  TrialConfig other_rate = small;
  other_rate.train.optimizer.lr = 0.5;  // takes no other time
  other_rate.seed = 7;
  const std::vector<StepTime> first = times_of({&small, &other_rate}, 2);
  CHECK(first[0].training > 0);
  CHECK(first[0].evaluation > 0);
  CHECK(first[0].making > 0);
  CHECK(first[0].making < first[0].training);
  CHECK(first[0].training == first[1].training);
  const std::string kept = read_file(cache.file());
  CHECK(kept.find(cpu_model()) != kept.npos);
  CHECK(times_of({&small}, 2)[0].training == first[0].training);
  CHECK(read_file(cache.file()) == kept);
}

TEST_CASE("step_time: times are measured again if the cache is damaged") {
  const Cache cache;
  const TrialConfig small = network(16, 1);
  make_folders(cache.file().parent_path());
  for (const char* text : {"{", "[1, 2]", "{\"machine\": 3}", "{\"machine\": \"another\", \"x\": [1, 2]}"}) {
    std::ofstream(cache.file()) << text;
    CHECK(times_of({&small}, 1)[0].training > 0);
  }
}

TEST_CASE("step_time: an entry of the cache without the time of making images is measured again") {
  const Cache cache;
  const TrialConfig small = network(16, 1);
  times_of({&small}, 1);
  auto known = nlohmann::json::parse(read_file(cache.file()));
  for (auto& [key, entry] : known.items())
    if (entry.is_array()) entry = {1e6, 1e6};  // of an older version
  std::ofstream(cache.file()) << known;
  const StepTime again = times_of({&small}, 1)[0];
  CHECK(again.training < 1e3);
  CHECK(again.making > 0);
}

TEST_CASE("step_time: the time of making an image replaces that of one in memory") {
  const StepTime time = MakingTime{.training = 5, .evaluation = 7}.in({.training = 3, .evaluation = 2, .making = 1});
  CHECK(time.training == 7);
  CHECK(time.evaluation == 9);
  CHECK(time.making == 5);
}

TEST_CASE("step_time: times are measured without a folder for the cache") {
  const Cache cache;
  const TrialConfig small = network(16, 1);
  setenv("XDG_CACHE_HOME", "/proc/none", 1);
  CHECK(times_of({&small}, 1)[0].training > 0);
}

TEST_CASE("step_time: a large network is estimated from a measured part") {
  const Cache cache;
  TrialConfig large = network(768, 40);
  large.train.batch_size = 512;
  const TrialConfig medium = network(192, 4);
  const std::vector<StepTime> times = times_of({&large, &medium}, 2);
  CHECK(times[0].training > times[1].training);
}

TEST_CASE("step_time: a precision that no CPU has is estimated from its products") {
  const Cache cache;
  TrialConfig without = network(16, 1);
  without.train.precision = Precision::tf32;
  const TrialConfig with = network(16, 1);
  const StepTimes times = measured_step_times({&without, &with}, 2, idle);
  CHECK(times.measured == std::vector{false, true});  // so that nothing compares the two
  const StepTime time = times.of[0];
  const StepTime by_products = time_by_products(model_cost(without.model), default_gflops(Precision::tf32));
  CHECK(time.training == by_products.training);
  CHECK(time.evaluation * 3 == doctest::Approx(time.training));
}

TEST_CASE("step_time: times of a busy machine are used and not kept") {
  const Cache cache;
  const TrialConfig small = network(16, 1);
  for (const auto& [load, words] :
       {std::pair{std::optional(MachineLoad{1.3, 0.0}), "other processes used 1.3 cores"},
        {std::optional(MachineLoad{0.0, 0.25}), "the host took 0.2 cores (steal)"},
        {std::optional<MachineLoad>(), "the machine's load is unknown: /proc/stat cannot be read"}}) {
    const StepTimes times = measured_step_times({&small}, 2, [&, of = load](const LoadMeter&) { return of; });
    CHECK(times.of[0].training > 0);
    CHECK(times.disturbance == words);
    CHECK(!std::filesystem::exists(cache.file()));
  }
  const double kept = times_of({&small}, 2)[0].training;
  const StepTimes again = measured_step_times({&small}, 2, [](const LoadMeter&) {
    return MachineLoad{9.0, 0.0};
  });  // measures nothing
  CHECK(again.of[0].training == kept);
  CHECK(again.disturbance == "");
}
