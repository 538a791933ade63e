// The product of several networks as one call of cuBLASLt.
#include <algorithm>
#include <utility>

#include "cuda/kernel.cuh"
#include "cuda/lt_products.h"
#include "cuda/transfer.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

struct Compare {
  const std::uint64_t *a, *b;
  std::int32_t* differ;
  __device__ void operator()(std::int64_t i) const {
    if (a[i] != b[i]) atomicMax(differ, 1);
  }
};

/// Numbers in (-1, 1) of the type of a product's factors, and of its result if that is wider.
struct Draw {
  std::uint16_t* to;  // bf16; two of them are a float in that range, too
  __device__ void operator()(std::int64_t i) const {
    const auto word = static_cast<std::uint32_t>(i) * 2654435761u + 12345u;
    to[i] = bf16(float((word ^ word >> 15) * 2246822519u >> 8) * 0x1p-23f - 1.0f).bits;
  }
};

}  // namespace

bool LtOperands::aligned() const {
  const void* const all[] = {a, b, c, d, vector, extra};
  return std::all_of(std::begin(all), std::end(all),
                     [](const void* p) { return reinterpret_cast<std::uintptr_t>(p) % kLtAlignment == 0; });
}

std::optional<LtProducts::Strides> LtProducts::strides_between(const LtProduct& p, std::span<const LtOperands> all) {
  bool equal = true;
  // Of what the product reads or writes; its parts must not overlap.
  const auto stride = [&](bool used, DType type, std::int64_t values, auto&& operand) {
    if (!used) return std::int64_t{0};
    const auto at = [&](std::size_t i) { return static_cast<const char*>(operand(all[i])); };
    const std::ptrdiff_t bytes = at(1) - at(0), value = static_cast<std::ptrdiff_t>(size_of(type));
    equal &= bytes % kLtAlignment == 0 && bytes >= values * value;
    for (std::size_t i = 2; i < all.size(); ++i) equal &= at(i) - at(i - 1) == bytes;
    return std::int64_t{bytes / value};
  };
  const bool bias = p.epilogue == Epilogue::bias || p.epilogue == Epilogue::bias_gelu_tanh_aux;
  const Strides strides{.a = stride(true, p.in, p.m * p.k, [](const LtOperands& o) { return o.a; }),
                        .b = stride(true, p.in, p.k * p.n, [](const LtOperands& o) { return o.b; }),
                        .c = stride(p.add, p.out, p.m * p.n, [](const LtOperands& o) { return o.c; }),
                        .d = stride(true, p.out, p.m * p.n, [](const LtOperands& o) { return o.d; }),
                        .vector = stride(bias, p.vector, p.n, [](const LtOperands& o) { return o.vector; }),
                        .extra = stride(has_extra(p), p.out, p.m * p.n, [](const LtOperands& o) { return o.extra; })};
  return equal ? std::optional(strides) : std::nullopt;
}

bool LtProducts::same_algorithm(LtProduct p, LtProducts& other) {
  const Plan &here = plan(p), &there = other.plan(p);
  return here.found && there.found && std::ranges::equal(here.algorithm.data, there.algorithm.data);
}

bool LtProducts::compare_new() {
  const bool any = !uncompared_.empty();
  for (const auto& [p, count] : std::exchange(uncompared_, {})) keeps_bits_[{p, count}] = keeps_bits(p, count);
  return any;
}

/// On random numbers.
bool LtProducts::keeps_bits(const LtProduct& p, std::int64_t count) {
  const Plan& alone = plan(p);
  const Stream aside;
  Buffer memory("products to compare", aside), workspace("cuBLASLt", aside), flag("a comparison", aside);
  std::int64_t bytes = 0;  // of a network
  const auto place = [&](bool used, std::int64_t values, DType type) {
    constexpr std::int64_t kRound = 512;
    const std::int64_t at = bytes;
    if (used) bytes += (values * static_cast<std::int64_t>(size_of(type)) + kRound - 1) / kRound * kRound;
    return at;
  };
  const std::int64_t a = place(true, p.m * p.k, p.in), b = place(true, p.k * p.n, p.in),
                     c = place(true, p.m * p.n, p.out), d = place(true, p.m * p.n, p.out),
                     vector = place(true, p.n, p.vector), extra = place(has_extra(p), p.m * p.n, p.out),
                     half = count * bytes;
  auto* const single = memory.get<std::byte>(2 * half);
  auto* const joint = single + half;
  const auto operands = [&](std::byte* of, std::int64_t i) {
    std::byte* const at = of + i * bytes;
    return LtOperands{at + a, at + b, at + c, at + d, at + vector, has_extra(p) ? at + extra : nullptr};
  };
  each_element("compare", half / 2, aside, Draw{reinterpret_cast<std::uint16_t*>(single)});
  check("compare",
        cudaMemcpyAsync(joint, single, static_cast<std::size_t>(half), cudaMemcpyDeviceToDevice, aside.handle()));
  std::vector<LtOperands> all;
  for (std::int64_t i = 0; i < count; ++i) {
    all.push_back(operands(joint, i));
    if (!multiply("compare", p, alone, operands(single, i), aside, workspace)) return false;
  }
  Plan together;
  if (!describe_at_once(p, *strides_between(p, all), alone, count, together) ||
      !multiply("compare", p, together, all[0], aside, workspace))
    return false;
  auto* const differ = flag.get<std::int32_t>(1);
  check("compare", cudaMemsetAsync(differ, 0, sizeof *differ, aside.handle()));
  each_element(
      "compare", half / 8, aside,
      Compare{reinterpret_cast<const std::uint64_t*>(single), reinterpret_cast<const std::uint64_t*>(joint), differ});
  std::int32_t found = 0;
  Readback readback(aside);
  readback.add(Tensor(differ, {1}, DType::i32), &found);
  readback.wait();
  return found == 0;
}

bool LtProducts::describe_at_once(LtProduct p, const Strides& strides, const Plan& alone, std::int64_t count,
                                  Plan& plan) const {
  p.batch = count;
  p.tf32 = p.tf32 && p.in == DType::f32;
  describe(p, strides, plan);
  return take(plan, alone.algorithm);
}

AtOnce LtProducts::at_once(const char* op, const LtProduct& p, std::span<const LtOperands> all) {
  if (all.size() < 2 || p.batch != 1 || p.m == 0 || p.n == 0 || p.k == 0) return AtOnce::no;
  for (const LtOperands& with : all) {
    if (!with.aligned()) return AtOnce::no;
    if (with.scale != all[0].scale || with.kept != all[0].kept) return AtOnce::no;
  }
  const Plan& alone = plan(p);
  const std::optional<Strides> strides = strides_between(p, all);
  Plan together;
  if (!alone.found || !strides || !describe_at_once(p, *strides, alone, std::ssize(all), together)) return AtOnce::no;
  const auto compared = keeps_bits_.find({p, std::ssize(all)});
  if (compared == keeps_bits_.end()) {
    uncompared_.emplace(p, std::ssize(all));
    return AtOnce::not_yet;
  }
  return compared->second && multiply(op, p, together, all[0], stream_, workspace_) ? AtOnce::done : AtOnce::no;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
