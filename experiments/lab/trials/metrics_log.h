// The files of an attempt that grow by lines. metrics.jsonl: one JSON object per line, {"step": 20, "progress": 0.1, "train/loss": 1.25}. It contains no
// times or speeds, so a resumed run writes the same bytes as an uninterrupted one.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/base/files.h"

namespace normlab {

struct MetricsLine {
  std::int64_t step = 0;                 // completed steps
  double progress = 0;                   // completed share of the training, 0 to 1
  std::map<std::string, double> values;  // "train/loss", "eval/accuracy", ...; NaN and infinities are allowed
  std::map<std::string, std::vector<double>> lists{};  // "stem_scale.gain", ...; null where a number is not finite
  bool operator==(const MetricsLine&) const = default;
};

class MetricsLog {
 public:
  /// Appends to the file, creating it if it is missing.
  explicit MetricsLog(const std::filesystem::path& path) : file_(path) {}
  /// One write. EnvironmentError if it fails; the file then ends with the previous line.
  void append(const MetricsLine& line);
  /// A checkpoint stores this as "normlab.metrics_bytes". Call sync() before saving that checkpoint.
  std::uint64_t bytes() const { return file_.bytes(); }
  void sync() { file_.sync(); }

 private:
  LineFile file_;
};

/// Why no training can produce this value: an accuracy outside 0 to 1, a loss below 0. "" if it is possible
/// or not finite.
std::string impossible(const std::string& metric, double value);

/// All lines; an incomplete last line (no newline) is dropped. InputError names the file, line and byte of a line that
/// is damaged, has an impossible value or step, or goes back in steps. Older versions wrote an accuracy beside a loss
/// that is not finite; it is returned as NaN.
std::vector<MetricsLine> read_metrics(const std::filesystem::path& path);
/// The same for the file's text.
std::vector<MetricsLine> parse_metrics(std::string_view text, const std::filesystem::path& path);

/// The same for one parsed line that follows `before`.
MetricsLine take_metrics_line(const nlohmann::json& json, const std::string& where,
                              const std::vector<MetricsLine>& before);

/// The name of the value that gives the step of a measurement whose line was written later, at the training's end.
inline constexpr const char* kMeasuredAt = "measured_at";
/// The lines with such measurements at their steps.
std::vector<MetricsLine> by_measured_step(std::vector<MetricsLine> lines);

/// The line as written to the file, without newline.
std::string metrics_text(const MetricsLine& line);

/// The last complete line, if any; earlier lines are not checked.
std::optional<MetricsLine> last_metrics_line(const std::filesystem::path& path);

/// The file times.jsonl: how long the epochs of an attempt took. Times differ from run to run, so no seal, hash or
/// comparison of results covers it, and a resumed trial begins another one.
inline constexpr const char* kTimesFile = "times.jsonl";

struct EpochTime {
  std::int64_t epoch = 0;         // from 1
  std::int64_t step = 0;          // completed steps of the training
  std::int64_t steps = 0;         // of them in this epoch and attempt, to which the times belong
  double seconds = 0;             // wall time, with evaluations and checkpoints
  double evaluation_seconds = 0;  // of them in evaluations
};

/// {"epoch": 2, "step": 16, "steps": 8, "seconds": 0.53, "evaluation_seconds": 0.11}, without newline.
std::string times_text(const EpochTime& time);

/// The file states.jsonl: hashes of everything that a checkpoint would hold, at some steps of an attempt. `normlab
/// verify` uses them to tell whether a repeated training gives the same bits.
inline constexpr const char* kStatesFile = "states.jsonl";

struct StateRecord {
  std::int64_t step = 0;             // completed steps
  std::string state;                 // tensors_hash() of a checkpoint of this state
  std::vector<std::string> tensors;  // the first kStateDigits of each tensor's SHA-256, in the order of state_names()
  bool operator==(const StateRecord&) const = default;
};

/// Enough to name the tensor that differs; equality is proved by `state`.
inline constexpr std::size_t kStateDigits = 8;

/// {"step": 50, "state": "...", "tensors": "the digits of all tensors, concatenated"}
std::string write_state_record(const StateRecord& record);
/// All lines of a states.jsonl; empty if there is no such file. An incomplete last line is dropped. InputError names
/// the file and line of a damaged one.
std::vector<StateRecord> read_state_records(const std::filesystem::path& path);

}  // namespace normlab
