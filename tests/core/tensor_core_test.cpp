// The instructions behind cuda/tensor_core.cuh: which lane has which value, by the tables of the PTX ISA (9.7.14.5.8,
// "Matrix Fragments for mma.m16n8k16 with floating point type"), and products, for the plain version on every device
// that has the kernels, and for what these use there.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/arena.h"
#include "cuda/tensor_core_probe.h"
#include "tests/devices.h"

using namespace normlab;

namespace {

/// Row and column of value i of a lane, as the ISA writes them.
struct Place {
  int row, col;
};
Place in_a(int lane, int i) {
  const int group = lane >> 2, in_group = lane % 4;
  return {i < 2 || (4 <= i && i < 6) ? group : group + 8, i < 4 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8};
}
Place in_b(int lane, int i) {
  const int group = lane >> 2, in_group = lane % 4;
  return {i < 2 ? in_group * 2 + (i & 1) : in_group * 2 + (i & 1) + 8, group};
}
Place in_c(int lane, int i) {
  const int group = lane >> 2, in_group = lane % 4;
  return {i < 2 ? group : group + 8, in_group * 2 + (i & 1)};
}

constexpr int kSide = 16;
float at(const Tensor& t, int row, int col) {
  return t.dtype() == DType::bf16 ? float(t.data<bf16>()[row * kSide + col]) : t.data<float>()[row * kSide + col];
}
/// Value i of a register pair, as a float.
float value(const unsigned* registers, int i) {
  return std::bit_cast<float>((registers[i / 2] >> (16 * (i % 2)) & 0xffffu) << 16);
}

}  // namespace

TEST_CASE("tensor_core: fragments and products by the tables of the ISA") {
  std::set<std::string> probed;
  on_each_device([&] {
    const TestDevice& device = current_device();
    ProbeTensorCore* probe = device.name == "cuda (emulated)" ? cuda_emulated::probe_tensor_core
                             : device.name == "cuda"          ? cuda::probe_tensor_core
                                                              : nullptr;
    if (!probe) return;
    Arena memory(device.memory());
    const Tensor x = memory.empty({kSide, kSide}, DType::bf16), z = memory.empty({kSide, kSide}, DType::bf16),
                 c = memory.empty({kSide, kSide}, DType::f32),
                 raw = memory.empty({32 * std::int64_t{sizeof(TensorCoreLane)}}, DType::u8);
    // Whole numbers, no two alike in x or z, whose products and sums are exact in float in any order.
    for (int i = 0; i < kSide * kSide; ++i) {
      x.data<bf16>()[i] = bf16(float(i - 100));
      z.data<bf16>()[i] = bf16(float(129 - i));
      c.data<float>()[i] = float(i * 37 % 101) / 8 - 6;
    }
    for (const bool plain : {true, false}) {
      CAPTURE(plain);
      auto* lanes = reinterpret_cast<TensorCoreLane*>(raw.data<std::uint8_t>());
      probe(plain, x.data<bf16>(), z.data<bf16>(), c.data<float>(), lanes);
      device.backend.synchronize();
      probed.insert(device.name + (plain ? ", plain" : ""));
      for (int lane = 0; lane < 32; ++lane) {
        CAPTURE(lane);
        const TensorCoreLane& has = lanes[lane];
        for (int i = 0; i < 8; ++i) CHECK(value(has.a, i) == at(x, in_a(lane, i).row, in_a(lane, i).col));
        for (int n = 0; n < 2; ++n) {
          for (int i = 0; i < 4; ++i) {
            const Place b = in_b(lane, i), to = in_c(lane, i);
            CHECK(value(has.b[n], i) == at(z, 8 * n + b.col, b.row));
            CHECK(value(has.b_trans[n], i) == at(z, b.row, 8 * n + b.col));
            float sum = at(c, to.row, 8 * n + to.col), sum_trans = sum;
            for (int k = 0; k < kSide; ++k) {
              sum += at(x, to.row, k) * at(z, 8 * n + to.col, k);
              sum_trans += at(x, to.row, k) * at(z, k, 8 * n + to.col);
            }
            CHECK(has.sums[n][i] == sum);
            CHECK(has.sums_trans[n][i] == sum_trans);
          }
        }
        const float low = c.data<float>()[lane], high = c.data<float>()[lane + 32];
        CHECK(value(&has.packed, 0) == float(bf16(low)));
        CHECK(value(&has.packed, 1) == float(bf16(high)));
        CHECK(has.power == doctest::Approx(std::exp2(low)).epsilon(3e-7));
      }
    }
  });
  CHECK(probed.size() == 2 * (devices_under_test().size() - 1));
}
