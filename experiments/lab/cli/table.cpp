#include <fmt/core.h>

#include <algorithm>
#include <filesystem>

#include "core/error.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/tables/sweep_table.h"
#include "experiments/lab/tables/table.h"

namespace normlab {
namespace {

struct TableCommand {
  std::vector<std::filesystem::path> sources;
  DescriptorOptions descriptor;
  TableOptions options;
  TableFormat format = TableFormat::text;
  TableLayout layout{.width = text_columns()};
  bool no_footer = false;
  Option last{};
  std::string other_settings;  // note on trials that ran with different settings

  TableModel model() {
    refuse_unread_last(last, options);
    const bool folders = std::all_of(sources.begin(), sources.end(),
                                     [](const auto& source) { return std::filesystem::is_directory(source); });
    if (folders) {
      descriptor.refuse_for_folders("these are folders");
      return folders_table_model(sources, options);
    }
    if (sources.size() > 1)
      throw InputError(
          fmt::format("{}: is one argument too many; give one descriptor, or any number of folders of results",
                      sources[1].string()));
    descriptor.file = sources.front().string();
    const ResultStore store = descriptor.store();
    const Experiment experiment = descriptor.load_staged(store);
    const auto missing = [&](const Trial& trial) { return !store.trial(trial.id).result_text(); };
    if (store.exported() == nullptr && std::any_of(experiment.trials.begin(), experiment.trials.end(), missing))
      other_settings = other_settings_note(experiment, store);
    return sweep_table_model(experiment, store, options);
  }

  /// Unreadable results do not hide the others; the exit code and standard error report them.
  int operator()() {
    TableModel table = model();
    if (no_footer) table.footer.clear();
    if (format != TableFormat::latex && !(layout.caption + layout.label).empty())
      throw InputError("--caption, --label: need --format latex");
    if (format != TableFormat::latex && layout.wide) throw InputError("--wide: needs --format latex");
    if (options.bold != TableBold::none && format != TableFormat::latex && format != TableFormat::markdown &&
        format != TableFormat::html)
      throw InputError("--bold: needs --format latex, markdown or html");
    const std::string text = render_table(table, format, layout);
    if (format == TableFormat::text || format == TableFormat::markdown)
      print_text("{}", text);
    else
      print_bytes(text);
    for (const std::string& problem : table.problems) tell("{}\n", problem);
    if (!other_settings.empty()) tell("{}\n", other_settings);
    return static_cast<int>(table.outcome);
  }
};

void add_paper(Command& command, TableOptions& options) {
  command
      .add_option("--columns", options.columns,
                  "columns to add, separated by commas: params and macs of the network; seconds, images_per_second and "
                  "peak_mb of its runs, where results record them")
      .comma_separated()
      .one_each();
  command.add_words("--sd", options.sd,
                    "show the standard deviation over seeds in a column of its own (beside), or after the ± (instead)",
                    {"beside", "instead"});
  command.add_flag("--effect-size", options.effect_size,
                   "add each gain over the standard deviation of its paired differences, corrected for few seeds");
  command.add_words("--pairs", options.pairs, "all: compare every two rows of a strip, and list the pairs", {"all"});
  command.add_flag("--letters", options.letters,
                   "with --pairs all: list the rows, and give those that cannot be told apart a common letter");
  command.add_words("--bold", options.bold,
                    "best: latex, markdown, html: set the best mean of the rows that are compared in bold", {"best"});
}

void add_layout(Command& command, TableCommand& table) {
  TableOptions& options = table.options;
  command.add_option("--rows", options.rows, "axes to show down the side of a grid").comma_separated().one_each();
  command.add_option("--cols", options.cols, "axes to show across the top of the grid").comma_separated().one_each();
  command.add_words("--cells", options.cells, "what a cell of the grid shows: mean (default) or gain");
  command.add_choice("--format", table.format, "output format");
  command.add_bounded("--width", table.layout.width,
                      "width of the text in columns (default: the terminal's, or 80 without one)", 40, 10'000);
  command.add_option("--caption", table.layout.caption, "latex: caption of a table around the tabular");
  command.add_option("--label", table.layout.label, "latex: label for \\ref").check([](const std::string& label) {
    constexpr const char* kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789:-_./+ ";
    return label.find_first_not_of(kPlain) == label.npos ? "" : "may have only letters, digits, spaces and : - _ . / +";
  });
  command.add_flag("--wide", table.layout.wide, "latex: a table over both columns of the page (table*)");
  command.add_flag("--no-footer", table.no_footer, "omit the notes below the table");
}

}  // namespace

void add_table(Command& app) {
  auto [command, table] =
      app.add_command<TableCommand>("table", "print the result table of a descriptor, with unfinished cells marked");
  command.add_option("what", table.sources, "JSON file that describes the experiment, or folders of results or trials")
      .required();
  table.descriptor.add_reading(command);
  table.descriptor.add_out_or_from(command);
  table.last = add_selection(command, table.options);
  add_row_choice(command, table.options);
  add_layout(command, table);
  add_statistics(command, table.options);
  add_paper(command, table.options);
  command.footer(
      "Exit code 2 after the table: some results cannot be read. 3: because of the machine. Standard error names them.");
  command.examples(
      {"normlab table experiments/placements_gratings.json --sort -gain",
       "normlab table experiments/placements_cifar10.json --from docs/results/cifar10.jsonl --format latex"});
}

}  // namespace normlab
