// Writes batches that went the whole way of augmentation, with all that was drawn for them, for torchvision and timm to
// repeat: see same_chain.py beside this file.
#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/data/random_boxes.h"
#include "experiments/lab/train/batches.h"
#include "tests/lab/base/save_safetensors.h"

using namespace normlab;

namespace {

constexpr std::int64_t kImages = 16, kHeight = 48, kWidth = 60, kBatch = 8, kOutHeight = 28, kOutWidth = 20;

/// Slopes and noise, so that every pixel matters.
ImageSet pictures() {
  ImageSet images;
  images.height = kHeight;
  images.width = kWidth;
  images.channels = 3;
  images.num_classes = 10;
  for (std::int64_t i = 0; i < kImages; ++i) {
    images.labels.push_back(static_cast<std::int32_t>(i * 7 % 10));
    const StreamKey key = stream_key(1, "test", std::to_string(i));
    for (std::int64_t v = 0; v < images.image_bytes(); ++v)
      images.pixels.push_back(
          static_cast<std::uint8_t>((v / 9 + v % 3 * 40 + below(draw(key, std::uint64_t(v))[0], 90)) % 256));
  }
  images.channel_mean = {0.485, 0.456, 0.406};
  images.channel_std = {0.229, 0.224, 0.225};
  return images;
}

template <class T>
TensorView view(std::string name, std::string dtype, std::vector<std::uint64_t> shape, const std::vector<T>& values) {
  return {std::move(name), std::move(dtype), std::move(shape), std::as_bytes(std::span(values))};
}

void append(std::vector<std::int32_t>& to, const Box& box) {
  for (const std::int64_t v : {box.top, box.left, box.height, box.width}) to.push_back(static_cast<std::int32_t>(v));
}

void export_batches(const std::filesystem::path& file, const TrialConfig& c, std::int64_t steps) {
  const ImageSet images = pictures();
  const AugmentConfig& augment = c.train.augment;
  BatchSource source(c, images, images, DType::f32);
  ShardPool pool(1);
  std::vector<std::int32_t> index, crop, flip, erased, bicubic, partner, cut, cut_box;
  std::vector<float> noise, out, targets;
  std::vector<double> lambda;
  for (std::int64_t step = 0; step < steps; ++step) {
    const BatchSource::Batch batch = source.training(step, pool);
    out.insert(out.end(), batch.images.data<float>(), batch.images.data<float>() + batch.images.size());
    targets.insert(targets.end(), batch.targets.data<float>(), batch.targets.data<float>() + batch.targets.size());
    const std::int64_t epoch = step / source.steps().per_epoch;
    for (const BatchSample& sample : source.samples(step)) {
      const AugmentDraws draws(stream_key(c.seed, "augment", images.key(sample.image)), epoch, sample.repeat);
      index.push_back(static_cast<std::int32_t>(sample.image));
      append(crop, crop_box_torchvision(kHeight, kWidth, augment.crop_area, augment.crop_aspect, draws));
      flip.push_back(draws.words(DrawName::crop_and_flip)[2] >> 31 != 0);
      bicubic.push_back(augment.resize == ResizeMethod::bicubic || !draws.chance(0.5, DrawName::resize_method));
      const Box box = erasing_box(augment.erasing, kOutHeight, kOutWidth, draws);
      append(erased, box);
      std::vector<float> patch, padded(kOutHeight * kOutWidth * 3, 0.0f);
      draw_patch(augment.erasing, box, 3, draws, patch);
      put_patch(patch, {0, 0, box.height, box.width}, kOutWidth, 3, padded.data());
      noise.insert(noise.end(), padded.begin(), padded.end());
    }
    for (const Mixing& mixing : draw_mixing(augment.mix, kBatch, kOutHeight, kOutWidth, c.seed, step)) {
      partner.push_back(static_cast<std::int32_t>(mixing.partner));
      lambda.push_back(mixing.lambda);
      cut.push_back(mixing.cut);
      append(cut_box, mixing.box);
    }
  }
  const auto n = static_cast<std::uint64_t>(steps), b = static_cast<std::uint64_t>(kBatch);
  const auto h = static_cast<std::uint64_t>(kOutHeight), w = static_cast<std::uint64_t>(kOutWidth);
  const nlohmann::json about{{"smoothing", c.train.label_smoothing},
                             {"dialect", word_of(augment.mix.dialect)},
                             {"scope", word_of(augment.mix.scope)}};
  save_safetensors(file, {{"normlab.chain", about.dump()}},
                   {view("in/pixels", "U8", {kImages, kHeight, kWidth, 3}, images.pixels),
                    view("in/labels", "I32", {kImages}, images.labels), view("drawn/index", "I32", {n, b}, index),
                    view("drawn/crop", "I32", {n, b, 4}, crop), view("drawn/flip", "I32", {n, b}, flip),
                    view("drawn/bicubic", "I32", {n, b}, bicubic), view("drawn/erased", "I32", {n, b, 4}, erased),
                    view("drawn/noise", "F32", {n, b, h, w, 3}, noise), view("drawn/partner", "I32", {n, b}, partner),
                    view("drawn/lambda", "F64", {n, b}, lambda), view("drawn/cut", "I32", {n, b}, cut),
                    view("drawn/cut_box", "I32", {n, b, 4}, cut_box), view("out/images", "F32", {n, b, h, w, 3}, out),
                    view("out/targets", "F32", {n, b, 10}, targets)});
}

}  // namespace

TEST_CASE("twin: export augmented batches") {
  const char* out = std::getenv("NORMLAB_CHAIN_OUT");
  if (out == nullptr) {
    MESSAGE("skipped: set NORMLAB_CHAIN_OUT=DIR to write batches for same_chain.py");
    return;
  }
  std::filesystem::create_directories(out);
  TrialConfig c;
  ViTConfig model;
  model.image_size = {kOutHeight, kOutWidth};
  model.patch_size = 4;
  c.model = model;
  c.train.batch_size = kBatch;
  c.train.label_smoothing = 0.1;
  c.train.eval_transform.crop = EvalCrop::stretch;
  AugmentConfig& augment = c.train.augment;
  augment.crop = CropName::inception_torchvision;
  augment.flip = true;
  augment.resize = ResizeMethod::random;
  augment.erasing = {.dialect = ErasingDialect::timm, .probability = 0.5, .fill = ErasingFill::pixel};
  for (const MixScope scope : {MixScope::batch, MixScope::image})
    for (const MixDialect dialect : {MixDialect::torchvision, MixDialect::timm}) {
      augment.mix = {.mixup = 0.8, .cutmix = 1.0, .dialect = dialect, .scope = scope};
      const std::string name = std::string(word_of(dialect)) + "_" + std::string(word_of(scope));
      export_batches(std::filesystem::path(out) / (name + ".safetensors"), c, 12);
    }
}
