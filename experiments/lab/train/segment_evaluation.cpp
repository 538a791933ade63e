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

/// An image at one of the scales, perhaps mirrored.
struct View {
  ImageSize resized;
  bool mirrored = false;
  std::vector<std::int64_t> rows, columns;   // where windows begin
  std::int64_t image = 0, first_window = 0;  // of the chunk
  std::vector<float> pixels;                 // [resized, channels], normalised
  std::int64_t windows() const { return std::ssize(rows) * std::ssize(columns); }
};

/// An image on its way through the network.
struct Pending {
  ImageSize stored;
  std::vector<View> views;
  Mask labels, predicted;
  double loss = 0;
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
    const std::int64_t views = std::ssize(config_.eval.segment.scales) * (config_.eval.segment.mirror ? 2 : 1),
                       made = std::max<std::int64_t>(1, kMade / views);
    double loss = 0;
    for (std::int64_t first = 0; first < n;) {
      std::vector<Pending> chunk(static_cast<std::size_t>(std::min(made, n - first)));
      parallel(chunk, [&](std::size_t i, Pending& image) { read(first + std::int64_t(i), image); });
      run(number_windows(chunk), first);
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
  static constexpr std::int64_t kMade = 32;  // views at a time

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
    for (const double scale : settings.scales) {
      const ImageSize resized =
          fitted_size(out.stored, scaled_side(settings, scale, longer), 0, where_is(call_.images, index));
      resize(whole, Box{0, 0, out.stored.height, out.stored.width}, ResizeMethod::bilinear_plain, resized.height,
             resized.width, scratch.images.resized, scratch.images.resize);
      for (const bool mirrored : {false, true}) {
        if (mirrored && !settings.mirror) continue;
        if (mirrored) flip_columns(scratch.images.resized);
        View& view = out.views.emplace_back();
        view.resized = resized;
        view.mirrored = mirrored;
        view.pixels.resize(static_cast<std::size_t>(resized.height * resized.width * channels_));
        normalise_image(scratch.images.resized, channels_, call_.batches.tables().in<float>(), view.pixels.data());
        const auto stride = [&](std::int64_t window) { return settings.stride > 0 ? settings.stride : window; };
        view.rows = window_starts(resized.height, window_.height, stride(window_.height));
        view.columns = window_starts(resized.width, window_.width, stride(window_.width));
      }
    }
  }

  /// All views, in the order of their windows.
  static std::vector<const View*> number_windows(std::vector<Pending>& chunk) {
    std::vector<const View*> views;
    std::int64_t windows = 0;
    for (std::size_t i = 0; i < chunk.size(); ++i)
      for (View& view : chunk[i].views) {
        view.image = std::int64_t(i);
        view.first_window = windows;
        windows += view.windows();
        views.push_back(&view);
      }
    return views;
  }

  /// Fills logits_ with those of all windows, a batch of the training's size at a time.
  void run(const std::vector<const View*>& views, std::int64_t first_image) {
    const std::int64_t windows = views.back()->first_window + views.back()->windows();
    const std::int64_t values = window_.height * window_.width * channels_;
    const std::int64_t most = std::min(windows, config_.train.batch_size);
    const DType dtype = call_.engine.dtype();
    pixels_.resize(static_cast<std::size_t>(most * values) * size_of(dtype));
    logits_.clear();
    const auto view_of = [&](std::int64_t window) -> const View& {
      return **(std::upper_bound(views.begin(), views.end(), window,
                                 [](std::int64_t w, const View* view) { return w < view->first_window; }) -
                1);
    };
    for (std::int64_t first = 0; first < windows; first += most) {
      const std::int64_t count = std::min(most, windows - first);
      const Tensor batch(pixels_.data(), {count, window_.height, window_.width, channels_}, dtype);
      for (std::int64_t w = 0; w < count; ++w) cut(view_of(first + w), first + w, batch.slice(w, 1));
      std::vector<double> some;
      call_.engine.outputs(batch, some);
      const std::size_t each = some.size() / static_cast<std::size_t>(count);
      for (std::size_t i = 0; i < some.size(); ++i)
        if (!std::isfinite(some[i])) {
          const std::int64_t image = first_image + view_of(first + std::int64_t(i / each)).image;
          throw NonFiniteError(
              concat(call_.prefix, "miou: ", numbered_image(call_.images, image), ": the logit of class ",
                     i % static_cast<std::size_t>(classes_), " is ", nonfinite_word(some[i])),
              some[i]);
        }
      logits_.insert(logits_.end(), some.begin(), some.end());
    }
  }

  Box box_of(const View& view, std::int64_t window) const {
    const std::int64_t at = window - view.first_window, across = std::ssize(view.columns);
    return {view.rows[static_cast<std::size_t>(at / across)], view.columns[static_cast<std::size_t>(at % across)],
            window_.height, window_.width};
  }

  void cut(const View& view, std::int64_t window, const Tensor& to) const {
    const Box box = box_of(view, window);
    const std::int64_t row = box.width * channels_;
    for (std::int64_t y = 0; y < box.height; ++y) {
      const float* from = view.pixels.data() + ((box.top + y) * view.resized.width + box.left) * channels_;
      for_type("window", to.dtype(), [&](auto type) {
        using T = typename decltype(type)::type;
        std::transform(from, from + row, to.data<T>() + y * row, [](float value) { return T(value); });
      });
    }
  }

  /// [stored, classes]
  std::vector<float> logits_of(const View& view, ImageSize stored) const {
    const ImageSize grid{window_.height / patch(), window_.width / patch()};
    const std::int64_t values = grid.height * grid.width * classes_;
    WindowMean mean(view.resized, classes_);
    for (std::int64_t w = view.first_window; w < view.first_window + view.windows(); ++w)
      mean.add(box_of(view, w),
               upsample({logits_.begin() + w * values, logits_.begin() + (w + 1) * values}, grid, window_, classes_));
    std::vector<float> logits = upsample(mean.take(), view.resized, stored, classes_);
    for (std::int64_t y = 0; view.mirrored && y < stored.height; ++y)
      for (std::int64_t left = 0, right = stored.width - 1; left < right; ++left, --right) {
        const auto pixel = [&](std::int64_t x) { return logits.begin() + (y * stored.width + x) * classes_; };
        std::swap_ranges(pixel(left), pixel(left) + classes_, pixel(right));
      }
    return logits;
  }

  void answer(Pending& image) const {
    image.predicted.resize(image.stored.height, image.stored.width);
    if (image.views.size() > 1) return answer_mean(image);
    const std::vector<float> logits = logits_of(image.views.front(), image.stored);
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

  /// The most probable class by the mean of the views' probabilities.
  void answer_mean(Pending& image) const {
    const std::size_t pixels = image.labels.labels.size(), classes = static_cast<std::size_t>(classes_);
    std::vector<float> sums(pixels * classes);
    std::vector<double> of_label(pixels), shares(classes);
    for (const View& view : image.views) {
      const std::vector<float> logits = logits_of(view, image.stored);
      for (std::size_t p = 0; p < pixels; ++p) {
        const float* z = logits.data() + p * classes;
        const double best = double(*std::max_element(z, z + classes_));
        double total = 0;
        for (std::size_t c = 0; c < classes; ++c) total += shares[c] = std::exp(double(z[c]) - best);
        for (std::size_t c = 0; c < classes; ++c) sums[p * classes + c] += float(shares[c] / total);
        if (image.labels.labels[p] != kIgnoredLabel) of_label[p] += shares[image.labels.labels[p]] / total;
      }
    }
    for (std::size_t p = 0; p < pixels; ++p) {
      const float* sum = sums.data() + p * classes;
      image.predicted.labels[p] = static_cast<std::uint8_t>(std::max_element(sum, sum + classes_) - sum);
      if (image.labels.labels[p] != kIgnoredLabel) image.loss -= std::log(of_label[p] / double(image.views.size()));
    }
  }

  std::int64_t patch() const { return std::get<ViTConfig>(config_.model).patch_size; }
};

}  // namespace

std::map<std::string, double> evaluate_segmentation(const SliceCall& call, const SeePrediction& see) {
  return Evaluation{call}.measure(see);
}

}  // namespace normlab
