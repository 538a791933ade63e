// A JSON document that records the position of every key and value. Comments are allowed; otherwise JSON is strict.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace normlab {

class Problems;

/// As in a JSON pointer.
struct JsonPlace {
  const JsonPlace* parent = nullptr;  // null: the document itself
  std::string key;                    // key in an object, or index in an array as text
};

/// A file, or `--set path=value`, which has no lines.
struct Source {
  std::string name;
  std::size_t order = 0;  // problems are listed in this order
  bool has_lines = true;
  std::deque<JsonPlace> places{};

  const JsonPlace* place(const JsonPlace* parent, std::string key) {
    return &places.emplace_back(JsonPlace{parent, std::move(key)});
  }
};

/// Line and column are 1-based, count bytes, and point at the token's first byte.
struct Position {
  const Source* source = nullptr;
  std::uint32_t line = 1, column = 1;
  const JsonPlace* place = nullptr;

  std::string pointer() const;
};

/// Owns the sources of positions; must outlive every tree made with it.
class Sources {
 public:
  Source* add(std::string name, bool has_lines = true) {
    return &sources_.emplace_back(Source{std::move(name), sources_.size(), has_lines});
  }
  const std::deque<Source>& all() const { return sources_; }

 private:
  std::deque<Source> sources_;
};

/// integer: negative; natural: 0 to 2^64 - 1; real: any other number, including one with a point or an exponent.
enum class JsonKind : std::uint8_t { null, boolean, integer, natural, real, string, array, object };

struct JsonMember;

struct JsonNode {
  JsonKind kind = JsonKind::null;
  bool boolean = false;
  std::int64_t integer = 0;
  std::uint64_t natural = 0;
  double real = 0;
  std::string text;                 // a string's value, or a real number as written
  std::vector<JsonNode> items;      // array
  std::vector<JsonMember> members;  // object, in file order
  Position at{};

  JsonNode() = default;
  explicit JsonNode(JsonKind k);
  JsonNode(std::same_as<bool> auto value);
  template <std::integral Integer>
  requires(!std::same_as<Integer, bool>) JsonNode(Integer value);
  JsonNode(double value);
  JsonNode(std::string value);
  JsonNode(std::string_view value);
  JsonNode(const char* value);
  JsonNode(std::vector<JsonNode> list);

  bool is_object() const { return kind == JsonKind::object; }
  bool is_array() const { return kind == JsonKind::array; }
  bool is_string() const { return kind == JsonKind::string; }
  bool is_number() const { return kind == JsonKind::integer || kind == JsonKind::natural || kind == JsonKind::real; }
  /// The number, or NaN for other kinds.
  double number() const;
  const JsonMember* find(std::string_view key) const;
  JsonMember* find(std::string_view key);
  /// Appends a member; `key` must be new.
  JsonNode& add(std::string key, JsonNode value);
  bool remove(std::string_view key);
};

struct JsonMember {
  std::string key;
  Position key_at{};
  JsonNode value;
};

/// The value of that key, or null.
inline const JsonNode* value_of(const JsonNode& object, std::string_view key) {
  const JsonMember* member = object.find(key);
  return member == nullptr ? nullptr : &member->value;
}

JsonNode::JsonNode(std::same_as<bool> auto value) : kind(JsonKind::boolean), boolean(value) {}
template <std::integral Integer>
requires(!std::same_as<Integer, bool>) JsonNode::JsonNode(Integer value)
    : kind(value < 0 ? JsonKind::integer : JsonKind::natural) {
  if (value < 0)
    integer = static_cast<std::int64_t>(value);
  else
    natural = static_cast<std::uint64_t>(value);
}

inline JsonNode json_object() { return JsonNode(JsonKind::object); }

inline constexpr std::size_t kMaxJsonBytes = std::size_t(1) << 20;
inline constexpr std::size_t kMaxJsonDepth = 64;

/// InputError "name:line:column: ..." for a syntax error, a byte order mark, invalid UTF-8, a NUL byte, more than
/// kMaxJsonDepth levels or kMaxJsonBytes bytes. Duplicate keys go to `problems`; the first is kept. `place` is that
/// of the document's root.
JsonNode parse_json(std::string_view text, Source* source, Problems& problems, const JsonPlace* place = nullptr);

/// compact: keys sorted by code point, no spaces. indented: two spaces per level, keys in the tree's order,
/// numbers as they were written.
enum class JsonStyle : std::uint8_t { compact, indented };
std::string write_json(const JsonNode& node, JsonStyle style);

/// The shortest decimal that reads back as the same double; always with a point or an exponent.
std::string shortest_real(double value);

/// Compact, and equal for equal values: 500, 5e2 and 500.0 give the same text.
std::string value_text(const JsonNode& node);

/// "object", "string", ... for messages, with the value if it is short.
std::string describe(const JsonNode& node);

/// A key as one step of a JSON pointer: a slash, then the key with "~" and "/" escaped.
std::string pointer_step(std::string_view key);

}  // namespace normlab
