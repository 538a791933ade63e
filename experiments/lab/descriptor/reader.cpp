#include "experiments/lab/descriptor/reader.h"

#include <cmath>

#include "core/visible_text.h"
#include "experiments/lab/descriptor/forms.h"
#include "experiments/lab/descriptor/formula.h"
#include "experiments/lab/descriptor/step_count.h"
#include "experiments/lab/descriptor/trial_checks.h"
#include "nn/model/model.h"

namespace normlab {
namespace {

/// The model of a descriptor without "model".
ModelConfig default_model() {
  ViTConfig vit;
  vit.placement = find_placement("pre_pre")->placement;
  return vit;
}

/// Reports at the model's `key` (as much of a dotted key as is written), at the variant that sets it, or at the model.
Report report_at_model(FieldReader& reader, const JsonNode& root, const JsonNode* model) {
  return [&reader, &root, model](std::string_view key, const std::string& what) {
    if (model == nullptr) return reader.report(root.at, "/model", what);
    for (const JsonNode* node = model;;) {
      const std::size_t dot = key.find('.');
      const JsonMember* given = node->find(key.substr(0, dot));
      if (given == nullptr) given = node->find("variant");
      if (given == nullptr) return reader.report(node->at, what);
      node = &given->value;
      if (dot == key.npos) return reader.report(node->at, what);
      key.remove_prefix(dot + 1);
      if (node->find(key.substr(0, key.find('.'))) == nullptr) return reader.report(node->at, what);
    }
  };
}

/// Reads an omitted number of classes from the dataset's files.
void count_classes(const Report& report, const ClassCounts& classes, const DatasetConfig& dataset,
                   std::int64_t& num_classes) {
  try {
    num_classes = classes(dataset);
  } catch (const InputError& error) {
    report("num_classes",
           concat("num_classes is missing, and the classes of the dataset ", in_quotes(dataset.name),
                  " cannot be counted; give num_classes, or the folder of the data with --data. ", error.what()));
  }
}

/// Whether image sizes may differ from the model's: training and evaluation images are both resized.
bool resizes_images(const TrainConfig& train) {
  return train.augment.crop != CropName::none && train.eval_transform.crop != EvalCrop::none;
}

/// Fills in omitted sizes from the dataset, and compares given ones.
void take_sizes_from_dataset(const Report& report, const JsonNode* model, const ClassCounts& classes,
                             TrialConfig& trial) {
  const DatasetConfig& dataset = trial.dataset;
  const KnownDataset* known = find_dataset(dataset.name);
  const bool cifar = known == nullptr && dataset.layout == DatasetLayout::cifar;  // records of 32 x 32 x 3 bytes
  const auto given = [&](std::string_view key) { return model != nullptr && model->find(key) != nullptr; };
  const auto settle = [&](std::string_view key, auto& value, auto expected, bool is_known, const std::string& text) {
    if (!is_known) {
      if (!given(key))
        report(key, concat("give ", key, ", which is not known for the dataset ", in_quotes(dataset.name)));
    } else if (!given(key)) {
      value = expected;
    } else if (value != expected) {
      report(key, concat("the dataset ", in_quotes(dataset.name), " has ", key, " ", text));
    }
  };
  const KnownDataset& shape = known != nullptr ? *known : kKnownDatasets[1];
  const bool shaped = known != nullptr || cifar;
  const std::int64_t of_layout = known != nullptr ? known->channels : traits_of(dataset.layout).channels;
  const auto settle_all = [&](auto& config) {
    if (shaped && shape.image_size[0] == 0 && !given("image_size"))
      report("image_size",
             concat("give image_size, because the images of ", in_quotes(trial.dataset.name), " differ in size"));
    else if (!shaped || shape.image_size[0] > 0)
      settle("image_size", config.image_size, shape.image_size,
             shaped && !((resizes_images(trial.train) || task_of(trial.model) == Task::segment) && given("image_size")),
             concat("[", shape.image_size[0], ", ", shape.image_size[1],
                    "]; for another size, set train.augment.crop and train.eval_transform.crop"));
    settle("channels", config.channels, of_layout, true, concat(of_layout));
    const bool merged = !dataset.class_groups.empty();
    if (const auto count = merged ? std::ssize(dataset.class_groups) : std::ssize(dataset.classes); count > 0)
      return settle("num_classes", config.num_classes, count, true,
                    concat(count, " classes in dataset.", merged ? "class_groups" : "classes"));
    const std::int64_t of_name = known_classes(shape, dataset);
    // More classes than a known dataset has: some without images, if that is allowed.
    const bool spare = given("num_classes") && dataset.allow_absent_classes && config.num_classes > of_name;
    if (known == nullptr && !given("num_classes") && classes)
      count_classes(report, classes, dataset, config.num_classes);
    else if (known == nullptr || !spare)
      settle("num_classes", config.num_classes, of_name, known != nullptr, concat(of_name));
  };
  std::visit(settle_all, trial.model);
}

/// Resets a Swin's window_padding where it changes nothing, so that equal networks are equal. A text without the key is
/// of a version that padded after the shift and never shifted one side alone.
void settle_window_padding(const JsonNode* model, ReadMode mode, Problems& problems, ModelConfig& config) {
  auto* const swin = std::get_if<SwinConfig>(&config);
  if (swin == nullptr || !validate(*swin).empty()) return;
  const JsonMember* const given = model == nullptr ? nullptr : model->find(kWindowPaddingKey);
  const bool matters = pads_shifted(*swin);
  if (mode == ReadMode::canonical && given == nullptr) {
    swin->window_padding = WindowPadding::after_shift;
    swin->one_side_unshifted = shifts_one_side(*swin);
  } else if (given != nullptr && matters) {
    problems.used(given->key_at);
  } else if (given != nullptr && mode == ReadMode::descriptor) {
    problems.unused(given->key_at, "windows divide every grid that is shifted, so there is nothing to pad");
  }
  if (!matters || swin->one_side_unshifted) swin->window_padding = {};
}

void check_model(const Report& report, const ModelConfig& config) {
  const std::vector<ConfigProblem> problems = validate(config);
  for (const ConfigProblem& problem : problems) report(problem.key, problem.message);
  if (!problems.empty()) return;
  for (const FormulaAt& at : formulas_of(config)) {
    const std::vector<FormulaParameter>& given = at.function->parameters;
    const std::vector<formula::Parameter> parameters = at.function->parameters_at(at.site);
    for (std::size_t p = 0; p < given.size(); ++p)
      if (!std::isfinite(float(parameters[p].value)))
        report("placement", concat(at.name, ": the initial value ", in_quotes(given[p].init.text), " of ",
                                   given[p].name, " is ", parameters[p].value, " in block ", at.site.block));
  }
}

void check_statistics(const Report& report, const TrialConfig& trial) {
  const TrainConfig& train = trial.train;
  const std::int64_t part = train.batch_size / train.accumulate;  // the images that batch norms see at a time
  const std::string part_text = train.accumulate > 1 ? concat("the ", part, " images of a part (batch_size ",
                                                              train.batch_size, ", accumulate ", train.accumulate, ")")
                                                     : concat("batch_size ", train.batch_size);
  const auto see = [&](std::string_view site, const NormSpec& spec) {
    if (parts_of(spec.kind).over == Statistics::batch && spec.statistics_batch > 0 && part % spec.statistics_batch != 0)
      report("placement",
             concat("statistics_batch ", spec.statistics_batch, " of ", site, " does not divide ", part_text));
  };
  visit_all_sites(placement_of(trial.model), see);
}

/// The name of a norm of "norms", or its text.
std::string label_of(const PlacementRows& rows, const NormSpec& spec) {
  const std::string_view name = spec.formula ? rows.norms().name_of(spec) : "";
  return name.empty() ? norm_text(spec, ModelKind::vit) : std::string(name);
}

/// " + PREFIX.attn.pre=layer_norm" for each differing site of placements or block ranges.
template <class Sites>
std::string site_differences(const PlacementRows& rows, const std::string& prefix, const Sites& base,
                             const Sites& other) {
  std::vector<const NormSpec*> before;
  visit_sites(base, [&](std::string_view, const NormSpec& spec) { before.push_back(&spec); });
  std::string out;
  std::size_t i = 0;
  visit_sites(other, [&](std::string_view site, const NormSpec& spec) {
    if (spec != *before[i++]) out += concat(" + ", prefix, site, "=", label_of(rows, spec));
  });
  if (other.attn.exclude_self != base.attn.exclude_self)
    out += concat(" + ", prefix, "attn.exclude_self=", setting_text(other.attn.exclude_self));
  return out;
}

/// How the ranges of `placement` differ from its other blocks; "" if all of that comes from the base.
std::string block_differences(const PlacementRows& rows, const Placement& base, const Placement& placement) {
  if (placement.blocks == base.blocks && placement.attn == base.attn && placement.mlp == base.mlp) return "";
  Placement cut = placement;
  for (const BlockRange& range : base.blocks) carve_blocks(cut, range.first, range.last);
  std::string out;
  for (const BlockRange& range : cut.blocks) {
    const std::string prefix = concat("blocks.", block_range_name(cut, range), ".");
    std::string changes = site_differences(rows, prefix, {0, 0, placement.attn, placement.mlp}, range);
    if (changes.empty())  // the base's range is absent here
      changes =
          site_differences(rows, prefix, {0, 0, base.attention_sites(range.first), base.mlp_sites(range.first)}, range);
    out += changes;
  }
  return out;
}

std::string difference(const PlacementRows& rows, const Placement& base, const Placement& placement) {
  std::string out = site_differences(rows, "", base, placement) + block_differences(rows, base, placement);
  const auto add = [&](std::string_view key, const auto& value, const auto& before) {
    if (value != before) out += concat(" + ", key, "=", setting_text(value));
  };
  add("posembed_out_includes_class", placement.stem.posembed_out_includes_class, base.stem.posembed_out_includes_class);
  add("head_scale", placement.head_scale, base.head_scale);
  add("attn_gate", placement.attn_gate, base.attn_gate);
  add("attn_scale", placement.attn_scale, base.attn_scale);
  add("residual_scale", placement.residual_scale, base.residual_scale);
  if (const LayerScale& scale = placement.layer_scale; scale != base.layer_scale)
    out += concat(" + layer_scale=", word_of(scale.kind),
                  scale.auto_init ? "" : concat("(init=", value_text(scale.init), ")"));
  add("init_gain", placement.init_gain, base.init_gain);
  add("residual_factor", placement.residual_factor, base.residual_factor);
  add("qk_per_head", placement.qk_per_head, base.qk_per_head);
  add("value_per_head", placement.value_per_head, base.value_per_head);
  if (placement.stream_norm != base.stream_norm) out += " + stream_norm=" + label_of(rows, placement.stream_norm);
  add("depth_scale", placement.depth_scale, base.depth_scale);
  return out;
}

}  // namespace

void PlacementRows::use_norms(const JsonNode* norms, Problems& problems) {
  FieldReader reader(*this, problems);
  if (norms_.read(norms, reader)) read_.clear();  // placements name them
}

PlacementRows::PlacementRows(const JsonNode* norms, const JsonNode* rows, Problems& problems) {
  use_norms(norms, problems);
  if (rows == nullptr) return;
  if (!rows->is_object())
    problems.add(rows->at, "expected an object such as {\"mine\": {\"base\": \"pre_pre\"}}, got " + describe(*rows));
  for (const JsonMember& member : rows->members) {
    for (const NamedPlacement& row : named_placements())
      if (row.name == member.key) problems.add(member.key_at, "a built-in placement has this name; choose another");
    rows_[member.key] = &member;
  }
  for (const auto& [name, row] : rows_) {
    FieldReader reader(*this, problems);
    if (Placement read; !read_.contains({name, ModelKind::vit})) take(JsonNode(name), reader, read);
  }
}

const Placement* PlacementRows::find(std::string_view name) const {
  const auto user = read_.find({std::string(name), ModelKind::vit});
  if (user != read_.end()) return &*user->second;
  const NamedPlacement* named = find_placement(name);
  return named == nullptr ? nullptr : &named->placement;
}

void PlacementRows::take(const JsonNode& name, FieldReader& in, Placement& out) {
  if (!name.is_string()) return in.report(name.at, "expected the name of a placement, got " + describe(name));
  if (const auto row = rows_.find(name.text); row != rows_.end()) {
    const auto [read, is_new] = read_.try_emplace({name.text, in.kind()});
    if (is_new) {
      Placement placement;
      FieldReader(*this, in.problems(), in.kind()).value(row->second->value, placement);
      read->second = placement;
    }
    if (!read->second) return in.report(name.at, "placement \"" + name.text + "\" is based on itself");
    out = *read->second;
  } else if (const NamedPlacement* named = find_placement(name.text)) {
    out = in.kind() == ModelKind::swin ? swin_placement(named->placement) : named->placement;
  } else {
    in.report(name.at, unknown_word("placement", name.text, names()));
  }
}

std::vector<std::string_view> PlacementRows::names() const {
  std::vector<std::string_view> out;
  for (const auto& [name, row] : rows_) out.push_back(name);
  for (const NamedPlacement& row : named_placements()) out.push_back(row.name);
  for (const NamedPlacement& row : other_placement_names())
    if (!rows_.contains(row.name)) out.push_back(row.name);
  return out;
}

TrialConfig read_trial(const JsonNode& root, PlacementRows& rows, ReadMode mode, Problems& problems,
                       const ClassCounts& classes) {
  TrialConfig trial;
  trial.model = default_model();
  FieldReader reader(rows, problems, ModelKind::vit, mode);
  if (mode == ReadMode::descriptor) rows.use_norms(value_of(root, kNormsKey), problems);
  const JsonMember* member = root.find("model");
  const JsonNode* model = member == nullptr ? nullptr : &member->value;
  const Report at_model = report_at_model(reader, root, model);
  const Report at_key = [&](std::string_view key, const std::string& what) { reader.report_below(root, key, what); };

  if (mode == ReadMode::canonical) {
    reader.object(root, trial, {"schema"});
    std::int64_t schema = 0;
    if (const JsonMember* given = root.find("schema")) reader.value(given->value, schema, {});
    if (schema != kConfigSchema)
      reader.report(root.at,
                    concat("written with schema ", schema, " of the settings; this program reads ", kConfigSchema));
  } else {
    reader.object(root, trial, {kNormsKey});
    // For an unknown dataset, which is already reported, the sizes are unknown too.
    if (find_dataset(trial.dataset.name) != nullptr || trial.dataset.layout != DatasetLayout::known)
      take_sizes_from_dataset(at_model, model, classes, trial);
  }
  if (reader.reported() == 0) {  // after a problem, settings left at defaults would only cause further problems
    settle_window_padding(model, mode, problems, trial.model);
    check_model(at_model, trial.model);
    check_statistics(at_model, trial);
    check_training(trial, at_key);
  }
  if (reader.reported() == 0) settle_running(trial, RunningFrom::all_groups);  // or equal trials would differ
  // Only for descriptors: trials stored by earlier versions must remain readable.
  if (mode == ReadMode::descriptor && reader.reported() == 0) {
    check_meaning(trial, at_key);
    check_data(trial, at_key);
  }
  return trial;
}

void check_values(const JsonNode& root, PlacementRows& rows, Problems& problems) {
  TrialConfig trial;
  Problems found;  // unused keys are ignored: only whole trials can tell
  FieldReader(rows, found).object(root, trial, {kNormsKey});
  problems.absorb(found);
}

ModelConfig read_model(const JsonNode& model, PlacementRows& rows, ReadMode mode, Problems& problems) {
  ModelConfig config = default_model();
  FieldReader reader(rows, problems, ModelKind::vit, mode);
  reader.value(model, config, {});
  if (reader.reported() > 0) return config;
  if (mode == ReadMode::canonical) set_running(config, RunningFrom::all_groups);  // of a training, so not written
  settle_window_padding(&model, mode, problems, config);
  check_model(report_at_model(reader, model, &model), config);
  return config;
}

namespace {

/// A setting from a command line: JSON if it begins with a brace, else a text.
template <class T>
T read_option(const std::string& text, const std::string& option, JsonNode (*of_text)(const std::string&)) {
  Sources sources;
  Problems problems;
  const std::size_t begin = text.find_first_not_of(" \t\n");
  const bool is_json = begin != std::string::npos && text[begin] == '{';
  JsonNode node = is_json ? parse_json(text, sources.add(option), problems) : of_text(text);
  if (!is_json) {
    const Position at{sources.add(option, /*has_lines=*/false), 1, 1, nullptr};
    node.at = at;
    for (JsonMember& member : node.members) member.value.at = at;
  }
  PlacementRows rows;
  const T value = read_value<T>(node, rows, problems);
  problems.throw_if_any_or_unused();
  return value;
}

}  // namespace

DatasetConfig read_dataset_option(const std::string& text, const std::string& option) {
  return read_option<DatasetConfig>(text, option, [](const std::string& name) { return JsonNode(name); });
}

NormSpec read_formula_option(const std::string& text, const std::string& option) {
  return read_option<NormSpec>(text, option, [](const std::string& formula) {
    JsonNode node = json_object();
    node.add("formula", formula);
    return node;
  });
}

std::string placement_label(const JsonNode& node, PlacementRows& rows) {
  if (node.is_string()) return node.text;
  Problems ignored;  // the reader of the trial reports them
  const JsonMember* base = node.find("base");
  const std::string name = base != nullptr && base->value.is_string() ? base->value.text : "none";
  const Placement* from = rows.find(name);
  if (from == nullptr) return write_json(node, JsonStyle::compact);
  std::string label = name;
  Placement before = *from;
  if (const JsonMember* norm = node.find(kNormKey)) {
    JsonNode first = json_object();
    for (const JsonMember* member : {base, norm})
      if (member != nullptr) first.members.push_back(*member);
    before = read_value<Placement>(first, rows, ignored);
    NormSpec spec{};
    FieldReader(rows, ignored).value(norm->value, spec);
    label += concat(" + ", kNormKey, "=", label_of(rows, spec));
  }
  return label + difference(rows, before, read_value<Placement>(node, rows, ignored));
}

}  // namespace normlab
