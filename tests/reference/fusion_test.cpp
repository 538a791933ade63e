// Batch norms merged into linears: one norm and one linear, and whole networks.
#include "nn/model/fuse.h"

#include <algorithm>

#include "autograd/ops.h"
#include "nn/model/model.h"
#include "tests/devices.h"
#include "tests/reference/model_config.h"

namespace normlab::reference {
namespace {

void add_rounded(Results& results, const std::string& name, const Shape& shape, const std::vector<double>& values) {
  std::vector<double> rounded(values.size());
  std::transform(values.begin(), values.end(), rounded.begin(), [](double v) { return double(static_cast<float>(v)); });
  results.add(name, shape, std::move(rounded));
}

Results run_one(const Fixture& f) {
  const bool next = f.config().at("direction") == "next";
  if (!next && f.config().at("direction") != "previous")
    throw InputError(concat(f.name(), ": no rule for this direction"));
  const double eps = f.config().at("eps").get<double>();
  Arena arena(current_device().memory());
  Tape tape(current_device().backend, arena);
  const auto constant = [&](const char* name) { return f.floats(arena, concat("const/", name)); };
  const auto leaf = [&](const Tensor& t) { return tape.parameter(t, Tensor()); };
  const Var x = tape.input(f.floats(arena, "in/x")), weight = leaf(constant("weight"));
  const Var bias = f.has("const/bias") ? leaf(constant("bias")) : Var();
  const auto norm = [&](const Var& v) {
    return batch_norm_frozen(v, leaf(constant("gamma")), leaf(constant("beta")), constant("running_mean"),
                             constant("running_var"), eps);
  };
  Results results{"one linear"};
  results.add("out/y", (next ? linear(norm(x), weight, bias) : norm(linear(x, weight, bias))).value());

  const FrozenNorm frozen = frozen_norm(f.numbers("const/gamma"), f.numbers("const/beta"),
                                        f.numbers("const/running_mean"), f.numbers("const/running_var"), eps);
  const std::int64_t out = weight.shape()[0];
  std::vector<double> w = f.numbers("const/weight"), b(static_cast<std::size_t>(out), 0.0);
  if (bias) b = f.numbers("const/bias");
  (next ? merge_into_next : merge_into_previous)(frozen, w, b);
  add_rounded(results, "out/fused_weight", weight.shape(), w);
  add_rounded(results, "out/fused_bias", {out}, b);
  const Tensor fused_weight = arena.empty(weight.shape(), DType::f32), fused_bias = arena.empty({out}, DType::f32);
  std::transform(w.begin(), w.end(), fused_weight.data<float>(), [](double v) { return static_cast<float>(v); });
  std::transform(b.begin(), b.end(), fused_bias.data<float>(), [](double v) { return static_cast<float>(v); });
  results.add("out/fused_y", linear(x, leaf(fused_weight), leaf(fused_bias)).value());
  return results;
}

void add_logits(Results& results, const std::string& name, const Fixture& f, const ModelConfig& config,
                const HostTensors& tensors) {
  ParameterSet parameters(current_device().memory());
  const auto network = make_model(parameters, config);
  parameters.allocate(DType::f32, 0);
  current_device().backend.synchronize();
  assign(parameters, tensors);
  Arena arena(current_device().memory());
  Tape tape(current_device().backend, arena);
  const Step step{.parameters = parameters};
  const Var images = tape.input(f.floats(arena, "in/images"));
  results.add(name, (*network)(images, {.step = step, .tape = tape}).value());
}

/// Everything that the file holds of the network.
HostTensors stored_tensors(const Fixture& f) {
  HostTensors tensors;
  for (const std::string& name : f.names("const/"))
    tensors[name] = {f.shape("const/" + name), f.numbers("const/" + name)};
  return tensors;
}

Results run_whole(const Fixture& f) {
  ObjectReader reader(f.config(), f.name() + ": config");
  const ModelCase model = f.op() == "bn_fusion_swin" ? read_swin(reader) : read_model(reader);
  reader.finish();
  if (model.training) throw InputError(concat(f.name(), ": only frozen batch norms are merged"));
  const HostTensors tensors = stored_tensors(f);
  const FusedModel fused = fuse_batch_norms(model.config, tensors);
  Results results{"a whole network"};
  add_logits(results, "out/logits", f, model.config, tensors);
  add_logits(results, "out/fused_logits", f, fused.config, fused.tensors);
  for (const auto& [name, tensor] : fused.tensors)
    add_rounded(results, "out/fused/" + name, tensor.shape, tensor.values);
  return results;
}

}  // namespace

std::vector<Results> run_fusion(const Fixture& f) {
  if (f.op() == "bn_fusion") return {run_one(f)};
  if (f.op() == "bn_fusion_vit" || f.op() == "bn_fusion_swin") return {run_whole(f)};
  throw InputError(concat(f.name(), ": there is no rule for ", f.op()));
}

}  // namespace normlab::reference
