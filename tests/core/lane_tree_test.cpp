#include "core/lane_tree.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "tests/devices.h"

using namespace normlab;

namespace {

/// A sum that records its order as text.
struct Shown {
  std::string text;
  Shown operator+(const Shown& more) const { return {"(" + text + "+" + more.text + ")"}; }
  void operator+=(const Shown& more) { *this = *this + more; }
};

std::string by_constant(int lanes) {
  std::string text;
  with_lanes(lanes, [&](auto count) { text = lane_tree<count>([](int l) { return Shown{std::to_string(l)}; }).text; });
  return text;
}
std::string by_number(int lanes) {
  return lane_tree<Shown>(lanes, [](std::int64_t l, Shown& to) { to.text = std::to_string(l); }).text;
}

}  // namespace

TEST_CASE("lane tree: lanes are added in the order written by hand") {
  CHECK(by_constant(1) == "0");
  CHECK(by_constant(2) == "(0+1)");
  CHECK(by_constant(3) == "((0+1)+2)");
  CHECK(by_constant(7) == "(((0+1)+(2+3))+((4+5)+6))");
  CHECK(by_constant(8) == "(((0+1)+(2+3))+((4+5)+(6+7)))");
}

TEST_CASE("lane tree: a count known at run time gives the order of a constant one") {
  for (int lanes = 1; lanes <= kMostLanes; ++lanes) CHECK(by_number(lanes) == by_constant(lanes));
}

TEST_CASE("lane tree: an aligned group of lanes is one node") {
  for (int lanes = 1; lanes <= kMostLanes; ++lanes)
    for (int size = 1; size <= lanes; size *= 2)
      for (int first = 0; first + size <= lanes; first += size) {
        std::string node = std::to_string(first);
        with_lanes(size, [&](auto count) {
          node = lane_tree<count>([&](int l) { return Shown{std::to_string(first + l)}; }).text;
        });
        CHECK(by_constant(lanes).find(node) != std::string::npos);
      }
}

TEST_CASE("lane tree: each device adds lanes in this order") {
  on_each_device([] {
    // In float a 1 is lost beside 1e8, unless it is added to another 1 first.
    for (const auto& [values, wanted] : std::vector<std::pair<std::vector<float>, float>>{
             {{1e8f, -1e8f, 1, 1}, 2.0f}, {{1e8f, 1, -1e8f, 1}, 0.0f}, {{1, 1e8f, 1, -1e8f, 5}, 5.0f}}) {
      const std::int64_t count = std::ssize(values);
      Arena arena(current_device().memory());
      const Tensor lanes = arena.empty({count}, DType::f32), square = arena.empty({1}, DType::f64);
      std::copy(values.begin(), values.end(), lanes.data<float>());
      Backend& backend = current_device().backend;
      backend.sum_lanes(count, 1, lanes.slice(0, 1), square.data<double>());
      backend.synchronize();
      CHECK(lanes.data<float>()[0] == wanted);
      CHECK(*square.data<double>() == double(wanted) * double(wanted));
    }
  });
}
