#include "experiments/lab/tables/table_parts.h"

#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/data/jpeg_copy.h"
#include "experiments/lab/trials/loss_meaning.h"
#include "experiments/lab/trials/trial_result.h"

namespace normlab {
namespace {

constexpr std::size_t kMostSeeds = 10'000;
constexpr std::size_t kStripsByName = 4;  // with more, a range is given

/// What `normlab bench intervals` finds for strips of 2 to 20 rows that borrow from each other. Else at least 93%, and
/// 95% of equally noisy rows.
std::string_view coverage_words(std::size_t seeds, std::size_t rows) {
  if (seeds < 4) return seeds == 2 ? "87 to 100%" : "91 to 98%";
  return seeds == 4 || (seeds < 10 && rows <= 4) ? "92 to 97%" : "95%";
}

class Footer {
 public:
  explicit Footer(const FooterFacts& facts)
      : facts_(facts), options_(facts.options), lines_(facts.lines), comparisons_(facts.comparisons) {}

  std::vector<TableSentence> write() {
    values();
    for (TableSentence& sentence : guessing_sentences(facts_.input, options_, lines_))
      sentences_.push_back(std::move(sentence));
    jpeg_copies();
    if (!lists_pairs()) {
      gains();
      power();
    }
    counted_runs();
    for (const std::string& remark : facts_.input.remarks) add("remark", remark);
    other_versions();
    environments();
    if (facts_.shown.size() < lines_.size())
      add("where", fmt::format("{} of {} rows are shown ({}); all of them are counted in intervals and marks.",
                               facts_.shown.size(), lines_.size(), options_.where));
    return std::move(sentences_);
  }

 private:
  void add(const char* key, std::string text) { sentences_.push_back({key, std::move(text)}); }

  template <class Test>
  bool any(Test&& test) const {
    return std::any_of(lines_.begin(), lines_.end(), test);
  }

  template <class Visit>
  void each_run(Visit&& visit) const {
    for (const TableLine& line : lines_)
      if (line.has_runs()) std::for_each(line.seeds.begin(), line.seeds.end(), visit);
  }
  template <class Test>
  std::size_t seeds(Test&& test) const {
    std::size_t sum = 0;
    each_run([&](const TableSeed& seed) { sum += test(seed); });
    return sum;
  }
  std::size_t seeds_in(std::initializer_list<SeedState> states) const {
    return seeds([&](const TableSeed& s) { return std::find(states.begin(), states.end(), s.state) != states.end(); });
  }

  std::string points() const {
    const std::string& unit = facts_.input.unit;
    return unit.empty() ? "" : unit == "%" ? " percentage points" : " " + unit;
  }

  /// A number for each strip: "0.4", or "0.4 (variant=Ti/4), 0.6 (variant=S/4)", or "0.4 to 0.6, by strip".
  template <class Value>
  std::string by_strip(Value&& value) const {
    std::vector<Figure> figures;
    std::vector<std::string> labelled;
    std::set<std::string> different;
    const auto& strips = facts_.strips;
    for (std::size_t s = 0; s < strips.size(); ++s) {
      const Figure figure = value(strips[s], comparisons_[s]);
      if (!figure.value) continue;
      different.insert(figure.text);
      figures.push_back(figure);
      labelled.push_back(fmt::format("{} ({})", figure.text, strips[s].label));
    }
    if (figures.empty()) return "";
    if (different.size() == 1) return figures.front().text;
    if (figures.size() <= kStripsByName) return joined(labelled, ", ");
    const auto [low, high] = std::minmax_element(figures.begin(), figures.end(),
                                                 [](const Figure& a, const Figure& b) { return *a.value < *b.value; });
    return fmt::format("{} to {}, by strip,", low->text, high->text);
  }

  bool lists_pairs() const { return options_.pairs == TablePairs::all && !options_.letters; }

  std::size_t compared_rows() const {
    std::size_t rows = 0;
    for (const ManyToOne& strip : comparisons_) rows += strip.compared;
    return rows;
  }

  bool has_intervals() const {
    return any([](const TableLine& line) { return line.baseline && line.gain_half_width.value; });
  }

  /// How often all intervals of a strip hold: "95%", or what simulations show for the fewest seeds that noise rests on.
  std::string_view probability() const {
    std::size_t fewest = 0, rows = 0;  // a row that stands apart has an exact interval of its own
    for (const ManyToOne& strip : comparisons_) {
      const auto borrows = [](const Comparison& row) { return row.half_width && !row.apart; };
      const auto borrowing = std::size_t(std::count_if(strip.rows.begin(), strip.rows.end(), borrows));
      if (borrowing < 2) continue;
      rows = rows == 0 ? borrowing : std::min(rows, borrowing);
      for (const Comparison& row : strip.rows)
        if (borrows(row)) {
          const std::size_t seeds = facts_.input.first_stage.empty() ? row.pairs : facts_.input.first_stage.size();
          fewest = fewest == 0 ? seeds : std::min(fewest, seeds);
        }
    }
    return fewest == 0 ? "95%" : coverage_words(fewest, rows);
  }

  /// Explains the interval with an example row of the table, and which evaluation is shown.
  void values() {
    const std::vector<TableLine>& lines = facts_.shown;
    const auto shown = std::find_if(lines.begin(), lines.end(),
                                    [](const TableLine& line) { return line.half_width.value.has_value(); });
    const std::string_view last = options_.select == TableSelect::last ? "; last evaluation" : "";
    if (lists_pairs()) {
      add("interval", fmt::format("Differences of {}{}.", options_.metric, last));
    } else if (options_.cells == TableCellContent::gain) {
      if (!last.empty()) add("interval", "Each run counts with its last evaluation.");
    } else if (shown != lines.end() && options_.sd == TableSd::instead) {
      add("interval",
          fmt::format("±{} ({}): standard deviation of the values of {} seeds, over n - 1; it is no interval "
                      "of the mean{}.",
                      shown->sd.text, shown->count, shown->n, last));
    } else if (shown != lines.end())
      add("interval", fmt::format("±{} ({}): 95% t interval of the mean of {} seeds{}.", shown->half_width.text,
                                  shown->count, shown->n, last));
    else if (std::any_of(lines.begin(), lines.end(), [](const TableLine& l) { return l.mean.value.has_value(); }))
      add("interval", std::none_of(lines.begin(), lines.end(), [](const TableLine& line) { return line.n > 1; })
                          ? "One seed has no interval: no ± is shown, and no difference can be told from chance."
                      : facts_.input.first_stage.empty()
                          ? "Runs that count as guessing have no spread, so no ± is shown."
                          : "The seeds of the first stage show no noise, so no ± is shown.");
    if (options_.sd == TableSd::beside) add("sd", "sd: standard deviation of the values of a row's seeds, over n - 1.");
    if (!facts_.input.definition.empty())
      add("selection", facts_.input.definition);
    else if (options_.select == TableSelect::best_minival)
      add("selection", fmt::format("{} is that of each run's evaluation with the best minival/accuracy (the first of "
                                   "equals); {} was not looked at for it.",
                                   options_.metric, options_.metric.starts_with("minival/") ? "the test set" : "it"));
    else if (options_.select == TableSelect::mean_last_k)
      add("selection", fmt::format("{} is the mean over the last {} of each run; nothing was selected.",
                                   options_.metric, plural(options_.last_k, "evaluation")));
  }

  void gains() {
    if (!any([](const TableLine& line) { return line.baseline && line.gain.value; })) return;
    const std::string what = lower_is_better(options_.metric) ? "Gains (how far a row is below the baseline)" : "Gains";
    if (!has_intervals()) return add("gain", what + ": differences to the baseline, paired by seed.");
    const bool strips = comparisons_.size() > 1;
    const std::string whole = !strips ? fmt::format("all {} intervals", compared_rows())
                              : options_.family == TableFamily::table
                                  ? fmt::format("all {} intervals of the table", compared_rows())
                                  : "all intervals with one baseline";
    add("gain", fmt::format("{}: paired by seed; {}; * leaves out 0.", what,
                            compared_rows() == 1 ? "± is a 95% paired t interval"
                                                 : fmt::format("{} hold with {}", whole, probability())));
    if (options_.effect_size)
      add("effect_size",
          "Effect size: the mean of a row's paired differences over their standard deviation (Cohen's d_z), times Hedges' "
          "(1981) exact factor for small samples; from the row's own runs, so with few seeds it is very uncertain.");
    std::vector<std::string> apart;
    for (const TableLine& line : lines_)
      if (line.procedure == kOwnNoise && compared_rows() > 1) apart.push_back(line.label);
    if (!apart.empty())
      add("apart", fmt::format("Intervals from a row's own runs alone (runs diverged, or \"apart\"): {}.",
                               first_few(apart, [](const std::string& label) { return label; })));
  }

  void power() {
    const bool table = options_.family == TableFamily::table && comparisons_.size() > 1;
    const std::string chance =
        table ? facts_.best_of_table.text
              : by_strip([](const TableStrip& strip, const ManyToOne&) { return strip.best_by_chance; });
    const std::string rows = table || comparisons_.size() == 1 ? fmt::format("{} rows", compared_rows()) : "a strip";
    if (!chance.empty())
      add("chance", fmt::format("If no row differed, the best of {} would still show about {}.", rows, chance));
    std::set<std::size_t> seeds;
    for (const TableStrip& strip : facts_.strips)
      if (strip.detectable.value) seeds.insert(strip.detectable_seeds);
    const std::string smallest = by_strip([](const TableStrip& strip, const ManyToOne&) { return strip.detectable; });
    if (!smallest.empty())
      add("power", fmt::format("{} seeds show a true gain of {} four times in five, in a typical row.",
                               seeds.size() == 1 ? fmt::format("{}", *seeds.begin()) : "These", smallest));
    if (options_.detect) {
      const std::string needed = by_strip([&](const TableStrip&, const ManyToOne& comparison) {
        const auto seeds_text = [](std::size_t count) {
          return count > kMostSeeds ? fmt::format("more than {}", kMostSeeds) : fmt::format("{}", count);
        };
        Figure figure;
        if (const auto number = seeds_needed(comparison, *options_.detect, 0.8, kMostSeeds)) {
          figure.value = double(number->seeds);
          figure.text = fmt::format("{} ({} to {})", seeds_text(number->seeds), seeds_text(number->low),
                                    seeds_text(number->high));
        }
        return figure;
      });
      add("detect",
          needed.empty()
              ? fmt::format("The number of seeds that show a gain of {}{} is unknown, because there is no sd yet.",
                            *options_.detect, points())
              : fmt::format("To show a gain of {}{} four times in five takes {} seeds (in brackets: as the "
                            "sd itself is uncertain).",
                            *options_.detect, points(), needed));
    }
    if (const auto correlation = common_draw_correlation(comparisons_); options_.detect && correlation)
      add("correlation", fmt::format("Over the rows, values of one seed correlate by {}.", fixed(*correlation, 2)));
  }

  void counted_runs() {
    if (any([](const TableLine& line) { return line.equivalent.has_value(); }))
      add("equivalent",
          fmt::format(
              "Equivalent: two one-sided t tests at 5% place the gain within ±{}{}; each row is tested on its own.",
              *options_.equivalent, points()));
    if (seeds_in({SeedState::diverged}) > 0) {
      const bool partial = any([](const TableLine& line) { return line.partial; });
      add("diverged",
          options_.diverged == TableDiverged::chance ? "A diverged run counts as one that guesses (--diverged chance)."
          : partial ? "Diverged runs do not count; † marks gains over the pairs in which both runs finished."
                    : "Diverged runs do not count.");
      add("rate", "(rate a to b%): 95% interval of the share of runs that diverge.");
    }
    if (options_.learned) {
      const std::size_t unknown =
          seeds([](const TableSeed& seed) { return seed.state == SeedState::done && !seed.first_loss; });
      add("learned",
          fmt::format("Has not learned: the mean training loss at the end is above {} of that of the first step "
                      "(--learned).{}",
                      *options_.learned,
                      unknown == 0 ? ""
                                   : fmt::format(" Not judged, as an older version did not record {}: {}.", kFirstLoss,
                                                 plural(unknown, "result"))));
    }
    const std::size_t all = seeds([](const TableSeed&) { return true; }),
                      unreadable = seeds_in({SeedState::unreadable}), open = all - seeds(is_finished) - unreadable;
    if (open > 0)
      add("unfinished", fmt::format("{} of {} runs are not finished: these numbers will change.", open, all));
    if (unreadable > 0)
      add("unreadable", fmt::format("{} of {} results cannot be read and are not counted.", unreadable, all));
  }

  /// Rules that ended runs, and what older versions did otherwise.
  void other_versions() {
    std::set<std::string> rules;
    std::map<std::string, std::size_t> orders;
    each_run([&](const TableSeed& seed) {
      if (!seed.early_stop_rule.empty()) rules.insert(seed.early_stop_rule);
      if (is_finished(seed)) ++orders[seed.arithmetic.empty() ? "not recorded" : seed.arithmetic];
    });
    if (!rules.empty())
      add("early_stop",
          fmt::format("Runs could be stopped early by a rule: {}.", joined({rules.begin(), rules.end()}, "; ")));
    std::vector<std::string> counts;
    for (const auto& [order, count] : orders) counts.push_back(fmt::format("{} ({})", order, plural(count, "run")));
    if (counts.size() > 1)
      add("arithmetic", fmt::format("Mixed arithmetic: {}. Versions of normlab with different arithmetic add in a "
                                    "different order, so the same settings and seed give different digits.",
                                    joined(counts, ", ")));
    const auto done = [](const TableSeed& seed) { return seed.state == SeedState::done; };
    const std::size_t all = seeds(done), older = seeds([&](const TableSeed&s) { return done(s) && !s.last_steps; });
    const std::size_t smoothed = seeds([&](const TableSeed& s) { return done(s) && s.loss_smoothing > 0; });
    if (is_evaluation_loss(options_.metric) && smoothed > 0)
      add("eval_loss",
          fmt::format("{} of {} of {} contains the training's label smoothing, because an older version measured it; a "
                      "plain loss does not compare with it. `normlab eval` measures the plain loss of kept weights.",
                      options_.metric, smoothed, plural(all, "run")));
    if (options_.metric == kTrainLoss || options_.learned)
      if (std::string text = mixed_train_losses(all - older, older); !text.empty()) add("train_loss", std::move(text));
  }

  void environments() {
    const auto& all = facts_.environments;
    std::string sentence = "Mixed environments (env):";
    for (std::size_t i = 0; i < all.size(); ++i)
      sentence +=
          fmt::format("{} {} = {}", i == 0 ? "" : ";", i + 1, all[i].words.empty() ? "not recorded" : all[i].words);
    if (all.size() > 1) add("environments", sentence + ".");
    const std::size_t unsealed = seeds([](const TableSeed& seed) { return !seed.sealed && is_finished(seed); });
    if (unsealed > 0)
      add("unsealed",
          fmt::format("{} of {} results have no hashes, so damage can go undetected.", unsealed, seeds(is_finished)));
    std::size_t most = 0;
    each_run([&](const TableSeed& seed) { most = std::max(most, seed.bad_images); });
    if (most > 0)
      add("bad_images",
          fmt::format("Images that could not be decoded were left out (on_bad_image skip): up to {} in {}; each "
                      "result.json names them.",
                      most, plural(seeds([](const TableSeed& seed) { return seed.bad_images > 0; }), "run")));
  }

  void jpeg_copies() {
    std::map<std::string, std::size_t> copies;
    each_run([&](const TableSeed& seed) {
      if (is_finished(seed) && !seed.jpeg_copy.empty()) ++copies[seed.jpeg_copy];
    });
    const std::size_t all = seeds(is_finished);
    std::vector<std::string> parts;
    for (const auto& [copy, runs] : copies)
      parts.push_back(runs == all ? copy : fmt::format("{}, in {} of {}", copy, runs, plural(all, "run")));
    if (!parts.empty()) add("jpeg_copy", joined(parts, "; ") + kNotPublished + ".");
  }

  const FooterFacts& facts_;
  const TableOptions& options_;
  const std::vector<TableLine>& lines_;
  const std::vector<ManyToOne>& comparisons_;
  std::vector<TableSentence> sentences_;
};

}  // namespace

std::string p_text(double p) { return p < 1e-4 ? "<0.0001" : fmt::format("{:.4f}", p); }

std::string fixed(double value, int decimals) {
  std::string text = fmt::format("{:.{}f}", value, decimals);
  if (text.front() == '-' && text.find_first_of("123456789") == text.npos && text.find('n') == text.npos)
    text.erase(0, 1);  // avoids "-0.0"
  return text;
}

std::string signed_fixed(double value, int decimals) {
  const std::string text = fixed(value, decimals);
  return text.front() == '-' ? text : "+" + text;
}

std::vector<TableSentence> table_footer(const FooterFacts& facts) { return Footer(facts).write(); }

}  // namespace normlab
