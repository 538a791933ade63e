#include "experiments/lab/train/few_shot.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/eval_transform.h"
#include "experiments/lab/data/picked_images.h"
#include "experiments/lab/statistics/student.h"
#include "nn/training/engine.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {

std::vector<std::size_t> all_chosen(const FewShotConfig& config, const ImageSet& train) {
  std::set<std::size_t> chosen;
  const std::int64_t most = *std::max_element(config.shots.begin(), config.shots.end());
  for (const std::int64_t seed : config.seeds)
    for (const std::size_t i : few_shot_choice(train.labels, train.num_classes, static_cast<std::uint64_t>(seed), most))
      chosen.insert(i);
  return {chosen.begin(), chosen.end()};
}

}  // namespace

void require_finite(const std::vector<double>& features, std::size_t width,
                    FunctionRef<std::string(std::int64_t row)> name) {
  const auto found = std::find_if(features.begin(), features.end(), [](double value) { return !std::isfinite(value); });
  if (found == features.end()) return;
  const auto at = static_cast<std::size_t>(found - features.begin());
  throw NonFiniteError(fmt::format("{}: feature {} is {}", name(std::int64_t(at / width)), at % width, *found), *found);
}

Features features_of(Engine& engine, BatchSource& batches, const ImageSet& images, ShardPool& pool) {
  Features all;
  std::vector<double> some;
  for (std::int64_t first = 0; first < images.size(); first += kEvaluatedAtOnce) {
    const std::int64_t count = std::min(kEvaluatedAtOnce, images.size() - first);
    engine.features(batches.evaluation(first, count, pool).images, some);
    all.width = some.size() / static_cast<std::size_t>(count);
    require_finite(some, all.width, [&](std::int64_t row) { return numbered_image(images, first + row); });
    all.values.insert(all.values.end(), some.begin(), some.end());
  }
  return all;
}

void require_shots(const TrialConfig& config, const ImageSet& train, std::string_view setting) {
  const std::vector<std::int64_t>& shots = config.eval.fewshot.shots;
  if (shots.empty()) return;
  std::vector<std::int64_t> images(static_cast<std::size_t>(train.num_classes));
  for (const std::int32_t label : train.labels) ++images[static_cast<std::size_t>(label)];
  const std::int64_t most = *std::max_element(shots.begin(), shots.end());
  const auto rank = [](std::int64_t n) { return n == 0 ? std::numeric_limits<std::int64_t>::max() : n; };
  const auto least = std::min_element(images.begin(), images.end(), [&](auto a, auto b) { return rank(a) < rank(b); });
  if (most > rank(*least))
    throw InputError(fmt::format(
        "{}: {} images per class are more than the {} training images of class {}; give at most {}, or use more "
        "training images",
        setting, most, *least, in_quotes(train.class_names[static_cast<std::size_t>(least - images.begin())]), *least));
}

FewShotEvaluation::FewShotEvaluation(const TrialConfig& config, const DataPair& data, DType dtype)
    : config_(config),
      data_(data),
      chosen_(all_chosen(config.eval.fewshot, data.train)),
      images_(picked_images(data.train, chosen_)),
      batches_(config, data.train, images_, dtype) {}

std::vector<std::vector<double>> FewShotEvaluation::accuracies(Engine& engine, BatchSource& eval, ShardPool& pool) {
  const FewShotConfig& config = config_.eval.fewshot;
  const ImageSet& all = data_.train;
  const Features train = features_of(engine, batches_, images_, pool),
                 test = features_of(engine, eval, data_.eval, pool);
  std::vector<std::vector<double>> accuracies;
  for (const std::int64_t shots : config.shots) {
    std::vector<double>& of_seeds = accuracies.emplace_back();
    for (const std::int64_t seed : config.seeds) {
      Features some{train.width};
      std::vector<std::int32_t> labels;
      for (const std::size_t i :
           few_shot_choice(all.labels, all.num_classes, static_cast<std::uint64_t>(seed), shots)) {
        const auto at = static_cast<std::size_t>(std::lower_bound(chosen_.begin(), chosen_.end(), i) - chosen_.begin());
        some.values.insert(some.values.end(), train.row(at).begin(), train.row(at).end());
        labels.push_back(all.labels[i]);
      }
      const std::vector<std::int32_t> found =
          FewShotClassifier(some, labels, all.num_classes, config.l2).predictions(test);
      std::int64_t right = 0;
      for (std::size_t i = 0; i < found.size(); ++i) right += found[i] == data_.eval.labels[i];
      of_seeds.push_back(double(right) / double(found.size()));
    }
  }
  return accuracies;
}

std::map<std::string, double> FewShotEvaluation::measure(Engine& engine, BatchSource& eval, ShardPool& pool,
                                                         const std::string& prefix) {
  std::map<std::string, double> measured;
  const std::vector<std::vector<double>> all = accuracies(engine, eval, pool);
  for (std::size_t s = 0; s < all.size(); ++s) {
    const std::string name = fmt::format("{}{}shot_accuracy", prefix, config_.eval.fewshot.shots[s]);
    measured[name] = std::accumulate(all[s].begin(), all[s].end(), 0.0) / double(all[s].size());
    const auto half_width = mean_interval(all[s])->half_width;
    if (half_width && config_.eval.fewshot.half_width) measured[name + "_half_width"] = *half_width;
  }
  return measured;
}

}  // namespace normlab
