// Image-text training in a descriptor: what is read, and what is refused.
#include <doctest/doctest.h>

#include "experiments/lab/descriptor/canonical.h"
#include "tests/lab/base/text.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

/// A descriptor of pairs with further settings.
std::string pairs(const std::string& dataset = "", const std::string& text = "", const std::string& others = "") {
  return R"({"dataset": {"name": "shapes", "label": "kind", "captions": true)" + dataset +
         R"(}, "model": {"task": "contrast", "embed_dim": 24, "text": {"vocabulary": 34, "num_heads": 2, "embed_dim": 16)" +
         text + "}}" + others + "}";
}

}  // namespace

TEST_CASE("descriptor: a text tower is read, and its defaults are not part of the identity") {
  DescriptorFiles files;
  const TrialConfig config = files.load(pairs()).trials.at(0).config;
  const TextConfig& text = std::get<ViTConfig>(config.model).text;
  CHECK(text.vocabulary == 34);
  CHECK(text.length == 16);
  CHECK(text.placement == find_placement("pre_pre")->placement);
  CHECK(files.load(pairs("", R"(, "length": 16, "placement": "pre_pre", "bias": -2.71)")).trials.at(0).id ==
        files.load(pairs()).trials.at(0).id);
  CHECK(files.load(pairs("", R"(, "placement": "post_post")")).trials.at(0).id != files.load(pairs()).trials.at(0).id);
  CHECK(config_from_json(full_json(config), "full") == config);
  CHECK(config_from_json(canonical_json(config), "canonical") == config);
  CHECK(canonical_json(TrialConfig{}).find("text") == std::string::npos);
  CHECK(full_json(TrialConfig{}).find("\"text\"") == std::string::npos);
}

TEST_CASE("descriptor: the placement of a text tower can be an axis") {
  DescriptorFiles files;
  const Experiment e = files.load(pairs("", "", R"(, "sweep": {"model.text.placement": ["pre_pre", "post_post"]})"));
  CHECK(e.rows.size() == 2);
  CHECK(e.rows[1].label == "post_post");
}

TEST_CASE("descriptor: settings that image-text training cannot use are refused") {
  DescriptorFiles files;
  const auto train = [&](const std::string& settings) {
    return files.problems(pairs("", "", R"(, "train": {)" + settings + "}"));
  };
  CHECK(train(R"("batch_size": 50)").empty());
  CHECK(has(train(R"("accumulate": 2)"),
            "/train/accumulate: the parts of a batch would not be contrasted with each other; leave it out"));
  CHECK(
      has(train(R"("batch_size": 1)"), "/train/batch_size: a pair alone has nothing to contrast; use a larger batch"));
  CHECK(has(train(R"("label_smoothing": 0.1)"), "/train/label_smoothing: pairs have no label to smooth"));
  CHECK(has(train(R"("augment": {"mix": {"mixup": 0.2}})"), "/train/augment/mix: a mixed image has no text"));
  CHECK(has(train(R"("augment": {"flip": true})"), "/train/augment/flip: a caption of shapes says where things are"));
  CHECK(has(files.problems(pairs("", "", R"(, "eval": {"templates": ["a {}", "a photo"]})")),
            "/eval/templates/1: there is no {} for the name of the class"));
  CHECK(has(files.problems(pairs("", R"(, "num_heads": 3)")), "num_heads"));
  CHECK(has(files.problems(pairs("", R"(, "length": 1)")), "/model/text/length"));
}

TEST_CASE("descriptor: captions and text towers need each other") {
  DescriptorFiles files;
  CHECK(has(files.problems(R"({"model": {"task": "contrast"}})"),
            "task contrast needs a text for each image; set captions to true"));
  CHECK(has(files.problems(R"({"dataset": {"name": "shapes", "label": "kind", "captions": true}})"),
            "/dataset/captions: only task contrast uses captions; set model.task to \"contrast\""));
  CHECK(has(files.problems(R"({"eval": {"templates": ["a {}"]}})"),
            "/eval/templates: only task contrast uses templates"));
  CHECK(has(files.problems(R"({"model": {"text": {"length": 20}}})"),
            "/model/text: only task contrast has a text tower"));
  CHECK(has(files.problems(R"({"dataset": {"name": "shapes", "captions": true},
                                "model": {"task": "contrast"}})"),
            "/dataset/captions: only scenes have captions"));
  CHECK(has(files.problems(R"({"dataset": {"name": "cifar10", "captions": true},
                                "model": {"task": "contrast"}})"),
            "/dataset/captions: only layout webdataset has captions"));
  CHECK(has(files.problems(R"({"dataset": {"name": "pets", "path": "pets", "layout": "webdataset",
                                "vocabulary": "words.txt"}, "model": {"image_size": 32, "num_classes": 2}})"),
            "/dataset/vocabulary: only captions have a vocabulary"));
}
