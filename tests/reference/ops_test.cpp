#include "nn/model/resize_positions.h"
#include "nn/model/vit.h"
#include "tests/reference/graph.h"

namespace normlab::reference {
namespace {

Var cross_entropy(const Fixture& f, Graph& g) {
  const nlohmann::json& c = f.config();
  Targets targets;
  if (f.has("const/labels")) targets.labels = g.labels("labels");
  if (f.has("const/targets")) targets.soft = g.constant("targets");
  targets.label_smoothing = c.value("label_smoothing", 0.0);
  const std::string over = c.value("over", "all");
  if (!find_word(over, targets.smoothing)) throw InputError(concat(f.name(), ": there is no rule for over: ", over));
  return f.op() == "softmax_xent" ? softmax_cross_entropy(g["logits"], targets)
                                  : sigmoid_cross_entropy(g["logits"], targets);
}

Var whole_attention(Graph& g, std::int64_t heads) {
  const auto project = [&](const Var& x, const std::string& name) {
    return linear(x, g[name + ".weight"], g[name + ".bias"]);
  };
  const Var x = g["x"];
  return project(attention(project(x, "q"), project(x, "k"), project(x, "v"), heads), "proj");
}

Results positions(const Fixture& f) {
  const auto grid = f.config().at("grid").get<std::vector<std::int64_t>>();
  const auto dim = f.config().at("embed_dim").get<std::int64_t>();
  Results results{"table"};
  results.add("out/pos_embed", {grid.at(0) * grid.at(1), dim}, sincos2d(grid.at(0), grid.at(1), dim));
  return results;
}

/// Every way of resizing a table; the gradient of the first. The table goes through the tape and, beside it, through
/// what loads weights.
std::vector<Results> resized_positions(const Fixture& f, Graph& g) {
  const auto grid = [&](const char* key) {
    const auto sides = f.config().at(key).get<std::vector<std::int64_t>>();
    return PatchGrid{sides.at(0), sides.at(1)};
  };
  const PatchGrid from = grid("from"), to = grid("to");
  const auto dim = f.config().at("embed_dim").get<std::int64_t>();
  constexpr std::pair<const char*, Resampling> kWays[] = {{"half_pixel", Resampling::bilinear},
                                                          {"antialias", Resampling::bilinear_antialias},
                                                          {"corners", Resampling::corners},
                                                          {"bicubic", Resampling::bicubic},
                                                          {"bicubic_antialias", Resampling::bicubic_antialias}};
  const Var table = reshape(g["pos_embed"], {1, from.height, from.width, dim});
  const auto resized = [&](Resampling how) {
    return reshape(resample(table, to.height, to.width, how), {1, to.size(), dim});
  };
  Results results = g.finish(resized(kWays[0].second), kWays[0].first), loaded = results;
  loaded.how = "resize_positions";
  const float* values = g["pos_embed"].value().data<float>();
  for (const auto& [name, how] : kWays) {
    const std::string out = concat("out/", name);
    if (how != kWays[0].second) results.add(out, resized(how).value());
    const ResizedPositions done =
        resize_positions({values, static_cast<std::size_t>(from.size() * dim)}, dim, from, to, 0, how);
    loaded.tensors.erase(out);
    loaded.add(out, {1, to.size(), dim}, {done.table.begin(), done.table.end()});
  }
  return {results, loaded};
}

}  // namespace

std::vector<Results> run_op(const Fixture& f) {
  const std::string& op = f.op();
  const nlohmann::json& c = f.config();
  if (op == "sincos2d") return {positions(f)};
  Graph g(f);
  const auto heads = [&] { return c.at("num_heads").get<std::int64_t>(); };
  const auto rate = [&] { return c.at("rate").get<double>(); };
  if (op == "linear") return {g.finish(linear(g["x"], g["weight"], g.find("bias")))};
  if (op == "gelu")
    return {g.finish(gelu(g["x"], c.at("form").get<std::string>() == "erf" ? GeluForm::erf : GeluForm::tanh))};
  if (op == "tanh") return {g.finish(tanh(g["x"]))};
  if (op == "softmax")
    return {};  // no operation of its own: attention's and the losses' are compared as parts of these
  if (op == "attention") return {g.finish(whole_attention(g, heads()))};
  if (op == "attention_core") {
    const bool drops = f.has("const/keep");
    const Tensor keep = drops ? g.mask("keep") : Tensor();
    return {g.finish(attention(g["q"], g["k"], g["v"], heads(), keep, drops ? rate() : 0.0))};
  }
  if (op == "softmax_xent" || op == "sigmoid_xent") return {g.finish_mean(cross_entropy(f, g))};
  if (op == "pixel_softmax_xent") {
    const auto ignore = c.at("ignore").get<std::int32_t>();
    const Tensor labels = g.labels("labels");
    std::vector<bool> counts;
    for (std::int64_t i = 0; i < labels.size(); ++i) counts.push_back(labels.data<std::int32_t>()[i] != ignore);
    return {g.finish_mean(pixel_softmax_cross_entropy(g["logits"], labels, ignore), counts)};
  }
  if (op == "patchify") {
    const auto patch = c.at("patch_size").get<std::vector<std::int64_t>>();
    return {g.finish(patchify(g["images"], patch.at(0), patch.at(1)))};
  }
  if (op == "bilinear") {
    const auto out = c.at("out").get<std::vector<std::int64_t>>();
    const Resampling how = c.at("align_corners").get<bool>() ? Resampling::corners : Resampling::bilinear;
    return {g.finish(resample(g["x"], out.at(0), out.at(1), how))};
  }
  if (op == "pos_embed_resize") return resized_positions(f, g);
  if (op == "dropout") return {g.finish(dropout(g["x"], g.mask("keep"), rate()))};
  if (op == "drop_path") return {g.finish(dropout_add(g["branch"], g.mask("keep"), rate(), g["x"]))};
  throw InputError(concat(f.name(), ": there is no rule for the operation ", op));
}

}  // namespace normlab::reference
