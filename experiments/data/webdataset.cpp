#include <algorithm>
#include <cctype>
#include <set>

#include "core/error.h"
#include "experiments/data/archive.h"
#include "experiments/data/jpeg.h"
#include "experiments/data/parallel.h"
#include "experiments/data/readers.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShardDigits = 6;
constexpr std::int64_t kMaxBytes = 64ll << 30;  // of decoded pixels: all of them are held in memory

struct Sample {
  std::string key;  // of the shard's own, without the shard
  std::string image_name;
  std::vector<std::uint8_t> image;
  std::int32_t label = -1;
  std::set<std::string> extensions;
};

struct Shard {
  fs::path file;
  std::string name;  // "train-000000"
  std::vector<Sample> samples;
};

/// "train-000000" of "train-000000.tar" or ".tar.gz"; empty for any other name.
std::string shard_stem(const std::string& name) {
  for (const std::string ending : {".tar.gz", ".tar"}) {
    if (name.size() > ending.size() && name.compare(name.size() - ending.size(), ending.size(), ending) == 0) {
      return name.substr(0, name.size() - ending.size());
    }
  }
  return {};
}

std::string numbered(const std::string& split, std::size_t number) {
  std::string digits = std::to_string(number);
  return split + "-" + std::string(digits.size() < kShardDigits ? kShardDigits - digits.size() : 0, '0') + digits;
}

std::vector<Shard> find_shards(const fs::path& folder, const std::string& split) {
  std::vector<Shard> shards;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string stem = shard_stem(entry.path().filename().string());
    if (stem.rfind(split + "-", 0) == 0) shards.push_back({entry.path(), stem, {}});
  }
  if (error) throw InputError(concat(folder.string(), ": cannot be listed: ", error.message()));
  if (shards.empty()) {
    throw InputError(concat(folder.string(), ": holds no shard of split \"", split, "\": expected ", numbered(split, 0),
                            ".tar (or .tar.gz), ", numbered(split, 1), ".tar, ..."));
  }
  std::sort(shards.begin(), shards.end(), [](const Shard& a, const Shard& b) { return a.file < b.file; });
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (i > 0 && shards[i].name == shards[i - 1].name) {
      throw InputError(concat(shards[i].file.string(), ": this shard is there twice, as .tar and as .tar.gz"));
    }
    if (shards[i].name != numbered(split, i)) {
      throw InputError(concat((folder / (numbered(split, i) + ".tar")).string(),
                              ": this shard is missing; the next one is ", shards[i].file.filename().string()));
    }
  }
  return shards;
}

std::int32_t parse_label(const ArchiveMember& member, std::int64_t num_classes, const std::string& where) {
  std::string text(member.content.begin(), member.content.end());
  const auto space = [](unsigned char c) { return std::isspace(c) != 0; };
  text.erase(std::find_if_not(text.rbegin(), text.rend(), space).base(), text.end());
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), space));
  const bool digits = !text.empty() && text.size() <= 9 &&
                      std::all_of(text.begin(), text.end(), [](unsigned char c) { return std::isdigit(c) != 0; });
  if (!digits) throw InputError(concat(where, "a label is a decimal number, got \"", text.substr(0, 40), "\""));
  const int label = std::stoi(text);
  if (label >= num_classes) {
    throw InputError(concat(where, "label ", label, " is not below ", num_classes, ", the classes in classes.txt"));
  }
  return label;
}

/// Takes the members of one shard as they come and puts samples together.
class SampleBuilder {
 public:
  SampleBuilder(Shard& shard, std::int64_t num_classes) : shard_(shard), num_classes_(num_classes) {}

  void add(ArchiveMember member) {
    if (is_metadata(member.name)) return;
    const std::string where =
        concat(shard_.file.string(), ": byte ", member.offset, ", member \"", member.name, "\": ");
    const std::size_t slash = member.name.rfind('/');
    const std::size_t file = slash == std::string::npos ? 0 : slash + 1;
    const std::size_t dot = member.name.find('.', file);
    if (dot == std::string::npos || dot == file) throw InputError(concat(where, "the name is not key.extension"));
    begin(member.name.substr(0, dot), where);
    std::string extension = member.name.substr(dot + 1);
    std::transform(extension.begin(), extension.end(), extension.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    Sample& sample = shard_.samples.back();
    if (!sample.extensions.insert(extension).second) {
      throw InputError(concat(where, "sample \"", sample.key, "\" already has a .", extension));
    }
    if (extension == "cls") {
      sample.label = parse_label(member, num_classes_, where);
    } else if (extension == "jpg" || extension == "jpeg") {
      if (!sample.image_name.empty())
        throw InputError(concat(where, "sample \"", sample.key, "\" already has an image"));
      sample.image_name = std::move(member.name);
      sample.image = std::move(member.content);
    } else if (extension == "png") {
      throw InputError(concat(where, "PNG images are not read; convert them to JPEG"));
    } else if (extension != "json" && extension != "txt" && extension != "npy") {
      throw InputError(concat(where, "unknown extension .", extension,
                              "; known are jpg, jpeg and cls (json, txt and npy are ", "allowed and not read)"));
    }
  }

  void end() const {
    if (shard_.samples.empty()) return;
    const Sample& sample = shard_.samples.back();
    const char* missing = sample.image_name.empty() ? ".jpg" : sample.label < 0 ? ".cls" : nullptr;
    if (missing != nullptr) {
      throw InputError(concat(shard_.file.string(), ": sample \"", sample.key, "\" has no ", missing));
    }
  }

 private:
  static bool is_metadata(const std::string& name) {  // "__name__" or what lies in such a folder
    const std::string first = name.substr(0, name.find('/'));
    return first.size() > 4 && first.compare(0, 2, "__") == 0 && first.compare(first.size() - 2, 2, "__") == 0;
  }

  void begin(const std::string& key, const std::string& where) {
    if (!shard_.samples.empty() && shard_.samples.back().key == key) return;
    end();
    if (!keys_.insert(key).second) {
      throw InputError(
          concat(where, "key \"", key, "\" comes back after other samples; pack a sample's members together"));
    }
    shard_.samples.emplace_back();
    shard_.samples.back().key = key;
  }

  Shard& shard_;
  std::int64_t num_classes_;
  std::set<std::string> keys_;
};

void read_shard(Shard& shard, std::int64_t num_classes) {
  SampleBuilder builder(shard, num_classes);
  read_tar(shard.file, [&](ArchiveMember member) { builder.add(std::move(member)); });
  builder.end();
  if (shard.samples.empty()) throw InputError(concat(shard.file.string(), ": holds no sample"));
}

struct Ordered {
  std::string key;
  const Shard* shard;
  const Sample* sample;
  std::string where() const { return concat(shard->file.string(), ": member \"", sample->image_name, "\""); }
};

std::vector<Ordered> sorted_samples(const std::vector<Shard>& shards) {
  std::vector<Ordered> samples;
  for (const Shard& shard : shards) {
    for (const Sample& sample : shard.samples) samples.push_back({shard.name + "/" + sample.key, &shard, &sample});
  }
  std::sort(samples.begin(), samples.end(), [](const Ordered& a, const Ordered& b) { return a.key < b.key; });
  return samples;
}

}  // namespace

bool has_webdataset(const fs::path& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string stem = shard_stem(entry.path().filename().string());
    const std::size_t dash = stem.rfind('-');
    if (dash != std::string::npos && stem.substr(dash + 1) == std::string(kShardDigits, '0')) return true;
  }
  return false;
}

ImageSet read_webdataset(const fs::path& folder, const Slice& slice, const std::string& dataset, int threads) {
  ImageSet images;
  images.class_names = read_class_names(folder / "classes.txt");
  images.num_classes = static_cast<std::int64_t>(images.class_names.size());
  std::vector<Shard> shards = find_shards(folder, slice.split);
  parallel_items(static_cast<std::int64_t>(shards.size()), 1, threads, [&](std::size_t, std::int64_t i) {
    read_shard(shards[static_cast<std::size_t>(i)], images.num_classes);
  });

  const std::vector<Ordered> samples = sorted_samples(shards);
  const std::vector<std::int64_t> chosen = slice_indices(slice, dataset, static_cast<std::int64_t>(samples.size()));
  const auto sample = [&](std::size_t i) -> const Ordered& { return samples[static_cast<std::size_t>(chosen[i])]; };
  const Ordered& first = sample(0);
  const JpegSize size = JpegDecoder().size(first.sample->image.data(), first.sample->image.size(), first.where());
  images.height = size.height;
  images.width = size.width;
  images.channels = 3;
  if (images.image_bytes() > kMaxBytes / static_cast<std::int64_t>(chosen.size())) {
    throw InputError(
        concat(folder.string(), ": ", chosen.size(), " images of ", size.width, "x", size.height,
               " pixels do not fit the 64 GiB that a set may take in memory; take a slice or shrink them"));
  }
  images.pixels.resize(chosen.size() * static_cast<std::size_t>(images.image_bytes()));
  images.labels.resize(chosen.size());
  images.keys.resize(chosen.size());
  std::vector<JpegDecoder> decoders(static_cast<std::size_t>(std::max(threads, 1)));
  parallel_items(static_cast<std::int64_t>(chosen.size()), 64, threads, [&](std::size_t worker, std::int64_t item) {
    const auto i = static_cast<std::size_t>(item);
    const Ordered& from = sample(i);
    images.keys[i] = from.key;
    images.labels[i] = from.sample->label;
    decoders[worker].decode(from.sample->image.data(), from.sample->image.size(), size, from.where(),
                            images.pixels.data() + item * images.image_bytes());
  });
  images.provenance = concat("WebDataset, ", folder.string(), ", ", slice.text, ": ", chosen.size(), " of ",
                             samples.size(), " images from ", shards.size(), " shards, ", JpegDecoder::version());
  return images;
}

}  // namespace normlab
