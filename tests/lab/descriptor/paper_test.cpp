#include "experiments/lab/descriptor/tested_claim.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "experiments/lab/descriptor/schema.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

TEST_CASE("paper: the source and the deviations are read") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"train": {"steps": 20}, "paper": {"source": "A, table 1", "deviations": [
      {"key": "train.precision", "paper": "fp16", "here": "fp32", "why": "no fp16 here"},
      {"key": "model.placement.attn.pre.eps", "paper": 1e-5, "here": 1e-06, "why": "of that library"}]}})");
  CHECK(e.paper.source == "A, table 1");
  REQUIRE(e.paper.deviations.size() == 2);
  const Deviation& d = e.paper.deviations[0];
  CHECK(d.key == "train.precision");
  CHECK(d.paper == "\"fp16\"");
  CHECK(d.here == "\"fp32\"");
  CHECK(d.why == "no fp16 here");
  CHECK(files.without_folder(d.where) == "d.json:2:7: /paper/deviations/0");
  CHECK(e.paper.deviations[1].here == "1e-06");
}

TEST_CASE("paper: a source changes no trial") {
  DescriptorFiles files;
  const Experiment plain = files.load(R"({"train": {"steps": 20}})");
  CHECK(plain.paper.empty());
  const Experiment e = files.load(R"({"train": {"steps": 20}, "paper": {"source": "A, table 1", "deviations": [
      {"key": "train.precision", "paper": "fp16", "here": "fp32", "why": "no fp16 here"},
      {"key": "model.placement.attn.pre.eps", "paper": 1e-5, "here": 1e-06, "why": "of that library"}]}})");
  CHECK(e.trials.front().id == plain.trials.front().id);
}

TEST_CASE("paper: a child inherits the source unless it gives one") {
  DescriptorFiles files;
  files.write("base.json", R"({"paper": {"source": "A", "deviations": [
      {"key": "train.epochs", "paper": 3, "here": 10, "why": "w"}]}})");
  CHECK(files.load(R"({"extends": "base.json"})").paper.source == "A");
  const Experiment renamed = files.load(R"({"extends": "base.json", "paper": {"source": "B"}})");
  CHECK(renamed.paper.source == "B");
  CHECK(renamed.paper.deviations.size() == 1);
}

TEST_CASE("paper: a child's list of deviations replaces that of its base") {
  DescriptorFiles files;
  files.write("base.json", R"({"paper": {"source": "A", "deviations": [
      {"key": "train.epochs", "paper": 3, "here": 10, "why": "w"}]}})");
  CHECK(files.load(R"({"extends": "base.json", "paper": {"deviations": []}})").paper.deviations.empty());
}

TEST_CASE("paper: a wrong value is told with its place") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"paper": 3})") == "d.json:1:11: /paper: expected an object, got 3");
  CHECK(files.problems(R"({"paper": {"deviations": []}})") == "d.json:1:11: /paper: the key \"source\" is missing");
  CHECK(files.problems(R"({"paper": {"source": "", "deviation": []}})") ==
        "d.json:1:22: /paper/source: expected a non-empty string, got \"\"\n"
        "d.json:1:26: /paper/deviation: unknown key; did you mean \"deviations\"?");
  CHECK(files.problems(R"({"paper": {"source": "A", "deviations": {}}})") ==
        "d.json:1:41: /paper/deviations: expected a list of objects, got an object");
  CHECK(files.problems(R"({"paper": {"source": "A", "deviations": [
  {"key": "train.presicion", "paper": 1, "here": 2, "why": "w"},
  {"key": "train.loss", "paper": 1, "here": 1, "why": "w"},
  {"key": "train.loss", "paper": 1, "here": 2, "why": "w"},
  {"key": "train.loss", "paper": 1}]}})") ==
        "d.json:2:11: /paper/deviations/0/key: there is no setting train.presicion; `normlab check --keys` lists them\n"
        "d.json:3:3: /paper/deviations/1: \"paper\" and \"here\" are equal, so this is no deviation; remove it\n"
        "d.json:4:11: /paper/deviations/2/key: train.loss is listed twice\n"
        "d.json:5:3: /paper/deviations/3: the key \"here\" is missing\n"
        "d.json:5:3: /paper/deviations/3: the key \"why\" is missing");
}

TEST_CASE("paper: settings are the dotted paths of the field tables") {
  for (const char* yes :
       {"seed", "train", "train.optimizer.lr", "train.augment.mix.mixup", "dataset.order", "model.depths",
        "model.rep_size", "model.variant", "model.placement.stem.patch_in", "model.placement.mlp.pre.eps"})
    CHECK_MESSAGE(is_setting(yes), yes);
  for (const char* no :
       {"", "lr", "train.", "train.optimizer.lr.x", "model.placement.stem.patch", "dataset.name.x", ".train"})
    CHECK_MESSAGE(!is_setting(no), no);
}

TEST_CASE("paper: the schema has the paper as a closed object") {
  const nlohmann::json paper = nlohmann::json::parse(json_schema())["properties"]["paper"];
  CHECK(paper["additionalProperties"] == false);
  CHECK(paper["required"] == nlohmann::json({"source"}));
  const nlohmann::json deviation = paper["properties"]["deviations"]["items"];
  CHECK(deviation["additionalProperties"] == false);
  CHECK(deviation["required"] == nlohmann::json({"key", "paper", "here", "why"}));
}
