#include "experiments/lab/data/png.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>

#include <png.h>

#include "core/error.h"
#include "experiments/lab/base/files.h"

namespace normlab {

namespace {

/// Like libjpeg's, libpng's error handler must not return: see jpeg.cpp.
struct Session {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf jump{};
  char message[200] = "";
};

[[noreturn]] void stop(png_structp png, png_const_charp text) {
  auto* session = static_cast<Session*>(png_get_error_ptr(png));
  std::strncpy(session->message, text, sizeof(session->message) - 1);
  std::longjmp(session->jump, 1);
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

/// libpng cannot convert palette indices to Pillow's RGB, so these are read as stored.
enum class Stored { rgb, indices };

void heed_no_warning(png_structp, png_const_charp) {}  // they concern ignored parts of the file

void take(png_structp png, png_bytep to, std::size_t count) {
  FileBytes& left = static_cast<Decoder*>(png_get_io_ptr(png))->left;
  if (count > left.size()) png_error(png, "the file ends too early");
  std::memcpy(to, left.data(), count);
  left = left.subspan(count);
}

/// False with decoder.message set, like all functions below.
bool read_header(Decoder& decoder) {
  decoder.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, static_cast<Session*>(&decoder), stop, heed_no_warning);
  if (decoder.png == nullptr) return false;
  if (setjmp(decoder.jump) != 0) return false;
  decoder.info = png_create_info_struct(decoder.png);
  if (decoder.info == nullptr) png_error(decoder.png, "out of memory");
  png_set_read_fn(decoder.png, &decoder, take);
  png_set_check_for_invalid_index(decoder.png, 0);
  png_set_user_limits(decoder.png, static_cast<png_uint_32>(kMaxImagePixels),
                      static_cast<png_uint_32>(kMaxImagePixels));
  png_read_info(decoder.png, decoder.info);
  return true;
}

Stored set_transforms(Decoder& decoder) {
  const int colors = png_get_color_type(decoder.png, decoder.info), bits = png_get_bit_depth(decoder.png, decoder.info);
  const Stored stored = colors == PNG_COLOR_TYPE_PALETTE ? Stored::indices : Stored::rgb;
  if (stored == Stored::indices) png_set_packing(decoder.png);
  if (stored == Stored::rgb) {
    if (colors == PNG_COLOR_TYPE_GRAY && bits < 8) png_set_expand_gray_1_2_4_to_8(decoder.png);
    if (bits == 16) png_set_strip_16(decoder.png);
    if ((colors & PNG_COLOR_MASK_ALPHA) != 0) png_set_strip_alpha(decoder.png);
    if ((colors & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(decoder.png);
  }
  return stored;
}

bool start(Decoder& decoder, Stored& stored, std::size_t& row_bytes) {
  if (setjmp(decoder.jump) != 0) return false;
  stored = set_transforms(decoder);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  row_bytes = png_get_rowbytes(decoder.png, decoder.info);
  return true;
}

/// For a mask: values as stored, a byte each, or two for 16 bits.
bool start_mask(Decoder& decoder, std::size_t& row_bytes) {
  if (setjmp(decoder.jump) != 0) return false;
  png_set_packing(decoder.png);
  png_set_interlace_handling(decoder.png);
  png_read_update_info(decoder.png, decoder.info);
  row_bytes = png_get_rowbytes(decoder.png, decoder.info);
  return true;
}

bool read_pixels(Decoder& decoder) {
  if (setjmp(decoder.jump) != 0) return false;
  png_read_image(decoder.png, decoder.rows.data());
  png_read_end(decoder.png, nullptr);
  return true;
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

bool write(Writer& writer, ImageSize size, int colors, const std::vector<std::uint8_t>& pixels) {
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, static_cast<Session*>(&writer), stop, heed_no_warning);
  if (writer.png == nullptr) return false;
  if (setjmp(writer.jump) != 0) return false;
  writer.info = png_create_info_struct(writer.png);
  if (writer.info == nullptr) png_error(writer.png, "out of memory");
  png_set_write_fn(writer.png, &writer, Writer::give, nullptr);
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(size.width), static_cast<png_uint_32>(size.height), 8,
               colors, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  const std::size_t row = pixels.size() / static_cast<std::size_t>(size.height);
  for (std::size_t y = 0; y < static_cast<std::size_t>(size.height); ++y)
    png_write_row(writer.png, pixels.data() + y * row);
  png_write_end(writer.png, nullptr);
  return true;
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw InputError(concat(where, ": ", what));
}

/// Refuses images that are too large.
void open(Decoder& decoder, const std::string& where) {
  if (!read_header(decoder)) refuse(where, concat("is not a PNG that can be decoded: ", decoder.message));
  const ImageSize size = decoder.size();
  if (size.height * size.width > kMaxImagePixels) refuse(where, too_many_pixels(size));
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
  const ImageSize size = decoder.size();
  Stored stored{};
  std::size_t row_bytes = 0;
  if (!start(decoder, stored, row_bytes)) refuse(where, concat("the PNG is damaged: ", decoder.message));
  out.resize(size.height, size.width);
  if (stored != Stored::rgb) decoder.stored.resize(row_bytes * static_cast<std::size_t>(size.height));
  decoder.rows.resize(static_cast<std::size_t>(size.height));
  for (std::size_t y = 0; y < decoder.rows.size(); ++y)
    decoder.rows[y] = (stored == Stored::rgb ? out.pixels.data() : decoder.stored.data()) + y * row_bytes;
  if (!read_pixels(decoder)) refuse(where, concat("the PNG is damaged: ", decoder.message));
  if (stored == Stored::indices) to_rgb(palette_of(decoder), decoder.stored, out);
}

std::string png_version() { return "libpng " PNG_LIBPNG_VER_STRING; }

void decode_mask_png(FileBytes bytes, const std::string& where, Mask& out) {
  if (!is_png(bytes)) refuse(where, "is not a PNG; a mask is a PNG with a label for each pixel");
  Decoder decoder(bytes);
  open(decoder, where);
  const ImageSize size = decoder.size();
  const int colors = png_get_color_type(decoder.png, decoder.info), bits = png_get_bit_depth(decoder.png, decoder.info);
  if (colors != PNG_COLOR_TYPE_GRAY && colors != PNG_COLOR_TYPE_PALETTE)
    refuse(where, "has colours; a mask is a grayscale PNG, or one with a palette, whose values are labels");
  std::size_t row_bytes = 0;
  if (!start_mask(decoder, row_bytes)) refuse(where, concat("the PNG is damaged: ", decoder.message));
  out.resize(size.height, size.width);
  decoder.stored.resize(row_bytes * static_cast<std::size_t>(size.height));
  decoder.rows.resize(static_cast<std::size_t>(size.height));
  for (std::size_t y = 0; y < decoder.rows.size(); ++y) decoder.rows[y] = decoder.stored.data() + y * row_bytes;
  if (!read_pixels(decoder)) refuse(where, concat("the PNG is damaged: ", decoder.message));
  for (std::size_t i = 0; i < out.labels.size(); ++i) {
    if (bits == 16 && decoder.stored[2 * i] != 0)
      refuse(where, concat("has the value ", 256 * decoder.stored[2 * i] + decoder.stored[2 * i + 1],
                           "; labels are at most 255"));
    out.labels[i] = decoder.stored[bits == 16 ? 2 * i + 1 : i];
  }
}

namespace {

std::vector<std::uint8_t> written(ImageSize size, int colors, const std::vector<std::uint8_t>& pixels) {
  Writer writer;
  if (!write(writer, size, colors, pixels)) throw EnvironmentError(concat("a PNG cannot be written: ", writer.message));
  return std::move(writer.bytes);
}

std::string_view text_of(const std::vector<std::uint8_t>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

}  // namespace

std::vector<std::uint8_t> png_bytes(const Image& image) {
  return written({image.height, image.width}, PNG_COLOR_TYPE_RGB, image.pixels);
}
std::vector<std::uint8_t> png_bytes(const Mask& mask) {
  return written({mask.height, mask.width}, PNG_COLOR_TYPE_GRAY, mask.labels);
}

void write_png(const std::filesystem::path& path, const Image& image) {
  write_file_or_stream(path, text_of(png_bytes(image)));
}
void write_png(const std::filesystem::path& path, const Mask& mask) {
  write_file_or_stream(path, text_of(png_bytes(mask)));
}

}  // namespace normlab
