// Building blocks of the descriptors' JSON Schema.
#pragma once

#include <initializer_list>
#include <string_view>
#include <utility>
#include <vector>

#include "core/error.h"
#include "experiments/lab/descriptor/json_tree.h"

namespace normlab {

struct SchemaMember {
  const char* key;
  mutable JsonNode value;  // mutable so that it can be moved out of an initializer list
};

inline JsonNode object(std::initializer_list<SchemaMember> members) {
  JsonNode node = json_object();
  for (const SchemaMember& member : members) node.add(member.key, std::move(member.value));
  return node;
}

inline JsonNode type(const char* name) { return object({{"type", name}}); }

using Words = std::initializer_list<std::string_view>;
template <class List = Words>
JsonNode list_of_words(const List& words) {
  JsonNode list(JsonKind::array);
  for (const std::string_view word : words) list.items.push_back(word);
  return list;
}
template <class List = Words>
JsonNode one_of_words(const List& words) {
  return object({{"enum", list_of_words(words)}});
}

/// The names of rows.
template <class List>
std::vector<std::string_view> names_of(const List& rows) {
  std::vector<std::string_view> names;
  for (const auto& row : rows) names.push_back(row.name);
  return names;
}

inline JsonNode any_of(std::vector<JsonNode> choices) { return object({{"anyOf", std::move(choices)}}); }

/// Errors then refer only to the branch taken.
inline JsonNode if_then_else(JsonNode condition, JsonNode yes, JsonNode no) {
  return object({{"if", std::move(condition)}, {"then", std::move(yes)}, {"else", std::move(no)}});
}
inline JsonNode if_type(const char* name, JsonNode yes, JsonNode no) {
  return if_then_else(type(name), std::move(yes), std::move(no));
}

inline JsonNode reference(std::string_view name) { return object({{"$ref", concat("#/$defs/", name)}}); }

inline JsonNode list_of(JsonNode items) { return object({{"type", "array"}, {"items", std::move(items)}}); }

inline JsonNode pair_of(JsonNode items) {
  JsonNode pair = list_of(std::move(items));
  pair.add("minItems", 2);
  pair.add("maxItems", 2);
  return pair;
}

inline JsonNode required(Words keys) { return object({{"required", list_of_words(keys)}}); }

inline JsonNode closed_object(JsonNode members) {
  return object({{"type", "object"}, {"properties", std::move(members)}, {"additionalProperties", false}});
}

/// A key of "blocks": a block, a range of blocks, or "rest".
inline constexpr const char* kRangeName = "^((0|[1-9][0-9]*)(-[1-9][0-9]*%?)?|rest)$";

/// Adds "$defs" for a grid ("grid": lists of values by axis, and "seeds") and for a choice of values ("choice"), with
/// the path of every setting in the schemas already in `root`.
void add_axis_schemas(JsonNode& root);

}  // namespace normlab
