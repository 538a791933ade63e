// Images with masks: readers, labels, and the transform of both together.
#include <algorithm>
#include <array>
#include <set>

#include "core/ignored_label.h"
#include "experiments/lab/data/dataset.h"
#include "experiments/lab/data/png.h"
#include "experiments/lab/data/segment_transform.h"
#include "tests/lab/data/dataset_files.h"

using namespace normlab;
using namespace normlab::test;

namespace {

/// Class `top` in the upper half, and the last pixel ignored.
Mask halves(std::int64_t height, std::int64_t width, std::uint8_t top = 1) {
  Mask mask;
  mask.resize(height, width);
  std::fill_n(mask.labels.begin(), height / 2 * width, top);
  mask.labels.back() = kIgnoredLabel;
  return mask;
}

std::string file_of(const Mask& mask) {
  const std::vector<std::uint8_t> bytes = png_bytes(mask);
  return {bytes.begin(), bytes.end()};
}

/// images/SPLIT and masks/SPLIT with three training images of `height` x `width` and one test image.
struct Pairs : TempFolder {
  explicit Pairs(std::int64_t height = 8, std::int64_t width = 12) {
    write_file(*this / "own" / "classes.txt", "sky\nsea\nsand\n");
    for (const char* name : {"train/a", "train/b", "train/sub/c", "test/a"}) add(name, height, width);
  }
  void add(const std::string& name, std::int64_t height, std::int64_t width) const {
    write_file(*this / "own" / "images" / (name + ".jpg"), make_jpeg(int(height), int(width), unsigned(name.size())));
    put_mask(name, halves(height, width));
  }
  void put_mask(const std::string& name, const Mask& mask) const {
    write_file(*this / "own" / "masks" / (name + ".png"), file_of(mask));
  }
  static DatasetConfig config(MaskLabels masks = MaskLabels::classes) {
    DatasetConfig c = named("own", "", DatasetLayout::image_masks);
    c.masks = masks;
    c.allow_absent_classes = true;
    c.mean = {0.5, 0.5, 0.5};
    c.std = {0.5, 0.5, 0.5};
    return c;
  }
  DataPair load(MaskLabels masks = MaskLabels::classes, int threads = 1) const {
    return load_dataset(config(masks), path(), threads);
  }
  std::string said(MaskLabels masks = MaskLabels::classes) const {
    return input_error([&] { load(masks); });
  }
};

Mask mask_of(const ImageSet& set, std::int64_t image) {
  Mask mask;
  std::vector<std::uint8_t> bytes;
  set.masks->read(image, mask, bytes);
  return mask;
}

bool says(const std::string& text, const std::string& what) { return text.find(what) != std::string::npos; }

TrialConfig segmenter(std::int64_t side) {
  TrialConfig c;
  ViTConfig model;
  model.task = Task::segment;
  model.image_size = {side, side};
  model.num_classes = 3;
  model.patch_size = 4;
  c.model = model;
  return c;
}

struct Made {
  std::vector<float> pixels;
  std::vector<std::int32_t> labels;
};
Made make(const SegmentTransform& transform, std::int64_t side, std::int64_t index, std::int64_t epoch) {
  Made made{std::vector<float>(static_cast<std::size_t>(side * side * 3)),
            std::vector<std::int32_t>(static_cast<std::size_t>(side * side))};
  TransformScratch scratch;
  transform(index, epoch, 0, scratch, made.pixels.data(), made.labels.data());
  return made;
}

}  // namespace

TEST_CASE("masks: a PNG of a mask is read as it is stored") {
  const Mask mask = halves(4, 6);
  Mask back;
  decode_mask_png(png_bytes(mask), "m.png", back);
  CHECK(back == mask);
  // A palette: its indices, not its colours.
  const std::string palette =
      "\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x02\0\0\0\x01\x02\x03\0\0\0";  // cut short: an error, not a crash
  Mask none;
  CHECK(says(input_error([&] {
               decode_mask_png(FileBytes(reinterpret_cast<const std::uint8_t*>(palette.data()), palette.size()),
                               "m.png", none);
             }),
             "m.png"));
  CHECK(says(input_error([&] {
               Image image;
               image.resize(2, 2);
               decode_mask_png(png_bytes(image), "m.png", none);
             }),
             "m.png: has colours; a mask is a grayscale PNG"));
  const std::string jpeg = make_jpeg(4, 4, 1);
  CHECK(says(input_error([&] {
               decode_mask_png(FileBytes(reinterpret_cast<const std::uint8_t*>(jpeg.data()), jpeg.size()), "m.jpg",
                               none);
             }),
             "m.jpg: is not a PNG"));
}

TEST_CASE("masks: folders of images and masks are paired by name") {
  const Pairs pairs;
  const DataPair data = pairs.load();
  CHECK(data.train.keys == std::vector<std::string>{"a.jpg", "b.jpg", "sub/c.jpg"});
  CHECK(data.train.class_names == std::vector<std::string>{"sky", "sea", "sand"});
  CHECK(data.train.height == 8);
  CHECK(mask_of(data.train, 2) == halves(8, 12));
  CHECK(pairs.load(MaskLabels::classes, 3).train.hash == data.train.hash);
  pairs.put_mask("train/b", halves(8, 12, 2));
  CHECK(pairs.load().train.hash != data.train.hash);
  // Images of several sizes stay in their files, and so do their masks.
  pairs.add("train/b", 10, 10);
  const DataPair encoded = pairs.load();
  REQUIRE(encoded.train.encoded);
  CHECK(mask_of(encoded.train, 1) == halves(10, 10));
}

TEST_CASE("masks: from_one ignores 0 and counts classes from 1") {
  const Pairs pairs;
  Mask mask = mask_of(pairs.load(MaskLabels::from_one).train, 0);
  CHECK(mask.labels.front() == 0);
  CHECK(mask.labels[60] == kIgnoredLabel);  // 0 in the file
  CHECK(mask.labels.back() == kIgnoredLabel);
}

TEST_CASE("masks: what does not fit is named with its file") {
  SUBCASE("a missing mask") {
    const Pairs pairs;
    std::filesystem::remove(pairs / "own" / "masks" / "train" / "b.png");
    CHECK(says(pairs.said(), "images/train/b.jpg: its mask "));
    CHECK(says(pairs.said(), "masks/train/b.png is missing"));
  }
  SUBCASE("a mask without an image") {
    const Pairs pairs;
    pairs.put_mask("train/z", halves(8, 12));
    CHECK(says(pairs.said(), "masks/train/z.png: no image has its name"));
  }
  SUBCASE("two images of one name") {
    const Pairs pairs;
    write_file(pairs / "own" / "images" / "train" / "a.png", make_png(8, 12, 1));
    CHECK(says(pairs.said(), "another image has the same name"));
  }
  SUBCASE("another size") {
    const Pairs pairs;
    pairs.put_mask("train/b", halves(8, 10));
    CHECK(says(pairs.said(), "masks/train/b.png: is 10x8 pixels, but its image is 12x8"));
  }
  SUBCASE("a label above the classes") {
    const Pairs pairs;
    pairs.put_mask("train/b", halves(8, 12, 3));
    CHECK(says(pairs.said(),
               "masks/train/b.png: row 0, column 0: the pixel is 3, but there are 3 classes, so pixels "
               "are at most 2; add the class to classes.txt, or write 255 to ignore a pixel"));
    CHECK(pairs.said(MaskLabels::from_one) == "");
  }
  SUBCASE("no split") {
    const Pairs pairs;
    DatasetConfig config = Pairs::config();
    config.eval = "val";
    CHECK(says(input_error([&] { load_dataset(config, pairs.path(), 1); }),
               "images/val: no such folder; split \"val\" needs images/val/NAME.jpg and masks/val/NAME.png"));
  }
}

TEST_CASE("masks: a WebDataset's .png is the mask of its .jpg") {
  const TempFolder folder;
  write_file(folder / "w" / "classes.txt", "sky\nsea\n");
  const Members members{{"1.jpg", make_jpeg(8, 8, 1)},
                        {"1.png", file_of(halves(8, 8))},
                        {"2.png", file_of(halves(8, 8, 0))},
                        {"2.jpg", make_jpeg(8, 8, 2)},
                        {"2.cls", "7"}};
  write_tar(folder / "w" / "train-000000.tar.gz", members);
  write_tar(folder / "w" / "test-000000.tar", members);
  DatasetConfig config = named("w", "", DatasetLayout::webdataset);
  config.masks = MaskLabels::classes;
  const DataPair data = load_dataset(config, folder.path(), 2);
  CHECK(mask_of(data.train, 0) == halves(8, 8));
  CHECK(mask_of(data.eval, 1) == halves(8, 8, 0));
  write_tar(folder / "w" / "test-000000.tar", {{"1.jpg", make_jpeg(8, 8, 1)}, {"1.cls", "1"}});
  CHECK(says(input_error([&] { load_dataset(config, folder.path(), 2); }), "sample \"1\" has no .png, its mask"));
}

TEST_CASE("segment transform: an image of the model's size is only normalised") {
  const Pairs pairs(16, 16);
  const DataPair data = pairs.load();
  const SegmentTransform transform(segmenter(16), data.train);
  const Made made = make(transform, 16, 1, 0);
  const Mask mask = mask_of(data.train, 1);
  for (std::size_t i = 0; i < made.pixels.size(); ++i)
    REQUIRE(made.pixels[i] == doctest::Approx((data.train.image(1)[i] / 255.0 - 0.5) / 0.5));
  CHECK(std::equal(made.labels.begin(), made.labels.end(), mask.labels.begin()));
}

TEST_CASE("segment transform: pixels keep their labels under scaling, crops and flips") {
  // The image's red channel shows the label, so both must agree wherever no neighbour is mixed in.
  ImageSet set;
  constexpr std::int64_t kSide = 24;
  set.height = set.width = kSide;
  set.channels = set.num_classes = 3;
  set.labels = {0};
  std::vector<std::uint8_t> labels;
  for (std::int64_t y = 0; y < kSide; ++y)
    for (std::int64_t x = 0; x < kSide; ++x) {
      labels.push_back(static_cast<std::uint8_t>(x / 8));
      for (int c = 0; c < 3; ++c) set.pixels.push_back(static_cast<std::uint8_t>(c == 0 ? 100 * (x / 8) : 8 * y));
    }
  set.masks = std::make_shared<StoredMasks>(kSide, kSide, labels);
  set.channel_mean = {0, 0, 0};
  set.channel_std = {1, 1, 1};
  TrialConfig config = segmenter(16);
  config.train.augment.flip = true;
  config.train.augment.segment.scale = {0.5, 2.0};
  const SegmentTransform transform(config, set);
  std::set<std::int64_t> padded;
  bool flipped = false, plain = false;
  for (std::int64_t epoch = 0; epoch < 60; ++epoch) {
    const Made made = make(transform, 16, 0, epoch);
    std::int64_t ignored = 0, agree = 0;
    for (std::size_t p = 0; p < made.labels.size(); ++p) {
      const float red = made.pixels[3 * p] * 255;
      if (made.labels[p] == kIgnoredLabel) {
        ++ignored;
        CHECK(red == 0);
        continue;
      }
      agree += std::abs(red - 100 * float(made.labels[p])) < 51;
    }
    padded.insert(ignored);
    CHECK(agree == 256 - ignored);
    flipped |= made.labels[0] > made.labels[15] && made.labels[15] != kIgnoredLabel;
    plain |= made.labels[0] < made.labels[15] && made.labels[15] != kIgnoredLabel;
  }
  CHECK(padded.contains(0));  // enlarged, then cropped
  CHECK(padded.size() > 4);   // shrunk, then padded
  CHECK(flipped);
  CHECK(plain);
}

TEST_CASE("segment transform: a crop that one class fills is drawn again") {
  ImageSet set;
  constexpr std::int64_t kSide = 64;
  set.height = set.width = kSide;
  set.channels = set.num_classes = 3;
  set.labels = {0};
  set.pixels.resize(kSide * kSide * 3);
  std::vector<std::uint8_t> labels;
  for (std::int64_t p = 0; p < kSide * kSide; ++p) labels.push_back(p % kSide < 12 ? 1 : 0);
  set.masks = std::make_shared<StoredMasks>(kSide, kSide, labels);
  set.channel_mean = {0, 0, 0};
  set.channel_std = {1, 1, 1};
  TrialConfig config = segmenter(16);
  config.train.augment.segment.resize_to = kSide;
  const auto filled = [&](double most) {
    config.train.augment.segment.max_share = most;
    const SegmentTransform transform(config, set);
    int count = 0;
    for (std::int64_t epoch = 0; epoch < 200; ++epoch) {
      const Made made = make(transform, 16, 0, epoch);
      const auto ones = std::count(made.labels.begin(), made.labels.end(), 1);
      count += std::max(ones, 256 - ones) > 192;
    }
    return count;
  };
  const int any = filled(1.0), few = filled(0.75);
  CHECK(any > 140);
  CHECK(few < any / 2);
  CHECK(few > 0);  // the eleventh crop stays, whatever it shows
}

TEST_CASE("segment transform: sizes follow the shorter side, limited by the longer") {
  CHECK(fitted_size({400, 600}, 512, 0, "a.png") == ImageSize{512, 768});
  CHECK(fitted_size({400, 600}, 512, 700, "a.png") == ImageSize{467, 700});
  CHECK(fitted_size({3, 3000}, 1, 0, "a.png") == ImageSize{1, 1000});
  CHECK(input_error([&] {
          fitted_size({1, 100000}, 512, 0, "a.png");
        }) ==
        "a.png: is 100000x1 pixels and would be 51200000x512 once its shorter side is 512; the limit is 178956970 "
        "pixels; leave this image out");
  Mask out;
  resize_mask(halves(4, 4), 2, 8, out);
  CHECK(out.labels == std::vector<std::uint8_t>{1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0, 0, 0, 255, 255});
}

TEST_CASE("segment transform: half of the images are brighter or darker") {
  int changed = 0;
  for (std::uint64_t image = 0; image < 400; ++image) {
    Image grey;
    grey.resize(2, 2);
    std::fill(grey.pixels.begin(), grey.pixels.end(), std::uint8_t{128});
    distort(grey, AugmentDraws(stream_key(1, "test", "distort"), std::int64_t(image)));
    CHECK(std::set<std::uint8_t>(grey.pixels.begin(), grey.pixels.end()).size() == 1);  // a grey has no hue
    CHECK(grey.pixels[0] >= 48);
    changed += grey.pixels[0] != 128;
  }
  CHECK(changed > 260);  // brightness or contrast: three quarters
  CHECK(changed < 340);
}
