// Reads and writes weight files, and determines their naming scheme and network. Nothing is guessed: the caller or the
// file must say.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "experiments/lab/weights/model_names.h"
#include "experiments/lab/weights/tensor_map.h"
#include "nn/model/resize_positions.h"

namespace normlab {

/// A file of weights and its metadata. An npz has no metadata.
struct WeightFile {
  Tensors tensors;
  std::map<std::string, std::string> metadata;
};

/// The progress of a training that had not ended; in the metadata of its checkpoint.
inline constexpr std::string_view kProgressKey = "normlab.progress";
/// The progress that the file states, or 1.
double stated_progress(const WeightFile& file);

/// Prefix of the names of averaged weights in a checkpoint.
inline constexpr std::string_view kAveragePrefix = "ema/";

/// Replaces the contents of `file` by the averaged weights, under their own names. InputError if it has none.
void take_average(WeightFile& file, const std::filesystem::path& path);

/// Reads a .safetensors, a .safetensors.index.json (a model in several files) or a .npz, by the extension. InputError
/// for another extension or an invalid file.
WeightFile read_weight_file(const std::filesystem::path& path);

/// InputError if the extension of `path` does not match the scheme's files.
void require_container(const std::filesystem::path& path, NameScheme scheme);

/// The naming scheme of the tensors: `given`, or "normlab.names" of the metadata. A file with only "normlab.model" has
/// normlab's names. InputError if neither says it, if the two differ, or if the kind of file does not fit. `option`:
/// what the user gives instead, such as the option of `given`.
NameScheme stated_names(const WeightFile& file, std::optional<NameScheme> given, std::string_view option = "--from");

/// "normlab.model" of the metadata.
std::optional<ModelConfig> recorded_model(const WeightFile& file);
/// The grid of patches of recorded_model(); none for a Swin.
std::optional<PatchGrid> recorded_grid(const WeightFile& file);

/// The network: `given` (a JSON text or the path of a JSON file) or recorded_model(). If both exist they must be the
/// same network in evaluation, except for the image size if positions are resized; initial values, drop rates and so on
/// may differ. The given one is then returned. `names`: of the file's tensors. InputError if neither says it.
ModelConfig stated_model(const WeightFile& file, const std::optional<std::string>& given, bool resizes_positions,
                         NameScheme names = NameScheme::normlab);

/// Reads a model's JSON from a text (which begins with a brace) or a file. Image size and number of classes are
/// required. `padding`: a Swin's window_padding if it is omitted. InputError with all problems.
ModelConfig read_model_option(const std::string& text_or_path, WindowPadding padding = {});

/// Fills `into` from a file with normlab's names; optimiser state is ignored. InputError as import_weights().
void load_weights(const std::filesystem::path& path, const ModelConfig& config, ParameterSet& into);

/// Metadata key: how positions were resized.
inline constexpr const char* kPositionsKey = "normlab.positions";

/// write_file_or_stream() (experiments/lab/base/files.h) with the tensors. A safetensors file also records the naming
/// scheme, the network and `metadata`.
void write_weight_file(const std::filesystem::path& path, const Tensors& tensors, NameScheme scheme,
                       const ModelConfig& config, std::map<std::string, std::string> metadata = {});

}  // namespace normlab
