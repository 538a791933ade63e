#include <fmt/core.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/visible_text.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/trial_by_id.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/tables/trial_seed.h"
#include "experiments/lab/trials/store.h"
#include "experiments/lab/trials/trial_files.h"

namespace normlab {
namespace {

using Json = nlohmann::ordered_json;

/// A damaged trial counts as unreadable, so that the others are still listed.
SeedState state_on_disk(const TrialFolder& trial) {
  try {
    return state_of(trial.status());
  } catch (const InputError&) {
    return SeedState::unreadable;
  }
}

struct List {
  std::vector<std::string> ids;
  std::string out = "results", format = "text";

  int operator()() const {
    const ResultStore store(out);
    for (const std::string& prefix : ids) print_trials(store, prefix);
    if (!ids.empty()) return 0;
    Json experiments = Json::array();
    std::set<std::string> planned;
    for (const PlanFile& plan : read_plan_files(store)) {
      std::map<SeedState, std::size_t, std::greater<>> states;
      std::size_t trials = 0;
      for (const PlannedTrial& trial : plan.trials) {
        if (!planned.insert(trial.id).second && trial.purpose != Purpose::table) continue;
        ++trials;
        ++states[state_on_disk(store.trial(trial.id))];
      }
      Json counts = Json::object();
      for (const auto& [state, count] : states) counts[std::string(word_of(state))] = count;
      experiments.push_back(
          {{"name", plan.stem}, {"descriptor", plan.descriptor}, {"trials", trials}, {"states", std::move(counts)}});
    }
    std::size_t others = 0;
    for (const std::string& id : store.trial_ids()) others += planned.contains(id) ? 0 : 1;
    const Json document{{"experiments", std::move(experiments)}, {"trials_of_earlier_plans", others}};
    print_bytes(format == "json" ? document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n"
                                 : text_of(document.at("experiments"), others));
    return 0;
  }

  /// Those whose ids begin with `prefix`; the settings too if it is one.
  static void print_trials(const ResultStore& store, const std::string& prefix) {
    const std::vector<PlanFile> plans = read_plan_files(store);
    const std::vector<std::string> found = ids_that_begin(store, prefix);
    for (const std::string& id : found) {
      const TrialFolder folder = store.trial(id);
      const TrialStatus status = folder.status();
      const bool started = std::filesystem::exists(folder.path() / "config.json") || last_attempt(folder.path()) > 0;
      std::optional<TrialConfig> config;
      if (started || status.result) config = read_trial_config(folder);  // throws if damaged, before anything is shown
      if (status.finished()) require_agreement(folder, *status.result);
      print_text("{}\n  state   {}{}{}\n", id, word_of(status.state),
                 status.progress > 0 && status.progress < 1 ? " " + percent_done(status.progress) : "",
                 status.message.empty() ? "" : ": " + visible_line(status.message));
      if (status.result && !status.result->sealed) print_text("  seal    none: {}\n", kUnsealedWords);
      for (const PlanFile& plan : plans)
        for (const PlannedTrial& trial : plan.trials)
          if (trial.id == id)
            print_text("  plan    {}{}: {}, {}seed {}\n", visible_line(plan.stem),
                       plan.descriptor.empty() ? "" : " (" + visible_line(plan.descriptor) + ")",
                       visible_line(trial.row), trial.purpose_words(), trial.seed);
      if (status.result)
        for (const auto& [name, value] : status.result->metrics)
          print_text("  metric  {} {:.6g}\n", visible_line(name), value);
      print_text("  folder  {}\n", started ? folder.path().string() : "none yet: it was never started");
      if (found.size() == 1 && started) print_text("{}", full_json(*config));
    }
  }

  std::string text_of(const Json& experiments, std::size_t others) const {
    if (experiments.empty() && others == 0) return fmt::format("{}: no experiment has run here\n", visible_line(out));
    const auto line = [](const Json& text) { return visible_line(text.get_ref<const std::string&>()); };
    std::string text;
    for (const Json& listed : experiments) {
      std::string states;
      for (const auto& [state, count] : listed.at("states").items())
        states += fmt::format("{}{} {}", states.empty() ? "" : ", ", count.dump(), state);
      text += fmt::format("{}: {}, {}\n", line(listed["name"]), plural(listed["trials"].dump(), "trial"), states);
      if (listed["descriptor"] != "") text += fmt::format("  {}\n", line(listed["descriptor"]));
    }
    if (others > 0)
      text += fmt::format("{} of earlier plans; `normlab table {}` shows all\n", plural(others, "trial"),
                          visible_line(out));
    return text;
  }
};

}  // namespace

void add_list(Command& app) {
  auto [command, list] = app.add_command<List>(
      "list", "list the experiments in a folder of results and the states of their trials, or show trials by id");
  Option ids = command.add_option(
      "id", list.ids, "a trial's id, or its first digits: show its state, its metrics and the experiments that use it");
  command.add_option("--out", list.out, "folder of the results").show_default().path();
  command.add_choice("--format", list.format, "output format", {"text", "json"}).excludes(ids);
  command.footer(
      "The list shows each descriptor as it was last run. Trials that it no longer contains stay on disk and are "
      "counted separately. If only one id begins with the given digits, the trial's settings follow.");
  command.examples({"normlab list --out results", "normlab list 3f53cbbd"});
}

}  // namespace normlab
