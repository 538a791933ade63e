#include "experiments/lab/descriptor/canonical.h"

#include <memory>

#include "experiments/lab/base/sha256.h"
#include "experiments/lab/descriptor/batch_statistics.h"
#include "experiments/lab/descriptor/fields.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/problems.h"
#include "experiments/lab/descriptor/reader.h"
#include "nn/model/init.h"

namespace normlab {
namespace {

/// changes: only non-default settings; everything: all that apply. The model's kind determines norm defaults.
struct TreeOptions {
  bool everything;
  ModelKind kind;
};
constexpr bool kChanges = false, kEverything = true;

template <class T>
requires std::is_arithmetic_v<T> JsonNode tree(T value, TreeOptions) { return value; }
JsonNode tree(const std::string& value, TreeOptions) { return value; }
template <class T>
JsonNode tree(const std::array<T, 2>& value, TreeOptions) {
  return std::vector<JsonNode>{value[0], value[1]};
}
template <class T>
JsonNode tree(const std::vector<T>& value, TreeOptions options);
template <class T>
JsonNode tree(const std::optional<T>& value, TreeOptions options) {
  return tree(*value, options);
}
template <class Rule>
JsonNode tree(const NumberOrRule<Rule>& given, TreeOptions) {
  return given.rule == Rule::number ? JsonNode(given.value) : JsonNode(word_of(given.rule));
}

template <class T>
requires std::is_enum_v<T> JsonNode tree(T value, TreeOptions) { return word_of(value); }

JsonNode tree(const NormSpec& spec, TreeOptions options);
JsonNode tree(const InitConfig& init, TreeOptions options);
JsonNode tree(const DropoutRates& rates, TreeOptions options);
JsonNode tree(const LayerScale& scale, TreeOptions options);
JsonNode tree(const Placement& placement, TreeOptions options);
JsonNode tree(const ClassGroups& groups, TreeOptions options);
template <class T>
requires std::is_class_v<T> JsonNode tree(const T& value, TreeOptions options);

template <class T>
void add_fields(JsonNode& object, const T& value, const T& defaults, TreeOptions options) {
  for_each_field<T>([&](const auto& field) {
    const auto& member = value.*field.member;
    if (field.unmet(value) != nullptr) return;
    if constexpr (requires { member.has_value(); })
      if (!member) return;  // there is no word for its absence
    if (options.everything || !(member == defaults.*field.member))
      object.add(std::string(field.key), tree(member, options));
  });
}

/// Only the kind's word if nothing else needs to be written. Texts without `running` are by versions whose running
/// statistics followed the first group.
JsonNode tree(const NormSpec& spec, TreeOptions options) {
  NormSpec defaults = options.kind == ModelKind::swin ? swin_norm(spec.kind) : norm_of(spec.kind);
  defaults.running = RunningFrom::first_group;
  JsonNode object = json_object();
  add_fields(object, spec, defaults, options);
  const bool word = spec.kind == NormKind::none || (!options.everything && object.members.empty());
  if (word) return tree(spec.kind, options);
  if (!options.everything) object.add("kind", tree(spec.kind, options));
  return object;
}

JsonNode tree(const InitConfig& init, TreeOptions options) {
  const InitConfig word(init.base);
  if (init == word) return tree(init.base, options);
  JsonNode object = json_object();
  add_fields(object, init, word, options);
  if (!options.everything) object.add("base", tree(init.base, options));
  return object;
}

JsonNode tree(const DropoutRates& rates, TreeOptions options) {
  if (rates.equal()) return tree(rates.stem, options);
  JsonNode object = json_object();
  add_fields(object, rates, {}, options);
  return object;
}

JsonNode tree(const LayerScale& scale, TreeOptions options) {
  const bool word = scale.kind == LayerScaleKind::none || (!options.everything && scale.auto_init);
  if (word) return tree(scale.kind, options);
  JsonNode object = json_object();
  object.add("kind", tree(scale.kind, options));
  object.add("init", scale.auto_init ? JsonNode("auto") : scale.init);
  return object;
}

JsonNode tree(const Placement& placement, TreeOptions options) {
  JsonNode object = json_object();
  add_fields(object, placement, {}, options);
  if (options.everything) {
    if (options.kind == ModelKind::vit)
      object.remove("merge");
    else
      object.find("stem")->value.remove("posembed_out");
  }
  if (placement.blocks.empty()) return object;
  JsonNode& ranges = object.add(std::string(kBlocksKey), json_object());
  for (const BlockRange& range : placement.blocks) {
    JsonNode& sites = ranges.add(block_range_name(range.first, range.last), json_object());
    if (options.everything) {
      add_fields(sites, range, {}, options);
      continue;
    }
    JsonNode attn = json_object(), mlp = json_object();
    add_fields(attn, range.attn, placement.attn, options);
    add_fields(mlp, range.mlp, placement.mlp, options);
    sites.add("attn", std::move(attn));
    sites.add("mlp", std::move(mlp));
  }
  return object;
}

template <class T>
requires std::is_class_v<T> JsonNode tree(const T& value, TreeOptions options) {
  JsonNode object = json_object();
  add_fields(object, value, defaults_beside(value), options);
  return object;
}

template <class T>
JsonNode tree(const std::vector<T>& value, TreeOptions options) {
  std::vector<JsonNode> items;
  for (const T& v : value) items.push_back(tree(v, options));
  return items;
}

JsonNode tree(const ClassGroups& groups, TreeOptions options) {
  JsonNode object = json_object();
  for (const auto& [name, members] : groups) object.add(name, tree(members, options));
  return object;
}

/// Results of earlier versions do not have this key. They padded after the shift, which is therefore what is omitted,
/// and never shifted one side alone, so that networks that do always have the key.
void write_window_padding(const SwinConfig& model, TreeOptions options, JsonNode& object) {
  object.remove(kWindowPaddingKey);
  const bool says = model.window_padding == WindowPadding::before_shift || options.everything;
  if (!model.one_side_unshifted && (shifts_one_side(model) || (pads_shifted(model) && says)))
    object.add(std::string(kWindowPaddingKey), tree(model.window_padding, options));
}

/// `implied`: sizes that the dataset implies and that need not be written; may be null.
template <class Config>
JsonNode config_tree(Config model, const KnownDataset* implied, TreeOptions options) {
  constexpr bool kSwin = std::is_same_v<Config, SwinConfig>;
  // Has no effect without a class token, but would distinguish equal models.
  if constexpr (!kSwin) {
    if (model.pool != Pool::token) model.placement.stem.posembed_out_includes_class = true;
    simplify_init(model);
  }
  simplify_blocks(model.placement, block_count(model));
  JsonNode object = json_object();
  if (options.everything || kSwin) object.add("kind", tree(kSwin ? ModelKind::swin : ModelKind::vit, options));
  Config defaults = defaults_beside(model);
  defaults.image_size = implied != nullptr ? implied->image_size : std::array<std::int64_t, 2>{0, 0};
  defaults.channels = implied != nullptr ? implied->channels : 0;
  defaults.num_classes = implied != nullptr ? implied->num_classes : 0;
  add_fields(object, model, defaults, options);
  if constexpr (kSwin) write_window_padding(model, options, object);
  object.remove("placement");
  object.add("placement", tree(model.placement, options));
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
  const TreeOptions options{everything, kind_of(config.model)};
  static const TrialConfig defaults;
  JsonNode root = json_object();
  root.add("schema", kConfigSchema);
  const auto add = [&](const char* key, JsonNode node) {
    if (options.everything || !node.members.empty()) root.add(key, std::move(node));
  };
  add("dataset", tree(config.dataset, options));
  // Omits only sizes that are also the struct's defaults: readers of this text infer nothing else.
  const KnownDataset* known = find_dataset(config.dataset.name);
  const bool same = known != nullptr && known->image_size == image_size(defaults.model) &&
                    known->channels == channels(defaults.model) && known->num_classes == num_classes(defaults.model);
  add("model", model_tree(config.model, same ? known : nullptr, everything));
  if (config.start.given()) add("start", tree(config.start, options));
  add("train", tree(config.train, options));
  if (config.eval != defaults.eval) add("eval", tree(config.eval, options));
  if (JsonMember* eval = root.find("eval")) eval->value.remove("metrics");
  // Off, or of another task.
  if (JsonMember* eval = root.find("eval"); eval != nullptr && config.eval.fewshot.shots.empty())
    eval->value.remove("fewshot");
  if (JsonMember* eval = root.find("eval"); eval != nullptr && !has_text(config.model)) eval->value.remove("templates");
  if (task_of(config.model) != Task::segment) {
    if (JsonMember* eval = root.find("eval")) eval->value.remove("segment");
    if (JsonMember* train = root.find("train"))
      if (JsonMember* augment = train->value.find("augment")) augment->value.remove("segment");
  }
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
  const T out = read(root, rows, problems);
  problems.throw_if_any_or_unused();
  return out;
}

}  // namespace

std::string canonical_json(const TrialConfig& config) {
  JsonNode root = trial_tree(config, kChanges);
  drop_empty(root);
  return write_json(root, JsonStyle::compact);
}

std::string canonical_model_json(const ModelConfig& model) {
  ModelConfig network = model;
  set_running(network, RunningFrom::first_group);  // of a training, so not written
  JsonNode root = model_tree(network, nullptr, kChanges);
  drop_empty(root);
  return write_json(root, JsonStyle::compact);
}

std::string placement_name(const ModelConfig& model) {
  const std::string canonical = canonical_model_json(model);
  ModelConfig named = model;
  for (const NamedPlacement& row : named_placements()) {
    std::visit([&](auto& config) { config.placement = row.placement; }, named);
    if (canonical_model_json(named) == canonical) return std::string(row.name);
  }
  return "";
}

std::string trial_id(const TrialConfig& config) { return sha256_hex(canonical_json(config)); }

std::string full_json(const TrialConfig& config) {
  return write_json(trial_tree(config, kEverything), JsonStyle::indented) + "\n";
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

}  // namespace normlab
