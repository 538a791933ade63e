#include "experiments/lab/data/idx.h"

#include <fmt/core.h>

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/data/archive.h"
#include "experiments/lab/data/gzip.h"
#include "experiments/lab/data/readers.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

constexpr std::uint8_t kBytes = 0x08;  // type code of byte values
constexpr std::size_t kMostDimensions = 4, kMostHeader = 4 + 4 * kMostDimensions;
constexpr std::int64_t kMostSide = 4096, kMostValues = std::int64_t{1} << 62;

struct Named {
  const char* dataset;
  std::vector<std::string> classes;
};
const std::vector<Named>& named_sets() {
  static const std::vector<Named> kNamed{
      {"mnist", {"0", "1", "2", "3", "4", "5", "6", "7", "8", "9"}},
      {"fashion_mnist",
       {"T-shirt/top", "Trouser", "Pullover", "Dress", "Coat", "Sandal", "Shirt", "Sneaker", "Bag", "Ankle boot"}},
      {"kmnist", {"o", "ki", "su", "tsu", "na", "ha", "ma", "ya", "re", "wo"}}};
  return kNamed;
}

/// The usual name first. `kind`: "images-idx3" or "labels-idx1".
std::vector<std::string> names(const std::string& split, const std::string& kind) {
  const std::string base = split == "train" ? "train-" : "t10k-";
  std::string dotted = base + kind + "-ubyte";
  dotted[dotted.rfind("-idx")] = '.';
  return {base + kind + "-ubyte", dotted, base + kind + "-ubyte.gz", dotted + ".gz"};
}

fs::path find_file(const fs::path& folder, const std::string& split, const std::string& kind) {
  std::error_code error;
  const std::vector<std::string> all = names(split, kind);
  for (const std::string& name : all) {
    if (fs::is_regular_file(folder / name, error)) return folder / name;
  }
  throw InputError(
      concat((folder / all[0]).string(), ": not found; this split needs it (", all[1], " or .gz is accepted, too)"));
}

struct IdxFile {
  IdxHeader header;
  std::vector<std::uint8_t> bytes;  // of the whole file
};

/// The length must match the header; a packed file is unpacked only so far.
IdxFile read_idx_file(const fs::path& file, std::size_t dimensions) {
  const std::string where = file.string();
  const bool packed = file.extension() == ".gz";
  IdxFile idx;
  if (packed) {
    idx.bytes = read_gzip(file, kMostHeader);
  } else {
    const std::string bytes = RegularFile(file).read();
    idx.bytes.assign(bytes.begin(), bytes.end());
  }
  idx.header = parse_idx_header(idx.bytes, where);
  const std::int64_t offset = idx.header.data_offset, values = idx.header.values;
  if (packed) {
    if (values > most_unpacked(file))
      throw InputError(concat(where, ": byte 4: its dimensions require ", values,
                              " bytes; the limit for unpacking is 256 MiB or 100 times the packed file. If this is "
                              "intended, unpack it with gunzip"));
    idx.bytes = read_gzip(file, offset + values + 1);
  }
  const std::int64_t there = static_cast<std::int64_t>(idx.bytes.size()) - offset;
  if (values != there)
    throw InputError(concat(where, ": byte ", offset, ": its dimensions require ", values, " bytes, but ",
                            packed && there > values ? "more" : std::to_string(there), " follow; download it again"));
  if (idx.header.dimensions.size() != dimensions)
    throw InputError(
        concat(where, ": byte 3: has ", idx.header.dimensions.size(), " dimensions, expected ", dimensions));
  return idx;
}

}  // namespace

IdxHeader parse_idx_header(std::span<const std::uint8_t> bytes, const std::string& where) {
  const auto fail = [&](std::size_t at, const std::string& what) {
    throw InputError(concat(where, ": byte ", at, ": ", what));
  };
  if (bytes.size() < 4) fail(bytes.size(), "the file ends within its magic number");
  if (bytes[0] != 0 || bytes[1] != 0) fail(0, "this is not an IDX file: its first two bytes are not 0");
  if (bytes[2] != kBytes)
    fail(2, concat("values have type ", int{bytes[2]}, "; only type 8, unsigned bytes, is supported"));
  const std::size_t dimensions = bytes[3];
  if (dimensions == 0 || dimensions > kMostDimensions)
    fail(3, concat(dimensions, " dimensions; expected 1 to ", kMostDimensions));
  IdxHeader header;
  header.data_offset = static_cast<std::int64_t>(4 + 4 * dimensions);
  if (bytes.size() < 4 + 4 * dimensions) fail(bytes.size(), "the file ends within its dimensions");
  header.values = 1;
  for (std::size_t d = 0; d < dimensions; ++d) {
    const std::size_t at = 4 + 4 * d;
    std::int64_t extent = 0;
    for (std::size_t b = 0; b < 4; ++b) extent = extent << 8 | bytes[at + b];
    if (extent == 0) fail(at, "a dimension is 0");
    if (header.values > kMostValues / extent) fail(at, "the dimensions exceed any file size");
    header.values *= extent;
    header.dimensions.push_back(extent);
  }
  return header;
}

static bool has_idx(const fs::path& folder) {
  std::error_code error;
  for (const char* split : {"train", "test"}) {
    for (const std::string& name : names(split, "images-idx3")) {
      if (fs::is_regular_file(folder / name, error)) return true;
    }
  }
  return false;
}

static std::vector<std::string> idx_classes(const fs::path& folder, const std::string& dataset) {
  std::error_code error;
  if (!fs::exists(folder / "classes.txt", error)) {
    for (const Named& named : named_sets()) {
      if (dataset == named.dataset) return named.classes;
    }
  }
  return read_class_names(folder / "classes.txt");
}

ImageSet read_idx(const fs::path& folder, const SliceRequest& request) {
  const std::string& split = request.slice.split;
  if (split != "train" && split != "test")
    throw InputError(concat("split ", in_quotes(split), ": the splits of IDX files are \"train\" and \"test\" (t10k)"));
  const fs::path image_file = find_file(folder, split, "images-idx3"),
                 label_file = find_file(folder, split, "labels-idx1");
  const auto [header, pixels] = read_idx_file(image_file, 3);
  const auto [label_header, label_bytes] = read_idx_file(label_file, 1);
  const std::int64_t count = header.dimensions[0];
  if (label_header.dimensions[0] != count)
    throw InputError(concat(label_file.string(), ": byte 4: ", label_header.dimensions[0], " labels for the ", count,
                            " images of ", image_file.filename().string()));
  ImageSet images;
  images.class_names = idx_classes(folder, request.dataset);
  images.num_classes = static_cast<std::int64_t>(images.class_names.size());
  images.height = header.dimensions[1];
  images.width = header.dimensions[2];
  images.channels = 1;
  if (images.height > kMostSide || images.width > kMostSide)
    throw InputError(concat(image_file.string(), ": byte 8: images of ", images.width, "x", images.height,
                            " pixels; the limit is ", kMostSide, " per side"));
  const auto first_number = static_cast<std::int32_t>(request.numbers.from.value_or(0));
  std::vector<std::int32_t> labels;
  for (std::int64_t i = 0; i < count; ++i) {
    const std::int64_t at = label_header.data_offset + i;
    const std::int32_t label = label_bytes[static_cast<std::size_t>(at)];
    labels.push_back(label - first_number);
    if (labels.back() < 0 || labels.back() >= images.num_classes)
      throw InputError(concat(label_file.string(), ": byte ", at, ": label ", label, " of image ", i, " is not ",
                              first_number == 0 ? "below " : "from 1 to ", images.num_classes,
                              ", the number of classes",
                              label == images.num_classes ? "; if labels count from 1, set \"labels_from\": 1" : ""));
  }
  const auto chosen = select_images(request.slice, request.subset, request.dataset, labels, images.class_names);
  const std::size_t digits = std::max<std::size_t>(6, std::to_string(count - 1).size());  // keeps keys in order
  for (const std::int64_t i : chosen) {
    images.keys.push_back(fmt::format("{}/{:0{}}", split, i, digits));
    images.labels.push_back(labels[static_cast<std::size_t>(i)]);
    const auto from = pixels.begin() + header.data_offset + i * images.image_bytes();
    images.pixels.insert(images.pixels.end(), from, from + images.image_bytes());
  }
  images.provenance =
      concat("IDX, ", folder.string(), ", ", request.slice.text, ": ", chosen.size(), " of ", count, " images");
  return images;
}

const LayoutRow kIdxLayout{
    .layout = DatasetLayout::idx,
    .expected =
        "train-images-idx3-ubyte, train-labels-idx1-ubyte, t10k-images-idx3-ubyte, t10k-labels-idx1-ubyte (or .gz)",
    .find = [](const fs::path& folder, const DatasetConfig&) -> std::optional<fs::path> {
      for (const fs::path& place : {folder, folder / "raw"})
        if (has_idx(place)) return place;
      return std::nullopt;
    },
    .splits = train_and_test,
    .classes = [](const DatasetConfig& config, const fs::path& folder) { return idx_classes(folder, config.name); },
    .read = [](const DatasetConfig&, const fs::path& folder, const std::string&,
               const SliceRequest& request) { return read_idx(folder, request); },
    .recognised = true};

}  // namespace normlab
