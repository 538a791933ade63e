#include "experiments/lab/weights/convert.h"

#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/output_file.h"
#include "experiments/lab/weights/convert_files.h"
#include "experiments/lab/weights/trained_on.h"
#include "nn/model/fuse.h"
#include "nn/model/init.h"
#include "nn/model/model.h"
#include "nn/training/nonfinite.h"

namespace normlab {
namespace {

/// A network that only stores weights.
struct Holder {
  ModelConfig model;
  ParameterSet weights;
  explicit Holder(const ModelConfig& config) : model(config) {
    make_model(weights, model);
    weights.allocate(DType::f32, 0);
  }
};

/// InputError for a value that is not finite in float32.
void require_finite(const ParameterSet& weights, const std::string& file) {
  if (const auto found = first_nonfinite(weights))
    throw InputError(
        fmt::format("{}: {} in float32, so the network has no result; nothing is written", file, found->text()));
}

std::unique_ptr<Holder> fused(const Holder& network) {
  const FusedModel result = fuse_batch_norms(network.model, host_tensors(network.weights));
  auto out = std::make_unique<Holder>(result.config);
  assign(out->weights, result.tensors);
  print_text("{}", fusion_report(result.sites, network.weights.count(), out->weights.count()));
  return out;
}

struct ConvertCommand {
  std::string in, out;
  NameScheme to = NameScheme::normlab;
  std::optional<NameScheme> from;
  std::optional<std::string> model;
  bool fuse = false, ema = false;
  ImportOptions import_options;

  int operator()() const {
    require_container(out, to);
    WeightFile file = read_weight_file(in);
    require_output(out, inputs());
    if (ema) take_average(file, in);
    const NameScheme names = stated_names(file, from);
    auto network =
        std::make_unique<Holder>(stated_model(file, model, import_options.resize_positions.has_value(), names));
    initialise(network->weights, network->model, 0);  // for parameters missing from the file (--allow-missing)

    ImportOptions options = import_options;
    options.grid = recorded_grid(file);
    ConversionReport report;
    const auto print_report = [&] { print_text("{} ({}): {}", in, word_of(names), report.text()); };
    try {
      import_weights(file.tensors, names, network->model, options, network->weights, report);
    } catch (const InputError&) {
      print_report();
      throw;
    }
    print_report();
    require_finite(network->weights, in);
    if (fuse) network = fused(*network);
    const Tensors tensors = export_weights(network->weights, network->model, to);
    std::map<std::string, std::string> metadata;
    if (!report.positions.empty()) metadata[kPositionsKey] = report.positions;
    if (const auto trained = file.metadata.find(kTrainedOnKey); trained != file.metadata.end())
      metadata.insert(*trained);
    write_weight_file(out, tensors, to, network->model, std::move(metadata));
    print_text("{} ({}): {} tensors written, {} parameters\n", out, word_of(to), tensors.size(),
               network->weights.count());
    for (const std::string& advice : scheme_advice(to, network->model)) print_text("  note       {}\n", advice);
    return 0;
  }

 private:
  /// The network's file too, and the parts that an index names.
  Inputs inputs() const {
    Inputs all{in, model.value_or("")};
    if (!in.ends_with(kSafetensorsIndexEnding)) return all;
    const nlohmann::json index = parse_strict_json(read_file(in), in);
    for (const auto& part : index.at("weight_map"))
      all.push_back(std::filesystem::path(in).parent_path() / part.get<std::string>());
    return all;
  }
};

}  // namespace

void add_convert(Command& app) {
  auto [command, options] =
      app.add_command<ConvertCommand>("convert", "convert weights between normlab, timm, Big Vision and AugReg");
  command.add_option("in", options.in, "file to read, .safetensors or .npz").required();
  command
      .add_output(Output::file, "out", options.out,
                  "file to write, .npz for big_vision and augreg, otherwise .safetensors")
      .required();
  command.add_optional_words("--from", options.from, "program whose tensor names IN has; needed unless IN states it");
  command.add_choice("--to", options.to, "program whose tensor names OUT gets");
  command.add_option("--model", options.model,
                     "the network as JSON, a file or the text itself; needed unless IN states it");
  command.add_flag("--allow-missing", options.import_options.allow_missing,
                   "keep the initial values (seed 0) of tensors that IN lacks");
  command.add_flag("--allow-left-over", options.import_options.allow_left_over, "drop tensors that the model lacks");
  command.add_flag("--ema", options.ema, "convert the averaged weights of a checkpoint");
  command.add_optional_words(
      "--resize-positions", options.import_options.resize_positions,
      "resample position embeddings to the model's image size; timm uses bicubic_antialias (for an npz: bilinear), "
      "Big Vision corners");
  command.add_flag("--fuse-bn", options.fuse,
                   "merge batch norms into the adjacent linear layers, and name the sites that cannot be merged");
  command.examples({"normlab convert checkpoint.safetensors vit.safetensors --ema --to timm",
                    "normlab convert ours.safetensors fused.safetensors --fuse-bn"});
}

}  // namespace normlab
