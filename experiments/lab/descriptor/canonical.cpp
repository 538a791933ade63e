#include "experiments/lab/descriptor/canonical.h"

#include <memory>
#include <nlohmann/json.hpp>

#include "experiments/lab/base/sha256.h"
#include "experiments/lab/descriptor/forms.h"
#include "experiments/lab/descriptor/step_count.h"
#include "nn/model/init.h"
#include "nn/model/rotary.h"

namespace normlab {
namespace {

/// Results of earlier versions do not have this key. They padded after the shift, which is therefore what is omitted,
/// and never shifted one side alone, so that networks that do always have the key.
void write_window_padding(const SwinConfig& model, WriteOptions options, JsonNode& object) {
  object.remove(kWindowPaddingKey);
  const bool says = model.window_padding == WindowPadding::before_shift || options.everything;
  if (!model.one_side_unshifted && (shifts_one_side(model) || (pads_shifted(model) && says)))
    object.add(std::string(kWindowPaddingKey), word_of(model.window_padding));
}

/// `implied`: sizes that the dataset implies and that need not be written; may be null.
template <class Config>
JsonNode config_tree(Config model, const KnownDataset* implied, WriteOptions options) {
  constexpr bool kSwin = std::is_same_v<Config, SwinConfig>;
  // Has no effect without a class token, but would distinguish equal models.
  if constexpr (!kSwin) {
    if (model.pool != Pool::token) model.placement.stem.posembed_out_includes_class = true;
    simplify_init(model);
    simplify_rotary(model);
  }
  simplify_blocks(model.placement, block_count(model));
  JsonNode object = json_object();
  if (options.everything || kSwin) object.add("kind", word_of(kSwin ? ModelKind::swin : ModelKind::vit));
  Config defaults = defaults_beside(model);
  defaults.image_size = implied != nullptr ? implied->image_size : std::array<std::int64_t, 2>{0, 0};
  defaults.channels = implied != nullptr ? implied->channels : 0;
  defaults.num_classes = implied != nullptr ? implied->num_classes : 0;
  write_rows(object, model, defaults, options);
  if constexpr (kSwin) write_window_padding(model, options, object);
  object.remove("placement");
  object.add("placement", Form<Placement>::write(model.placement, options));
  return object;
}

JsonNode model_tree(const ModelConfig& model, const KnownDataset* implied, bool everything) {
  return std::visit([&](const auto& c) { return config_tree(c, implied, {everything, kind_of(model)}); }, model);
}

JsonNode trial_tree(const TrialConfig& given, bool everything) {
  // Not on the stack, which may be limited to 64 kB and holds the trees of nested settings.
  const auto settled = std::make_unique<TrialConfig>(given);
  TrialConfig& config = *settled;
  config.eval.metrics.clear();
  if (!everything) settle_running(config, RunningFrom::first_group);
  const WriteOptions options{everything, kind_of(config.model)};
  static const TrialConfig defaults;
  JsonNode root = json_object();
  root.add("schema", kConfigSchema);
  const auto add = [&](const char* key, JsonNode node) {
    if (options.everything || !node.members.empty()) root.add(key, std::move(node));
  };
  add("dataset", Form<DatasetConfig>::write(config.dataset, options));
  // Omits only sizes that are also the struct's defaults: readers of this text infer nothing else.
  const KnownDataset* known = find_dataset(config.dataset.name);
  const bool same = known != nullptr && known->image_size == image_size(defaults.model) &&
                    known->channels == channels(defaults.model) && known->num_classes == num_classes(defaults.model);
  add("model", model_tree(config.model, same ? known : nullptr, everything));
  if (config.start.given()) add("start", Form<StartConfig>::write(config.start, options));
  add("train", Form<TrainConfig>::write(config.train, options));
  if (config.eval != defaults.eval) add("eval", Form<EvalConfig>::write(config.eval, options));
  // Off, or of another task.
  const bool segments = task_of(config.model) == Task::segment;
  JsonMember *const eval = root.find("eval"), *const train = root.find("train");
  const bool few_shot = !config.eval.fewshot.shots.empty(), text = has_text(config.model);
  for (const auto& [key, stays] :
       {std::pair{"metrics", false}, {"fewshot", few_shot}, {"templates", text}, {"segment", segments}})
    if (eval != nullptr && !stays) eval->value.remove(key);
  if (JsonMember* augment = train == nullptr ? nullptr : train->value.find("augment"); augment != nullptr && !segments)
    augment->value.remove("segment");
  if (options.everything || config.seed != defaults.seed) root.add("seed", config.seed);
  return root;
}

/// Left empty because none of their settings apply.
void drop_empty(JsonNode& node) {
  for (JsonMember& member : node.members) drop_empty(member.value);
  std::erase_if(node.members, [](const JsonMember& member) {
    return member.value.is_object() && member.value.members.empty() && member.key != "placement";
  });
}

template <class T, class Read>
T read_text(std::string_view text, const std::string& name, Read&& read) {
  Sources sources;
  Problems problems;
  const JsonNode root = parse_json(text, sources.add(name), problems);
  PlacementRows rows;
  T out = read(root, rows, problems);
  problems.throw_if_any_or_unused();
  return out;
}

using Json = nlohmann::ordered_json;

void compare(const std::string& path, const Json* base, const Json* other, std::vector<SettingDifference>& found) {
  if (base != nullptr && other != nullptr && *base == *other) return;
  const auto below = [&](const std::string& key) { return path.empty() ? key : path + '.' + key; };
  if (base != nullptr && other != nullptr && base->is_object() && other->is_object()) {
    for (const auto& [key, value] : base->items())
      compare(below(key), &value, other->contains(key) ? &(*other)[key] : nullptr, found);
    for (const auto& [key, value] : other->items())
      if (!base->contains(key)) compare(below(key), nullptr, &value, found);
    return;
  }
  found.push_back({path, base == nullptr ? "" : base->dump(), other == nullptr ? "" : other->dump()});
}

}  // namespace

std::string canonical_json(const TrialConfig& config) {
  JsonNode root = trial_tree(config, /*everything=*/false);
  drop_empty(root);
  return write_json(root, JsonStyle::compact);
}

std::string canonical_model_json(const ModelConfig& model) {
  ModelConfig network = model;
  set_running(network, RunningFrom::first_group);  // of a training, so not written
  JsonNode root = model_tree(network, nullptr, /*everything=*/false);
  drop_empty(root);
  return write_json(root, JsonStyle::compact);
}

std::string placement_name(const ModelConfig& model) {
  const std::string canonical = canonical_model_json(model);
  ModelConfig named = model;
  for (const NamedPlacement& row : named_placements()) {
    network(named).placement = row.placement;
    if (canonical_model_json(named) == canonical) return std::string(row.name);
  }
  return "";
}

std::string trial_id(const TrialConfig& config) { return sha256_hex(canonical_json(config)); }

std::string full_json(const TrialConfig& config) {
  return write_json(trial_tree(config, /*everything=*/true), JsonStyle::indented) + "\n";
}

TrialConfig config_from_json(std::string_view text, const std::string& name) {
  return read_text<TrialConfig>(text, name, [](const JsonNode& root, PlacementRows& rows, Problems& problems) {
    return read_trial(root, rows, ReadMode::canonical, problems);
  });
}

ModelConfig model_from_json(std::string_view text, const std::string& name) {
  return read_text<ModelConfig>(text, name, [](const JsonNode& root, PlacementRows& rows, Problems& problems) {
    return read_model(root, rows, ReadMode::canonical, problems);
  });
}

std::vector<SettingDifference> config_differences(const TrialConfig& base, const TrialConfig& other) {
  Json a = Json::parse(full_json(base)), b = Json::parse(full_json(other));
  a.erase("seed");
  b.erase("seed");
  std::vector<SettingDifference> found;
  compare("", &a, &b, found);
  return found;
}

}  // namespace normlab
