// Formulas of each value of x and of a second input: values against the interpreter, gradients against differences.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>

#include "autograd/ops.h"
#include "core/backend.h"
#include "core/formula/program.h"
#include "tests/autograd/case_run.h"
#include "tests/cuda_emulation/formulas.h"

namespace normlab::formula {
namespace {

constexpr Sizes kSizes = kGateSizes;
const Shape kShape{kSizes.images, kSizes.tokens, kSizes.channels};

Values drawn(std::uint64_t seed) {
  Arena memory;
  const Tensor t = randn(memory, {kSizes.size()}, DType::f64, seed, 1.2, 0.1);
  return {t.data<double>(), t.data<double>() + t.size()};
}
Tensor tensor_of(Arena& memory, const Values& v, DType type) {
  const Tensor t = memory.empty(kShape, type);
  for (std::int64_t i = 0; i < t.size(); ++i)
    if (type == DType::f64)
      t.data<double>()[i] = v[std::size_t(i)];
    else if (type == DType::f32)
      t.data<float>()[i] = float(v[std::size_t(i)]);
    else
      t.data<bf16>()[i] = bf16(v[std::size_t(i)]);
  return t;
}

struct Inputs {
  Values x = drawn(1), gate = drawn(2), dy = drawn(3);
  Values interpreted(const Tree& tree, const Site& site) const {
    return interpret(tree, kSizes, site, x, {{std::string(kGate), gate}, {"progress", {0.25}}});
  }
};

/// y, dx and dg; `twice`: the operation is used twice, so that gradients are added.
std::array<Values, 3> computed(const Tree& tree, const Site& site, const Inputs& in, DType type, bool twice = false,
                               Backend& backend = cpu_backend().with_bf16(Bf16Products::emulated)) {
  std::vector<Parameter> parameters;
  if (tree.reads("progress")) parameters.push_back({.name = "progress", .value = 0});
  const Programs programs(tree, site, parameters);
  Arena memory(backend.memory()), tape_memory(backend.memory());
  Tape tape(backend, tape_memory);
  const Var x = tape.input(tensor_of(memory, in.x, type), true),
            gate = tree.reads(kGate) ? tape.input(tensor_of(memory, in.gate, type), true) : Var();
  const Tensor progress = memory.empty({1}, acc_of(type));
  tape.backend().fill(progress, 0.25);
  Var y = elementwise(programs, x, gate, progress);
  const Tensor value = y.value();
  if (twice) y = add(y, elementwise(programs, x, gate, progress));
  tape.backward(y, tensor_of(memory, in.dy, type));
  backend.synchronize();
  std::array<Values, 3> out;
  for (std::int64_t i = 0; i < kSizes.size(); ++i) {
    out[0].push_back(normlab::value(value, i));
    out[1].push_back(normlab::value(x.grad(), i));
    out[2].push_back(gate ? normlab::value(gate.grad(), i) : 0);
  }
  return out;
}

}  // namespace

TEST_CASE("formula: elementwise ones of x and a gate have the interpreter's values and differences") {
  const Site site{.channels = kSizes.channels, .tokens = kSizes.tokens, .depth = 12, .block = 3};
  for (const char* text : kOfGates) {
    CAPTURE(text);
    const Tree tree = parse_elementwise(text);
    Inputs in;
    const auto [y, dx, dg] = computed(tree, site, in, DType::f64);
    const Values wanted = in.interpreted(tree, site);
    for (std::size_t i = 0; i < y.size(); ++i) REQUIRE(y[i] == doctest::Approx(wanted[i]).epsilon(1e-12));
    // Each value depends on its own x and g, so one difference gives all derivatives.
    const auto slopes = [&](Values Inputs::*of) {
      constexpr double kStep = 1e-6;
      Inputs right = in, left = in;
      for (double& v : right.*of) v += kStep;
      for (double& v : left.*of) v -= kStep;
      Values up = right.interpreted(tree, site);
      const Values down = left.interpreted(tree, site);
      for (std::size_t i = 0; i < up.size(); ++i) up[i] = in.dy[i] * (up[i] - down[i]) / (2 * kStep);
      return up;
    };
    // Differences do not know stop().
    const std::string_view all = text;
    const Values by_x = slopes(&Inputs::x), by_gate = slopes(&Inputs::gate);
    for (std::size_t i = 0; i < y.size(); ++i) {
      CAPTURE(i);
      CHECK(dx[i] == doctest::Approx(all.find("stop(x)") == all.npos ? by_x[i] : 0).epsilon(1e-6));
      CHECK(dg[i] == doctest::Approx(all.find("stop(g)") == all.npos ? by_gate[i] : 0).epsilon(1e-6));
    }
    const auto twice = computed(tree, site, in, DType::f64, true);
    for (std::size_t i = 0; i < y.size(); ++i) {
      CHECK(twice[1][i] == 2 * dx[i]);
      CHECK(twice[2][i] == 2 * dg[i]);
    }
    for (const DType type : {DType::f32, DType::bf16}) {
      const double off = type == DType::f32 ? 2e-5 : 0.1;  // x and g are rounded, too
      const auto rough = computed(tree, site, in, type);
      for (std::size_t i = 0; i < y.size(); ++i) {
        if (std::abs(in.x[i]) < 0.02 || std::abs(in.x[i] - in.gate[i]) < 0.05) continue;  // a kink may be near
        CHECK(std::abs(rough[0][i] - y[i]) <= off * std::max(1.0, std::abs(y[i])));
        CHECK(std::abs(rough[1][i] - dx[i]) <= off * std::max(1.0, std::abs(dx[i])));
        CHECK(std::abs(rough[2][i] - dg[i]) <= off * std::max(1.0, std::abs(dg[i])));
      }
    }
  }
}

TEST_CASE("cuda: elementwise formulas of x and a gate have the CPU's values and gradients") {
  const Site site{.channels = kSizes.channels, .tokens = kSizes.tokens, .depth = 12, .block = 3};
  on_each_device([&] {
    Backend& backend = current_device().backend;
    if (!backend.whole_batch()) return;
    for (const char* text : kOfGates)
      for (const bool twice : {false, true}) {
        CAPTURE(text);
        CAPTURE(twice);
        const Tree tree = parse_elementwise(text);
        const auto wanted = computed(tree, site, {}, DType::f64, twice),
                   got = computed(tree, site, {}, DType::f64, twice, backend);
        for (std::size_t k = 0; k < wanted.size(); ++k) CHECK(difference(got[k], wanted[k]) < 1e-13);
      }
  });
}

TEST_CASE("cuda: the part of a gated formula that is NaN first is named") {
  on_each_device([] {
    Backend& backend = current_device().backend;
    const Programs programs(parse_elementwise("log(x) * sqrt(g)"), {.channels = 3}, {});
    Arena memory(backend.memory());
    const Tensor x = memory.empty({1, 6, 3}, DType::f64), gate = memory.empty({1, 6, 3}, DType::f64);
    std::fill_n(x.data<double>(), 18, 1.0);
    std::fill_n(gate.data<double>(), 18, -1.0);
    CHECK(backend.first_nan({1, 6, 3}, {.forward = {.programs = &programs, .x = x, .gate = gate}}) == "sqrt(g)");
  });
}

TEST_CASE("formula: the derivative of relu at 0 is 0, and that of its square") {
  for (const char* text : {"relu(x)", "relu(x)^2", "relu(x) * g"}) {
    CAPTURE(text);
    Inputs in;
    in.x.assign(in.x.size(), 0.0);
    const Values dx = computed(parse_elementwise(text), {.channels = kSizes.channels}, in, DType::f64)[1];
    CHECK(std::all_of(dx.begin(), dx.end(), [](double d) { return d == 0; }));
  }
}

TEST_CASE("formula: what an elementwise formula cannot have is refused where it stands") {
  const auto error = [](const char* text) {
    try {
      parse_elementwise(text);
      return std::string("none");
    } catch (const FormulaError& e) {
      return concat(e.at, " ", e.what());
    }
  };
  CHECK(error("x / rms(x)") == "4 rms joins several values; an activation computes each value by itself");
  CHECK(error("x - mean_tokens(g)") ==
        "4 mean_tokens joins several values; an activation computes each value by itself");
  CHECK(error("x + max(x)") == "4 max joins several values; an activation computes each value by itself");
  CHECK(error("max(x, 0)") == "none");
  CHECK(error("alpha * x") == "0 unknown value; an activation reads x, g and numbers, and has no parameters");
  CHECK(error("gamma * x").starts_with("0 unknown value"));
  CHECK(error("g * 2") == "0 the result does not depend on x");
  CHECK_THROWS_AS(parse("silu(x) * g", {}), FormulaError);  // a norm has no gate
}

}  // namespace normlab::formula
