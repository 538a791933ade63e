// The TensorBoard event file of a trial: the numbers of metrics.jsonl as scalars. The format is TensorFlow's TFRecord
// (length, masked CRC-32C, bytes, masked CRC-32C) around messages of event.proto and summary.proto, encoded by hand.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <vector>

#include "experiments/lab/trials/metrics_log.h"

namespace normlab {

/// CRC-32C (Castagnoli), RFC 3720 appendix B.4.
std::uint32_t crc32c(std::string_view bytes);

/// One TFRecord around `bytes`.
std::string tf_record(std::string_view bytes);

/// An Event message with one scalar per value. `wall_time`: seconds since 1970.
std::string scalar_event(const MetricsLine& line, double wall_time);

class EventFile {
 public:
  static constexpr const char* kName = "events.out.tfevents.normlab";
  /// Creates the folder and a new file in it, starting with the lines `before`, so that a resumed trial's file has no
  /// step twice. Constructor and append(): EnvironmentError if the file cannot be written.
  EventFile(const std::filesystem::path& folder, const std::vector<MetricsLine>& before);
  void append(const MetricsLine& line);

 private:
  void write(const std::string& record);
  std::filesystem::path path_;
  std::ofstream file_;
};

}  // namespace normlab
