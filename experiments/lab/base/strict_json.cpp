#include "experiments/lab/base/strict_json.h"

#include <cmath>
#include <limits>
#include <vector>

#include "core/nonfinite.h"

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/sha256.h"

namespace normlab {
namespace {

constexpr std::size_t kMaxDepth = 64;
constexpr const char *kHash = "sha256", *kSchema = "schema";
constexpr std::uint64_t kNoteSchema = 2;  // 1 or missing: not sealed

std::string hash_of_members(nlohmann::json object) {
  object.erase(kHash);
  return sha256_hex(object.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

/// nlohmann silently keeps the last of two equal keys, so this tracks the keys of each open object.
class DuplicateCheck {
 public:
  explicit DuplicateCheck(const std::string& file) : file_(file) {}
  bool operator()(int, nlohmann::json::parse_event_t event, nlohmann::json& value) {
    using Event = nlohmann::json::parse_event_t;
    if (event == Event::object_start || event == Event::array_start) {
      open_.emplace_back();
      if (open_.size() > kMaxDepth) throw InputError(file_ + ": nested too deeply");
    } else if (event == Event::object_end || event == Event::array_end) {
      open_.pop_back();
    } else if (event == Event::key && !open_.back().insert(value.get<std::string>()).second) {
      throw InputError(concat(file_, ": duplicate key ", shown(value.dump())));
    }
    return true;
  }

 private:
  const std::string& file_;
  std::vector<std::set<std::string>> open_;
};

/// "[json.exception.parse_error.101] what" without the part in brackets.
std::string detail(const nlohmann::json::exception& error) {
  const std::string what = error.what();
  const auto end = what.find("] ");
  return shown(end == what.npos ? what : what.substr(end + 2));
}

}  // namespace

nlohmann::json parse_strict_json(std::string_view text, const std::string& file) {
  // The parser takes a NUL for the end of the text. Files truncated in a crash are often full of NULs.
  if (const auto nul = text.find('\0'); nul != text.npos)
    throw InputError(concat(file, ": byte ", nul, ": a NUL byte"));
  try {
    DuplicateCheck check(file);
    return nlohmann::json::parse(text.begin(), text.end(), std::ref(check));
  } catch (const nlohmann::json::parse_error& error) {
    throw InputError(concat(file, ": byte ", error.byte > 0 ? error.byte - 1 : 0, ": not valid JSON: ", detail(error)));
  } catch (const nlohmann::json::out_of_range& error) {
    throw InputError(concat(file, ": not valid JSON: ", detail(error)));
  }
}

void seal_json(nlohmann::ordered_json& object) { object[kHash] = hash_of_members(nlohmann::json(object)); }

void require_json_seal(const nlohmann::json& object, const std::string& file) {
  const auto stored = object.find(kHash);
  if (stored == object.end() || !stored->is_string())
    throw InputError(concat(file, ": is damaged: ", in_quotes(kHash),
                            ", the hash of the rest of it, is missing; restore it from a copy"));
  if (const std::string found = hash_of_members(object); found != stored->get<std::string>())
    throw InputError(concat(file, ": is damaged: the SHA-256 of the rest of it is ", found, ", but its ",
                            in_quotes(kHash), " says ", stored->get<std::string>(), "; restore it from a copy"));
}

std::string write_note(const nlohmann::ordered_json& object) {
  nlohmann::ordered_json note{{kSchema, kNoteSchema}};
  note.update(object);
  seal_json(note);
  return note.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

nlohmann::json read_note(const std::filesystem::path& path) {
  return take_note(parse_strict_json(read_file(path), path.string()), path.string());
}

nlohmann::json take_note(nlohmann::json note, const std::string& where) {
  if (!note.is_object()) throw InputError(concat(where, ": expected an object, found ", note.type_name()));
  const nlohmann::json schema = note.value(kSchema, nlohmann::json(1));
  if (schema != 1 && schema != kNoteSchema)
    throw InputError(concat(where, ": was written by another version of normlab; read it with that version"));
  if (schema == kNoteSchema || note.contains(kHash)) require_json_seal(note, where);
  return note;
}

ObjectReader::ObjectReader(const nlohmann::json& object, std::string where)
    : object_(object), where_(std::move(where)) {
  if (!object_.is_object()) throw InputError(concat(where_, ": expected an object, found ", object_.type_name()));
}

void ObjectReader::fail(const std::string& key, const std::string& what) const {
  throw InputError(concat(where_, ": ", in_quotes(key), ": ", what));
}

const nlohmann::json& ObjectReader::required(const std::string& key) {
  const nlohmann::json* value = optional(key);
  if (value == nullptr) fail(key, "this key is missing");
  return *value;
}

const nlohmann::json* ObjectReader::optional(const std::string& key) {
  asked_.insert(key);
  const auto found = object_.find(key);
  return found == object_.end() ? nullptr : &*found;
}

std::string ObjectReader::string(const std::string& key) {
  const nlohmann::json& value = required(key);
  if (!value.is_string()) fail(key, concat("expected a string, found ", value.type_name()));
  return value.get<std::string>();
}

std::uint64_t ObjectReader::unsigned_integer(const std::string& key) {
  const nlohmann::json& value = required(key);
  if (!value.is_number_unsigned()) fail(key, concat("expected a non-negative integer, found ", shown(value.dump())));
  return value.get<std::uint64_t>();
}

std::int64_t ObjectReader::integer(const std::string& key) {
  const nlohmann::json& value = required(key);
  const bool fits = value.is_number_integer() &&
                    (!value.is_number_unsigned() ||
                     value.get<std::uint64_t>() <= std::uint64_t(std::numeric_limits<std::int64_t>::max()));
  if (!fits) fail(key, concat("expected an integer, found ", shown(value.dump())));
  return value.get<std::int64_t>();
}

double ObjectReader::number(const std::string& key) {
  const nlohmann::json& value = required(key);
  if (!value.is_number()) fail(key, concat("expected a number, found ", value.type_name()));
  return value.get<double>();
}

bool ObjectReader::boolean(const std::string& key) {
  const nlohmann::json& value = required(key);
  if (!value.is_boolean()) fail(key, concat("expected true or false, found ", value.type_name()));
  return value.get<bool>();
}

std::map<std::string, std::string> ObjectReader::strings(const std::string& key) {
  const nlohmann::json& object = required(key);
  if (!object.is_object()) fail(key, concat("expected an object, found ", object.type_name()));
  std::map<std::string, std::string> result;
  for (const auto& [name, value] : object.items()) {
    if (!value.is_string()) fail(key, concat(in_quotes(name), ": expected a string, found ", value.type_name()));
    result[name] = value.get<std::string>();
  }
  return result;
}

void ObjectReader::finish() const {
  for (const auto& [key, value] : object_.items())
    if (!asked_.contains(key)) fail(key, "unknown key");
}

void put_numbers(nlohmann::ordered_json& object, const std::map<std::string, double>& values,
                 nlohmann::ordered_json& nonfinite) {
  for (const auto& [name, value] : values) {
    if (std::isfinite(value)) {
      object[name] = value;
      continue;
    }
    object[name] = nullptr;
    nonfinite[name] = nonfinite_word(value);
  }
}

std::map<std::string, double> take_numbers(const nlohmann::json& object, const nlohmann::json* nonfinite,
                                           const std::string& where) {
  if (!object.is_object()) throw InputError(concat(where, ": expected an object, found ", object.type_name()));
  std::map<std::string, double> result;
  for (const auto& [name, value] : object.items()) {
    if (value.is_number()) {
      result[name] = value.get<double>();
      continue;
    }
    std::string word;
    if (value.is_null() && nonfinite != nullptr && nonfinite->is_object() && nonfinite->contains(name) &&
        (*nonfinite)[name].is_string())
      word = (*nonfinite)[name].get<std::string>();
    if (word == "nan")
      result[name] = std::numeric_limits<double>::quiet_NaN();
    else if (word == "inf" || word == "-inf")
      result[name] = (word == "inf" ? 1 : -1) * std::numeric_limits<double>::infinity();
    else
      throw InputError(
          concat(where, ": ", in_quotes(name), ": expected a number, or null with an entry in \"nonfinite\""));
  }
  return result;
}

}  // namespace normlab
