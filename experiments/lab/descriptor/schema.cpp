#include "experiments/lab/descriptor/schema.h"

#include "experiments/lab/descriptor/forms.h"
#include "experiments/lab/descriptor/recipes.h"

namespace normlab {
namespace {

template <class Config>
JsonNode model_schema(std::string_view kind, JsonNode variant) {
  JsonNode members = object({{"kind", one_of_words({kind})}, {"variant", std::move(variant)}});
  add_row_schemas<Config>(members);
  members.add("layer_scale", Form<LayerScale>::schema({}));
  return closed_object(std::move(members));
}
JsonNode vit_schema() {
  return model_schema<ViTConfig>("vit",
                                 object({{"type", "string"}, {"pattern", "^((DeiT-)?(Ti|S|B)|L)/[1-9][0-9]*$"}}));
}
JsonNode swin_schema() { return model_schema<SwinConfig>("swin", one_of_words(names_of(kSwinVariants))); }
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
  name.add("examples", list_of_words(names_of(named_placements())));
  JsonNode members = object({{"base", name}, {"norm", reference("norm")}});
  add_row_schemas<Placement>(members);
  const JsonNode ranges = object({{kRangeName, rows_schema<BlockRange>()}});
  members.add(std::string(kBlocksKey), object({{"type", "object"},
                                               {"description", kBlocksDoc},
                                               {"patternProperties", ranges},
                                               {"additionalProperties", false}}));
  JsonNode sites = closed_object(std::move(members));
  sites.add("patternProperties", object({{"^([^*]+\\.)?\\*\\*\\.", json_object()}}));
  return if_type("object", std::move(sites), std::move(name));
}

/// A word, which may be a name in "norms", or an object: of a kind, of a formula, or of a name and initial values.
JsonNode norm_schema() {
  JsonNode name = type("string"), of_kind = type("object");
  name.add("examples", list_of_words(kWords<NormKind>));
  of_kind.add("not", required({"formula"}));
  of_kind.add("properties", object({{"kind", one_of_words(kWords<NormKind>)}}));
  JsonNode of_name = object({{"properties", object({{"kind", type("string")}})}});
  of_name.add("additionalProperties", Form<InitialValue>::schema({}));
  JsonNode other = if_then_else(required({"formula"}), formula_schema(/*has_name=*/false), std::move(of_name));
  return if_then_else(std::move(of_kind), rows_schema<NormSpec>(),
                      if_type("object", std::move(other), std::move(name)));
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

/// By key; the others are strings.
JsonNode top_level_schemas() {
  JsonNode extends = type("string");
  extends.add("if", object({{"pattern", "^" + std::string(kRecipePrefix)}}));
  extends.add("then", one_of_words(recipe_names()));
  extends.add("examples", list_of_words(recipe_names()));
  JsonNode benchmark = json_object();
  add_row_schemas<TrialConfig>(benchmark);
  benchmark.remove("seed");
  benchmark.find("model")->value = reference("model");
  benchmark.add("group", Form<std::string>::schema(kNotEmpty));
  const JsonNode norms = object({{"type", "object"},
                                 {"propertyNames", object({{"not", one_of_words(kWords<NormKind>)}})},
                                 {"additionalProperties", formula_schema(/*has_name=*/true)}});
  benchmark.add(std::string(kNormsKey), norms);
  const JsonNode placements = object({{"type", "object"},
                                      {"propertyNames", object({{"not", one_of_words(names_of(named_placements()))}})},
                                      {"additionalProperties", reference("placement")}});
  const JsonNode any = json_object();
  JsonNode listed = reference("grid");
  listed.add("properties", object({{"seeds", any}, {kLeaveOneOutAxis.data(), any}}));
  listed.add("additionalProperties", object({{"not", type("object")}}));
  JsonNode listed_without_seeds = listed;
  listed_without_seeds.add("propertyNames", object({{"not", object({{"const", "seeds"}})}}));
  const JsonNode labels = object({{"type", "object"}, {"additionalProperties", Form<std::string>::schema(kNotEmpty)}});
  JsonNode stages = list_of(Form<TuneStage>::schema({}));
  stages.add("minItems", 1);
  return object({{"extends", std::move(extends)},
                 {"checkpoint", Form<CheckpointConfig>::schema({})},
                 {"probes", Form<ProbeConfig>::schema({})},
                 {"paper", Form<PaperConfig>::schema({})},
                 {"claim", Form<TestedClaim>::schema({})},
                 {"printed", Form<PrintedNumbers>::schema({})},
                 {"external", Form<std::vector<ExternalNumbers>>::schema(kNotEmpty)},
                 {"placements", placements},
                 {"norms", norms},
                 {"benchmarks", object({{"type", "object"}, {"additionalProperties", closed_object(benchmark)}})},
                 {"sweep", if_type("array", list_of(listed), listed_without_seeds)},
                 {"exclude", list_of(reference("choice"))},
                 {"apart", list_of(if_type("object", reference("choice"), type("string")))},
                 {"labels", labels},
                 {"seeds", if_type("object", Form<TwoStageSeeds>::schema({}), reference("seeds"))},
                 {"tune", std::move(stages)},
                 {"baseline", reference("choice")},
                 {"tuned_for", reference("choice")}});
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

/// Likewise allows only built-in kinds of norm.
JsonNode names_of_norms() {
  JsonNode other_file = required({"extends"});
  const std::string recipe = concat("^", kRecipePrefix);
  other_file.add("properties", object({{"extends", object({{"not", object({{"pattern", recipe}})}})}}));
  const JsonNode norm = reference("built_in_norm"), norms = reference("built_in_norms");
  JsonNode patterns = json_object();
  const auto lists = [&](const JsonNode& items) { return object({{"items", items}}); };
  patterns.add("^model\\.placement$", lists(norms));
  patterns.add("^model\\.placement(\\.blocks\\.[^.]+)?\\.(stem|attn|mlp)\\.[a-z_]+$", lists(norm));
  patterns.add("^model\\.placement\\.(final|pooled|merge|stream_norm|norm)$", lists(norm));
  const JsonNode axes = object({{"patternProperties", std::move(patterns)}});
  const JsonNode model = object({{"properties", object({{"placement", norms}})}});
  return object(
      {{"if", any_of({required({kNormsKey}), std::move(other_file)})},
       {"else", object({{"properties", object({{"model", model}, {"sweep", if_type("array", lists(axes), axes)}})}})}});
}
void add_built_in_norms(JsonNode& definitions) {
  const JsonNode word = one_of_words(kWords<NormKind>), norm = reference("built_in_norm");
  JsonNode of_kind = required({"kind"});
  of_kind.add("type", "object");
  definitions.add(
      "built_in_norm",
      if_type("string", word, object({{"if", of_kind}, {"then", object({{"properties", object({{"kind", word}})}})}})));
  const JsonNode sites = object({{"additionalProperties", norm}});
  const JsonNode range = object({{"properties", object({{"attn", sites}, {"mlp", sites}})}});
  JsonNode members = object({{"stem", sites},
                             {"attn", sites},
                             {"mlp", sites},
                             {"norm", norm},
                             {kBlocksKey.data(), object({{"additionalProperties", range}})}});
  for_each_field<Placement>([&](const auto& row) {
    if constexpr (std::is_same_v<typename std::remove_cvref_t<decltype(row)>::Member, NormSpec>)
      members.add(std::string(row.key), norm);
  });
  definitions.add("built_in_norms", object({{"properties", std::move(members)}}));
}

/// Likewise restricts the name of a dataset without a layout.
JsonNode names_of_datasets() {
  const JsonNode known = object({{"properties", object({{"layout", object({{"const", "known"}})}})}});
  const JsonNode name = object({{"properties", object({{"name", one_of_words(names_of(kKnownDatasets))}})}});
  return object({{"if", required({"extends"})},
                 {"else", object({{"properties", object({{"dataset", object({{"if", known}, {"then", name}})}})}})}});
}

template <class T>
void add_key_rows(std::string& out, const std::string& prefix) {
  const T defaults{};
  for_each_field<T>([&](const auto& row) {
    using M = typename std::remove_cvref_t<decltype(row)>::Member;
    using F = Form<M>;
    const std::string path = concat(prefix, row.key), words = F::words(row.range);
    if (!words.empty()) {
      std::string standard;
      if constexpr (std::is_same_v<M, Placement>)
        standard = "pre_pre";  // of a model without one
      else if constexpr (requires { F::write(defaults.*row.member, WriteOptions{}); })
        standard = path == "model.mlp_dim" ? "4 embed_dim" : setting_text(defaults.*row.member);
      out += concat("| `", path, "` | ", words, " | ", standard.empty() ? "" : "`" + standard + "`", " | ", row.doc,
                    " |\n");
    }
    if constexpr (!std::is_void_v<typename F::Rows>) add_key_rows<typename F::Rows>(out, path + ".");
  });
}

}  // namespace

std::string json_schema() {
  const JsonNode schemas = top_level_schemas();
  JsonNode members = json_object();
  for (const TopLevelKey& known : kTopLevelKeys) {
    const JsonMember* schema = schemas.find(known.key);
    JsonNode node = schema == nullptr ? type("string") : schema->value;
    node.add("description", known.doc);
    members.add(std::string(known.key), std::move(node));
  }
  add_row_schemas<TrialConfig>(members);
  members.remove("seed");

  JsonNode root =
      object({{"$schema", "https://json-schema.org/draft/2020-12/schema"}, {"title", "normlab descriptor"}});
  const JsonNode body = closed_object(std::move(members));
  root.members.insert(root.members.end(), body.members.begin(), body.members.end());
  root.add("allOf",
           std::vector<JsonNode>{model_by_kind(), names_of_placements(), names_of_norms(), names_of_datasets()});
  std::vector<std::string_view> placements = names_of(named_placements());
  for (const std::string_view name : names_of(other_placement_names())) placements.push_back(name);
  const JsonNode base = object({{"properties", object({{"base", one_of_words(placements)}})}});
  root.add("$defs", object({{"norm", norm_schema()},
                            {"placement", placement_schema()},
                            {"named_placement", if_type("object", base, one_of_words(placements))},
                            {"vit", vit_schema()},
                            {"swin", swin_schema()},
                            {"model", either_schema()},
                            {"draw", Form<Draw>::schema({})},
                            {"seeds", if_type("array", list_of(Form<std::uint64_t>::schema({})),
                                              Form<std::uint64_t>::schema(kFromOne))}}));
  add_built_in_norms(root.find("$defs")->value);
  add_axis_schemas(root);
  return write_json(root, JsonStyle::indented) + "\n";
}

std::string describe_fields() {
  constexpr std::string_view kHead = "| key | value | default | meaning |\n|---|---|---|---|\n";
  std::string out = "### Top level\n\n| key | value | meaning |\n|---|---|---|\n";
  for (const TopLevelKey& known : kTopLevelKeys)
    out += concat("| `", known.key, "` | ", known.type, " | ", known.doc, " |\n");

  out += concat("\n### Dataset, model, start and training\n\n", kHead);
  out += "| `model.kind` | vit \\| swin | `vit` | the architecture |\n";
  out +=
      "| `model.variant` | such as S/16, DeiT-S/16 |  | sets embed_dim, depth, num_heads and patch_size, for a DeiT "
      "also pool token and pos_embed_class; keys given explicitly take precedence |\n";
  add_key_rows<TrialConfig>(out, "");
  out += concat("\n### A model of kind swin\n\n", kHead);
  out +=
      "| `model.variant` | such as Swin-T, SwinD-B |  | sets embed_dim, depths and num_heads; keys given explicitly "
      "take precedence |\n";
  add_key_rows<SwinConfig>(out, "model.");
  out += concat("\n### Checkpoints\n\n", kHead);
  add_key_rows<CheckpointConfig>(out, "checkpoint.");
  out += concat("\n### A placement given as an object\n\n", kHead);
  out += "| `base` | a placement's name | `none` | the placement that the other keys change |\n";
  out += concat("| `", kNormKey, "` | norm |  | ", kNormDoc, " |\n");
  add_key_rows<Placement>(out, "");
  out += concat("| `", kBlocksKey, "` | object |  | ", kBlocksDoc, " |\n");
  out +=
      "| `**.KEY`, `**.SITE` | as there |  | a key of every norm that has it, or the norm at every site of that name |\n";
  out += concat("\n### A norm: its kind as a word, or an object\n\n", kHead);
  add_key_rows<NormSpec>(out, "");
  out += concat("\n### A norm that is a formula: an object, at a site or in `norms`\n\n", kHead);
  add_key_rows<FormulaKeys>(out, "");
  add_key_rows<FormulaParameter>(out, "parameters.NAME.");

  out += "\n### Named placements\n\n| name | source |\n|---|---|\n";
  for (const NamedPlacement& row : named_placements()) out += concat("| `", row.name, "` | ", row.source, " |\n");
  out += "\nOther names, which a placement of your own may also have:\n\n| name | what it is |\n|---|---|\n";
  for (const NamedPlacement& row : other_placement_names()) out += concat("| `", row.name, "` | ", row.source, " |\n");
  return out;
}

}  // namespace normlab
