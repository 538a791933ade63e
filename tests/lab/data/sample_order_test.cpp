#include "experiments/lab/data/sample_order.h"

#include <algorithm>
#include <numeric>

#include "core/random.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

using Order = std::vector<std::int64_t>;

/// `shards` shards of `each` images with consecutive indices.
ImageSet in_shards(std::int64_t shards, std::int64_t each) {
  ImageSet set;
  set.labels.resize(static_cast<std::size_t>(shards * each));
  for (std::int64_t s = 0; s < shards; ++s) {
    Order images(static_cast<std::size_t>(each));
    std::iota(images.begin(), images.end(), s * each);
    set.shards.push_back(images);
  }
  return set;
}

DatasetConfig config_of(SampleOrder order, std::int64_t buffer = 100) {
  DatasetConfig config;
  config.order = order;
  config.shuffle_buffer = buffer;
  return config;
}

}  // namespace

TEST_CASE("sample_order: shuffled is the permutation over the whole set") {
  const ImageSet set = in_shards(4, 25);
  CHECK(sample_order(config_of(SampleOrder::shuffled), set, 7, 3) ==
        permutation(stream_key(7, "order", "train"), 100, 3));
}

TEST_CASE("sample_order: shards give each image once for any buffer") {
  const ImageSet set = in_shards(7, 30);
  for (const std::int64_t buffer : {1, 2, 50, 209, 210, 211, 100000}) {
    CAPTURE(buffer);
    Order order = sample_order(config_of(SampleOrder::shards, buffer), set, 1, 0);
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < order.size(); ++i) CHECK(order[i] == static_cast<std::int64_t>(i));
    CHECK(order.size() == 210);
  }
}

TEST_CASE("sample_order: an order is a function of seed and epoch alone") {
  const ImageSet set = in_shards(7, 30);
  const DatasetConfig config = config_of(SampleOrder::shards, 20);
  const Order order = sample_order(config, set, 1, 2);
  sample_order(config, set, 1, 3);
  CHECK(sample_order(config, set, 1, 2) == order);
  CHECK(sample_order(config, set, 1, 3) != order);
  CHECK(sample_order(config, set, 2, 2) != order);
}

TEST_CASE("sample_order: the order of shards never changes") {
  const Order order = sample_order(config_of(SampleOrder::shards, 20), in_shards(7, 30), 1, 2);
  CHECK(Order(order.begin(), order.begin() + 8) == Order{166, 167, 152, 154, 165, 150, 163, 151});
}

TEST_CASE("sample_order: shards are read one after another") {
  const ImageSet set = in_shards(10, 100);
  const Order whole = sample_order(config_of(SampleOrder::shards, 1), set, 5, 0);
  for (std::size_t i = 0; i < whole.size(); i += 100)
    for (std::size_t j = 1; j < 100; ++j) CHECK(whole[i + j] == whole[i] + static_cast<std::int64_t>(j));
}

TEST_CASE("sample_order: an image comes at most a buffer before its place") {
  const ImageSet set = in_shards(10, 100);
  const Order whole = sample_order(config_of(SampleOrder::shards, 1), set, 5, 0);
  const Order buffered = sample_order(config_of(SampleOrder::shards, 40), set, 5, 0);
  std::vector<std::size_t> place(1000);
  for (std::size_t i = 0; i < whole.size(); ++i) place[static_cast<std::size_t>(whole[i])] = i;
  for (std::size_t i = 0; i < buffered.size(); ++i) CHECK(place[static_cast<std::size_t>(buffered[i])] < i + 40);
}

TEST_CASE("sample_order: the order of shards needs images in shards") {
  ImageSet set = in_shards(2, 2);
  set.shards.clear();
  CHECK_SAYS(input_error([&] { sample_order(config_of(SampleOrder::shards), set, 0, 0); }), "are not stored in shards");
}
