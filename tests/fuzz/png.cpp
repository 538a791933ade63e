// Any bytes as a PNG whose checksums are right, with mutations of the packed rows, too: decoded, or refused with an
// InputError. What is decoded has the size of the header and comes back the same from the writer.
#include "experiments/lab/data/png.h"

#include "core/error.h"
#include "tests/fuzz/repair.h"
#include "tests/fuzz/target.h"

using namespace normlab;
using namespace normlab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const FileBytes bytes(data, size);
  static Image image, again;
  if (!is_png(bytes)) return -1;
  try {
    const ImageSize header = png_size(bytes, "fuzz");
    if (header.height * header.width > (1 << 18)) return 0;  // large ones are slow, not different
    decode_png(bytes, "fuzz", image);
    require((ImageSize{image.height, image.width}) == header, "another size than the header's");
  } catch (const InputError& error) {
    require(error.what()[0] != '\0', "an error without words");
    return 0;
  }
  const std::vector<std::uint8_t> written = png_bytes(image);
  decode_png(written, "again", again);
  require(again.pixels == image.pixels, "other pixels after the writer");
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  if (seed % 3 == 0) {
    Bytes png(data, data + size);
    if (mutate_png_rows(png) && png.size() <= max_size) {
      repair_png(png);
      std::copy(png.begin(), png.end(), data);
      return png.size();
    }
  }
  return mutate_and_repair(data, size, max_size, seed, repair_png);
}
