#include "experiments/lab/train/step_time.h"

#include <fmt/core.h>

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/backend.h"
#include "core/error.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/clock.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/base/system_calls.h"
#include "experiments/lab/data/decode.h"
#include "experiments/lab/data/image_index.h"
#include "experiments/lab/data/picked_images.h"
#include "experiments/lab/data/tokeniser.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/step_count.h"
#include "experiments/lab/train/evaluation.h"
#include "experiments/lab/train/trial.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"

namespace normlab {
namespace {

using Clock = std::chrono::steady_clock;

constexpr double kBudget = 0.8;     // seconds that a process measures
constexpr double kSlowRate = 50e9;  // flop/s of a core; steps of large networks are always faster

/// A training with the same time per image, short enough to measure.
struct Sample {
  TrialConfig config;
  double scale = 1;  // multiply-adds per image of the whole network divided by those of this one
};

/// What does not change the time of a step gets fixed values.
void shorten(TrialConfig& config) {
  TrainConfig& train = config.train;
  config.dataset = {.name = "noise", .allow_absent_classes = true};
  config.start = {};
  config.seed = 0;
  train.epochs = 1;
  train.steps = train.images = 0;
  train.drop_last = false;
  train.schedule = {};
  train.optimizer.lr = 0;
  train.early_stop = {};
}

Sample sample_of(const TrialConfig& whole) {
  constexpr double kLongStep = 0.1;
  Sample sample{whole, 1};
  TrainConfig& train = sample.config.train;
  const double macs = double(model_cost(whole.model).macs_with_norms());
  const std::int64_t part = train.batch_size / train.accumulate;
  const std::int64_t shard = plan_shards(whole.model, part, model_cost(whole.model).parameters,
                                         std::int64_t(size_of(dtype_of(train.precision))))
                                 .images;
  const auto in_time = static_cast<std::int64_t>(kLongStep * kSlowRate / (6 * macs));
  train.accumulate = 1;
  train.batch_size = std::min(part, std::max(shard, in_time));
  const auto longer = [&] {
    return 6 * double(model_cost(sample.config.model).macs_with_norms()) * double(train.batch_size) /
           (kSlowRate * kLongStep);
  };
  auto* vit = std::get_if<ViTConfig>(&sample.config.model);
  if (longer() > 1 && vit != nullptr && vit->placement.blocks.empty() && train.freeze.empty())
    vit->depth = std::max<std::int64_t>(1, static_cast<std::int64_t>(double(vit->depth) / longer()));
  if (longer() > 2)
    train.batch_size = std::max<std::int64_t>(1, static_cast<std::int64_t>(2 * double(train.batch_size) / longer()));
  if (has_text(whole.model)) train.batch_size = std::max<std::int64_t>(2, train.batch_size);
  while (train.batch_size < part && problem_of_statistics(sample.config, {})) ++train.batch_size;
  sample.scale = macs / double(model_cost(sample.config.model).macs_with_norms());
  shorten(sample.config);
  return sample;
}

/// Gives the images classes, texts, mean and deviation; their values do not matter.
void describe(ImageSet& set, const TrialConfig& config) {
  set.num_classes = num_classes(config.model);
  for (std::size_t i = 0; i < set.labels.size(); ++i)
    set.labels[i] = static_cast<std::int32_t>(std::int64_t(i) % set.num_classes);
  if (has_text(config.model)) {
    set.tokeniser = std::make_shared<const Tokeniser>(Tokeniser::of_words({"a"}, "noise"));
    set.captions.assign(set.labels.size(), "a");
  }
  set.class_names.assign(static_cast<std::size_t>(set.num_classes), "a");
  set.channel_mean.assign(static_cast<std::size_t>(set.channels), 0.5);
  set.channel_std.assign(static_cast<std::size_t>(set.channels), 0.3);
}

ImageSet noise_images(const TrialConfig& config) {
  ImageSet set;
  set.height = image_size(config.model)[0];
  set.width = image_size(config.model)[1];
  set.channels = channels(config.model);
  const auto bytes = static_cast<std::size_t>(config.train.batch_size * set.image_bytes());
  for (std::uint32_t state = 1; set.pixels.size() < bytes; state = state * 1664525 + 1013904223)
    set.pixels.push_back(static_cast<std::uint8_t>(state >> 24));
  set.labels.resize(static_cast<std::size_t>(config.train.batch_size));
  if (task_of(config.model) == Task::segment)
    set.masks = std::make_shared<StoredMasks>(
        set.height, set.width,
        std::vector<std::uint8_t>(static_cast<std::size_t>(config.train.batch_size * set.height * set.width)));
  describe(set, config);
  return set;
}

/// The lower median of at least two calls, and of as many as fit into `seconds`.
template <class F>
double median_time(double seconds, F&& call) {
  const Clock::time_point begin = Clock::now();
  std::vector<double> times;
  while (times.size() < 2 || (times.size() < 25 && seconds_since(begin) < seconds)) {
    const Clock::time_point start = Clock::now();
    call();
    times.push_back(seconds_since(start));
  }
  const auto middle = times.begin() + (std::ssize(times) - 1) / 2;
  std::nth_element(times.begin(), middle, times.end());
  return *middle;
}

StepTime measure(const Sample& sample, double seconds) {
  const TrialConfig& config = sample.config;
  const ImageSet images = noise_images(config);
  ShardPool pool(1);
  Engine engine(cpu_backend(), pool, config.model, engine_settings(config));
  initialise(engine.parameters(), config.model, config.seed);
  BatchSource batches(config, images, images, engine.dtype());
  const std::int64_t count = config.train.batch_size;
  std::int64_t step = 0;
  BatchSource::Batch batch;
  const auto make = [&] { batch = batches.training(step++, pool); };
  const auto train = [&] { engine.train_step(batch.images, batch.wanted()); };
  const auto evaluate = [&] { std::ignore = evaluate_slice(engine, batches, images, pool, ""); };
  make();
  train();
  const double making = median_time(0.1 * seconds, make) / double(count);
  const double network = sample.scale * median_time(0.6 * seconds, train) / double(count);
  evaluate();
  const double evaluation = median_time(0.1 * seconds, evaluate);
  return {network + making, evaluation * sample.scale / double(count), making};
}

struct Measured {
  std::size_t sample = 0;
  StepTime time;
};

/// Runs in a child process: measures samples `first`, `first` + `stride`, ... for kBudget seconds, and writes
/// to the pipe.
[[noreturn]] void measure_in_child(const std::vector<Sample>& samples, std::size_t first, std::size_t stride,
                                   int pipe) {
  try {
    const std::size_t mine = (samples.size() - first + stride - 1) / stride;
    const Clock::time_point begin = Clock::now();
    for (std::size_t s = first; s < samples.size() && seconds_since(begin) < kBudget; s += stride) {
      const Measured measured{s, measure(samples[s], kBudget / double(mine))};
      if (write(pipe, &measured, sizeof measured) != sizeof measured) break;
    }
  } catch (const std::exception&) {  // the rest is estimated
  }
  _exit(0);
}

/// The mean over the processes that measured a sample; none for samples that were not reached.
std::vector<std::optional<StepTime>> measure_all(const std::vector<Sample>& samples, int cores) {
  const auto processes = static_cast<std::size_t>(cores);
  const std::size_t stride = std::min(processes, samples.size());
  int ends[2];
  if (pipe(ends) != 0) return std::vector<std::optional<StepTime>>(samples.size());
  std::vector<pid_t> children;
  for (std::size_t p = 0; p < processes; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      close_once(ends[0]);
      measure_in_child(samples, p % stride, stride, ends[1]);
    }
    if (child > 0) children.push_back(child);
  }
  close_once(ends[1]);
  std::vector<StepTime> sums(samples.size());
  std::vector<double> counts(samples.size());
  Measured measured;
  while (uninterrupted([&] { return read(ends[0], &measured, sizeof measured); }) == sizeof measured) {
    sums[measured.sample].training += measured.time.training;
    sums[measured.sample].evaluation += measured.time.evaluation;
    sums[measured.sample].making += measured.time.making;
    ++counts[measured.sample];
  }
  close_once(ends[0]);
  for (const pid_t child : children) uninterrupted([&] { return waitpid(child, nullptr, 0); });
  std::vector<std::optional<StepTime>> times(samples.size());
  for (std::size_t s = 0; s < samples.size(); ++s)
    if (counts[s] > 0)
      times[s] = StepTime{sums[s].training / counts[s], sums[s].evaluation / counts[s], sums[s].making / counts[s]};
  return times;
}

/// Stored measurements for this binary, this kind of CPU and this number of cores.
class TimeCache {
 public:
  explicit TimeCache(int cores) {
    for (const auto& [variable, below] : {std::pair("XDG_CACHE_HOME", ""), {"HOME", ".cache"}})
      if (const char* const folder = std::getenv(variable); file_.empty() && folder != nullptr && *folder != '\0')
        file_ = std::filesystem::path(folder) / below / "normlab" / "step_times.json";
    try {
      machine_ =
          fmt::format("{}, {} cores, {}", cpu_model(), cores, sha256_hex(read_file("/proc/self/exe")).substr(0, 16));
      if (const std::optional<std::string> text = read_file_if_there(file_)) {
        nlohmann::json found = nlohmann::json::parse(*text);
        if (found.at("machine") == machine_) known_ = std::move(found);
      }
    } catch (const std::exception&) {  // a damaged file is ignored; without /proc, machines cannot be distinguished
    }
  }

  std::optional<StepTime> find(const std::string& key) const {
    try {
      const auto [training, evaluation, making] = known_.at(key).get<std::array<double, 3>>();
      return StepTime{training, evaluation, making};
    } catch (const nlohmann::json::exception&) {
      return std::nullopt;
    }
  }
  void add(const std::string& key, const StepTime& time) {
    known_[key] = {time.training, time.evaluation, time.making};
  }
  /// Ignores write errors: the next call then measures again.
  void save() {
    if (file_.empty() || machine_.empty()) return;
    known_["machine"] = machine_;
    try {
      make_folders(file_.parent_path());
      write_atomically(file_, known_.dump(1) + "\n");
    } catch (const Error&) {
    }
  }

 private:
  std::filesystem::path file_;
  std::string machine_;
  nlohmann::json known_ = nlohmann::json::object();
};

}  // namespace

StepTime time_by_products(const ModelCost& model, double gflops) {
  return {6e-9 * double(model.macs) / gflops, 2e-9 * double(model.macs) / gflops};
}

StepTimes measured_step_times(const std::vector<const TrialConfig*>& configs, int cores,
                              const std::function<std::optional<MachineLoad>(const LoadMeter&)>& load_since) {
  TimeCache cache(cores);
  StepTimes all;
  std::vector<std::optional<StepTime>> times(configs.size());
  std::vector<Sample> samples;
  std::map<std::string, std::size_t> wanted;  // index of each key's sample
  std::vector<std::string> keys;
  for (std::size_t i = 0; i < configs.size(); ++i) {
    Sample sample = sample_of(*configs[i]);
    keys.push_back(sha256_hex(canonical_json(sample.config)).substr(0, 16) + fmt::format(" {:.6g}", sample.scale));
    times[i] = cache.find(keys[i]);
    if (!times[i] && wanted.try_emplace(keys[i], samples.size()).second) samples.push_back(std::move(sample));
  }
  if (!samples.empty()) {
    const LoadMeter meter;
    const std::vector<std::optional<StepTime>> measured = measure_all(samples, cores);
    all.disturbance = other_load(load_since(meter), 1);
    for (const auto& [key, sample] : wanted)
      if (measured[sample]) cache.add(key, *measured[sample]);
    for (std::size_t i = 0; i < configs.size(); ++i)
      if (!times[i]) times[i] = measured[wanted.at(keys[i])];
    if (all.disturbance.empty()) cache.save();
  }
  // The others are scaled from the nearest measured network.
  for (std::size_t i = 0; i < configs.size(); ++i) {
    const ModelCost model = model_cost(configs[i]->model);
    const StepTime by_products = time_by_products(model, default_gflops(configs[i]->train.precision));
    std::optional<std::size_t> nearest;
    const auto distance = [&](std::size_t j) {
      return std::abs(std::log(double(model_cost(configs[j]->model).macs) / double(model.macs)));
    };
    for (std::size_t j = 0; j < configs.size(); ++j)
      if (times[j] && configs[j]->train.precision == configs[i]->train.precision &&
          (!nearest || distance(j) < distance(*nearest)))
        nearest = j;
    all.measured.push_back(times[i].has_value());
    if (times[i] || !nearest) {
      all.of.push_back(times[i].value_or(by_products));
      continue;
    }
    const double ratio =
        double(model.macs_with_norms()) / double(model_cost(configs[*nearest]->model).macs_with_norms());
    all.of.push_back({times[*nearest]->training * ratio, times[*nearest]->evaluation * ratio});
  }
  return all;
}

std::optional<MakingTime> measured_making(const TrialConfig& config, const ImageSet& files) {
  constexpr std::int64_t kImages = 32, kBatch = 4;
  constexpr double kSeconds = 0.25;
  TrialConfig shortened = config;
  shorten(shortened);
  ImageSet some = picked_images(files, evenly_spaced(files.size(), kImages));
  describe(some, shortened);
  const std::int64_t count = std::min(kBatch, some.size());
  shortened.train.batch_size = count;
  shortened.train.accumulate = 1;
  shortened.train.drop_last = true;
  try {
    std::vector<std::uint8_t> bytes;
    std::set<std::pair<std::int64_t, std::int64_t>> sizes;
    for (std::int64_t i = 0; i < some.size(); ++i) {  // no disk is waited for later
      some.encoded->read(i, bytes);
      const ImageSize size = image_file_size(bytes, some.encoded->where(i));
      sizes.emplace(size.height, size.width);
    }
    const auto [height, width] = *sizes.begin();
    if (sizes.size() == 1 && height * width * Image::kChannels <= kMostBytesInMemory / files.size())
      return MakingTime{};
    const BatchSource batches(shortened, some, some, dtype_of(shortened.train.precision));
    BatchBuffer buffer;
    ShardPool alone(1);
    std::int64_t step = 0;
    MakingTime time;
    time.training = median_time(kSeconds, [&] { batches.training(step++, buffer, alone); }) / double(count);
    time.evaluation =
        median_time(kSeconds,
                    [&] { batches.evaluation(step++ % (some.size() / count) * count, count, buffer, alone); }) /
        double(count);
    return time;
  } catch (const InputError&) {  // the training reports it
    return std::nullopt;
  }
}

}  // namespace normlab
