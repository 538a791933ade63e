#include <fmt/core.h>

#include <algorithm>

#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/eval_forms.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/sweep/runner.h"
#include "experiments/lab/sweep/worker.h"
#include "experiments/lab/train/probes.h"
#include "experiments/lab/weights/convert_files.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {

struct Probed {
  const Trial* trial = nullptr;
  std::int64_t images = 0;
  ProbeReading reading;
};

struct ProbeRun {
  const ProbeForm& form;
  const std::string& weights;
  int threads;
  DeviceKind device;

  int print() const {
    const Experiment experiment = form.descriptor.load();
    const ComputeDevice computer(device);
    std::vector<Probed> all;
    std::vector<std::string> broken;  // rows without numbers, with the reason
    DataSets sets;
    std::optional<std::filesystem::path> weights_file;
    if (!weights.empty()) weights_file = weights;
    for (const Trial* trial : chosen(experiment)) {
      const TrialConfig& config = trial->config;
      const std::string key = data_key(config.dataset);
      if (!sets.contains(key))
        sets.emplace(key, load_dataset(config.dataset, form.descriptor.data_root(), available_cores()));
      Probed p{trial, form.images > 0 ? form.images : config.train.batch_size, {}};
      try {
        p.reading = probe_network(config, sets.at(key), p.images, threads, weights_file, computer.backend());
        all.push_back(std::move(p));
      } catch (const NonFiniteError& error) {
        broken.push_back(concat(trial->label, ": ", error.what()));
      }
    }
    if (form.format == "csv") print_csv(all);
    if (form.format == "json") print_json(all);
    if (form.format == "text")
      for (const Probed& p : all) print_layers(p);
    for (const std::string& why : broken) tell("{}\n", why);
    return static_cast<int>(broken.empty() ? ExitCode::done : ExitCode::trials_failed);
  }

 private:
  /// The first seed of each row; with weights, the trial they belong to.
  std::vector<const Trial*> chosen(const Experiment& experiment) const {
    std::vector<const Trial*> rows;
    for (const Cell& row : experiment.rows) rows.push_back(&first_trial(experiment, row));
    if (weights.empty()) return rows;
    const std::map<std::string, std::string> metadata = read_weight_file(weights).metadata;
    if (const auto id = metadata.find(kTrialKey); id != metadata.end())
      for (const Trial& trial : experiment.trials)
        if (trial.id == id->second) return {&trial};
    if (const auto model = metadata.find("normlab.model"); model != metadata.end()) {
      std::erase_if(rows, [&](const Trial* t) { return canonical_model_json(t->config.model) != model->second; });
      if (rows.empty())
        throw InputError(fmt::format("{}: belongs to another network than the rows of {}; its network is {}", weights,
                                     form.descriptor.file, model->second));
    }
    if (rows.size() == 1) return rows;
    std::string labels;
    for (const Trial* t : rows) labels += fmt::format("\n  {}", experiment.rows[t->row].label);
    throw InputError(fmt::format("{}: fits several rows of {}; select one of them with --set:{}", weights,
                                 form.descriptor.file, labels));
  }

  std::string_view weights_text() const { return weights.empty() ? "initial weights" : std::string_view(weights); }

  ProbeAxis axis_of(const Probed& p) const {
    if (form.axis == "auto") return probe_axis(placement_of(p.trial->config.model));
    return form.axis == "channel" ? ProbeAxis::channel : ProbeAxis::position;
  }

  void print_layers(const Probed& p) const {
    const ProbeAxis shown = axis_of(p);
    const auto at = static_cast<std::size_t>(shown);
    print_text("{}: {} training images in training mode, {}; axis {}\n\n", p.trial->label, p.images, weights_text(),
               word_of(shown));
    std::size_t width = 5;
    for (const SignalProbe::Layer& layer : p.reading.signal) width = std::max(width, layer.name.size());
    print_text("{:<{}}  {:>11}  {:>11}  {:>11}  {:>11}\n", "layer", width, "AFSM", "AFV", "AFVR", "grad norm");
    std::vector<GradientNorm> rest = p.reading.gradients;
    double largest = 0;
    for (const SignalProbe::Layer& layer : p.reading.signal) {
      const auto gradient =
          std::find_if(rest.begin(), rest.end(), [&](const auto& n) { return n.layer == layer.name; });
      print_text("{:<{}}  {:>11.5g}  {:>11.5g}  {:>11.5g}  {:>11.5g}\n", layer.name, width, layer.stream[at].afsm,
                 layer.stream[at].afv, layer.branch[at].afv, gradient->norm);
      largest = std::max(largest, gradient->norm);
      rest.erase(gradient);
    }
    std::vector<std::string> others;
    for (const GradientNorm& n : rest) others.push_back(fmt::format("{} {:.5g}", n.layer, n.norm));
    print_text("\n");
    for (const std::string& line : wrapped("grad norm of " + joined(others, ", "), 80)) print_text("{}\n", line);
    if (weights.empty() && largest == 0)
      print_text("The head starts at zero, so no gradient reaches these layers yet; see --weights.\n");
    print_text("\n");
  }

  /// One number per line; each layer lists its own measures.
  static void print_csv(const std::vector<Probed>& all) {
    print_bytes("row,trial,images,measure,layer,value\n");
    for (const Probed& p : all)
      for (const auto& [name, value] : p.reading.values()) {
        std::string label;
        for (const char c : p.trial->label) label += c == '"' ? std::string("\"\"") : std::string(1, c);
        const std::size_t slash = name.find('/');
        print_bytes(fmt::format("\"{}\",{},{},{},{},{}\n", label, p.trial->id, p.images, name.substr(0, slash),
                                name.substr(slash + 1), value));
      }
  }

  void print_json(const std::vector<Probed>& all) const {
    using Json = nlohmann::ordered_json;
    Json rows = Json::array();
    for (const Probed& p : all) {
      Json layers = Json::array();
      for (const SignalProbe::Layer& layer : p.reading.signal) layers.push_back(layer.name);
      Json row{{"row", p.trial->label}, {"trial", p.trial->id}, {"images", p.images}, {"mode", "training"}};
      row["weights"] = weights_text();
      row["axis"] = word_of(axis_of(p));
      row["layers"] = std::move(layers);
      row["values"] = p.reading.values();
      rows.push_back(std::move(row));
    }
    print_bytes(rows.dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
  }
};

}  // namespace

void ProbeForm::add_to(Command& form) {
  descriptor.add_sets(form);
  form.add_bounded("--images", images, "number of training images (default: the batch size)", std::int64_t{1},
                   std::int64_t{1} << 30);
  form.add_choice("--axis", axis, "axis of the statistics in the text; auto: that of the main norm",
                  {"auto", "channel", "position"});
  form.add_choice("--format", format, "output format; json and csv have both axes", {"text", "json", "csv"});
}

int ProbeForm::print(const WeightsSource& weights, const EvalSource& source, DeviceKind device) {
  if (weights.trial.empty()) throw InputError("eval --probe: give a descriptor");
  descriptor.file = weights.trial;
  descriptor.out = weights.out;
  descriptor.data = source.root.value_or("");
  return ProbeRun{*this, weights.file, source.threads, device}.print();
}

}  // namespace normlab
