// The weights that a training starts from instead of random values.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/field.h"
#include "experiments/lab/descriptor/json_tree.h"

namespace normlab {

/// ema: the averaged weights of a checkpoint.
enum class StartWeights : std::uint8_t { last, ema };
constexpr auto stated_words(StartWeights) { return words<StartWeights>("last", "ema"); }

/// How a position table of another grid is resized; the other words are those of Resampling.
enum class StartPositions : std::uint8_t { same, bilinear, bilinear_antialias, corners, bicubic, bicubic_antialias };
constexpr auto stated_words(StartPositions) {
  return words<StartPositions>("same", "bilinear", "bilinear_antialias", "corners", "bicubic", "bicubic_antialias");
}

/// Whose names the tensors of a file have (NameScheme).
enum class StartNames : std::uint8_t { stated, normlab, timm, big_vision, augreg };
constexpr auto stated_words(StartNames) {
  return words<StartNames>("stated", "normlab", "timm", "big_vision", "augreg");
}

struct StartRule {
  StartWeights weights = StartWeights::last;
  std::vector<std::string> leave_out{"auto"};
  StartPositions resize_positions = StartPositions::same;
  StartNames names = StartNames::stated;
  bool operator==(const StartRule&) const = default;
};
template <std::derived_from<StartRule> T>
constexpr auto start_rule_rows() {
  return std::tuple{
      field("weights", &T::weights, "the last weights, or the averaged weights (ema) of a training with train.ema"),
      field("leave_out", &T::leave_out,
            "what keeps random initial values, as in train.freeze; \"auto\", the default, is the head if "
            "the number of classes differs"),
      field("resize_positions", &T::resize_positions,
            "how learned positions of another grid are resized; Big Vision uses corners, timm "
            "bicubic_antialias; same: another grid is an error"),
      field("names", &T::names, "of a file: the program whose tensor names it has; stated: the file says it")};
}

/// Where the weights are, as a descriptor says it.
struct StartFrom {
  std::string descriptor{};  // relative to the file that says so; "": this one
  JsonNode row = json_object();
  std::optional<std::uint64_t> seed{};
};

/// As part of a trial's settings: what identifies the weights, and how they are taken. Both ids are empty without a
/// start, and at most one is set.
struct StartConfig : StartRule {
  std::string trial{};   // id of the trial that trains the weights
  std::string sha256{};  // of the file
  bool given() const { return !trial.empty() || !sha256.empty() || !file.empty() || from; }

  // From the descriptor; no part of the identity.
  std::string file{};
  std::optional<StartFrom> from{};
  Position at{};  // of the path, or of the whole object; without a source if there is no "start"

  bool operator==(const StartConfig& other) const {
    return StartRule::operator==(other) && trial == other.trial && sha256 == other.sha256;
  }
};
template <std::same_as<StartConfig> T>
constexpr auto rows_of(const T*) {
  return std::tuple_cat(std::tuple{field("trial", &T::trial, "id of the trial that trains the weights"),
                                   field("sha256", &T::sha256, "SHA-256 of the file of weights")},
                        start_rule_rows<T>());
}

/// As a descriptor writes it.
struct StartKeys : StartRule {
  std::string file{};
  StartFrom from{};
  std::string sha256{};
};
template <std::same_as<StartFrom> T>
constexpr auto rows_of(const T*) {
  return std::tuple{field("descriptor", &T::descriptor,
                          "path of the other descriptor, relative to this file; this descriptor if omitted")};
}
template <std::same_as<StartKeys> T>
constexpr auto rows_of(const T*) {
  return std::tuple_cat(
      std::tuple{field("file", &T::file, "a file of weights that `normlab convert` reads, relative to this descriptor"),
                 field("from", &T::from,
                       "a row of this or another descriptor, whose trial is trained first if it has no result: "
                       "{\"descriptor\": path, \"row\": {axis: value}, \"seed\": n}; axes that are omitted "
                       "have this row's values, and the seed is this trial's"),
                 field("sha256", &T::sha256, "of `file`, to read results where the file is not")},
      start_rule_rows<T>());
}

}  // namespace normlab
