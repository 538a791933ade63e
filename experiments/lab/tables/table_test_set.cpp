#include "experiments/lab/tables/table_parts.h"

#include <fmt/core.h>

#include <map>

#include "experiments/lab/statistics/bootstrap.h"
#include "experiments/lab/statistics/proportions.h"

namespace normlab {
namespace {

using RunsBySeed = std::map<std::uint64_t, const Correctness*>;

/// The stored runs of a row that are done; `missing` counts runs without stored correctness.
RunsBySeed stored_runs(const TableInput& input, std::size_t row, std::size_t& missing) {
  RunsBySeed runs;
  for (std::size_t s = 0; s < input.rows[row].seeds.size(); ++s) {
    const TableSeed& seed = input.rows[row].seeds[s];
    if (seed.state != SeedState::done || !input.rows[row].mean_of.empty()) continue;
    if (row < input.correctness.size() && s < input.correctness[row].size() && input.correctness[row][s])
      runs[seed.seed] = &*input.correctness[row][s];
    else
      ++missing;
  }
  return runs;
}

std::optional<CrossedBootstrap> resample(const RunsBySeed& runs, const RunsBySeed* baseline) {
  std::vector<Correctness> own, other;
  for (const auto& [seed, run] : runs) {
    if (baseline == nullptr) {
      own.push_back(*run);
    } else if (const auto found = baseline->find(seed); found != baseline->end()) {
      own.push_back(*run);
      other.push_back(*found->second);
    }
  }
  return baseline == nullptr ? bootstrap_mean(own) : bootstrap_gain(other, own);
}

std::string mcnemar_words(const TableLine& row, const TableLine& baseline, std::uint64_t seed, const McNemar& test) {
  return fmt::format(
      "McNemar's test of the two runs of seed {}: {} alone is right on {} images, {} alone on {}, of {}; p {}{}. It "
      "compares these two runs, not their settings.",
      seed, row.label, test.only_second, baseline.label, test.only_first, test.images,
      p_text(test.p).starts_with('<') ? "" : "= ", p_text(test.p));
}

}  // namespace

TableTestSet table_test_set(const TableInput& input, const std::vector<TableLine>& lines) {
  TableTestSet out;
  std::size_t missing = 0, intervals = 0, one_seed = 0;
  std::vector<RunsBySeed> runs;
  for (std::size_t r = 0; r < lines.size(); ++r) runs.push_back(stored_runs(input, r, missing));
  for (std::size_t r = 0; r < lines.size(); ++r) {
    const bool gain = lines[r].baseline && !lines[r].is_baseline;
    const auto sample = resample(runs[r], gain ? &runs[*lines[r].baseline] : nullptr);
    out.half_widths.push_back(sample ? std::optional(sample->half_width) : std::nullopt);
    intervals += sample ? 1 : 0;
    one_seed += sample && sample->seeds == 1 ? 1 : 0;
  }
  if (intervals > 0)
    out.sentences.push_back(
        fmt::format("± with new images too: 95% interval of the gain (of the mean where there is none) if seeds and "
                    "test images were both drawn again: crossed bootstrap, 2000 resamples, each row on its own.{}",
                    one_seed > 0 ? " Rows of one seed: over images alone." : ""));
  if (missing > 0)
    out.sentences.push_back(
        fmt::format("{} of the runs have not stored which images they get right; they are not resampled.", missing));
  const bool one_pair = lines.size() == 2 && runs[0].size() == 1 && runs[1].size() == 1 &&
                        runs[0].begin()->first == runs[1].begin()->first &&
                        (lines[1].baseline == 0 || lines[0].baseline == 1);
  if (one_pair) {
    const std::size_t base = lines[1].baseline == 0 ? 0 : 1, row = 1 - base;
    const std::uint64_t seed = runs[0].begin()->first;
    out.sentences.push_back(
        mcnemar_words(lines[row], lines[base], seed, mcnemar(*runs[base].begin()->second, *runs[row].begin()->second)));
  }
  return out;
}

}  // namespace normlab
