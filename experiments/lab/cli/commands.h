// The commands of the binary. Each adds itself to the command line and returns an exit code.
#pragma once

#include "experiments/lab/cli/command_line.h"

namespace normlab {

/// The commands in the order of the help. NAME.cpp defines add_NAME.
#define NORMLAB_COMMANDS(ROW) \
  ROW(init)                   \
  ROW(run)                    \
  ROW(plan)                   \
  ROW(check)                  \
  ROW(claims)                 \
  ROW(explain)                \
  ROW(status)                 \
  ROW(table)                  \
  ROW(report)                 \
  ROW(convert)                \
  ROW(eval)                   \
  ROW(bench)                  \
  ROW(data)                   \
  ROW(list)                   \
  ROW(clean)                  \
  ROW(verify)                 \
  ROW(export)                 \
  ROW(merge)
#define NORMLAB_DECLARED(name) void add_##name(Command& app);
NORMLAB_COMMANDS(NORMLAB_DECLARED)
#undef NORMLAB_DECLARED

/// The source that a descriptor names, and a paragraph per deviation from it, in lines of at most 80 columns; "" if it
/// names none.
std::string paper_text(const struct PaperConfig& paper);
/// `explain A B`: what differs between two trials or two descriptors.
void print_difference(const std::string& a, const std::string& b, const struct DescriptorOptions& options);

/// Adds only the commands that `words` name, since adding all takes longer than most take to run. Adds all for the
/// help, and for the error if none is named.
void add_commands(Command& app, const std::vector<std::string>& words);

/// Errors become one message on standard error and an exit code.
int run_command_line(int argc, char** argv);

}  // namespace normlab
