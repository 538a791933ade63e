// Reads a trial's settings from a tree. Problems are collected with their places.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/descriptor/config.h"
#include "experiments/lab/descriptor/json_tree.h"
#include "experiments/lab/descriptor/norm_formulas.h"
#include "experiments/lab/descriptor/problems.h"

namespace normlab {

class FieldReader;

/// The placements of nn/model/placement.h and of a descriptor's "placements", and the norms of its "norms".
class PlacementRows {
 public:
  PlacementRows() = default;
  /// `norms` is the value of "norms". `rows` is that of "placements" and must outlive this. Rows may be based on each
  /// other. Either may be null.
  PlacementRows(const JsonNode* norms, const JsonNode* rows, Problems& problems);

  /// Uses other "norms", as a sweep may set them, from now on.
  void use_norms(const JsonNode* norms, Problems& problems);
  const NamedFormulas& norms() const { return norms_; }

  /// For a ViT; nullptr for an unknown name.
  const Placement* find(std::string_view name) const;
  std::vector<std::string_view> names() const;
  /// Reads the placement that `name` names, for the reader's kind of model.
  void take(const JsonNode& name, FieldReader& in, Placement& out);

 private:
  std::map<std::string, const JsonMember*, std::less<>> rows_;
  NamedFormulas norms_;
  /// Read once per kind of model, since norm defaults differ; none: being read.
  std::map<std::pair<std::string, ModelKind>, std::optional<Placement>> read_;
};

/// descriptor: omitted sizes come from the dataset, and must be given for an unknown one. canonical: a text from
/// canonical_json or full_json; omitted sizes are the struct's defaults. block: a part of a descriptor that describes the
/// experiment and no trial.
enum class ReadMode : std::uint8_t { descriptor, canonical, block };

/// `root` holds "dataset", "model", "train" and, if canonical, "schema" and "seed". The result is valid only if no
/// `problems` were added. `classes` counts classes if a descriptor omits num_classes for a dataset not known by name;
/// without it that is a problem.
TrialConfig read_trial(const JsonNode& root, PlacementRows& rows, ReadMode mode, Problems& problems,
                       const ClassCounts& classes = nullptr);

/// Reports keys and values that are wrong whatever values a sweep sets. `root` as for a descriptor's trial.
void check_values(const JsonNode& root, PlacementRows& rows, Problems& problems);

/// canonical: as canonical_model_json writes it. descriptor: of a command line; sizes have the struct's defaults.
ModelConfig read_model(const JsonNode& model, PlacementRows& rows, ReadMode mode, Problems& problems);

/// A descriptor's "dataset" from a command line: a name, or JSON. `option` names it in errors. InputError with all
/// problems.
DatasetConfig read_dataset_option(const std::string& text, const std::string& option);

/// A norm from a command line: a formula, or the JSON of one with parameters. Throws as above.
NormSpec read_formula_option(const std::string& text, const std::string& option);

/// "pre_pre + stem.patch_in=layer_norm" for an object; a name is its own label.
std::string placement_label(const JsonNode& node, PlacementRows& rows);

}  // namespace normlab
