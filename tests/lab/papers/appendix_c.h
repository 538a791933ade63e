// Appendix C of "Dual PatchNorm" line by line: the AugReg recipe and its sizes.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "tests/lab/papers/paper_table.h"

namespace normlab {

inline const Lines kAppendixC{
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

struct AugRegSize {
  const char *file, *row;  // the recipe, and how the rows of a sweep over sizes are told apart
  Lines lines;
};
inline const std::vector<AugRegSize> kAugRegSizes{
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

inline constexpr const char* kLayerNorm = "\"layer_norm\"";
inline const Lines kDpn{{"82: stem_ln='dpn'; ln0", "model.placement.stem.patch_in.kind", kLayerNorm},
                        {"82: stem_ln='dpn'; ln1", "model.placement.stem.patch_out.kind", kLayerNorm},
                        {"LayerNorm of the library", "model.placement.stem.patch_in.eps", "1e-6"}};

/// The lines that speak of no setting in `keys`.
inline Lines except(Lines lines, std::initializer_list<std::string_view> keys) {
  std::erase_if(lines, [&](const Line& line) { return std::find(keys.begin(), keys.end(), line.key) != keys.end(); });
  return lines;
}

}  // namespace normlab
