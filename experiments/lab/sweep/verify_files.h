// Checks all files of a results folder against their seals and each other. Trains and changes nothing.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/lab/trials/store.h"

namespace normlab {

struct FilesReport {
  std::size_t trials = 0;
  std::size_t sealed = 0, unsealed = 0;  // results, done or diverged
  std::size_t unfinished = 0;            // trials without a done or diverged result
  std::size_t running = 0;               // unfinished trials whose attempts are being written; these were skipped
  std::size_t files = 0;                 // number of files read
  std::size_t removed = 0;               // listed in results, but deleted by `normlab clean`, or left out of an archive
  std::vector<std::string> problems;     // one per line: file, expected, found
};

/// Reads every file below OUT/trials and OUT/experiments except logs, leases and temporary files. EnvironmentError if
/// the folder cannot be listed; faults of files are reported as problems. Without `unfinished`, trials that have no
/// result are left out, and faults of the machine are thrown, not listed.
FilesReport verify_files(const ResultStore& store, bool unfinished = true);

}  // namespace normlab
