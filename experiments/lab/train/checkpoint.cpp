#include "experiments/lab/train/checkpoint.h"

#include <fmt/core.h>
#include <fmt/ranges.h>
#include <gnu/libc-version.h>

#include <cmath>
#include <cstring>
#include <sstream>
#include <stdexcept>

#include "core/backend.h"
#include "core/cpu/bf16_products.h"
#include "core/cpu/blas.h"
#include "core/cpu/vector_math.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/trials/store.h"
#include "experiments/lab/weights/convert_files.h"
#include "experiments/lab/weights/trained_on.h"
#include "nn/model/model.h"
#include "nn/training/engine.h"
#include "nn/training/shard_plan.h"

namespace normlab {
namespace {

constexpr const char *kFirstLossKey = "normlab.first_loss", *kLossesKey = "normlab.losses";

const char* dtype_word(const Tensor& t) {
  return t.dtype() == DType::f64 ? "F64" : t.dtype() == DType::bf16 ? "BF16" : "F32";
}

std::string exact(const std::deque<double>& values) { return fmt::format("{:a}", fmt::join(values, " ")); }

/// std::logic_error for a text that exact() does not write.
std::deque<double> losses_of(const std::string& text) {
  const std::vector<double> losses = exact_numbers(text);
  if (std::ssize(losses) > TrainingLoss::kWindow) throw std::invalid_argument("more losses than are averaged");
  return {losses.begin(), losses.end()};
}

}  // namespace

std::string exact(const std::optional<double>& value) { return value ? fmt::format("{:a}", *value) : "none"; }

std::vector<double> exact_numbers(const std::string& text) {
  std::vector<double> numbers;
  std::istringstream words(text);
  for (std::string word; words >> word;) {
    std::size_t end = word.size();
    numbers.push_back(word == "none" ? std::nan("") : std::stod(word, &end));
    if (end != word.size()) throw std::invalid_argument(word);
  }
  return numbers;
}

void for_each_state_tensor(Engine& engine, const std::function<void(const std::string&, const Tensor&)>& see) {
  ParameterSet& set = engine.parameters();
  for (std::size_t i = 0; i < set.parameters().size(); ++i) {
    const int number = static_cast<int>(i);
    see(set.parameters()[i].name, set.value(number));
    if (set.is_frozen(number)) continue;
    for (const Optimizer::Moment& moment : engine.optimizer().moments())
      see(fmt::format("optimizer.{}/{}", moment.name, set.parameters()[i].name), set.view_flat(moment.flat, number));
  }
  for (std::size_t i = 0; i < set.buffers().size(); ++i) see(set.buffers()[i].name, set.buffer(static_cast<int>(i)));
  const WeightAverage* average = engine.average();
  if (average == nullptr) return;
  for (std::size_t i = 0; i < set.parameters().size(); ++i)
    see(std::string(kAveragePrefix) + set.parameters()[i].name, set.view_flat(average->values(), static_cast<int>(i)));
  for (std::size_t i = 0; i < set.buffers().size(); ++i)
    see(std::string(kAveragePrefix) + set.buffers()[i].name,
        set.view_flat_buffer(average->buffers(), static_cast<int>(i)));
}

void save_checkpoint(const std::filesystem::path& path, Engine& engine, const CheckpointInfo& info) {
  std::vector<TensorView> tensors;
  for_each_state_tensor(engine, [&](const std::string& name, const Tensor& t) {
    tensors.push_back({name, dtype_word(t), dims_of(t.shape()), {static_cast<const std::byte*>(t.raw()), t.bytes()}});
  });
  std::map<std::string, std::string> metadata{{kTrialKey, info.trial_id},
                                              {"normlab.model", info.model},
                                              {"normlab.bits", info.bits},
                                              {"normlab.step", std::to_string(info.step)},
                                              {kMetricsBytesKey, std::to_string(info.metrics_bytes)},
                                              {kLossesKey, exact(info.loss.last)},
                                              {kDataHashKey, info.data_hash},
                                              {"normlab.collapse", info.collapse},
                                              {"normlab.early_stop", info.early_stop},
                                              {"normlab.wall_seconds", exact(info.wall_seconds)},
                                              {"normlab.resumed", std::to_string(info.resumed)},
                                              {"normlab.different_bits", info.different_bits ? "true" : "false"}};
  if (info.loss.first) metadata[kFirstLossKey] = exact(info.loss.first);
  if (const double progress = engine.state().progress; progress < 1)
    metadata[std::string(kProgressKey)] = fmt::format("{}", progress);
  if (!info.trained_on.empty()) metadata[kTrainedOnKey] = info.trained_on;
  if (!info.held_probes.empty()) metadata["normlab.held_probes"] = info.held_probes;
  if (!info.products.empty()) metadata["normlab.products"] = info.products;
  if (!info.metrics_hash.empty()) metadata[kMetricsHashKey] = info.metrics_hash;
  if (!info.state_hash.empty()) metadata[kStateHashKey] = info.state_hash;
  save_sealed_safetensors(path, std::move(metadata), std::move(tensors));
}

CheckpointInfo load_checkpoint(const std::filesystem::path& path, Engine& engine, const CheckpointInfo& expected,
                               bool allow_different_bits) {
  const SafetensorsFile file = SafetensorsFile::read(path);
  require_sealed_safetensors(file, path);
  const auto value = [&](const char* key) {
    const auto found = file.metadata().find(key);
    if (found != file.metadata().end()) return found->second;
    throw InputError(
        fmt::format("{}: no \"{}\" in its metadata, so it is not a checkpoint of normlab", path.string(), key));
  };
  CheckpointInfo info;
  info.trained_on = expected.trained_on;
  info.trial_id = value(kTrialKey);
  info.model = value("normlab.model");
  if (info.model != expected.model)
    throw InputError(fmt::format("{}: is a checkpoint of another model; it holds {}, but this trial trains {}",
                                 path.string(), info.model, expected.model));
  if (info.trial_id != expected.trial_id)
    throw InputError(fmt::format("{}: is a checkpoint of trial {}, not of {}; remove it to restart this trial",
                                 path.string(), info.trial_id, expected.trial_id));
  // Checkpoints of older versions lack some keys.
  const auto value_or = [&](const char* key, const std::string& otherwise) {
    return found_or(file.metadata(), key, otherwise);
  };
  info.data_hash = value_or(kDataHashKey, expected.data_hash);
  if (info.data_hash != expected.data_hash)
    throw InputError(
        fmt::format("{}: was trained on data with hash {}, but the data here has hash {}; point --data at the data "
                    "it was trained on, or remove the trial's folder to restart it{}",
                    path.string(), info.data_hash, expected.data_hash, expected.note_of_data));
  std::size_t known = 0;
  for_each_state_tensor(engine, [&](const std::string& name, const Tensor& t) {
    const TensorView& stored = file.get(name);
    if (stored.dtype != dtype_word(t) || stored.shape != dims_of(t.shape()))
      throw InputError(fmt::format("{}: tensor {} is {} with {} values, expected {}", path.string(), name, stored.dtype,
                                   stored.data.size(), t.shape().str()));
    if (engine.optimizer().uses(t)) std::memcpy(t.raw(), stored.data.data(), t.bytes());
    ++known;
  });
  if (known != file.tensors().size())
    throw InputError(
        fmt::format("{}: holds {} tensors, but this model has {}", path.string(), file.tensors().size(), known));
  try {
    info.step = std::stoll(value("normlab.step"));
    info.metrics_bytes = std::stoull(value(kMetricsBytesKey));
    info.loss.last = losses_of(value_or(kLossesKey, ""));
    if (file.metadata().contains(kFirstLossKey)) info.loss.first = std::stod(value(kFirstLossKey));
    info.wall_seconds = std::stod(value("normlab.wall_seconds"));
    info.resumed = std::stoll(value("normlab.resumed"));
  } catch (const std::logic_error&) {  // thrown by std::sto…
    throw InputError(fmt::format("{}: a number in its metadata cannot be read", path.string()));
  }
  info.held_probes = value_or("normlab.held_probes", "");
  info.collapse = value_or("normlab.collapse", expected.collapse);
  info.early_stop = value_or("normlab.early_stop", expected.early_stop);
  const std::string bits = value("normlab.bits");
  if (bits == expected.bits) info.products = value_or("normlab.products", "");
  if (bits != expected.bits && !allow_different_bits)
    throw InputError(
        fmt::format("{}: was written by another program, so resuming would not give the bits of an uninterrupted run:\n"
                    "  it:   {}\n  this: {}\nUse that program, remove the trial's folder to restart it, or resume with "
                    "--allow-different-bits, which marks the result",
                    path.string(), bits, expected.bits));
  info.bits = expected.bits;
  info.different_bits = bits != expected.bits || value("normlab.different_bits") == "true";
  engine.state().step = info.step;
  return info;
}

StateRecord record_state(Engine& engine) {
  StateRecord record;
  record.step = engine.state().step;
  std::map<std::string, std::string> hashes;
  for_each_state_tensor(engine, [&](const std::string& name, const Tensor& t) {
    const std::string hash = Sha256().update({static_cast<const std::byte*>(t.raw()), t.bytes()}).hex();
    record.tensors.push_back(hash.substr(0, kStateDigits));
    hashes[name] = hash;
  });
  record.state = hash_of_hashes(hashes);
  return record;
}

std::vector<std::string> state_names(Engine& engine) {
  std::vector<std::string> names;
  for_each_state_tensor(engine, [&](const std::string& name, const Tensor&) { names.push_back(name); });
  return names;
}

std::string formula_compiler_of(Backend& backend, const ModelConfig& model) {
  return runs_formulas(model) ? backend.formula_compiler() : std::string();
}

std::string bits_identity(const Backend& backend, Precision precision, std::int64_t gpu_shards,
                          const std::string& formula_compiler) {
  static const std::string identity = [] {
    return fmt::format("binary {} ({}) | OpenBLAS {} | {} | glibc {} | arithmetic {}",
                       sha256_hex(read_file("/proc/self/exe")).substr(0, 16), build_level(), blas_info().config,
                       cpu::vector_math_kind(), gnu_get_libc_version(), kArithmetic);
  }();
  std::string words = identity;
  if (precision == Precision::bf16 && backend.name() == "cpu") words += " | oneDNN " + onednn_info();
  const std::map<std::string, std::string> device = backend.provenance();
  for (const char* key : {"gpu", "compute_capability", "cublas", "gpu_algorithms"})
    if (const auto found = device.find(key); found != device.end())
      words += fmt::format(" | {} {}", key, found->second);
  if (!formula_compiler.empty()) words += " | nvrtc " + formula_compiler;
  if (backend.whole_batch() && gpu_shards > 1) words += fmt::format(" | {} shards", gpu_shards);
  return words;
}

}  // namespace normlab
