#include "experiments/lab/statistics/bootstrap.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "core/error.h"
#include "core/random.h"

using namespace normlab;

namespace {

/// Runs of a row: an image is classified correctly where difficulty + effect of the seed + noise is above 0.
std::vector<Correctness> simulated(std::uint64_t world, int seeds, int images, double shift, double seed_sd,
                                   std::string_view row = "row") {
  const StreamKey image = stream_key(world, "bootstrap-test", "images"), own = stream_key(world, "bootstrap-test", row);
  std::vector<Correctness> runs;
  for (int s = 0; s < seeds; ++s) {
    runs.emplace_back(images, "data");
    const double effect = seed_sd * normal(own, std::uint64_t(s));
    for (int i = 0; i < images; ++i)
      runs.back().set(i, 0.7 + shift + effect + normal(image, std::uint64_t(i)) +
                                 0.7 * normal(own, std::uint64_t(1000 + s * images + i)) >
                             0);
  }
  return runs;
}

/// A baseline and a row that is better, on the same seeds and images.
struct Pair {
  std::vector<Correctness> base = simulated(3, 4, 1000, 0, 0.1), row = simulated(3, 4, 1000, 0.1, 0.1);
  std::optional<CrossedBootstrap> gain() const { return crossed_bootstrap(row, base); }
};

}  // namespace

TEST_CASE("bootstrap: with one seed the error is that of a proportion") {
  const auto runs = simulated(1, 1, 2000, 0, 0);
  const auto result = crossed_bootstrap(runs);
  const double p = double(runs[0].count()) / 2000;
  CHECK(result->estimate == doctest::Approx(p).epsilon(1e-12));
  CHECK(result->seeds == 1);
  CHECK(result->seeds_error == 0);
  CHECK(result->images_error == doctest::Approx(std::sqrt(p * (1 - p) / 1999)).epsilon(1e-9));
  CHECK(result->standard_error == doctest::Approx(result->images_error).epsilon(0.06));
  CHECK(result->freedom == 1999);
  CHECK(result->half_width == doctest::Approx(1.961 * result->standard_error).epsilon(1e-3));
}

TEST_CASE("bootstrap: images that are all alike leave only the noise of the seeds") {
  // Each run is right everywhere or nowhere: images add nothing, and the bias of drawing n of n is corrected.
  std::vector<Correctness> runs;
  for (int s = 0; s < 5; ++s) {
    runs.emplace_back(64, "data");
    for (int i = 0; i < 64; ++i) runs.back().set(i, s < 2);
  }
  const auto result = crossed_bootstrap(runs, {}, 20'000);
  const double error = std::sqrt(0.3 / 5);  // variance of {1, 1, 0, 0, 0} is 0.3
  CHECK(result->estimate == 0.4);
  CHECK(result->images_error == 0);
  CHECK(result->seeds_error == doctest::Approx(error).epsilon(1e-12));
  CHECK(result->standard_error == doctest::Approx(error).epsilon(0.02));
  CHECK(result->freedom == doctest::Approx(4).epsilon(0.1));
}

TEST_CASE("bootstrap: a gain is paired by seed and image") {
  const Pair pair;
  const auto gain = pair.gain();
  CHECK(gain->estimate ==
        doctest::Approx(crossed_bootstrap(pair.row)->estimate - crossed_bootstrap(pair.base)->estimate).epsilon(1e-9));
  CHECK(gain->standard_error < 0.5 * crossed_bootstrap(pair.row)->standard_error);  // common images and draws cancel
  CHECK(crossed_bootstrap(pair.row, pair.row)->standard_error == 0);
}

TEST_CASE("bootstrap: the standard error of a gain never changes") {
  CHECK(Pair().gain()->standard_error == doctest::Approx(0.0046435283067836767).epsilon(1e-12));
}

TEST_CASE("bootstrap: intervals cover the truth over new seeds and new images") {
  // The truth is the expectation over both: P(0.7 + N(0, 1 + 0.49 + 0.04) > 0).
  const double truth = normal_cdf(0.7 / std::sqrt(1 + 0.49 + 0.04));
  int covered = 0;
  constexpr int kWorlds = 400;
  for (int world = 0; world < kWorlds; ++world) {
    const auto result = crossed_bootstrap(simulated(std::uint64_t(world), 4, 300, 0, 0.2), {}, 200);
    covered += std::abs(result->estimate - truth) <= result->half_width;
  }
  MESSAGE("covered ", 100.0 * covered / kWorlds, "%");
  CHECK(covered > 0.93 * kWorlds);
}

TEST_CASE("bootstrap: no interval without runs or images") {
  CHECK(!crossed_bootstrap({}));
  CHECK(!crossed_bootstrap(std::vector<Correctness>{Correctness(0, "data")}));
}

TEST_CASE("bootstrap: runs of other seeds or images cannot be compared") {
  const auto runs = simulated(1, 2, 50, 0, 0.1);
  CHECK_THROWS_WITH_AS(crossed_bootstrap(simulated(1, 3, 50, 0, 0.1), runs),
                       "bootstrap: 3 runs and 2 of the baseline; expected pairs of the same seeds", InputError);
  CHECK_THROWS_WITH_AS(crossed_bootstrap(simulated(1, 2, 51, 0, 0.1), runs),
                       doctest::Contains("images: 51 (data) and 50 (data); expected the same"), InputError);
  CHECK_THROWS_WITH_AS(crossed_bootstrap(std::vector<Correctness>{Correctness(8, "data"), Correctness(8, "other")}),
                       doctest::Contains("images: 8 (data) and 8 (other); expected the same"), InputError);
}

TEST_CASE("bootstrap: fewer than 100 resamples are refused") {
  CHECK_THROWS_WITH_AS(crossed_bootstrap(simulated(1, 2, 50, 0, 0.1), {}, 10),
                       "bootstrap: 10 resamples; expected 100 or more", InputError);
}
