// Imports weights of other programs and exports normlab's. Nothing is guessed, and tensors that do not fit are
// reported by name.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/resample.h"
#include "experiments/lab/weights/model_names.h"
#include "experiments/lab/weights/tensor_map.h"
#include "nn/model/resize_positions.h"

namespace normlab {

/// The outcome for a file's tensors. Names are the file's, except for those that the scheme has no name for.
struct ConversionReport {
  std::size_t matched = 0;
  std::vector<std::string> missing;                         // in the network, but not in the file
  std::vector<std::string> left_over;                       // in the file, but not in the network
  std::vector<std::string> left_out;                        // as asked, whether in the network or only in the file
  std::map<std::string, std::vector<std::string>> skipped;  // reason -> names that are known but not needed
  std::vector<std::string> notes;                           // one sentence each
  std::string positions;                                    // how positions were resized; "" if they were not

  /// A line of counts, then one line per missing or left-over name, per reason for skipping, and per note.
  std::string text() const;
};

struct ImportOptions {
  bool allow_missing = false;  // missing tensors keep their initial values
  bool allow_left_over = false;
  /// Patterns (LeaveOut) of parameters that keep their values, and of tensors that only the file has. Each must match.
  std::vector<std::string> leave_out{};
  std::optional<Resampling> resize_positions{};  // resamples a position table of another grid to the model's
  /// Of the file's positions, as its network states. Otherwise it is the model's or, if resized, a square.
  std::optional<PatchGrid> grid{};
};

/// What options are called where they come from, for messages.
struct OptionNames {
  std::string_view resize_positions, missing, left_over;
};
inline constexpr OptionNames kConvertNames{"--resize-positions resizes",
                                           "--allow-missing keeps the model's initial values for them",
                                           "--allow-left-over drops them"},
    kStartNames{"\"resize_positions\" resizes", "\"leave_out\" keeps the model's initial values for them",
                "\"leave_out\" drops them"};

/// Fills `into`, which `config` declared and initialise() may have filled, converting float64, float16 and bfloat16.
/// InputError lists every tensor of a wrong shape or type or refused by the scheme, the missing or left-over names
/// that are not allowed, a file without any name of the network (and a prefix that hides them), and a network whose
/// maths these names cannot express. `report` is complete even if names are the error.
void import_weights(const Tensors& file, NameScheme scheme, const ModelConfig& config, const ImportOptions& options,
                    ParameterSet& into, ConversionReport& report, const OptionNames& names = kConvertNames);

/// All tensors of the network under a scheme's names. InputError lists everything in the network that the other program
/// lacks, by site.
Tensors export_weights(const ParameterSet& weights, const ModelConfig& config, NameScheme scheme);

}  // namespace normlab
