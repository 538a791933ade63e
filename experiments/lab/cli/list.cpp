#include <fmt/core.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "core/visible_text.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/tables/trial_seed.h"
#include "experiments/lab/trials/store.h"

namespace normlab {
namespace {

struct Listed {
  std::string name, descriptor;
  std::map<SeedState, std::size_t, std::greater<>> states;
  std::size_t trials = 0;
};

/// A damaged trial counts as unreadable, so that the others are still listed.
SeedState state_on_disk(const TrialFolder& trial) {
  try {
    return state_of(trial.status());
  } catch (const InputError&) {
    return SeedState::unreadable;
  }
}

struct List {
  std::filesystem::path out = "results";
  std::string format = "text";

  int operator()() const {
    const ResultStore store(out);
    std::vector<Listed> all;
    std::set<std::string> planned;
    for (const PlanFile& plan : read_plan_files(store)) {
      Listed& listed = all.emplace_back(Listed{plan.stem, plan.descriptor, {}, 0});
      for (const PlannedTrial& trial : plan.trials) {
        if (!planned.insert(trial.id).second && trial.purpose != Purpose::table) continue;
        ++listed.trials;
        ++listed.states[state_on_disk(store.trial(trial.id))];
      }
    }
    std::size_t others = 0;
    for (const std::string& id : store.trial_ids()) others += planned.contains(id) ? 0 : 1;
    print_bytes(format == "json" ? json_of(all, others) : text_of(all, others));
    return 0;
  }

  std::string text_of(const std::vector<Listed>& all, std::size_t others) const {
    if (all.empty() && others == 0) return fmt::format("{}: no experiment has run here\n", visible_line(out.string()));
    std::string text;
    for (const Listed& listed : all) {
      std::string states;
      for (const auto& [state, count] : listed.states)
        states += fmt::format("{}{} {}", states.empty() ? "" : ", ", count, word_of(state));
      text += fmt::format("{}: {}, {}\n", visible_line(listed.name), plural(listed.trials, "trial"), states);
      if (!listed.descriptor.empty()) text += fmt::format("  {}\n", visible_line(listed.descriptor));
    }
    if (others > 0)
      text += fmt::format("{} of earlier plans; `normlab table {}` shows all\n", plural(others, "trial"),
                          visible_line(out.string()));
    return text;
  }

  static std::string json_of(const std::vector<Listed>& all, std::size_t others) {
    using Json = nlohmann::ordered_json;
    Json experiments = Json::array();
    for (const Listed& listed : all) {
      Json states = Json::object();
      for (const auto& [state, count] : listed.states) states[std::string(word_of(state))] = count;
      experiments.push_back({{"name", listed.name},
                             {"descriptor", listed.descriptor},
                             {"trials", listed.trials},
                             {"states", std::move(states)}});
    }
    const Json document{{"experiments", std::move(experiments)}, {"trials_of_earlier_plans", others}};
    return document.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
  }
};

}  // namespace

void add_list(Command& app) {
  auto [command, list] =
      app.add_command<List>("list", "list the experiments in a folder of results and the states of their trials");
  command.add_option("--out", list.out, "folder of the results").show_default().path();
  command.add_choice("--format", list.format, "output format", {"text", "json"});
  command.footer(
      "The list shows each descriptor as it was last run. Trials that it no longer contains stay on disk and are "
      "counted separately.");
  command.examples({"normlab list --out results", "normlab list --format json"});
}

}  // namespace normlab
