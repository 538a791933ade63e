// The commands of the binary. Each adds itself to the command line; what it does comes back as the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace normlab {

/// Called once the command line is read; gives the exit code.
using Action = std::function<int()>;

void add_run(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_status(CLI::App& app, Action& action);
void add_table(CLI::App& app, Action& action);
void add_schema(CLI::App& app, Action& action);
void add_probe(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_curves(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_diff(CLI::App& app, Action& action);
void add_find(CLI::App& app, Action& action);
void add_missing(CLI::App& app, Action& action);
void add_clean(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);

/// Parts of `normlab data`.
void add_data_info(CLI::App& data, Action& action);
void add_data_pack(CLI::App& data, Action& action);
void add_data_preview(CLI::App& data, Action& action);

/// Reads the command line and does what it says; errors become one message on standard error and their exit code.
int run_command_line(int argc, char** argv);

}  // namespace normlab
