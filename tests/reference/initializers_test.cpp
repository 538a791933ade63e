// initializers/statistics.json: the distribution of every parameter as Big Vision draws it, and start values beside it.
#include <cmath>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"
#include "nn/model/init.h"
#include "nn/model/vit.h"
#include "tests/reference/fixture.h"

namespace normlab::reference {
namespace {

/// Whether a name fits a pattern of the file: `*` stands for anything, {a,b} for one of the words.
bool fits(std::string_view pattern, std::string_view name) {
  if (pattern.empty()) return name.empty();
  if (pattern.front() == '*') {
    for (std::size_t skip = 0; skip <= name.size(); ++skip)
      if (fits(pattern.substr(1), name.substr(skip))) return true;
    return false;
  }
  if (pattern.front() == '{') {
    const std::size_t close = pattern.find('}');
    std::string_view words = pattern.substr(1, close - 1);
    for (;;) {
      const std::string_view word = words.substr(0, words.find(','));
      if (name.starts_with(word) && fits(pattern.substr(close + 1), name.substr(word.size()))) return true;
      if (word.size() == words.size()) return false;
      words.remove_prefix(word.size() + 1);
    }
  }
  return !name.empty() && pattern.front() == name.front() && fits(pattern.substr(1), name.substr(1));
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-14 * std::abs(b); }

/// The rule itself against the file's numbers, then the drawn values by the test that the file prescribes.
std::string difference(const InitRule& rule, const std::vector<double>& values, ObjectReader& row) {
  const std::string kind = row.string("distribution");
  if (kind == "constant") {
    const double value = row.number("value");
    for (const double v : values)
      if (v != value) return concat("has ", v, ", expected ", value);
    return "";
  }
  const double std = row.number("std");
  const nlohmann::json* bound = row.optional("max_abs");
  const double max_abs = bound == nullptr || bound->is_null() ? HUGE_VAL : bound->get<double>();
  Distribution expected = Distribution::normal;
  double scale = std;
  if (kind == "uniform") expected = Distribution::uniform, scale = row.number("a");
  if (kind == "truncated_normal") expected = Distribution::truncated_normal, scale = row.number("sigma");
  if (rule.distribution != expected || !near(rule.scale, scale) || rule.gain != 1)
    return concat("is not drawn ", kind, " with ", scale, " but with ", rule.scale);
  const double n = double(values.size());
  double mean = 0.0, variance = 0.0, largest = 0.0;
  for (const double v : values) mean += v / n, largest = std::max(largest, std::abs(v));
  for (const double v : values) variance += (v - mean) * (v - mean) / (n - 1);
  if (!(std::abs(mean) < 5 * std / std::sqrt(n))) return concat("has mean ", mean);
  if (!(std::abs(std::sqrt(variance) / std - 1) < 5 / std::sqrt(2 * n)))
    return concat("has deviation ", std::sqrt(variance), ", expected ", std);
  if (!(largest <= max_abs * (1 + 1e-6))) return concat("has a value of size ", largest, ", at most ", max_abs);
  return "";
}

struct Network {
  ParameterSet parameters;
  explicit Network(const ViTConfig& c) {
    const ViT vit(parameters, c);
    parameters.allocate(DType::f64, 0);
    initialise(parameters, c, 1);
  }
  std::vector<double> values(int parameter) const {
    const Tensor t = parameters.value(parameter);
    return {t.data<double>(), t.data<double>() + t.size()};
  }
  double first(const std::string& name) const {
    const int parameter = parameters.find(name);
    if (parameter < 0) throw InputError("there is no parameter " + name);
    return values(parameter).front();
  }
  double first_of_buffer(const std::string& name) const {
    return parameters.buffer(parameters.find_buffer(name)).data<double>()[0];
  }
};

ViTConfig big_vision_model(std::int64_t dim, std::int64_t mlp_dim, std::int64_t patch, std::int64_t classes) {
  ViTConfig c;
  c.image_size = {8 * patch, 8 * patch};
  c.patch_size = patch;
  c.embed_dim = c.rep_size = dim;
  c.mlp_dim = mlp_dim;
  c.depth = 2;
  c.num_heads = 1;
  c.num_classes = classes;
  c.pool = Pool::token;
  c.placement = find_placement("pre_pre")->placement;
  return c;
}

void check_model(const std::string& name, ObjectReader& model, std::vector<std::string>& failures) {
  const std::int64_t dim = model.integer("embed_dim"), mlp_dim = model.integer("mlp_dim");
  const std::int64_t patch = model.integer("patch_size"), classes = model.integer("num_classes");
  const ViTConfig config = big_vision_model(dim, mlp_dim, patch, classes);
  const Network network(config);
  std::map<std::string, int> used;
  const nlohmann::json* rows = model.optional("parameters");
  if (rows == nullptr) model.fail("parameters", "this key is missing");
  for (const auto& [pattern, row] : rows->items()) used[pattern] = 0;
  for (std::size_t p = 0; p < network.parameters.parameters().size(); ++p) {
    const std::string& parameter = network.parameters.parameters()[p].name;
    int rules = 0;
    for (const auto& [pattern, row] : rows->items()) {
      if (!fits(pattern, parameter)) continue;
      ++rules, ++used[pattern];
      ObjectReader reader(row, name + ": " + pattern);
      const std::string wrong = difference(init_rule(network.parameters, static_cast<int>(p), config),
                                           network.values(static_cast<int>(p)), reader);
      reader.finish();
      if (!wrong.empty()) failures.push_back(concat(name, ": ", parameter, " ", wrong));
    }
    if (rules != 1) failures.push_back(concat(name, ": ", parameter, " has ", rules, " rules"));
  }
  for (const auto& [pattern, count] : used)
    if (count == 0) failures.push_back(concat(name, ": no parameter is called ", pattern));
}

/// Start values that no distribution is needed for.
void check_others(ObjectReader& others, std::vector<std::string>& failures) {
  const auto expect = [&](const char* what, double ours, double theirs) {
    if (!near(ours, theirs)) failures.push_back(concat(what, " starts at ", ours, ", expected ", theirs));
  };
  const auto object = [&](const std::string& key) {
    const nlohmann::json* value = others.optional(key);
    if (value == nullptr) others.fail(key, "this key is missing");
    return ObjectReader(*value, key);
  };
  ViTConfig c = big_vision_model(12, 20, 4, 3);
  c.head_bias_init = -6.9;
  expect("head.bias", Network(c).first("head.bias"), others.number("head.bias with init_head_bias"));

  ObjectReader scale = object("layer_scale");
  c.placement = find_placement("layer_scale")->placement;
  for (const auto& [depth, key] : {std::pair{18, "depth <= 18"}, {24, "depth <= 24"}, {25, "deeper"}}) {
    c.depth = depth;
    expect("layer_scale", Network(c).first("blocks.0.mlp.layer_scale"), scale.number(key));
  }
  scale.finish();
  c.depth = 2;

  ObjectReader dyt = object("dyt");
  c.placement = find_placement("dyt")->placement;
  c.placement.mlp.pre.beta_init = 1;
  const Network tanh(c);
  expect("alpha", tanh.first("blocks.1.attn.pre.alpha"), dyt.number("alpha"));
  expect("gamma", tanh.first("blocks.1.attn.pre.gamma"), dyt.number("gamma"));
  expect("beta", tanh.first("blocks.1.attn.pre.beta"), dyt.number("beta"));
  expect("beta_init 1", tanh.first("blocks.1.mlp.pre.beta"), dyt.number("beta in the blog post's listing"));
  dyt.finish();

  c.placement = find_placement("normformer_full")->placement;
  const double gains = others.number("head_scale, residual_scale");
  expect("head_scale", Network(c).first("blocks.0.attn.head_scale"), gains);
  expect("residual_scale", Network(c).first("blocks.1.mlp.residual_scale"), gains);

  ObjectReader bn = object("batch_norm");
  c.placement = find_placement("bn")->placement;
  const Network batch(c);
  expect("gamma", batch.first("final.gamma"), bn.number("gamma"));
  expect("beta", batch.first("final.beta"), bn.number("beta"));
  expect("running_mean", batch.first_of_buffer("final.running_mean"), bn.number("running_mean"));
  expect("running_var", batch.first_of_buffer("final.running_var"), bn.number("running_var"));
  bn.finish();

  // Two rules in words: sqrt(6 / (4 dim)) for a fused projection, sqrt(log(2 depth)) for Sub-LN.
  c.placement = find_placement("sub_ln")->placement;
  ParameterSet parameters;
  const ViT vit(parameters, c);
  const auto rule = [&](const char* name) { return init_rule(parameters, parameters.find(name), c); };
  if (others.string("sub_ln (Magneto)").find("sqrt(log(2 depth))") == std::string::npos)
    failures.push_back("Sub-LN has another rule");
  for (const char* name : {"v", "proj"})
    expect("Sub-LN's gain", rule(("blocks.1.attn." + std::string(name) + ".weight").c_str()).gain,
           std::sqrt(std::log(4.0)));
  for (const char* name : {"fc1", "fc2"})
    expect("Sub-LN's gain", rule(("blocks.1.mlp." + std::string(name) + ".weight").c_str()).gain,
           std::sqrt(std::log(4.0)));
  for (const char* name : {"q", "k"})
    expect("Sub-LN's gain", rule(("blocks.1.attn." + std::string(name) + ".weight").c_str()).gain, 1);
  if (others.string("fused qkv of torch.nn.MultiheadAttention, for contrast").find("sqrt(6 / (4 dim))") ==
      std::string::npos)
    failures.push_back("a fused projection has another rule");
  expect("truncation factor", std::sqrt(1.0 / 48) / rule("patch_embed.weight").scale,
         others.number("truncation factor"));
  for (const Init init : {Init::torch, Init::timm_jax}) {
    c.init = init;
    expect("q", rule("blocks.0.attn.q.weight").scale, std::sqrt(6.0 / 48));
  }
}

}  // namespace

std::vector<std::string> check_initializers(const std::filesystem::path& file) {
  const nlohmann::json json = parse_strict_json(read_file(file.string()), file.string());
  std::vector<std::string> failures;
  ObjectReader top(json, file.string());
  const nlohmann::json *models = top.optional("models"), *other = top.optional("other");
  if (models == nullptr || other == nullptr) top.fail("models", "this key is missing");
  for (const auto& [name, model] : models->items()) {
    ObjectReader reader(model, name);
    check_model(name, reader, failures);
    reader.finish();
  }
  ObjectReader others(*other, "other");
  check_others(others, failures);
  others.finish();
  top.string("test");
  top.finish();
  return failures;
}

namespace {

/// ViT-S/16 with the placement of a row of the file, whose names are not all those of ours.
ViTConfig small_sixteen(const std::string& row) {
  ViTConfig c = big_vision_model(384, 1536, 16, 1000);
  c.image_size = {224, 224};
  c.depth = 12;
  c.num_heads = 6;
  c.rep_size = 0;
  c.pool = row == "vit5" ? Pool::token : Pool::gap;
  c.qkv_bias = row != "vit5" && !row.starts_with("olmo2");
  Placement& p = c.placement;
  if (row == "qk_l2") {
    p.attn.query = p.attn.key = norm_of(NormKind::l2);
  } else if (row == "value_per_head") {
    p.attn.value = norm_of(NormKind::rms_norm);
    p.value_per_head = true;
  } else {
    p = find_placement(row == "olmo2_per_head" ? "olmo2" : row)->at(c.depth);
    p.qk_per_head = p.qk_per_head || row == "olmo2_per_head";
  }
  return c;
}

}  // namespace

std::vector<std::string> check_newer_initializers(const std::filesystem::path& file) {
  const nlohmann::json json = parse_strict_json(read_file(file.string()), file.string());
  std::vector<std::string> failures;
  const double tolerance = json.at("rtol");
  const auto expect = [&](const std::string& what, double ours, double theirs) {
    if (!(std::abs(ours - theirs) <= tolerance * std::abs(theirs)))
      failures.push_back(concat(what, " is ", ours, ", expected ", theirs));
  };
  const auto placement = [](const std::string& name) -> const NamedPlacement& { return *find_placement(name); };
  const std::vector<std::int64_t> depths = json.at("depths");
  const std::vector<double> factors = json.at("lns, factor of block l = 1, 2, ...");
  const nlohmann::json& gains = json.at("init_gain of v, proj, fc1, fc2");
  const std::vector<std::int64_t> post = json.at("mix_ln, blocks in Post-LN");
  for (std::size_t d = 0; d < depths.size(); ++d) {
    const std::string at = concat(" at depth ", depths[d]);
    for (const auto& [name, values] : gains.items())
      expect(name + "'s gain" + at, init_gain(placement(name).at(depths[d]).init_gain, depths[d]), values[d]);
    for (const auto& [name, values] : json.at("residual_factor").items())
      expect(name + "'s factor" + at, residual_factor(placement(name).at(depths[d]).residual_factor, depths[d]),
             values[d]);
    const Placement mix = placement("mix_ln").at(depths[d]);
    std::int64_t found = 0;
    for (std::int64_t b = 0; b < depths[d]; ++b) found += mix.attention_sites(b).post.kind != NormKind::none;
    expect("mix_ln's blocks in Post-LN" + at, double(found), double(post[d]));
  }
  for (std::size_t l = 0; l < factors.size(); ++l)
    expect(concat("lns's factor of block ", l), depth_scale(placement("lns").placement, std::int64_t(l) + 1),
           factors[l]);
  for (const auto& [name, start] : json.at("start").items()) {
    if (name == "vit5") {
      expect("vit5's LayerScale", layer_scale_init(placement("vit5").placement.layer_scale, 12),
             start.at("layer_scale"));
      continue;
    }
    ViTConfig c = big_vision_model(24, 48, 4, 7);
    NormKind kind{};
    if (!find_word(name, kind)) {
      failures.push_back("there is no kind of norm " + name);
      continue;
    }
    c.placement.final = norm_of(kind);
    const Network network(c);
    for (const auto& [parameter, value] : start.items())
      if (parameter != "kappa")
        expect(name + "'s " + parameter, network.first("final." + parameter),
               value.is_string() ? double(c.embed_dim) : double(value));
    if (start.contains("kappa")) expect(name + "'s kappa", c.placement.final.kappa, start.at("kappa"));
  }
  const char* const kCounts = "parameters, ViT-S/16, 224 px, 1000 classes, GAP unless the row says otherwise";
  for (const auto& [name, count] : json.at(kCounts).items()) {
    expect(name + "'s parameters", double(model_cost(small_sixteen(name)).parameters), double(count));
  }
  return failures;
}

}  // namespace normlab::reference
