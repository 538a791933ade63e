// Image-text training in the engine: gradients of both towers, bits, devices, frozen image towers.
#include "nn/model/text_tower.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "core/for_type.h"
#include "nn/model/freeze.h"
#include "nn/model/init.h"
#include "nn/model/model.h"
#include "nn/training/engine.h"
#include "tests/devices.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

constexpr std::int64_t kPairs = 7;

ViTConfig pairs_of(std::string_view image, std::string_view text) {
  ViTConfig c = small_vit(image);
  c.task = Task::contrast;
  c.text = {.vocabulary = 11,
            .length = 5,
            .embed_dim = 16,
            .depth = 2,
            .num_heads = 2,
            .mlp_dim = 32,
            .placement = find_placement(text)->placement};
  return c;
}

struct Trained {
  ShardPool pool;
  Engine engine;
  const Batch data;
  Arena memory;
  Tensor texts = memory.empty({kPairs, 5}, DType::i32);
  Trained(const ViTConfig& c, EngineSettings settings, int threads = 1)
      : pool(threads), engine(current_device().backend, pool, c, with(settings)), data(c, kPairs, engine.dtype()) {
    initialise(engine.parameters(), c, 3);
    engine.state().lr = 1e-2;
    for (std::int64_t i = 0; i < texts.size(); ++i)
      texts.data<std::int32_t>()[i] = static_cast<std::int32_t>((i * i + i / 5) % 10);
    for (std::int64_t r = 0; r < kPairs; ++r) texts.data<std::int32_t>()[r * 5 + 4] = 10;
  }
  static EngineSettings with(EngineSettings settings) {
    settings.max_batch = kPairs;
    if (settings.images_per_shard == 0) settings.images_per_shard = 3;
    return settings;
  }
  double loss() { return engine.forward_backward(data.images, texts); }
  std::vector<double> gradient(const std::string& name) {
    const Tensor t = engine.parameters().gradient(0, engine.parameters().find(name));
    std::vector<double> out;
    for (std::int64_t i = 0; i < t.size(); ++i) out.push_back(number_at(t, i));
    return out;
  }
  std::map<std::string, std::vector<double>> values() {
    std::map<std::string, std::vector<double>> out;
    for (const ParameterInfo& p : engine.parameters().parameters()) {
      const Tensor t = engine.parameters().read(engine.parameters().find(p.name));
      for (std::int64_t i = 0; i < t.size(); ++i) out[p.name].push_back(number_at(t, i));
    }
    return out;
  }
};

EngineSettings in_double(LossKind loss) {
  EngineSettings settings;
  settings.precision = Precision::fp64;
  settings.loss = loss;
  return settings;
}

}  // namespace

TEST_CASE("text tower: gradients of all parameters agree with finite differences") {
  on_each_device([] {
    for (const LossKind loss : {LossKind::softmax, LossKind::sigmoid})
      for (const auto& placements : {std::pair("dpn", "post_post"), {"pre_pre", "bn_ffnbn"}}) {
        CAPTURE(std::string(placements.second));
        Trained t(pairs_of(placements.first, placements.second), in_double(loss));
        t.loss();
        t.engine.sum_gradients();
        std::map<std::string, std::vector<double>> gradients;
        for (const char* name :
             {"text.embedding", "text.pos_embed", "text.blocks.0.attn.q.weight", "text.blocks.1.mlp.fc2.bias",
              "text.rep.weight", "text.temperature", "text.bias", "patch_embed.weight", "blocks.1.attn.v.weight"}) {
          gradients[name] = t.gradient(name);
        }
        for (const auto& gradient : gradients) {
          const std::string& name = gradient.first;
          CAPTURE(name);
          if (current_device().name != "cpu" && name.find("blocks") != name.npos) continue;  // slow to emulate
          const Tensor value = t.engine.parameters().value(t.engine.parameters().find(name));
          for (const std::int64_t i : {value.size() / 2, value.size() - 1}) {
            constexpr double kStep = 1e-5;
            double& v = value.data<double>()[i];
            const double at = v;
            v = at + kStep;
            const double above = t.loss();
            v = at - kStep;
            const double below = t.loss();
            v = at;
            CHECK(gradient.second[std::size_t(i)] ==
                  doctest::Approx((above - below) / (2 * kStep)).epsilon(1e-5).scale(1e-3));
          }
        }
      }
  });
}

TEST_CASE("text tower: shards meet, and neither their number nor that of threads changes the training") {
  for (const LossKind loss : {LossKind::softmax, LossKind::sigmoid}) {
    EngineSettings whole = in_double(loss);
    whole.images_per_shard = kPairs;
    Trained one(pairs_of("pre_pre", "pre_pre"), whole), cut(pairs_of("pre_pre", "pre_pre"), in_double(loss));
    CHECK(cut.loss() == doctest::Approx(one.loss()).epsilon(1e-12));
    EngineSettings settings;
    settings.loss = loss;
    ViTConfig drops = pairs_of("pre_pre", "pre_pre");
    drops.drop_path = 0.4;
    drops.dropout = 0.1;
    Trained alone(drops, settings, 1), three(drops, settings, 3);
    for (int step = 0; step < 3; ++step)
      CHECK(alone.engine.train_step(alone.data.images, alone.texts) ==
            three.engine.train_step(three.data.images, three.texts));
    CHECK(alone.values() == three.values());
  }
}

TEST_CASE("text tower: training lowers the loss on every device, in fp32 and bf16") {
  on_each_device([] {
    const Precision narrow = current_device().name == "cpu" ? Precision::bf16_emulated : Precision::bf16;
    for (const Precision precision : {Precision::fp32, narrow})
      for (const LossKind loss : {LossKind::softmax, LossKind::sigmoid}) {
        EngineSettings settings;
        settings.precision = precision;
        settings.loss = loss;
        Trained t(pairs_of("pre_pre", "pre_pre"), settings);
        const double before = t.engine.train_step(t.data.images, t.texts);
        double after = before;
        for (int step = 0; step < 5; ++step) after = t.engine.train_step(t.data.images, t.texts);
        CHECK(after < 0.98 * before);
      }
  });
}

TEST_CASE("text tower: a frozen image tower keeps its values, and trains the same on stored features") {
  on_each_device([] {
    EngineSettings settings;
    settings.freeze = {"stem", "blocks", "final"};
    ViTConfig c = pairs_of("dpn", "pre_pre");
    c.dropout = 0.2;
    Trained images(c, settings), features(c, settings);
    const auto before = images.values();
    std::vector<double> values;
    features.engine.features(features.data.images, values);
    Arena memory;
    const Tensor rows = memory.empty({kPairs, std::int64_t(values.size()) / kPairs}, features.engine.dtype());
    std::copy(values.begin(), values.end(), rows.data<float>());
    for (int step = 0; step < 3; ++step)
      CHECK(images.engine.train_step(images.data.images, images.texts) ==
            features.engine.train_step(rows, features.texts));
    const auto after = images.values();
    CHECK(after == features.values());
    for (const auto& parameter : before) {
      const std::string& name = parameter.first;
      CAPTURE(name);
      CHECK((after.at(name) == parameter.second) == (!name.starts_with("text.") || name == "text.bias"));
    }
  });
}

TEST_CASE("text tower: features of texts do not depend on the other texts") {
  Trained t(pairs_of("pre_pre", "pre_pre"), {});
  std::vector<double> all, last;
  t.engine.features(t.texts, all);
  t.engine.features(t.texts.slice(kPairs - 1, 1), last);
  REQUIRE(all.size() == std::size_t(kPairs * 24));
  CHECK(std::equal(last.begin(), last.end(), all.end() - 24));
}

TEST_CASE("text tower: names, initial values and costs") {
  const ViTConfig c = pairs_of("pre_pre", "pre_pre");
  ParameterSet set;
  make_model(set, c);
  CHECK(set.find("head.weight") < 0);
  const auto rule = [&](const char* name) { return init_rule(set, set.find(name), c); };
  CHECK(rule("text.temperature").scale == doctest::Approx(std::log(10.0)));
  CHECK(rule("text.bias").scale == -2.71);
  CHECK(rule("text.embedding").scale == 0.25);
  CHECK(rule("text.pos_embed").scale == 0.25);
  CHECK(set.parameters()[std::size_t(set.find("text.rep.weight"))].shape == Shape{24, 16});
  for (const char* name : {"text.embedding", "text.pos_embed", "text.temperature", "text.bias"})
    CHECK_FALSE(set.parameters()[std::size_t(set.find(name))].decays);
  ViTConfig without = c;
  without.task = Task::classify;
  // Of a block: four products of 16 x 16 and two of 16 x 32 for 5 tokens, and 2 x 5 x 5 x 16 in attention.
  CHECK(model_cost(c).macs - (model_cost(without).macs - 24 * 7) ==
        2 * (5 * (4 * 256 + 2 * 512) + 2 * 5 * 5 * 16) + 16 * 24);
  const std::vector<bool> frozen = frozen_by(std::vector<std::string>{"stem"}, set.parameters());
  CHECK_FALSE(frozen[std::size_t(set.find("text.embedding"))]);
}

TEST_CASE("text tower: wrong settings and texts are refused") {
  const auto problem = [](auto&& change) {
    ViTConfig c = pairs_of("pre_pre", "pre_pre");
    change(c);
    const std::vector<ConfigProblem> found = validate(c);
    return found.empty() ? "" : found[0].key + ": " + found[0].message;
  };
  CHECK(problem([](ViTConfig&) {}).empty());
  CHECK(problem([](ViTConfig& c) { c.text.num_heads = 3; }) == "text.num_heads: 3 heads do not divide embed_dim 16");
  CHECK(problem([](ViTConfig& c) { c.text.vocabulary = 1; }) ==
        "text.vocabulary: text.vocabulary must be from 2 to 4194304, got 1");
  CHECK(problem([](ViTConfig& c) { c.text.placement = find_placement("dpn")->placement; }) ==
        "text.placement: stem.patch_in is a site of images; a text tower has none");
  Trained t(pairs_of("pre_pre", "pre_pre"), {});
  t.texts.data<std::int32_t>()[12] = 11;
  CHECK_THROWS_WITH_AS(
      t.loss(), "the text of image 2 of the batch has the word number 11, but the text tower has 11 words", InputError);
  CHECK_THROWS_WITH_AS(t.engine.forward_backward(t.data.images.slice(0, 1), t.texts.slice(0, 1)),
                       "a batch of one pair has nothing to contrast; use a larger train.batch_size", InputError);
}
