// Which images of the evaluation slice a run gets right: one bit each, in evaluation order. Read again for the noise of
// the test set (experiments/statistics/bootstrap.h) and for McNemar's test of two runs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// Name of the file in an attempt's folder.
constexpr const char* kCorrectnessFile = "correct.bits";

class Correctness {
 public:
  Correctness() = default;
  /// All images wrong. `data_hash` is the hash of the evaluation data that the trial records: one to 200 printable
  /// ASCII characters without a space. InputError for another one or for fewer images than 0.
  Correctness(std::int64_t images, std::string data_hash);

  std::int64_t images() const { return images_; }
  const std::string& data_hash() const { return data_hash_; }

  /// 0 <= image < images().
  bool operator[](std::int64_t image) const { return (bits_[std::size_t(image / 8)] >> (image % 8) & 1) != 0; }
  void set(std::int64_t image, bool correct);

  /// Number of images that are right.
  std::int64_t count() const;

  /// Bit i % 8, the lowest first, of byte i / 8 is image i; the bits after the last image are 0. ceil(images / 8)
  /// bytes.
  const std::vector<std::uint8_t>& bits() const { return bits_; }

  bool operator==(const Correctness& other) const = default;

 private:
  friend Correctness parse_correctness(std::string_view text, const std::filesystem::path& path);
  std::int64_t images_ = 0;
  std::string data_hash_;
  std::vector<std::uint8_t> bits_;
};

/// Replaces `path` atomically: the line "normlab correct 1 <images> <data hash>" and a newline, then bits(). The folder
/// has to exist. EnvironmentError where it cannot be written.
void write_correctness(const std::filesystem::path& path, const Correctness& correctness);

/// InputError, with file and byte, for one that is no such file, of a later version, cut short or too long, or with a
/// bit set after the last image. EnvironmentError where it cannot be read.
Correctness read_correctness(const std::filesystem::path& path);
/// The same of the file's bytes.
Correctness parse_correctness(std::string_view text, const std::filesystem::path& path);

}  // namespace normlab
