#include "experiments/data/jpeg.h"

#include <csetjmp>
#include <cstdio>  // jpeglib.h wants FILE

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
};

namespace {

template <class State>
[[noreturn]] void stop(j_common_ptr jpeg) {
  auto* state = static_cast<State*>(jpeg->client_data);
  jpeg->err->format_message(jpeg, state->message);
  std::longjmp(state->jump, 1);
}

/// Level -1 is a warning, by which libjpeg means data that it made up; higher ones are traces.
template <class State>
void heed_warning(j_common_ptr jpeg, int level) {
  if (level < 0) stop<State>(jpeg);
}

/// False with state.message set.
template <class State>
bool read_header(State& state, const std::uint8_t* data, std::size_t bytes) {
  if (setjmp(state.jump) != 0) return false;
  jpeg_mem_src(&state.jpeg, data, static_cast<unsigned long>(bytes));
  jpeg_read_header(&state.jpeg, TRUE);
  return true;
}

template <class State>
bool read_pixels(State& state, std::uint8_t* rgb) {
  if (setjmp(state.jump) != 0) return false;
  state.jpeg.out_color_space = JCS_RGB;
  jpeg_start_decompress(&state.jpeg);
  const std::size_t stride = std::size_t{state.jpeg.output_width} * 3;
  while (state.jpeg.output_scanline < state.jpeg.output_height) {
    JSAMPROW row = rgb + state.jpeg.output_scanline * stride;
    jpeg_read_scanlines(&state.jpeg, &row, 1);
  }
  jpeg_finish_decompress(&state.jpeg);
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

JpegSize JpegDecoder::size(const std::uint8_t* data, std::size_t bytes, const std::string& where) {
  const bool read = read_header(*state_, data, bytes);
  const JpegSize size{state_->jpeg.image_height, state_->jpeg.image_width};
  jpeg_abort_decompress(&state_->jpeg);
  if (!read) throw InputError(concat(where, ": is not a JPEG that can be decoded: ", state_->message));
  return size;
}

void JpegDecoder::decode(const std::uint8_t* data, std::size_t bytes, JpegSize expected, const std::string& where,
                         std::uint8_t* rgb) {
  State& state = *state_;
  const auto refuse = [&](const std::string& what) {
    jpeg_abort_decompress(&state.jpeg);
    throw InputError(concat(where, ": ", what));
  };
  if (!read_header(state, data, bytes)) refuse(concat("is not a JPEG that can be decoded: ", state.message));
  const JpegSize size{state.jpeg.image_height, state.jpeg.image_width};
  if (size != expected) {
    refuse(concat("is ", size.width, "x", size.height, " pixels, the first image ", expected.width, "x",
                  expected.height, "; bring all images to one size first"));
  }
  const J_COLOR_SPACE space = state.jpeg.jpeg_color_space;
  if (space == JCS_CMYK || space == JCS_YCCK)
    refuse("has CMYK colours, which have no one way to RGB; convert it first");
  if (!read_pixels(state, rgb)) refuse(concat("the JPEG is damaged: ", state.message));
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

}  // namespace normlab
