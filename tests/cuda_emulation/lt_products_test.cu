// Products by cuBLASLt: each epilogue against its composed form, what happens where there is no algorithm, and that
// algorithms are looked up once, recorded, and taken from a record.
#include "cuda/lt_products.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "autograd/grad_check.h"
#include "core/error.h"
#include "cuda/cuda_backend.h"
#include "cuda/gelu.cuh"
#include "tests/cuda_emulation/lt_control.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

using emulation::lt_control;

/// The control as it is for everybody, again at the end.
struct ControlOfTest {
  ControlOfTest() { lt_control() = {}; }
  ~ControlOfTest() { lt_control() = {}; }
};

double at(const Tensor& t, std::int64_t i) {
  return t.dtype() == DType::f64   ? t.data<double>()[i]
         : t.dtype() == DType::f32 ? double(t.data<float>()[i])
                                   : double(float(t.data<bf16>()[i]));
}

/// Random numbers that bf16 holds.
Tensor drawn(Arena& arena, const Shape& shape, std::uint64_t seed, DType type) {
  const Tensor from = randn(arena, shape, DType::f64, seed), t = arena.empty(shape, type);
  for (std::int64_t i = 0; i < t.size(); ++i) {
    const bf16 value(from.data<double>()[i]);
    if (type == DType::f64)
      t.data<double>()[i] = float(value);
    else if (type == DType::f32)
      t.data<float>()[i] = value;
    else
      t.data<bf16>()[i] = value;
  }
  return t;
}

struct Fixture {
  ControlOfTest control;
  Stream stream;
  DeviceMemory memory{stream};
  Arena arena{memory};
};

constexpr std::int64_t kM = 6, kN = 16, kK = 24;

/// Largest difference of what a product writes from its composed form, beside the largest number.
double apart(LtProducts& lt, Arena& arena, LtProduct p) {
  const Tensor a = drawn(arena, {p.m * p.k}, 1, p.in), b = drawn(arena, {p.k * p.n}, 2, p.in);
  const Tensor c = drawn(arena, {p.m * p.n}, 3, p.out), d = drawn(arena, {p.m * p.n}, 4, p.out);
  const Tensor extra = drawn(arena, {p.m * p.n}, 5, p.out);
  const std::int64_t values = p.epilogue == Epilogue::bgrad ? p.m : p.n;
  const Tensor vector = drawn(arena, {values}, 6, p.vector);
  std::vector<double> bias, before, sums(static_cast<std::size_t>(values));
  for (std::int64_t i = 0; i < values; ++i) bias.push_back(at(vector, i));
  for (std::int64_t i = 0; i < extra.size(); ++i) before.push_back(at(extra, i));
  REQUIRE(lt("test", p, {a.raw(), b.raw(), c.raw(), d.raw(), vector.raw(), extra.raw()}));
  double error = 0, largest = 0;
  const auto see = [&](double got, double wanted) {
    error = std::abs(got - wanted) <= error ? error : std::abs(got - wanted);
    largest = std::max(largest, std::abs(wanted));
  };
  const bool adds_bias = p.epilogue == Epilogue::bias || p.epilogue == Epilogue::bias_gelu_tanh_aux;
  for (std::int64_t i = 0; i < p.m; ++i)
    for (std::int64_t j = 0; j < p.n; ++j) {
      double h = p.add ? at(c, i * p.n + j) : 0.0;
      for (std::int64_t k = 0; k < p.k; ++k)
        h += at(a, p.transpose_a ? k * p.m + i : i * p.k + k) * at(b, p.transpose_b ? j * p.k + k : k * p.n + j);
      if (adds_bias) h += bias[static_cast<std::size_t>(j)];
      if (p.epilogue == Epilogue::bias_gelu_tanh_aux) {
        see(at(extra, i * p.n + j), h);
        h = gelu_of(GeluForm::tanh, h).value;
      } else if (p.epilogue == Epilogue::dgelu_tanh || p.epilogue == Epilogue::dgelu_tanh_bgrad) {
        h *= gelu_of(GeluForm::tanh, before[static_cast<std::size_t>(i * p.n + j)]).slope;
        sums[static_cast<std::size_t>(j)] += h;
      }
      see(at(d, i * p.n + j), h);
    }
  if (p.epilogue == Epilogue::bgrad)
    for (std::int64_t i = 0; i < p.m; ++i)
      for (std::int64_t k = 0; k < p.k; ++k)
        sums[static_cast<std::size_t>(i)] += at(a, p.transpose_a ? k * p.m + i : i * p.k + k);
  if (p.epilogue == Epilogue::bgrad || p.epilogue == Epilogue::dgelu_tanh_bgrad)
    for (std::int64_t i = 0; i < values; ++i) see(at(vector, i), sums[static_cast<std::size_t>(i)]);
  return error / largest;
}

LtProduct product(DType type, Epilogue epilogue = Epilogue::none) {
  return {.m = kM, .n = kN, .k = kK, .in = type, .out = type, .vector = type, .epilogue = epilogue};
}

}  // namespace

TEST_CASE("lt_products: each epilogue is its composed form, in every type, order and with addition") {
  Fixture f;
  LtProducts lt(f.stream);
  for (const Epilogue e : {Epilogue::none, Epilogue::bias, Epilogue::bias_gelu_tanh_aux, Epilogue::dgelu_tanh,
                           Epilogue::dgelu_tanh_bgrad, Epilogue::bgrad})
    for (const DType type : {DType::f32, DType::f64, DType::bf16})
      for (int form = 0; form < 8; ++form) {
        LtProduct p = product(type, e);
        p.transpose_a = form & 1, p.transpose_b = form & 2, p.add = form & 4;
        CAPTURE(static_cast<int>(e));
        CAPTURE(to_string(type));
        CAPTURE(form);
        CHECK(apart(lt, f.arena, p) < (type == DType::f64 ? 1e-14 : type == DType::f32 ? 1e-6 : 0x1p-8));
        if (type != DType::bf16) continue;
        p.out = p.vector = DType::f32;
        CHECK(apart(lt, f.arena, p) < 1e-6);
      }
}

TEST_CASE("lt_products: an algorithm is looked up once a product, whatever else is multiplied meanwhile") {
  Fixture f;
  LtProducts lt(f.stream);
  apart(lt, f.arena, product(DType::f32));
  CHECK(lt_control().look_ups == 1);
  apart(lt, f.arena, product(DType::f32, Epilogue::bias));
  lt_control().refused = {16 | 64 | 128};
  const Tensor t = drawn(f.arena, {kM * kN * kK}, 1, DType::f32);
  const LtProduct refused = product(DType::f32, Epilogue::dgelu_tanh_bgrad);
  for (int again = 0; again < 3; ++again) {
    apart(lt, f.arena, product(DType::f32));
    CHECK(!lt("test", refused, {t.raw(), t.raw(), t.raw(), t.raw(), t.raw(), t.raw()}));
  }
  CHECK(lt_control().look_ups == 3);
}

TEST_CASE("lt_products: nothing is done where there is no algorithm, or an operand begins between 16 bytes") {
  Fixture f;
  LtProducts lt(f.stream);
  const Tensor a = drawn(f.arena, {kM * kK + 1}, 1, DType::f32), b = drawn(f.arena, {kK * kN}, 2, DType::f32);
  const Tensor d = drawn(f.arena, {kM * kN}, 3, DType::f32), same = drawn(f.arena, {kM * kN}, 3, DType::f32);
  const auto untouched = [&] { return std::memcmp(d.raw(), same.raw(), d.bytes()) == 0; };
  const LtProduct p = product(DType::f32);
  CHECK(!lt("test", p, {a.data<float>() + 1, b.raw(), d.raw(), d.raw()}));
  LtProduct odd = product(DType::bf16, Epilogue::bias);
  odd.vector = DType::f32;  // no such bias beside bf16
  CHECK(!lt("test", odd, {a.raw(), b.raw(), d.raw(), d.raw(), d.raw()}));
  CHECK(lt.waves(odd) == 0.0f);
  CHECK(untouched());
  CHECK(lt("test", p, {a.raw(), b.raw(), d.raw(), d.raw()}));
  CHECK(!untouched());
}

TEST_CASE("lt_products: algorithms go into a record and are taken from it") {
  Fixture f;
  LtProducts first(f.stream), second(f.stream);
  CHECK(first.choices().empty());
  apart(first, f.arena, product(DType::f32, Epilogue::bias));
  apart(first, f.arena, product(DType::bf16));
  CHECK(first.description() ==
        "6x16x24 nn f32 bias: algo 66 tile 1 stages 1 split-k 1; 6x16x24 nn bf16: algo 66 tile 1 stages 1 split-k 1");
  const std::string record = first.choices();
  CHECK(record.starts_with("cuBLASLt " + LtProducts::version() + "\n6x16x24 nn f32 bias: 000000000000"));

  lt_control().algorithm = 7;
  apart(second, f.arena, product(DType::f32, Epilogue::bias));
  CHECK(lt_control().last_algorithm == 7);
  second.choose(record);
  apart(second, f.arena, product(DType::f32, Epilogue::bias));
  CHECK(lt_control().last_algorithm == 66);
  apart(second, f.arena, product(DType::f64));  // not in the record
  CHECK(lt_control().last_algorithm == 7);
  CHECK(second.choices() != record);
  second.choose("");
  apart(second, f.arena, product(DType::f32, Epilogue::bias));
  CHECK(lt_control().last_algorithm == 7);

  const auto refusal = [&](const std::string& text) -> std::string {
    try {
      second.choose(text);
      second.waves(product(DType::f32, Epilogue::bias));
    } catch (const InputError& error) {
      return error.what();
    }
    return "taken";
  };
  CHECK(refusal("cuBLASLt 9.9.9" + record.substr(record.find('\n')))
            .find("were recorded under \"cuBLASLt 9.9.9\", but this "
                  "is cuBLASLt 0.0.0") != std::string::npos);
  CHECK(refusal(record.substr(0, record.size() - 1)).find("cannot be read: \"6x16x24 nn bf16: 0") != std::string::npos);
  std::string other = record;
  other[other.find(": 0") + 2] = '9';  // no algorithm of this library
  CHECK(refusal(other).find("the recorded algorithm of the product 6x16x24 nn f32 bias cannot be used here") !=
        std::string::npos);
  CHECK(refusal(record) == "taken");
}

TEST_CASE("lt_products: TF32 is off until it is asked for, and is for floats alone") {
  Fixture f;
  LtProducts lt(f.stream);
  const Tensor a = f.arena.empty({4}, DType::f32), d = f.arena.empty({1}, DType::f32);
  const Tensor wide = f.arena.empty({4}, DType::f64), wide_d = f.arena.empty({1}, DType::f64);
  for (int i = 0; i < 4; ++i) a.data<float>()[i] = 1 + 0x1p-12f, wide.data<double>()[i] = 1 + 0x1p-12;
  LtProduct p{.m = 1, .n = 1, .k = 4, .in = DType::f32, .out = DType::f32, .vector = DType::f32};
  const auto square = [&] {
    REQUIRE(lt("test", p, {a.raw(), a.raw(), d.raw(), d.raw()}));
    return d.data<float>()[0];
  };
  CHECK(square() == 4 * (1 + 0x1p-12f) * (1 + 0x1p-12f));
  p.tf32 = true;
  CHECK(square() == 4.0f);
  LtProduct in_double = p;
  in_double.in = in_double.out = in_double.vector = DType::f64;
  REQUIRE(lt("test", in_double, {wide.raw(), wide.raw(), wide_d.raw(), wide_d.raw()}));
  CHECK(wide_d.data<double>()[0] == 4 * (1 + 0x1p-12) * (1 + 0x1p-12));
  p.tf32 = false;
  CHECK(square() != 4.0f);
}

namespace {

/// y, dx, dw and db of a dense layer with GELU's tanh form in `type`.
std::vector<double> layer(CudaBackend& backend, DType type, std::vector<int>* epilogues = nullptr) {
  Arena arena(backend.memory());
  const DType acc = acc_of(type);
  const LinearDims d{kM, kK, kN};
  const Tensor x = drawn(arena, {kM, kK}, 1, type), w = drawn(arena, {kN, kK}, 2, acc), b = drawn(arena, {kN}, 3, acc),
               v = drawn(arena, {kK, kN}, 13, acc);
  const Tensor dy = drawn(arena, {kM, kN}, 4, type), kept = drawn(arena, {kM, kN}, 5, type),
               y = drawn(arena, {kM, kN}, 6, type), z = drawn(arena, {kM, kN}, 7, type);
  const Tensor dx = drawn(arena, {kM, kK}, 8, type), dw = drawn(arena, {kN, kK}, 9, acc),
               db = drawn(arena, {kN}, 10, acc), db2 = drawn(arena, {kN}, 11, acc),
               dh = drawn(arena, {kM, kN}, 12, type);
  const auto note = [&] {
    if (epilogues) epilogues->push_back(lt_control().last_epilogue);
  };
  backend.linear_gelu(d, GeluForm::tanh, x, w, b, kept, y);
  note();
  backend.linear_gelu_backward(d, GeluForm::tanh, {dy, x, w, {dx}, {dw}, {db}, kept});
  backend.linear(d, x, w, b, y, z);
  note();
  backend.linear_backward(d, {z, x, w, {}, {dw, Write::add}, {db2}});
  note();
  backend.linear_backward_through_gelu({kM, kN, kK}, GeluForm::tanh,
                                       {.dy = x, .x = y, .w = v, .dx = {dh}, .kept = kept});
  note();
  backend.synchronize();
  std::vector<double> all;
  for (const Tensor& t : {y, z, dx, dw, db, db2, dh})
    for (std::int64_t i = 0; i < t.size(); ++i) all.push_back(at(t, i));
  return all;
}

double apart(const std::vector<double>& a, const std::vector<double>& b) {
  double error = 0, largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error = std::abs(a[i] - b[i]) <= error ? error : std::abs(a[i] - b[i]);
    largest = std::max(largest, std::abs(a[i]));
  }
  return error / largest;
}

constexpr int kNone = CUBLASLT_EPILOGUE_DEFAULT, kBias = CUBLASLT_EPILOGUE_BIAS,
              kGelu = CUBLASLT_EPILOGUE_GELU_AUX_BIAS, kDgelu = CUBLASLT_EPILOGUE_DGELU,
              kBgrad = CUBLASLT_EPILOGUE_BGRADB;

}  // namespace

TEST_CASE("lt_products: a layer is the same with epilogues, without each of them, and without cuBLASLt") {
  for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
    CAPTURE(to_string(type));
    const ControlOfTest control;
    const bool narrow = type == DType::bf16;
    CudaBackend backend;
    std::vector<int> used;
    const std::vector<double> whole = layer(backend, type, &used);
    CHECK(used == (narrow ? std::vector{kGelu, kBias, kBgrad, kDgelu} : std::vector{kNone, kBias, kNone, kNone}));
    for (const std::set<int>& refused : {std::set<int>{kBias}, std::set<int>{kBgrad}, std::set<int>{kGelu},
                                         std::set<int>{kDgelu}, std::set<int>{kNone, kBias, kBgrad, kGelu, kDgelu}}) {
      lt_control().refused = refused;
      CudaBackend other;
      const std::int64_t before = lt_control().products;
      CHECK(apart(whole, layer(other, type)) < (type == DType::f64 ? 1e-14 : narrow ? 0x1p-7 : 1e-6));
      CHECK((lt_control().products == before) == refused.contains(kNone));
    }
  }
}

TEST_CASE("lt_products: a bias gradient does not come beside a product that then fills less of the GPU") {
  const ControlOfTest control;
  lt_control().bgrad_waves = 0.9f;
  CudaBackend backend;
  std::vector<int> used;
  layer(backend, DType::bf16, &used);
  CHECK(used[2] == kNone);
}

TEST_CASE("lt_products: a backend with TF32 leaves the products of its device's others as they are") {
  for (const bool by_library : {true, false}) {
    const ControlOfTest control;
    if (!by_library) lt_control().refused = {kNone};
    CudaBackend backend;
    Arena arena(backend.memory());
    const Tensor x = arena.empty({1, 4}, DType::f32), y = arena.empty({1, 1}, DType::f32);
    std::fill_n(x.data<float>(), 4, 1 + 0x1p-12f);
    const auto square = [&](Backend& b) {
      b.linear({1, 4, 1}, x, x, {}, {}, y);
      b.synchronize();
      return y.data<float>()[0];
    };
    const float exact = square(backend);
    CHECK(exact == 4 * (1 + 0x1p-12f) * (1 + 0x1p-12f));
    CHECK((square(backend.with_tf32()) == 4.0f) == by_library);  // the emulated cuBLAS has no TF32
    CHECK(square(backend) == exact);
  }
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
