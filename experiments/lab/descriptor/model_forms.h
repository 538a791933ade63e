// The forms of norms, placements and models.
#pragma once

#include "experiments/lab/descriptor/form.h"

namespace normlab {

/// Of both sides, or [height, width].
template <>
struct Form<std::array<std::int64_t, 2>> : ValueForm {
  using Pair = std::array<std::int64_t, 2>;
  static void read(FieldReader& in, const JsonNode& node, Pair& out, Range range) {
    if (node.is_array() && node.items.size() != 2)
      return in.report(node.at, concat("expected a number or [height, width], got ", node.items.size(), " numbers"));
    for (std::size_t i = 0; i < 2; ++i) in.value(node.is_array() ? node.items[i] : node, out[i], range);
  }
  static JsonNode write(const Pair& value, WriteOptions) { return std::vector<JsonNode>{value[0], value[1]}; }
  static JsonNode schema(Range range) {
    return if_type("array", pair_of(number_schema("integer", range)), number_schema("integer", range));
  }
  static std::string words(Range range) { return number_words("integer or [integer, integer]", range); }
};

/// [smallest, largest].
template <>
struct Form<std::array<double, 2>> : ValueForm {
  using Pair = std::array<double, 2>;
  static void read(FieldReader& in, const JsonNode& node, Pair& out, Range range) {
    if (!node.is_array() || node.items.size() != 2)
      return in.report(node.at, "expected [smallest, largest], got " + describe(node));
    const std::size_t before = in.reported();
    for (std::size_t i = 0; i < 2; ++i) in.value(node.items[i], out[i], range);
    if (in.reported() == before && out[0] > out[1]) in.report(node.at, "the first number is larger than the second");
  }
  static JsonNode write(const Pair& value, WriteOptions) { return std::vector<JsonNode>{value[0], value[1]}; }
  static JsonNode schema(Range range) { return pair_of(number_schema("number", range)); }
  static std::string words(Range) { return "[number, number]"; }
};

/// InitGain and ResidualFactor.
template <class Rule>
struct Form<NumberOrRule<Rule>> : ValueForm {
  static constexpr auto kRules = std::span(kWords<Rule>).template subspan<1>();
  static void read(FieldReader& in, const JsonNode& node, NumberOrRule<Rule>& out, Range) {
    out = {};
    if (node.is_number()) return in.value(node, out.value, kPositive);
    if (node.is_string() && find_word(node.text, out.rule) && out.rule != Rule::number) return;
    out = {};
    std::string words = "a number";
    for (const std::string_view word : kRules) words += concat(" or ", in_quotes(word));
    in.report(node.at, concat("expected ", words, ", got ", describe(node)));
  }
  static JsonNode write(const NumberOrRule<Rule>& given, WriteOptions) {
    return given.rule == Rule::number ? JsonNode(given.value) : JsonNode(word_of(given.rule));
  }
  static JsonNode schema(Range) { return if_type("string", one_of_words(kRules), number_schema("number", kPositive)); }
  static std::string words(Range) { return concat("number > 0 \\| ", alternatives(kRules)); }
};

template <>
struct Form<DropoutRates> : ObjectForm<DropoutRates> {
  static void read(FieldReader& in, const JsonNode& node, DropoutRates& out, Range range) {
    out = {};
    if (node.is_object()) return void(in.object(node, out));
    double all = 0;
    in.value(node, all, range);
    out = all;
  }
  static JsonNode write(const DropoutRates& rates, WriteOptions options) {
    return rates.equal() ? JsonNode(rates.stem) : ObjectForm::write(rates, options);
  }
  static JsonNode schema(Range range) {
    return if_type("object", ObjectForm::schema(range), number_schema("number", range));
  }
  static std::string words(Range range) { return number_words("number", range) + ", or an object"; }
};

template <>
struct Form<InitConfig> : ObjectForm<InitConfig> {
  static void read(FieldReader& in, const JsonNode& node, InitConfig& out, Range range) {
    out = {};
    if (node.is_object())
      in.object(node, out);
    else
      in.value(node, out.base, range);
  }
  static JsonNode write(const InitConfig& init, WriteOptions options) {
    if (init == InitConfig(init.base)) return word_of(init.base);
    JsonNode object = json_object();
    write_rows(object, init, InitConfig(init.base), options);
    if (!options.everything) object.add("base", word_of(init.base));
    return object;
  }
  static JsonNode schema(Range range) {
    return if_type("object", ObjectForm::schema(range), Form<Init>::schema(range));
  }
  static std::string words(Range range) { return Form<Init>::words(range) + ", or an object"; }
};

/// The kind alone, or an object.
template <>
struct Form<NormSpec> : ObjectForm<NormSpec> {
  using Rows = void;  // listed once, not for each site
  static void read(FieldReader& in, const JsonNode& node, NormSpec& out, Range);
  static JsonNode write(const NormSpec& spec, WriteOptions options);
  static JsonNode schema(Range) { return reference("norm"); }
  static std::string words(Range) { return "norm"; }
};

/// The kind alone, or an object with "init", a number or "auto".
template <>
struct Form<LayerScale> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, LayerScale& out, Range);
  static JsonNode write(const LayerScale& scale, WriteOptions options);
  static JsonNode schema(Range) {
    const JsonNode init = object({{"init", if_type("string", one_of_words({"auto"}), type("number"))}});
    return if_type("object", rows_schema<LayerScale>(init), one_of_words(kWords<LayerScaleKind>));
  }
  static std::string words(Range) { return alternatives(kWords<LayerScaleKind>) + ", or {\"kind\", \"init\"}"; }
};

/// A name, or an object of sites.
template <>
struct Form<Placement> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, Placement& out, Range);
  static void read_blocks(FieldReader& in, const JsonNode& node, Placement& out);  // block_ranges.cpp
  static JsonNode write(const Placement& placement, WriteOptions options);
  static JsonNode schema(Range) { return reference("placement"); }
  static std::string words(Range) { return "placement"; }
};

template <>
struct Form<ModelConfig> {
  using Rows = ViTConfig;
  static void read(FieldReader& in, const JsonNode& node, ModelConfig& out, Range);
  /// Its keys depend on its kind, which another file may set; json_schema() adds them.
  static JsonNode schema(Range) { return json_object(); }
  static std::string words(Range) { return ""; }
};

}  // namespace normlab
