#include "nn/probes/probes.h"

#include <algorithm>
#include <cmath>

#include "tests/devices.h"
#include "tests/nn/probes/seen_on_host.h"
#include "tests/reference/model_config.h"

namespace normlab::reference {
namespace {

double norm_of(const Tensor& t) {
  double sum = 0;
  for (std::int64_t i = 0; i < t.size(); ++i) sum += number_at(t, i) * number_at(t, i);
  return std::sqrt(sum);
}

const char* suffix(ProbeAxis axis) { return axis == ProbeAxis::channel ? "_bn" : "_ln"; }

/// A feature map: the first axis counts images, which come in the pieces given.
Results feature_map(const Fixture& f, std::int64_t images_at_a_time) {
  Arena arena;
  const Tensor x = f.floats(arena, "in/features");
  const std::int64_t images = x.shape()[0];
  FeatureStatistics statistics(images, x.shape().back());
  for (std::int64_t first = (images - 1) / images_at_a_time * images_at_a_time; first >= 0; first -= images_at_a_time)
    see_on_host(statistics, x.slice(first, std::min(images_at_a_time, images - first)), first);
  Results results{concat(images_at_a_time, " images at a time")};
  for (const ProbeAxis axis : kProbeAxes) {
    const FeatureMoments moments = statistics.moments(axis);
    results.add(concat("out/afsm", suffix(axis)), Shape(), {moments.afsm});
    results.add(concat("out/afv", suffix(axis)), Shape(), {moments.afv});
  }
  return results;
}

void add_signal(const SignalProbe& probe, Results& results) {
  const auto layers = probe.layers();
  for (const ProbeAxis axis : kProbeAxes) {
    std::vector<double> afsm, afv, afvr;
    for (const SignalProbe::Layer& layer : layers) {
      const FeatureMoments& stream = layer.stream[static_cast<std::size_t>(axis)];
      afsm.push_back(stream.afsm);
      afv.push_back(stream.afv);
      afvr.push_back(layer.branch[static_cast<std::size_t>(axis)].afv);
    }
    const Shape shape{static_cast<std::int64_t>(layers.size())};
    results.add(concat("out/afsm", suffix(axis)), shape, afsm);
    results.add(concat("out/afv", suffix(axis)), shape, afv);
    results.add(concat("out/afvr", suffix(axis)), shape, afvr);
  }
}

void add_gradients(Engine& engine, ShardPool& pool, Results& results) {
  std::map<std::string, std::vector<double>> blocks;
  for (const GradientNorm& n : gradient_norms(engine.parameters(), pool)) {
    if (!n.layer.starts_with("blocks.")) {
      results.add("out/grad_norm/" + n.layer, Shape(), {n.norm});
      continue;
    }
    const std::size_t dot = n.layer.rfind('.');
    const bool branch = n.layer.find('.', 7) != std::string::npos;
    blocks["out/grad_norm/blocks" + (branch ? n.layer.substr(dot) : "")].push_back(n.norm);
  }
  for (const auto& [name, norms] : blocks) results.add(name, {static_cast<std::int64_t>(norms.size())}, norms);
  for (const std::string name : {"patch_embed.weight", "head.weight"})
    results.add("out/grad_norm/" + name, Shape(),
                {norm_of(engine.parameters().gradient(0, engine.parameters().find(name)))});
}

Results network(const Fixture& f, std::int64_t images_per_shard, int threads) {
  ObjectReader reader(f.config(), f.name() + ": config");
  const ModelCase model = read_model(reader);
  reader.finish();
  if (!model.training || model.soft_targets) throw InputError(concat(f.name(), ": probes take labels, in train mode"));
  Arena arena;
  const Tensor images = f.floats(arena, "in/images"), labels = f.labels(arena, "const/labels");
  EngineSettings settings;
  settings.loss = model.loss;
  settings.max_batch = images.shape()[0];
  settings.images_per_shard = images_per_shard;
  ShardPool pool(threads);
  Engine engine(current_device().backend, pool, model.config, settings);
  load_parameters(f, engine.parameters());
  SignalProbe probe;
  Observers observers;
  probe.observe(observers);
  engine.use_probe(observers);
  engine.forward_backward(images, labels);
  engine.sum_gradients();
  Results results{concat(images_per_shard, " images a shard")};
  add_signal(probe, results);
  add_gradients(engine, pool, results);
  return results;
}

}  // namespace

std::vector<Results> run_probe(const Fixture& f) {
  if (f.op() == "xspp") return {feature_map(f, 1), feature_map(f, 2)};
  if (f.op() == "vit_probes") return {network(f, f.shape("in/images")[0], 1), network(f, 1, 2)};
  throw InputError(concat(f.name(), ": there is no rule for the probe ", f.op()));
}

}  // namespace normlab::reference
