// The union of results from several folders and archives.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

namespace normlab {

struct Merged {
  std::size_t copied = 0;             // results that `out` did not have
  std::size_t completed = 0;          // results of which `out` lacked files, or had another training with fewer
  std::size_t there = 0;              // further results of the sources, which `out` or another source had
  std::size_t unfinished = 0;         // trials without a result, left out
  std::size_t timings = 0;            // files of timings copied
  std::string notice;                 // of choose_first_wins()
  std::vector<std::string> problems;  // trials that could not be placed, and files that neither `out` nor a source has
};

/// Copies every trial with a result, the notes of the experiments and the timings of claims from `sources` to `out`. A
/// source is a folder of results, an archive of `normlab export`, or a folder of archives. What several sources and
/// `out` have of one trial is joined (joined_copies()), in whatever order they are given. Reads and hashes every file
/// of a source's results, and the files that `out` has of them. Other processes may work in `out`: a trial is claimed
/// while it is replaced, and one that a process works on is left out. InputError, before anything is
/// copied, for a source without trials, for a damaged file of a source and one that cannot be copied, and for results,
/// notes or timings that contradict each other, naming both.
/// `patience`: how long to wait for a trial whose process lives; `clean` and other merges need a moment.
Merged merge_results(const std::vector<std::filesystem::path>& sources, const std::filesystem::path& out,
                     std::chrono::milliseconds patience = std::chrono::seconds(10));

}  // namespace normlab
