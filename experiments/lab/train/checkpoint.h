// The state of a trial on disk: a safetensors file from which training resumes with the same bits.
#pragma once

#include <algorithm>
#include <deque>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/trials/metrics_log.h"

namespace normlab {

class Backend;
class Engine;

/// Collects the losses of the steps, each measured before the step's update. A checkpoint stores all of it.
struct TrainingLoss {
  static constexpr std::int64_t kWindow = 50;  // steps

  std::optional<double> first;  // of step 0; none if it was not finite, or unknown to an older checkpoint
  std::deque<double> last{};    // of the last kWindow steps, or of all, oldest first

  /// Takes the finite loss of step `step`, counted from 0.
  void add(std::int64_t step, double loss) {
    if (step == 0) first = loss;
    last.push_back(loss);
    if (std::ssize(last) > kWindow) last.pop_front();
  }

  /// Whether the losses of that many steps are there; they are not after a resume from an older version's checkpoint.
  bool complete(std::int64_t steps) const { return std::ssize(last) == std::min(steps, kWindow); }

  /// kTrainLoss: the mean of `last`, added in the order of the steps. None before the first step.
  std::optional<double> mean() const {
    if (last.empty()) return std::nullopt;
    double sum = 0.0;
    for (const double loss : last) sum += loss;
    return sum / double(last.size());
  }
};

/// The metadata of a checkpoint. The position in the data follows from `step`.
struct CheckpointInfo {
  std::string trial_id;
  std::string model;       // canonical JSON of the network
  std::string bits;        // bits_identity() of the program that wrote the checkpoint
  std::string products{};  // Backend::product_choices(); empty after the load of another program's
  std::string trained_on;  // to_metadata() of the training
  std::int64_t step = 0;
  std::uint64_t metrics_bytes = 0;  // length of metrics.jsonl at the time of writing
  TrainingLoss loss{};
  double wall_seconds = 0.0;  // training time so far, over all attempts
  std::int64_t resumed = 0;
  bool different_bits = false;               // some attempt resumed under another program
  std::string data_hash;                     // data_hash() of its training and evaluation data
  std::string note_of_data{};                // note_of_data(), for the error about other data; not stored
  std::string metrics_hash{}, state_hash{};  // SHA-256 of metrics.jsonl so far; tensors_hash() of the tensors
  std::string collapse, early_stop;          // states of the rules that end a training early
  std::string held_probes{};                 // TrialProbes::held()
};

/// Numbers as text that keeps every bit, none as "none"; and back, NaN for that. std::logic_error for other words.
std::string exact(const std::optional<double>& value);
std::vector<double> exact_numbers(const std::string& text);

/// Visits everything that a checkpoint holds, by name: each parameter followed by its moments, buffers, averages.
void for_each_state_tensor(Engine& engine, const std::function<void(const std::string&, const Tensor&)>& see);

/// Writes the file atomically: parameters and buffers under their names, moments as `optimizer.m/NAME` and
/// `optimizer.v/NAME`, averaged weights and buffers as `ema/NAME`. EnvironmentError if writing fails; the former
/// checkpoint is then still there.
void save_checkpoint(const std::filesystem::path& path, Engine& engine, const CheckpointInfo& info);

/// Restores the engine and its step. InputError (file and tensor) for a checkpoint of another trial, network or data
/// set, with missing or extra tensors, or of another program, which `allow_different_bits` allows and the info notes.
CheckpointInfo load_checkpoint(const std::filesystem::path& path, Engine& engine, const CheckpointInfo& expected,
                               bool allow_different_bits = false);

/// The state is recorded this many steps after the start of an attempt and after each of its checkpoints. A training
/// must be repeated up to such a step in order to be compared.
inline constexpr std::int64_t kRecordAfter = 50;

/// The engine's entry for states.jsonl: its current parameters, moments, buffers and averages.
StateRecord record_state(Engine& engine);
/// Names of the tensors of a record, as in a checkpoint.
std::vector<std::string> state_names(Engine& engine);

/// The conditions for equal bits: this binary, OpenBLAS and its chosen core, oneDNN if it computes products in that
/// precision, the vector functions in use and, on a GPU, its model, cuBLAS and the file of algorithms, and what compiles
/// formulas.
std::string bits_identity(const Backend& backend, Precision precision, std::int64_t gpu_shards = 1,
                          const std::string& formula_compiler = {});
/// What compiles this network's formulas for the device; "" if nothing has to. EnvironmentError if it is missing.
std::string formula_compiler_of(Backend& backend, const ModelConfig& model);

}  // namespace normlab
