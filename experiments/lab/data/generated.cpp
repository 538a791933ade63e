#include "experiments/lab/data/generated.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/data/scenes.h"

namespace normlab {
namespace {

constexpr std::int64_t kSide = 32;

/// A `mask`, if not null, is that of a scene: by kind, unless there is another label. Returns the caption of a scene.
std::string draw_picture(const DatasetConfig& config, std::int64_t index, const std::string& split, std::uint8_t* rgb,
                         std::uint8_t* mask) {
  const bool relation = config.label == ShapesLabel::relation;
  if (config.name == "gratings")
    draw_gratings(config.shapes_seed, split, index, rgb);
  else if (relation && mask == nullptr)
    draw_shapes(config.shapes_seed, split, index, rgb);
  else
    return scene_caption(
        draw_scene(config.shapes_seed, split, index, relation ? ShapesLabel::kind : config.label, rgb, mask));
  return "";
}

}  // namespace

std::vector<std::string> generated_classes(const DatasetConfig& config) {
  if (config.name == "gratings") return gratings_classes();
  if (config.masks == MaskLabels::none)
    return config.label == ShapesLabel::relation ? shapes_classes() : scene_classes(config.label);
  std::vector<std::string> kinds = scene_classes(ShapesLabel::kind);
  if (config.masks == MaskLabels::classes) kinds.insert(kinds.begin(), "background");
  return kinds;
}

ImageSet make_generated(const DatasetConfig& config, const SliceRequest& request) {
  const Slice& slice = request.slice;
  if (slice.split != "train" && slice.split != "test")
    throw InputError(concat("dataset ", in_quotes(config.name), ", slice ", in_quotes(slice.text),
                            ": its splits are \"train\" and \"test\""));
  const bool train = slice.split == "train";
  const std::int64_t count = train ? config.train_images : config.eval_images;
  if (count < 1 || count > 1000000)
    throw InputError(concat("dataset ", in_quotes(config.name), ": ", train ? "train_images" : "eval_images", " is ",
                            count, "; expected 1 to 1000000"));
  ImageSet images;
  images.height = images.width = kSide;
  images.channels = 3;
  images.class_names = generated_classes(config);
  images.num_classes = std::ssize(images.class_names);
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < count; ++i)
    labels.push_back(config.masks == MaskLabels::none ? static_cast<std::int32_t>(i % images.num_classes) : 0);
  const auto chosen = select_images(slice, request.subset, config.name, labels, images.class_names);
  const auto bytes = static_cast<std::size_t>(images.image_bytes());
  images.pixels.resize(chosen.size() * bytes);
  const auto area = static_cast<std::size_t>(kSide * kSide);
  std::vector<std::uint8_t> masks(config.masks == MaskLabels::none ? 0 : chosen.size() * area);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    std::string caption = draw_picture(config, chosen[i], slice.split, images.pixels.data() + i * bytes,
                                       masks.empty() ? nullptr : masks.data() + i * area);
    if (config.captions) images.captions.push_back(std::move(caption));
    images.labels.push_back(labels[static_cast<std::size_t>(chosen[i])]);
    images.keys.push_back(fmt::format("{:06}", chosen[i]));
  }
  if (!masks.empty()) {
    Mask all{std::ssize(chosen) * kSide, kSide, std::move(masks)};
    number_labels(all, config.masks, images.num_classes, config.name);
    images.masks = std::make_shared<StoredMasks>(kSide, kSide, std::move(all.labels));
  }
  const std::string label = config.label == ShapesLabel::relation ? "" : concat(", by ", word_of(config.label), ",");
  images.provenance = concat(config.name, label, " made from seed ", config.shapes_seed, ", ", slice.text, ": ",
                             chosen.size(), " of ", count, " images");
  return images;
}

}  // namespace normlab
