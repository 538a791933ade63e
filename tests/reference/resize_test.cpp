// Boxes cut out and resized, and the shorter side to a size with the middle cut out.
#include "experiments/lab/data/eval_transform.h"
#include "tests/reference/fixture.h"

namespace normlab::reference {
namespace {

Image image_of(const Fixture& fixture, const std::string& tensor) {
  const Shape shape = fixture.shape(tensor);
  Image image;
  image.resize(shape[0], shape[1]);
  const std::vector<double> numbers = fixture.numbers(tensor);
  for (std::size_t i = 0; i < numbers.size(); ++i) image.pixels[i] = static_cast<std::uint8_t>(numbers[i]);
  return image;
}

void add(Results& results, const std::string& name, const Image& image) {
  results.add(name, Shape{image.height, image.width, 3}, {image.pixels.begin(), image.pixels.end()});
}

Results run_boxes(const Fixture& fixture) {
  Results results{"resize"};
  ResizeScratch scratch;
  const Image image = image_of(fixture, "in/image");
  Image out;
  int i = 0;
  for (const auto& box : fixture.config().at("boxes")) {
    const Box cut{box.at("top"), box.at("left"), box.at("height"), box.at("width")};
    const auto make = [&](const std::string& name, ResizeMethod method) {
      resize(image, cut, method, box.at("out").at(0), box.at("out").at(1), out, scratch);
      add(results, concat("out/", name, "_", i), out);
    };
    make("pil_bilinear", ResizeMethod::bilinear);
    make("pil_bicubic", ResizeMethod::bicubic);
    make("no_antialias", ResizeMethod::bilinear_plain);
    // The same before it is cut off to bytes.
    const std::vector<float> floats =
        bilinear_plain_floats(image, cut, box.at("out").at(0), box.at("out").at(1), scratch);
    results.add(concat("out/no_antialias_float_", i), Shape{box.at("out").at(0), box.at("out").at(1), 3},
                {floats.begin(), floats.end()});
    ++i;
  }
  return results;
}

Results run_sides(const Fixture& fixture) {
  Results results{"eval_transform"};
  ImageScratch scratch;
  const Image image = image_of(fixture, "in/image");
  Image out;
  for (const auto& entry : fixture.config().at("cases")) {
    const std::string key = entry.at("key");
    const std::int64_t crop = entry.at("crop");
    EvalTransformConfig config;
    config.crop = EvalCrop::center;
    config.resize_to = entry.at("small");
    const bool torchvision = key.starts_with("torchvision");
    config.rounding = torchvision ? ResizeRounding::torchvision : ResizeRounding::big_vision;
    config.resize = torchvision ? ResizeMethod::bilinear : ResizeMethod::area;
    EvalTransform(config, {crop, crop}).apply(image, fixture.name(), out, scratch);
    add(results, concat("out/", key, "_crop", crop), out);
    add(results, concat("out/", key), scratch.resized);
  }
  for (const auto& row : fixture.config().at("sizes")) {
    const ImageSize in{row.at("in").at(0), row.at("in").at(1)};
    for (const auto& [name, rounding] :
         {std::pair("torchvision", ResizeRounding::torchvision), std::pair("big_vision", ResizeRounding::big_vision)}) {
      const ImageSize expected{row.at(name).at(0), row.at(name).at(1)},
          got = resized_size(in, row.at("small"), rounding);
      if (got != expected)
        throw InputError(concat(name, ": ", in.height, "x", in.width, " becomes ", got.height, "x", got.width));
    }
  }
  return results;
}

}  // namespace

std::vector<Results> run_resize(const Fixture& fixture) {
  if (fixture.op() == "resized_crop") return {run_boxes(fixture)};
  if (fixture.op() == "resize_small") return {run_sides(fixture)};
  throw InputError(concat("there is no rule for the operation ", fixture.op()));
}

}  // namespace normlab::reference
