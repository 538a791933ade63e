// Dense layers by cuBLASLt: the epilogues they use, the same results without them, and TF32.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <vector>

#include "cublasLt.h"
#include "cuda/cuda_backend.h"
#include "tests/cuda_emulation/lt_operands.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {

using emulation::lt_control;

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
                                       {.dy = x, .x = y, .w = v, .dx = {dh}, .saved = kept});
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
              kGelu = CUBLASLT_EPILOGUE_GELU_AUX_BIAS, kDgelu = CUBLASLT_EPILOGUE_DGELU;

/// How far the results of a layer change without some epilogues, and whether cuBLASLt then still multiplies.
struct Change {
  double of_results;
  bool by_library;
};
Change change_without(const std::set<int>& refused, DType type) {
  const ControlOfTest control;
  CudaBackend backend;
  const std::vector<double> whole = layer(backend, type);
  lt_control().refused = refused;
  CudaBackend other;
  const std::int64_t before = lt_control().products;
  const double of_results = apart(whole, layer(other, type));
  return {of_results, lt_control().products > before};
}
double bound_of(DType type) { return type == DType::f64 ? 1e-14 : type == DType::bf16 ? 0x1p-7 : 1e-6; }

}  // namespace

TEST_CASE("lt_products: a layer uses the epilogues for its type") {
  for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
    CAPTURE(to_string(type));
    const ControlOfTest control;
    CudaBackend backend;
    std::vector<int> used;
    layer(backend, type, &used);
    CHECK(used ==
          (type == DType::bf16 ? std::vector{kGelu, kBias, kNone, kDgelu} : std::vector{kBias, kBias, kNone, kNone}));
  }
}

TEST_CASE("lt_products: a layer without an epilogue gives the same") {
  for (const DType type : {DType::f32, DType::f64, DType::bf16})
    for (const int refused : {kBias, kGelu, kDgelu}) {
      CAPTURE(to_string(type));
      CAPTURE(refused);
      const Change change = change_without({refused}, type);
      CHECK(change.of_results < bound_of(type));
      CHECK(change.by_library);
    }
}

TEST_CASE("lt_products: a layer without cuBLASLt gives the same") {
  for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
    CAPTURE(to_string(type));
    const Change change = change_without({kNone, kBias, kGelu, kDgelu}, type);
    CHECK(change.of_results < bound_of(type));
    CHECK(!change.by_library);
  }
}

TEST_CASE("lt_products: a backend with TF32 does not change products of others on its device") {
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
