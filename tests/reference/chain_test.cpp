// Steps of the augmentation chain other than drawn operations and resizing: flips, ranges, erasing, mixing.
#include <algorithm>

#include "experiments/lab/data/augment.h"
#include "experiments/lab/data/mix.h"
#include "experiments/lab/data/random_boxes.h"
#include "tests/reference/fixture.h"

namespace normlab::reference {
namespace {

std::vector<double> wide(const std::vector<float>& values) { return {values.begin(), values.end()}; }

template <class T>
std::vector<T> narrow(const std::vector<double>& values) {
  std::vector<T> out;
  for (const double value : values) out.push_back(static_cast<T>(value));
  return out;
}

Image image_of(const Fixture& f) {
  Image image;
  const Shape shape = f.shape("in/image");
  image.resize(shape[0], shape[1]);
  image.pixels = narrow<std::uint8_t>(f.numbers("in/image"));
  return image;
}

std::vector<Results> flipped(const Fixture& f) {
  const MoveSteps augment{.flip = true};
  const StreamKey key = stream_key(1, "augment", "flip");
  std::int64_t epoch = 0;
  while (AugmentDraws(key, epoch).words(DrawName::crop_and_flip)[2] < 0x80000000u) ++epoch;
  Image image;
  move_image(image_of(f), augment, AugmentDraws(key, epoch), image);
  Results results{"move_image"};
  results.add("out/image", f.shape("in/image"), {image.pixels.begin(), image.pixels.end()});
  return {results};
}

std::vector<Results> ranges(const Fixture& f) {
  const Image image = image_of(f);
  Results results{"PixelTable"};
  const auto add = [&](const std::string& name, const std::vector<double>& mean, const std::vector<double>& std) {
    std::vector<float> out(image.pixels.size());
    normalise_image(image, Image::kChannels, PixelTable<float>(mean, std), out.data());
    results.add(name, f.shape("in/image"), wide(out));
  };
  const auto range = f.config().at("range").get<std::vector<double>>();
  const double width = range.at(1) - range.at(0);  // (v - mean) / std is range[0] at 0 and range[1] at 1
  add("out/value_range", std::vector<double>(3, -range[0] / width), std::vector<double>(3, 1 / width));
  add("out/standardize", f.config().at("mean").get<std::vector<double>>(),
      f.config().at("std").get<std::vector<double>>());
  return {results};
}

Box box_of(const Fixture& f) {
  const auto corners = f.config().at("box").get<std::vector<std::int64_t>>();  // y0, x0, y1, x1
  return {corners.at(0), corners.at(1), corners.at(2) - corners.at(0), corners.at(3) - corners.at(1)};
}

std::vector<Results> erased(const Fixture& f) {
  const Box box = box_of(f);
  const Shape shape = f.shape("in/x");
  Results results{"put_patch"};
  const auto add = [&](const std::string& name, const std::vector<float>& patch) {
    std::vector<float> image = narrow<float>(f.numbers("in/x"));
    put_patch(patch, box, shape[1], shape[2], image.data());
    results.add(name, shape, wide(image));
  };
  std::vector<float> zeros;
  draw_patch(ErasingConfig{}, box, shape[2], AugmentDraws(stream_key(1, "augment", "erase"), 0), zeros);
  add("out/zero", zeros);
  add("out/noise", narrow<float>(f.numbers("in/noise")));
  return {results};
}

std::vector<Results> mixed(const Fixture& f) {
  const Shape shape = f.shape("in/x"), targets = f.shape("in/targets");
  const std::int64_t batch = shape[0], values = shape[1] * shape[2] * shape[3], classes = targets[1];
  const auto x = narrow<float>(f.numbers("in/x"));
  const std::vector<double> rows = f.numbers("in/targets");
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < batch; ++i)
    labels.push_back(static_cast<std::int32_t>(
        std::max_element(rows.begin() + i * classes, rows.begin() + (i + 1) * classes) - rows.begin() - i * classes));
  std::vector<Mixing> mixings = draw_mixing({.mixup = 1.0}, batch, shape[1], shape[2], 1, 0);  // for the partners
  for (Mixing& mixing : mixings) {
    mixing.lambda = f.config().at("lam").get<double>();
    mixing.cut = f.op() == "cutmix";
    if (mixing.cut) mixing.box = box_of(f);
  }
  std::vector<float> out(x.size()), soft(rows.size());
  for (std::int64_t i = 0; i < batch; ++i) {
    const Mixing& mixing = mixings[static_cast<std::size_t>(i)];
    mix_image(mixing, x.data() + i * values, x.data() + mixing.partner * values, shape[1], shape[2], shape[3],
              out.data() + i * values);
  }
  mix_targets<float>(mixings, labels, classes, 0.0, Smoothing::all, soft.data());
  Results results{"mix_image"};
  results.add("out/x", shape, wide(out));
  results.add("out/targets", targets, wide(soft));
  return {results};
}

}  // namespace

std::vector<Results> run_chain(const Fixture& fixture) {
  if (fixture.op() == "flip") return flipped(fixture);
  if (fixture.op() == "value_range") return ranges(fixture);
  if (fixture.op() == "random_erasing") return erased(fixture);
  if (fixture.op() == "mixup" || fixture.op() == "cutmix") return mixed(fixture);
  throw InputError(concat(fixture.name(), ": there is no rule for the operation ", fixture.op()));
}

}  // namespace normlab::reference
