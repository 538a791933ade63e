#include "experiments/lab/base/sha256.h"

#include <fmt/format.h>

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
  return fmt::format("{:02x}", fmt::join(digest, ""));
}

}  // namespace normlab
