// What a table says, before it is laid out: the statistics of each row and the words below.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "experiments/statistics/student.h"
#include "experiments/results/table.h"

namespace normlab {

/// A row as every format shows it; an empty string where there is nothing to show.
struct TableLine {
  std::string label;
  std::string mean, half_width;  // "76.1", "0.4"
  std::string n;                 // "3", or "2/3" where fewer count than were planned
  std::string gain, gain_half_width;
  std::size_t pairs = 0;  // seeds that row and baseline share
  bool is_baseline = false;
  std::vector<std::string> notes;
};

struct TableNumbers {
  std::string about, heading;  // heading: "eval/accuracy [%]"
  std::vector<TableLine> lines;
  std::vector<std::string> footer;  // one sentence or more each
};

TableNumbers table_numbers(const TableSpec& spec);

/// Digits after the point at which a half width shows its first digit, or two where that is a 1: 0.41 -> 1, 0.14 -> 2.
int decimals_for(double half_width);

}  // namespace normlab
