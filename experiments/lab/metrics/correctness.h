// Which images of the evaluation slice a run classifies correctly: one bit each, in evaluation order. Used for the
// noise of the test set (bootstrap.h) and for McNemar's test of two runs (proportions.h).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

class Correctness {
 public:
  /// One to kMaxHash printable ASCII characters without spaces.
  static bool is_data_hash(std::string_view text);
  static constexpr std::size_t kMaxHash = 200;

  Correctness() = default;
  /// All images wrong. `data_hash` is the hash of the evaluation data that the trial records. InputError for an invalid
  /// hash (is_data_hash()) or a negative number of images.
  Correctness(std::int64_t images, std::string data_hash);

  std::int64_t images() const { return images_; }
  const std::string& data_hash() const { return data_hash_; }

  /// 0 <= image < images().
  bool operator[](std::int64_t image) const { return (bits_[std::size_t(image / 8)] >> (image % 8) & 1) != 0; }
  void set(std::int64_t image, bool correct);

  /// Number of correct images.
  std::int64_t count() const;

  /// Image i is bit i % 8, lowest first, of byte i / 8; bits after the last image are 0. ceil(images / 8) bytes.
  const std::vector<std::uint8_t>& bits() const { return bits_; }

  bool operator==(const Correctness& other) const = default;

 private:
  std::int64_t images_ = 0;
  std::string data_hash_;
  std::vector<std::uint8_t> bits_;
};

}  // namespace normlab
