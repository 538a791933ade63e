// PNGs of any depth and kind of colour.
#pragma once

#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include <png.h>

namespace normlab::test {

/// `colors` is PNG_COLOR_TYPE_GRAY, RGB or GRAY_ALPHA, `depth` 8 or 16. Value i of a row is level + step * i.
inline std::string make_deep_png(unsigned height, unsigned width, int depth, int colors, unsigned level,
                                 unsigned step = 0) {
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  std::string out;
  png_set_write_fn(
      png, &out,
      [](png_structp from, png_bytep bytes, std::size_t count) {
        static_cast<std::string*>(png_get_io_ptr(from))->append(reinterpret_cast<const char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(png, info, width, height, depth, colors, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  std::vector<std::uint8_t> row;
  for (unsigned i = 0; i < width * unsigned{png_get_channels(png, info)}; ++i) {
    const unsigned value = level + step * i;
    if (depth == 16) row.push_back(static_cast<std::uint8_t>(value >> 8));
    row.push_back(static_cast<std::uint8_t>(value));
  }
  for (unsigned y = 0; y < height; ++y) png_write_row(png, row.data());
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return out;
}

}  // namespace normlab::test
