#include "experiments/lab/data/ops/randaugment.h"

#include <doctest/doctest.h>

#include <array>
#include <cmath>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/lab/data/golden.h"
#include "tests/lab/data/ops/drawn.h"

using namespace normlab;
using namespace normlab::test;

namespace {

using Dialect = RandAugmentDialect;
constexpr Dialect kDialects[] = {Dialect::big_vision, Dialect::torchvision, Dialect::timm, Dialect::ildoonee};

RandAugmentConfig config_of(Dialect dialect) {
  RandAugmentConfig c;
  c.dialect = dialect;
  if (dialect == Dialect::timm) {
    c.magnitude = 9;
    c.magnitude_std = 0.5;
    c.increasing = true;
    c.interpolation = ResizeMethod::random;
  }
  return c;
}

/// The operations that timm applies to kDraws images.
const std::vector<DrawnOp>& timm_operations() {
  static const std::vector<DrawnOp> kOperations = [] {
    const RandAugment augment(config_of(Dialect::timm));
    std::vector<DrawnOp> all;
    for (int i = 0; i < kDraws; ++i)
      if (const auto drawn = augment.draw(1, 32, 32, draws_of(i))) all.push_back(*drawn);
    return all;
  }();
  return kOperations;
}

}  // namespace

TEST_CASE("randaugment: every pair of operations is drawn equally often") {
  // Upper 0.1% points of chi-square with 13, 14, 15 and (n n - 1) degrees of freedom.
  const std::map<std::size_t, std::pair<double, double>> limits{
      {14, {34.53, 261.7}}, {15, {36.12, 295.2}}, {16, {37.70, 330.5}}};
  for (const Dialect dialect : kDialects) {
    CAPTURE(int(dialect));
    RandAugmentConfig config = config_of(dialect);
    config.probability = 1;
    const RandAugment augment(config);
    const std::size_t n = augment.operations().size();
    std::vector<double> first(n), second(n), pairs(n * n);
    const auto place = [&](std::optional<DrawnOp> drawn) {
      REQUIRE(drawn);
      const auto list = augment.operations();
      return std::size_t(std::find(list.begin(), list.end(), drawn->op) - list.begin());
    };
    for (int i = 0; i < kDraws; ++i) {
      const std::size_t a = place(augment.draw(0, 32, 32, draws_of(i))),
                        b = place(augment.draw(1, 32, 32, draws_of(i)));
      ++first[a];
      ++second[b];
      ++pairs[a * n + b];
    }
    CHECK(chi_square(first) < limits.at(n).first);
    CHECK(chi_square(second) < limits.at(n).first);
    CHECK(chi_square(pairs) < limits.at(n).second);
  }
}

TEST_CASE("randaugment: half of the arguments of signed operations are negative") {
  const std::map<Dialect, std::set<std::string_view>> expected{
      {Dialect::big_vision, {"rotate", "shear_x", "shear_y", "translate_x", "translate_y"}},
      {Dialect::torchvision,
       {"rotate", "shear_x", "shear_y", "translate_x", "translate_y", "color", "contrast", "brightness", "sharpness"}},
      {Dialect::timm,
       {"rotate", "shear_x", "shear_y", "translate_x", "translate_y", "color", "contrast", "brightness", "sharpness"}},
      {Dialect::ildoonee, {"rotate", "shear_x", "shear_y", "translate_x", "translate_y"}}};
  for (const auto& row : expected) {
    const Dialect dialect = row.first;
    const std::set<std::string_view>& names = row.second;
    CAPTURE(int(dialect));
    RandAugmentConfig config = config_of(dialect);
    config.probability = 1;
    config.magnitude_std = 0;
    const RandAugment augment(config);
    std::map<AugmentOp, std::map<double, int>> arguments;
    for (int i = 0; i < kDraws; ++i) {
      const auto drawn = augment.draw(0, 32, 32, draws_of(i));
      ++arguments[drawn->op][drawn->argument];
    }
    for (const AugmentOp op : augment.operations()) {
      CAPTURE(word_of(op));
      CHECK(augment.is_signed(op) == names.contains(word_of(op)));
      const auto& seen = arguments[op];
      REQUIRE(seen.size() == (names.contains(word_of(op)) ? 2 : 1));
      if (seen.size() == 1) continue;
      const double n = seen.begin()->second + seen.rbegin()->second;
      CHECK(std::abs(seen.begin()->second - n / 2) < 3.3 * std::sqrt(n) / 2);
    }
  }
}

TEST_CASE("randaugment: color has no sign in timm unless it is increasing") {
  RandAugmentConfig plain = config_of(Dialect::timm);
  plain.increasing = false;
  CHECK_FALSE(RandAugment(plain).is_signed(AugmentOp::color));
}

TEST_CASE("randaugment: timm applies half of the operations") {
  CHECK(std::abs(int(timm_operations().size()) - kDraws / 2) < 3.3 * std::sqrt(kDraws) / 2);
}

TEST_CASE("randaugment: timm draws one of two filters equally often") {
  const int applied = int(timm_operations().size());
  int bicubic = 0;
  for (const DrawnOp& drawn : timm_operations()) {
    bicubic += drawn.interpolation == ResizeMethod::bicubic ? 1 : 0;
    CHECK((drawn.interpolation == ResizeMethod::bicubic || drawn.interpolation == ResizeMethod::bilinear));
  }
  CHECK(std::abs(bicubic - applied / 2) < 3.3 * std::sqrt(applied) / 2);
}

TEST_CASE("randaugment: timm draws normal levels cut to 0..10") {
  int turned = 0, top = 0;
  double sum = 0, squares = 0;
  for (const DrawnOp& drawn : timm_operations()) {
    if (drawn.op != AugmentOp::rotate) continue;
    const double level = std::abs(drawn.argument) / 3;
    REQUIRE(level <= 10);
    ++turned;
    top += level == 10 ? 1 : 0;
    sum += level;
    squares += (level - 9) * (level - 9);
  }
  // Deviation 0.5 about 9, of which 2.28% lie above 10 and count as 10: mean 9 - 0.5 * 0.00849, a little less spread.
  CHECK(sum / turned == doctest::Approx(8.99575).epsilon(0.004));
  CHECK(std::sqrt(squares / turned) == doctest::Approx(0.494).epsilon(0.03));
  CHECK(top / double(turned) == doctest::Approx(0.0228).epsilon(0.3));
}

namespace {

/// How often a cutout of images of 8 x 5 pixels is drawn at each row and at each column.
std::array<std::vector<double>, 2> cutouts(const RandAugment& augment) {
  std::vector<double> rows(8), columns(5);
  for (int i = 0; i < kDraws; ++i) {
    const auto drawn = augment.draw(0, 8, 5, draws_of(i));
    if (drawn->op != AugmentOp::cutout) continue;
    ++rows[std::size_t(drawn->row)];
    ++columns[std::size_t(drawn->column)];
  }
  return {rows, columns};
}

}  // namespace

TEST_CASE("randaugment: the middle of a cutout is anywhere in the image") {
  const RandAugment augment(config_of(Dialect::big_vision));
  const auto [rows, columns] = cutouts(augment);
  CHECK(chi_square(rows) < 24.3);
  CHECK(chi_square(columns) < 18.5);
}

TEST_CASE("randaugment: ildoonee's cutout begins in any row but the first if it has no length") {
  RandAugmentConfig config = config_of(Dialect::ildoonee);
  config.magnitude = 0;
  const RandAugment augment(config);
  const auto [rows, columns] = cutouts(augment);
  CHECK((rows[0] == 0 && columns[0] == 0));
  CHECK(chi_square({rows.begin() + 1, rows.end()}) < chi_square_limit(7));
  CHECK(chi_square({columns.begin() + 1, columns.end()}) < chi_square_limit(4));
}

TEST_CASE("randaugment: ildoonee's pixels are those of the source at all magnitudes") {
  const RandAugment augment(config_of(Dialect::ildoonee));
  const std::vector<std::string> lines = golden_lines("ildoonee", "ops/policy_golden.txt");
  REQUIRE(lines.size() == 21);
  OpScratch scratch;
  for (const std::string& line : lines) {
    CAPTURE(line);
    std::istringstream in(line);
    std::string name, hash;
    int sign = 0;
    in >> name >> sign >> hash;
    std::vector<Image> images(31, golden_picture(32, 40));
    for (std::size_t level = 0; level < images.size(); ++level) {
      DrawnOp drawn{op_named(name)};
      drawn.argument = augment.argument(drawn.op, double(level), sign < 0, 32, 40);
      drawn.row = std::int64_t(std::max(0.0, 11.9 - drawn.argument / 2));
      drawn.column = std::int64_t(std::max(0.0, 25.3 - drawn.argument / 2));
      augment.run(drawn, images[level], scratch);
    }
    CHECK(golden_hash(images) == hash);
  }
}

TEST_CASE("randaugment: layers depend neither on their number nor on earlier images") {
  for (const Dialect dialect : kDialects) {
    RandAugmentConfig config = config_of(dialect);
    const RandAugment two(config);
    config.layers = 1;
    const RandAugment one(config);
    OpScratch used, shared;
    for (int i = 0; i < 200; ++i) {
      CAPTURE(i);
      Image by_hand = gradient(19, 23), whole = by_hand, other = gradient(7, 40);
      one.apply(by_hand, draws_of(i), used);
      if (const auto drawn = two.draw(1, 19, 23, draws_of(i))) two.run(*drawn, by_hand, used);
      two.apply(other, draws_of(i + 1), shared);
      two.apply(whole, draws_of(i), shared);
      REQUIRE(whole.pixels == by_hand.pixels);
      REQUIRE(whole.height == 19);
      REQUIRE(std::int64_t(whole.pixels.size()) == 19 * 23 * 3);
    }
  }
}

TEST_CASE("randaugment: big_vision at magnitude 0 is not the identity") {
  RandAugmentConfig config = config_of(Dialect::big_vision);
  config.magnitude = 0;
  const RandAugment released(config);
  OpScratch scratch;
  int same = 0;
  for (const AugmentOp op : released.operations()) {
    Image image = gradient(16, 16);
    released.run({op, released.argument(op, 0, false, 16, 16)}, image, scratch);
    same += image.pixels == gradient(16, 16).pixels ? 1 : 0;
  }
  CHECK(same == 7);
}

TEST_CASE("randaugment: big_vision's solarize inverts all at magnitude 10 unless repaired") {
  RandAugmentConfig config = config_of(Dialect::big_vision);
  config.magnitude = 0;
  const RandAugment released(config);
  config.repaired = true;
  const RandAugment repaired(config);
  CHECK(released.argument(AugmentOp::solarize, 10, false, 16, 16) == 0);
  CHECK(repaired.argument(AugmentOp::solarize, 10, false, 16, 16) == 256);
}

TEST_CASE("randaugment: big_vision's contrast uses the pixel count as the mean unless repaired") {
  RandAugmentConfig config = config_of(Dialect::big_vision);
  config.magnitude = 0;
  const RandAugment released(config);
  config.repaired = true;
  const RandAugment repaired(config);
  OpScratch scratch;
  Image by_size = gradient(16, 16), by_mean = by_size;
  released.run({AugmentOp::contrast, 0.0}, by_size, scratch);
  repaired.run({AugmentOp::contrast, 0.0}, by_mean, scratch);
  CHECK(by_size.pixels == std::vector<std::uint8_t>(16 * 16 * 3, 1));  // 256 pixels over 256
  CHECK(by_mean.pixels.front() > 100);
}

TEST_CASE("randaugment: the fill is the dialect's own unless it is given") {
  OpScratch scratch;
  const auto corner = [&](RandAugmentConfig config, double shift) {
    Image image = gradient(9, 9);
    RandAugment(config).run({AugmentOp::translate_x, shift}, image, scratch);
    const std::uint8_t* p = image.row(4) + (shift > 0 && config.dialect == Dialect::torchvision ? 0 : 3 * 8);
    return Fill{p[0], p[1], p[2]};
  };
  CHECK(corner(config_of(Dialect::big_vision), 3) == Fill{128, 128, 128});
  CHECK(corner(config_of(Dialect::torchvision), 3) == Fill{0, 0, 0});
  CHECK(corner(config_of(Dialect::ildoonee), 3) == Fill{0, 0, 0});
  RandAugmentConfig timm = config_of(Dialect::timm);
  timm.interpolation = ResizeMethod::bilinear;
  CHECK(corner(timm, 0.4) == Fill{124, 116, 104});
  timm.fill = {1, 2, 3};
  CHECK(corner(timm, 0.4) == Fill{1, 2, 3});
}

TEST_CASE("randaugment: settings that a dialect lacks are refused by name") {
  const auto message = [](RandAugmentConfig c) -> std::string {
    try {
      const RandAugment augment(c);
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  };
  RandAugmentConfig c = config_of(Dialect::torchvision);
  CHECK(message(c).empty());
  c.magnitude = 9.5;
  CHECK(message(c).find("randaugment.magnitude: torchvision takes the index of one of 31") != std::string::npos);
  c.magnitude = 31;
  CHECK(message(c).find("got 31") != std::string::npos);
  c = config_of(Dialect::torchvision);
  c.interpolation = ResizeMethod::random;
  CHECK(message(c).find("nearest, bilinear or bicubic, not random") != std::string::npos);
  c = config_of(Dialect::timm);
  c.interpolation = ResizeMethod::lanczos;
  CHECK(message(c).find("random (one of the two), not lanczos") != std::string::npos);
  c.interpolation = ResizeMethod::nearest;
  CHECK(message(c).find("random (one of the two), not nearest") != std::string::npos);
  c = config_of(Dialect::big_vision);
  c.magnitude = 21;
  CHECK(message(c).find("levels end at 20") != std::string::npos);
  c = config_of(Dialect::ildoonee);
  c.magnitude = 30.5;
  CHECK(message(c).find("ildoonee's levels end at 30, got 30.5") != std::string::npos);
  c = config_of(Dialect::big_vision);
  c.fill = {1, 2};
  CHECK(message(c).find("randaugment.fill: expected one value for each of 3 channels, got 2") != std::string::npos);
  CHECK(message({}).empty());
}

TEST_CASE("randaugment: nothing changes without a dialect") {
  OpScratch scratch;
  Image image = gradient(5, 6);
  RandAugment(RandAugmentConfig{}).apply(image, draws_of(0), scratch);
  CHECK(image.pixels == gradient(5, 6).pixels);
}

TEST_CASE("randaugment: the smallest images keep their size") {
  OpScratch scratch;
  for (const Dialect dialect : kDialects) {
    RandAugmentConfig config = config_of(dialect);
    config.layers = 20;
    const RandAugment augment(config);
    for (const auto& [height, width] : {std::pair{1, 1}, {1, 9}, {9, 1}, {2, 2}, {3, 3}}) {
      Image small = gradient(height, width);
      for (int i = 0; i < 20; ++i) augment.apply(small, draws_of(i), scratch);
      CHECK(small.pixels.size() == std::size_t(3 * height * width));
    }
  }
}

TEST_CASE("randaugment: images wider than 16384 pixels are refused") {
  OpScratch scratch;
  Image wide;
  wide.resize(1, 16385);
  CHECK_THROWS_WITH_AS(pillow_affine(wide, {}, ResizeMethod::nearest, {}, scratch),
                       doctest::Contains("up to 16384 pixels per side; this one is 1 x 16385"), InputError);
}
