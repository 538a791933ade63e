#include "experiments/lab/descriptor/schema.h"

#include <cmath>
#include <vector>

#include "core/error.h"
#include "experiments/lab/descriptor/fields.h"
#include "experiments/lab/descriptor/json_tree.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/probes.h"
#include "experiments/lab/descriptor/problems.h"
#include "experiments/lab/descriptor/recipes.h"
#include "experiments/lab/descriptor/schema_nodes.h"
#include "experiments/lab/descriptor/tested_claim.h"

namespace normlab {
namespace {

template <class T>
struct Type {};

JsonNode number(const char* name, Range range) {
  JsonNode node = type(name);
  if (std::isfinite(range.low)) node.add(range.low_open ? "exclusiveMinimum" : "minimum", range.low);
  if (std::isfinite(range.high)) node.add(range.high_open ? "exclusiveMaximum" : "maximum", range.high);
  return node;
}
JsonNode from(const char* name, std::int64_t least) { return object({{"type", name}, {"minimum", least}}); }
JsonNode pair_of(JsonNode items) {
  JsonNode pair = list_of(std::move(items));
  pair.add("minItems", 2);
  pair.add("maxItems", 2);
  return pair;
}

template <class T>
JsonNode properties();

std::vector<std::string_view> dataset_names() {
  std::vector<std::string_view> names;
  for (const KnownDataset& known : kKnownDatasets) names.push_back(known.name);
  return names;
}
std::vector<std::string_view> placement_names() {
  std::vector<std::string_view> names;
  for (const NamedPlacement& row : named_placements()) names.push_back(row.name);
  return names;
}

JsonNode shape(Type<bool>, Range) { return type("boolean"); }
JsonNode shape(Type<double>, Range range) { return number("number", range); }
JsonNode shape(Type<std::int64_t>, Range range) { return number("integer", range); }
JsonNode shape(Type<std::uint64_t>, Range) { return from("integer", 0); }
JsonNode shape(Type<std::optional<std::int64_t>>, Range range) { return number("integer", range); }
JsonNode shape(Type<std::string>, Range) { return type("string"); }
JsonNode shape(Type<std::array<std::int64_t, 2>>, Range range) {
  return if_type("array", pair_of(number("integer", range)), number("integer", range));
}
JsonNode shape(Type<std::array<double, 2>>, Range range) { return pair_of(number("number", range)); }
JsonNode shape(Type<std::vector<double>>, Range range) { return list_of(number("number", range)); }
JsonNode shape(Type<std::vector<std::int64_t>>, Range range) { return list_of(number("integer", range)); }
JsonNode shape(Type<std::vector<Multiplier>>, Range) { return list_of(closed_object(properties<Multiplier>())); }
template <class E>
requires std::is_enum_v<E> JsonNode shape(Type<std::vector<E>>, Range) { return list_of(one_of_words(kWords<E>)); }
JsonNode shape(Type<std::vector<std::string>>, Range) { return list_of(type("string")); }
JsonNode shape(Type<ClassGroups>, Range) {
  JsonNode members = list_of(type("string"));
  members.add("minItems", 1);
  return object({{"type", "object"}, {"additionalProperties", std::move(members)}});
}
JsonNode shape(Type<StartFrom>, Range) {
  JsonNode members = properties<StartFrom>();
  members.add("row", object({{"type", "object"}, {"minProperties", 1}}));
  members.add("seed", from("integer", 0));
  return closed_object(std::move(members));
}
JsonNode shape(Type<StartConfig>, Range) {
  JsonNode keys = properties<StartKeys>();
  keys.find("sha256")->value.add("pattern", "^[0-9a-f]{64}$");
  return if_type("object", closed_object(std::move(keys)), any_of({type("null"), type("string")}));
}
JsonNode shape(Type<NormSpec>, Range) { return reference("norm"); }
JsonNode shape(Type<Placement>, Range) { return reference("placement"); }
JsonNode shape(Type<LayerScale>, Range) {
  JsonNode members = properties<LayerScale>();
  members.add("init", if_type("string", one_of_words({"auto"}), type("number")));
  return if_type("object", closed_object(std::move(members)), one_of_words(kWords<LayerScaleKind>));
}
JsonNode shape(Type<InitConfig>, Range) {
  return if_type("object", closed_object(properties<InitConfig>(), {"base"}), one_of_words(kWords<Init>));
}
JsonNode shape(Type<DropoutRates>, Range range) {
  return if_type("object", closed_object(properties<DropoutRates>()), number("number", range));
}
template <class Rule>
JsonNode shape(Type<NumberOrRule<Rule>>, Range) {
  return if_type("string", one_of_words(rule_words<Rule>()), number("number", kPositive));
}
JsonNode shape(Type<DatasetConfig>, Range) {
  return if_type("object", closed_object(properties<DatasetConfig>()), one_of_words(dataset_names()));
}
/// Its keys depend on its kind, which another file may set; json_schema() adds them.
JsonNode shape(Type<ModelConfig>, Range) { return json_object(); }
template <class T>
JsonNode shape(Type<T>, Range) {
  if constexpr (std::is_enum_v<T>)
    return one_of_words(kWords<T>);
  else
    return closed_object(properties<T>());
}

template <class T>
JsonNode properties() {
  JsonNode out = json_object();
  for_each_field<T>([&](const auto& row) {
    using M = typename std::remove_cvref_t<decltype(row)>::Member;
    JsonNode node = shape(Type<M>(), row.range);
    node.add("description", row.doc);
    out.add(std::string(row.key), std::move(node));
  });
  return out;
}

template <class Config>
JsonNode model_schema(std::string_view kind, JsonNode variant) {
  JsonNode members = object({{"kind", one_of_words({kind})}, {"variant", std::move(variant)}});
  const JsonNode table = properties<Config>();
  members.members.insert(members.members.end(), table.members.begin(), table.members.end());
  members.add("layer_scale", shape(Type<LayerScale>(), {}));
  return closed_object(std::move(members));
}
JsonNode vit_schema() {
  return model_schema<ViTConfig>("vit",
                                 object({{"type", "string"}, {"pattern", "^((DeiT-)?(Ti|S|B)|L)/[1-9][0-9]*$"}}));
}
JsonNode swin_schema() {
  std::vector<std::string_view> variants;
  for (const SwinVariant& variant : kSwinVariants) variants.push_back(variant.name);
  return model_schema<SwinConfig>("swin", one_of_words(variants));
}
/// A model whose kind is set elsewhere.
JsonNode either_schema() {
  JsonNode either = vit_schema();
  const JsonNode swin = swin_schema();
  JsonNode& members = either.find("properties")->value;
  for (const JsonMember& member : swin.find("properties")->value.members) {
    JsonMember* same = members.find(member.key);
    if (same == nullptr)
      members.members.push_back(member);
    else if (value_text(same->value) != value_text(member.value))
      same->value = any_of({same->value, member.value});
  }
  return either;
}

JsonNode placement_schema() {
  // Other names come from "placements" in the file or in what it extends.
  JsonNode name = type("string");
  name.add("examples", list_of_words(placement_names()));
  JsonNode members = object({{"base", name}});
  const JsonNode table = properties<Placement>();
  members.members.insert(members.members.end(), table.members.begin(), table.members.end());
  const JsonNode ranges = object({{kRangeName, closed_object(properties<BlockRange>())}});
  members.add(std::string(kBlocksKey), object({{"type", "object"},
                                               {"description", kBlocksDoc},
                                               {"patternProperties", ranges},
                                               {"additionalProperties", false}}));
  return if_type("object", closed_object(std::move(members)), std::move(name));
}

JsonNode two_stage_schema() {
  return closed_object(object({{"first", from("integer", 2)},
                               {"max", from("integer", 2)},
                               {"gain_halfwidth", number("number", kPositive)},
                               {"metric", type("string")}}),
                       {"first", "max", "gain_halfwidth"});
}

/// A single grid; only grids in a list may have "seeds".
JsonNode single_grid() {
  return object({{"$ref", "#/$defs/grid"}, {"propertyNames", object({{"not", object({{"const", "seeds"}})}})}});
}

JsonNode tune_schema() {
  const JsonNode stage =
      closed_object(object({{"axes", single_grid()},
                            {"dataset", closed_object(properties<DatasetConfig>())},
                            {"train", shape(Type<TrainConfig>(), {})},
                            {"seeds", reference("seeds")},
                            {"metric", one_of_words({"eval/accuracy", "eval/loss", "eval/ema_accuracy", "eval/ema_loss",
                                                     "eval/miou", "eval/ema_miou"})},
                            {"then_train_on", one_of_words({"train", "train+minival"})}}),
                    {"axes"});
  JsonNode list = list_of(stage);
  list.add("minItems", 1);
  return list;
}

std::vector<std::string> recipe_names() {
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes()) names.push_back(concat(kRecipePrefix, recipe.name));
  return names;
}

/// Whether a recipe, or one it extends, defines placements.
bool names_placements(const Recipe& recipe) {
  Sources sources;
  Problems problems;
  const JsonNode root = parse_json(recipe.text, sources.add(std::string(recipe.name)), problems);
  if (root.find("placements") != nullptr) return true;
  const JsonMember* extends = root.find("extends");
  if (extends == nullptr) return false;
  const std::string& base = extends->value.text;
  return names_placements(*find_recipe(base.substr(0, base.rfind('.'))));
}

JsonNode top_level_schema(std::string_view key) {
  if (key == "extends") {
    JsonNode node = type("string");
    node.add("if", object({{"pattern", "^" + std::string(kRecipePrefix)}}));
    node.add("then", one_of_words(recipe_names()));
    node.add("examples", list_of_words(recipe_names()));
    return node;
  }
  if (key == "checkpoint") return shape(Type<CheckpointConfig>(), {});
  if (key == "probes") {
    JsonNode steps = list_of(from("integer", 0));
    steps.add("uniqueItems", true);
    const JsonNode parts =
        closed_object(object({{"at", steps}, {"every", from("integer", 1)}, {"last", from("integer", 1)}}));
    JsonNode probes = object({{"without_block", type("boolean")}});
    for (const ProbeRow& row : kProbeRows)
      probes.add(std::string(row.word), if_type("array", steps, if_type("object", parts, from("integer", 1))));
    return closed_object(std::move(probes));
  }
  if (key == "paper") {
    const JsonNode words = object({{"type", "string"}, {"minLength", 1}});
    const JsonNode deviation =
        closed_object(object({{"key", words}, {"paper", json_object()}, {"here", json_object()}, {"why", words}}),
                      {"key", "paper", "here", "why"});
    return closed_object(object({{"source", words}, {"deviations", list_of(deviation)}}), {"source"});
  }
  if (key == "claim") {
    const JsonNode words = object({{"type", "string"}, {"minLength", 1}});
    const JsonNode bound = object({{"type", list_of_words({"number", "null"})}});
    const JsonNode range = object({{"type", "array"}, {"items", bound}, {"minItems", 2}, {"maxItems", 2}});
    const JsonNode test = closed_object(object({{"kind", one_of_words(kWords<ClaimTestKind>)},
                                                {"where", words},
                                                {"against", words},
                                                {"metric", words},
                                                {"of", words},
                                                {"over", words},
                                                {"against_of", words},
                                                {"margin", type("number")},
                                                {"first", from("integer", 1)},
                                                {"last", from("integer", 1)},
                                                {"any", type("boolean")},
                                                {"chance", type("boolean")},
                                                {"range", range},
                                                {"outside", range}}),
                                        {"kind"});
    const JsonNode pair = object({{"type", "array"}, {"items", type("number")}, {"minItems", 2}, {"maxItems", 2}});
    JsonNode cells = type("object");
    cells.add("additionalProperties", if_type("array", pair, type("number")));
    const JsonNode figures = closed_object(
        object({{"as", one_of_words(kWords<PrintedAs>)}, {"unit", type("string")}, {"where", words}, {"cells", cells}}),
        {"as", "where", "cells"});
    return closed_object(object({{"source", words},
                                 {"short", words},
                                 {"says", words},
                                 {"paraphrase", type("boolean")},
                                 {"printed", if_type("object", figures, words)},
                                 {"reading", words},
                                 {"scale", one_of_words(kWords<ClaimScale>)},
                                 {"scale_note", words},
                                 {"bench", list_of(words)},
                                 {"repeat", from("integer", 2)},
                                 {"tests", list_of(test)}}),
                         {"source", "says", "scale"});
  }
  if (key == "placements")
    return object({{"type", "object"},
                   {"propertyNames", object({{"not", one_of_words(placement_names())}})},
                   {"additionalProperties", reference("placement")}});
  if (key == "benchmarks") {
    JsonNode members = properties<TrialConfig>();
    members.remove("seed");
    members.find("model")->value = reference("model");
    members.add("group", object({{"type", "string"}, {"minLength", 1}}));
    return object({{"type", "object"}, {"additionalProperties", closed_object(std::move(members))}});
  }
  if (key == "sweep") return if_type("array", list_of(reference("grid")), single_grid());
  if (key == "exclude") return list_of(reference("choice"));
  if (key == "apart") return list_of(if_type("object", reference("choice"), type("string")));
  if (key == "seeds") return if_type("object", two_stage_schema(), reference("seeds"));
  if (key == "tune") return tune_schema();
  return key == "baseline" || key == "tuned_for" ? reference("choice") : type("string");
}

/// The schema of "model" for its kind, unless another file or an axis sets the kind.
JsonNode model_by_kind() {
  const JsonNode swept = object(
      {{"type", "object"},
       {"not",
        object({{"propertyNames", object({{"not", object({{"pattern", "(^|[ ,])model(\\.kind)?($|[ ,])"}})}})}})}});
  const JsonNode kind_elsewhere =
      any_of({required({"extends"}),
              object({{"required", list_of_words(Words{"sweep"})},
                      {"properties",
                       object({{"sweep", any_of({swept, object({{"type", "array"}, {"contains", swept}})})}})}})});
  JsonNode is_swin = required({"kind"});
  is_swin.add("properties", object({{"kind", object({{"const", "swin"}})}}));
  const auto model = [](JsonNode node) { return object({{"properties", object({{"model", std::move(node)}})}}); };
  return if_then_else(kind_elsewhere, model(reference("model")),
                      model(if_then_else(is_swin, reference("swin"), reference("vit"))));
}

/// Allows only built-in placement names unless another file may define more.
JsonNode names_of_placements() {
  std::vector<std::string> without;
  for (const Recipe& recipe : recipes())
    if (!names_placements(recipe)) without.push_back(concat(kRecipePrefix, recipe.name));
  JsonNode other_file = required({"extends"});
  other_file.add("properties", object({{"extends", object({{"not", one_of_words(without)}})}}));
  const JsonNode named = reference("named_placement");
  const JsonNode axes = object({{"properties", object({{"model.placement", object({{"items", named}})}})}});
  const JsonNode stages = object({{"items", object({{"properties", object({{"axes", axes}})}})}});
  const JsonNode model = object({{"properties", object({{"placement", named}})}});
  return object({{"if", any_of({required({"placements"}), std::move(other_file)})},
                 {"else", object({{"properties", object({{"model", model},
                                                         {"sweep", if_type("array", object({{"items", axes}}), axes)},
                                                         {"tune", stages}})}})}});
}

/// Likewise restricts the name of a dataset without a layout.
JsonNode names_of_datasets() {
  const JsonNode known = object({{"properties", object({{"layout", object({{"const", "known"}})}})}});
  const JsonNode name = object({{"properties", object({{"name", one_of_words(dataset_names())}})}});
  return object({{"if", required({"extends"})},
                 {"else", object({{"properties", object({{"dataset", object({{"if", known}, {"then", name}})}})}})}});
}

}  // namespace

std::string json_schema() {
  JsonNode members = json_object();
  for (const TopLevelKey& known : kTopLevelKeys) {
    JsonNode node = top_level_schema(known.key);
    node.add("description", known.doc);
    members.add(std::string(known.key), std::move(node));
  }
  const JsonNode trial = properties<TrialConfig>();
  for (const JsonMember& member : trial.members)
    if (member.key != "seed") members.members.push_back(member);

  JsonNode root =
      object({{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "normlab descriptor"}});
  const JsonNode body = closed_object(std::move(members));
  root.members.insert(root.members.end(), body.members.begin(), body.members.end());
  root.add("allOf", std::vector<JsonNode>{model_by_kind(), names_of_placements(), names_of_datasets()});
  const JsonNode base = object({{"properties", object({{"base", one_of_words(placement_names())}})}});
  root.add("$defs",
           object({{"norm", if_type("object", closed_object(properties<NormSpec>()), one_of_words(kWords<NormKind>))},
                   {"placement", placement_schema()},
                   {"named_placement", if_type("object", base, one_of_words(placement_names()))},
                   {"vit", vit_schema()},
                   {"swin", swin_schema()},
                   {"model", either_schema()},
                   {"seeds", if_type("array", list_of(from("integer", 0)), from("integer", 1))}}));
  add_axis_schemas(root);
  return write_json(root, JsonStyle::indented) + "\n";
}

}  // namespace normlab
