#include "experiments/lab/cli/descriptor_options.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "core/error.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/data/data_source.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/tables/table_model.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

/// The plan of an archive, which holds the descriptor.
PlanFile plan_in(const ResultStore& archive) {
  std::vector<PlanFile> plans = read_plan_files(archive);
  std::erase_if(plans, [](const PlanFile& plan) { return plan.whole.json.empty(); });
  const std::string file = archive.out().string();
  if (plans.empty())
    throw InputError(fmt::format(
        "{}: holds no descriptor, as archives of older versions; give the descriptor, and the archive with --from {}",
        file, file));
  if (plans.size() > 1)
    throw InputError(fmt::format(
        "{}: holds several descriptors ({}); copy it into a folder with `normlab merge`, and export one experiment "
        "from there",
        file, first_few(plans, [](const PlanFile& plan) { return plan.stem; })));
  return plans.front();
}

/// A dataset, and the numbers of classes of the trials on it.
using Stated = std::vector<std::pair<DatasetConfig, std::set<std::int64_t>>>;

Stated stated_by(const ResultStore& store, const std::vector<std::string>& ids) {
  Stated stated;
  for (const std::string& id : ids) try {
      const TrialConfig config = read_trial_config(store.trial(id));
      auto known = std::find_if(stated.begin(), stated.end(), [&](const auto& s) { return s.first == config.dataset; });
      if (known == stated.end()) known = stated.insert(stated.end(), {config.dataset, {}});
      known->second.insert(num_classes(config.model));
    } catch (const Error&) {  // not begun, or damaged, which the command reports
    }
  return stated;
}

std::optional<std::int64_t> only_count(const Stated& stated, const DatasetConfig& dataset) {
  for (const auto& [known, counts] : stated)
    if (known == dataset && counts.size() == 1) return *counts.begin();
  return std::nullopt;
}

/// The number of classes that trials on the same dataset state: those of the last run of `stem`, otherwise all trials
/// in the store. Where they state none, or several, `otherwise` decides.
ClassCounts stated_classes(const ResultStore& store, const std::string& stem, const ClassCounts& otherwise) {
  // Read when first needed: a descriptor may state the number itself.
  std::optional<Stated> of_plan, of_all;
  return [store, stem, otherwise, of_plan, of_all](const DatasetConfig& dataset) mutable {
    if (!of_plan) {
      std::vector<std::string> ids;
      if (const std::optional<PlanFile> plan = read_plan_file(store, stem))
        for (const PlannedTrial& trial : plan->trials) ids.push_back(trial.id);
      of_plan = stated_by(store, ids);
    }
    if (const auto count = only_count(*of_plan, dataset)) return *count;
    if (!of_all) of_all = stated_by(store, store.trial_ids());
    if (const auto count = only_count(*of_all, dataset)) return *count;
    return otherwise(dataset);
  };
}

}  // namespace

Experiment DescriptorOptions::read(const std::filesystem::path& descriptor, const ResultStore& results,
                                   const ClassCounts& classes) const {
  if (!is_archive(descriptor)) return load_experiment(descriptor, sets, kMaxTrials, classes);
  const bool same = results.exported() != nullptr && results.out() == descriptor;
  const PlanFile plan = plan_in(same ? results : ResultStore::exported(descriptor));
  return load_experiment(plan.whole, descriptor, plan.stem, sets, kMaxTrials, classes);
}

Experiment DescriptorOptions::load(const std::string& descriptor) const {
  const auto classes = [&, of_data = class_counts(data_root())](const DatasetConfig& dataset) {
    try {
      return of_data(dataset);
    } catch (const InputError& missing) {
      const auto refuse = [&](const DatasetConfig&) -> std::int64_t { throw InputError(missing.what()); };
      return stated_classes(is_archive(descriptor) ? ResultStore::exported(descriptor) : store(),
                            std::filesystem::path(descriptor).stem().string(), refuse)(dataset);
    }
  };
  return read(descriptor, ResultStore(out), classes);
}

void DescriptorOptions::refuse_for_folders(const std::string& these) const {
  for (const auto& [option, given] : {std::pair{"--set", !sets.empty()}, {"--from", !from.empty()}})
    if (given)
      throw InputError(fmt::format("{0}: applies to a descriptor, but {1} of results; leave {0} out", option, these));
}

Experiment DescriptorOptions::load_staged(const ResultStore& results) const {
  const std::string stem = std::filesystem::path(file).stem().string();
  Experiment experiment =
      next_stage(read(file, results, stated_classes(results, stem, class_counts(data_root()))), results);
  const std::vector<std::string> found = from.empty() ? std::vector<std::string>() : results.trial_ids();
  if (!found.empty() && std::none_of(experiment.trials.begin(), experiment.trials.end(), [&](const Trial& trial) {
        return std::find(found.begin(), found.end(), trial.id) != found.end();
      }))
    tell("{}: none of its {} belongs to {}\n", from, plural(found.size(), "trial"), file);
  return experiment;
}

void add_data_source(Command& command, DataSource& source) {
  command.add_option("dataset", source.dataset, "name of a known data set, or a folder: in the data root or any path")
      .required();
  command.add_choice("--layout", source.layout, "layout of the folder's files");
  command.add_option("--data", source.root, "folder of the data sets (default: NORMLAB_DATA, else ./data)");
  command
      .add_option("--slice", source.slices,
                  "slice such as \"train\" or \"train[:99%]\"; may be repeated (default: every split)")
      .one_each();
  command.add_flag("--stratified", source.stratified,
                   "cut the percentages of slices from each class (dataset.stratified)");
  command
      .add_option("--slice-seed", source.slice_seed,
                  "seed of the permutation that slices are cut from (dataset.slice_seed)")
      .show_default();
  command.add_option("--shards", source.shards,
                     "webdataset: file names such as \"pets-{0000..0146}.tar\"; needs exactly one --slice");
  command.add_option("--labels", source.labels, "image_list, image_folder: file of labels");
  add_label_options(command, source.labels_from, source.class_order);
  command.add_number("--threads", source.threads, "how many cores to use", 1, 1024).show_default("all cores");
}

void add_label_options(Command& command, std::optional<int>& labels_from, std::string& class_order,
                       const std::function<void(Option)>& change) {
  change(command.add_bounded(
      "--labels-from", labels_from,
      "the first number of labels that are numbers (default: the only one of 0 and 1 that fits; for webdataset and idx "
      "0)",
      0, 1));
  change(command.add_option(
      "--class-order", class_order,
      "order of the classes of image_folder, image_list and tiny_imagenet, by which labels count: bytes (10 before 2), "
      "natural (2 before 10), or a file in the data set's folder with a class name per line (default: bytes, or for "
      "image_list classes.txt)"));
}

Option add_selection(Command& command, TableOptions& options) {
  command.add_option("--metric", options.metric, "metric to show; of segmentation eval/miou").show_default();
  command.add_words(
      "--select", options.select,
      "evaluation that represents a run: the last, the one with the best minival/accuracy, or the mean of the last few "
      "(default: last)");
  const Option last =
      command.add_number("--last", options.last_k, "number of evaluations that mean_last_k averages", 1, 1'000'000);
  command.add_words(
      "--diverged", options.diverged,
      "leave diverged runs out (exclude, the default), or count them at the accuracy of guessing (chance)");
  return last;
}

void refuse_unread_last(const Option& last, const TableOptions& options) {
  if (last.given() && options.select != TableSelect::mean_last_k)
    throw InputError("--last: only --select mean_last_k averages evaluations; add it, or leave --last out");
}

void add_row_choice(Command& command, TableOptions& options) {
  command.add_option(
      "--where", options.where,
      "show only rows that match, by axes and columns: 'placement = dpn and (gain > 0.5 or lr != 1e-3)'");
  command.add_option("--sort", options.sort, "sort the rows by an axis or a column; -gain: in descending order");
}

void add_statistics(Command& command, TableOptions& options) {
  command.add_words("--family", options.family,
                    "rows whose intervals hold jointly: those of one baseline (strip, the default), or all (table)");
  command.add_option("--detect", options.detect, "show how many seeds a gain of this size needs, in the table's units");
  command.add_option("--equivalent", options.equivalent,
                     "test whether each row is within this margin of the baseline, in the table's units");
  command.add_option(
      "--order", options.order,
      "show how far the rows of this axis are in the same order beside each baseline, as on two data sets");
  command.add_words("--to-match", options.to_match,
                    "show after how many of its epochs or steps the baseline is as good as the row at its end",
                    {"epochs", "steps"});
  command.add_option("--learned", options.learned,
                     "note rows whose training loss at the end is above this share of that of the first step");
  command.add_flag("--bootstrap", options.bootstrap,
                   "add intervals over new test images, and McNemar's test if the table is one pair of runs");
  command.add_flag(
      "--lr-sensitivity", options.lr_sensitivity,
      "show how much the training loss depends on the learning rate; the descriptor sweeps over train.optimizer.lr");
}

}  // namespace normlab
