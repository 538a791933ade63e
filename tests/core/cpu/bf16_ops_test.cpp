// Arithmetic behind bf16 activations: attention and dense layers, oneDNN's against emulated.
#include <cmath>
#include <vector>

#include "autograd/ops.h"
#include "core/random.h"
#include "tests/core/cpu/bf16_choice.h"

using namespace normlab;

namespace {

Tensor random_bf16(Arena& memory, const Shape& shape, std::uint64_t seed, double scale = 1.0) {
  const Tensor t = memory.empty(shape, DType::bf16);
  for (std::int64_t i = 0; i < t.size(); ++i)
    t.data<bf16>()[i] = bf16(scale * normal(stream_key(seed, "test", "bf16"), static_cast<std::uint64_t>(i)));
  return t;
}

void append(std::vector<double>& to, const Tensor& t) {
  for (std::int64_t i = 0; i < t.size(); ++i)
    to.push_back(t.dtype() == DType::bf16 ? double(float(t.data<bf16>()[i])) : double(t.data<float>()[i]));
}

/// Output and gradients of attention, then of a dense layer with GELU, all in one list.
std::vector<double> everything(Bf16Products how, std::int64_t tokens, bool drop) {
  constexpr std::int64_t kBatch = 2, kHeads = 2, kWidth = 32;
  Arena memory, arena;
  Tape tape(cpu_backend().with_bf16(how), arena);
  const Shape shape{kBatch, tokens, kWidth};
  const Var q = tape.input(random_bf16(memory, shape, 1), true), k = tape.input(random_bf16(memory, shape, 2), true),
            v = tape.input(random_bf16(memory, shape, 3), true);
  Tensor keep;
  if (drop) {
    keep = memory.empty({kBatch, kHeads, tokens, tokens}, DType::u8);
    for (std::int64_t i = 0; i < keep.size(); ++i) keep.data<std::uint8_t>()[i] = i % 5 != 0;
  }
  const Tensor weight = memory.empty({24, kWidth}, DType::f32), bias = memory.empty({24}, DType::f32);
  for (const Tensor& t : {weight, bias})
    for (std::int64_t i = 0; i < t.size(); ++i)
      t.data<float>()[i] = float(0.2 * normal(stream_key(9, "test", "w"), static_cast<std::uint64_t>(i)));
  const Var w = tape.input(weight, true), b = tape.input(bias, true);
  const Var y = attention(q, k, v, kHeads, keep, drop ? 0.2 : 0.0);
  const Var z = linear_gelu(y, w, b, GeluForm::erf);
  tape.backward(z, random_bf16(memory, z.shape(), 4));
  std::vector<double> all;
  append(all, y.value());
  append(all, z.value());
  for (const Var& leaf : {q, k, v, w, b}) append(all, leaf.grad());
  return all;
}

}  // namespace

TEST_CASE("bf16 ops: results by oneDNN equal the emulated ones but for neighbouring roundings") {
  SKIP_WITHOUT_NATIVE_BF16();
  for (const std::int64_t tokens : {1, 5, 65, 230})  // 230: a head at a time
    for (const bool drop : {false, true}) {
      CAPTURE(tokens);
      CAPTURE(drop);
      const std::vector<double> native = everything(Bf16Products::native, tokens, drop),
                                emulated = everything(Bf16Products::emulated, tokens, drop);
      REQUIRE(native.size() == emulated.size());
      // A float sum in another order rounds a few values to the neighbouring bf16, 2^-8 of it away; what is computed
      // from those moves by about as much of the sums they enter.
      double largest = 0, error = 0, total = 0;
      for (std::size_t i = 0; i < native.size(); ++i) {
        largest = std::max(largest, std::abs(native[i]));
        error = std::max(error, std::abs(native[i] - emulated[i]));
        total += std::abs(native[i] - emulated[i]);
      }
      CHECK(error <= 0x1p-8 * largest);
      CHECK(total / double(native.size()) <= 0x1p-13 * largest);
    }
}
