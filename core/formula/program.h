// A formula as lists of instructions, which a device runs over blocks of whole rows.
//
// A register holds one number for the call or for an image, one for each channel, one for each row of a block, or the
// values of a block. A pass runs its list over all rows of an image, block by block. Sums over an image's rows are known
// in the next pass, which computes what else it needs again.
#pragma once

#include "core/formula/graph.h"

namespace normlab::formula {

enum class Extent : std::uint8_t { number, channels, rows, block };

struct Register {
  Extent extent = Extent::number;
  Id leaf = kNone;     // what it holds from the beginning
  bool lasts = false;  // what the forward pass makes of reductions, and the backward pass reads
};

inline constexpr std::size_t kMostSummands = 3, kMostFactors = 3;  // of an instruction

/// out = op(in..). Op::add is a sum of products: each has four operands, of which the first is the same for all channels
/// (of a block) or all rows, and the others are not; kNone: there is none. `minus` subtracts a product.
/// `reduction`: out is the sum of these values over an axis, or what else it says. Of x, the gate and dy: reads them.
struct Instruction {
  Op op = Op::stop, reduction = Op::stop;
  std::array<int, 4 * kMostSummands> in;
  std::size_t summands = 0;
  std::array<bool, kMostSummands> minus{};
  int out = kNone;
  int total = kNone;  // of a reduction over rows: which
  Id id = kNone;
  Instruction() { in.fill(kNone); }
};

/// The instructions of `code` from `rows` to `end` run for each block of rows. Those from the end of the previous pass
/// to `rows` run once before them.
struct Pass {
  std::size_t rows, end;
};

struct Program {
  std::vector<Register> registers;  // those that last are the first
  std::vector<Instruction> code;    // of the passes, and at last what follows from sums over all rows
  std::vector<Pass> passes;
  std::vector<int> gradients;      // of the parameters; kNone: 0
  int result = kNone;              // y or dx
  int gate_result = kNone;         // the gate's gradient
  int totals = 0;                  // reductions over rows
  bool by_image = false;           // some reduction is over an image's tokens
  bool by_value = true;            // values of a row meet in sums over all rows alone
  std::size_t operations() const;  // instructions for each value of a block
};

struct Programs {
  Tree tree;
  Graph graph;
  std::vector<Parameter> parameters;
  Program forward, backward;
  const std::uint64_t number;  // of these in the process
  /// joins: whether an instruction may be several operations.
  Programs(const Tree& tree, const Site& site, const std::vector<Parameter>& parameters, bool joins = true);
  /// Values that last from the forward to the backward pass of so many images and rows.
  std::int64_t lasting_size(std::int64_t images, std::int64_t rows) const;
};

}  // namespace normlab::formula
