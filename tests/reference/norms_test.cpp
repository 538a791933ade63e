#include "tests/reference/graph.h"

namespace normlab::reference {
namespace {

std::vector<Results> run_batch_norm(const Fixture& f, Graph& g, const std::string& mode) {
  const Var x = g["x"];
  const Tensor mean = g.constant("running_mean"), var = g.constant("running_var");
  const double eps = f.config().at("eps").get<double>();
  if (mode == "eval") return {g.finish(batch_norm_frozen(x, g["gamma"], g["beta"], mean, var, eps))};
  if (mode != "train") throw InputError(concat(f.name(), ": there is no rule for the mode ", mode));
  SingleShard alone;
  const std::int64_t images = x.shape()[0];
  const double momentum = f.config().at("momentum").get<double>();
  Results results =
      g.finish(batch_norm(x, g["gamma"], g["beta"], mean, var, {images, 0, images, &alone}, {eps, momentum, 0}));
  results.add("out/running_mean", mean);
  results.add("out/running_var", var);
  return {results};
}

}  // namespace

std::vector<Results> run_norm(const Fixture& f) {
  Graph g(f);
  const std::string& op = f.op();
  if (op == "batch_norm") return run_batch_norm(f, g, f.config().at("mode").get<std::string>());
  const double eps = f.config().at("eps").get<double>();
  if (op == "layer_norm") return {g.finish(layer_norm(g["x"], g["gamma"], g["beta"], eps))};
  if (op == "layer_norm_fixed") return {g.finish(layer_norm(g["x"], Var(), Var(), eps))};
  if (op == "rms_norm") return {g.finish(rms_norm(g["x"], g["gamma"], eps))};
  if (op == "affine") return {g.finish(affine(g["x"], g["gamma"], g["beta"]))};
  if (op == "dyt") return {g.finish(dyt(g["x"], g["alpha"], g["gamma"], g["beta"]))};
  if (op == "group_norm")
    return {g.finish(group_norm(g["x"], g["gamma"], g["beta"], f.config().at("groups").get<std::int64_t>(), eps))};
  if (op == "layer_scale") return {g.finish(scale(g["x"], g["gamma"]))};
  throw InputError(concat(f.name(), ": there is no rule for the norm ", op));
}

}  // namespace normlab::reference
