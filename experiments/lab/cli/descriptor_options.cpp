#include "experiments/lab/cli/descriptor_options.h"

#include <fmt/core.h>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/sweep/stated_classes.h"

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
  return next_stage(read(file, results, stated_classes(results, stem, class_counts(data_root()))), results);
}

}  // namespace normlab
