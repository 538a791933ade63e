// Strict JSON for normlab's own files: duplicate, unknown or missing keys, wrong types and
// trailing text are InputErrors.
#pragma once

#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <string_view>

namespace normlab {

/// Parses one JSON value. `file` names it in errors, which give the byte offset.
nlohmann::json parse_strict_json(std::string_view text, const std::string& file);

/// Adds "sha256": SHA-256 of the other members, in nlohmann's compact form with sorted keys.
void seal_json(nlohmann::ordered_json& object);
/// InputError with both hashes if "sha256" is missing or does not match the other members; `file` names the object.
void require_json_seal(const nlohmann::json& object, const std::string& file);

/// The text of a file that a sweep keeps beside its trials (a plan, a decision): the object with "schema", sealed.
std::string write_note(const nlohmann::ordered_json& object);
/// Reads such a file. InputError if it is damaged or from a newer version. Files of older versions have no seal.
nlohmann::json read_note(const std::filesystem::path& path);
/// The same for a parsed note; `where` names it.
nlohmann::json take_note(nlohmann::json note, const std::string& where);

/// Tracks which keys of an object were read.
class ObjectReader {
 public:
  /// `where` names the object in errors: "results/…/result.json".
  ObjectReader(const nlohmann::json& object, std::string where);

  std::string string(const std::string& key);
  std::uint64_t unsigned_integer(const std::string& key);
  std::int64_t integer(const std::string& key);
  double number(const std::string& key);
  bool boolean(const std::string& key);
  std::map<std::string, std::string> strings(const std::string& key);
  const nlohmann::json& required(const std::string& key);
  /// nullptr if the key is missing.
  const nlohmann::json* optional(const std::string& key);
  bool has(const std::string& key) const { return object_.contains(key); }

  /// InputError if a key was never read.
  void finish() const;
  [[noreturn]] void fail(const std::string& key, const std::string& what) const;

 private:
  const nlohmann::json& object_;
  std::string where_;
  std::set<std::string> asked_;
};

/// JSON has no NaN: null if the number is unknown or not finite.
inline nlohmann::ordered_json number_or_null(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}

/// Adds name -> value to `object`. NaN and infinities become null; `"nonfinite"` maps their names to
/// "nan", "inf" or "-inf".
void put_numbers(nlohmann::ordered_json& object, const std::map<std::string, double>& values,
                 nlohmann::ordered_json& nonfinite);

/// The inverse. `nonfinite` may be nullptr.
std::map<std::string, double> take_numbers(const nlohmann::json& object, const nlohmann::json* nonfinite,
                                           const std::string& where);

}  // namespace normlab
