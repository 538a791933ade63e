// result.json: what is left of a trial, and all that a table needs.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/words.h"
#include "experiments/results/seal.h"

namespace normlab {

/// A diverged trial is a finished one: it says something about its placement. A failed one is run again.
enum class TrialEnd : std::uint8_t { done, diverged, failed };

/// Where a trial diverged that no step has shown.
inline constexpr const char* kEvaluationSite = "evaluation";

struct TrialResult {
  std::string id;  // SHA-256 of the canonical config
  TrialEnd status = TrialEnd::done;
  std::map<std::string, double> metrics;  // "eval/accuracy" in 0..1, "eval/loss", "train/loss"; finite
  std::optional<std::string> message;     // why it failed or diverged
  std::optional<std::int64_t> diverged_step;
  std::optional<std::string> diverged_rule;        // "nonfinite" or "collapse"
  std::optional<std::string> diverged_site;        // nonfinite: "blocks.0.mlp" or wherever the first such value was;
                                                   // kEvaluationSite
  std::optional<double> diverged_value;            // that value, or the loss; may be NaN or infinite
  std::int64_t steps = 0;                          // that were trained; 0: not recorded
  std::int64_t attempt = 0;                        // whose folder holds metrics.jsonl and correct.bits; 0: not recorded
  std::optional<std::int64_t> stopped_early_step;  // after which the rule ended it; none: it went to its end
  std::optional<std::string> early_stop_rule;      // the rule in words, also where it never triggered
  std::uint64_t seed = 0;
  double wall_seconds = 0;  // of all attempts
  double images_per_second = 0;
  std::map<std::string, std::string> provenance;  // version, flags, blas_core, blas_config, cpu, arithmetic, data_hash,
                                                  // threads, device, host, started
  std::int64_t resumed = 0;                       // how often it went on from a checkpoint
  bool different_bits = false;                    // resumed under another binary, BLAS core or instruction set
  /// Images that were left out of training and evaluation because they cannot be decoded, each with the reason. Not
  /// written where there are none.
  std::vector<std::string> bad_images;
  /// Final files of the attempt's folder: a reader sees whether they are still those of this result.
  FileSeals files;
  /// False for a result of a version that kept no hashes: damage to it can go unseen. Nobody seals it later.
  bool sealed = true;
  bool operator==(const TrialResult&) const = default;

  /// What the provenance says under this key; null where it says nothing.
  const std::string* stated(const std::string& key) const {
    const auto found = provenance.find(key);
    return found == provenance.end() ? nullptr : &found->second;
  }
};

/// What is said of a result that has no seal.
inline constexpr std::string_view kUnsealedWords =
    "written by a version that stored no hashes, so damage can go undetected";

/// Pretty-printed JSON with a final newline, sealed: "sha256" is the hash of all else. InputError for a result that was
/// read unsealed.
std::string write_trial_result(const TrialResult& result);

/// The same of JSON that stands at `where`, in which the writer's object is.
TrialResult take_trial_result(const nlohmann::json& json, const std::string& where);
/// `file` names the text in errors. InputError for anything but what the writer writes, for numbers that no training
/// can give, for a hash that is not that of the text, and for a newer schema. Schema 1 has no seals.
/// Versions before this one took what a network says that is not finite for an answer: a result with such a metric
/// comes back without any, and as diverged in its evaluation where it says done.
TrialResult parse_trial_result(std::string_view text, const std::string& file);

}  // namespace normlab
