#include "experiments/lab/metrics/class_scores.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace normlab {
namespace {

std::int64_t sum_of(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t(0));
}

/// -p log p
double entropy_part(double p) { return p > 0 ? -p * std::log(p) : 0.0; }

double classes_with_any(std::span<const std::int64_t> counts) {
  return double(std::ssize(counts) - std::count(counts.begin(), counts.end(), 0));
}

}  // namespace

bool among_top_answers(std::span<const double> scores, std::int32_t label) {
  const auto own = static_cast<std::size_t>(label);
  std::size_t before = 0;
  for (std::size_t c = 0; c < scores.size() && before < kTopAnswers; ++c)
    before += scores[c] > scores[own] || (scores[c] == scores[own] && c < own) ? 1 : 0;
  return before < kTopAnswers;
}

void ClassScores::add(std::int32_t label, std::int32_t answer, bool among_top) {
  ++images_[static_cast<std::size_t>(label)];
  right_[static_cast<std::size_t>(label)] += label == answer ? 1 : 0;
  among_top_ += among_top ? 1 : 0;
}

double ClassScores::accuracy() const { return double(sum_of(right_)) / double(sum_of(images_)); }

double ClassScores::top5_accuracy() const { return double(among_top_) / double(sum_of(images_)); }

double ClassScores::balanced_accuracy() const {
  double sum = 0;
  for (std::size_t c = 0; c < images_.size(); ++c) sum += accuracy_of(c).value_or(0);
  return sum / classes_with_any(images_);
}

std::optional<double> ClassScores::accuracy_of(std::size_t a_class) const {
  if (images_[a_class] == 0) return std::nullopt;
  return double(right_[a_class]) / double(images_[a_class]);
}

std::map<std::string, double> constant_answer(std::span<const std::int64_t> images, bool sigmoid) {
  const double n = double(sum_of(images));
  if (n == 0) return {};
  std::vector<std::int64_t> most(images.begin(), images.end());
  std::sort(most.begin(), most.end(), std::greater<>());
  double loss = 0;
  for (const std::int64_t count : most) {
    const double p = double(count) / n;
    loss += entropy_part(p) + (sigmoid ? entropy_part(1 - p) : 0.0);
  }
  const std::span<const std::int64_t> top(most.data(), std::min(kTopAnswers, most.size()));
  return {{"accuracy", double(most.front()) / n},
          {"balanced_accuracy", 1 / classes_with_any(most)},
          {"top5_accuracy", double(sum_of(top)) / n},
          {"loss", loss}};
}

std::map<std::string, double> constant_pixels(std::span<const std::int64_t> pixels) {
  const std::map<std::string, double> answer = constant_answer(pixels, false);
  if (answer.empty()) return {};
  // The intersection over union of the class that is answered is its share, and 0 for the others.
  return {{"miou", answer.at("accuracy") * answer.at("balanced_accuracy")},
          {"pixel_accuracy", answer.at("accuracy")},
          {"loss", answer.at("loss")}};
}

}  // namespace normlab
