#include "experiments/lab/trials/trial_result.h"

#include <fmt/core.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <tuple>

#include "core/error.h"
#include "core/nonfinite.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/trials/claim.h"
#include "experiments/lab/trials/loss_meaning.h"
#include "experiments/lab/trials/metrics_log.h"

namespace normlab {
namespace {

constexpr std::uint64_t kResultSchema = 2, kUnsealedSchema = 1;
constexpr double kExact = 1e15;                           // exact as a double
constexpr double kMostSeconds = 1e10, kMostSpeed = 1e12;  // three centuries; images a second
constexpr const char* kDivergedValue = "diverged_value";  // not the name of a metric, which contains a slash

std::vector<std::string> take_bad_images(const nlohmann::json& json, const std::string& file) {
  ObjectReader object(json, file + ": \"bad_images\"");
  const auto count = object.unsigned_integer("count");
  const nlohmann::json* list = object.optional("images");
  std::vector<std::string> images;
  if (list == nullptr || !list->is_array()) object.fail("images", "expected a list of strings");
  for (const nlohmann::json& image : *list) {
    if (!image.is_string()) object.fail("images", "expected a list of strings");
    images.push_back(image.get<std::string>());
  }
  if (images.size() != count) object.fail("count", "is not the length of the list");
  object.finish();
  return images;
}

EvaluatedSlices take_slices(const nlohmann::json& json, const std::string& file) {
  const std::string where = file + ": \"slices\"";
  if (!json.is_object()) throw InputError(where + ": expected an object");
  EvaluatedSlices slices;
  for (const auto& [name, entry] : json.items()) {
    const std::string here = concat(where, ": ", in_quotes(name));
    ObjectReader object(entry, here);
    EvaluatedSlice& slice = slices[name];
    slice.images = object.integer("images");
    if (slice.images < 1 || double(slice.images) > kExact) object.fail("images", "is not a number of images");
    slice.guess = take_numbers(object.required("guess"), nullptr, here + ": \"guess\"");
    for (const auto& [metric, value] : slice.guess)
      if (const std::string why = impossible(metric, value); !why.empty())
        object.fail("guess", concat(metric, ": ", why));
    object.finish();
  }
  return slices;
}

FileSeals take_files(const nlohmann::json* json, const std::string& file) {
  FileSeals files;
  if (json == nullptr || !json->is_object()) throw InputError(concat(file, ": \"files\": expected an object"));
  for (const auto& [name, entry] : json->items()) {
    require_plain_name(file + ": \"files\": the file", name);
    ObjectReader object(entry, concat(file, ": \"files\": ", in_quotes(name)));
    files[name] = {object.unsigned_integer("bytes"), object.string("sha256")};
    object.finish();
  }
  return files;
}

void require_range(const ObjectReader& object, const char* key, double value, double most) {
  if (!(value >= 0 && value <= most)) object.fail(key, concat(value, " is outside 0 to ", most));
}

/// Refuses values that no training can produce, whether by editing or by disk errors.
void require_possible(const ObjectReader& object, const TrialResult& result) {
  for (const auto& [name, value] : result.metrics) {
    if (result.sealed && result.status == TrialEnd::done && !std::isfinite(value))
      object.fail("metrics", concat(name, " is ", value, ", which is not a valid result"));
    if (const std::string why = impossible(name, value); !why.empty()) object.fail("metrics", concat(name, ": ", why));
  }
  require_range(object, "wall_seconds", result.wall_seconds, kMostSeconds);
  require_range(object, "images_per_second", result.images_per_second, kMostSpeed);
  for (const auto& [key, value, most] : {std::tuple{"steps", result.steps, kExact},
                                         {"attempt", result.attempt, double(kMostAttempts)},
                                         {"peak_mb", result.peak_mb, kExact}})
    if (object.has(key) && !(value >= 1 && double(value) <= most))  // 0 is not written
      object.fail(key, concat(value, " is outside 1 to ", most));
  require_range(object, "resumed", double(result.resumed), kExact);
  if (result.status == TrialEnd::failed && !result.metrics.empty())
    object.fail("metrics", "a trial that failed has no metrics");
  const bool diverged = result.status == TrialEnd::diverged;
  if (diverged != result.diverged_step.has_value())
    object.fail("diverged_step", diverged ? "is missing in a diverged result" : "only a diverged result has this key");
  if (diverged) require_range(object, "diverged_step", double(*result.diverged_step), kExact);
  if (diverged && result.steps > 0 && *result.diverged_step != result.steps)
    object.fail("diverged_step", concat("is ", *result.diverged_step, ", but \"steps\" is ", result.steps));
  if (const auto& early = result.stopped_early_step;
      early && (*early < 1 || (result.steps > 0 && *early != result.steps)))
    object.fail("stopped_early_step", concat("is ", *early, ", but \"steps\" is ", result.steps));
}

TrialResult read_fields(ObjectReader& object, const nlohmann::json& json, const std::string& file) {
  const auto schema = object.unsigned_integer("schema");
  if (schema != kResultSchema && schema != kUnsealedSchema)
    throw InputError(concat(file, ": written with schema ", schema, ", this program reads ", kUnsealedSchema, " and ",
                            kResultSchema, "; use the program that wrote it, or a newer one"));
  TrialResult result;
  result.sealed = schema == kResultSchema;
  result.id = object.string("id");
  const std::string status = object.string("status");
  if (!find_word(status, result.status)) object.fail("status", concat("unknown status ", in_quotes(status)));
  result.seed = object.unsigned_integer("seed");
  const nlohmann::json& metrics = object.required("metrics");
  const nlohmann::json* nonfinite = object.optional("nonfinite");
  result.metrics = take_numbers(metrics, nonfinite, file + ": \"metrics\"");
  if (const nlohmann::json* slices = object.optional("slices")) result.slices = take_slices(*slices, file);
  if (object.has("message")) result.message = object.string("message");
  if (object.has("diverged_step")) result.diverged_step = object.integer("diverged_step");
  if (object.has("diverged_rule")) result.diverged_rule = object.string("diverged_rule");
  if (object.has("diverged_site")) result.diverged_site = object.string("diverged_site");
  if (const nlohmann::json* value = object.optional(kDivergedValue))
    result.diverged_value = take_numbers({{kDivergedValue, *value}}, nonfinite, file).at(kDivergedValue);
  if (object.has("steps")) result.steps = object.integer("steps");
  if (object.has("attempt")) result.attempt = object.integer("attempt");
  if (object.has("stopped_early_step")) result.stopped_early_step = object.integer("stopped_early_step");
  if (object.has("early_stop_rule")) result.early_stop_rule = object.string("early_stop_rule");
  result.wall_seconds = object.number("wall_seconds");
  result.images_per_second = object.number("images_per_second");
  if (object.has("peak_mb")) result.peak_mb = object.integer("peak_mb");
  result.resumed = object.integer("resumed");
  result.different_bits = object.boolean("different_bits");
  result.provenance = object.strings("provenance");
  if (const nlohmann::json* bad = object.optional("bad_images")) result.bad_images = take_bad_images(*bad, file);
  if (result.sealed) {
    result.files = take_files(object.optional("files"), file);
    object.string("sha256");
  }
  object.finish();
  require_possible(object, result);
  if (result.sealed) require_json_seal(json, file);
  return result;
}

void drop_nonfinite_metrics(TrialResult& result) {
  const auto found = std::find_if(result.metrics.begin(), result.metrics.end(),
                                  [](const auto& metric) { return !std::isfinite(metric.second); });
  if (found == result.metrics.end()) return;
  if (result.status == TrialEnd::done) {
    result.status = TrialEnd::diverged;
    result.diverged_step = result.steps;
    result.diverged_rule = "nonfinite";
    result.diverged_site = kEvaluationSite;
    result.diverged_value = found->second;
    result.message = concat("step ", result.steps, ": the result says that ", found->first, " is ",
                            nonfinite_word(found->second), ", so none of its metrics is one");
  }
  result.metrics.clear();
}

/// What two finished results of one trial do not agree on; "" if they do.
std::string difference(const TrialResult& a, const TrialResult& b) {
  if (a.status != b.status) return concat(word_of(a.status), " and ", word_of(b.status));
  if (a.steps != b.steps) return concat(a.steps, " and ", b.steps, " steps");
  const auto unlike = [&](const char* key, const std::string& name) {  // measured otherwise by an older version
    return (a.stated(key) == nullptr) != (b.stated(key) == nullptr) &&
           (key == kTrainLossMeaning ? name == kTrainLoss : is_evaluation_loss(name));
  };
  std::size_t only_a = 0;
  for (const auto& [name, value] : a.metrics) {
    const auto other = b.metrics.find(name);
    if (other == b.metrics.end()) {
      if (!requested_by(name)) return name + " is missing in one";
      ++only_a;
      continue;
    }
    if (unlike(kTrainLossMeaning, name) || unlike(kEvalLossMeaning, name)) continue;
    if (std::bit_cast<std::uint64_t>(value) != std::bit_cast<std::uint64_t>(other->second))
      return fmt::format("{} is {} and {}", name, value, other->second);
  }
  const auto requested = std::count_if(b.metrics.begin(), b.metrics.end(), [&](const auto& metric) {
    return requested_by(metric.first) && !a.metrics.contains(metric.first);
  });
  return a.metrics.size() - only_a == b.metrics.size() - std::size_t(requested) ? "" : "one has other metrics";
}

}  // namespace

FileSeal seal_of(std::string_view bytes) { return {bytes.size(), sha256_hex(bytes)}; }

FileSeal seal_of_file(const std::filesystem::path& path) {
  FileSeal seal;
  Sha256 hash;
  read_pieces(path, [&](std::string_view piece) {
    seal.bytes += piece.size();
    hash.update(piece);
  });
  seal.sha256 = hash.hex();
  return seal;
}

void require_seal(const std::filesystem::path& path, const FileSeal& found, const FileSeal& listed) {
  if (found == listed) return;
  const std::string difference =
      found.bytes != listed.bytes ? concat("has ", found.bytes, " bytes, but its result lists ", listed.bytes)
                                  : concat("has the SHA-256 ", found.sha256, ", but its result lists ", listed.sha256);
  throw InputError(concat(path.string(), ": is damaged: ", difference,
                          "; restore it from a copy, or remove the trial's folder and run it again"));
}

std::string TrialResult::eval_hash() const {
  const std::string* const all = stated("data_hash");
  const auto begin = all == nullptr ? std::string::npos : all->find('+');
  return begin == std::string::npos ? "" : all->substr(begin + 1, all->find('+', begin + 1) - begin - 1);
}

std::string write_trial_result(const TrialResult& result) {
  if (!result.sealed)
    throw InputError(concat("the result of trial ", result.id, " was not sealed when it was written"));
  using Json = nlohmann::ordered_json;
  Json metrics = Json::object(), nonfinite = Json::object(), provenance = Json::object();
  put_numbers(metrics, result.metrics, nonfinite);
  Json diverged = Json::object();
  if (result.diverged_value) put_numbers(diverged, {{kDivergedValue, *result.diverged_value}}, nonfinite);
  for (const auto& [key, value] : result.provenance) provenance[key] = value;
  Json object{{"schema", kResultSchema}, {"id", result.id}, {"status", word_of(result.status)}, {"seed", result.seed}};
  object["metrics"] = std::move(metrics);
  if (!nonfinite.empty()) object["nonfinite"] = std::move(nonfinite);
  for (const auto& [name, slice] : result.slices)
    object["slices"][name] = Json{{"images", slice.images}, {"guess", slice.guess}};
  if (result.message) object["message"] = *result.message;
  if (result.diverged_step) object["diverged_step"] = *result.diverged_step;
  if (result.diverged_rule) object["diverged_rule"] = *result.diverged_rule;
  if (result.diverged_site) object["diverged_site"] = *result.diverged_site;
  object.update(diverged);
  if (result.steps > 0) object["steps"] = result.steps;
  if (result.attempt > 0) object["attempt"] = result.attempt;
  if (result.stopped_early_step) object["stopped_early_step"] = *result.stopped_early_step;
  if (result.early_stop_rule) object["early_stop_rule"] = *result.early_stop_rule;
  object["wall_seconds"] = result.wall_seconds;
  object["images_per_second"] = result.images_per_second;
  if (result.peak_mb > 0) object["peak_mb"] = result.peak_mb;
  object["resumed"] = result.resumed;
  object["different_bits"] = result.different_bits;
  object["provenance"] = std::move(provenance);
  if (!result.bad_images.empty())
    object["bad_images"] = Json{{"count", result.bad_images.size()}, {"images", result.bad_images}};
  Json files = Json::object();
  for (const auto& [name, seal] : result.files) files[name] = Json{{"bytes", seal.bytes}, {"sha256", seal.sha256}};
  object["files"] = std::move(files);
  seal_json(object);
  // A message may quote a file name that is not UTF-8.
  return object.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

TrialResult take_trial_result(const nlohmann::json& json, const std::string& where) {
  ObjectReader object(json, where);
  TrialResult result = read_fields(object, json, where);
  drop_nonfinite_metrics(result);
  return result;
}

TrialResult parse_trial_result(std::string_view text, const std::string& file) {
  try {
    return take_trial_result(parse_strict_json(text, file), file);
  } catch (const InputError& error) {
    const std::string what = error.what();
    if (what.find("schema") != what.npos) throw;
    throw InputError(concat(what,
                            "; unless it was edited on purpose, delete this file and start the same command again: the "
                            "trial resumes from its last checkpoint"));
  }
}

void require_plain_name(std::string_view what, const std::string& name) {
  const bool plain =
      !name.empty() && name.front() != '.' && name.find('/') == name.npos && name.find('\0') == name.npos;
  if (!plain) throw InputError(concat(what, " ", in_quotes(name), " is not a plain name"));
}

void require_same_result(const PlacedResult& a, const PlacedResult& b) {
  if (a.result.status == TrialEnd::failed || b.result.status == TrialEnd::failed) return;
  if (const std::string what = difference(a.result, b.result); !what.empty())
    throw InputError(concat(a.where, " and ", b.where, ": are the same trial with different results: ", what,
                            "; compare the two with `normlab verify`, and leave one of them out"));
}

bool counts_instead(const PlacedResult& other, const PlacedResult& first) {
  const bool ended = other.result.status != TrialEnd::failed;
  if (ended != (first.result.status != TrialEnd::failed)) return ended;
  require_same_result(first, other);
  if (other.has_curve != first.has_curve) return other.has_curve;
  return ended && other.result.metrics.size() > first.result.metrics.size();
}

}  // namespace normlab
