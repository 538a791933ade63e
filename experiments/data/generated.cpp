#include "experiments/data/generated.h"

#include <fmt/format.h>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/data/gratings.h"
#include "experiments/data/scenes.h"
#include "experiments/data/shapes.h"

namespace normlab {
namespace {

constexpr std::int64_t kSide = 32;

void draw_picture(const DatasetConfig& config, std::int64_t index, const std::string& split, std::uint8_t* rgb) {
  if (config.name == "gratings")
    draw_gratings(config.shapes_seed, split, index, rgb);
  else if (config.label == ShapesLabel::relation)
    draw_shapes(config.shapes_seed, split, index, rgb);
  else
    draw_scene(config.shapes_seed, split, index, config.label, rgb);
}

}  // namespace

std::vector<std::string> generated_classes(const DatasetConfig& config) {
  if (config.name == "gratings") return gratings_classes();
  return config.label == ShapesLabel::relation ? shapes_classes() : scene_classes(config.label);
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
  for (std::int64_t i = 0; i < count; ++i) labels.push_back(static_cast<std::int32_t>(i % images.num_classes));
  const auto chosen = select_images(slice, request.subset, config.name, labels, images.class_names);
  const auto bytes = static_cast<std::size_t>(images.image_bytes());
  images.pixels.resize(chosen.size() * bytes);
  for (std::size_t i = 0; i < chosen.size(); ++i) {
    draw_picture(config, chosen[i], slice.split, images.pixels.data() + i * bytes);
    images.labels.push_back(labels[static_cast<std::size_t>(chosen[i])]);
    images.keys.push_back(fmt::format("{:06}", chosen[i]));
  }
  const std::string label = config.label == ShapesLabel::relation ? "" : concat(", by ", word_of(config.label), ",");
  images.provenance = concat(config.name, label, " made from seed ", config.shapes_seed, ", ", slice.text, ": ",
                             chosen.size(), " of ", count, " images");
  return images;
}

}  // namespace normlab
