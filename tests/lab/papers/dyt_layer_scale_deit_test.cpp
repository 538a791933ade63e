// "Tanh as LayerNorm in Small Vision Transformers" with the code it links; LayerScale; DeiT's released defaults.
#include "tests/lab/papers/paper_table.h"

using namespace normlab;

namespace {

const Lines kBlog{
    {"tiny-imagenet-200", "dataset.name", "\"tiny-imagenet-200\""},
    {"200 classes", "model.num_classes", "200"},
    {"10k validation images", "dataset.eval", "\"val\""},
    {"scaled to 128x128", "model.image_size", "[128, 128]"},
    {"patch size of 16x16", "model.patch_size", "16"},
    {"4 heads", "model.num_heads", "4"},
    {"6 encoder blocks", "model.depth", "6"},
    {"embedding dimension of 768", "model.embed_dim", "768"},
    {"code: mlp_ratio 4", "model.mlp_dim", "3072"},
    {"sequence length 65: a class token", "model.pool", "\"token\""},
    {"code: positions for num_patches + 1", "model.pos_embed_class", "true"},
    {"code: learned positions", "model.pos_embed", "\"learned\""},
    {"code: qkv without bias", "model.qkv_bias", "false"},
    {"code: nn.GELU", "model.gelu", "\"erf\""},
    {"code: dropout in the MLP", "model.dropout.hidden", "0.1"},
    {"code: dropout in the MLP", "model.dropout.mlp", "0.1"},
    {"code: none after the stem", "model.dropout.stem", "0"},
    {"code: none after attention", "model.dropout.attn", "0"},
    {"10% dropout in the attention", "model.attention_dropout", "0.1"},
    {"code: nn.Linear as it comes", "model.init.base", "\"torch\""},
    {"code: nn.Linear as it comes", "model.init.qkv", "\"linear\""},
    {"no stochastic depth", "model.drop_path", "0"},
    {"500 epochs", "train.epochs", "500"},
    {"500 epochs of 390 batches", "steps", "195000"},
    {"batch size 256", "train.batch_size", "256"},
    {"code: drop_last=True", "train.drop_last", "true"},
    {"AdamW", "train.optimizer.name", "\"adamw\""},
    {"code: decay of AdamW by default", "train.optimizer.weight_decay", "0.01"},
    {"code: on all parameters", "train.optimizer.decay_matrices_only", "false"},
    {"code: betas by default", "train.optimizer.beta2", "0.999"},
    {"learning rate 3e-4", "peak_lr", "3e-4"},
    {"cosine decay", "train.schedule.name", "\"cosine\""},
    {"10-epoch warmup", "warmup_steps", "3900"},
    {"code: warm-up from 0 at step 0", "train.schedule.warmup", "\"line\""},
    {"code: down to 0", "train.schedule.final_lr", "0"},
    {"code: no clipping", "train.clip_norm", "0"},
    {"code: softmax", "train.loss", "\"softmax\""},
    {"code: label_smoothing 0.1", "train.label_smoothing", "0.1"},
    {"RandomResizedCrop", "train.augment.crop", "\"inception_torchvision\""},
    {"code: scale 0.8 to 1", "train.augment.crop_area", "[0.8, 1]"},
    {"code: bilinear by default", "train.augment.resize", "\"bilinear\""},
    {"RandomHorizontalFlip", "train.augment.flip", "true"},
    {"RandAugment", "train.augment.randaugment.dialect", "\"torchvision\""},
    {"code: num_ops 2", "train.augment.randaugment.layers", "2"},
    {"code: magnitude 9", "train.augment.randaugment.magnitude", "9"},
    {"code: nearest by default", "train.augment.randaugment.interpolation", "\"nearest\""},
    {"code: black by default", "train.augment.randaugment.fill", "[0, 0, 0]"},
    {"RandomErasing", "train.augment.erasing.dialect", "\"torchvision\""},
    {"code: p 0.25", "train.augment.erasing.probability", "0.25"},
    {"code: scale by default", "train.augment.erasing.area", "[0.02, 0.33]"},
    {"code: ratio by default", "train.augment.erasing.aspect", "[0.3, 3.3]"},
    {"code: value 0", "train.augment.erasing.value", "0"},
    {"Mixup; code: timm's", "train.augment.mix.dialect", "\"timm\""},
    {"code: mixup_alpha 0.8", "train.augment.mix.mixup", "0.8"},
    {"code: cutmix_alpha 1.0", "train.augment.mix.cutmix", "1"},
    {"code: prob 1.0", "train.augment.mix.probability", "1"},
    {"code: switch_prob 0.5", "train.augment.mix.switch_probability", "0.5"},
    {"code: mode batch by default", "train.augment.mix.scope", "\"batch\""},
    {"code: Resize((128, 128))", "train.eval_transform.crop", "\"stretch\""},
    {"code: bilinear by default", "train.eval_transform.resize", "\"bilinear\""},
    {"code: normalization_mean", "dataset.mean", "[0.485, 0.456, 0.406]"},
    {"code: normalization_std", "dataset.std", "[0.229, 0.224, 0.225]"},
    {"mixed precision; code: autocast on cuda", "train.precision", "\"fp16\""},
};

const Lines kDeiT{
    {"224 pixels", "model.image_size", "[224, 224]"},
    {"--batch-size, 8 times 128", "train.batch_size", "1024"},
    {"--epochs 300", "train.epochs", "300"},
    {"--drop 0", "model.dropout", "0"},
    {"--drop-path 0.1", "model.drop_path", "0.1"},
    {"--model-ema-decay 0.99996", "train.ema.decay", "0.99996"},
    {"--opt adamw", "train.optimizer.name", "\"adamw\""},
    {"--opt-eps 1e-8", "train.optimizer.eps", "1e-8"},
    {"--clip-grad none", "train.clip_norm", "0"},
    {"--weight-decay 0.05", "train.optimizer.weight_decay", "0.05"},
    {"--sched cosine, stepped by epoch", "train.schedule.name", "\"cosine, one value an epoch\""},
    {"timm counts it from epoch 0", "train.schedule.decay_from", "\"start\""},
    {"--lr 5e-4", "train.optimizer.lr", "5e-4"},
    {"lr times batch / 512", "peak_lr", "1e-3"},
    {"--warmup-lr 1e-6, not scaled", "train.schedule.warmup_from", "1e-6"},
    {"--min-lr 1e-5, not scaled", "train.schedule.final_lr", "1e-5"},
    {"--warmup-epochs 5", "train.schedule.warmup_epochs", "5"},
    {"--aa rand-m9-mstd0.5-inc1", "train.augment.randaugment.dialect", "\"timm\""},
    {"--aa m9", "train.augment.randaugment.magnitude", "9"},
    {"--aa mstd0.5", "train.augment.randaugment.magnitude_std", "0.5"},
    {"--aa inc1", "train.augment.randaugment.increasing", "true"},
    {"--color-jitter has no effect beside --aa", "train.augment.color_jitter.brightness", "0"},
    {"--smoothing 0.1", "train.label_smoothing", "0.1"},
    {"--train-interpolation bicubic", "train.augment.resize", "\"bicubic\""},
    {"--repeated-aug: three times", "train.augment.repeats", "3"},
    {"--reprob 0.25", "train.augment.erasing.probability", "0.25"},
    {"--remode pixel", "train.augment.erasing.fill", "\"pixel\""},
    {"--mixup 0.8", "train.augment.mix.mixup", "0.8"},
    {"--cutmix 1.0", "train.augment.mix.cutmix", "1"},
    {"--mixup-prob 1.0", "train.augment.mix.probability", "1"},
    {"--mixup-switch-prob 0.5", "train.augment.mix.switch_probability", "0.5"},
    {"--mixup-mode batch, of a device's loader", "train.augment.mix.scope", "\"batch, of a device\""},
    {"a class token with a position", "model.pos_embed_class", "true"},
    {"autocast", "train.precision", "\"fp16\""},
};

}  // namespace

TEST_CASE("papers: the descriptor of the DyT blog has the settings of its code") {
  const char* const file = "papers/dyt/tiny_imagenet";
  check_table("recipes/dyt_blog", "", kBlog);
  check_table(file, "", kBlog);
  const Experiment experiment = load_experiment(file_of(file));
  REQUIRE(experiment.rows.size() == 3);
  check_lines(file, experiment.rows[0].label,
              {{"LayerNorm", "model.placement.attn.pre.kind", "\"layer_norm\""},
               {"code: eps by default", "model.placement.attn.pre.eps", "1e-5"},
               {"both branches", "model.placement.mlp.pre.eps", "1e-5"},
               {"right before the final linear projection", "model.placement.final.eps", "1e-5"}});
  check_lines(file, experiment.rows[1].label,
              {{"DyT", "model.placement.attn.pre.kind", "\"dyt\""},
               {"init_alpha=0.5", "model.placement.attn.pre.alpha_init", "0.5"},
               {"beta = torch.ones(C)", "model.placement.attn.pre.beta_init", "1"},
               {"beta = torch.ones(C)", "model.placement.mlp.pre.beta_init", "1"},
               {"beta = torch.ones(C)", "model.placement.final.beta_init", "1"}});
  check_lines(file, experiment.rows[2].label,
              {{"DyT", "model.placement.final.kind", "\"dyt\""},
               {"beta from 0 in its paper", "model.placement.final.beta_init", "0"}});
}

TEST_CASE("papers: every descriptor that follows DeiT has its defaults") {
  for (const char* file : {"recipes/deit", "papers/dual_patchnorm/deit", "papers/layer_scale/depth"})
    check_table(file, "", kDeiT);
}

TEST_CASE("papers: LayerScale starts by depth, one gain a channel or a branch") {
  const char* const file = "papers/layer_scale/depth";
  const Experiment experiment = load_experiment(file_of(file));
  REQUIRE(experiment.rows.size() == 16);
  for (const auto& [depth, start] : std::initializer_list<std::pair<const char*, const char*>>{
           {"12", "0.1"}, {"18", "0.1"}, {"24", "1e-5"}, {"36", "1e-6"}}) {
    const std::string row = concat("depth=", depth, ", layer_scale=");
    for (const char* kind : {"channel", "scalar"})
      check_lines(file, row + kind,
                  {{"blocks", "model.depth", depth},
                   {"diagonal or scalar", "model.placement.layer_scale.kind",
                    kind == std::string("channel") ? "\"channel\"" : "\"scalar\""}});
    check_lines(file, row + "channel", {{"epsilon by depth", "layer_scale_init", start}});
    check_lines(file, row + "none", {{"without", "model.placement.layer_scale", "\"none\""}});
  }
}
