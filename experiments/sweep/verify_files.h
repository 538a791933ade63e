// All files of a results folder, compared with their seals and with each other. Nothing is trained or changed.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "experiments/results/store.h"

namespace normlab {

struct FilesReport {
  std::size_t trials = 0;
  std::size_t sealed = 0, unsealed = 0;  // results, done or diverged
  std::size_t unfinished = 0;            // trials without such a result
  std::size_t running = 0;               // of these, whose attempts are being written and were passed over
  std::size_t files = 0;                 // that were read
  std::size_t removed = 0;               // that results list and somebody took away with `normlab clean`
  std::vector<std::string> problems;     // a line each: file, what was expected and found
};

/// Reads every file below OUT/trials and OUT/experiments but logs, leases and temporary ones. EnvironmentError where
/// the folder cannot be listed; what is wrong with a file is a problem.
FilesReport verify_files(const ResultStore& store);

}  // namespace normlab
