// Settings of batch norms and drop-path that act only on some trials: their ids, and what is refused.
#include "experiments/lab/descriptor/step_count.h"

#include <doctest/doctest.h>

#include "experiments/lab/descriptor/canonical.h"
#include "nn/model/residual.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

/// The trial of a descriptor whose only batch norm is the final one, of batches of 120.
struct Trained {
  DescriptorFiles files;
  TrialConfig config(const std::string& norm, const std::string& train = "") {
    return files
        .load(R"({"model": {"placement": {"base": "pre_pre", "final": {"kind": "batch_norm")" + norm +
              R"(}}}, "train": {"batch_size": 120)" + train + "}}")
        .trials.at(0)
        .config;
  }
  std::string id(const std::string& norm, const std::string& train = "") { return trial_id(config(norm, train)); }
};

const std::string kFirst = R"(, "running": "first_group")", kAll = R"(, "running": "all_groups")";
const std::string kTens = R"(, "statistics_batch": 10)", kParts = R"(, "accumulate": 3)";
const std::string kFrozen = R"(, "freeze": ["final"])";

std::string canonical(const TrialConfig& config) { return canonical_json(config); }

}  // namespace

// The ids are those of version 0.1 and of later programs without `running`, which moved by the first group of a part.
TEST_CASE("batch statistics: what moves by the first group keeps the id that it had") {
  Trained trained;
  CHECK(trained.id("") == "9d7d1985f876a146fb0f3aa8bd02cbc4aaa8419f56a2d59c844568c43af36261");
  CHECK(trained.id(kTens + kFirst) == "f6f3f374d438bf489e05cbedc4a79e1de9d04aeb17144f5e7f8556aaf7c1088b");
  CHECK(trained.id(kFirst, kParts) == "cb0e8142ec61ff105deb3f47999147182046cae4ea8269bc3dee54829de92afa");
  CHECK(trained.id(kFirst + R"(, "statistics_batch": 20)", kParts) ==
        "a7c39c83f520f23c1551a1fb4dde0ea7b051f820236a2c7e946e801df1f0fe37");
}

TEST_CASE("batch statistics: what all groups move has another id") {
  Trained trained;
  for (const auto& [norm, train] : {std::pair{kTens, std::string()}, {std::string(), kParts}, {kTens, kParts}}) {
    const TrialConfig all = trained.config(norm, train), first = trained.config(norm + kFirst, train);
    CHECK(trial_id(all) != trial_id(first));
    CHECK(all == trained.config(norm + kAll, train));
    CHECK(canonical(all).find(R"("running":"all_groups")") != std::string::npos);
    CHECK(canonical(first).find("running") == std::string::npos);
    for (const TrialConfig& config : {all, first}) {
      CHECK(config_from_json(canonical(config), "canonical") == config);
      CHECK(config_from_json(full_json(config), "full") == config);
    }
  }
}

TEST_CASE("batch statistics: the first group of a step has an id of its own only where a step has parts") {
  Trained trained;
  const std::string of_step = R"(, "running": "first_group_of_step")";
  CHECK(trained.config(kTens + of_step) == trained.config(kTens + kFirst));
  CHECK(trained.config(of_step) == trained.config(""));
  const TrialConfig in_parts = trained.config(kTens + of_step, kParts);
  CHECK(trial_id(in_parts) != trial_id(trained.config(kTens + kFirst, kParts)));
  CHECK(trial_id(in_parts) != trial_id(trained.config(kTens, kParts)));
  CHECK(config_from_json(canonical(in_parts), "canonical") == in_parts);
  CHECK(config_from_json(full_json(in_parts), "full") == in_parts);
}

TEST_CASE("batch statistics: what moves the running values is in no id where it changes nothing") {
  Trained trained;
  CHECK(trained.config(kFirst) == trained.config(""));
  const std::string whole = R"(, "statistics_batch": 120)";
  CHECK(trained.id(whole) == "75ab51035dc54f5a1cd5d220cf975e1cd5cda9beeeef714a97f127cfdd020b0c");
  CHECK(trained.config(whole + kFirst) == trained.config(whole));
  // A frozen norm uses its running values.
  CHECK(trained.id(kTens, kFrozen) == "86c86c270a13306db1f24046516864c1da3f907bc6c5fdfd481b885da1feafca");
  CHECK(trained.id("", kParts + kFrozen) == "a06ba656d4385722b50d116bf6a67eb49b9e3ac55b400e629acdddab16215f34");
  CHECK(trained.config(kTens + kFirst, kFrozen) == trained.config(kTens, kFrozen));
  CHECK(canonical_model_json(trained.config(kTens).model) ==
        canonical_model_json(trained.config(kTens + kFirst).model));
}

TEST_CASE("batch statistics: blocks, Swin and text towers choose what moves running values, too") {
  DescriptorFiles files;
  const auto config = [&](const std::string& model, const std::string& rest) {
    return files.load(R"({"model": {)" + model + "}" + rest + "}").trials.at(0).config;
  };
  const auto check = [&](const std::string& before, const std::string& after, const std::string& rest = "") {
    const std::string bn = R"({"kind": "batch_norm", "statistics_batch": 64)";
    const TrialConfig all = config(before + bn + "}" + after, rest),
                      first = config(before + bn + kFirst + "}" + after, rest);
    CHECK(trial_id(all) != trial_id(first));
    for (const TrialConfig& one : {all, first}) {
      CHECK(config_from_json(canonical(one), "canonical") == one);
      CHECK(config_from_json(full_json(one), "full") == one);
    }
  };
  check(R"("placement": {"base": "pre_pre", "blocks": {"1-2": {"mlp": {"hidden": )", "}}}}");
  check(R"("kind": "swin", "variant": "Swin-T", "window": 4, "placement": {"base": "pre_pre", "merge": )", "}");
  check(R"("task": "contrast", "text": {"placement": {"base": "pre_pre", "final": )", "}}",
        R"(, "dataset": {"name": "shapes", "label": "kind", "captions": true})");
}

TEST_CASE("batch statistics: other norms have no running values") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"placement": {"base": "pre_pre",
    "final": {"kind": "layer_norm", "running": "all_groups"}}}})") ==
        "d.json:2:37: /model/placement/final/running: a norm of kind layer_norm has no running");
  CHECK(files
            .problems(R"({"model": {"placement": {"base": "bn",
    "final": {"running": "rank_0"}}}})")
            .find("unknown word \"rank_0\"; one of: all_groups, first_group") != std::string::npos);
}

TEST_CASE("drop path: a single block has none, and the setting is in no id") {
  DescriptorFiles files;
  const auto trial = [&](const std::string& model) {
    return files.load(R"({"model": {)" + model + "}}").trials.at(0).config;
  };
  CHECK(trial(R"("depth": 1, "drop_path": 0.5)") == trial(R"("depth": 1)"));
  CHECK(trial_id(trial(R"("depth": 1, "drop_path": 0.5)")) ==
        "4b9f40969ad328f936dc78afd31f9882ac8f5fb0616cecc7dc12af2db436644f");
  CHECK(trial(R"("depth": 1, "drop_path": 0.5, "short_forms": false)") == trial(R"("depth": 1)"));
  CHECK(trial_id(trial(R"("depth": 1, "drop_path": 0.5, "short_forms": false, "pool": "token")")) ==
        "2af789333267a10acff861795f686356baa4e298fc2f98ef863cb938c3082ac5");
  const std::string swin = R"("kind": "swin", "embed_dim": 12, "num_heads": [2], "window": 4, "depths": )";
  CHECK(trial(swin + R"([1], "drop_path": 0.5)") == trial(swin + "[1]"));
  CHECK(trial_id(trial(R"("depth": 2, "drop_path": 0.5)")) != trial_id(trial(R"("depth": 2)")));
}

TEST_CASE("drop path: trials of earlier versions with one block stay readable under their ids") {
  TrialConfig old;
  vit_of(old).placement = find_placement("pre_pre")->placement;
  vit_of(old).depth = 1;
  vit_of(old).drop_path = 0.5;
  CHECK(trial_id(old) == "1d09828feb194801edf265b225ca924cabab95f1b2a71fa64c3662f0764d4236");
  CHECK(drop_path_rate(vit_of(old), 0, 1) == 0);
  CHECK(config_from_json(full_json(old), "full") == old);
  CHECK(config_from_json(canonical_json(old), "canonical") == old);
}

namespace {

/// A sum of settings whose pooled norm sees one row per image.
std::string pooled(const std::string& images, const std::string& train, const std::string& norm = "") {
  return R"({"dataset": {"name": "gratings", "allow_absent_classes": true, "train_images": )" + images + R"(},
"model": {"depth": 1, "placement": {"base": "pre_pre", "pooled": {"kind": "batch_norm")" +
         norm + "}}},\n\"train\": {" + train + "}}";
}

}  // namespace

TEST_CASE("batch statistics: an epoch's last batch of one image is refused where a norm has one row per image") {
  DescriptorFiles files;
  const std::string last = R"("batch_size": 2, "drop_last": false)";
  const std::string has =
      "the batch norm pooled would see one value per channel, which has no variance: it has one "
      "row per image, and ";
  CHECK(files.problems(pooled("5", last)) ==
        "d.json:3:41: /train/drop_last: " + has +
            "5 training images in batches of 2 leave a last batch of 1; set train.drop_last to true, or another "
            "train.batch_size");
  CHECK(files.problems(pooled("6", last)) == "");
  CHECK(files.problems(pooled("5", R"("batch_size": 2)")) == "");
  CHECK(files.problems(pooled("5", last + R"(, "steps": 2)")) == "");  // no step has the last batch
  CHECK(files.problems(pooled("5", last + R"(, "steps": 3)")) != "");
  CHECK(files.problems(pooled("1", R"("batch_size": 2, "drop_last": false)")) != "");
  CHECK(files.problems(pooled("5", last + R"(, "freeze": ["pooled"])")) == "");
  // A norm of tokens has several rows.
  CHECK(files.problems(R"({"dataset": {"name": "gratings", "allow_absent_classes": true, "train_images": 5},
"model": {"placement": "bn"}, "train": {"batch_size": 2, "drop_last": false}})") == "");
}

TEST_CASE("batch statistics: groups, parts and batches of one image are refused where a norm has one row per image") {
  DescriptorFiles files;
  const auto problem = [&](const std::string& train, const std::string& norm = "") {
    return files.problems(pooled("37", train, norm));
  };
  CHECK(problem(R"("batch_size": 1)").find("/train/batch_size: the batch norm pooled") != std::string::npos);
  CHECK(problem(R"("batch_size": 1)").find("a batch has 1 image; raise train.batch_size") != std::string::npos);
  CHECK(problem(R"("batch_size": 4, "accumulate": 4)")
            .find("a batch has 4 images, train.accumulate leaves parts of 1; lower train.accumulate") !=
        std::string::npos);
  CHECK(problem(R"("batch_size": 4)", R"(, "statistics_batch": 1)")
            .find("a batch has 4 images, statistics_batch 1 a group of 1; raise statistics_batch") !=
        std::string::npos);
  // 37 images: a last batch of 5, in a group of 4 and one of 1, or in parts of 4 and 1.
  CHECK(problem(R"("batch_size": 8, "drop_last": false)", R"(, "statistics_batch": 4)")
            .find("leave a last batch of 5, statistics_batch 4 a group of 1; set train.drop_last") !=
        std::string::npos);
  CHECK(problem(R"("batch_size": 8, "drop_last": false, "accumulate": 2)")
            .find("leave a last batch of 5, train.accumulate leaves parts of 1; set train.drop_last") !=
        std::string::npos);
  CHECK(problem(R"("batch_size": 8, "drop_last": false)", R"(, "statistics_batch": 8)") == "");
  CHECK(problem(R"("batch_size": 6, "drop_last": false)") != "");
  CHECK(problem(R"("batch_size": 7, "drop_last": false)") == "");
}

TEST_CASE("batch statistics: batches of one image are refused where the number of images is unknown") {
  DescriptorFiles files;
  const auto problem = [&](const std::string& train) {
    return files.problems(R"({"dataset": {"name": "mine", "layout": "image_folder"},
"model": {"image_size": 32, "channels": 3, "num_classes": 3, "placement": {"base": "pre_pre", "pooled": "batch_norm"}},
"train": {)" + train + "}}");
  };
  CHECK(problem(R"("batch_size": 1)").find("a batch has 1 image") != std::string::npos);
  CHECK(problem(R"("batch_size": 2, "drop_last": false)") == "");
}
