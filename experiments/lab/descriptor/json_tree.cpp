#include "experiments/lab/descriptor/json_tree.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <nlohmann/json.hpp>

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

void write_string(std::string& out, const std::string& text) {
  // Trees hold valid UTF-8 from the parser or the program, except perhaps a path from the command line.
  out += nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

template <class Real>
void write_scalar(std::string& out, const JsonNode& node, Real&& real) {
  switch (node.kind) {
    case JsonKind::null:
      out += "null";
      return;
    case JsonKind::boolean:
      out += node.boolean ? "true" : "false";
      return;
    case JsonKind::integer:
      out += std::to_string(node.integer);
      return;
    case JsonKind::natural:
      out += std::to_string(node.natural);
      return;
    case JsonKind::real:
      out += real(node);
      return;
    case JsonKind::string:
      write_string(out, node.text);
      return;
    case JsonKind::array:
    case JsonKind::object:
      return;
  }
}

template <class Real>
void write_compact(std::string& out, const JsonNode& node, Real&& real) {
  if (node.is_array()) {
    out += '[';
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      if (i > 0) out += ',';
      write_compact(out, node.items[i], real);
    }
    out += ']';
  } else if (node.kind == JsonKind::object) {
    // UTF-8 bytes sort like code points.
    std::vector<const JsonMember*> sorted;
    for (const JsonMember& member : node.members) sorted.push_back(&member);
    std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->key < b->key; });
    out += '{';
    for (std::size_t i = 0; i < sorted.size(); ++i) {
      if (i > 0) out += ',';
      write_string(out, sorted[i]->key);
      out += ':';
      write_compact(out, sorted[i]->value, real);
    }
    out += '}';
  } else {
    write_scalar(out, node, real);
  }
}

std::string shortest(const JsonNode& node) { return shortest_real(node.real); }

/// Labels of axes show a number as a file has it.
std::string as_written(const JsonNode& node) { return node.text.empty() ? shortest(node) : node.text; }

void write_indented(std::string& out, const JsonNode& node, std::size_t depth) {
  const bool object = node.is_object();
  const std::size_t count = object ? node.members.size() : node.items.size();
  const bool leaves = std::none_of(node.items.begin(), node.items.end(),
                                   [](const JsonNode& item) { return item.is_array() || item.is_object(); });
  if (!object && !node.is_array()) return write_scalar(out, node, as_written);
  if (count == 0 || (!object && leaves)) return write_compact(out, node, as_written);
  out += object ? '{' : '[';
  for (std::size_t i = 0; i < count; ++i) {
    out += i > 0 ? ",\n" : "\n";
    out.append(2 * depth + 2, ' ');
    if (object) {
      write_string(out, node.members[i].key);
      out += ": ";
    }
    write_indented(out, object ? node.members[i].value : node.items[i], depth + 1);
  }
  out += '\n';
  out.append(2 * depth, ' ');
  out += object ? '}' : ']';
}

}  // namespace

std::string write_json(const JsonNode& node, JsonStyle style) {
  std::string out;
  if (style == JsonStyle::compact)
    write_compact(out, node, shortest);
  else
    write_indented(out, node, 0);
  return out;
}

std::string value_text(const JsonNode& node) {
  std::string out;
  write_compact(out, node, [](const JsonNode& real) {
    const double value = real.real;
    std::string text = shortest_real(value);
    if (value == double(std::int64_t(value < 9e15 && value > -9e15 ? value : 0.5))) {
      text = std::to_string(std::int64_t(value));  // an integer means the same with and without a point
    }
    return text;
  });
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
