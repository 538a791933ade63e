// Muon: which parameters it updates, what its step is like, and that threads and shapes change nothing.
#include <doctest/doctest.h>

#include <cmath>

#include "core/random.h"
#include "nn/training/optimizer.h"
#include "tests/core/cpu/bf16_choice.h"
#include "tests/cuda_emulation/lt_control.h"
#include "tests/cuda_emulation/scheduler.h"
#include "tests/devices.h"
#include "tests/nn/training/optimiser_step.h"

using namespace normlab;

namespace {

struct Network {
  /// Matrices of a block of these shapes, a head, and a bias of the block. `bf16`: products have factors in bf16.
  explicit Network(const std::vector<Shape>& shapes, bool bf16 = false, int threads = 1,
                   OptimizerSettings settings = muon(), const std::vector<UpdateFactors>& factors = {})
      : pool(threads) {
    for (const Shape& shape : shapes)
      set.add(concat("blocks.0.m", set.parameters().size()), shape,
              {.role = Role::fc1, .place = {.block = 0}, .decays = set.parameters().size() % 2 == 0});
    set.add("blocks.0.bias", {5}, {.role = Role::fc1, .place = {.block = 0}});
    set.add("head.weight", {6, 5}, {.role = Role::head, .decays = true});
    set.allocate(DType::f32, 1, bf16);
    const TestDevice& device = current_device();
    Backend& backend = bf16 ? in_precision(device.backend, precision_of(DType::bf16, device.bf16)) : device.backend;
    optimizer = std::make_unique<Optimizer>(backend, set, settings, factors);
    for (std::size_t i = 0; i < set.parameters().size(); ++i) {
      const StreamKey key = stream_key(7, "test", set.parameters()[i].name);
      for (std::int64_t j = 0; j < set.gradient(0, int(i)).size(); ++j)
        set.gradient(0, int(i)).data<float>()[j] = static_cast<float>(normal(key, static_cast<std::uint64_t>(j)));
    }
    state.lr = 1.0;
    state.schedule = 1.0;
  }
  static OptimizerSettings muon() {
    OptimizerSettings settings{.name = OptimizerName::muon};
    settings = defaults_beside(settings);
    settings.name = OptimizerName::muon;
    settings.weight_decay = 0.0;
    return settings;
  }
  std::vector<float> values() const {
    const Tensor all = set.flat_values();
    return {all.data<float>(), all.data<float>() + all.size()};
  }
  void step() { step_on_device(*optimizer, pool, state); }

  ParameterSet set{current_device().memory()};
  ShardPool pool;
  std::unique_ptr<Optimizer> optimizer;
  StepState state;
};

const std::vector<Shape> kShapes{{24, 24}, {96, 24}, {24, 96}};

}  // namespace

TEST_CASE("muon: the step of a matrix is nearly orthogonal") {
  on_each_device([] {
    const std::vector<Shape> shapes{{8, 8}, {40, 8}, {8, 40}, {33, 17}, {1, 12}};
    for (const bool bf16 : {false, true}) {
      Network network(shapes, bf16);
      network.step();
      for (std::size_t s = 0; s < shapes.size(); ++s) {
        const std::int64_t rows = shapes[s][0], cols = shapes[s][1];
        CAPTURE(rows);
        CAPTURE(cols);
        const float* x = network.set.value(int(s)).data<float>();
        const double scale = std::sqrt(std::max(1.0, double(rows) / double(cols)));
        // The mean square of the singular values of the step.
        double squares = 0;
        for (std::int64_t i = 0; i < rows * cols; ++i) squares += double(x[i]) * double(x[i]);
        const double mean = squares / (scale * scale * double(std::min(rows, cols)));
        // Five steps of this polynomial bring every singular value from 0.01 on between 0.68 and 1.13 (Jordan 2024).
        CHECK(mean > 0.68 * 0.68);
        CHECK(mean < 1.13 * 1.13);
      }
    }
  });
}

TEST_CASE("muon: bf16 products change a step by less than 5%") {
  on_each_device([] {
    Network plain(kShapes), rounded(kShapes, true);
    plain.step();
    rounded.step();
    double largest = 0, difference = 0;
    for (std::size_t i = 0; i < plain.values().size(); ++i) {
      largest = std::max(largest, double(std::abs(plain.values()[i])));
      difference = std::max(difference, double(std::abs(plain.values()[i] - rounded.values()[i])));
    }
    CHECK(difference > 0);
    CHECK(difference < 0.05 * largest);
  });
}

TEST_CASE("muon: three threads give the bits of one") {
  on_each_device([] {
    Network one(kShapes), three(kShapes, false, 3);
    one.step();
    three.step();
    CHECK(one.values() == three.values());
  });
}

TEST_CASE("muon: a matrix among others of its shape has the bits that it has alone") {
  on_each_device([] {
    if (current_device().name == "cuda") return;  // cuBLASLt takes other algorithms for a batch
    const std::vector<Shape> shapes{{24, 24}, {33, 17}, {24, 24}, {24, 96}, {33, 17}, {24, 24}};
    OptimizerSettings settings = Network::muon();
    settings.weight_decay = 0.1;
    std::vector<UpdateFactors> factors;
    for (std::size_t i = 0; i < shapes.size() + 2; ++i) factors.push_back({1.0 / double(i + 1), double(i % 3)});
    for (const bool bf16 : {false, true}) {
      Network all(shapes, bf16, 2, settings, factors);
      for (std::size_t i = 0; i < shapes.size(); ++i) {
        // Another shape keeps the places of decay.
        const bool second = i % 2 == 1;
        std::vector<Shape> some{shapes[i]};
        std::vector<UpdateFactors> own(3, factors[i]);
        if (second) some.insert(some.begin(), {3, 4}), own.push_back(factors[i]);
        Network alone(some, bf16, 1, settings, own);
        const int at = second;
        for (int step = 0; step < 2; ++step) {
          const Tensor from = all.set.gradient(0, int(i)), to = alone.set.gradient(0, at);
          std::copy_n(from.data<float>(), from.size(), to.data<float>());
          alone.step();
          if (i == 0) all.step();
        }
        const Tensor got = all.set.value(int(i)), wanted = alone.set.value(at);
        CAPTURE(i);
        CAPTURE(bf16);
        CHECK(std::equal(got.data<float>(), got.data<float>() + got.size(), wanted.data<float>()));
      }
    }
  });
}

TEST_CASE("muon: a step has as many launches for many matrices of a shape as for one") {
  on_each_device([] {
    if (current_device().name != "cuda (emulated)") return;
    const auto launches = [](const std::vector<Shape>& shapes) {
      Network network(shapes, true);
      const auto count = [] { return emulation::kernels_launched() + emulation::lt_control().products; };
      const auto before = count();
      network.step();
      return count() - before;
    };
    const auto one = launches({{8, 16}}), two = launches({{8, 16}, {16, 8}});
    CHECK(launches({{8, 16}, {16, 8}, {8, 16}, {8, 16}, {16, 8}, {8, 16}}) == two);
    CHECK(two - one == 18);
    CHECK(one == 18 + 4);  // and the sum, the clipping, the update of the rest
  });
}

TEST_CASE("muon: parameters other than matrices of blocks take the steps of AdamW") {
  on_each_device([] {
    Network network({{8, 8}});
    ParameterSet set{current_device().memory()};
    set.add("blocks.0.bias", {5}, {.role = Role::fc1, .place = {.block = 0}});
    set.add("head.weight", {6, 5}, {.role = Role::head, .decays = true});
    set.allocate(DType::f32, 1);
    current_device().backend.synchronize();  // cleared memory is writable from here on
    for (int i = 0; i < 2; ++i) {
      const Tensor from = network.set.gradient(0, i + 1), to = set.gradient(0, i);
      std::copy_n(from.data<float>(), from.size(), to.data<float>());
    }
    const BesideMuon& beside = Network::muon().adamw;
    Optimizer adamw(current_device().backend, set, {.weight_decay = beside.weight_decay});
    StepState state;
    state.lr = 0.5 * beside.lr;
    network.state.schedule = 0.5;
    ShardPool pool(1);
    step_on_device(adamw, pool, state);
    network.step();
    for (int i = 0; i < 2; ++i)
      for (std::int64_t j = 0; j < set.value(i).size(); ++j)
        CHECK(set.value(i).data<float>()[j] == network.set.value(i + 1).data<float>()[j]);
  });
}

TEST_CASE("muon: after a step of any optimiser the products' copy holds the rounded values") {
  on_each_device([] {
    for (std::size_t name = 0; name < kWords<OptimizerName>.size(); ++name) {
      CAPTURE(name);
      OptimizerSettings settings = Network::muon();
      settings.name = static_cast<OptimizerName>(name);
      Network network(kShapes, true, 1, settings);
      network.step();
      const auto [values, copy] = network.set.update();
      bool equal = true, moved = false;
      for (std::int64_t i = 0; i < values.size(); ++i) {
        equal &= copy.data<bf16>()[i].bits == bf16(values.data<float>()[i]).bits;
        moved |= copy.data<bf16>()[i].bits != 0;
      }
      CHECK(equal);
      CHECK(moved);
    }
  });
}

TEST_CASE("muon: a gradient that is not finite changes nothing") {
  on_each_device([] {
    Network network({{8, 8}});
    network.set.gradient(0, 0).data<float>()[3] = NAN;
    network.step();
    CHECK(network.state.nonfinite);
    for (const float value : network.values()) CHECK(value == 0.0f);
  });
}

TEST_CASE("muon: a gradient of zeros takes no step") {
  on_each_device([] {
    Network network({{8, 8}});
    std::fill_n(network.set.gradient(0, 0).data<float>(), 64, 0.0f);
    network.step();
    for (int i = 0; i < 64; ++i) CHECK(network.set.value(0).data<float>()[i] == 0.0f);
  });
}
