#include <fmt/core.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <optional>
#include <set>
#include <thread>

#include "core/error.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/output_file.h"
#include "experiments/lab/descriptor/condition.h"
#include "experiments/lab/pictures/chosen_rows.h"
#include "experiments/lab/pictures/figures.h"
#include "experiments/lab/pictures/report.h"
#include "experiments/lab/pictures/vector_file.h"
#include "experiments/lab/sweep/signals.h"
#include "experiments/lab/tables/labels.h"
#include "experiments/lab/tables/sweep_table.h"

namespace normlab {
namespace {

constexpr std::size_t kMostNumbers = 200;  // of a line of a figure, in its table; the CSV has all

struct ReportCommand {
  DescriptorOptions descriptor;
  TableOptions table;
  Option last{};
  std::vector<std::string> curves;
  std::filesystem::path file = "report.html", pictures, figures;
  std::vector<std::string> only, sites;
  std::int64_t steps = 10;
  MappingColour colour = MappingColour::token;
  PictureFormat format = PictureFormat::svg;
  std::vector<std::string> rows;
  std::vector<double> limits;
  double width = 0;  // pixels of 1/96 inch; 0: that of each figure
  bool overlay = false, no_titles = false, script = false;
  std::optional<int> watch;    // seconds between writes
  std::set<std::string> told;  // messages already shown, so that a watched report prints each once

  int operator()() {
    if (!figures.empty()) return draw_figures();
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
    Experiment experiment = descriptor.load_staged(store);
    const Inputs inputs = descriptor.inputs(&experiment);
    TableOptions shown = table;
    shown.lr_sensitivity = false;
    const TableModel model = with_labels(sweep_table_model(experiment, store, shown));
    const std::optional<TableModel> rates = rates_table(experiment, store);
    show_labels(experiment);
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
    save(file, report_html(input), inputs);
    for (const PictureFile& picture : pictures.empty() ? std::vector<PictureFile>() : report_pictures(input))
      save(pictures / picture.name, picture.svg, inputs);
    return {static_cast<int>(std::max(model.outcome, read.outcome())), finished};
  }

  /// A filter, an order and a margin are about the table above it, in its axes and unit.
  std::optional<TableModel> rates_table(const Experiment& experiment, const ResultStore& store) const {
    if (!table.lr_sensitivity) return std::nullopt;
    TableOptions options = table;
    options.where = options.sort = "";
    options.detect = options.equivalent = std::nullopt;
    options.bootstrap = false;
    options.to_match = TableMatch::off;
    return with_labels(sweep_table_model(experiment, store, options));
  }

  /// Each figure, or those of --only, with its numbers.
  int draw_figures() {
    std::vector<std::string_view> words;
    for (const FigureRow& row : figure_rows()) words.push_back(row.word);
    for (const std::string& word : only)
      if (std::find(words.begin(), words.end(), word) == words.end())
        throw InputError("--only: " + unknown_word("figure", word, words));
    const ResultStore store = descriptor.store();
    Experiment experiment = descriptor.load_staged(store);
    const Inputs inputs = descriptor.inputs(&experiment);
    TableModel model = with_labels(sweep_table_model(experiment, store, table));
    if (!rows.empty()) choose_rows(model, rows, RowWords::of_this_table);
    if (!limits.empty() && (limits.size() != 2 || !are_apart(limits[0], limits[1])))
      throw InputError("--xlim: expects the least and the greatest value, such as 0,100");
    const bool chosen = !rows.empty() || !table.where.empty();
    TableOptions of_all = table;
    of_all.where = "";
    const TableModel whole = chosen ? with_labels(sweep_table_model(experiment, store, of_all)) : TableModel();
    show_labels(experiment);
    const ExperimentCurves read = read_curves(experiment, store, {});
    const FigureInput input{experiment, model, read.trials, std::size_t(steps), sites, colour, overlay};
    for (const CurveProblem& problem : read.problems) tell("{}\n", problem.text());
    FigureInput all_rows{experiment, whole, read.trials, std::size_t(steps), sites, colour, overlay};
    ExitCode outcome = std::max(model.outcome, read.outcome());
    std::vector<Chart> drawn;
    std::map<std::string, std::vector<std::string>> missing;  // reason -> figures
    for (const FigureRow& figure : figure_rows()) {
      if (!only.empty() && std::find(only.begin(), only.end(), figure.word) == only.end()) continue;
      std::vector<Chart> charts = charts_of(figure, experiment, store, input);
      if (!charts.empty()) {
        std::move(charts.begin(), charts.end(), std::back_inserter(drawn));
        continue;
      }
      // A sweep without learning rates or finished trials lacks no measurement.
      if (only.empty() && (!figure.draw || figure.word == "strip")) continue;
      const bool others = chosen && figure.draw && !draw_figure(figure, all_rows).empty();
      missing[others ? "none of the chosen rows has its numbers; other rows do" : missing_words(figure, input)]
          .emplace_back(figure.word);
      outcome = std::max(outcome, ExitCode::bad_input);
    }
    if (!limits.empty()) limit(drawn);
    for (Chart& chart : drawn) write(chart, inputs);
    for (const auto& [reason, lacking] : missing) tell("{}: {}\n", joined(lacking, ", "), reason);
    return static_cast<int>(outcome);
  }

  /// Limits that a picture can have: apart by more than rounding, and without overflow.
  static bool are_apart(double low, double high) {
    constexpr double kMost = 1e300, kLeastShare = 1e-9;
    return low >= -kMost && high <= kMost && high - low > kLeastShare * std::max(std::abs(low), std::abs(high)) &&
           high - low > 1 / kMost;
  }

  std::vector<Chart> charts_of(const FigureRow& figure, const Experiment& experiment, const ResultStore& store,
                               const FigureInput& input) const {
    std::vector<Chart> charts;
    TableOptions with_rates = table;
    with_rates.lr_sensitivity = true;
    with_rates.to_match = TableMatch::off;
    if (figure.draw) {
      charts = draw_figure(figure, input);
    } else if (std::count(experiment.axes.begin(), experiment.axes.end(), "train.optimizer.lr") > 0) {
      TableModel rates = with_labels(sweep_table_model(experiment, store, with_rates));
      if (!rows.empty()) choose_rows(rates, rows, RowWords::of_any_table);
      if (Chart chart = rates_chart(rates); !chart.panels.empty()) charts = {std::move(chart)};
    }
    return charts;
  }

  void limit(std::vector<Chart>& charts) const {
    std::vector<std::string> without;
    for (Chart& chart : charts)
      if (!set_limits(chart, limits[0], limits[1])) without.push_back(chart.name);
    if (without.empty()) return;
    const std::string names = joined(without, ", ");
    if (without.size() == charts.size())
      throw InputError("--xlim: no numbers across in " + names + "; choose other figures with --only");
    tell("{}: without the limits of --xlim, as there are no numbers across\n", names);
  }

  void write(Chart& chart, const Inputs& inputs) {
    chart.width = width;
    chart.titles = !no_titles;
    const std::vector<PictureFile> pages = chart_files(chart);
    for (const PictureFile& page : pages)
      save((figures / page.name).replace_extension(word_of(format)), picture_bytes(page, format), inputs);
    for (std::size_t k = std::max<std::size_t>(pages.size(), 1) + 1;; ++k) {
      const auto old = figures / fmt::format("{}-{}.{}", chart.name, k, word_of(format));
      std::error_code error;
      if (!std::filesystem::remove(old, error)) break;
      tell("removed {}, a page of an earlier figure\n", old.string());
    }
    save(figures / (chart.name + ".csv"), chart_csv(chart), inputs);
    save(figures / (chart.name + ".md"), chart_markdown(chart, kMostNumbers), inputs);
    if (script && !pages.empty()) save(figures / (chart.name + ".py"), chart_script(chart), inputs);
    if (!chart.left_out.empty()) tell("{}: {}\n", chart.name, chart.left_out);
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
  void save(const std::filesystem::path& path, const std::string& text, const Inputs& inputs) {
    write_output(path, text, inputs);
    if (told.insert(path.string()).second) tell_written(path);
  }
};

/// "3.25in" in pixels.
double pixels_across(const std::string& width) {
  constexpr double kLeast = 240, kMost = 1920;
  for (const auto& [unit, pixels] : {std::pair{"in", 96.0}, {"cm", 96 / 2.54}, {"mm", 96 / 25.4}, {"px", 1.0}}) {
    const std::optional<double> number =
        width.ends_with(unit) ? parse_number(std::string_view(width).substr(0, width.size() - 2)) : std::nullopt;
    if (number && *number * pixels >= kLeast && *number * pixels <= kMost) return *number * pixels;
  }
  throw InputError("--width: \"" + width + "\" is no width from 2.5in to 20in, such as 3.25in, 80mm, 8.5cm or 312px");
}

}  // namespace

void add_report(Command& app) {
  auto [command, report] = app.add_command<ReportCommand>(
      "report", "write a report as one HTML file: question, table, gains, learning curves, configs and provenance");
  report.descriptor.add_file(command);
  report.descriptor.add_out_or_from(command);
  command.add_output(Output::stream, "-o,--output", report.file, "HTML file to write; -: standard output")
      .show_default();
  command
      .add_bounded("--watch", report.watch,
                   "rewrite the file every N seconds until all trials have ended; an open page reloads itself", 1,
                   99'999)
      .or_alone("5");
  command.add_output(Output::folder, "--svg", report.pictures, "folder to write the plots to as SVG files");
  command
      .add_option("--curves", report.curves,
                  "metric to plot by step; may be repeated (default: the table's metric and train/loss)")
      .one_each();
  report.last = add_selection(command, report.table);
  add_row_choice(command, report.table);
  add_statistics(command, report.table);
  Command figures = command.add_form(
      command.add_output(
          Output::folder, "--figures", report.figures,
          "draw what the trials measured to this folder instead: each figure as a picture, with its numbers as CSV and "
          "as a table"),
      {"DESCRIPTOR", "--data", "--set", "--from", "--out", "--where", "--sort"});
  figures.add_option("--only", report.only, "figures to draw, by name, separated by commas (default: all)")
      .comma_separated();
  figures.add_number("--steps", report.steps, "gradients, updates: how many of the last measured steps to average", 1,
                     1 << 20);
  figures
      .add_option(
          "--sites", report.sites,
          "mapping: norms to draw, such as blocks.0.attn.pre,final (default: attn.pre of the first, a middle and the "
          "last block)")
      .comma_separated();
  figures.add_words("--colour", report.colour, "mapping: what the colours of the points stand for");
  figures.add_flag("--overlay", report.overlay, "curves: the rows of a metric in one panel, instead of a panel each");
  figures
      .add_option("--rows", report.rows,
                  "rows to draw beside their baseline, separated by commas: labels of the table, or values of its axes")
      .comma_separated();
  figures.add_choice("--format", report.format, "format of the pictures; pdf and png need librsvg");
  figures.add_option(
      "--width", [&report = report](const std::string& width) { report.width = pixels_across(width); },
      "width of each picture, such as 3.25in, 80mm, 8.5cm or 312px, with text of 8 to 10 points");
  figures.add_flag("--no-titles", report.no_titles, "draw no titles, as above a caption");
  figures.add_option("--xlim", report.limits, "the least and the greatest value across, as 0,100").comma_separated();
  figures.add_flag("--script", report.script, "also write a Python script that draws each figure's CSV by matplotlib");
  std::string list = "Figures:\n";
  for (const FigureRow& row : figure_rows()) list += fmt::format("  {:<15} {}\n", row.word, row.doc);
  command.footer(
      list +
      "\n"
      "Missing folders are created. Exit code 2 after the report: some results cannot be read, and the report names "
      "them, or a figure lacks its measurements, and a message names the probe to set. 3: the disk fails, or librsvg is "
      "missing.");
  command.examples({"normlab report experiments/placements_gratings.json -o report.html --svg pictures",
                    "normlab report experiments/placements_gratings.json --figures figures --only strip,curves"});
}

}  // namespace normlab
