// SHA-256, for trial ids and data hashes. The only user of libnettle.
#pragma once

#include <nettle/sha2.h>

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace normlab {

class Sha256 {
 public:
  Sha256() { sha256_init(&context_); }

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text) { return update(std::as_bytes(std::span(text))); }
  /// 64 lower-case hexadecimal digits for everything given so far; update() may continue.
  std::string hex() const;

 private:
  sha256_ctx context_{};
};

inline std::string sha256_hex(std::string_view text) { return Sha256().update(text).hex(); }

}  // namespace normlab
