#include "experiments/lab/weights/convert_files.h"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/lab/base/temporary_folder.h"
#include "tests/lab/weights/network_files.h"

using namespace normlab;

namespace {

WeightFile file_with(std::map<std::string, std::string> metadata, const std::string& source = "w.safetensors") {
  return {Tensors(source), std::move(metadata)};
}

const char* const kModel = R"({"variant": "Ti/16", "image_size": 224, "num_classes": 3, "drop_path": 0.1})";

/// A file that states kModel.
WeightFile stating_model() { return file_with({{"normlab.model", canonical_model_json(read_model_option(kModel))}}); }

}  // namespace

TEST_CASE("convert_files: the scheme of names is taken from the caller") {
  CHECK(stated_names(file_with({}), NameScheme::timm) == NameScheme::timm);
}

TEST_CASE("convert_files: the scheme of names is taken from the file") {
  CHECK(stated_names(file_with({{"normlab.model", "{}"}}), std::nullopt) == NameScheme::normlab);
  CHECK(stated_names(file_with({{"normlab.model", "{}"}, {"normlab.names", "timm"}}), std::nullopt) ==
        NameScheme::timm);
}

TEST_CASE("convert_files: the scheme of names is never guessed") {
  CHECK_THROWS_WITH_AS(stated_names(file_with({}), std::nullopt),
                       "w.safetensors: the file does not say which names its tensors have; give --from", InputError);
}

TEST_CASE("convert_files: the caller must not contradict the file about names") {
  CHECK_THROWS_WITH_AS(stated_names(file_with({{"normlab.names", "timm"}}), NameScheme::normlab),
                       "w.safetensors: --from is normlab, but the file says timm", InputError);
}

TEST_CASE("convert_files: an unknown scheme of names is refused") {
  CHECK_THROWS_WITH_AS(stated_names(file_with({{"normlab.names", "keras"}}), NameScheme::normlab),
                       "w.safetensors: normlab.names is \"keras\", which is unknown", InputError);
}

TEST_CASE("convert_files: a scheme of names is tied to its kind of file") {
  CHECK_THROWS_WITH_AS(stated_names(file_with({}), NameScheme::augreg),
                       "w.safetensors: augreg stores weights in .npz files", InputError);
  CHECK_THROWS_WITH_AS(stated_names(file_with({}, "w.npz"), NameScheme::timm),
                       "w.npz: timm stores weights in .safetensors files", InputError);
}

TEST_CASE("convert_files: the network is taken from the file or the caller") {
  const ModelConfig model = read_model_option(kModel);
  CHECK(stated_model(file_with({{"normlab.model", canonical_model_json(model)}}), std::nullopt, false) == model);
  CHECK(stated_model(file_with({}), kModel, false) == model);
}

TEST_CASE("convert_files: a network that is not stated is an error") {
  CHECK_THROWS_WITH_AS(stated_model(file_with({}), std::nullopt, false),
                       "w.safetensors: the file does not name its network; give --model", InputError);
}

TEST_CASE("convert_files: file and caller may differ in the training of the network") {
  const std::string other_training = R"({"variant": "Ti/16", "image_size": 224, "num_classes": 3, "init": "timm"})";
  CHECK(std::get<ViTConfig>(stated_model(stating_model(), other_training, false)).init == Init::timm);
}

TEST_CASE("convert_files: file and caller must not differ in the maths of the network") {
  const std::string other_maths =
      R"({"variant": "Ti/16", "image_size": 224, "num_classes": 3, "placement": "post_post"})";
  CHECK_THROWS_WITH_AS(stated_model(stating_model(), other_maths, false),
                       doctest::Contains("holds another network than --model"), InputError);
}

TEST_CASE("convert_files: the image size may differ if positions are resized") {
  const std::string larger = R"({"variant": "Ti/16", "image_size": 384, "num_classes": 3})";
  CHECK_THROWS_WITH_AS(stated_model(stating_model(), larger, false),
                       doctest::Contains("holds another network than --model"), InputError);
  CHECK(image_size(stated_model(stating_model(), larger, true))[0] == 384);
}

TEST_CASE("convert_files: a Swin pads as its program or its file does") {
  const std::string sizes = R"({"kind": "swin", "depths": [2], "num_heads": [3], "num_classes": 3, "image_size": )";
  const std::string given = sizes + "32}";  // 8 x 8 tokens in windows of 7
  const auto padding = [](const ModelConfig& model) { return std::get<SwinConfig>(model).window_padding; };
  using enum WindowPadding;
  CHECK(padding(stated_model(file_with({}), given, false)) == before_shift);
  CHECK(padding(stated_model(file_with({}), given, false, NameScheme::timm)) == after_shift);
  CHECK(padding(stated_model(file_with({}), sizes + "56}", false, NameScheme::timm)) == before_shift);  // no padding
  const std::string contrary = sizes + R"(32, "window_padding": "before_shift"})";
  CHECK(padding(stated_model(file_with({}), contrary, false, NameScheme::timm)) == before_shift);  // refused later

  std::string text = canonical_model_json(read_model_option(given));
  const WeightFile stating = file_with({{"normlab.model", text}});
  CHECK(padding(stated_model(stating, std::nullopt, false)) == before_shift);
  const std::string key = R"(,"window_padding":"before_shift")";
  REQUIRE(text.find(key) != std::string::npos);
  text.erase(text.find(key), key.size());
  const WeightFile earlier = file_with({{"normlab.model", text}});  // as versions without the key wrote it
  CHECK(padding(stated_model(earlier, std::nullopt, false)) == after_shift);
  CHECK(padding(stated_model(earlier, given, false)) == after_shift);
  CHECK_THROWS_WITH_AS(stated_model(earlier, contrary, false), doctest::Contains("another network than --model"),
                       InputError);
  CHECK(image_size(stated_model(earlier, sizes + "56}", true))[0] == 56);
}

TEST_CASE("convert_files: the grid of positions is that of the stated network") {
  CHECK(recorded_grid(stating_model()) == PatchGrid{14, 14});
  CHECK_FALSE(recorded_grid(file_with({})));
  const std::string wide = R"({"variant": "Ti/16", "image_size": [32, 128], "num_classes": 3})";
  CHECK(recorded_grid(file_with({{"normlab.model", canonical_model_json(read_model_option(wide))}})) ==
        PatchGrid{2, 8});
}

TEST_CASE("convert_files: a model is given as JSON or as a file of it") {
  const TemporaryFolder folder;
  std::ofstream(folder / "model.json") << kModel;
  CHECK(read_model_option((folder / "model.json").string()) == read_model_option(kModel));
}

TEST_CASE("convert_files: a model without its sizes is refused") {
  CHECK_THROWS_WITH_AS(read_model_option(R"({"variant": "Ti/16"})"), doctest::Contains("give num_classes"), InputError);
}

TEST_CASE("convert_files: an unknown key of a model is refused") {
  CHECK_THROWS_WITH_AS(read_model_option(R"({"varient": "Ti/16", "image_size": 8, "num_classes": 2})"),
                       doctest::Contains("did you mean \"variant\"?"), InputError);
}

TEST_CASE("convert_files: a missing file of a model is an error") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_model_option((folder / "none.json").string()),
                       doctest::Contains("none.json: cannot be read: No such file or directory"), InputError);
}

TEST_CASE("convert_files: a written file states its names and its network") {
  const TemporaryFolder folder;
  const ModelConfig model = network_model(kNetworkFiles[0]);
  const Weights network(model);
  for (const NameScheme scheme : {NameScheme::normlab, NameScheme::timm}) {
    const auto path = folder / "w.safetensors";
    write_weight_file(path, export_weights(network.weights, model, scheme), scheme, model);
    const WeightFile back = read_weight_file(path);
    CHECK(stated_names(back, std::nullopt) == scheme);
    CHECK(stated_model(back, std::nullopt, false) == model);
  }
}

TEST_CASE("convert_files: weights are not written to a file of another kind") {
  const TemporaryFolder folder;
  const ModelConfig model = network_model(kNetworkFiles[0]);
  CHECK_THROWS_WITH_AS(write_weight_file(folder / "w.npz", Tensors(), NameScheme::timm, model),
                       doctest::Contains("w.npz: timm stores weights in .safetensors files"), InputError);
}

TEST_CASE("convert_files: a file of an unknown kind is refused") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_weight_file(folder / "w.pth"),
                       doctest::Contains("w.pth: expected a file of weights that ends in .safetensors"), InputError);
  CHECK_THROWS_WITH_AS(read_weight_file(folder / "w.pth"), doctest::Contains("safetensors.torch.save_file"),
                       InputError);
}
