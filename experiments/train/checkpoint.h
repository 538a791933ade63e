// A trial's state on disk: one safetensors file from which training goes on to the bit.
#pragma once

#include <filesystem>
#include <functional>
#include <map>
#include <string>

#include "experiments/descriptor/config.h"
#include "experiments/results/state_log.h"

namespace normlab {

class Backend;
class Engine;

/// What a checkpoint says besides its tensors. The position in the data is a function of `step`.
struct CheckpointInfo {
  std::string trial_id;
  std::string model;       // canonical JSON of the network
  std::string bits;        // bits_identity() of the program that wrote it
  std::string products{};  // Backend::product_choices()
  std::string trained_on;  // to_metadata() of the training
  std::int64_t step = 0;
  std::uint64_t metrics_bytes = 0;  // of metrics.jsonl when it was written
  double loss_sum = 0.0;            // of the steps since the last metrics line
  std::int64_t loss_count = 0;
  double wall_seconds = 0.0;  // of training so far, all attempts
  std::int64_t resumed = 0;
  bool different_bits = false;           // some attempt went on under another program
  std::string data_hash;                 // data_hash() of what it is trained and evaluated on
  std::string metrics_hash, state_hash;  // SHA-256 of metrics.jsonl so far; tensors_hash() of the tensors
  std::string collapse, early_stop;      // states of the rules that end a training
};

/// Everything that a checkpoint holds, by name: parameters, each followed by its moments, buffers, averages.
void for_each_state_tensor(Engine& engine, const std::function<void(const std::string&, const Tensor&)>& see);

/// Writes parameters and buffers by their names, moments as `optimizer.m/NAME` and `optimizer.v/NAME`, averaged weights
/// and buffers as `ema/NAME`, atomically.
/// EnvironmentError where the disk refuses; the former checkpoint is then still there.
void save_checkpoint(const std::filesystem::path& path, Engine& engine, const CheckpointInfo& info);

/// Fills the engine and its step. InputError (file and tensor) for a checkpoint of another trial or network, one whose
/// data were others, or one that lacks a tensor or has one too many.
CheckpointInfo load_checkpoint(const std::filesystem::path& path, Engine& engine, const CheckpointInfo& expected);

/// Steps after the start of an attempt, and after each of its checkpoints, at which its state is recorded once more: so
/// far a training has to be run again from there to be compared.
inline constexpr std::int64_t kRecordAfter = 50;

/// What states.jsonl records of an engine: parameters, moments, buffers and averages as they are now.
StateRecord record_state(Engine& engine);
/// Names of the tensors of a record, as a checkpoint has them.
std::vector<std::string> state_names(Engine& engine);

/// What equal bits are promised for: this binary, OpenBLAS with the core it chose, oneDNN where it makes products of
/// that precision, the vector functions in use and, on a GPU, its kind and cuBLAS.
std::string bits_identity(const Backend& backend, Precision precision);

}  // namespace normlab
