#include "experiments/descriptor/sha256.h"

#include <openssl/evp.h>

#include <array>

#include "core/error.h"

namespace normlab {
namespace {

void require(int ok) {
  if (ok != 1) throw EnvironmentError("libcrypto cannot compute SHA-256; is this a build without it?");
}

struct FreeContext {
  void operator()(EVP_MD_CTX* context) const { EVP_MD_CTX_free(context); }
};
using Context = std::unique_ptr<EVP_MD_CTX, FreeContext>;

Context make_context() {
  Context context(EVP_MD_CTX_new());
  require(context ? 1 : 0);
  return context;
}

}  // namespace

struct Sha256::State {
  Context context = make_context();
};

Sha256::Sha256() : state_(std::make_unique<State>()) {
  require(EVP_DigestInit_ex(state_->context.get(), EVP_sha256(), nullptr));
}
Sha256::~Sha256() = default;
Sha256::Sha256(Sha256&&) noexcept = default;
Sha256& Sha256::operator=(Sha256&&) noexcept = default;

Sha256& Sha256::update(std::span<const std::byte> bytes) {
  require(EVP_DigestUpdate(state_->context.get(), bytes.data(), bytes.size()));
  return *this;
}

Sha256& Sha256::update(std::string_view text) { return update(std::as_bytes(std::span(text))); }

std::string Sha256::hex() const {
  const Context copy = make_context();  // finishing a digest ends it, so a copy is finished
  require(EVP_MD_CTX_copy_ex(copy.get(), state_->context.get()));
  std::array<unsigned char, 32> digest{};
  require(EVP_DigestFinal_ex(copy.get(), digest.data(), nullptr));
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  for (const unsigned char byte : digest) {
    text += kDigits[byte >> 4];
    text += kDigits[byte & 15];
  }
  return text;
}

}  // namespace normlab
