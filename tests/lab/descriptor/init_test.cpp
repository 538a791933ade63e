// "init" and "dropout" of a model, which are a word or a number, or an object.
#include <doctest/doctest.h>

#include "experiments/lab/descriptor/canonical.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

Experiment with_model(const std::string& settings, const std::string& more = "") {
  DescriptorFiles files;
  return files.load(R"({"model": {"patch_size": 8, "embed_dim": 16, "num_heads": 2, )" + settings + "}" + more + "}");
}
std::string id_of(const std::string& settings) { return with_model(settings).trials[0].id; }
ViTConfig initialised_model(const std::string& settings) { return vit_of(with_model(settings).trials[0].config); }

}  // namespace

TEST_CASE("descriptor: init may be an object") {
  const InitConfig init = initialised_model(R"("init": {"base": "timm", "qkv": "xavier", "head": "zero"})").init;
  CHECK(init.base == Init::timm);
  CHECK(init.qkv == QkvInit::xavier);
  CHECK(init.head == HeadInit::zero);
  CHECK(init.patch_embed == PatchInit::base);
  // What a part repeats, or cannot reach, is no part of the identity.
  CHECK(id_of(R"("init": {"base": "torch", "qkv": "xavier_fused", "patch_embed": "conv2d_uniform"})") ==
        id_of(R"("init": "torch")"));
  CHECK(id_of(R"("init": {"base": "torch", "truncation": "uncorrected"})") == id_of(R"("init": "torch")"));
  CHECK(id_of(R"("init": {"base": "big_vision", "truncation": "uncorrected"})") != id_of(R"("init": "big_vision")"));
}

TEST_CASE("descriptor: init and dropout survive the canonical form") {
  for (const char* settings :
       {R"("init": {"base": "torch", "qkv": "linear", "head": "xavier"})", R"("init": "timm_jax")",
        R"("dropout": {"hidden": 0.1, "mlp": 0.2})", R"("dropout": {"stem": 0.1})", R"("dropout": 0.3)"}) {
    CAPTURE(settings);
    const Trial trial = with_model(settings).trials[0];
    CHECK(config_from_json(canonical_json(trial.config), "canonical") == trial.config);
    CHECK(config_from_json(full_json(trial.config), "full") == trial.config);
  }
}

TEST_CASE("descriptor: dropout has a rate for all places, or one for each") {
  const DropoutRates rates = initialised_model(R"("dropout": {"hidden": 0.1, "mlp": 0.2})").dropout;
  CHECK(rates.stem == 0);
  CHECK(rates.attn == 0);
  CHECK(rates.hidden == 0.1);
  CHECK(rates.mlp == 0.2);
  CHECK(id_of(R"("dropout": {"stem": 0.1, "attn": 0.1, "hidden": 0.1, "mlp": 0.1})") == id_of(R"("dropout": 0.1)"));
  CHECK(id_of(R"("dropout": {})") == id_of(R"("dropout": 0)"));
}

TEST_CASE("descriptor: rows of init and dropout are named by what they set") {
  const Experiment e =
      with_model(R"("depth": 2)", R"(, "sweep": {"model.init": ["timm", {"base": "timm", "head": "xavier"}],
                                                 "model.dropout": [0, {"hidden": 0.1, "mlp": 0.1}]})");
  REQUIRE(e.rows.size() == 4);
  CHECK(e.rows[0].axes[0].second == "timm");
  CHECK(e.rows[3].axes[0].second == "base=timm, head=xavier");
  CHECK(e.rows[3].axes[1].second == "hidden=0.1, mlp=0.1");
}

TEST_CASE("descriptor: mistakes in init and dropout are reported where they are") {
  DescriptorFiles files;
  const auto problem = [&](const std::string& settings) {
    return files.problems(R"({"model": {"patch_size": 8, "embed_dim": 16, "num_heads": 2, )" + settings + "}}");
  };
  const auto has = [&](const std::string& settings, const char* part) {
    CAPTURE(settings);
    CHECK_MESSAGE(problem(settings).find(part) != std::string::npos, problem(settings));
  };
  has(R"("init": {"qkv": "xavier"})", "/model/init: give the \"base\" whose parts the other keys change");
  has(R"("init": {"base": "timm", "qkv": "xavier_fuse"})", "/model/init/qkv: ");
  has(R"("init": {"base": "timm", "qkv": "xavier_fuse"})", "xavier_fused");
  has(R"("init": {"base": "timm", "biases": 0})", "/model/init/biases: ");
  has(R"("init": 3)", "/model/init: expected a word, got ");
  has(R"("init": {"base": "timm", "head": "zero"}, "task": "segment")", "/model/init/head: only a classif");
  has(R"("dropout": {"hiden": 0.1})", "/model/dropout/hiden: ");
  has(R"("dropout": {"hidden": 1})", "/model/dropout/hidden: must be below 1, got 1");
  has(R"("dropout": "0.1")", "/model/dropout: expected a number, got ");
}
