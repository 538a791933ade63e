#include "experiments/descriptor/schema.h"

#include <cmath>
#include <vector>

#include "core/error.h"
#include "experiments/descriptor/fields.h"
#include "experiments/descriptor/json_tree.h"
#include "experiments/descriptor/keys.h"

namespace normlab {
namespace {

struct Member {
  const char* key;
  mutable JsonNode value;  // moved out of the list of a call, whose elements are constant
};

JsonNode object(std::initializer_list<Member> members) {
  JsonNode node = json_object();
  for (const Member& member : members) node.add(member.key, std::move(member.value));
  return node;
}

JsonNode type(const char* name) { return object({{"type", name}}); }

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

JsonNode any_of(std::vector<JsonNode> choices) { return object({{"anyOf", std::move(choices)}}); }

JsonNode reference(std::string_view name) { return object({{"$ref", concat("#/$defs/", name)}}); }

JsonNode list_of(JsonNode items) { return object({{"type", "array"}, {"items", std::move(items)}}); }

/// What a type looks like in JSON: its schema, and in words for people.
struct Shape {
  JsonNode schema;
  std::string words;
};
template <class T>
struct Type {};

JsonNode closed_object(JsonNode members, Words required = {}) {
  JsonNode node = object({{"type", "object"}, {"properties", std::move(members)}, {"additionalProperties", false}});
  if (required.size() > 0) node.add("required", list_of_words(required));
  return node;
}

JsonNode number(const char* name, Range range) {
  JsonNode node = type(name);
  if (std::isfinite(range.low)) node.add(range.low_open ? "exclusiveMinimum" : "minimum", range.low);
  if (std::isfinite(range.high)) node.add(range.high_open ? "exclusiveMaximum" : "maximum", range.high);
  return node;
}
std::string number_words(const char* name, Range range) {
  std::string bounds;
  const auto bound = [&](const char* sign, double limit) {
    if (std::isfinite(limit)) bounds += concat(bounds.empty() ? " " : ", ", sign, " ", value_text(limit));
  };
  bound(range.low_open ? ">" : ">=", range.low);
  bound(range.high_open ? "<" : "<=", range.high);
  return name + bounds;
}
JsonNode pair_of(JsonNode items) {
  JsonNode pair = list_of(std::move(items));
  pair.add("minItems", 2);
  pair.add("maxItems", 2);
  return pair;
}

template <class T>
JsonNode properties();

Shape shape(Type<bool>, Range) { return {type("boolean"), "true \\| false"}; }
Shape shape(Type<double>, Range range) { return {number("number", range), number_words("number", range)}; }
Shape shape(Type<std::int64_t>, Range range) { return {number("integer", range), number_words("integer", range)}; }
Shape shape(Type<std::uint64_t>, Range) { return {object({{"type", "integer"}, {"minimum", 0}}), "integer >= 0"}; }
Shape shape(Type<std::string>, Range) { return {type("string"), "string"}; }
Shape shape(Type<std::array<std::int64_t, 2>>, Range) {
  return {any_of({type("integer"), pair_of(type("integer"))}), "integer or [integer, integer]"};
}
Shape shape(Type<std::array<double, 2>>, Range range) { return {pair_of(number("number", range)), "[number, number]"}; }
Shape shape(Type<std::vector<double>>, Range range) { return {list_of(number("number", range)), "list of numbers"}; }
Shape shape(Type<std::vector<std::int64_t>>, Range range) {
  return {list_of(number("integer", range)), "list of integers"};
}
Shape shape(Type<std::vector<Multiplier>>, Range) {
  return {list_of(closed_object(properties<Multiplier>())), "list of {\"name\", \"lr\", \"weight_decay\"}"};
}
Shape shape(Type<NormSpec>, Range) { return {reference("norm"), "norm"}; }
Shape shape(Type<Placement>, Range) { return {reference("placement"), "placement"}; }
Shape shape(Type<LayerScale>, Range) {
  JsonNode members = properties<LayerScale>();
  members.add("init", any_of({type("number"), one_of_words({"auto"})}));
  return {any_of({one_of_words(kWords<LayerScaleKind>), closed_object(std::move(members))}),
          "none \\| channel \\| scalar, or {\"kind\", \"init\"}"};
}
Shape shape(Type<InitGain>, Range) {
  return {any_of({object({{"type", "number"}, {"exclusiveMinimum", 0}}), one_of_words({"sub_ln"})}),
          "number > 0 \\| sub_ln"};
}
Shape shape(Type<DatasetConfig>, Range) {
  return {any_of({type("string"), closed_object(properties<DatasetConfig>())}), "object"};
}
template <class Config>
JsonNode model_schema(std::string_view kind, JsonNode variant);
Shape shape(Type<ModelConfig>, Range) {
  std::vector<std::string_view> swins;
  for (const SwinVariant& variant : kSwinVariants) swins.push_back(variant.name);
  const JsonNode vit =
      model_schema<ViTConfig>("vit", object({{"type", "string"}, {"pattern", "^((DeiT-)?(Ti|S|B)|L)/[1-9][0-9]*$"}}));
  const JsonNode is_swin =
      object({{"properties", object({{"kind", object({{"const", "swin"}})}})}, {"required", list_of_words({"kind"})}});
  return {object({{"if", is_swin}, {"then", model_schema<SwinConfig>("swin", one_of_words(swins))}, {"else", vit}}),
          "object"};
}
template <class T>
Shape shape(Type<T>, Range) {
  if constexpr (!std::is_enum_v<T>) {
    return {closed_object(properties<T>()), "object"};
  } else {
    std::string words;
    for (const std::string_view word : kWords<T>) words += concat(words.empty() ? "" : " \\| ", word);
    return {one_of_words(kWords<T>), words};
  }
}

template <class T>
JsonNode properties() {
  JsonNode out = json_object();
  for_each_field<T>([&](const auto& row) {
    using M = typename std::remove_cvref_t<decltype(row)>::Member;
    JsonNode node = shape(Type<M>(), row.range).schema;
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
  members.add("layer_scale", shape(Type<LayerScale>(), {}).schema);
  return closed_object(std::move(members));
}

JsonNode placement_schema() {
  // Other names are those of the file's own "placements", which a schema cannot know.
  JsonNode names(JsonKind::array);
  for (const NamedPlacement& row : named_placements()) names.items.push_back(row.name);
  JsonNode name = type("string");
  name.add("examples", names);
  JsonNode members = object({{"base", name}});
  const JsonNode table = properties<Placement>();
  members.members.insert(members.members.end(), table.members.begin(), table.members.end());
  const JsonNode ranges = object({{"^((0|[1-9][0-9]*)(-[1-9][0-9]*)?|rest)$", shape(Type<BlockRange>(), {}).schema}});
  members.add(std::string(kBlocksKey), object({{"type", "object"},
                                               {"description", kBlocksDoc},
                                               {"patternProperties", ranges},
                                               {"additionalProperties", false}}));
  return any_of({name, closed_object(std::move(members))});
}

JsonNode grid_schema(bool seeds) {
  JsonNode axes = object({{"^(dataset|model|train)($|[.,])", object({{"type", "array"}, {"minItems", 1}})}});
  JsonNode node = object({{"type", "object"}, {"patternProperties", axes}, {"additionalProperties", false}});
  if (seeds) node.add("properties", object({{"seeds", reference("seeds")}}));
  return node;
}

JsonNode two_stage_schema() {
  const JsonNode count = object({{"type", "integer"}, {"minimum", 2}});
  return closed_object(object({{"first", count},
                               {"max", count},
                               {"gain_halfwidth", object({{"type", "number"}, {"exclusiveMinimum", 0}})},
                               {"metric", type("string")}}),
                       {"first", "max", "gain_halfwidth"});
}

JsonNode tune_schema() {
  const JsonNode dataset = closed_object(properties<DatasetConfig>(), {"eval"});
  const JsonNode stage = closed_object(
      object({{"axes", grid_schema(false)},
              {"dataset", dataset},
              {"train", shape(Type<TrainConfig>(), {}).schema},
              {"seeds", reference("seeds")},
              {"metric", one_of_words({"eval/accuracy", "eval/loss", "eval/ema_accuracy", "eval/ema_loss"})}}),
      {"axes", "dataset"});
  JsonNode list = list_of(stage);
  list.add("minItems", 1);
  return list;
}

JsonNode top_level_schema(std::string_view key) {
  if (key == "checkpoint") return shape(Type<CheckpointConfig>(), {}).schema;
  if (key == "probes") {
    JsonNode steps = list_of(object({{"type", "integer"}, {"minimum", 0}}));
    steps.add("uniqueItems", true);
    const JsonNode every = object({{"type", "integer"}, {"minimum", 1}});
    return closed_object(object({{"signal", steps}, {"gradients", any_of({every, steps})}}));
  }
  if (key == "paper") {
    const JsonNode words = object({{"type", "string"}, {"minLength", 1}});
    const JsonNode deviation =
        closed_object(object({{"key", words}, {"paper", json_object()}, {"here", json_object()}, {"why", words}}),
                      {"key", "paper", "here", "why"});
    return closed_object(object({{"source", words}, {"deviations", list_of(deviation)}}), {"source"});
  }
  if (key == "placements") return object({{"type", "object"}, {"additionalProperties", reference("placement")}});
  if (key == "sweep") return any_of({grid_schema(false), list_of(grid_schema(true))});
  if (key == "exclude") return list_of(type("object"));
  if (key == "seeds") return any_of({reference("seeds"), two_stage_schema()});
  if (key == "tune") return tune_schema();
  return type(key == "baseline" || key == "tuned_for" ? "object" : "string");
}

// --- the tables for people

std::string default_text(bool value) { return value ? "true" : "false"; }
std::string default_text(double value) { return value_text(value); }
std::string default_text(std::int64_t value) { return default_text(double(value)); }
std::string default_text(std::uint64_t value) { return default_text(double(value)); }
std::string default_text(const std::string& value) { return value; }
std::string default_text(const NormSpec&) { return "none"; }
std::string default_text(const LayerScale&) { return "none"; }
std::string default_text(const InitGain&) { return "1"; }
std::string default_text(const Placement&) { return "pre_pre"; }
template <class E>
requires std::is_enum_v<E> std::string default_text(E value) { return std::string(word_of(value)); }
template <class List>
requires requires(const List& list) { list.begin(); }
std::string default_text(const List& list) {
  std::string items;
  if constexpr (!std::is_class_v<typename List::value_type>)
    for (const auto value : list) items += concat(items.empty() ? "" : ", ", default_text(value));
  return concat("[", items, "]");
}

template <class T>
constexpr bool kOwnRows =
    kHasFields<T> && !std::is_same_v<T, NormSpec> && !std::is_same_v<T, LayerScale> && !std::is_same_v<T, Placement>;

template <class T>
void add_rows(std::string& out, const std::string& prefix, const T& defaults) {
  for_each_field<T>([&](const auto& field) {
    using M = typename std::remove_cvref_t<decltype(field)>::Member;
    const std::string path = prefix + std::string(field.key);
    if constexpr (std::is_same_v<M, ModelConfig>) {
      add_rows(out, path + ".", ViTConfig{});
    } else if constexpr (kOwnRows<M>) {
      add_rows(out, path + ".", defaults.*field.member);
    } else {
      const std::string standard = path == "model.mlp_dim" ? "4 embed_dim" : default_text(defaults.*field.member);
      out += concat("| `", path, "` | ", shape(Type<M>(), field.range).words, " | ",
                    standard.empty() ? "" : "`" + standard + "`", " | ", field.doc, " |\n");
    }
  });
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
  root.add("$defs", object({{"norm", any_of({one_of_words(kWords<NormKind>), closed_object(properties<NormSpec>())})},
                            {"placement", placement_schema()},
                            {"seeds", any_of({object({{"type", "integer"}, {"minimum", 1}}),
                                              list_of(object({{"type", "integer"}, {"minimum", 0}}))})}}));
  return write_json(root, JsonStyle::indented) + "\n";
}

std::string describe_fields() {
  constexpr std::string_view kHead = "| key | value | default | meaning |\n|---|---|---|---|\n";
  std::string out = "### Top level\n\n| key | value | meaning |\n|---|---|---|\n";
  for (const TopLevelKey& known : kTopLevelKeys)
    out += concat("| `", known.key, "` | ", known.type, " | ", known.doc, " |\n");

  out += concat("\n### Dataset, model and training\n\n", kHead);
  out += "| `model.kind` | vit \\| swin | `vit` | the architecture |\n";
  out +=
      "| `model.variant` | as S/16, DeiT-S/16 |  | embed_dim, depth, num_heads and patch_size, for a DeiT pool token "
      "and "
      "pos_embed_class too; each may be set by itself |\n";
  add_rows(out, "", TrialConfig{});
  out += concat("\n### A model of kind swin\n\n", kHead);
  out += "| `model.variant` | as Swin-T, SwinD-B |  | embed_dim, depths, num_heads; each may be set by itself |\n";
  add_rows(out, "model.", SwinConfig{});
  out += concat("\n### Checkpoints\n\n", kHead);
  add_rows(out, "checkpoint.", CheckpointConfig{});
  out += concat("\n### A placement given as an object\n\n", kHead);
  out += "| `base` | a placement's name | `none` | the row that the other keys change |\n";
  add_rows(out, "", Placement{});
  out += concat("| `", kBlocksKey, "` | object |  | ", kBlocksDoc, " |\n");
  out += concat("\n### A norm: its kind as a word, or an object\n\n", kHead);
  add_rows(out, "", NormSpec{});

  out += "\n### Named placements\n\n| name | source |\n|---|---|\n";
  for (const NamedPlacement& row : named_placements()) out += concat("| `", row.name, "` | ", row.source, " |\n");
  return out;
}

}  // namespace normlab
