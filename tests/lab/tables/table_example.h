// Tables that tests render.
#pragma once

#include <doctest/doctest.h>

#include <sstream>
#include <string>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/table.h"

namespace normlab {

inline TableSeed done_seed(std::uint64_t seed, double percent, const std::string& environment = "cpu") {
  TableSeed cell;
  cell.seed = seed;
  cell.trial = "t" + std::to_string(seed);
  cell.state = SeedState::done;
  cell.value = percent / 100;
  cell.environment = environment;
  return cell;
}

inline TableSeed other_seed(std::uint64_t seed, SeedState state, double progress = 0, const std::string& message = "") {
  TableSeed cell;
  cell.seed = seed;
  cell.state = state;
  cell.progress = progress;
  cell.message = message;
  return cell;
}

inline TableSeed diverged_seed(std::uint64_t seed, std::int64_t step, const std::string& site = "") {
  TableSeed cell = other_seed(seed, SeedState::diverged, 1);
  cell.diverged_step = step;
  cell.diverged_site = site;
  cell.environment = "cpu";
  return cell;
}

inline TableRow table_row(const std::string& label, std::vector<std::string> axes, std::optional<std::size_t> baseline,
                          std::vector<TableSeed> seeds) {
  TableRow row;
  row.label = label;
  row.axes = std::move(axes);
  row.baseline = baseline;
  row.seeds = std::move(seeds);
  row.chance = 0.1;
  return row;
}

/// One baseline, three seeds, every state a trial can be in.
inline TableInput states_table() {
  TableInput input;
  input.about = "Does Dual PatchNorm help?";
  input.name = "patch_norm";
  input.axes = {"model.placement"};
  input.rows = {
      table_row("pre_pre", {"pre_pre"}, 0, {done_seed(0, 76.086), done_seed(1, 75.545), done_seed(2, 76.045)}),
      table_row("pre_post", {"pre_post"}, 0, {done_seed(0, 76.672), done_seed(1, 75.947), done_seed(2, 75.958)}),
      table_row("post_post", {"post_post"}, 0, {done_seed(0, 51.3), diverged_seed(1, 1200), diverged_seed(2, 1200)}),
      table_row("dpn", {"dpn"}, 0, {done_seed(0, 77.1), done_seed(1, 76.5), other_seed(2, SeedState::running, 0.437)}),
      table_row("sub_ln", {"sub_ln"}, 0,
                {other_seed(0, SeedState::failed, 0, "out of memory"), other_seed(1, SeedState::missing),
                 other_seed(2, SeedState::stopped, 0.5)}),
      table_row(
          "none", {"none"}, 0,
          {other_seed(0, SeedState::missing), other_seed(1, SeedState::missing), other_seed(2, SeedState::missing)})};
  return input;
}

/// Two strips of three rows over two axes, five seeds each; the arms of the fixture dunnett.json's second size.
inline TableInput strips_table() {
  TableInput input;
  input.about = "Which placement, at which rate?";
  input.name = "strips";
  input.axes = {"model.placement", "train.optimizer.lr"};
  const double base[] = {75.487, 75.119, 74.477, 74.868, 74.728};
  const double gains[][5] = {{0, 0, 0, 0, 0}, {1.468, 1.178, 1.453, 0.951, 1.636}, {-0.09, 0.48, 0.417, 0.731, 0.639}};
  const char* const names[] = {"pre_pre", "dpn", "sub_ln"};
  const char* const rates[] = {"0.001", "0.003"};
  for (std::size_t p = 0; p < 3; ++p)
    for (std::size_t r = 0; r < 2; ++r) {
      std::vector<TableSeed> seeds;
      for (std::uint64_t s = 0; s < 5; ++s) seeds.push_back(done_seed(s, base[s] + gains[p][s] - 2.0 * double(r)));
      input.rows.push_back(table_row(std::string("placement=") + names[p] + ", lr=" + rates[r], {names[p], rates[r]}, r,
                                     std::move(seeds)));
    }
  return input;
}

inline std::string rendered(const TableInput& input, TableFormat format, const TableOptions& options = {},
                            std::size_t width = kTableWidth) {
  return render_table(table_model(input, options), format, {.width = width, .caption = {}, .label = {}});
}

/// The sentence of the footer with this key; "" if it has none.
inline std::string footer(const TableModel& model, const std::string& key) {
  for (const TableSentence& sentence : model.footer)
    if (sentence.key == key) return sentence.text;
  return "";
}

inline void check_fits(const std::string& text, std::size_t width = kTableWidth) {
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) CHECK_MESSAGE(display_width(line) <= width, line);
}

/// A baseline and two rows, at one rate.
inline TableInput one_strip() {
  TableInput input = strips_table();
  std::erase_if(input.rows, [](const TableRow& row) { return row.axes[1] == "0.003"; });
  for (TableRow& row : input.rows) row.baseline = 0;
  return input;
}

}  // namespace normlab
