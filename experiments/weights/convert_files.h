// Files of weights, and what is said of them: whose names they have and which network they are. Nothing is guessed: the
// caller says it or the file does.
#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "experiments/weights/model_names.h"
#include "experiments/weights/tensor_map.h"

namespace normlab {

/// A file of weights and what it says of itself. An npz says nothing.
struct WeightFile {
  Tensors tensors;
  std::map<std::string, std::string> metadata;
};

/// Before the name of an averaged weight in a checkpoint.
inline constexpr std::string_view kAveragePrefix = "ema/";

/// Leaves in `file` the averaged weights alone, under their own names. InputError where it has none.
void take_average(WeightFile& file, const std::filesystem::path& path);

/// Reads a .safetensors, the .safetensors.index.json of a model in several files, or a .npz; the ending decides.
/// InputError for another ending or a file that breaks its format.
WeightFile read_weight_file(const std::filesystem::path& path);

/// InputError where the ending of `path` is not that of the scheme's files.
void require_container(const std::filesystem::path& path, NameScheme scheme);

/// Whose names the tensors have: `given`, or what "normlab.names" of the metadata says; a file with "normlab.model"
/// alone has ours. InputError where nobody says it, the two differ, or the kind of file does not fit.
NameScheme stated_names(const WeightFile& file, std::optional<NameScheme> given);

/// Which network: `given` (a JSON text, or the path of a file with one) or "normlab.model" of the metadata. Where both
/// are there they must be the same network in evaluation; initial values, drop rates and the like may differ, and the
/// image size too where positions are resized. Then the given one is returned. InputError where nobody says it.
ModelConfig stated_model(const WeightFile& file, const std::optional<std::string>& given, bool resizes_positions);

/// Reads a model's JSON, a text (which begins with a brace) or a file's path. Image size and number of classes must be
/// there. InputError with all problems.
ModelConfig read_model_option(const std::string& text_or_path);

/// Fills `into` from a file with our names; state of an optimiser in it is passed over. InputError as import_weights().
void load_weights(const std::filesystem::path& path, const ModelConfig& config, ParameterSet& into);

/// Metadata key: how positions were resized.
inline constexpr const char* kPositionsKey = "normlab.positions";

/// Writes them; safetensors also say whose names they have, which network they are, and what `metadata` holds.
void write_weight_file(const std::filesystem::path& path, const Tensors& tensors, NameScheme scheme,
                       const ModelConfig& config, std::map<std::string, std::string> metadata = {});

}  // namespace normlab
