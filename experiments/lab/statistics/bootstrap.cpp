#include "experiments/lab/statistics/bootstrap.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/random.h"
#include "experiments/lab/statistics/student.h"

namespace normlab {
namespace {

/// One number per image: the score of a run, or the difference of a pair of runs. [seeds][images].
using Scores = std::vector<std::vector<std::int8_t>>;

void require_same_images(const Correctness& first, const Correctness& other) {
  if (first.images() != other.images() || first.data_hash() != other.data_hash())
    throw InputError(concat("bootstrap: runs were evaluated on different images: ", first.images(), " (",
                            first.data_hash(), ") and ", other.images(), " (", other.data_hash(),
                            "); expected the same"));
}

double mean_score(const std::vector<std::int8_t>& scores) {
  std::int64_t sum = 0;
  for (const std::int8_t score : scores) sum += score;
  return double(sum) / double(scores.size());
}

/// Variance of the estimate over images only: the variance of the images' means over their number.
double images_variance(const Scores& scores, double center) {
  const std::size_t images = scores[0].size();
  double sum = 0;
  for (std::size_t i = 0; i < images; ++i) {
    std::int64_t total = 0;
    for (const auto& seed : scores) total += seed[i];
    const double apart = double(total) / double(scores.size()) - center;
    sum += apart * apart;
  }
  return images < 2 ? 0 : sum / double(images - 1) / double(images);
}

/// The estimates with seeds and images resampled, `resamples` times. Each draw depends only on its index.
std::vector<double> resampled(const Scores& scores, int resamples) {
  const StreamKey seed_key = stream_key(1, "bootstrap", "seeds"), image_key = stream_key(1, "bootstrap", "images");
  const auto seeds = std::uint32_t(scores.size()), images = std::uint32_t(scores[0].size());
  std::vector<double> estimates;
  std::vector<std::int32_t> total(images);  // over the drawn seeds, by image
  for (int r = 0; r < resamples; ++r) {
    std::fill(total.begin(), total.end(), 0);
    for (std::uint32_t s = 0; s < seeds; ++s) {
      const auto& drawn = scores[below(draw(seed_key, s, std::uint64_t(r))[0], seeds)];
      for (std::uint32_t i = 0; i < images; ++i) total[i] += drawn[i];
    }
    std::int64_t sum = 0;
    for (std::uint32_t i = 0; i < images; i += 4) {
      const auto words = draw(image_key, i / 4, std::uint64_t(r));
      for (std::uint32_t w = 0; w < std::min(images - i, 4U); ++w) sum += total[below(words[w], images)];
    }
    estimates.push_back(double(sum) / (double(images) * double(seeds)));
  }
  return estimates;
}

CrossedBootstrap crossed(const Scores& scores, int resamples) {
  CrossedBootstrap result;
  result.seeds = scores.size();
  result.images = std::int64_t(scores[0].size());
  std::vector<double> means;
  for (const auto& seed : scores) means.push_back(mean_score(seed));
  result.estimate = mean(means);
  const double n = double(means.size());
  const double seeds_variance = means.size() < 2 ? 0 : std::pow(sample_sd(means), 2) / n;
  const double over_images = images_variance(scores, result.estimate);
  result.seeds_error = std::sqrt(seeds_variance);
  result.images_error = std::sqrt(over_images);

  const std::vector<double> estimates = resampled(scores, resamples);
  // Resampling n seeds out of n shows (n - 1) / n of their variance; the rest is added.
  const double variance = std::pow(sample_sd(estimates), 2) + seeds_variance / n;
  result.standard_error = std::sqrt(variance);

  const double images_freedom = std::max(double(result.images) - 1, 1.0);
  const double rest = std::max(variance - seeds_variance, 0.0);
  double per_freedom = rest * rest / images_freedom;
  if (means.size() > 1) per_freedom += seeds_variance * seeds_variance / (n - 1);
  result.freedom = per_freedom > 0 ? std::min(variance * variance / per_freedom, images_freedom) : images_freedom;
  result.half_width = student_t_two_sided_quantile(0.05, result.freedom) * result.standard_error;
  return result;
}

}  // namespace

std::optional<CrossedBootstrap> crossed_bootstrap(std::span<const Correctness> runs,
                                                  std::span<const Correctness> baseline, int resamples) {
  if (!baseline.empty() && baseline.size() != runs.size())
    throw InputError(concat("bootstrap: ", runs.size(), " runs and ", baseline.size(),
                            " of the baseline; expected pairs of the same seeds"));
  if (resamples < 100) throw InputError(concat("bootstrap: ", resamples, " resamples; expected 100 or more"));
  if (runs.empty() || runs[0].images() == 0) return std::nullopt;
  Scores scores;
  for (std::size_t s = 0; s < runs.size(); ++s) {
    require_same_images(runs[0], runs[s]);
    if (!baseline.empty()) require_same_images(runs[0], baseline[s]);
    std::vector<std::int8_t>& score = scores.emplace_back();
    for (std::int64_t i = 0; i < runs[0].images(); ++i)
      score.push_back(std::int8_t(runs[s][i] - (baseline.empty() ? 0 : baseline[s][i])));
  }
  return crossed(scores, resamples);
}

}  // namespace normlab
