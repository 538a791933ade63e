// PNG images, by libpng.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "experiments/lab/data/mask.h"

namespace normlab {

bool is_png(FileBytes bytes);
/// Whether a PNG is grayscale of 16 bits without alpha, by its first kPngHead bytes.
inline constexpr std::size_t kPngHead = 26;
bool is_gray16_png(FileBytes bytes);

/// Size from the header.
ImageSize png_size(FileBytes bytes, const std::string& where);
/// Decodes to Pillow's convert("RGB"): palette colours (black beyond the palette's end), grayscale in all three
/// channels, the upper byte of 16 bits (of grayscale without alpha too, where Pillow makes all levels above 255 equal).
/// Ignores transparency and gamma. InputError begins with `where`: damage, a truncated file, more than kMaxImagePixels.
void decode_png(FileBytes bytes, const std::string& where, Image& out);

/// The values as stored, 0 to 255, of a grayscale PNG, or the indices of a palette. InputError begins with `where`: as
/// above, or colours, or a value above 255.
void decode_mask_png(FileBytes bytes, const std::string& where, Mask& out);

std::string png_version();  // "libpng 1.6.39"

/// 8-bit RGB, or 8-bit grayscale.
std::vector<std::uint8_t> png_bytes(const Image& image);
std::vector<std::uint8_t> png_bytes(const Mask& mask);
/// write_file_or_stream() (experiments/lab/base/files.h).
void write_png(const std::filesystem::path& path, const Image& image);
void write_png(const std::filesystem::path& path, const Mask& mask);

}  // namespace normlab
