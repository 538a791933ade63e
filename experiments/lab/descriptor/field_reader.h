// Strictly reads values by C++ type, and objects by field table.
#pragma once

#include <algorithm>
#include <initializer_list>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/fields.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/reader.h"
#include "experiments/lab/descriptor/unknown_setting.h"

namespace normlab {

class FieldReader {
 public:
  /// `kind`: the model whose norm defaults apply, until a model of another kind is read.
  FieldReader(PlacementRows& rows, Problems& problems, ModelKind kind = ModelKind::vit,
              ReadMode mode = ReadMode::descriptor)
      : rows_(rows), problems_(problems), kind_(kind), mode_(mode) {}

  std::size_t reported() const { return reported_; }
  void report(const Position& at, const std::string& what) { report(at, at.pointer(), what); }
  /// The same with another pointer than the position's.
  void report(const Position& at, const std::string& pointer, const std::string& what) {
    ++reported_;
    problems_.add(at, pointer, what);
  }

  /// Reports at the deepest part of the dotted `key` that is written below `node`; steps into lists are indices.
  void report_below(const JsonNode& node, std::string_view key, const std::string& what);

  /// Reads the members of `node` into `out`; keys in `others` are left to the caller.
  template <class T>
  void object(const JsonNode& node, T& out, std::initializer_list<std::string_view> others = {}) {
    if (!node.is_object())
      return report(node.at, concat("expected an object", example_of<T>(node), ", got ", describe(node)));
    for (const JsonMember& member : node.members) {
      bool known = std::find(others.begin(), others.end(), member.key) != others.end();
      for_each_field<T>([&](const auto& field) {
        if (field.key != member.key) return;
        known = true;
        value(member.value, out.*field.member, field.range);
      });
      if (!known) report_unknown_key<T>(member, others);
    }
    if constexpr (kMayBeUnused<T>) drop_meaningless(node, out);
    refuse_exclusive<T>(node);
  }

  void value(const JsonNode& node, bool& out, Range);
  void value(const JsonNode& node, std::int64_t& out, Range range);
  void value(const JsonNode& node, std::uint64_t& out, Range range);
  void value(const JsonNode& node, std::optional<std::int64_t>& out, Range range);
  void value(const JsonNode& node, double& out, Range range);
  void value(const JsonNode& node, std::string& out, Range);
  void value(const JsonNode& node, std::array<std::int64_t, 2>& out, Range range);
  void value(const JsonNode& node, NormSpec& out, Range);
  void value(const JsonNode& node, LayerScale& out, Range);
  void value(const JsonNode& node, InitConfig& out, Range);
  void value(const JsonNode& node, DropoutRates& out, Range range);
  /// InitGainRule and ResidualRule.
  template <class Rule>
  void value(const JsonNode& node, NumberOrRule<Rule>& out, Range) {
    out = {};
    if (node.is_number()) return value(node, out.value, kPositive);
    if (node.is_string() && find_word(node.text, out.rule) && out.rule != Rule::number) return;
    out = {};
    std::string words = "a number";
    for (const std::string_view word : rule_words<Rule>()) words += concat(" or ", in_quotes(word));
    report(node.at, concat("expected ", words, ", got ", describe(node)));
  }
  void value(const JsonNode& node, Placement& out, Range);
  void value(const JsonNode& node, std::array<double, 2>& out, Range range);
  void value(const JsonNode& node, ModelConfig& out, Range);
  void value(const JsonNode& node, DatasetConfig& out, Range);
  void value(const JsonNode& node, OptimizerSettings& out, Range);
  void value(const JsonNode& node, ClassGroups& out, Range);
  void value(const JsonNode& node, StartFrom& out, Range);
  void value(const JsonNode& node, StartConfig& out, Range);

  template <class T>
  void value(const JsonNode& node, std::vector<T>& out, Range range) {
    const char* const items = std::is_integral_v<T> ? " of integers" : std::is_floating_point_v<T> ? " of numbers" : "";
    if (node.kind != JsonKind::array)
      return report(node.at, concat("expected a list", items, ", got ", describe(node)));
    out.assign(node.items.size(), {});
    for (std::size_t i = 0; i < node.items.size(); ++i) {
      const std::string number = std::to_string(i);
      value(node.items[i], out[i], range);
    }
  }

  template <class T>
  requires std::is_enum_v<T>
  void value(const JsonNode& node, T& out, Range) {
    if (!node.is_string()) return report(node.at, "expected a word, got " + describe(node));
    if (!find_word(node.text, out))
      report(node.at, unknown_word("word", node.text, {std::begin(kWords<T>), std::end(kWords<T>)}));
  }

  template <class T>
  requires std::is_class_v<T>
  void value(const JsonNode& node, T& out, Range) { object(node, out); }

 private:
  /// Whether T has keys that only some of a descriptor's trials use.
  template <class T>
  static constexpr bool kMayBeUnused = std::is_same_v<T, SwinConfig> ||
                                       std::apply([](const auto&... row) { return (row.has_conditions() || ...); },
                                                  fields<T>());

  /// The braces' placeholders are filled in.
  template <class T>
  static std::string reason(std::string_view text, std::string_view key, const T& value) {
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
    bool found = false;
    for_each_field<T>([&](const auto& field) { found = found || field.key == key; });
    return found;
  }

  /// `, as {"name": "adamw"}`: the first setting that can be written as text, with its default or
  /// the nearest valid word.
  template <class T>
  static std::string example_of(const JsonNode& node) {
    std::string out;
    const T defaults{};
    const auto word = [&]<class E>(E otherwise) {
      const std::string_view meant =
          node.is_string() ? nearest(node.text, {std::begin(kWords<E>), std::end(kWords<E>)}) : std::string_view();
      return in_quotes(meant.empty() ? word_of(otherwise) : meant);
    };
    for_each_field<T>([&](const auto& field) {
      using Member = typename std::remove_cvref_t<decltype(field)>::Member;
      if (!out.empty()) return;
      std::string value;
      if constexpr (std::is_enum_v<Member>) value = word(defaults.*field.member);
      if constexpr (std::is_same_v<Member, NormSpec>) value = word(NormKind::layer_norm);
      if constexpr (std::is_arithmetic_v<Member>)
        if (defaults.*field.member != Member{}) value = concat(defaults.*field.member);
      if (!value.empty()) out = concat(" such as {\"", field.key, "\": ", value, "}");
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
        return problems_.unused(member.key_at, "only a model of kind vit has this key");
    }
    std::vector<std::string_view> keys(others);
    for_each_field<T>([&](const auto& field) { keys.push_back(field.key); });
    report(member.key_at, unknown_setting(member.key, keys));
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
      problems_.unused(given->key_at, reason(unmet->otherwise, row.key, out));
    });
  }

  template <class Number>
  void check_range(const JsonNode& node, Number read, Range range, Number& out);
  /// Refuses two settings of T that mean the same.
  template <class T>
  void refuse_exclusive(const JsonNode& node) {
    if (mode_ == ReadMode::canonical) return;  // contains all settings, with 0 for one of a pair
    for (const Exclusive& pair : kExclusive) {
      if (!has_field<T>(pair.a) || !has_field<T>(pair.b)) continue;
      if (node.find(pair.a) == nullptr || node.find(pair.b) == nullptr) continue;
      refuse_both(node, pair.a, pair.b);
      for (const std::string_view key : {pair.a, pair.b})
        problems_.used(node.find(key)->key_at);  // already reported, so not also as unused
    }
  }
  void refuse_both(const JsonNode& node, std::string_view a, std::string_view b);
  void blocks(const JsonNode& node, Placement& out);
  void variant(const JsonNode& node, ViTConfig& out);
  void variant(const JsonNode& node, SwinConfig& out);
  template <class Config>
  void model(const JsonNode& node, Config& out);
  void refuse_merge(const JsonNode& node);
  /// A norm of that kind with the model's defaults, in a canonical text with those of its first version.
  NormSpec default_norm(NormKind kind) const {
    NormSpec spec = kind_ == ModelKind::swin ? swin_norm(kind) : norm_of(kind);
    if (mode_ == ReadMode::canonical && kind == NormKind::batch_norm) spec.running = RunningFrom::first_group;
    return spec;
  }
  /// Leaves out drop-path where a single block has none. Canonical texts of earlier versions, where it had, keep it and
  /// their ids.
  template <class Config>
  void without_idle_drop_path(Config& out) const {
    if (mode_ == ReadMode::canonical || block_count(out) > 1 || out.drop_path == 0) return;
    const Config defaults = defaults_beside(out);
    out.drop_path = defaults.drop_path;
    for_each_field<Config>([&](const auto& row) {
      if (row.unmet(out) != nullptr) out.*row.member = defaults.*row.member;
    });
  }

  PlacementRows& rows_;
  Problems& problems_;
  ModelKind kind_;
  ReadMode mode_;
  std::size_t reported_ = 0;
};

}  // namespace normlab
