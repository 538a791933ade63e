// metrics.jsonl: one JSON object a line, {"step": 20, "progress": 0.1, "train/loss": 1.25}. Times and speeds have no
// place here: a resumed run writes the same bytes as one that never stopped.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/base/files.h"

namespace normlab {

struct MetricsLine {
  std::int64_t step = 0;                 // steps that are done
  double progress = 0;                   // share of the training that is done, 0 to 1
  std::map<std::string, double> values;  // "train/loss", "eval/accuracy", ...; NaN and infinities are allowed
  bool operator==(const MetricsLine&) const = default;
};

class MetricsLog {
 public:
  /// Appends to the file, creating it where it is missing.
  explicit MetricsLog(const std::filesystem::path& path) : file_(path) {}
  /// One write. EnvironmentError where it fails; the file then ends with the line before.
  void append(const MetricsLine& line);
  /// What a checkpoint stores as "normlab.metrics_bytes". Call sync() before that checkpoint is saved.
  std::uint64_t bytes() const { return file_.bytes(); }
  void sync() { file_.sync(); }

 private:
  LineFile file_;
};

/// Why a training cannot have measured this: an accuracy outside 0 to 1, a loss below 0. "" where it can, and for what
/// is not finite.
std::string impossible(const std::string& metric, double value);

/// All lines; a torn last one (no newline) is dropped. InputError names file, line and byte of a line that is damaged,
/// has a value or a step that cannot be, or goes back in steps. An accuracy
/// beside a loss that is not finite comes back as NaN, as older versions did not write it.
std::vector<MetricsLine> read_metrics(const std::filesystem::path& path);
/// The same of the file's text.
std::vector<MetricsLine> parse_metrics(std::string_view text, const std::filesystem::path& path);

/// The same of a line that was parsed and stands behind `before`.
MetricsLine take_metrics_line(const nlohmann::json& json, const std::string& where,
                              const std::vector<MetricsLine>& before);

/// A line as the file has it, without newline.
std::string metrics_text(const MetricsLine& line);

/// The last whole line; those before it are not looked at. None where there is none yet.
std::optional<MetricsLine> last_metrics_line(const std::filesystem::path& path);

}  // namespace normlab
