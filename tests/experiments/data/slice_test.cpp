#include "experiments/data/slice.h"

#include <set>

#include "tests/experiments/data/fixtures.h"

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

TEST_CASE("slice: the permutation is fixed, mixes, and hangs on the dataset's name") {
  CHECK(indices("train[:5]", 100, "cifar10") == std::vector<std::int64_t>{18, 31, 37, 79, 83});
  CHECK(indices("train[:5]", 100, "cifar10") != indices("train[:5]", 100, "other"));
}

TEST_CASE("slice: empty ones and ones past the end are refused with both numbers") {
  CHECK_SAYS(input_error([] { indices("train[:101]", 100); }), "ends at 101, but the split has 100 images");
  CHECK_SAYS(input_error([] { indices("train[50:50]", 100); }), "is empty: from 50 to 50");
  CHECK_SAYS(input_error([] { indices("train[60:50]", 100); }), "is empty");
  CHECK_SAYS(input_error([] { indices("train[:1%]", 50); }), "is empty: from 0 to 0 of 50");
  CHECK_SAYS(input_error([] { indices("train", 0); }), "is empty");
  CHECK_SAYS(input_error([] { indices("train[200:]", 100); }), "is empty");
}

TEST_CASE("slice: what is no slice is refused") {
  for (const char* bad :
       {"", "[:5]", "train[", "train[5]", "train[:5", "train[:5]x", "train[-5:]", "train[:1.5%]", "train[:101%]",
        "train[%:]", "train[1:2:3]", "tr ain", "train[:99999999999999999999]", "../train", "train]"}) {
    CAPTURE(bad);
    CHECK_SAYS(input_error([&] { parse_slice(bad); }), std::string("slice \"") + bad + "\": ");
  }
}
