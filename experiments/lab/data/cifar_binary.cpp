#include <fmt/core.h>

#include <algorithm>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/data/readers.h"

namespace normlab {
namespace {

constexpr std::size_t kSide = 32, kPlane = kSide * kSide;

struct CifarFiles {
  const char* name;
  const char* class_names;
  std::size_t label;  // offset in a record; the pixels follow it
  std::vector<std::string> train, test;

  std::size_t record() const { return label + 1 + 3 * kPlane; }
  const std::vector<std::string>& files(const std::string& split) const {
    if (split == "train") return train;
    if (split == "test") return test;
    throw InputError(concat("split ", in_quotes(split), ": the splits of ", name, " are \"train\" and \"test\""));
  }
};
const CifarFiles& cifar10() {
  static const CifarFiles kFiles{"CIFAR-10",
                                 "batches.meta.txt",
                                 0,
                                 {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5"},
                                 {"test_batch"}};
  return kFiles;
}
const CifarFiles& cifar100() {
  static const CifarFiles kFiles{"CIFAR-100", "fine_label_names.txt", 1, {"train"}, {"test"}};
  return kFiles;
}

std::vector<std::uint8_t> read_file(const std::filesystem::path& file, std::size_t record) {
  const std::string text = RegularFile(file, "this split needs the file").read();
  std::vector<std::uint8_t> bytes(text.begin(), text.end());
  if (bytes.empty() || bytes.size() % record != 0) {
    throw InputError(concat(file.string(), ": ", bytes.size(), " bytes are not a whole number of records of ", record,
                            " bytes: byte ", bytes.size() / record * record,
                            " starts an incomplete one; download it again"));
  }
  return bytes;
}

bool has_file_of(const CifarFiles& set, const std::filesystem::path& folder) {
  std::error_code error;
  return std::filesystem::exists(folder / (set.train[0] + ".bin"), error) ||
         std::filesystem::exists(folder / (set.test[0] + ".bin"), error);
}

const CifarFiles& files_in(const std::filesystem::path& folder) {
  return has_file_of(cifar10(), folder) ? cifar10() : cifar100();
}

}  // namespace

static std::vector<std::string> cifar_classes(const std::filesystem::path& folder) {
  return read_class_names(folder / files_in(folder).class_names);
}

ImageSet read_cifar_binary(const std::filesystem::path& folder, const SliceRequest& request) {
  const CifarFiles& set = files_in(folder);
  ImageSet images;
  images.class_names = cifar_classes(folder);
  images.num_classes = static_cast<std::int64_t>(images.class_names.size());
  images.height = images.width = kSide;
  images.channels = 3;

  struct Record {
    std::string key;
    const std::uint8_t* bytes;
  };
  std::vector<std::vector<std::uint8_t>> files;
  std::vector<Record> records;
  for (const std::string& batch : set.files(request.slice.split)) {
    const std::filesystem::path file = folder / (batch + ".bin");
    files.push_back(read_file(file, set.record()));
    for (std::size_t r = 0; r < files.back().size() / set.record(); ++r) {
      const std::uint8_t* bytes = files.back().data() + r * set.record();
      if (bytes[set.label] >= images.num_classes) {
        throw InputError(concat(file.string(), ": record ", r, ", byte ", r * set.record() + set.label, ": label ",
                                int{bytes[set.label]}, " is not below ", images.num_classes,
                                ", the number of classes"));
      }
      records.push_back({fmt::format("{}/{:06}", batch, r), bytes + set.label});
    }
  }
  std::sort(records.begin(), records.end(), [](const Record& a, const Record& b) { return a.key < b.key; });

  std::vector<std::int32_t> labels;
  for (const Record& record : records) labels.push_back(record.bytes[0]);
  const auto chosen = select_images(request.slice, request.subset, request.dataset, labels, images.class_names);
  images.pixels.reserve(chosen.size() * 3 * kPlane);
  for (const std::int64_t index : chosen) {
    const Record& record = records[static_cast<std::size_t>(index)];
    images.keys.push_back(record.key);
    images.labels.push_back(record.bytes[0]);
    for (std::size_t p = 0; p < kPlane; ++p) {
      for (std::size_t c = 0; c < 3; ++c) images.pixels.push_back(record.bytes[1 + c * kPlane + p]);
    }
  }
  images.provenance = concat(set.name, " binary, ", folder.string(), ", ", request.slice.text, ": ", chosen.size(),
                             " of ", records.size(), " images");
  return images;
}

const LayoutRow kCifarLayout{
    .layout = DatasetLayout::cifar,
    .expected_of =
        [](const DatasetConfig& config) {
          const std::string ten = "data_batch_1.bin to data_batch_5.bin, test_batch.bin, batches.meta.txt",
                            hundred = "train.bin, test.bin, fine_label_names.txt";
          if (config.name == "cifar10") return concat("cifar-10-batches-bin/ with ", ten);
          if (config.name == "cifar100") return concat("cifar-100-binary/ with ", hundred);
          return concat(ten, " (CIFAR-10), or ", hundred, " (CIFAR-100)");
        },
    .find = [](const std::filesystem::path& folder,
               const DatasetConfig& config) -> std::optional<std::filesystem::path> {
      if (config.name != "cifar100")
        for (const auto& place : {folder, folder / "cifar-10-batches-bin"})
          if (has_file_of(cifar10(), place)) return place;
      if (config.name != "cifar10")
        for (const auto& place : {folder, folder / "cifar-100-binary"})
          if (has_file_of(cifar100(), place)) return place;
      return std::nullopt;
    },
    .splits = train_and_test,
    .classes = [](const DatasetConfig&, const std::filesystem::path& folder) { return cifar_classes(folder); },
    .read = [](const DatasetConfig&, const std::filesystem::path& folder, const std::string&,
               const SliceRequest& request) { return read_cifar_binary(folder, request); },
    .recognised = true};

}  // namespace normlab
