#include "experiments/lab/trials/metrics_log.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/error.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/descriptor/tasks.h"

namespace normlab {
namespace {

/// Older versions accepted predictions that are not finite: an accuracy beside a loss that is not finite is invalid.
void drop_answers_of_nonfinite(std::map<std::string, double>& values) {
  constexpr std::string_view kAccuracy = "accuracy";
  for (auto& [name, value] : values) {
    if (!name.ends_with(kAccuracy)) continue;
    const auto loss = values.find(name.substr(0, name.size() - kAccuracy.size()) + "loss");
    if (loss != values.end() && !std::isfinite(loss->second)) value = std::numeric_limits<double>::quiet_NaN();
  }
}

MetricsLine take_line(const nlohmann::json& json, const std::string& where) {
  ObjectReader object(json, where);
  MetricsLine line{.step = object.integer("step"), .progress = object.number("progress"), .values = {}};
  nlohmann::json values = json;
  for (const char* key : {"step", "progress", "nonfinite"}) values.erase(key);
  for (const auto& [name, value] : json.items()) {
    if (!value.is_array()) continue;
    std::vector<double>& list = line.lists[name];
    for (const nlohmann::json& item : value) {
      if (!item.is_number() && !item.is_null()) object.fail(name, "expected a list of numbers");
      list.push_back(item.is_null() ? std::numeric_limits<double>::quiet_NaN() : item.get<double>());
    }
    values.erase(name);
  }
  line.values = take_numbers(values, object.optional("nonfinite"), where);
  if (line.step < 0) object.fail("step", concat(line.step, " is not a number of steps"));
  if (!(line.progress >= 0 && line.progress <= 1)) object.fail("progress", concat(line.progress, " is outside 0 to 1"));
  for (const auto& [name, value] : line.values)
    if (const std::string why = impossible(name, value); !why.empty()) object.fail(name, why);
  drop_answers_of_nonfinite(line.values);
  return line;
}

/// Calls `see` with each complete line, its number from 1 and its first byte.
template <class See>
void each_line(std::string_view text, const See& see) {
  std::size_t begin = 0, number = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    see(text.substr(begin, end - begin), ++number, begin);
}

StateRecord parse_record(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_strict_json(text, where);
  ObjectReader object(json, where);
  StateRecord record;
  record.step = object.integer("step");
  record.state = object.string("state");
  const std::string tensors = object.string("tensors");
  object.finish();
  if (tensors.size() % kStateDigits != 0) object.fail("tensors", "cut short");
  for (std::size_t at = 0; at < tensors.size(); at += kStateDigits)
    record.tensors.push_back(tensors.substr(at, kStateDigits));
  return record;
}

}  // namespace

std::string metrics_text(const MetricsLine& line) {
  nlohmann::ordered_json object{{"step", line.step}, {"progress", line.progress}};
  nlohmann::ordered_json nonfinite = nlohmann::ordered_json::object();
  put_numbers(object, line.values, nonfinite);
  for (const auto& [name, list] : line.lists) {
    nlohmann::ordered_json& items = object[name] = nlohmann::ordered_json::array();
    for (const double value : list) items.push_back(number_or_null(value));
  }
  if (!nonfinite.empty()) object["nonfinite"] = std::move(nonfinite);
  return object.dump();
}

void MetricsLog::append(const MetricsLine& line) { file_.append(metrics_text(line)); }

std::string impossible(const std::string& metric, double value) {
  constexpr double kRounding = 1e-6;  // tolerance for losses below 0
  if (is_share(metric) && (value < 0 || value > 1) && std::isfinite(value))
    return concat(value,
                  metric.ends_with("miou")      ? " is not a mean IoU"
                  : metric.ends_with("recall1") ? " is not a recall"
                                                : " is not an accuracy",
                  ", which is between 0 and 1");
  if (metric.ends_with("loss") && value < -kRounding && std::isfinite(value)) return concat(value, " is not a loss");
  return "";
}

MetricsLine take_metrics_line(const nlohmann::json& json, const std::string& where,
                              const std::vector<MetricsLine>& before) {
  MetricsLine line = take_line(json, where);
  if (!before.empty() && line.step < before.back().step)
    throw InputError(concat(where, ": step ", line.step, " comes after step ", before.back().step));
  return line;
}

std::vector<MetricsLine> by_measured_step(std::vector<MetricsLine> lines) {
  for (MetricsLine& line : lines)
    if (const auto at = line.values.find(kMeasuredAt); at != line.values.end()) {
      line.step = std::int64_t(at->second);
      line.values.erase(at);
    }
  std::stable_sort(lines.begin(), lines.end(), [](const auto& a, const auto& b) { return a.step < b.step; });
  return lines;
}

std::vector<MetricsLine> read_metrics(const std::filesystem::path& path) {
  return parse_metrics(read_file(path), path);
}

std::vector<MetricsLine> parse_metrics(std::string_view text, const std::filesystem::path& path) {
  std::vector<MetricsLine> lines;
  each_line(text, [&](std::string_view line, std::size_t number, std::size_t begin) {
    const std::string where = concat(path.string(), ':', number, ": line from byte ", begin);
    lines.push_back(take_metrics_line(parse_strict_json(line, where), where, lines));
  });
  return lines;
}

std::optional<MetricsLine> last_metrics_line(const std::filesystem::path& path) {
  for (std::uint64_t bytes = 4096;; bytes *= 16) {
    const auto text = read_end_if_there(path, bytes);
    if (!text) return std::nullopt;
    const bool whole = text->size() < bytes;
    const auto end = text->rfind('\n');
    const auto before = end == text->npos || end == 0 ? text->npos : text->rfind('\n', end - 1);
    if (before == text->npos && !whole) continue;  // the line begins earlier
    if (end == text->npos) return std::nullopt;
    const std::size_t begin = before == text->npos ? 0 : before + 1;
    const std::string where = concat(path.string(), ": last line");
    return take_line(parse_strict_json(std::string_view(*text).substr(begin, end - begin), where), where);
  }
}

std::string times_text(const EpochTime& time) {
  return nlohmann::ordered_json{{"epoch", time.epoch},
                                {"step", time.step},
                                {"steps", time.steps},
                                {"seconds", time.seconds},
                                {"evaluation_seconds", time.evaluation_seconds}}
      .dump();
}

std::string write_state_record(const StateRecord& record) {
  std::string tensors;
  for (const std::string& digits : record.tensors) tensors += digits;
  return nlohmann::ordered_json{{"step", record.step}, {"state", record.state}, {"tensors", tensors}}.dump();
}

std::vector<StateRecord> read_state_records(const std::filesystem::path& path) {
  std::vector<StateRecord> records;
  each_line(read_file_if_there(path).value_or(""), [&](std::string_view line, std::size_t number, std::size_t) {
    records.push_back(parse_record(line, concat(path.string(), ':', number)));
  });
  return records;
}

}  // namespace normlab
