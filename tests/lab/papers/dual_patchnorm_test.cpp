// "Dual PatchNorm": appendix C line by line, its tables, appendix F, and the recipes it refers to.
#include "experiments/lab/descriptor/tune.h"
#include "tests/lab/papers/paper_table.h"

using namespace normlab;

namespace {

const Lines kAppendixC{
    {"33: init_head_bias = -6.9", "model.head_bias_init", "-6.9"},
    {"46: name='imagenet2012'", "dataset.name", "\"imagenet\""},
    {"48: split='train[:99%]'", "dataset.train", "\"train[:99%]\""},
    {"50: batch_size = 4096", "train.batch_size", "4096"},
    {"52: shuffle_buffer_size = 250_000; here an epoch is a permutation", "dataset.shuffle_buffer", "absent"},
    {"46-52: one endless stream of batches", "train.drop_last", "false"},
    {"55: value_range(-1, 1)", "dataset.mean", "[0.5, 0.5, 0.5]"},
    {"55: value_range(-1, 1)", "dataset.std", "[0.5, 0.5, 0.5]"},
    {"56: onehot(1000)", "train.label_smoothing", "0"},
    {"61: decode_jpeg_and_inception_crop(224)", "model.image_size", "[224, 224]"},
    {"61: decode_jpeg_and_inception_crop", "train.augment.crop", "\"inception_tensorflow\""},
    {"61: area 5 to 100 % by default", "train.augment.crop_area", "[0.05, 1.0]"},
    {"61: aspect 0.75 to 1.33 by default", "train.augment.crop_aspect", "[0.75, 1.33]"},
    {"61: bilinear, no antialiasing by default", "train.augment.resize", "\"bilinear_plain\""},
    {"61: flip_lr", "train.augment.flip", "true"},
    {"8-13: randaug(2, ...)", "train.augment.randaugment.dialect", "\"big_vision\""},
    {"8-13: randaug(2, ...)", "train.augment.randaugment.layers", "2"},
    {"8-13: as released", "train.augment.randaugment.repaired", "false"},
    {"65: resize_small(256)|central_crop(224)", "train.eval_transform.crop", "\"center\""},
    {"65: resize_small(256)", "train.eval_transform.resize_to", "256"},
    {"65: area by default", "train.eval_transform.resize", "\"area\""},
    {"65: rounding", "train.eval_transform.rounding", "\"big_vision\""},
    {"68: num_classes = 1000", "model.num_classes", "1000"},
    {"69: loss = 'sigmoid_xent'", "train.loss", "\"sigmoid\""},
    {"70: total_epochs = 300, of 99 % of 1,281,167", "train.images", "380506500"},
    {"70: round(300 * 1268355 / 4096)", "steps", "92897"},
    {"75: model_name = 'vit'", "model.kind", "\"vit\""},
    {"79: pool_type='tok'", "model.pool", "\"token\""},
    {"79: positions are added before the token joins", "model.pos_embed_class", "false"},
    {"80: nothing on the attention weights", "model.attention_dropout", "0"},
    {"GELU of the library", "model.gelu", "\"tanh\""},
    {"initial values of the library", "model.init", "\"big_vision\""},
    {"85: grad_clip_norm = 1.0", "train.clip_norm", "1"},
    {"85: clipping of optax", "train.clip_form", "\"optax\""},
    {"86: optax_name = 'scale_by_adam'", "train.optimizer.name", "\"big_vision_adam\""},
    {"86: b1 by default", "train.optimizer.beta1", "0.9"},
    {"86: b2 by default", "train.optimizer.beta2", "0.999"},
    {"86: eps by default", "train.optimizer.eps", "1e-8"},
    {"87: mu_dtype='bfloat16'", "train.optimizer.bf16_moment", "true"},
    {"87: what jitted optax computes", "train.optimizer.moment_product", "\"constant\""},
    {"89: lr = 0.001", "train.optimizer.lr", "0.001"},
    {"90: wd = 0.0001", "train.optimizer.weight_decay", "0.0001"},
    {"90: on kernels alone by default", "train.optimizer.decay_matrices_only", "true"},
    {"92: warmup_steps=10_000", "warmup_steps", "10000"},
    {"92: from 0", "train.schedule.warmup", "\"line\""},
    {"92: from 0", "train.schedule.warmup_from", "0"},
    {"92: decay_type='cosine'", "train.schedule.name", "\"cosine\""},
    {"92: to 0", "train.schedule.final_lr", "0"},
    {"107: evals.train = get_eval('train[:2%]') is not measured", "eval.train_images", "absent"},
    {"108: evals.minival = get_eval('train[99%:]')", "dataset.minival", "\"train[99%:]\""},
    {"109: val is the official validation set", "dataset.eval", "\"val\""},
    {"no dtype but the moment's", "train.precision", "\"fp32\""},
};

struct Size {
  const char *file, *row;  // the recipe, and how the rows of a sweep over sizes are told apart
  Lines lines;
};
const std::vector<Size> kSizes{
    {"_ti16",
     "variant=Ti/16",
     {
         {"37: Ti/16 light1, 8: randaug(2,0)", "train.augment.randaugment.magnitude", "0"},
         {"37: Ti/16 light1, 18: p=0.0", "train.augment.mix.mixup", "0"},
         {"after C: dropout off", "model.dropout", "0"},
         {"after C: stochastic depth off", "model.drop_path", "0"},
         {"78: rep_size=True", "model.rep_size", "192"},
         {"Ti", "model.embed_dim", "192"},
         {"Ti", "model.depth", "12"},
         {"Ti", "model.num_heads", "3"},
         {"/16", "model.patch_size", "16"},
     }},
    {"_s32",
     "variant=S/32",
     {
         {"38: S/32 medium1, 10: randaug(2,15)", "train.augment.randaugment.magnitude", "15"},
         {"38: S/32 medium1, 20: p=0.2", "train.augment.mix.mixup", "0.2"},
         {"20: fold_in=None", "train.augment.mix.scope", "\"batch\""},
         {"20: mixup of the library", "train.augment.mix.dialect", "\"big_vision\""},
         {"after C: dropout off", "model.dropout", "0"},
         {"after C: stochastic depth off", "model.drop_path", "0"},
         {"after C: representation size false for S/32", "model.rep_size", "0"},
         {"S", "model.embed_dim", "384"},
         {"S", "model.depth", "12"},
         {"S", "model.num_heads", "6"},
         {"/32", "model.patch_size", "32"},
     }},
    {"_s16",
     "variant=S/16",
     {
         {"39: S/16 medium2, 11: randaug(2,15)", "train.augment.randaugment.magnitude", "15"},
         {"39: S/16 medium2, 21: p=0.5", "train.augment.mix.mixup", "0.5"},
         {"after C: dropout off", "model.dropout", "0"},
         {"after C: stochastic depth off", "model.drop_path", "0"},
         {"78: rep_size=True", "model.rep_size", "384"},
         {"S", "model.embed_dim", "384"},
         {"/16", "model.patch_size", "16"},
     }},
    {"_b32",
     "variant=B/32",
     {
         {"40: B/32 medium2, 11: randaug(2,15)", "train.augment.randaugment.magnitude", "15"},
         {"40: B/32 medium2, 21: p=0.5", "train.augment.mix.mixup", "0.5"},
         {"80: dropout=0.1", "model.dropout", "0.1"},
         {"81: stoch_depth=0.1", "model.drop_path", "0.1"},
         {"78: rep_size=True", "model.rep_size", "768"},
         {"B", "model.embed_dim", "768"},
         {"B", "model.depth", "12"},
         {"B", "model.num_heads", "12"},
         {"/32", "model.patch_size", "32"},
     }},
    {"",
     "variant=B/16",
     {
         {"41: B/16 medium2, 11: randaug(2,15)", "train.augment.randaugment.magnitude", "15"},
         {"41: B/16 medium2, 21: p=0.5", "train.augment.mix.mixup", "0.5"},
         {"21: fold_in=None", "train.augment.mix.scope", "\"batch\""},
         {"80: dropout=0.1", "model.dropout", "0.1"},
         {"81: stoch_depth=0.1", "model.drop_path", "0.1"},
         {"78: rep_size=True", "model.rep_size", "768"},
         {"B", "model.embed_dim", "768"},
         {"/16", "model.patch_size", "16"},
     }},
    {"_l16",
     "",
     {
         {"42: L/16 medium2, 11: randaug(2,15)", "train.augment.randaugment.magnitude", "15"},
         {"42: L/16 medium2, 21: p=0.5", "train.augment.mix.mixup", "0.5"},
         {"80: dropout=0.1", "model.dropout", "0.1"},
         {"81: stoch_depth=0.1", "model.drop_path", "0.1"},
         {"78: rep_size=True", "model.rep_size", "1024"},
         {"L", "model.embed_dim", "1024"},
         {"L", "model.depth", "24"},
         {"L", "model.num_heads", "16"},
         {"/16", "model.patch_size", "16"},
     }},
};

const char* const kLayerNorm = "\"layer_norm\"";
const Lines kDpn{{"82: stem_ln='dpn'; ln0", "model.placement.stem.patch_in.kind", kLayerNorm},
                 {"82: stem_ln='dpn'; ln1", "model.placement.stem.patch_out.kind", kLayerNorm},
                 {"LayerNorm of the library", "model.placement.stem.patch_in.eps", "1e-6"}};

/// A search on SUN397 by its number.
Experiment search(const char* number) {
  return load_experiment(file_of(std::string("papers/dual_patchnorm/sun397_") + number));
}

}  // namespace

TEST_CASE("papers: appendix C of Dual PatchNorm is the AugReg recipe of every size") {
  for (const Size& size : kSizes) {
    check_table(std::string("recipes/augreg") + size.file, "", kAppendixC + size.lines);
    const std::string paper = std::string("papers/dual_patchnorm/") + (*size.file ? size.file + 1 : "b16");
    check_table(paper, "", kAppendixC + size.lines);
    check_lines(paper, "dpn", kDpn);
    if (!*size.row) continue;
    check_table("papers/dual_patchnorm/figure1", size.row, kAppendixC + size.lines);
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

TEST_CASE("papers: appendix G of Dual PatchNorm has the settings of segmentation") {
  const Lines common{
      {"section 6.3: ADE20K", "dataset.name", "\"ade20k\""},
      {"150 classes, 0 is ignored", "dataset.masks", "\"from_one\""},
      {"section 6.3: a single dense layer on patches", "model.task", "\"segment\""},
      {"150 classes", "model.num_classes", "150"},
      {"512 pixels", "model.image_size", "[512, 512]"},
      {"B/16", "model.embed_dim", "768"},
      {"B/16", "model.patch_size", "16"},
      {"out_with_norm = False", "model.placement.final", "\"none\""},
      {"stochastic depth 0.1", "model.drop_path", "0.1"},
      {"no dropout", "model.dropout", "0"},
      {"batch size 16", "train.batch_size", "16"},
      {"128 epochs", "train.epochs", "128"},
      {"AdamW", "train.optimizer.name", "\"adamw\""},
      {"decay 0.01", "train.optimizer.weight_decay", "0.01"},
      {"rate 3e-5", "train.optimizer.lr", "3e-5"},
      {"power 0.9 to 0", "train.schedule.name", "\"polynomial\""},
      {"power 0.9 to 0", "train.schedule.power", "0.9"},
      {"no warm-up", "warmup_steps", "0"},
      {"no clipping", "train.clip_norm", "0"},
      {"Segmenter: (2048, 512) times 0.5 to 2", "train.augment.segment.scale", "[0.5, 2.0]"},
      {"Segmenter: (2048, 512) times 0.5 to 2", "train.augment.segment.longest", "2048"},
      {"Segmenter: one class fills at most 75 %", "train.augment.segment.max_share", "0.75"},
      {"windows every 341 pixels", "eval.segment.stride", "341"},
  };
  check_table("papers/dual_patchnorm/segmentation", "", common);
  check_lines("papers/dual_patchnorm/segmentation", "fraction=1.0, placement=dpn_to_head",
              {{"128 epochs", "steps", "161664"}});
}

TEST_CASE("papers: Table 4 of Dual PatchNorm has the settings of image-text training") {
  const Lines common{
      {"Table 4: LiT", "model.task", "\"contrast\""},
      {"pairs that are not public", "dataset.name", "\"pairs that are not public\""},
      {"Big Vision's batches cross epochs", "train.drop_last", "false"},
      {"batch size 16,384", "train.batch_size", "16384"},
      {"only the text tower is trained", "train.freeze", R"(["stem", "blocks", "final", "rep"])"},
      {"softmax over the global batch", "train.loss", "\"softmax\""},
      {"accumulation would lose negatives", "train.accumulate", "1"},
      {"Big Vision: 32,000 words", "model.text.vocabulary", "32000"},
      {"Big Vision: 16 tokens", "model.text.length", "16"},
      {"Big Vision: width 512", "model.text.embed_dim", "512"},
      {"Big Vision: depth 12", "model.text.depth", "12"},
      {"Big Vision: 8 heads", "model.text.num_heads", "8"},
      {"Big Vision: MLP 2048", "model.text.mlp_dim", "2048"},
      {"exp(t) = 10", "model.text.temperature", "10"},
      {"b = -2.71", "model.text.bias", "-2.71"},
      {"Big Vision: clip at 1", "train.clip_norm", "1"},
      {"range -1 to 1", "dataset.mean", "[0.5, 0.5, 0.5]"},
  };
  check_table("papers/dual_patchnorm/lit", "", common);
  check_lines("papers/dual_patchnorm/lit", "dpn", {{"55,000 steps", "steps", "55000"}});
}
