#include "nn/probes/probes.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "core/backend.h"
#include "core/for_type.h"
#include "nn/model/sites.h"

namespace normlab {
namespace {

/// Calls f with a pointer to the values, whatever their type.
template <class F>
void with_values(const Tensor& t, F&& f) {
  for_type("probe", t.dtype(), [&](auto type) { f(t.data<typename decltype(type)::type>()); });
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

/// The groups to whose norm a parameter contributes, besides "global".
std::vector<std::string> layers_of(const ParameterInfo& info) {
  const std::string prefix = info.place.prefix();
  if (info.place.block >= 0) return {prefix.substr(0, prefix.size() - 1), concat(prefix, info.place.branch)};
  if (info.role == Role::patch_embed) return {"patch_embed", "stem"};
  if (info.place.layer == 0) return {concat(prefix, "stem")};
  if (!is_linear(info.role) && info.site == nullptr) return {info.name};  // the temperature of image-text training
  return {concat(prefix, is_linear(info.role) ? row_of(info.role).path : info.site->path)};
}

}  // namespace

ProbeAxis probe_axis(const Placement& p) {
  for (const NormSpec* site : {&p.attn.pre, &p.mlp.pre, &p.attn.post, &p.mlp.post, &p.attn.out, &p.mlp.out, &p.final})
    if (site->kind != NormKind::none)
      return parts_of(site->kind).over == Statistics::batch ? ProbeAxis::channel : ProbeAxis::position;
  return ProbeAxis::position;
}

FeatureStatistics::FeatureStatistics(std::int64_t images, std::int64_t channels)
    : channels_(channels),
      positions_(static_cast<std::size_t>(images)),
      images_sums_(static_cast<std::size_t>(images * 2)),
      channels_sums_(static_cast<std::size_t>(images * 2 * channels)) {}

TokenDims FeatureStatistics::dims_of(const Tensor& features, std::int64_t first_image) {
  const std::int64_t count = features.shape()[0];
  if (features.shape().back() != channels_ || first_image + count > static_cast<std::int64_t>(positions_.size()))
    throw InputError(concat("probe: features are ", features.shape().str(), ", from image ", first_image,
                            " on; expected ", channels_, " channels of ", positions_.size(), " images"));
  const std::int64_t positions = features.shape().rows() / count;
  std::fill_n(positions_.begin() + first_image, count, positions);
  return {count, positions, channels_};
}

void FeatureStatistics::see(const Tensor& features, std::int64_t first_image) {
  const TokenDims dims = dims_of(features, first_image);
  cpu_backend().feature_statistics(dims, features,
                                   Tensor(images_sums_.data() + 2 * first_image, {dims.batch, 2}, DType::f64),
                                   Tensor(mean(first_image), {dims.batch, 2, channels_}, DType::f64));
}

void FeatureStatistics::see(const Var& features, std::int64_t first_image) {
  const TokenDims dims = dims_of(features.value(), first_image);
  Tape& tape = features.tape();
  const Tensor of_images = tape.empty({dims.batch, 2}, DType::f64),
               of_channels = tape.empty({dims.batch, 2, channels_}, DType::f64);
  tape.backend().feature_statistics(dims, features.value(), of_images, of_channels);
  tape.backend().read(of_images, images_sums_.data() + 2 * first_image);
  tape.backend().read(of_channels, mean(first_image));
}

void FeatureStatistics::gather(Ranks& ranks) {
  const std::int64_t images = ranks.shared(this->images()), all_channels = ranks.shared(channels_);
  if (this->images() == 0) *this = FeatureStatistics(images, all_channels);  // this rank saw none of them
  const auto channels = static_cast<std::size_t>(2 * channels_);
  for (int r = 0; r < ranks.size(); ++r) {
    std::vector<std::int64_t> positions = positions_;
    std::vector<double> images_sums = images_sums_, channels_sums = channels_sums_;
    ranks.share(positions, r);
    ranks.share(images_sums, r);
    ranks.share(channels_sums, r);
    for (std::size_t i = 0; i < positions.size(); ++i) {
      if (positions[i] == 0) continue;
      positions_[i] = positions[i];
      std::copy_n(&images_sums[2 * i], 2, &images_sums_[2 * i]);
      std::copy_n(&channels_sums[channels * i], channels, &channels_sums_[channels * i]);
    }
  }
}

FeatureMoments FeatureStatistics::moments(ProbeAxis axis) const {
  FeatureMoments out;
  if (axis == ProbeAxis::position) {
    std::int64_t positions = 0;
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      out.afsm += images_sums_[2 * i];
      out.afv += images_sums_[2 * i + 1];
      positions += positions_[i];
    }
    return {out.afsm / double(positions), out.afv / double(positions)};
  }
  // Chan, Golub and LeVeque: combines two means and sums of squared deviations without a difference of large sums.
  for (std::int64_t c = 0; c < channels_; ++c) {
    double count = 0.0, centre = 0.0, deviations = 0.0;
    for (std::size_t i = 0; i < positions_.size(); ++i) {
      const double* of_image = mean(static_cast<std::int64_t>(i));
      const double n = double(positions_[i]), total = count + n, shift = of_image[c] - centre;
      centre += shift * n / total;
      deviations += of_image[channels_ + c] + square(shift) * count * n / total;
      count = total;
    }
    out.afsm += square(centre);
    out.afv += deviations / count;
  }
  return {out.afsm / double(channels_), out.afv / double(channels_)};
}

void SignalProbe::observe(Observers& observers) {
  observers.branch = [this](const Shard& shard, const std::string& name, const Var& branch) {
    Point& point = points_.at(name, [&] {
      const FeatureStatistics empty(shard.step_images(), branch.shape().back());
      return Point{empty, empty};
    });
    point.branch.see(branch, shard.first_image());
  };
  observers.value = [this](const Shard& shard, const std::string& name, const Var& value) {
    if (Point* point = points_.find(name)) point->stream.see(value, shard.first_image());  // only a sum has a branch
  };
}

void SignalProbe::gather(Ranks& ranks) {
  if (ranks.alone()) return;
  points_.share_names(ranks);
  for (const auto& point : points_) {
    point->record.stream.gather(ranks);
    point->record.branch.gather(ranks);
  }
}

std::vector<SignalProbe::Layer> SignalProbe::layers() const {
  std::vector<Layer> out;
  for (const auto& point : points_) {
    Layer& layer = out.emplace_back(Layer{point->name, {}, {}});
    for (const ProbeAxis axis : kProbeAxes) {
      layer.stream[static_cast<std::size_t>(axis)] = point->record.stream.moments(axis);
      layer.branch[static_cast<std::size_t>(axis)] = point->record.branch.moments(axis);
    }
  }
  return out;
}

double gradient_norm(const ParameterSet& parameters, int parameter) {
  return std::sqrt(sum_of_squares(parameters.gradient(0, parameter)));
}

namespace {

/// The norm by layer of what `square_of` gives the squared norm of, for each parameter that is trained.
template <class F>
std::vector<GradientNorm> norms_by_layer(const ParameterSet& parameters, ShardPool& pool, const F& square_of) {
  const std::vector<ParameterInfo>& all = parameters.parameters();
  std::vector<double> squares(all.size());
  pool.for_blocks(static_cast<std::int64_t>(all.size()), [&](std::int64_t p) {
    if (!parameters.is_frozen(static_cast<int>(p)))
      squares[static_cast<std::size_t>(p)] = square_of(static_cast<int>(p));
  });
  std::vector<GradientNorm> norms;
  double total = 0.0;
  for (std::size_t p = 0; p < all.size(); ++p) {
    if (all[p].frozen) continue;
    total += squares[p];
    for (const std::string& layer : layers_of(all[p])) {
      auto found = std::find_if(norms.begin(), norms.end(), [&](const GradientNorm& n) { return n.layer == layer; });
      if (found == norms.end()) found = norms.insert(norms.end(), {layer, 0.0});
      found->norm += squares[p];
    }
  }
  norms.push_back({"global", total});
  for (GradientNorm& n : norms) n.norm = std::sqrt(n.norm);
  return norms;
}

}  // namespace

std::vector<GradientNorm> gradient_norms(const ParameterSet& parameters, ShardPool& pool) {
  return norms_by_layer(parameters, pool, [&](int p) { return sum_of_squares(parameters.gradient(0, p)); });
}

UpdateProbe::UpdateProbe(const ParameterSet& parameters) {
  for (std::size_t p = 0; p < parameters.parameters().size(); ++p) {
    std::vector<double>& values = before_.emplace_back();
    with_values(parameters.read(static_cast<int>(p)), [&](const auto* v) {
      const auto n = static_cast<std::size_t>(parameters.read(static_cast<int>(p)).size());
      values.resize(n);
      for (std::size_t i = 0; i < n; ++i) values[i] = wide(v[i]);
    });
  }
}

std::vector<GradientNorm> UpdateProbe::ratios(const ParameterSet& parameters, ShardPool& pool) const {
  const auto values = [&](int p) -> const std::vector<double>& { return before_[static_cast<std::size_t>(p)]; };
  std::vector<GradientNorm> updates = norms_by_layer(parameters, pool, [&](int p) {
    double sum = 0.0;
    with_values(parameters.read(p), [&](const auto* v) {
      for (std::size_t i = 0; i < values(p).size(); ++i) sum += square(wide(v[i]) - values(p)[i]);
    });
    return sum;
  });
  const std::vector<GradientNorm> weights = norms_by_layer(parameters, pool, [&](int p) {
    return std::accumulate(values(p).begin(), values(p).end(), 0.0, [](double sum, double v) { return sum + v * v; });
  });
  for (std::size_t i = 0; i < updates.size(); ++i) updates[i].norm /= weights[i].norm;
  return updates;
}

}  // namespace normlab
