#include "experiments/results/metrics_log.h"

#include <cmath>
#include <limits>
#include <string_view>

#include "core/error.h"
#include "experiments/results/strict_json.h"

namespace normlab {
namespace {

/// Versions before this one took what a network says that is not finite for an answer: an accuracy beside such a loss is
/// none.
void drop_answers_of_nonfinite(std::map<std::string, double>& values) {
  constexpr std::string_view kAccuracy = "accuracy";
  for (auto& [name, value] : values) {
    if (!name.ends_with(kAccuracy)) continue;
    const auto loss = values.find(name.substr(0, name.size() - kAccuracy.size()) + "loss");
    if (loss != values.end() && !std::isfinite(loss->second)) value = std::numeric_limits<double>::quiet_NaN();
  }
}

MetricsLine parse_line(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_strict_json(text, where);
  ObjectReader object(json, where);
  MetricsLine line{.step = object.integer("step"), .progress = object.number("progress"), .values = {}};
  nlohmann::json values = json;
  for (const char* key : {"step", "progress", "nonfinite"}) values.erase(key);
  line.values = take_numbers(values, object.optional("nonfinite"), where);
  drop_answers_of_nonfinite(line.values);
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
