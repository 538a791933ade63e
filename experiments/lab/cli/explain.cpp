#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "core/error.h"
#include "core/formula/program.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/explain_init.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/fields.h"
#include "experiments/lab/descriptor/formula.h"
#include "experiments/lab/descriptor/tested_claim.h"
#include "experiments/lab/train/stored_features.h"
#include "nn/model/model.h"

namespace normlab {
namespace {

void print_block(const std::string& label, std::size_t indent, const BlockFormula& formula) {
  print_wrapped(label, indent, formula.attention);
  print_wrapped("", indent, formula.mlp);
  for (const std::string& line : formula.inside) print_wrapped("", indent, line);
}

/// ", every other shifted by 3, padded to 14 x 14 before the shift".
std::string shift_text(const SwinStage& s, WindowPadding padding) {
  const auto [rows, columns] = s.shift(s.depth > 1 ? 1 : 0);
  std::string out;
  if (rows > 0 || columns > 0)
    out = rows == columns
              ? fmt::format(", every other shifted by {}", rows)
              : fmt::format(", every other shifted by {} {}", std::max(rows, columns), rows > 0 ? "rows" : "columns");
  const auto whole = [&](std::int64_t side) { return (side + s.window - 1) / s.window * s.window; };
  if (s.tokens() == s.padded_tokens()) return out;
  out += fmt::format(", padded to {} x {}", whole(s.height), whole(s.width));
  if (!s.pads_shifted()) return out;
  return out + (padding == WindowPadding::before_shift ? " before the shift"
                                                       : " after the shift, so that opposite edges see each other");
}

void print_formulas(const ModelConfig& model, std::size_t indent) {
  print_wrapped("stem", indent, stem_formula(model));
  for (const std::vector<std::int64_t>& blocks : equal_blocks(model)) {
    const std::string label = fmt::format("{} {}", blocks.size() > 1 ? "blocks" : "block", runs_name(blocks));
    const bool fits = label.size() < indent;
    if (!fits) print_wrapped("", 0, label);
    print_block(fits ? label : "", indent, block_formula(model, blocks.front()));
  }
  if (const auto* swin = std::get_if<SwinConfig>(&model)) {
    for (const SwinStage& s : swin_stages(*swin))
      print_wrapped(s.first_block == 0 ? "stages" : "", indent,
                    fmt::format("blocks {}: width {}, {} x {} tokens in windows of {}{}",
                                block_range_name(s.first_block, s.first_block + s.depth - 1), s.embed_dim, s.height,
                                s.width, s.window, shift_text(s, swin->window_padding)));
    const NormSpec& merge = swin->placement.merge;
    print_wrapped("", indent,
                  fmt::format("between stages, four neighbours are merged into one: x = {}",
                              merge.kind == NormKind::none
                                  ? "reduction(four x)"
                                  : fmt::format("reduction({})", normed_text(merge, ModelKind::swin, "four x"))));
  }
  print_wrapped("end", indent, end_formula(model));
}

/// "alpha = 0.8 - 0.1 * block: 0.7, 0.6, not learned; eps = 1e-06", with the values at all of `places`.
std::string parameters_text(const std::vector<FormulaAt>& places) {
  const NormFormula& norm = *places.front().function;
  std::vector<std::string> out;
  for (std::size_t p = 0; p < norm.parameters.size(); ++p) {
    const auto& [name, init, per, learned, decay] = norm.parameters[p];
    std::vector<double> values;
    for (const FormulaAt& at : places) values.push_back(norm.parameters_at(at.site)[p].value);
    const std::string number = init.text.empty() ? fmt::format("{}", init.number)
                                                 : fmt::format("{}: {:.6g}", init.text, fmt::join(values, ", "));
    out.push_back(fmt::format("{} = {}{}{}{}", name, number, per == ParameterPer::channel ? " for each channel" : "",
                              learned ? "" : ", not learned", decay ? ", with weight decay" : ""));
  }
  if (norm.tree.reads_eps()) out.push_back(fmt::format("eps = {}", places.front().site.eps));
  return fmt::format("{}", fmt::join(out, "; "));
}

/// Formulas of norms and activations: their parameters, their derivatives as they are computed, and what they cost.
void print_given_formulas(const ModelConfig& model, std::size_t indent) {
  std::vector<std::vector<FormulaAt>> groups;  // of those that differ in their blocks and tokens alone
  for (const FormulaAt& at : formulas_of(model)) {
    const auto alike = [&](const std::vector<FormulaAt>& group) {
      const FormulaAt& one = group.front();
      return one.function == at.function && one.site.channels == at.site.channels && one.site.eps == at.site.eps;
    };
    const auto group = std::find_if(groups.begin(), groups.end(), alike);
    (group == groups.end() ? groups.emplace_back() : *group).push_back(at);
  }
  for (const std::vector<FormulaAt>& places : groups) {
    const FormulaAt& at = places.front();
    const NormFormula& norm = *at.function;
    const formula::Programs programs(norm.tree, at.site, norm.parameters_at(at.site));
    print_wrapped("formula", indent, fmt::format("{}, width {}: {}", at.name, at.site.channels, norm.text));
    if (const std::string parameters = parameters_text(places); !parameters.empty())
      print_wrapped("", indent, "initially " + parameters);
    const auto print_gradient = [&](const char* name, formula::Id id) {
      std::vector<std::string> steps;
      if (id != formula::kNone) steps = formula::steps_of(programs.graph, id, programs.parameters);
      print_wrapped("", indent,
                    fmt::format("{}: {}", name, steps.empty() ? "0" : fmt::format("{}", fmt::join(steps, "; "))));
    };
    const bool gated = at.is_activation && norm.tree.reads(formula::kGate);
    print_gradient("dx", programs.graph.dx());
    if (gated) print_gradient("dg", programs.graph.dgate());
    const auto cost = [](const formula::Program& p, std::size_t read, std::size_t written) {
      return fmt::format("{} operations and {} bytes", p.operations(), 4 * (read * p.passes.size() + written));
    };
    print_wrapped("", indent,
                  fmt::format("for each value in fp32: forward {}, backward {}", cost(programs.forward, 1 + gated, 1),
                              cost(programs.backward, 2 + gated, 1 + gated)));
  }
}

/// Dropout rates, which apply only in training, or "".
std::string drops(const NetworkConfig& model) {
  std::string out;
  const auto add = [&](const char* what, double rate) {
    if (rate > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", what, rate);
  };
  if (model.dropout.any()) out = "dropout " + dropout_text(model.dropout);
  add("attention dropout", model.attention_dropout);
  add(model.drop_path_rates == DropPathRates::constant ? "drop path in every block" : "drop path from 0 to",
      model.drop_path);
  return out;
}

/// "the last weights of pretrain: dpn, seed 0 (1f3a…), without the head if the number of classes differs".
std::string start_words(const Experiment& experiment, const StartConfig& start) {
  if (!start.given()) return "";
  std::string from = start.file;
  for (const Trial& trial : experiment.trials)
    if (!start.trial.empty() && trial.id == start.trial) from = trial.label;
  std::string out = fmt::format("the {} weights of {} ({})", start.weights == StartWeights::ema ? "averaged" : "last",
                                from, (start.trial.empty() ? start.sha256 : start.trial).substr(0, 12));
  for (const std::string& pattern : start.leave_out)
    out += pattern == "auto" ? "; without the head if the number of classes differs" : "; without " + pattern;
  if (start.resize_positions != StartPositions::same)
    out += fmt::format("; positions resized by {}", word_of(start.resize_positions));
  return out;
}

void print_row(const Experiment& experiment, const Cell& row) {
  constexpr std::size_t kIndent = 13;
  const auto model_of = [&](const Cell& cell) -> const ModelConfig& {
    return first_trial(experiment, cell).config.model;
  };
  const ModelConfig& model = model_of(row);
  print_wrapped("", 0, row.label);
  print_formulas(model, kIndent);
  print_given_formulas(model, kIndent);
  if (has_text(model)) {
    const TextConfig& text = std::get<ViTConfig>(model).text;
    print_wrapped(
        "text", kIndent,
        fmt::format(
            "text = the last of {} tokens of {} words after {}, width {}, linear; logits = exp(t) cos(image, text), "
            "for the sigmoid loss + b",
            text.length, text.vocabulary, plural(std::size_t(text.depth), "block"), text.embed_dim));
    const ViTConfig tower = text_tower(std::get<ViTConfig>(model));
    ViTConfig bare = tower;
    bare.placement = {};
    for (const std::string& site : site_changes(bare, tower)) print_wrapped("", kIndent, site);
    for (const std::string& line : block_formula(tower, 0).inside)
      if (line.starts_with("MLP")) print_wrapped("", kIndent, line);
  }
  const std::string rates = drops(network(model));
  if (!rates.empty()) print_wrapped("training", kIndent, rates);
  std::string init = init_word(model);
  const std::int64_t depth = block_count(model);
  if (const double gain = init_gain(placement_of(model).init_gain, depth); gain != 1)
    init += fmt::format("; v, proj, {} times {:.4g}",
                        network(model).mlp == MlpForm::gated ? "fc1, fc2 and fc3" : "fc1 and fc2", gain);
  print_wrapped("init", kIndent, init);
  if (const std::string words = start_words(experiment, first_trial(experiment, row).config.start); !words.empty())
    print_wrapped("start", kIndent, words);
  const TrialConfig& config = first_trial(experiment, row).config;
  if (const std::vector<std::string>& frozen = config.train.freeze; !frozen.empty())
    print_wrapped("frozen", kIndent, fmt::format("{}", fmt::join(frozen, ", ")));
  if (const std::string words = feature_plan(config, known_slice_sizes(config.dataset)).words(); !words.empty())
    print_wrapped("", kIndent, words);
  const ModelCost cost = model_cost(model);
  print_wrapped("cost", kIndent,
                fmt::format("{} parameters, {} macs per image, {} flops", cost.parameters, cost.macs, 2 * cost.macs));
  if (!row.baseline) return;
  const Cell& baseline = experiment.rows[*row.baseline];
  if (&baseline == &row) return print_wrapped("baseline", kIndent, "this row");
  print_wrapped("baseline", kIndent, baseline.label);
  std::vector<std::string> changes = site_changes(model_of(baseline), model);
  if (changes.empty()) changes.emplace_back("the same sites");
  for (const SettingDifference& d : config_differences(first_trial(experiment, baseline).config, config))
    if (!d.path.starts_with("model.placement"))  // the sites show it
      changes.push_back(
          fmt::format("{}: {} -> {}", d.path, d.base.empty() ? "-" : d.base, d.other.empty() ? "-" : d.other));
  for (const std::string& change : changes) print_wrapped("", kIndent, change);
  const ModelCost before = model_cost(model_of(baseline));
  print_wrapped(
      "", kIndent,
      fmt::format("{:+} parameters, {:+} macs", cost.parameters - before.parameters, cost.macs - before.macs));
}

void print_placement(const NamedPlacement& row) {
  constexpr std::size_t kIndent = 4;
  ViTConfig model;
  model.placement = row.at(model.depth);
  print_text("{}\n", row.name);
  if (row.placement.stem != StemSites{}) print_wrapped("", kIndent, stem_formula(model));
  const auto groups = equal_blocks(model);
  for (const std::vector<std::int64_t>& blocks : groups) {
    if (groups.size() > 1) print_wrapped("", kIndent, fmt::format("blocks {} of {}:", runs_name(blocks), model.depth));
    print_block("", kIndent, block_formula(model, blocks.front()));
  }
  print_wrapped("", kIndent, end_formula(model));
  if (const InitGainRule rule = row.placement.init_gain.rule; rule != InitGainRule::number)
    print_wrapped("", kIndent,
                  fmt::format("the initial values of v, proj, fc1 and fc2 are multiplied by {}",
                              rule == InitGainRule::sub_ln ? "sqrt(log(2 depth))" : "(8 depth)^(-1/4)"));
  print_wrapped("", kIndent, "source: " + std::string(row.source));
  print_text("\n");
}

/// Those whose names or sources contain `text`, in any case; "" is in all.
void print_placements(const std::string& text) {
  const auto has_text = [&](std::string_view whole) {
    const auto same = [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); };
    return text.empty() || std::search(whole.begin(), whole.end(), text.begin(), text.end(), same) != whole.end();
  };
  std::vector<const NamedPlacement*> rows;
  std::vector<std::string_view> names;
  for (const std::span<const NamedPlacement> some : {named_placements(), other_placement_names()})
    for (const NamedPlacement& row : some) {
      names.push_back(row.name);
      if (has_text(row.name) || has_text(row.source)) rows.push_back(&row);
    }
  if (rows.empty()) throw InputError("explain: " + unknown_word("placement", text, names));
  if (text.empty())
    print_wrapped(
        "", 0,
        "A name such as pre_post says where attention has its norm, then where the MLP has it. pre: before the branch; "
        "post: after the sum; prepost: both; respost: at the end of the branch; preres: before the branch and at its "
        "end.\n");
  for (const NamedPlacement* row : rows) print_placement(*row);
  std::string signs;
  for (const NormParts& kind : kNormKinds)
    if (!kind.sign.empty()) signs += fmt::format("{}{} {}", signs.empty() ? "" : ", ", kind.sign, kind.word);
  print_wrapped("", 0, signs + " (the names in descriptors). The norm in Swin's patch merging is not shown.");
}

struct Explain {
  DescriptorOptions descriptor;
  std::string other;
  bool all = false, init = false, placements = false;

  int operator()() const {
    if (!other.empty()) return print_difference(descriptor.file, other, descriptor), 0;
    if (placements) {
      print_placements(descriptor.file);
      return 0;
    }
    if (descriptor.file.empty())
      throw InputError("explain: give a descriptor, or --placements to list the named placements");
    const Experiment experiment = descriptor.load();
    if (const std::string paper = paper_text(experiment.paper); !paper.empty()) print_text("{}\n", paper);
    const std::size_t rows = all ? experiment.rows.size() : 1;
    for (std::size_t r = 0; r < rows; ++r) {
      if (r > 0) print_text("\n");
      if (init)
        print_init(first_trial(experiment, experiment.rows[r]));
      else
        print_row(experiment, experiment.rows[r]);
    }
    if (rows < experiment.rows.size())
      print_text("\nThis is the first of {}; --all explains every row.\n", plural(experiment.rows.size(), "row"));
    return 0;
  }
};

}  // namespace

std::string paper_text(const PaperConfig& paper) {
  if (paper.empty()) return {};
  const auto paragraph = [](const std::string& text) { return joined(wrapped(visible(text), 78), "\n  ") + "\n"; };
  std::string out = paragraph("Source: " + paper.source);
  for (const Deviation& d : paper.deviations)
    out += paragraph(
        fmt::format("Differs from the source: {} is {} there and {} here: {}", d.key, d.paper, d.here, d.why));
  return out;
}

void add_explain(Command& app) {
  auto [command, explain] = app.add_command<Explain>(
      "explain",
      "show what a row of a descriptor computes, what it costs and how it differs from its baseline; or how two "
      "descriptors or two trials differ");
  command.add_option("a", explain.descriptor.file,
                     "JSON file that describes the experiment; with B also a trial's id or its first digits; with "
                     "--placements a part of a placement's name or source");
  Option other =
      command.add_option("b", explain.other, "another descriptor or trial: show only what differs, A before B");
  Option sets = explain.descriptor.add_reading(command);
  explain.descriptor.add_out(command).needs(other);
  Option all = command.add_flag("--all", explain.all, "explain every row, not only the first").excludes(other);
  Option init =
      command
          .add_flag("--init", explain.init,
                    "show how each parameter is initialised, with statistics of the values drawn for the first seed")
          .excludes(other);
  command
      .add_flag("--placements", explain.placements,
                "show the named placements that A is a part of, each with its paper")
      .excludes(other)
      .excludes(sets)
      .excludes(all)
      .excludes(init);
  command.footer("Of two trials, config, formula, cost, metrics and environment are compared.");
  command.examples({"normlab explain experiments/placements_gratings.json --all",
                    "normlab explain experiments/micro_trials.json experiments/placements_gratings.json"});
}

}  // namespace normlab
