#include "experiments/lab/metrics/class_scores.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace normlab;

TEST_CASE("class scores: balanced accuracy is the mean over classes that have images") {
  ClassScores scores(4);
  // 6 of 8 right, 1 of 2 right, class 2 without an image, none of 2 right.
  for (int i = 0; i < 8; ++i) scores.add(0, i < 6 ? 0 : 2, true);
  for (int i = 0; i < 2; ++i) scores.add(1, i, i == 0);
  for (int i = 0; i < 2; ++i) scores.add(3, 0);
  CHECK(scores.accuracy() == 7.0 / 12);
  CHECK(scores.balanced_accuracy() == (0.75 + 0.5 + 0) / 3);
  CHECK(scores.top5_accuracy() == 9.0 / 12);
  CHECK(scores.accuracy_of(0) == 0.75);
  CHECK(scores.accuracy_of(3) == 0.0);
  CHECK(!scores.accuracy_of(2));
  CHECK(scores.images() == std::vector<std::int64_t>{8, 2, 0, 2});
}

TEST_CASE("class scores: of equal scores the lower class comes first, as for the answer") {
  const double scores[] = {1, 3, 2, 2, 2, 2, 2};
  CHECK(among_top_answers(scores, 1));
  for (const int label : {2, 3, 4, 5}) CHECK(among_top_answers(scores, label));
  CHECK(!among_top_answers(scores, 6));
  CHECK(!among_top_answers(scores, 0));
}

TEST_CASE("class scores: what one answer for all images reaches") {
  const std::int64_t images[] = {31, 0, 3, 4};
  const auto answer = constant_answer(images, false);
  CHECK(answer.at("accuracy") == 31.0 / 38);
  CHECK(answer.at("balanced_accuracy") == 1.0 / 3);
  CHECK(answer.at("top5_accuracy") == 1.0);
  // By hand: -(31/38 log(31/38) + 3/38 log(3/38) + 4/38 log(4/38)).
  CHECK(answer.at("loss") == doctest::Approx(0.6035172742126115));
  // The sum of the binary entropies of 31/38, 3/38 and 4/38.
  CHECK(constant_answer(images, true).at("loss") == doctest::Approx(1.0904050928110105));
  const std::int64_t balanced[] = {5, 5, 5, 5, 5, 5, 5};
  CHECK(constant_answer(balanced, false).at("loss") == doctest::Approx(std::log(7.0)).epsilon(1e-12));
  CHECK(constant_answer(balanced, false).at("top5_accuracy") == 25.0 / 35);
  CHECK(constant_answer(std::vector<std::int64_t>{0, 0}, false).empty());
}

TEST_CASE("class scores: the intersection of a constant mask is the share of its class") {
  const std::int64_t pixels[] = {60, 0, 30, 10};
  const auto answer = constant_pixels(pixels);
  CHECK(answer.at("pixel_accuracy") == 0.6);
  CHECK(answer.at("miou") == doctest::Approx(0.2));
  CHECK(answer.at("loss") == doctest::Approx(0.8979457248567797));
}
