#include <algorithm>

#include "tests/devices.h"
#include "tests/reference/model_config.h"

namespace normlab::reference {
namespace {

struct Training {
  ModelCase model;
  EngineSettings settings;
  std::vector<double> rates;
  std::int64_t batches = 0;
  double clip_norm = 0.0;
  std::vector<std::string> decayed;
};

Training read_training(const Fixture& f) {
  Training t;
  ObjectReader reader(f.config(), f.name() + ": config");
  const auto value = [&](const std::string& key) -> const nlohmann::json& {
    const nlohmann::json* found = reader.optional(key);
    if (found == nullptr) reader.fail(key, "this key is missing");
    return *found;
  };
  t.model = read_model(reader);
  t.rates = value("rates").get<std::vector<double>>();
  t.batches = reader.integer("batches");
  t.decayed = value("decayed").get<std::vector<std::string>>();
  const nlohmann::json& clip = value("clip");
  t.clip_norm = clip.at(0).get<double>();
  if (clip.at(1) != "torch") reader.fail("clip", concat("no rule for ", clip.dump()));
  if (reader.integer("steps") != static_cast<std::int64_t>(t.rates.size()))
    reader.fail("steps", "is not the number of rates");
  value("no_gradient");  // said by the tolerances already
  ObjectReader optimizer(value("optimizer"), f.name() + ": config: optimizer");
  if (optimizer.string("name") != "adamw") optimizer.fail("name", "no rule for this optimizer");
  OptimizerSettings& adamw = t.settings.optimizer;
  adamw.beta1 = optimizer.number("b1");
  adamw.beta2 = optimizer.number("b2");
  adamw.eps = optimizer.number("eps");
  adamw.weight_decay = optimizer.number("wd");
  optimizer.finish();
  reader.finish();
  if (!t.model.training || t.model.soft_targets) reader.fail("mode", "training takes labels and runs in train mode");
  t.settings.loss = t.model.loss;
  return t;
}

Results train(const Fixture& f, Training t, std::int64_t images_per_shard, int threads, const std::string& how) {
  Arena arena;
  const Tensor images = f.floats(arena, "in/images"), labels = f.labels(arena, "const/labels");
  const Shape& s = images.shape();
  t.settings.max_batch = s[1];
  t.settings.images_per_shard = images_per_shard;
  ShardPool pool(threads);
  Engine engine(current_device().backend, pool, t.model.config, t.settings);
  load_parameters(f, engine.parameters());
  std::vector<std::string> decayed;
  for (const ParameterInfo& p : engine.parameters().parameters())
    if (p.decays) decayed.push_back(p.name);
  std::sort(decayed.begin(), decayed.end());
  std::sort(t.decayed.begin(), t.decayed.end());
  if (decayed != t.decayed) throw InputError(concat(f.name(), ": other parameters decay than the file says"));

  std::vector<double> losses, norms;
  for (std::size_t i = 0; i < t.rates.size(); ++i) {
    const std::int64_t batch = static_cast<std::int64_t>(i) % t.batches;
    engine.state().lr = t.rates[i];
    engine.state().clip_norm = t.clip_norm;
    engine.state().progress = static_cast<double>(i) / static_cast<double>(t.rates.size());
    losses.push_back(engine.train_step(images.slice(batch, 1).reshape({s[1], s[2], s[3], s[4]}),
                                       labels.slice(batch, 1).reshape({s[1]})));
    norms.push_back(engine.state().grad_norm);
  }
  const Shape steps{static_cast<std::int64_t>(t.rates.size())};
  Results results{how};
  results.add("out/losses", steps, losses);
  results.add("out/grad_norms", steps, norms);
  const ParameterSet& parameters = engine.parameters();
  for (const ParameterInfo& p : parameters.parameters())
    results.add("out/final/" + p.name, parameters.value(parameters.find(p.name)));
  for (const ParameterInfo& b : parameters.buffers())
    results.add("out/final/" + b.name, parameters.buffer(parameters.find_buffer(b.name)));
  return results;
}

}  // namespace

std::vector<Results> run_training(const Fixture& f) {
  if (f.op() != "train") throw InputError(concat(f.name(), ": there is no rule for ", f.op()));
  const Training t = read_training(f);
  Results own = train(f, t, 0, 1, "the engine's own cut");
  if (current_device().backend.whole_batch()) return {own};
  return {own, train(f, t, 2, 2, "2 images a shard")};
}

}  // namespace normlab::reference
