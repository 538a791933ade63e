#include "experiments/lab/base/safetensors.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "core/dtype.h"
#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors_header.h"
#include "experiments/lab/base/sha256.h"

namespace normlab {
namespace {

constexpr const char* kFormatKey = "format";
static_assert(std::endian::native == std::endian::little, "tensors are copied byte by byte");

/// SHA-256 of what kHeaderHashKey covers. Excludes "format", which is for other programs and is added on writing.
std::string header_hash(std::map<std::string, std::string> metadata, const std::vector<TensorView>& tensors) {
  metadata.erase(kHeaderHashKey);
  metadata.erase(kFormatKey);
  nlohmann::json header{{kSafetensorsMetadata, metadata}};
  for (const TensorView& tensor : tensors) header[tensor.name] = {{"dtype", tensor.dtype}, {"shape", tensor.shape}};
  return sha256_hex(header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// A file from write_weights() before kHeaderHashKey existed: a checkpoint's tensors without the optimiser's, but with
/// the hash of all of them.
bool is_part_of_hashed(const SafetensorsFile& file, const std::filesystem::path& path) {
  const auto optimizers = [](const TensorView& tensor) { return tensor.name.starts_with("optimizer."); };
  return path.filename() == kWeightsFile && !file.metadata().contains(kHeaderHashKey) &&
         std::none_of(file.tensors().begin(), file.tensors().end(), optimizers);
}

}  // namespace

SafetensorsFile SafetensorsFile::read(const std::filesystem::path& path) {
  if (path.filename().string().ends_with(kSafetensorsIndexEnding)) return read_index(path);
  return parse(read_file(path), path.string());
}

SafetensorsFile SafetensorsFile::parse(std::string bytes, std::string file) {
  SafetensorsHeader header = read_safetensors_header(bytes, file);
  SafetensorsFile result;
  result.file_ = std::move(file);
  result.metadata_ = std::move(header.metadata);
  const auto kept = std::make_shared<const std::string>(std::move(bytes));
  const std::byte* data = reinterpret_cast<const std::byte*>(kept->data()) + header.data_begin;
  for (SafetensorsEntry& entry : header.tensors) {
    const std::uint64_t begin = entry.offsets[0], end = entry.offsets[1];
    result.index_[entry.name] = result.tensors_.size();
    result.tensors_.push_back({std::move(entry.name), std::move(entry.dtype), std::move(entry.shape),
                               std::span(data + begin, std::size_t(end - begin))});
  }
  result.bytes_.push_back(kept);
  return result;
}

const TensorView* SafetensorsFile::find(const std::string& name) const {
  const auto found = index_.find(name);
  return found == index_.end() ? nullptr : &tensors_[found->second];
}

const TensorView& SafetensorsFile::get(const std::string& name) const {
  const TensorView* tensor = find(name);
  if (tensor == nullptr) throw InputError(concat(file_, ": there is no tensor ", in_quotes(name)));
  return *tensor;
}

std::string write_safetensors_bytes(std::map<std::string, std::string> metadata, std::vector<TensorView> tensors) {
  metadata.try_emplace(kFormatKey, "pt");
  std::sort(tensors.begin(), tensors.end(), [](const TensorView& a, const TensorView& b) {
    return std::make_tuple(safetensors_dtype_rank(b.dtype), std::cref(a.name)) <
           std::make_tuple(safetensors_dtype_rank(a.dtype), std::cref(b.name));
  });
  std::uint64_t offset = 0;
  std::set<std::string> names{kSafetensorsMetadata};
  std::string header;
  try {
    header = concat("{\"", kSafetensorsMetadata, "\":", nlohmann::json(metadata).dump());
    for (const TensorView& tensor : tensors) {
      std::string problem;
      const auto bytes = safetensors_bytes(tensor.dtype, tensor.shape, problem);
      if (tensor.name.find('\0') != tensor.name.npos) problem = "a NUL in the name";
      if (!names.insert(tensor.name).second) problem = "this name is used twice or is reserved";
      if (bytes && *bytes != tensor.data.size())
        problem = concat("has ", tensor.data.size(), " bytes, its shape needs ", *bytes);
      if (!problem.empty())
        throw InputError(concat("tensor ", in_quotes(tensor.name), " cannot be written: ", problem));
      header += concat(',', nlohmann::json(tensor.name).dump(), ":{\"dtype\":\"", tensor.dtype,
                       "\",\"shape\":", nlohmann::json(tensor.shape).dump(), ",\"data_offsets\":[", offset, ',',
                       offset + tensor.data.size(), "]}");
      offset += tensor.data.size();
    }
  } catch (const nlohmann::json::type_error&) {
    throw InputError("a name or the metadata of a checkpoint is not valid UTF-8");
  }
  header += '}';
  header.append((8 - header.size() % 8) % 8, ' ');
  if (header.size() > kMaxSafetensorsHeader) throw InputError("a checkpoint's header would be over 100 MB");

  const std::uint64_t header_bytes = header.size();
  std::string bytes(kSafetensorsLengthBytes, '\0');
  bytes.reserve(kSafetensorsLengthBytes + header.size() + offset);
  std::memcpy(bytes.data(), &header_bytes, kSafetensorsLengthBytes);
  bytes += header;
  for (const TensorView& tensor : tensors)
    bytes.append(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  return bytes;
}

std::string hash_of_hashes(const std::map<std::string, std::string>& hashes) {
  Sha256 all;
  for (const auto& [name, hash] : hashes) all.update(concat(name, '=', hash, '\n'));
  return all.hex();
}

std::string tensors_hash(const std::vector<TensorView>& tensors) {
  std::map<std::string, std::string> hashes;
  for (const TensorView& tensor : tensors) hashes[tensor.name] = Sha256().update(tensor.data).hex();
  return hash_of_hashes(hashes);
}

std::string write_sealed_safetensors_bytes(std::map<std::string, std::string> metadata,
                                           std::vector<TensorView> tensors) {
  if (!metadata.contains(kStateHashKey)) metadata[kStateHashKey] = tensors_hash(tensors);
  metadata[kHeaderHashKey] = header_hash(metadata, tensors);
  return write_safetensors_bytes(std::move(metadata), std::move(tensors));
}

void save_sealed_safetensors(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                             std::vector<TensorView> tensors) {
  write_atomically(path, write_sealed_safetensors_bytes(std::move(metadata), std::move(tensors)));
}

void require_sealed_safetensors(const SafetensorsFile& file, const std::filesystem::path& path) {
  const auto require = [&](const char* key, const char* what, const auto& hash) {
    const auto stored = file.metadata().find(key);
    if (stored == file.metadata().end()) return;
    if (const std::string found = hash(); found != stored->second)
      throw InputError(concat(path.string(), ": is damaged: the SHA-256 of its ", what, " is ", found, ", but it was ",
                              stored->second, " when it was written; restore it from a copy"));
  };
  require(kHeaderHashKey, "metadata, names and shapes", [&] { return header_hash(file.metadata(), file.tensors()); });
  if (!is_part_of_hashed(file, path)) require(kStateHashKey, "tensors", [&] { return tensors_hash(file.tensors()); });
}

}  // namespace normlab
