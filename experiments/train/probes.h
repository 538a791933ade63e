// Probes of a training: what a descriptor's "probes" ask for, as lines of metrics.jsonl, and the same measured once on
// a network that does not train. docs/probes.md says what the numbers mean.
#pragma once

#include <optional>

#include "experiments/data/dataset.h"
#include "experiments/descriptor/experiment.h"
#include "experiments/results/metrics_log.h"
#include "experiments/results/store.h"
#include "nn/probes.h"

namespace normlab {

class Backend;
class Engine;

/// The signal and the gradients of one batch.
struct ProbeReading {
  std::vector<SignalProbe::Layer> signal;  // in the order of the network
  std::vector<GradientNorm> gradients;     // "global" last
  /// "afsm.channel/blocks.0.attn", "afv.position/...", "afvr.channel/...", "grad_norm/blocks.0", "grad_norm/global".
  std::map<std::string, double> values() const;
};

/// Measures around the steps of a training.
class TrialProbes {
 public:
  /// `config` must outlive it.
  explicit TrialProbes(const ProbeConfig& config) : config_(config) {}
  /// Before step `step`.
  void begin(Engine& engine, std::int64_t step);
  /// After it, also where it was not finite: the line of this step, which goes before that of its loss; none where
  /// nothing was asked for. Its `step` counts the updates that were done before, as in every line.
  std::optional<MetricsLine> end(Engine& engine, ShardPool& pool, std::int64_t step, std::int64_t steps);

 private:
  const ProbeConfig& config_;
  std::unique_ptr<SignalProbe> signal_;
};

/// Steps that were asked for and are not in the metrics.
struct MissingProbes {
  std::vector<std::int64_t> signal, gradients;
  bool empty() const { return signal.empty() && gradients.empty(); }
  /// "signal at 0, 100; gradients at 0, 50, 100 and 7 more".
  std::string text() const;
};
/// Among the first `steps` steps of a training.
MissingProbes missing_probes(const ProbeConfig& config, const std::vector<MetricsLine>& lines, std::int64_t steps);
/// Of a finished trial; nothing for one that is not finished. Up to its end, or the step at which it diverged.
MissingProbes missing_probes(const ProbeConfig& config, const TrialFolder& trial);

/// For people: the finished trials that lack probes of their descriptor, and what to do; empty where none does.
std::string missing_probes_note(const Experiment& experiment, const ResultStore& store);

/// One forward and backward pass in training mode over the first `images` images of the first epoch, as a trial of that
/// batch size would see them: with its weights before the first step, or those of `weights`, a safetensors file with
/// our names (a checkpoint, for one). Optimiser state in it is passed over. InputError for more images than there are,
/// or a file whose tensors are not this network's. NonFiniteError where a weight, the loss of an image or a number that
/// is read is NaN or infinite: it names the weight, the first image, and the operation and site where it began.
ProbeReading probe_network(const TrialConfig& config, const DataPair& data, std::int64_t images, int threads,
                           const std::optional<std::filesystem::path>& weights, Backend& backend);

}  // namespace normlab
