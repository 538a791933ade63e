#include "nn/model/rotary.h"

#include <cmath>
#include <numbers>

#include "nn/model/resize_positions.h"

namespace normlab {
namespace {

/// Tokens that do not turn: those before the patches, or before the registers.
std::int64_t first_turned(const ViTConfig& c) { return c.rotary.register_base > 0 ? c.class_tokens() : c.prefix(); }

/// Coordinates along one side of a grid.
struct Axis {
  double first, step;
  double at(std::int64_t i) const { return first + step * double(i); }
};

void add_grid(const PatchGrid& grid, const Axis& down, const Axis& across, std::int64_t head_dim, double base,
              std::vector<double>& table) {
  for (std::int64_t y = 0; y < grid.height; ++y)
    for (std::int64_t x = 0; x < grid.width; ++x)
      for (const bool sine : {false, true})
        for (const double coordinate : {down.at(y), across.at(x)})
          for (std::int64_t k = 0; k < head_dim / 4; ++k) {
            const double angle = coordinate * std::pow(base, -4.0 * double(k) / double(head_dim));
            table.push_back(sine ? std::sin(angle) : std::cos(angle));
          }
}

}  // namespace

std::vector<double> rotary_table(const ViTConfig& c) {
  const RotaryConfig& rotary = c.rotary;
  const PatchGrid grid = patch_grid(c), reference = reference_grid(c);
  const std::int64_t head_dim = c.embed_dim / c.num_heads;
  std::vector<double> table;
  if (rotary.register_base > 0) {
    const auto side = std::int64_t(std::llround(std::sqrt(double(c.registers))));
    add_grid({side, side}, {0, 1}, {0, 1}, head_dim, rotary.register_base, table);
  }
  const auto axis = [&](std::int64_t side, std::int64_t of_reference) -> Axis {
    if (rotary.dialect == RotaryDialect::eva02) return {0, double(of_reference) / double(side)};
    const double step = 4 * std::numbers::pi / double(side);  // centres of patches, from -1 to 1, times 2 pi
    return {step / 2 - 2 * std::numbers::pi, step};
  };
  add_grid(grid, axis(grid.height, reference.height), axis(grid.width, reference.width), head_dim, rotary.base, table);
  return table;
}

void simplify_rotary(ViTConfig& c) {
  const auto is_side = [&](int axis) {
    const std::int64_t side = c.rotary.grid[std::size_t(axis)];
    return side > 0 && side <= limits::kSide && side * c.patch_size == c.image_size[std::size_t(axis)];
  };
  if (is_side(0) && is_side(1)) c.rotary.grid = {};
}

Rotary::Rotary(ParameterSet& parameters, const ViTConfig& c) {
  if (!c.rotary.given()) return;
  const std::int64_t head_dim = c.embed_dim / c.num_heads;
  const bool halves = c.rotary.dialect == RotaryDialect::dinov3;
  rotation_ = {.turned = c.embed_dim,
               .head_dim = head_dim,
               .first = first_turned(c),
               .pairs = halves ? RotaryPairs::halves : RotaryPairs::neighbours};
  table_ = parameters.add_constant({c.tokens() - rotation_.first, head_dim}, [c] { return rotary_table(c); });
}

Var Rotary::operator()(const Var& x, std::int64_t count, const Shard& shard) const {
  if (table_ < 0) return x;
  Rotation turns = rotation_;
  turns.turned *= count;
  return rotate(x, shard.step.parameters.constant(table_), turns);
}

}  // namespace normlab
