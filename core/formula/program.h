// A formula as lists of instructions on vectors, which a device runs over the
// rows of x.
//
// Values are of four shapes: one number for the call or for an image, one for
// each channel, one for each row of a block, and one for each element of a
// tile. A tile is some rows, or a piece of one row, that fits in the
// first-level cache. A pass reads all rows of an image; its phases read a
// block's rows again, each once the sums of the one before are known. What a
// later phase needs again is computed again, unless that is expensive: then the
// block keeps it.
#pragma once

#include "core/formula/graph.h"

namespace normlab::formula {

/// Where a value is: among the numbers, the values for each channel, those for
/// each row of the block, the tile's registers, what the block keeps, or in
/// memory. result: y or dx.
enum class Where : std::uint8_t { none, number, channels, row, tile, kept, x, dy, result };
struct Operand {
  Where where = Where::none;
  int index = 0;
  bool operator==(const Operand&) const = default;
};

struct Instruction {
  enum class Kind : std::uint8_t {
    compute,
    reduce,  // over channels, or over the rows so far; with more arguments: the
             // sum of their products
    store    // the result
  };
  Kind kind = Kind::compute;
  Op op{};
  std::array<Operand, 4> in{};
  Op then = Op::stop;  // add, sub or mul: the result with in[2], or if
                       // `reversed` in[2] with the result
  bool reversed = false;
  Operand out{};
  int state = 0;  // of a reduction over rows: which
  Id id = kNone;
};

struct Phase {
  std::vector<Instruction> rows, tiles;
};
struct Pass {
  std::vector<Instruction> image;  // before its rows
  std::vector<Phase> phases;
  std::vector<Instruction> sums;  // those over its rows
};
/// A node whose number or values for each channel are known beforehand.
struct Given {
  Id id;
  Operand operand;
};

struct Program {
  std::vector<Instruction> before;  // numbers and values for each channel
  std::vector<Pass> passes;
  std::vector<Instruction> after;  // the same, from sums over all rows
  std::vector<Given> given;        // parameters, numbers, the number of tokens, the
                                   // numbers of channels
  /// What the backward pass reads of each row, image or channel of each image: a reduction, or what the forward pass
  /// makes of some.
  std::vector<Operand> lasting;
  std::vector<Operand> gradients;  // of the parameters
  int numbers = 0, channels = 0, rows = 0, registers = 0, kept = 0, states = 0;
  bool by_image = false;  // some reduction is over an image's tokens
  std::size_t tile = 0,
              operations = 0;  // values of a tile; instructions for each of them
};

/// How a value is stored: 4 or 8 bytes in the accumulation type; whether memory
/// holds another type.
struct Width {
  std::size_t bytes;
  bool widens;
};

struct Programs {
  Graph graph;
  std::vector<Parameter> parameters;
  std::array<Program, 3> forward, backward;  // f32, f64, bf16
  Programs(const Tree& tree, const Site& site, const std::vector<Parameter>& parameters);
  /// Values that last from the forward to the backward pass of so many images
  /// and rows.
  std::int64_t lasting_size(std::int64_t images, std::int64_t rows) const;
};

inline constexpr std::int64_t kMostBlockRows = 8;

}  // namespace normlab::formula
