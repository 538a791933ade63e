// The file result.json: the outcome of a trial, with everything that a table needs.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/words.h"

namespace normlab {

/// Size and SHA-256 of a file that a run writes, listed in its result, so that later changes are detected. Only the run
/// itself writes them.
struct FileSeal {
  std::uint64_t bytes = 0;
  std::string sha256;  // 64 hexadecimal digits
  bool operator==(const FileSeal&) const = default;
};
using FileSeals = std::map<std::string, FileSeal>;  // by file name

FileSeal seal_of(std::string_view bytes);
/// The same for a file, which may be larger than memory. EnvironmentError if it cannot be read.
FileSeal seal_of_file(const std::filesystem::path& path);

/// InputError if `found` is not `listed`; the message gives both sizes or both hashes, and what to do.
void require_seal(const std::filesystem::path& path, const FileSeal& found, const FileSeal& listed);

/// What a reader of a slice's metrics needs beside them.
struct EvaluatedSlice {
  std::int64_t images = 0;
  /// What the same answer to every image reaches, by metric without prefix (metrics/class_scores.h).
  std::map<std::string, double> guess;
  bool operator==(const EvaluatedSlice&) const = default;
};

/// By the slice that begins a metric's name: "eval", "minival", "train".
using EvaluatedSlices = std::map<std::string, EvaluatedSlice>;

/// A diverged trial is finished, since divergence is a finding about its placement. A failed trial is run again.
enum class TrialEnd : std::uint8_t { done, diverged, failed };
constexpr auto stated_words(TrialEnd) { return words<TrialEnd>("done", "diverged", "failed"); }

/// Metrics of a result: the mean training loss of the last 50 steps (loss_meaning.h), and the loss of the first step,
/// before any update. A diverged result has only the latter, and none if its first step diverged. Results of older
/// versions lack it.
inline constexpr const char *kTrainLoss = "train/loss", *kFirstLoss = "train/first_loss";
/// Metrics of the lines of a training: the base learning rate of the line's last step, and the norm of its gradient
/// before clipping, if it clips. Older versions wrote neither.
inline constexpr const char *kTrainRate = "train/lr", *kGradientNorm = "train/gradient_norm";

/// Site of a divergence that appears only in the evaluation.
inline constexpr const char* kEvaluationSite = "evaluation";

struct TrialResult {
  std::string id;  // SHA-256 of the canonical config
  TrialEnd status = TrialEnd::done;
  std::map<std::string, double> metrics;  // "eval/accuracy" in 0..1, "eval/loss", kTrainLoss; finite
  EvaluatedSlices slices;                 // of a done trial; older versions did not record them
  std::optional<std::string> message;     // why it failed or diverged
  std::optional<std::int64_t> diverged_step;
  std::optional<std::string> diverged_rule;        // "nonfinite" or "collapse"
  std::optional<std::string> diverged_site;        // nonfinite: site of the first such value, "blocks.0.mlp"
                                                   // or kEvaluationSite
  std::optional<double> diverged_value;            // the nonfinite value, or the loss; may be NaN or infinite
  std::int64_t steps = 0;                          // trained steps; 0: not recorded
  std::int64_t attempt = 0;                        // its folder holds metrics.jsonl and correct.bits; 0: not recorded
  std::optional<std::int64_t> stopped_early_step;  // the step after which the rule ended it; none: trained to the end
  std::optional<std::string> early_stop_rule;      // the rule in words, even if it never triggered
  std::uint64_t seed = 0;
  double wall_seconds = 0;  // of all attempts
  double images_per_second = 0;
  std::int64_t peak_mb = 0;  // MiB that the last attempt held at once (Memory::peak()); 0: not recorded
  std::map<std::string, std::string> provenance;  // version, flags, blas_core, blas_config, cpu, arithmetic, data_hash,
                                                  // threads, device, host, started
  std::int64_t resumed = 0;                       // number of resumes from a checkpoint
  bool different_bits = false;                    // resumed under another binary, BLAS core or instruction set
  /// Images left out of training and evaluation because they cannot be decoded, each with the reason. Not
  /// written if empty.
  std::vector<std::string> bad_images;
  /// Seals of the final files in the attempt's folder, to detect later changes.
  FileSeals files;
  /// False for a result of a version that kept no hashes: damage can go unnoticed. It is never sealed later.
  bool sealed = true;
  bool operator==(const TrialResult&) const = default;

  /// The provenance entry for this key, or null.
  const std::string* stated(const std::string& key) const {
    const auto found = provenance.find(key);
    return found == provenance.end() ? nullptr : &found->second;
  }
  /// The part of data_hash() for the evaluation images; "" if the result does not record it.
  std::string eval_hash() const;
};

/// InputError unless the name stays inside its folder; `what` begins the message.
void require_plain_name(std::string_view what, const std::string& name);

/// A result of a trial among several sources.
struct PlacedResult {
  const TrialResult& result;
  bool has_curve;
  std::string where;
};
/// InputError if both are finished results of one trial and differ in more than times, machines, metrics that only
/// eval.metrics adds, and losses that one of them measured otherwise (loss_meaning.h).
void require_same_result(const PlacedResult& a, const PlacedResult& b);
/// Whether `other` counts instead of `first`, a result of the same trial: a finished one before a failed one, then one
/// with a curve, then one with metrics that only eval.metrics adds. InputError as require_same_result().
bool counts_instead(const PlacedResult& other, const PlacedResult& first);

inline constexpr std::string_view kUnsealedWords =
    "written by a version that stored no hashes, so damage can go undetected";

/// Pretty-printed JSON with a final newline, sealed: "sha256" is the hash of everything else. InputError for a result
/// that was read unsealed.
std::string write_trial_result(const TrialResult& result);

/// The same for a parsed object; `where` names its place in errors.
TrialResult take_trial_result(const nlohmann::json& json, const std::string& where);
/// `file` names the text in errors. InputError for anything that the writer does not write, for impossible numbers, a
/// wrong hash, and a newer schema. Schema 1 has no seals. Older versions accepted metrics that are not finite: such a
/// result is returned without metrics and, if it says done, as diverged in its evaluation.
TrialResult parse_trial_result(std::string_view text, const std::string& file);

}  // namespace normlab
