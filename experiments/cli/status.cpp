#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "core/visible_text.h"
#include "experiments/base/terminal.h"
#include "experiments/base/text_layout.h"
#include "experiments/cli/commands.h"
#include "experiments/cli/descriptor_options.h"
#include "experiments/results/progress.h"
#include "experiments/results/store.h"
#include "experiments/sweep/plan_file.h"
#include "experiments/train/cost.h"

namespace normlab {
namespace {

/// A trial as it stands on disk.
struct Line {
  const Trial* trial = nullptr;
  TrialStatus status;
  std::string state;  // TrialState's word, or "stopped": begun, and nobody works on it
  std::optional<LeaseRecord> lease;
  std::optional<double> images_per_second, loss, seconds_left;
};

Line line_of(const Trial& trial, const ResultStore& store) {
  Line line{&trial, {}, {}, {}, {}, {}, {}};
  const TrialFolder folder = store.trial(trial.id);
  line.status = folder.status();
  line.state = word_of(line.status.state);
  if (line.status.state == TrialState::missing && line.status.progress > 0) line.state = "stopped";
  if (const auto& result = line.status.result) {
    if (result->images_per_second > 0) line.images_per_second = result->images_per_second;
    if (const auto found = result->metrics.find("train/loss"); found != result->metrics.end())
      line.loss = found->second;
  }
  if (!line.status.owner) return line;
  line.lease = read_lease(attempt_folder(folder.path(), line.status.owner->attempt));
  if (!line.lease) return line;
  const LeaseNote& note = line.lease->note;
  line.loss = note.loss;
  if (note.steps > 0) line.status.progress = double(note.step) / double(note.steps);
  if (note.images_per_second > 0) {
    line.images_per_second = note.images_per_second;
    line.seconds_left = double(note.steps - note.step) * double(trial.config.train.batch_size) / note.images_per_second;
  }
  return line;
}

std::map<std::string, std::size_t> counts_of(const std::vector<Line>& lines) {
  std::map<std::string, std::size_t> counts;
  for (const Line& line : lines) ++counts[line.state];
  return counts;
}

bool is_unsealed(const Line& line) { return line.status.result && !line.status.result->sealed; }
std::size_t unsealed_of(const std::vector<Line>& lines) {
  return std::size_t(std::count_if(lines.begin(), lines.end(), is_unsealed));
}

/// At the speed of those that run now; none where nobody runs, or where only the data can say how long a trial is.
std::optional<double> sweep_seconds_left(const std::vector<Line>& lines) {
  std::map<std::size_t, TrialCost> costs;  // by row
  double left = 0, rate = 0, longest = 0;
  for (const Line& line : lines) {
    if (line.state == "done" || line.state == "diverged" || line.state == "failed") continue;
    const auto [cost, first] = costs.try_emplace(line.trial->row);
    if (first) cost->second = trial_cost(line.trial->config);
    if (cost->second.images <= 0) return std::nullopt;
    const double per_image = double(cost->second.model.macs);
    left += cost->second.images * per_image * (1 - line.status.progress);
    if (line.state == "running") rate += line.images_per_second.value_or(0) * per_image;
    longest = std::max(longest, line.seconds_left.value_or(0));
  }
  if (rate <= 0) return std::nullopt;
  return std::max(longest, left / rate);
}

std::string owner_text(const Line& line) {
  return line.status.owner ? fmt::format("{}:{}", line.status.owner->host, line.status.owner->pid) : "";
}

std::string step_text(const Line& line) {
  if (line.lease && line.lease->note.steps > 0)
    return fmt::format("{}/{}", line.lease->note.step, line.lease->note.steps);
  if (line.state == "done" || line.state == "missing") return "";
  if (line.state == "diverged" && line.status.result->diverged_step)
    return fmt::format("@{}", *line.status.result->diverged_step);
  return fmt::format("{:.0f}%", 100 * line.status.progress);
}

std::string text_of(const Experiment& experiment, const std::vector<Line>& lines, bool all) {
  constexpr std::size_t kColumns = 80, kGap = 2, kShortestLabel = 12;
  std::vector<std::string> counts;
  for (const auto& [state, count] : counts_of(lines)) counts.push_back(fmt::format("{} {}", count, state));
  std::string text = fmt::format("{}: {} trials: {}", experiment.stem, lines.size(), joined(counts, ", "));
  if (const auto left = sweep_seconds_left(lines)) text += fmt::format("; {} left", duration_text(*left));
  text += "\n";
  if (const std::size_t unsealed = unsealed_of(lines); unsealed > 0)
    text += fmt::format("{} of the results are not sealed: {}.\n", unsealed, kUnsealedWords);

  std::vector<std::vector<std::string>> table{{"trial", "state", "step", "img/s", "loss", "left", "process", "beat"}};
  std::vector<std::string> remarks{""};
  for (const Line& line : lines) {
    if (!all && (line.state == "done" || line.state == "missing")) continue;
    const bool says_why = line.state == "failed" || line.state == "diverged";
    remarks.push_back(says_why ? line.status.message : "");
    table.push_back({line.trial->label, line.state, step_text(line),
                     line.images_per_second ? fmt::format("{:.0f}", *line.images_per_second) : "",
                     line.loss ? fmt::format("{:.3f}", *line.loss) : "",
                     line.seconds_left ? duration_text(*line.seconds_left) : "", owner_text(line),
                     line.lease ? duration_text(line.lease->age_seconds) : ""});
  }
  if (table.size() == 1) return text;
  std::vector<std::size_t> widths(table[0].size(), 0);
  for (const auto& row : table)
    for (std::size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], display_width(row[c]));
  std::size_t others = 0;
  for (std::size_t c = 1; c < widths.size(); ++c) others += widths[c] + kGap;
  widths[0] = std::min(widths[0], std::max(kShortestLabel, kColumns - std::min(kColumns, others)));
  // A host's name may be longer than all the rest.
  const std::size_t sum = widths[0] + others;
  if (sum > kColumns) widths[6] -= std::min(widths[6] - std::min<std::size_t>(widths[6], 8), sum - kColumns);
  text += "\n";
  for (std::size_t r = 0; r < table.size(); ++r) {
    std::string line;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      const std::string cell = shorten_middle(table[r][c], widths[c]);
      line += cell + std::string(widths[c] - display_width(cell) + kGap, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
    if (!remarks[r].empty())
      for (const std::string& remark : wrapped(visible(remarks[r]), kColumns - 2)) text += "  " + remark + "\n";
  }
  return text;
}

using Json = nlohmann::ordered_json;

Json number(const std::optional<double>& value) {
  return value && std::isfinite(*value) ? Json(*value) : Json(nullptr);
}

std::string json_of(const Experiment& experiment, const std::vector<Line>& lines) {
  Json trials = Json::array();
  for (const Line& line : lines) {
    Json trial{{"trial", line.trial->id},          {"label", line.trial->label},
               {"seed", line.trial->config.seed},  {"state", line.state},
               {"progress", line.status.progress}, {"images_per_second", number(line.images_per_second)},
               {"loss", number(line.loss)},        {"seconds_left", number(line.seconds_left)}};
    if (line.lease && line.lease->note.steps > 0) {
      trial["step"] = line.lease->note.step;
      trial["steps"] = line.lease->note.steps;
    }
    if (const auto& owner = line.status.owner) {
      trial["host"] = owner->host;
      trial["pid"] = owner->pid;
      trial["attempt"] = owner->attempt;
      trial["lease_seconds"] = owner->lease_seconds;
      trial["heartbeat_age_seconds"] = line.lease ? Json(line.lease->age_seconds) : Json(nullptr);
    }
    if (is_unsealed(line)) trial["sealed"] = false;
    if (!line.status.message.empty()) trial["message"] = line.status.message;
    trials.push_back(std::move(trial));
  }
  const Json json{{"experiment", experiment.stem},
                  {"counts", counts_of(lines)},
                  {"seconds_left", number(sweep_seconds_left(lines))},
                  {"trials", std::move(trials)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

struct StatusCommand {
  DescriptorOptions descriptor;
  std::string format = "text";
  bool all = false;

  int operator()() const {
    const Experiment experiment = descriptor.load_staged();
    const ResultStore store(descriptor.out);
    std::vector<Line> lines;
    for (const Trial& trial : experiment.trials) lines.push_back(line_of(trial, store));
    if (format == "json")
      print_bytes(json_of(experiment, lines));
    else
      print_text("{}", text_of(experiment, lines, all));
    const auto missing = [](const Line& line) { return line.state == "missing"; };
    if (std::any_of(lines.begin(), lines.end(), missing))
      if (const std::string note = other_settings_note(experiment, store); !note.empty()) tell("{}\n", note);
    return 0;
  }
};

}  // namespace

void add_status(Command& app) {
  auto [command, status] =
      app.add_command<StatusCommand>("status", "how far each trial is, who works on it and since when it is silent");
  status.descriptor.add_file(command);
  status.descriptor.add_out(command);
  command.add_flag("--all", status.all, "in text, trials that are done or missing, too");
  command.add_choice("--format", status.format, "how it is written; json has all trials", {"text", "json"});
  command.footer(
      "`beat` is the time since the process last showed that it lives, by this machine's clock; who takes a trial over "
      "goes by a counter instead.");
  command.examples({"watch normlab status experiments/placements_gratings.json",
                    "normlab status experiments/placements_gratings.json --format json"});
}

}  // namespace normlab
