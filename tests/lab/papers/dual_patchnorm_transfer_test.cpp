// "Dual PatchNorm": ImageNet-21k and JFT-4B, and what starts from their networks: 25 images per class, fine-tuning,
// image-text training, segmentation.
#include "tests/lab/papers/appendix_c.h"

using namespace normlab;

namespace {

/// Appendix C as the paper trains on other data than ImageNet-1k.
Lines other_data() {
  return except(kAppendixC, {"dataset.name", "dataset.train", "dataset.eval", "dataset.minival", "model.num_classes",
                             "model.head_bias_init", "train.images", "steps"});
}

/// A network of Table 2, which JFT-4B trains.
struct JftSize {
  const char* row;
  bool transferred;  // in Table 2 (right) and Table 4, too
  Lines lines;
};
const std::vector<JftSize> kJftSizes{
    {"variant=B/32", true, {{"B", "model.embed_dim", "768"}, {"/32", "model.patch_size", "32"}}},
    {"variant=B/16", false, {{"B", "model.embed_dim", "768"}, {"/16", "model.patch_size", "16"}}},
    {"variant=L/16",
     true,
     {{"L", "model.embed_dim", "1024"}, {"L", "model.depth", "24"}, {"/16", "model.patch_size", "16"}}},
};

/// Of `rows` rows, one half must start from the networks of 220,000 steps and one half from those of 1.1 million.
void check_lengths(const char* file, std::size_t rows) {
  const Experiment experiment = load_experiment(file_of(file));
  CHECK(experiment.rows.size() == rows);
  std::size_t shorter = 0;
  for (const Cell& row : experiment.rows) {
    CAPTURE(row.label);
    REQUIRE(row.start != nullptr);
    const bool is_shorter = names_row(row.label, "row=train.steps=220000");
    CHECK(row.start->config.train.steps == (is_shorter ? 220'000 : 1'100'000));
    shorter += is_shorter;
  }
  CHECK(shorter == rows / 2);
}

}  // namespace

TEST_CASE("papers: Table 1 of Dual PatchNorm has five networks and two lengths on ImageNet-21k") {
  const char* const all = "papers/dual_patchnorm/imagenet21k_all";
  const Lines data{{"5.1: ImageNet-21k", "dataset.name", "\"imagenet21k\""},
                   {"21,841 classes", "model.num_classes", "21841"}};
  for (const AugRegSize& size : kAugRegSizes)
    if (*size.row) check_table(all, size.row, other_data() + data + size.lines);
  check_lines(all, "images=380928000", {{"93K steps", "steps", "93000"}});
  check_lines(all, "images=3809280000", {{"930K steps", "steps", "930000"}});
  check_lines(all, "dpn", kDpn);
  const char* const one = "papers/dual_patchnorm/imagenet21k";
  check_table(one, "", other_data() + data + Lines{{"93K steps", "steps", "93000"}});
  const Experiment whole = load_experiment(file_of(all)), part = load_experiment(file_of(one));
  CHECK(whole.rows.size() == 5 * 2 * 2);
  std::set<std::string> ids;
  for (const Trial& trial : whole.trials) ids.insert(trial.id);
  for (const Trial& trial : part.trials) CHECK(ids.count(trial.id) == 1);
}

TEST_CASE("papers: Tables 1 and 2 of Dual PatchNorm have 25 images per class as their library chooses them") {
  const Lines few_shot{
      {"5.1: ImageNet", "dataset.name", "\"imagenet\""},
      {"C 2: get_fewshot_lsr: train[:65000]", "dataset.train", "\"train[:65000]\""},
      {"C 2: get_fewshot_lsr: validation", "dataset.eval", "\"val\""},
      {"C 2: get_fewshot_lsr: resize(256)", "train.eval_transform.resize_to", "256"},
      {"C 2: get_fewshot_lsr: resize, bilinear", "train.eval_transform.resize", "\"bilinear_plain\""},
      {"C 2: get_fewshot_lsr: resize(256)|central_crop(224)", "train.eval_transform.crop", "\"stretch_center\""},
      {"5.1: 25 shot", "eval.fewshot.shots", "[25]"},
      {"C 2: get_fewshot_lsr: l2_reg = 2 ** 10", "eval.fewshot.l2", "1024"},
      {"5.1: 3 random seeds", "eval.fewshot.seeds", "[0, 1, 2]"},
      {"nothing is trained", "train.optimizer.lr", "0"},
  };
  for (const char* file : {"imagenet21k_25shot", "imagenet21k_all_25shot", "jft_25shot"})
    check_table(std::string("papers/dual_patchnorm/") + file, "", few_shot);
  check_lengths("papers/dual_patchnorm/jft_25shot", 3 * 2 * 2);
  const Experiment all = load_experiment(file_of("papers/dual_patchnorm/imagenet21k_all_25shot"));
  CHECK(all.rows.size() == 5 * 2 * 2);
  for (const Cell& row : all.rows) {
    CAPTURE(row.label);
    REQUIRE(row.start != nullptr);
    const bool is_shorter = names_row(row.label, "row=train.images=380928000");
    CHECK(row.start->config.train.images == (is_shorter ? 380'928'000 : 3'809'280'000));
  }
}

TEST_CASE("papers: Table 2 of Dual PatchNorm has the trainings on JFT") {
  const char* const file = "papers/dual_patchnorm/jft";
  const Lines data{
      {"5.1: JFT", "dataset.name", "\"JFT-4B\""},
      {"its classes", "model.num_classes", "\"those of JFT-4B, which the paper does not print\""},
      {"C 52: shuffle_buffer_size = 250_000", "dataset.shuffle_buffer", "250000"},
      {"5.1: no additional data augmentation", "train.augment.randaugment.layers", "0"},
      {"5.1: no mixup", "train.augment.mix.mixup", "0"},
      {"no regularization", "model.dropout", "0"},
      {"no regularization", "model.drop_path", "0"},
  };
  check_table(file, "", except(other_data(), {"dataset.shuffle_buffer", "train.augment.randaugment.layers"}) + data);
  check_lines(file, "steps=220000", {{"220K steps", "steps", "220000"}});
  check_lines(file, "steps=1100000", {{"1.1M steps", "steps", "1100000"}});
  check_lines(file, "dpn", kDpn);
  for (const JftSize& size : kJftSizes) check_lines(file, size.row, size.lines);
  const Experiment experiment = load_experiment(file_of(file));
  CHECK(experiment.rows.size() == 3 * 2 * 2);
  CHECK_FALSE(experiment.probes.stem_scale.empty());  // Figure 3, bottom
}

TEST_CASE("papers: appendix D of Dual PatchNorm has the settings of fine-tuning") {
  const Lines common{
      {"8: loss = 'sigmoid_xent'", "train.loss", "\"sigmoid\""},
      {"9: num_classes = 1000", "model.num_classes", "1000"},
      {"10: total_steps = 5000", "steps", "5000"},
      {"16: name='imagenet2012'", "dataset.name", "\"imagenet\""},
      {"17: split='train[:99%]'", "dataset.train", "\"train[:99%]\""},
      {"19: batch_size = 512", "train.batch_size", "512"},
      {"15-21: one endless stream of batches", "train.drop_last", "false"},
      {"25: value_range(-1, 1)", "dataset.mean", "[0.5, 0.5, 0.5]"},
      {"30: decode_jpeg_and_inception_crop", "train.augment.crop", "\"inception_tensorflow\""},
      {"30: flip_lr", "train.augment.flip", "true"},
      {"30: no RandAugment", "train.augment.randaugment.layers", "0"},
      {"no mixup", "train.augment.mix.mixup", "0"},
      {"33: central_crop", "train.eval_transform.crop", "\"center\""},
      {"40: pool_type='tok'", "model.pool", "\"token\""},
      {"40: no dropout", "model.dropout", "0"},
      {"40: no stochastic depth", "model.drop_path", "0"},
      {"42: dont_load head", "start.leave_out", "[\"head\"]"},
      {"positions as the library resizes them", "start.resize_positions", "\"corners\""},
      {"45: optax_name = 'big_vision.momentum_hp'", "train.optimizer.name", "\"momentum_hp\""},
      {"45: momentum of the library", "train.optimizer.momentum", "0.9"},
      {"46: grad_clip_norm = 1.0", "train.clip_norm", "1"},
      {"47: wd = None", "train.optimizer.weight_decay", "0"},
      {"48: lr = 0.03", "train.optimizer.lr", "0.03"},
      {"50: warmup_steps=500", "warmup_steps", "500"},
      {"51: decay_type='cosine'", "train.schedule.name", "\"cosine\""},
      {"66: minival", "dataset.minival", "\"train[99%:]\""},
      {"67: validation", "dataset.eval", "\"val\""},
  };
  const Lines at_384{{"31: 384 pixels", "model.image_size", "[384, 384]"},
                     {"33: resize_small(418)", "train.eval_transform.resize_to", "418"}};
  const Lines at_224{{"5.4: 224 pixels", "model.image_size", "[224, 224]"},
                     {"C 65: resize_small(256)", "train.eval_transform.resize_to", "256"}};
  const char *const high = "papers/dual_patchnorm/finetune384", *const jft = "papers/dual_patchnorm/jft_finetune";
  check_table(high, "", common + at_384);
  check_table(jft, "", common);
  check_lines(jft, "image_size=384", at_384);
  check_lines(jft, "image_size=224", at_224);
  for (const JftSize& size : kJftSizes)
    if (size.transferred) check_lines(jft, size.row, size.lines);
  check_lengths(jft, 2 * 2 * 2 * 2);
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
      {"26: multiscaleflipyang", "eval.segment.scales",
       "\"several scales, each also mirrored, averaged (multiscaleflipyang)\""},
      {"Scenic: first repeat, then batch", "train.drop_last", "false"},
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
}

TEST_CASE("papers: Table 5 of Dual PatchNorm has as many steps at each fraction") {
  // Appendix G, lines 91 and 92: 128 * (20210 // 16), whatever share of the images is read.
  const char* const file = "papers/dual_patchnorm/segmentation";
  for (const char* fraction : {"0.0625", "0.125", "0.25", "0.5", "1.0"})
    for (const char* placement : {"pre_pre_to_head", "dpn_to_head"})
      check_lines(file, concat("fraction=", fraction, ", placement=", placement),
                  {{"Table 5", "dataset.fraction", fraction}, {"92: total_steps", "steps", "161664"}});
  const Experiment experiment = load_experiment(file_of(file));
  REQUIRE(experiment.rows.size() == 5 * 2);
  for (const Cell& row : experiment.rows) {
    CHECK(row.trials.size() == 10);  // "across ten random seeds"
    REQUIRE(row.start != nullptr);
    REQUIRE(row.start->seed.has_value());  // "we train each model once"
    CHECK(*row.start->seed == 0);
  }
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
  const Lines other_tower{
      {"Table 4: B/32 and L/16", "model.embed_dim", "\"768 with patches of 32 (B/32) and 1024 (L/16), of JFT-4B\""}};
  check_table("papers/dual_patchnorm/lit", "", common + other_tower);
  check_table("papers/dual_patchnorm/lit_jft", "", common);
  for (const char* file : {"papers/dual_patchnorm/lit", "papers/dual_patchnorm/lit_jft"})
    check_lines(file, "dpn", {{"55,000 steps", "steps", "55000"}});
  for (const JftSize& size : kJftSizes)
    if (size.transferred) check_lines("papers/dual_patchnorm/lit_jft", size.row, size.lines);
  check_lengths("papers/dual_patchnorm/lit_jft", 2 * 2 * 2);
}
