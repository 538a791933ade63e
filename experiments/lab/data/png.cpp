#include "experiments/lab/data/png.h"

#include <algorithm>
#include <array>
#include <cstring>

#include <png.h>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/data/call_guard.h"

namespace normlab {

namespace {

struct Session : CallGuard {
  png_structp png = nullptr;
  png_infop info = nullptr;
};

[[noreturn]] void stop(png_structp png, png_const_charp text) {
  auto* guard = static_cast<CallGuard*>(png_get_error_ptr(png));
  std::strncpy(guard->message, text, sizeof(guard->message) - 1);
  std::longjmp(guard->jump, 1);
}

struct Decoder : Session {
  FileBytes left;                    // not yet read by libpng
  std::vector<std::uint8_t> stored;  // palette indices, or the values of a mask
  std::vector<png_bytep> rows;

  explicit Decoder(FileBytes bytes) : left(bytes) {}
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { png_destroy_read_struct(&png, &info, nullptr); }
  ImageSize size() const { return {png_get_image_height(png, info), png_get_image_width(png, info)}; }
};

void heed_no_warning(png_structp, png_const_charp) {}  // they concern ignored parts of the file

void take(png_structp png, png_bytep to, std::size_t count) {
  FileBytes& left = static_cast<Decoder*>(png_get_io_ptr(png))->left;
  if (count > left.size()) png_error(png, "the file ends too early");
  std::memcpy(to, left.data(), count);
  left = left.subspan(count);
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw InputError(concat(where, ": ", what));
}

/// Reads the header. Refuses images that are too large.
void open(Decoder& decoder, const std::string& where) {
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, static_cast<CallGuard*>(&decoder), stop, heed_no_warning);
  const bool read = decoder.png != nullptr && decoder.run([&] {
    decoder.info = png_create_info_struct(decoder.png);
    if (decoder.info == nullptr) png_error(decoder.png, "out of memory");
    png_set_read_fn(decoder.png, &decoder, take);
    png_set_check_for_invalid_index(decoder.png, 0);
    png_set_user_limits(decoder.png, static_cast<png_uint_32>(kMaxImagePixels),
                        static_cast<png_uint_32>(kMaxImagePixels));
    png_read_info(decoder.png, decoder.info);
  });
  if (!read) refuse(where, concat("is not a PNG that can be decoded: ", decoder.message));
  const ImageSize size = decoder.size();
  if (size.height * size.width > kMaxImagePixels) refuse(where, too_many_pixels(size));
}

/// Reads all rows to `to`, or to decoder.stored if that is null.
template <class Transforms>
void read_rows(Decoder& decoder, const std::string& where, std::uint8_t* to, Transforms&& set_transforms) {
  std::size_t row_bytes = 0;
  const auto decode = [&](auto&& calls) {
    if (!decoder.run(calls)) refuse(where, concat("the PNG is damaged: ", decoder.message));
  };
  decode([&] {
    set_transforms();
    png_set_interlace_handling(decoder.png);
    png_read_update_info(decoder.png, decoder.info);
    row_bytes = png_get_rowbytes(decoder.png, decoder.info);
  });
  decoder.rows.resize(static_cast<std::size_t>(decoder.size().height));
  if (to == nullptr) decoder.stored.resize(row_bytes * decoder.rows.size());
  for (std::size_t y = 0; y < decoder.rows.size(); ++y)
    decoder.rows[y] = (to == nullptr ? decoder.stored.data() : to) + y * row_bytes;
  decode([&] {
    png_read_image(decoder.png, decoder.rows.data());
    png_read_end(decoder.png, nullptr);
  });
}

/// Values as stored, palette indices among them: a byte each, or two for 16 bits.
void read_stored(Decoder& decoder, const std::string& where) {
  read_rows(decoder, where, nullptr, [&] { png_set_packing(decoder.png); });
}

using Palette = std::array<std::array<std::uint8_t, 3>, 256>;

Palette palette_of(Decoder& decoder) {
  Palette palette{};
  png_colorp colors = nullptr;
  int count = 0;
  if (png_get_PLTE(decoder.png, decoder.info, &colors, &count) == 0) return palette;
  for (int i = 0; i < std::min(count, 256); ++i)
    palette[static_cast<std::size_t>(i)] = {colors[i].red, colors[i].green, colors[i].blue};
  return palette;
}

void to_rgb(const Palette& palette, const std::vector<std::uint8_t>& indices, Image& out) {
  std::uint8_t* rgb = out.pixels.data();
  for (const std::uint8_t index : indices) rgb = std::copy(palette[index].begin(), palette[index].end(), rgb);
}

/// libpng appends to `bytes`.
struct Writer : Session {
  std::vector<std::uint8_t> bytes;

  ~Writer() { png_destroy_write_struct(&png, &info); }
  static void give(png_structp png, png_bytep from, std::size_t count) {
    auto* writer = static_cast<Writer*>(png_get_io_ptr(png));
    writer->bytes.insert(writer->bytes.end(), from, from + count);
  }
};

std::vector<std::uint8_t> written(ImageSize size, int colors, const std::vector<std::uint8_t>& pixels) {
  Writer writer;
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, static_cast<CallGuard*>(&writer), stop, heed_no_warning);
  const bool done = writer.png != nullptr && writer.run([&] {
    writer.info = png_create_info_struct(writer.png);
    if (writer.info == nullptr) png_error(writer.png, "out of memory");
    png_set_write_fn(writer.png, &writer, Writer::give, nullptr);
    png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(size.width), static_cast<png_uint_32>(size.height),
                 8, colors, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_write_info(writer.png, writer.info);
    const std::size_t row = pixels.size() / static_cast<std::size_t>(size.height);
    for (std::size_t y = 0; y < static_cast<std::size_t>(size.height); ++y)
      png_write_row(writer.png, pixels.data() + y * row);
    png_write_end(writer.png, nullptr);
  });
  if (!done) throw EnvironmentError(concat("a PNG cannot be written: ", writer.message));
  return std::move(writer.bytes);
}

void write(const std::filesystem::path& path, const std::vector<std::uint8_t>& bytes) {
  write_file_or_stream(path, {reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

bool is_png(FileBytes bytes) { return bytes.size() >= 8 && png_sig_cmp(bytes.data(), 0, 8) == 0; }

bool is_gray16_png(FileBytes bytes) {
  constexpr std::size_t kDepth = 24, kColors = 25;  // of IHDR, the first chunk
  return is_png(bytes) && bytes.size() >= kPngHead && bytes[kDepth] == 16 && bytes[kColors] == PNG_COLOR_TYPE_GRAY;
}

ImageSize png_size(FileBytes bytes, const std::string& where) {
  Decoder decoder(bytes);
  open(decoder, where);
  return decoder.size();
}

void decode_png(FileBytes bytes, const std::string& where, Image& out) {
  Decoder decoder(bytes);
  open(decoder, where);
  out.resize(decoder.size().height, decoder.size().width);
  const int colors = png_get_color_type(decoder.png, decoder.info), bits = png_get_bit_depth(decoder.png, decoder.info);
  if (colors == PNG_COLOR_TYPE_PALETTE) {  // libpng cannot convert indices to Pillow's RGB
    read_stored(decoder, where);
    return to_rgb(palette_of(decoder), decoder.stored, out);
  }
  read_rows(decoder, where, out.pixels.data(), [&] {
    if (colors == PNG_COLOR_TYPE_GRAY && bits < 8) png_set_expand_gray_1_2_4_to_8(decoder.png);
    if (bits == 16) png_set_strip_16(decoder.png);
    if ((colors & PNG_COLOR_MASK_ALPHA) != 0) png_set_strip_alpha(decoder.png);
    if ((colors & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(decoder.png);
  });
}

std::string png_version() { return "libpng " PNG_LIBPNG_VER_STRING; }

void decode_mask_png(FileBytes bytes, const std::string& where, Mask& out) {
  if (!is_png(bytes)) refuse(where, "is not a PNG; a mask is a PNG with a label for each pixel");
  Decoder decoder(bytes);
  open(decoder, where);
  const int colors = png_get_color_type(decoder.png, decoder.info), bits = png_get_bit_depth(decoder.png, decoder.info);
  if (colors != PNG_COLOR_TYPE_GRAY && colors != PNG_COLOR_TYPE_PALETTE)
    refuse(where, "has colours; a mask is a grayscale PNG, or one with a palette, whose values are labels");
  read_stored(decoder, where);
  out.resize(decoder.size().height, decoder.size().width);
  for (std::size_t i = 0; i < out.labels.size(); ++i) {
    if (bits == 16 && decoder.stored[2 * i] != 0)
      refuse(where, concat("has the value ", 256 * decoder.stored[2 * i] + decoder.stored[2 * i + 1],
                           "; labels are at most 255"));
    out.labels[i] = decoder.stored[bits == 16 ? 2 * i + 1 : i];
  }
}

std::vector<std::uint8_t> png_bytes(const Image& image) {
  return written({image.height, image.width}, PNG_COLOR_TYPE_RGB, image.pixels);
}
std::vector<std::uint8_t> png_bytes(const Mask& mask) {
  return written({mask.height, mask.width}, PNG_COLOR_TYPE_GRAY, mask.labels);
}

void write_png(const std::filesystem::path& path, const Image& image) { write(path, png_bytes(image)); }
void write_png(const std::filesystem::path& path, const Mask& mask) { write(path, png_bytes(mask)); }

}  // namespace normlab
