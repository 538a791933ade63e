// The arithmetic of norms that are merged into linear layers, by hand.
#include <doctest/doctest.h>

#include <limits>
#include <vector>

#include "core/error.h"
#include "nn/model/fuse.h"

using namespace normlab;

namespace {

// Channel 0: gamma 2, deviation 2, so x + 5 - 3 = x + 2; channel 1: 3 / 1 (x - 1) + 0.
const std::vector<double> kGamma{2, 3}, kBeta{5, 0}, kMean{3, 1}, kVar{3, 0};
FrozenNorm two_channels() { return frozen_norm(kGamma, kBeta, kMean, kVar, 1.0); }

}  // namespace

TEST_CASE("fuse: a batch norm by running statistics is a scale and an offset") {
  CHECK(two_channels().scale == std::vector<double>{1, 3});
  CHECK(two_channels().offset == std::vector<double>{2, -3});
}

TEST_CASE("fuse: the next linear takes a norm into its columns and its bias") {
  std::vector<double> weight{1, 10, 2, 20, 3, 30}, bias{1, 1, 0};  // [3, 2]
  merge_into_next(two_channels(), weight, bias);
  CHECK(weight == std::vector<double>{1, 30, 2, 60, 3, 90});
  CHECK(bias == std::vector<double>{1 + 2 - 30, 1 + 4 - 60, 6 - 90});
}

TEST_CASE("fuse: the previous linear takes a norm into its rows and its bias") {
  std::vector<double> weight{1, 2, 3, 4}, bias{1, 1, 2, 2};  // [4, 1]: the norm twice, as over two heads
  merge_into_previous(two_channels(), weight, bias);
  CHECK(weight == std::vector<double>{1, 6, 3, 12});
  CHECK(bias == std::vector<double>{3, 0, 4, 3});
}

TEST_CASE("fuse: vectors of different widths are no norm") {
  const std::vector<double> one{1}, two{1, 1};
  CHECK_THROWS_WITH_AS(frozen_norm(one, two, one, one, 1e-5),
                       "gamma, beta, mean and variance of a batch norm have 1, 2, 1 and 1 values", InputError);
}

TEST_CASE("fuse: a variance that is negative or NaN is refused") {
  const std::vector<double> one{1}, negative{-1}, nan{std::numeric_limits<double>::quiet_NaN()};
  CHECK_THROWS_WITH_AS(frozen_norm(one, one, one, negative, 1e-5),
                       "the running variance of channel 0 is -1, negative with epsilon 1e-05", InputError);
  CHECK_THROWS_WITH_AS(frozen_norm(one, one, one, nan, 1e-5),
                       "the running variance of channel 0 is nan, negative with epsilon 1e-05", InputError);
}

TEST_CASE("fuse: a norm is not merged into a weight of another width") {
  std::vector<double> weight(9, 1.0), bias(3, 0.0), none;
  const char* two = "a norm of 2 channels does not match a weight of 9 values with 3 outputs";
  CHECK_THROWS_WITH_AS(merge_into_next(two_channels(), weight, bias), two, InputError);
  CHECK_THROWS_WITH_AS(merge_into_previous(two_channels(), weight, bias), two, InputError);
  CHECK_THROWS_WITH_AS(merge_into_previous(FrozenNorm{}, weight, bias),
                       "a norm of 0 channels does not match a weight of 9 values with 3 outputs", InputError);
  CHECK_THROWS_WITH_AS(merge_into_next(two_channels(), weight, none),
                       "a norm of 2 channels does not match a weight of 9 values with 0 outputs", InputError);
}
