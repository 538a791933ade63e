// Checks a descriptor, and the files that it names as far as that takes no reading of images.
#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <optional>
#include <set>
#include <vector>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/formula_check.h"
#include "experiments/lab/data/dataset_place.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/schema.h"
#include "experiments/lab/descriptor/slice.h"
#include "experiments/lab/descriptor/step_count.h"
#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/sweep/trial_seconds.h"
#include "experiments/lab/train/batches.h"
#include "experiments/lab/weights/start.h"

namespace normlab {
namespace {

struct Check {
  DescriptorOptions options;
  bool schema = false, keys = false;

  int operator()() const {
    if (schema || keys) return print_bytes((keys ? describe_fields() : json_schema()) + "\n"), 0;
    if (options.file.empty())
      throw InputError("check: give a descriptor, or --keys to list the keys that one may have");
    std::vector<std::string> unchecked;
    // If the number of classes depends on absent data, any number does; the output does not depend on it.
    constexpr std::int64_t kAnyNumber = 2;
    const auto classes = [&, of_data = class_counts(options.data_root())](const DatasetConfig& dataset) {
      return found([&] { return of_data(dataset); }, unchecked,
                   fmt::format("the number of classes; model.num_classes is left out and the classes of {} cannot be "
                               "counted here",
                               in_quotes(dataset.name)))
          .value_or(kAnyNumber);
    };
    const Experiment experiment = load_experiment(options.file, options.sets, kMaxTrials, classes);
    check_splits(experiment);
    check_data(experiment, unchecked);
    check_slices(experiment, unchecked);
    check_starts(experiment, unchecked);
    std::vector<std::string> notes;
    for (const Cell& row : experiment.rows)
      for (const std::string& what : formula_notes(first_trial(experiment, row).config.model))
        if (std::find(notes.begin(), notes.end(), what) == notes.end()) notes.push_back(what);
    print_text("{}: fine, {}, {}\n", options.file, plural(experiment.rows.size(), "row"),
               trials_words(experiment, trials_ahead(experiment)));
    for (const std::string& what : notes) print_text("Note: {}\n", what);
    for (const std::string& what : experiment.repeated_rows) print_text("Note: {}\n", what);
    for (const std::string& what : unchecked) print_text("Not checked: {}\n", what);
    return 0;
  }

 private:
  static void note(std::vector<std::string>& unchecked, const std::string& what, const std::string& why) {
    const std::string line = concat(what, ": ", why);
    if (std::find(unchecked.begin(), unchecked.end(), line) == unchecked.end()) unchecked.push_back(line);
  }
  /// Nothing, with a line in `unchecked`, if what is looked up is not here.
  template <class F>
  static std::optional<std::invoke_result_t<F>> found(F&& look_up, std::vector<std::string>& unchecked,
                                                      const std::string& what) {
    try {
      return look_up();
    } catch (const InputError& error) {
      note(unchecked, what, error.what());
      return std::nullopt;
    }
  }

  /// The splits of data that are here, where folders or names of shards tell them.
  void check_splits(const Experiment& experiment) const {
    std::set<std::string> checked;
    for (const Trial& trial : experiment.trials) {
      const DatasetConfig& dataset = trial.config.dataset;
      const bool by_name =
          dataset.layout == DatasetLayout::image_folder ||
          (dataset.layout == DatasetLayout::webdataset && dataset.train_shards.empty() && dataset.eval_shards.empty());
      TrialConfig sole;
      sole.dataset = dataset;
      if (!by_name || !checked.insert(canonical_json(sole)).second) continue;
      std::vector<std::string> absent;
      const auto place = found([&] { return find_dataset_place(dataset, options.data_root()); }, absent, "");
      if (!place) continue;
      const std::vector<std::string> splits = dataset_splits(*place);
      for (const auto& [key, slices] :
           {std::pair("train", &dataset.train), {"eval", &dataset.eval}, {"minival", &dataset.minival}}) {
        if (slices->empty()) continue;
        for (const Slice& slice : parse_slices(*slices))
          if (std::find(splits.begin(), splits.end(), slice.split) == splits.end())
            throw InputError(fmt::format("dataset.{}: {} has no split {}, only {}", key, place->folder.string(),
                                         in_quotes(slice.split), fmt::join(splits, ", ")));
      }
    }
  }

  /// Slices and classes of data that are here, by their files, of which none is decoded.
  void check_slices(const Experiment& experiment, std::vector<std::string>& unchecked) const {
    TrialSeconds data(experiment, {}, options.data_root(), 1);  // refuses what does not fit; measures nothing
    for (const Trial& trial : experiment.trials)
      if (!data.slices(trial.config.dataset).sizes.train && statistics_need_images(trial.config))
        note(unchecked, "the last batch of an epoch",
             concat("the images of ", in_quotes(trial.config.dataset.name), " cannot be counted here"));
  }

  /// The names of classes, and the size of a vocabulary.
  void check_data(const Experiment& experiment, std::vector<std::string>& unchecked) const {
    std::set<std::string> checked;
    for (const Trial& trial : experiment.trials) {
      const DatasetConfig& dataset = trial.config.dataset;
      const std::vector<std::string> wanted = dataset.chosen_classes();
      if (wanted.empty() && !has_text(trial.config.model)) continue;
      TrialConfig sole;
      sole.dataset = dataset;
      sole.model = trial.config.model;
      if (!checked.insert(canonical_json(sole)).second) continue;
      const auto of_dataset = [&](std::string_view what) { return concat(what, " of ", in_quotes(dataset.name)); };
      if (!wanted.empty())
        if (const auto names = found([&] { return class_names_of(dataset, options.data_root()); }, unchecked,
                                     of_dataset("the names of the classes")))
          require_class_names(dataset.name, wanted, *names);
      if (has_text(trial.config.model))
        if (const auto tokeniser = found([&] { return tokeniser_of(dataset, options.data_root()); }, unchecked,
                                         of_dataset("the vocabulary")))
          require_vocabulary(trial.config, *tokeniser);
    }
  }

  static void check_starts(const Experiment& experiment, std::vector<std::string>& unchecked) {
    std::vector<std::size_t> here;
    for (std::size_t t = 0; t < experiment.trials.size(); ++t) {
      const std::string& file = experiment.trials[t].config.start.file;
      if (file.empty()) continue;
      if (std::filesystem::exists(file))
        here.push_back(t);
      else
        note(unchecked, "the weights to start from", concat(file, " is not here"));
    }
    check_start_files(experiment, here);
  }
};

}  // namespace

void add_check(Command& app) {
  auto [command, check] = app.add_command<Check>("check", "check a descriptor and report all its errors at once");
  check.options.add_file(command, false);
  Option schema = command.add_flag("--schema", check.schema, "print the JSON Schema of descriptors, for editors");
  Option keys = command.add_flag("--keys", check.keys, "print all keys and their defaults as a Markdown table");
  command.add_form(schema, {"--keys"});
  command.add_form(keys, {"--schema"});
  command.examples(
      {"normlab check experiments/placements_gratings.json", "normlab check --schema > descriptor.schema.json"});
}

}  // namespace normlab
