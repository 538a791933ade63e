#include "nn/probes.h"

#include <algorithm>
#include <cmath>

namespace normlab {
namespace {

/// Calls f with a pointer to the values, whatever their type.
template <class F>
void with_values(const Tensor& t, F&& f) {
  switch (t.dtype()) {
    case DType::f32:
      return f(t.data<float>());
    case DType::f64:
      return f(t.data<double>());
    case DType::bf16:
      return f(t.data<bf16>());
    default:
      throw InputError(concat("probe: features are floating-point numbers, not ", to_string(t.dtype())));
  }
}

template <class T>
double wide(T value) {
  return double(Acc<T>(value));
}

double square(double value) { return value * value; }

double sum_of_squares(const Tensor& t) {
  double sum = 0.0;
  with_values(t, [&](const auto* v) {
    for (std::int64_t i = 0, n = t.size(); i < n; ++i) sum += square(wide(v[i]));
  });
  return sum;
}

/// The groups whose norm a parameter counts in, besides "global".
std::vector<std::string> layers_of(const std::string& name) {
  for (const std::string_view branch : {".attn.", ".mlp."})
    if (const std::size_t at = name.find(branch); at != std::string::npos)
      return {name.substr(0, at), name.substr(0, at + branch.size() - 1)};
  if (name.starts_with("patch_embed.")) return {"patch_embed", "stem"};
  for (const char* begin : {"stem.", "pos_embed", "cls_token"})
    if (name.starts_with(begin)) return {"stem"};
  return {name.substr(0, name.rfind('.'))};
}

}  // namespace

ProbeAxis probe_axis(const Placement& p) {
  for (const NormSpec* site : {&p.attn.pre, &p.mlp.pre, &p.attn.post, &p.mlp.post, &p.attn.out, &p.mlp.out, &p.final})
    if (site->kind != NormKind::none)
      return site->kind == NormKind::batch_norm ? ProbeAxis::channel : ProbeAxis::position;
  return ProbeAxis::position;
}

FeatureStatistics::FeatureStatistics(std::int64_t images, std::int64_t channels)
    : channels_(channels),
      images_(static_cast<std::size_t>(images)),
      channels_sums_(static_cast<std::size_t>(images * 2 * channels)) {}

void FeatureStatistics::see(const Tensor& features, std::int64_t first_image) {
  const std::int64_t count = features.shape()[0];
  if (features.shape().back() != channels_ || first_image + count > static_cast<std::int64_t>(images_.size()))
    throw InputError(concat("probe: features are ", features.shape().str(), ", from image ", first_image,
                            " on; expected ", channels_, " channels of ", images_.size(), " images"));
  const std::int64_t positions = features.shape().rows() / count;
  with_values(features, [&](const auto* v) {
    for (std::int64_t i = 0; i < count; ++i) see_image(v + i * positions * channels_, positions, first_image + i);
  });
}

template <class T>
void FeatureStatistics::see_image(const T* features, std::int64_t positions, std::int64_t image) {
  // Two passes each way: E[x^2] - E[x]^2 loses every digit once the mean dwarfs the spread.
  double* const means = mean(image);
  double* const deviations = means + channels_;
  std::fill_n(means, 2 * channels_, 0.0);
  Image& all = images_[static_cast<std::size_t>(image)];
  all = {positions, 0.0, 0.0};
  for (std::int64_t p = 0; p < positions; ++p) {
    const T* row = features + p * channels_;
    double sum = 0.0, squares = 0.0;
    for (std::int64_t c = 0; c < channels_; ++c) sum += wide(row[c]), means[c] += wide(row[c]);
    const double row_mean = sum / double(channels_);
    for (std::int64_t c = 0; c < channels_; ++c) squares += square(wide(row[c]) - row_mean);
    all.squared_means += square(row_mean);
    all.variances += squares / double(channels_);
  }
  for (std::int64_t c = 0; c < channels_; ++c) means[c] /= double(positions);
  for (std::int64_t p = 0; p < positions; ++p) {
    const T* row = features + p * channels_;
    for (std::int64_t c = 0; c < channels_; ++c) deviations[c] += square(wide(row[c]) - means[c]);
  }
}

FeatureMoments FeatureStatistics::moments(ProbeAxis axis) const {
  FeatureMoments out;
  if (axis == ProbeAxis::position) {
    std::int64_t positions = 0;
    for (const Image& image : images_) {
      out.afsm += image.squared_means;
      out.afv += image.variances;
      positions += image.positions;
    }
    return {out.afsm / double(positions), out.afv / double(positions)};
  }
  // Chan, Golub and LeVeque: two means and sums of squared deviations put together without a difference of large sums.
  for (std::int64_t c = 0; c < channels_; ++c) {
    double count = 0.0, centre = 0.0, deviations = 0.0;
    for (std::size_t i = 0; i < images_.size(); ++i) {
      const double* of_image = mean(static_cast<std::int64_t>(i));
      const double n = double(images_[i].positions), total = count + n, shift = of_image[c] - centre;
      centre += shift * n / total;
      deviations += of_image[channels_ + c] + square(shift) * count * n / total;
      count = total;
    }
    out.afsm += square(centre);
    out.afv += deviations / count;
  }
  return {out.afsm / double(channels_), out.afv / double(channels_)};
}

void SignalProbe::observe(Context& ctx) {
  const std::int64_t images = ctx.step_images > 0 ? ctx.step_images : ctx.slice.batch;
  const std::int64_t first = ctx.part_begin + ctx.slice.first_image;
  Backend& backend = ctx.tape.backend();
  ctx.observe_branch = [this, &backend, images, first](const std::string& name, const Var& branch) {
    Point* point = nullptr;
    {
      const std::lock_guard lock(mutex_);
      point = find(name);
      // A shard that is the first here was at all points before: the order is that of the network.
      if (point == nullptr)
        point = points_.emplace_back(std::make_unique<Point>(name, images, branch.shape().back())).get();
    }
    backend.synchronize();  // a device may not have come to it
    point->branch.see(branch.value(), first);
  };
  ctx.observe = [this, &backend, first](const std::string& name, const Var& value) {
    Point* point = nullptr;
    {
      const std::lock_guard lock(mutex_);
      point = find(name);
    }
    if (point == nullptr) return;  // only a sum has a branch
    backend.synchronize();
    point->stream.see(value.value(), first);
  };
}

SignalProbe::Point* SignalProbe::find(const std::string& name) const {
  const auto found = std::find_if(points_.begin(), points_.end(), [&](const auto& p) { return p->name == name; });
  return found == points_.end() ? nullptr : found->get();
}

std::vector<SignalProbe::Layer> SignalProbe::layers() const {
  std::vector<Layer> out;
  for (const auto& point : points_) {
    Layer& layer = out.emplace_back(Layer{point->name, {}, {}});
    for (const ProbeAxis axis : kProbeAxes) {
      layer.stream[static_cast<std::size_t>(axis)] = point->stream.moments(axis);
      layer.branch[static_cast<std::size_t>(axis)] = point->branch.moments(axis);
    }
  }
  return out;
}

double gradient_norm(const ParameterSet& parameters, int parameter) {
  return std::sqrt(sum_of_squares(parameters.gradient(0, parameter)));
}

std::vector<GradientNorm> gradient_norms(const ParameterSet& parameters, ShardPool& pool) {
  const std::vector<ParameterInfo>& all = parameters.parameters();
  std::vector<double> squares(all.size());
  pool.for_blocks(static_cast<std::int64_t>(all.size()), [&](std::int64_t p) {
    squares[static_cast<std::size_t>(p)] = sum_of_squares(parameters.gradient(0, static_cast<int>(p)));
  });
  std::vector<GradientNorm> norms;
  double total = 0.0;
  for (std::size_t p = 0; p < all.size(); ++p) {
    total += squares[p];
    for (const std::string& layer : layers_of(all[p].name)) {
      auto found = std::find_if(norms.begin(), norms.end(), [&](const GradientNorm& n) { return n.layer == layer; });
      if (found == norms.end()) found = norms.insert(norms.end(), {layer, 0.0});
      found->norm += squares[p];
    }
  }
  norms.push_back({"global", total});
  for (GradientNorm& n : norms) n.norm = std::sqrt(n.norm);
  return norms;
}

}  // namespace normlab
