#include "experiments/lab/descriptor/forms.h"

#include <charconv>

#include "experiments/lab/descriptor/merge.h"
#include "nn/model/init.h"

namespace normlab {
namespace {

/// A norm of that kind with the model's defaults, in a canonical text with those of its first version.
NormSpec default_norm(NormKind kind, ModelKind model, bool canonical) {
  NormSpec spec = model == ModelKind::swin ? swin_norm(kind) : norm_of(kind);
  if (canonical && parts_of(kind).has(&NormSpec::running)) spec.running = RunningFrom::first_group;
  return spec;
}

void read_variant(FieldReader& in, const JsonNode& node, ViTConfig& out) {
  if (!node.is_string()) return in.report(node.at, "expected a word such as \"S/16\", got " + describe(node));
  constexpr std::string_view kDeiT = "DeiT-";
  const std::size_t slash = node.text.find('/');
  std::string name = node.text.substr(0, slash);
  const bool deit = name.starts_with(kDeiT);
  if (deit) name.erase(0, kDeiT.size());
  const auto* found = std::find_if(std::begin(kVariants), std::end(kVariants), [&](const Variant& v) {
    return v.name == name && (!deit || v.depth == 12);  // there is no DeiT-L
  });
  if (found == std::end(kVariants))
    return in.report(node.at, unknown_word("variant", node.text.substr(0, slash),
                                           {"Ti", "S", "B", "L", "DeiT-Ti", "DeiT-S", "DeiT-B"}));
  const std::string patch = slash == std::string::npos ? "" : node.text.substr(slash + 1);
  std::int64_t size = 0;
  const auto [end, error] = std::from_chars(patch.data(), patch.data() + patch.size(), size);
  if (error != std::errc() || end != patch.data() + patch.size() || size < 1)
    return in.report(node.at,
                     concat("expected a patch size after the slash, such as \"", deit ? kDeiT : "", name, "/16\""));
  out.embed_dim = found->embed_dim;
  out.depth = found->depth;
  out.num_heads = found->num_heads;
  out.patch_size = size;
  if (!deit) return;
  out.pool = Pool::token;
  out.pos_embed_class = true;
}

void read_variant(FieldReader& in, const JsonNode& node, SwinConfig& out) {
  if (!node.is_string()) return in.report(node.at, "expected a word such as \"Swin-T\", got " + describe(node));
  for (const SwinVariant& variant : kSwinVariants)
    if (variant.name == node.text) return set_variant(out, variant);
  in.report(node.at, unknown_word("variant", node.text, names_of(kSwinVariants)));
}

template <class Config>
void read_model_keys(FieldReader& in, const JsonNode& node, Config& out) {
  if (const JsonMember* given = node.find("variant")) read_variant(in, given->value, out);
  Form<ActivationConfig>::begin(node, out);
  in.object(node, out, {"kind", "variant", "layer_scale"});
  if (const JsonMember* scale = node.find("layer_scale")) {
    if (out.placement.layer_scale.kind != LayerScaleKind::none)
      return in.report(scale->key_at, "the placement has a layer_scale already; set it in one place only");
    in.value(scale->value, out.placement.layer_scale);
  }
}

/// Leaves out drop-path where a single block has none. Canonical texts of earlier versions, where it had, keep it and
/// their ids.
template <class Config>
void drop_idle_drop_path(const FieldReader& in, Config& out) {
  if (in.mode() == ReadMode::canonical || block_count(out) > 1 || out.drop_path == 0 ||
      out.drop_path_rates == DropPathRates::constant)
    return;
  const Config defaults = defaults_beside(out);
  out.drop_path = defaults.drop_path;
  for_each_field<Config>([&](const auto& row) {
    if (row.unmet(out) != nullptr) out.*row.member = defaults.*row.member;
  });
}

/// Sets what a pattern such as "**.momentum" names: a norm at sites, or a key of their norms.
void read_pattern(FieldReader& in, const JsonMember& pattern, Placement& out) {
  JsonNode change = json_object();
  change.at = pattern.value.at;
  change.add(pattern.key.substr(pattern.key.rfind('.') + 1), pattern.value).at = pattern.value.at;
  change.members[0].key_at = pattern.key_at;
  if (pattern.key.ends_with(kAnySteps))
    return in.report(pattern.key_at, "end it with a site or a key of norms, as in \"**.query\" or \"**.eps\"");
  const std::string& last = change.members[0].key;
  std::vector<std::string_view> known = in.rows().norms().parameter_names();
  known.insert(known.end(), kKeysOf<NormSpec>.begin(), kKeysOf<NormSpec>.end());
  bool found = false;
  const std::size_t before = in.reported();
  const auto see = [&](const std::string& path, NormSpec& spec) {
    const auto set = [&](const JsonNode& value) {
      found = true;
      if (in.reported() == before) in.value(value, spec);  // not the same problem for each site
    };
    if (has_form(path, pattern.key)) return set(pattern.value);
    const std::vector<std::string_view> keys = keys_of(spec);
    known.insert(known.end(), keys.begin(), keys.end());
    const auto named = [&](std::string_view key) { return has_form(concat(path, ".", key), pattern.key); };
    if (std::any_of(keys.begin(), keys.end(), named)) set(change);
  };
  visit_sites(out, [&](const SiteRow& site, NormSpec& spec) { see(std::string(site.path), spec); });
  for (BlockRange& range : out.blocks) {
    const std::string prefix = concat(kBlocksKey, ".", block_range_name(out, range), ".");
    visit_sites(range, [&](const SiteRow& site, NormSpec& spec) { see(concat(prefix, site.path), spec); });
  }
  if (out.has_two_streams()) see("stream_norm", out.stream_norm);
  if (found || !in.problems().empty()) return in.problems().used(pattern.key_at);
  const bool is_known = std::find(known.begin(), known.end(), last) != known.end();
  in.problems().unused(pattern.key_at, is_known ? "no norm here has this key" : unknown_key(last, known));
}

/// Reports at the placement's "merge" key if it is written there.
void refuse_merge(FieldReader& in, const JsonNode& node) {
  const JsonMember* placement = node.find("placement");
  if (placement == nullptr) return;
  const JsonMember* merge = placement->value.is_object() ? placement->value.find("merge") : nullptr;
  in.report(merge == nullptr ? placement->value.at : merge->key_at, "merge is a site of Swin; a ViT has none");
}

}  // namespace

void Form<NormSpec>::read(FieldReader& in, const JsonNode& node, NormSpec& out, Range) {
  const auto read_kind = [&](const JsonNode& word) {
    if (word.is_string() && in.rows().norms().find(word.text, in.kind(), out)) return;
    NormKind kind{};
    const std::size_t before = in.reported();
    if (word.is_string() && !find_word(word.text, kind)) {
      std::vector<std::string_view> known = in.rows().norms().names();
      known.insert(known.end(), kWords<NormKind>.begin(), kWords<NormKind>.end());
      std::string what = unknown_word("word", word.text, known);
      if (nearest(word.text, known).empty())
        what += concat("; one of: ", alternatives(known, ", "), "; or a formula, {\"formula\": \"x / rms(x)\"}");
      return in.report(word.at, what);
    }
    in.value(word, kind);
    if (in.reported() == before) out = default_norm(kind, in.kind(), in.mode() == ReadMode::canonical);
  };
  if (node.is_string()) return read_kind(node);
  if (!node.is_object())
    return in.report(node.at, "expected a kind of norm or an object with \"kind\", got " + describe(node));
  if (node.find("formula") != nullptr) return read_formula(in, node, /*has_name=*/false, out);
  // Without a kind, the object changes settings of the base's norm at this site.
  const std::size_t before = in.reported();
  if (const JsonMember* given = node.find("kind"))
    read_kind(given->value);
  else if (out.kind == NormKind::none)
    return in.report(node.at, "there is no norm here; give its \"kind\"");
  const JsonNode* const kind = value_of(node, "kind");
  const bool is_wrong_name = kind != nullptr && out.kind == NormKind::none && kind->text != word_of(NormKind::none);
  if (in.reported() > before || is_wrong_name) return;  // its keys depend on it
  if (out.formula != nullptr) return change_formula(in, node, out);
  in.object(node, out);
}

/// Only the kind's word if nothing else needs to be written. Texts without `running` are by versions whose running
/// statistics followed the first group.
JsonNode Form<NormSpec>::write(const NormSpec& spec, WriteOptions options) {
  if (spec.formula != nullptr) return written_formula(spec, options);
  NormSpec defaults = default_norm(spec.kind, options.kind, /*canonical=*/false);
  defaults.running = RunningFrom::first_group;
  JsonNode object = json_object();
  write_rows(object, spec, defaults, options);
  if (spec.kind == NormKind::none || (!options.everything && object.members.empty())) return word_of(spec.kind);
  if (!options.everything) object.add("kind", word_of(spec.kind));
  return object;
}

void Form<LayerScale>::read(FieldReader& in, const JsonNode& node, LayerScale& out, Range) {
  if (node.is_string()) {
    out = {};
    return in.value(node, out.kind);
  }
  if (node.is_object() && node.find("kind") != nullptr) out = {};
  in.object(node, out, {"init"});
  const JsonMember* init = node.find("init");
  if (init == nullptr) return;
  if (out.kind == LayerScaleKind::none) return in.report(init->key_at, "there is no layer_scale; give its \"kind\"");
  out.auto_init = init->value.is_string() && init->value.text == "auto";
  out.init = 0.0;
  if (out.auto_init) return;
  if (!init->value.is_number())
    return in.report(init->value.at, "expected a number or \"auto\", got " + describe(init->value));
  in.value(init->value, out.init);
}

JsonNode Form<LayerScale>::write(const LayerScale& scale, WriteOptions options) {
  if (scale.kind == LayerScaleKind::none || (!options.everything && scale.auto_init)) return word_of(scale.kind);
  return object({{"kind", word_of(scale.kind)}, {"init", scale.auto_init ? JsonNode("auto") : scale.init}});
}

void Form<Placement>::read(FieldReader& in, const JsonNode& node, Placement& out, Range) {
  if (node.is_string()) return in.rows().take(node, in, out);
  if (!node.is_object())
    return in.report(node.at, "expected a placement's name or an object of sites, got " + describe(node));
  out = {};
  if (const JsonMember* base = node.find("base")) in.rows().take(base->value, in, out);
  if (const JsonMember* norm = node.find(kNormKey)) {
    if (node.find("base") == nullptr) in.report(norm->key_at, "it replaces the norms of the \"base\"; name one");
    NormSpec spec{};
    in.value(norm->value, spec);
    const auto replace = [&](const SiteRow&, NormSpec& at) {
      if (at.kind != NormKind::none && at.kind != NormKind::whiten) at = spec;
    };
    visit_all_sites(out, replace);
    if (out.has_two_streams()) out.stream_norm = spec;
  }
  JsonNode sites = node;
  std::erase_if(sites.members, [](const JsonMember& member) { return is_pattern(member.key); });
  in.object(sites, out, {"base", kNormKey, kBlocksKey});
  // Sites for all blocks also apply to ranges that the base defines.
  for (BlockRange& range : out.blocks) {
    if (const JsonMember* given = node.find("attn")) in.value(given->value, range.attn);
    if (const JsonMember* given = node.find("mlp")) in.value(given->value, range.mlp);
  }
  if (const JsonMember* given = node.find(kBlocksKey)) read_blocks(in, given->value, out);
  for (const JsonMember& member : node.members)
    if (is_pattern(member.key)) read_pattern(in, member, out);
}

JsonNode Form<Placement>::write(const Placement& placement, WriteOptions options) {
  JsonNode object = json_object();
  write_rows(object, placement, {}, options);
  if (options.everything) {
    if (options.kind == ModelKind::vit)
      object.remove("merge");
    else
      object.find("stem")->value.remove("posembed_out");
  }
  if (placement.blocks.empty()) return object;
  JsonNode& ranges = object.add(std::string(kBlocksKey), json_object());
  for (const BlockRange& range : placement.blocks) {
    JsonNode& sites = ranges.add(block_range_name(placement, range), json_object());
    if (options.everything) {
      write_rows(sites, range, {}, options);
      continue;
    }
    write_rows(sites.add("attn", json_object()), range.attn, placement.attn, options);
    write_rows(sites.add("mlp", json_object()), range.mlp, placement.mlp, options);
  }
  return object;
}

void Form<ModelConfig>::read(FieldReader& in, const JsonNode& node, ModelConfig& out, Range) {
  ModelKind kind = kind_of(out);
  in.set_kind(kind);
  if (const JsonMember* given = node.find("kind")) in.value(given->value, kind);
  in.set_kind(kind);
  if (kind == ModelKind::swin) {
    const Placement placement = swin_placement(placement_of(out));
    SwinConfig& swin = out.emplace<SwinConfig>();
    swin.placement = placement;
    read_model_keys(in, node, swin);
    simplify_blocks(swin.placement, swin.depth());
    drop_idle_drop_path(in, swin);
  } else {
    auto& vit = std::get<ViTConfig>(out);
    read_model_keys(in, node, vit);
    if (node.find("mlp_dim") == nullptr) vit.mlp_dim = defaults_beside(vit).mlp_dim;
    // Has no effect without a class token, but would distinguish equal trials.
    if (vit.pool != Pool::token) vit.placement.stem.posembed_out_includes_class = true;
    if (vit.placement.merge.kind != NormKind::none) refuse_merge(in, node);
    simplify_init(vit);
    simplify_blocks(vit.placement, vit.depth);
    simplify_blocks(vit.text.placement, vit.text.depth);
    drop_idle_drop_path(in, vit);
  }
}

void Form<ClassGroups>::read(FieldReader& in, const JsonNode& node, ClassGroups& out, Range) {
  if (!node.is_object()) return in.report(node.at, "expected an object {\"name\": [classes]}, got " + describe(node));
  out.clear();
  for (const JsonMember& member : node.members) {
    std::vector<std::string>& members = out.emplace_back(member.key, std::vector<std::string>()).second;
    in.value(member.value, members);
    if (member.value.is_array() && members.empty()) in.report(member.value.at, "name at least one class");
  }
  std::sort(out.begin(), out.end());
}

JsonNode Form<ClassGroups>::write(const ClassGroups& groups, WriteOptions options) {
  JsonNode object = json_object();
  for (const auto& [name, members] : groups) object.add(name, Form<std::vector<std::string>>::write(members, options));
  return object;
}

JsonNode Form<ClassGroups>::schema(Range) {
  JsonNode members = list_of(type("string"));
  members.add("minItems", 1);
  return object({{"type", "object"}, {"additionalProperties", std::move(members)}});
}

void Form<DatasetConfig>::read(FieldReader& in, const JsonNode& node, DatasetConfig& out, Range) {
  const JsonMember* directory = nullptr;
  if (node.is_string()) {
    out.name = node.text;
  } else {
    directory = node.find("path");
    // A dataset given only by its folder is named after it.
    if (directory != nullptr && node.find("name") == nullptr && directory->value.is_string())
      out.name = directory->value.text;
    in.object(node, out);
  }
  if (out.path == out.name) out.path.clear();
  if (out.name.empty()) in.report(node.at, "a dataset needs a name or a path");
  if (out.layout != DatasetLayout::known || find_dataset(out.name) != nullptr) return;
  const JsonMember* name = node.find("name");
  const JsonMember* at = name != nullptr ? name : directory;
  in.report(at != nullptr ? at->value.at : node.at,
            unknown_word("dataset", out.name, names_of(kKnownDatasets)) +
                "; for a data set of your own give \"path\" and \"layout\" (image_folder, webdataset, ...)");
}

void Form<StartFrom>::read(FieldReader& in, const JsonNode& node, StartFrom& out, Range) {
  in.object(node, out, {"row", "seed"});
  if (!node.is_object()) return;
  if (const JsonMember* row = node.find("row")) {
    out.row = row->value;
    if (!row->value.is_object())
      in.report(row->value.at, "expected an object {axis: value}, got " + describe(row->value));
  }
  if (const JsonMember* seed = node.find("seed")) in.value(seed->value, out.seed);
}

void Form<StartConfig>::read(FieldReader& in, const JsonNode& node, StartConfig& out, Range) {
  if (in.mode() == ReadMode::canonical) return void(in.object(node, out));
  if (node.kind == JsonKind::null) return;
  StartKeys keys;
  if (node.is_string())
    keys.file = node.text;
  else
    in.object(node, keys);
  const auto given = [&](const char* key) { return node.is_object() ? node.find(key) : nullptr; };
  static_cast<StartRule&>(out) = keys;
  const JsonMember* const path = given("file");
  out.at = path != nullptr ? path->value.at : node.at;
  out.file = keys.file;
  out.sha256 = keys.sha256;
  const JsonMember* const from = given("from");
  if (from != nullptr) {
    out.from = keys.from;
    const JsonMember* const descriptor = from->value.find("descriptor");
    out.at = descriptor == nullptr ? from->value.at : descriptor->value.at;
  }
  if (const JsonMember* const hash = given("sha256")) {
    if (from != nullptr) in.report(hash->value.at, "only a file has a \"sha256\"");
    const bool hex = keys.sha256.find_first_not_of("0123456789abcdef") == keys.sha256.npos;
    if (hash->value.is_string() && (keys.sha256.size() != 64 || !hex))
      in.report(hash->value.at,
                concat("expected a SHA-256, 64 digits from 0 to 9 and a to f, got ", describe(hash->value)));
  }
  if (from != nullptr && keys.names != StartNames::stated)
    in.report(node.at, "only a file has \"names\"; a trial's weights have those of normlab");
}

JsonNode Form<StartConfig>::schema(Range) {
  JsonNode keys = rows_schema<StartKeys>();
  keys.find("properties")->value.find("sha256")->value.add("pattern", "^[0-9a-f]{64}$");
  return if_type("object", std::move(keys), any_of({type("null"), type("string")}));
}

}  // namespace normlab
