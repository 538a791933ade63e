#include "experiments/lab/descriptor/json_tree.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/visible_text.h"

namespace normlab {

std::string Position::pointer() const {
  std::string out;
  for (const JsonPlace* step = place; step != nullptr; step = step->parent) out.insert(0, pointer_step(step->key));
  return out;
}

JsonNode::JsonNode(JsonKind k) : kind(k) {}
JsonNode::JsonNode(double value) : kind(JsonKind::real), real(value) {}
JsonNode::JsonNode(std::string value) : kind(JsonKind::string), text(std::move(value)) {}
JsonNode::JsonNode(std::string_view value) : JsonNode(std::string(value)) {}
JsonNode::JsonNode(const char* value) : JsonNode(std::string(value)) {}
JsonNode::JsonNode(std::vector<JsonNode> list) : kind(JsonKind::array), items(std::move(list)) {}

const JsonMember* JsonNode::find(std::string_view key) const {
  for (const JsonMember& member : members)
    if (member.key == key) return &member;
  return nullptr;
}

JsonMember* JsonNode::find(std::string_view key) { return const_cast<JsonMember*>(std::as_const(*this).find(key)); }

JsonNode& JsonNode::add(std::string key, JsonNode value) {
  const Position at_value = value.at;
  return members.emplace_back(JsonMember{std::move(key), at_value, std::move(value)}).value;
}

bool JsonNode::remove(std::string_view key) {
  return std::erase_if(members, [&](const JsonMember& member) { return member.key == key; }) > 0;
}

double JsonNode::number() const {
  if (kind == JsonKind::real) return real;
  if (kind == JsonKind::integer) return double(integer);
  return kind == JsonKind::natural ? double(natural) : std::numeric_limits<double>::quiet_NaN();
}

std::string shortest_real(double value) {
  char buffer[32];
  std::string text(buffer, std::to_chars(buffer, buffer + sizeof buffer, value).ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

namespace {

using RealText = std::string (*)(const JsonNode& real);

std::string shortest(const JsonNode& node) { return shortest_real(node.real); }

/// Labels of axes show a number as a file has it.
std::string as_written(const JsonNode& node) { return node.text.empty() ? shortest(node) : node.text; }

/// An integer means the same with and without a point.
std::string by_value(const JsonNode& node) {
  const auto whole = std::int64_t(node.real < 9e15 && node.real > -9e15 ? node.real : 0.5);
  return node.real == double(whole) ? std::to_string(whole) : shortest(node);
}

std::string quoted(const std::string& text) {
  // Trees hold valid UTF-8 from the parser or the program, except perhaps a path from the command line.
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string scalar_text(const JsonNode& node, RealText real_text) {
  if (node.kind == JsonKind::null) return "null";
  if (node.kind == JsonKind::boolean) return node.boolean ? "true" : "false";
  if (node.kind == JsonKind::integer) return std::to_string(node.integer);
  if (node.kind == JsonKind::natural) return std::to_string(node.natural);
  return node.kind == JsonKind::real ? real_text(node) : quoted(node.text);
}

/// `depth`: levels of indentation; none: compact, with sorted keys.
void write(std::string& out, const JsonNode& node, RealText real_text, std::optional<std::size_t> depth) {
  const bool object = node.is_object();
  if (!object && !node.is_array()) {
    out += scalar_text(node, real_text);
    return;
  }
  std::vector<const JsonMember*> members;
  for (const JsonMember& member : node.members) members.push_back(&member);
  const std::size_t count = object ? members.size() : node.items.size();
  const bool leaves = std::none_of(node.items.begin(), node.items.end(),
                                   [](const JsonNode& item) { return item.is_array() || item.is_object(); });
  if (count == 0 || (!object && leaves)) depth.reset();
  if (!depth)  // UTF-8 bytes sort like code points
    std::sort(members.begin(), members.end(), [](const auto* a, const auto* b) { return a->key < b->key; });
  const auto new_line = [&](std::size_t level) { return depth ? "\n" + std::string(2 * level, ' ') : ""; };
  const auto inner = depth ? std::optional(*depth + 1) : std::nullopt;
  out += object ? '{' : '[';
  for (std::size_t i = 0; i < count; ++i) {
    out += (i > 0 ? "," : "") + new_line(inner.value_or(0));
    if (object) out += quoted(members[i]->key) + (depth ? ": " : ":");
    write(out, object ? members[i]->value : node.items[i], real_text, inner);
  }
  out += new_line(depth.value_or(0));
  out += object ? '}' : ']';
}

}  // namespace

std::string write_json(const JsonNode& node, JsonStyle style) {
  std::string out;
  if (style == JsonStyle::compact)
    write(out, node, shortest, std::nullopt);
  else
    write(out, node, as_written, 0);
  return out;
}

std::string value_text(const JsonNode& node) {
  std::string out;
  write(out, node, by_value, std::nullopt);
  return out;
}

std::string describe(const JsonNode& node) {
  constexpr std::size_t kLongest = 40;
  if (node.is_object()) return "an object";
  if (node.is_array()) return "a list";
  std::string text = visible_line(node.kind == JsonKind::real && !node.text.empty() ? node.text : value_text(node));
  if (text.size() <= kLongest) return text;
  std::size_t cut = kLongest;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0) == 0x80) --cut;  // not inside a character
  return text.substr(0, cut) + "...";
}

std::string pointer_step(std::string_view key) {
  std::string out(1, '/');
  for (const char c : shown(key)) {
    if (c == '~')
      out += "~0";
    else if (c == '/')
      out += "~1";
    else
      out += c;
  }
  return out;
}

}  // namespace normlab
