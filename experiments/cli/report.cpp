#include <algorithm>

#include "core/error.h"
#include "experiments/base/build_info.h"
#include "experiments/base/terminal.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/descriptor_options.h"
#include "experiments/cli/output_file.h"
#include "experiments/cli/table_options.h"
#include "experiments/report/report.h"
#include "experiments/sweep/sweep_table.h"

namespace normlab {
namespace {

struct Report {
  DescriptorOptions descriptor;
  TableOptions table;
  std::vector<std::string> curves;
  std::string file = "report.html", pictures;

  int operator()() const {
    const ResultStore store = descriptor.store();
    const Experiment experiment = descriptor.load_staged(store);
    const TableModel model = sweep_table_model(experiment, store, table);
    const ExperimentCurves read =
        read_curves(experiment, store, curves.empty() ? default_curves(table.metric) : curves);
    for (const std::string& metric : curves) require_metric(read, metric, "--curves");
    const ReportInput input{experiment, store, model, read, utc_time() + " by normlab " + build_version()};
    const std::vector<std::string> problems = report_problems(input);
    for (const std::string& problem : problems) tell("{}\n", problem);
    write_output(file, report_html(input));
    tell_written(file);
    for (const PictureFile& picture : pictures.empty() ? std::vector<PictureFile>() : report_pictures(input)) {
      const std::filesystem::path path = std::filesystem::path(pictures) / picture.name;
      write_output(path, picture.svg);
      tell_written(path);
    }
    return static_cast<int>(std::max(model.outcome, read.outcome()));
  }
};

}  // namespace

void add_report(Command& app) {
  auto [command, report] = app.add_command<Report>(
      "report", "write one HTML file: question, table, gains, learning curves, every trial's config and provenance");
  report.descriptor.add_file(command);
  report.descriptor.add_out_or_from(command);
  command.add_option("-o,--output", report.file, "the file to write").show_default();
  command.add_option("--svg", report.pictures, "folder for the pictures as SVG files of their own");
  command
      .add_option("--curves", report.curves,
                  "metric to draw by step, several times for several; without it that of the table and train/loss")
      .one_each();
  add_selection(command, report.table);
  add_row_choice(command, report.table);
  add_statistics(command, report.table);
  command.footer(
      "Folders are made where they are missing. Exit code 2 after the report: some results cannot be read; it names "
      "them. 3: the disk fails.");
  command.examples({"normlab report experiments/placements_gratings.json -o report.html --svg pictures",
                    "normlab report experiments/placements_cifar10.json --from docs/results/cifar10.jsonl"});
}

}  // namespace normlab
