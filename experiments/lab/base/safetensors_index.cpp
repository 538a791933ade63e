// Sharded models: `X.safetensors.index.json` beside `X-00001-of-00003.safetensors`, ...
#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/base/safetensors_header.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/base/strict_json.h"

namespace normlab {
namespace {

/// An index from an untrusted source must not reach other folders.
void require_plain_name(const std::string& index, const std::string& tensor, const std::string& file) {
  if (file.empty() || file == "." || file.find_first_of(std::string_view("/\\\0", 3)) != file.npos ||
      file.find("..") != file.npos)
    throw InputError(concat(index, ": weight_map: ", in_quotes(tensor), ": ", in_quotes(file),
                            " is not the plain name of a file in the same folder"));
}

struct Index {
  nlohmann::json document;
  std::map<std::string, std::string> weight_map;
  const nlohmann::json* metadata = nullptr;       // in `document`
  std::map<std::string, std::size_t> tensors_of;  // file -> number of tensors that the index assigns to it
};

std::unique_ptr<Index> load_index(const std::filesystem::path& path) {
  const std::string index = path.string(), text = RegularFile(path).read();
  if (text.size() > kMaxSafetensorsHeader)
    throw InputError(concat(index, ": ", text.size(), " bytes are over the limit of ", kMaxSafetensorsHeader));
  auto out = std::make_unique<Index>();
  out->document = parse_strict_json(text, index);
  ObjectReader reader(out->document, index);
  out->weight_map = reader.strings("weight_map");
  out->metadata = reader.optional("metadata");
  reader.finish();
  if (out->weight_map.empty()) reader.fail("weight_map", "names no tensor");
  for (const auto& [tensor, file] : out->weight_map) {
    require_plain_name(index, tensor, file);
    ++out->tensors_of[file];
  }
  return out;
}

}  // namespace

std::vector<std::filesystem::path> safetensors_files(const std::filesystem::path& index) {
  std::vector<std::filesystem::path> files;
  const std::unique_ptr<Index> loaded = load_index(index);
  for (const auto& [file, count] : loaded->tensors_of) files.push_back(index.parent_path() / file);
  return files;
}

std::string weights_sha256(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  if (!path.string().ends_with(kSafetensorsIndexEnding)) return sha256_hex(text);
  Sha256 hash;
  hash.update(text);
  for (const std::filesystem::path& file : safetensors_files(path)) hash.update(sha256_hex(read_file(file)));
  return hash.hex();
}

SafetensorsFile SafetensorsFile::read_index(const std::filesystem::path& path) {
  const std::string index = path.string();
  const std::unique_ptr<Index> loaded = load_index(path);
  const auto& weight_map = loaded->weight_map;
  const nlohmann::json* const metadata = loaded->metadata;
  SafetensorsFile result;
  result.file_ = index;
  std::uint64_t total = 0;
  for (const auto& [file, count] : loaded->tensors_of) {
    SafetensorsFile shard = parse(RegularFile(path.parent_path() / file).read(), (path.parent_path() / file).string());
    require_sealed_safetensors(shard, shard.file_);
    for (TensorView& tensor : shard.tensors_) {
      const auto entry = weight_map.find(tensor.name);
      if (entry == weight_map.end() || entry->second != file)
        throw InputError(
            concat(shard.file_, ": ", in_quotes(tensor.name), ": ", index, " does not place this tensor here"));
      total += tensor.data.size();
      result.index_[tensor.name] = result.tensors_.size();
      result.tensors_.push_back(std::move(tensor));
    }
    if (shard.tensors_.size() != count)
      for (const auto& [tensor, place] : weight_map)
        if (place == file && shard.find(tensor) == nullptr)
          throw InputError(
              concat(shard.file_, ": there is no tensor ", in_quotes(tensor), ", which ", index, " places here"));
    for (const auto& [key, value] : shard.metadata_)
      if (result.metadata_.try_emplace(key, value).first->second != value)
        throw InputError(
            concat(shard.file_, ": its metadata has another ", in_quotes(key), " than the files before it"));
    result.bytes_.push_back(shard.bytes_.front());
  }
  if (metadata != nullptr) {
    ObjectReader sizes(*metadata, index + ": metadata");
    if (sizes.has("total_size") && sizes.unsigned_integer("total_size") != total)
      sizes.fail("total_size", concat("is ", sizes.unsigned_integer("total_size"), ", the tensors have ", total,
                                      " bytes; the files do not match the index"));
  }
  return result;
}

}  // namespace normlab
