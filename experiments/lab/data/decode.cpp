#include "experiments/lab/data/decode.h"

#include <string_view>

#include "core/error.h"
#include "experiments/lab/data/jpeg.h"
#include "experiments/lab/data/png.h"

namespace normlab {
namespace {

bool holds_png(FileBytes bytes, const std::string& where) {
  if (is_jpeg(bytes)) return false;
  if (is_png(bytes)) return true;
  if (bytes.empty()) throw InputError(concat(where, ": is empty, not an image"));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const char* other = text.starts_with("GIF8")                                               ? " (it is a GIF)"
                      : text.starts_with("BM")                                               ? " (it looks like a BMP)"
                      : text.starts_with("RIFF") && text.substr(0, 16).ends_with("WEBPVP8 ") ? " (it is a WebP)"
                      : text.starts_with("II*") || text.starts_with("MM")                    ? " (it looks like a TIFF)"
                                                                                             : "";
  throw InputError(concat(where, ": is neither a JPEG nor a PNG", other, "; convert it or remove it"));
}

}  // namespace

ImageSize image_file_size(FileBytes bytes, const std::string& where) {
  return holds_png(bytes, where) ? png_size(bytes, where) : jpeg_size(bytes, where);
}

void decode_image(FileBytes bytes, const std::string& where, Image& out) {
  return holds_png(bytes, where) ? decode_png(bytes, where, out) : decode_jpeg(bytes, where, out);
}

void decode_image_box(FileBytes bytes, const std::string& where, Box box, std::int64_t min_height,
                      std::int64_t min_width, Image& out, ScaledBox& box_in_out) {
  if (!holds_png(bytes, where)) return decode_jpeg_box(bytes, where, box, min_height, min_width, out, box_in_out);
  decode_png(bytes, where, out);
  const ImageSize size{out.height, out.width};
  if (!is_inside(box, size)) throw InputError(concat(where, ": ", box_outside(box, size)));
  box_in_out = box;
}

std::string decoder_versions() { return concat(jpeg_version(), ", ", png_version()); }

}  // namespace normlab
