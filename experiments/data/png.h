// PNG images: the one file that knows libpng.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/data/image.h"

namespace normlab {

/// Whether the bytes begin as a PNG does.
bool is_png(FileBytes bytes);

/// Size from the header.
ImageSize png_size(FileBytes bytes, const std::string& where);
/// Decodes to what Pillow's convert("RGB") gives: a palette's colours (black beyond its end), grayscale in all three
/// channels, the upper byte of 16 bits (grayscale without alpha: levels above 255 are 255); transparency and gamma are
/// not looked at. InputError begins with `where`: damage, a file cut short, more than kMaxImagePixels.
void decode_png(FileBytes bytes, const std::string& where, Image& out);

std::string png_version();  // "libpng 1.6.39"

/// The image as a PNG file's bytes, 8 bits RGB.
std::vector<std::uint8_t> png_bytes(const Image& image);
/// The same to a file. EnvironmentError where it cannot be written.
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace normlab
