// Image files as pixels.
#pragma once

#include <string>

#include "experiments/data/image.h"

namespace normlab {

// JPEG and PNG, told apart by their content: a PNG under the name of a JPEG is a PNG. Pixels are those of Pillow's
// convert("RGB"), see decode_jpeg and decode_png. InputError begins with `where`: what is neither, damaged, or larger
// than kMaxImagePixels.

/// Size from the header.
ImageSize image_file_size(FileBytes bytes, const std::string& where);
void decode_image(FileBytes bytes, const std::string& where, Image& out);
/// Decodes at least `box`, which lies at `box_in_out` of `out`; its pixels are those of the whole image there. Damage
/// below the box of a JPEG may stay unseen, one that is cut short is refused as in decode_image. A JPEG is decoded at
/// 1/2, 1/4 or 1/8 of its size where the box then still has min_height rows and min_width columns, as box_in_out.shrink
/// tells. 0, 0: never.
void decode_image_box(FileBytes bytes, const std::string& where, Box box, std::int64_t min_height,
                      std::int64_t min_width, Image& out, ScaledBox& box_in_out);

std::string decoder_versions();  // "libjpeg-turbo 2.1.5, libpng 1.6.39"

}  // namespace normlab
