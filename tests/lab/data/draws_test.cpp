#include "experiments/lab/data/draws.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>
#include <set>
#include <vector>

using namespace normlab;

namespace {
const StreamKey kKey = stream_key(5, "augment", "cat/1.jpg");
}

TEST_CASE("draws: crop and flip use the first words") {
  CHECK(AugmentDraws(kKey, 7).words(DrawName::crop_and_flip) == draw(kKey, 0, 7));
}

TEST_CASE("draws: no two draws of an image share words") {
  std::set<std::array<std::uint32_t, 4>> seen;
  for (const std::int64_t repeat : {0, 1, 2}) {
    for (const std::int64_t epoch : {0, 1, 7}) {
      for (const DrawName name : {DrawName::crop_and_flip, DrawName::crop_box, DrawName::mix_box}) {
        for (const std::uint32_t index : {0u, 1u, 0xffffffffu})
          seen.insert(AugmentDraws(kKey, epoch, repeat).words(name, index));
      }
    }
  }
  CHECK(seen.size() == 3 * 3 * 3 * 3);
}

TEST_CASE("draws: the numbers never change") {
  const AugmentDraws draws(kKey, 3, 1);
  CHECK(draws.words(DrawName::crop_box, 2) == draw(kKey, (1ull << 48) + (1ull << 32) + 2, 3));
  CHECK(draws.uniform(DrawName::erasing_box) == 0.71294631118539409);
  CHECK(draws.below(1000003, DrawName::randaugment_operation, 1) == 93980u);
  CHECK(draws.normal(DrawName::randaugment_magnitude) == doctest::Approx(-0.39423698947184987).epsilon(1e-14));
  CHECK(draws.beta(0.8, 0.8, DrawName::mix_lambda) == doctest::Approx(0.36342723720388459).epsilon(1e-12));
}

TEST_CASE("draws: below() is the top of the product with 64 bits") {
  for (std::uint32_t i = 0; i < 70000; ++i) {
    const AugmentDraws draws(kKey, 0);
    const auto w = draws.words(DrawName::jitter_order, i);
    const std::uint32_t got = draws.below(7, DrawName::jitter_order, i);
    REQUIRE(got == static_cast<std::uint32_t>(static_cast<double>(w[0]) * 0x1p-32 * 7));
    // In exact arithmetic with another n, in two halves: floor(w n / 2^64) = h where h 2^64 <= w n < (h + 1) 2^64.
    const std::uint32_t n = 0xfffffffbu, h = draws.below(n, DrawName::jitter_order, i);
    const std::uint64_t high = std::uint64_t{w[0]} * n, low = std::uint64_t{w[1]} * n;
    const std::uint64_t middle = (high & 0xffffffffu) + (low >> 32);
    REQUIRE(h == (high >> 32) + (middle >> 32));
  }
}

TEST_CASE("draws: below() gives every value equally often") {
  std::vector<int> counts(7);
  for (std::uint32_t i = 0; i < 70000; ++i) ++counts[AugmentDraws(kKey, 0).below(7, DrawName::jitter_order, i)];
  double chi = 0;
  for (const int count : counts) chi += (count - 10000.0) * (count - 10000.0) / 10000;
  CHECK(chi < 22.46);  // 0.1% of a chi-square with 6 degrees of freedom lies above
}

TEST_CASE("draws: quantiles of Beta equal values computed with 40 digits") {
  struct Known {
    double p, a, b, x;
  };
  const Known known[] = {{0.3, 0.8, 0.8, 0.273430334163628684},     {0.01, 0.2, 0.2, 2.4780562407696325e-9},
                         {0.45, 0.2, 0.2, 0.347286735143156947},    {0.05, 2.5, 7, 0.0715299926825301576},
                         {0.4, 7, 2.5, 0.716628519698539756},       {0.5, 30, 40, 0.427887336005593685},
                         {0.2, 0.1, 0.1, 0.0000908146855854964386}, {1e-6, 5, 0.3, 0.0976582129161529777}};
  for (const Known& k : known) {
    CAPTURE(k.p);
    CAPTURE(k.a);
    CAPTURE(k.b);
    CHECK(beta_quantile(k.p, k.a, k.b) == doctest::Approx(k.x).epsilon(1e-12).scale(0));
    CHECK(beta_quantile(1 - k.p, k.b, k.a) == doctest::Approx(1 - k.x).epsilon(1e-12).scale(0));
  }
}

TEST_CASE("draws: quantiles of Beta equal closed forms") {
  for (const double p : {0x1p-53, 1e-9, 0.01, 0.2, 0.4999, 0.75, 0.999, 1 - 0x1p-53}) {
    CAPTURE(p);
    CHECK(beta_quantile(p, 1, 1) == doctest::Approx(p).epsilon(1e-13).scale(0));
    CHECK(beta_quantile(p, 0.3, 1) == doctest::Approx(std::pow(p, 1 / 0.3)).epsilon(1e-12).scale(0));
    const double sine = std::sin(std::numbers::pi / 2 * p);
    CHECK(beta_quantile(p, 0.5, 0.5) == doctest::Approx(sine * sine).epsilon(1e-12).scale(0));
    const double x = beta_quantile(p, 2, 2);
    CHECK(3 * x * x - 2 * x * x * x == doctest::Approx(p).epsilon(1e-12).scale(0));
    CHECK(beta_quantile(1 - p, 7, 0.2) == doctest::Approx(1 - beta_quantile(p, 0.2, 7)).epsilon(1e-12).scale(0));
  }
}

TEST_CASE("draws: quantiles of Beta rise with p within [0, 1]") {
  for (const double a : {1e-3, 0.05, 0.2, 1.0, 20.0, 1e4}) {
    for (const double b : {1e-3, 0.2, 1.0, 1e4}) {
      double before = 0;
      for (const double p : {0x1p-53, 1e-6, 0.1, 0.4, 0.499999, 0.5, 0.500001, 0.9, 1 - 1e-6, 1 - 0x1p-53}) {
        const double x = beta_quantile(p, a, b);
        CAPTURE(a);
        CAPTURE(b);
        CAPTURE(p);
        CHECK(x >= before);
        CHECK(x <= 1);
        before = x;
      }
    }
  }
}
