// Any bytes as an IDX file of images and as one of labels, packed by gzip or not: taken with a pixel and a label for
// each image, or refused with an InputError. The header alone, too.
#include "experiments/lab/data/idx.h"

#include "core/error.h"
#include "experiments/lab/data/readers.h"
#include "tests/fuzz/repair.h"
#include "tests/fuzz/target.h"

using namespace normlab;
using namespace normlab::fuzz;

namespace {

constexpr int kClasses = 10;

std::string idx(std::span<const std::int64_t> dimensions, std::size_t values, int classes) {
  std::string text{0, 0, 8, static_cast<char>(dimensions.size())};
  for (const std::int64_t extent : dimensions) {
    std::uint8_t bytes[4];
    put_big_endian(static_cast<std::uint32_t>(extent), bytes);
    text.append(bytes, bytes + 4);
  }
  for (std::size_t i = 0; i < values; ++i) text += static_cast<char>(i % static_cast<std::size_t>(classes));
  return text;
}

/// A file with right content for the one that is under test: as many images or labels as its header has.
std::string companion(const std::uint8_t* data, std::size_t size, bool labels) {
  std::int64_t count = 1;
  try {
    const IdxHeader header = parse_idx_header({data, size}, "fuzz");
    require(header.data_offset == std::int64_t(4 + 4 * header.dimensions.size()), "a header of another length");
    std::int64_t values = 1;
    for (const std::int64_t extent : header.dimensions) values *= extent;
    require(values == header.values, "other values than the dimensions have");
    count = std::min<std::int64_t>(header.dimensions[0], 4096);
  } catch (const InputError&) {
  }
  if (labels) return idx(std::vector{count}, static_cast<std::size_t>(count), kClasses);
  return idx(std::vector{count, std::int64_t{1}, std::int64_t{2}}, static_cast<std::size_t>(2 * count), 256);
}

void read(const std::filesystem::path& folder) {
  SliceRequest request;
  request.slice = parse_slice("train");
  request.dataset = "mnist";
  try {
    const ImageSet images = read_idx(folder, request);
    require(std::int64_t(images.pixels.size()) == images.size() * images.image_bytes(),
            "pixels do not fill the images");
    for (const std::int32_t label : images.labels)
      require(label >= 0 && label < kClasses, "a label beyond the classes");
  } catch (const InputError& error) {
    require(error.what()[0] != '\0', "an error without words");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder as_images, as_labels;
  const std::optional<Inflated> inner = is_gzip(data, size) ? inflated(data, size, kGzip) : std::nullopt;
  const std::uint8_t* plain = inner ? inner->bytes.data() : data;
  const std::size_t plain_size = inner ? inner->bytes.size() : size;
  for (const bool images : {true, false}) {
    const Folder& folder = images ? as_images : as_labels;
    const std::string name = images ? "train-images-idx3-ubyte" : "train-labels-idx1-ubyte";
    std::filesystem::remove(folder.path() / name);
    std::filesystem::remove(folder.path() / (name + ".gz"));
    folder.write(is_gzip(data, size) ? name + ".gz" : name, text_of(data, size));
    folder.write(images ? "train-labels-idx1-ubyte" : "train-images-idx3-ubyte", companion(plain, plain_size, images));
    read(folder.path());
  }
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_and_repair(data, size, max_size, seed, [](Bytes&) {});
}
