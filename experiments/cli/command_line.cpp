#include <fmt/format.h>

#include <filesystem>
#include <new>
#include <sstream>

#include "core/cpu/blas.h"
#include "core/error.h"
#include "experiments/cli/commands.h"
#include "experiments/results/build_info.h"
#include "experiments/results/files.h"
#include "experiments/results/terminal.h"
#include "experiments/sweep/signals.h"

namespace normlab {
namespace {

/// The exit code of what the command line asks for.
int carry_out(int argc, char** argv) {
  CLI::App app{"normlab: Vision Transformers whose norms are a table of sites, and sweeps over that table"};
  app.name("normlab");
  app.require_subcommand(1);
  app.set_version_flag("--version", "normlab " + build_version());
  app.footer(
      "Exit codes: 0 done, 1 some trials failed, 2 bad input, 3 the machine (disk, library, CPU, GPU), 130/143 "
      "stopped by a signal.\n"
      "Tables go to standard output, everything else to standard error. `normlab COMMAND --help` says more.");
  std::string blas_env = "clear";
  app.add_option("--blas-env", blas_env,
                 "inherited OPENBLAS_* variables: clear them, since some halve the speed, or keep them")
      ->check(CLI::IsMember({"clear", "keep"}));
  Action action;
  add_run(app, action);
  add_plan(app, action);
  add_check(app, action);
  add_explain(app, action);
  add_status(app, action);
  add_table(app, action);
  add_schema(app, action);
  add_probe(app, action);
  add_report(app, action);
  add_convert(app, action);
  add_curves(app, action);
  add_eval(app, action);
  add_bench(app, action);
  add_data(app, action);
  add_diff(app, action);
  add_find(app, action);
  add_missing(app, action);
  add_clean(app, action);
  add_verify(app, action);
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    std::ostringstream output, words;
    const int code = app.exit(error, output, words);
    print_text("{}", output.str());
    tell("{}", words.str());
    return code == 0 ? 0 : static_cast<int>(ExitCode::bad_input);
  }
  if (blas_env == "keep") blas_keep_environment();
  return action();
}

/// What went wrong in words, and the exit code that stands for it.
int guarded(const std::function<int()>& work) {
  try {
    try {
      return work();
    } catch (const std::filesystem::filesystem_error& error) {
      throw_system_error("read", error.path1(), error.code().value());
    }
  } catch (const Error& error) {
    tell("{}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    tell_text("out of memory; use fewer --workers or a smaller batch\n");
  } catch (const std::exception& error) {
    tell("internal error: {}\n", error.what());
  }
  return static_cast<int>(ExitCode::environment);
}

}  // namespace

int run_command_line(int argc, char** argv) {
  open_standard_streams();
  ignore_signals_of_writes();
  const int code = guarded([&] { return carry_out(argc, argv); });
  const int output = guarded([] {
    flush_output();
    return 0;
  });
  return output == 0 ? code : output;
}

}  // namespace normlab
