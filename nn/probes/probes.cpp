#include "nn/probes/probes.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "core/backend.h"
#include "core/for_type.h"
#include "nn/model/sites.h"

namespace normlab {
namespace {

double square(double value) { return value * value; }

double sum_of_squares(const Tensor& t) {
  double sum = 0.0;
  for (std::int64_t i = 0; i < t.size(); ++i) sum += square(number_at(t, i));
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

std::size_t place_of_largest(std::span<const double> values) {
  return static_cast<std::size_t>(std::max_element(values.begin(), values.end()) - values.begin());
}

/// The place of the largest of each of `count` rows.
std::vector<std::size_t> largest_of_rows(const std::vector<double>& values, std::int64_t count) {
  std::vector<std::size_t> out;
  const std::size_t width = values.size() / static_cast<std::size_t>(count);
  for (std::size_t at = 0; at < values.size(); at += width)
    out.push_back(place_of_largest(std::span(values).subspan(at, width)));
  return out;
}

}  // namespace

double number_at(const Tensor& t, std::int64_t i) {
  switch (t.dtype()) {
    case DType::f64:
      return t.data<double>()[i];
    case DType::bf16:
      return double(float(t.data<bf16>()[i]));
    default:
      return double(t.data<float>()[i]);
  }
}

std::vector<double> values_of(Backend& backend, const Tensor& t) {
  std::vector<double> out(static_cast<std::size_t>(t.size()));
  for_type("probe", t.dtype(), [&]<class T>(Type<T>) {
    std::vector<T> raw(out.size());
    backend.read(t, raw.data());
    backend.synchronize();
    std::transform(raw.begin(), raw.end(), out.begin(), [](T v) { return double(Acc<T>(v)); });
  });
  return out;
}

ProbeAxis probe_axis(const Placement& p) {
  for (const NormSpec* site : {&p.attn.pre, &p.mlp.pre, &p.attn.post, &p.mlp.post, &p.attn.out, &p.mlp.out, &p.final})
    if (site->kind != NormKind::none)
      return statistics_of(*site) == Statistics::batch ? ProbeAxis::channel : ProbeAxis::position;
  return ProbeAxis::position;
}

FeatureStatistics::FeatureStatistics(std::int64_t images, std::int64_t channels)
    : positions_(images, 1), sums_(images, 2), channel_sums_(images, 2 * channels) {}

void FeatureStatistics::see(const Var& features, std::int64_t first_image) {
  const Shape& shape = features.shape();
  const std::int64_t count = shape[0], channels = channel_sums_.width() / 2;
  if (shape.back() != channels || first_image + count > positions_.images())
    throw InputError(concat("probe: features are ", shape.str(), ", from image ", first_image, " on; expected ",
                            channels, " channels of ", positions_.images(), " images"));
  const std::int64_t positions = shape.rows() / count;
  std::fill_n(positions_.row(first_image), count, double(positions));
  Tape& tape = features.tape();
  const Tensor sums = tape.empty({count, 2}, DType::f64), channel_sums = tape.empty({count, 2, channels}, DType::f64);
  tape.backend().feature_statistics({count, positions, channels}, features.value(), sums, channel_sums);
  tape.backend().read(sums, sums_.row(first_image));
  tape.backend().read(channel_sums, channel_sums_.row(first_image));
}

FeatureMoments FeatureStatistics::moments(ProbeAxis axis) const {
  FeatureMoments out;
  const std::int64_t images = positions_.images(), channels = channel_sums_.width() / 2;
  if (axis == ProbeAxis::position) {
    double positions = 0.0;
    for (std::int64_t i = 0; i < images; ++i) {
      out.afsm += sums_.row(i)[0];
      out.afv += sums_.row(i)[1];
      positions += *positions_.row(i);
    }
    return {out.afsm / positions, out.afv / positions};
  }
  // Chan, Golub and LeVeque: combines two means and sums of squared deviations without a difference of large sums.
  for (std::int64_t c = 0; c < channels; ++c) {
    double count = 0.0, centre = 0.0, deviations = 0.0;
    for (std::int64_t i = 0; i < images; ++i) {
      const double* sums = channel_sums_.row(i);
      const double n = *positions_.row(i), total = count + n, shift = sums[c] - centre;
      centre += shift * n / total;
      deviations += sums[channels + c] + square(shift) * count * n / total;
      count = total;
    }
    out.afsm += square(centre);
    out.afv += deviations / count;
  }
  return {out.afsm / double(channels), out.afv / double(channels)};
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

void BatchAccuracyProbe::observe(Observers& observers, Backend& backend, const Tensor& targets) {
  const std::int64_t images = targets.shape()[0];
  if (targets.dtype() == DType::i32) {
    std::vector<std::int32_t> labels(static_cast<std::size_t>(images));
    backend.read(targets, labels.data());
    backend.synchronize();
    wanted_.assign(labels.begin(), labels.end());
  } else {
    wanted_ = largest_of_rows(values_of(backend, targets), images);
  }
  right_ = ImageRows(images, 1);
  observers.value = [this, before = std::move(observers.value)](const Shard& shard, const std::string& name,
                                                                const Var& value) {
    if (before) before(shard, name, value);
    if (name != "outputs") return;
    const std::int64_t first = shard.first_image(), count = shard.slice.images;
    const std::vector<std::size_t> answers = largest_of_rows(values_of(shard.tape.backend(), value.value()), count);
    for (std::int64_t i = 0; i < count; ++i)
      *right_.row(first + i) =
          answers[static_cast<std::size_t>(i)] == wanted_[static_cast<std::size_t>(first + i)] ? 1.0 : 0.0;
  };
}

double BatchAccuracyProbe::accuracy() const {
  return std::accumulate(right_.row(0), right_.row(right_.images()), 0.0) / double(right_.images());
}

std::vector<GradientNorm> gradient_norms(const ParameterSet& parameters, ShardPool& pool) {
  return norms_by_layer(parameters, pool, [&](int p) { return sum_of_squares(parameters.gradient(0, p)); });
}

UpdateProbe::UpdateProbe(const ParameterSet& parameters) {
  for (std::size_t p = 0; p < parameters.parameters().size(); ++p) {
    const Tensor now = parameters.read(static_cast<int>(p));
    std::vector<double>& values = before_.emplace_back();
    for (std::int64_t i = 0; i < now.size(); ++i) values.push_back(number_at(now, i));
  }
}

std::vector<GradientNorm> UpdateProbe::ratios(const ParameterSet& parameters, ShardPool& pool) const {
  const auto values = [&](int p) -> const std::vector<double>& { return before_[static_cast<std::size_t>(p)]; };
  std::vector<GradientNorm> updates = norms_by_layer(parameters, pool, [&](int p) {
    double sum = 0.0;
    const Tensor now = parameters.read(p);
    for (std::int64_t i = 0; i < now.size(); ++i) sum += square(number_at(now, i) - values(p)[std::size_t(i)]);
    return sum;
  });
  const std::vector<GradientNorm> weights = norms_by_layer(parameters, pool, [&](int p) {
    return std::accumulate(values(p).begin(), values(p).end(), 0.0, [](double sum, double v) { return sum + v * v; });
  });
  for (std::size_t i = 0; i < updates.size(); ++i) updates[i].norm /= weights[i].norm;
  return updates;
}

}  // namespace normlab
