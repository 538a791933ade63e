// The messages of an editor on a descriptor, from another program's validator: Python's jsonschema.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/schema.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/python.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

/// Reads lists of [name, descriptor], and gives for each the validator's messages, as JSON.
const char* const kValidate = R"(
import json, jsonschema
validator = jsonschema.Draft202012Validator(json.load(open("schema.json")))
jsonschema.Draft202012Validator.check_schema(validator.schema)
print(json.dumps([[error.json_path + " " + error.message for error in validator.iter_errors(descriptor)]
                  for descriptor in json.load(open("descriptors.json"))]))
)";

/// The messages of the schema on each; none where Python lacks jsonschema.
std::vector<std::vector<std::string>> complaints(const nlohmann::json& descriptors) {
  const TemporaryFolder folder;
  if (const std::string why = lacks_module(folder, "jsonschema"); !why.empty()) {
    MESSAGE(why);
    return {};
  }
  std::ofstream(folder / "schema.json") << json_schema();
  std::ofstream(folder / "descriptors.json") << descriptors.dump();
  const Finished done = run_python(folder, kValidate);
  REQUIRE_MESSAGE(done.code == 0, done.out);
  return nlohmann::json::parse(done.out);
}

/// All ```json blocks of the README and of docs that are whole descriptors; `check` accepts each.
std::vector<std::string> documented(DescriptorFiles& files) {
  fs::create_directory_symlink(fs::absolute("experiments"), files.folder() / "experiments");
  std::vector<fs::path> pages{"README.md"};
  for (const auto& entry : fs::directory_iterator("docs"))
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  std::vector<std::string> found;
  constexpr std::string_view kFence = "```json\n";
  for (const fs::path& page : pages) {
    const std::string text = text_of(page);
    for (std::size_t at = 0; (at = text.find(kFence, at)) != text.npos;) {
      at += kFence.size();
      const std::string block = text.substr(at, text.find("```", at) - at);
      const auto json = nlohmann::json::parse(block, nullptr, /*allow_exceptions=*/false);
      if (!json.is_object() || (!json.contains("extends") && !json.contains("dataset"))) continue;
      CHECK_MESSAGE(files.problems(block).empty(), page.string(), ": ", block, files.problems(block));
      found.push_back(block);
    }
  }
  return found;
}

}  // namespace

TEST_CASE("schema: every descriptor of the program and its pages is valid to jsonschema") {
  nlohmann::json descriptors = nlohmann::json::array();
  std::vector<std::string> names;
  for (const auto& entry : fs::recursive_directory_iterator("experiments")) {
    if (entry.path().extension() != ".json") continue;
    CAPTURE(entry.path().string());
    const std::string text = text_of(entry.path());
    REQUIRE(nlohmann::json::accept(text));
    descriptors.push_back(nlohmann::json::parse(text));
    names.push_back(entry.path().string());
  }
  CHECK(names.size() > 60);
  DescriptorFiles files;
  const std::vector<std::string> printed = documented(files);
  CHECK(printed.size() == 14);
  for (const std::string& text : printed) {
    descriptors.push_back(nlohmann::json::parse(text));
    names.push_back(text);
  }
  const auto found = complaints(descriptors);
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK_MESSAGE(found[i].empty(), names[i], ": ", found[i].empty() ? "" : found[i].front());
}

TEST_CASE("schema: unusual forms that check accepts are valid to jsonschema") {
  DescriptorFiles files;
  files.write("base.json", R"({"model": {"kind": "swin", "depths": [1, 1], "num_heads": [2, 2], "embed_dim": 16},
                               "placements": {"mine": {"final": "rms_norm"}}})");
  const char* const right[] = {
      R"({"extends": "base.json", "model": {"depths": [2, 2], "window": 4, "placement": "mine"}})",
      R"({"extends": "recipe:swin_small", "model": {"window": 2}, "sweep": {"model.placement": ["dpn", "post_pre"]}})",
      R"({"model": {"depths": [2, 2], "embed_dim": 16, "depth": 2, "window": 4, "patch_size": 4},
          "sweep": {"model.kind,model.num_heads": [["vit", 2], ["swin", [2, 2]]]}})",
      R"({"placements": {"a": {"base": "b"}, "b": "dpn"}, "model": {"placement": "a"},
          "sweep": {"model.placement": ["a", "pre_pre", {"base": "b", "final": "none"}]}, "baseline": {"model.placement": "a"}})",
      R"({"sweep": [{"train.optimizer.lr": [0.1], "seeds": [3, 4]}, {"dataset": ["gratings", {"name": "shapes"}]}],
          "exclude": [{"train.optimizer.lr": 0.1}], "seeds": 2})",
      R"({"sweep": {"model.placement.blocks.0-1.attn.query": ["none", {"kind": "rms_norm", "eps": 1e-5}],
                    "model.placement.layer_scale.kind": ["channel", "scalar"]}})",
      R"({"sweep": {"train.steps , model.depth": [[10, 1], [20, 2]]}, "seeds": {"first": 2, "max": 4, "gain_halfwidth": 1},
          "baseline": {"train.steps": 10, "model.depth": 1}})",
      R"({"tune": [{"axes": {"train.optimizer.lr": [1e-3, 1e-2]}, "dataset": {"train": "train[:900]", "eval": "train[900:]"}}],
          "sweep": {"model.placement": ["pre_pre", "dpn"]}})",
      R"({"dataset": {"train": "train[:900]", "minival": "train[900:]"},
          "tune": [{"axes": {"train.optimizer.lr": [1e-3, 1e-2]}, "then_train_on": "train+minival"}]})",
      R"({"benchmarks": {"a": {"group": "g", "dataset": {"class_groups": {"x": ["far_above"], "y": ["near_above"]}}},
                         "b": {"dataset": "gratings", "model": {"placement": "dpn"}, "train": {"epochs": 2}}},
          "sweep": {"benchmark": ["b", "a"], "model.depth": [1, 2]}, "exclude": [{"benchmark": "b", "model.depth": 1}]})",
      R"({"sweep": {"leave_one_out": {"base": {"base": "normformer", "final": "none"}, "features": ["attn.out",
            {"name": "depth", "set": {"model.depth": 1}}]}, "train.optimizer.lr": [1e-3]}, "baseline": {"train.optimizer.lr": 1e-3}})",
      R"({"dataset": {"train": "train[:900]", "minival": "train[900:]"},
          "tune": [{"axes": {"train.optimizer.lr": {"log_uniform": [1e-4, 1e-2], "n": 2, "seed": 3},
                             "model.dropout": [0, 0.1], "model.drop_path": {"uniform": [0, 0.3], "n": 2}}}]})",
      R"({"dataset": {"path": "pets", "layout": "image_folder"}, "model": {"image_size": [32, 32], "num_classes": 3,
          "layer_scale": {"kind": "channel", "init": "auto"}, "placement": {"init_gain": "sub_ln", "final": {"kind": "dyt"}}}})"};
  nlohmann::json descriptors = nlohmann::json::array();
  for (const char* text : right) {
    CAPTURE(std::string(text));
    CHECK(files.problems(text) == "");
    descriptors.push_back(nlohmann::json::parse(text));
  }
  const auto found = complaints(descriptors);
  for (std::size_t i = 0; i < found.size(); ++i)
    CHECK_MESSAGE(found[i].empty(), right[i], ": ", found[i].empty() ? "" : found[i].front());
}

TEST_CASE("schema: check and jsonschema refuse a size out of its bounds by the same numbers") {
  struct Size {
    const char *kind, *key, *low, *high;  // the first value below the bounds, and the first above
  };
  const Size sizes[] = {{"vit", "image_size", "0", "65537"},
                        {"vit", "channels", "0", "1025"},
                        {"vit", "patch_size", "0", "65537"},
                        {"vit", "embed_dim", "-3", "65537"},
                        {"vit", "depth", "-1", "1025"},
                        {"vit", "num_heads", "0", "65537"},
                        {"vit", "mlp_dim", "0", "131073"},
                        {"vit", "rep_size", "-1", "65537"},
                        {"vit", "num_classes", "0", "4194305"},
                        {"vit", "image_size", "[0, 32]", "[32, 65537]"},
                        {"swin", "image_size", "0", "65537"},
                        {"swin", "channels", "0", "1025"},
                        {"swin", "patch_size", "0", "65537"},
                        {"swin", "window", "0", "257"},
                        {"swin", "embed_dim", "0", "65537"},
                        {"swin", "depths", "[2, 0]", "[2, 1025]"},
                        {"swin", "num_heads", "[0, 2]", "[2, 65537]"},
                        {"swin", "mlp_ratio", "0", "17"},
                        {"swin", "num_classes", "-1", "4194305"}};
  DescriptorFiles files;
  nlohmann::json descriptors = nlohmann::json::array();
  std::vector<std::string> bounds;  // that both name; "" where the schema names the axis alone
  const auto add = [&](const std::string& text, const std::string& words, bool named) {
    CAPTURE(text);
    const std::string found = files.problems(text);
    const std::size_t at = found.find(words);
    CHECK_MESSAGE(at != found.npos, found);
    const std::size_t from = at + words.size();
    descriptors.push_back(nlohmann::json::parse(text));
    bounds.push_back(named && at != found.npos ? found.substr(from, found.find(',', from) - from) : "");
  };
  for (const Size& size : sizes)
    for (const char* value : {size.low, size.high}) {
      const std::string words = value == size.low ? "must be at least " : "must be at most ";
      const std::string kind = concat(R"({"model": {"kind": ")", size.kind, "\"");
      add(concat(kind, ", \"", size.key, "\": ", value, "}}"), words, true);
      add(concat(kind, R"(}, "sweep": {"model.)", size.key, "\": [", value, "]}}"), words, false);
    }
  add(R"({"model": {"task": "contrast", "text": {"vocabulary": 1}}})", "must be at least ", true);
  add(R"({"start": {"file": "w.npz", "sha256": "NaN"}})", "expected a SHA-256", false);
  const auto found = complaints(descriptors);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(descriptors[i].dump());
    CHECK_MESSAGE(found[i].size() == 1, joined(found[i], "\n"));
    if (found[i].empty() || bounds[i].empty()) continue;
    const std::string bound = found[i].front().substr(found[i].front().rfind(' ') + 1);
    CHECK_MESSAGE(std::stod(bound) == std::stod(bounds[i]), found[i].front() << ", but " << bounds[i]);
  }
}

TEST_CASE("schema: check and jsonschema refuse a typo by its name") {
  struct Typo {
    const char *text, *word;
  };
  const Typo typos[] = {
      {R"({"sead": 3})", "sead"},
      {R"({"sweep": {"leave_one_out": {"base": "dpn", "features": ["final"], "bse": 1}}})", "bse"},
      {R"({"tune": [{"axes": {"train.optimizer.lr": {"uniform": [1, 2], "n": 2, "sede": 1}},
                       "dataset": {"eval": "train[900:]"}}]})",
       "sede"},
      {R"({"external": [{"label": "a", "file": "a.csv", "txt": "x"}]})", "txt"},
      {R"({"extends": "recipe:cifar_smal"})", "cifar_smal"},
      {R"({"dataset": "cifra10"})", "cifra10"},
      {R"({"dataset": {"name": "cifra10"}})", "cifra10"},
      {R"({"dataset": {"name": "shapes", "per_clas": 3}})", "per_clas"},
      {R"({"model": {"placment": "dpn"}})", "placment"},
      {R"({"model": {"depths": [2, 2]}})", "depths"},
      {R"({"model": {"kind": "swin", "depth": 2}})", "depth"},
      {R"({"model": {"variant": "Q/16"}})", "Q/16"},
      {R"({"model": {"kind": "swin", "variant": "Swin-Q"}})", "Swin-Q"},
      {R"({"model": {"placement": "pre_pst"}})", "pre_pst"},
      {R"({"extends": "recipe:cifar_small", "model": {"placement": "pre_pst"}})", "pre_pst"},
      {R"({"model": {"placement": {"base": "pre_pst"}}})", "pre_pst"},
      {R"({"model": {"placement": {"atn": {"query": "rms_norm"}}}})", "atn"},
      {R"({"model": {"placement": {"attn": {"quer": "rms_norm"}}}})", "quer"},
      {R"({"model": {"placement": {"attn": {"query": "rmsnorm"}}}})", "rmsnorm"},
      {R"({"model": {"placement": {"final": {"kind": "rms_norm", "epsilon": 1e-5}}}})", "epsilon"},
      {R"({"model": {"placement": {"final": {"kind": "rmsnorm"}}}})", "rmsnorm"},
      {R"({"model": {"placement": {"blocks": {"0-1": {"atn": {}}}}}})", "atn"},
      {R"({"model": {"placement": {"blocks": {"rst": {"attn": {}}}}}})", "rst"},
      {R"({"model": {"layer_scale": "chanel"}})", "chanel"},
      {R"({"placements": {"a": {"base": "none", "fnal": "dyt"}}, "model": {"placement": "a"}})", "fnal"},
      {R"({"train": {"optimizer": {"name": "adam_w"}}})", "adam_w"},
      {R"({"train": {"optimizer": "adamw"}})", "adamw"},
      {R"({"train": {"schedule": {"warmup_epoch": 1}}})", "warmup_epoch"},
      {R"({"train": {"batch_size": 0}})", "0"},
      {R"({"sweep": {"model.placment": ["dpn"]}})", "model.placment"},
      {R"({"sweep": {"model.placement": ["dnp"]}})", "dnp"},
      {R"({"sweep": {"model.placement": "dpn"}})", "dpn"},
      {R"({"sweep": {"model.placement.attn.quer": ["dyt"]}})", "model.placement.attn.quer"},
      {R"({"sweep": {"model.placement.attn.query": ["dytt"]}})", "dytt"},
      {R"({"sweep": {"model.placement.blocks.0-1.atn.query": ["dyt"]}})", "model.placement.blocks.0-1.atn.query"},
      {R"({"sweep": {"train.optimiser.lr": [0.1]}})", "train.optimiser.lr"},
      {R"({"sweep": {"train.optimizer.lr": ["fast"]}})", "fast"},
      {R"({"sweep": {"train.optimizer.lr": []}})", "[]"},
      {R"({"sweep": {"dataset": ["cifra10"]}})", "cifra10"},
      {R"({"sweep": {"seeds": 3}})", "seeds"},
      {R"({"sweep": [{"seed": 3}]})", "seed"},
      {R"({"sweep": {"model.depth,model.hedas": [[1, 2]]}})", "model.hedas"},
      {R"({"sweep": {"model.depth": [1, 2]}, "baseline": {"model.deph": 1}})", "model.deph"},
      {R"({"sweep": {"model.depth": [1, 2]}, "exclude": [{"model.dept": 1}]})", "model.dept"},
      {R"({"seeds": {"first": 2, "max": 3, "gain_halfwidth": 1, "metrc": "eval/loss"}})", "metrc"},
      {R"({"checkpoint": {"secnds": 3}})", "secnds"},
      {R"({"dataset": {"class_groups": {"x": "cat"}}})", "cat"},
      {R"({"dataset": {"name": "shapes", "label": "color"}})", "color"},
      {R"({"benchmarks": {"a": {"dataset": {"nme": "gratings"}}}, "sweep": {"benchmark": ["a"]}})", "nme"},
      {R"({"benchmarks": {"a": {"grup": "g"}}, "sweep": {"benchmark": ["a"]}})", "grup"},
      {R"({"tune": [{"axes": {"train.optimizer.lr": [1]}, "then_train_on": "minival"}]})", "minival"},
      {R"({"tune": [{"axes": {"train.optimizer.l": [1]}, "dataset": {"eval": "train[900:]"}}]})", "train.optimizer.l"}};
  DescriptorFiles files;
  nlohmann::json descriptors = nlohmann::json::array();
  for (const Typo& typo : typos) {
    CAPTURE(std::string(typo.text));
    CHECK(files.problems(typo.text) != "");
    descriptors.push_back(nlohmann::json::parse(typo.text));
  }
  const auto found = complaints(descriptors);
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(std::string(typos[i].text));
    CHECK_MESSAGE(found[i].size() == 1, joined(found[i], "\n"));
    const std::string message = found[i].empty() ? "" : found[i].front();
    CHECK_MESSAGE(message.find(typos[i].word) != message.npos, message);
  }
}
