// A training whose every bit the tests of ranks compare.
#pragma once

#include <doctest/doctest.h>

#include <span>
#include <vector>

#include "nn/probes/probes.h"
#include "tests/nn/training/small_training.h"

namespace normlab {

/// A training of some equal steps and one of fewer images, then an evaluation.
struct Case {
  ModelConfig model = small_vit("pre_pre");
  EngineSettings settings = {};
  std::int64_t batch = 20, last = 7;
  std::size_t equal_steps = 2;
  std::uint64_t seed = 3;  // of the initial values
  Case() {
    settings.max_batch = batch;
    settings.drop_seed = 3;
    settings.clip_norm = 0.5;
  }
};

inline void append(std::vector<std::byte>& all, const Tensor& t) {
  const auto* bytes = static_cast<const std::byte*>(t.raw());
  all.insert(all.end(), bytes, bytes + t.bytes());
}
template <class T>
void append(std::vector<std::byte>& all, const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  all.insert(all.end(), bytes.begin(), bytes.end());
}

/// Everything that a training leaves: losses, gradient norms, weights, running statistics, averages, answers; last, in
/// rank 0, moments.
inline std::vector<std::byte> trained(const Case& c, Backend& backend, Group& ranks, int threads) {
  SmallTraining training(c.model, c.settings, threads, backend, ranks, c.seed);
  auto& [pool, engine, data] = training;
  std::vector<std::byte> all;
  std::vector<double> losses, features;
  std::vector<std::int64_t> steps(c.equal_steps, c.batch);
  steps.push_back(c.last);
  for (const std::int64_t images : steps) {
    engine.state().lr = 1e-2;
    losses.push_back(engine.train_step(data.images.slice(0, images), data.labels.slice(0, images)));
    losses.push_back(engine.state().grad_norm);
  }
  engine.optimizer().gather_gradient();
  backend.synchronize();
  for (const GradientNorm& norm : gradient_norms(engine.parameters(), pool)) losses.push_back(norm.norm);
  append(all, engine.parameters().update().values);
  append(all, engine.parameters().flat_buffers());
  if (engine.average()) {
    append(all, engine.average()->values());
    append(all, engine.average()->buffers());
  }
  std::vector<double> of_images(static_cast<std::size_t>(c.batch));
  std::vector<std::int32_t> predicted(of_images.size());
  CHECK(!engine.evaluate(data.images, data.labels, of_images, predicted));
  engine.features(data.images, features);
  CHECK(engine.state_is_finite());
  append(all, losses);
  append(all, of_images);
  append(all, predicted);
  append(all, features);
  engine.optimizer().gather_moments();
  if (ranks.root())
    for (const Optimizer::Moment& moment : engine.optimizer().moments()) append(all, moment.flat);
  return all;
}

}  // namespace normlab
