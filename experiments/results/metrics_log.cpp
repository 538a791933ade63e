#include "experiments/results/metrics_log.h"

#include <string_view>

#include "core/error.h"
#include "experiments/results/strict_json.h"

namespace normlab {
namespace {

MetricsLine parse_line(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_strict_json(text, where);
  ObjectReader object(json, where);
  MetricsLine line{.step = object.integer("step"), .progress = object.number("progress"), .values = {}};
  nlohmann::json values = json;
  for (const char* key : {"step", "progress", "nonfinite"}) values.erase(key);
  line.values = take_numbers(values, object.optional("nonfinite"), where);
  return line;
}

}  // namespace

void MetricsLog::append(const MetricsLine& line) {
  nlohmann::ordered_json object{{"step", line.step}, {"progress", line.progress}};
  nlohmann::ordered_json nonfinite = nlohmann::ordered_json::object();
  put_numbers(object, line.values, nonfinite);
  if (!nonfinite.empty()) object["nonfinite"] = std::move(nonfinite);
  file_.append(object.dump());
}

std::vector<MetricsLine> read_metrics(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  std::vector<MetricsLine> lines;
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    lines.push_back(parse_line(std::string_view(text).substr(begin, end - begin),
                               concat(path.string(), ':', lines.size() + 1, ": line from byte ", begin)));
  return lines;
}

std::optional<MetricsLine> last_metrics_line(const std::filesystem::path& path) {
  const auto file = read_file_if_there(path);
  if (!file) return std::nullopt;
  const std::string& text = *file;
  const auto end = text.rfind('\n');
  if (end == text.npos) return std::nullopt;
  const auto before = end == 0 ? text.npos : text.rfind('\n', end - 1);
  const std::size_t begin = before == text.npos ? 0 : before + 1;
  return parse_line(std::string_view(text).substr(begin, end - begin), concat(path.string(), ": last line"));
}

}  // namespace normlab
