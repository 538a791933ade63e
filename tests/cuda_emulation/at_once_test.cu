// Memory that lies side by side, and the products of several networks in one call.
#include <doctest/doctest.h>

#include <cstring>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "cuda/lt_products.h"
#include "cuda/slabs.h"
#include "tests/cuda_emulation/lt_operands.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

using emulation::lt_control;
constexpr std::size_t kPlaces = 3;

/// For each of three networks the operands of a product, in slabs, and its result by a call of its own.
struct Three {
  ControlOfTest control;
  Stream stream;
  Slabs slabs{kPlaces};
  std::deque<DeviceMemory> memories;
  Arena numbers;
  std::vector<std::function<void()>> at_end;
  LtProducts lt{stream};
  std::vector<LtOperands> operands;
  std::vector<Tensor> results, extras;

  explicit Three(const LtProduct& p) {
    for (std::size_t i = 0; i < kPlaces; ++i) {
      DeviceMemory& memory = memories.emplace_back(stream, SlabPlace{&slabs, i});
      // Each operand in a block of another size, so that each has a distance of its own from network to network.
      const auto make = [&](std::int64_t values, std::uint64_t number, DType type) {
        const std::size_t bytes = 4096 * number;
        void* const block = memory.allocate(bytes);
        at_end.emplace_back([&memory, block, bytes] { memory.release(block, bytes); });
        const Tensor from = drawn(numbers, {values}, 10 * number + i, type);
        std::memcpy(block, from.raw(), from.bytes());
        return Tensor(block, {values}, type);
      };
      const Tensor a = make(p.m * p.k, 1, p.in), b = make(p.k * p.n, 2, p.in), c = make(p.m * p.n, 3, p.out),
                   d = make(p.m * p.n, 4, p.out), vector = make(p.n, 5, p.vector), extra = make(p.m * p.n, 6, p.out);
      operands.push_back({a.raw(), b.raw(), c.raw(), d.raw(), vector.raw(), extra.raw()});
      results.push_back(d);
      extras.push_back(extra);
    }
  }
  ~Three() {
    for (const std::function<void()>& release : at_end) release();
  }
  /// The bits have been compared.
  bool ready(const LtProduct& p) {
    return lt.at_once("test", p, operands) == AtOnce::not_yet && lt.compare_new() && !lt.compare_new();
  }
  std::vector<std::string> written() const {
    std::vector<std::string> all;
    for (const std::vector<Tensor>* tensors : {&results, &extras})
      for (const Tensor& t : *tensors) all.emplace_back(static_cast<const char*>(t.raw()), t.bytes());
    return all;
  }
};

LtProduct product(DType type, Epilogue epilogue = Epilogue::none) {
  return {.m = kM, .n = kN, .k = kK, .in = type, .out = type, .vector = type, .epilogue = epilogue};
}

}  // namespace

TEST_CASE("at once: each epilogue writes what single calls write") {
  for (const Epilogue e : {Epilogue::none, Epilogue::bias, Epilogue::bias_gelu_tanh_aux, Epilogue::dgelu_tanh})
    for (const DType type : {DType::f32, DType::f64, DType::bf16})
      for (int form = 0; form < 8; ++form) {
        LtProduct p = product(type, e);
        p.transpose_a = form & 1, p.transpose_b = form & 2, p.add = form & 4;
        CAPTURE(static_cast<int>(e));
        CAPTURE(to_string(type));
        CAPTURE(form);
        Three single(p), joint(p);
        for (const LtOperands& with : single.operands) REQUIRE(single.lt("test", p, with));
        REQUIRE(joint.ready(p));
        const std::int64_t before = lt_control().products;
        REQUIRE(joint.lt.at_once("test", p, joint.operands) == AtOnce::done);
        CHECK(lt_control().products == before + 1);
        CHECK(joint.written() == single.written());
      }
}

TEST_CASE("at once: only what one call can do, and otherwise nothing is written") {
  const LtProduct p = product(DType::f32);
  const auto refused = [&](auto&& change) {
    Three three(p);
    REQUIRE(three.ready(p));
    LtProduct asked = p;
    change(three, asked);
    const std::vector<std::string> before = three.written();
    const AtOnce how = three.lt.at_once("test", asked, three.operands);
    return how == AtOnce::no && three.written() == before;
  };
  CHECK(!refused([](Three&, LtProduct&) {}));
  CHECK(refused([](Three& t, LtProduct&) { std::swap(t.operands[1].a, t.operands[2].a); }));  // unequal distances
  CHECK(refused([](Three& t, LtProduct&) { t.operands[1].scale = 2; }));
  CHECK(refused([](Three& t, LtProduct&) { t.operands[1].kept = 2; }));
  CHECK(refused([](Three& t, LtProduct&) { t.operands.resize(1); }));
  CHECK(refused([](Three&, LtProduct& asked) { asked.batch = 2; }));
  CHECK(refused([](Three& t, LtProduct&) {  // at 4 bytes
    for (LtOperands& with : t.operands) with.b = static_cast<const float*>(with.b) + 1;
  }));
  CHECK(refused([](Three&, LtProduct&) { lt_control().most_in_batch = 2; }));
  CHECK(refused([](Three&, LtProduct&) { lt_control().refuses_batches = true; }));
  CHECK(refused([](Three& t, LtProduct&) {  // overlapping
    for (std::size_t i = 0; i < kPlaces; ++i) t.operands[i].d = static_cast<char*>(t.operands[0].d) + 16 * i;
  }));
  CHECK(refused([](Three& t, LtProduct&) { std::swap(t.operands.front(), t.operands.back()); }));  // backwards
}

TEST_CASE("at once: the algorithm is that of a single product") {
  const LtProduct p = product(DType::f32);
  Three three(p);
  REQUIRE(three.lt("test", p, three.operands[0]));
  lt_control().algorithm = 7;  // of what is looked up now
  REQUIRE(three.ready(p));
  REQUIRE(three.lt.at_once("test", p, three.operands) == AtOnce::done);
  CHECK(lt_control().last_algorithm == 66);
  LtProducts other(three.stream);
  CHECK(!three.lt.same_algorithm(p, other));
  LtProducts first(three.stream);
  first.choose(three.lt.choices());
  CHECK(three.lt.same_algorithm(p, first));
}

TEST_CASE("at once: a call that has other bits than single ones is not made") {
  const LtProduct p = product(DType::f32);
  Three three(p);
  lt_control().other_bits_in_batch = true;
  REQUIRE(three.ready(p));
  CHECK(three.lt.at_once("test", p, three.operands) == AtOnce::no);
}

TEST_CASE("slabs: what places ask for in turn lies at equal distances") {
  std::vector<std::vector<char>> made;
  const auto allocate = [&](std::size_t bytes) { return static_cast<void*>(made.emplace_back(bytes).data()); };
  Slabs slabs(3);
  const auto take = [&](std::size_t place, std::size_t bytes) {
    return static_cast<char*>(slabs.take(place, bytes, allocate));
  };
  char* const first[] = {take(0, 100), take(1, 100), take(2, 100)};
  CHECK(made.size() == 1);
  CHECK(made[0].size() == 3 * 512);  // each part begins where CUDA's own blocks do
  CHECK(first[1] - first[0] == 512);
  CHECK(first[2] - first[1] == 512);
  char* const second[] = {take(0, 100), take(0, 600)};
  CHECK(made.size() == 3);
  CHECK(take(2, 600) - second[1] == 2 * 1024);
  CHECK(slabs.give(first[0]).first == nullptr);
  CHECK(take(0, 100) == first[0]);  // the next network in this place gets the same
  for (char* part : first) {
    const auto [block, bytes] = slabs.give(part);
    CHECK(block == (part == first[2] ? made[0].data() : nullptr));
    CHECK(bytes == (part == first[2] ? 3 * 512 : 0));
  }
  CHECK(slabs.give(second[0]).first == made[1].data());
  char* const again = take(1, 100);
  CHECK(again == made[3].data() + 512);
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
