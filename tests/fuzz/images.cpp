// Any bytes as an image file: decoded, or refused with an InputError; a box has the pixels of the whole image there.
#include "experiments/lab/data/decode.h"

#include <cstring>

#include "core/error.h"
#include "experiments/lab/data/jpeg.h"
#include "tests/fuzz/target.h"

using namespace normlab;
using namespace normlab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static Image whole, part;
  const std::span bytes(data, size);
  const std::optional<int> quality = jpeg_quality(bytes);
  require(!quality || (*quality >= 0 && *quality <= 100), "a quality of no JPEG");
  try {
    const ImageSize image = image_file_size(bytes, "fuzz");
    if (image.height * image.width > (1 << 20)) return 0;  // large ones are slow, not different
    const Box box{image.height / 3, image.width / 3, (image.height + 2) / 3, (image.width + 1) / 2};
    ScaledBox at;
    decode_image_box(bytes, "fuzz", box, 1, 1, part, at);  // at an eighth where it can be
    decode_image(bytes, "fuzz", whole);
    decode_image_box(bytes, "fuzz", box, 0, 0, part, at);
    for (std::int64_t y = 0; y < box.height; ++y)
      require(std::memcmp(whole.row(box.top + y) + box.left * 3, part.row(at.box.top + y) + at.box.left * 3,
                          static_cast<std::size_t>(box.width) * 3) == 0,
              "a row of the box differs");
  } catch (const InputError&) {
  }
  return 0;
}
