// SHA-256 (FIPS 180-4). Trial ids and data hashes are made with it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace normlab {

class Sha256 {
 public:
  /// The CPU's instructions for it where it has them; `portable`: without, which is slower and gives the same.
  explicit Sha256(bool portable = false);

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text);
  /// 64 lower-case hexadecimal digits of everything given so far; more may follow.
  std::string hex() const;

 private:
  static constexpr std::size_t kBlock = 64;  // bytes
  bool portable_;
  std::array<std::uint32_t, 8> state_;
  std::array<std::byte, kBlock> begun_{};  // a block that is not full yet
  std::uint64_t bytes_ = 0;                // given so far
};

inline std::string sha256_hex(std::string_view text) { return Sha256().update(text).hex(); }

}  // namespace normlab
