// Exposes tensor_core.cuh to tests/core/tensor_core_test.cpp: each lane's fragments and a product, by the instructions
// or by their plain versions.
#include "cuda/tensor_core.cuh"

#include "cuda/tensor_core_probe.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

constexpr int kSide = 16, kPitch = 24;

/// One warp. Reads x, z [16, 16] and c [16, 16] from global memory and writes all of `out`.
template <bool kPlain>
__global__ void probe(const bf16* x, const bf16* z, const float* c, TensorCoreLane* out) {
  NORMLAB_SHARED(bf16, left, kSide * kPitch);
  NORMLAB_SHARED(bf16, right, kSide * kPitch);
  AsyncCopies copies;
  const int lane = static_cast<int>(threadIdx.x), row = lane / 2, col = lane % 2 * 8;
  copies.copy<16>(left + row * kPitch + col, x + row * kSide + col, true);
  copies.copy<16>(right + row * kPitch + col, z + row * kSide + col, true);
  copies.wait();
  __syncthreads();
  TensorCoreLane& mine = out[lane];
  FragmentA a, a_trans;
  FragmentB b[2], trans[2];
  FragmentC sums[2], sums_trans[2];
  for (int n = 0; n < 2; ++n)
    for (int i = 0; i < 4; ++i)
      sums[n].x[i] = sums_trans[n].x[i] = c[(lane / 4 + i / 2 * 8) * kSide + 8 * n + lane % 4 * 2 + i % 2];
  if constexpr (kPlain) {
    a = plain::load_a(left, kPitch);
    a_trans = plain::load_a_trans(left, kPitch);
    plain::load_b(right, kPitch, b);
    plain::load_b_trans(right, kPitch, trans);
  } else {
    a = load_a(left, kPitch);
    a_trans = load_a_trans(left, kPitch);
    load_b(right, kPitch, b);
    load_b_trans(right, kPitch, trans);
  }
  for (int n = 0; n < 2; ++n) {
    if constexpr (kPlain) {
      plain::mma(sums[n], a, b[n], sums[n]);
      plain::mma(sums_trans[n], a, trans[n], sums_trans[n]);
    } else {
      mma(sums[n], a, b[n], sums[n]);
      mma(sums_trans[n], a, trans[n], sums_trans[n]);
    }
    for (int k = 0; k < 2; ++k) {
      mine.b[n][k] = b[n].x[k];
      mine.b_trans[n][k] = trans[n].x[k];
    }
    for (int i = 0; i < 4; ++i) {
      mine.sums[n][i] = sums[n].x[i];
      mine.sums_trans[n][i] = sums_trans[n].x[i];
    }
  }
  for (int i = 0; i < 4; ++i) {
    mine.a[i] = a.x[i];
    mine.a_trans[i] = a_trans.x[i];
  }
  const float low = c[lane], high = c[lane + 32];
  mine.packed = kPlain ? plain::pack(low, high) : pack(low, high);
  mine.power = kPlain ? plain::exp2(low) : exp2_of(low);
}

}  // namespace

void probe_tensor_core(bool plain_version, const bf16* x, const bf16* z, const float* c, TensorCoreLane* out) {
  const Stream stream;
  launch("probe_tensor_core", plain_version ? probe<true> : probe<false>, {1, kWarp}, stream, x, z, c, out);
  stream.synchronize();
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
