#include "experiments/lab/data/picked_images.h"

#include <algorithm>

namespace normlab {
namespace {

/// Reads from all files those that are picked.
template <class Files>
class Picked : public Files {
 public:
  Picked(std::shared_ptr<const Files> all, std::vector<std::size_t> picked)
      : all_(std::move(all)), picked_(std::move(picked)) {}
  std::string where(std::int64_t i) const override { return all_->where(at(i)); }

 protected:
  std::int64_t at(std::int64_t i) const { return static_cast<std::int64_t>(picked_[static_cast<std::size_t>(i)]); }
  std::shared_ptr<const Files> all_;

 private:
  std::vector<std::size_t> picked_;
};

class PickedFiles final : public Picked<EncodedImages> {
 public:
  using Picked::Picked;
  void read(std::int64_t i, std::vector<std::uint8_t>& bytes) const override { all_->read(at(i), bytes); }
};

class PickedMasks final : public Picked<Masks> {
 public:
  using Picked::Picked;
  void read(std::int64_t i, Mask& out, std::vector<std::uint8_t>& bytes) const override {
    all_->read(at(i), out, bytes);
  }
};

}  // namespace

ImageSet picked_images(const ImageSet& from, const std::vector<std::size_t>& picked) {
  ImageSet out;
  out.height = from.height, out.width = from.width, out.channels = from.channels;
  out.num_classes = from.num_classes;
  out.class_names = from.class_names;
  out.tokeniser = from.tokeniser;
  if (from.encoded) out.encoded = std::make_shared<PickedFiles>(from.encoded, picked);
  if (from.masks) out.masks = std::make_shared<PickedMasks>(from.masks, picked);
  for (const std::size_t i : picked) {
    const auto index = static_cast<std::int64_t>(i);
    out.labels.push_back(from.labels[i]);
    out.keys.push_back(from.key(index));
    if (!from.captions.empty()) out.captions.push_back(from.captions[i]);
    if (!from.encoded) out.pixels.insert(out.pixels.end(), from.image(index), from.image(index) + from.image_bytes());
  }
  return out;
}

std::vector<std::size_t> evenly_spaced(std::int64_t all, std::int64_t count) {
  std::vector<std::size_t> out(static_cast<std::size_t>(std::min(all, count)));
  const auto n = static_cast<std::int64_t>(out.size());
  for (std::int64_t i = 0; i < n; ++i)  // i all / n without a product that may overflow
    out[static_cast<std::size_t>(i)] = static_cast<std::size_t>(all / n * i + all % n * i / n);
  return out;
}

}  // namespace normlab
