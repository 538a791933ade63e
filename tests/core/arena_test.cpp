#include "core/arena.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace normlab;

namespace {
std::vector<void*> five_blocks(Arena& arena) {
  std::vector<void*> all;
  for (const std::size_t bytes : {1u, 100u, 5u << 20, 64u, 9u << 20}) all.push_back(arena.allocate(bytes));
  return all;
}
}  // namespace

TEST_CASE("arena: after a reset the same requests get the same memory") {
  Arena arena;
  const auto first = five_blocks(arena);
  const std::size_t reserved = arena.reserved();
  arena.reset();
  CHECK(five_blocks(arena) == first);
  CHECK(arena.reserved() == reserved);
}

TEST_CASE("arena: blocks are aligned to 64 bytes") {
  Arena arena;
  for (void* p : five_blocks(arena)) CHECK(reinterpret_cast<std::uintptr_t>(p) % 64 == 0);
}

TEST_CASE("arena: a released block serves the next request of its size") {
  Arena arena;
  void* a = arena.allocate(1000);
  void* b = arena.allocate(1000);
  arena.release(a, 1000);
  CHECK(arena.allocate(2000) != a);
  CHECK(arena.allocate(1000) == a);
  arena.release(b, 1000);
  arena.reset();
  CHECK(arena.allocate(1000) == a);
}

TEST_CASE("arena: a tensor is stale after a reset of its arena") {
  Arena arena;
  const Tensor t = arena.empty({2, 3}, DType::f32);
  CHECK(t.data<float>() != nullptr);
  arena.reset();
  CHECK(t.stale());
  CHECK_THROWS_WITH_AS(t.data<float>(), "tensor [2, 3] is stale: its arena was reset after it was created", InputError);
}

TEST_CASE("tensor: reading another type is refused") {
  Arena arena;
  const Tensor t = arena.empty({2, 3}, DType::f32);
  CHECK_THROWS_WITH_AS(t.data<double>(), "tensor [2, 3] holds f32, but is read as f64", InputError);
}

TEST_CASE("tensor: a reshape to another size is refused") {
  Arena arena;
  const Tensor t = arena.empty({2, 3}, DType::f32);
  CHECK_THROWS_WITH_AS(t.reshape({5}), "reshape: [2, 3] does not fit [5]", InputError);
}

TEST_CASE("tensor: a slice beyond the end is refused") {
  Arena arena;
  const Tensor t = arena.empty({2, 3}, DType::f32);
  CHECK_THROWS_WITH_AS(t.slice(1, 2), "slice: 1 + 2 of [2, 3]", InputError);
}

TEST_CASE("tensor: a slice begins at its first row") {
  Arena arena;
  const Tensor t = arena.empty({2, 3}, DType::f32);
  CHECK(t.slice(1, 1).data<float>() == t.data<float>() + 3);
}

TEST_CASE("shape: more than six axes are refused") {
  CHECK_THROWS_WITH_AS((Shape{1, 1, 1, 1, 1, 1, 1}), "shape: rank is above 6", InputError);
}

TEST_CASE("bf16: rounds to nearest even") {
  CHECK(float(bf16(1.0f)) == 1.0f);
  CHECK(float(bf16(1.00390625f)) == 1.0f);       // halfway, even below
  CHECK(float(bf16(1.01171875f)) == 1.015625f);  // halfway, even above
  CHECK(float(bf16(3.4e38f)) == INFINITY);
}

TEST_CASE("bf16: keeps infinities and NaN") {
  CHECK(float(bf16(-INFINITY)) == -INFINITY);
  CHECK(float(bf16(NAN)) != float(bf16(NAN)));
}
