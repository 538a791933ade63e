// How far a mean accuracy, or a gain, would move with other seeds AND other test images: both are drawn again, crossed.
// Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1 (2007): its variance is never too small by more than
// the seeds' factor (n - 1) / n, which is put right here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "experiments/statistics/correctness.h"

namespace normlab {

struct BootstrapOptions {
  int resamples = 2000;    // at least 100
  std::uint64_t seed = 1;  // the same seed gives the same numbers, on any machine
  double level = 0.95;
};

/// All in shares of images, 0 to 1 (-1 to 1 for a gain): times 100 for percentage points.
struct CrossedBootstrap {
  double estimate = 0;        // mean over runs and images
  double standard_error = 0;  // over seeds and images
  double seeds_error = 0;     // over seeds alone: sample sd of the runs' means over sqrt(n); 0 for one seed
  double images_error = 0;    // over images alone
  double freedom = 0;         // Welch-Satterthwaite: seeds - 1 where seeds make the noise, up to images - 1
  double half_width = 0;      // Student-t quantile on `freedom` degrees times standard_error
  std::size_t seeds = 0;      // 1: seeds could not be drawn again; all the numbers speak of the images alone
  std::int64_t images = 0;
};

/// The mean accuracy of a row's runs. None for no runs or no images. InputError where runs were evaluated on other
/// data. 10 runs, 10,000 images, 2000 resamples: about a fifth of a second.
std::optional<CrossedBootstrap> bootstrap_mean(std::span<const Correctness> runs, const BootstrapOptions& options = {});

/// The mean of row - baseline, runs[i] and baseline[i] being one seed: drawn again together, as are the images. As many
/// of one as of the other, InputError otherwise.
std::optional<CrossedBootstrap> bootstrap_gain(std::span<const Correctness> baseline, std::span<const Correctness> runs,
                                               const BootstrapOptions& options = {});

}  // namespace normlab
