#include "experiments/lab/train/batches.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <thread>

#include "experiments/lab/data/generated.h"

using namespace normlab;

namespace {

ImageSet shapes(std::int64_t count) {
  DatasetConfig config;
  config.train_images = config.eval_images = count;
  SliceRequest request;
  request.slice = parse_slice("train");
  request.dataset = config.name;
  ImageSet images = make_generated(config, request);
  finish_image_set(images);
  return images;
}

/// Every augmentation that `shapes` may have.
TrialConfig everything() {
  TrialConfig c;
  c.model = ViTConfig{};
  c.train.batch_size = 12;
  c.train.label_smoothing = 0.1;
  c.train.augment.crop_padding = 2;
  c.train.augment.crop = CropName::inception_torchvision;
  c.train.augment.resize = ResizeMethod::random;
  c.train.augment.randaugment.dialect = RandAugmentDialect::torchvision;
  c.train.augment.color_jitter = {0.4, 0.4, 0.4, 0.1};
  c.train.augment.erasing = {.dialect = ErasingDialect::timm, .fill = ErasingFill::pixel};
  c.train.augment.mix = {.mixup = 0.8, .cutmix = 1.0, .dialect = MixDialect::timm, .scope = MixScope::image};
  return c;
}

TrialConfig three_repeats() {
  TrialConfig c = everything();
  c.train.augment.repeats = 3;
  return c;
}

/// For a model whose images are smaller than those of `shapes`.
TrialConfig other_size() {
  TrialConfig c = everything();
  c.train.drop_last = false;
  ViTConfig model;
  model.image_size = {16, 24};
  c.model = model;
  c.train.eval_transform.crop = EvalCrop::stretch;
  return c;
}

std::string bytes_of(const Tensor& t) { return {static_cast<const char*>(t.raw()), t.bytes()}; }

/// All that a batch holds, made on `threads` threads.
std::string batch_bytes(const TrialConfig& c, const ImageSet& images, DType dtype, std::int64_t step, int threads) {
  ShardPool pool(threads);
  BatchSource source(c, images, images, dtype);
  const BatchSource::Batch batch = source.training(step, pool);
  return bytes_of(batch.images) + bytes_of(batch.labels) + (batch.targets ? bytes_of(batch.targets) : "");
}

}  // namespace

TEST_CASE("batches: any number of threads gives the same bits") {
  const ImageSet images = shapes(50);
  const TrialConfig c = everything();
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16}) {
    std::set<std::string> different;
    for (const std::int64_t step : {0, 1, 5}) {  // step 5 is in the second epoch
      const auto expected = batch_bytes(c, images, dtype, step, 1);
      CHECK(batch_bytes(c, images, dtype, step, 2) == expected);
      CHECK(batch_bytes(c, images, dtype, step, 3) == expected);
      different.insert(expected);
    }
    CHECK(different.size() == 3);
  }
}

TEST_CASE("batches: threads that share a source give the bits of one thread") {
  const ImageSet images = shapes(50);
  const TrialConfig c = everything();
  const BatchSource source(c, images, images, DType::f32);
  std::vector<std::string> made(8);  // steps of two epochs
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      BatchBuffer buffer;
      ShardPool one(1);
      for (std::size_t step = t; step < made.size(); step += 4)
        made[step] = bytes_of(source.training(static_cast<std::int64_t>(step), buffer, one).images);
    });
  for (std::thread& thread : threads) thread.join();
  BatchBuffer buffer;
  ShardPool one(1);
  for (std::size_t step = 0; step < made.size(); ++step)
    CHECK(made[step] == bytes_of(source.training(static_cast<std::int64_t>(step), buffer, one).images));
}

TEST_CASE("batches: the targets of mixed images sum to one") {
  const ImageSet images = shapes(50);
  const TrialConfig c = everything();
  ShardPool pool(1);
  BatchSource source(c, images, images, DType::f32);
  const BatchSource::Batch batch = source.training(0, pool);
  CHECK(batch.targets.shape() == Shape{12, 10});
  CHECK(batch.wanted().shape() == Shape{12, 10});
  for (std::int64_t i = 0; i < 12; ++i) {
    double sum = 0;
    for (std::int64_t k = 0; k < 10; ++k) sum += double(batch.targets.data<float>()[i * 10 + k]);
    CHECK(sum == doctest::Approx(1).epsilon(1e-6));
  }
}

TEST_CASE("batches: mixed images keep their labels") {
  const ImageSet images = shapes(50);
  const TrialConfig c = everything();
  ShardPool pool(1);
  BatchSource source(c, images, images, DType::f32);
  const BatchSource::Batch batch = source.training(0, pool);
  for (std::int64_t i = 0; i < 12; ++i)
    CHECK(batch.labels.data<std::int32_t>()[i] ==
          images.labels[static_cast<std::size_t>(source.samples(0)[static_cast<std::size_t>(i)].image)]);
}

TEST_CASE("batches: images that are not mixed have labels alone") {
  const ImageSet images = shapes(50);
  TrialConfig c = everything();
  c.train.augment.mix = {};
  ShardPool pool(1);
  BatchSource plain(c, images, images, DType::f32);
  const BatchSource::Batch unmixed = plain.training(0, pool);
  CHECK(!unmixed.targets);
  CHECK(unmixed.wanted().raw() == unmixed.labels.raw());
}

TEST_CASE("batches: from mix.off_epoch on images are not mixed, and targets are smoothed labels") {
  const ImageSet images = shapes(50);
  const TrialConfig mixing = everything();
  TrialConfig c = mixing, plain = mixing;
  c.train.augment.mix.off_epoch = 1;
  plain.train.augment.mix = {};
  ShardPool pool(1);
  BatchSource off(c, images, images, DType::f32), mixed(mixing, images, images, DType::f32),
      unmixed(plain, images, images, DType::f32);
  const std::int64_t last = off.steps().per_epoch - 1;
  CHECK(bytes_of(off.training(last, pool).images) == bytes_of(mixed.training(last, pool).images));
  const BatchSource::Batch batch = off.training(last + 1, pool), labels = unmixed.training(last + 1, pool);
  CHECK(bytes_of(batch.images) == bytes_of(labels.images));
  for (std::int64_t i = 0; i < 12; ++i)
    for (std::int64_t k = 0; k < 10; ++k)
      CHECK(batch.targets.data<float>()[i * 10 + k] ==
            doctest::Approx(k == labels.labels.data<std::int32_t>()[i] ? 0.91 : 0.01));
}

TEST_CASE("batches: an epoch with repeats is as long as without") {
  const ImageSet images = shapes(60);
  CHECK(BatchSource(three_repeats(), images, images, DType::f32).steps().per_epoch == 5);
}

TEST_CASE("batches: all repeats of an image come in one epoch") {
  const ImageSet images = shapes(60);
  const TrialConfig c = three_repeats();
  const BatchSource source(c, images, images, DType::f32);
  std::map<std::int64_t, std::set<std::int64_t>> seen;
  for (std::int64_t step = 0; step < 5; ++step) {
    const std::vector<BatchSample> samples = source.samples(step);
    REQUIRE(samples.size() == 12);
    for (const BatchSample& sample : samples) seen[sample.image].insert(sample.repeat);
  }
  CHECK(seen.size() == 20);  // a third of the images, each three times
  for (const auto& [image, repeats] : seen) CHECK(repeats == std::set<std::int64_t>{0, 1, 2});
}

TEST_CASE("batches: repeats of an image are not next to each other") {
  const ImageSet images = shapes(60);
  const TrialConfig c = three_repeats();
  const BatchSource source(c, images, images, DType::f32);
  for (std::int64_t step = 0; step < 5; ++step) {
    const std::vector<BatchSample> samples = source.samples(step);
    for (std::size_t i = 0; i < samples.size(); ++i) CHECK(samples[i].image != samples[(i + 1) % samples.size()].image);
  }
}

TEST_CASE("batches: another epoch repeats other images") {
  const ImageSet images = shapes(60);
  const TrialConfig c = three_repeats();
  const BatchSource source(c, images, images, DType::f32);
  CHECK(source.samples(0) != source.samples(5));
}

TEST_CASE("batches: repeats of an image are augmented differently") {
  const ImageSet images = shapes(60);
  TrialConfig c = three_repeats();
  c.train.augment.mix = {};
  c.train.augment.erasing = {};
  BatchSource unmixed(c, images, images, DType::f32);
  ShardPool pool(1);
  const BatchSource::Batch batch = unmixed.training(0, pool);
  CHECK(unmixed.samples(0)[0].image == unmixed.samples(0)[4].image);
  CHECK(bytes_of(batch.images.slice(0, 1)) != bytes_of(batch.images.slice(4, 1)));
}

TEST_CASE("batches: without drop_last the last batch is smaller") {
  const ImageSet images = shapes(50);
  const TrialConfig c = other_size();
  ShardPool pool(1);
  BatchSource source(c, images, images, DType::f32);
  CHECK(source.steps().per_epoch == 5);
  CHECK(source.training(3, pool).images.shape() == Shape{12, 16, 24, 3});
  CHECK(source.training(4, pool).images.shape() == Shape{2, 16, 24, 3});
}

TEST_CASE("batches: images for evaluation have the size of the model") {
  const ImageSet images = shapes(50);
  const TrialConfig c = other_size();
  ShardPool pool(1);
  BatchSource source(c, images, images, DType::f32);
  CHECK(source.evaluation(3, 2, pool).images.shape() == Shape{2, 16, 24, 3});
}

TEST_CASE("batches: images of another size than the model's need a crop") {
  const ImageSet images = shapes(50);
  TrialConfig c = other_size();
  c.train.augment.crop = CropName::none;
  CHECK_THROWS_WITH_AS(BatchSource(c, images, images, DType::f32),
                       "train.augment.crop: the images are 32x32 pixels, but the model takes 24x16; set "
                       "train.augment.crop, or use equal sizes",
                       InputError);
}

TEST_CASE("batches: crop and flip use the words of their definition") {
  const ImageSet images = shapes(50);
  TrialConfig c;
  c.model = ViTConfig{};
  c.train.batch_size = 10;
  c.seed = 4;
  c.train.augment = {.crop_padding = 3, .flip = true};
  ShardPool pool(1);
  BatchSource source(c, images, images, DType::f32);
  const BatchSource::Batch batch = source.training(7, pool);  // epoch 1
  const std::vector<BatchSample> samples = source.samples(7);
  const PixelTable<float> table(images.channel_mean, images.channel_std);
  std::vector<float> expected(3072);
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const StreamKey key = stream_key(4, "augment", images.key(samples[i].image));
    // Words 0, 1 and 2 of the draw at position 0: row, column, flip.
    const auto words = draw(key, 0, 1);
    const std::int64_t row = std::int64_t{below(words[0], 7)} - 3, column = std::int64_t{below(words[1], 7)} - 3;
    for (std::int64_t y = 0; y < 32; ++y)
      for (std::int64_t x = 0; x < 32; ++x)
        for (std::int64_t ch = 0; ch < 3; ++ch) {
          const std::int64_t sy = y + row, sx = (words[2] >> 31 ? 31 - x : x) + column;
          const bool inside = sy >= 0 && sy < 32 && sx >= 0 && sx < 32;
          const int value = inside ? images.image(samples[i].image)[(sy * 32 + sx) * 3 + ch] : 0;
          expected[static_cast<std::size_t>((y * 32 + x) * 3 + ch)] = table.channel(ch)[value];
        }
    CHECK(
        std::equal(expected.begin(), expected.end(), batch.images.data<float>() + static_cast<std::int64_t>(i) * 3072));
  }
}

TEST_CASE("batches: a model with another number of classes is refused") {
  const ImageSet images = shapes(50);
  TrialConfig c;
  c.model = ViTConfig{};
  c.train.batch_size = 10;
  const auto source = [&](std::int64_t classes) {
    std::get<ViTConfig>(c.model).num_classes = classes;
    BatchSource(c, images, images, DType::f32);
  };
  source(10);
  CHECK_THROWS_WITH_AS(source(9),
                       "model.num_classes: the dataset \"shapes\" has 10 classes, but the model has 9; set "
                       "\"model.num_classes\" to 10, or leave it out",
                       InputError);
  CHECK_THROWS_WITH_AS(source(11), doctest::Contains("or set \"dataset.allow_absent_classes\" to true"), InputError);
  c.dataset.allow_absent_classes = true;
  source(11);
  CHECK_THROWS_WITH_AS(source(9), doctest::Contains("has 10 classes, but the model has 9"), InputError);
}
