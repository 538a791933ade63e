#include "experiments/lab/data/augment.h"

#include <doctest/doctest.h>

#include <set>

#include "core/error.h"

using namespace normlab;

namespace {

/// Pixels that differ from each other and from black.
ImageSet numbered(std::int64_t n, std::int64_t height, std::int64_t width, std::int64_t channels) {
  ImageSet images;
  images.height = height;
  images.width = width;
  images.channels = channels;
  images.labels.assign(static_cast<std::size_t>(n), 0);
  for (std::int64_t i = 0; i < n * images.image_bytes(); ++i)
    images.pixels.push_back(static_cast<std::uint8_t>(1 + i % 251));
  return images;
}

/// The definition, pixel by pixel.
std::vector<double> by_definition(const ImageSet& images, std::int64_t index, std::int64_t row, std::int64_t column,
                                  bool flip) {
  std::vector<double> out;
  for (std::int64_t y = 0; y < images.height; ++y) {
    for (std::int64_t x = 0; x < images.width; ++x) {
      const std::int64_t sy = y + row, sx = (flip ? images.width - 1 - x : x) + column;
      const bool inside = sy >= 0 && sy < images.height && sx >= 0 && sx < images.width;
      for (std::int64_t c = 0; c < images.channels; ++c) {
        const int value = inside ? images.image(index)[(sy * images.width + sx) * images.channels + c] : 0;
        out.push_back((value / 255.0 - 0.25 * double(c + 1)) / 0.5);
      }
    }
  }
  return out;
}

struct Drawn {
  std::int64_t row, column;
  bool flip;
};
/// What an image draws in an epoch, by the definition.
Drawn drawn_by_definition(const StreamKey& key, std::int64_t epoch, std::int64_t padding) {
  const auto words = draw(key, 0, static_cast<std::uint64_t>(epoch));
  const auto offset = [&](std::uint32_t w) {
    return std::int64_t((std::uint64_t{w} * std::uint64_t(2 * padding + 1)) >> 32) - padding;
  };
  return {offset(words[0]), offset(words[1]), words[2] >= 0x80000000u};
}

PixelTable<double> table_for(std::int64_t channels) {
  std::vector<double> mean;
  for (std::int64_t c = 0; c < channels; ++c) mean.push_back(0.25 * double(c + 1));
  return {mean, std::vector<double>(static_cast<std::size_t>(channels), 0.5)};
}

}  // namespace

TEST_CASE("augment: crop and flip equal their definition") {
  for (const std::int64_t channels : {3, 1}) {
    for (const std::int64_t padding : {0, 2, 7}) {  // 7: some crops show nothing of a 5x4 image
      CAPTURE(channels);
      CAPTURE(padding);
      const ImageSet images = numbered(3, 5, 4, channels);
      const auto keys = augment_keys(images, 9);
      std::vector<double> out(static_cast<std::size_t>(images.image_bytes()));
      for (std::int64_t epoch = 0; epoch < 400; ++epoch) {
        const auto [row, column, flip] = drawn_by_definition(keys[1], epoch, padding);
        make_image(images, 1, {.crop_padding = padding, .flip = true}, {keys[1], epoch}, table_for(channels),
                   out.data());
        CHECK(out == by_definition(images, 1, row, column, flip));
      }
    }
  }
}

TEST_CASE("augment: every crop and flip is drawn") {
  for (const std::int64_t channels : {3, 1}) {
    for (const std::int64_t padding : {0, 2}) {
      CAPTURE(channels);
      CAPTURE(padding);
      const auto keys = augment_keys(numbered(3, 5, 4, channels), 9);
      std::set<std::vector<std::int64_t>> seen;
      for (std::int64_t epoch = 0; epoch < 400; ++epoch) {
        const auto [row, column, flip] = drawn_by_definition(keys[1], epoch, padding);
        seen.insert({row, column, flip});
      }
      CHECK(seen.size() == static_cast<std::size_t>((2 * padding + 1) * (2 * padding + 1) * 2));
    }
  }
}

TEST_CASE("augment: without crop and flip an image is only normalised") {
  const ImageSet images = numbered(2, 6, 6, 3);
  const auto keys = augment_keys(images, 0);
  std::vector<double> train(108), eval(108);
  make_image(images, 1, {}, {keys[1], 5}, table_for(3), train.data());
  make_image(images, 1, table_for(3), eval.data());
  CHECK(train == by_definition(images, 1, 0, 0, false));
  CHECK(eval == train);
}

TEST_CASE("augment: an image keeps its draws at another place in the set") {
  ImageSet images = numbered(2, 4, 4, 3), turned = images;
  images.keys = {"a", "b"};
  turned.keys = {"b", "a"};
  const auto keys = augment_keys(images, 7), other = augment_keys(turned, 7);
  CHECK(keys[0] == other[1]);
  CHECK(keys[1] == other[0]);
}

TEST_CASE("augment: other images and other seeds have other draws") {
  ImageSet images = numbered(2, 4, 4, 3);
  images.keys = {"a", "b"};
  const auto keys = augment_keys(images, 7);
  CHECK_FALSE(keys[0] == keys[1]);
  CHECK_FALSE(keys[0] == augment_keys(images, 8)[0]);
}

TEST_CASE("augment: an image without a key draws by its index in decimal") {
  const ImageSet images = numbered(2, 4, 4, 3);
  CHECK(augment_keys(images, 7)[1] == stream_key(7, "augment", "1"));
}

TEST_CASE("augment: a float table of pixels is the double one rounded once") {
  const PixelTable<float> table({0.3, 0.5}, {0.2, 0});
  const PixelTable<double> exact({0.3, 0.5}, {0.2, 0});
  for (int v = 0; v < 256; ++v) CHECK(table.channel(0)[v] == static_cast<float>(exact.channel(0)[v]));
}

TEST_CASE("augment: a pixel loses the mean and is divided by the deviation") {
  const PixelTable<double> exact({0.3, 0.5}, {0.2, 0});
  CHECK(exact.channel(0)[51] == doctest::Approx(-0.5));
}

TEST_CASE("augment: a channel of deviation 0 is only shifted") {
  const PixelTable<double> exact({0.3, 0.5}, {0.2, 0});
  CHECK(exact.channel(1)[255] == 0.5);
}

TEST_CASE("augment: as many deviations as means are needed") {
  CHECK_THROWS_WITH_AS((PixelTable<float>({0.1}, {0.1, 0.2})), "normalisation: 1 means and 2 standard deviations",
                       InputError);
}
