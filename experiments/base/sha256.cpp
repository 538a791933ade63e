#include "experiments/base/sha256.h"

#include <nettle/sha2.h>

#include <array>

namespace normlab {

struct Sha256::State {
  State() { sha256_init(&context); }
  sha256_ctx context{};
};

Sha256::Sha256() : state_(std::make_unique<State>()) {}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  sha256_update(&state_->context, bytes.size(), reinterpret_cast<const std::uint8_t*>(bytes.data()));
  return *this;
}

Sha256& Sha256::update(std::string_view text) { return update(std::as_bytes(std::span(text))); }

std::string Sha256::hex() const {
  sha256_ctx copy = state_->context;  // finishing a digest ends it, so a copy is finished
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
