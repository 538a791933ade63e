// How each type of value looks in a descriptor: read, written, in the JSON Schema, and in the table of keys.
#pragma once

#include "experiments/lab/descriptor/field_reader.h"
#include "experiments/lab/descriptor/schema_nodes.h"

namespace normlab {

/// everything: all settings that apply; otherwise those that differ from the defaults, which for norms depend on the
/// model's kind.
struct WriteOptions {
  bool everything;
  ModelKind kind;
};

JsonNode number_schema(const char* name, Range range);
/// "integer >= 1, <= 64".
std::string number_words(std::string_view name, Range range);

/// A written value in a line of text: "0.1", "[1, 2]"; "" for an object.
std::string plain_text(const JsonNode& node);
template <class T>
std::string setting_text(const T& value) {
  return plain_text(Form<T>::write(value, {/*everything=*/true, ModelKind::vit}));
}
/// "torch \\| optax".
std::string alternatives(std::span<const std::string_view> words, std::string_view separator = " \\| ");

template <class T>
void add_row_schemas(JsonNode& members) {
  for_each_field<T>([&](const auto& row) {
    JsonNode node = Form<typename std::remove_cvref_t<decltype(row)>::Member>::schema(row.range);
    if (!row.doc.empty()) node.add("description", row.doc);
    members.add(std::string(row.key), std::move(node));
  });
}
/// `more`: members without a row.
template <class T>
JsonNode rows_schema(const JsonNode& more = json_object()) {
  JsonNode members = json_object(), needed(JsonKind::array);
  add_row_schemas<T>(members);
  members.members.insert(members.members.end(), more.members.begin(), more.members.end());
  for_each_field<T>([&](const auto& row) {
    if (!row.missing.empty()) needed.items.push_back(row.key);
  });
  JsonNode node = closed_object(std::move(members));
  if (!needed.items.empty()) node.add("required", std::move(needed));
  return node;
}

template <class T>
void write_rows(JsonNode& object, const T& value, const T& defaults, WriteOptions options) {
  for_each_field<T>([&](const auto& row) {
    const auto& member = value.*row.member;
    if (row.unmet(value) != nullptr) return;
    if constexpr (requires { member.has_value(); })
      if (!member) return;  // there is no word for its absence
    if (options.everything || !(member == defaults.*row.member))
      object.add(std::string(row.key), Form<std::remove_cvref_t<decltype(member)>>::write(member, options));
  });
}

/// Of a struct with rows. Form is specialised for other types; a specialisation may derive from this one.
template <class T>
struct ObjectForm {
  using Rows = T;  // keys below its own in the table of keys; void: none
  static void read(FieldReader& in, const JsonNode& node, T& out, Range) { in.object(node, out); }
  static JsonNode write(const T& value, WriteOptions options) {
    JsonNode object = json_object();
    write_rows(object, value, defaults_beside(value), options);
    return object;
  }
  static JsonNode schema(Range) { return rows_schema<T>(); }
  static std::string words(Range) { return ""; }  // "": no line of its own in the table of keys
};
template <class T>
struct Form : ObjectForm<T> {};

struct ValueForm {
  using Rows = void;
};

template <>
struct Form<bool> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, bool& out, Range) {
    if (node.kind != JsonKind::boolean) return in.report(node.at, "expected true or false, got " + describe(node));
    out = node.boolean;
  }
  static JsonNode write(bool value, WriteOptions) { return value; }
  static JsonNode schema(Range) { return type("boolean"); }
  static std::string words(Range) { return "true \\| false"; }
};

template <class T>
requires std::is_arithmetic_v<T>
struct Form<T> : ValueForm {
  static constexpr const char* kName = std::is_integral_v<T> ? "integer" : "number";
  static void read(FieldReader& in, const JsonNode& node, T& out, Range range) { in.number(node, out, range); }
  static JsonNode write(T value, WriteOptions) { return value; }
  static JsonNode schema(Range range) {
    if constexpr (!std::is_unsigned_v<T>) return number_schema(kName, range);
    return object({{"type", kName}, {"minimum", T(std::max(range.low, 0.0))}});
  }
  static std::string words(Range range) { return number_words(kName, std::is_unsigned_v<T> ? kNotNegative : range); }
};

template <>
struct Form<std::string> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, std::string& out, Range range) {
    const bool empty = range.low > 0 && node.text.empty();
    if (!node.is_string() || empty)
      return in.report(node.at,
                       concat("expected a ", range.low > 0 ? "non-empty " : "", "string, got ", describe(node)));
    out = node.text;
  }
  static JsonNode write(const std::string& value, WriteOptions) { return value; }
  static JsonNode schema(Range range) {
    return range.low > 0 ? object({{"type", "string"}, {"minLength", std::int64_t(range.low)}}) : type("string");
  }
  static std::string words(Range) { return "string"; }
};

template <class E>
struct EnumForm : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, E& out, Range) {
    if (in.mode() == ReadMode::block) {
      if (!node.is_string() || !find_word(node.text, out))
        in.report(node.at, concat("expected one of \"", alternatives(kWords<E>, "\", \""), "\"; got ", describe(node)));
      return;
    }
    if (!node.is_string()) return in.report(node.at, "expected a word, got " + describe(node));
    if (!find_word(node.text, out))
      in.report(node.at, unknown_word("word", node.text, {std::begin(kWords<E>), std::end(kWords<E>)}));
  }
  static JsonNode write(E value, WriteOptions) { return word_of(value); }
  static JsonNode schema(Range) { return one_of_words(kWords<E>); }
  static std::string words(Range) { return alternatives(kWords<E>); }
};
template <class E>
requires std::is_enum_v<E>
struct Form<E> : EnumForm<E> {
};

template <class T>
struct Form<std::optional<T>> : Form<T> {
  static void read(FieldReader& in, const JsonNode& node, std::optional<T>& out, Range range) {
    in.value(node, out.emplace(), range);
  }
  static JsonNode write(const std::optional<T>& value, WriteOptions options) {
    return value ? Form<T>::write(*value, options) : json_object();
  }
};

template <class T>
struct Form<std::vector<T>> : ValueForm {
  static constexpr bool kText = std::is_same_v<T, std::string>, kObjects = std::is_class_v<T> && !kText;
  static void read(FieldReader& in, const JsonNode& node, std::vector<T>& out, Range range) {
    const bool not_empty = (kText || kObjects) && range.low > 0;
    const char* const items = std::is_integral_v<T>                       ? " of integers"
                              : std::is_floating_point_v<T>               ? " of numbers"
                              : !kObjects || in.mode() != ReadMode::block ? ""
                              : not_empty                                 ? " of one object or more"
                                                                          : " of objects";
    if (!node.is_array() || (not_empty && node.items.empty()))
      return in.report(node.at, concat("expected a list", items, ", got ", describe(node)));
    out.assign(node.items.size(), {});
    for (std::size_t i = 0; i < node.items.size(); ++i) in.value(node.items[i], out[i], range);
  }
  static JsonNode write(const std::vector<T>& value, WriteOptions options) {
    JsonNode list(JsonKind::array);
    for (const T& item : value) list.items.push_back(Form<T>::write(item, options));
    return list;
  }
  static JsonNode schema(Range range) { return list_of(Form<T>::schema(range)); }
  static std::string words(Range range) {
    if constexpr (kText) return "list of strings";
    if constexpr (std::is_floating_point_v<T>) return "list of numbers";
    if constexpr (std::is_integral_v<T>) return number_words("list of integers", range);
    std::string keys;
    if constexpr (kObjects)
      for_each_field<T>([&](const auto& row) { keys += concat(keys.empty() ? "" : ", ", in_quotes(row.key)); });
    return concat("list of ", kObjects ? "{" + keys + "}" : Form<T>::words(range));
  }
};

/// Reports and omits what is wrong.
template <class T>
T read_value(const JsonNode& node, PlacementRows& rows, Problems& problems, ReadMode mode = ReadMode::descriptor) {
  T out;
  FieldReader(rows, problems, ModelKind::vit, mode).value(node, out);
  return out;
}

}  // namespace normlab
