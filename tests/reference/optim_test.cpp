#include <algorithm>

#include "nn/optimizer.h"
#include "tests/reference/fixture.h"

namespace normlab::reference {
namespace {

/// The parameters of the file in an optimiser, one lane of gradients.
struct Setup {
  explicit Setup(const Fixture& f) : names(f.names("in/")) {
    for (const std::string& name : names) parameters.add(name, f.shape("in/" + name));
    parameters.allocate(DType::f32, 1);
  }
  void fill(const Fixture& f, const std::string& prefix, bool gradients) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Tensor to = gradients ? parameters.gradient(0, int(i)) : parameters.value(int(i));
      const std::vector<double> values = f.numbers(prefix + names[i]);
      std::transform(values.begin(), values.end(), to.data<float>(), [](double v) { return static_cast<float>(v); });
    }
  }
  std::vector<std::string> names;
  ParameterSet parameters;
  ShardPool pool{1};
  StepState state;
};

/// Plain descent at rate 1 from zero: the parameters become the clipped gradient with its sign turned.
Results clipped(const Fixture& f) {
  Setup s(f);
  if (f.config().at("form") != "torch") throw InputError(concat(f.name(), ": no rule for this form of clipping"));
  s.fill(f, "in/", true);
  Optimizer optimizer(cpu_backend(), s.parameters, {.kind = OptimizerKind::sgd, .sgd = {0.0, 0.0, false}});
  s.state.lr = -1.0;
  s.state.clip_norm = f.config().at("limit").get<double>();
  optimizer.step(s.pool, s.state);
  Results results{"one step"};
  results.add("out/norm", Shape(), {s.state.grad_norm});
  for (std::size_t i = 0; i < s.names.size(); ++i) results.add("out/" + s.names[i], s.parameters.value(int(i)));
  return results;
}

Results steps(const Fixture& f, const OptimizerSettings& settings, double rate_factor) {
  const nlohmann::json& c = f.config();
  Setup s(f);
  s.fill(f, "in/", false);
  Optimizer optimizer(cpu_backend(), s.parameters, settings);
  std::vector<std::string> decayed;
  for (const ParameterInfo& p : s.parameters.parameters())
    if (p.decays) decayed.push_back(p.name);
  if (c.at("decayed") != decayed) throw InputError(concat(f.name(), ": other parameters decay than the file says"));
  if (!c.at("clip").is_null()) {
    if (c.at("clip").at(1) != "torch") throw InputError(concat(f.name(), ": no rule for this form of clipping"));
    s.state.clip_norm = c.at("clip").at(0).get<double>();
  }
  Results results{"one lane"};
  for (const auto& rate : c.at("rates")) {
    const std::string number = std::to_string(s.state.step + 1);
    s.fill(f, concat("grad", number, "/"), true);
    s.state.lr = rate_factor * rate.get<double>();
    optimizer.step(s.pool, s.state);
    ++s.state.step;
    for (std::size_t i = 0; i < s.names.size(); ++i)
      results.add(concat("out/step", number, "/", s.names[i]), s.parameters.value(int(i)));
  }
  for (const Optimizer::Moment& moment : optimizer.moments())
    for (std::size_t i = 0; i < s.names.size(); ++i)
      results.add(concat("out/state/", moment.name, "/", s.names[i]), s.parameters.view_flat(moment.flat, int(i)));
  return results;
}

}  // namespace

std::vector<Results> run_optimizer(const Fixture& f) {
  const nlohmann::json& c = f.config();
  const auto number = [&](const char* key) { return c.at(key).get<double>(); };
  if (f.op() == "clip_global_norm") return {clipped(f)};
  if (f.op() == "adamw")
    return {steps(f, {.kind = OptimizerKind::adamw, .adamw = {number("b1"), number("b2"), number("eps"), number("wd")}},
                  1.0)};
  if (f.op() == "momentum") {
    if (c.contains("product") || number("wd") != 0.0) throw InputError(concat(f.name(), ": no rule for this momentum"));
    const SgdSettings sgd{number("mu"), 0.0, c.at("nesterov").get<bool>()};
    return {steps(f, {.kind = OptimizerKind::sgd, .sgd = sgd}, number("lr"))};
  }
  throw InputError(concat(f.name(), ": there is no rule for the optimizer ", f.op()));
}

}  // namespace normlab::reference
