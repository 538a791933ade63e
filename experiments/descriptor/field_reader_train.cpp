// The parts of "train" whose settings exclude each other, and why a setting means nothing beside the others.
#include "core/visible_text.h"
#include "experiments/descriptor/field_reader.h"

namespace normlab {

void FieldReader::value(const JsonNode& node, const JsonPath& path, TrainConfig& out, Range) {
  object(node, path, out);
  refuse_exclusive(node, path, "train");
}

void FieldReader::value(const JsonNode& node, const JsonPath& path, ScheduleConfig& out, Range) {
  object(node, path, out);
  refuse_exclusive(node, path, "train.schedule");
}

std::string FieldReader::why_meaningless(const NormSpec& spec, std::string_view key) {
  return concat("a norm of kind ", to_string(spec.kind), " has no ", key);
}
std::string FieldReader::why_meaningless(const StemSites&, std::string_view) {
  return "there is no norm at posembed_out";
}
std::string FieldReader::why_meaningless(const ViTConfig&, std::string_view key) {
  if (key == "distill_token") return "a distillation token stands beside a class token; set pool token";
  return "only a class token (pool token) among learned positions can have one";
}
std::string FieldReader::why_meaningless(const SwinConfig&, std::string_view key) {
  return concat("a Swin has no use for ", key);
}
std::string FieldReader::why_meaningless(const DatasetConfig& dataset, std::string_view key) {
  if (key == "train_shards" || key == "eval_shards") return "only layout webdataset has shards";
  if (key == "labels") return "only layout image_list has a file of labels";
  if (key == "subset_seed") return "neither per_class nor fraction takes a part of the slice";
  if (key == "shuffle_buffer") return "only order shards has a buffer";
  return dataset.name == "shapes" ? concat("shapes is generated and has no ", key)
                                  : concat("only shapes is generated; ", shown(dataset.name), " has no ", key);
}
std::string FieldReader::why_meaningless(const RandAugmentConfig& randaugment, std::string_view key) {
  if (randaugment.dialect == RandAugmentDialect::none) return "without a dialect there is no RandAugment";
  return concat("the dialect ", word_of(randaugment.dialect), " has no ", key);
}
std::string FieldReader::why_meaningless(const ErasingConfig& erasing, std::string_view key) {
  if (erasing.dialect == ErasingDialect::none) return "without a dialect nothing is erased";
  return concat("fill ", word_of(erasing.fill), " has no ", key);
}
std::string FieldReader::why_meaningless(const MixConfig&, std::string_view key) {
  if (key == "switch_probability") return "mixup and cutmix are not both on";
  return "neither mixup nor cutmix is on";
}
std::string FieldReader::why_meaningless(const AugmentConfig& augment, std::string_view key) {
  return concat("crop ", word_of(augment.crop), " has no ", key);
}
std::string FieldReader::why_meaningless(const EvalTransformConfig& transform, std::string_view key) {
  if (key == "crop_pct" && transform.crop == EvalCrop::center) return "resize_to says it already";
  return concat("crop ", word_of(transform.crop), " has no ", key);
}
std::string FieldReader::why_meaningless(const OptimizerConfig& optimizer, std::string_view key) {
  if (key == "moment_product" && applies(optimizer, "bf16_moment")) return "bf16_moment is off";
  return concat(word_of(optimizer.name), " has no ", key);
}
std::string FieldReader::why_meaningless(const ScheduleConfig& schedule, std::string_view key) {
  if (schedule.name == ScheduleName::compound) {
    for (const auto& [of, factor] : {std::pair("warmup_steps", "linear_warmup"),
                                     {"warmup_epochs", "linear_warmup"},
                                     {"timescale", "rsqrt_decay"},
                                     {"power", "polynomial"},
                                     {"decay_every", "decay_every"},
                                     {"decay_factor", "decay_every"},
                                     {"cooldown_steps", "linear_cooldown"}})
      if (key == of && !has_factor(schedule.factors, factor))
        return concat("there is no ", factor, " among the factors");
    if (key == "final_lr") return "there is no polynomial, cosine_decay or linear_decay among the factors";
  }
  const bool warms_up = schedule.warmup_steps > 0 || schedule.warmup_epochs > 0;
  if (key == "warmup" || (key == "decay_from" && !warms_up)) return "there is no warm-up";
  if (key == "warmup_from") return "only a warm-up along a line has it";
  return concat("a ", word_of(schedule.name), " schedule has no ", key);
}
std::string FieldReader::why_meaningless(const EmaConfig&, std::string_view) {
  return "without a decay nothing is averaged";
}
std::string FieldReader::why_meaningless(const EarlyStopConfig&, std::string_view) {
  return "without a metric nothing is stopped early";
}
std::string FieldReader::why_meaningless(const TrainConfig& train, std::string_view key) {
  if (key == "clip_form") return "there is no clip_norm";
  if (key == "smoothing") return "there is no label_smoothing";
  return concat("the length is given by ", train.images > 0 ? "images" : "steps");
}

}  // namespace normlab
