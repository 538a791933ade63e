#include "experiments/lab/train/whitening.h"

#include <algorithm>

#include "core/for_type.h"
#include "experiments/lab/data/picked_images.h"
#include "experiments/lab/metrics/zca.h"
#include "experiments/lab/train/batches.h"

namespace normlab {
namespace {

constexpr std::int64_t kImagesAtOnce = 64;

/// The patches of images [B, H, W, C] as patchify() cuts them: rows of (row, column, channel).
std::vector<double> patches_of(const Tensor& images, std::int64_t side) {
  const Shape& s = images.shape();
  const double* const pixels = images.data<double>();
  std::vector<double> rows;
  rows.reserve(static_cast<std::size_t>(images.size()));
  for (std::int64_t image = 0; image < s[0]; ++image)
    for (std::int64_t top = 0; top < s[1]; top += side)
      for (std::int64_t left = 0; left < s[2]; left += side)
        for (std::int64_t y = top; y < top + side; ++y) {
          const double* const line = pixels + ((image * s[1] + y) * s[2] + left) * s[3];
          rows.insert(rows.end(), line, line + side * s[3]);
        }
  return rows;
}

void write(const Tensor& to, const std::vector<double>& values) {
  for_type("whiten", to.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    std::transform(values.begin(), values.end(), to.data<T>(), [](double value) { return T(value); });
  });
}

}  // namespace

void fit_whitening(const TrialConfig& config, const ImageSet& train, ParameterSet& parameters, ShardPool& pool) {
  const NormSpec& spec = placement_of(config.model).stem.patch_in;
  if (spec.kind != NormKind::whiten) return;
  const Tensor weight = parameters.value(parameters.find("stem.patch_in.weight"));
  const Tensor bias = parameters.value(parameters.find("stem.patch_in.bias"));
  const auto width = static_cast<std::size_t>(bias.size());
  const std::int64_t side = network(config.model).patch_size;
  const ImageSet sample = picked_images(train, evenly_spaced(train.size(), spec.sample));
  BatchSource batches(config, train, sample, DType::f64);
  Moments moments(width);
  const std::int64_t images = sample.size();
  for (std::int64_t first = 0; first < images; first += kImagesAtOnce)
    moments.add(patches_of(batches.evaluation(first, std::min(kImagesAtOnce, images - first), pool).images, side));
  const std::vector<double> w = zca(moments.covariance(), width, spec.eps), mean = moments.mean();
  std::vector<double> b(width);
  for (std::size_t i = 0; i < width; ++i)
    for (std::size_t k = 0; k < width; ++k) b[i] -= w[i * width + k] * mean[k];
  write(weight, w);
  write(bias, b);
}

}  // namespace normlab
