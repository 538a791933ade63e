// JPEG images: the one file that knows libjpeg(-turbo).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "experiments/data/image.h"

namespace normlab {

using JpegSize = ImageSize;

/// Decodes with libjpeg's defaults (accurate integer DCT, smooth chroma upsampling), which are Pillow's too, to what
/// Pillow's convert("RGB") gives: grayscale in all three channels, CMYK and YCCK inverted as Adobe writes them and
/// multiplied by black; EXIF orientation is not looked at. Not safe for two threads at once: each has its own.
/// InputError begins with `where`: anything of which libjpeg would make up pixels (a file cut short is only a warning
/// to it, and would show as gray), and more than kMaxImagePixels, before any memory is taken for them.
class JpegDecoder {
 public:
  JpegDecoder();
  ~JpegDecoder();
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// Whether the bytes begin as a JPEG does.
  static bool begins(const std::uint8_t* data, std::size_t bytes);

  /// Size from the header.
  ImageSize size(const std::uint8_t* data, std::size_t bytes, const std::string& where);
  void decode(const std::uint8_t* data, std::size_t bytes, const std::string& where, Image& out);
  /// `rgb` has room for `expected`: [height, width, 3]; another size is an InputError.
  void decode(const std::uint8_t* data, std::size_t bytes, ImageSize expected, const std::string& where,
              std::uint8_t* rgb);
  /// As ImageDecoder::decode_box. A box that is not inside the image is an InputError.
  void decode_box(const std::uint8_t* data, std::size_t bytes, const std::string& where, Box box,
                  std::int64_t min_height, std::int64_t min_width, Image& out, ScaledBox& box_in_out);

  static std::string version();  // "libjpeg-turbo 2.1.5"

 private:
  struct State;
  void open(const std::uint8_t* data, std::size_t bytes, const std::string& where);
  [[noreturn]] void refuse(const std::string& where, const std::string& what);
  std::unique_ptr<State> state_;
};

/// The image as a baseline JPEG file's bytes, with libjpeg's defaults (accurate integer DCT, chroma at half size);
/// `quality` from 1 to 100. InputError where the image has no pixel or a side above 65,500.
std::vector<std::uint8_t> encode_jpeg(const Image& image, int quality);

}  // namespace normlab
