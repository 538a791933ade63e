// The union of results from several folders and archives.
#pragma once

#include <cstddef>
#include <filesystem>
#include <vector>

namespace normlab {

struct Merged {
  std::size_t copied = 0, there = 0;  // results copied, and results that `out` or an earlier source had already
  std::size_t unfinished = 0;         // trials without a result, left out
  std::size_t timings = 0;            // files of timings copied
};

/// Copies every trial with a result, the notes of the experiments and the timings of claims from `sources` to `out`. A
/// source is a folder of results, an archive of `normlab export`, or a folder of archives. Of the same trial's
/// results one counts (counts_instead()). Reads and hashes every file of a source's results, also of those that `out`
/// has. InputError, before anything is copied, for a source without trials, for a damaged file of a source, and for
/// results, notes or timings that contradict each other, naming both.
Merged merge_results(const std::vector<std::filesystem::path>& sources, const std::filesystem::path& out);

}  // namespace normlab
