#include "experiments/lab/descriptor/schema.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "experiments/lab/base/files.h"
#include "experiments/lab/descriptor/fields.h"
#include "experiments/lab/descriptor/keys.h"

using namespace normlab;

TEST_CASE("schema: every key of the field tables is in a closed object") {
  const nlohmann::json schema = nlohmann::json::parse(json_schema());
  CHECK(schema["$schema"] == "https://json-schema.org/draft/2020-12/schema");
  CHECK(schema["additionalProperties"] == false);
  const auto has_all = [](const nlohmann::json& object, auto table) {
    CHECK(object["additionalProperties"] == false);
    for_each_field<decltype(table)>([&](const auto& field) {
      const std::string key(field.key);
      CAPTURE(key);
      REQUIRE(object["properties"].contains(key));
      CHECK(object["properties"][key]["description"] == field.doc);
    });
  };
  const nlohmann::json& top = schema["properties"];
  const nlohmann::json& parts = schema["$defs"];
  has_all(parts["vit"], ViTConfig{});
  has_all(parts["swin"], SwinConfig{});
  has_all(top["train"], TrainConfig{});
  has_all(top["train"]["properties"]["optimizer"], OptimizerSettings{});
  has_all(top["dataset"]["then"], DatasetConfig{});
  has_all(parts["placement"]["then"], Placement{});
  has_all(parts["norm"]["then"], NormSpec{});
  for (const TopLevelKey& known : kTopLevelKeys) CHECK(top.contains(std::string(known.key)));
}

TEST_CASE("schema: a model may have the keys of every kind") {
  const nlohmann::json schema = nlohmann::json::parse(json_schema());
  const nlohmann::json& model = schema["$defs"]["model"]["properties"];
  CHECK(model.contains("pool"));
  CHECK(model.contains("depths"));
}

TEST_CASE("schema: the seed of a trial is no key of a descriptor") {
  CHECK_FALSE(nlohmann::json::parse(json_schema())["properties"].contains("seed"));
}

TEST_CASE("schema: limits and words of the field tables are in the schema") {
  const nlohmann::json schema = nlohmann::json::parse(json_schema());
  const nlohmann::json& top = schema["properties"];
  const nlohmann::json& parts = schema["$defs"];
  CHECK(top["train"]["properties"]["batch_size"]["minimum"] == 1);
  CHECK(top["train"]["properties"]["optimizer"]["properties"]["beta1"]["exclusiveMaximum"] == 1);
  CHECK(parts["vit"]["properties"]["pool"]["enum"] == nlohmann::json({"token", "gap"}));
}

TEST_CASE("schema: every reference leads to a definition") {
  const nlohmann::json schema = nlohmann::json::parse(json_schema());
  const std::string text = schema.dump();
  for (std::size_t at = 0; (at = text.find("#/$defs/", at)) != std::string::npos;) {
    CHECK(schema.contains(nlohmann::json::json_pointer(text.substr(at + 1, text.find('"', at) - at - 1))));
    at += 8;
  }
}

TEST_CASE("schema: axes have the names and descriptions of their settings") {
  const nlohmann::json schema = nlohmann::json::parse(json_schema());
  const nlohmann::json& axes = schema["$defs"]["grid"]["properties"];
  for (const char* path : {"dataset", "dataset.per_class", "model.depths", "model.depth",
                           "model.placement.attn.query.eps", "model.placement.layer_scale.kind", "model.layer_scale",
                           "train.optimizer.lr", "train.augment.randaugment.layers", "train"}) {
    CAPTURE(path);
    CHECK(axes.contains(path));
    CHECK(schema["$defs"]["choice"]["properties"].contains(path));
  }
  CHECK(axes["train.optimizer.lr"]["description"] ==
        schema["properties"]["train"]["properties"]["optimizer"]["properties"]["lr"]["description"]);
  CHECK(axes["train.optimizer.lr"]["items"]["$ref"] == "#/properties/train/properties/optimizer/properties/lr");
}

TEST_CASE("schema: the documentation names every key with its default") {
  const std::string text = describe_fields();
  for (const char* line :
       {"| `train.optimizer.beta1` | number >= 0, < 1 | `0.9` | adamw, adam, big_vision_adam, lamb, lion: decay rate",
        "| `model.mlp_dim` | integer >= 1, <= 131072 | `4 embed_dim` |", "| `model.pool` | token \\| gap | `gap` |",
        "| `attn.query` | norm | `none` |", "| `model.depths` | list of integers >= 1, <= 1024 | `[2, 2, 6, 2]` |",
        "| `checkpoint.seconds` | number > 0 | `30` |", "| `normformer` | Dual PatchNorm",
        "| `sweep` | object or list |"})
    CHECK(text.find(line) != std::string::npos);
}
