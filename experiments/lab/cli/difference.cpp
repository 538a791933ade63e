#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/cli/trial_by_id.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/formula.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

struct Difference {
  std::string what, a, b;
  bool operator==(const Difference&) const = default;
};
using Differences = std::vector<Difference>;

/// Values by name, in the order in which differences are shown.
using Facts = std::vector<std::pair<std::string, std::string>>;

/// In the order of `a`, then what only `b` has; a missing or empty value is "-".
Differences compare(const Facts& a, const Facts& b) {
  const auto value_in = [](const Facts& facts, const std::string& name) -> std::string {
    const auto found = std::find_if(facts.begin(), facts.end(), [&](const auto& fact) { return fact.first == name; });
    return found == facts.end() || found->second.empty() ? "-" : found->second;
  };
  Differences out;
  for (const auto& [name, value] : a) out.push_back({name, value_in(a, name), value_in(b, name)});
  for (const auto& [name, value] : b)
    if (std::none_of(a.begin(), a.end(), [&, &found = name](const auto& fact) { return fact.first == found; }))
      out.push_back({name, "-", value_in(b, name)});
  std::erase_if(out, [](const Difference& d) { return d.a == d.b; });
  return out;
}

Differences compare(const std::map<std::string, std::string>& a, const std::map<std::string, std::string>& b) {
  Differences out = compare(Facts(a.begin(), a.end()), Facts(b.begin(), b.end()));
  std::sort(out.begin(), out.end(), [](const Difference& x, const Difference& y) { return x.what < y.what; });
  return out;
}

/// Without seeds. A norm that one side lacks is one line, whatever settings the other side's has.
Differences setting_differences(const TrialConfig& a, const TrialConfig& b) {
  const auto shown = [](const std::string& json) -> std::string {
    if (json.empty() || json == "[]") return "-";
    return json.front() == '"' ? nlohmann::json::parse(json).get<std::string>() : json;
  };
  Differences out;
  for (const SettingDifference& d : config_differences(a, b)) out.push_back({d.path, shown(d.base), shown(d.other)});
  return out;
}

Differences formula_differences(const ModelConfig& a, const ModelConfig& b) {
  const auto lines = [](const ModelConfig& model) {
    std::map<std::string, std::string> out{{"stem", stem_formula(model)}, {"end", end_formula(model)}};
    for (const std::vector<std::int64_t>& blocks : equal_blocks(model)) {
      const BlockFormula formula = block_formula(model, blocks.front());
      const std::string name = fmt::format("blocks {}", runs_name(blocks));
      out[name + ", attention"] = formula.attention;
      out[name + ", MLP"] = formula.mlp;
      if (!formula.inside.empty()) out[name + ", inside"] = joined(formula.inside, "; ");
    }
    return out;
  };
  return compare(lines(a), lines(b));
}

Facts cost_of(const ModelConfig& model) {
  const ModelCost cost = model_cost(model);
  return {{"parameters", std::to_string(cost.parameters)}, {"macs per image", std::to_string(cost.macs)}};
}

std::map<std::string, std::string> metrics_of(const std::optional<TrialResult>& result) {
  std::map<std::string, std::string> out;
  if (!result) return out;
  for (const auto& [name, value] : result->metrics) out[name] = fmt::format("{:.6g}", value);
  return out;
}

std::map<std::string, std::string> environment_of(const std::optional<TrialResult>& result) {
  if (!result) return {};
  std::map<std::string, std::string> out = result->provenance;
  out.erase("started");
  return out;
}

void print_section(const char* title, const Differences& differences) {
  if (differences.empty()) return;
  print_text("{}\n", title);
  for (const Difference& d : differences) {
    const std::string what = visible_line(d.what), a = visible_line(d.a), b = visible_line(d.b);
    constexpr std::size_t kNames = 34, kAround = 8;
    if (std::max(kNames, display_width(what)) + display_width(a) + display_width(b) + kAround <= text_columns())
      print_text("  {:<{}} {} -> {}\n", what, kNames, a, b);
    else
      print_text("  {}\n    {}\n    -> {}\n", what, a, b);
  }
}

Differences of_rows(const Experiment& left, const Cell& row_a, const Experiment& right, const Cell& row_b) {
  const TrialConfig x = first_trial(left, row_a).config, y = first_trial(right, row_b).config;
  const auto seeds = [](const Experiment& from, const Cell& cell) {
    std::string all;
    for (const std::size_t t : cell.trials)
      all += fmt::format("{}{}", all.empty() ? "" : " ", from.trials[t].config.seed);
    return all.empty() ? std::string("not known yet") : all;
  };
  Differences out = setting_differences(x, y);
  for (const Differences& more : {formula_differences(x.model, y.model), compare(cost_of(x.model), cost_of(y.model))})
    out.insert(out.end(), more.begin(), more.end());
  if (seeds(left, row_a) != seeds(right, row_b)) out.push_back({"seeds", seeds(left, row_a), seeds(right, row_b)});
  return out;
}

void print_trials(const std::string& a, const std::string& b, const DescriptorOptions& options) {
  const ResultStore store(options.out);
  const std::string ids[2] = {id_that_begins(store, a), id_that_begins(store, b)};
  TrialConfig configs[2];
  TrialStatus status[2];
  for (int i = 0; i < 2; ++i) {
    const TrialFolder folder = store.trial(ids[i]);
    const auto file = folder.path() / "config.json";
    if (!std::filesystem::exists(file))
      throw InputError(concat("trial ", ids[i].substr(0, 12), " was never started: ", file.string(),
                              " does not exist; compare the descriptors instead"));
    configs[i] = read_trial_config(folder);
    status[i] = folder.status();
    if (status[i].finished()) require_agreement(folder, *status[i].result);
  }
  if (ids[0] == ids[1]) return print_text("both ids name trial {}\n", ids[0]);
  print_text("{} -> {}\n", ids[0].substr(0, 12), ids[1].substr(0, 12));
  Differences settings = setting_differences(configs[0], configs[1]);
  if (configs[0].seed != configs[1].seed)
    settings.push_back({"seed", std::to_string(configs[0].seed), std::to_string(configs[1].seed)});
  print_section("config", settings);
  print_section("formula", formula_differences(configs[0].model, configs[1].model));
  print_section("cost", compare(cost_of(configs[0].model), cost_of(configs[1].model)));
  if (status[0].state != status[1].state)
    print_section("state", {{"state", std::string(word_of(status[0].state)), std::string(word_of(status[1].state))}});
  print_section("metrics", compare(metrics_of(status[0].result), metrics_of(status[1].result)));
  print_section("environment", compare(environment_of(status[0].result), environment_of(status[1].result)));
}

void print_descriptors(const std::string& a, const std::string& b, const DescriptorOptions& options) {
  const ResultStore store(options.out);
  const Experiment e[2] = {next_stage(options.load(a), store), next_stage(options.load(b), store)};
  std::set<std::string> ids[2];
  for (int i = 0; i < 2; ++i)
    for (const Trial& trial : e[i].trials) ids[i].insert(trial.id);
  std::size_t both = 0;
  for (const std::string& id : ids[0]) both += ids[1].count(id);
  print_text("{} in both, {} only in {}, {} only in {}\n", plural(both, "trial"), ids[0].size() - both, a,
             ids[1].size() - both, b);
  std::map<std::string, const Cell*> rows_b;
  for (const Cell& row : e[1].rows) rows_b[row.label] = &row;
  // Matches rows by name; if both descriptors have a single row, matches those whatever their names.
  const bool single = e[0].rows.size() == 1 && e[1].rows.size() == 1;
  std::vector<std::pair<std::string, Differences>> rows;
  Differences lone;
  for (const Cell& row : e[0].rows) {
    const auto found = single ? rows_b.begin() : rows_b.find(row.label);
    if (found == rows_b.end()) {
      lone.push_back({row.label, "here", "-"});
      continue;
    }
    rows.emplace_back(row.label, of_rows(e[0], row, e[1], *found->second));
    rows_b.erase(found);
  }
  for (const Cell& row : e[1].rows)
    if (rows_b.contains(row.label)) lone.push_back({row.label, "-", "here"});
  print_section("rows in only one of the two", lone);
  Differences common = rows.empty() ? Differences{} : rows.front().second;
  for (const auto& [label, differences] : rows)
    std::erase_if(common, [&, &found = differences](const Difference& d) {
      return std::find(found.begin(), found.end(), d) == found.end();
    });
  print_section(rows.size() > 1 ? fmt::format("all {} rows in both", rows.size()).c_str() : "config", common);
  for (auto& [label, differences] : rows) {
    std::erase_if(differences,
                  [&](const Difference& d) { return std::find(common.begin(), common.end(), d) != common.end(); });
    print_section(label.c_str(), differences);
  }
}

}  // namespace

void print_difference(const std::string& a, const std::string& b, const DescriptorOptions& options) {
  if (may_be_id(a) != may_be_id(b))
    throw InputError(concat("explain: compares two trials or two descriptors, but of ", in_quotes(a), " and ",
                            in_quotes(b), " only one is a trial's id; give two ids or two descriptors"));
  (may_be_id(a) ? print_trials : print_descriptors)(a, b, options);
}

}  // namespace normlab
