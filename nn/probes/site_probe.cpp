#include "nn/probes/site_probe.h"

#include <algorithm>
#include <cmath>

#include "core/backend.h"
#include "core/cpu/window_bias.h"
#include "nn/probes/probes.h"

namespace normlab {
std::size_t activation_bin(double value) {
  if (std::isnan(value)) return kActivationBins;
  const double size = std::abs(value);
  constexpr std::size_t kZero = 2 * kBinOctaves;
  if (size < std::ldexp(1.0, -kBinOctaves)) return kZero;
  const int octave = std::isinf(size) ? kBinOctaves : std::min(std::ilogb(size), kBinOctaves);
  const auto from_zero = static_cast<std::size_t>(std::min(octave + kBinOctaves + 1, 2 * kBinOctaves));
  return value < 0 ? kZero - from_zero : kZero + from_zero;
}

double bin_edge(std::size_t bin) {
  constexpr int kZero = 2 * kBinOctaves;
  const int from_zero = static_cast<int>(bin) - kZero;
  if (from_zero == 0) return 0;
  const double size = std::ldexp(1.0, std::abs(from_zero) - 1 - kBinOctaves);
  return from_zero < 0 ? -size : size;
}

void NormProbe::observe(Observers& observers) {
  observers.norm = [this](const Shard& shard, const std::string& name, const NormSeen& seen) {
    const std::int64_t first = shard.first_image(), images = shard.slice.images;
    Backend& backend = shard.tape.backend();
    Record& site = records_.at(name, [&] {
      return Record{ImageRows(shard.step_images(), std::int64_t(7 + kActivationBins)),
                    ImageRows(kMappedImages, 4 * kMappedPoints)};
    });
    const std::vector<double> x = values_of(backend, seen.x.value());
    const std::size_t each = x.size() / static_cast<std::size_t>(images);
    for (std::int64_t i = 0; i < images; ++i) {
      double s1 = 0, s2 = 0, s3 = 0, s4 = 0, lowest = HUGE_VAL, highest = -HUGE_VAL;
      std::array<std::int64_t, kActivationBins + 1> bins{};
      for (std::size_t k = 0; k < each; ++k) {
        const double v = x[static_cast<std::size_t>(i) * each + k], squared = v * v;
        s1 += v;
        s2 += squared;
        s3 += squared * v;
        s4 += squared * squared;
        lowest = std::min(lowest, v);
        highest = std::max(highest, v);
        ++bins[activation_bin(v)];
      }
      const double sums[] = {s1, s2, s3, s4, lowest, highest, double(each)};
      double* const row = std::copy(std::begin(sums), std::end(sums), site.sums.row(first + i));
      std::copy_n(bins.begin(), kActivationBins, row);
    }
    if (!points_ || first >= kMappedImages) return;
    const std::vector<double> y = values_of(backend, seen.y.value());
    const std::vector<double> gamma = seen.gamma ? values_of(backend, seen.gamma.value()) : std::vector<double>();
    const std::vector<double> beta = seen.beta ? values_of(backend, seen.beta.value()) : std::vector<double>();
    const auto width = static_cast<std::size_t>(seen.x.shape().back());
    for (std::int64_t i = 0; i < std::min(images, kMappedImages - first); ++i) {
      double* point = site.points.row(first + i);
      for (std::int64_t k = 0; k < std::min<std::int64_t>(kMappedPoints, static_cast<std::int64_t>(each)); ++k) {
        // Steps of the golden ratio spread over tokens and channels.
        const double turn = double(k) * 0.6180339887498949;
        const auto at = static_cast<std::size_t>((turn - std::floor(turn)) * double(each));
        const std::size_t index = static_cast<std::size_t>(i) * each + at, channel = at % width;
        const double gain = gamma.empty() ? 1.0 : gamma[channel], shift = beta.empty() ? 0.0 : beta[channel];
        if (gain == 0.0) continue;
        for (const double value : {x[index], (y[index] - shift) / gain, double(at / width), double(channel)})
          *point++ = value;
      }
    }
  };
}

std::vector<NormProbe::Site> NormProbe::sites() const {
  std::vector<Site> out;
  for (const auto& named : records_) {
    Record& record = named->record;
    Site& site = out.emplace_back();
    site.name = named->name;
    ActivationMoments& m = site.moments;
    m.lowest = HUGE_VAL;
    m.highest = -HUGE_VAL;
    double s1 = 0, s2 = 0, s3 = 0, s4 = 0;
    for (std::int64_t i = 0; i < record.sums.images(); ++i) {
      const double* const row = record.sums.row(i);
      s1 += row[0];
      s2 += row[1];
      s3 += row[2];
      s4 += row[3];
      m.lowest = std::min(m.lowest, row[4]);
      m.highest = std::max(m.highest, row[5]);
      m.count += std::int64_t(row[6]);
      for (std::size_t b = 0; b < kActivationBins; ++b) m.bins[b] += std::int64_t(row[7 + b]);
    }
    const double n = double(m.count), mean = s1 / n;
    const double second = s2 / n, third = s3 / n, fourth = s4 / n;
    m.mean = mean;
    m.variance = std::max(0.0, second - mean * mean);
    const double central = fourth - 4 * mean * third + 6 * mean * mean * second - 3 * mean * mean * mean * mean;
    m.kurtosis = m.variance > 0 ? central / (m.variance * m.variance) : 0;
    for (std::int64_t i = 0; i < kMappedImages; ++i)
      for (const double* p = record.points.row(i); p < record.points.row(i + 1) && !std::isnan(p[2]); p += 4)
        site.points.push_back({p[0], p[1], std::int64_t(p[2]), std::int64_t(p[3])});
  }
  return out;
}

void AttentionProbe::observe(Observers& observers) {
  observers.attention = [this](const Shard& shard, const std::string& name, const AttentionSeen& seen) {
    const std::int64_t first = shard.first_image(), images = shard.slice.images;
    if (first >= kAttendedImages) return;
    Backend& backend = shard.tape.backend();
    Record& layer = records_.at(name, [] { return Record{ImageRows(kAttendedImages, 3)}; });
    const bool joined = &seen.q == &seen.k || seen.q.value().raw() == seen.k.value().raw();
    const std::vector<double> q = values_of(backend, seen.q.value());
    const std::vector<double> k = joined ? std::vector<double>() : values_of(backend, seen.k.value());
    const std::vector<double> table = seen.table ? values_of(backend, seen.table) : std::vector<double>();
    const Shape& shape = seen.q.shape();
    const std::int64_t sequences = shape[0], tokens = shape[1], stride = shape[2];
    const std::int64_t width = joined ? stride / 3 : stride, head_dim = width / seen.heads;
    const std::int64_t each = sequences / images;  // windows of an image
    const double scale = 1.0 / std::sqrt(double(head_dim));
    std::vector<double> scores(static_cast<std::size_t>(tokens * tokens));
    for (std::int64_t i = 0; i < std::min(images, kAttendedImages - first); ++i) {
      double entropy = 0.0, largest = -std::numeric_limits<double>::infinity();
      for (std::int64_t s = i * each; s < (i + 1) * each; ++s)
        for (std::int64_t h = 0; h < seen.heads; ++h) {
          const double* queries = q.data() + s * tokens * stride + h * head_dim;
          const double* keys = joined ? queries + width : k.data() + s * tokens * stride + h * head_dim;
          std::fill(scores.begin(), scores.end(), 0.0);
          if (seen.windows) {
            const WindowDims dims = seen.windows->dims(images, width);
            cpu::expand_bias(dims, seen.heads, h, table.data(), scores.data());
            cpu::add_mask(dims, cpu::mask_pattern(dims, s), scores.data());
          }
          for (std::int64_t a = 0; a < tokens; ++a) {
            double* row = scores.data() + a * tokens;
            double top = -std::numeric_limits<double>::infinity();
            for (std::int64_t b = 0; b < tokens; ++b) {
              double dot = 0.0;
              for (std::int64_t d = 0; d < head_dim; ++d) dot += queries[a * stride + d] * keys[b * stride + d];
              row[b] += scale * dot;
              top = std::max(top, row[b]);
            }
            double sum = 0.0, weighted = 0.0;
            for (std::int64_t b = 0; b < tokens; ++b) {
              const double weight = std::exp(row[b] - top);
              sum += weight;
              weighted += weight * (row[b] - top);
            }
            entropy += std::log(sum) - weighted / sum;
            largest = std::max(largest, top);
          }
        }
      double* const row = layer.images.row(first + i);
      row[0] = entropy;
      row[1] = largest;
      row[2] = double(each * seen.heads * tokens);
    }
  };
}

std::vector<AttentionProbe::Layer> AttentionProbe::layers() const {
  std::vector<Layer> out;
  for (const auto& named : records_) {
    Record& record = named->record;
    Layer& layer = out.emplace_back();
    layer.name = named->name;
    layer.largest_logit = -std::numeric_limits<double>::infinity();
    double queries = 0;
    for (std::int64_t i = 0; i < kAttendedImages; ++i) {
      const double* const row = record.images.row(i);
      if (std::isnan(row[2])) continue;
      layer.entropy += row[0];
      queries += row[2];
      layer.largest_logit = std::max(layer.largest_logit, row[1]);
    }
    layer.entropy /= queries;
  }
  return out;
}

}  // namespace normlab
