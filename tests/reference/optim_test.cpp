#include <algorithm>
#include <set>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"
#include "nn/training/optimizer.h"
#include "nn/training/schedule.h"
#include "tests/nn/training/optimiser_step.h"
#include "tests/reference/fixture.h"

namespace normlab::reference {
namespace {

/// The parameters of the file in an optimiser, one lane of gradients.
struct Setup {
  explicit Setup(const Fixture& f) : names(f.names("in/")) {
    const nlohmann::json& c = f.config();
    std::vector<std::string> matrices;
    if (c.contains("muon")) c.at("muon").get_to(matrices);
    for (const std::string& name : names) {
      ParameterUse use{.decays = name.ends_with(".weight")};
      if (std::count(matrices.begin(), matrices.end(), name) > 0) use.role = Role::q, use.place.block = 0;
      parameters.add(name, f.shape("in/" + name), use);
    }
    parameters.allocate(DType::f32, 1);
    current_device().backend.synchronize();  // cleared memory is writable from here on
  }
  void fill(const Fixture& f, const std::string& prefix, bool gradients) {
    for (std::size_t i = 0; i < names.size(); ++i) {
      const Tensor to = gradients ? parameters.gradient(0, int(i)) : parameters.value(int(i));
      const std::vector<double> values = f.numbers(prefix + names[i]);
      std::transform(values.begin(), values.end(), to.data<float>(), [](double v) { return static_cast<float>(v); });
    }
  }
  std::vector<std::string> names;
  ParameterSet parameters{current_device().memory()};
  ShardPool pool{1};
  StepState state;
};

ClipForm clip_form(const Fixture& f, const nlohmann::json& word) {
  ClipForm form{};
  if (find_word(word.get<std::string>(), form)) return form;
  throw InputError(concat(f.name(), ": no rule for this form of clipping"));
}

/// Plain descent at rate 1 from zero: the parameters become the clipped gradient with its sign turned.
Results clipped(const Fixture& f) {
  Setup s(f);
  s.fill(f, "in/", true);
  Optimizer optimizer(current_device().backend, s.parameters,
                      {.name = OptimizerName::sgd, .weight_decay = 0.0, .momentum = 0.0}, {},
                      clip_form(f, f.config().at("form")));
  s.state.lr = -1.0;
  s.state.clip_norm = f.config().at("limit").get<double>();
  step_on_device(optimizer, s.pool, s.state);
  Results results{"one step"};
  results.add("out/norm", Shape(), {s.state.grad_norm});
  for (std::size_t i = 0; i < s.names.size(); ++i) results.add("out/" + s.names[i], s.parameters.value(int(i)));
  return results;
}

/// A value stored in bf16 is held against a float of the file.
void add_moment(Results& results, const std::string& name, const Tensor& moment) {
  if (moment.dtype() != DType::bf16) return results.add(name, moment);
  std::vector<double> numbers;
  for (std::int64_t i = 0; i < moment.size(); ++i) numbers.push_back(double(float(moment.data<bf16>()[i])));
  results.add(name, moment.shape(), std::move(numbers));
}

/// `peak`: what the file's rates are multiplied by, which are the rates themselves where it is 1.
Results steps(const Fixture& f, const std::string& how, OptimizerSettings settings, double peak) {
  const nlohmann::json& c = f.config();
  Setup s(f);
  s.fill(f, "in/", false);
  ClipForm form{};
  if (!c.at("clip").is_null()) {
    form = clip_form(f, c.at("clip").at(1));
    s.state.clip_norm = c.at("clip").at(0).get<double>();
  }
  Optimizer optimizer(current_device().backend, s.parameters, settings, {}, form);
  std::set<std::string> decayed;
  for (const ParameterInfo& p : s.parameters.parameters())
    if (p.decays) decayed.insert(p.name);
  if (c.at("decayed").get<std::set<std::string>>() != decayed)
    throw InputError(concat(f.name(), ": other parameters decay than the file says"));
  Results results{how};
  for (const auto& rate : c.at("rates")) {
    const std::string number = std::to_string(s.state.step + 1);
    s.fill(f, concat("grad", number, "/"), true);
    s.state.schedule = rate.get<double>();
    s.state.lr = peak * rate.get<double>();
    step_on_device(optimizer, s.pool, s.state);
    ++s.state.step;
    for (std::size_t i = 0; i < s.names.size(); ++i)
      results.add(concat("out/step", number, "/", s.names[i]), s.parameters.value(int(i)));
  }
  for (const Optimizer::Moment& moment : optimizer.moments())
    for (std::size_t i = 0; i < s.names.size(); ++i)
      if (!settings.is_muon() || f.has(concat("out/state/", moment.name, "/", s.names[i])))  // a matrix has no second
        add_moment(results, concat("out/state/", moment.name, "/", s.names[i]),
                   s.parameters.view_flat(moment.flat, int(i)));
  return results;
}

/// How a bf16 moment is multiplied; nothing where the file's moment is float.
void set_product(const Fixture& f, OptimizerSettings& settings) {
  const nlohmann::json& c = f.config();
  if (!c.contains("product")) return;
  settings.bf16_moment = true;
  if (c.at("product") == "wide")
    settings.moment_product = MomentProduct::wide;
  else if (c.at("product") == "constant")
    settings.moment_product = MomentProduct::constant;
  else if (c.at("product") == "rounded")
    settings.moment_product = MomentProduct::rounded;
  else
    throw InputError(concat(f.name(), ": no rule for this product"));
}

OptimizerSettings muon_settings(const nlohmann::json& c) {
  const nlohmann::json& beside = c.at("adamw");
  OptimizerSettings settings{.name = OptimizerName::muon};
  settings.weight_decay = c.at("wd").get<double>();
  settings.momentum = c.at("mu").get<double>();
  settings.nesterov = c.at("nesterov").get<bool>();
  if (!find_word(c.at("scale").get<std::string>(), settings.scale)) throw InputError("there is no rule for this scale");
  settings.adamw = {.weight_decay = beside.at("wd").get<double>(),
                    .beta1 = beside.at("b1").get<double>(),
                    .beta2 = beside.at("b2").get<double>(),
                    .eps = beside.at("eps").get<double>()};
  settings.adamw.lr = 0.1;  // its rates in the file are a tenth of Muon's
  for (std::size_t i = 0; i < c.at("rates").size(); ++i)
    if (std::abs(beside.at("rates").at(i).get<double>() - 0.1 * c.at("rates").at(i).get<double>()) > 1e-9)
      throw InputError("the rates beside Muon are not a tenth of its own");
  return settings;
}

/// A step of Muon from zero along the gradient itself, at the rate that its scale makes 1.
Results orthogonalised(const Fixture& f) {
  const Shape shape = f.shape("in/g");
  ParameterSet set{current_device().memory()};
  set.add("g", shape, {.role = Role::q, .place = {.block = 0}});
  set.allocate(DType::f32, 1);
  current_device().backend.synchronize();
  const std::vector<double> values = f.numbers("in/g");
  std::transform(values.begin(), values.end(), set.gradient(0, 0).data<float>(), [](double v) { return float(v); });
  Optimizer optimizer(current_device().backend, set, {.name = OptimizerName::muon, .momentum = 0.0});
  ShardPool pool{1};
  StepState state;
  state.lr = -1 / std::sqrt(std::max(1.0, double(shape[0]) / double(shape[1])));
  step_on_device(optimizer, pool, state);
  Results results{"one step"};
  results.add("out/y", set.value(0));
  return results;
}

}  // namespace

std::vector<Results> run_optimizer(const Fixture& f) {
  const nlohmann::json& c = f.config();
  const auto number = [&](const char* key) { return c.at(key).get<double>(); };
  if (f.op() == "orthogonalize") return {orthogonalised(f)};
  if (f.op() == "muon") return {steps(f, "muon", muon_settings(c), 1.0)};
  if (f.op() == "clip_global_norm") return {clipped(f)};
  OptimizerSettings settings;
  settings.weight_decay = number("wd");
  if (f.op() == "momentum") {
    settings.momentum = number("mu");
    settings.nesterov = c.at("nesterov").get<bool>();
    settings.name = OptimizerName::momentum_hp;
    set_product(f, settings);
    std::vector<Results> all{steps(f, "momentum_hp", settings, number("lr"))};
    settings.name = OptimizerName::sgd;  // the same where nothing decays or is rounded
    if (!settings.bf16_moment && settings.weight_decay == 0) all.push_back(steps(f, "sgd", settings, number("lr")));
    return all;
  }
  if (f.op() == "sgd") {
    settings.momentum = number("mu");
    settings.nesterov = c.at("nesterov").get<bool>();
    settings.name = OptimizerName::sgd;
    return {steps(f, "sgd", settings, 1.0)};
  }
  settings.beta1 = number("b1");
  settings.beta2 = number("b2");
  if (f.op() == "lion") {
    settings.name = OptimizerName::lion;
    return {steps(f, "lion", settings, 1.0)};
  }
  settings.eps = number("eps");
  if (f.op() == "adamw") return {steps(f, "adamw", settings, 1.0)};
  if (f.op() == "adam") {
    settings.name = OptimizerName::adam;
    return {steps(f, "adam", settings, 1.0)};
  }
  if (f.op() == "lamb") {
    settings.name = OptimizerName::lamb;
    return {steps(f, "lamb", settings, 1.0)};
  }
  if (f.op() == "big_vision_adam") {
    settings.name = OptimizerName::big_vision_adam;
    set_product(f, settings);
    return {steps(f, "big_vision_adam", settings, number("lr"))};
  }
  throw InputError(concat(f.name(), ": there is no rule for the optimizer ", f.op()));
}

std::vector<std::string> check_schedules(const std::filesystem::path& path) {
  const nlohmann::json file = parse_strict_json(read_file(path), path.string());
  const std::map<std::string, ScheduleName> kinds{{"constant", ScheduleName::constant},
                                                  {"linear", ScheduleName::linear},
                                                  {"cosine", ScheduleName::cosine},
                                                  {"rsqrt", ScheduleName::rsqrt},
                                                  {"polynomial", ScheduleName::polynomial}};
  std::vector<std::string> failures;
  const double peak = 0.003;
  for (const auto& row : file.at("schedules")) {
    const Schedule schedule({.name = kinds.at(row.at("kind").get<std::string>()),
                             .warmup = Warmup::line,
                             .final_lr = peak * row.value("end", 0.0),
                             .power = row.value("power", 1.0),
                             .timescale = row.value("timescale", 10000.0),
                             .shift = row.value("shift", std::int64_t{0}),
                             .cooldown_steps = row.value("cooldown", std::int64_t{0})},
                            peak, row.at("total").get<std::int64_t>(), row.value("warmup", std::int64_t{0}));
    for (std::size_t i = 0; i < row.at("steps").size(); ++i) {
      const auto step = row.at("steps").at(i).get<std::int64_t>();
      const double expected = row.at("values").at(i).get<double>(), value = schedule.value(step);
      const bool fine = std::abs(value - expected) <= file.at("atol").get<double>() &&
                        std::abs(schedule.rate(step) - peak * value) <= 1e-15;
      if (!fine) failures.push_back(concat(row.dump(), ": at step ", step, " ", value, ", not ", expected));
    }
  }
  return failures;
}

}  // namespace normlab::reference
