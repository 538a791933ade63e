// The instructions behind cuda/tensor_core.cuh: which lane has which value, by the tables of the PTX ISA (9.7.14.5.8,
// "Matrix Fragments for mma.m16n8k16 with floating point type"), and products, for the plain version on every device
// that has the kernels, and for what these use there.
#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <functional>
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

/// Inputs of a probe, and what a lane has after it.
struct Probed {
  Tensor x, z, c;  // [16, 16]
  int lane;
  const TensorCoreLane& has;
};

/// Calls `check` with each lane of each device that has the kernels, for the plain version and for what they use there.
void for_each_lane(const std::function<void(const Probed&)>& check) {
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
        check({x, z, c, lane, lanes[lane]});
      }
    }
  });
  CHECK(probed.size() == 2 * (devices_under_test().size() - 1));
}

}  // namespace

TEST_CASE("tensor_core: fragments are laid out as in the tables of the ISA") {
  for_each_lane([](const Probed& p) {
    for (int i = 0; i < 8; ++i) {
      const Place a = in_a(p.lane, i);
      CHECK(value(p.has.a, i) == at(p.x, a.row, a.col));
      CHECK(value(p.has.a_trans, i) == at(p.x, a.col, a.row));
    }
    for (int n = 0; n < 2; ++n)
      for (int i = 0; i < 4; ++i) {
        const Place b = in_b(p.lane, i);
        CHECK(value(p.has.b[n], i) == at(p.z, 8 * n + b.col, b.row));
        CHECK(value(p.has.b_trans[n], i) == at(p.z, b.row, 8 * n + b.col));
      }
  });
}

TEST_CASE("tensor_core: products are exact for whole numbers") {
  for_each_lane([](const Probed& p) {
    for (int n = 0; n < 2; ++n)
      for (int i = 0; i < 4; ++i) {
        const Place to = in_c(p.lane, i);
        float sum = at(p.c, to.row, 8 * n + to.col), sum_trans = sum;
        for (int k = 0; k < kSide; ++k) {
          sum += at(p.x, to.row, k) * at(p.z, 8 * n + to.col, k);
          sum_trans += at(p.x, to.row, k) * at(p.z, k, 8 * n + to.col);
        }
        CHECK(p.has.sums[n][i] == sum);
        CHECK(p.has.sums_trans[n][i] == sum_trans);
      }
  });
}

TEST_CASE("tensor_core: two floats are packed as bf16") {
  for_each_lane([](const Probed& p) {
    CHECK(value(&p.has.packed, 0) == float(bf16(p.c.data<float>()[p.lane])));
    CHECK(value(&p.has.packed, 1) == float(bf16(p.c.data<float>()[p.lane + 32])));
  });
}

TEST_CASE("tensor_core: powers of two are right within rounding") {
  for_each_lane([](const Probed& p) {
    CHECK(p.has.power == doctest::Approx(std::exp2(p.c.data<float>()[p.lane])).epsilon(3e-7));
  });
}
