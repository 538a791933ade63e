#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "core/words.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/output_file.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/pictures/curve_data.h"
#include "experiments/lab/pictures/trial_data.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/trials/exported.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

/// archive: read by --from. csv, jsonl: tables for other programs.
enum class ExportFormat : std::uint8_t { archive, csv, jsonl };
constexpr auto stated_words(ExportFormat) { return words<ExportFormat>("archive", "csv", "jsonl"); }

struct Export {
  DescriptorOptions descriptor;
  std::filesystem::path file;
  ExportFormat format = ExportFormat::archive;
  Option format_option{};
  bool full = false, curves = false, by_row = false, seeds = false, anonymous = false;
  std::string metric = "eval/accuracy";

  int operator()() {
    if (curves && !format_option.given()) format = ExportFormat::csv;
    const bool folder = std::filesystem::is_directory(descriptor.file), archive = format == ExportFormat::archive;
    if (folder) descriptor.refuse_for_folders("this is a folder");
    if (archive && file.empty())
      throw InputError("--output: is required for an archive; give the file to write, such as NAME.jsonl");
    if (archive && (curves || !descriptor.from.empty()))
      throw InputError(fmt::format("{}: needs --format csv or --format jsonl", curves ? "--curves" : "--from"));
    if (archive && descriptor.archived())
      throw InputError(fmt::format("{}: is an archive already; give --format csv or --format jsonl", descriptor.file));
    if (!archive && anonymous) throw InputError("--anonymous: needs --format archive");
    if (!archive && full) throw InputError("--full: needs --format archive; for a table of the curves use --curves");
    if (by_row && (folder || format != ExportFormat::csv))
      throw InputError(
          fmt::format("--by-row: needs {}", folder ? "a descriptor, which says what the rows are" : "--format csv"));
    const ResultStore store = folder ? ResultStore(descriptor.file) : descriptor.store();
    std::optional<Experiment> experiment;
    if (!folder) experiment = descriptor.load_staged(store);
    const Inputs inputs = descriptor.inputs(experiment ? &*experiment : nullptr);
    if (!file.empty()) require_output(file, inputs);
    if (folder && store.trial_ids().empty())
      throw InputError(descriptor.file + ": no results are in this folder; give one with trials/");
    if (by_row) return write_curves(store, *experiment, inputs);
    return archive ? write_archive(store, experiment, inputs)
                   : write_data({store, experiment ? &*experiment : nullptr}, inputs);
  }

  int write_curves(const ResultStore& store, const Experiment& experiment, const Inputs& inputs) const {
    const std::string wanted =
        metric_for(task_of(first_trial(experiment, experiment.rows.front()).config.model), metric);
    const ExperimentCurves read = read_curves(experiment, store, {wanted});
    require_metric(read, wanted, "--metric");
    write_table(curves_csv(read.metrics.front(), seeds), inputs);
    for (const CurveProblem& problem : read.problems) tell("{}\n", problem.text());
    const std::string without = read.without_words();
    if (without.empty()) return static_cast<int>(read.outcome());
    tell("{}\n", without);
    return static_cast<int>(std::max(read.outcome(), ExitCode::bad_input));
  }

  void write_table(const std::string& text, const Inputs& inputs) const {
    const std::filesystem::path target = file.empty() ? "-" : file;
    write_output(target, text, inputs);
    tell_written(target);
  }

  /// Unreadable results are skipped; the exit code and standard error report them.
  int write_data(const TrialSource& source, const Inputs& inputs) const {
    const DataTable table = curves ? curve_data(source) : trial_data(source);
    write_table(data_text(table, format == ExportFormat::csv ? DataFormat::csv : DataFormat::jsonl), inputs);
    for (const std::string& problem : table.problems) tell("{}\n", problem);
    return static_cast<int>(table.outcome);
  }

  int write_archive(const ResultStore& store, const std::optional<Experiment>& experiment, const Inputs& inputs) const {
    std::vector<std::string> ids, stems;
    if (experiment) {
      for (const Trial& trial : experiment->trials) ids.push_back(trial.id);
      stems.push_back(experiment->stem);
    } else {
      ids = store.trial_ids();
      stems = store.experiments();
    }
    using Note = nlohmann::json;
    std::string lines;
    std::size_t trials = 0, bare = 0, uncommitted = 0;
    std::string version;
    for (const std::string& id : ids) {
      const TrialFolder trial = store.trial(id);
      const std::optional<TrialResult> result = trial.load_result();
      if (!result) continue;
      const bool curve = full && (result->status == TrialEnd::failed || has_curve(trial, *result));
      lines += export_line(trial, curve, anonymous);
      ++trials;
      if (const std::string* stated = result->stated("version"); stated != nullptr && is_uncommitted(*stated))
        ++uncommitted, version = *stated;
      bare += full && !curve;
    }
    for (const std::string& stem : stems) {
      const Note plan = experiment ? Note::parse(plan_json(*experiment)) : store.note(stem, kPlanNote);
      if (!plan.is_null()) lines += export_note(stem, kPlanNote, anonymous ? anonymous_plan(plan) : plan);
      for (const char* kind : {"/fixed", "/tabled"})
        for (const std::string& name : store.note_names(stem + kind))
          lines += export_note(stem + kind, name, store.note(stem + kind, name));
    }
    if (trials == 0)
      throw InputError(fmt::format("{}: has no results for {}; train first, or give another folder with --out",
                                   store.out().string(), plural(ids.size(), "trial")));
    write_output(file, lines, inputs);
    if (file != "-")
      tell("wrote {}: {} of {}{}\n", file.string(), trials, plural(ids.size(), "trial"),
           trials < ids.size() ? "; the others have no result" : "");
    if (uncommitted > 0)
      tell(
          "{} of a program from sources that were not committed ({}), which no reader can build; before you publish, "
          "commit, build and train again\n",
          plural(uncommitted, "trial"), version);
    if (bare > 0)
      tell("{} without a curve, merged from an archive that was written without --full\n", plural(bare, "trial"));
    return 0;
  }
};

}  // namespace

void add_export(Command& app) {
  auto [command, options] = app.add_command<Export>(
      "export", "write results into one file: a table of all settings and metrics, or an archive for --from");
  command
      .add_option(
          "what", options.descriptor.file,
          "JSON file that describes the experiment, with results in --out; or a folder of results, to export all of "
          "them")
      .required();
  options.descriptor.add_reading(command);
  options.descriptor.add_out_or_from(command);
  options.format_option =
      command
          .add_choice(
              "--format", options.format,
              "csv, jsonl: a row per trial with every setting and metric; archive: a file that other commands read "
              "with --from")
          .show_default("archive, or with --curves csv");
  Option curves =
      command.add_flag("--curves", options.curves, "csv, jsonl: write a row per trial, step and metric instead");
  command.add_flag("--full", options.full,
                   "archive: add each trial's curves, which --curves, `report` and --select need");
  command.add_flag("--anonymous", options.anonymous,
                   "archive: leave out the host's name and the path to the data's folder");
  command.add_output(Output::stream, "-o,--output", options.file,
                     "file to write; -: standard output (default for csv and jsonl: -)");
  Command by_row = command.add_form(
      command
          .add_flag("--by-row", options.by_row,
                    "curves of one metric: mean, minimum, maximum and number of the seeds of each row by step")
          .needs(curves),
      {"--data", "--set", "--from", "--out", "--format", "--curves", "--output", "WHAT"});
  by_row
      .add_option("--metric", options.metric,
                  "metric to write, one of those in metrics.jsonl; of segmentation eval/miou")
      .show_default();
  by_row.add_flag("--seeds", options.seeds, "write each seed separately: row, seed, step, value");
  command.footer(
      "Each line of an archive holds a trial's settings, its result with the seal, and a seal of the line. It leaves "
      "out checkpoints, states and correct.bits. If a result is damaged, no archive is written and the message names "
      "the result. In csv and jsonl that trial is marked unreadable, and the exit code is 2.\n"
      "Means of --by-row leave out values that are not finite; --seeds prints them as nan and inf. Values are as "
      "stored, so accuracies range from 0 to 1.");
  command.examples({"normlab export experiments/placements_gratings.json --full -o gratings.jsonl",
                    "normlab export experiments/placements_gratings.json --curves --by-row --metric train/loss"});
}

}  // namespace normlab
