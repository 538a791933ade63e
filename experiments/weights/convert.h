// Weights of other programs in, and ours out. Nothing is guessed, and what fits nowhere is reported by name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/resample.h"
#include "experiments/weights/model_names.h"
#include "experiments/weights/tensor_map.h"

namespace normlab {

/// What became of a file's tensors. Names are the file's, but for what the scheme cannot name.
struct ConversionReport {
  std::size_t matched = 0;
  std::vector<std::string> missing;                         // the network has it, the file does not
  std::vector<std::string> left_over;                       // the file has it, the network does not
  std::map<std::string, std::vector<std::string>> skipped;  // known, and of no use here: names by the reason
  std::vector<std::string> notes;                           // one sentence each
  std::string positions;                                    // how positions were resized, or ""

  /// A line of counts, then one line for each name that is missing or left over, for each reason to skip some, and for
  /// each note.
  std::string text() const;
};

struct ImportOptions {
  bool allow_missing = false;  // initial values stay where the file has none
  bool allow_left_over = false;
  std::optional<Resampling> resize_positions{};  // takes a table of another (square) grid to the model's
};

/// Fills `into`, which `config` declared and initialise() may have filled. Tensors in float64, float16 and bfloat16 are
/// converted. InputError with every tensor of a wrong shape or type, or that the scheme refuses by name, with the names
/// that are missing or left over and not allowed to be, and for a network that means other maths than these names.
/// `report` is complete also where missing or left-over names are the error.
void import_weights(const Tensors& file, NameScheme scheme, const ModelConfig& config, const ImportOptions& options,
                    ParameterSet& into, ConversionReport& report);

/// All tensors of the network under a scheme's names. InputError with everything about the network that the other
/// program lacks, by site.
Tensors export_weights(const ParameterSet& weights, const ModelConfig& config, NameScheme scheme);

}  // namespace normlab
