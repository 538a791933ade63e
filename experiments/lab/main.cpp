#include "experiments/lab/cli/commands.h"

int main(int argc, char** argv) { return normlab::run_command_line(argc, argv); }
