#include "experiments/lab/base/sha256.h"

#include <array>

namespace normlab {

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  sha256_update(&context_, bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()));
  return *this;
}

std::string Sha256::hex() const {
  sha256_ctx copy = context_;  // finishing ends a digest, so finish a copy
  std::array<std::uint8_t, SHA256_DIGEST_SIZE> digest{};
  sha256_digest(&copy, digest.size(), digest.data());
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const std::uint8_t byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace normlab
