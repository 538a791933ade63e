#include "experiments/lab/data/jpeg.h"

#include <algorithm>
#include <array>
#include <cstdio>  // jpeglib.h needs FILE
#include <cstdlib>
#include <vector>

#include <jerror.h>
#include <jpeglib.h>

#include "core/error.h"
#include "experiments/lab/data/call_guard.h"

namespace normlab {
namespace {

struct Session : CallGuard {
  jpeg_error_mgr errors{};
  template <class Jpeg>
  void attach(Jpeg& jpeg) {
    jpeg.err = jpeg_std_error(&errors);
    errors.error_exit = stop;
    jpeg.client_data = static_cast<CallGuard*>(this);
  }
  [[noreturn]] static void stop(j_common_ptr jpeg) {
    auto* guard = static_cast<CallGuard*>(jpeg->client_data);
    jpeg->err->format_message(jpeg, guard->message);
    std::longjmp(guard->jump, 1);
  }
};
static_assert(sizeof(CallGuard::message) >= JMSG_LENGTH_MAX);

/// Level -1 is a warning. The warnings listed here leave all pixels as stored; after any other, libjpeg invents pixels.
void heed_warning(j_common_ptr jpeg, int level) {
  if (level >= 0) return;
  switch (jpeg->err->msg_code) {
    case JWRN_EXTRANEOUS_DATA:  // bytes before a marker
    case JWRN_ADOBE_XFORM:
    case JWRN_JFIF_MAJOR:
    case JWRN_BOGUS_ICC:
      return;
    default:
      Session::stop(jpeg);
  }
}

[[noreturn]] void refuse(const std::string& where, const std::string& what) {
  throw InputError(concat(where, ": ", what));
}

/// For a single file: libjpeg would use the tables of one file for the next.
struct Decoder : Session {
  jpeg_decompress_struct jpeg{};
  std::vector<std::uint8_t> cmyk;  // one row

  Decoder() {
    attach(jpeg);
    errors.emit_message = heed_warning;
    if (!run([&] { jpeg_create_decompress(&jpeg); }))
      throw EnvironmentError(std::string("libjpeg cannot be initialised: ") + message);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder() { jpeg_destroy_decompress(&jpeg); }

  ImageSize size() const { return {jpeg.image_height, jpeg.image_width}; }
  bool read_header(FileBytes bytes) {
    return run([&] {
      jpeg_mem_src(&jpeg, bytes.data(), static_cast<unsigned long>(bytes.size()));
      jpeg_read_header(&jpeg, TRUE);
    });
  }
  template <class Calls>
  void decode(const std::string& where, Calls&& calls) {
    if (!run(calls)) refuse(where, concat("the JPEG is damaged: ", message));
  }
};

bool has_black(const jpeg_decompress_struct& jpeg) {
  return jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK;
}

/// a b / 255, rounded, as in Pillow.
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

/// Decodes the next `rows` rows at the output's width. Jumps on failure.
void read_rows(Decoder& decoder, std::size_t rows, std::uint8_t* rgb) {
  constexpr std::size_t kRows = 8;
  const std::size_t stride = std::size_t{decoder.jpeg.output_width} * 3;
  const bool black = has_black(decoder.jpeg);
  for (std::size_t done = 0; done < rows;) {
    JSAMPROW pointers[kRows];
    const std::size_t asked = black ? 1 : std::min(rows - done, kRows);
    for (std::size_t i = 0; i < asked; ++i) pointers[i] = black ? decoder.cmyk.data() : rgb + (done + i) * stride;
    const std::size_t got = jpeg_read_scanlines(&decoder.jpeg, pointers, static_cast<JDIMENSION>(asked));
    if (black) cmyk_to_rgb(decoder.cmyk.data(), decoder.jpeg.output_width, rgb + done * stride);
    done += got;
  }
}

/// Starts decoding at 1 / shrink of the size.
void start(Decoder& decoder, unsigned shrink = 1) {
  decoder.jpeg.out_color_space = has_black(decoder.jpeg) ? JCS_CMYK : JCS_RGB;
  decoder.jpeg.scale_num = 1;
  decoder.jpeg.scale_denom = shrink;
  jpeg_start_decompress(&decoder.jpeg);
}

/// The largest factor by which the box can shrink and keep the requested size; libjpeg shrinks with a smaller DCT.
unsigned largest_shrink(Box box, std::int64_t min_height, std::int64_t min_width) {
  if (min_height < 1 || min_width < 1) return 1;
  for (const unsigned shrink : {8u, 4u, 2u})
    if (box.height >= min_height * shrink && box.width >= min_width * shrink) return shrink;
  return 1;
}

void read_whole(Decoder& decoder, std::uint8_t* rgb) {
  read_rows(decoder, decoder.jpeg.output_height, rgb);
  jpeg_finish_decompress(&decoder.jpeg);
}

/// Refuses sizes and colour spaces that cannot be decoded.
void open(Decoder& decoder, FileBytes bytes, const std::string& where) {
  if (!decoder.read_header(bytes)) refuse(where, concat("is not a JPEG that can be decoded: ", decoder.message));
  const ImageSize size = decoder.size();
  if (size.height * size.width > kMaxImagePixels) refuse(where, too_many_pixels(size));
  if (decoder.jpeg.jpeg_color_space == JCS_UNKNOWN)
    refuse(where, concat("has ", decoder.jpeg.num_components, " colour components; 1, 3 or 4 can be decoded"));
  decoder.cmyk.resize(has_black(decoder.jpeg) ? static_cast<std::size_t>(size.width) * 4 : 0);
}

}  // namespace

bool is_jpeg(FileBytes bytes) { return bytes.size() >= 3 && bytes[0] == 0xff && bytes[1] == 0xd8 && bytes[2] == 0xff; }

ImageSize jpeg_size(FileBytes bytes, const std::string& where) {
  Decoder decoder;
  open(decoder, bytes, where);
  return decoder.size();
}

void decode_jpeg(FileBytes bytes, const std::string& where, Image& out) {
  Decoder decoder;
  open(decoder, bytes, where);
  out.resize(decoder.size().height, decoder.size().width);
  decoder.decode(where, [&] {
    start(decoder);
    read_whole(decoder, out.pixels.data());
  });
}

void decode_jpeg_box(FileBytes bytes, const std::string& where, Box box, std::int64_t min_height,
                     std::int64_t min_width, Image& out, ScaledBox& box_in_out) {
  Decoder decoder;
  open(decoder, bytes, where);
  if (!is_inside(box, decoder.size())) refuse(where, box_outside(box, decoder.size()));
  const unsigned shrink = largest_shrink(box, min_height, min_width);
  decoder.decode(where, [&] { start(decoder, shrink); });
  const ImageSize size{decoder.jpeg.output_height, decoder.jpeg.output_width};
  // Reads only the rows down to the box if the file has its end marker. Otherwise reads the whole file, so that a
  // truncated file is refused whatever the box. Also reads progressive files in full: libjpeg smooths a block whose
  // later scans are missing with its neighbours, which may be outside the box.
  if (decoder.jpeg.progressive_mode || bytes.size() < 2 || bytes[bytes.size() - 2] != 0xff ||
      bytes.back() != JPEG_EOI) {
    out.resize(size.height, size.width);
    decoder.decode(where, [&] { read_whole(decoder, out.pixels.data()); });
    box_in_out = {box, shrink};
    return;
  }
  // Chroma upsampling uses neighbours, so the box is decoded with a margin.
  constexpr std::int64_t kMargin = 4;
  const Box cover = ScaledBox(box, shrink).cover();
  const std::int64_t begin = std::max<std::int64_t>(0, cover.left - kMargin);
  const std::int64_t end = std::min(size.width, cover.left + cover.width + kMargin);
  auto left = static_cast<JDIMENSION>(begin), width = static_cast<JDIMENSION>(end - begin);
  // Extends the columns on the left to a block boundary.
  decoder.decode(where, [&] { jpeg_crop_scanline(&decoder.jpeg, &left, &width); });
  out.resize(cover.height, width);
  decoder.decode(where, [&] {
    if (cover.top > 0) jpeg_skip_scanlines(&decoder.jpeg, static_cast<JDIMENSION>(cover.top));
    read_rows(decoder, static_cast<std::size_t>(cover.height), out.pixels.data());
    jpeg_abort_decompress(&decoder.jpeg);
  });
  box_in_out = {{box.top - cover.top * shrink, box.left - left * std::int64_t{shrink}, box.height, box.width}, shrink};
}

#define NORMLAB_TEXT_OF(x) #x
#define NORMLAB_TEXT(x) NORMLAB_TEXT_OF(x)
std::string jpeg_version() {
#ifdef LIBJPEG_TURBO_VERSION
  return "libjpeg-turbo " NORMLAB_TEXT(LIBJPEG_TURBO_VERSION);
#else
  return "libjpeg " NORMLAB_TEXT(JPEG_LIB_VERSION);
#endif
}

namespace {

struct Encoder : Session {
  jpeg_compress_struct jpeg{};
  unsigned char* bytes = nullptr;
  unsigned long size = 0;

  Encoder() { attach(jpeg); }
  Encoder(const Encoder&) = delete;
  Encoder& operator=(const Encoder&) = delete;
  ~Encoder() {
    jpeg_destroy_compress(&jpeg);
    std::free(bytes);
  }
};

using Table = std::array<UINT16, DCTSIZE2>;

/// What libjpeg writes at a quality.
struct QualityTables {
  int quality = 0;
  Table luma{}, chroma{};
};
constexpr int kBestQuality = 100;
/// Both for files with entries of 8 bits and for those with 16, in which low qualities pass 255.
using AllTables = std::array<QualityTables, 2 * kBestQuality>;

const AllTables& all_tables() {
  static const AllTables kAll = [] {
    Encoder encoder;
    AllTables all;
    const bool made = encoder.run([&] {
      jpeg_create_compress(&encoder.jpeg);
      for (std::size_t i = 0; i < all.size(); ++i) {
        all[i].quality = static_cast<int>(i / 2) + 1;
        jpeg_set_quality(&encoder.jpeg, all[i].quality, i % 2 == 0 ? TRUE : FALSE);
        std::copy_n(encoder.jpeg.quant_tbl_ptrs[0]->quantval, DCTSIZE2, all[i].luma.begin());
        std::copy_n(encoder.jpeg.quant_tbl_ptrs[1]->quantval, DCTSIZE2, all[i].chroma.begin());
      }
    });
    if (!made) throw EnvironmentError(std::string("libjpeg cannot be initialised: ") + encoder.message);
    return all;
  }();
  return kAll;
}

/// Whether the first component has the table of luma, and each other one that of luma or chroma.
bool uses(const jpeg_decompress_struct& jpeg, const QualityTables& tables) {
  for (int c = 0; c < jpeg.num_components; ++c) {
    const int number = jpeg.comp_info[c].quant_tbl_no;
    const JQUANT_TBL* const quantisation =
        number >= 0 && number < NUM_QUANT_TBLS ? jpeg.quant_tbl_ptrs[number] : nullptr;
    if (quantisation == nullptr) return false;
    const auto is = [&](const Table& table) { return std::equal(table.begin(), table.end(), quantisation->quantval); };
    if (!is(tables.luma) && (c == 0 || !is(tables.chroma))) return false;
  }
  return true;
}

}  // namespace

std::optional<int> jpeg_quality(FileBytes bytes) {
  Decoder decoder;
  if (!decoder.read_header(bytes)) return std::nullopt;
  const AllTables& all = all_tables();
  const auto* const found =
      std::find_if(all.begin(), all.end(), [&](const QualityTables& tables) { return uses(decoder.jpeg, tables); });
  return found == all.end() ? 0 : found->quality;
}

std::vector<std::uint8_t> encode_jpeg(const Image& image, int quality) {
  Encoder encoder;
  jpeg_compress_struct& jpeg = encoder.jpeg;
  const bool encoded = encoder.run([&] {
    jpeg_create_compress(&jpeg);
    jpeg_mem_dest(&jpeg, &encoder.bytes, &encoder.size);
    jpeg.image_height = static_cast<JDIMENSION>(image.height);
    jpeg.image_width = static_cast<JDIMENSION>(image.width);
    jpeg.input_components = Image::kChannels;
    jpeg.in_color_space = JCS_RGB;
    jpeg_set_defaults(&jpeg);
    jpeg_set_quality(&jpeg, quality, TRUE);
    jpeg_start_compress(&jpeg, TRUE);
    while (jpeg.next_scanline < jpeg.image_height) {
      auto* row = const_cast<std::uint8_t*>(image.row(jpeg.next_scanline));  // libjpeg only reads it
      jpeg_write_scanlines(&jpeg, &row, 1);
    }
    jpeg_finish_compress(&jpeg);
  });
  if (!encoded)
    throw InputError(concat("an image of ", image.width, "x", image.height,
                            " pixels cannot be written as a JPEG: ", encoder.message));
  return {encoder.bytes, encoder.bytes + encoder.size};
}

}  // namespace normlab
