#include "experiments/data/jpeg.h"

#include <algorithm>
#include <csetjmp>
#include <cstdio>  // jpeglib.h wants FILE
#include <cstdlib>
#include <vector>

#include <jerror.h>
#include <jpeglib.h>

#include "core/error.h"

namespace normlab {

// libjpeg reports an error by a call that must not return, and an exception must not pass its C frames: so it jumps.
// Whatever lies between a setjmp and the calls below it has trivial destructors.
struct JpegDecoder::State {
  jpeg_error_mgr errors{};  // libjpeg hands back a pointer to this, its address is State's
  jpeg_decompress_struct jpeg{};
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = "";
  std::vector<std::uint8_t> cmyk;  // one row

  ImageSize size() const { return {jpeg.image_height, jpeg.image_width}; }
};

namespace {

template <class State>
[[noreturn]] void stop(j_common_ptr jpeg) {
  auto* state = static_cast<State*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, state->message);
  std::longjmp(state->jump, 1);
}

/// Level -1 is a warning, higher ones are traces. These warnings leave every pixel as it was stored; with all others
/// libjpeg makes pixels up.
template <class State>
void heed_warning(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:  // bytes before a marker
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_BOGUS_ICC:
      return;
    default:
      stop<State>(jpeg);
  }
}

/// False with state.message set.
template <class State>
bool read_header(State& state, const std::uint8_t* data, std::size_t bytes) {
  if (setjmp(state.jump) != 0) return false;
  // Anew for each file: tables stay from file to file otherwise, and one that lacks its own would take another's.
  jpeg_destroy_decompress(&state.jpeg);
  jpeg_create_decompress(&state.jpeg);
  jpeg_mem_src(&state.jpeg, data, static_cast<unsigned long>(bytes));
  jpeg_read_header(&state.jpeg, TRUE);
  return true;
}

bool has_black(const jpeg_decompress_struct& jpeg) {
  return jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
}

/// a b / 255, rounded, as Pillow has it.
int times(int a, int b) {
  const int product = a * b + 128;
  return ((product >> 8) + product) >> 8;
}

/// Stored levels are inverted: 255 is no ink.
void cmyk_to_rgb(const std::uint8_t* cmyk, std::size_t pixels, std::uint8_t* rgb) {
  for (std::size_t i = 0; i < pixels; ++i, cmyk += 4, rgb += 3) {
    for (std::size_t c = 0; c < 3; ++c) rgb[c] = static_cast<std::uint8_t>(cmyk[3] - times(255 - cmyk[c], cmyk[3]));
  }
}

/// `rows` rows of the output's width from where the decoder stands. Returns by a jump where it fails.
template <class State>
void read_rows(State& state, std::size_t rows, std::uint8_t* rgb) {
  constexpr std::size_t kRows = 8;
  const std::size_t stride = std::size_t{state.jpeg.output_width} * 3;
  const bool black = has_black(state.jpeg);
  for (std::size_t done = 0; done < rows;) {
    JSAMPROW pointers[kRows];
    const std::size_t asked = black ? 1 : std::min(rows - done, kRows);
    for (std::size_t i = 0; i < asked; ++i) pointers[i] = black ? state.cmyk.data() : rgb + (done + i) * stride;
    const std::size_t got = jpeg_read_scanlines(&state.jpeg, pointers, static_cast<JDIMENSION>(asked));
    if (black) cmyk_to_rgb(state.cmyk.data(), state.jpeg.output_width, rgb + done * stride);
    done += got;
  }
}

/// Sets up the decoding, at 1 / shrink of the size. False with state.message set, as all below.
template <class State>
bool start(State& state, unsigned shrink = 1) {
  if (setjmp(state.jump) != 0) return false;
  state.jpeg.out_color_space = has_black(state.jpeg) ? JCS_CMYK : JCS_RGB;
  state.jpeg.scale_num = 1;
  state.jpeg.scale_denom = shrink;
  jpeg_start_decompress(&state.jpeg);
  return true;
}

/// By what the box can be divided so that it stays as large as asked for: a DCT of fewer coefficients does it.
unsigned largest_shrink(Box box, std::int64_t min_height, std::int64_t min_width) {
  if (min_height < 1 || min_width < 1) return 1;
  for (const unsigned shrink : {8u, 4u, 2u})
    if (box.height >= min_height * shrink && box.width >= min_width * shrink) return shrink;
  return 1;
}

template <class State>
bool read_whole(State& state, std::uint8_t* rgb) {
  if (setjmp(state.jump) != 0) return false;
  read_rows(state, state.jpeg.output_height, rgb);
  jpeg_finish_decompress(&state.jpeg);
  return true;
}

/// Narrows the output to columns left .. left + width and maybe some more on the left, where blocks begin.
template <class State>
bool crop_columns(State& state, JDIMENSION& left, JDIMENSION& width) {
  if (setjmp(state.jump) != 0) return false;
  jpeg_crop_scanline(&state.jpeg, &left, &width);
  return true;
}

template <class State>
bool read_part(State& state, JDIMENSION top, std::size_t rows, std::uint8_t* rgb) {
  if (setjmp(state.jump) != 0) return false;
  if (top > 0) jpeg_skip_scanlines(&state.jpeg, top);
  read_rows(state, rows, rgb);
  jpeg_abort_decompress(&state.jpeg);
  return true;
}

}  // namespace

JpegDecoder::JpegDecoder() : state_(std::make_unique<State>()) {
  state_->jpeg.err = jpeg_std_error(&state_->errors);
  state_->errors.error_exit = stop<State>;
  state_->errors.emit_message = heed_warning<State>;
  if (setjmp(state_->jump) != 0) throw EnvironmentError(std::string("libjpeg cannot be set up: ") + state_->message);
  state_->jpeg.client_data = state_.get();
  jpeg_create_decompress(&state_->jpeg);
}

JpegDecoder::~JpegDecoder() { jpeg_destroy_decompress(&state_->jpeg); }

bool JpegDecoder::begins(const std::uint8_t* data, std::size_t bytes) {
  return bytes >= 3 && data[0] == 0xff && data[1] == 0xd8 && data[2] == 0xff;
}

void JpegDecoder::refuse(const std::string& where, const std::string& what) {
  jpeg_abort_decompress(&state_->jpeg);
  throw InputError(concat(where, ": ", what));
}

/// Reads the header; what passes has a size and colours that can be decoded.
void JpegDecoder::open(const std::uint8_t* data, std::size_t bytes, const std::string& where) {
  State& state = *state_;
  if (!read_header(state, data, bytes)) refuse(where, concat("is not a JPEG that can be decoded: ", state.message));
  const ImageSize size = state.size();
  if (size.height * size.width > kMaxImagePixels) refuse(where, too_many_pixels(size));
  if (state.jpeg.jpeg_color_space == JCS_UNKNOWN)
    refuse(where, concat("has ", state.jpeg.num_components, " colour components; 1, 3 or 4 can be decoded"));
  state.cmyk.resize(has_black(state.jpeg) ? static_cast<std::size_t>(size.width) * 4 : 0);
}

ImageSize JpegDecoder::size(const std::uint8_t* data, std::size_t bytes, const std::string& where) {
  open(data, bytes, where);
  const ImageSize size = state_->size();
  jpeg_abort_decompress(&state_->jpeg);
  return size;
}

void JpegDecoder::decode(const std::uint8_t* data, std::size_t bytes, const std::string& where, Image& out) {
  State& state = *state_;
  open(data, bytes, where);
  out.resize(state.size().height, state.size().width);
  if (!start(state) || !read_whole(state, out.pixels.data()))
    refuse(where, concat("the JPEG is damaged: ", state.message));
}

void JpegDecoder::decode(const std::uint8_t* data, std::size_t bytes, ImageSize expected, const std::string& where,
                         std::uint8_t* rgb) {
  State& state = *state_;
  open(data, bytes, where);
  const ImageSize size = state.size();
  if (size != expected) {
    refuse(where, concat("is ", size.width, "x", size.height, " pixels, the first image ", expected.width, "x",
                         expected.height, "; bring all images to one size first"));
  }
  if (!start(state) || !read_whole(state, rgb)) refuse(where, concat("the JPEG is damaged: ", state.message));
}

void JpegDecoder::decode_box(const std::uint8_t* data, std::size_t bytes, const std::string& where, Box box,
                             std::int64_t min_height, std::int64_t min_width, Image& out, ScaledBox& box_in_out) {
  State& state = *state_;
  open(data, bytes, where);
  if (!is_inside(box, state.size())) refuse(where, box_outside(box, state.size()));
  const auto damaged = [&] { refuse(where, concat("the JPEG is damaged: ", state.message)); };
  const unsigned shrink = largest_shrink(box, min_height, min_width);
  if (!start(state, shrink)) damaged();
  const ImageSize size{state.jpeg.output_height, state.jpeg.output_width};
  // Only the rows down to the box are read. A file that does not end as it should is read to its end, so that what is
  // cut short is refused whatever the box; a progressive one all the more, as libjpeg smooths blocks whose later scans
  // are missing by their neighbours, which may lie outside the box.
  if (state.jpeg.progressive_mode || bytes < 2 || data[bytes - 2] != 0xff || data[bytes - 1] != JPEG_EOI) {
    out.resize(size.height, size.width);
    if (!read_whole(state, out.pixels.data())) damaged();
    box_in_out = {box, shrink};
    return;
  }
  // Chroma is upsampled from its neighbours, so the box is decoded with a margin.
  constexpr std::int64_t kMargin = 4;
  const Box cover = ScaledBox(box, shrink).cover();
  const std::int64_t begin = std::max<std::int64_t>(0, cover.left - kMargin);
  const std::int64_t end = std::min(size.width, cover.left + cover.width + kMargin);
  auto left = static_cast<JDIMENSION>(begin), width = static_cast<JDIMENSION>(end - begin);
  if (!crop_columns(state, left, width)) damaged();
  out.resize(cover.height, width);
  if (!read_part(state, static_cast<JDIMENSION>(cover.top), static_cast<std::size_t>(cover.height), out.pixels.data()))
    damaged();
  box_in_out = {{box.top - cover.top * shrink, box.left - left * std::int64_t{shrink}, box.height, box.width}, shrink};
}

#define NORMLAB_TEXT_OF(x) #x
#define NORMLAB_TEXT(x) NORMLAB_TEXT_OF(x)
std::string JpegDecoder::version() {
#ifdef LIBJPEG_TURBO_VERSION
  return "libjpeg-turbo " NORMLAB_TEXT(LIBJPEG_TURBO_VERSION);
#else
  return "libjpeg " NORMLAB_TEXT(JPEG_LIB_VERSION);
#endif
}

namespace {

struct Encoder {
  jpeg_error_mgr errors{};
  jpeg_compress_struct jpeg{};
  std::jmp_buf jump{};
  char message[JMSG_LENGTH_MAX] = "";
  unsigned char* bytes = nullptr;
  unsigned long size = 0;
};

/// False with encoder.message set.
bool encode(Encoder& encoder, const Image& image, int quality) {
  encoder.jpeg.err = jpeg_std_error(&encoder.errors);
  encoder.errors.error_exit = stop<Encoder>;
  if (setjmp(encoder.jump) != 0) return false;
  encoder.jpeg.client_data = &encoder;
  jpeg_create_compress(&encoder.jpeg);
  jpeg_mem_dest(&encoder.jpeg, &encoder.bytes, &encoder.size);
  encoder.jpeg.image_height = static_cast<JDIMENSION>(image.height);
  encoder.jpeg.image_width = static_cast<JDIMENSION>(image.width);
  encoder.jpeg.input_components = Image::kChannels;
  encoder.jpeg.in_color_space = JCS_RGB;
  jpeg_set_defaults(&encoder.jpeg);
  jpeg_set_quality(&encoder.jpeg, quality, TRUE);
  jpeg_start_compress(&encoder.jpeg, TRUE);
  while (encoder.jpeg.next_scanline < encoder.jpeg.image_height) {
    auto* row = const_cast<std::uint8_t*>(image.row(encoder.jpeg.next_scanline));  // libjpeg only reads it
    jpeg_write_scanlines(&encoder.jpeg, &row, 1);
  }
  jpeg_finish_compress(&encoder.jpeg);
  return true;
}

}  // namespace

std::vector<std::uint8_t> encode_jpeg(const Image& image, int quality) {
  Encoder encoder;
  const bool encoded = encode(encoder, image, quality);
  jpeg_destroy_compress(&encoder.jpeg);
  std::vector<std::uint8_t> bytes;
  if (encoded) bytes.assign(encoder.bytes, encoder.bytes + encoder.size);
  std::free(encoder.bytes);
  if (!encoded)
    throw InputError(
        concat("an image of ", image.width, "x", image.height, " pixels cannot be a JPEG: ", encoder.message));
  return bytes;
}

}  // namespace normlab
