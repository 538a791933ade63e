#include "tests/reference/model_config.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "nn/model/norm_formula.h"
#include "nn/model/residual.h"

namespace normlab::reference {
namespace {

template <class T>
struct Word {
  std::string_view word;
  T meaning;
};
template <class T>
using Words = std::vector<Word<T>>;

struct Loss {
  LossKind kind;
  bool soft;
};

// Where the fixtures' words differ in kind from ours. Sites, sizes and flags have the same names on both sides.
const Words<Pool> kPools{{"token", Pool::token}, {"gap", Pool::gap}};
const Words<PosEmbed> kPositions{
    {"learned", PosEmbed::learned}, {"sincos2d", PosEmbed::sincos2d}, {"none", PosEmbed::none}};
const Words<RotaryDialect> kRotary{{"dinov3", RotaryDialect::dinov3}, {"eva02", RotaryDialect::eva02}};
const Words<GeluForm> kGelus{{"erf", GeluForm::erf}, {"tanh", GeluForm::tanh}};
const Words<MlpForm> kMlps{{"plain", MlpForm::plain}, {"gated", MlpForm::gated}};
const Words<ActivationKind> kActivations{{"gelu", ActivationKind::gelu},
                                         {"relu", ActivationKind::relu},
                                         {"silu", ActivationKind::silu},
                                         {"relu_squared", ActivationKind::relu_squared}};
const Words<AttnGate> kGates{{"head", AttnGate::head}, {"channel", AttnGate::channel}};
const Words<AttnScale> kScales{{"learned", AttnScale::learned}};
const Words<bool> kModes{{"train", true}, {"eval", false}};
const Words<HeadScale> kHeadScales{
    {"none", HeadScale::none}, {"before_proj", HeadScale::before_proj}, {"after_proj", HeadScale::after_proj}};
const Words<WindowPadding> kPaddings{{"before_shift", WindowPadding::before_shift},
                                     {"after_shift", WindowPadding::after_shift}};
const Words<DepthScale> kDepthScales{{"rsqrt", DepthScale::rsqrt}};
const Words<LayerScaleKind> kLayerScales{
    {"none", LayerScaleKind::none}, {"channel", LayerScaleKind::channel}, {"scalar", LayerScaleKind::scalar}};
const Words<Loss> kLosses{{"softmax_hard", {LossKind::softmax, false}},
                          {"softmax_soft", {LossKind::softmax, true}},
                          {"sigmoid_hard", {LossKind::sigmoid, false}}};

template <class T>
T meaning(ObjectReader& reader, const std::string& key, const Words<T>& words) {
  const std::string word = reader.string(key);
  for (const Word<T>& w : words)
    if (w.word == word) return w.meaning;
  reader.fail(key, concat("no rule for \"", word, '"'));
}

NormKind norm_kind(const std::string& site, const nlohmann::json& value) {
  NormKind kind{};
  if (value.is_string() && find_word(value.get<std::string>(), kind)) return kind;
  throw InputError(concat("config: ", site, ": no rule for the norm ", value.dump()));
}

/// Our sites by path from the nested objects of the file: "attn.pre" is config["attn"]["pre"]. Every site that the file
/// names is read; `absent` are those that this model has not.
void read_sites(ObjectReader& reader, Placement& placement, const std::vector<std::string>& parts,
                const std::set<std::string_view>& absent) {
  const double eps = reader.number("eps"), bn_eps = reader.number("bn_eps"), momentum = reader.number("bn_momentum");
  const std::int64_t rank = reader.has("rank") ? reader.integer("rank") : NormSpec{}.rank;
  const double decay_share = reader.has("decay_share") ? reader.number("decay_share") : NormSpec{}.decay_share;
  const auto spec_of = [&](const std::string& site, const nlohmann::json& kind) {
    NormSpec spec = norm_of(norm_kind(site, kind));
    spec.eps = parts_of(spec.kind).over == Statistics::batch ? bn_eps : eps;
    spec.momentum = momentum;
    spec.rank = rank;
    spec.decay_share = decay_share;
    return spec;
  };
  std::map<std::string, const nlohmann::json*> named;
  for (const std::string& part : parts) {
    const nlohmann::json* value = reader.optional(part);
    if (value == nullptr) reader.fail(part, "this key is missing");
    if (!value->is_object()) {
      named[part] = value;
      continue;
    }
    for (const auto& [site, kind] : value->items()) named[part + "." + site] = &kind;
  }
  visit_sites(placement, [&](std::string_view path, NormSpec& spec) {
    if (absent.contains(path)) return;
    const auto found = named.find(std::string(path));
    if (found == named.end()) throw InputError(concat("config: the site ", path, " is missing"));
    spec = spec_of(found->first, *found->second);
    named.erase(found);
  });
  if (const nlohmann::json* blocks = reader.optional("blocks"))
    for (const auto& [name, sites] : blocks->items()) {
      BlockRange& range = placement.blocks.emplace_back();
      range.first = std::stoll(name);
      range.last = std::stoll(name.substr(name.find('-') + 1));
      visit_sites(range, [&, &sites = sites](std::string_view path, NormSpec& spec) {
        const std::size_t dot = path.find('.');
        const std::string branch(path.substr(0, dot)), site(path.substr(dot + 1));
        spec = spec_of(std::string(path), sites.at(branch).at(site));
      });
    }
  if (!named.empty()) throw InputError(concat("config: no rule for the site ", named.begin()->first));
}

void read_rates(ObjectReader& reader, ViTConfig& c) {
  const nlohmann::json* value = reader.optional("drop");
  if (value == nullptr || !value->is_object()) reader.fail("drop", "expected an object");
  ObjectReader drop(*value, "config: drop");
  if (drop.has("dropout")) c.dropout = drop.number("dropout");
  if (drop.has("attention")) c.attention_dropout = drop.number("attention");
  if (const nlohmann::json* rates = drop.optional("drop_path")) {
    const auto list = rates->get<std::vector<double>>();
    if (static_cast<std::int64_t>(list.size()) != c.depth) drop.fail("drop_path", "expected one rate a block");
    c.drop_path = list.back();
    for (std::int64_t i = 0; i < c.depth; ++i)
      if (const double ours = drop_path_rate(c, i, c.depth); std::abs(ours - list[static_cast<std::size_t>(i)]) > 1e-12)
        drop.fail("drop_path", concat("block ", i, " has rate ", list[static_cast<std::size_t>(i)],
                                      ", the linear rule gives ", ours));
  }
  drop.finish();
}

void require_same_names(const Fixture& f, const char* what, std::vector<std::string> ours,
                        std::vector<std::string> theirs) {
  std::sort(ours.begin(), ours.end());
  std::sort(theirs.begin(), theirs.end());
  std::vector<std::string> odd;
  std::set_symmetric_difference(ours.begin(), ours.end(), theirs.begin(), theirs.end(), std::back_inserter(odd));
  if (!odd.empty()) throw InputError(concat(f.name(), ": the ", what, " ", odd.front(), " is on one side only"));
}

void copy_into(const Fixture& f, const std::string& name, const Tensor& to) {
  require_shape(f.name().c_str(), name.c_str(), f.shape(name), to.shape());
  const std::vector<double> values = f.numbers(name);
  std::transform(values.begin(), values.end(), to.data<float>(), [](double v) { return static_cast<float>(v); });
}

}  // namespace

namespace {

/// What every model's config has.
template <class Config>
void read_common(ObjectReader& reader, ModelCase& model, Config& c) {
  const nlohmann::json* size = reader.optional("image_size");
  if (size == nullptr) reader.fail("image_size", "this key is missing");
  c.image_size = size->get<std::array<std::int64_t, 2>>();
  c.channels = reader.integer("channels");
  c.patch_size = reader.integer("patch_size");
  c.embed_dim = reader.integer("embed_dim");
  c.num_classes = reader.integer("num_classes");
  c.qkv_bias = reader.boolean("qkv_bias");
  c.gelu = meaning(reader, "gelu", kGelus);
  if (reader.has("mlp_form")) c.mlp = meaning(reader, "mlp_form", kMlps);
  c.activation = default_activation(c.mlp);
  if (const nlohmann::json* given = reader.optional("activation"); given && given->is_object()) {
    const auto text = given->at("formula").get<std::string>();
    c.activation = {ActivationKind::formula, interned({.tree = formula::parse_elementwise(text), .text = text})};
  } else if (given) {
    c.activation.kind = meaning(reader, "activation", kActivations);
  }
  Placement& p = c.placement;
  p.head_scale = meaning(reader, "head_scale", kHeadScales);
  if (reader.has("attn_gate")) p.attn_gate = meaning(reader, "attn_gate", kGates);
  if (reader.has("attn_scale")) p.attn_scale = meaning(reader, "attn_scale", kScales);
  if (reader.has("exclude_self")) p.attn.exclude_self = reader.boolean("exclude_self");
  p.residual_scale = reader.boolean("residual_scale");
  p.layer_scale.kind = meaning(reader, "layer_scale", kLayerScales);
  model.training = meaning(reader, "mode", kModes);
  if (reader.has("progress")) model.progress = reader.number("progress");
  const Loss loss = meaning(reader, "loss", kLosses);
  model.loss = loss.kind;
  model.soft_targets = loss.soft;
}

RotaryConfig read_rotary(ObjectReader& reader) {
  const nlohmann::json* given = reader.optional("rotary");
  if (given == nullptr || !given->is_object()) return meaning(reader, "rotary", kRotary);
  ObjectReader keys(*given, "config: rotary");
  RotaryConfig rotary = meaning(keys, "dialect", kRotary);
  if (keys.has("base")) rotary.base = keys.number("base");
  if (const nlohmann::json* grid = keys.optional("grid")) rotary.grid = grid->get<std::array<std::int64_t, 2>>();
  if (keys.has("register_base")) rotary.register_base = keys.number("register_base");
  keys.finish();
  return rotary;
}

std::vector<std::int64_t> integers(ObjectReader& reader, const std::string& key) {
  const nlohmann::json* list = reader.optional(key);
  if (list == nullptr) reader.fail(key, "this key is missing");
  return list->get<std::vector<std::int64_t>>();
}

}  // namespace

ModelCase read_model(ObjectReader& reader) {
  ModelCase model;
  ViTConfig c;
  read_common(reader, model, c);
  c.depth = reader.integer("depth");
  c.num_heads = reader.integer("num_heads");
  c.mlp_dim = reader.integer("mlp_dim");
  c.pool = meaning(reader, "pool", kPools);
  c.pos_embed = meaning(reader, "pos_embed", kPositions);
  c.pos_embed_class = reader.boolean("pos_embed_class");
  c.rep_size = reader.integer("rep_size");
  if (reader.has("registers")) c.registers = reader.integer("registers");
  if (reader.has("rotary")) c.rotary = read_rotary(reader);
  read_rates(reader, c);
  read_sites(reader, c.placement, {"stem", "attn", "mlp", "final", "pooled"}, {"merge"});
  c.placement.stem.posembed_out_includes_class = reader.boolean("posembed_out_includes_class");
  if (reader.has("qk_per_head")) c.placement.qk_per_head = reader.boolean("qk_per_head");
  if (reader.has("value_per_head")) c.placement.value_per_head = reader.boolean("value_per_head");
  if (reader.has("depth_scale")) c.placement.depth_scale = meaning(reader, "depth_scale", kDepthScales);
  if (reader.has("streams") && reader.integer("streams") == 2) {
    const nlohmann::json stream_norm = reader.string("stream_norm");
    c.placement.stream_norm = norm_of(norm_kind("stream_norm", stream_norm));
    c.placement.stream_norm.eps = c.placement.final.eps;
  }
  if (reader.has("residual_factor")) c.placement.residual_factor.value = reader.number("residual_factor");
  model.config = c;
  return model;
}

ModelCase read_swin(ObjectReader& reader) {
  ModelCase model;
  SwinConfig c;
  read_common(reader, model, c);
  c.window = reader.integer("window");
  if (reader.has("window_padding")) c.window_padding = meaning(reader, "window_padding", kPaddings);
  c.depths = integers(reader, "depths");
  c.num_heads = integers(reader, "num_heads");
  c.mlp_ratio = reader.integer("mlp_ratio");
  read_sites(reader, c.placement, {"stem", "attn", "mlp", "merge", "final"},
             {"stem.patch_in", "stem.posembed_out", "pooled"});
  model.config = c;
  return model;
}

void load_parameters(const Fixture& f, ParameterSet& parameters) {
  std::vector<std::string> names, buffers, stored;
  for (const ParameterInfo& p : parameters.parameters()) names.push_back(p.name);
  for (const ParameterInfo& b : parameters.buffers()) buffers.push_back(b.name);
  for (const std::string& name : f.names("const/"))
    if (name.ends_with(".running_mean") || name.ends_with(".running_var")) stored.push_back(name);
  require_same_names(f, "parameter", names, f.names("param/"));
  require_same_names(f, "running statistic", buffers, stored);
  for (const std::string& name : names) copy_into(f, "param/" + name, parameters.value(parameters.find(name)));
  for (const std::string& name : buffers)
    copy_into(f, "const/" + name, parameters.buffer(parameters.find_buffer(name)));
}

namespace {

nlohmann::json small_config() {
  return nlohmann::json::parse(R"({
    "image_size": [8, 8], "channels": 3, "patch_size": 4, "embed_dim": 8, "depth": 3, "num_heads": 2, "mlp_dim": 16,
    "num_classes": 5, "pool": "gap", "pos_embed": "learned", "pos_embed_class": false, "qkv_bias": true, "rep_size": 0,
    "posembed_out_includes_class": true, "gelu": "erf", "eps": 1e-4, "bn_eps": 1e-3, "bn_momentum": 0.2,
    "stem": {"patch_in": "none", "patch_out": "none", "posembed_out": "none"},
    "attn": {"pre": "layer_norm", "query": "none", "key": "none", "value": "batch_norm", "inner": "none",
             "out": "none", "post": "none"},
    "mlp": {"pre": "rms_norm", "hidden": "none", "inner": "none", "out": "none", "post": "none"},
    "final": "dyt", "pooled": "none", "head_scale": "none", "residual_scale": false, "layer_scale": "none",
    "loss": "softmax_hard", "mode": "train", "drop": {"drop_path": [0, 0.1, 0.2]}})");
}
ModelCase read(const nlohmann::json& json) {
  ObjectReader reader(json, "config");
  ModelCase model = read_model(reader);
  reader.finish();
  return model;
}

}  // namespace

TEST_CASE("reference: the config of a model reaches its sites") {
  const ModelCase model = read(small_config());
  CHECK(placement_of(model.config).attn.pre.eps == 1e-4);
  CHECK(placement_of(model.config).mlp.pre == NormSpec{.kind = NormKind::rms_norm, .eps = 1e-4, .momentum = 0.2});
  CHECK(placement_of(model.config).attn.value == NormSpec{.kind = NormKind::batch_norm, .eps = 1e-3, .momentum = 0.2});
  CHECK(placement_of(model.config).final.kind == NormKind::dyt);
  CHECK(std::get<ViTConfig>(model.config).drop_path == 0.2);
}

TEST_CASE("reference: a config with an unknown key is refused") {
  nlohmann::json changed = small_config();
  changed["window"] = 4;
  CHECK_THROWS_WITH_AS(read(changed), doctest::Contains("\"window\""), InputError);
}

TEST_CASE("reference: a config with an unknown or missing site is refused") {
  nlohmann::json changed = small_config();
  changed["attn"]["between"] = "none";
  CHECK_THROWS_WITH_AS(read(changed), doctest::Contains("the site attn.between"), InputError);
  changed = small_config();
  changed["attn"].erase("out");
  CHECK_THROWS_WITH_AS(read(changed), doctest::Contains("the site attn.out is missing"), InputError);
}

TEST_CASE("reference: a config with an unknown norm is refused") {
  nlohmann::json changed = small_config();
  changed["final"] = "power_norm";
  CHECK_THROWS_WITH_AS(read(changed), doctest::Contains("the norm \"power_norm\""), InputError);
}

TEST_CASE("reference: a config whose drop-path rates do not rise along a line is refused") {
  nlohmann::json changed = small_config();
  changed["drop"]["drop_path"] = {0.1, 0.1, 0.2};
  CHECK_THROWS_WITH_AS(read(changed), doctest::Contains("block 0 has rate 0.1"), InputError);
}

}  // namespace normlab::reference
