#include "experiments/lab/tables/table_model.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/statistics/stein.h"
#include "experiments/lab/tables/external_rows.h"
#include "experiments/lab/tables/row_columns.h"
#include "experiments/lab/tables/table_filter.h"
#include "experiments/lab/tables/table_parts.h"

namespace normlab {
namespace {

constexpr int kMaxDecimals = 6;

/// Whether the accuracy of guessing replaces this seed's missing value.
bool stands_in(const TableSeed& seed, const TableOptions& options) {
  return seed.state == SeedState::diverged && options.diverged == TableDiverged::chance;
}

/// The seed's value in the table's unit; none if the seed does not count.
std::optional<double> counted_value(const TableSeed& seed, const TableRow& row, const TableInput& input,
                                    const TableOptions& options) {
  if (stands_in(seed, options)) {
    const std::optional<double> value = row.mean_of.empty() ? row.chance : seed.value;
    return value ? std::optional(input.scale * *value) : std::nullopt;
  }
  if (seed.state != SeedState::done || !seed.value || !std::isfinite(*seed.value)) return std::nullopt;
  return input.scale * *seed.value;
}

class ModelBuilder {
 public:
  ModelBuilder(const TableInput& input, const TableOptions& options) : input_(input), options_(options) {
    require_options();
  }

  TableModel build() {
    make_lines();
    make_strips();
    compare();
    std::vector<std::string> test_set;
    if (options_.bootstrap) test_set = judge_test_set(lines_, input_.scale);
    write_figures();
    PairedRows paired;
    if (options_.pairs == TablePairs::all) paired = pair_rows();
    environments_ = environments_of(input_.rows);
    for (TableLine& line : lines_) line.notes = notes_of(line, options_, environments_);

    const FieldNames fields = table_fields(input_.axes);
    const LineTest matches = table_filter(options_.where, fields);
    model_.about = input_.about;
    model_.name = input_.name;
    model_.metric = options_.metric;
    model_.unit = input_.unit;
    model_.best_heading = input_.best_heading;
    model_.match_heading = input_.match_heading;
    model_.labels = input_.labels;
    model_.scale = input_.scale;
    for (const TableLine& line : lines_)
      for (const TableSeed& seed : line.seeds)
        if (seed.state == SeedState::unreadable) {
          model_.problems.push_back(line.label + ": " + seed.message);
          model_.outcome = std::max(model_.outcome, seed.fault);
        }
    std::copy_if(lines_.begin(), lines_.end(), std::back_inserter(model_.lines), matches);
    if (model_.lines.empty() && !lines_.empty())
      throw InputError(fmt::format("--where: no row matches {}", options_.where));
    sort_lines(model_.lines, options_.sort, fields);
    model_.footer = table_footer(
        {input_, options_, lines_, model_.strips, comparisons_, environments_, best_of_table(), model_.lines});
    for (std::string& sentence : test_set) model_.footer.push_back({"images", std::move(sentence)});
    for (TableSentence& sentence : order_sentences(input_, options_, model_.strips, values_))
      model_.footer.push_back(std::move(sentence));
    for (TableSentence& sentence : paired.sentences) model_.footer.push_back(std::move(sentence));
    model_.pairs = shown_pairs(paired.pairs, model_.lines);
    if (model_.pairs.empty() && !paired.pairs.empty() && options_.pairs == TablePairs::all && !options_.letters)
      throw InputError(fmt::format("--pairs all: no two rows match {} beside one baseline", options_.where));
    lay_out_table(model_, input_.axes, options_);
    add_row_columns(model_, options_.columns);
    return std::move(model_);
  }

 private:
  void require_options() const {
    if (options_.diverged == TableDiverged::chance)
      for (const TableRow& row : input_.rows)
        if (!row.chance && row.external.empty())
          throw InputError(
              fmt::format("--diverged chance: the {} of a run that guesses is unknown; use it with accuracies only",
                          options_.metric));
    const auto require_positive = [](const std::optional<double>& value, const char* option) {
      if (value && !(*value > 0 && std::isfinite(*value)))
        throw InputError(fmt::format("{} {}: expected a number above 0", option, *value));
    };
    const auto has_baseline = [](const TableRow& row) { return row.baseline.has_value(); };
    const bool match = options_.to_match != TableMatch::off;
    if ((options_.equivalent || match || options_.cells == TableCellContent::gain) &&
        std::none_of(input_.rows.begin(), input_.rows.end(), has_baseline))
      throw InputError(
          fmt::format("{}: no row has a baseline, so there are no gains; give the descriptor a \"baseline\"",
                      options_.equivalent ? "--equivalent"
                      : match             ? "--to-match"
                                          : "--cells gain"));
    const bool grid = !options_.rows.empty() || !options_.cols.empty();
    if (options_.cells == TableCellContent::gain && !grid)
      throw InputError("--cells gain: needs --rows or --cols, whose cells show the gains");
    if (options_.cells == TableCellContent::gain && options_.bold == TableBold::best)
      throw InputError("--bold best: is the best mean, and --cells gain shows none; leave one of them out");
    if (options_.letters && options_.pairs == TablePairs::none)
      throw InputError("--letters: show which pairs of rows differ; add --pairs all");
    for (const auto& [given, option] : {std::pair{options_.pairs == TablePairs::all, "--pairs all"},
                                        {options_.effect_size, "--effect-size"},
                                        {options_.equivalent.has_value(), "--equivalent"},
                                        {options_.sd == TableSd::beside, "--sd beside"}})
      if (given && grid)
        throw InputError(
            fmt::format("{}: is about single rows, which a grid does not list; leave out --rows and --cols", option));
    if (options_.pairs == TablePairs::all && !options_.letters && !options_.columns.empty())
      throw InputError("--columns: are of rows, and --pairs all lists pairs; leave one out, or add --letters");
    require_row_columns(options_.columns);
    require_positive(options_.detect, "--detect");
    require_positive(options_.equivalent, "--equivalent");
    require_positive(options_.learned, "--learned");
    if (options_.bootstrap && (options_.metric != "eval/accuracy" || options_.select != TableSelect::last))
      throw InputError(
          "--bootstrap: the correctness of each image is stored for the last evaluation only; use --metric "
          "eval/accuracy and --select last");
  }

  void make_lines() {
    values_.resize(input_.rows.size());
    for (std::size_t r = 0; r < input_.rows.size(); ++r) {
      TableLine& line = lines_.emplace_back();
      static_cast<TableRow&>(line) = input_.rows[r];
      line.plan_index = r;
      line.is_baseline = line.baseline == r;
      bool measured = false;  // values of guessing alone have no spread
      for (const TableSeed& seed : line.seeds) {
        const auto value = counted_value(seed, line, input_, options_);
        if (!value) continue;
        measured = measured || !stands_in(seed, options_);
        values_[r][seed.seed] = *value;
      }
      line.n = values_[r].size();
      line.count =
          line.n == line.seeds.size() ? fmt::format("{}", line.n) : fmt::format("{}/{}", line.n, line.seeds.size());
      const std::set<std::uint64_t> first_stage =
          line.external.empty() ? input_.first_stage : std::set<std::uint64_t>();
      const auto interval = staged_interval(values_[r], first_stage);
      if (!interval) continue;
      line.mean.value = interval->mean;
      if (!measured) continue;
      line.half_width.value = interval->half_width;
      if (options_.sd != TableSd::none && line.n > 1) line.sd.value = spread_of(values_[r]);
    }
  }

  static double spread_of(const SeedValues& values) {
    std::vector<double> list;
    for (const auto& [seed, value] : values) list.push_back(value);
    return sample_sd(list);
  }

  /// "variant=Ti/4": the axes whose values all rows of the strip share, but not all rows of the table.
  std::string strip_label(const TableStrip& strip) const {
    std::vector<std::string> parts;
    std::vector<std::size_t> rows = strip.rows;
    if (strip.baseline) rows.push_back(*strip.baseline);
    for (std::size_t a = 0; a < input_.axes.size(); ++a) {
      const std::string& value = lines_[rows.front()].axes[a];
      const auto has = [&](std::size_t row) { return lines_[row].axes[a] == value; };
      const bool shared = std::all_of(rows.begin(), rows.end(), has);
      const bool by_all =
          std::all_of(lines_.begin(), lines_.end(), [&](const TableLine& l) { return l.axes[a] == value; });
      if (shared && !by_all && !value.empty()) parts.push_back(axis_name(input_.axes, a) + "=" + value);
    }
    return joined(parts, ", ");
  }

  void make_strips() {
    std::map<std::size_t, std::size_t> strip_of;  // baseline row -> strip
    for (const TableLine& line : lines_) {
      if (!line.baseline || line.is_baseline || *line.baseline >= lines_.size()) continue;
      const auto [known, added] = strip_of.try_emplace(*line.baseline, model_.strips.size());
      if (added) model_.strips.emplace_back().baseline = *line.baseline;
      model_.strips[known->second].rows.push_back(line.plan_index);
    }
    for (std::size_t s = 0; s < model_.strips.size(); ++s) {
      if (model_.strips.size() > 1) model_.strips[s].label = strip_label(model_.strips[s]);
      for (const std::size_t row : model_.strips[s].rows) lines_[row].strip = s;
      lines_[*model_.strips[s].baseline].strip = s;
    }
  }

  StripRow strip_row(std::size_t row) const {
    StripRow out{.values = values_[row], .stand_ins = {}, .apart = lines_[row].apart};
    for (auto& [seed, value] : out.values) value *= direction_;
    for (const TableSeed& seed : lines_[row].seeds) {
      out.apart = out.apart || seed.state == SeedState::diverged;
      if (stands_in(seed, options_)) out.stand_ins.insert(seed.seed);
    }
    return out;
  }

  ManyToOneOptions procedure() const {
    ManyToOneOptions options;
    options.first_stage = input_.first_stage;
    options.level = options_.level;
    return options;
  }

  PairedRows pair_rows() {
    std::vector<StripRow> rows;
    for (std::size_t r = 0; r < lines_.size(); ++r) rows.push_back(strip_row(r));
    return compare_pairs(lines_, model_.strips, rows, options_, procedure());
  }

  void compare() {
    ManyToOneOptions options = procedure();
    if (options_.family == TableFamily::table && model_.strips.size() > 1)
      for (const TableStrip& strip : model_.strips) options.family_rows += strip.rows.size();
    for (const TableStrip& strip : model_.strips) {
      Strip values{strip_row(*strip.baseline), {}};
      for (const std::size_t row : strip.rows) values.rows.push_back(strip_row(row));
      comparisons_.push_back(many_to_one(values, options));
      for (std::size_t i = 0; i < strip.rows.size(); ++i) take(lines_[strip.rows[i]], comparisons_.back().rows[i]);
    }
    for (TableLine& line : lines_) compare_external(line, values_, direction_, options_.level);
  }

  static bool diverged(const TableLine& line) {
    return std::any_of(line.seeds.begin(), line.seeds.end(),
                       [](const TableSeed& seed) { return seed.state == SeedState::diverged; });
  }

  void take(TableLine& line, const Comparison& comparison) {
    line.pairs = comparison.pairs;
    line.gain.value = comparison.gain;
    line.partial = (diverged(line) || diverged(lines_[*line.baseline])) && comparison.gain &&
                   options_.diverged == TableDiverged::exclude;
    const SeedValues &values = values_[line.plan_index], &base = values_[*line.baseline];
    std::vector<double> gains;
    for (TableSeed& seed : line.seeds) {
      const auto own = values.find(seed.seed), other = base.find(seed.seed);
      if (own == values.end() || other == base.end()) continue;
      seed.gain = direction_ * (own->second - other->second);
      gains.push_back(*seed.gain);
    }
    if (options_.effect_size) line.effect_size.value = paired_effect_size(gains);
    if (!comparison.half_width) return;
    line.procedure = comparison.apart ? kOwnNoise : kSharedNoise;
    line.gain_half_width.value = comparison.half_width;
    line.gain_low.value = comparison.low;
    line.gain_high.value = comparison.high;
    line.cut = comparison.cut;
    line.differs = comparison.differs;
    line.p.value = comparison.p;
    if (!options_.equivalent || !comparison.standard_error || !(*comparison.standard_error > 0)) return;
    line.equivalent_p.value =
        equivalence_p(*comparison.gain, *comparison.standard_error, comparison.freedom, *options_.equivalent);
    line.equivalent = *line.equivalent_p.value < 0.05;
  }

  /// Decimals for a column: as many as its narrowest interval of ours needs, so that the column aligns.
  int column_decimals(Figure TableLine::*half_width, int otherwise) const {
    double narrowest = 0;
    for (const TableLine& line : lines_) {
      const auto& value = (line.*half_width).value;
      if (line.external.empty() && value && std::isfinite(*value) && *value > 0 &&
          (narrowest == 0 || *value < narrowest))
        narrowest = *value;
    }
    return narrowest > 0 ? decimals_for(narrowest) : otherwise;
  }

  static void write(Figure& figure, int decimals, bool sign = false) {
    if (figure.value) figure.text = sign ? signed_fixed(*figure.value, decimals) : fixed(*figure.value, decimals);
  }

  void write_figures() {
    const int otherwise = input_.scale == 100 ? 2 : 4,
              decimals =
                  column_decimals(options_.sd == TableSd::instead ? &TableLine::sd : &TableLine::half_width, otherwise),
              sd_decimals = column_decimals(&TableLine::sd, decimals);
    gain_decimals_ = column_decimals(&TableLine::gain_half_width, decimals);
    for (TableLine& line : lines_) {
      write(line.mean, decimals);
      write(line.half_width, decimals);
      write(line.sd, sd_decimals);
      write(line.effect_size, 2, true);
      const int gains = honest_decimals(line.gain, line.gain_half_width, line.cut, line.differs, gain_decimals_);
      for (Figure* figure : {&line.gain, &line.gain_low, &line.gain_high}) write(*figure, gains, true);
      for (Figure* figure : {&line.gain_half_width, &line.bootstrap_half_width}) write(*figure, gains);
      for (Figure* figure : {&line.p, &line.equivalent_p})
        if (figure->value) figure->text = p_text(*figure->value);
    }
    for (std::size_t s = 0; s < model_.strips.size(); ++s) {
      TableStrip& strip = model_.strips[s];
      if (comparisons_[s].compared > 1)
        strip.best_by_chance.value = best_gain_by_chance(std::span(&comparisons_[s], 1));
      std::size_t seeds = 0;
      for (const Comparison& row : comparisons_[s].rows) seeds = std::max(seeds, row.pairs);
      if (const auto detectable = detectable_gain(comparisons_[s], seeds)) {
        strip.detectable_seeds = seeds;
        strip.detectable.value = detectable->gain;
        strip.detectable_low.value = detectable->low;
        strip.detectable_high.value = detectable->high;
      }
      write(strip.best_by_chance, gain_decimals_, true);
      for (Figure* figure : {&strip.detectable, &strip.detectable_low, &strip.detectable_high})
        write(*figure, gain_decimals_);
    }
  }

  Figure best_of_table() const {
    Figure figure;
    if (options_.family == TableFamily::table) figure.value = best_gain_by_chance(comparisons_);
    write(figure, gain_decimals_, true);
    return figure;
  }

  const TableInput& input_;
  const TableOptions& options_;
  std::vector<TableLine> lines_;  // of the whole plan
  std::vector<SeedValues> values_;
  std::vector<ManyToOne> comparisons_;
  std::vector<TableEnvironment> environments_;
  const double direction_ = lower_is_better(options_.metric) ? -1 : 1;  // a gain is an improvement
  int gain_decimals_ = 2;
  TableModel model_;
};

}  // namespace

int decimals_for(double half_width) {
  const int exponent = int(std::floor(std::log10(half_width)));
  const double leading = half_width / std::pow(10.0, exponent);
  return std::clamp(leading < 1.95 ? 1 - exponent : -exponent, 0, kMaxDecimals);
}

int honest_decimals(const Figure& gain, const Figure& half_width, bool cut, bool differs, int decimals) {
  if (!half_width.value || cut) return decimals;
  const auto misleads = [&] {
    const double unit = std::pow(10.0, decimals);
    const bool holds_zero = std::round(std::abs(*gain.value) * unit) <= std::round(*half_width.value * unit);
    return holds_zero == differs;
  };
  while (decimals < kMaxDecimals && misleads()) ++decimals;
  return decimals;
}

TableModel table_model(const TableInput& input, const TableOptions& options) {
  return ModelBuilder(input, options).build();
}

}  // namespace normlab
