// The measurements that a descriptor requests under "probes", as lines of metrics.jsonl, and the same measurements of a
// network that does not train. docs/tables.md explains the numbers.
#pragma once

#include <optional>

#include "experiments/lab/data/dataset.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/metrics/saturation.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"
#include "nn/probes/probes.h"
#include "nn/probes/site_probe.h"

namespace normlab {

class Backend;
class Engine;

/// The signal and the gradients of one batch.
struct ProbeReading {
  std::vector<SignalProbe::Layer> signal;  // in network order
  std::vector<GradientNorm> gradients;     // "global" last
  /// "afsm.channel/blocks.0.attn", "afv.position/...", "afvr.channel/...", "grad_norm/blocks.0", "grad_norm/global".
  std::map<std::string, double> values() const;
};

/// Takes measurements before and after the steps of a training.
class TrialProbes {
 public:
  /// Both must outlive it.
  TrialProbes(const ProbeConfig& probes, const TrialConfig& config) : probes_(probes), config_(config) {}
  /// Call before step `step`; `targets`: of its loss, in the engine's memory.
  void begin(Engine& engine, std::int64_t step, const Tensor& targets);
  /// Call after it, also if it was not finite. Returns the metrics line of this step, which precedes the line with its
  /// loss; none if nothing was requested or all of it waits. As in every line, its `step` counts the updates done
  /// before.
  std::optional<MetricsLine> end(Engine& engine, ShardPool& pool, std::int64_t step, std::int64_t steps);
  /// The measurements that waited, with kMeasuredAt, for lines written after `done` steps.
  std::vector<MetricsLine> at_end(std::int64_t done, std::int64_t steps) const;
  /// The measurements that wait, for a checkpoint.
  std::string held() const;
  void set_held(const std::string& text);

 private:
  std::array<MetricsLine, kProbes> read(Engine& engine, ShardPool& pool, std::int64_t step);

  struct Held {
    ProbeKind kind;
    MetricsLine line;
  };
  const ProbeConfig& probes_;
  const TrialConfig& config_;
  /// Of one step; those that are not wanted observe nothing.
  struct StepProbes {
    SignalProbe signal{};
    NormProbe norms;
    AttentionProbe attention{};
    BatchAccuracyProbe accuracy{};
    std::optional<UpdateProbe> updates{};
  };
  std::unique_ptr<StepProbes> now_;  // null if none is wanted
  MetricsLine stem_scale_;           // before the step
  std::vector<Held> held_;
};

/// Requested measurements that the metrics lack.
struct MissingProbes {
  std::array<std::vector<std::int64_t>, kProbes> steps{};
  bool without_block = false;
  bool empty() const { return text().empty(); }
  /// "signal at 0, 100; gradients at 0, 50, 100 and 7 more".
  std::string text() const;
};
/// Missing probes among the first `steps` steps of a training; without an `end` those that wait for it are not missing.
MissingProbes missing_probes(const ProbeConfig& probes, const TrialConfig& config,
                             const std::vector<MetricsLine>& lines, std::int64_t steps, bool end);
/// Missing probes of a finished trial, up to its end or the step of its divergence; empty for an unfinished one.
MissingProbes missing_probes(const ProbeConfig& probes, const TrialConfig& config, const TrialFolder& trial);
/// InputError, naming the checkpoint, if probes of the `steps` before it are missing: they cannot be made up for.
void require_probes(const ProbeConfig& probes, const TrialConfig& config, const std::vector<MetricsLine>& lines,
                    std::int64_t steps, const std::filesystem::path& checkpoint);
/// The function that the mapping of a network's norms is compared with: erf if its main norm is derf, else tanh.
SaturationShape mapping_shape(const TrialConfig& config);
/// Whether a network of this trial has what the probe measures.
bool has_probed(ProbeKind kind, const TrialConfig& config);

/// A message with the finished trials that lack probes of their descriptor, or metrics of its eval.metrics, and what to
/// do; empty if there are none.
std::string missing_measurements_note(const Experiment& experiment, const ResultStore& store);

/// One forward and backward pass in training mode over the first `images` images of the first epoch, as in a trial with
/// that batch size. Uses the initial weights, or those of `weights`, a safetensors file with normlab's names (optimiser
/// state is ignored). InputError for more images than there are, or for a file with other tensors than the network's.
/// NonFiniteError if a weight, the loss of an image or a measured number is not finite; it names the weight or the
/// first image, and the operation and site where it began.
ProbeReading probe_network(const TrialConfig& config, const DataPair& data, std::int64_t images, int threads,
                           const std::optional<std::filesystem::path>& weights, Backend& backend);

}  // namespace normlab
