// Checkpoints in the safetensors format (https://github.com/huggingface/safetensors, "Format"): a u64 n, n bytes of
// JSON, then the tensors. Reading validates everything; equal content is written as equal bytes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace normlab {

/// A tensor stored elsewhere. `dtype` is the format's word ("F32", "BF16", "I64"); data are
/// row-major, at any alignment.
struct TensorView {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;  // outermost first; empty: a scalar
  std::span<const std::byte> data;
};

/// Suffix of the index that maps each tensor of a model to one of several files.
inline constexpr std::string_view kSafetensorsIndexEnding = ".safetensors.index.json";

/// A validated file, or all files of a sharded model, in memory. Copies share the bytes; views are valid
/// while one copy lives.
class SafetensorsFile {
 public:
  /// EnvironmentError if unreadable; InputError ("FILE: byte N: \"TENSOR\": what") for a broken rule. A name that ends
  /// in kSafetensorsIndexEnding is an index {"metadata": {"total_size": bytes}, "weight_map": {tensor: file}} of files
  /// beside it; tensors are then ordered by file, and metadata are merged without contradictions.
  static SafetensorsFile read(const std::filesystem::path& path);
  /// The same for bytes in memory; `file` names them in errors.
  static SafetensorsFile parse(std::string bytes, std::string file);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// nullptr if there is no such tensor.
  const TensorView* find(const std::string& name) const;
  /// In file order.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  /// InputError if there is no such tensor.
  const TensorView& get(const std::string& name) const;

 private:
  static SafetensorsFile read_index(const std::filesystem::path& path);
  std::string file_;
  std::vector<std::shared_ptr<const std::string>> bytes_;  // one per file
  std::map<std::string, std::string> metadata_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::size_t> index_;
};

/// The files that an index lists, sorted. InputError as SafetensorsFile::read().
std::vector<std::filesystem::path> safetensors_files(const std::filesystem::path& index);

/// SHA-256 of a file of weights; of a model in several files, that of the index and of each of them. InputError if a
/// file cannot be read.
std::string weights_sha256(const std::filesystem::path& path);

/// The bytes of a file: widest dtypes first, then by name; the header is padded to a multiple of 8. Adds "format": "pt"
/// unless the metadata have a format, since some Python loaders require it. InputError for data that do not match the
/// shape, a duplicate name, or a name that the format cannot hold.
std::string write_safetensors_bytes(std::map<std::string, std::string> metadata, std::vector<TensorView> tensors);

/// Hexadecimal SHA-256 over one line "NAME=SHA-256 of the bytes" per tensor, in name order.
std::string tensors_hash(const std::vector<TensorView>& tensors);
/// The same, from the hashes of the tensors' bytes by name.
std::string hash_of_hashes(const std::map<std::string, std::string>& hashes);

/// Metadata of normlab's own files: tensors_hash(), and SHA-256 of everything else (other metadata, including the first
/// hash; name, dtype and shape of each tensor).
inline constexpr const char* kStateHashKey = "normlab.state_sha256";
inline constexpr const char* kHeaderHashKey = "normlab.header_sha256";

/// A finished trial's weights and averages without the optimiser's state (keep "weights").
inline constexpr const char* kWeightsFile = "weights.safetensors";

/// write_safetensors_bytes() with both hashes. A kStateHashKey already in the metadata is not computed again.
std::string write_sealed_safetensors_bytes(std::map<std::string, std::string> metadata,
                                           std::vector<TensorView> tensors);
/// Writes these atomically. EnvironmentError on failure, which keeps an existing file.
void save_sealed_safetensors(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                             std::vector<TensorView> tensors);

/// Compares a file with its own hashes; InputError with both if one differs. `path` names it in errors. Skips files of
/// other programs, and a kWeightsFile from older versions, which has the hash of the whole checkpoint.
void require_sealed_safetensors(const SafetensorsFile& file, const std::filesystem::path& path);

}  // namespace normlab
