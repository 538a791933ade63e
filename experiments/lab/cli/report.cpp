#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <set>
#include <thread>

#include "core/error.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/output_file.h"
#include "experiments/lab/cli/table_options.h"
#include "experiments/lab/pictures/figures.h"
#include "experiments/lab/pictures/report.h"
#include "experiments/lab/sweep/signals.h"
#include "experiments/lab/tables/sweep_table.h"

namespace normlab {
namespace {

struct Report {
  DescriptorOptions descriptor;
  TableOptions table;
  Option last{};
  std::vector<std::string> curves;
  std::string file = "report.html", pictures;
  std::optional<int> watch;    // seconds between writes
  std::set<std::string> told;  // messages already shown, so that a watched report prints each once

  int operator()() {
    refuse_unread_last(last, table);
    if (!watch) return write(false).code;
    if (file == "-") throw InputError("--watch: needs a file to rewrite; give one with -o");
    catch_stop_signals();
    for (;;) {
      const Written written = write(true);
      if (written.finished) return written.code;
      say(fmt::format("rewriting the report every {} s until all trials have ended; Ctrl-C stops", *watch));
      for (int slices = *watch * 10; slices > 0 && !stop_requested(); --slices)
        std::this_thread::sleep_for(std::chrono::milliseconds(100));
      if (!stop_requested()) continue;
      write(false);
      return stop_exit_code();
    }
  }

 private:
  struct Written {
    int code = 0;
    bool finished = false;  // no trial is running or pending
  };

  /// If `live`, the page reloads itself until the results are final.
  Written write(bool live) {
    const ResultStore store = descriptor.store();
    const Experiment experiment = descriptor.load_staged(store);
    const Inputs inputs = descriptor.inputs(&experiment);
    TableOptions shown = table;
    shown.lr_sensitivity = false;
    const TableModel model = sweep_table_model(experiment, store, shown);
    const std::optional<TableModel> rates = rates_table(experiment, store);
    const ExperimentCurves read =
        read_curves(experiment, store, curves.empty() ? default_curves(model.metric) : curves);
    const bool finished = !experiment.more_to_come && has_ended(experiment, store);
    for (const std::string& metric : curves)
      if (finished || !watch) require_metric(read, metric, "--curves");
    const ReportInput input{experiment,
                            store,
                            model,
                            read,
                            rates ? &*rates : nullptr,
                            measured_charts({experiment, model, read.trials}),
                            utc_time() + " by normlab " + build_version(),
                            live && !finished ? *watch : 0};
    for (const std::string& problem : report_problems(input)) say(problem);
    if (const std::string without = read.without_words(); !without.empty()) say(without);
    write_output(file, report_html(input), inputs);
    say_written(file);
    for (const PictureFile& picture : pictures.empty() ? std::vector<PictureFile>() : report_pictures(input)) {
      const std::filesystem::path path = std::filesystem::path(pictures) / picture.name;
      write_output(path, picture.svg, inputs);
      say_written(path);
    }
    return {static_cast<int>(std::max(model.outcome, read.outcome())), finished};
  }

  /// A filter, an order and a margin are about the table above it, in its axes and unit.
  std::optional<TableModel> rates_table(const Experiment& experiment, const ResultStore& store) const {
    if (!table.lr_sensitivity) return std::nullopt;
    TableOptions options = table;
    options.where = options.sort = "";
    options.detect = options.equivalent = std::nullopt;
    options.bootstrap = false;
    return sweep_table_model(experiment, store, options);
  }

  static bool has_ended(const Experiment& experiment, const ResultStore& store) {
    return std::all_of(experiment.trials.begin(), experiment.trials.end(), [&](const Trial& trial) {
      try {
        const TrialState state = store.trial(trial.id).status().state;
        return state != TrialState::missing && state != TrialState::stopped && state != TrialState::running;
      } catch (const Error&) {
        return true;  // an unreadable result will not change
      }
    });
  }

  void say(const std::string& text) {
    if (told.insert(text).second) tell("{}\n", text);
  }
  void say_written(const std::filesystem::path& path) {
    if (told.insert(path.string()).second) tell_written(path);
  }
};

}  // namespace

void add_report(Command& app) {
  auto [command, report] = app.add_command<Report>(
      "report", "write a report as one HTML file: question, table, gains, learning curves, configs and provenance");
  report.descriptor.add_file(command);
  report.descriptor.add_out_or_from(command);
  command.add_option("-o,--output", report.file, "HTML file to write; -: standard output")
      .show_default()
      .output(Output::stream);
  command
      .add_option("--watch", report.watch,
                  "rewrite the file every N seconds until all trials have ended; an open page reloads itself")
      .or_alone("5")
      .check([](const std::string& value) {
        const bool number = !value.empty() && value.find_first_not_of("0123456789") == value.npos;
        return number && value.size() < 6 && value != "0" ? "" : "must be a whole number of seconds above 0";
      });
  command.add_option("--svg", report.pictures, "folder to write the plots to as SVG files").output(Output::folder);
  command
      .add_option("--curves", report.curves,
                  "metric to plot by step; may be repeated (default: the table's metric and train/loss)")
      .one_each();
  report.last = add_selection(command, report.table);
  add_row_choice(command, report.table);
  add_statistics(command, report.table);
  command.add_flag("--lr-sensitivity", report.table.lr_sensitivity,
                   "add how much the training loss depends on the learning rate; the descriptor sweeps over "
                   "train.optimizer.lr");
  command.footer(
      "Missing folders are created. Exit code 2 after the report: some results cannot be read, and the report names "
      "them. 3: the disk fails.");
  command.examples({"normlab report experiments/placements_gratings.json -o report.html --svg pictures",
                    "normlab report experiments/placements_gratings.json --watch"});
}

}  // namespace normlab
