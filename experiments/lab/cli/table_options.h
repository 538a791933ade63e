// Options of every command that builds a table model.
#pragma once

#include "experiments/lab/cli/commands.h"
#include "experiments/lab/tables/table_model.h"

namespace normlab {

/// --metric, --select, --last, --diverged: which number represents a run. Returns --last.
Option add_selection(Command& command, TableOptions& options);
/// InputError for a --last that nothing would read.
void refuse_unread_last(const Option& last, const TableOptions& options);

/// --where, --sort.
void add_row_choice(Command& command, TableOptions& options);

/// --family, --detect, --equivalent, --learned, --bootstrap, --lr-sensitivity.
void add_statistics(Command& command, TableOptions& options);

}  // namespace normlab
