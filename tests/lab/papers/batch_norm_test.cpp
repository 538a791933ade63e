// "Leveraging Batch Normalization for Vision Transformers": section 4.1, Tables 1 to 4 and 6, and Swin's released
// configuration, which it follows.
#include <functional>

#include "tests/lab/papers/paper_table.h"

using namespace normlab;

namespace {

const Lines kSetup{
    {"ImageNet-1K", "dataset.name", "\"imagenet\""},
    {"1.28M training images", "dataset.train", "\"train\""},
    {"50K validation images", "dataset.eval", "\"val\""},
    {"1,000 classes", "model.num_classes", "1000"},
    {"AdamW", "train.optimizer.name", "\"adamw\""},
    {"cosine decay", "train.schedule.name", "\"cosine\""},
    {"Swin counts it from step 0", "train.schedule.decay_from", "\"start\""},
    {"20 epochs of linear warm-up", "warmup_steps", "25020"},
    {"batch size of 1024", "train.batch_size", "1024"},
    {"initial learning rate of 0.001", "peak_lr", "0.001"},
    {"weight decay of 0.05", "train.optimizer.weight_decay", "0.05"},
    {"input image resolution of 224", "model.image_size", "[224, 224]"},
    {"Swin BASE_LR = 5e-4, times batch / 512", "train.optimizer.lr", "5e-4"},
    {"Swin BASE_LR, times batch / 512", "train.optimizer.lr_batch", "512"},
    {"Swin WARMUP_LR = 5e-7, times 1024 / 512", "train.schedule.warmup_from", "1e-6"},
    {"Swin MIN_LR = 5e-6, times 1024 / 512", "train.schedule.final_lr", "1e-5"},
    {"Swin warm-up along a line", "train.schedule.warmup", "\"line\""},
    {"Swin CLIP_GRAD = 5.0", "train.clip_norm", "5"},
    {"Swin clipping of PyTorch", "train.clip_form", "\"torch\""},
    {"Swin BETAS", "train.optimizer.beta1", "0.9"},
    {"Swin BETAS", "train.optimizer.beta2", "0.999"},
    {"Swin EPS", "train.optimizer.eps", "1e-8"},
    {"Swin no decay on biases and norms", "train.optimizer.decay_matrices_only", "true"},
    {"Swin LABEL_SMOOTHING = 0.1", "train.label_smoothing", "0.1"},
    {"Swin smoothing over all classes", "train.smoothing", "\"all\""},
    {"Swin DROP_RATE = 0.0", "model.dropout", "0"},
    {"Swin attention dropout 0", "model.attention_dropout", "0"},
    {"Swin crop 8 to 100 %", "train.augment.crop_area", "[0.08, 1]"},
    {"Swin RandomResizedCrop", "train.augment.crop", "\"inception_torchvision\""},
    {"Swin INTERPOLATION = 'bicubic'", "train.augment.resize", "\"bicubic\""},
    {"Swin flips", "train.augment.flip", "true"},
    {"Swin AUTO_AUGMENT rand-m9-mstd0.5-inc1", "train.augment.randaugment.dialect", "\"timm\""},
    {"Swin rand: two layers", "train.augment.randaugment.layers", "2"},
    {"Swin m9", "train.augment.randaugment.magnitude", "9"},
    {"Swin mstd0.5", "train.augment.randaugment.magnitude_std", "0.5"},
    {"Swin inc1", "train.augment.randaugment.increasing", "true"},
    {"Swin each operation at one half", "train.augment.randaugment.probability", "0.5"},
    {"Swin bicubic operations", "train.augment.randaugment.interpolation", "\"bicubic\""},
    {"Swin fill by the mean", "train.augment.randaugment.fill", "[124, 116, 104]"},
    {"Swin COLOR_JITTER has no effect beside it", "train.augment.color_jitter.brightness", "0"},
    {"Swin REPROB = 0.25", "train.augment.erasing.probability", "0.25"},
    {"Swin REMODE = 'pixel'", "train.augment.erasing.fill", "\"pixel\""},
    {"Swin erasing of timm", "train.augment.erasing.dialect", "\"timm\""},
    {"Swin MIXUP = 0.8", "train.augment.mix.mixup", "0.8"},
    {"Swin CUTMIX = 1.0", "train.augment.mix.cutmix", "1"},
    {"Swin MIXUP_PROB = 1.0", "train.augment.mix.probability", "1"},
    {"Swin MIXUP_SWITCH_PROB = 0.5", "train.augment.mix.switch_probability", "0.5"},
    {"Swin MIXUP_MODE = 'batch', of a device's loader", "train.augment.mix.scope", "\"batch, of a device\""},
    {"Swin mixup of timm", "train.augment.mix.dialect", "\"timm\""},
    {"Swin no repeated augmentation", "train.augment.repeats", "1"},
    {"Swin test: 256 / 224 of the size", "train.eval_transform.resize_to", "256"},
    {"Swin TEST.CROP = True", "train.eval_transform.crop", "\"center\""},
    {"Swin test bicubic", "train.eval_transform.resize", "\"bicubic\""},
    {"Swin drop_last=True", "train.drop_last", "true"},
    {"Swin ACCUMULATION_STEPS = 1", "train.accumulate", "1"},
    {"Swin IMAGENET_DEFAULT_MEAN", "dataset.mean", "[0.485, 0.456, 0.406]"},
    {"Swin IMAGENET_DEFAULT_STD", "dataset.std", "[0.229, 0.224, 0.225]"},
    {"Swin AMP", "train.precision", "\"fp16\""},
};
const Lines k300{{"300 epochs", "train.epochs", "300"}, {"300 epochs of 1251 batches", "steps", "375300"}};
const Lines k100{{"100 epochs", "train.epochs", "100"}, {"100 epochs of 1251 batches", "steps", "125100"}};
const Lines kSwin{{"PATCH_SIZE = 4", "model.patch_size", "4"},
                  {"WINDOW_SIZE = 7", "model.window", "7"},
                  {"MLP_RATIO = 4", "model.mlp_ratio", "4"},
                  {"QKV_BIAS = True", "model.qkv_bias", "true"},
                  {"PATCH_NORM = True", "model.placement.stem.patch_out.eps", "1e-5"}};

/// A norm at a site, whose batch statistics are those of one device.
Lines norm_at(std::initializer_list<const char*> sites, const char* kind) {
  static std::set<std::string> keys;  // outlive the lines
  Lines out;
  for (const char* site : sites) {
    const std::string base = std::string("model.placement.") + site;
    out.push_back({site, keys.insert(base + ".kind").first->c_str(), kind});
    if (kind == std::string("\"batch_norm\""))
      out.push_back({"128 images a device", keys.insert(base + ".statistics_batch").first->c_str(), "128"});
    if (kind == std::string("\"batch_norm\""))
      out.push_back(
          {"its own running statistics", keys.insert(base + ".running").first->c_str(), "\"first_group_of_step\""});
  }
  return out;
}
Lines none_at(std::initializer_list<const char*> sites) {
  static std::set<std::string> keys;
  Lines out;
  for (const char* site : sites)
    out.push_back({site, keys.insert(std::string("model.placement.") + site).first->c_str(), "\"none\""});
  return out;
}
const char *const kLN = "\"layer_norm\"", *const kBN = "\"batch_norm\"";
Lines drop(const char* rate) { return {{"stochastic depth", "model.drop_path", rate}}; }

/// Calls `check` with the first trial of every row on ImageNet.
void for_each_training(const std::function<void(const TrialConfig&)>& check) {
  for (const char* name : {"crash", "table1_t", "table1_s", "table1_b", "table2", "table3", "table4"}) {
    const Experiment experiment = load_experiment(file_of(std::string("papers/batch_norm/") + name));
    for (const Cell& row : experiment.rows) {
      INFO(name, ", ", row.label);
      check(first_trial(experiment, row).config);
    }
  }
}

}  // namespace

TEST_CASE("papers: Table 1 of batch norm has Swin and SwinD") {
  // Table 1 gives Swin-T 29M, Table 6 28.29M, which is what it has.
  struct Row {
    const char *file, *row, *millions, *macs, *width, *depths, *ln, *bn;
  };
  for (const Row& r :
       std::initializer_list<Row>{{"t", "variant=Swin-T", nullptr, "4.5", "96", "[2, 2, 6, 2]", "0.2", "0.1"},
                                  {"s", "variant=Swin-S", "50", "8.7", "96", "[2, 2, 18, 2]", "0.3", "0.2"},
                                  {"b", "variant=Swin-B", "88", "15.4", "128", "[2, 2, 18, 2]", "0.5", "0.4"},
                                  {"t", "variant=SwinD-T", "22", "3.9", "64", "[2, 2, 18, 2]", "0.2", "0.1"},
                                  {"s", "variant=SwinD-S", "41", "7.8", "64", "[2, 2, 42, 2]", "0.3", "0.2"},
                                  {"b", "variant=SwinD-B", "92", nullptr, "96", "[2, 2, 42, 2]", "0.5", "0.4"}}) {
    const std::string file = std::string("papers/batch_norm/table1_") + r.file, row = r.row;
    Lines size{{"C", "model.embed_dim", r.width}, {"layer numbers", "model.depths", r.depths}};
    if (r.macs != nullptr) check_lines(file, row + ", placement=pre_pre", {{"FLOPs", "G macs", r.macs}});
    if (r.millions != nullptr) size.push_back({"Params", "M parameters", r.millions});
    check_table(file, row, kSetup + k300 + kSwin + size);
    const std::string placement = row + ", placement=";
    check_lines(file, placement + "pre_pre",
                drop(r.ln) + norm_at({"stem.patch_out", "attn.pre", "mlp.pre", "merge", "final"}, kLN) +
                    none_at({"mlp.hidden"}));
    check_lines(file, placement + "bn_ffnbn_128",
                drop(r.bn) + norm_at({"stem.patch_out", "attn.pre", "mlp.pre", "mlp.hidden", "merge", "final"}, kBN) +
                    none_at({"mlp.inner", "mlp.out", "attn.out"}));
  }
  // 17.25 with its norms, which Table 1 gives as 17.2.
  check_lines("papers/batch_norm/table1_b", "=SwinD-B, placement=pre_pre", {{"FLOPs", "G products", "17.2"}});
  // Table 6 prints more digits.
  check_lines("papers/batch_norm/table1_t", "=Swin-T, placement=pre_pre",
              {{"LN", "M parameters", "28.29"}, {"LN", "G macs", "4.49"}});
  check_lines("papers/batch_norm/table1_t", "=Swin-T, placement=bn_ffnbn_128",
              {{"BN+FFNBN", "M parameters", "28.32"}, {"BN+FFNBN", "G macs", "4.50"}});
  check_lines("papers/batch_norm/table1_b", "=Swin-B, placement=bn_ffnbn_128", {{"BN+FFNBN", "M parameters", "87.86"}});
}

TEST_CASE("papers: Table 1 of batch norm has DeiT-S in Swin-T's setting") {
  const char* const file = "papers/batch_norm/table1_deit";
  check_table(file, "",
              kSetup + k300 +
                  Lines{{"DeiT-S, 22M", "M parameters", "22"},
                        {"patch 16", "model.patch_size", "16"},
                        {"class token", "model.pool", "\"token\""},
                        {"DeiT's start", "model.init", "\"deit\""}});
  check_lines(file, "pre_pre",
              drop("0.2") + norm_at({"attn.pre", "mlp.pre", "final"}, kLN) + Lines{{"FLOPs", "G macs", "4.6"}});
  check_lines(file, "bn_ffnbn_128",
              drop("0.1") + norm_at({"attn.pre", "mlp.pre", "mlp.hidden", "final"}, kBN) +
                  none_at({"stem.patch_in", "stem.patch_out"}));
}

TEST_CASE("papers: Table 2 of batch norm has the drop-path rates") {
  const char* const file = "papers/batch_norm/table2";
  check_table(
      file, "placement=bn_ffnbn_128",
      kSetup + k300 + kSwin + norm_at({"stem.patch_out", "attn.pre", "mlp.pre", "mlp.hidden", "merge", "final"}, kBN));
  const Experiment experiment = load_experiment(file_of(file));
  std::vector<std::string> labels, expected;
  for (const Cell& cell : experiment.rows) labels.push_back(cell.label);
  // The table has BN+FFNBN alone. The rates with LN, which it marks only as best, are ours.
  for (const char* norm : {"placement=bn_ffnbn_128, ", "placement=pre_pre, "})
    for (const char* row :
         {"variant=Swin-T, drop_path=0.05", "variant=Swin-T, drop_path=0.1", "variant=Swin-T, drop_path=0.2",
          "variant=SwinD-T, drop_path=0.1", "variant=SwinD-T, drop_path=0.2", "variant=SwinD-T, drop_path=0.3",
          "variant=SwinD-B, drop_path=0.3", "variant=SwinD-B, drop_path=0.4", "variant=SwinD-B, drop_path=0.5"})
      expected.push_back(concat(norm, row));
  CHECK(labels == expected);
  check_lines(file, "placement=pre_pre",
              kSetup + k300 + kSwin + norm_at({"stem.patch_out", "attn.pre", "mlp.pre", "merge", "final"}, kLN) +
                  none_at({"mlp.hidden"}));
}

TEST_CASE("papers: rates of drop-path that two tables have are the same trials") {
  const auto id = [](const char* name, const char* row) {
    const Experiment experiment = load_experiment(file_of(std::string("papers/batch_norm/") + name));
    for (const Cell& cell : experiment.rows)
      if (cell.label == row) return first_trial(experiment, cell).id;
    return std::string("none");
  };
  CHECK(id("table2", "placement=bn_ffnbn_128, variant=Swin-T, drop_path=0.1") ==
        id("table1_t", "variant=Swin-T, placement=bn_ffnbn_128, drop_path=0.1"));
  CHECK(id("table2", "placement=pre_pre, variant=SwinD-B, drop_path=0.5") ==
        id("table1_b", "variant=SwinD-B, placement=pre_pre, drop_path=0.5"));
}

TEST_CASE("papers: Table 3 of batch norm has norms before and after the branches") {
  const char* const file = "papers/batch_norm/table3";
  check_table(file, "", kSetup + k100 + kSwin + Lines{{"Swin-T", "model.depths", "[2, 2, 6, 2]"}});
  check_lines(file, "=pre_pre", drop("0.2") + norm_at({"attn.pre", "mlp.pre"}, kLN) + none_at({"attn.out", "mlp.out"}));
  check_lines(file, "=respost_respost",
              drop("0.2") + norm_at({"attn.out", "mlp.out"}, kLN) + none_at({"attn.pre", "mlp.pre", "attn.post"}));
  check_lines(file, "=preres_preres", drop("0.2") + norm_at({"attn.pre", "mlp.pre", "attn.out", "mlp.out"}, kLN));
  check_lines(file, "=bn_ffnbn_128",
              drop("0.1") + norm_at({"attn.pre", "mlp.pre", "mlp.hidden"}, kBN) + none_at({"attn.out", "mlp.out"}));
  check_lines(
      file, "=bn_ffnbn_respost_128",
      drop("0.1") + norm_at({"attn.out", "mlp.out", "mlp.hidden", "final"}, kBN) + none_at({"attn.pre", "mlp.pre"}));
  check_lines(file, "=bn_ffnbn_preres_128",
              drop("0.1") + norm_at({"attn.pre", "mlp.pre", "attn.out", "mlp.out", "mlp.hidden", "merge"}, kBN));
}

TEST_CASE("papers: Table 4 of batch norm has the extra batch norms") {
  const char* const file = "papers/batch_norm/table4";
  check_table(file, "", kSetup + k100 + kSwin + Lines{{"Swin-T", "model.depths", "[2, 2, 6, 2]"}});
  check_lines(file, "=pre_pre",
              drop("0.2") + norm_at({"attn.pre", "mlp.pre"}, kLN) +
                  none_at({"attn.value", "attn.out", "mlp.hidden", "mlp.out"}));
  check_lines(file, "=ln_extra_bn_attn_128",
              drop("0.2") + norm_at({"attn.pre", "mlp.pre", "final"}, kLN) + norm_at({"attn.value", "attn.out"}, kBN) +
                  none_at({"mlp.hidden", "attn.query", "attn.key"}));
  check_lines(file, "=ln_extra_bn_128",
              drop("0.2") + norm_at({"attn.pre", "mlp.pre"}, kLN) +
                  norm_at({"attn.value", "attn.out", "mlp.hidden", "mlp.out"}, kBN));
  check_lines(file, "=bn_ffnbn_128",
              drop("0.1") + norm_at({"attn.pre", "mlp.pre", "mlp.hidden"}, kBN) + none_at({"attn.value", "attn.out"}));
  check_lines(file, "=bn_extra_attn_128",
              drop("0.1") + norm_at({"attn.value", "attn.out", "mlp.hidden"}, kBN) + none_at({"mlp.out"}));
  check_lines(file, "=bn_extra_128", drop("0.1") + norm_at({"attn.value", "attn.out", "mlp.hidden", "mlp.out"}, kBN));
}

TEST_CASE("papers: section 3.3 of batch norm has the training that crashes") {
  const char* const file = "papers/batch_norm/crash";
  check_table(
      file, "",
      kSetup + k300 + kSwin + drop("0.2"));  // "all the other hyperparameters follow Swin-T's official settings"
  check_lines(file, "bn_128", norm_at({"stem.patch_out", "attn.pre", "mlp.pre", "merge", "final"}, kBN));
  const Experiment experiment = load_experiment(file_of(file));
  REQUIRE(experiment.rows.size() == 3);
  CHECK(experiment.rows[1].trials.size() == 3);  // BN-try{1,2,3}
  CHECK(placement_of(experiment.trials[experiment.rows[1].trials[0]].config.model).mlp.hidden.kind == NormKind::none);
  CHECK(experiment.probes.at(ProbeKind::signal, 0));
  CHECK(experiment.probes.at(ProbeKind::signal, 375299));
}

TEST_CASE("papers: a part of a batch of batch norm is one device's") {
  for_each_training([](const TrialConfig& config) { CHECK(config.train.batch_size / config.train.accumulate == 128); });
}

TEST_CASE("papers: a training of batch norm fits into a machine's memory") {
  for_each_training([](const TrialConfig& config) { CHECK(trial_cost(config).bytes(8) < 25e9); });
}

// Those of programs without `running`, whose bits they keep.
TEST_CASE("papers: trials with the statistics of one device keep their ids") {
  for (const auto& [name, id] : {std::pair("table1_deit_tiny", "fd05e9ff"), {"table1_t_tiny", "31ea4d2edf16"}})
    CHECK(load_experiment(file_of(std::string("papers/batch_norm/") + name)).trials[3].id.starts_with(id));
}
