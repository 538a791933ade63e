// Rotary positions and registers in networks: angles, what turns, what a head reads, costs.
#include "nn/model/rotary.h"

#include <doctest/doctest.h>

#include <cmath>
#include <complex>
#include <numbers>

#include "autograd/randn.h"
#include "nn/model/init.h"
#include "nn/model/model.h"
#include "nn/model/resize_positions.h"
#include "tests/nn/training/small_training.h"

using namespace normlab;

namespace {

/// Heads of 8 channels on 4 x 4 patches.
ViTConfig with(const RotaryConfig& rotary, std::int64_t registers = 0, Pool pool = Pool::token) {
  ViTConfig c = small_vit("pre_pre");
  c.rotary = rotary;
  c.registers = registers;
  c.pool = pool;
  return c;
}

RotaryConfig in_grid(std::int64_t height, std::int64_t width) {
  RotaryConfig rotary = RotaryDialect::eva02;
  rotary.grid = {height, width};
  return rotary;
}

constexpr std::int64_t kBatch = 6;

struct Computed {
  std::vector<double> logits, gradient;
  bool operator==(const Computed&) const = default;
};
template <class Set>
Computed computed(const ModelConfig& c, std::int64_t images_per_shard, int threads, const Set& set,
                  Precision precision = Precision::fp64) {
  EngineSettings settings;
  settings.precision = precision;
  settings.max_batch = kBatch;
  settings.images_per_shard = images_per_shard;
  SmallTraining training(c, settings, threads);
  auto& [pool, engine, data] = training;
  random_head(engine);
  set(engine.parameters());
  Computed out;
  engine.forward_backward(data.images, data.labels);
  engine.sum_gradients();
  const Tensor gradient = engine.parameters().flat_lane(0);
  for (std::int64_t i = 0; i < gradient.size(); ++i)
    out.gradient.push_back(gradient.dtype() == DType::f64 ? gradient.data<double>()[i] : gradient.data<float>()[i]);
  std::vector<double> losses(kBatch);
  std::vector<std::int32_t> predicted(kBatch);
  out.logits.resize(std::size_t(kBatch * num_classes(c)));
  CHECK(!engine.evaluate(data.images, data.labels, losses, predicted, out.logits));
  return out;
}
Computed computed(const ModelConfig& c, std::int64_t images_per_shard = kBatch, int threads = 1) {
  return computed(c, images_per_shard, threads, [](ParameterSet&) {});
}

/// The largest difference; of values above 1 relative to them, since some gradients are above 8192, whose last bit is
/// 1.8e-12.
double furthest(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  double most = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    most = std::max(most, std::abs(a[i] - b[i]) / std::max(1.0, std::abs(b[i])));
  return most;
}

std::string problems_of(const ViTConfig& c) {
  std::string out;
  for (const ConfigProblem& problem : validate(c)) out += problem.key + ": " + problem.message + "\n";
  return out;
}

}  // namespace

TEST_CASE("rotary: angles are those of the papers") {
  // DINOv3: 2 x 3 patches, heads of 8 channels, so two frequencies along each axis: 1 and 100^(-1/2).
  ViTConfig c = with(RotaryDialect::dinov3);
  c.image_size = {8, 12};
  const std::vector<double> dinov3 = rotary_table(c);
  REQUIRE(dinov3.size() == 6 * 8);
  const double pi = std::numbers::pi;
  const auto row = [](const std::vector<double>& table, std::size_t token, std::vector<double> angles) {
    for (std::size_t k = 0; k < 4; ++k) {
      CHECK(table[token * 8 + k] == doctest::Approx(std::cos(angles[k])).epsilon(1e-12));
      CHECK(table[token * 8 + 4 + k] == doctest::Approx(std::sin(angles[k])).epsilon(1e-12));
    }
  };
  row(dinov3, 0, {-pi, -pi / 10, -pi * 4 / 3, -pi * 4 / 30});  // rows -1/2, 1/2; columns -2/3, 0, 2/3
  row(dinov3, 1, {-pi, -pi / 10, 0, 0});
  row(dinov3, 5, {pi, pi / 10, pi * 4 / 3, pi * 4 / 30});
  // EVA-02: patches, with frequencies 1 and 10000^(-1/2), then in steps of 14 / 2 and 9 / 3.
  c.rotary = RotaryDialect::eva02;
  row(rotary_table(c), 5, {1, 0.01, 2, 0.02});
  c.rotary = in_grid(14, 9);
  row(rotary_table(c), 4, {7, 0.07, 3, 0.03});
  // ViT-5: four registers turn as 2 x 2 with base 100, before the patches.
  c.rotary.register_base = 100;
  c.registers = 4;
  const std::vector<double> vit5 = rotary_table(c);
  REQUIRE(vit5.size() == 10 * 8);
  row(vit5, 0, {0, 0, 0, 0});
  row(vit5, 1, {0, 0, 1, 0.1});
  row(vit5, 2, {1, 0.1, 0, 0});
  row(vit5, 4 + 4, {7, 0.07, 3, 0.03});
}

TEST_CASE("rotary: the network's own grid is the default of the reference grid, bit for bit") {
  for (const std::int64_t side : {3, 4, 7, 49}) {
    ViTConfig c = with(RotaryDialect::eva02);
    c.image_size = {side * c.patch_size, side * c.patch_size};
    ViTConfig given = c;
    given.rotary.grid = {side, side};
    CHECK(rotary_table(given) == rotary_table(c));
    simplify_rotary(given);
    CHECK(given == c);
  }
  ViTConfig other = with(in_grid(4, 5));
  simplify_rotary(other);
  CHECK(other.rotary == in_grid(4, 5));
}

TEST_CASE("rotary: pairs turn as complex numbers, back as their conjugates, and the rest stays") {
  on_each_device([] {
    constexpr std::int64_t kTokens = 5, kHead = 8, kFirst = 2, kCols = 3 * 2 * kHead, kTurned = 2 * 2 * kHead;
    ViTConfig c = with(RotaryDialect::dinov3);
    c.image_size = {4, 12};  // three patches
    c.embed_dim = 2 * kHead;
    c.num_heads = 2;
    const std::vector<double> angles = rotary_table(c);
    Arena memory(current_device().memory());
    Tape tape(current_device().backend, memory);
    const Tensor x = tape.empty({2, kTokens, kCols}, DType::f64), table = tape.empty({3, kHead}, DType::f64);
    tape.backend().synchronize();
    for (std::int64_t i = 0; i < x.size(); ++i) x.data<double>()[i] = std::sin(double(i * i));
    std::copy(angles.begin(), angles.end(), table.data<double>());
    for (const RotaryPairs pairs : {RotaryPairs::halves, RotaryPairs::neighbours}) {
      const Var leaf = tape.input(x, true);
      const Var turned = rotate(leaf, table, {kTurned, kHead, kFirst, pairs});
      tape.backward(turned, turned.value());  // the turns are orthogonal: the gradient of |y|^2 / 2 is x
      tape.backend().synchronize();
      const double *from = x.data<double>(), *to = turned.value().data<double>();
      for (std::int64_t t = 0; t < 2 * kTokens; ++t)
        for (std::int64_t head = 0; head < kCols / kHead; ++head)
          for (std::int64_t k = 0; k < kHead / 2; ++k) {
            const std::int64_t i = pairs == RotaryPairs::halves ? k : 2 * k,
                               j = pairs == RotaryPairs::halves ? k + kHead / 2 : 2 * k + 1,
                               at = (t * kCols) + head * kHead, token = t % kTokens - kFirst;
            const bool turns = token >= 0 && head * kHead < kTurned;
            const double* row = angles.data() + (turns ? token * kHead : 0);
            const std::complex<double> turn = turns ? std::complex(row[k], row[kHead / 2 + k]) : 1.0,
                                       y = std::complex(from[at + i], from[at + j]) * turn;
            CHECK(to[at + i] == doctest::Approx(y.real()).epsilon(1e-14));
            CHECK(to[at + j] == doctest::Approx(y.imag()).epsilon(1e-14));
          }
      for (std::int64_t i = 0; i < x.size(); ++i)
        CHECK(leaf.grad().data<double>()[i] == doctest::Approx(from[i]).epsilon(1e-14));
    }
  });
}

TEST_CASE("rotary: a score depends on the distance between two patches") {
  const ViTConfig c = with(in_grid(8, 8));
  const std::vector<double> table = rotary_table(c);
  const auto score = [&](std::size_t a, std::size_t b) {  // of equal queries and keys
    double sum = 0;
    for (std::size_t k = 0; k < 4; ++k)
      sum += (std::complex(table[a * 8 + k], table[a * 8 + 4 + k]) *
              std::conj(std::complex(table[b * 8 + k], table[b * 8 + 4 + k])) * std::complex(1.0, 0.3))
                 .real();
    return sum;
  };
  CHECK(score(0, 6) == doctest::Approx(score(5, 11)).epsilon(1e-12));  // a row down, two columns on
  CHECK(score(0, 6) != doctest::Approx(score(0, 5)).epsilon(1e-3));    // a row down, one column on
}

TEST_CASE("rotary: any shards and threads give the same, and the class token alone does") {
  on_each_device([] {
    RotaryConfig vit5 = RotaryDialect::eva02;
    vit5.register_base = 100;
    for (const RotaryConfig& rotary : {RotaryConfig(RotaryDialect::none), RotaryConfig(RotaryDialect::dinov3), vit5})
      for (const char* placement : {"pre_pre", "vit5"}) {
        CAPTURE(word_of(rotary.dialect));
        CAPTURE(placement);
        ViTConfig c = with(rotary, 4);
        c.placement = find_placement(placement)->placement;
        const Computed whole = computed(c);
        CHECK(furthest(computed(c, 2, 2).gradient, whole.gradient) < 1e-12);
        CHECK(computed(c, 2, 1) == computed(c, 2, 2));
        ViTConfig full = c;
        full.short_forms = false;
        CHECK(furthest(computed(full).logits, whole.logits) < 1e-12);
        CHECK(furthest(computed(full).gradient, whole.gradient) < 1e-11);
        ViTConfig gap = c;
        gap.pool = Pool::gap;
        CHECK(furthest(computed(gap, 2, 2).gradient, computed(gap).gradient) < 1e-12);
      }
  });
}

TEST_CASE("rotary: float and bf16 are near double") {
  on_each_device([] {
    const ViTConfig c = with(RotaryDialect::dinov3, 3);
    const auto none = [](ParameterSet&) {};
    const Computed wide = computed(c, kBatch, 1, none), narrow = computed(c, kBatch, 1, none, Precision::fp32);
    CHECK(furthest(narrow.logits, wide.logits) < 1e-5);
    const Precision half = current_device().name == "cpu" ? Precision::bf16_emulated : Precision::bf16;
    CHECK(furthest(computed(c, kBatch, 1, none, half).logits, wide.logits) < 0.1);
  });
}

TEST_CASE("rotary: patches that change places change the answer, registers are no patches") {
  // Without positions, a network does not see the order of patches.
  const auto swapped = [](const ViTConfig& c) {
    EngineSettings settings;
    settings.precision = Precision::fp64;
    settings.max_batch = kBatch;
    SmallTraining training(c, settings, 1);
    auto& [pool, engine, data] = training;
    random_head(engine);
    std::vector<double> losses(kBatch), first(std::size_t(kBatch * c.num_classes)), second(first);
    std::vector<std::int32_t> predicted(kBatch);
    CHECK(!engine.evaluate(data.images, data.labels, losses, predicted, first));
    double* pixels = data.images.data<double>();
    const std::int64_t half = c.image_size[0] * c.image_size[1] * c.channels / 2;
    for (std::int64_t i = 0; i < kBatch; ++i)
      std::rotate(pixels + 2 * i * half, pixels + (2 * i + 1) * half, pixels + (2 * i + 2) * half);
    CHECK(!engine.evaluate(data.images, data.labels, losses, predicted, second));
    return furthest(first, second);
  };
  ViTConfig c = with(RotaryDialect::none, 3, Pool::gap);
  c.pos_embed = PosEmbed::none;
  CHECK(swapped(c) < 1e-12);
  c.rotary = RotaryDialect::eva02;
  CHECK(swapped(c) > 1e-4);
  c.rotary = RotaryDialect::dinov3;
  CHECK(swapped(c) > 1e-4);
  // A network without blocks that mix: the mean over patches does not see registers.
  ViTConfig alone = with(RotaryDialect::none, 2, Pool::gap);
  const auto far_registers = [](ParameterSet& p) {
    for (const char* name : {"blocks.0.attn.proj.weight", "blocks.1.attn.proj.weight"}) {
      const Tensor t = p.value(p.find(name));
      std::fill_n(t.data<double>(), t.size(), 0.0);
    }
    const int registers = p.find("reg_token");
    if (registers < 0) return;
    const Tensor t = p.value(registers);
    for (std::int64_t i = 0; i < t.size(); ++i) t.data<double>()[i] = 7 + std::cos(double(i));
  };
  const ViTConfig without = with(RotaryDialect::none, 0, Pool::gap);
  CHECK(furthest(computed(alone, kBatch, 1, far_registers).logits, computed(without, kBatch, 1, far_registers).logits) <
        1e-12);
}

TEST_CASE("rotary: costs, sizes and initial values") {
  const ViTConfig plain = with(RotaryDialect::none), turned = with(RotaryDialect::dinov3);
  CHECK(model_cost(turned).parameters == model_cost(plain).parameters);
  CHECK(model_cost(turned).macs == model_cost(plain).macs);
  const ViTConfig more = with(RotaryDialect::none, 4);
  CHECK(model_cost(more).parameters == model_cost(plain).parameters + 4 * 24);
  CHECK(block_sizes(ModelConfig(more)).front().tokens == 16 + 1 + 4);
  CHECK(block_sizes(ModelConfig(more)).front().patches == 16);
  CHECK(widest_layer(more) > widest_layer(plain));
  const auto deviation = [&](Init init) {
    ViTConfig c = more;
    c.init = init;
    c.registers = 400;
    ParameterSet set;
    make_model(set, c);
    set.allocate(DType::f64, 0);
    initialise(set, c, 1);
    const Tensor t = set.value(set.find("reg_token"));
    CHECK_FALSE(set.parameters()[std::size_t(set.find("reg_token"))].decays);
    double sum = 0;
    for (std::int64_t i = 0; i < t.size(); ++i) sum += t.data<double>()[i] * t.data<double>()[i];
    return std::sqrt(sum / double(t.size()));
  };
  for (const Init init : {Init::big_vision, Init::torch, Init::deit})
    CHECK(deviation(init) == doctest::Approx(0.02).epsilon(0.05));
  for (const Init init : {Init::timm, Init::timm_jax}) CHECK(deviation(init) == doctest::Approx(1e-6).epsilon(0.05));
}

TEST_CASE("rotary: what does not fit is an error") {
  ViTConfig c = with(RotaryDialect::dinov3);
  CHECK(problems_of(c) == "");
  c.embed_dim = 30;
  CHECK(problems_of(c) == "rotary: heads have 10 channels, of which rotary positions turn a multiple of 4\n");
  c = with(in_grid(4, 0));
  CHECK(problems_of(c).starts_with("rotary.grid: a side of 4 beside one of 0"));
  c = with(RotaryDialect::eva02, 3);
  CHECK(problems_of(c) == "");
  c.rotary.register_base = 100;
  CHECK(problems_of(c).starts_with("rotary.register_base: the registers turn as a square grid, and 3 are none"));
  c.registers = 0;
  CHECK(problems_of(c).starts_with("rotary.register_base: "));
  c.registers = 9;
  CHECK(problems_of(c) == "");
  Arena memory;
  Tape tape(cpu_backend(), memory);
  const Var x = tape.input(randn(memory, {2, 5, 12}, DType::f64, 1));
  CHECK_THROWS_WITH_AS(rotate(x, Tensor(), {12, 5, 1}),
                       "rotate: heads of 5 channels, the first 12 from token 1 on, of [2, 5, 12]", InputError);
  CHECK_THROWS_AS(rotate(x, tape.empty({3, 4}, DType::f64), {12, 4, 1}), InputError);
}
