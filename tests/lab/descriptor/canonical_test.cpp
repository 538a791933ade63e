#include "experiments/lab/descriptor/canonical.h"

#include <doctest/doctest.h>

#include <random>

#include "experiments/lab/base/sha256.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

TrialConfig with_placement(std::string_view name) {
  TrialConfig config;
  vit_of(config).placement = find_placement(name)->at(vit_of(config).depth);
  return config;
}

void check_round_trip(const TrialConfig& config) {
  const std::string canonical = canonical_json(config), full = full_json(config);
  CAPTURE(canonical);
  CHECK(config_from_json(canonical, "canonical") == config);
  CHECK(config_from_json(full, "full") == config);
  CHECK(canonical_json(config_from_json(full, "full")) == canonical);
}

}  // namespace

TEST_CASE("canonical: only settings that are not at their default are written") {
  TrialConfig c = with_placement("dpn");
  CHECK(canonical_json(c) ==
        R"({"model":{"placement":{"attn":{"pre":"layer_norm"},"final":"layer_norm","mlp":{"pre":"layer_norm"},)"
        R"("stem":{"patch_in":"layer_norm","patch_out":"layer_norm"}}},"schema":1})");
  c = with_placement("none");
  vit_of(c).placement.pooled = {.kind = NormKind::layer_norm, .eps = 1e-5};
  vit_of(c).embed_dim = 96;
  vit_of(c).mlp_dim = 4 * 96;  // the default beside that width
  c.seed = UINT64_MAX;
  c.train.optimizer.lr = 1;
  CHECK(canonical_json(c) ==
        R"({"model":{"embed_dim":96,"placement":{"pooled":{"eps":1e-05,"kind":"layer_norm"}}},"schema":1,)"
        R"("seed":18446744073709551615,"train":{"optimizer":{"lr":1.0}}})");
}

TEST_CASE("canonical: the id is the SHA-256 of the canonical form") {
  TrialConfig c = with_placement("none");
  vit_of(c).placement.pooled = {.kind = NormKind::layer_norm, .eps = 1e-5};
  vit_of(c).embed_dim = 96;
  c.seed = UINT64_MAX;
  c.train.optimizer.lr = 1;
  CHECK(trial_id(c) == sha256_hex(canonical_json(c)));
}

// The ids of finished results depend on these bytes: if this fails, a default or the form changed, and kConfigSchema
// rises.
TEST_CASE("canonical: the id of the default trial stays what it was") {
  CHECK(
      canonical_json(with_placement("pre_pre")) ==
      R"({"model":{"placement":{"attn":{"pre":"layer_norm"},"final":"layer_norm","mlp":{"pre":"layer_norm"}}},"schema":1})");
  CHECK(trial_id(with_placement("pre_pre")) == "7ffb4a8e041bae5f45553cb8a4446eeb18d5122fe61d639545c61ef71af95bc1");
}

TEST_CASE("canonical: a setting without a meaning does not change the id") {
  TrialConfig c = with_placement("pre_pre");
  vit_of(c).placement.stem.posembed_out = norm_of(NormKind::layer_norm);
  const std::string id = trial_id(c);
  vit_of(c).placement.stem.posembed_out_includes_class = false;  // there is no class token
  vit_of(c).pos_embed_class = true;
  c.train.optimizer.momentum = 0.1;             // of sgd
  vit_of(c).placement.attn.pre.alpha_init = 3;  // of dyt
  CHECK(trial_id(c) == id);
}

TEST_CASE("canonical: a setting of the class token changes the id where there is one") {
  TrialConfig c = with_placement("pre_pre");
  vit_of(c).placement.stem.posembed_out = norm_of(NormKind::layer_norm);
  vit_of(c).placement.stem.posembed_out_includes_class = false;
  vit_of(c).pos_embed_class = true;
  vit_of(c).pool = Pool::token;
  TrialConfig other = c;
  vit_of(other).placement.stem.posembed_out_includes_class = true;
  CHECK(trial_id(c) != trial_id(other));
}

TEST_CASE("canonical: both forms of every named placement read back") {
  for (const NamedPlacement& row : named_placements()) check_round_trip(with_placement(row.name));
}

TEST_CASE("canonical: both forms read back with no setting at its default") {
  TrialConfig c = with_placement("normformer_full");
  c.dataset = {.name = "pets",
               .path = "a/b",
               .layout = DatasetLayout::webdataset,
               .train = "train[:9]",
               .eval = "val",
               .allow_absent_classes = true};
  vit_of(c).image_size = {32, 32};  // a struct's default, but nothing implies it here
  vit_of(c).patch_size = 8;
  vit_of(c).embed_dim = 24;
  vit_of(c).depth = 3;
  vit_of(c).num_heads = 2;
  vit_of(c).mlp_dim = 75;
  vit_of(c).num_classes = 37;
  vit_of(c).pool = Pool::token;
  vit_of(c).pos_embed_class = true;
  vit_of(c).qkv_bias = false;
  vit_of(c).rep_size = 5;
  vit_of(c).gelu = GeluForm::tanh;
  vit_of(c).dropout = 0.1;
  vit_of(c).attention_dropout = 0.2;
  vit_of(c).drop_path = 0.3;
  vit_of(c).init = Init::torch;
  vit_of(c).head_bias_init = -6.9;
  vit_of(c).placement.stem.posembed_out = norm_of(NormKind::rms_norm);
  vit_of(c).placement.stem.posembed_out_includes_class = false;
  vit_of(c).placement.attn.query = {.kind = NormKind::dyt, .alpha_init = 0.7, .beta_init = 1};
  vit_of(c).placement.mlp.hidden = {.kind = NormKind::batch_norm, .eps = 1e-4, .momentum = 0.3, .statistics_batch = 16};
  vit_of(c).placement.layer_scale = {.kind = LayerScaleKind::scalar, .auto_init = false, .init = 0};
  vit_of(c).placement.init_gain = {.value = 0.1 + 0.2};
  c.train.steps = 77;
  c.train.batch_size = 32;
  c.train.drop_last = false;
  c.train.optimizer = {.name = OptimizerName::sgd,
                       .lr = 0.5,
                       .weight_decay = 0,
                       .decay_matrices_only = false,
                       .momentum = 0.8,
                       .nesterov = true};
  c.train.schedule = {.name = ScheduleName::linear, .warmup_steps = 4, .final_lr = 1e-7};
  c.train.clip_norm = 1;
  c.train.loss = LossKind::sigmoid;
  c.train.label_smoothing = 0.1;
  c.train.augment = {.crop_padding = 4, .flip = true};
  c.train.precision = Precision::bf16;
  c.train.eval_every_epochs = 0;
  c.seed = 12345678901234567890ull;
  check_round_trip(c);
  CHECK(model_from_json(canonical_model_json(c.model), "model") == c.model);
}

TEST_CASE("canonical: short forms are in the id where they skip something") {
  TrialConfig c;
  const std::string plain = trial_id(c);
  vit_of(c).short_forms = false;
  CHECK(trial_id(c) == plain);
  vit_of(c).drop_path = 0.1;
  const std::string full = trial_id(c);
  CHECK(canonical_json(c).find(R"("short_forms":false)") != std::string::npos);
  check_round_trip(c);
  vit_of(c).short_forms = true;
  CHECK(canonical_json(c).find("short_forms") == std::string::npos);
  CHECK(trial_id(c) != full);
}

TEST_CASE("canonical: a Swin is written with its kind") {
  TrialConfig c;
  SwinConfig swin;
  swin.placement = swin_placement(find_placement("none")->placement);
  swin.placement.final = swin_norm(NormKind::layer_norm);
  swin.placement.attn.pre = norm_of(NormKind::layer_norm);
  c.model = swin;
  check_round_trip(c);
  CHECK(
      canonical_json(c) ==
      R"({"model":{"kind":"swin","placement":{"attn":{"pre":{"eps":1e-06,"kind":"layer_norm"}},"final":"layer_norm"},)"
      R"("window_padding":"before_shift"},"schema":1})");
}

TEST_CASE("canonical: window_padding is in the id of a Swin that pads a shifted grid, unless it is after_shift") {
  TrialConfig c;
  const auto text = [&](std::array<std::int64_t, 2> image, WindowPadding padding) {
    SwinConfig swin;
    swin.image_size = image;  // patches of 4
    swin.depths = {2};
    swin.num_heads = {3};
    swin.window_padding = padding;
    c.model = swin;
    return canonical_json(c);
  };
  using enum WindowPadding;
  const char* const square = R"({"model":{"depths":[2],"kind":"swin","num_heads":[3],"placement":{}},"schema":1})";
  const std::string before = text({32, 32}, before_shift);
  CHECK(before == R"({"model":{"depths":[2],"kind":"swin","num_heads":[3],"placement":{},"window_padding":)"
                  R"("before_shift"},"schema":1})");
  check_round_trip(c);
  CHECK(text({32, 32}, after_shift) == square);
  check_round_trip(c);
  // Results of earlier versions have no key.
  CHECK(std::get<SwinConfig>(config_from_json(square, "config").model).window_padding == after_shift);

  CHECK(text({56, 56}, before_shift) == text({56, 56}, after_shift));  // 14 x 14 tokens in windows of 7
  CHECK(text({56, 56}, before_shift).find("window_padding") == std::string::npos);
}

TEST_CASE("canonical: a Swin that shifts one side alone has another id than before each side decided alone") {
  TrialConfig c;
  SwinConfig swin;
  swin.depths = {2};
  swin.num_heads = {3};
  for (const std::int64_t width : {56, 64}) {  // 7 x 14 and 7 x 16 tokens in windows of 7
    CAPTURE(width);
    swin.image_size = {28, width};
    swin.window_padding = WindowPadding::before_shift;
    c.model = swin;
    check_round_trip(c);
    const std::string text = canonical_json(c);
    const std::string key = R"(,"window_padding":"before_shift")";
    REQUIRE(text.find(key) != std::string::npos);
    std::string earlier = text;
    earlier.erase(text.find(key), key.size());
    const TrialConfig old = config_from_json(earlier, "config");
    CHECK(std::get<SwinConfig>(old.model).one_side_unshifted);
    CHECK(canonical_json(old) == earlier);
    CHECK(config_from_json(full_json(old), "config") == old);
    CHECK(model_from_json(canonical_model_json(old.model), "model") == old.model);
    CHECK(trial_id(old) != trial_id(c));
  }
  swin.window_padding = WindowPadding::after_shift;  // 7 x 16, the columns being padded
  c.model = swin;
  check_round_trip(c);
  CHECK(canonical_json(c).find(R"("window_padding":"after_shift")") != std::string::npos);
}

TEST_CASE("canonical: both forms of a Swin read back with every placement") {
  TrialConfig c;
  SwinConfig swin;
  for (const NamedPlacement& row : named_placements()) {
    if (row.name == "stem_posembed" || row.name == "peri_ln") continue;  // they have the site posembed_out
    if (row.placement.has_two_streams()) continue;                       // only a ViT has them
    CAPTURE(row.name);
    set_variant(swin, kSwinVariants[3]);
    swin.placement = swin_placement(row.at(swin.depth()));
    swin.window = 2;
    swin.drop_path = 0.1;
    c.model = swin;
    check_round_trip(c);
    CHECK(model_from_json(canonical_model_json(c.model), "model") == c.model);
  }
}

TEST_CASE("canonical: the id of a ViT has no keys of other kinds") {
  CHECK(canonical_json(with_placement("none")) == R"({"model":{"placement":{}},"schema":1})");
}

TEST_CASE("canonical: a distillation token is in the id") {
  TrialConfig c = with_placement("pre_pre");
  vit_of(c).pool = Pool::token;
  const std::string plain = trial_id(c);
  vit_of(c).distill_token = true;
  CHECK(trial_id(c) != plain);
  check_round_trip(c);
}

TEST_CASE("canonical: a model alone always says its sizes") {
  ViTConfig model;
  model.placement = find_placement("none")->placement;
  CHECK(canonical_model_json(model) == R"({"channels":3,"image_size":[32,32],"num_classes":10,"placement":{}})");
  CHECK(model_from_json(canonical_model_json(model), "model") == ModelConfig(model));
}

TEST_CASE("canonical: all spellings of one trial have one id") {
  DescriptorFiles files;
  const auto id = [&](std::string_view text) { return files.load(text).trials.at(0).id; };
  const std::string plain = id("{}");
  const char* spellings[] = {
      R"({"about": "other words", "checkpoint": {"seconds": 1}, "model": {"kind": "vit"}, "train": {"epochs": 10.0}})",
      R"({"model": {"variant": "Ti/4", "mlp_dim": 768, "image_size": [32, 32], "channels": 3, "num_classes": 10}})",
      R"({"model": {"image_size": 32, "placement": "pre_pre"}, "dataset": "shapes"})",
      R"({"model": {"placement": {"base": "dpn", "stem": {"patch_in": "none", "patch_out": {"kind": "none"}}}}})",
      R"({"model": {"placement": {"attn": {"pre": {"kind": "layer_norm", "eps": 0.000001}}, "mlp": {"pre": "layer_norm"},
          "final": "layer_norm"}}})",
      R"({"placements": {"mine": {"base": "pre_pre"}}, "model": {"placement": "mine"}})",
      R"({"model": {"placement": {"base": "pre_pre", "stem": {"posembed_out_includes_class": true}}},
          "sweep": {"model.placement.stem.posembed_out": ["none", "dyt"]}})",
      R"({"model": {"layer_scale": "none"}, "train": {"optimizer": {"lr": 1e-3, "name": "adamw"}}})",
      R"({"train": {"optimizer": {"momentum": 0.1}}, "sweep": {"train.optimizer.name": ["adamw", "sgd"]}})",
      R"({"sweep": {"model.pool": ["gap", "token"], "model.pos_embed_class": [true]}})",
      R"({"train": {"schedule": {"warmup_epochs": -0.0}}})",
  };
  for (const char* text : spellings) {
    CAPTURE(text);
    CHECK(id(text) == plain);
  }
  CHECK(id(R"({"model": {"layer_scale": "channel"}})") == id(R"({"model": {"placement": "layer_scale"}})"));
  CHECK(
      id(R"({"dataset": {"path": "p", "layout": "cifar"}, "model": {"num_classes": 2}})") ==
      id(R"({"dataset": {"name": "p", "path": "p", "layout": "cifar"}, "model": {"num_classes": 2, "channels": 3}})"));
}

TEST_CASE("canonical: a precision, seed or data set of its own has its own id") {
  DescriptorFiles files;
  const auto id = [&](std::string_view text) { return files.load(text).trials.at(0).id; };
  const std::string plain = id("{}");
  CHECK(id(R"({"train": {"precision": "bf16"}})") != plain);
  CHECK(id(R"({"train": {"precision": "bf16_emulated"}})") != plain);
  CHECK(id(R"({"train": {"precision": "tf32"}})") != plain);
  CHECK(id(R"({"train": {"precision": "bf16_emulated"}})") != id(R"({"train": {"precision": "bf16"}})"));
  CHECK(id(R"({"seeds": [1]})") != plain);
  CHECK(id(R"({"dataset": {"shapes_seed": 2}})") != plain);
}

TEST_CASE("canonical: a real number reads back as itself") {
  std::mt19937_64 random(3);
  for (int i = 0; i < 300; ++i) {
    TrialConfig c = with_placement("pre_pre");
    c.train.optimizer.lr = std::ldexp(double(random()), int(random() % 400) - 264);
    c.seed = random();
    CHECK(config_from_json(canonical_json(c), "text") == c);
  }
}

TEST_CASE("canonical: a text of another schema or with an unknown key is refused") {
  const auto error = [](const char* text) -> std::string {
    try {
      config_from_json(text, "config.json");
    } catch (const InputError& e) {
      return e.what();
    }
    return "";
  };
  CHECK(error(R"({"schema":1})") == "");
  CHECK(error(R"({"schema":2})") == "config.json:1:1: written with schema 2 of the settings; this program reads 1");
  CHECK(error("{}") == "config.json:1:1: written with schema 0 of the settings; this program reads 1");
  CHECK(error(R"({"schema":1,"sweep":{}})") ==
        "config.json:1:13: /sweep: unknown key; one of: schema, dataset, model, start, train, eval, seed");
  CHECK(error(R"({"schema":1,"model":{"placement":"dpm"}})") ==
        "config.json:1:34: /model/placement: unknown placement \"dpm\"; did you mean \"dpn\"?");
}

TEST_CASE(
    "canonical: other names of placements are the rows that they mean, unless the descriptor has one of that name") {
  DescriptorFiles files;
  const auto id = [&](const std::string& placement, const std::string& rows = "{}") {
    return files.load(R"({"placements": )" + rows + R"(, "model": {"placement": )" + placement + "}}").trials.at(0).id;
  };
  CHECK(id(R"("Pre-LN")") == id(R"("pre_pre")"));
  CHECK(id(R"("Post-LN")") == id(R"("post_post_no_final")"));
  CHECK(id(R"("sandwich")") == id(R"("preres_preres")"));
  CHECK(id(R"({"base": "Pre-LN", "norm": "dyt"})") == id(R"("dyt")"));
  CHECK(id(R"("qk_norm")") == id(R"({"base": "pre_pre", "attn": {"query": "layer_norm", "key": "layer_norm"}})"));
  CHECK(id(R"("swin_v2")") ==
        id(R"({"base": "respost_respost", "attn": {"query": "l2", "key": "l2"}, "attn_scale": "learned"})"));
  CHECK(id(R"("vit_lite")") == id(R"({"base": "prepost_pre", "mlp": {"pre": "none"}})"));
  CHECK(id(R"("qk_norm")", R"({"qk_norm": {"base": "dpn"}})") == id(R"("dpn")"));
}
