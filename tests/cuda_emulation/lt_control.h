// What tests tell the emulated cuBLASLt, and what it tells them.
#pragma once

#include <cstdint>
#include <map>
#include <set>

namespace normlab::emulation {

struct LtControl {
  std::set<int> refused{};                  // epilogues (cublasLtEpilogue_t) that no algorithm has
  int algorithm = 66;                       // the number of the next one that is looked up
  int candidates = 1;                       // how many there are, with numbers from that one on
  std::map<int, double> seconds{};          // that a product takes by some algorithms
  int failure = 0;                          // status (cublasStatus_t) of the next call that asks for an algorithm
  int most_in_batch = 1 << 20;              // products that one call computes
  bool other_bits_in_batch = false;         // that these have
  bool refuses_batches = false;             // in the call, after it has accepted their algorithm
  std::int64_t look_ups = 0, products = 0;  // calls so far
  std::int64_t in_batches = 0;              // the products of these calls, each of a batch counted
  int last_algorithm = 0, last_epilogue = 0;
};
LtControl& lt_control();

}  // namespace normlab::emulation

namespace normlab {

/// The emulated cuBLASLt as a program finds it, from here to the end of the scope.
struct ControlOfTest {
  ControlOfTest() { emulation::lt_control() = {}; }
  ~ControlOfTest() { emulation::lt_control() = {}; }
};

}  // namespace normlab
