// SHA-256, over libcrypto.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace normlab {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(const void* data, std::size_t bytes);
  /// The digest as 64 lower-case hexadecimal digits. Ends the hash: call it once.
  std::string hex();

 private:
  void* context_;
};

/// The digest of a text.
inline std::string sha256_hex(std::string_view text) {
  Sha256 hash;
  hash.update(text.data(), text.size());
  return hash.hex();
}

}  // namespace normlab
