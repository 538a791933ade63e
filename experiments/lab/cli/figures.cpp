#include "experiments/lab/pictures/figures.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>

#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/output_file.h"
#include "experiments/lab/cli/table_options.h"
#include "experiments/lab/tables/sweep_table.h"

namespace normlab {
namespace {

constexpr std::size_t kMostNumbers = 200;  // of a series in the table; the CSV has all

struct Figures {
  DescriptorOptions descriptor;
  TableOptions table;
  std::string folder = "figures";
  std::vector<std::string> only, sites;
  std::int64_t last = 10;
  MappingColour colour = MappingColour::token;

  int operator()() {
    std::vector<std::string_view> words;
    for (const FigureRow& row : figure_rows()) words.push_back(row.word);
    for (const std::string& word : only)
      if (std::find(words.begin(), words.end(), word) == words.end())
        throw InputError("--only: " + unknown_key(word, words));
    const ResultStore store = descriptor.store();
    const Experiment experiment = descriptor.load_staged(store);
    inputs_ = descriptor.inputs(&experiment);
    const TableModel model = sweep_table_model(experiment, store, table);
    FigureInput input = read_figures(experiment, store, model);
    input.last = std::size_t(last);
    input.sites = sites;
    input.colour = colour;
    for (const CurveProblem& problem : input.problems) tell("{}\n", problem.text());
    ExitCode outcome = model.outcome;
    for (const CurveProblem& problem : input.problems) outcome = std::max(outcome, problem.fault);
    std::map<std::string, std::vector<std::string>> missing;  // reason -> figures
    for (const FigureRow& figure : figure_rows()) {
      if (!only.empty() && std::find(only.begin(), only.end(), figure.word) == only.end()) continue;
      if (draw(figure, experiment, store, input)) continue;
      // A sweep without learning rates or finished trials lacks no measurement.
      if (only.empty() && (!figure.draw || figure.word == "strip")) continue;
      missing[missing_words(figure, input)].emplace_back(figure.word);
      outcome = std::max(outcome, ExitCode::bad_input);
    }
    for (const auto& [reason, figures] : missing) tell("{}: {}\n", joined(figures, ", "), reason);
    return static_cast<int>(outcome);
  }

 private:
  Inputs inputs_;

  /// False if there is nothing to draw.
  bool draw(const FigureRow& figure, const Experiment& experiment, const ResultStore& store,
            const FigureInput& input) const {
    std::vector<Chart> charts;
    if (figure.draw)
      charts = figure.draw(input);
    else if (sweeps_rates(experiment))
      charts = {rates_chart(rates_table(experiment, store))};
    for (const Chart& chart : charts) {
      for (const auto& [name, svg] : chart_files(chart)) write(name, svg);
      write_numbers(chart);
    }
    return !charts.empty();
  }

  TableModel rates_table(const Experiment& experiment, const ResultStore& store) const {
    TableOptions options = table;
    options.lr_sensitivity = true;
    return sweep_table_model(experiment, store, options);
  }

  static bool sweeps_rates(const Experiment& experiment) {
    return std::any_of(experiment.axes.begin(), experiment.axes.end(),
                       [](const auto& axis) { return axis == "train.optimizer.lr"; });
  }

  void write_numbers(const Chart& chart) const {
    write(chart.name + ".csv", chart_csv(chart));
    write(chart.name + ".md", chart_markdown(chart, kMostNumbers));
  }

  void write(const std::string& name, const std::string& text) const {
    const std::filesystem::path path = std::filesystem::path(folder) / name;
    write_output(path, text, inputs_);
    tell_written(path);
  }
};

}  // namespace

void add_figures(Command& app) {
  auto [command, figures] = app.add_command<Figures>(
      "figures", "draw what the trials measured: each figure as SVG, with its numbers as CSV and as a table");
  figures.descriptor.add_file(command);
  figures.descriptor.add_out_or_from(command);
  command.add_option("-o,--output", figures.folder, "folder to write to").show_default().output(Output::folder);
  command.add_option("--only", figures.only, "figures to draw, by name, separated by commas (default: all)")
      .comma_separated();
  command.add_number("--last", figures.last, "gradients, updates: how many of the last measured steps to average", 1,
                     1 << 20);
  command
      .add_option("--sites", figures.sites,
                  "mapping: norms to draw, such as blocks.0.attn.pre,final (default: attn.pre of the first, a middle "
                  "and the last block)")
      .comma_separated();
  command.add_words("--colour", figures.colour, "mapping: what the colours of the points stand for");
  add_row_choice(command, figures.table);
  std::string list = "Figures:\n";
  for (const FigureRow& row : figure_rows()) list += fmt::format("  {:<15} {}\n", row.word, row.doc);
  command.footer(list +
                 "\nExit code 2: a figure lacks its measurements, and a message names the probe to set. The others are "
                 "drawn.");
  command.examples({"normlab figures experiments/placements_gratings.json -o figures",
                    "normlab figures experiments/placements_gratings.json --only strip,curves"});
}

}  // namespace normlab
