// "ViT Baseline Revisited", and the configuration of Big Vision that it reproduces.
#include "tests/lab/papers/paper_table.h"

using namespace normlab;

namespace {

const Lines kSimpleViT{
    {"S: 12 layers", "model.depth", "12"},
    {"S: width 384", "model.embed_dim", "384"},
    {"S: MLP 1536", "model.mlp_dim", "1536"},
    {"S: 6 heads", "model.num_heads", "6"},
    {"S/16", "model.patch_size", "16"},
    {"ImageNet-1k", "dataset.name", "\"imagenet\""},
    {"whole training set: 1281167 images", "dataset.train", "\"train\""},
    {"224 pixels", "model.image_size", "[224, 224]"},
    {"fixed 2D sin-cos position embeddings", "model.pos_embed", "\"sincos2d\""},
    {"initial values of Big Vision", "model.init", "\"big_vision\""},
    {"zero-init of the head", "model.head_bias_init", "0"},
    {"GELU of the library", "model.gelu", "\"tanh\""},
    {"no dropout", "model.dropout", "0"},
    {"no stochastic depth", "model.drop_path", "0"},
    {"10000 warm-up steps", "warmup_steps", "10000"},
    {"warm-up from 0", "train.schedule.warmup", "\"line\""},
    {"cosine learning rate decay", "train.schedule.name", "\"cosine\""},
    {"1e-3 maximum learning rate", "peak_lr", "0.001"},
    {"1e-4 decoupled weight decay", "train.optimizer.weight_decay", "0.0001"},
    {"AdamW, decay not times the rate", "train.optimizer.name", "\"big_vision_adam\""},
    {"Inception crop", "train.augment.crop", "\"inception_tensorflow\""},
    {"5%-100% of the area", "train.augment.crop_area", "[0.05, 1]"},
    {"aspect of the library", "train.augment.crop_aspect", "[0.75, 1.33]"},
    {"no antialiasing in the library", "train.augment.resize", "\"bilinear_plain\""},
    {"random horizontal flips", "train.augment.flip", "true"},
    {"value_range(-1, 1)", "dataset.mean", "[0.5, 0.5, 0.5]"},
    {"value_range(-1, 1)", "dataset.std", "[0.5, 0.5, 0.5]"},
    {"configuration: softmax_xent", "train.loss", "\"softmax\""},
    {"configuration: no smoothing", "train.label_smoothing", "0"},
    {"configuration: mu_dtype bfloat16", "train.optimizer.bf16_moment", "true"},
    {"configuration: b2 by default", "train.optimizer.beta2", "0.999"},
    {"configuration: grad_clip_norm 1.0", "train.clip_norm", "1"},
    {"configuration: clipping of optax", "train.clip_form", "\"optax\""},
    {"configuration: shuffle_buffer_size; here an epoch is a permutation", "dataset.shuffle_buffer", "absent"},
    {"configuration: one endless stream of batches", "train.drop_last", "false"},
    {"configuration: resize_small(256)", "train.eval_transform.resize_to", "256"},
    {"configuration: resize_small by area", "train.eval_transform.resize", "\"area\""},
    {"configuration: central_crop(224)", "train.eval_transform.crop", "\"center\""},
    {"configuration: no dtype but the moment's", "train.precision", "\"fp32\""},
};
const Lines kAugmentation{{"RandAugment num_ops = 2", "train.augment.randaugment.layers", "2"},
                          {"RandAugment magnitude = 10", "train.augment.randaugment.magnitude", "10"},
                          {"RandAugment of Big Vision", "train.augment.randaugment.dialect", "\"big_vision\""},
                          {"as released", "train.augment.randaugment.repaired", "false"},
                          {"Mixup alpha = 0.2", "train.augment.mix.mixup", "0.2"},
                          {"configuration: fold_in None", "train.augment.mix.scope", "\"batch\""}};
const Lines kPlain{{"average of all output tokens", "model.pool", "\"gap\""},
                   {"a single linear layer", "model.rep_size", "0"},
                   {"batch size 1024", "train.batch_size", "1024"},
                   {"21,974,632 model parameters", "parameters", "21974632"}};
const Lines k90{{"90 epochs = round(1281167 / 1024 * 90)", "steps", "112603"}};

}  // namespace

TEST_CASE("papers: the simple ViT trains for 90 or for 150 epochs") {
  const Lines all = kSimpleViT + kAugmentation + kPlain;
  check_table("recipes/simple_vit", "", all + k90);
  check_table("papers/vit_baseline/simple_vit", "115305030", all + k90);
  check_table("papers/vit_baseline/simple_vit", "192175050", all + Lines{{"150 epochs", "steps", "187671"}});
  CHECK(load_experiment(file_of("papers/vit_baseline/simple_vit")).rows.size() == 2);
}

TEST_CASE("papers: a variant of the simple ViT differs only in what it names") {
  const char* const file = "papers/vit_baseline/variants";
  const auto without = [](Lines lines, const char* key) {
    std::erase_if(lines, [&](const Line& line) { return line.key == std::string(key); });
    return lines;
  };
  const Lines all = kSimpleViT + kAugmentation + kPlain + k90, sizes = without(all, "parameters");
  const Experiment experiment = load_experiment(file_of(file));
  REQUIRE(experiment.rows.size() == 6);
  for (std::size_t r = 1; r < 6; ++r) CHECK(experiment.rows[r].baseline == 0);
  check_table(file, experiment.rows[0].label, all);
  check_table(file, experiment.rows[1].label,
              without(sizes, "model.rep_size") + Lines{{"MLP head", "model.rep_size", "384"}});
  check_table(file, experiment.rows[2].label,
              without(sizes, "model.pos_embed") + Lines{{"learned positions", "model.pos_embed", "\"learned\""}});
  check_table(file, experiment.rows[3].label,
              without(sizes, "model.pool") + Lines{{"token pooling", "model.pool", "\"token\""}});
  check_table(file, experiment.rows[4].label,
              without(without(all, "train.batch_size"), "steps") +
                  Lines{{"batch 4096", "train.batch_size", "4096"}, {"the same images", "steps", "28151"}});
  check_table(file, experiment.rows[5].label,
              kSimpleViT + kPlain + k90 +
                  Lines{{"no RandAugment", "train.augment.randaugment.dialect", "\"none\""},
                        {"no mixup", "train.augment.mix.mixup", "0"}});
}

TEST_CASE("papers: S/16+ of Dual PatchNorm is the simple ViT with an MLP head") {
  Lines lines = kSimpleViT + kAugmentation;
  std::erase_if(lines, [](const Line& line) { return line.key == std::string("dataset.train"); });
  check_table("papers/dual_patchnorm/s16_plus", "",
              lines + Lines{{"configuration: train[:99%]", "dataset.train", "\"train[:99%]\""},
                            {"configuration: rep_size=True", "model.rep_size", "384"},
                            {"configuration: pool_type gap", "model.pool", "\"gap\""},
                            {"configuration: batch_size 1024", "train.batch_size", "1024"},
                            {"300 epochs = round(1268355 / 1024 * 300)", "steps", "371588"}});
  check_lines("papers/dual_patchnorm/s16_plus", "dpn",
              {{"DPN", "model.placement.stem.patch_in.kind", "\"layer_norm\""},
               {"DPN", "model.placement.stem.patch_out.kind", "\"layer_norm\""}});
}

TEST_CASE("papers: each implementation of the simple ViT differs in one part") {
  const char* const file = "papers/vit_baseline/implementations";
  const Experiment experiment = load_experiment(file_of(file));
  REQUIRE(experiment.rows.size() == 5);
  check_table(file, experiment.rows[0].label, kSimpleViT + kAugmentation + kPlain + k90);
  check_lines(file, experiment.rows[1].label, {{"PyTorch's modules as they come", "model.init", "\"torch\""}});
  check_lines(file, experiment.rows[2].label,
              {{"torchvision's RandAugment", "train.augment.randaugment.dialect", "\"torchvision\""},
               {"num_ops = 2", "train.augment.randaugment.layers", "2"},
               {"magnitude = 10", "train.augment.randaugment.magnitude", "10"},
               {"neutral RGB value as the fill", "train.augment.randaugment.fill", "[128, 128, 128]"}});
  check_lines(file, experiment.rows[3].label, {{"Contrast as meant", "train.augment.randaugment.repaired", "true"}});
  check_lines(file, experiment.rows[4].label,
              {{"torchvision's crop", "train.augment.crop", "\"inception_torchvision\""},
               {"5%-100% of the area", "train.augment.crop_area", "[0.05, 1]"}});
}

TEST_CASE("papers: the rows of init are the differences that the text names, and their combination") {
  for (const char* file : {"papers/vit_baseline/init", "papers/vit_baseline/init_tiny"}) {
    const Experiment experiment = load_experiment(file_of(file));
    const std::vector<std::string> expected{
        "big_vision",
        "base=big_vision, qkv=xavier_fused",
        "base=big_vision, out_proj=linear",
        "base=big_vision, truncation=uncorrected",
        "base=big_vision, patch_embed=conv2d_uniform",
        "base=big_vision, head=linear",
        "base=big_vision, qkv=xavier_fused, out_proj=linear, patch_embed=conv2d_uniform, head=linear"};
    std::vector<std::string> labels;
    for (const Cell& row : experiment.rows) labels.push_back(row.label);
    CHECK(labels == expected);
  }
}
