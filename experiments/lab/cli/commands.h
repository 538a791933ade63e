// The commands of the binary. Each adds itself to the command line and returns an exit code.
#pragma once

#include "experiments/lab/cli/command_line.h"

namespace normlab {

void add_run(Command& app);
void add_plan(Command& app);
void add_check(Command& app);
void add_claims(Command& app);
void add_explain(Command& app);
void add_status(Command& app);
void add_table(Command& app);
void add_schema(Command& app);
void add_probe(Command& app);
void add_report(Command& app);
void add_convert(Command& app);
void add_curves(Command& app);
void add_export(Command& app);
void add_figures(Command& app);
void add_eval(Command& app);
void add_fewshot(Command& app);
void add_bench(Command& app);
void add_data(Command& app);
void add_diff(Command& app);
void add_find(Command& app);
void add_init(Command& app);
void add_list(Command& app);
void add_merge(Command& app);
void add_missing(Command& app);
void add_clean(Command& app);
void add_verify(Command& app);

void add_data_info(Command& data);
void add_data_pack(Command& data);
void add_data_preview(Command& data);

/// Adds only the commands that `words` name, since adding all takes longer than most take to run. Adds all for the
/// help, and for the error if none is named.
void add_commands(Command& app, const std::vector<std::string>& words);

/// Errors become one message on standard error and an exit code.
int run_command_line(int argc, char** argv);

}  // namespace normlab
