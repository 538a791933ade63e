#include <fmt/format.h>

#include <cstdio>

#include "core/cpu/blas.h"
#include "core/error.h"
#include "experiments/cli/commands.h"
#include "experiments/results/build_info.h"
#include "experiments/sweep/signals.h"

namespace normlab {

int run_command_line(int argc, char** argv) {
  CLI::App app{"normlab: Vision Transformers whose norms are a table of sites, and sweeps over that table"};
  app.name("normlab");
  app.require_subcommand(1);
  app.set_version_flag("--version", "normlab " + build_version());
  app.footer(
      "Exit codes: 0 done, 1 some trials failed or a value is not finite, 2 bad input, 3 the machine (disk, library, CPU, GPU), 130/143 "
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
    return app.exit(error) == 0 ? 0 : static_cast<int>(ExitCode::bad_input);
  }
  if (blas_env == "keep") blas_keep_environment();
  try {
    const int code = action();
    if (std::fflush(stdout) != 0)
      throw EnvironmentError("standard output cannot be written (disk full, or the reader is gone)");
    return code;
  } catch (const Error& error) {
    fmt::print(stderr, "{}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "out of memory; use fewer --workers or a smaller batch\n");
    return static_cast<int>(ExitCode::environment);
  } catch (const std::exception& error) {
    fmt::print(stderr, "internal error: {}\n", error.what());
    return static_cast<int>(ExitCode::environment);
  }
}

}  // namespace normlab
