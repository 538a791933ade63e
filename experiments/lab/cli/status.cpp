#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "core/visible_text.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/cli/descriptor_options.h"
#include "experiments/lab/descriptor/trials_ahead.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/tables/stage_notes.h"
#include "experiments/lab/train/cost.h"
#include "experiments/lab/trials/progress.h"
#include "experiments/lab/trials/store.h"

namespace normlab {
namespace {

struct Line {
  const Trial* trial = nullptr;
  TrialStatus status;
  std::optional<LeaseRecord> lease;
  std::optional<double> images_per_second, loss, seconds_left;
};

Line line_of(const Trial& trial, const ResultStore& store) {
  Line line{&trial, {}, {}, {}, {}, {}};
  const TrialFolder folder = store.trial(trial.id);
  line.status = folder.status();
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
  for (const Line& line : lines) ++counts[std::string(word_of(line.status.state))];
  return counts;
}

bool is_unsealed(const Line& line) { return line.status.result && !line.status.result->sealed; }

/// Extrapolated from the speed of running trials. nullopt if none is running, or if only the data
/// determine a trial's length.
std::optional<double> sweep_seconds_left(const std::vector<Line>& lines) {
  std::map<std::size_t, TrialCost> costs;  // by row
  double left = 0, rate = 0, longest = 0;
  for (const Line& line : lines) {
    if (line.status.finished() || line.status.state == TrialState::failed) continue;
    const auto [cost, first] = costs.try_emplace(line.trial->row);
    if (first) cost->second = trial_cost(line.trial->config);
    if (cost->second.images <= 0) return std::nullopt;
    const double per_image = double(cost->second.model.macs);
    left += cost->second.images * per_image * (1 - line.status.progress);
    if (line.status.state == TrialState::running) rate += line.images_per_second.value_or(0) * per_image;
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
  const TrialState state = line.status.state;
  if (state == TrialState::done || state == TrialState::missing) return "";
  if (state == TrialState::diverged && line.status.result->diverged_step)
    return fmt::format("@{}", *line.status.result->diverged_step);
  return percent_done(line.status.progress);
}

/// A cell for each of kHeadings, and a remark below the row.
struct Row {
  std::vector<std::string> cells;
  std::string remark;
};
constexpr std::string_view kHeadings[] = {"trial", "state", "step", "img/s", "loss", "left", "process", "beat"};
constexpr std::size_t kProcess = 6;

/// What bounds a running trial if that is its images, and what helps. Empty if making them takes little of its time.
std::string input_words(const Line& line) {
  constexpr double kMuch = 0.1;
  if (line.status.state != TrialState::running || !line.lease || line.lease->note.data_share.value_or(0) <= kMuch)
    return "";
  const LeaseNote& note = line.lease->note;
  const double percent = 100 * *note.data_share;
  const TrialConfig& config = line.trial->config;
  const bool photographs = traits_of(config.dataset.layout).files && config.train.augment.crop != CropName::none;
  const std::string pack = photographs ? "; `normlab data pack --size` makes a data set that decodes faster" : "";
  if (note.data_threads > 0)
    return fmt::format("waits {:.0f}% of its time for images: if cores are free, use --data-threads {}{}", percent,
                       note.data_threads + 1, pack);
  return fmt::format(
      "spends {:.0f}% of its time making images: if cores are free, --data-threads 1 does that beside the steps{}",
      percent, pack);
}

Row row_of(const Line& line) {
  const TrialState state = line.status.state;
  return {
      {line.trial->label, std::string(word_of(state)), step_text(line),
       line.images_per_second ? fmt::format("{:.0f}", *line.images_per_second) : "",
       line.loss ? fmt::format("{:.3f}", *line.loss) : "", line.seconds_left ? duration_text(*line.seconds_left) : "",
       owner_text(line), line.lease ? duration_text(line.lease->age_seconds) : ""},
      state == TrialState::failed || state == TrialState::diverged ? line.status.message : input_words(line)};
}

void add_indented(std::string& text, const std::string& what, std::size_t columns) {
  for (const std::string& line : wrapped(visible(what), columns - 2)) text += "  " + line + "\n";
}

/// For narrow terminals: each trial's name, with its cells below.
std::string list_text(const std::vector<Row>& rows, std::size_t columns) {
  std::string text;
  for (const Row& row : rows) {
    for (const std::string& line : wrapped(visible(row.cells[0]), columns)) text += line + "\n";
    std::vector<std::string> parts{row.cells[1]};
    for (std::size_t c = 2; c < row.cells.size(); ++c)
      if (!row.cells[c].empty()) parts.push_back(fmt::format("{} {}", kHeadings[c], row.cells[c]));
    add_indented(text, joined(parts, ", "), columns);
    if (!row.remark.empty()) add_indented(text, row.remark, columns);
  }
  return text;
}

/// Omits empty columns. A list if the table does not fit or shortened labels collide.
std::string table_text(const std::vector<Row>& rows, std::size_t columns) {
  constexpr std::size_t kGap = 2, kShortestLabel = 12, kShortestProcess = 8;
  std::vector<std::size_t> widths(std::size(kHeadings), 0);
  for (const Row& row : rows)
    for (std::size_t c = 0; c < row.cells.size(); ++c) widths[c] = std::max(widths[c], display_width(row.cells[c]));
  std::size_t others = 0;
  for (std::size_t c = 0; c < widths.size(); ++c) {
    if (widths[c] > 0) widths[c] = std::max(widths[c], kHeadings[c].size());
    if (c > 0 && widths[c] > 0) others += widths[c] + kGap;
  }
  // A host's name may be longer than everything else.
  const std::size_t excess = kShortestLabel + others > columns ? kShortestLabel + others - columns : 0;
  const std::size_t given = std::min(excess, widths[kProcess] - std::min(widths[kProcess], kShortestProcess));
  if (given < excess) return list_text(rows, columns);
  widths[kProcess] -= given;
  widths[0] = std::min(widths[0], columns - (others - given));
  std::map<std::string, std::string> labels;  // shortened label -> full label
  for (const Row& row : rows) {
    const auto [same, first] = labels.try_emplace(shorten_middle(row.cells[0], widths[0]), row.cells[0]);
    if (!first && same->second != row.cells[0]) return list_text(rows, columns);
  }
  std::string text;
  const auto add = [&](const auto& cells) {
    std::string line;
    for (std::size_t c = 0; c < widths.size(); ++c) {
      if (widths[c] == 0) continue;
      const std::string cell = shorten_middle(std::string(cells[c]), widths[c]);
      line += cell + std::string(widths[c] - display_width(cell) + kGap, ' ');
    }
    while (!line.empty() && line.back() == ' ') line.pop_back();
    text += line + "\n";
  };
  add(kHeadings);
  for (const Row& row : rows) {
    add(row.cells);
    if (!row.remark.empty()) add_indented(text, row.remark, columns);
  }
  return text;
}

std::string text_of(const Experiment& experiment, const std::vector<Line>& lines, bool all) {
  std::vector<std::string> counts;
  for (const auto& [state, count] : counts_of(lines)) counts.push_back(fmt::format("{} {}", count, state));
  std::string text = fmt::format("{}: {}: {}", experiment.stem, plural(lines.size(), "trial"), joined(counts, ", "));
  if (const auto left = sweep_seconds_left(lines)) text += fmt::format("; {} left", duration_text(*left));
  if (const std::string words = trials_to_come(experiment); !words.empty()) text += "; to come: " + words;
  text += "\n";
  if (const auto unsealed = std::count_if(lines.begin(), lines.end(), is_unsealed); unsealed > 0)
    text +=
        fmt::format("{} of the results {} not sealed: {}.\n", unsealed, unsealed == 1 ? "is" : "are", kUnsealedWords);
  std::vector<Row> rows;
  for (const Line& line : lines) {
    const TrialState state = line.status.state;
    if (all || (state != TrialState::done && state != TrialState::missing)) rows.push_back(row_of(line));
  }
  return rows.empty() ? text : text + "\n" + table_text(rows, text_columns());
}

using Json = nlohmann::ordered_json;

std::string json_of(const Experiment& experiment, const std::vector<Line>& lines) {
  Json trials = Json::array();
  for (const Line& line : lines) {
    Json trial{{"trial", line.trial->id},           {"label", line.trial->label},
               {"seed", line.trial->config.seed},   {"state", word_of(line.status.state)},
               {"progress", line.status.progress},  {"images_per_second", number_or_null(line.images_per_second)},
               {"loss", number_or_null(line.loss)}, {"seconds_left", number_or_null(line.seconds_left)}};
    if (line.lease && line.lease->note.steps > 0) {
      trial["step"] = line.lease->note.step;
      trial["steps"] = line.lease->note.steps;
      if (line.lease->note.data_share) trial["data_share"] = *line.lease->note.data_share;
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
  const TrialsAhead ahead = trials_ahead(experiment);
  const Json json{{"experiment", experiment.stem},
                  {"counts", counts_of(lines)},
                  {"seconds_left", number_or_null(sweep_seconds_left(lines))},
                  {"to_come", Json{{"trials", ahead.certain.size()}, {"at_most", ahead.certain.size() + ahead.most()}}},
                  {"trials", std::move(trials)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

struct StatusCommand {
  DescriptorOptions descriptor;
  std::string format = "text";
  bool all = false, missing = false, ids = false;

  int operator()() const {
    const Experiment experiment = descriptor.load_staged();
    const ResultStore store(descriptor.out);
    if (missing) return list_missing(experiment, store);
    std::vector<Line> lines;
    for (const Trial& trial : experiment.trials) lines.push_back(line_of(trial, store));
    if (format == "json")
      print_bytes(json_of(experiment, lines));
    else
      print_text("{}", text_of(experiment, lines, all));
    const auto not_begun = [](const Line& line) { return line.status.state == TrialState::missing; };
    if (std::any_of(lines.begin(), lines.end(), not_begun))
      if (const std::string note = other_settings_note(experiment, store); !note.empty()) tell("{}\n", note);
    return 0;
  }

  /// A line for each trial without a result.
  int list_missing(const Experiment& experiment, const ResultStore& store) const {
    std::map<std::string_view, std::size_t> counts;
    std::size_t left = 0;
    for (const Trial& trial : experiment.trials) {
      const TrialStatus status = store.trial(trial.id).status();
      if (status.finished()) continue;
      ++left;
      ++counts[word_of(status.state)];
      if (ids) {
        print_text("{}\n", trial.id);
        continue;
      }
      std::string state(word_of(status.state));
      if (status.progress > 0) state += " " + percent_done(status.progress);
      print_text("{:<12} {}  {}{}\n", state, trial.id.substr(0, 12), trial.label,
                 status.message.empty() ? "" : ": " + visible_line(status.message));
    }
    std::string by_state;
    for (const auto& [state, count] : counts)
      by_state += fmt::format("{}{} {}", by_state.empty() ? ": " : ", ", count, state);
    tell("{} of {} without a result{}\n", left, plural(experiment.trials.size(), "trial"), by_state);
    if (experiment.more_to_come) tell("More trials follow when these have finished: {}\n", trials_to_come(experiment));
    return 0;
  }
};

}  // namespace

void add_status(Command& app) {
  auto [command, status] = app.add_command<StatusCommand>(
      "status", "show each trial's progress, the process that trains it and that process's last sign of life");
  status.descriptor.add_file(command);
  status.descriptor.add_out(command);
  command.add_flag("--all", status.all, "in text, also list the trials that are done or missing");
  command.add_choice("--format", status.format, "output format; json has all trials", {"text", "json"});
  Command missing = command.add_form(
      command.add_flag("--missing", status.missing, "list only the trials that have no result yet, one a line"),
      {"DESCRIPTOR", "--data", "--set", "--out"});
  missing.add_flag("--ids", status.ids, "print only the full ids, for scripts");
  command.footer(
      "`beat` is the time since the process's last sign of life, by this machine's clock. A takeover depends on a "
      "counter, not on clocks.");
  command.examples({"watch normlab status experiments/placements_gratings.json",
                    "normlab status experiments/placements_gratings.json --missing --ids"});
}

}  // namespace normlab
