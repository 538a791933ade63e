#include "core/words.h"
#include "nn/model/placement.h"
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

/// A norm over the last axis.
Var row_norm(const std::string& kind, const Var& x, const Var& gamma, const Var& beta, double eps) {
  if (kind == "layer_norm") return layer_norm(x, gamma, beta, eps);
  if (kind == "rms_norm") return rms_norm(x, gamma, eps);
  if (kind == "l2") return l2_norm(x, gamma, eps);
  throw InputError(concat("there is no rule for the norm ", kind));
}

/// x times a number that the file states and that follows from `ours`.
Var times(const Fixture& f, double ours, const Var& x) {
  CHECK(ours == doctest::Approx(f.config().at("factor").get<double>()).epsilon(1e-14));
  const Tensor factor = x.tape().empty({1}, DType::f32);
  x.tape().backend().fill(factor, ours);
  return scale(x, x.tape().input(factor));
}

std::vector<Results> run_surroundings(const Fixture& f, Graph& g, double eps) {
  const nlohmann::json& config = f.config();
  if (f.op() == "per_head") {
    const Shape shape = g["x"].shape();
    const std::int64_t heads = config.at("num_heads").get<std::int64_t>();
    const Var x = reshape(g["x"], {shape[0], shape[1] * heads, shape[2] / heads});
    return {
        g.finish(reshape(row_norm(config.at("kind").get<std::string>(), x, g["gamma"], g.find("beta"), eps), shape))};
  }
  if (f.op() == "depth_scale") {
    const double factor =
        depth_scale(Placement{.depth_scale = DepthScale::rsqrt}, config.at("block").get<std::int64_t>());
    return {g.finish(
        times(f, factor, row_norm(config.at("kind").get<std::string>(), g["x"], g["gamma"], g.find("beta"), eps)))};
  }
  ResidualFactor factor;
  REQUIRE(find_word(config.at("rule").get<std::string>(), factor.rule));
  const Var x = times(f, residual_factor(factor, config.at("depth").get<std::int64_t>()), g["x"]);
  return {g.finish(layer_norm(add(x, g["branch"]), g["gamma"], g["beta"], eps))};
}

}  // namespace

std::vector<Results> run_norm(const Fixture& f) {
  Graph g(f);
  const std::string& op = f.op();
  if (op == "batch_norm") return run_batch_norm(f, g, f.config().at("mode").get<std::string>());
  const double eps = f.config().value("eps", 0.0);
  if (op == "layer_norm") return {g.finish(layer_norm(g["x"], g["gamma"], g["beta"], eps))};
  if (op == "layer_norm_fixed") return {g.finish(layer_norm(g["x"], Var(), Var(), eps))};
  if (op == "rms_norm") return {g.finish(rms_norm(g["x"], g["gamma"], eps))};
  if (op == "affine") return {g.finish(affine(g["x"], g["gamma"], g["beta"]))};
  if (op == "dyt" || op == "derf" || op == "pointwise" || op == "dyisru") {
    PointwisePhi phi = op == "derf" ? PointwisePhi::erf : op == "dyisru" ? PointwisePhi::dyisru : PointwisePhi::tanh;
    if (op == "pointwise") REQUIRE(find_word(f.config().at("phi").get<std::string>(), phi));
    const bool shift = op == "derf" || (op == "pointwise" && f.config().at("shift").get<bool>());
    return {g.finish(pointwise_norm(phi, g["x"], g["alpha"], shift ? g["shift"] : Var(), g["gamma"], g["beta"]))};
  }
  if (op == "group_norm")
    return {g.finish(group_norm(g["x"], g["gamma"], g["beta"], f.config().at("groups").get<std::int64_t>(), eps))};
  if (op == "instance_norm") return {g.finish(group_norm(g["x"], g["gamma"], g["beta"], g["x"].shape().back(), eps))};
  if (op == "per_head" || op == "depth_scale" || op == "residual_factor") return run_surroundings(f, g, eps);
  if (op == "l2") return {g.finish(l2_norm(g["x"], g["gamma"], eps))};
  if (op == "seednorm") return {g.finish(seednorm(g["x"], g["alpha"], g["beta"], g["gamma"], eps))};
  if (op == "bhyt") return {g.finish(bhyt(g["x"], g["alpha"], g["gamma"], f.config().at("kappa").get<double>(), eps))};
  if (op == "layer_scale") return {g.finish(scale(g["x"], g["gamma"]))};
  throw InputError(concat(f.name(), ": there is no rule for the norm ", op));
}

}  // namespace normlab::reference
