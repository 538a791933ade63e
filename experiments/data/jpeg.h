// JPEG images: the one file that knows libjpeg(-turbo).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

namespace normlab {

struct JpegSize {
  std::int64_t height = 0, width = 0;
  bool operator==(const JpegSize&) const = default;
};

/// Decodes with libjpeg's defaults (accurate integer DCT, smooth chroma upsampling), which are Pillow's too; grayscale
/// becomes RGB, EXIF orientation is not looked at. Not safe for two threads at once: each has its own.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Size from the header. InputError begins with `where`.
  JpegSize size(const std::uint8_t* data, std::size_t bytes, const std::string& where);
  /// `rgb` has room for `expected`: [height, width, 3]. InputError begins with `where`: another size, CMYK, and
  /// anything that the decoder doubts (a file cut short is only a warning to libjpeg, and would show as gray).
  void decode(const std::uint8_t* data, std::size_t bytes, JpegSize expected, const std::string& where,
              std::uint8_t* rgb);

  static std::string version();  // "libjpeg-turbo 2.1.5"

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace normlab
