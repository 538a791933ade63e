// Checkpoints: the safetensors format, https://github.com/huggingface/safetensors, "Format". A u64 n, n bytes of JSON,
// then the tensors. The reader believes nothing in the file; equal content gives equal bytes on the way out.
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

/// A tensor that lies elsewhere. `dtype` is the format's word ("F32", "BF16", "I64"); the data are row-major, at any
/// alignment.
struct TensorView {
  std::string name;
  std::string dtype;
  std::vector<std::uint64_t> shape;  // outermost first; empty: a scalar
  std::span<const std::byte> data;
};

/// Ending of the file that says in which of several files each tensor of one model lies.
inline constexpr std::string_view kSafetensorsIndexEnding = ".safetensors.index.json";

/// A file in memory, checked, or all files of a model that is spread over several. Copies share the bytes, and the
/// views stay good as long as one copy lives: what happens to the file after it was read is of no concern.
class SafetensorsFile {
 public:
  /// EnvironmentError where it cannot be read, InputError ("FILE: byte N: \"TENSOR\": what") where it breaks a rule. A
  /// name that ends in kSafetensorsIndexEnding is read as such an index, with all the files beside it that it names:
  /// {"metadata": {"total_size": bytes}, "weight_map": {tensor: file}}. Tensors then stand file by file, and the
  /// metadata are those of all files together, which must not contradict each other.
  static SafetensorsFile read(const std::filesystem::path& path);
  /// The same for bytes at hand; `file` names them in errors.
  static SafetensorsFile parse(std::string bytes, std::string file);

  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  /// nullptr where there is none of that name.
  const TensorView* find(const std::string& name) const;
  /// In the order of the file.
  const std::vector<TensorView>& tensors() const { return tensors_; }
  /// The tensor of that name. InputError where there is none.
  const TensorView& get(const std::string& name) const;

 private:
  static SafetensorsFile read_index(const std::filesystem::path& path);
  std::string file_;
  std::vector<std::shared_ptr<const std::string>> bytes_;  // a file each
  std::map<std::string, std::string> metadata_;
  std::vector<TensorView> tensors_;
  std::map<std::string, std::size_t> index_;
};

/// The bytes of a file: widest dtypes first, then by name, the header padded to a multiple of 8. "format": "pt" is
/// added to the metadata where it says no format, since some Python loaders refuse files without it. InputError for a
/// tensor whose data do not fit its shape, a name twice or one that the format cannot hold.
std::string write_safetensors_bytes(std::map<std::string, std::string> metadata, std::vector<TensorView> tensors);

/// SHA-256, in hexadecimal, of a line "NAME=SHA-256 of the bytes" for each tensor, in the order of their names.
std::string tensors_hash(const std::vector<TensorView>& tensors);
/// The same from the hashes of the tensors' bytes, by name.
std::string hash_of_hashes(const std::map<std::string, std::string>& hashes);

/// Writes it atomically. EnvironmentError where that fails; an older file is then still there.
void save_safetensors(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                      std::vector<TensorView> tensors);

/// Metadata of files in our own format: tensors_hash() of the file's tensors, and SHA-256 of all else that the file
/// says (the other metadata, that hash among them; name, dtype and shape of each tensor).
inline constexpr const char* kStateHashKey = "normlab.state_sha256";
inline constexpr const char* kHeaderHashKey = "normlab.header_sha256";

/// A finished trial's weights and averages, without the optimiser's state: keep "weights".
inline constexpr const char* kWeightsFile = "weights.safetensors";

/// The same with both hashes. A kStateHashKey that is there already is taken as it is: who has just computed it need
/// not do so again.
void save_sealed_safetensors(const std::filesystem::path& path, std::map<std::string, std::string> metadata,
                             std::vector<TensorView> tensors);

/// Compares a file with the hashes that it carries; `path` names it in errors. InputError where one differs, with both.
/// Passed over: other programs' files, which carry none, and a kWeightsFile of the versions that left the hash of the
/// whole checkpoint in it.
void require_sealed_safetensors(const SafetensorsFile& file, const std::filesystem::path& path);

}  // namespace normlab
