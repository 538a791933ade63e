#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

/// The problem that `train` has beside 32x32 images, without its place in the file; empty where there is none.
std::string problem(const std::string& train, const std::string& rest = R"("dataset": "cifar10")") {
  DescriptorFiles files;
  const std::string text = files.problems("{" + rest + R"(, "train": )" + train + "}");
  const std::size_t pointer = text.find(": /");
  return pointer == std::string::npos ? text : text.substr(pointer + 2);
}

}  // namespace

TEST_CASE("augment rules: settings that make no sense are refused with their place") {
  CHECK(problem(R"({"augment": {"flip": true}})") == "");
  CHECK(problem(R"({"augment": {"flip": true}})", R"("dataset": "shapes")") ==
        "/train/augment/flip: a flip turns one class of shapes into another; leave it out");
  CHECK(problem(R"({"augment": {"flip": true}})", R"("dataset": {"name": "shapes", "label": "position"})") ==
        "/train/augment/flip: a flip turns one class of shapes into another; leave it out");
  CHECK(problem(R"({"augment": {"flip": true}})", R"("dataset": {"name": "shapes", "label": "kind"})") == "");
  CHECK(problem(R"({"augment": {"crop": "inception_torchvision", "crop_area": [1.0, 0.5]}})") ==
        "/train/augment/crop_area: the first number is larger than the second");
  CHECK(problem(R"({"augment": {"crop": "inception_tensorflow", "crop_aspect": [1.4, 0.5]}})") ==
        "/train/augment/crop_aspect: the first number is larger than the second");
  CHECK(problem(R"({"augment": {"erasing": {"dialect": "timm", "area": [0.5, 0.1]}}})") ==
        "/train/augment/erasing/area: the first number is larger than the second");
  CHECK(problem(R"({"augment": {"erasing": {"dialect": "timm", "aspect": [3, 0.1]}}})") ==
        "/train/augment/erasing/aspect: the first number is larger than the second");
  CHECK(problem(R"({"augment": {"erasing": {"dialect": "torchvision", "fill": "color"}}})") ==
        "/train/augment/erasing/fill: torchvision has no fill \"color\"; use \"constant\" or \"pixel\", or dialect "
        "\"timm\"");
  CHECK(problem(R"({"augment": {"erasing": {"dialect": "timm", "fill": "color"}}})") == "");
  CHECK(problem(R"({"batch_size": 1, "augment": {"mix": {"mixup": 0.2}}})") ==
        "/train/augment/mix: a batch of 1 image has no second image to mix with; raise train.batch_size");
  CHECK(problem(R"({"augment": {"crop": "center"}})") ==
        "/train/augment/crop: crop center uses the settings of train.eval_transform, whose crop is not center; set "
        "that to center or stretch_center, too");
  CHECK(problem(R"({"augment": {"crop": "center"}, "eval_transform": {"crop": "center"}})") == "");
}

TEST_CASE("augment rules: another image size needs both kinds of images resized") {
  const std::string rest = R"("dataset": "cifar10", "model": {"image_size": 64})";
  const std::string refusal =
      "/model/image_size: the dataset \"cifar10\" has image_size [32, 32]; for another size, set train.augment.crop "
      "and train.eval_transform.crop";
  CHECK(problem(R"({"augment": {"crop": "stretch"}, "eval_transform": {"crop": "stretch"}})", rest) == "");
  CHECK(problem(R"({"augment": {"crop": "stretch"}})", rest) == refusal);
  CHECK(problem(R"({"eval_transform": {"crop": "stretch"}})", rest) == refusal);
  CHECK(problem("{}", rest) == refusal);
}

TEST_CASE("augment rules: smoothing over other classes needs other classes") {
  const std::string one = R"("dataset": {"name": "pets", "layout": "cifar"}, "model": {"num_classes": 1})";
  CHECK(problem(R"({"label_smoothing": 0.1, "smoothing": "others"})", one) ==
        "/train/smoothing: the label's class is the only one, so there are no other classes to spread to");
  CHECK(problem(R"({"label_smoothing": 0.1})", one) == "");
}
