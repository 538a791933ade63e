// A descriptor, read and expanded: what question it asks, and every trial that answers it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "experiments/descriptor/config.h"
#include "experiments/descriptor/paper.h"
#include "experiments/descriptor/probes.h"

namespace normlab {

/// One row of the result table: a combination of axis values, whatever the seed.
struct Cell {
  std::vector<std::pair<std::string, std::string>> axes;  // path of the axis -> label of its value, in the grid's order
  std::string label;  // "placement=dpn, warmup_steps=500"; "dpn" for one axis; the file's stem for none
  std::optional<std::size_t> baseline;  // row it is compared with; itself for a baseline
  std::vector<std::size_t> trials;      // indices, in the order of the row's seeds
};

struct Trial {
  TrialConfig config;
  std::string id;  // trial_id(config)
  std::size_t row = 0;
  std::size_t seed_index = 0;  // among the row's seeds
  std::string label;           // the row's, and the seed
};

struct Experiment {
  std::string about;
  std::string stem;                          // of the file's name; names the folder of results
  std::vector<std::filesystem::path> files;  // the descriptor and what it extends
  std::vector<std::string> axes;             // paths, in order of first appearance
  std::vector<Cell> rows;
  std::vector<Trial> trials;  // row by row, each with its seeds in order
  CheckpointConfig checkpoint;
  ProbeConfig probes;
  PaperConfig paper;
  std::size_t duplicates = 0;  // trials that came up more than once and run once
};

/// More trials than this in one descriptor are taken for a mistake.
inline constexpr std::size_t kMaxTrials = 100'000;

/// Reads a descriptor, applies `sets` ("path=value") and expands it. Rows stand in the order of the grids, in a grid in
/// the order of its axes, the last one fastest; a row that comes up again adds its new seeds to the first. InputError
/// with all problems, one a line: "file:line:column: /json/pointer: what; did you mean "..."?"; more than `max_trials`
/// are one.
Experiment load_experiment(const std::filesystem::path& file, std::span<const std::string> sets = {},
                           std::size_t max_trials = kMaxTrials);

}  // namespace normlab
