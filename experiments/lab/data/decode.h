// Decodes image files.
#pragma once

#include <string>

#include "experiments/lab/data/image.h"

namespace normlab {

// JPEG and PNG are recognised by content, not name. Pixels equal those of Pillow's convert("RGB"), except of 16-bit
// grayscale; see decode_jpeg and decode_png. An InputError begins with `where`: neither format, damaged, or more than
// kMaxImagePixels.

/// Size from the header.
ImageSize image_file_size(FileBytes bytes, const std::string& where);
void decode_image(FileBytes bytes, const std::string& where, Image& out);
/// Decodes at least `box`, which is at `box_in_out` of `out`, with the same pixels as in the whole image. Damage below
/// the box of a JPEG may go unnoticed, but a truncated file is refused as in decode_image. A JPEG is decoded at 1/2,
/// 1/4 or 1/8 of its size if the box then still has min_height rows and min_width columns; box_in_out.shrink reports
/// the factor. 0, 0 disables this.
void decode_image_box(FileBytes bytes, const std::string& where, Box box, std::int64_t min_height,
                      std::int64_t min_width, Image& out, ScaledBox& box_in_out);

std::string decoder_versions();  // "libjpeg-turbo 2.1.5, libpng 1.6.39"

}  // namespace normlab
