#include "nn/vit.h"
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
  if (over != "all" && over != "others") throw InputError(concat(f.name(), ": there is no rule for over: ", over));
  targets.smooth_others = over == "others";
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
  if (op == "softmax") return {g.finish(softmax(g["x"]))};
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
  if (op == "dropout") return {g.finish(dropout(g["x"], g.mask("keep"), rate()))};
  if (op == "drop_path") return {g.finish(add(g["x"], drop_path(g["branch"], g.mask("keep"), rate())))};
  throw InputError(concat(f.name(), ": there is no rule for the operation ", op));
}

}  // namespace normlab::reference
