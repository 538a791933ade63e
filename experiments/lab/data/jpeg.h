// JPEG images, by libjpeg(-turbo).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "experiments/lab/data/image.h"

namespace normlab {

bool is_jpeg(FileBytes bytes);

/// Size from the header.
ImageSize jpeg_size(FileBytes bytes, const std::string& where);
/// The quality, 1 to 100, at which libjpeg scales the tables of the standard's Annex K to the quantisation tables of
/// this file; 0 if it does at none. nullopt if the header, which may be followed by nothing, is cut or damaged.
std::optional<int> jpeg_quality(FileBytes bytes);
/// Decodes with libjpeg's defaults (accurate integer DCT, smooth chroma upsampling), as Pillow does, to Pillow's
/// convert("RGB"): grayscale fills all three channels; CMYK and YCCK are inverted as Adobe writes them and
/// multiplied by black; EXIF orientation is ignored. InputError begins with `where`: any file for which libjpeg
/// would invent pixels (it only warns about a truncated file and fills it with gray), and more than kMaxImagePixels,
/// before memory is allocated.
void decode_jpeg(FileBytes bytes, const std::string& where, Image& out);
/// As decode_image_box. InputError if the box is not inside the image.
void decode_jpeg_box(FileBytes bytes, const std::string& where, Box box, std::int64_t min_height,
                     std::int64_t min_width, Image& out, ScaledBox& box_in_out);

std::string jpeg_version();  // "libjpeg-turbo 2.1.5"

/// A baseline JPEG with libjpeg's defaults (accurate integer DCT, chroma at half size); `quality` is 1 to 100.
/// InputError for an image without pixels or with a side above 65,500.
std::vector<std::uint8_t> encode_jpeg(const Image& image, int quality);

}  // namespace normlab
