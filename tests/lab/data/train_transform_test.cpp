#include "experiments/lab/data/train_transform.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "experiments/lab/data/decode.h"
#include "experiments/lab/data/ops/color_jitter.h"
#include "experiments/lab/data/random_boxes.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;

namespace {

/// JPEGs of different sizes.
class Jpegs : public EncodedImages {
 public:
  explicit Jpegs(std::vector<std::string> files) : files_(std::move(files)) {}
  void read(std::int64_t index, std::vector<std::uint8_t>& bytes) const override {
    const std::string& file = files_[static_cast<std::size_t>(index)];
    bytes.assign(file.begin(), file.end());
  }
  std::string where(std::int64_t index) const override { return concat("pets/", index, ".jpg"); }

 private:
  std::vector<std::string> files_;
};

ImageSet encoded(const std::vector<std::string>& files) {
  ImageSet images;
  images.channels = 3;
  images.num_classes = 1;
  images.encoded = std::make_shared<Jpegs>(files);
  images.labels.assign(files.size(), 0);
  images.channel_mean = {0.5, 0.4, 0.3};
  images.channel_std = {0.2, 0.25, 0.3};
  return images;
}

/// The same images in memory; all of one size.
ImageSet decoded(const std::vector<std::string>& files) {
  ImageSet images = encoded(files);
  images.encoded = nullptr;
  for (const std::string& file : files) {
    Image image;
    decode_image({reinterpret_cast<const std::uint8_t*>(file.data()), file.size()}, "test", image);
    images.height = image.height;
    images.width = image.width;
    images.pixels.insert(images.pixels.end(), image.pixels.begin(), image.pixels.end());
  }
  return images;
}

TrialConfig trial(CropName crop, std::int64_t height, std::int64_t width) {
  TrialConfig c;
  ViTConfig model;
  model.image_size = {height, width};
  c.model = model;
  c.seed = 3;
  c.train.augment.crop = crop;
  return c;
}

std::vector<float> make(const TrialConfig& c, const ImageSet& images, std::int64_t index, std::int64_t epoch,
                        std::int64_t repeat = 0) {
  TransformScratch scratch;
  const auto size = image_size(c.model);
  std::vector<float> out(static_cast<std::size_t>(size[0] * size[1] * images.channels));
  TrainTransform(c, images)(index, epoch, repeat, scratch, out.data());
  return out;
}

const std::vector<std::string> kFiles{make_jpeg(40, 56, 1), make_jpeg(40, 56, 2)};

}  // namespace

TEST_CASE("train transform: an encoded image equals the same image in memory") {
  for (const CropName crop :
       {CropName::inception_tensorflow, CropName::inception_torchvision, CropName::stretch, CropName::center})
    for (const ResizeMethod method : {ResizeMethod::bilinear, ResizeMethod::bicubic, ResizeMethod::bilinear_plain,
                                      ResizeMethod::area, ResizeMethod::random}) {
      CAPTURE(int(crop));
      CAPTURE(int(method));
      TrialConfig c = trial(crop, 24, 32);
      c.train.augment.resize = method;
      c.train.augment.flip = true;
      c.train.eval_transform = {.crop = EvalCrop::center, .resize_to = 33};
      for (std::int64_t epoch = 0; epoch < 4; ++epoch)
        CHECK(make(c, encoded(kFiles), 1, epoch) == make(c, decoded(kFiles), 1, epoch));
    }
}

TEST_CASE("train transform: the steps are done in their documented order") {
  const ImageSet images = decoded(kFiles);
  TrialConfig c = trial(CropName::inception_torchvision, 20, 28);
  c.train.augment.crop_padding = 3;
  c.train.augment.flip = true;
  c.train.augment.resize = ResizeMethod::bicubic;
  c.train.augment.erasing = {.dialect = ErasingDialect::torchvision, .probability = 0.5, .fill = ErasingFill::pixel};
  c.train.augment.color_jitter = {.brightness = 0.4, .contrast = 0.4, .saturation = 0.4, .hue = 0.1};
  c.train.augment.randaugment.dialect = RandAugmentDialect::big_vision;
  std::int64_t erased = 0, flipped = 0;
  // Crop, resize, pad, flip, drawn operations, jitter, normalise, erase.
  for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
    const AugmentDraws draws(stream_key(3, "augment", "0"), epoch, 2);
    ImageScratch scratch;
    Image sized, moved;
    resize(whole_image(images, 0, scratch),
           crop_box_torchvision(40, 56, c.train.augment.crop_area, c.train.augment.crop_aspect, draws),
           ResizeMethod::bicubic, 20, 28, sized, scratch.resize);
    const auto words = draws.words(DrawName::crop_and_flip);
    const std::int64_t row = std::int64_t{below(words[0], 7)} - 3, column = std::int64_t{below(words[1], 7)} - 3;
    const bool flip = words[2] >> 31 != 0;
    moved.resize(20, 28);
    for (std::int64_t y = 0; y < 20; ++y)
      for (std::int64_t x = 0; x < 28; ++x)
        for (std::int64_t ch = 0; ch < 3; ++ch) {
          const std::int64_t sy = y + row, sx = (flip ? 27 - x : x) + column;
          const bool inside = sy >= 0 && sy < 20 && sx >= 0 && sx < 28;
          moved.row(y)[x * 3 + ch] = inside ? sized.row(sy)[sx * 3 + ch] : std::uint8_t{0};
        }
    OpScratch ops;
    RandAugment(c.train.augment.randaugment).apply(moved, draws, ops);
    color_jitter(moved, c.train.augment.color_jitter, draws);
    std::vector<float> expected(20 * 28 * 3), patch;
    normalise_image(moved, 3, PixelTable<float>(images.channel_mean, images.channel_std), expected.data());
    const Box box = erasing_box(c.train.augment.erasing, 20, 28, draws);
    draw_patch(c.train.augment.erasing, box, 3, draws, patch);
    put_patch(patch, box, 28, 3, expected.data());
    CHECK(make(c, images, 0, epoch, 2) == expected);
    erased += box.height > 0;
    flipped += flip;
  }
  CHECK((erased > 3 && erased < 17 && flipped > 3 && flipped < 17));
}

TEST_CASE("train transform: padded crop, flip and policy are done in the given order") {
  const ImageSet images = decoded(kFiles);
  TrialConfig c = trial(CropName::none, 40, 56);
  AugmentConfig& augment = c.train.augment;
  augment.crop_padding = 9;
  augment.flip = true;
  augment.trivialaugment.dialect = TrivialAugmentDialect::torchvision;
  const TrivialAugment policy(augment.trivialaugment);
  const PixelTable<float> table(images.channel_mean, images.channel_std);
  std::set<std::vector<float>> orders;
  do {
    TrialConfig without = c;
    without.train.augment.trivialaugment = {};
    std::vector<float> all;
    for (std::int64_t epoch = 0; epoch < 20; ++epoch) {
      const AugmentDraws draws(stream_key(3, "augment", "0"), epoch, 1);
      std::vector<float> expected(40 * 56 * 3), moved = expected;
      for (std::vector<float>* out : {&expected, &moved}) {
        ImageScratch scratch;
        Image image = whole_image(images, 0, scratch), next;
        OpScratch ops;
        for (const AugmentStep step : augment.order) {
          if (step == AugmentStep::policy) {
            if (out == &expected) policy.apply(image, draws, ops);
            continue;
          }
          if (step == AugmentStep::flip)
            move_image(image, {.flip = true}, draws, next);
          else
            move_image(image, {.crop_padding = 9}, draws, next);
          std::swap(image, next);
        }
        normalise_image(image, 3, table, out->data());
      }
      CHECK(make(c, images, 0, epoch, 1) == expected);
      CHECK(make(without, images, 0, epoch, 1) == moved);
      all.insert(all.end(), expected.begin(), expected.end());
    }
    orders.insert(all);
  } while (std::next_permutation(augment.order.begin(), augment.order.end()));
  CHECK(orders.size() == 6);
}

TEST_CASE("train transform: AutoAugment is applied") {
  const ImageSet images = decoded(kFiles);
  const TrialConfig plain = trial(CropName::none, 40, 56);
  TrialConfig drawn = plain;
  drawn.train.augment.autoaugment.dialect = AutoAugmentDialect::deepvoltaire;
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    const AugmentDraws draws(stream_key(3, "augment", "0"), epoch);
    ImageScratch scratch;
    Image image = whole_image(images, 0, scratch);
    OpScratch ops;
    AutoAugment(drawn.train.augment.autoaugment).apply(image, draws, ops);
    std::vector<float> expected(40 * 56 * 3);
    normalise_image(image, 3, PixelTable<float>(images.channel_mean, images.channel_std), expected.data());
    CHECK(make(drawn, images, 0, epoch) == expected);
  }
}

TEST_CASE("train transform: no step's draws depend on another step") {
  const ImageSet images = decoded(kFiles);
  const TrialConfig plain = trial(CropName::inception_tensorflow, 20, 28);
  TrialConfig erasing = plain;
  erasing.train.augment.erasing = {.dialect = ErasingDialect::timm, .probability = 1.0, .value = 9.0};
  for (std::int64_t epoch = 0; epoch < 5; ++epoch) {
    const auto without = make(plain, images, 0, epoch), with = make(erasing, images, 0, epoch);
    std::size_t kept = 0;
    for (std::size_t i = 0; i < with.size(); ++i) {
      CHECK((with[i] == 9.0f || with[i] == without[i]));
      kept += with[i] == without[i];
    }
    CHECK((kept > 0 && kept < with.size()));
  }
}

TEST_CASE("train transform: other epochs, repeats and seeds have other images") {
  const ImageSet images = decoded(kFiles);
  TrialConfig plain = trial(CropName::inception_tensorflow, 20, 28);
  const auto first = make(plain, images, 0, 1);
  CHECK(first != make(plain, images, 0, 2));
  CHECK(first != make(plain, images, 0, 1, 1));
  plain.seed = 4;
  CHECK(first != make(plain, images, 0, 1));
}

TEST_CASE("train transform: a drawn resize is bilinear or bicubic equally often") {
  const ImageSet images = decoded(kFiles);
  TrialConfig c = trial(CropName::stretch, 20, 28), bilinear = c, bicubic = c;
  c.train.augment.resize = ResizeMethod::random;
  bicubic.train.augment.resize = ResizeMethod::bicubic;
  const auto soft = make(bilinear, images, 0, 0), sharp = make(bicubic, images, 0, 0);
  int bilinears = 0;
  for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
    const auto drawn = make(c, images, 0, epoch);
    CHECK((drawn == soft || drawn == sharp));
    bilinears += drawn == soft;
  }
  CHECK((bilinears > 70 && bilinears < 130));
}

TEST_CASE("train transform: an image of one channel is transformed as a channel of three") {
  ImageSet gray = decoded(kFiles);
  ImageSet colour = gray;
  gray.channels = 1;
  gray.pixels.clear();
  for (std::size_t i = 0; i < colour.pixels.size(); i += 3) {
    gray.pixels.push_back(colour.pixels[i]);
    colour.pixels[i + 1] = colour.pixels[i + 2] = colour.pixels[i];
  }
  gray.channel_mean = {0.5};
  gray.channel_std = {0.2};
  TrialConfig c = trial(CropName::inception_torchvision, 20, 28), one = c;
  std::get<ViTConfig>(one.model).channels = 1;
  const auto expected = make(c, colour, 1, 0), out = make(one, gray, 1, 0);
  REQUIRE(out.size() * 3 == expected.size());
  for (std::size_t i = 0; i < out.size(); ++i) CHECK(out[i] == expected[i * 3]);
}

TEST_CASE("train transform: images of two channels are refused") {
  ImageSet gray = decoded(kFiles);
  TrialConfig one = trial(CropName::inception_torchvision, 20, 28);
  gray.channels = 2;
  gray.channel_mean = gray.channel_std = {0.5, 0.5};
  std::get<ViTConfig>(one.model).channels = 2;
  CHECK_SAYS(input_error([&] { TrainTransform(one, gray); }), "need images of one or three channels");
}

TEST_CASE("train transform: without a crop images of another size are refused") {
  const TrialConfig c = trial(CropName::none, 24, 32);
  CHECK_SAYS(input_error([&] { make(c, encoded(kFiles), 1, 0); }),
             "pets/1.jpg: is 56x40 pixels, but the model takes 32x24; set train.augment.crop");
  CHECK_SAYS(input_error([&] { TrainTransform(c, decoded(kFiles)); }),
             "train.augment.crop: the images are 56x40 pixels, but the model takes 32x24");
}

TEST_CASE("train transform: without a crop an encoded image of the model's size stays") {
  CHECK(make(trial(CropName::none, 40, 56), encoded(kFiles), 1, 0) ==
        make(trial(CropName::none, 40, 56), decoded(kFiles), 1, 0));
}

TEST_CASE("train transform: a broken image is named") {
  const TrialConfig c = trial(CropName::stretch, 24, 32);
  CHECK_SAYS(input_error([&] { make(c, encoded({kFiles[0].substr(0, 200)}), 0, 0); }), "pets/0.jpg");
}
