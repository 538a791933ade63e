// "Dual PatchNorm": appendix C line by line, its tables, appendix F, and the recipes it refers to.
#include "experiments/lab/descriptor/tune.h"
#include "tests/lab/papers/appendix_c.h"

using namespace normlab;

namespace {

/// A search on SUN397 by its number.
Experiment search(const char* number) {
  return load_experiment(file_of(std::string("papers/dual_patchnorm/sun397_") + number));
}

}  // namespace

TEST_CASE("papers: appendix C of Dual PatchNorm is the AugReg recipe of every size") {
  for (const AugRegSize& size : kAugRegSizes) {
    check_table(std::string("recipes/augreg") + size.file, "", kAppendixC + size.lines);
    const std::string paper = std::string("papers/dual_patchnorm/") + (*size.file ? size.file + 1 : "b16");
    check_table(paper, "", kAppendixC + size.lines);
    check_lines(paper, "dpn", kDpn);
    if (!*size.row) continue;
    check_table("papers/dual_patchnorm/figure1", size.row, kAppendixC + size.lines);
    check_table("papers/dual_patchnorm/figure1_before_sum", size.row, kAppendixC + size.lines);
    check_table("papers/dual_patchnorm/table6", size.row, kAppendixC + size.lines);
  }
}

TEST_CASE("papers: Figure 1 of Dual PatchNorm has every placement that it compares") {
  const auto row = [](const char* name, const Lines& lines) {
    check_lines("papers/dual_patchnorm/figure1", std::string("placement=") + name, lines);
  };
  const Experiment experiment = load_experiment(file_of("papers/dual_patchnorm/figure1"));
  CHECK(experiment.rows.size() == 5 * (9 + 4));
  CHECK(experiment.trials.size() == 3 * experiment.rows.size());  // "at least 3 independent runs"
  for (const char* branch : {"attn", "mlp"})
    for (const char* where : {"pre", "post", "prepost"}) {
      const std::string name = std::string(branch) == "attn" ? concat(where, "_pre") : concat("pre_", where);
      const bool before = std::string(where) != "post", after = std::string(where) != "pre";
      const std::string site = concat("model.placement.", branch, ".");
      const std::string pre = site + "pre", pre_kind = pre + ".kind", post = site + "post", post_kind = post + ".kind";
      const char* none = "\"none\"";
      row(name.c_str(), {{"LN before", before ? pre_kind.c_str() : pre.c_str(), before ? kLayerNorm : none},
                         {"LN after", after ? post_kind.c_str() : post.c_str(), after ? kLayerNorm : none},
                         {"the final LN stays", "model.placement.final.kind", kLayerNorm}});
    }
  row("normformer", {{"extra LN after the projection of attention", "model.placement.attn.out.kind", kLayerNorm},
                     {"extra LN after the non-linearity", "model.placement.mlp.inner.kind", kLayerNorm}});
  row("sub_ln", {{"extra LN before the final projection of attention", "model.placement.attn.inner.kind", kLayerNorm},
                 {"a different initialization", "model.placement.init_gain", "\"sub_ln\""}});
  row("sub_ln_preact", {{"and before the non-linearity", "model.placement.mlp.hidden.kind", kLayerNorm}});
  row("dpn", kDpn);
}

TEST_CASE("papers: Figure 1 of Dual PatchNorm has the placements with a norm before the sum") {
  const char* const file = "papers/dual_patchnorm/figure1_before_sum";
  const Experiment experiment = load_experiment(file_of(file));
  CHECK(experiment.rows.size() == 5 * (1 + 8));
  CHECK(experiment.trials.size() == 3 * experiment.rows.size());
  const char* const none = "\"none\"";
  for (const char* attn : {"pre", "respost", "preres"})
    for (const char* mlp : {"pre", "respost", "preres"}) {
      Lines lines{{"the final LN stays", "model.placement.final.kind", kLayerNorm},
                  {"none after the sum", "model.placement.attn.post", none},
                  {"none after the sum", "model.placement.mlp.post", none}};
      const bool attn_pre = std::string(attn) != "respost", attn_out = std::string(attn) != "pre";
      const bool mlp_pre = std::string(mlp) != "respost", mlp_out = std::string(mlp) != "pre";
      lines.push_back({"LN before", attn_pre ? "model.placement.attn.pre.kind" : "model.placement.attn.pre",
                       attn_pre ? kLayerNorm : none});
      lines.push_back({"LN before the sum", attn_out ? "model.placement.attn.out.kind" : "model.placement.attn.out",
                       attn_out ? kLayerNorm : none});
      lines.push_back({"LN before", mlp_pre ? "model.placement.mlp.pre.kind" : "model.placement.mlp.pre",
                       mlp_pre ? kLayerNorm : none});
      lines.push_back({"LN before the sum", mlp_out ? "model.placement.mlp.out.kind" : "model.placement.mlp.out",
                       mlp_out ? kLayerNorm : none});
      check_lines(file, concat("placement=", attn, "_", mlp), lines);
    }
}

TEST_CASE("papers: Figures 2 and 4 of Dual PatchNorm have the gradients of the last 1,000 steps") {
  for (const char* file : {"b16", "b32", "s32", "s16"}) {
    CAPTURE(file);
    const Experiment experiment = load_experiment(file_of(std::string("papers/dual_patchnorm/") + file));
    const ProbeSteps& gradients = experiment.probes.gradients;
    CHECK(gradients.every > 0);
    CHECK(gradients.every <= 100);  // ten of the last 1,000
    CHECK(gradients.last == 0);     // Figure 2 (right): throughout the training
  }
}

TEST_CASE("papers: Table 6 of Dual PatchNorm has the ablations") {
  const auto row = [](const char* name, const Lines& lines) {
    check_lines("papers/dual_patchnorm/table6", std::string("placement=") + name, lines);
  };
  const char *out = "model.placement.stem.patch_out", *none = "\"none\"";
  const char *in_kind = "model.placement.stem.patch_in.kind", *out_kind = "model.placement.stem.patch_out.kind";
  row("stem_pre", {{"Pre: only to the inputs", in_kind, kLayerNorm}, {"Pre: only to the inputs", out, none}});
  row("stem_posembed",
      {{"Post PosEmb", "model.placement.stem.posembed_out.kind", kLayerNorm}, {"Post PosEmb", out, none}});
  row("dpn_only_learnable", {{"Only learnable", in_kind, "\"affine\""}, {"Only learnable", out_kind, "\"affine\""}});
  row("dpn_rms_norm", {{"RMSNorm", in_kind, "\"rms_norm\""}, {"RMSNorm", out_kind, "\"rms_norm\""}});
  row("dpn_no_learnable",
      {{"No learnable", in_kind, "\"layer_norm_fixed\""}, {"No learnable", out_kind, "\"layer_norm_fixed\""}});
  const Experiment experiment = load_experiment(file_of("papers/dual_patchnorm/table6"));
  CHECK(experiment.rows.size() == 5 * 7);
  int post = 0;
  for (const Cell& cell : experiment.rows) {
    if (!cell.label.ends_with("placement=stem_post")) continue;
    ++post;
    const Placement& p = placement_of(experiment.trials[cell.trials.front()].config.model);
    CHECK(p.stem.patch_in.kind == NormKind::none);
    CHECK(p.stem.patch_out.kind == NormKind::layer_norm);
    CHECK(p.stem.posembed_out.kind == NormKind::none);
  }
  CHECK(post == 5);
}

TEST_CASE("papers: appendix F of Dual PatchNorm has the settings of SUN397") {
  const Lines common{
      {"C 46: data", "dataset.name", "\"sun397\""},
      {"C 52: a shuffle buffer; here an epoch is a permutation", "dataset.shuffle_buffer", "absent"},
      {"C: one endless stream of batches", "train.drop_last", "false"},
      {"C 50: batch_size", "train.batch_size", "4096"},
      {"C 86: scale_by_adam", "train.optimizer.name", "\"big_vision_adam\""},
      {"C 87: mu_dtype='bfloat16'", "train.optimizer.bf16_moment", "true"},
      {"C 87: what jitted optax computes", "train.optimizer.moment_product", "\"constant\""},
      {"C 81: stoch_depth=0.1", "model.drop_path", "0.1"},
      {"C 69: sigmoid_xent", "train.loss", "\"sigmoid\""},
      {"C 92: warmup_steps=10_000", "warmup_steps", "10000"},
      {"C 85: grad_clip_norm = 1.0", "train.clip_norm", "1"},
      {"C 33: init_head_bias = -6.9", "model.head_bias_init", "-6.9"},
      {"C 78: rep_size=True", "model.rep_size", "768"},
      {"C 79: pool_type='tok'", "model.pool", "\"token\""},
      {"C 61: inception crop", "train.augment.crop", "\"inception_tensorflow\""},
      {"C 61: flip_lr", "train.augment.flip", "true"},
      {"397 classes", "model.num_classes", "397"},
      {"B", "model.embed_dim", "768"},
  };
  check_table("recipes/sun397", "", common);
  for (const char* stage : {"1", "2", "3"})
    check_table(std::string("papers/dual_patchnorm/sun397_") + stage, "", common);
}

TEST_CASE("papers: appendix F of Dual PatchNorm has the grids of SUN397") {
  const auto values = [](const char* stage, const char* key) {
    std::set<double> out;
    for (const Trial& trial : load_experiment(file_of(std::string("papers/dual_patchnorm/sun397_") + stage)).trials) {
      const nlohmann::json v = value_of(trial.config, nlohmann::json::parse(full_json(trial.config)), {"", key, ""});
      if (!v.is_null()) out.insert(v.get<double>());
    }
    return out;
  };
  CHECK(values("1", "train.optimizer.lr") == std::set<double>{1e-3, 3e-4, 1e-4});
  // Decays of 0.03 and 0.1 times the rate, each with each.
  std::set<std::pair<double, double>> decays;
  for (const Trial& trial : load_experiment(file_of("papers/dual_patchnorm/sun397_1")).trials) {
    const OptimizerSettings& o = trial.config.train.optimizer;
    decays.insert({o.lr, rounded_as(o.weight_decay / o.lr, "0.00")});
  }
  CHECK(decays == std::set<std::pair<double, double>>{
                      {1e-3, 0.03}, {1e-3, 0.1}, {3e-4, 0.03}, {3e-4, 0.1}, {1e-4, 0.03}, {1e-4, 0.1}});
  CHECK(values("1", "model.dropout") == std::set<double>{0.0, 0.1});
  CHECK(values("1", "train.augment.randaugment.magnitude").empty());
  CHECK(values("1", "train.augment.mix.mixup") == std::set<double>{0.0});
  for (const char* stage : {"1", "2", "3"}) CHECK(values(stage, "model.patch_size") == std::set<double>{16, 32});
}

TEST_CASE("papers: all searches of appendix F begin with the same trials") {
  const Experiment one = search("1"), two = search("2"), three = search("3");
  for (const Experiment* e : {&one, &two, &three}) {
    CHECK(e->rows.size() == 2 * 2);
    REQUIRE(e->trials.size() == 3 * 2 * 2 * 2 * 2);  // the first search, which all three have in common
    for (std::size_t t = 0; t < e->trials.size(); ++t) {
      CHECK(e->trials[t].id == one.trials[t].id);
      CHECK(e->trials[t].config.dataset.eval == "validation");
      CHECK(e->trials[t].config.train.images == 300 * 76128);
    }
  }
  CHECK(two.tuned->stages().size() == 2);
  for (const Experiment* e : {&one, &two, &three}) CHECK(e->tuned->seeds(0).size() == 3);
}

TEST_CASE("papers: a later search of appendix F keeps the values of the one before") {
  const Experiment three = search("3");
  Experiment later = three;
  const std::vector<std::size_t> first{3};  // lr 1e-3, decay 0.1, dropout 0.1
  CHECK(three.tuned->add_stage(later, 0, first).size() == 3 * 4);
  std::set<double> mixup, magnitude;
  for (std::size_t t = three.trials.size(); t < later.trials.size(); ++t) {
    const TrainConfig& train = later.trials[t].config.train;
    mixup.insert(train.augment.mix.mixup);
    magnitude.insert(train.augment.randaugment.magnitude);
    CHECK(later.trials[t].config.dataset.eval == "validation");
    CHECK(train.images == 300 * 76128);
    CHECK(train.optimizer.weight_decay == 1e-4);  // 0.1 times the rate
  }
  CHECK(mixup == std::set<double>{0.0, 0.2, 0.5});
  CHECK(magnitude == std::set<double>{0, 5, 10, 15});
}

TEST_CASE("papers: the last run of appendix F has the values of both searches") {
  const Experiment three = search("3");
  const std::vector<std::size_t> both{3, 11};
  const TrialConfig last = three.tuned->config(0, both);
  CHECK(last.train.images == 600 * 76128);  // "for 600 epochs"
  CHECK(last.dataset.eval == "test");
  CHECK(last.train.augment.mix.mixup == 0.5);
  CHECK(last.train.augment.randaugment.magnitude == 15);
  CHECK(last.train.optimizer.lr == 1e-3);
}

TEST_CASE("papers: Table 1 of Dual PatchNorm has the rows of DeiT") {
  for (const char* variant : {"DeiT-S/16", "DeiT-B/16"})
    check_lines("papers/dual_patchnorm/deit", std::string("variant=") + variant,
                {{"S or B", "model.embed_dim", std::string(variant) == "DeiT-S/16" ? "384" : "768"},
                 {"patch 16", "model.patch_size", "16"}});
  check_lines("papers/dual_patchnorm/deit", "dpn", kDpn);
}
