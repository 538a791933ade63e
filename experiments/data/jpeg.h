// JPEG images: the one file that knows libjpeg(-turbo).
#pragma once

#include <string>
#include <vector>

#include "experiments/data/image.h"

namespace normlab {

/// Whether the bytes begin as a JPEG does.
bool is_jpeg(FileBytes bytes);

/// Size from the header.
ImageSize jpeg_size(FileBytes bytes, const std::string& where);
/// Decodes with libjpeg's defaults (accurate integer DCT, smooth chroma upsampling), which are Pillow's too, to what
/// Pillow's convert("RGB") gives: grayscale in all three channels, CMYK and YCCK inverted as Adobe writes them and
/// multiplied by black; EXIF orientation is not looked at. InputError begins with `where`: anything of which libjpeg
/// would make up pixels (a file cut short is only a warning to it, and would show as gray), and more than
/// kMaxImagePixels, before any memory is taken for them.
void decode_jpeg(FileBytes bytes, const std::string& where, Image& out);
/// As decode_image_box. A box that is not inside the image is an InputError.
void decode_jpeg_box(FileBytes bytes, const std::string& where, Box box, std::int64_t min_height,
                     std::int64_t min_width, Image& out, ScaledBox& box_in_out);

std::string jpeg_version();  // "libjpeg-turbo 2.1.5"

/// The image as a baseline JPEG file's bytes, with libjpeg's defaults (accurate integer DCT, chroma at half size);
/// `quality` from 1 to 100. InputError where the image has no pixel or a side above 65,500.
std::vector<std::uint8_t> encode_jpeg(const Image& image, int quality);

}  // namespace normlab
