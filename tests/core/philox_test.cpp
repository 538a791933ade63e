#include "core/philox.h"

#include <doctest/doctest.h>

using namespace normlab;
using Words = std::array<std::uint32_t, 4>;

TEST_CASE("philox: draws are the known answers of Random123") {
  constexpr std::uint32_t kAll = 0xffffffff;
  static_assert(philox4x32({0, 0, 0, 0}, {0, 0})[0] == 0x6627e8d5);  // it is a constant expression
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox4x32({kAll, kAll, kAll, kAll}, {kAll, kAll}) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox4x32({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}
