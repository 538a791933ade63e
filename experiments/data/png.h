// PNG images. The only user of libpng.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/data/image.h"

namespace normlab {

/// Whether the bytes begin like a PNG.
bool is_png(FileBytes bytes);

/// Size from the header.
ImageSize png_size(FileBytes bytes, const std::string& where);
/// Decodes to the result of Pillow's convert("RGB"): palette colours (black beyond the palette's end), grayscale in all
/// three channels, the upper byte of 16 bits (in grayscale without alpha, levels above 255 become 255). Ignores
/// transparency and gamma. InputError begins with `where`: damage, a truncated file, more than kMaxImagePixels.
void decode_png(FileBytes bytes, const std::string& where, Image& out);

std::string png_version();  // "libpng 1.6.39"

/// The image as an 8-bit RGB PNG.
std::vector<std::uint8_t> png_bytes(const Image& image);
/// The same to a file. EnvironmentError if it cannot be written.
void write_png(const std::filesystem::path& path, const Image& image);

}  // namespace normlab
