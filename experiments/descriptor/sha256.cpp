#include "experiments/descriptor/sha256.h"

#include <openssl/evp.h>

#include "core/error.h"

namespace normlab {
namespace {

EVP_MD_CTX* evp(void* context) { return static_cast<EVP_MD_CTX*>(context); }

void require(int ok) {
  if (ok != 1) throw EnvironmentError("libcrypto cannot compute SHA-256; is its provider configuration broken?");
}

}  // namespace

Sha256::Sha256() : context_(EVP_MD_CTX_new()) { require(EVP_DigestInit_ex(evp(context_), EVP_sha256(), nullptr)); }

Sha256::~Sha256() { EVP_MD_CTX_free(evp(context_)); }

void Sha256::update(const void* data, std::size_t bytes) { require(EVP_DigestUpdate(evp(context_), data, bytes)); }

std::string Sha256::hex() {
  unsigned char digest[EVP_MAX_MD_SIZE];
  unsigned int length = 0;
  require(EVP_DigestFinal_ex(evp(context_), digest, &length));
  std::string text;
  for (unsigned int i = 0; i < length; ++i) {
    text += "0123456789abcdef"[digest[i] >> 4];
    text += "0123456789abcdef"[digest[i] & 15];
  }
  return text;
}

}  // namespace normlab
