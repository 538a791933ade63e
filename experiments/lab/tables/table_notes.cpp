#include "experiments/lab/tables/table_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/metric_names.h"
#include "experiments/lab/statistics/bootstrap.h"
#include "experiments/lab/statistics/proportions.h"
#include "experiments/lab/trials/trial_result.h"

namespace normlab {
namespace {

constexpr std::string_view kProgramPart = " | ";

/// "2/3 ": the share of seeds, "" for all of them.
std::string share(std::size_t count, std::size_t planned) {
  return count == planned ? "" : fmt::format("{}/{} ", count, planned);
}

std::string step_range(const std::vector<std::int64_t>& steps) {
  const auto [first, last] = std::minmax_element(steps.begin(), steps.end());
  return *first == *last ? fmt::format("@{}", *first) : fmt::format("@{}..{}", *first, *last);
}

bool is_of(const TableEnvironment& known, const TableSeed& seed) {
  return known.environment == seed.environment && known.program == seed.program;
}

std::set<std::string> parts_of(const std::string& program) {
  std::set<std::string> parts;
  for (std::size_t begin = 0; begin < program.size();) {
    const std::size_t end = std::min(program.find(kProgramPart, begin), program.size());
    parts.insert(program.substr(begin, end - begin));
    begin = end + kProgramPart.size();
  }
  return parts;
}

/// For programs that share an environment, adds the parts that not all of them share: "binary 874d53191452c54b".
void tell_programs_apart(std::vector<TableEnvironment>& all) {
  std::map<std::string, std::map<std::string, std::size_t>> programs_with;  // environment -> part -> count
  std::map<std::string, std::size_t> programs;                              // environment -> count
  for (const TableEnvironment& one : all) {
    ++programs[one.environment];
    for (const std::string& part : parts_of(one.program)) ++programs_with[one.environment][part];
  }
  for (TableEnvironment& one : all)
    for (const std::string& part : parts_of(one.program))
      if (programs_with[one.environment][part] < programs[one.environment])
        one.words += (one.words.empty() ? "" : ", ") + part;
}

/// "; always the most frequent class: 81.6%"
std::string guess_words(double guess, std::string_view measured, const std::string& unit) {
  if (is_loss(measured)) return fmt::format("; the lowest loss of one answer for all of them: {:.4g}", guess);
  const int decimals = guess < 0.001 ? 3 : guess < 0.01 ? 2 : 1;
  return fmt::format("; always the {}: {}",
                     measured == "top5_accuracy" ? "five most frequent classes" : "most frequent class",
                     unit == "%" ? fmt::format("{:.{}f}%", 100 * guess, decimals) : fmt::format("{:.4g}", guess));
}

/// The values of a row's axes that choose its data: "cats".
std::string data_of(const TableLine& line, const std::vector<std::string>& axes) {
  std::vector<std::string> parts;
  for (std::size_t a = 0; a < axes.size() && a < line.axes.size(); ++a)
    if ((axes[a] == kBenchmarkAxis || axes[a].starts_with("dataset")) && !line.axes[a].empty())
      parts.push_back(line.axes[a]);
  return joined(parts, ", ");
}

/// An evaluated slice, and the data of the rows that were evaluated on it.
struct Evaluated {
  std::int64_t images;
  std::optional<double> guess;
  std::vector<std::string> data;
};

std::vector<Evaluated> evaluated_in(const TableInput& input, const std::vector<TableLine>& lines) {
  std::vector<Evaluated> all;
  for (const TableLine& line : lines)
    for (const TableSeed& seed : line.seeds) {
      if (!line.has_runs() || seed.images == 0) continue;
      auto known = std::find_if(all.begin(), all.end(), [&](const Evaluated& one) {
        return one.images == seed.images && one.guess == seed.guess;
      });
      if (known == all.end()) known = all.insert(all.end(), {seed.images, seed.guess, {}});
      std::string data = data_of(line, input.axes);
      if (std::find(known->data.begin(), known->data.end(), data) == known->data.end())
        known->data.push_back(std::move(data));
    }
  return all;
}

using RunsBySeed = std::map<std::uint64_t, const Correctness*>;

/// The stored runs of a row that are done; `missing` counts runs without stored correctness.
RunsBySeed stored_runs(const TableRow& row, std::size_t& missing) {
  RunsBySeed runs;
  for (const TableSeed& seed : row.seeds) {
    if (seed.state != SeedState::done || !row.is_planned()) continue;
    if (seed.correctness)
      runs[seed.seed] = &*seed.correctness;
    else
      ++missing;
  }
  return runs;
}

std::optional<CrossedBootstrap> resample(const RunsBySeed& runs, const RunsBySeed* baseline) {
  std::vector<Correctness> own, other;
  for (const auto& [seed, run] : runs) {
    if (baseline == nullptr) {
      own.push_back(*run);
    } else if (const auto found = baseline->find(seed); found != baseline->end()) {
      own.push_back(*run);
      other.push_back(*found->second);
    }
  }
  return crossed_bootstrap(own, other);
}

std::string mcnemar_words(const TableLine& row, const TableLine& baseline, std::uint64_t seed, const McNemar& test) {
  return fmt::format(
      "McNemar's test of the two runs of seed {}: {} alone is right on {} images, {} alone on {}, of {}; p {}{}. It "
      "compares these two runs, not their settings.",
      seed, row.label, test.only_second, baseline.label, test.only_first, test.images,
      p_text(test.p).starts_with('<') ? "" : "= ", p_text(test.p));
}

std::vector<std::string> state_notes(const std::vector<TableSeed>& seeds, const std::string& metric) {
  std::vector<std::string> notes;
  const auto note = [&](std::size_t count, const std::string& words) {
    if (count > 0) notes.push_back(share(count, seeds.size()) + words);
  };
  const auto count = [&](auto&& test) { return std::size_t(std::count_if(seeds.begin(), seeds.end(), test)); };
  std::vector<std::int64_t> diverged;
  std::set<std::string> sites;
  std::map<SeedState, std::map<std::string, std::size_t>> messages;
  std::map<SeedState, double> progress;
  for (const TableSeed& seed : seeds) {
    ++messages[seed.state][seed.message];
    progress[seed.state] += seed.progress;
    if (seed.state != SeedState::diverged) continue;
    diverged.push_back(seed.diverged_step);
    sites.insert(seed.diverged_site);
  }
  if (!diverged.empty()) {
    const Bounds interval = clopper_pearson(std::int64_t(diverged.size()), std::int64_t(count(is_finished)));
    std::string text = fmt::format("{}/{} diverged {}", diverged.size(), seeds.size(), step_range(diverged));
    if (sites.size() == 1 && !sites.begin()->empty()) text += " in " + *sites.begin();
    notes.push_back(text + fmt::format(" (rate {:.0f} to {:.0f}%)", 100 * interval.low, 100 * interval.high));
  }
  for (const SeedState state : {SeedState::failed, SeedState::unreadable})
    for (const auto& [message, of_it] : messages[state])
      note(of_it, std::string(word_of(state)) + (message.empty() ? "" : ": " + message));
  for (const auto& [state, words] : {std::pair{SeedState::running, "running "}, {SeedState::stopped, "stopped at "}})
    if (const std::size_t n = count([&, of = state](const TableSeed& seed) { return seed.state == of; }); n > 0)
      note(n, words + percent_done(progress[state] / double(n)));
  note(count([](const TableSeed& seed) { return seed.state == SeedState::missing; }), "missing");
  note(count([](const TableSeed& seed) { return seed.above_guessing; }), "loss above guessing");
  const auto done = [](const TableSeed& seed) { return seed.state == SeedState::done; };
  note(count([&](const TableSeed& seed) { return done(seed) && !seed.value; }), "without " + metric);
  note(count([&](const TableSeed& seed) { return done(seed) && seed.value && !std::isfinite(*seed.value); }),
       "not finite");
  return notes;
}

/// "env 1+2"; "" if there are none.
std::string environment_note(const TableRow& row, const std::vector<TableEnvironment>& environments) {
  std::set<std::size_t> numbers;
  if (!row.has_runs()) return "";
  for (const TableSeed& seed : row.seeds)
    for (std::size_t e = 0; e < environments.size(); ++e)
      if (is_finished(seed) && is_of(environments[e], seed)) numbers.insert(e + 1);
  std::vector<std::string> words;
  for (const std::size_t number : numbers) words.push_back(fmt::format("{}", number));
  return words.empty() ? "" : "env " + joined(words, "+");
}

/// "stopped early @400..700": the finished seeds that ended early; "" if there are none.
std::string early_stop_note(const std::vector<TableSeed>& seeds) {
  std::vector<std::int64_t> steps;
  for (const TableSeed& seed : seeds)
    if (is_finished(seed) && seed.early_stopped_step) steps.push_back(*seed.early_stopped_step);
  return steps.empty() ? "" : share(steps.size(), seeds.size()) + "stopped early " + step_range(steps);
}

}  // namespace

std::vector<TableEnvironment> environments_of(const std::vector<TableRow>& rows) {
  std::vector<TableEnvironment> all;
  const TableEnvironment* last = nullptr;  // most seeds match the one before
  for (const TableRow& row : rows)
    for (const TableSeed& seed : row.seeds) {
      if (!row.has_runs() || !is_finished(seed) || (last != nullptr && is_of(*last, seed))) continue;
      auto found = std::find_if(all.begin(), all.end(), [&](const auto& known) { return is_of(known, seed); });
      if (found == all.end()) found = all.insert(found, {seed.environment, seed.program, seed.environment});
      last = &*found;
    }
  tell_programs_apart(all);
  return all;
}

std::string mixed_train_losses(std::size_t last_steps, std::size_t older) {
  if (last_steps == 0 || older == 0) return "";
  return fmt::format(
      "Mixed {}: the mean of the last 50 steps in {}, and in {} that of an older version, of 50 steps or "
      "fewer.",
      kTrainLoss, plural(last_steps, "run"), plural(older, "run"));
}

std::vector<std::string> notes_of(const TableLine& line, const TableOptions& options,
                                  const std::vector<TableEnvironment>& environments) {
  std::vector<std::string> notes = state_notes(line.seeds, options.metric);
  if (std::string note = early_stop_note(line.seeds); !note.empty()) notes.push_back(std::move(note));
  if (options.learned && has_not_learned(line.seeds, *options.learned)) notes.push_back("has not learned");
  if (line.baseline && line.gain.value && line.pairs < line.n)
    notes.push_back("gain over " + plural(line.pairs, "seed"));
  if (line.gain.value && line.pairs > 1 && !line.gain_half_width.value)
    notes.push_back("the difference to the baseline is the same in each seed: no interval");
  notes.insert(notes.end(), line.remarks.begin(), line.remarks.end());
  if (environments.size() > 1)
    if (std::string note = environment_note(line, environments); !note.empty()) notes.push_back(std::move(note));
  return notes;
}

bool has_not_learned(const std::vector<TableSeed>& seeds, double share) {
  double first = 0, last = 0;
  for (const TableSeed& seed : seeds)
    if (seed.first_loss && seed.final_loss) first += *seed.first_loss, last += *seed.final_loss;
  return last > share * first;
}

std::vector<TableSentence> guessing_sentences(const TableInput& input, const TableOptions& options,
                                              const std::vector<TableLine>& lines) {
  std::vector<TableSentence> sentences;
  const MetricName metric = parts_of_metric(options.metric);
  const std::string_view word = metric.slice == "eval"      ? "evaluation slice"
                                : metric.slice == "minival" ? "minival"
                                                            : "measured part of the training slice";
  const std::vector<Evaluated> slices = evaluated_in(input, lines);
  for (const Evaluated& slice : slices) {
    const std::string whose = slices.size() > 1 ? joined(slice.data, "; ") : "";
    sentences.push_back(
        {"guessing",
         fmt::format("{} {} has {}{}.", whose.empty() ? "The" : whose + ": the", word, plural(slice.images, "image"),
                     slice.guess ? guess_words(*slice.guess, metric.measured, input.unit) : "")});
  }
  const bool above = std::any_of(lines.begin(), lines.end(), [](const TableLine& line) {
    return std::any_of(line.seeds.begin(), line.seeds.end(), [](const TableSeed& seed) { return seed.above_guessing; });
  });
  if (above)
    sentences.push_back({"above_guessing",
                         "Loss above guessing: the last eval/loss is above the lowest loss that one answer for all "
                         "images can have."});
  return sentences;
}

std::vector<std::string> judge_test_set(std::vector<TableLine>& lines, double scale) {
  std::vector<std::string> sentences;
  std::size_t missing = 0, intervals = 0, one_seed = 0;
  std::vector<RunsBySeed> runs;
  for (const TableLine& line : lines) runs.push_back(stored_runs(line, missing));
  for (std::size_t r = 0; r < lines.size(); ++r) {
    const bool gain = lines[r].baseline && !lines[r].is_baseline;
    const auto sample = resample(runs[r], gain ? &runs[*lines[r].baseline] : nullptr);
    if (sample) lines[r].bootstrap_half_width.value = scale * sample->half_width;
    intervals += sample ? 1 : 0;
    one_seed += sample && sample->seeds == 1 ? 1 : 0;
  }
  if (intervals > 0)
    sentences.push_back(
        fmt::format("± with new images too: 95% interval of the gain (of the mean where there is none) if seeds and "
                    "test images were both drawn again: crossed bootstrap, 2000 resamples, each row on its own.{}",
                    one_seed > 0 ? " Rows of one seed: over images alone." : ""));
  if (missing > 0)
    sentences.push_back(
        fmt::format("{} of the runs have not stored which images they get right; they are not resampled.", missing));
  const bool one_pair = lines.size() == 2 && runs[0].size() == 1 && runs[1].size() == 1 &&
                        runs[0].begin()->first == runs[1].begin()->first &&
                        (lines[1].baseline == 0 || lines[0].baseline == 1);
  if (one_pair) {
    const std::size_t base = lines[1].baseline == 0 ? 0 : 1, row = 1 - base;
    const std::uint64_t seed = runs[0].begin()->first;
    sentences.push_back(
        mcnemar_words(lines[row], lines[base], seed, mcnemar(*runs[base].begin()->second, *runs[row].begin()->second)));
  }
  return sentences;
}

}  // namespace normlab
