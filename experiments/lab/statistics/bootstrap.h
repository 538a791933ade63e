// How far a mean accuracy or a gain would move with other seeds and other test images: both are resampled (crossed
// bootstrap). Owen, "The pigeonhole bootstrap", Annals of Applied Statistics 1 (2007): its variance is too small by at
// most the seeds' factor (n - 1) / n, which is corrected here.
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "experiments/lab/metrics/correctness.h"

namespace normlab {

/// All values are shares of images, 0 to 1 (-1 to 1 for a gain): times 100 for percentage points.
struct CrossedBootstrap {
  double estimate = 0;        // mean over runs and images
  double standard_error = 0;  // over seeds and images
  double seeds_error = 0;     // over seeds only: sample sd of the runs' means over sqrt(n); 0 for one seed
  double images_error = 0;    // over images only
  double freedom = 0;         // Welch-Satterthwaite: seeds - 1 if seeds cause the noise, up to images - 1
  double half_width = 0;      // 95% Student-t quantile with `freedom` degrees times standard_error
  std::size_t seeds = 0;      // 1: seeds cannot be resampled; all numbers concern only the images
  std::int64_t images = 0;
};

/// The mean accuracy of a row's runs; with a baseline the mean of row - baseline, where runs[i] and baseline[i] have the
/// same seed and are resampled together, as are the images. None if there are no runs or no images. InputError if runs were
/// evaluated on different data, or if the numbers of runs differ. `resamples`: at least 100. The numbers are the same on
/// any machine. 10 runs, 10,000 images and 2000 resamples take about a fifth of a second.
std::optional<CrossedBootstrap> crossed_bootstrap(std::span<const Correctness> runs,
                                                  std::span<const Correctness> baseline = {}, int resamples = 2000);

}  // namespace normlab
