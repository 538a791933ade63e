// Rotary positions of a ViT. The field names are the JSON keys of a descriptor's "model.rotary".
#pragma once

#include <array>
#include <cstdint>

#include "core/field.h"
#include "nn/model/limits.h"

namespace normlab {

/// dinov3: coordinates of patch centres from -1 to 1 along each side, times 2 pi; channel c turns with c + d/2 (DINOv3,
/// arXiv:2508.10104, layers/rope_position_encoding.py). eva02: numbers of patches in a reference grid; neighbouring
/// channels turn together (EVA-02, arXiv:2303.11331, asuka/rope.py).
enum class RotaryDialect : std::uint8_t { none, dinov3, eva02 };
constexpr auto stated_words(RotaryDialect) { return words<RotaryDialect>("none", "dinov3", "eva02"); }

struct RotaryConfig {
  RotaryDialect dialect = RotaryDialect::none;
  double base = 0;
  std::array<std::int64_t, 2> grid{0, 0};  // 0: the network's own
  double register_base = 0;                // 0: registers are not turned
  RotaryConfig() = default;
  constexpr RotaryConfig(RotaryDialect of)
      : dialect(of),
        base(of == RotaryDialect::none     ? 0
             : of == RotaryDialect::dinov3 ? 100
                                           : 10000) {}
  bool given() const { return dialect != RotaryDialect::none; }
  bool operator==(const RotaryConfig&) const = default;
};
inline RotaryConfig defaults_beside(const RotaryConfig& rotary) { return rotary.dialect; }
template <std::same_as<RotaryConfig> T>
constexpr auto rows_of(const T*) {
  constexpr When<T> kGiven{[](const T& r) { return r.given(); }, "dialect none has no rotary positions"};
  constexpr When<T> kInGrid{[](const T& r) { return r.dialect == RotaryDialect::eva02; },
                            "only eva02 counts patches of a reference grid; dinov3's coordinates go from -1 to 1"};
  return Fields{
      field("dialect", &T::dialect,
            "dinov3: coordinates from -1 to 1, halves of a head turn together; eva02: patches of a reference grid, "
            "neighbouring channels turn together")
          .needed("give the \"dialect\" whose settings the other keys change, such as \"dinov3\""),
      field(
          "base", &T::base,
          "pair k of a head of d channels turns with frequency base^(-4k/d); if omitted 100 for dinov3, 10000 for eva02",
          kPositive)
          .when(kGiven),
      field("grid", &T::grid,
            "reference grid in patches per side, or [height, width]: that of the first training; 0: the network's own",
            limits::sizes(limits::kSide, 0))
          .when(kInGrid),
      field("register_base", &T::register_base,
            "turns the registers, too, as a square grid of their own with this base (ViT-5: 100); 0: does not",
            kNotNegative)
          .when(kInGrid)};
}

}  // namespace normlab
