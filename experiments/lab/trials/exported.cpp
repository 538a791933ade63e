#include "experiments/lab/trials/exported.h"

#include <algorithm>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

constexpr std::uint64_t kExportSchema = 1;
constexpr const char* kProgram = "normlab";
constexpr std::size_t kLongestLine = std::size_t(32) << 20;  // about 10,000 evaluations with probes of every block
constexpr const char* kExportAdvice = "; no trial of this file is shown; write it again with `normlab export`";

std::vector<MetricsLine> take_metrics(const nlohmann::json& list, const TrialResult& result, const std::string& where) {
  const std::string place = where + ": /metrics";
  if (!list.is_array()) throw InputError(concat(place, ": expected a list, found ", list.type_name()));
  std::vector<MetricsLine> lines;
  std::string text;
  for (const nlohmann::json& entry : list) {
    lines.push_back(take_metrics_line(entry, concat(place, '/', lines.size()), lines));
    text += metrics_text(lines.back()) + '\n';
  }
  if (result.status == TrialEnd::failed) return lines;
  require_last_line(result, lines.empty() ? std::nullopt : std::optional(lines.back()),
                    {where + ": /result", "/metrics", ""});
  if (const auto listed = result.files.find("metrics.jsonl"); listed != result.files.end())
    if (const FileSeal found = seal_of(text); found != listed->second)
      throw InputError(concat(place, ": is damaged: has the SHA-256 ", found.sha256, ", but its result lists ",
                              listed->second.sha256));
  return lines;
}

ExportedTrial take_trial(ObjectReader& line, const std::string& where) {
  const std::string id = line.string("trial");
  TrialConfig config = config_from_json(line.required("config").dump(), where + ": /config");
  if (const std::string found = trial_id(config); found != id)
    throw InputError(concat(where, ": /config: is damaged: it holds the settings of trial ", found,
                            ", but \"trial\" is ", in_quotes(id)));
  ExportedTrial trial{
      where, std::move(config), take_trial_result(line.required("result"), where + ": /result"), {}, {}};
  if (!trial.result->sealed) trial.unsealed_text = line.required("result").dump(2) + '\n';
  if (trial.result->id != id)
    throw InputError(concat(where, ": /result: it is the result of trial ", in_quotes(trial.result->id)));
  if (trial.result->seed != trial.config.seed)
    throw InputError(concat(where, ": /result: is damaged: seed ", trial.result->seed, " here, but ", trial.config.seed,
                            " in /config"));
  if (line.has("metrics")) trial.metrics = take_metrics(line.required("metrics"), *trial.result, where);
  return trial;
}

void take_export_line(std::string_view text, const std::string& where, ExportedResults& results) {
  const nlohmann::json json = parse_strict_json(text, where);
  ObjectReader line(json, where);
  if (const auto schema = line.unsigned_integer("schema"); schema != kExportSchema)
    throw InputError(concat(where, ": written with schema ", schema, ", this program reads ", kExportSchema,
                            "; use the program that wrote it, or a newer one"));
  const bool ours = line.string("program") == kProgram;
  std::string twice;
  if (ours && line.has("note")) {
    const std::string folder = line.string("folder"), name = line.string("note");
    const std::size_t slash = std::min(folder.find('/'), folder.size());
    require_plain_name(where + ": /folder: experiment", folder.substr(0, slash));
    if (slash < folder.size()) require_plain_name(where + ": /folder: part", folder.substr(slash + 1));
    require_plain_name(where + ": /note:", name);
    nlohmann::json note = take_note(line.required("content"), where + ": /content");
    if (!results.notes[folder].try_emplace(name, std::move(note)).second) twice = concat("note ", in_quotes(name));
  } else if (ours) {
    ExportedTrial trial = take_trial(line, where);
    const std::string id = trial.result->id;
    const auto [first, added] = results.trials.try_emplace(id, std::move(trial));
    if (!added) twice = concat("trial ", id, ", which ", first->second.where, " holds,");
  }
  if (ours) {
    line.string("sha256");
    line.finish();
  }
  require_json_seal(json, where);
  if (!twice.empty()) throw InputError(concat(where, ": ", twice, " appears again"));
}

/// "/home/ada/cats/1.jpg: is damaged" as "DATA/1.jpg: is damaged": the first absolute path, up to `end`, without its
/// folders.
std::string without_folders(std::string text, std::string_view end) {
  std::size_t from = text.starts_with('/') ? 0 : text.find(" /");
  if (from == text.npos) return text;
  from += text[from] == ' ';
  const std::size_t stop = end.empty() ? text.npos : text.find(end, from);
  return text.replace(from, text.rfind('/', stop) - from, "DATA");
}

/// The folder around that of the data, of "WebDataset, /home/ada/sets/cifar10, train: ...", with "/" at its end; "" if
/// it is not named.
std::string folder_of_data(const std::string& data) {
  const std::size_t first = data.find(", "), split = data.rfind(", ", data.find(": "));
  if (first == data.npos || split == data.npos || split <= first) return "";
  const std::string folder = data.substr(first + 2, split - first - 2);
  return folder.substr(0, folder.find_last_of('/') + 1);
}

/// "home/ada/cats/1.jpg is 8x8" as "DATA/1.jpg is 8x8", wherever `folder` begins a path.
std::string without_folder(std::string text, const std::string& folder) {
  constexpr std::string_view kData = "DATA/";
  if (folder.size() < 2) return text;
  for (std::size_t at = 0; (at = text.find(folder, at)) != text.npos; ++at)
    if (at == 0 || std::string_view(" \"'(").find(text[at - 1]) != std::string_view::npos)
      text.replace(at, folder.size(), kData);
  return text;
}

/// Replaces the host's name, and the folders in "WebDataset, /home/ada/sets/cifar10, train: ...", in the message and in
/// the reasons of bad images.
void make_anonymous(nlohmann::ordered_json& result) {
  std::string folder;
  for (auto& [key, value] : result.at("provenance").items()) {
    if (key == "host") value = "anonymous";
    if (key != "data") continue;
    folder = folder_of_data(value.get<std::string>());
    value = without_folders(without_folder(value.get<std::string>(), folder), "");
  }
  const auto hide = [&](nlohmann::ordered_json& text) {
    text = without_folders(without_folder(text.get<std::string>(), folder), ": ");
  };
  if (const auto message = result.find("message"); message != result.end() && message->is_string()) hide(*message);
  if (const auto bad = result.find("bad_images"); bad != result.end())
    for (auto& image : bad->at("images")) hide(image);
  if (result.contains("sha256")) seal_json(result);
}

/// Seals a line. InputError if the line is too long or cannot be read back; `source` names it in errors.
std::string sealed_line(nlohmann::ordered_json line, const std::string& source, std::string_view advice) {
  seal_json(line);
  const std::string text = line.dump();
  if (text.size() > kLongestLine)
    throw InputError(concat(source, ": its line has ", text.size(), " bytes; the limit is ", kLongestLine, advice));
  ExportedResults read;
  take_export_line(text, source, read);
  return text + '\n';
}

}  // namespace

std::string export_line(const TrialFolder& trial, bool full, bool anonymous) {
  const std::optional<TrialResult> result = trial.load_result();
  if (!result) throw InputError(concat(trial.path().string(), ": the trial has no result"));
  require_agreement(trial, *result);
  using Json = nlohmann::ordered_json;
  Json line{{"schema", kExportSchema}, {"program", kProgram}, {"trial", result->id}};
  line["config"] = Json::parse(trial.read_config());
  line["result"] = Json::parse(*trial.result_text());
  if (anonymous) make_anonymous(line["result"]);
  if (full) {
    line["metrics"] = Json::array();
    if (result->status != TrialEnd::failed)
      for (const MetricsLine& metrics : read_result_metrics(trial, *result))
        line["metrics"].push_back(Json::parse(metrics_text(metrics)));
  }
  return sealed_line(std::move(line), trial.path().string(), full ? "; leave out --full" : "");
}

std::string export_note(const std::string& folder, const std::string& name, const nlohmann::json& note) {
  nlohmann::ordered_json line{{"schema", kExportSchema}, {"program", kProgram}, {"folder", folder}, {"note", name}};
  line["content"] = note;
  return sealed_line(std::move(line), concat("note ", folder, "/", name), "");
}

std::vector<std::filesystem::path> exported_files(const ExportedTrial& trial) {
  const TrialResult& result = *trial.result;
  std::vector<std::filesystem::path> files{kConfigFile, kResultFile};
  if (trial.metrics && result.status != TrialEnd::failed)
    files.push_back(attempt_folder({}, std::max<std::int64_t>(result.attempt, 1)) / kMetricsFile);
  return files;
}

std::string exported_text(const ExportedTrial& trial, const std::filesystem::path& file) {
  if (file == kConfigFile) return full_json(trial.config);
  if (file == kResultFile) return trial.result->sealed ? write_trial_result(*trial.result) : trial.unsealed_text;
  std::string text;
  for (const MetricsLine& line : *trial.metrics) text += metrics_text(line) + '\n';
  return text;
}

ExportedResults read_export(const std::filesystem::path& file, bool may_lack_trials) {
  const std::string text = RegularFile(file, "give a file that `normlab export` wrote").read();
  ExportedResults results;
  std::size_t number = 0;
  for (std::size_t begin = 0, end = 0; begin < text.size(); begin = end + 1) {
    const std::string where = concat(file.string(), ':', ++number);
    end = std::min(text.find('\n', begin), text.size());
    try {
      if (end == text.size()) throw InputError(where + ": the last line is incomplete; the file is truncated");
      if (end - begin > kLongestLine)
        throw InputError(concat(where, ": has ", end - begin, " bytes; the limit for a line is ", kLongestLine));
      take_export_line(std::string_view(text).substr(begin, end - begin), where, results);
    } catch (const InputError& error) {
      throw InputError(error.what() + std::string(kExportAdvice));
    }
  }
  if (results.trials.empty() && !may_lack_trials)
    throw InputError(concat(file.string(), ": holds no trials", number > 0 ? " of normlab" : ", it is empty",
                            "; give a file that `normlab export` wrote"));
  return results;
}

}  // namespace normlab
