#include "experiments/lab/ledger/printed.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/data/jpeg_copy.h"
#include "experiments/lab/statistics/student.h"

namespace normlab {
namespace {

constexpr const char* kAccuracy = "eval/accuracy";

struct Compared {
  PrintedVerdict verdict;
  double half_width = 0;
};

/// The mean of `theirs` against the prediction interval of our runs, of which there are two or more.
Compared compare(const std::vector<double>& ours, const std::vector<double>& theirs) {
  const Interval expected = *prediction_interval(ours, theirs.size());
  const double half = *expected.half_width, difference = expected.mean - mean(theirs);
  if (half > kPrintedHalfWidth) return {PrintedVerdict::too_noisy, half};
  if (std::abs(difference) <= half) return {PrintedVerdict::within, half};
  return {difference < 0 ? PrintedVerdict::below : PrintedVerdict::above, half};
}

void set_verdict(PrintedLine& line, PrintedVerdict verdict, std::string why = "") {
  line.verdict = verdict;
  line.why = std::move(why);
}

/// The accuracy at the epoch with the best `by`, the first of equals.
std::optional<double> at_best(const std::string& by, const std::vector<MetricsLine>& curve) {
  std::optional<double> best, accuracy;
  for (const MetricsLine& line : curve) {
    const auto found = line.values.find(by), of_test = line.values.find(kAccuracy);
    if (found == line.values.end() || of_test == line.values.end() || !std::isfinite(found->second)) continue;
    if (best && found->second <= *best) continue;
    best = found->second;
    accuracy = of_test->second;
  }
  return accuracy;
}

}  // namespace

std::string PrintedSource::other_images(const PrintedLine& line) const {
  if (printed.images == PrintedImages::other) return printed.images_note;
  const std::set<std::string>& copies = line.origins.copies;
  return copies.empty() ? "" : joined(std::vector(copies.begin(), copies.end()), ", ") + kNotPublished;
}

void judge_printed(PrintedLine& line, bool other_images) {
  const RunOrigins& origins = line.origins;
  if (origins.done == 0) return set_verdict(line, PrintedVerdict::not_run);
  if (other_images && !line.number.rerun) return set_verdict(line, PrintedVerdict::other_images);
  if (line.last.size() < std::max(kPrintedSeeds, origins.runs)) {
    const std::size_t diverged = origins.done - line.last.size();
    return set_verdict(line, PrintedVerdict::too_noisy,
                       line.last.size() == origins.runs
                           ? plural(origins.runs, "seed")
                           : fmt::format("{} of {}{}", line.last.size(), plural(origins.runs, "seed"),
                                         diverged > 0 ? fmt::format(", {} diverged", diverged) : ""));
  }
  std::vector<double> theirs{line.number.value.value};
  PrintedEvaluation evaluation = line.number.evaluation;
  if (other_images) {
    theirs.clear();
    for (const PrintedPercent& value : line.number.rerun->values) theirs.push_back(value.value);
    evaluation = line.number.rerun->evaluation;
  }
  const auto judged = [&](const Compared& compared) {
    set_verdict(line, compared.verdict,
                compared.verdict == PrintedVerdict::too_noisy
                    ? fmt::format("an interval of ±{:.1f} points", compared.half_width)
                    : "");
  };
  const Compared last = compare(line.last, theirs);
  if (evaluation == PrintedEvaluation::last) return judged(last);
  if (line.best.size() < line.last.size())
    return set_verdict(line, PrintedVerdict::open,
                       fmt::format("{} of {} without a curve, so the best epoch is not known; archive them with "
                                   "`normlab export --full`",
                                   line.last.size() - line.best.size(), plural(line.last.size(), "run")));
  const Compared best = compare(line.best, theirs);
  if (evaluation != PrintedEvaluation::unstated || last.verdict == best.verdict) return judged(best);
  if (last.verdict == PrintedVerdict::too_noisy) return judged(last);
  if (best.verdict == PrintedVerdict::too_noisy) return judged(best);
  set_verdict(line, PrintedVerdict::open,
              fmt::format("the last epoch is {}, the best {}, and the source does not say which one it prints",
                          word_of(last.verdict), word_of(best.verdict)));
}

PrintedSource judge_printed(const Experiment& experiment, const ResultStore& store) {
  PrintedSource source;
  source.name = experiment.stem;
  source.printed = experiment.printed;
  const ClaimResults results{experiment, store, row_names(experiment), source.problems};
  const TableInput input = results.table(kAccuracy);
  TableOptions options;
  options.metric = kAccuracy;
  const TableModel model = table_model(input, options);
  for (const PrintedNumber& number : source.printed.numbers) {
    const std::vector<const TableLine*> rows = selected_rows(model, input, number.where, number.place);
    if (rows.size() != 1)
      throw InputError(
          concat(number.place, ": \"where\" selects ", rows.size(), " rows; a printed number is that of one"));
    const bool by_minival = number.evaluation == PrintedEvaluation::best_minival;
    if (by_minival && first_trial(experiment, experiment.rows[rows[0]->plan_index]).config.dataset.minival.empty())
      throw InputError(number.place + ": \"best_minival\" needs a slice to select by; give \"dataset\" a \"minival\"");
    if (const auto& rerun = number.rerun; rerun && rerun->evaluation != PrintedEvaluation::last &&
                                          (rerun->evaluation == PrintedEvaluation::best_minival) != by_minival)
      throw InputError(number.place + ": the number and its rerun must both be \"best_minival\", or neither");
    PrintedLine& line = source.lines.emplace_back();
    line.row = rows[0]->label;
    line.number = number;
    for (const std::size_t t : experiment.rows[rows[0]->plan_index].trials) {
      const Trial& trial = experiment.trials[t];
      line.origins.add(store.trial(trial.id));
      const TableSeed* run = rows[0]->run_of(trial.config.seed);
      if (run == nullptr || !run->value) continue;
      line.last.push_back(100 * *run->value);
      if (const auto best = at_best(by_minival ? "minival/accuracy" : kAccuracy, results.curve(t)))
        line.best.push_back(100 * *best);
    }
    judge_printed(line, !source.other_images(line).empty());
  }
  return source;
}

}  // namespace normlab
