#include "experiments/data/decode.h"

#include <string_view>

#include "core/error.h"

namespace normlab {
namespace {

bool is_png(ImageDecoder::Bytes bytes, const std::string& where) {
  if (JpegDecoder::begins(bytes.data(), bytes.size())) return false;
  if (PngDecoder::begins(bytes.data(), bytes.size())) return true;
  if (bytes.empty()) throw InputError(concat(where, ": is empty, not an image"));
  const std::string_view text(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  const char* other = text.starts_with("GIF8")                                               ? " (it is a GIF)"
                      : text.starts_with("BM")                                               ? " (it looks like a BMP)"
                      : text.starts_with("RIFF") && text.substr(0, 16).ends_with("WEBPVP8 ") ? " (it is a WebP)"
                      : text.starts_with("II*") || text.starts_with("MM")                    ? " (it looks like a TIFF)"
                                                                                             : "";
  throw InputError(concat(where, ": is neither a JPEG nor a PNG", other, "; convert it, or take it out"));
}

}  // namespace

ImageSize ImageDecoder::size(Bytes bytes, const std::string& where) {
  return is_png(bytes, where) ? png_.size(bytes.data(), bytes.size(), where)
                              : jpeg_.size(bytes.data(), bytes.size(), where);
}

void ImageDecoder::decode(Bytes bytes, const std::string& where, Image& out) {
  if (is_png(bytes, where))
    png_.decode(bytes.data(), bytes.size(), where, out);
  else
    jpeg_.decode(bytes.data(), bytes.size(), where, out);
}

void ImageDecoder::decode_box(Bytes bytes, const std::string& where, Box box, std::int64_t min_height,
                              std::int64_t min_width, Image& out, ScaledBox& box_in_out) {
  if (!is_png(bytes, where)) {
    jpeg_.decode_box(bytes.data(), bytes.size(), where, box, min_height, min_width, out, box_in_out);
    return;
  }
  png_.decode(bytes.data(), bytes.size(), where, out);
  const ImageSize size{out.height, out.width};
  if (!is_inside(box, size)) throw InputError(concat(where, ": ", box_outside(box, size)));
  box_in_out = box;
}

std::string ImageDecoder::version() { return concat(JpegDecoder::version(), ", ", PngDecoder::version()); }

}  // namespace normlab
