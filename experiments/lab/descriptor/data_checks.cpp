#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/descriptor/slice.h"
#include "experiments/lab/descriptor/step_count.h"
#include "experiments/lab/descriptor/trial_checks.h"

namespace normlab {
namespace {

class DataChecks {
 public:
  DataChecks(const TrialConfig& trial, const Report& report) : trial_(trial), report_(report) {}

  void run() const {
    statistics();
    captions();
    if (!distinct_classes()) return;
    if (!slices()) return;  // the next checks need the slices' sizes
    disjoint("train", data().train, "eval", data().eval);
    if (!data().minival.empty()) {
      disjoint("train", data().train, "minival", data().minival);
      disjoint("minival", data().minival, "eval", data().eval);
    }
    if (!data().allow_absent_classes) {
      per_class();
      classes();
      shots();
    }
    const std::optional<std::int64_t> images = known_training_images(data());
    if (images) {
      auto problem = problem_of_steps(trial_.train, *images);
      if (!problem) problem = problem_of_warmup(trial_.train, *images);
      if (problem) return report_("train." + problem->key, concat(problem->key, ": ", problem->what));
    }
    if (const auto problem = problem_of_statistics(trial_, images)) report_(problem->key, problem->what);
  }

 private:
  const DatasetConfig& data() const { return trial_.dataset; }

  void statistics() const {
    const auto size = static_cast<std::size_t>(channels(trial_.model));
    for (const auto& [key, values] : {std::pair("dataset.mean", &data().mean), {"dataset.std", &data().std}})
      if (!values->empty() && values->size() != size)
        report_(key, concat(values->size(), " values for ", size, " channels"));
  }

  bool distinct_classes() const {
    std::set<std::string_view> seen;
    const auto check = [&](const std::string& key, const std::vector<std::string>& names) {
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (seen.insert(names[i]).second) continue;
        report_(concat(key, ".", i), concat("the class ", in_quotes(names[i]), " is given twice"));
        return false;
      }
      return true;
    };
    if (!check("dataset.classes", data().classes)) return false;
    for (const auto& [name, members] : data().class_groups)
      if (!check("dataset.class_groups." + name, members)) return false;
    return true;
  }

  void captions() const {
    if (!data().captions) return;
    if (data().generated() && (data().name != "shapes" || data().label == ShapesLabel::relation))
      report_("dataset.captions",
              concat("only scenes have captions; set dataset.name to \"shapes\" and dataset.label to \"kind\", "
                     "\"colour\" or \"position\""));
    if (!data().generated() && data().layout != DatasetLayout::webdataset)
      report_("dataset.captions", "only layout webdataset has captions, as .txt members beside the images");
  }

  bool slices() const {
    bool right = true;
    const auto check = [&](const char* key, const std::string& text, const std::string& shards, auto&& images) {
      try {
        const std::vector<Slice> slices = parse_slices(text);
        if (slices.size() > 1 && !shards.empty())
          throw InputError(concat("slice ", in_quotes(text), ": its shards are named, so it can be of one split only"));
        for (const Slice& slice : slices) {
          if (data().generated() && slice.split != "train" && slice.split != "test")
            throw InputError(concat("the splits of ", data().name, " are \"train\" and \"test\""));
          if (data().stratified && slice.counts_images())
            throw InputError(concat("slice ", in_quotes(text),
                                    ": counts images, but a stratified slice takes a share of each class; write "
                                    "percentages, or leave dataset.stratified out"));
          for (const std::vector<SliceCut>& cuts : slice.parts)
            for (const auto& [begin, end] : cuts)
              if (begin && end && begin->percent == end->percent && begin->value >= end->value)
                throw InputError(concat("slice ", in_quotes(text), ": is empty"));
        }
        images(data());
      } catch (const InputError& error) {
        report_(key, error.what());
        right = false;
      }
    };
    check("dataset.train", data().train, data().train_shards, known_training_images);
    check("dataset.eval", data().eval, data().eval_shards, known_evaluation_images);
    if (!data().minival.empty()) check("dataset.minival", data().minival, data().train_shards, known_minival_images);
    return right;
  }

  /// Compares slices by name. Skips shards, where file names decide, and subsets, which may be disjoint.
  void disjoint(const char* key, const std::string& slice, const char* other_key, const std::string& other) const {
    const bool whole = data().per_class == 0 && data().fraction == 1;
    if (!data().train_shards.empty() || !data().eval_shards.empty() || !whole) return;
    try {
      const std::string why = shared_images(data(), slice, other);
      if (why.rfind("shares", 0) == 0)
        report_(concat("dataset.", other_key),
                concat(in_quotes(other), " ", why, " dataset.", key, ", ", in_quotes(slice),
                       "; use disjoint parts such as \"train[:90%]\" and \"train[90%:]\""));
    } catch (const InputError& error) {
      report_(concat("dataset.", key), error.what());
    }
  }

  /// 0 if only the files can tell.
  std::int64_t number_of_classes() const {
    const KnownDataset* known = find_dataset(data().name);
    const auto chosen = std::ssize(data().chosen_classes());
    return chosen == 0 && known != nullptr ? known_classes(*known, data()) : chosen;
  }

  void per_class() const {
    const std::int64_t classes = number_of_classes();
    DatasetConfig whole = data();
    whole.per_class = 0;
    whole.fraction = 1;
    const std::optional<std::int64_t> images = known_training_images(whole);
    if (images && data().per_class * classes > *images)
      report_("dataset.per_class", concat(data().per_class, " images for each of ", classes, " classes exceed the ",
                                          *images, " images of the slice"));
  }

  /// Some class has at most the mean number of images. The smallest class is known when they are read.
  void shots() const {
    const std::int64_t classes = number_of_classes();
    const std::optional<std::int64_t> images = known_training_images(data());
    if (classes == 0 || !images) return;
    const std::vector<std::int64_t>& all = trial_.eval.fewshot.shots;
    for (std::size_t i = 0; i < all.size(); ++i)
      if (all[i] > *images / classes)
        report_(concat("eval.fewshot.shots.", i),
                concat(*images, " training images of ", classes, " classes cannot have ", all[i],
                       " of each; give at most ", *images / classes, ", or use more training images"));
  }

  /// Checks generated datasets, where the class is the index mod their number; for others only the files tell.
  void classes() const {
    if (!data().generated() || data().masks != MaskLabels::none) return;
    constexpr std::int64_t kFew = 1000;  // larger slices contain every class
    if (known_training_images(data()).value_or(kFew) >= kFew) return;
    const auto all = static_cast<std::int32_t>(known_classes(*find_dataset(data().name), data()));
    std::vector<bool> seen(static_cast<std::size_t>(all));
    const std::vector<Slice> slices = parse_slices(data().train);
    const std::vector<std::string> names(seen.size());
    for (const Slice& slice : slices) {
      std::vector<std::int32_t> labels(static_cast<std::size_t>(*known_split_images(data(), slice.split)));
      for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = static_cast<std::int32_t>(i) % all;
      try {
        const Subset subset{data().per_class, data().fraction, data().subset_seed, {}, slice_rule(data())};
        for (const std::int64_t i : select_images(slice, subset, data().name, labels, names))
          seen[static_cast<std::size_t>(labels[static_cast<std::size_t>(i)])] = true;
      } catch (const InputError& error) {
        return report_("dataset.per_class", error.what());
      }
    }
    if (const auto absent = std::count(seen.begin(), seen.end(), false); absent > 0)
      report_(slices.front().whole() ? "dataset.train_images" : "dataset.train",
              concat("the training images lack ", absent, " of the ", all,
                     " classes; use more images, or set allow_absent_classes"));
  }

  const TrialConfig& trial_;
  const Report& report_;
};

}  // namespace

void check_data(const TrialConfig& trial, const Report& report) { DataChecks(trial, report).run(); }

}  // namespace normlab
