#include "experiments/lab/weights/convert_files.h"

#include <fmt/core.h>

#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/condition.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/problems.h"
#include "experiments/lab/descriptor/reader.h"
#include "experiments/lab/trials/trial_files.h"
#include "experiments/lab/weights/convert.h"
#include "experiments/lab/weights/npy.h"

namespace normlab {
namespace {

constexpr const char* kModelKey = "normlab.model";
constexpr const char* kNamesKey = "normlab.names";

bool is_npz(const std::filesystem::path& path) {
  const std::string ending = path.extension().string();
  if (ending == ".npz") return true;
  if (ending == ".safetensors" || path.string().ends_with(kSafetensorsIndexEnding)) return false;
  const bool torch = ending == ".pth" || ending == ".pt" || ending == ".bin" || ending == ".ckpt";
  throw InputError(
      fmt::format("{}: expected a file of weights that ends in .safetensors (or {}) or .npz{}", path.string(),
                  kSafetensorsIndexEnding,
                  torch ? "; in Python, safetensors.torch.save_file writes the tensors that torch.load reads" : ""));
}

/// Removes settings without effect in evaluation, so that networks compare equal whatever their training.
ModelConfig in_evaluation(ModelConfig config) {
  if (auto* vit = std::get_if<ViTConfig>(&config)) vit->init = ViTConfig{}.init;
  NetworkConfig& c = network(config);
  c.dropout = c.attention_dropout = c.drop_path = 0.0;
  c.head_bias_init = 0.0;
  c.placement.init_gain = {};
  c.placement.layer_scale = {.kind = c.placement.layer_scale.kind};
  visit_sites(c.placement, [](std::string_view, NormSpec& spec) {
    NormSpec kept = norm_of(spec.kind);
    std::tie(kept.eps, kept.groups, kept.phi, kept.shift, kept.kappa) =
        std::tie(spec.eps, spec.groups, spec.phi, spec.shift, spec.kappa);
    kept.formula = spec.formula == nullptr ? nullptr : without_initial_values(*spec.formula);
    spec = kept;
  });
  return config;
}

}  // namespace

WeightFile read_weight_file(const std::filesystem::path& path) {
  const bool npz = is_npz(path);
  const RegularFile named(path);  // if the named file is missing, that is bad input and no fault of the machine
  if (npz) return {read_npz(path), {}};
  const SafetensorsFile file = SafetensorsFile::read(path);
  if (!path.string().ends_with(kSafetensorsIndexEnding)) require_sealed_safetensors(file, path);
  require_listed(path, found_or(file.metadata(), kTrialKey));
  return {tensors_of(file, path.string()), file.metadata()};
}

void take_average(WeightFile& file, const std::filesystem::path& path) {
  Tensors average(file.tensors.source());
  for (HostTensor tensor : file.tensors) {
    if (!tensor.name.starts_with(kAveragePrefix)) continue;
    tensor.name = tensor.name.substr(kAveragePrefix.size());
    average.add(std::move(tensor));
  }
  if (average.size() == 0)
    throw InputError(fmt::format(
        "{}: holds no averaged weights; either the training had no train.ema, or the file is not a checkpoint",
        path.string()));
  file.tensors = std::move(average);
}

void require_container(const std::filesystem::path& path, NameScheme scheme) {
  if (is_npz(path) != stored_as_npz(scheme))
    throw InputError(fmt::format("{}: {} stores weights in {} files", path.string(), word_of(scheme),
                                 stored_as_npz(scheme) ? ".npz" : ".safetensors"));
}

NameScheme stated_names(const WeightFile& file, std::optional<NameScheme> given, std::string_view option) {
  const std::string& source = file.tensors.source();
  std::optional<NameScheme> said;
  if (const auto names = file.metadata.find(kNamesKey); names != file.metadata.end()) {
    if (!find_word(names->second, said.emplace()))
      throw InputError(fmt::format("{}: {} is {}, which is unknown", source, kNamesKey, in_quotes(names->second)));
  } else if (file.metadata.contains(kModelKey)) {
    said = NameScheme::normlab;
  }
  if (said && given && *said != *given)
    throw InputError(
        fmt::format("{}: {} is {}, but the file says {}", source, option, word_of(*given), word_of(*said)));
  if (!said && !given)
    throw InputError(fmt::format("{}: the file does not say which names its tensors have; give {}", source, option));
  const NameScheme scheme = given ? *given : *said;
  require_container(source, scheme);
  return scheme;
}

ModelConfig read_model_option(const std::string& text_or_path, WindowPadding padding) {
  const bool is_text = text_or_path.find_first_not_of(" \t\n") != std::string::npos &&
                       text_or_path[text_or_path.find_first_not_of(" \t\n")] == '{';
  const std::string text = is_text ? text_or_path : RegularFile(text_or_path).read();
  Sources sources;
  Problems problems;
  const JsonNode root = parse_json(text, sources.add(is_text ? "--model" : text_or_path), problems);
  PlacementRows rows;
  ModelConfig model = read_model(root, rows, ReadMode::descriptor, problems);
  for (const char* key : {"image_size", "num_classes"})
    if (root.is_object() && root.find(key) == nullptr)
      problems.add(root.at, "", fmt::format("give {}, because no data set defines it here", key));
  problems.throw_if_any_or_unused();
  if (auto* swin = std::get_if<SwinConfig>(&model); swin != nullptr && root.find(kWindowPaddingKey) == nullptr)
    swin->window_padding = pads_shifted(*swin) ? padding : WindowPadding{};
  return model;
}

std::optional<ModelConfig> recorded_model(const WeightFile& file) {
  const auto said = file.metadata.find(kModelKey);
  if (said == file.metadata.end()) return std::nullopt;
  return model_from_json(said->second, fmt::format("{} ({})", file.tensors.source(), kModelKey));
}

std::optional<PatchGrid> recorded_grid(const WeightFile& file) {
  const std::optional<ModelConfig> model = recorded_model(file);
  if (!model || kind_of(*model) != ModelKind::vit) return std::nullopt;
  return patch_grid(std::get<ViTConfig>(*model));
}

ModelConfig stated_model(const WeightFile& file, const std::optional<std::string>& given, bool resizes_positions,
                         NameScheme names) {
  const std::string& source = file.tensors.source();
  const std::optional<ModelConfig> recorded = recorded_model(file);
  if (!recorded) {
    if (!given) throw InputError(fmt::format("{}: the file does not name its network; give --model", source));
    return read_model_option(*given,
                             names == NameScheme::timm ? WindowPadding::after_shift : WindowPadding::before_shift);
  }
  const ModelConfig& stored = *recorded;
  if (!given) return stored;
  const auto* swin = std::get_if<SwinConfig>(&stored);
  ModelConfig wanted = read_model_option(*given, swin != nullptr ? swin->window_padding : WindowPadding{});
  ModelConfig a = in_evaluation(stored), b = in_evaluation(wanted);
  if (resizes_positions) network(a).image_size = image_size(b);
  if (auto* resized = std::get_if<SwinConfig>(&a); resized != nullptr && !pads_shifted(*resized))
    resized->window_padding = {};
  if (!(a == b))
    throw InputError(fmt::format("{}: holds another network than --model:\n  file    {}\n  --model {}", source,
                                 canonical_model_json(stored), canonical_model_json(wanted)));
  return wanted;
}

double stated_progress(const WeightFile& file) {
  const auto stated = file.metadata.find(std::string(kProgressKey));
  const std::optional<double> value = stated == file.metadata.end() ? 1 : parse_number(stated->second);
  if (!value || *value < 0 || *value > 1)
    throw InputError(concat(file.tensors.source(), ": the metadata's ", kProgressKey, " is ", in_quotes(stated->second),
                            ", not from 0 to 1"));
  return *value;
}

void load_weights(const std::filesystem::path& path, const ModelConfig& config, ParameterSet& into) {
  ConversionReport report;
  const ImportOptions all{.allow_missing = true, .allow_left_over = true};  // reported below instead
  import_weights(read_weight_file(path).tensors, NameScheme::normlab, config, all, into, report);
  if (!report.missing.empty()) throw InputError(concat(path.string(), ": there is no tensor ", report.missing.front()));
  if (!report.left_over.empty())
    throw InputError(concat(path.string(), ": this network has no tensor ", report.left_over.front()));
}

void write_weight_file(const std::filesystem::path& path, const Tensors& tensors, NameScheme scheme,
                       const ModelConfig& config, std::map<std::string, std::string> metadata) {
  require_container(path, scheme);
  if (stored_as_npz(scheme)) return write_npz(path, tensors);
  metadata[kModelKey] = canonical_model_json(config);
  metadata[kNamesKey] = word_of(scheme);
  const bool sealed = scheme == NameScheme::normlab;  // other programs do not use the hashes
  write_file_or_stream(
      path, (sealed ? write_sealed_safetensors_bytes : write_safetensors_bytes)(std::move(metadata), tensors.views()));
}

}  // namespace normlab
