// Any bytes as a shard, .tar or .tar.gz: its members and what a WebDataset makes of them, or an InputError. Mutations
// leave the checksums of headers right. A tar whose members are passed over has the same members as one that is read.
#include <optional>
#include <utility>

#include "core/error.h"
#include "experiments/lab/data/archive.h"
#include "experiments/lab/data/readers.h"
#include "tests/fuzz/repair.h"
#include "tests/fuzz/target.h"

using namespace normlab;
using namespace normlab::fuzz;

namespace {

struct Member {
  std::int64_t offset, data_offset, bytes;
  bool operator==(const Member&) const = default;
};
using Listing = std::vector<std::pair<std::string, Member>>;

/// All members; nothing where one is refused.
std::optional<Listing> members(const std::filesystem::path& file, bool contents) {
  Listing list;
  try {
    read_tar(
        file,
        [&](ArchiveMember m) {
          require(std::int64_t(m.content.size()) == (contents ? m.bytes : 0), "a member of another length");
          list.push_back({m.name, {m.offset, m.data_offset, m.bytes}});
        },
        [&](const std::string&) { return contents; });
  } catch (const InputError& error) {
    require(error.what()[0] != '\0', "an error without words");
    return std::nullopt;
  }
  return list;
}

void read_samples(const std::filesystem::path& folder) {
  SliceRequest request;
  request.slice = parse_slice("train");
  request.dataset = "fuzz";
  request.keep_encoded = true;
  ImageSet images;
  try {
    images = read_webdataset(folder, "", request);
  } catch (const InputError&) {
    return;
  }
  require(images.size() > 0 && images.keys.size() == images.labels.size(), "no images, or no label for one");
  for (std::int64_t i = 0; i < images.size(); ++i) {
    const auto at = static_cast<std::size_t>(i);
    require(images.labels[at] >= 0 && images.labels[at] < images.num_classes, "a label beyond the classes");
    require(i == 0 || images.keys[at - 1] < images.keys[at], "keys out of order");
    try {
      Bytes bytes;
      images.encoded->read(i, bytes);
    } catch (const InputError&) {
      require(false, "an image that was listed cannot be read");
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  folder.write("classes.txt", "ant\nbee\ncat\n");
  const bool packed = is_gzip(data, size);
  const std::filesystem::path file =
      folder.write(packed ? "train-000000.tar.gz" : "train-000000.tar", text_of(data, size));
  std::filesystem::remove(folder / (packed ? "train-000000.tar" : "train-000000.tar.gz"));
  const std::optional<Listing> read = members(file, true), passed_over = members(file, false);
  if (read && passed_over) require(*read == *passed_over, "other members where they are passed over");
  read_samples(folder.path());
  return 0;
}

extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t size, std::size_t max_size,
                                               unsigned seed) {
  return mutate_and_repair(data, size, max_size, seed, repair_tar);
}
