#include <fmt/core.h>

#include <algorithm>
#include <atomic>
#include <cctype>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/parallel.h"
#include "experiments/lab/data/archive.h"
#include "experiments/lab/data/image_files.h"
#include "experiments/lab/data/label_reading.h"
#include "experiments/lab/data/readers.h"
#include "experiments/lab/data/shard_names.h"
#include "experiments/lab/data/text_lines.h"
#include "experiments/lab/metrics/zero_shot.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kShardDigits = 6;
constexpr std::int64_t kMostHeld = std::int64_t{4} << 30;  // for packed shards, whose images cannot be read in place

struct Shard {
  std::string file;  // relative to the folder
  std::string name;  // "train-000000"
  std::vector<ImageEntry> samples;
};

bool packed(const std::string& file) { return fs::path(file).extension() == ".gz"; }

/// "train-000000" for "train-000000.tar" or ".tar.gz"; else empty.
std::string shard_stem(const std::string& name) {
  for (const std::string ending : {".tar.gz", ".tar"}) {
    if (name.size() > ending.size() && name.ends_with(ending)) return name.substr(0, name.size() - ending.size());
  }
  return {};
}

std::string numbered(const std::string& split, std::size_t number) {
  return fmt::format("{}-{:0{}}", split, number, kShardDigits);
}

std::vector<Shard> find_shards(const fs::path& folder, const std::string& split) {
  std::vector<Shard> shards;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string stem = shard_stem(entry.path().filename().string());
    if (stem.rfind(split + "-", 0) == 0) shards.push_back({entry.path().filename().string(), stem, {}});
  }
  if (error) throw InputError(concat(folder.string(), ": cannot be listed: ", error.message()));
  if (shards.empty()) {
    throw InputError(concat(folder.string(), ": holds no shard of split ", in_quotes(split), ": expected ",
                            numbered(split, 0), ".tar (or .tar.gz), ", numbered(split, 1), ".tar, ..."));
  }
  std::sort(shards.begin(), shards.end(), [](const Shard& a, const Shard& b) { return a.file < b.file; });
  for (std::size_t i = 0; i < shards.size(); ++i) {
    if (i > 0 && shards[i].name == shards[i - 1].name) {
      throw InputError(concat(visible_line((folder / shards[i].file).string()),
                              ": this shard exists twice, as .tar and as .tar.gz"));
    }
    if (shards[i].name != numbered(split, i)) {
      throw InputError(concat((folder / (numbered(split, i) + ".tar")).string(),
                              ": this shard is missing; the next one is ", shards[i].file));
    }
  }
  return shards;
}

std::vector<Shard> named_shards(const fs::path& folder, const std::string& names) {
  std::vector<Shard> shards;
  std::set<std::string> stems;
  for (std::string& file : expand_shard_names(names)) {
    const std::string stem = shard_stem(file), path = (folder / file).string();
    if (stem.empty())
      throw InputError(concat("shards ", in_quotes(names), ": ", in_quotes(file), " does not end in .tar or .tar.gz"));
    std::error_code error;
    if (!fs::is_regular_file(path, error)) throw InputError(concat(path, ": this shard is missing"));
    if (!stems.insert(stem).second) throw InputError(concat(path, ": this shard exists twice, as .tar and as .tar.gz"));
    shards.push_back({std::move(file), stem, {}});
  }
  return shards;
}

/// Labels count from `from`.
std::int32_t parse_label(const ArchiveMember& member, std::int64_t num_classes, std::int64_t from,
                         const std::string& where) {
  std::string text(member.content.begin(), member.content.end());
  const auto space = [](unsigned char c) { return std::isspace(c) != 0; };
  text.erase(std::find_if_not(text.rbegin(), text.rend(), space).base(), text.end());
  text.erase(text.begin(), std::find_if_not(text.begin(), text.end(), space));
  const std::optional<std::int64_t> label = small_number(text);
  if (!label) throw InputError(concat(where, "a label must be a decimal number, got ", in_quotes(text.substr(0, 40))));
  if (*label < from || *label - from >= num_classes) {
    const std::string bounds = from == 0 ? concat("below ", num_classes) : concat("from 1 to ", num_classes);
    throw InputError(concat(where, "label ", *label, " is not ", bounds, ", the number of classes in classes.txt",
                            *label == num_classes ? "; if labels count from 1, set \"labels_from\": 1" : ""));
  }
  return static_cast<std::int32_t>(*label - from);
}

/// "jpg" for "a/b.JPG": the part after the file name's first dot; empty if the name is not key.extension.
std::string extension_of(const std::string& name) {
  const std::size_t slash = name.rfind('/'), file = slash == std::string::npos ? 0 : slash + 1;
  const std::size_t dot = name.find('.', file);
  if (dot == std::string::npos || dot == file) return {};
  return lower_case(name.substr(dot + 1));
}

bool is_image(const std::string& extension) { return extension == "jpg" || extension == "jpeg" || extension == "png"; }

/// Of a sample, where nothing reads it.
bool is_passed_over(const std::string& extension) {
  return extension == "json" || extension == "txt" || extension == "npy" || extension == "cls";
}

/// Files that folders pass over, too: ._a.jpg, .DS_Store and what is in __MACOSX. But .jpg is an image without a key.
bool is_hidden(const std::string& name) {
  const fs::path path = name;
  const std::string file = path.filename().string(), after_dot = extension_of("x" + file);
  const bool lacks_key = is_image(after_dot) || is_passed_over(after_dot);
  return (is_hidden_name(file) && !lacks_key) ||
         std::any_of(path.begin(), path.end(), [](const fs::path& part) { return part == kMacFolder; });
}

class SampleBuilder {
 public:
  SampleBuilder(const fs::path& file, std::vector<ImageEntry>& samples, std::int64_t num_classes,
                const SliceRequest& request)
      : file_(file),
        samples_(samples),
        num_classes_(num_classes),
        request_(request),
        masks_(request.masks != MaskLabels::none) {}

  void add(ArchiveMember member) {
    if (is_metadata(member.name) || is_hidden(member.name)) return;
    const std::string where =
        concat(file_.string(), ": byte ", member.offset, ", member ", in_quotes(member.name), ": ");
    const std::string extension = extension_of(member.name);
    if (extension.empty()) throw InputError(concat(where, "the name is not key.extension"));
    begin(member.name.substr(0, member.name.size() - extension.size() - 1), where);
    ImageEntry& sample = samples_.back();
    if (!extensions_.insert(extension).second) {
      throw InputError(concat(where, "sample ", in_quotes(sample.key), " already has a .", shown(extension)));
    }
    if (masks_ && extension == "png") {
      sample.mask = std::make_shared<ImageEntry>(entry_of(std::move(member), sample.key));
      sample.label = 0;
    } else if (extension == "cls" && !masks_) {
      sample.label = parse_label(member, num_classes_, request_.numbers.from.value_or(0), where);
    } else if (is_image(extension)) {
      if (!sample.member.empty())
        throw InputError(concat(where, "sample ", in_quotes(sample.key), " already has an image"));
      ImageEntry image = entry_of(std::move(member), sample.key);
      image.label = sample.label;
      image.mask = std::move(sample.mask);
      image.caption = std::move(sample.caption);
      sample = std::move(image);
    } else if (extension == "txt" && request_.captions) {
      sample.caption = without_byte_order_mark(std::string(member.content.begin(), member.content.end()));
      if (plain_text(sample.caption).empty())
        throw InputError(concat(where, "the caption is empty; write a text, or leave the sample out"));
    } else if (!is_passed_over(extension)) {
      throw InputError(concat(where, "unknown extension .", shown(extension),
                              "; expected jpg, jpeg, png or cls (json, txt and npy are ignored)"));
    }
  }

  void end() const {
    if (samples_.empty()) return;
    ImageEntry& sample = samples_.back();
    if (sample.label < 0 && request_.captions && !request_.labelled) sample.label = 0;
    const char* missing = sample.member.empty()                         ? ".jpg"
                          : sample.label < 0                            ? (masks_ ? ".png" : ".cls")
                          : request_.captions && sample.caption.empty() ? ".txt"
                                                                        : nullptr;
    if (missing != nullptr) {
      throw InputError(concat(file_.string(), ": sample ", in_quotes(sample.key), " has no ", missing,
                              masks_ && sample.label < 0 ? ", its mask" : ""));
    }
  }

 private:
  static ImageEntry entry_of(ArchiveMember member, const std::string& key) {
    ImageEntry entry{.key = key};
    entry.member = std::move(member.name);
    entry.offset = member.data_offset;
    entry.bytes = member.bytes;
    entry.content = std::move(member.content);
    return entry;
  }

  static bool is_metadata(const std::string& name) {  // "__name__", or a file in such a folder
    const std::string first = name.substr(0, name.find('/'));
    return first.size() > 4 && first.starts_with("__") && first.ends_with("__");
  }

  void begin(const std::string& key, const std::string& where) {
    if (!samples_.empty() && samples_.back().key == key) return;
    end();
    if (!keys_.insert(key).second) {
      throw InputError(concat(where, "key ", in_quotes(key),
                              " occurs again after other samples; pack the members of a sample together"));
    }
    samples_.emplace_back();
    samples_.back().key = key;
    extensions_.clear();
  }

  const fs::path& file_;
  std::vector<ImageEntry>& samples_;
  std::int64_t num_classes_;
  const SliceRequest& request_;
  bool masks_;  // a .png is the mask of a sample
  std::set<std::string> keys_, extensions_;
};

void read_shard(const fs::path& folder, Shard& shard, std::int64_t num_classes, const SliceRequest& request,
                std::atomic<std::int64_t>& held) {
  const fs::path file = folder / shard.file;
  const bool hold = packed(shard.file);
  SampleBuilder builder(file, shard.samples, num_classes, request);
  const auto wants = [&](const std::string& name) {
    if (is_hidden(name)) return false;
    const std::string extension = extension_of(name);
    return extension == "cls" || (request.captions && extension == "txt") || (hold && is_image(extension));
  };
  const auto visit = [&](ArchiveMember member) {
    if (hold && (held += static_cast<std::int64_t>(member.content.size())) > kMostHeld)
      throw InputError(concat(file.string(), ": the images of .tar.gz shards are held in memory, and these exceed ",
                              kMostHeld >> 30, " GiB; unpack the shards with gunzip"));
    builder.add(std::move(member));
  };
  read_tar(file, visit, wants);
  builder.end();
  if (shard.samples.empty()) throw InputError(concat(file.string(), ": holds no samples"));
}

}  // namespace

std::vector<std::string> webdataset_splits(const fs::path& folder) {
  std::set<std::string> splits;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string stem = shard_stem(entry.path().filename().string());
    const std::size_t dash = stem.rfind('-');
    if (!is_hidden_name(stem) && dash != std::string::npos && stem == numbered(stem.substr(0, dash), 0))
      splits.insert(stem.substr(0, dash));
  }
  return {splits.begin(), splits.end()};
}

ImageSet read_webdataset(const fs::path& folder, const std::string& shard_names, const SliceRequest& request) {
  ImageIndex index{"WebDataset", folder, {}, listed_classes({}, folder), {}};
  std::vector<Shard> shards =
      shard_names.empty() ? find_shards(folder, request.slice.split) : named_shards(folder, shard_names);
  std::atomic<std::int64_t> held{0};
  parallel_items(static_cast<std::int64_t>(shards.size()), 1, request.threads, [&](std::size_t, std::int64_t i) {
    read_shard(folder, shards[static_cast<std::size_t>(i)], static_cast<std::int64_t>(index.class_names.size()),
               request, held);
  });
  for (Shard& shard : shards) {
    for (ImageEntry& sample : shard.samples) {
      sample.key = shard.name + "/" + sample.key;
      sample.archive = static_cast<std::int32_t>(index.archives.size());
      if (sample.mask) sample.mask->archive = sample.archive;
      index.entries.push_back(std::move(sample));
    }
    shard.samples.clear();
    index.archives.push_back(shard.file);
  }
  return load_images(std::move(index), request);
}

const LayoutRow kWebdatasetLayout{
    .layout = DatasetLayout::webdataset,
    .expected = "classes.txt and shards train-000000.tar, ..., test-000000.tar (or .tar.gz)",
    .find = [](const fs::path& folder, const DatasetConfig& config) -> std::optional<fs::path> {
      const bool there = config.train_shards.empty() ? !webdataset_splits(folder).empty() : is_folder(folder);
      return there ? std::optional(folder) : std::nullopt;
    },
    .splits = [](const fs::path& folder) { return training_first(webdataset_splits(folder)); },
    .classes = listed_classes,
    .read = [](const DatasetConfig&, const fs::path& folder, const std::string& shard_names,
               const SliceRequest& request) { return read_webdataset(folder, shard_names, request); },
    .recognised = true};

}  // namespace normlab
