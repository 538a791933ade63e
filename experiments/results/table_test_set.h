// How far gains would move with other test images: the crossed bootstrap over seeds and images, McNemar's test for a
// table that is one pair of runs.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/results/table_model.h"

namespace normlab {

struct TableTestSet {
  std::vector<std::optional<double>> half_widths;  // by row, as shares: of the gain, or of the mean without a baseline
  std::vector<std::string> sentences;              // for the footer
};

/// `lines`: the whole plan, in its order. Runs without stored correctness are left out and counted in a sentence.
/// InputError where runs were evaluated on different images.
TableTestSet table_test_set(const TableInput& input, const std::vector<TableLine>& lines);

}  // namespace normlab
