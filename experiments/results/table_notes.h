// The words about single rows: what became of their seeds, and where they were run.
#pragma once

#include <string>
#include <vector>

#include "experiments/results/table_model.h"

namespace normlab {

/// "2/3 diverged @1200 (12 to 95% diverge)", "1/3 running 43%", "failed: message", "missing".
std::vector<std::string> state_notes(const std::vector<TableSeed>& seeds, const std::string& metric);

/// Where some runs were made, and by which program.
struct TableEnvironment {
  std::string environment, program;  // of TableSeed
  std::string words;                 // environment, and where several programs share it what tells this one apart
};

/// Those of all finished seeds, in the order of the rows.
std::vector<TableEnvironment> environments_of(const std::vector<TableRow>& rows);

/// "env 1+2": those of a row, by their place in `environments`, counted from 1. "" for none.
std::string environment_note(const TableRow& row, const std::vector<TableEnvironment>& environments);

/// "stopped early @400..700": of the finished seeds whose rule ended them; "" for none.
std::string early_stop_note(const std::vector<TableSeed>& seeds);

}  // namespace normlab
