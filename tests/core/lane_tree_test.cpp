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

TEST_CASE("lane tree: merges of whole subtrees give its order, whichever are there and wherever they lie") {
  for (int lanes = 1; lanes <= kMostLanes; ++lanes)
    for (int merged = 0; merged < lanes; ++merged) {  // so many merges were made before
      std::vector<LaneNode> nodes;
      std::vector<std::string> sums;
      for (int l = 0; l < lanes; ++l) nodes.push_back({(3 * l) % lanes, 1});
      if (lanes % 3 == 0)
        for (int l = 0; l < lanes; ++l) nodes[std::size_t(l)].first = lanes - 1 - l;
      for (const LaneNode& node : nodes) sums.push_back(std::to_string(node.first));
      const auto add = [&](const LaneMerge& m) {
        sums[std::size_t(m.to)] = "(" + sums[std::size_t(m.to)] + "+" + sums[std::size_t(m.from)] + ")";
      };
      std::vector<LaneNode> some = nodes;
      int count = 0;
      for_merges(some, lanes, [&](const LaneMerge& m) {
        if (count++ >= merged) return;
        add(m);
        nodes[std::size_t(m.to)].count += nodes[std::size_t(m.from)].count;
        nodes[std::size_t(m.from)] = {};
      });
      std::size_t root = 0;
      while (nodes[root].first != 0 || nodes[root].count == 0) ++root;
      for_merges(nodes, lanes, add);
      CHECK(sums[root] == by_constant(lanes));
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
