// Frozen parameters keep their values, and the others get the gradients of the whole network.
#include "nn/model/freeze.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "core/for_type.h"
#include "nn/model/init.h"
#include "nn/model/model.h"
#include "nn/training/engine.h"
#include "tests/devices.h"
#include "tests/nn/model/random_head.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

constexpr std::int64_t kBatch = 6;
using Patterns = std::vector<std::string>;

std::vector<std::string> names_frozen(const ModelConfig& config, const Patterns& patterns) {
  ParameterSet set;
  make_model(set, config);
  const std::vector<bool> frozen = frozen_by(patterns, set.parameters());
  std::vector<std::string> names;
  for (std::size_t p = 0; p < frozen.size(); ++p)
    if (frozen[p]) names.push_back(set.parameters()[p].name);
  return names;
}

std::string problem(const ModelConfig& config, const Patterns& patterns) {
  ParameterSet set;
  make_model(set, config);
  const auto found = freezing(patterns, set.parameters()).problem;
  return found ? found->message : "";
}

struct Trained {
  ShardPool pool;
  Engine engine;
  const Batch data;
  Trained(const ModelConfig& c, EngineSettings settings, const Patterns& freeze, int threads = 1)
      : pool(threads),
        engine(current_device().backend, pool, c, with(settings, freeze)),
        data(c, kBatch, engine.dtype()) {
    initialise(engine.parameters(), c, 3);
    random_head(engine);
    engine.state().lr = 1e-2;
  }
  static EngineSettings with(EngineSettings settings, const Patterns& freeze) {
    settings.max_batch = kBatch;
    settings.images_per_shard = 4;
    settings.freeze = freeze;
    return settings;
  }
  static std::vector<double> numbers(const Tensor& t) {
    std::vector<double> out;
    for (std::int64_t i = 0; i < t.size(); ++i) out.push_back(number_at(t, i));
    return out;
  }
  using ByName = std::map<std::string, std::vector<double>>;
  ByName values() {
    ByName out;
    for (std::size_t p = 0; p < engine.parameters().parameters().size(); ++p)
      out[engine.parameters().parameters()[p].name] = numbers(engine.parameters().read(int(p)));
    return out;
  }
  ByName gradients() {
    engine.forward_backward(data.images, data.labels);
    engine.sum_gradients();
    ByName out;
    const ParameterSet& set = engine.parameters();
    for (std::size_t p = 0; p < set.parameters().size(); ++p)
      if (!set.is_frozen(int(p))) out[set.parameters()[p].name] = numbers(set.gradient(0, int(p)));
    return out;
  }
  void train(int steps) {
    for (int s = 0; s < steps; ++s) REQUIRE(std::isfinite(engine.train_step(data.images, data.labels)));
  }
};

EngineSettings in_double() {
  EngineSettings settings;
  settings.precision = Precision::fp64;
  return settings;
}

/// The gradients of trained parameters are those of the network without frozen parts.
void check_gradients(const ModelConfig& c, const Patterns& freeze) {
  CAPTURE(freeze.front());
  const auto all = Trained(c, in_double(), {}).gradients();
  const auto some = Trained(c, in_double(), freeze).gradients();
  REQUIRE(some.size() + names_frozen(c, freeze).size() == all.size());
  for (const auto& trained : some) {
    CAPTURE(trained.first);
    CHECK(trained.second == all.at(trained.first));
  }
}

/// After some steps the frozen values are the initial ones, and all others have changed.
void check_training(const ModelConfig& c, const EngineSettings& settings, const Patterns& freeze) {
  Trained training(c, settings, freeze);
  const auto before = training.values();
  training.train(3);
  const auto after = training.values();
  const std::vector<std::string> frozen = names_frozen(c, freeze);
  for (const auto& parameter : before) {
    const auto& [name, values] = parameter;
    CAPTURE(parameter.first);
    const bool kept = std::find(frozen.begin(), frozen.end(), name) != frozen.end();
    CHECK((after.at(name) == values) == kept);
  }
}

std::vector<double> buffers(Trained& of) { return Trained::numbers(of.engine.parameters().flat_buffers()); }

}  // namespace

TEST_CASE("freeze: stem means everything before the first block") {
  CHECK(names_frozen(small_vit("dpn"), {"stem"}) ==
        Patterns{"stem.patch_in.gamma", "stem.patch_in.beta", "patch_embed.weight", "patch_embed.bias",
                 "stem.patch_out.gamma", "stem.patch_out.beta", "pos_embed"});
}

TEST_CASE("freeze: a name up to a dot means all parameters below it") {
  CHECK(names_frozen(small_vit("pre_pre"), {"blocks.1.mlp.fc1", "head"}) ==
        Patterns{"blocks.1.mlp.fc1.weight", "blocks.1.mlp.fc1.bias", "head.weight", "head.bias"});
}

TEST_CASE("freeze: a range of blocks means all parameters of these blocks") {
  ViTConfig c = small_vit("pre_pre");
  c.depth = 12;
  const Patterns names = names_frozen(c, {"blocks.1-10"});
  CHECK(names.size() == names_frozen(c, {"blocks.0-11"}).size() / 12 * 10);
  CHECK(names == names_frozen(c, {"blocks.1", "blocks.2-9", "blocks.10.*"}));
}

TEST_CASE("freeze: a range names the stage of a Swin") {
  const SwinConfig c = small_swin("pre_pre");
  CHECK(names_frozen(c, {"stages.1.blocks.0-1"}) == names_frozen(c, {"stages.1.blocks"}));
  CHECK(problem(c, {"blocks.0-1"}).starts_with("no parameter matches"));
}

TEST_CASE("freeze: a pattern that matches nothing is a problem") {
  const ViTConfig c = small_vit("pre_pre");
  CHECK(problem(c, {"stem", "block.0"}) == "no parameter matches \"block.0\"");
  CHECK(problem(c, {"blocks.0-2"}) == "there is no block 2 for \"blocks.0-2\"");
  CHECK(problem(c, {"blocks.1-0"}) == "\"blocks.1-0\" ends before it begins");
}

TEST_CASE("freeze: parameters that one product computes are frozen together") {
  CHECK(problem(small_vit("pre_pre"), {"*.k.weight"}) ==
        "freezes only one of blocks.0.attn.q.weight and blocks.0.attn.k.weight; one product computes queries, keys and "
        "values, so freeze all three or none");
  CHECK(problem(small_vit("pre_pre"), {"*.q.*", "*.k.*", "*.v.*"}).empty());
}

TEST_CASE("freeze: something must be left to train") {
  CHECK(problem(small_vit("pre_pre"), {"*"}) == "freezes every parameter, so there is nothing to train");
}

TEST_CASE("freeze: trained parameters get the gradients of the whole network") {
  on_each_device([] {
    for (const char* placement : {"pre_pre", "post_post", "normformer", "dpn", "sub_ln"}) {
      CAPTURE(std::string(placement));
      ViTConfig c = small_vit(placement);
      for (const Pool pool : {Pool::gap, Pool::token}) {
        c.pool = pool;
        check_gradients(c, {"stem", "blocks.0"});
        check_gradients(c, {"blocks.1"});
        check_gradients(c, {"*.bias", "*.beta"});
        check_gradients(c, {"head"});
      }
    }
    for (const Patterns& freeze : {Patterns{"stem", "stages.0"}, Patterns{"stages.1"}, Patterns{"*.reduction"}})
      check_gradients(small_swin("pre_pre"), freeze);
  });
}

TEST_CASE("freeze: frozen parameters keep their values under every optimiser") {
  for (const OptimizerName name :
       {OptimizerName::adamw, OptimizerName::sgd, OptimizerName::big_vision_adam, OptimizerName::momentum_hp,
        OptimizerName::lamb, OptimizerName::lion, OptimizerName::muon, OptimizerName::adam}) {
    CAPTURE(word_of(name));
    EngineSettings settings;
    settings.optimizer.name = name;
    settings.optimizer.decay_matrices_only = false;
    check_training(small_vit("pre_pre"), settings, {"blocks.0"});
    settings.optimizer.layer_decay = 0.7;
    check_training(small_vit("pre_pre"), settings, {"stem", "blocks.1.mlp"});
  }
}

TEST_CASE("freeze: frozen parameters keep their values in bf16") {
  EngineSettings settings;
  settings.precision = Precision::bf16_emulated;
  check_training(small_vit("pre_pre"), settings, {"stem", "blocks.0"});
}

TEST_CASE("freeze: a frozen block neither drops nor uses statistics of the batch") {
  ViTConfig c = small_vit("bn_ffnbn");
  c.dropout = c.attention_dropout = 0.3;
  c.drop_path = 0.4;
  Trained training(c, in_double(), {"stem", "blocks.0-1", "final"});
  const std::vector<double> before = buffers(training);
  const double first = training.engine.forward_backward(training.data.images, training.data.labels);
  training.engine.state().step = 5;  // other masks
  CHECK(training.engine.forward_backward(training.data.images, training.data.labels) == first);
  CHECK(buffers(training) == before);
}

TEST_CASE("freeze: a trained block still drops and uses statistics of the batch") {
  ViTConfig c = small_vit("bn_ffnbn");
  c.dropout = 0.3;
  Trained training(c, in_double(), {"stem", "blocks.0"});
  const std::vector<double> before = buffers(training);
  const double first = training.engine.forward_backward(training.data.images, training.data.labels);
  training.engine.state().step = 5;
  CHECK(training.engine.forward_backward(training.data.images, training.data.labels) != first);
  CHECK(buffers(training) != before);
}

TEST_CASE("freeze: the same bits for any number of threads") {
  for (const char* placement : {"pre_pre", "bn_ffnbn"}) {
    Trained one(small_vit(placement), {}, {"stem", "blocks.0"}, 1),
        three(small_vit(placement), {}, {"stem", "blocks.0"}, 3);
    one.train(3);
    three.train(3);
    CHECK(one.values() == three.values());
  }
}

TEST_CASE("freeze: averaged weights of frozen parameters are their values") {
  EngineSettings settings;
  settings.ema = {0.37, 1};
  Trained training(small_vit("pre_pre"), settings, {"stem", "blocks.0"});
  training.train(3);
  const auto trained = training.values();
  const WeightAverage::InUse use(*training.engine.average());
  const auto averaged = training.values();
  CHECK(averaged.at("patch_embed.weight") == trained.at("patch_embed.weight"));
  CHECK(averaged.at("head.weight") != trained.at("head.weight"));
}

TEST_CASE("freeze: a frozen network keeps nothing for a backward pass") {
  ViTConfig c = small_vit("pre_pre");
  c.image_size = {64, 64};
  c.embed_dim = 96;
  c.mlp_dim = 384;
  c.depth = 6;
  const auto arena = [&](const Patterns& freeze) {
    Trained training(c, {}, freeze);
    training.train(2);
    return training.engine.arena_bytes();
  };
  const std::size_t all = arena({}), head = arena({"stem", "blocks", "final"});
  CAPTURE(all);
  CAPTURE(head);
  CHECK(3 * head < all);
}

TEST_CASE("freeze: gradients and moments exist for trained parameters alone") {
  Trained training(small_vit("pre_pre"), {}, {"stem", "blocks"});
  const ParameterSet& set = training.engine.parameters();
  CHECK(set.trained_size() < set.flat_values().size() / 10);
  CHECK(set.flat_lane(0).size() == set.trained_size());
  for (const Optimizer::Moment& moment : training.engine.optimizer().moments())
    CHECK(moment.flat.size() == set.trained_size());
}

TEST_CASE("freeze: frozen parameters have no gradient norm") {
  Trained training(small_vit("pre_pre"), {}, {"stem", "blocks.0"});
  training.gradients();
  for (const GradientNorm& norm : gradient_norms(training.engine.parameters(), training.pool)) {
    CAPTURE(norm.layer);
    CHECK(norm.layer != "stem");
    CHECK(norm.layer != "blocks.0");
    CHECK(norm.norm > 0);
  }
}

TEST_CASE("freeze: a head on features trains to the bits of a head on the frozen network") {
  on_each_device([] {
    const auto compare = [](const ModelConfig& c, EngineSettings settings, const Patterns& freeze, int threads = 1) {
      settings.ema = {0.9, 1};
      Trained whole(c, settings, freeze), on_features(c, settings, freeze, threads);
      Arena memory;
      std::vector<double> features;
      /// In batches of `count` images: on a GPU the bits of a product may depend on its rows.
      const auto features_of = [&](std::int64_t count) {
        Tensor rows;
        for (std::int64_t first = 0; first < kBatch; first += count) {
          on_features.engine.features(on_features.data.images.slice(first, count), features);
          if (!rows) rows = memory.empty({kBatch, std::int64_t(features.size()) / count}, on_features.engine.dtype());
          for_type("test", rows.dtype(), [&](auto type) {
            using T = typename decltype(type)::type;
            std::transform(features.begin(), features.end(), rows.slice(first, count).data<T>(),
                           [](double v) { return T(v); });
          });
        }
        return rows;
      };
      const Tensor in_parts = features_of(kBatch / settings.accumulate), rows = features_of(kBatch);
      for (int step = 0; step < 3; ++step)
        CHECK(whole.engine.train_step(whole.data.images, whole.data.labels) ==
              on_features.engine.train_step(in_parts, on_features.data.labels));
      CHECK(whole.values() == on_features.values());
      std::vector<double> losses(kBatch), other(kBatch), logits(std::size_t(kBatch * num_classes(c))),
          as(logits.size());
      std::vector<std::int32_t> predicted(kBatch), again(kBatch);
      CHECK_FALSE(whole.engine.evaluate(whole.data.images, whole.data.labels, losses, predicted, logits));
      CHECK_FALSE(on_features.engine.evaluate(rows, on_features.data.labels, other, again, as));
      CHECK(logits == as);
      CHECK(losses == other);
      std::vector<double> same;
      on_features.engine.features(rows, same);
      CHECK(same == features);
    };
    const Precision narrow = current_device().name == "cpu" ? Precision::bf16_emulated : Precision::bf16;
    const Patterns but_head{"stem", "blocks", "final"};
    for (const char* placement : {"pre_pre", "dpn", "bn_ffnbn"})
      for (const Precision precision : {Precision::fp32, narrow}) {
        CAPTURE(std::string(placement));
        EngineSettings settings;
        settings.precision = precision;
        ViTConfig c = small_vit(placement);
        c.dropout = 0.2;
        c.drop_path = 0.2;
        compare(c, settings, but_head, 3);
      }
    ViTConfig token = small_vit("pre_pre");
    token.pool = Pool::token;
    token.rep_size = 24;
    compare(token, {}, {"stem", "blocks", "final", "rep"});
    EngineSettings parts;
    parts.accumulate = 2;
    compare(small_swin("pre_pre"), parts, {"stem", "stages", "final"});
  });
}
