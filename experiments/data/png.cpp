#include "experiments/data/png.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <cstring>
#include <fstream>

#include <png.h>

#include "core/error.h"

namespace normlab {

// libpng, too, reports an error by a call that must not return: see jpeg.cpp.
struct PngDecoder::State {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf jump{};
  char message[200] = "";
  const std::uint8_t* data = nullptr;
  std::size_t bytes = 0;
  std::vector<std::uint8_t> stored;  // palette indices or 16-bit levels
  std::vector<png_bytep> rows;

  ~State() { close(); }
  void close() { png_destroy_read_struct(&png, &info, nullptr); }
};

namespace {

/// Palette indices and 16-bit grayscale, which libpng cannot bring to Pillow's RGB, are taken as they are stored.
enum class Stored { rgb, indices, gray16 };

[[noreturn]] void keep_message(std::jmp_buf& jump, char* message, std::size_t room, png_const_charp text) {
  std::strncpy(message, text, room - 1);
  std::longjmp(jump, 1);
}

template <class State>
[[noreturn]] void stop(png_structp png, png_const_charp text) {
  auto* state = static_cast<State*>(png_get_error_ptr(png));
  keep_message(state->jump, state->message, sizeof(state->message), text);
}

void heed_no_warning(png_structp, png_const_charp) {}  // they are about what is not looked at

template <class State>
void take(png_structp png, png_bytep to, std::size_t count) {
  auto* state = static_cast<State*>(png_get_io_ptr(png));
  if (count > state->bytes) png_error(png, "the file ends too early");
  std::memcpy(to, state->data, count);
  state->data += count;
  state->bytes -= count;
}

/// False with state.message set, as all below.
template <class State>
bool read_header(State& state) {
  state.png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &state, stop<State>, heed_no_warning);
  if (state.png == nullptr) return false;
  if (setjmp(state.jump) != 0) return false;
  state.info = png_create_info_struct(state.png);
  if (state.info == nullptr) png_error(state.png, "out of memory");
  png_set_read_fn(state.png, &state, take<State>);
  png_set_check_for_invalid_index(state.png, 0);
  png_set_user_limits(state.png, static_cast<png_uint_32>(kMaxImagePixels), static_cast<png_uint_32>(kMaxImagePixels));
  png_read_info(state.png, state.info);
  return true;
}

template <class State>
Stored set_transforms(State& state) {
  const int colors = png_get_color_type(state.png, state.info), bits = png_get_bit_depth(state.png, state.info);
  const Stored stored = colors == PNG_COLOR_TYPE_PALETTE              ? Stored::indices
                        : colors == PNG_COLOR_TYPE_GRAY && bits == 16 ? Stored::gray16
                                                                      : Stored::rgb;
  if (stored == Stored::indices) png_set_packing(state.png);
  if (stored == Stored::rgb) {
    if (colors == PNG_COLOR_TYPE_GRAY && bits < 8) png_set_expand_gray_1_2_4_to_8(state.png);
    if (bits == 16) png_set_strip_16(state.png);
    if ((colors & PNG_COLOR_MASK_ALPHA) != 0) png_set_strip_alpha(state.png);
    if ((colors & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(state.png);
  }
  return stored;
}

template <class State>
bool start(State& state, Stored& stored, std::size_t& row_bytes) {
  if (setjmp(state.jump) != 0) return false;
  stored = set_transforms(state);
  png_set_interlace_handling(state.png);
  png_read_update_info(state.png, state.info);
  row_bytes = png_get_rowbytes(state.png, state.info);
  return true;
}

template <class State>
bool read_pixels(State& state) {
  if (setjmp(state.jump) != 0) return false;
  png_read_image(state.png, state.rows.data());
  png_read_end(state.png, nullptr);
  return true;
}

using Palette = std::array<std::array<std::uint8_t, 3>, 256>;

template <class State>
Palette palette_of(State& state) {
  Palette palette{};
  png_colorp colors = nullptr;
  int count = 0;
  if (png_get_PLTE(state.png, state.info, &colors, &count) == 0) return palette;
  for (int i = 0; i < std::min(count, 256); ++i)
    palette[static_cast<std::size_t>(i)] = {colors[i].red, colors[i].green, colors[i].blue};
  return palette;
}

void to_rgb(const Palette& palette, const std::vector<std::uint8_t>& indices, Image& out) {
  std::uint8_t* rgb = out.pixels.data();
  for (const std::uint8_t index : indices) rgb = std::copy(palette[index].begin(), palette[index].end(), rgb);
}

void gray16_to_rgb(const std::vector<std::uint8_t>& levels, Image& out) {
  for (std::size_t i = 0; i < out.pixels.size(); ++i) {
    const std::size_t at = i / 3 * 2;
    out.pixels[i] = levels[at] == 0 ? levels[at + 1] : 255;
  }
}

/// Everything that writing takes; libpng hands its bytes to `bytes`.
struct Writer {
  png_structp png = nullptr;
  png_infop info = nullptr;
  std::jmp_buf jump{};
  char message[200] = "";
  std::vector<std::uint8_t> bytes;

  ~Writer() { png_destroy_write_struct(&png, &info); }
  static void give(png_structp png, png_bytep from, std::size_t count) {
    auto* writer = static_cast<Writer*>(png_get_io_ptr(png));
    writer->bytes.insert(writer->bytes.end(), from, from + count);
  }
};

bool write(Writer& writer, const Image& image) {
  writer.png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &writer, stop<Writer>, heed_no_warning);
  if (writer.png == nullptr) return false;
  if (setjmp(writer.jump) != 0) return false;
  writer.info = png_create_info_struct(writer.png);
  if (writer.info == nullptr) png_error(writer.png, "out of memory");
  png_set_write_fn(writer.png, &writer, Writer::give, nullptr);
  png_set_IHDR(writer.png, writer.info, static_cast<png_uint_32>(image.width), static_cast<png_uint_32>(image.height),
               8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(writer.png, writer.info);
  for (std::int64_t y = 0; y < image.height; ++y) png_write_row(writer.png, image.row(y));
  png_write_end(writer.png, nullptr);
  return true;
}

}  // namespace

PngDecoder::PngDecoder() : state_(std::make_unique<State>()) {}
PngDecoder::~PngDecoder() = default;

bool PngDecoder::begins(const std::uint8_t* data, std::size_t bytes) {
  return bytes >= 8 && png_sig_cmp(data, 0, 8) == 0;
}

ImageSize PngDecoder::size(const std::uint8_t* data, std::size_t bytes, const std::string& where) {
  State& state = *state_;
  state.data = data;
  state.bytes = bytes;
  state.message[0] = '\0';
  const bool read = read_header(state);
  const ImageSize size =
      read ? ImageSize{png_get_image_height(state.png, state.info), png_get_image_width(state.png, state.info)}
           : ImageSize{};
  state.close();
  if (!read) throw InputError(concat(where, ": is not a PNG that can be decoded: ", state.message));
  if (size.height * size.width > kMaxImagePixels) throw InputError(concat(where, ": ", too_many_pixels(size)));
  return size;
}

void PngDecoder::decode(const std::uint8_t* data, std::size_t bytes, const std::string& where, Image& out) {
  State& state = *state_;
  state.data = data;
  state.bytes = bytes;
  state.message[0] = '\0';
  const auto refuse = [&](const std::string& what) {
    state.close();
    throw InputError(concat(where, ": ", what));
  };
  if (!read_header(state)) refuse(concat("is not a PNG that can be decoded: ", state.message));
  const ImageSize size{png_get_image_height(state.png, state.info), png_get_image_width(state.png, state.info)};
  if (size.height * size.width > kMaxImagePixels) refuse(too_many_pixels(size));
  Stored stored{};
  std::size_t row_bytes = 0;
  if (!start(state, stored, row_bytes)) refuse(concat("the PNG is damaged: ", state.message));
  out.resize(size.height, size.width);
  if (stored != Stored::rgb) state.stored.resize(row_bytes * static_cast<std::size_t>(size.height));
  state.rows.resize(static_cast<std::size_t>(size.height));
  for (std::size_t y = 0; y < state.rows.size(); ++y)
    state.rows[y] = (stored == Stored::rgb ? out.pixels.data() : state.stored.data()) + y * row_bytes;
  if (!read_pixels(state)) refuse(concat("the PNG is damaged: ", state.message));
  if (stored == Stored::indices) to_rgb(palette_of(state), state.stored, out);
  if (stored == Stored::gray16) gray16_to_rgb(state.stored, out);
  state.close();
}

std::string PngDecoder::version() { return "libpng " PNG_LIBPNG_VER_STRING; }

std::vector<std::uint8_t> png_bytes(const Image& image) {
  Writer writer;
  if (!write(writer, image)) throw EnvironmentError(concat("a PNG cannot be written: ", writer.message));
  return std::move(writer.bytes);
}

void write_png(const std::filesystem::path& path, const Image& image) {
  const std::vector<std::uint8_t> bytes = png_bytes(image);
  std::ofstream file(path, std::ios::binary);
  file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  file.close();
  if (!file) throw EnvironmentError(concat(path.string(), ": cannot be written"));
}

}  // namespace normlab
