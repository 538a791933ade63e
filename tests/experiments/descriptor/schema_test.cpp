#include "experiments/descriptor/schema.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "experiments/base/files.h"
#include "experiments/descriptor/fields.h"
#include "experiments/descriptor/keys.h"

using namespace normlab;

TEST_CASE("schema: a closed object with every key of the field tables") {
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
  has_all(top["model"]["else"], ViTConfig{});
  has_all(top["model"]["then"], SwinConfig{});
  CHECK(top["model"]["if"]["properties"]["kind"]["const"] == "swin");
  has_all(top["train"], TrainConfig{});
  has_all(top["train"]["properties"]["optimizer"], OptimizerSettings{});
  has_all(top["dataset"]["anyOf"][1], DatasetConfig{});
  has_all(schema["$defs"]["placement"]["anyOf"][1], Placement{});
  has_all(schema["$defs"]["norm"]["anyOf"][1], NormSpec{});
  for (const TopLevelKey& known : kTopLevelKeys) CHECK(top.contains(std::string(known.key)));
  CHECK_FALSE(top.contains("seed"));
  CHECK(top["train"]["properties"]["batch_size"]["minimum"] == 1);
  CHECK(top["train"]["properties"]["optimizer"]["properties"]["beta1"]["exclusiveMaximum"] == 1);
  CHECK(top["model"]["else"]["properties"]["pool"]["enum"] == nlohmann::json({"token", "gap"}));
}

TEST_CASE("schema: references lead somewhere") {
  const nlohmann::json schema = nlohmann::json::parse(json_schema());
  const std::string text = schema.dump();
  for (std::size_t at = 0; (at = text.find("#/$defs/", at)) != std::string::npos;) {
    at += 8;
    CHECK(schema["$defs"].contains(text.substr(at, text.find('"', at) - at)));
  }
}

TEST_CASE("schema: the documentation names every key with its default") {
  const std::string text = describe_fields();
  for (const char* line :
       {"| `train.optimizer.beta1` | number >= 0, < 1 | `0.9` | adamw, big_vision_adam, lamb, lion |",
        "| `model.mlp_dim` | integer | `4 embed_dim` |", "| `model.pool` | token \\| gap | `gap` |",
        "| `attn.query` | norm | `none` |", "| `model.depths` | list of integers | `[2, 2, 6, 2]` |",
        "| `checkpoint.seconds` | number > 0 | `30` |", "| `normformer` | Dual PatchNorm",
        "| `sweep` | object or list |"})
    CHECK(text.find(line) != std::string::npos);
}
