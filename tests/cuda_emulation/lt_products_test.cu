// Products by cuBLASLt: each epilogue against its composed form, what happens where there is no algorithm, and that
// algorithms are looked up once, recorded, and taken from a record.
#include "cuda/lt_products.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/error.h"
#include "cuda/gelu.cuh"
#include "cuda/products.h"
#include "cuda/watch.h"
#include "tests/cuda_emulation/lt_operands.h"
#include "tests/cuda_emulation/runtime.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

using emulation::lt_control;

struct Fixture {
  ControlOfTest control;
  Stream stream;
  DeviceMemory memory{stream};
  Arena arena{memory};
};

/// Largest difference of what a product writes from its composed form, beside the largest number.
double apart(LtProducts& lt, Arena& arena, LtProduct p) {
  const Tensor a = drawn(arena, {p.m * p.k}, 1, p.in), b = drawn(arena, {p.k * p.n}, 2, p.in);
  const Tensor c = drawn(arena, {p.m * p.n}, 3, p.out), d = drawn(arena, {p.m * p.n}, 4, p.out);
  const Tensor extra = drawn(arena, {p.m * p.n}, 5, p.out);
  const Tensor vector = drawn(arena, {p.n}, 6, p.vector);
  std::vector<double> bias, before;
  for (std::int64_t i = 0; i < p.n; ++i) bias.push_back(at(vector, i));
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
      } else if (p.epilogue == Epilogue::dgelu_tanh) {
        h *= gelu_of(GeluForm::tanh, before[static_cast<std::size_t>(i * p.n + j)]).slope;
      }
      see(at(d, i * p.n + j), h);
    }
  return error / largest;
}

LtProduct product(DType type, Epilogue epilogue = Epilogue::none) {
  return {.m = kM, .n = kN, .k = kK, .in = type, .out = type, .vector = type, .epilogue = epilogue};
}

/// Factors of a product, and memory for its result that holds other numbers.
struct Operands : Fixture {
  LtProducts lt{stream};
  const Tensor a = drawn(arena, {kM * kK + 1}, 1, DType::f32), b = drawn(arena, {kK * kN}, 2, DType::f32);
  const Tensor d = drawn(arena, {kM * kN}, 3, DType::f32), same = drawn(arena, {kM * kN}, 3, DType::f32);
  bool untouched() const { return std::memcmp(d.raw(), same.raw(), d.bytes()) == 0; }
};

/// The record of two products with algorithm 66. What is looked up after it is algorithm 7.
struct Record : Fixture {
  LtProducts first{stream}, second{stream};
  std::string text;
  Record() {
    apart(first, arena, product(DType::f32, Epilogue::bias));
    apart(first, arena, product(DType::bf16));
    text = first.choices();
    lt_control().algorithm = 7;
  }
  /// The algorithm with which `second` computes the product.
  int algorithm_of(const LtProduct& p) {
    apart(second, arena, p);
    return lt_control().last_algorithm;
  }
  /// The error of a record when `second` uses it; empty if it is accepted.
  std::string refusal_of(const std::string& record) {
    try {
      second.choose(record);
      const Tensor t = drawn(arena, {kM * kN * kK}, 1, DType::f32);
      second("test", product(DType::f32, Epilogue::bias), {t.raw(), t.raw(), t.raw(), t.raw(), t.raw()});
    } catch (const InputError& error) {
      return error.what();
    }
    return "";
  }
};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  return text.replace(text.find(from), from.size(), to);
}

/// The square of a vector of four values 1 + 2^-12, which TF32 rounds to 1.
template <class T>
struct Square : Fixture {
  static constexpr DType kType = Storage<T>::dtype;
  LtProducts lt{stream};
  LtProduct p{.m = 1, .n = 1, .k = 4, .in = kType, .out = kType, .vector = kType};
  T operator()() {
    const Tensor a = arena.empty({4}, kType), d = arena.empty({1}, kType);
    std::fill_n(a.data<T>(), 4, 1 + T(0x1p-12));
    REQUIRE(lt("test", p, {a.raw(), a.raw(), d.raw(), d.raw()}));
    return d.data<T>()[0];
  }
};

}  // namespace

TEST_CASE("lt_products: each epilogue gives its composed form") {
  Fixture f;
  LtProducts lt(f.stream);
  for (const Epilogue e : {Epilogue::none, Epilogue::bias, Epilogue::bias_gelu_tanh_aux, Epilogue::dgelu_tanh})
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

TEST_CASE("lt_products: a batch is the products of its matrices, scaled and added, by both libraries") {
  Fixture f;
  LtProducts lt(f.stream);
  Products general(f.stream);
  for (const DType type : {DType::f32, DType::f64, DType::bf16})
    for (const bool fused : {true, false})
      for (const bool apart : {true, false}) {  // whether C is another matrix than D
        const LtProduct p{.m = 5, .n = 3, .k = 7, .in = type, .out = type, .vector = type, .add = true, .batch = 4};
        const std::int64_t of_a = stride_in_batch(35), of_b = stride_in_batch(21), of_c = stride_in_batch(15);
        const Tensor a = drawn(f.arena, {4 * of_a}, 1, type), b = drawn(f.arena, {4 * of_b}, 2, type);
        const Tensor c = drawn(f.arena, {4 * of_c}, 3, type), d = apart ? drawn(f.arena, {4 * of_c}, 4, type) : c;
        std::vector<double> before;
        for (std::int64_t i = 0; i < c.size(); ++i) before.push_back(at(c, i));
        const LtOperands with{.a = a.raw(), .b = b.raw(), .c = c.raw(), .d = d.raw(), .scale = 2.5, .kept = -0.75};
        if (fused)
          REQUIRE(lt("test", p, with));
        else
          general("test", p, with);
        for (std::int64_t one = 0; one < 4; ++one)
          for (std::int64_t i = 0; i < 5; ++i)
            for (std::int64_t j = 0; j < 3; ++j) {
              double sum = 0;
              for (std::int64_t k = 0; k < 7; ++k) sum += at(a, one * of_a + i * 7 + k) * at(b, one * of_b + k * 3 + j);
              const std::int64_t to = one * of_c + i * 3 + j;
              const double wanted = 2.5 * sum - 0.75 * before[static_cast<std::size_t>(to)];
              const double within = type == DType::f64 ? 1e-14 : type == DType::f32 ? 1e-6 : 0x1p-8;
              CHECK(std::abs(at(d, to) - wanted) <= within * 10);
            }
      }
  CHECK(lt.description().starts_with("5x3x7 nn f32 add batch 4: algo 66"));
}

TEST_CASE("lt_products: the algorithm of a product is looked up once") {
  Fixture f;
  LtProducts lt(f.stream);
  apart(lt, f.arena, product(DType::f32));
  CHECK(lt_control().look_ups == 1);
  apart(lt, f.arena, product(DType::f32, Epilogue::bias));
  for (int again = 0; again < 3; ++again) apart(lt, f.arena, product(DType::f32));
  CHECK(lt_control().look_ups == 2);
}

TEST_CASE("lt_products: a product without an algorithm is looked up once") {
  Fixture f;
  LtProducts lt(f.stream);
  lt_control().refused = {CUBLASLT_EPILOGUE_DGELU};
  const Tensor t = drawn(f.arena, {kM * kN * kK}, 1, DType::f32);
  const LtProduct refused = product(DType::f32, Epilogue::dgelu_tanh);
  for (int again = 0; again < 3; ++again) {
    apart(lt, f.arena, product(DType::f32));
    CHECK(!lt("test", refused, {t.raw(), t.raw(), t.raw(), t.raw(), t.raw(), t.raw()}));
  }
  CHECK(lt_control().look_ups == 2);
}

TEST_CASE("lt_products: an operand that does not begin at 16 bytes is not multiplied") {
  Operands t;
  CHECK(!t.lt("test", product(DType::f32), {t.a.data<float>() + 1, t.b.raw(), t.d.raw(), t.d.raw()}));
  CHECK(t.untouched());
}

TEST_CASE("lt_products: without an algorithm nothing is multiplied") {
  Operands t;
  LtProduct odd = product(DType::bf16, Epilogue::bias);
  odd.vector = DType::f32;  // no such bias beside bf16
  CHECK(!t.lt("test", odd, {t.a.raw(), t.b.raw(), t.d.raw(), t.d.raw(), t.d.raw()}));
  CHECK(t.untouched());
}

TEST_CASE("lt_products: a product with an algorithm writes its result") {
  Operands t;
  CHECK(t.lt("test", product(DType::f32), {t.a.raw(), t.b.raw(), t.d.raw(), t.d.raw()}));
  CHECK(!t.untouched());
}

TEST_CASE("lt_products: before the first product there is nothing to record") {
  Fixture f;
  CHECK(LtProducts(f.stream).choices().empty());
}

TEST_CASE("lt_products: the algorithms in use are described") {
  CHECK(Record().first.description() ==
        "6x16x24 nn f32 bias: algo 66 tile 1 stages 1 split-k 1; 6x16x24 nn bf16: algo 66 tile 1 stages 1 split-k 1");
}

TEST_CASE("lt_products: a record begins with the version of the library and the GPU") {
  CHECK(Record().text.starts_with("cuBLASLt " + LtProducts::version() +
                                  "\nGPU emulated\n6x16x24 nn f32 bias: 000000000000"));
}

TEST_CASE("lt_products: a recorded algorithm is used") {
  Record r;
  CHECK(r.algorithm_of(product(DType::f32, Epilogue::bias)) == 7);
  r.second.choose(r.text);
  CHECK(r.algorithm_of(product(DType::f32, Epilogue::bias)) == 66);
}

TEST_CASE("lt_products: a product that the record lacks is looked up") {
  Record r;
  r.second.choose(r.text);
  CHECK(r.algorithm_of(product(DType::f32, Epilogue::bias)) == 66);
  CHECK(r.algorithm_of(product(DType::f64)) == 7);
  CHECK(r.second.choices() != r.text);
}

TEST_CASE("lt_products: an algorithm that was taken from a record and not used is recorded again") {
  Record r;
  r.second.choose(r.text);
  CHECK(r.algorithm_of(product(DType::f32, Epilogue::bias)) == 66);
  CHECK(r.second.choices() == r.text);
  r.second.choose(r.second.choices());
  CHECK(r.algorithm_of(product(DType::bf16)) == 66);
}

TEST_CASE("lt_products: after an empty record all products are looked up again") {
  Record r;
  r.second.choose(r.text);
  r.second.choose("");
  CHECK(r.algorithm_of(product(DType::f32, Epilogue::bias)) == 7);
}

TEST_CASE("lt_products: a record of this library is accepted") {
  Record r;
  CHECK(r.refusal_of(r.text) == "");
}

TEST_CASE("lt_products: a record of another version is refused") {
  Record r;
  CHECK(r.refusal_of("cuBLASLt 9.9.9" + r.text.substr(r.text.find('\n'))) ==
        "the algorithms of its products: recorded under \"cuBLASLt 9.9.9\", but this is cuBLASLt 0.0.0; resume where "
        "they are, or with --allow-different-bits");
}

TEST_CASE("lt_products: a record of another GPU is refused") {
  Record r;
  CHECK(r.refusal_of(replaced(r.text, "GPU emulated", "GPU of today")) ==
        "the algorithms of its products: recorded under \"GPU of today\", but this is GPU emulated; resume where they "
        "are, or with --allow-different-bits");
}

TEST_CASE("lt_products: a record of an older version, which names no GPU, is used") {
  Record r;
  r.second.choose(replaced(r.text, "GPU emulated\n", ""));
  CHECK(r.algorithm_of(product(DType::f32, Epilogue::bias)) == 66);
}

TEST_CASE("lt_products: a record that is cut off is refused") {
  Record r;
  CHECK(r.refusal_of(r.text.substr(0, r.text.size() - 1)).find("no algorithm of a product: \"6x16x24 nn bf16: 0") !=
        std::string::npos);
}

TEST_CASE("lt_products: a recorded algorithm that the library lacks is refused") {
  Record r;
  std::string other = r.text;
  other[other.find(": 0") + 2] = '9';  // no algorithm of this library
  CHECK(r.refusal_of(other).find("the recorded algorithm of the product 6x16x24 nn f32 bias cannot be used here") !=
        std::string::npos);
}

TEST_CASE("lt_products: a failure of cuBLASLt is an error, and not remembered as the lack of an algorithm") {
  Operands t;
  const auto multiply = [&] { return t.lt("test", product(DType::f32), {t.a.raw(), t.b.raw(), t.d.raw(), t.d.raw()}); };
  lt_control().failure = CUBLAS_STATUS_ALLOC_FAILED;
  CHECK_THROWS_WITH_AS(multiply(), "cuBLASLt: cuBLASLt failed with status 3", EnvironmentError);
  CHECK(t.untouched());
  CHECK(multiply());
}

TEST_CASE("lt_products: a product that cuBLASLt calls invalid or unsupported has no algorithm") {
  for (const int status : {CUBLAS_STATUS_INVALID_VALUE, CUBLAS_STATUS_NOT_SUPPORTED}) {
    Operands t;
    lt_control().failure = status;
    for (int again = 0; again < 2; ++again)
      CHECK(!t.lt("test", product(DType::f32), {t.a.raw(), t.b.raw(), t.d.raw(), t.d.raw()}));
    CHECK(lt_control().look_ups == 1);
  }
}

TEST_CASE("lt_products: a failure while a recorded algorithm is checked does not blame the record") {
  Record r;
  r.second.choose(r.text);
  lt_control().failure = CUBLAS_STATUS_ALLOC_FAILED;
  const Tensor t = drawn(r.arena, {kM * kN * kK}, 1, DType::f32);
  CHECK_THROWS_AS(r.second("test", product(DType::f32, Epilogue::bias), {t.raw(), t.raw(), t.raw(), t.raw(), t.raw()}),
                  EnvironmentError);
  CHECK(r.algorithm_of(product(DType::f32, Epilogue::bias)) == 66);
}

TEST_CASE("lt_products: tuning takes an algorithm that is at least 3% faster than the library's first") {
  for (const auto& [time, taken] : {std::pair(0.96, 2), std::pair(0.98, 0)}) {
    Fixture f;
    LtProducts lt(f.stream), later(f.stream);
    lt_control().candidates = 4;
    lt_control().seconds = {{66, 100}, {67, 110}, {68, 100 * time}, {69, 120}};
    for (int call = 0; call < 3; ++call) apart(lt, f.arena, product(DType::bf16));
    apart(lt, f.arena, product(DType::f32, Epilogue::bias_gelu_tanh_aux));
    const std::vector<TunedProduct> tuned = lt.tune(0);
    REQUIRE(tuned.size() == 2);
    CHECK(tuned[0].product == "6x16x24 nn f32 bias_gelu_tanh_aux");
    CHECK(tuned[1].product == "6x16x24 nn bf16");
    CHECK(tuned[0].calls == 1);
    CHECK(tuned[1].calls == 3);
    for (const TunedProduct& t : tuned) {
      CHECK(t.taken == taken);
      CHECK(t.candidates == 4);
      CHECK(t.first == doctest::Approx(100).epsilon(0.001));
      CHECK(t.best == doctest::Approx(taken == 2 ? 100 * time : 100).epsilon(0.001));
    }
    // The product is right by each, and later ones take the algorithm from the file.
    CHECK(apart(lt, f.arena, product(DType::bf16)) < 0x1p-8);
    CHECK(lt_control().last_algorithm == 66 + taken);
    later.prefer({"file", lt.choices(), "hash"});
    apart(later, f.arena, product(DType::bf16));
    CHECK(lt_control().last_algorithm == 66 + taken);
  }
}

TEST_CASE("lt_products: a checkpoint's algorithms go before those of a file") {
  Record r;  // 66 and, from here on, 7
  LtProducts tuned(r.stream);
  for (const DType type : {DType::f32, DType::f64}) apart(tuned, r.arena, product(type, Epilogue::bias));
  r.second.prefer({"file", tuned.choices(), "hash"});
  r.second.choose(r.text);
  lt_control().algorithm = 8;
  CHECK(r.algorithm_of(product(DType::f32, Epilogue::bias)) == 66);
  CHECK(r.algorithm_of(product(DType::f32)) == 8);
  CHECK(r.second.choices().find("f64") == std::string::npos);  // a checkpoint has what its trial used
  CHECK(r.algorithm_of(product(DType::f64, Epilogue::bias)) == 7);
  r.second.choose("");  // another trial of the same command
  CHECK(r.algorithm_of(product(DType::f32, Epilogue::bias)) == 7);
}

TEST_CASE("lt_products: a file is refused with the line that cannot be used") {
  Record r;
  const auto refusal = [&](const std::string& text) -> std::string {
    try {
      r.second.prefer({"s16.txt", text, "hash"});
    } catch (const InputError& error) {
      const std::string words = error.what(), advice =
                                                  "; make the file again on this machine: normlab bench gemm "
                                                  "--device cuda --tune FILE";
      CHECK(words.ends_with(advice));
      return words.substr(0, words.size() - advice.size());
    }
    return "";
  };
  CHECK(refusal(r.text) == "");
  CHECK(refusal(r.text + "\n") == "");
  CHECK(refusal("") == "s16.txt:1: has no algorithms");
  CHECK(refusal("{\"a\": 1}") == "s16.txt:1: recorded under \"{\"a\": 1}\", but this is cuBLASLt 0.0.0");
  CHECK(refusal(replaced(r.text, "GPU emulated", "GPU of today")) ==
        "s16.txt:2: recorded under \"GPU of today\", but this is GPU emulated");
  CHECK(refusal(replaced(r.text, "GPU emulated\n", "")) == "s16.txt:2: does not name the GPU");
  CHECK(refusal(replaced(r.text, "nn bf16: ", "nn bf17: ")) == "s16.txt:4: \"6x16x24 nn bf17\" is no product");
  CHECK(refusal(r.text.substr(0, r.text.size() - 1)).starts_with("s16.txt:4: no algorithm of a product: \"6x16x24 nn"));
  CHECK(refusal(replaced(r.text, "bias: 0", "bias: 9")) ==
        "s16.txt:3: cuBLASLt does not have this algorithm for 6x16x24 nn f32 bias");
  CHECK(refusal(r.text + r.text.substr(r.text.rfind('\n'))) == "s16.txt:5: 6x16x24 nn bf16 has an earlier line");
}

TEST_CASE("lt_products: the words of every product are read back") {
  Fixture f;
  LtProducts lt(f.stream), reader(f.stream);
  for (const Epilogue e : {Epilogue::none, Epilogue::bias, Epilogue::bias_gelu_tanh_aux, Epilogue::dgelu_tanh})
    for (const DType type : {DType::f32, DType::f64, DType::bf16})
      for (int form = 0; form < 16; ++form) {
        LtProduct p = product(type, e);
        p.transpose_a = form & 1, p.transpose_b = form & 2, p.add = form & 4, p.tf32 = form & 8;
        apart(lt, f.arena, p);
        if (type != DType::bf16) continue;
        p.out = p.vector = DType::f32;
        apart(lt, f.arena, p);
      }
  CHECK_NOTHROW(reader.prefer({"file", lt.choices(), "hash"}));
}

TEST_CASE("watch: laps have the time and the kernels between two marks") {
  Fixture f;
  StreamWatch watch(f.stream);
  for (int round = 0; round < 2; ++round) {
    watch.mark();
    emulation::pass(200);
    f.stream.launched("one");
    f.stream.launched("another");
    watch.mark();
    emulation::pass(300);
    watch.mark();
    const std::vector<Watch::Lap> laps = watch.take();
    REQUIRE(laps.size() == 3);
    CHECK(laps[0].seconds == 0);
    CHECK(laps[1].seconds == doctest::Approx(200).epsilon(0.001));
    CHECK(laps[1].launches == 2);
    CHECK(laps[2].seconds == doctest::Approx(300).epsilon(0.001));
    CHECK(laps[2].launches == 0);
    CHECK(watch.take().empty());
  }
}

TEST_CASE("lt_products: TF32 is off by default") {
  Square<float> square;
  CHECK(square() == 4 * (1 + 0x1p-12f) * (1 + 0x1p-12f));
}

TEST_CASE("lt_products: TF32 rounds products of floats on request") {
  Square<float> square;
  square.p.tf32 = true;
  CHECK(square() == 4.0f);
  square.p.tf32 = false;
  CHECK(square() != 4.0f);
}

TEST_CASE("lt_products: TF32 does not round products of doubles") {
  Square<double> square;
  square.p.tf32 = true;
  CHECK(square() == 4 * (1 + 0x1p-12) * (1 + 0x1p-12));
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
