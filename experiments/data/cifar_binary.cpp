#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "experiments/data/readers.h"

namespace normlab {
namespace {

constexpr std::size_t kSide = 32, kPlane = kSide * kSide, kRecord = 1 + 3 * kPlane;

std::vector<std::string> batches(const std::string& split) {
  if (split == "train") return {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"};
  if (split == "test") return {"test_batch"};
  throw InputError(concat("split \"", split, "\": CIFAR-10 has \"train\" and \"test\""));
}

std::vector<std::uint8_t> read_file(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  if (!in) throw InputError(concat(file.string(), ": cannot be read; the split needs this file"));
  std::vector<std::uint8_t> bytes{std::istreambuf_iterator<char>(in), std::istreambuf_iterator<char>()};
  if (bytes.empty() || bytes.size() % kRecord != 0) {
    throw InputError(concat(file.string(), ": ", bytes.size(), " bytes are not a whole number of records of ", kRecord,
                            " bytes: byte ", bytes.size() / kRecord * kRecord,
                            " begins a broken one; download it again"));
  }
  return bytes;
}

std::string record_key(const std::string& batch, std::size_t record) {
  const std::string number = std::to_string(record);
  return batch + "/" + std::string(number.size() < 6 ? 6 - number.size() : 0, '0') + number;
}

}  // namespace

bool has_cifar_binary(const std::filesystem::path& folder) {
  return std::filesystem::exists(folder / "data_batch_1.bin") || std::filesystem::exists(folder / "test_batch.bin");
}

ImageSet read_cifar_binary(const std::filesystem::path& folder, const Slice& slice, const std::string& dataset) {
  ImageSet images;
  images.class_names = read_class_names(folder / "batches.meta.txt");
  images.num_classes = static_cast<std::int64_t>(images.class_names.size());
  images.height = images.width = kSide;
  images.channels = 3;

  struct Record {
    std::string key;
    const std::uint8_t* bytes;
  };
  std::vector<std::vector<std::uint8_t>> files;
  std::vector<Record> records;
  for (const std::string& batch : batches(slice.split)) {
    const std::filesystem::path file = folder / (batch + ".bin");
    files.push_back(read_file(file));
    for (std::size_t r = 0; r < files.back().size() / kRecord; ++r) {
      const std::uint8_t* bytes = files.back().data() + r * kRecord;
      if (bytes[0] >= images.num_classes) {
        throw InputError(concat(file.string(), ": record ", r, ", byte ", r * kRecord, ": label ", int{bytes[0]},
                                " is not below ", images.num_classes, ", the number of classes"));
      }
      records.push_back({record_key(batch, r), bytes});
    }
  }
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) { return a.key < b.key; });

  const auto chosen = slice_indices(slice, dataset, static_cast<std::int64_t>(records.size()));
  images.pixels.reserve(chosen.size() * 3 * kPlane);
  for (const std::int64_t index : chosen) {
    const Record& record = records[static_cast<std::size_t>(index)];
    images.keys.push_back(record.key);
    images.labels.push_back(record.bytes[0]);
    for (std::size_t p = 0; p < kPlane; ++p) {
      for (std::size_t c = 0; c < 3; ++c) images.pixels.push_back(record.bytes[1 + c * kPlane + p]);
    }
  }
  images.provenance = concat("CIFAR-10 binary, ", folder.string(), ", ", slice.text, ": ", chosen.size(), " of ",
                             records.size(), " images");
  return images;
}

}  // namespace normlab
