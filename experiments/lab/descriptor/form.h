// How each type of value looks in a descriptor: read, written, in the JSON Schema, and in the table of keys.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/fields.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/reader.h"
#include "experiments/lab/descriptor/schema_nodes.h"

namespace normlab {

template <class T>
struct Form;  // experiments/lab/descriptor/form.h

class FieldReader {
 public:
  /// `kind`: the model whose norm defaults apply, until a model of another kind is read.
  FieldReader(PlacementRows& rows, Problems& problems, ModelKind kind = ModelKind::vit,
              ReadMode mode = ReadMode::descriptor)
      : rows_(rows), problems_(problems), kind_(kind), mode_(mode) {}

  PlacementRows& rows() { return rows_; }
  Problems& problems() { return problems_; }
  ModelKind kind() const { return kind_; }
  void set_kind(ModelKind kind) { kind_ = kind; }
  ReadMode mode() const { return mode_; }

  std::size_t reported() const { return reported_; }
  void report(const Position& at, const std::string& what) { report(at, at.pointer(), what); }
  /// The same with another pointer than the position's.
  void report(const Position& at, const std::string& pointer, const std::string& what) {
    ++reported_;
    problems_.add(at, pointer, what);
  }

  /// Reports at the deepest part of the dotted `key` that is written below `node`; steps into lists are indices.
  void report_below(const JsonNode& node, std::string_view key, const std::string& what);

  /// Reads the members of `node` into `out`; keys in `others` are left to the caller. False, with a problem, unless
  /// `node` is an object with all needed keys.
  template <class T>
  bool object(const JsonNode& node, T& out, std::initializer_list<std::string_view> others = {}) {
    if (!node.is_object()) {
      const std::string example = mode_ == ReadMode::block ? "" : example_of<T>(node);
      report(node.at, concat("expected an object", example, ", got ", describe(node)));
      return false;
    }
    for (const JsonMember& member : node.members) {
      bool known = std::find(others.begin(), others.end(), member.key) != others.end();
      for_each_field<T>([&](const auto& row) {
        if (row.key != member.key) return;
        known = true;
        value(member.value, out.*row.member, row.range);
      });
      if (!known) report_unknown_key<T>(member, others);
    }
    bool complete = true;
    for_each_field<T>([&](const auto& row) {
      if (row.missing.empty() || node.find(row.key) != nullptr) return;
      report(node.at, filled(row.missing, row.key, out));
      complete = false;
    });
    if constexpr (kMayBeUnused<T>)
      if (complete) drop_meaningless(node, out);
    refuse_exclusive<T>(node);
    return complete;
  }

  template <class T>
  void value(const JsonNode& node, T& out, Range range = {}) {
    if (range.expected.empty())
      Form<T>::read(*this, node, out, range);
    else
      value_as_expected(node, out, range);
  }
  void number(const JsonNode& node, std::int64_t& out, Range range);
  void number(const JsonNode& node, std::uint64_t& out, Range range);
  void number(const JsonNode& node, double& out, Range range);

 private:
  /// Reports one problem, in the range's words.
  template <class T>
  void value_as_expected(const JsonNode& node, T& out, Range range) {
    Problems details;
    FieldReader reader(rows_, details, kind_, mode_);
    T read = out;
    reader.value(node, read, {range.low, range.high, range.low_open, range.high_open, range.of_descriptors});
    if (reader.reported_ == 0)
      out = std::move(read);
    else
      report(node.at,
             concat("expected ", range.expected, ", got ", describe(node), range.why.empty() ? "" : "; ", range.why));
  }

  /// Whether T has keys that only some of a descriptor's trials use.
  template <class T>
  static constexpr bool kMayBeUnused = [] {
    bool may_be = std::is_same_v<T, SwinConfig>;
    for_each_field<T>([&](const auto& row) { may_be = may_be || row.has_conditions(); });
    return may_be;
  }();

  /// The braces' placeholders are filled in.
  template <class T>
  static std::string filled(std::string_view text, std::string_view key, const T& value) {
    std::string out;
    for (std::size_t open; (open = text.find('{')) != text.npos; text.remove_prefix(text.find('}') + 1)) {
      out += text.substr(0, open);
      const std::string_view name = text.substr(open + 1, text.find('}') - open - 1);
      if (name.empty()) out += key;
      for_each_field<T>([&](const auto& row) {
        using Member = typename std::remove_cvref_t<decltype(row)>::Member;
        if (row.key != name) return;
        if constexpr (std::is_enum_v<Member>) out += word_of(value.*row.member);
        if constexpr (std::is_same_v<Member, std::string>) out += shown(value.*row.member);
      });
    }
    return out += text;
  }

  template <class T>
  static bool has_field(std::string_view key) {
    return std::find(kKeysOf<T>.begin(), kKeysOf<T>.end(), key) != kKeysOf<T>.end();
  }

  /// `, as {"name": "adamw"}`: the first setting that can be written as text, with its default or
  /// the nearest valid word.
  template <class T>
  static std::string example_of(const JsonNode& node) {
    if constexpr (std::is_same_v<T, ViTConfig> || std::is_same_v<T, SwinConfig>)
      return concat(" such as {\"variant\": \"", std::is_same_v<T, ViTConfig> ? "Ti/4" : "Swin-T", "\"}");
    std::string out;
    const T defaults{};
    const auto word = [&]<class E>(E otherwise) {
      const std::string_view meant =
          node.is_string() ? nearest(node.text, {std::begin(kWords<E>), std::end(kWords<E>)}) : std::string_view();
      return in_quotes(meant.empty() ? word_of(otherwise) : meant);
    };
    for_each_field<T>([&](const auto& row) {
      using Member = typename std::remove_cvref_t<decltype(row)>::Member;
      if (!out.empty()) return;
      std::string value;
      if constexpr (std::is_enum_v<Member>) value = word(defaults.*row.member);
      if constexpr (std::is_same_v<Member, NormSpec>) value = word(NormKind::layer_norm);
      if constexpr (std::is_arithmetic_v<Member>)
        if (defaults.*row.member != Member{}) value = concat(defaults.*row.member);
      if (!value.empty()) out = concat(" such as {\"", row.key, "\": ", value, "}");
    });
    return out;
  }

  template <class T>
  void report_unknown_key(const JsonMember& member, std::initializer_list<std::string_view> others) {
    if constexpr (std::is_same_v<T, ViTConfig>) {
      if (has_field<SwinConfig>(member.key))
        return problems_.unused(member.key_at, "only a model of kind swin has this key");
    } else if constexpr (std::is_same_v<T, SwinConfig>) {
      if (has_field<ViTConfig>(member.key))
        return problems_.unused(member.key_at, concat("only a model of kind vit has this key", swin_has(member.key)));
    }
    std::vector<std::string_view> keys(others);
    keys.insert(keys.end(), kKeysOf<T>.begin(), kKeysOf<T>.end());
    report(member.key_at, (mode_ == ReadMode::block ? unknown_key : unknown_setting)(member.key, keys));
  }

  template <class T>
  void drop_meaningless(const JsonNode& node, T& out) {
    const T defaults = defaults_beside(out);
    for_each_field<T>([&](const auto& row) {
      if (row.key == kWindowPaddingKey) return;  // judged once the data set's sizes are known
      const auto* const unmet = row.unmet(out);
      if (unmet != nullptr) out.*row.member = defaults.*row.member;
      const JsonMember* given = node.find(row.key);
      if (given == nullptr) return;
      if (unmet == nullptr) return problems_.used(given->key_at);
      problems_.unused(given->key_at, filled(unmet->otherwise, row.key, out));
    });
  }

  template <class Number>
  void check_range(const JsonNode& node, Number read, Range range, Number& out);
  /// Refuses two settings of T that mean the same.
  template <class T>
  void refuse_exclusive(const JsonNode& node) {
    if (mode_ == ReadMode::canonical) return;  // contains all settings, with 0 for one of a pair
    for (const Exclusive& pair : kExclusive)
      if (has_field<T>(pair.a) && has_field<T>(pair.b)) refuse_both(node, pair.a, pair.b);
  }
  void refuse_both(const JsonNode& node, std::string_view a, std::string_view b);

  PlacementRows& rows_;
  Problems& problems_;
  ModelKind kind_;
  ReadMode mode_;
  std::size_t reported_ = 0;
};

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
      return in.report(node.at,
                       concat("expected a list", items, ", got ", node.is_array() ? "an empty one" : describe(node)));
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
      for (const std::string_view key : kKeysOf<T>) keys += concat(keys.empty() ? "" : ", ", in_quotes(key));
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
