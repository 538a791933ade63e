#include <algorithm>

#include "core/cpu/window_bias.h"
#include "nn/model/layers.h"
#include "tests/devices.h"
#include "tests/reference/model_config.h"

namespace normlab::reference {
namespace {

/// A value of each image that the shards write piece by piece.
class Gathered {
 public:
  explicit Gathered(std::int64_t batch) : batch_(batch) {}
  void put(const std::string& name, const Tensor& part, std::int64_t first) {
    auto [found, is_new] = values_.try_emplace(name);
    Results::Values& whole = found->second;
    if (is_new) {
      std::vector<std::int64_t> dims{batch_};
      for (int i = 1; i < part.shape().rank(); ++i) dims.push_back(part.shape()[i]);
      whole.shape = Shape(dims.begin(), dims.end());
      whole.numbers.assign(static_cast<std::size_t>(whole.shape.size()), 0.0);
    }
    const std::int64_t row = part.size() / part.shape()[0];
    std::copy_n(part.data<float>(), part.size(), whole.numbers.begin() + first * row);
  }
  const std::map<std::string, Results::Values>& values() const { return values_; }

 private:
  std::int64_t batch_;
  std::map<std::string, Results::Values> values_;
};

struct ShardWork {
  Arena arena{current_device().memory()};
  Tape tape{current_device().backend, arena};
  std::map<std::string, Var> seen{};  // by the name in the file
  Var images{}, losses{};
};

class ModelRun {
 public:
  explicit ModelRun(const Fixture& f) : f_(f) {
    ObjectReader reader(f.config(), f.name() + ": config");
    model_ = f.op() == "swin" ? read_swin(reader) : read_model(reader);
    reader.finish();
    images_ = f.floats(arena_, "in/images");
    if (model_.soft_targets)
      targets_.soft = f.floats(arena_, "const/targets");
    else
      targets_.labels = f.labels(arena_, "const/labels");
    for (const std::string& name : f.names("const/mask.")) masks_[name] = f.mask(arena_, "const/mask." + name);
  }

  Results run(std::int64_t images_per_shard, std::int64_t most_lanes, const std::string& how) {
    Backend& backend = current_device().backend;
    ParameterSet parameters(backend.memory());
    const std::unique_ptr<Model> model = make_model(parameters, model_.config);
    const std::int64_t batch = images_.shape()[0], shards = (batch + images_per_shard - 1) / images_per_shard;
    const std::int64_t lanes = std::min(shards, most_lanes);
    parameters.allocate(DType::f32, lanes);
    backend.synchronize();
    load_parameters(f_, parameters);

    std::vector<ShardWork> work(static_cast<std::size_t>(shards));
    ShardPool pool(2);
    const bool lockstep = uses_batch_norm(model_.config) && shards > 1;
    pool.run(int(shards), int(lanes), lockstep, [&](Collective& meeting) {
      const std::int64_t first = meeting.rank() * images_per_shard;
      const BatchSlice slice{std::min(images_per_shard, batch - first), first, batch, &meeting};
      run_shard(*model, parameters, meeting.rank() % lanes, slice, work[static_cast<std::size_t>(meeting.rank())]);
    });
    const Tensor square = parameters.make_zeroed({1}, DType::f64);
    backend.sum_lanes(lanes, parameters.flat_values().size(), parameters.flat_lane(0), square.data<double>());
    backend.synchronize();
    return gather(how, work, images_per_shard, parameters);
  }

 private:
  void run_shard(const Model& model, const ParameterSet& parameters, std::int64_t lane, const BatchSlice& slice,
                 ShardWork& w) const {
    const auto part = [&](const Tensor& t) { return t ? t.slice(slice.first_image, slice.images) : t; };
    const bool swin = f_.op() == "swin";
    Observers observers;
    observers.value = [&](const Shard&, const std::string& name, const Var& value) {
      if (placement_of(model_.config).has_two_streams() && name.starts_with("blocks.")) {
        w.seen["out/" + name + ".x"] = ResidualStreams::one(value, 0);
        w.seen["out/" + name + ".y"] = ResidualStreams::one(value, 1);
        return;
      }
      w.seen["out/" + (swin && name == "pre_logits" ? "features" : name)] = value;
    };
    w.images = w.tape.input(part(images_), true);
    const Step step{.parameters = parameters,
                    .training = model_.training,
                    .progress = model_.progress,
                    .masks = &masks_,
                    .observers = &observers};
    const Var logits = model(w.images, {.step = step, .tape = w.tape, .lane = lane, .slice = slice});
    w.seen["out/logits"] = logits;
    const Targets targets{part(targets_.labels), part(targets_.soft)};
    w.losses = model_.loss == LossKind::softmax ? softmax_cross_entropy(logits, targets)
                                                : sigmoid_cross_entropy(logits, targets);
    Tensor seed = w.tape.empty_like(w.losses.value());
    const double upstream = f_.numbers("dout/loss").at(0);
    w.tape.backend().fill(seed, upstream / double(slice.batch));
    w.tape.backward(w.losses, seed);
  }

  Results gather(const std::string& how, const std::vector<ShardWork>& work, std::int64_t images_per_shard,
                 const ParameterSet& parameters) const {
    const std::int64_t batch = images_.shape()[0];
    Gathered images(batch);
    double loss = 0.0;
    for (std::size_t s = 0; s < work.size(); ++s) {
      const std::int64_t first = static_cast<std::int64_t>(s) * images_per_shard;
      for (const auto& [name, value] : work[s].seen) images.put(name, value.value(), first);
      images.put("grad/images", work[s].images.grad(), first);
      const Tensor losses = work[s].losses.value();
      for (std::int64_t i = 0; i < losses.size(); ++i) loss += double(losses.data<float>()[i]);
    }
    Results results{how, images.values()};
    results.add("out/loss", Shape(), {loss / double(batch)});
    for (const ParameterInfo& p : parameters.parameters())
      results.add("grad/" + p.name, parameters.gradient(0, parameters.find(p.name)));
    for (const ParameterInfo& b : parameters.buffers())
      results.add("out/" + b.name, parameters.buffer(parameters.find_buffer(b.name)));
    return results;
  }

  const Fixture& f_;
  Arena arena_{current_device().memory()};
  ModelCase model_;
  Tensor images_;
  Targets targets_;
  std::map<std::string, Tensor> masks_;
};

}  // namespace

namespace {

/// Windows out of a grid, its shift mask and the rows of the bias table.
std::vector<Results> run_windows(const Fixture& f) {
  const auto grid = f.config().at("grid").get<std::vector<std::int64_t>>();
  const auto shift = f.config().at("shift").get<std::int64_t>();
  const Windows windows{grid.at(0), grid.at(1), f.config().at("window").get<std::int64_t>(), shift, shift};
  const Shape shape = f.shape("in/x");
  const WindowDims dims = windows.dims(shape[0], shape[3]);
  const std::int64_t n = dims.tokens();
  Arena arena(current_device().memory());
  Tape tape(current_device().backend, arena);
  const Tensor x = f.floats(arena, "in/x").reshape({shape[0], grid.at(0) * grid.at(1), shape[3]});
  Results results{"cut_windows"};
  results.add("out/windows", cut_windows(tape.input(x), windows).value());
  std::vector<double> mask(std::size_t(dims.windows() * n * n), 0.0), index(std::size_t(n * n));
  for (std::int64_t w = 0; w < dims.windows(); ++w)
    cpu::add_mask(dims, cpu::mask_pattern(dims, w), mask.data() + w * n * n);
  cpu::for_relative_positions(dims, [&](auto i, auto j, auto row) { index[std::size_t(i * n + j)] = double(row); });
  results.add("out/mask", {dims.windows(), n, n}, mask);
  results.add("out/relative_index", {n, n}, index);
  return {results};
}

}  // namespace

std::vector<Results> run_model(const Fixture& f) {
  if (f.op() == "windows") return run_windows(f);
  if (f.op() != "vit" && f.op() != "swin")
    throw InputError(concat(f.name(), ": there is no rule for the model ", f.op()));
  ModelRun model(f);
  const std::int64_t batch = f.shape("in/images")[0], cut = batch > 2 ? 2 : 1;
  Results whole = model.run(batch, 1, "one shard");
  if (current_device().backend.whole_batch()) return {whole};
  return {whole, model.run(cut, 2, concat("images a shard: ", cut))};
}

}  // namespace normlab::reference
