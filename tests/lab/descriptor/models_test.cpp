// The models of a descriptor: kinds, variants and sizes.
#include <doctest/doctest.h>

#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

SwinConfig swin(const std::string& model) {
  DescriptorFiles files;
  return swin_of(files.load("{\"model\": " + model + "}").trials[0].config);
}

}  // namespace

TEST_CASE("descriptor: a variant gives the sizes that the model leaves out") {
  DescriptorFiles files;
  const ViTConfig c = vit_of(files.load(R"({"model": {"depth": 2, "variant": "S/16"}})").trials[0].config);
  CHECK(c.embed_dim == 384);
  CHECK(c.num_heads == 6);
  CHECK(c.mlp_dim == 1536);
  CHECK(c.patch_size == 16);
  CHECK(c.depth == 2);
}

TEST_CASE("descriptor: a dataset of one's own states its sizes") {
  DescriptorFiles files;
  const TrialConfig c = files
                            .load(R"({"dataset": {"path": "pets", "layout": "webdataset"},
    "model": {"image_size": [64, 32], "num_classes": 37}})")
                            .trials[0]
                            .config;
  CHECK(c.dataset.name == "pets");
  CHECK(c.dataset.path == "");  // the name says it
  CHECK(vit_of(c).image_size == std::array<std::int64_t, 2>{64, 32});
  CHECK(vit_of(c).channels == 3);
  const Experiment mine =
      files.load(R"({"dataset": {"name": "mine", "path": "x/y", "layout": "cifar"}, "model": {"num_classes": 3}})");
  CHECK(vit_of(mine.trials[0].config).channels == 3);
}

TEST_CASE("descriptor: a variant of Swin gives the sizes of its stages") {
  const SwinConfig c = swin(R"({"kind": "swin", "variant": "SwinD-B", "drop_path": 0.4, "window": 4})");
  CHECK(c.embed_dim == 96);
  CHECK(c.depths == std::vector<std::int64_t>{2, 2, 42, 2});
  CHECK(c.num_heads == std::vector<std::int64_t>{3, 6, 12, 24});
  CHECK(c.window == 4);
}

TEST_CASE("descriptor: every norm of a Swin has epsilon 1e-5") {
  const SwinConfig c = swin(R"({"kind": "swin", "variant": "SwinD-B", "drop_path": 0.4, "window": 4})");
  CHECK(c.placement == swin_placement(find_placement("pre_pre")->placement));
  CHECK(c.placement.merge == NormSpec{.kind = NormKind::layer_norm, .eps = 1e-5});
  CHECK(c.placement.stem.patch_out == c.placement.merge);
}

TEST_CASE("descriptor: a Swin merges patches with the norm of its placement") {
  const SwinConfig c = swin(R"({"kind": "swin", "placement": "bn_ffnbn"})");
  CHECK(c.placement.merge == norm_of(NormKind::batch_norm));
}

TEST_CASE("descriptor: a Swin may change single norms of its placement") {
  const SwinConfig c = swin(
      R"({"kind": "swin", "placement": {"base": "dpn", "merge": "none", "final": {"kind": "rms_norm", "eps": 1e-6}}})");
  CHECK(c.placement.stem.patch_in.eps == 1e-5);
  CHECK(c.placement.merge.kind == NormKind::none);
  CHECK(c.placement.final.eps == 1e-6);
}

TEST_CASE("descriptor: one placement of one's own serves both kinds of model") {
  DescriptorFiles files;
  const Experiment both = files.load(R"({"placements": {"mine": {"base": "pre_pre", "pooled": "layer_norm"}},
    "model": {"placement": "mine"}, "sweep": {"model.kind": ["vit", "swin"]}})");
  CHECK(vit_of(both.trials[0].config).placement.pooled.eps == 1e-6);
  CHECK(vit_of(both.trials[0].config).placement.merge.kind == NormKind::none);
  CHECK(swin_of(both.trials[1].config).placement.pooled.eps == 1e-5);
  CHECK(swin_of(both.trials[1].config).placement.merge.kind == NormKind::layer_norm);
}

TEST_CASE("descriptor: a key of another kind of model is refused unless a trial uses it") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"window": 4}})") ==
        "d.json:1:12: /model/window: only a model of kind swin has this key");
  CHECK(files.problems(R"({"model": {"kind": "swin", "pool": "gap", "windo": 3}})") ==
        "d.json:1:28: /model/pool: only a model of kind vit has this key\n"
        "d.json:1:43: /model/windo: unknown key; did you mean \"window\"?");
  CHECK(files.problems(R"({"model": {"window": 4, "depth": 2}, "sweep": {"model.kind": ["vit", "swin"]}})") == "");
}

TEST_CASE("descriptor: window_padding is refused where no shifted grid is padded") {
  DescriptorFiles files;
  const std::string swin = R"("kind": "swin", "depths": [2], "num_heads": [3])", shape = R"("dataset": "shapes", )";
  const auto problems = [&](const std::string& rest) { return files.problems("{" + shape + rest + "}"); };
  // 8 x 8 tokens: the data set has images of 32 x 32.
  CHECK(problems(R"("model": {"window_padding": "after_shift", )" + swin + "}") == "");
  CHECK(problems(R"("model": {"window_padding": "after_shift", "window": 4, )" + swin + "}") ==
        "d.json:1:33: /model/window_padding: windows divide every grid that is shifted, so there is nothing to pad");
  CHECK(problems(R"("model": {"window_padding": "after_shift", )" + swin + R"(}, "sweep": {"model.window": [4, 7]})") ==
        "");
  CHECK(problems(R"("model": {"window_padding": "after_shift"})").find("only a model of kind swin") !=
        std::string::npos);
  CHECK(problems(R"("model": {"window_padding": "after_shif", )" + swin + "}").find("did you mean \"after_shift\"?") !=
        std::string::npos);
}

TEST_CASE("descriptor: a Swin pads before the shift unless it says otherwise") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"model": {"kind": "swin", "depths": [2], "num_heads": [3]},
    "sweep": {"model.window": [4, 7], "model.window_padding": ["before_shift", "after_shift"]}})");
  REQUIRE(e.trials.size() == 3);  // windows of 4 need no padding
  CHECK(swin_of(e.trials[1].config).window_padding == WindowPadding::before_shift);
  CHECK(swin_of(e.trials[2].config).window_padding == WindowPadding::after_shift);
  CHECK(files.load(R"({"model": {"kind": "swin", "depths": [2], "num_heads": [3]}})").trials[0].id == e.trials[1].id);
}

TEST_CASE("descriptor: an unknown kind or variant of model is refused") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"kind": "resnet"}})") ==
        "d.json:1:20: /model/kind: unknown word \"resnet\"; one of: vit, swin");
  CHECK(files.problems(R"({"model": {"kind": "swin", "variant": "Swin-X"}})").find("unknown variant \"Swin-X\"") !=
        std::string::npos);
}

TEST_CASE("descriptor: an unknown variant of DeiT is refused") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"variant": "DeiT-L/16"}})").find("unknown variant \"DeiT-L\"") !=
        std::string::npos);
}

TEST_CASE("descriptor: stages of a Swin that do not fit are refused") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"kind": "swin", "depths": [2, 2], "num_heads": [3]}})") ==
        "d.json:1:59: /model/num_heads: num_heads has 1 stages, but depths has 2");
  CHECK(files.problems(R"({"model": {"kind": "swin", "depths": 2}})") ==
        "d.json:1:38: /model/depths: expected a list of integers, got 2");
}

TEST_CASE("descriptor: a site of another kind of model is refused") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"kind": "swin", "placement": "stem_posembed"}})") ==
        "d.json:1:41: /model/placement: stem.posembed_out is a site of the ViT; a Swin adds no positions");
  CHECK(files.problems(R"({"placements": {"m": {"base": "pre_pre", "merge": "dyt"}}, "model": {"placement": "m"}})") ==
        "d.json:1:83: /model/placement: merge is a site of Swin; a ViT has none");
}

TEST_CASE("descriptor: a distilled DeiT has two tokens besides its patches") {
  DescriptorFiles files;
  const ViTConfig c = vit_of(
      files.load(R"({"model": {"variant": "DeiT-S/16", "distill_token": true, "image_size": 32}})").trials[0].config);
  CHECK(c.embed_dim == 384);
  CHECK(c.pool == Pool::token);
  CHECK(c.class_position());
  CHECK(c.tokens() == 6);
}

TEST_CASE("descriptor: distillation and short forms need something to act on") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"model": {"distill_token": true}})") ==
        "d.json:1:12: /model/distill_token: a distillation token needs a class token; set pool to \"token\"");
  CHECK(files.problems(R"({"model": {"short_forms": false}})") ==
        "d.json:1:12: /model/short_forms: without drop_path or a class token (pool token) there is nothing to skip");
}
