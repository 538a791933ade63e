// Adds token positions to nlohmann's parser, and refuses what that accepts: duplicate keys, a byte order mark, invalid
// UTF-8 in comments, and NUL bytes (which it takes for the end).
#include <nlohmann/json.hpp>
#include <unordered_set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/descriptor/json_tree.h"
#include "experiments/lab/descriptor/problems.h"

namespace normlab {
namespace {

/// In step with the parser's events.
class Cursor {
 public:
  Cursor(std::string_view text, const Source* source) : text_(text), source_(source) {}

  Position position(const JsonPlace* place = nullptr) const { return {source_, line_, column_, place}; }

  void advance_to(std::size_t end) {
    for (; offset_ < end && offset_ < text_.size(); ++offset_) {
      const bool newline = text_[offset_] == '\n';
      line_ += newline ? 1 : 0;
      column_ = newline ? 1 : column_ + 1;
    }
  }

  /// Moves to the first byte of the next token, but not beyond `limit`.
  void skip_to_token(std::size_t limit) {
    while (offset_ < limit && offset_ < text_.size()) {
      const std::string_view rest = text_.substr(offset_);
      std::size_t length = 0;
      if (rest.substr(0, 2) == "//") length = std::min(rest.find('\n'), rest.size());
      if (rest.substr(0, 2) == "/*") {
        const std::size_t end = rest.find("*/", 2);
        length = end == std::string_view::npos ? rest.size() : end + 2;
      }
      if (length == 0 && std::string_view(" \t\r\n,:").find(rest[0]) != std::string_view::npos) length = 1;
      comma_ = comma_ || rest[0] == ',';
      if (length == 0) return;
      advance_to(std::min(offset_ + length, limit));
    }
  }

  void pass_token() {
    const std::string_view rest = text_.substr(std::min(offset_, text_.size()));
    std::size_t length = 1;
    if (!rest.empty() && rest[0] == '"') {
      while (length < rest.size() && rest[length] != '"') length += rest[length] == '\\' ? 2 : 1;
      ++length;
    } else if (!rest.empty() && std::string_view("{}[]").find(rest[0]) == std::string_view::npos) {
      length = rest.find_first_not_of("+-.0123456789abcdefghijklmnopqrstuvwxyzE");  // numbers, true, false, null
      if (length == std::string_view::npos) length = rest.size();
    }
    advance_to(offset_ + length);
    comma_ = false;
  }

  /// The current byte, 0 at the end.
  char here() const { return offset_ < text_.size() ? text_[offset_] : '\0'; }
  bool after_comma() const { return comma_; }

 private:
  std::string_view text_;
  const Source* source_;
  std::size_t offset_ = 0;
  std::uint32_t line_ = 1, column_ = 1;
  bool comma_ = false;
};

[[noreturn]] void fail(const Position& at, const std::string& what) { throw InputError(to_string(at) + ": " + what); }

class TreeBuilder {
 public:
  TreeBuilder(std::string_view text, Source* source, Problems& problems, const JsonPlace* place)
      : cursor_(text, source), source_(source), problems_(problems), place_(place) {}

  JsonNode take() { return std::move(root_); }

  bool null() { return value({}); }
  bool boolean(bool v) { return value(v); }
  bool number_integer(std::int64_t v) { return value(v); }
  bool number_unsigned(std::uint64_t v) { return value(v); }
  bool number_float(double v, const std::string& raw) {
    JsonNode node = v;
    node.text = raw;
    return value(std::move(node));
  }
  bool string(std::string& v) { return value(std::move(v)); }
  bool binary(nlohmann::json::binary_t&) { return false; }
  bool start_object(std::size_t) { return open(json_object()); }
  bool start_array(std::size_t) { return open(JsonNode(JsonKind::array)); }
  bool end_object() { return close(); }
  bool end_array() { return close(); }

  bool key(std::string& name) {
    Open& object = stack_.back();
    key_at_ = next(source_->place(object.node->at.place, name));
    object.duplicate = !object.keys.insert(name).second;
    if (object.duplicate) problems_.add(key_at_, "this key occurs twice; remove one");
    key_ = std::move(name);
    return true;
  }

  bool parse_error(std::size_t bytes_read, const std::string&, const nlohmann::json::exception& error) {
    cursor_.skip_to_token(bytes_read > 0 ? bytes_read - 1 : 0);
    std::string what = error.what();
    if (const std::string_view words = in_words(what); !words.empty()) fail(cursor_.position(), std::string(words));
    // "[json.exception.parse_error.101] parse error at line 1, column 5: syntax error while ..."
    if (const std::size_t end = what.find(": "); end != std::string::npos) what.erase(0, end + 2);
    // "...; last read: '<the token>'"
    if (const std::size_t token = what.find("last read: "); token != std::string::npos)
      what = what.substr(0, token) + shown(what.substr(token));
    fail(cursor_.position(), what);
  }

 private:
  /// Messages for common mistakes; "" for anything else.
  std::string_view in_words(std::string_view parser) const {
    const auto says = [&](std::string_view part) { return parser.find(part) != parser.npos; };
    const char here = cursor_.here();
    const bool letter = (here >= 'a' && here <= 'z') || (here >= 'A' && here <= 'Z') || here == '_';
    if (here == '\0') return stack_.empty() ? "a value is missing" : "the text ends with an unclosed { or [";
    if (cursor_.after_comma() && (here == '}' || here == ']'))
      return "the comma before } or ] is not allowed; remove it";
    if (says("number overflow")) return "this number is too large";
    if (here == '\'') return "strings and keys need double quotes";
    if (here == '"' && (says("missing closing quote") || says("U+000A")))
      return "this string has no closing quote on its line";
    if (says("object separator")) return "a colon is missing before this value";
    const bool closes = here == '}' || here == ']';
    if (!closes && (says("; expected '}'") || says("; expected ']'"))) return "a comma is missing before this";
    if (letter && says("object key")) return "a key needs double quotes";
    if (letter) return "a string needs double quotes; true, false and null are lower case";
    return {};
  }

  struct Open {
    JsonNode* node;
    std::unordered_set<std::string> keys{};
    bool duplicate = false;
    JsonNode ignored{};  // the value of a duplicate key
  };

  Position next(const JsonPlace* place) {
    cursor_.skip_to_token(std::string_view::npos);
    const Position at = cursor_.position(place);
    cursor_.pass_token();
    return at;
  }

  JsonNode* place(JsonNode node) {
    if (stack_.empty()) {
      root_ = std::move(node);
      root_.at = next(place_);
      return &root_;
    }
    Open& parent = stack_.back();
    const bool item = parent.node->is_array();
    node.at =
        next(item ? source_->place(parent.node->at.place, std::to_string(parent.node->items.size())) : key_at_.place);
    if (item) return &parent.node->items.emplace_back(std::move(node));
    if (parent.duplicate) return &(parent.ignored = std::move(node));
    return &parent.node->members.emplace_back(JsonMember{key_, key_at_, std::move(node)}).value;
  }

  bool value(JsonNode node) {
    place(std::move(node));
    return true;
  }

  bool open(JsonNode node) {
    JsonNode* placed = place(std::move(node));
    if (stack_.size() >= kMaxJsonDepth) fail(placed->at, concat("nested more than ", kMaxJsonDepth, " levels deep"));
    stack_.push_back({placed});
    return true;
  }

  bool close() {
    next(nullptr);
    stack_.pop_back();
    return true;
  }

  Cursor cursor_;
  Source* source_;
  Problems& problems_;
  const JsonPlace* place_;  // of the root
  JsonNode root_;
  std::deque<Open> stack_;  // a deque keeps pointers to `ignored` nodes valid
  std::string key_;
  Position key_at_{};
};

/// Offset of the first byte that is not valid UTF-8, or npos.
std::size_t find_invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t bytes = first_character(text.substr(i)).bytes;
    if (bytes == 0) return i;
    i += bytes;
  }
  return std::string_view::npos;
}

}  // namespace

JsonNode parse_json(std::string_view text, Source* source, Problems& problems, const JsonPlace* place) {
  const auto refuse = [&](std::size_t offset, const std::string& what) {
    if (offset == std::string_view::npos) return;
    Cursor cursor(text, source);
    cursor.advance_to(offset);
    fail(cursor.position(), what);
  };
  if (text.size() > kMaxJsonBytes) refuse(0, concat(text.size(), " bytes; the limit is ", kMaxJsonBytes));
  if (text.substr(0, 3) == "\xEF\xBB\xBF") refuse(0, "begins with a byte order mark; save it as UTF-8 without one");
  refuse(text.find('\0'), "this is a NUL byte; remove it");
  refuse(find_invalid_utf8(text), "this is not valid UTF-8; save the file as UTF-8");
  TreeBuilder builder(text, source, problems, place);
  nlohmann::json::sax_parse(text, &builder, nlohmann::json::input_format_t::json, /*strict=*/true,
                            /*ignore_comments=*/true);
  return builder.take();
}

}  // namespace normlab
