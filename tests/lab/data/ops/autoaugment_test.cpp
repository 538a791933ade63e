#include "experiments/lab/data/ops/autoaugment.h"

#include <doctest/doctest.h>

#include <map>
#include <sstream>
#include <utility>

#include "core/error.h"
#include "tests/lab/data/golden.h"
#include "tests/lab/data/ops/drawn.h"

using namespace normlab;
using namespace normlab::test;

namespace {

using Dialect = AutoAugmentDialect;
constexpr Dialect kDialects[] = {Dialect::deepvoltaire, Dialect::torchvision};
constexpr TrivialAugmentConfig kTrivial{.dialect = TrivialAugmentDialect::torchvision};
const std::string kGolden = "ops/policy_golden.txt";

DrawnOp golden_operation(const AutoAugment& augment, const SubPolicyStep& step, bool negative) {
  return augment.operation(step.op, step.magnitude, negative, 32, 40);
}

/// An operation and its argument, or nothing.
using Cell = std::pair<std::string_view, double>;
Cell cell_of(const DrawnOp& drawn) { return {word_of(drawn.op), drawn.argument}; }

/// By pairs of cells: the expected share of images.
std::map<std::pair<Cell, Cell>, double> shares(const AutoAugment& augment) {
  std::map<std::pair<Cell, Cell>, double> out;
  for (const SubPolicy& policy : AutoAugment::sub_policies()) {
    std::map<Cell, double> steps[2];
    for (std::size_t i = 0; i < 2; ++i) {
      const auto& [op, probability, magnitude] = policy[i];
      steps[i][{}] += 1 - probability;
      const bool is_signed = augment.is_signed(op);
      for (const bool negative : {false, true})
        if (is_signed || !negative)
          steps[i][cell_of(augment.operation(op, magnitude, negative, 32, 32))] += probability / (is_signed ? 2 : 1);
    }
    for (const auto& [first, p] : steps[0])
      for (const auto& [second, q] : steps[1])
        if (p * q > 0) out[{first, second}] += p * q / 25;
  }
  return out;
}

template <class Config>
std::string refusal(const Config& config) {
  try {
    if constexpr (std::is_same_v<Config, AutoAugmentConfig>)
      const AutoAugment augment(config);
    else
      const TrivialAugment augment(config);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("autoaugment: the sub-policies are those of the sources") {
  for (const Dialect dialect : kDialects) {
    const AutoAugment augment({.dialect = dialect});
    const std::vector<std::string> lines = golden_lines(concat(word_of(dialect), "_policy"), kGolden);
    REQUIRE(lines.size() == 25);
    REQUIRE(AutoAugment::sub_policies().size() == 25);
    for (const std::string& line : lines) {
      CAPTURE(line);
      std::istringstream in(line);
      std::size_t index = 0;
      in >> index;
      for (const SubPolicyStep& step : AutoAugment::sub_policies()[index]) {
        std::string name;
        double probability = 0, argument = 0;
        in >> name >> probability >> argument;
        CHECK(word_of(step.op) == name);
        CHECK(step.probability == probability);
        CHECK(golden_operation(augment, step, false).argument == argument);
      }
    }
  }
}

TEST_CASE("autoaugment: pixels are those of the sources") {
  for (const Dialect dialect : kDialects) {
    const AutoAugment augment({.dialect = dialect});
    const std::vector<std::string> lines = golden_lines(concat(word_of(dialect), "_pixels"), kGolden);
    REQUIRE(lines.size() >= 50);
    OpScratch scratch;
    for (const std::string& line : lines) {
      CAPTURE(line);
      std::istringstream in(line);
      std::size_t policy = 0, step = 0;
      int sign = 0;
      std::string hash;
      in >> policy >> step >> sign >> hash;
      Image image = golden_picture(32, 40);
      augment.run(golden_operation(augment, AutoAugment::sub_policies()[policy][step], sign < 0), image, scratch);
      CHECK(golden_hash(image) == hash);
    }
  }
}

TEST_CASE("autoaugment: sub-policies, probabilities and signs are as frequent as they say") {
  for (const Dialect dialect : kDialects) {
    CAPTURE(word_of(dialect));
    const AutoAugment augment({.dialect = dialect});
    const auto expected = shares(augment);
    std::map<std::pair<Cell, Cell>, double> seen;
    for (int i = 0; i < kDraws; ++i) {
      const auto drawn = augment.draw(32, 32, draws_of(i));
      ++seen[{drawn[0] ? cell_of(*drawn[0]) : Cell{}, drawn[1] ? cell_of(*drawn[1]) : Cell{}}];
    }
    double sum = 0, total = 0;
    for (const auto& [cell, share] : expected) {
      const double wanted = share * kDraws, difference = seen[cell] - wanted;
      CHECK(wanted > 5);
      sum += difference * difference / wanted;
      total += share;
    }
    CHECK(total == doctest::Approx(1));
    CHECK(seen.size() == expected.size());
    CHECK(sum < chi_square_limit(expected.size()));
  }
}

TEST_CASE("autoaugment: deepvoltaire turns one way, and fills a turned image with grey whatever the fill") {
  const AutoAugment augment({.dialect = Dialect::deepvoltaire, .fill = {1, 2, 3}});
  CHECK_FALSE(augment.is_signed(AugmentOp::rotate));
  CHECK(AutoAugment({.dialect = Dialect::torchvision}).is_signed(AugmentOp::rotate));
  OpScratch scratch;
  Image turned = gradient(30, 30), shifted = turned;
  augment.run(augment.operation(AugmentOp::rotate, 9, false, 30, 30), turned, scratch);
  augment.run(augment.operation(AugmentOp::translate_x, 9, false, 30, 30), shifted, scratch);
  CHECK(std::vector<int>(turned.row(0), turned.row(0) + 3) == std::vector<int>{128, 128, 128});
  CHECK(std::vector<int>(shifted.row(0) + 87, shifted.row(0) + 90) == std::vector<int>{1, 2, 3});
}

TEST_CASE("autoaugment: an image depends neither on earlier images nor on its size") {
  for (const Dialect dialect : kDialects) {
    const AutoAugment augment({.dialect = dialect});
    OpScratch used;
    for (int i = 0; i < 200; ++i) {
      CAPTURE(i);
      Image whole = gradient(19, 23), by_hand = whole, other = gradient(1, 2);
      OpScratch fresh;
      for (const auto& drawn : augment.draw(19, 23, draws_of(i)))
        if (drawn) augment.run(*drawn, by_hand, fresh);
      augment.apply(other, draws_of(i + 1), used);
      augment.apply(whole, draws_of(i), used);
      REQUIRE(whole.pixels == by_hand.pixels);
      REQUIRE(other.pixels.size() == 6);
    }
  }
}

TEST_CASE("autoaugment: settings that a dialect lacks are refused by name") {
  CHECK(refusal(AutoAugmentConfig{}).empty());
  CHECK(refusal(AutoAugmentConfig{.dialect = Dialect::torchvision, .interpolation = ResizeMethod::bicubic}).empty());
  CHECK(refusal(AutoAugmentConfig{.dialect = Dialect::torchvision, .interpolation = ResizeMethod::random}) ==
        "train.augment.autoaugment.interpolation: the interpolation of geometric operations in torchvision is nearest, "
        "bilinear or bicubic, not random");
  CHECK(refusal(AutoAugmentConfig{.dialect = Dialect::deepvoltaire, .fill = {1}}) ==
        "train.augment.autoaugment.fill: expected one value for each of 3 channels, got 1");
  CHECK(refusal(TrivialAugmentConfig{.dialect = TrivialAugmentDialect::torchvision, .fill = {1, 2}}) ==
        "train.augment.trivialaugment.fill: expected one value for each of 3 channels, got 2");
}

TEST_CASE("autoaugment: nothing changes without a dialect") {
  OpScratch scratch;
  Image image = gradient(5, 6);
  for (int i = 0; i < 20; ++i) {
    AutoAugment({}).apply(image, draws_of(i), scratch);
    TrivialAugment({}).apply(image, draws_of(i), scratch);
  }
  CHECK(image.pixels == gradient(5, 6).pixels);
}

TEST_CASE("trivialaugment: pixels are those of torchvision") {
  const TrivialAugment augment(kTrivial);
  const std::vector<std::string> lines = golden_lines("trivialaugment", kGolden);
  REQUIRE(lines.size() == 23);
  OpScratch scratch;
  for (const std::string& line : lines) {
    CAPTURE(line);
    std::istringstream in(line);
    std::string name, hash;
    int sign = 0;
    in >> name >> sign >> hash;
    std::vector<Image> images(31, golden_picture(32, 40));
    for (std::size_t i = 0; i < images.size(); ++i)
      augment.run(augment.operation(op_named(name), std::int64_t(i), sign < 0), images[i], scratch);
    CHECK(golden_hash(images) == hash);
  }
}

TEST_CASE("trivialaugment: every operation, magnitude and sign is drawn equally often") {
  const TrivialAugment augment(kTrivial);
  std::map<std::string_view, double> operations;
  std::map<double, double> turns;
  for (int i = 0; i < kDraws; ++i) {
    const DrawnOp drawn = augment.draw(draws_of(i));
    ++operations[word_of(drawn.op)];
    if (drawn.op == AugmentOp::rotate) ++turns[drawn.argument];
  }
  const auto counts = [](const auto& map) {
    std::vector<double> out;
    for (const auto& entry : map) out.push_back(entry.second);
    return out;
  };
  CHECK(operations.size() == 14);
  CHECK(chi_square(counts(operations)) < chi_square_limit(14));
  turns[0] /= 2;  // both signs
  CHECK(turns.size() == 61);
  CHECK(turns.begin()->first == -135);
  CHECK(chi_square(counts(turns)) < chi_square_limit(61));
}
