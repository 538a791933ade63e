// Trains a trial of an archive again, from its first step to its end, and compares the two results.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/train/verify.h"
#include "experiments/lab/trials/exported.h"

namespace normlab {

/// Where a result of the row is expected: m ± t(n - 1) s sqrt(1 + 1/n), the 95% prediction interval of the row's n
/// archived seeds.
struct ExpectedResult {
  double mean = 0;
  std::optional<double> half_width;  // none: fewer than two archived seeds ended with a value
  std::size_t seeds = 0;             // that ended with a value
  std::size_t diverged = 0;
};

struct ArchivedReport {
  std::string metric;                 // the task's result, such as eval/accuracy
  std::optional<double> there, here;  // none: diverged
  std::string end_there, end_here;    // "done", "diverged at step 50"
  /// What differs between the two programs and machines: "blas_core: Cooperlake in the archive, SkylakeX here". Empty
  /// if both must give the same bits.
  std::vector<std::string> differences;
  /// Without differences: what was compared in every bit, and the first difference in it.
  std::size_t lines = 0;       // of the curve; 0 for an archive without curves
  bool images = false;         // which images are answered correctly
  std::string bit_difference;  // "" if there is none
  ExpectedResult expected;     // with differences

  bool same_program() const { return differences.empty(); }
  /// Whether `here` lies within the expected interval; none if that cannot be said.
  std::optional<bool> within() const;
};

/// `archive` holds the trial with this id. Trains in a scratch folder below the system's temporary folder.
/// InputError for a trial that failed, for other data, and for weights to start from that are not given
/// (VerifyOptions::start). Of the options, threads, ranks, gpu_shards, backend and start count.
ArchivedReport verify_archived(const ExportedResults& archive, const std::string& id, const DataPair& data,
                               const VerifyOptions& options);

}  // namespace normlab
