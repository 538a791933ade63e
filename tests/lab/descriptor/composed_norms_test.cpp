// The kinds gated_norm and prep_bn in descriptors.
#include <doctest/doctest.h>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/formula.h"
#include "experiments/lab/descriptor/step_count.h"
#include "experiments/lab/train/cost.h"
#include "experiments/lab/weights/model_names.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

std::string descriptor(const std::string& norm, const std::string& train = "", const std::string& site = "final") {
  return R"({"dataset": {"name": "gratings", "allow_absent_classes": true, "train_images": 37},
"model": {"embed_dim": 16, "depth": 2, "num_heads": 2, "placement": {"base": "pre_pre", ")" +
         site + R"(": )" + norm + R"(}}, "train": {"batch_size": 8)" + train + "}}";
}
TrialConfig config_of(const std::string& norm, const std::string& train = "") {
  DescriptorFiles files;
  return files.load(descriptor(norm, train)).trials.front().config;
}
std::string id_of(const std::string& norm, const std::string& train = "") { return trial_id(config_of(norm, train)); }
/// Without the file and the place in it.
std::string problem(const std::string& norm, const std::string& train = "", const std::string& site = "final") {
  DescriptorFiles files;
  const std::string text = files.problems(descriptor(norm, train, site));
  const std::size_t pointer = text.find(": /");
  return pointer == std::string::npos ? text : text.substr(pointer + 2);
}

}  // namespace

TEST_CASE("composed norms: defaults enter no id, and settings do") {
  const std::string gated = id_of(R"("gated_norm")"), prep = id_of(R"("prep_bn")");
  CHECK(gated != id_of(R"("rms_norm")"));
  CHECK(prep != id_of(R"("batch_norm")"));
  CHECK(id_of(R"({"kind": "gated_norm", "rank": 16, "eps": 1e-6, "gamma_init": 1})") == gated);
  CHECK(id_of(R"({"kind": "prep_bn", "decay_share": 1, "eps": 1e-5, "momentum": 0.1, "statistics_batch": 0})") == prep);
  const std::string gated_text = canonical_json(config_of(R"("gated_norm")"));
  CHECK_MESSAGE(gated_text.find(R"("final":"gated_norm")") != gated_text.npos, gated_text);
  const std::string prep_text = canonical_json(config_of(R"("prep_bn")"));
  CHECK_MESSAGE(prep_text.find(R"("final":"prep_bn")") != prep_text.npos, prep_text);
  std::set<std::string> ids{gated, prep};
  for (const char* norm : {R"({"kind": "gated_norm", "rank": 8})", R"({"kind": "gated_norm", "gamma_init": 0.5})",
                           R"({"kind": "prep_bn", "decay_share": 0.8})", R"({"kind": "prep_bn", "momentum": 0.2})",
                           R"({"kind": "prep_bn", "statistics_batch": 4})"}) {
    CAPTURE(norm);
    const TrialConfig config = config_of(norm);
    CHECK(ids.insert(trial_id(config)).second);
    CHECK(config_from_json(canonical_json(config), "canonical") == config);
    CHECK(config_from_json(full_json(config), "full") == config);
  }
}

TEST_CASE("composed norms: batch statistics of PRepBN are checked as those of a batch norm") {
  const auto norm = [](const std::string& keys) { return R"({"kind": "prep_bn")" + keys + "}"; };
  CHECK(problem(norm(R"(, "statistics_batch": 3)")) ==
        "/model/placement: statistics_batch 3 of final does not divide batch_size 8");
  CHECK(problem(norm(""), R"(, "drop_last": false)", "pooled") == "");  // a last batch of 5
  CHECK(problem(norm(R"(, "statistics_batch": 4)"), R"(, "drop_last": false)", "pooled")
            .find("the batch norm pooled would see one value per channel") != std::string::npos);
  // What moves the running statistics is in no id where it changes nothing, and is one where it does.
  const std::string first = R"(, "running": "first_group")", fours = R"(, "statistics_batch": 4)";
  CHECK(config_of(norm(first)) == config_of(norm("")));
  CHECK(id_of(norm(fours + first)) != id_of(norm(fours)));
  CHECK(config_of(norm(fours + first), R"(, "freeze": ["final"])") ==
        config_of(norm(fours), R"(, "freeze": ["final"])"));
  const std::string text = canonical_json(config_of(norm(fours)));
  CHECK(text.find(R"("running":"all_groups")") != text.npos);
}

TEST_CASE("composed norms: wrong settings are named") {
  CHECK(problem(R"({"kind": "gated_norm", "rank": 0})").find("/model/placement/final/rank: ") == 0);
  CHECK(problem(R"({"kind": "gated_norm", "rank": 70000})").find("/model/placement/final/rank: ") == 0);
  CHECK(problem(R"({"kind": "gated_norm", "momentum": 0.1})") ==
        "/model/placement/final/momentum: a norm of kind gated_norm has no momentum");
  CHECK(problem(R"({"kind": "layer_norm", "rank": 4})") ==
        "/model/placement/final/rank: a norm of kind layer_norm has no rank");
  CHECK(problem(R"({"kind": "prep_bn", "decay_share": 0})").find("/model/placement/final/decay_share: ") == 0);
  CHECK(problem(R"({"kind": "prep_bn", "decay_share": 1.5})").find("/model/placement/final/decay_share: ") == 0);
  CHECK(problem(R"("gatd_norm")").find("did you mean \"gated_norm\"") != std::string::npos);
  CHECK(problem(R"("gated_norm")", "", "stream_norm") == "");
  CHECK(problem(R"("prep_bn")", "", "stream_norm").find("stream_norm: prep_bn cannot be there") != std::string::npos);
}

TEST_CASE("composed norms: explain has their signs and settings, and no other program has them") {
  const ModelConfig gated = config_of(R"({"kind": "gated_norm", "rank": 8})").model,
                    prep = config_of(R"({"kind": "prep_bn", "decay_share": 0.5})").model;
  const auto text = [](const ModelConfig& model) {
    return normed_text(placement_of(model).final, ModelKind::vit, "x");
  };
  CHECK(text(gated) == "Gated[rank=8](x)");
  CHECK(text(prep) == "PRepBN[decay_share=0.5](x)");
  for (const auto& [model, word] : {std::pair(gated, "gated_norm"), std::pair(prep, "prep_bn")}) {
    const std::vector<SchemeProblem> problems = scheme_problems(NameScheme::timm, model);
    REQUIRE(problems.size() == 1);
    CHECK(problems.front().what == concat("final: is ", word, ", which timm has no module for"));
    CHECK(scheme_problems(NameScheme::normlab, model).empty());
  }
}

TEST_CASE("composed norms: the plan's memory has what lies between their operations") {
  const auto bytes = [](const char* norm) { return trial_cost(config_of(norm), {}).shard_bytes; };
  CHECK(bytes(R"("gated_norm")") > bytes(R"("rms_norm")"));
  CHECK(bytes(R"("prep_bn")") > bytes(R"("batch_norm")"));
}
