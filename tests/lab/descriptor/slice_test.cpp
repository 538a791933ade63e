#include "experiments/lab/descriptor/slice.h"

#include <algorithm>
#include <set>

#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

std::vector<std::int64_t> indices(const std::string& text, std::int64_t samples, const std::string& dataset = "d") {
  return slice_indices(parse_slice(text), dataset, samples);
}

}  // namespace

TEST_CASE("slice: a whole split is every image in order") {
  CHECK(indices("train", 5) == std::vector<std::int64_t>{0, 1, 2, 3, 4});
  CHECK(indices("train[:]", 5) == indices("train", 5));
  CHECK(parse_slice("test_b[3:]").split == "test_b");
}

TEST_CASE("slice: parts share no image and leave none out") {
  for (const auto& [first, second] : {std::pair{"train[:99%]", "train[99%:]"}, {"train[:800]", "train[800:]"}}) {
    const auto a = indices(first, 1003), b = indices(second, 1003);
    std::set<std::int64_t> all(a.begin(), a.end());
    all.insert(b.begin(), b.end());
    CHECK(a.size() + b.size() == 1003);
    CHECK(all.size() == 1003);
  }
  CHECK(indices("train[:99%]", 1003).size() == 992);  // 992.97
  CHECK(indices("train[800:1000]", 1003).size() == 200);
}

TEST_CASE("slice: the permutation is fixed by the dataset's name") {
  CHECK(indices("train[:5]", 100, "cifar10") == std::vector<std::int64_t>{18, 31, 37, 79, 83});
  CHECK(indices("train[:5]", 100, "cifar10") != indices("train[:5]", 100, "other"));
}

TEST_CASE("slice: an empty slice or one past the end is refused") {
  CHECK_SAYS(input_error([] { indices("train[:101]", 100); }), "ends at 101, but the split has 100 images");
  CHECK_SAYS(input_error([] { indices("train[50:50]", 100); }), "is empty: from 50 to 50");
  CHECK_SAYS(input_error([] { indices("train[60:50]", 100); }), "is empty");
  CHECK_SAYS(input_error([] { indices("train[:1%]", 50); }), "is empty: from 0 to 0 of 50");
  CHECK_SAYS(input_error([] { indices("train", 0); }), "is empty");
  CHECK_SAYS(input_error([] { indices("train[200:]", 100); }), "is empty");
}

TEST_CASE("slice: a cut after a cut counts what is left") {
  const auto rest = indices("train[90%:]", 1000), first = indices("train[90%:][:20]", 1000);
  CHECK(first.size() == 20);
  CHECK(std::includes(rest.begin(), rest.end(), first.begin(), first.end()));
  CHECK(first == indices("train[900:920]", 1000));
  CHECK(indices("train[50%:][50%:]", 1000) == indices("train[75%:]", 1000));
  CHECK_SAYS(input_error([] { indices("train[90%:][:200]", 1000); }),
             "ends at 200, but the part before it has 100 images");
}

TEST_CASE("slice: a sum has the images of its parts") {
  const auto a = indices("train[:80]", 1000), b = indices("train[90%:][:20]", 1000);
  std::set<std::int64_t> both(a.begin(), a.end());
  both.insert(b.begin(), b.end());
  const auto sum = indices("train[:80]+train[90%:][:20]", 1000);
  CHECK(std::vector<std::int64_t>(both.begin(), both.end()) == sum);
  CHECK(sum == indices("train[90%:][:20]+train[:80]", 1000));
}

TEST_CASE("slice: parts of a sum that share images are refused") {
  CHECK_SAYS(input_error([] { indices("train[:60%]+train[500:]", 1000); }),
             "two of its parts share 100 of 1000 images");
}

TEST_CASE("slice: a sum over splits is a slice of each") {
  const std::vector<Slice> slices = parse_slices("train[:80]+val[:20]+train[90%:]");
  REQUIRE(slices.size() == 2);
  CHECK(slices[0].text == "train[:80]+train[90%:]");
  CHECK(slices[0].parts.size() == 2);
  CHECK(slices[1].split == "val");
  CHECK(slices[1].text == "val[:20]");
  CHECK(first_split("val+train") == "val");
  CHECK_SAYS(input_error([] { parse_slice("train[:80]+val[:20]"); }), "adds parts of several splits");
}

TEST_CASE("slice: numbers give the size of a slice of any split") {
  CHECK(counted_images(parse_slice("train[:80]+train[90%:][5:20]")) == 95);
  CHECK(!counted_images(parse_slice("train")));
  CHECK(!counted_images(parse_slice("train[5:]")));
  CHECK(!counted_images(parse_slice("train[:80]+train[90%:]")));
  CHECK(!counted_images(parse_slice("train[50%:900]")));
}

TEST_CASE("slice: a text that is not a slice is refused") {
  for (const char* bad :
       {"", "[:5]", "train[", "train[5]", "train[:5", "train[:5]x", "train[-5:]", "train[:1.5%]", "train[:101%]",
        "train[%:]", "train[1:2:3]", "tr ain", "train[:99999999999999999999]", "../train", "train]"}) {
    CAPTURE(bad);
    CHECK_SAYS(input_error([&] { parse_slice(bad); }), std::string("slice \"") + bad + "\": ");
  }
}

namespace {

/// 100 images of "a", 40 of "b", 10 of "c", one after the other.
std::vector<std::int32_t> uneven() {
  std::vector<std::int32_t> labels(100, 0);
  labels.insert(labels.end(), 40, 1);
  labels.insert(labels.end(), 10, 2);
  return labels;
}

std::vector<std::int64_t> subset(const std::string& slice, const Subset& subset) {
  const std::vector<std::string> names{"a", "b", "c"};
  return select_images(parse_slice(slice), subset, "d", uneven(), names);
}

std::vector<std::int64_t> counts(const std::vector<std::int64_t>& images) {
  std::vector<std::int64_t> out(3);
  for (const std::int64_t i : images) ++out[static_cast<std::size_t>(uneven()[static_cast<std::size_t>(i)])];
  return out;
}

using Counts = std::vector<std::int64_t>;

}  // namespace

TEST_CASE("slice: a subset has the same number of images of each class") {
  const auto five = subset("train", {.per_class = 5, .seed = 1});
  CHECK(counts(five) == Counts{5, 5, 5});
  CHECK(std::is_sorted(five.begin(), five.end()));
  CHECK(subset("train", {.per_class = 5, .seed = 2}) != five);
}

TEST_CASE("slice: without a limit a subset is the whole slice") { CHECK(subset("train", {}) == indices("train", 150)); }

TEST_CASE("slice: a larger subset holds a smaller one of the same seed") {
  const auto five = subset("train", {.per_class = 5, .seed = 1}), nine = subset("train", {.per_class = 9, .seed = 1});
  CHECK(std::includes(nine.begin(), nine.end(), five.begin(), five.end()));
  const auto tenth = subset("train", {.fraction = 0.1}), half = subset("train", {.fraction = 0.5});
  CHECK(std::includes(half.begin(), half.end(), tenth.begin(), tenth.end()));
}

TEST_CASE("slice: a subset lies within its slice") {
  const auto half = subset("train[:50%]", {.per_class = 2, .seed = 1}), slice = indices("train[:50%]", 150);
  CHECK(counts(half) == Counts{2, 2, 2});
  CHECK(std::includes(slice.begin(), slice.end(), half.begin(), half.end()));
}

TEST_CASE("slice: the fractions of the classes are whole in sum") {
  CHECK(counts(subset("train", {.fraction = 0.1})) == Counts{10, 4, 1});
  CHECK(counts(subset("train", {.fraction = 0.25})) == Counts{25, 10, 3});  // 37.5 images, 38 to the half up
  CHECK(counts(subset("train", {.fraction = 0.005})) == Counts{1, 0, 0});   // 0.75
  CHECK(counts(subset("train", {.fraction = 1e-9})) == Counts{1, 0, 0});
  CHECK(counts(subset("train", {.fraction = 0.999})) == Counts{100, 40, 10});
}

TEST_CASE("slice: a class that is too small for a subset is named") {
  CHECK_SAYS(input_error([] { subset("train", {.per_class = 11}); }),
             "per_class is 11, but class \"c\" has 10 images there");
}

TEST_CASE("slice: a class without a name that is too small for a subset is numbered") {
  const std::vector<std::int32_t> labels{0, 0, 1};
  const std::vector<std::string> unnamed(2);
  CHECK_SAYS(input_error([&] { select_images(parse_slice("train"), {.per_class = 2}, "d", labels, unnamed); }),
             "per_class is 2, but class 1 has 1 images there");
}

TEST_CASE("slice: a number per class beside a fraction is refused") {
  CHECK_SAYS(input_error([] { subset("train", {.per_class = 1, .fraction = 0.5}); }), "leave one of them out");
}

TEST_CASE("slice: a class without images does not limit a subset") {
  const std::vector<std::int32_t> labels(4, 0);
  const std::vector<std::string> names{"a", "b"};
  CHECK(select_images(parse_slice("train"), {.per_class = 2}, "d", labels, names).size() == 2);
}

TEST_CASE("slice: a stratified slice has its share of each class, and the rest has the rest") {
  for (const std::uint64_t seed : {0, 1, 2}) {
    const Subset rule{.rule = {.stratified = true, .seed = seed}};
    const auto train = subset("train[:80%]", rule), eval = subset("train[80%:]", rule);
    CHECK(counts(train) == Counts{80, 32, 8});
    CHECK(counts(eval) == Counts{20, 8, 2});
    std::vector<std::int64_t> both;
    std::merge(train.begin(), train.end(), eval.begin(), eval.end(), std::back_inserter(both));
    CHECK(both == indices("train", 150));  // each image once
    CHECK(std::is_sorted(train.begin(), train.end()));
    CHECK(subset("train[:40%]+train[60%:]", rule).size() == 120);
    CHECK(counts(subset("train[80%:][:50%]", rule)) == Counts{10, 4, 1});
  }
  // 10 images of "c": 33% are 3, and of two images, one image or none each class keeps what is left.
  CHECK(counts(subset("train[:33%]", {.rule = {.stratified = true}})) == Counts{33, 13, 3});
}

TEST_CASE("slice: the seed of slices draws other images, stratified or not") {
  const auto plain = [](std::uint64_t seed) { return subset("train[:50%]", {.rule = {.seed = seed}}); };
  const auto fair = [](std::uint64_t seed) {
    return subset("train[:50%]", {.rule = {.stratified = true, .seed = seed}});
  };
  CHECK(plain(0) == indices("train[:50%]", 150));  // as without a seed
  CHECK(plain(1) != plain(0));
  CHECK(fair(1) != fair(0));
  CHECK(fair(0) != plain(0));
  CHECK(subset("train", {.rule = {.stratified = true, .seed = 3}}) == indices("train", 150));
}

TEST_CASE("slice: a stratified slice of classes with few images") {
  const std::vector<std::string> names{"a", "b", "c", "d"};
  const std::vector<std::int32_t> labels{0, 1, 1, 2, 2, 2};  // one, two, three images, none
  const Subset rule{.rule = {.stratified = true}};
  const auto take = [&](const char* slice) {
    return select_images(parse_slice(slice), rule, "d", labels, names).size();
  };
  CHECK(take("train[:80%]") == 0 + 1 + 2);
  CHECK(take("train[80%:]") == 1 + 1 + 1);
  CHECK_SAYS(input_error([&] { take("train[:30%]"); }), "is empty: its share of each class is less than an image");
  CHECK_SAYS(input_error([&] { take("train[:2]"); }), "a stratified slice takes a share of each class; write percent");
}

TEST_CASE("slice: a stratified slice of chosen classes") {
  const Subset rule{.classes = {"c", "a"}, .rule = {.stratified = true}};
  CHECK(counts(subset("train[:80%]", rule)) == Counts{80, 0, 8});
  const Subset tenth{.fraction = 0.5, .rule = {.stratified = true}};
  CHECK(counts(subset("train[:80%]", tenth)) == Counts{40, 16, 4});
}
