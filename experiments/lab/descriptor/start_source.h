// What a descriptor's "start" refers to: a file, or a row of another descriptor.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "experiments/lab/descriptor/class_counts.h"
#include "experiments/lab/descriptor/experiment.h"
#include "experiments/lab/descriptor/problems.h"
#include "experiments/lab/descriptor/reader.h"

namespace normlab {

/// Of a row: axis path -> label.
using AxisLabels = std::vector<std::pair<std::string, std::string>>;

/// Trials that start from one another in a chain; more are a mistake.
inline constexpr int kMostStarts = 8;

/// SHA-256 of a file of weights; of a model in several files, that of the index and of each of them. InputError if a
/// file cannot be read.
std::string weights_sha256(const std::filesystem::path& path);

/// Files and descriptors, each read once.
class StartSources {
 public:
  /// `whole`: the descriptor with all that its starts name, which is then read instead of files; null: files.
  explicit StartSources(const WholeDescriptor* whole) : whole_(whole) {}

  /// Makes `start.file` relative to the current folder, and writes its hash to `start.sha256`. If a hash is given, the
  /// file may be absent. A missing or different file is a problem.
  void take_file_hash(StartConfig& start, Problems& problems);

  /// The row of `start.from` in another descriptor. Axes that it does not name have the labels in `axes`. Null, with a
  /// problem, if there is no such row or more than one. InputError with the other descriptor's problems.
  std::shared_ptr<StartRow> row_of(const StartConfig& start, const AxisLabels& axes, PlacementRows& placements,
                                   std::size_t max_trials, const ClassCounts& classes, Problems& problems);

  /// Adds all that was read. A path that two files mean differently cannot be written: then `to.json` is emptied.
  void write(WholeDescriptor& to) const;

 private:
  void note_path(const std::string& written, const std::string& meant);
  const Experiment* descriptor_at(const StartConfig& start, std::size_t max_trials, const ClassCounts& classes,
                                  Problems& problems);

  const WholeDescriptor* const whole_;
  std::map<std::string, std::string> paths_;  // as written -> as meant
  bool ambiguous_ = false;
  std::map<std::string, std::string> hashes_;      // of files, by path as meant
  std::map<std::string, Experiment> descriptors_;  // by path as meant
};

/// Reports parameters of `trial` that the network of `from` lacks or has in another shape, unless they are left out.
void check_start(const TrialConfig& trial, const TrialConfig& from, Problems& problems);

}  // namespace normlab
