// The sentences below a table: what its numbers are and what they do not say.
#pragma once

#include <string>
#include <vector>

#include "experiments/results/table_model.h"
#include "experiments/results/table_notes.h"
#include "experiments/statistics/many_to_one.h"

namespace normlab {

/// What the footer is written from; all rows of the plan, also those that a filter hides.
struct FooterFacts {
  const TableInput* input = nullptr;
  const TableOptions* options = nullptr;
  const std::vector<TableLine>* lines = nullptr;  // of the whole plan
  const std::vector<TableStrip>* strips = nullptr;
  const std::vector<ManyToOne>* comparisons = nullptr;  // one a strip
  std::vector<TableEnvironment> environments;
  int decimals = 2;                   // of gains
  std::optional<double> correlation;  // of the values of one seed, pooled over rows
  Figure best_of_table;               // best gain by chance over all strips; for --family table
  std::size_t shown = 0;              // lines that are left by --where
};

std::vector<TableSentence> table_footer(const FooterFacts& facts);

/// "0.3", "-0.3" without "-0.0"; "nan" and "inf" as such.
std::string fixed(double value, int decimals);
/// The same with a sign.
std::string signed_fixed(double value, int decimals);

}  // namespace normlab
