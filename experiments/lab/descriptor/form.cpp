#include "experiments/lab/descriptor/form.h"

#include <cmath>

namespace normlab {

JsonNode number_schema(const char* name, Range range) {
  JsonNode node = type(name);
  if (std::isfinite(range.low)) node.add(range.low_open ? "exclusiveMinimum" : "minimum", range.low);
  if (std::isfinite(range.high)) node.add(range.high_open ? "exclusiveMaximum" : "maximum", range.high);
  return node;
}

std::string number_words(std::string_view name, Range range) {
  std::string bounds;
  const auto bound = [&](const char* sign, double limit) {
    if (std::isfinite(limit)) bounds += concat(bounds.empty() ? " " : ", ", sign, " ", value_text(limit));
  };
  bound(range.low_open ? ">" : ">=", range.low);
  bound(range.high_open ? "<" : "<=", range.high);
  return concat(name, bounds);
}

std::string alternatives(std::span<const std::string_view> words, std::string_view separator) {
  std::string all;
  for (const std::string_view word : words) all += concat(all.empty() ? "" : separator, word);
  return all;
}

std::string plain_text(const JsonNode& node) {
  if (node.is_object()) return "";
  if (!node.is_array()) return node.is_string() ? node.text : value_text(node);
  std::string items;
  for (const JsonNode& item : node.items) items += concat(items.empty() ? "" : ", ", plain_text(item));
  return concat("[", items, "]");
}

}  // namespace normlab
