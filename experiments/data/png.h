// PNG images: the one file that knows libpng.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "experiments/data/image.h"

namespace normlab {

/// Decodes to what Pillow's convert("RGB") gives: a palette's colours (black beyond its end), grayscale in all three
/// channels, the upper byte of 16 bits (grayscale without alpha: levels above 255 are 255); transparency and gamma are
/// not looked at. Not safe for two threads at once. InputError begins with `where`: damage, a file cut short, more than
/// kMaxImagePixels.
class PngDecoder {
 public:
  PngDecoder();
  ~PngDecoder();
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  /// Whether the bytes begin as a PNG does.
  static bool begins(const std::uint8_t* data, std::size_t bytes);

  /// Size from the header.
  ImageSize size(const std::uint8_t* data, std::size_t bytes, const std::string& where);
  void decode(const std::uint8_t* data, std::size_t bytes, const std::string& where, Image& out);

  static std::string version();  // "libpng 1.6.39"

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// The image as a PNG file's bytes, 8 bits RGB.
std::vector<std::uint8_t> png_bytes(const Image& image);
/// The same to a file. EnvironmentError where it cannot be written.
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace normlab
