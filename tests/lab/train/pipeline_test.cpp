#include "experiments/lab/train/pipeline.h"

#include <doctest/doctest.h>

#include <atomic>

#include "nn/model/init.h"
#include "tests/cuda_emulation/streams.h"
#include "tests/devices.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

/// JPEGs of which one may be broken. Counts what is read.
class Photos : public EncodedImages {
 public:
  explicit Photos(std::int64_t broken) : broken_(broken) {
    for (unsigned i = 0; i < 5; ++i) files_.push_back(make_jpeg(30 + i, 40, i));
  }
  void read(std::int64_t index, std::vector<std::uint8_t>& bytes) const override {
    ++reads;
    const std::string& file = files_[static_cast<std::size_t>(index) % files_.size()];
    bytes.assign(file.begin(), index == broken_ ? file.begin() + 200 : file.end());
  }
  std::string where(std::int64_t index) const override { return concat("pets/", index, ".jpg"); }
  mutable std::atomic<std::int64_t> reads{0};

 private:
  std::vector<std::string> files_;
  std::int64_t broken_;
};

ImageSet photos(std::int64_t broken = -1) {
  ImageSet images;
  images.channels = 3;
  images.num_classes = 10;
  images.encoded = std::make_shared<Photos>(broken);
  for (std::int32_t i = 0; i < 40; ++i) images.labels.push_back(i % 10);
  images.channel_mean = {0.5, 0.4, 0.3};
  images.channel_std = {0.2, 0.25, 0.3};
  return images;
}

TrialConfig config() {
  TrialConfig c;
  ViTConfig model;
  model.image_size = {16, 16};
  c.model = model;
  c.train.epochs = 2;
  c.train.batch_size = 8;  // five steps an epoch
  c.train.augment.crop = CropName::inception_torchvision;
  c.train.augment.flip = true;
  c.train.eval_transform.crop = EvalCrop::stretch;
  c.train.augment.mix = {.mixup = 0.8};
  return c;
}

std::vector<std::byte> bytes_of(const BatchSource::Batch& batch) {
  std::vector<std::byte> all;
  for (const Tensor& t : {batch.images, batch.labels, batch.targets}) {
    const auto* p = static_cast<const std::byte*>(t.raw());
    all.insert(all.end(), p, p + t.bytes());
  }
  return all;
}

/// The batches of two epochs, made without threads.
std::vector<std::vector<std::byte>> batches_of(const BatchSource& source, ShardPool& pool) {
  BatchPipeline none(source, 0);
  std::vector<std::vector<std::byte>> batches;
  for (std::int64_t step = 0; step < 10; ++step) batches.push_back(bytes_of(none.training(step, pool)));
  return batches;
}

}  // namespace

TEST_CASE("pipeline: any number of threads and order of steps gives the same batches") {
  const ImageSet images = photos();
  const TrialConfig c = config();
  const BatchSource source(c, images, images, DType::f32);
  ShardPool pool(1);
  const std::vector<std::vector<std::byte>> expected = batches_of(source, pool);
  CHECK(expected[1] != expected[6]);
  for (const int threads : {1, 2, 5}) {
    CAPTURE(threads);
    BatchPipeline pipeline(source, threads);
    for (const std::int64_t step : {0, 1, 2, 2, 3, 4, 5, 7, 9, 0, 1, 8, 9, 9, 3}) {
      CAPTURE(step);
      CHECK(bytes_of(pipeline.training(step, pool)) == expected[static_cast<std::size_t>(step)]);
    }
  }
}

TEST_CASE("pipeline: the first step may be any") {
  const ImageSet images = photos();
  const TrialConfig c = config();
  const BatchSource source(c, images, images, DType::f32);
  ShardPool pool(1);
  const std::vector<std::vector<std::byte>> expected = batches_of(source, pool);
  for (const int threads : {1, 2, 5}) {
    CAPTURE(threads);
    BatchPipeline resumed(source, threads);
    for (std::int64_t step = 6; step < 10; ++step)
      CHECK(bytes_of(resumed.training(step, pool)) == expected[static_cast<std::size_t>(step)]);
  }
}

TEST_CASE("pipeline: a broken image is named at the step that needs it") {
  const ImageSet images = photos(17);
  const TrialConfig c = config();
  const BatchSource source(c, images, images, DType::f32);
  std::int64_t broken_at = -1;
  for (std::int64_t step = 0; step < 5; ++step)
    for (const BatchSample& sample : source.samples(step))
      if (sample.image == 17) broken_at = step;
  REQUIRE(broken_at >= 0);
  ShardPool pool(1);
  for (const int threads : {0, 1, 3}) {
    CAPTURE(threads);
    BatchPipeline pipeline(source, threads);
    for (std::int64_t step = 0; step < 5; ++step) {
      CAPTURE(step);
      const std::string error = input_error([&] { pipeline.training(step, pool); });
      if (step == broken_at)
        CHECK_SAYS(error, "pets/17.jpg: ");
      else
        CHECK(error.empty());
    }
  }
}

TEST_CASE("pipeline: at most two batches are made ahead") {
  const ImageSet images = photos();
  const auto& reads = static_cast<const Photos&>(*images.encoded).reads;
  const TrialConfig c = config();
  const BatchSource source(c, images, images, DType::f32);
  ShardPool pool(1);
  const auto settle = [&] { std::this_thread::sleep_for(std::chrono::milliseconds(150)); };
  BatchPipeline pipeline(source, 2);
  settle();
  CHECK(reads == 0);
  pipeline.training(0, pool);
  settle();
  CHECK(reads == 3 * 8);
  pipeline.training(9, pool);  // the last step: waiting batches are dropped
  settle();
  CHECK(reads == 4 * 8);
}

TEST_CASE("pipeline: a device takes images from where they were made") {
  TrialConfig c = config();
  ViTConfig model;
  model.image_size = {16, 16};
  model.patch_size = 8;
  model.embed_dim = 8;
  model.mlp_dim = 16;
  model.depth = 1;
  model.num_heads = 2;
  c.model = model;
  const ImageSet images = photos();
  const BatchSource source(c, images, images, DType::f32);
  EngineSettings settings;
  settings.precision = Precision::fp32;
  settings.max_batch = c.train.batch_size;
  on_each_device([&] {
    Backend& backend = current_device().backend;
    ShardPool pool(1);
    const auto losses = [&](int threads) {
      Engine engine(backend, pool, c.model, settings);
      initialise(engine.parameters(), c.model, 3);
      UploadedBatches batches(source, threads, engine, pool, nullptr);
      std::vector<double> all;
      for (std::int64_t step = 0; step < 4; ++step) {
        engine.state().lr = 1e-2;
        engine.start_step(batches.take(step));
        if (backend.whole_batch()) batches.prepare(step + 1);
        all.push_back(engine.finish_step());
      }
      return all;
    };
    CHECK(losses(0) == losses(2));
    Engine engine(backend, pool, c.model, settings);
    UploadedBatches early(source, 0, engine, pool, nullptr);  // a batch is made where the one before is copied from
    for (std::int64_t step = 0; step < 3; ++step) CHECK_NOTHROW(early.take(step));
    BatchPipeline pipeline(source, 0, &backend);
    if (current_device().name == "cuda (emulated)")
      CHECK(emulation::is_pinned(pipeline.training(0, pool).images.raw()));
  });
}
