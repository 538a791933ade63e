// From a tree to a trial's settings. Every problem is noted with its place; reading goes on.
#pragma once

#include <array>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/descriptor/class_counts.h"
#include "experiments/descriptor/json_tree.h"
#include "experiments/descriptor/problems.h"

namespace normlab {

/// The named rows of nn/placement.h and those of a descriptor's "placements".
class PlacementRows {
 public:
  PlacementRows() = default;
  /// `rows` is the value of "placements"; it must outlive this. A row may be based on any other.
  PlacementRows(const JsonNode& rows, Problems& problems);

  /// As a ViT has it; nullptr for an unknown name.
  const Placement* find(std::string_view name) const;
  std::vector<std::string_view> names() const;

 private:
  friend class FieldReader;
  enum class State : std::uint8_t { unread, reading, read };
  struct Reading {
    State state = State::unread;
    Placement placement{};
  };
  /// Read once for each kind of model, whose norms have defaults of their own.
  struct Row {
    const JsonMember* member = nullptr;
    std::array<Reading, 2> readings{};
    Reading& of(ModelKind kind) { return readings[std::size_t(kind)]; }
  };
  void read(Row& row, ModelKind kind, Problems& problems);
  std::map<std::string, Row, std::less<>> rows_;
};

/// descriptor: sizes left out come from the dataset, and must be given for one that is not known.
/// canonical: a text written by canonical_json or full_json; sizes left out are the struct's defaults.
enum class ReadMode : std::uint8_t { descriptor, canonical };

/// `root` holds "dataset", "model", "train" and, where canonical, "schema" and "seed"; anything else is an unknown key.
/// Every problem goes to `problems`; the settings returned are of use only if there was none. `classes` is asked where
/// a descriptor leaves num_classes to a data set that is not known by its name; without it that is a problem.
TrialConfig read_trial(const JsonNode& root, PlacementRows& rows, ReadMode mode, Problems& problems,
                       const ClassCounts& classes = nullptr);

/// Notes keys and values that are wrong whatever a sweep puts in their place. `root` as for a descriptor's trial.
void check_values(const JsonNode& root, PlacementRows& rows, Problems& problems);

/// The "model" object alone, as canonical_model_json writes it.
ModelConfig read_model(const JsonNode& model, PlacementRows& rows, Problems& problems);

CheckpointConfig read_checkpoint(const JsonNode& node, Problems& problems);

/// One placement: a name, or an object of sites with an optional base.
Placement read_placement(const JsonNode& node, PlacementRows& rows, Problems& problems);

/// How a placement given as an object is labelled: "pre_pre + stem.patch_in=layer_norm"; a name is its own label.
std::string placement_label(const JsonNode& node, PlacementRows& rows);

}  // namespace normlab
