// What norms and attention see: against plain loops over values that the tape shows, and for any cut into shards.
#include "nn/probes/site_probe.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/nn/training/small_training.h"

using namespace normlab;

namespace {

constexpr std::int64_t kImages = 13;

struct Probed {
  std::vector<NormProbe::Site> sites;
  std::vector<AttentionProbe::Layer> layers;
  std::vector<double> numbers() const {
    std::vector<double> all;
    for (const NormProbe::Site& s : sites) {
      const ActivationMoments& m = s.moments;
      all.insert(all.end(), {double(m.count), m.mean, m.variance, m.kurtosis, m.lowest, m.highest});
      for (const std::int64_t bin : m.bins) all.push_back(double(bin));
      for (const MappedPoint& p : s.points) all.insert(all.end(), {p.in, p.out, double(p.token), double(p.channel)});
    }
    for (const AttentionProbe::Layer& l : layers) all.insert(all.end(), {l.entropy, l.largest_logit});
    return all;
  }
};

/// One step of a network with both probes and, if given, another observer of norms.
Probed probed(const ModelConfig& c, int threads, std::int64_t images_per_shard,
              const Observers::See<NormSeen>& norm = nullptr,
              const Observers::See<AttentionSeen>& attention = nullptr) {
  EngineSettings settings;
  settings.precision = Precision::fp32;
  settings.max_batch = kImages;
  settings.images_per_shard = images_per_shard;
  SmallTraining training(c, settings, threads);
  auto& [pool, engine, data] = training;
  engine.state().lr = 1e-3;
  NormProbe norms(true);
  AttentionProbe layers;
  Observers observers;
  norms.observe(observers);
  layers.observe(observers);
  if (norm) observers.norm = norm;
  if (attention) observers.attention = attention;
  engine.use_probe(observers);
  engine.train_step(data.images, data.labels);
  return {norms.sites(), layers.layers()};
}

std::vector<double> numbers_of(const Tensor& t) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < t.size(); ++i) out.push_back(double(t.data<float>()[i]));
  return out;
}

}  // namespace

TEST_CASE("site probe: moments and histogram equal those of plain loops") {
  const ViTConfig c = small_vit("pre_pre");
  std::map<std::string, std::vector<double>> seen;
  probed(c, 1, kImages,
         [&](const Shard&, const std::string& name, const NormSeen& s) { seen[name] = numbers_of(s.x.value()); });
  const Probed got = probed(c, 1, kImages);
  REQUIRE(got.sites.size() == seen.size());
  REQUIRE(seen.contains("blocks.0.attn.pre"));
  for (const NormProbe::Site& site : got.sites) {
    CAPTURE(site.name);
    const std::vector<double>& x = seen.at(site.name);
    double mean = 0, second = 0, fourth = 0, low = x[0], high = x[0];
    for (const double v : x) mean += v / double(x.size());
    std::array<std::int64_t, kActivationBins> bins{};
    for (const double v : x) {
      second += (v - mean) * (v - mean) / double(x.size());
      fourth += std::pow(v - mean, 4) / double(x.size());
      low = std::min(low, v);
      high = std::max(high, v);
      ++bins[activation_bin(v)];
    }
    const ActivationMoments& m = site.moments;
    CHECK(m.count == std::int64_t(x.size()));
    CHECK(m.mean == doctest::Approx(mean).epsilon(1e-9));
    CHECK(m.variance == doctest::Approx(second).epsilon(1e-9));
    CHECK(m.kurtosis == doctest::Approx(fourth / second / second).epsilon(1e-9));
    CHECK(m.lowest == low);
    CHECK(m.highest == high);
    CHECK(m.bins == bins);
  }
}

TEST_CASE("site probe: a bin holds the values from its edge to the next") {
  for (std::size_t b = 0; b < kActivationBins; ++b) CHECK(activation_bin(bin_edge(b)) == b);
  CHECK(activation_bin(1.999) == activation_bin(1.0));
  CHECK(activation_bin(2.0) == activation_bin(1.0) + 1);
  CHECK(activation_bin(-1.5) == kActivationBins - 1 - activation_bin(1.5));
  CHECK(activation_bin(1e-9) == activation_bin(0.0));
  CHECK(activation_bin(std::numeric_limits<double>::infinity()) == kActivationBins - 1);
  CHECK(activation_bin(std::nan("")) == kActivationBins);
}

TEST_CASE("site probe: a mapped point is the norm's value before gain and bias") {
  const Probed got = probed(small_vit("dyt"), 1, kImages);
  REQUIRE(!got.sites.empty());
  for (const NormProbe::Site& site : got.sites) {
    REQUIRE(site.points.size() == std::size_t(kMappedImages * kMappedPoints));
    for (const MappedPoint& p : site.points) CHECK(p.out == doctest::Approx(std::tanh(0.5 * p.in)).epsilon(1e-5));
  }
}

TEST_CASE("site probe: entropy and the largest logit equal those of plain loops") {
  const ViTConfig c = small_vit("pre_pre");
  std::map<std::string, std::pair<double, double>> expected;
  probed(c, 1, kImages, nullptr, [&](const Shard&, const std::string& name, const AttentionSeen& s) {
    const std::vector<double> qkv = numbers_of(s.q.value());
    const std::int64_t tokens = s.q.shape()[1], width = s.q.shape()[2] / 3, dim = width / s.heads;
    double entropy = 0, largest = -1e300;
    std::int64_t rows = 0;
    for (std::int64_t b = 0; b < s.q.shape()[0]; ++b)
      for (std::int64_t h = 0; h < s.heads; ++h)
        for (std::int64_t i = 0; i < tokens; ++i, ++rows) {
          std::vector<double> weights;
          double sum = 0;
          for (std::int64_t j = 0; j < tokens; ++j) {
            double score = 0;
            for (std::int64_t d = 0; d < dim; ++d)
              score += qkv[std::size_t(((b * tokens + i) * 3) * width + h * dim + d)] *
                       qkv[std::size_t(((b * tokens + j) * 3 + 1) * width + h * dim + d)];
            score /= std::sqrt(double(dim));
            largest = std::max(largest, score);
            weights.push_back(std::exp(score));
            sum += weights.back();
          }
          for (const double w : weights) entropy -= w / sum * std::log(w / sum);
        }
    expected[name] = {entropy / double(rows), largest};
  });
  const Probed got = probed(c, 1, kImages);
  REQUIRE(got.layers.size() == expected.size());
  for (const AttentionProbe::Layer& layer : got.layers) {
    CHECK(layer.entropy == doctest::Approx(expected.at(layer.name).first).epsilon(1e-9));
    CHECK(layer.largest_logit == doctest::Approx(expected.at(layer.name).second).epsilon(1e-9));
  }
}

TEST_CASE("site probe: threads, shards and images that drop-path skips change no bit") {
  ViTConfig c = small_vit("dpn");
  c.drop_path = 0.5;
  const std::vector<double> one = probed(c, 1, kImages).numbers();
  CHECK(probed(c, 3, 2).numbers() == one);
  CHECK(probed(c, 2, 5).numbers() == one);
  ViTConfig all = c;
  all.short_forms = false;
  const std::vector<double> long_form = probed(all, 1, kImages).numbers();
  REQUIRE(long_form.size() == one.size());
  for (std::size_t i = 0; i < one.size(); ++i) CHECK(one[i] == doctest::Approx(long_form[i]).epsilon(1e-4));
}

TEST_CASE("site probe: windows measure with their bias and mask") {
  // Equal queries and keys of zero leave bias and mask alone: one row of the softmax can be computed by hand.
  const Windows windows{4, 4, 2, 1, 1};
  Arena arena;
  Tape tape(cpu_backend(), arena);
  const Tensor zeros = tape.empty({4, 4, 3 * 2}, DType::f32), table = tape.empty({9, 1}, DType::f32);
  std::fill_n(zeros.data<float>(), zeros.size(), 0.0f);
  for (std::int64_t i = 0; i < 9; ++i) table.data<float>()[i] = 0.1f * float(i);
  ParameterSet none;
  const Step step{.parameters = none};
  const Shard shard{.step = step, .tape = tape, .slice = {1, 0, 1, nullptr}};
  AttentionProbe probe;
  Observers observers;
  probe.observe(observers);
  const Var qkv = tape.input(zeros);
  observers.attention(shard, "blocks.0.attn", {qkv, qkv, 1, &windows, table});
  double entropy = 0;
  for (int w = 0; w < 4; ++w)
    for (int i = 0; i < 4; ++i) {
      double sum = 0, weighted = 0;
      for (int j = 0; j < 4; ++j) {
        const int row = (i / 2 - j / 2 + 1) * 3 + i % 2 - j % 2 + 1;
        // The last row and column of windows hold tokens that wrapped around.
        const bool apart = (w / 2 == 1 && i / 2 != j / 2) || (w % 2 == 1 && i % 2 != j % 2);
        const double score = double(0.1f * float(row)) - (apart ? 100 : 0);
        sum += std::exp(score);
        weighted += std::exp(score) * score;
      }
      entropy += (std::log(sum) - weighted / sum) / 16;
    }
  REQUIRE(probe.layers().size() == 1);
  CHECK(probe.layers()[0].entropy == doctest::Approx(entropy).epsilon(1e-6));
  CHECK(probe.layers()[0].largest_logit == doctest::Approx(0.8).epsilon(1e-6));
}

TEST_CASE("update probe: the ratio is that of the weights before and after") {
  const ViTConfig c = small_vit("pre_pre");
  EngineSettings settings;
  settings.max_batch = kImages;
  SmallTraining training(c, settings, 2);
  auto& [pool, engine, data] = training;
  engine.state().lr = 1e-2;
  const int p = engine.parameters().find("patch_embed.weight"), b = engine.parameters().find("patch_embed.bias");
  std::vector<double> before = numbers_of(engine.parameters().read(p));
  const std::vector<double> bias = numbers_of(engine.parameters().read(b));
  before.insert(before.end(), bias.begin(), bias.end());
  const UpdateProbe probe(engine.parameters());
  engine.train_step(data.images, data.labels);
  std::vector<double> after = numbers_of(engine.parameters().read(p));
  const std::vector<double> new_bias = numbers_of(engine.parameters().read(b));
  after.insert(after.end(), new_bias.begin(), new_bias.end());
  double update = 0, weights = 0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    update += (after[i] - before[i]) * (after[i] - before[i]);
    weights += before[i] * before[i];
  }
  for (const GradientNorm& layer : probe.ratios(engine.parameters(), pool))
    if (layer.layer == "patch_embed") CHECK(layer.norm == doctest::Approx(std::sqrt(update / weights)).epsilon(1e-9));
}

TEST_CASE("engine: a block that is left out passes its input on") {
  const ViTConfig c = small_vit("pre_pre");
  EngineSettings settings;
  settings.max_batch = kImages;
  SmallTraining training(c, settings, 1);
  auto& [pool, engine, data] = training;
  std::vector<double> all, without, last;
  engine.features(data.images, all);
  engine.leave_out_block(0);
  engine.features(data.images, without);
  CHECK(all != without);
  // A block whose branches add nothing is the identity too.
  for (const char* name :
       {"blocks.0.attn.proj.weight", "blocks.0.attn.proj.bias", "blocks.0.mlp.fc2.weight", "blocks.0.mlp.fc2.bias"}) {
    const Tensor t = engine.parameters().value(engine.parameters().find(name));
    std::fill_n(t.data<float>(), t.size(), 0.0f);
  }
  engine.leave_out_block({});
  std::vector<double> zeroed;
  engine.features(data.images, zeroed);
  CHECK(zeroed == without);
}
