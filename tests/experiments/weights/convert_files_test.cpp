#include "experiments/weights/convert_files.h"

#include <doctest/doctest.h>

#include <fstream>

#include "tests/experiments/base/temporary_folder.h"
#include "tests/experiments/weights/network_files.h"

using namespace normlab;

namespace {

WeightFile file_with(std::map<std::string, std::string> metadata, const std::string& source = "w.safetensors") {
  return {Tensors(source), std::move(metadata)};
}

const char* const kModel = R"({"variant": "Ti/16", "image_size": 224, "num_classes": 3, "drop_path": 0.1})";

}  // namespace

TEST_CASE("convert_files: whose names is said, never guessed") {
  CHECK(stated_names(file_with({}), NameScheme::timm) == NameScheme::timm);
  CHECK(stated_names(file_with({{"normlab.model", "{}"}}), std::nullopt) == NameScheme::normlab);
  CHECK(stated_names(file_with({{"normlab.model", "{}"}, {"normlab.names", "timm"}}), std::nullopt) ==
        NameScheme::timm);
  CHECK_THROWS_WITH_AS(stated_names(file_with({}), std::nullopt),
                       "w.safetensors: the file does not say which names its tensors have; give --from", InputError);
  CHECK_THROWS_WITH_AS(stated_names(file_with({{"normlab.names", "timm"}}), NameScheme::normlab),
                       "w.safetensors: --from is normlab, but the file says timm", InputError);
  CHECK_THROWS_WITH_AS(stated_names(file_with({{"normlab.names", "keras"}}), NameScheme::normlab),
                       "w.safetensors: normlab.names is \"keras\", which is unknown", InputError);
  CHECK_THROWS_WITH_AS(stated_names(file_with({}), NameScheme::augreg),
                       "w.safetensors: augreg stores weights in .npz files", InputError);
  CHECK_THROWS_AS(stated_names(file_with({}, "w.npz"), NameScheme::timm), InputError);
}

TEST_CASE("convert_files: which network is said by the file, by the caller, or by both alike") {
  const ModelConfig model = read_model_option(kModel);
  const WeightFile says = file_with({{"normlab.model", canonical_model_json(model)}});
  CHECK(stated_model(says, std::nullopt, false) == model);
  CHECK(stated_model(file_with({}), kModel, false) == model);
  CHECK_THROWS_AS(stated_model(file_with({}), std::nullopt, false), InputError);

  // Training alone may differ.
  const std::string other_training = R"({"variant": "Ti/16", "image_size": 224, "num_classes": 3, "init": "timm"})";
  CHECK(std::get<ViTConfig>(stated_model(says, other_training, false)).init == Init::timm);
  const std::string other_maths =
      R"({"variant": "Ti/16", "image_size": 224, "num_classes": 3, "placement": "post_post"})";
  CHECK_THROWS_WITH_AS(stated_model(says, other_maths, false), doctest::Contains("holds another network than --model"),
                       InputError);
  const std::string larger = R"({"variant": "Ti/16", "image_size": 384, "num_classes": 3})";
  CHECK_THROWS_AS(stated_model(says, larger, false), InputError);
  CHECK(image_size(stated_model(says, larger, true))[0] == 384);
}

TEST_CASE("convert_files: a model's JSON as text or file, with its sizes") {
  const TemporaryFolder folder;
  std::ofstream(folder / "model.json") << kModel;
  CHECK(read_model_option((folder / "model.json").string()) == read_model_option(kModel));
  CHECK_THROWS_WITH_AS(read_model_option(R"({"variant": "Ti/16"})"), doctest::Contains("give num_classes"), InputError);
  CHECK_THROWS_WITH_AS(read_model_option(R"({"varient": "Ti/16", "image_size": 8, "num_classes": 2})"),
                       doctest::Contains("did you mean \"variant\"?"), InputError);
  CHECK_THROWS_AS(read_model_option((folder / "none.json").string()), EnvironmentError);
}

TEST_CASE("convert_files: what is written says what it is") {
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
  CHECK_THROWS_AS(write_weight_file(folder / "w.npz", Tensors(), NameScheme::timm, model), InputError);
  CHECK_THROWS_AS(read_weight_file(folder / "w.pth"), InputError);
}
