// "start": which weights a trial starts from, and what that does to its id.
#include "experiments/lab/base/safetensors.h"

#include <doctest/doctest.h>

#include <cctype>

#include "experiments/lab/base/sha256.h"
#include "experiments/lab/descriptor/canonical.h"
#include "tests/lab/base/text.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

const char* const kPretrain = R"({"train": {"epochs": 3},
  "sweep": {"model.placement": ["pre_pre", "dpn"], "model.depth": [2, 3]}, "seeds": 2})";

const Trial& trial_of(const Experiment& e, std::size_t row, std::size_t seed) {
  return e.trials[e.rows.at(row).trials.at(seed)];
}

}  // namespace

TEST_CASE("start: a file is identified by its contents") {
  DescriptorFiles files;
  files.write("w.safetensors", "some bytes");
  const Trial a = files.load(R"({"start": "w.safetensors"})").trials[0];
  CHECK(a.config.start.sha256 == sha256_hex("some bytes"));
  CHECK(a.config.start.file == (files.folder() / "w.safetensors").string());
  files.write("moved/v.safetensors", "some bytes");
  CHECK(files.load(R"({"start": {"file": "moved/v.safetensors"}})").trials[0].id == a.id);
  files.write("w.safetensors", "other bytes");
  CHECK(files.load(R"({"start": "w.safetensors"})").trials[0].id != a.id);
}

TEST_CASE("start: a trial without one has the id that it always had") {
  DescriptorFiles files;
  CHECK(files.load(R"({"start": null})").trials[0].id == files.load("{}").trials[0].id);
}

TEST_CASE("start: a missing file is an error unless its hash is given") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"start": {"file": "w.npz"}})").starts_with("d.json:1:20: /start/file: there is no file "));
  CHECK(files.problems(R"({"start": {"file": "w.npz", "sha256": ")" + sha256_hex("any") + "\"}}").empty());
}

TEST_CASE("start: what is no SHA-256, or names no file, is refused by its key") {
  DescriptorFiles files;
  const std::string right = sha256_hex("any");
  std::string capitals = right;
  for (char& c : capitals) c = char(std::toupper(static_cast<unsigned char>(c)));
  for (const std::string& wrong : {std::string("NaN"), std::string(), right.substr(1), right + "0", capitals}) {
    CAPTURE(wrong);
    const std::string found = files.problems(R"({"start": {"file": "w.npz", "sha256": ")" + wrong + "\"}}");
    CHECK_MESSAGE(has(found, "/start/sha256: expected a SHA-256, 64 digits from 0 to 9 and a to f, got "), found);
  }
  const std::string alone = files.problems(R"({"start": {"sha256": ")" + right + "\"}}");
  CHECK_MESSAGE(has(alone, "/start: expected \"file\" or \"from\", which say where the weights are"), alone);
}

TEST_CASE("start: a file with another hash than the given one is an error") {
  DescriptorFiles files;
  files.write("w.npz", "some bytes");
  CHECK(has(files.problems(R"({"start": {"file": "w.npz", "sha256": ")" + sha256_hex("others") + "\"}}"),
            " has the SHA-256 "));
}

TEST_CASE("start: the hash of a model in several files covers all of them") {
  DescriptorFiles files;
  const auto index = files.write("m.safetensors.index.json", R"({"weight_map": {"a": "1.bin", "b": "2.bin"}})");
  files.write("1.bin", "one");
  files.write("2.bin", "two");
  const std::string before = weights_sha256(index);
  files.write("2.bin", "three");
  CHECK(weights_sha256(index) != before);
}

TEST_CASE("start: a row of another descriptor is found by the axes that both have") {
  DescriptorFiles files;
  files.write("pretrain.json", kPretrain);
  const Experiment e = files.load(R"({
    "start": {"from": {"descriptor": "pretrain.json", "row": {"model.depth": 3}}}, "model": {"depth": 3},
    "sweep": {"model.placement": ["pre_pre", "dpn"]}, "seeds": 2})");
  const Experiment source = load_experiment(files.folder() / "pretrain.json");
  REQUIRE(e.rows.size() == 2);
  CHECK(trial_of(e, 0, 0).config.start.trial == trial_of(source, 1, 0).id);
  CHECK(trial_of(e, 0, 1).config.start.trial == trial_of(source, 1, 1).id);
  CHECK(trial_of(e, 1, 1).config.start.trial == trial_of(source, 3, 1).id);
}

TEST_CASE("start: the trials to start from are planned beside the rows") {
  DescriptorFiles files;
  files.write("pretrain.json", kPretrain);
  const Experiment e = files.load(R"({
    "start": {"from": {"descriptor": "pretrain.json", "row": {"model.depth": 3}}}, "model": {"depth": 3},
    "sweep": {"model.placement": ["pre_pre", "dpn"], "train.epochs": [1, 2]}, "seeds": 2})");
  CHECK(e.rows.size() == 4);
  CHECK(e.trials.size() == 4 * 2 + 2 * 2);
  std::size_t starts = 0;
  for (const Cell& row : e.rows) {
    CHECK(row.trials.size() == 2);
    starts += row.starts.size();
  }
  CHECK(starts == 4);
  const Trial& first = e.trials[e.rows[0].starts[0]];
  CHECK(first.purpose == Purpose::start);
  CHECK(first.label == "pretrain: placement=pre_pre, depth=3, seed 0");
}

TEST_CASE("start: one seed of the other row can be named") {
  DescriptorFiles files;
  files.write("pretrain.json", R"({"train": {"epochs": 3}})");
  const Experiment e = files.load(R"({"start": {"from": {"descriptor": "pretrain.json", "seed": 5}}, "seeds": 3})");
  CHECK(e.trials.size() == 4);
  CHECK(trial_of(e, 0, 0).config.start.trial == trial_of(e, 0, 2).config.start.trial);
}

TEST_CASE("start: a row of the same descriptor is named by its axis values") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"sweep": {"model.placement": ["pre_pre", "dpn"],
    "start": [null, {"from": {"row": {"start": null}}}]}})");
  REQUIRE(e.rows.size() == 4);
  CHECK(e.trials.size() == 4);
  CHECK(trial_of(e, 1, 0).config.start.trial == trial_of(e, 0, 0).id);
  CHECK(trial_of(e, 3, 0).config.start.trial == trial_of(e, 2, 0).id);
}

TEST_CASE("start: a row that starts from itself is an error") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"start": {"from": {"row": {"train.epochs": 1}}}, "sweep": {"train.epochs": [1, 2]}})")
            .find("starts from itself") != std::string::npos);
  files.write("a.json", R"({"start": {"from": {"descriptor": "d.json"}}})");
  CHECK(files.problems(R"({"start": {"from": {"descriptor": "a.json"}}})").find("starts from itself") !=
        std::string::npos);
}

TEST_CASE("start: a chain of starts is planned whole") {
  DescriptorFiles files;
  files.write("a.json", R"({"train": {"epochs": 1}})");
  files.write("b.json", R"({"train": {"epochs": 2}, "start": {"from": {"descriptor": "a.json"}}})");
  const Experiment e = files.load(R"({"start": {"from": {"descriptor": "b.json"}}})");
  REQUIRE(e.trials.size() == 3);
  CHECK(e.trials[0].config.start.trial == e.trials[1].id);
  CHECK(e.trials[1].config.start.trial == e.trials[2].id);
}

TEST_CASE("start: an ambiguous row is an error that names the rows") {
  DescriptorFiles files;
  files.write("pretrain.json", kPretrain);
  const std::string problem = files.problems(R"({"start": {"from": {"descriptor": "pretrain.json"}}})");
  CHECK(problem.find("several rows of pretrain.json have these axis values: placement=pre_pre, depth=2; ") !=
        std::string::npos);
}

TEST_CASE("start: an unknown axis of the other descriptor is an error") {
  DescriptorFiles files;
  files.write("pretrain.json", kPretrain);
  CHECK(files.problems(R"({"start": {"from": {"descriptor": "pretrain.json", "row": {"model.dept": 2}}}})") ==
        "d.json:1:60: /start/from/row/model.dept: unknown axis \"model.dept\"; did you mean \"model.depth\"?");
}

TEST_CASE("start: a network of another width or placement is an error that names tensors") {
  DescriptorFiles files;
  files.write("pretrain.json", R"({"model": {"embed_dim": 32, "num_heads": 2}})");
  CHECK(files
            .problems(
                R"({"start": {"from": {"descriptor": "pretrain.json"}}, "model": {"embed_dim": 64, "num_heads": 2}})")
            .find("patch_embed.weight is [32, 48] there and [64, 48] here; ") != std::string::npos);
  CHECK(files
            .problems(R"({"start": {"from": {"descriptor": "pretrain.json"}},
                          "model": {"embed_dim": 32, "num_heads": 2, "placement": "dpn"}})")
            .find("stem.patch_in.gamma is not in it") != std::string::npos);
}

TEST_CASE("start: positions of another grid need a named dialect") {
  DescriptorFiles files;
  files.write("pretrain.json", R"({"model": {"patch_size": 8}, "dataset": "cifar10"})");
  const auto with = [&](const std::string& more) {
    return files.problems(R"({"start": {"from": {"descriptor": "pretrain.json"})" + more +
                          R"(}, "dataset": "cifar10", "model": {"image_size": 64, "patch_size": 8},
                              "train": {"augment": {"crop": "stretch"}, "eval_transform": {"crop": "stretch"}}})");
  };
  CHECK(with("").find("\"resize_positions\" names how to resize it") != std::string::npos);
  CHECK(with(R"(, "resize_positions": "corners")").empty());
}

TEST_CASE("start: a grid with as many patches as another is another grid") {
  DescriptorFiles files;
  const std::string own = R"("dataset": "cifar10",
    "train": {"augment": {"crop": "stretch"}, "eval_transform": {"crop": "stretch"}}, "model": {"patch_size": 8, )";
  files.write("wide.json", "{" + own + R"("image_size": [16, 64]}})");
  const auto with = [&](const std::string& start, const std::string& model) {
    return files.problems(R"({"start": {"from": {"descriptor": "wide.json"})" + start + "}, " + own + model + "}}");
  };
  CHECK(with("", R"("image_size": [32, 32])")
            .find("pos_embed has a grid of 2x8 there and 4x4 here; \"resize_positions\" names how to resize it") !=
        std::string::npos);
  CHECK(with("", R"("image_size": [16, 64])") == "");
  CHECK(with(R"(, "resize_positions": "bilinear")", R"("image_size": [32, 32])") == "");
  // A class token is no patch, whatever is resized.
  CHECK(
      with(R"(, "resize_positions": "bilinear")", R"("image_size": [24, 40], "pool": "token", "pos_embed_class": true)")
          .find("pos_embed has 0 rows for tokens before the patches there and 1 here") != std::string::npos);
}

TEST_CASE("start: neither a file nor a trial is an error") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"start": {"weights": "ema"}})") ==
        "d.json:1:11: /start: expected \"file\" or \"from\", which say where the weights are");
}

TEST_CASE("start: averaged weights need a training that averages") {
  DescriptorFiles files;
  files.write("pretrain.json", "{}");
  CHECK(files.problems(R"({"start": {"from": {"descriptor": "pretrain.json"}, "weights": "ema"}})")
            .find("averages no weights") != std::string::npos);
}

TEST_CASE("start: rows that differ only in what is left out are different") {
  DescriptorFiles files;
  files.write("pretrain.json", "{}");
  const Experiment e = files.load(R"({"start": {"from": {"descriptor": "pretrain.json"}},
    "sweep": {"start.leave_out": [["auto"], ["head"]]}})");
  CHECK(e.rows.size() == 2);
}

TEST_CASE("start: a pattern of what is left out must match a parameter") {
  DescriptorFiles files;
  files.write("pretrain.json", "{}");
  CHECK(files.problems(R"({"start": {"from": {"descriptor": "pretrain.json"}, "leave_out": ["auto", "hed"]}})")
            .find("\"leave_out\": no parameter matches \"hed\"") != std::string::npos);
}

TEST_CASE("start: a row of another grid is found by its values") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"sweep": [{"model.depth": [2, 3], "start": [null], "train.epochs": [1]},
    {"model.depth": [3], "start": [{"from": {"row": {"start": null, "train.epochs": 1}}}], "train.epochs": [7]}]})");
  REQUIRE(e.rows.size() == 3);
  CHECK(trial_of(e, 2, 0).config.start.trial == trial_of(e, 1, 0).id);
}

TEST_CASE("start: a row's label names the source and the keys that are given") {
  DescriptorFiles files;
  files.write("pretrain.json", "{}");
  const Experiment e = files.load(R"({"sweep": {"start": [null, {"from": {"descriptor": "pretrain.json"}},
    {"from": {"descriptor": "pretrain.json", "seed": 1, "row": {}}, "resize_positions": "corners"}]}})");
  REQUIRE(e.rows.size() == 3);
  CHECK(e.rows[0].label == "none");
  CHECK(e.rows[1].label == "pretrain.json");
  CHECK(e.rows[2].label == "pretrain.json, seed=1, row={}, resize_positions=corners");
}

TEST_CASE("start: the canonical form reads back") {
  DescriptorFiles files;
  files.write("pretrain.json", "{}");
  const TrialConfig config =
      files.load(R"({"start": {"from": {"descriptor": "pretrain.json"}, "leave_out": ["head", "blocks.3"]}})")
          .trials[0]
          .config;
  CHECK(config_from_json(canonical_json(config), "c") == config);
  CHECK(config_from_json(full_json(config), "c") == config);
}
