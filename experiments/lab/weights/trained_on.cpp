#include "experiments/lab/weights/trained_on.h"

#include <algorithm>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/canonical.h"

namespace normlab {
namespace {

using Json = nlohmann::json;

std::string text_of(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

/// The names as stored in the metadata.
std::vector<std::string> as_stored(const std::vector<std::string>& names) {
  return Json::parse(text_of(Json(names))).get<std::vector<std::string>>();
}

/// "\n  only WHO: ant, bee and 7 more"; empty if all `names` are among `others`.
std::string only_in(const std::vector<std::string>& names, const std::vector<std::string>& others, const char* who) {
  constexpr std::size_t kShown = 5;
  std::vector<std::string> shown;
  std::size_t count = 0;
  for (const std::string& name : names) {
    if (std::find(others.begin(), others.end(), name) != others.end()) continue;
    if (++count <= kShown) shown.push_back(in_quotes(name));
  }
  if (count == 0) return "";
  return concat("\n  only ", who, ": ", joined(shown, ", "),
                count > kShown ? concat(" and ", count - kShown, " more") : "");
}

}  // namespace

std::string to_metadata(const TrainedOn& trained) {
  Json json = Json::object();
  json["classes"] = trained.class_names;
  json["config"] = Json::parse(canonical_json(trained.config));
  json["mean"] = trained.mean;
  json["std"] = trained.std;
  return text_of(json);
}

std::optional<TrainedOn> trained_on(const std::map<std::string, std::string>& metadata, const std::string& file) {
  const auto found = metadata.find(kTrainedOnKey);
  if (found == metadata.end()) return std::nullopt;
  const std::string where = concat(file, " (", kTrainedOnKey, ")");
  const Json json = parse_strict_json(found->second, where);
  try {
    TrainedOn trained;
    trained.config = config_from_json(json.at("config").dump(), where);
    json.at("classes").get_to(trained.class_names);
    json.at("mean").get_to(trained.mean);
    json.at("std").get_to(trained.std);
    const auto channels = static_cast<std::size_t>(normlab::channels(trained.config.model));
    if (trained.mean.size() != channels || trained.std.size() != channels)
      throw InputError(concat(where, ": has a mean of ", trained.mean.size(), " and a standard deviation of ",
                              trained.std.size(), " channels, but its network has ", channels));
    return trained;
  } catch (const Json::exception& error) {
    throw InputError(concat(where, ": is damaged: ", error.what()));
  }
}

void require_same_classes(const TrainedOn& trained, const std::vector<std::string>& class_names,
                          const std::string& where) {
  const std::vector<std::string>& before = trained.class_names;
  const std::vector<std::string> here = as_stored(class_names);
  if (here == before) return;
  std::string message =
      here.size() == before.size()
          ? concat(where, ": its classes differ from those of the training")
          : concat(where, " has ", here.size(), " classes, but the training of this model had ", before.size());
  const std::string different = only_in(here, before, "here") + only_in(before, here, "in the training");
  message += different;
  if (different.empty())
    for (std::size_t label = 0; label < std::min(here.size(), before.size()); ++label)
      if (here[label] != before[label]) {
        message += concat("\n  label ", label, " is ", in_quotes(here[label]), " here, but ", in_quotes(before[label]),
                          " in the training");
        break;
      }
  throw InputError(concat(
      message,
      "\nName and order the classes as in the training, or compare only their number with --allow-other-class-names"));
}

}  // namespace normlab
