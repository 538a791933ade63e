// SHA-256, the one place that knows libcrypto. Trial ids and data hashes are made with it.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace normlab {

class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(Sha256&&) noexcept;
  Sha256& operator=(Sha256&&) noexcept;

  Sha256& update(std::span<const std::byte> bytes);
  Sha256& update(std::string_view text);
  /// 64 lower-case hexadecimal digits of everything given so far; more may follow.
  std::string hex() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

inline std::string sha256_hex(std::string_view text) { return Sha256().update(text).hex(); }

}  // namespace normlab
