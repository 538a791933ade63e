#include "experiments/lab/metrics/correctness.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "core/error.h"

namespace normlab {

bool Correctness::is_data_hash(std::string_view text) {
  return !text.empty() && text.size() <= kMaxHash &&
         std::all_of(text.begin(), text.end(), [](char c) { return c > ' ' && c < '\x7f'; });
}

Correctness::Correctness(std::int64_t images, std::string data_hash)
    : images_(images), data_hash_(std::move(data_hash)) {
  if (images < 0) throw InputError(concat("correctness: ", images, " images; expected 0 or more"));
  if (!is_data_hash(data_hash_))
    throw InputError(concat("correctness: the data hash has ", data_hash_.size(),
                            " bytes or a space in it; expected 1 to ", kMaxHash, " printable ASCII characters"));
  bits_.resize(std::size_t(images / 8 + (images % 8 != 0)));
}

void Correctness::set(std::int64_t image, bool correct) {
  const auto mask = std::uint8_t(1U << (image % 8));
  std::uint8_t& byte = bits_[std::size_t(image / 8)];
  byte = std::uint8_t(correct ? byte | mask : byte & ~mask);
}

std::int64_t Correctness::count() const {
  std::int64_t sum = 0;
  for (const std::uint8_t byte : bits_) sum += std::popcount(byte);
  return sum;
}

}  // namespace normlab
