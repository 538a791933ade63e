#include "experiments/lab/data/train_transform.h"

#include <algorithm>

#include "core/error.h"
#include "experiments/lab/data/decode.h"
#include "experiments/lab/data/ops/color_jitter.h"
#include "experiments/lab/data/random_boxes.h"

namespace normlab {
namespace {

/// Photographs may be decoded at 1/2, 1/4 or 1/8 of their size if the box remains at least this many times as large as
/// its target. The remaining difference is smaller than what the resize filter removes.
constexpr std::int64_t kDecodeMargin = 2;

/// Filters that widen when an image shrinks. The others pick single pixels and need those of the full-size image.
bool widens(ResizeMethod method) {
  return method == ResizeMethod::bilinear || method == ResizeMethod::bicubic || method == ResizeMethod::lanczos;
}

}  // namespace

ScratchPool::Lease::Lease(ScratchPool& pool) : pool_(pool) {
  const std::lock_guard lock(pool.mutex_);
  if (pool.free_.empty()) {
    scratch_ = std::make_unique<TransformScratch>();
  } else {
    scratch_ = std::move(pool.free_.back());
    pool.free_.pop_back();
  }
}

ScratchPool::Lease::~Lease() {
  const std::lock_guard lock(pool_.mutex_);
  pool_.free_.push_back(std::move(scratch_));
}

bool TrainTransform::needs_rgb() const {
  return augment_.crop != CropName::none || !policies_of(augment_).empty() ||
         augment_.color_jitter != ColorJitterConfig{};
}

TrainTransform::TrainTransform(const TrialConfig& config, const ImageSet& images)
    : images_(images),
      augment_(config.train.augment),
      eval_(config.train.eval_transform),
      size_{image_size(config.model)[0], image_size(config.model)[1]},
      channels_(normlab::channels(config.model)),
      keys_(augment_keys(images, config.seed)),
      tables_(images.channel_mean, images.channel_std),
      randaugment_(augment_.randaugment),
      autoaugment_(augment_.autoaugment),
      trivialaugment_(augment_.trivialaugment) {
  MoveSteps* moves = &before_;
  for (const AugmentStep step : augment_.order) {
    if (step == AugmentStep::crop_padding) {
      moves->crop_padding = augment_.crop_padding;
      moves->flip_first = moves->flip;
    } else if (step == AugmentStep::flip) {
      moves->flip = augment_.flip;
    } else if (!policies_of(augment_).empty()) {
      moves = &after_;
    }
  }
  if (images.channels != channels_)
    throw InputError(
        concat("model.channels: the model takes ", channels_, " channels, but the images have ", images.channels));
  if (needs_rgb() && channels_ != 1 && channels_ != Image::kChannels)
    throw InputError(
        concat("train.augment: crops, policies and colour jitter need images of one or three channels; these have ",
               channels_));
  if (!images.masks && !images.encoded && augment_.crop == CropName::none &&
      ImageSize{images.height, images.width} != size_)
    throw InputError(concat("train.augment.crop: the images are ", images.width, "x", images.height,
                            " pixels, but the model takes ", size_.width, "x", size_.height,
                            "; set train.augment.crop, or use equal sizes"));
}

Box TrainTransform::box(ImageSize image, const AugmentDraws& draws) const {
  if (augment_.crop == CropName::inception_tensorflow)
    return crop_box_tensorflow(image.height, image.width, augment_.crop_area, augment_.crop_aspect, draws);
  if (augment_.crop == CropName::inception_torchvision)
    return crop_box_torchvision(image.height, image.width, augment_.crop_area, augment_.crop_aspect, draws);
  return {0, 0, image.height, image.width};
}

ResizeMethod TrainTransform::resize_method(const AugmentDraws& draws) const {
  if (augment_.resize != ResizeMethod::random) return augment_.resize;
  return draws.chance(0.5, DrawName::resize_method) ? ResizeMethod::bilinear : ResizeMethod::bicubic;
}

Image& TrainTransform::sized(std::int64_t index, const AugmentDraws& draws, TransformScratch& scratch) const {
  ImageScratch& s = scratch.images;
  if (augment_.crop == CropName::none) {
    const Image& whole = whole_image(images_, index, s);
    if (ImageSize{whole.height, whole.width} != size_)
      throw InputError(concat(where_is(images_, index), ": is ", whole.width, "x", whole.height,
                              " pixels, but the model takes ", size_.width, "x", size_.height,
                              "; set train.augment.crop"));
    return s.decoded;
  }
  const ResizeMethod method = resize_method(draws);
  if (augment_.crop == CropName::center) {
    EvalTransformConfig center = eval_;
    center.resize = method;
    EvalTransform(center, size_).make(images_, index, scratch.sized, s);
    return scratch.sized;
  }
  ScaledBox from;
  if (images_.encoded) {
    const std::string where = images_.encoded->where(index);
    images_.encoded->read(index, s.bytes);
    const std::int64_t margin = widens(method) ? kDecodeMargin : 0;
    decode_image_box(s.bytes, where, box(image_file_size(s.bytes, where), draws), margin * size_.height,
                     margin * size_.width, s.decoded, from);
  } else {
    whole_image(images_, index, s);
    from = box({images_.height, images_.width}, draws);
  }
  resize(s.decoded, from, method, size_.height, size_.width, scratch.sized, s.resize);
  return scratch.sized;
}

template <class T>
void TrainTransform::operator()(std::int64_t index, std::int64_t epoch, std::int64_t repeat, TransformScratch& scratch,
                                T* out) const {
  const AugmentDraws draws(keys_[static_cast<std::size_t>(index)], epoch, repeat);
  const PixelTable<T>& table = tables_.in<T>();
  auto& patch = std::get<std::vector<T>>(scratch.patch);
  if (!images_.encoded && !needs_rgb()) {
    make_image(images_, index, before_, draws, table, out);
  } else {
    Image* image = &sized(index, draws, scratch);
    const auto move = [&](const MoveSteps& steps) {
      if (!steps.any()) return;
      Image& to = image == &scratch.moved ? scratch.sized : scratch.moved;
      move_image(*image, steps, draws, to);
      image = &to;
    };
    move(before_);
    randaugment_.apply(*image, draws, scratch.ops);
    autoaugment_.apply(*image, draws, scratch.ops);
    trivialaugment_.apply(*image, draws, scratch.ops);
    move(after_);
    color_jitter(*image, augment_.color_jitter, draws);
    normalise_image(*image, channels_, table, out);
  }
  const Box box = erasing_box(augment_.erasing, size_.height, size_.width, draws);
  if (box.height == 0) return;
  draw_patch(augment_.erasing, box, channels_, draws, patch);
  put_patch(patch, box, size_.width, channels_, out);
}

template void TrainTransform::operator()<float>(std::int64_t, std::int64_t, std::int64_t, TransformScratch&,
                                                float*) const;
template void TrainTransform::operator()<double>(std::int64_t, std::int64_t, std::int64_t, TransformScratch&,
                                                 double*) const;

}  // namespace normlab
