#include "experiments/lab/data/generated.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "experiments/lab/data/augment.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

ImageSet pictures(const std::string& name, const std::string& slice, std::int64_t count, std::uint64_t seed = 1) {
  DatasetConfig config;
  config.name = name;
  config.train_images = config.eval_images = count;
  config.shapes_seed = seed;
  ImageSet images = make_generated(config, request_for(slice, 1, config.name));
  finish_image_set(images);
  return images;
}

/// Softmax regression on normalised pixels by gradient descent over mini-batches, then its accuracy on `eval`.
double linear_accuracy(const ImageSet& train, const ImageSet& eval) {
  constexpr std::size_t kInputs = 3072, kClasses = 10;
  const PixelTable<float> table(train.channel_mean, train.channel_std);
  std::vector<float> weights(kClasses * (kInputs + 1)), image(kInputs + 1, 1.0f);
  std::vector<double> p(kClasses);
  const auto logits = [&](const ImageSet& images, std::int64_t i) {
    make_image(images, i, table, image.data());
    for (std::size_t c = 0; c < kClasses; ++c) {
      float sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::size_t k = 0; k <= kInputs; ++k) sum += weights[c * (kInputs + 1) + k] * image[k];
      p[c] = sum;
    }
  };
  for (int epoch = 0; epoch < 15; ++epoch) {
    const double rate = 1e-3 / (1 + epoch);
    for (std::int64_t i = 0; i < train.size(); ++i) {
      logits(train, i);
      const double top = *std::max_element(p.begin(), p.end());
      double total = 0;
      for (double& v : p) total += v = std::exp(v - top);
      for (std::size_t c = 0; c < kClasses; ++c) {
        const bool is_label = train.labels[static_cast<std::size_t>(i)] == static_cast<std::int32_t>(c);
        const auto step = static_cast<float>(rate * (p[c] / total - (is_label ? 1 : 0)));
        for (std::size_t k = 0; k <= kInputs; ++k) weights[c * (kInputs + 1) + k] -= step * image[k];
      }
    }
  }
  int right = 0;
  for (std::int64_t i = 0; i < eval.size(); ++i) {
    logits(eval, i);
    right += std::max_element(p.begin(), p.end()) - p.begin() == eval.labels[static_cast<std::size_t>(i)] ? 1 : 0;
  }
  return double(right) / double(eval.size());
}

}  // namespace

TEST_CASE("generated data: the pictures never change") {
  const auto hash = [](const char* name, const char* split) { return pictures(name, split, 100).hash; };
  CHECK(hash("shapes", "train") == "02c1a6b6e9da442e6f5e7cfd4dca075d1fa9be100b0442e7df7de01afac9aaff");
  CHECK(hash("shapes", "test") == "b4252e95feb817e87fc605ef0176fe73eacc40e7d9f3b1ebb071a34e31bf436c");
  CHECK(hash("gratings", "train") == "41c70dbee16bc4dc064ee27cacb650ec380e9b22534825c405d2cc79ada36242");
  CHECK(hash("gratings", "test") == "86d8cc070e14585315dbcce544e9f5ebeb91635f5646d656039c00cd773d5835");
}

TEST_CASE("generated data: a picture does not depend on how many are asked for") {
  for (const char* name : {"shapes", "gratings"}) {
    CAPTURE(name);
    const ImageSet all = pictures(name, "train", 500), few = pictures(name, "train", 20);
    CHECK(std::equal(few.pixels.begin(), few.pixels.end(), all.pixels.begin()));
  }
}

TEST_CASE("generated data: a slice has the pictures of the whole split") {
  for (const char* name : {"shapes", "gratings"}) {
    CAPTURE(name);
    const ImageSet all = pictures(name, "train", 500), part = pictures(name, "train[100:150]", 500);
    REQUIRE(part.size() == 50);
    for (std::int64_t i = 0; i < 50; ++i) {
      const std::int64_t index = std::stoll(part.key(i));
      CHECK(part.key(i) == all.key(index));
      CHECK(std::equal(part.image(i), part.image(i) + 3072, all.image(index)));
    }
  }
}

TEST_CASE("generated data: other splits and seeds have other pictures") {
  for (const char* name : {"shapes", "gratings"}) {
    CAPTURE(name);
    const ImageSet few = pictures(name, "train", 20);
    CHECK(pictures(name, "test", 20).pixels != few.pixels);
    CHECK(pictures(name, "train", 20, 2).pixels != few.pixels);
  }
}

TEST_CASE("generated data: classes are balanced") {
  for (const char* name : {"shapes", "gratings"}) {
    const ImageSet images = pictures(name, "train", 200);
    std::vector<int> count(10);
    for (const std::int32_t label : images.labels) ++count[static_cast<std::size_t>(label)];
    CHECK(count == std::vector<int>(10, 20));
  }
}

TEST_CASE("generated data: ten classes have names of their own") {
  for (const char* name : {"shapes", "gratings"}) {
    const ImageSet images = pictures(name, "train", 200);
    CHECK(std::set<std::string>(images.class_names.begin(), images.class_names.end()).size() == 10);
  }
}

TEST_CASE("generated data: a linear classifier of pixels stays below 40%") {
  for (const char* name : {"shapes", "gratings"}) {
    const ImageSet train = pictures(name, "train", 2000), eval = pictures(name, "test", 1000);
    const double accuracy = linear_accuracy(train, eval);
    MESSAGE(std::string(name) << ", linear classifier: " << accuracy);
    CHECK(accuracy < 0.4);
    CHECK(accuracy > 0.05);
    CHECK(linear_accuracy(train, train) > 0.4);  // it does learn its training images
  }
}

TEST_CASE("generated data: wrong splits and counts are refused") {
  for (const char* name : {"shapes", "gratings"}) {
    CHECK_SAYS(input_error([&] { pictures(name, "val", 10); }), "its splits are \"train\" and \"test\"");
    CHECK_SAYS(input_error([&] { pictures(name, "train", 0); }), "train_images is 0");
    CHECK_SAYS(input_error([&] { pictures(name, "test", 1000001); }), "eval_images is 1000001");
    CHECK_SAYS(input_error([&] { pictures(name, "train[:11]", 10); }), "ends at 11");
  }
}
