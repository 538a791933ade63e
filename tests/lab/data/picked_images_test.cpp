#include "experiments/lab/data/picked_images.h"

#include <doctest/doctest.h>

using namespace normlab;
using Indices = std::vector<std::size_t>;

TEST_CASE("picked images: indices at equal distances") {
  CHECK(evenly_spaced(10, 5) == Indices{0, 2, 4, 6, 8});
  CHECK(evenly_spaced(10, 4) == Indices{0, 2, 5, 7});
  CHECK(evenly_spaced(3, 3) == Indices{0, 1, 2});
  CHECK(evenly_spaced(3, 7) == Indices{0, 1, 2});
  CHECK(evenly_spaced(5, 0).empty());
  CHECK(evenly_spaced(std::int64_t{1} << 62, 3)[2] == 3074457345618258602u);  // the product would not fit
}

TEST_CASE("picked images: pixels, labels, keys and captions follow") {
  ImageSet all;
  all.height = all.width = 1, all.channels = 2, all.num_classes = 3;
  all.pixels = {0, 1, 10, 11, 20, 21};
  all.labels = {0, 1, 2};
  all.keys = {"a", "b", "c"};
  all.captions = {"one", "two", "three"};
  const ImageSet two = picked_images(all, {2, 0});
  CHECK(two.size() == 2);
  CHECK(two.pixels == std::vector<std::uint8_t>{20, 21, 0, 1});
  CHECK(two.labels == std::vector<std::int32_t>{2, 0});
  CHECK(two.keys == std::vector<std::string>{"c", "a"});
  CHECK(two.captions == std::vector<std::string>{"three", "one"});
  CHECK(two.num_classes == 3);
}

TEST_CASE("picked images: masks follow") {
  ImageSet all;
  all.height = all.width = 1, all.channels = 1, all.num_classes = 9;
  all.pixels = {1, 2, 3};
  all.labels = {0, 0, 0};
  all.masks = std::make_shared<StoredMasks>(1, 1, std::vector<std::uint8_t>{7, 8, 5});
  Mask mask;
  std::vector<std::uint8_t> bytes;
  picked_images(all, {2}).masks->read(0, mask, bytes);
  CHECK(mask.labels == std::vector<std::uint8_t>{5});
}
