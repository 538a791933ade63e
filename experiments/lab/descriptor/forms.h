// The forms of all types that are no plain values. A file that uses one includes this, so that none is mistaken for that
// of an object with rows.
#pragma once

#include "experiments/lab/descriptor/block_forms.h"
#include "experiments/lab/descriptor/tune.h"

namespace normlab {

// --- norms, placements and models

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

/// One word alone, or an object whose other keys change what it stands for. The word is the first row.
template <class Config, auto kWord>
struct WordForm : ObjectForm<Config> {
  using Word = std::remove_cvref_t<decltype(Config().*kWord)>;
  static constexpr std::string_view kKey = field_at<0>(kFieldsOf<Config>).key;
  static void read(FieldReader& in, const JsonNode& node, Config& out, Range range) {
    const JsonNode* const given = node.is_object() ? value_of(node, kKey) : &node;
    Word word = Config().*kWord;
    if (given != nullptr && given->is_string()) find_word(given->text, word);
    out = word;
    if (node.is_object())
      in.object(node, out);
    else
      in.value(node, out.*kWord, range);
  }
  static JsonNode write(const Config& config, WriteOptions options) {
    const Word word = config.*kWord;
    if (config == Config(word)) return word_of(word);
    JsonNode object = json_object();
    write_rows(object, config, Config(word), options);
    if (!options.everything) object.add(std::string(kKey), word_of(word));
    return object;
  }
  static JsonNode schema(Range range) {
    return if_type("object", ObjectForm<Config>::schema(range), Form<Word>::schema(range));
  }
  static std::string words(Range range) { return Form<Word>::words(range) + ", or an object"; }
};
template <>
struct Form<InitConfig> : WordForm<InitConfig, &InitConfig::base> {};
template <>
struct Form<RotaryConfig> : WordForm<RotaryConfig, &RotaryConfig::dialect> {};

/// The kind alone, or an object.
template <>
struct Form<NormSpec> : ObjectForm<NormSpec> {
  using Rows = void;  // listed once, not for each site
  static void read(FieldReader& in, const JsonNode& node, NormSpec& out, Range);
  static JsonNode write(const NormSpec& spec, WriteOptions options);
  static JsonNode schema(Range) { return reference("norm"); }
  static std::string words(Range) { return "norm"; }
};

/// A word, or an object with a formula. The default depends on the form of the MLP.
template <>
struct Form<ActivationConfig> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, ActivationConfig& out, Range);
  static JsonNode write(const ActivationConfig& activation, WriteOptions options);
  static JsonNode schema(Range) {
    return if_type("object", rows_schema<ActivationKeys>(), one_of_words(kWords<ActivationKind>));
  }
  static std::string words(Range) { return alternatives(kWords<ActivationKind>) + ", or {\"formula\"}"; }
  /// Before other keys of `node` are read into `out`.
  template <class Config>
  static void begin(const JsonNode& node, Config& out) {
    if (const JsonMember* const form = node.is_object() ? node.find("mlp") : nullptr;
        form != nullptr && form->value.is_string() && find_word(form->value.text, out.mlp))
      out.activation = default_activation(out.mlp);
  }
};

template <>
struct Form<TextConfig> : ObjectForm<TextConfig> {
  static void read(FieldReader& in, const JsonNode& node, TextConfig& out, Range) {
    Form<ActivationConfig>::begin(node, out);
    in.object(node, out);
  }
};

template <>
struct Form<InitialValue> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, InitialValue& out, Range);
  static JsonNode write(const InitialValue& init, WriteOptions) {
    return init.text.empty() ? JsonNode(init.number) : JsonNode(init.text);
  }
  static JsonNode schema(Range) { return object({{"type", list_of_words({"number", "string"})}}); }
  static std::string words(Range) { return "number or string"; }
};

/// The initial value alone, or an object.
template <>
struct Form<FormulaParameter> : ObjectForm<FormulaParameter> {
  static void read(FieldReader& in, const JsonNode& node, FormulaParameter& out, Range);
  static JsonNode write(const FormulaParameter& p, WriteOptions options);
  static JsonNode schema(Range range) { return if_type("object", ObjectForm::schema(range), type("number")); }
};

/// An object of them by name.
template <>
struct Form<std::vector<FormulaParameter>> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, std::vector<FormulaParameter>& out, Range);
  static JsonNode write(const std::vector<FormulaParameter>& parameters, WriteOptions options);
  static JsonNode schema(Range range) {
    return object({{"type", "object"}, {"additionalProperties", Form<FormulaParameter>::schema(range)}});
  }
  static std::string words(Range) { return "object of numbers or objects"; }
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

// --- data sets, starts and optimisers

/// An object of lists, since objects have no order.
template <>
struct Form<ClassGroups> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, ClassGroups& out, Range);
  static JsonNode write(const ClassGroups& groups, WriteOptions options);
  static JsonNode schema(Range);
  static std::string words(Range) { return "object of lists of strings"; }
};

/// A name, or an object.
template <>
struct Form<DatasetConfig> : ObjectForm<DatasetConfig> {
  static void read(FieldReader& in, const JsonNode& node, DatasetConfig& out, Range);
  static JsonNode schema(Range range) {
    return if_type("object", ObjectForm::schema(range), one_of_words(names_of(kKnownDatasets)));
  }
};

template <>
struct Form<StartFrom> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, StartFrom& out, Range);
  static JsonNode schema(Range) {
    return rows_schema<StartFrom>(object(
        {{"row", object({{"type", "object"}, {"minProperties", 1}})}, {"seed", Form<std::uint64_t>::schema({})}}));
  }
  static std::string words(Range) { return "{\"descriptor\", \"row\", \"seed\"}"; }
};

/// null, the name of a file, or an object with either "file" or "from". Canonical texts have an object of ids.
template <>
struct Form<StartConfig> : ObjectForm<StartConfig> {
  using Rows = StartKeys;
  static void read(FieldReader& in, const JsonNode& node, StartConfig& out, Range);
  static JsonNode schema(Range);
};

template <>
struct Form<OptimizerSettings> : ObjectForm<OptimizerSettings> {
  /// The optimiser's name determines the defaults of omitted settings.
  static void read(FieldReader& in, const JsonNode& node, OptimizerSettings& out, Range) {
    const JsonMember* const name = node.is_object() ? node.find("name") : nullptr;
    if (OptimizerName known{}; name != nullptr && name->value.is_string() && find_word(name->value.text, known))
      out = defaults_beside(OptimizerSettings{.name = known});
    in.object(node, out);
  }
};

// --- seeds, grids and tuning

/// A number n for 0 to n - 1, or a list.
template <>
struct Form<std::vector<std::uint64_t>> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, std::vector<std::uint64_t>& out, Range) {
    out = read_seeds(node, in.problems());
  }
  static JsonNode schema(Range) { return reference("seeds"); }
};

template <>
struct Form<TwoStageSeeds> : ObjectForm<TwoStageSeeds> {
  static void read(FieldReader& in, const JsonNode& node, TwoStageSeeds& out, Range) {
    if (in.object(node, out) && in.problems().empty() && out.max < out.first)
      in.report(node.find("max")->value.at, concat("is below \"first\", which is ", out.first));
  }
};

/// A single grid; only grids in a list may have "seeds".
template <>
struct Form<Grid> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, Grid& out, Range) {
    out = read_grid(node, GridPlace::tune, in.rows(), in.problems());
  }
  static JsonNode schema(Range) {
    const JsonNode not_here = one_of_words({"seeds", kLeaveOneOutAxis});
    return object({{"$ref", "#/$defs/grid"},
                   {"propertyNames", object({{"not", not_here}})},
                   {"additionalProperties", object({{"if", type("object")}, {"then", reference("draw")}})}});
  }
};

/// The settings of T that differ.
template <class T>
struct Form<Overlay<T>> : ValueForm {
  static void read(FieldReader& in, const JsonNode& node, Overlay<T>& out, Range) {
    if (!node.is_object())
      return in.report(node.at, concat("expected an object with the settings of ", in_quotes(node.at.place->key),
                                       " that differ, got ", describe(node)));
    out.settings = node;
  }
  static JsonNode schema(Range range) { return ObjectForm<T>::schema(range); }
};

template <>
struct Form<TuneMetric> : EnumForm<TuneMetric> {
  static void read(FieldReader& in, const JsonNode& node, TuneMetric& out, Range);
};

template <>
struct Form<TuneStage> : ObjectForm<TuneStage> {
  static void read(FieldReader& in, const JsonNode& node, TuneStage& out, Range);
};

}  // namespace normlab
