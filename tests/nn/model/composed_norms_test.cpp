// Norms of several operations, gated_norm and prep_bn: parameters, initial values, costs, and what they compute.
#include <doctest/doctest.h>

#include <cmath>

#include "nn/model/fuse.h"
#include "nn/model/init.h"
#include "nn/model/layers.h"
#include "nn/model/model.h"
#include "tests/nn/training/small_training.h"

using namespace normlab;

namespace {

constexpr std::int64_t kBatch = 6;

NormSpec gated(std::int64_t rank = 5) {
  NormSpec spec = norm_of(NormKind::gated_norm);
  spec.rank = rank;
  return spec;
}
NormSpec prep_bn(double decay_share = 1) {
  NormSpec spec = norm_of(NormKind::prep_bn);
  spec.decay_share = decay_share;
  return spec;
}

/// `spec` in place of every norm of that row, and at `more`.
template <class Config>
Config with(Config c, const NormSpec& spec, std::initializer_list<SiteMember> more = {}) {
  visit_all_sites(c.placement, [&](const SiteRow& row, NormSpec& at) {
    if (at.kind != NormKind::none || std::find(more.begin(), more.end(), row.member) != more.end()) at = spec;
  });
  return c;
}
ViTConfig vit_with(const NormSpec& spec) {
  return with(small_vit("pre_pre"), spec,
              {&StemSites::patch_in, &AttentionSites::query, &AttentionSites::value, &AttentionSites::inner,
               &MlpSites::hidden, &MlpSites::out, &Placement::pooled});
}

/// Values of all parameters and of what a step and an evaluation give.
struct Computed {
  double loss = 0;
  std::vector<double> logits, gradient;
  bool operator==(const Computed&) const = default;
};

/// In double, with values that differ from those at the start.
class Network {
 public:
  Network(const ModelConfig& c, double progress, std::int64_t images_per_shard = kBatch, int threads = 1)
      : training_(c, settings(images_per_shard), threads) {
    for (const ParameterInfo& info : parameters().parameters()) {
      const Tensor t = parameters().value(parameters().find(info.name));
      const StreamKey key = stream_key(9, "test", info.name);
      for (std::int64_t i = 0; i < t.size(); ++i) t.data<double>()[i] += 0.05 * normal(key, std::uint64_t(i));
    }
    training_.engine.state().progress = progress;
  }
  ParameterSet& parameters() { return training_.engine.parameters(); }
  double loss() { return training_.engine.forward_backward(training_.data.images, training_.data.labels); }
  std::vector<double> logits() {
    std::vector<double> losses(kBatch), out(std::size_t(kBatch * num_classes(training_.engine.config())));
    std::vector<std::int32_t> predicted(kBatch);
    CHECK(!training_.engine.evaluate(training_.data.images, training_.data.labels, losses, predicted, out));
    return out;
  }
  std::vector<double> gradient() {
    loss();
    training_.engine.sum_gradients();
    const Tensor all = parameters().flat_lane(0);
    return {all.data<double>(), all.data<double>() + all.size()};
  }
  Computed all() {
    Computed out;
    out.logits = logits();
    out.loss = loss();
    out.gradient = gradient();
    return out;
  }
  HostTensors tensors() { return host_tensors(parameters()); }

 private:
  static EngineSettings settings(std::int64_t images_per_shard) {
    EngineSettings s;
    s.precision = Precision::fp64;
    s.max_batch = kBatch;
    s.images_per_shard = images_per_shard;
    return s;
  }
  SmallTraining training_;
};

double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    most = std::max(most, std::abs(a[i] - b[i]));
    largest = std::max(largest, std::abs(b[i]));
  }
  return most / largest;
}

/// The gradient of each parameter along a random direction is the loss's difference quotient.
void check_gradient(const ModelConfig& c, double progress) {
  Network network(c, progress);
  const std::vector<double> gradient = network.gradient();
  std::vector<std::string> wrong;
  for (const ParameterInfo& info : network.parameters().parameters()) {
    const Tensor t = network.parameters().value(network.parameters().find(info.name));
    const StreamKey key = stream_key(4, "test", info.name);
    const auto along = [&](double step) {
      for (std::int64_t i = 0; i < t.size(); ++i) t.data<double>()[i] += step * normal(key, std::uint64_t(i));
    };
    const auto quotient = [&](double step) {
      along(step);
      const double above = network.loss();
      along(-2 * step);
      const double below = network.loss();
      along(step);
      return (above - below) / (2 * step);
    };
    double expected = 0;
    for (std::int64_t i = 0; i < t.size(); ++i)
      expected += gradient[std::size_t(info.offset + i)] * normal(key, std::uint64_t(i));
    constexpr double kStep = 1e-5;
    const double found = (4 * quotient(kStep) - quotient(2 * kStep)) / 3;  // without the error in the step's square
    if (std::abs(found - expected) > 1e-7 + 1e-5 * std::abs(expected))
      wrong.push_back(concat(info.name, ": ", expected, " but ", found));
  }
  CAPTURE(progress);
  CAPTURE(to_string(placement_of(c).mlp.pre.kind));
  CHECK_MESSAGE(wrong.empty(), wrong.size(), ", first ", wrong.empty() ? "" : wrong.front());
}

const ParameterInfo* find(const ParameterSet& set, const std::string& name) {
  const int number = set.find(name);
  return number < 0 ? nullptr : &set.parameters()[std::size_t(number)];
}

/// The norm of x [2, 3, 8] in double, whose parameters `set` fills by name.
std::vector<double> normed(const NormSpec& spec, const std::map<std::string, std::vector<double>>& values,
                           const std::vector<double>& x, Placement placement = {}, std::int64_t layer = 0) {
  Arena memory;
  Tape tape(cpu_backend(), memory);
  ParameterSet set;
  placement.attn.pre = spec;
  const Norm norm(set, {.block = 0, .layer = layer + 1}, &AttentionSites::pre, placement,
                  {.embed_dim = 8, .tokens = 3});
  set.allocate(DType::f64, 1);
  for (const ParameterInfo& info : set.parameters()) {
    const std::vector<double>& from = values.at(info.name.substr(info.name.rfind('.') + 1));
    REQUIRE(std::int64_t(from.size()) == info.shape.size());
    std::copy(from.begin(), from.end(), set.value(set.find(info.name)).data<double>());
  }
  const Tensor in = memory.empty({2, 3, 8}, DType::f64);
  std::copy(x.begin(), x.end(), in.data<double>());
  const Step step{.parameters = set};
  const Tensor y = norm(tape.input(in), {.step = step, .tape = tape, .slice = {2, 0, 2, nullptr}}).value();
  return {y.data<double>(), y.data<double>() + y.size()};
}

std::vector<double> noise(std::size_t size, const char* name) {
  std::vector<double> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = normal(stream_key(2, "test", name), i);
  return out;
}

}  // namespace

TEST_CASE("gated norm: two matrices at each site, heads included, start alike in every code base") {
  for (const std::string_view word : kWords<Init>) {
    ViTConfig c = vit_with(gated());
    REQUIRE(find_word(word, c.init.base));
    ParameterSet set;
    make_model(set, c);
    const auto check = [&](const std::string& site, std::int64_t width) {
      CAPTURE(site);
      REQUIRE(find(set, site + ".down") != nullptr);
      CHECK(find(set, site + ".gamma")->shape == Shape{width});
      CHECK(find(set, site + ".beta") == nullptr);
      CHECK(find(set, site + ".down")->shape == Shape{5, width});
      CHECK(find(set, site + ".up")->shape == Shape{width, 5});
      for (const char* last : {".down", ".up"}) {
        CHECK(find(set, site + last)->decays);
        const InitRule rule = init_rule(set, set.find(site + last), c);
        CHECK(rule == InitRule{.distribution = Distribution::truncated_normal, .scale = 0.02, .cut = 3});
      }
      CHECK(!find(set, site + ".gamma")->decays);
    };
    check("stem.patch_in", 48);
    check("blocks.1.attn.pre", 24);
    check("blocks.1.attn.query", 8);
    check("blocks.0.attn.value", 24);
    check("blocks.0.mlp.hidden", 96);
    check("final", 24);
  }
  ParameterSet swin;
  make_model(swin, with(small_swin("pre_pre"), gated()));
  CHECK(find(swin, "stages.1.merge.up")->shape == Shape{48, 5});
  CHECK(find(swin, "stages.2.blocks.0.mlp.pre.down")->shape == Shape{5, 48});
}

TEST_CASE("gated norm: its output is RMSNorm times the gate of it") {
  const std::vector<double> x = noise(48, "x"), gamma = noise(8, "gamma"), down = noise(24, "down"),
                            up = noise(24, "up");
  std::vector<double> expected(48);
  for (std::size_t r = 0; r < 6; ++r) {
    double squares = 0;
    for (std::size_t c = 0; c < 8; ++c) squares += x[8 * r + c] * x[8 * r + c];
    std::vector<double> y(8), hidden(3);
    for (std::size_t c = 0; c < 8; ++c) y[c] = gamma[c] * x[8 * r + c] / std::sqrt(squares / 8 + 1e-6);
    for (std::size_t k = 0; k < 3; ++k) {
      double sum = 0;
      for (std::size_t c = 0; c < 8; ++c) sum += down[8 * k + c] * y[c];
      hidden[k] = sum / (1 + std::exp(-sum));
    }
    for (std::size_t c = 0; c < 8; ++c) {
      double sum = 0;
      for (std::size_t k = 0; k < 3; ++k) sum += up[3 * c + k] * hidden[k];
      expected[8 * r + c] = y[c] / (1 + std::exp(-sum));
    }
  }
  const std::map<std::string, std::vector<double>> values{{"gamma", gamma}, {"down", down}, {"up", up}};
  CHECK(furthest(normed(gated(3), values, x), expected) < 1e-14);
  // The depth multiplies the result, not what the gate sees.
  for (double& value : expected) value /= std::sqrt(3.0);
  CHECK(furthest(normed(gated(3), values, x, {.depth_scale = DepthScale::rsqrt}, 2), expected) < 1e-14);
}

TEST_CASE("composed norms: gradients are those of the loss") {
  check_gradient(vit_with(gated()), 0.3);
  check_gradient(with(small_swin("normformer"), gated()), 0.3);
  ViTConfig streams = small_vit("siamese_norm");
  streams.placement.stream_norm = gated();
  check_gradient(streams, 0.3);
  // Batch norms of few values, as at pooled, bend the loss too much for a quotient.
  for (const auto& [share, progress] : {std::pair(1.0, 0.3), {0.5, 0.8}})
    check_gradient(
        with(small_vit("pre_pre"), prep_bn(share), {&StemSites::patch_in, &AttentionSites::query, &MlpSites::hidden}),
        progress);
  check_gradient(with(small_swin("bn_extra"), prep_bn()), 0.3);
}

TEST_CASE("composed norms: the cut into shards changes nothing but rounding, and threads no bit") {
  for (const NormSpec& spec : {gated(), prep_bn()}) {
    CAPTURE(to_string(spec.kind));
    for (const ModelConfig& c : {ModelConfig(vit_with(spec)), ModelConfig(with(small_swin("pre_pre"), spec))}) {
      const Computed whole = Network(c, 0.3).all(), cut = Network(c, 0.3, 2).all();
      CHECK(furthest(cut.gradient, whole.gradient) < 1e-10);
      CHECK(Network(c, 0.3, 2, 3).all() == cut);
    }
  }
}

TEST_CASE("composed norms: costs count the matrices, and what lies between the operations") {
  const auto check = [](const ModelConfig& before, const NormSpec& spec, const ModelConfig& c, std::int64_t macs) {
    const ModelCost plain = model_cost(before), cost = model_cost(c);
    CHECK(cost.macs == plain.macs + macs);
    CHECK(cost.norm_elements == plain.norm_elements);
    CHECK(plain.inside_norms == 0);
    CHECK(cost.inside_norms == 2 * cost.norm_elements);
    CHECK(!runs_formulas(before));
    CHECK(runs_formulas(c));
    CHECK(formulas_of(c).empty());
    CHECK(statistics_of(spec) == (spec.kind == NormKind::gated_norm ? Statistics::row : Statistics::batch));
  };
  ViTConfig c = small_vit("pre_pre"), heads = c;
  heads.placement.attn.query = norm_of(NormKind::rms_norm);
  // Two blocks of 16 tokens of width 24, or of three heads of width 8.
  check(c, gated(), with(c, gated()), 16 * 2 * 5 * 24 * (2 * 2 + 1));
  check(heads, gated(), with(heads, gated()), 16 * 2 * 5 * (24 * (2 * 2 + 1) + 8 * 3 * 2));
  check(c, prep_bn(), with(c, prep_bn()), 0);
  ViTConfig streams = small_vit("siamese_norm");
  streams.placement.stream_norm = gated();
  CHECK(runs_formulas(streams));
}

TEST_CASE("gated norm: Muon updates the matrices of blocks") {
  const ViTConfig c = with(small_vit("pre_pre"), gated());
  EngineSettings settings;
  settings.optimizer = defaults_beside(OptimizerSettings{.name = OptimizerName::muon});
  settings.optimizer.name = OptimizerName::muon;
  settings.optimizer.weight_decay = 0;
  settings.max_batch = kBatch;
  SmallTraining training(c, settings, 1);
  auto& [pool, engine, data] = training;
  random_head(engine);
  engine.state().lr = engine.state().schedule = 1;
  // The mean square of the singular values of a step: near 1 by Muon (tests/nn/training/muon_test.cpp).
  const auto step_of = [&engine = engine](const std::string& name) {
    const Tensor t = engine.parameters().value(engine.parameters().find(name));
    return std::vector<float>(t.data<float>(), t.data<float>() + t.size());
  };
  const std::vector<std::string> names{"blocks.0.attn.pre.down", "blocks.1.mlp.pre.up", "final.up"};
  std::vector<std::vector<float>> before;
  for (const std::string& name : names) before.push_back(step_of(name));
  engine.train_step(data.images, data.labels);
  for (std::size_t n = 0; n < names.size(); ++n) {
    const std::vector<float> after = step_of(names[n]);
    double squares = 0;
    for (std::size_t i = 0; i < after.size(); ++i)
      squares += double(after[i] - before[n][i]) * double(after[i] - before[n][i]);
    const double scale = names[n].ends_with(".up") ? 24.0 / 5 : 1, mean = squares / (scale * 5);
    CAPTURE(names[n]);
    CAPTURE(mean);
    CHECK((mean > 0.68 * 0.68 && mean < 1.13 * 1.13) == names[n].starts_with("blocks."));
  }
}

TEST_CASE("PRepBN: a LayerNorm at first, then the batch norm beside eta x, which evaluates") {
  const auto logits = [](Network& network) { return network.logits(); };
  ViTConfig c = with(small_vit("pre_pre"), prep_bn(0.5));
  Network start(c, 0.0), middle(c, 0.25), end(c, 0.5), later(c, 0.9);
  // LayerNorm with the values of row_gamma and row_beta.
  Network ln(small_vit("pre_pre"), 0);
  for (const ParameterInfo& info : ln.parameters().parameters()) {
    std::string from = info.name;
    for (const auto& [ours, theirs] : {std::pair{".gamma", ".row_gamma"}, {".beta", ".row_beta"}})
      if (from.ends_with(ours)) from.replace(from.size() - std::string(ours).size(), 99, theirs);
    const Tensor to = ln.parameters().value(ln.parameters().find(info.name)),
                 value = start.parameters().value(start.parameters().find(from));
    std::copy_n(value.data<double>(), value.size(), to.data<double>());
  }
  // The epsilon differs.
  CHECK(start.loss() == doctest::Approx(ln.loss()).epsilon(1e-3));
  CHECK(end.loss() == later.loss());
  CHECK(std::abs(start.loss() - end.loss()) > 1e-3);
  CHECK(std::abs(middle.loss() - end.loss()) > 1e-3);
  CHECK(logits(start) != logits(end));  // running statistics have moved otherwise
  for (const ParameterInfo& info : end.parameters().parameters()) {
    if (info.name.find(".row_") == std::string::npos) continue;
    const Tensor gradient = (end.gradient(), end.parameters().gradient(0, end.parameters().find(info.name)));
    CHECK(std::all_of(gradient.data<double>(), gradient.data<double>() + gradient.size(),
                      [](double v) { return v == 0; }));
  }
}

TEST_CASE("PRepBN: an evaluation does not depend on the progress, and fusion keeps it") {
  for (const ModelConfig& c :
       {ModelConfig(vit_with(prep_bn())), ModelConfig(with(small_swin("bn_extra"), prep_bn()))}) {
    Network network(c, 0.3);
    network.loss();  // moves running statistics
    const FusedModel fused = fuse_batch_norms(c, network.tensors());
    const std::vector<double> before = network.logits();
    Network after(fused.config, 1.0);
    assign(after.parameters(), fused.tensors);
    CHECK(furthest(after.logits(), before) < 1e-12);
    for (const FusedSite& site : fused.sites) CHECK(site.kind == NormKind::prep_bn);
    CHECK(std::any_of(fused.sites.begin(), fused.sites.end(), [](const FusedSite& site) { return site.merged; }));
    for (const auto& [name, tensor] : fused.tensors)
      if (name.ends_with(".eta"))  // of a site that cannot be merged
        CHECK(std::holds_alternative<SwinConfig>(c));
  }
  ViTConfig scaled = vit_with(prep_bn());
  scaled.placement.depth_scale = DepthScale::rsqrt;
  Network network(scaled, 0.3);
  const FusedModel fused = fuse_batch_norms(scaled, network.tensors());
  Network after(fused.config, 1.0);
  assign(after.parameters(), fused.tensors);
  CHECK(furthest(after.logits(), network.logits()) < 1e-12);
}
