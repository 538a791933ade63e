#include "experiments/lab/train/tasks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/for_type.h"
#include "core/nonfinite.h"
#include "experiments/lab/data/segment_transform.h"
#include "experiments/lab/data/sliding_windows.h"
#include "experiments/lab/metrics/class_scores.h"
#include "experiments/lab/metrics/mean_iou.h"
#include "nn/training/engine.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {

/// An image on its way through the network.
struct Pending {
  ImageSize stored, resized;
  std::vector<std::int64_t> rows, columns;  // where windows begin
  std::int64_t first_window = 0;            // of the chunk
  std::vector<float> pixels;                // [resized, channels], normalised
  Mask labels, predicted;
  double loss = 0;
  std::int64_t windows() const { return std::ssize(rows) * std::ssize(columns); }
};

struct Evaluation {
  const SliceCall& call_;
  const TrialConfig& config_ = call_.batches.config();
  const ImageSize window_{image_size(config_.model)[0], image_size(config_.model)[1]};
  const std::int64_t channels_ = normlab::channels(config_.model), classes_ = num_classes(config_.model);
  ConfusionMatrix confusion_{classes_};
  ScratchPool scratch_{};
  std::vector<std::byte> pixels_{};
  std::vector<float> logits_{};  // [windows of the chunk, grid, classes]

  std::map<std::string, double> measure(const SeePrediction& see) {
    const std::int64_t n = call_.images.size();
    double loss = 0;
    for (std::int64_t first = 0; first < n;) {
      std::vector<Pending> chunk(static_cast<std::size_t>(std::min(kMade, n - first)));
      parallel(chunk, [&](std::size_t i, Pending& image) { read(first + std::int64_t(i), image); });
      const std::int64_t windows = number_windows(chunk);
      run(chunk, windows, first);
      parallel(chunk, [&](std::size_t, Pending& image) { answer(image); });
      for (std::size_t i = 0; i < chunk.size(); ++i) {
        const Pending& image = chunk[i];
        for (std::size_t p = 0; p < image.labels.labels.size(); ++p)
          confusion_.add(image.labels.labels[p], image.predicted.labels[p]);
        loss += image.loss;
        if (see) see(first + std::int64_t(i), image.predicted);
      }
      first += std::ssize(chunk);
    }
    const std::int64_t labelled = confusion_.total();
    if (labelled == 0)
      throw InputError(fmt::format("{}miou: no pixel of the {} masks has a class; all are ignored", call_.prefix, n));
    if (call_.facts != nullptr) *call_.facts = {n, constant_pixels(confusion_.labelled())};
    return {{call_.prefix + "miou", confusion_.mean_iou()},
            {call_.prefix + "pixel_accuracy", confusion_.pixel_accuracy()},
            {call_.prefix + "loss", loss / double(labelled)}};
  }

 private:
  static constexpr std::int64_t kMade = 32;  // images at a time

  template <class F>
  void parallel(std::vector<Pending>& chunk, F&& f) {
    call_.pool.for_blocks(std::ssize(chunk), [&](std::int64_t i) { f(std::size_t(i), chunk[std::size_t(i)]); });
  }

  void read(std::int64_t index, Pending& out) {
    const ScratchPool::Lease lease(scratch_);
    TransformScratch& scratch = *lease;
    const Image& whole = whole_image(call_.images, index, scratch.images);
    out.stored = {whole.height, whole.width};
    call_.images.masks->read(index, out.labels, scratch.images.bytes);
    require_same_size(out.labels, out.stored, call_.images.masks->where(index));
    const SegmentEvalConfig& settings = config_.eval.segment;
    const std::int64_t longer = std::max(window_.height, window_.width);
    out.resized =
        fitted_size(out.stored, settings.resize_to > 0 ? settings.resize_to : longer, 0, where_is(call_.images, index));
    resize(whole, Box{0, 0, out.stored.height, out.stored.width}, ResizeMethod::bilinear_plain, out.resized.height,
           out.resized.width, scratch.images.resized, scratch.images.resize);
    out.pixels.resize(static_cast<std::size_t>(out.resized.height * out.resized.width * channels_));
    normalise_image(scratch.images.resized, channels_, call_.batches.tables().in<float>(), out.pixels.data());
    const auto stride = [&](std::int64_t side) { return settings.stride > 0 ? settings.stride : side; };
    out.rows = window_starts(out.resized.height, window_.height, stride(window_.height));
    out.columns = window_starts(out.resized.width, window_.width, stride(window_.width));
  }

  static std::int64_t number_windows(std::vector<Pending>& chunk) {
    std::int64_t windows = 0;
    for (Pending& image : chunk) {
      image.first_window = windows;
      windows += image.windows();
    }
    return windows;
  }

  /// Fills logits_ with those of all windows, a batch of the training's size at a time.
  void run(const std::vector<Pending>& chunk, std::int64_t windows, std::int64_t first_image) {
    const std::int64_t values = window_.height * window_.width * channels_;
    const std::int64_t most = std::min(windows, config_.train.batch_size);
    const DType dtype = call_.engine.dtype();
    pixels_.resize(static_cast<std::size_t>(most * values) * size_of(dtype));
    logits_.clear();
    const auto image_of = [&](std::int64_t window) {
      return std::upper_bound(chunk.begin(), chunk.end(), window,
                              [](std::int64_t w, const Pending& image) { return w < image.first_window; }) -
             chunk.begin() - 1;
    };
    for (std::int64_t first = 0; first < windows; first += most) {
      const std::int64_t count = std::min(most, windows - first);
      const Tensor batch(pixels_.data(), {count, window_.height, window_.width, channels_}, dtype);
      for (std::int64_t w = 0; w < count; ++w)
        cut(chunk[static_cast<std::size_t>(image_of(first + w))], first + w, batch.slice(w, 1));
      std::vector<double> some;
      call_.engine.outputs(batch, some);
      const std::size_t each = some.size() / static_cast<std::size_t>(count);
      for (std::size_t i = 0; i < some.size(); ++i)
        if (!std::isfinite(some[i])) {
          const std::int64_t image = first_image + image_of(first + std::int64_t(i / each));
          throw NonFiniteError(
              concat(call_.prefix, "miou: ", numbered_image(call_.images, image), ": the logit of class ",
                     i % static_cast<std::size_t>(classes_), " is ", nonfinite_word(some[i])),
              some[i]);
        }
      logits_.insert(logits_.end(), some.begin(), some.end());
    }
  }

  Box box_of(const Pending& image, std::int64_t window) const {
    const std::int64_t at = window - image.first_window, across = std::ssize(image.columns);
    return {image.rows[static_cast<std::size_t>(at / across)], image.columns[static_cast<std::size_t>(at % across)],
            window_.height, window_.width};
  }

  void cut(const Pending& image, std::int64_t window, const Tensor& to) const {
    const Box box = box_of(image, window);
    const std::int64_t row = box.width * channels_;
    for (std::int64_t y = 0; y < box.height; ++y) {
      const float* from = image.pixels.data() + ((box.top + y) * image.resized.width + box.left) * channels_;
      for_type("window", to.dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        std::transform(from, from + row, to.data<T>() + y * row, [](float value) { return T(value); });
      });
    }
  }

  void answer(Pending& image) const {
    const ImageSize grid{window_.height / patch(), window_.width / patch()};
    const std::int64_t values = grid.height * grid.width * classes_;
    WindowMean mean(image.resized, classes_);
    for (std::int64_t w = image.first_window; w < image.first_window + image.windows(); ++w)
      mean.add(box_of(image, w),
               upsample({logits_.begin() + w * values, logits_.begin() + (w + 1) * values}, grid, window_, classes_));
    const std::vector<float> logits = upsample(mean.take(), image.resized, image.stored, classes_);
    image.predicted.resize(image.stored.height, image.stored.width);
    for (std::size_t p = 0; p < image.labels.labels.size(); ++p) {
      const float* z = logits.data() + p * static_cast<std::size_t>(classes_);
      const float* best = std::max_element(z, z + classes_);
      image.predicted.labels[p] = static_cast<std::uint8_t>(best - z);
      const std::int32_t label = image.labels.labels[p];
      if (label == kIgnoredLabel) continue;
      double total = 0;
      for (std::int64_t c = 0; c < classes_; ++c) total += std::exp(double(z[c]) - double(*best));
      image.loss += std::log(total) - (double(z[label]) - double(*best));
    }
  }

  std::int64_t patch() const { return std::get<ViTConfig>(config_.model).patch_size; }
};

}  // namespace

std::map<std::string, double> evaluate_segmentation(const SliceCall& call, const SeePrediction& see) {
  return Evaluation{call}.measure(see);
}

}  // namespace normlab
