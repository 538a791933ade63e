#include "experiments/lab/descriptor/experiment.h"

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/benchmarks.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/forms.h"
#include "experiments/lab/descriptor/merge.h"
#include "experiments/lab/descriptor/reader.h"
#include "experiments/lab/descriptor/row_label.h"
#include "experiments/lab/descriptor/start_source.h"
#include "experiments/lab/descriptor/sweep.h"
#include "experiments/lab/descriptor/tasks.h"
#include "experiments/lab/descriptor/tune.h"
#include "experiments/lab/descriptor/unknown_setting.h"

namespace normlab {
namespace {

using AxisValues = std::vector<std::pair<std::string, std::string>>;  // axis path -> value_text

struct Row {
  Cell cell;
  TrialConfig config;
  std::vector<std::uint64_t> seeds;
  AxisValues values;
  std::vector<AxisValues> other_values;  // of the same row in later grids
  const Grid* grid = nullptr;
  JsonNode tree;  // for tuned sweeps: the tree that values are laid over
};

/// Axis values that select rows, and whether any row matched.
struct Choice {
  AxisChoice axes;
  bool found = false;
};

std::string pointer_of(std::string path) {
  std::replace(path.begin(), path.end(), '.', '/');
  return path.insert(0, 1, '/');
}

const std::string* find_value(const AxisValues& values, const std::string& path) {
  for (const auto& [axis, text] : values)
    if (axis == path) return &text;
  return nullptr;
}

bool matches(const AxisValues& values, const AxisChoice& choice) {
  return std::all_of(choice.values.begin(), choice.values.end(), [&](const auto& wanted) {
    const std::string* text = find_value(values, wanted.first);
    return text != nullptr && *text == wanted.second;
  });
}

class Expansion {
 public:
  Expansion(JsonNode root, std::string stem, const ClassCounts& classes, std::size_t max_trials,
            std::shared_ptr<Sources> sources, Problems& problems, const WholeDescriptor* whole)
      : root_(std::move(root)),
        stem_(std::move(stem)),
        classes_(classes),
        max_trials_(max_trials),
        sources_(std::move(sources)),
        problems_(problems),
        starts_(whole) {}

  void run(const std::vector<std::string>& set_paths, Experiment& out) {
    check_top_level();
    if (const JsonMember* rows = root_.find("placements")) placements_ = PlacementRows(rows->value, problems_);
    read_strings(out);
    const JsonMember* sweep = root_.find("sweep");
    grids_ = sweep == nullptr ? std::vector<Grid>(1) : read_sweep(sweep->value, placements_, problems_);
    benchmarks_ = Benchmarks(root_.find("benchmarks"), grids_, problems_);
    if (root_.find("seeds") != nullptr &&
        std::all_of(grids_.begin(), grids_.end(), [](const Grid& grid) { return grid.seeds.has_value(); }))
      problems_.add(position_of("seeds"), "/seeds", "every grid has its own seeds; leave these out");
    paths_ = axis_paths(grids_);
    if (const JsonMember* member = root_.find("tune"))
      tuned_ =
          std::make_shared<TunedRows>(read_tune(member->value, paths_, placements_, problems_), sources_, classes_);
    refuse_swept(set_paths);
    refuse_swept_metrics();
    read_choices();
    if (two_stage_) check_two_stage();

    for (const std::string_view key : kSettingRoots)
      if (const JsonMember* member = root_.find(key)) base_.members.push_back(*member);
    base_.kind = JsonKind::object;
    base_.at = root_.at;
    check_values(base_, placements_, problems_);
    if (count_trials() > max_trials_)
      problems_.add(position_of("sweep"), "/sweep", concat("more than ", max_trials_, " trials; split the descriptor"));
    else
      for (const Grid& grid : grids_) for_each_combination(grid, [&](const auto& index) { add_row(grid, index); });
    check_choices();
    if (problems_.empty() && rows_.empty())
      problems_.add(position_of("exclude"), "/exclude", "excludes every combination; leave at least one");
    problems_.throw_if_any_or_unused();
    match_baselines();
    mark_apart();
    collect(out);
    starts_.write(out.whole);
    for (const Trial& trial : out.trials)  // a training in epochs is checked once its data are loaded
      if (trial.config.train.steps > 0)
        require_within_training(out.probes, trial.config.train.steps, "the training of " + trial.label);
  }

 private:
  Position position_of(std::string_view key) const {
    const JsonMember* member = root_.find(key);
    return member == nullptr ? root_.at : member->key_at;
  }

  void check_top_level() {
    std::vector<std::string_view> keys;
    for_each_field<TrialConfig>([&](const auto& field) {
      if (field.key != "seed") keys.push_back(field.key);
    });
    for (const TopLevelKey& known : kTopLevelKeys) keys.push_back(known.key);
    for (const JsonMember& member : root_.members) {
      if (std::find(keys.begin(), keys.end(), member.key) == keys.end())
        problems_.add(member.key_at, unknown_setting(member.key, keys));
      if (member.key == "extends") problems_.add(member.key_at, "can only be set in the file, not by --set");
    }
  }

  void read_strings(Experiment& out) {
    for (const char* key : {"$schema", "about"}) {
      const JsonMember* member = root_.find(key);
      if (member == nullptr) continue;
      if (!member->value.is_string())
        problems_.add(member->value.at, "expected a string, got " + describe(member->value));
      else if (member->key == "about")
        out.about = member->value.text;
    }
    if (const JsonMember* member = root_.find("checkpoint")) out.checkpoint = read_checkpoint(member->value, problems_);
    if (const JsonMember* member = root_.find("probes"))
      out.probes = read_block<ProbeConfig>(member->value, placements_, problems_);
    if (const JsonMember* member = root_.find("paper"))
      out.paper = read_block<PaperConfig>(member->value, placements_, problems_);
    if (const JsonMember* member = root_.find("claim"))
      out.claim = read_block<TestedClaim>(member->value, placements_, problems_);
    const JsonMember* member = root_.find("seeds");
    if (member == nullptr) return;
    if (!member->value.is_object()) {
      seeds_ = read_seeds(member->value, problems_);
      return;
    }
    two_stage_ = read_block<TwoStageSeeds>(member->value, placements_, problems_);
    seeds_.clear();
    for (std::uint64_t seed = 0; seed < two_stage_->first; ++seed) seeds_.push_back(seed);
  }

  /// The rule concerns gains, and requires the same seeds for all rows.
  void check_two_stage() {
    const Position at = root_.find("seeds")->value.at;
    if (root_.find("baseline") == nullptr)
      problems_.add(at,
                    "two-stage seeds fix the width of the gains' intervals; add the \"baseline\" that gains are "
                    "measured against");
    if (std::any_of(grids_.begin(), grids_.end(), [](const Grid& grid) { return grid.seeds.has_value(); }))
      problems_.add(at, "with two-stage seeds every row runs the same seeds; leave out the seeds of the grids");
  }

  /// Refuses a `--set` setting that an axis would overwrite.
  void refuse_swept(const std::vector<std::string>& set_paths) {
    for (const Source& source : sources_->all())
      for (const std::string& set : set_paths) {
        if (source.has_lines || !source.name.starts_with("--set " + set + "=")) continue;
        const auto refuse = [&](const std::vector<std::string>& axes, std::string_view what) {
          for (const std::string& axis : axes)
            if (is_within(set, axis)) problems_.add({&source}, pointer_of(set), concat(axis, what));
        };
        refuse(paths_, " is an axis of the sweep, which would overwrite this value; set \"sweep\" instead");
        if (std::string why = benchmarks_.conflict(set); !why.empty()) problems_.add({&source}, pointer_of(set), why);
        if (tuned_) refuse(tuned_axes(), " is tuned, which would overwrite this value; set \"tune\" instead");
      }
  }

  void refuse_swept_metrics() {
    for (const Grid& grid : grids_)
      for (const AxisGroup& group : grid.groups)
        for (const Axis& axis : group)
          if (axis.path == "eval.metrics")
            problems_.add(axis.key_at,
                          "metrics change no training, so the rows would be the same trials; set \"eval\": "
                          "{\"metrics\": [...]} outside the sweep");
  }

  std::vector<std::string> tuned_axes() const {
    std::vector<Grid> grids;
    for (const TuneStage& stage : tuned_->stages()) grids.push_back(stage.grid);
    return axis_paths(grids);
  }

  void read_choices() {
    if (const JsonMember* member = root_.find("exclude")) {
      if (!member->value.is_array())
        problems_.add(member->value.at, "expected a list of objects, got " + describe(member->value));
      for (const JsonNode& item : member->value.items) exclude_.push_back({read_choice(item, grids_, problems_)});
    }
    if (const JsonMember* member = root_.find("baseline"))
      baseline_ = Choice{read_choice(member->value, grids_, problems_)};
    if (const JsonMember* member = root_.find("tuned_for"))
      tuned_for_ = Choice{read_choice(member->value, grids_, problems_)};
    if (const JsonMember* member = root_.find("apart")) {
      if (!member->value.is_array())
        problems_.add(member->value.at, "expected a list of rows, got " + describe(member->value));
      if (root_.find("baseline") == nullptr)
        problems_.add(member->value.at, "concerns gains; add the \"baseline\" that they are measured against");
      for (const JsonNode& item : member->value.items)
        if (!item.is_string() && !item.is_object())
          problems_.add(item.at, "expected the name of a row or {\"axis\": value}, got " + describe(item));
        else
          apart_.emplace_back(item, item.is_string() ? AxisChoice{} : read_choice(item, grids_, problems_));
    }
  }

  const std::vector<std::uint64_t>& seeds_of(const Grid& grid) const { return grid.seeds ? *grid.seeds : seeds_; }

  std::size_t count_trials() const {
    std::size_t sum = 0;
    for (const Grid& grid : grids_) {
      const std::size_t rows = grid.size(max_trials_), seeds = seeds_of(grid).size();
      std::size_t each = two_stage_ ? two_stage_->max : seeds;
      if (tuned_)
        for (const TuneStage& stage : tuned_->stages()) each += stage.candidates() * stage.seeds.size();
      if (rows > max_trials_ / each) return max_trials_ + 1;
      sum += rows * each;
    }
    return sum;
  }

  void add_row(const Grid& grid, const std::vector<std::size_t>& index) {
    Row row;
    JsonNode tree = base_;
    bool complete = true;
    for (std::size_t g = 0; g < grid.groups.size(); ++g)
      for (const Axis& axis : grid.groups[g]) {
        const AxisValue& value = axis.values[index[g]];
        complete = lay(tree, axis, index[g], problems_) && complete;
        row.values.emplace_back(axis.path, value.text);
        row.cell.axes.emplace_back(axis.path, value.label);
      }
    const auto picked = [&](Choice& choice) {
      const bool fits = matches(row.values, choice.axes);
      choice.found = choice.found || fits;
      return fits;
    };
    bool left_out = false;
    for (Choice& choice : exclude_) left_out = picked(choice) || left_out;
    if (left_out) return;
    // Marks the baseline as found even if the trials have problems, to avoid a second message.
    if (baseline_) picked(*baseline_);
    if (!complete) return;
    if (tuned_for_) picked(*tuned_for_);
    std::string identity;
    if (tuned_)
      std::tie(row.config, identity) = tuned_->check_row(tree, placements_, problems_);
    else
      row.config = read_trial(tree, placements_, ReadMode::descriptor, problems_, classes_);
    if (!problems_.empty()) return;
    row.cell.label = row_label(row.cell.axes, paths_, stem_);
    resolve_start(row);
    if (!problems_.empty()) return;
    identity += canonical_json(with_seed(row.config, row.cell.start, 0));
    // Tells whether the trial to start from has a seed of its own.
    if (row.cell.start) identity += canonical_json(with_seed(row.config, row.cell.start, 1));
    row.seeds = seeds_of(grid);
    row.grid = &grid;
    if (tuned_) row.tree = std::move(tree);
    const auto [known, added] = row_of_config_.try_emplace(std::move(identity), rows_.size());
    if (added) {
      rows_.push_back(std::move(row));
    } else {
      note_repeated(row, rows_[known->second]);
      add_seeds(rows_[known->second], row.seeds);
      rows_[known->second].other_values.push_back(std::move(row.values));
    }
  }

  /// Finds the file or the trial that a row starts from.
  void resolve_start(Row& row) {
    StartConfig& start = row.config.start;
    if (start.at.source == nullptr) return;  // there is no "start"
    if (start.file.empty() && !start.from)
      return problems_.add(start.at, "expected \"file\" or \"from\", which say where the weights are");
    if (start.from) {
      row.cell.start = start.from->descriptor.empty()
                           ? row_of_this(row, start)
                           : starts_.row_of(start, row.cell.axes, placements_, max_trials_, classes_, problems_);
      if (row.cell.start) check_start(row.config, row.cell.start->config, problems_);
      start.from.reset();
    } else {
      starts_.take_file_hash(start, problems_);
    }
    start.at = {};  // the descriptor's text does not outlive its reading
  }

  /// The row of this descriptor with the axis values of "from", and otherwise those of `row`.
  std::shared_ptr<StartRow> row_of_this(const Row& row, const StartConfig& start) {
    const auto fail = [&](const std::string& what) { return problems_.add(start.at, what), nullptr; };
    if (tuned_) return fail("a row of a descriptor with \"tune\" cannot be started from");
    if (++start_depth_ > kMostStarts) return fail("starts from itself");
    Row other;
    other.values = row.values;
    if (!start.from->row.members.empty())
      for (const auto& [path, text] : read_choice(start.from->row, grids_, problems_).values) {
        const auto own = std::find_if(other.values.begin(), other.values.end(),
                                      [&, path = path](const auto& value) { return value.first == path; });
        if (own == other.values.end())
          other.values.emplace_back(path, text);
        else
          own->second = text;
      }
    if (!problems_.empty()) return nullptr;
    JsonNode tree = base_;
    for (const auto& [path, text] : other.values) {
      const auto [axis, value] = find_axis_value(grids_, path, text);
      lay(tree, *axis, value, problems_);
      other.cell.axes.emplace_back(path, axis->values[value].label);
    }
    other.config = read_trial(tree, placements_, ReadMode::descriptor, problems_, classes_);
    if (!problems_.empty()) return nullptr;
    other.cell.label = row_label(other.cell.axes, paths_, stem_);
    resolve_start(other);
    --start_depth_;
    return std::make_shared<StartRow>(StartRow{other.config, other.cell.label, start.from->seed, other.cell.start});
  }

  /// Not if another grid has the same axis values, to add seeds to them.
  void note_repeated(const Row& row, const Row& first) {
    if (row.cell.label == first.cell.label && row.grid != first.grid) return;
    repeated_rows_.push_back(row.cell.label == first.cell.label
                                 ? concat("row ", in_quotes(row.cell.label), " is given twice; it is trained once")
                                 : concat("row ", in_quotes(row.cell.label), " has the same settings as ",
                                          in_quotes(first.cell.label), "; they are one row, trained once"));
  }

  void add_seeds(Row& row, const std::vector<std::uint64_t>& seeds) {
    for (const std::uint64_t seed : seeds) {
      if (std::find(row.seeds.begin(), row.seeds.end(), seed) == row.seeds.end())
        row.seeds.push_back(seed);
      else
        ++duplicates_;
    }
  }

  void check_choices() {
    const auto check = [&](const Choice& choice) {
      if (problems_.empty() && !choice.found) problems_.add(choice.axes.at, "matches no combination of the sweep");
    };
    for (const Choice& choice : exclude_) check(choice);
    if (baseline_) check(*baseline_);
    if (tuned_for_) check(*tuned_for_);
  }

  /// The values at the axes that the baseline does not fix.
  std::string strip_of(const AxisValues& values) const {
    std::string strip;
    for (const std::string& path : paths_) {
      const auto fixed = [&](const auto& value) { return value.first == path; };
      const std::string* text = find_value(values, path);
      if (text != nullptr && std::none_of(baseline_->axes.values.begin(), baseline_->axes.values.end(), fixed))
        strip += concat(path, "=", *text, "\n");
    }
    return strip;
  }

  void match_baselines() {
    if (!baseline_) return;
    std::unordered_map<std::string, std::size_t> row_of_strip;
    const auto add = [&](std::size_t row, const AxisValues& values) {
      if (matches(values, baseline_->axes)) row_of_strip.try_emplace(strip_of(values), row);
    };
    for (std::size_t r = 0; r < rows_.size(); ++r) add(r, rows_[r].values);
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (const AxisValues& values : rows_[r].other_values) add(r, values);
    const auto find = [&](Row& row, const AxisValues& values) {
      const auto found = row_of_strip.find(strip_of(values));
      if (found != row_of_strip.end() && !row.cell.baseline) row.cell.baseline = found->second;
    };
    for (Row& row : rows_) {
      find(row, row.values);
      for (const AxisValues& values : row.other_values) find(row, values);
    }
  }

  void mark_apart() {
    for (const auto& [given, axes] : apart_) {
      bool found = false;
      const auto fits = [&, &axes = axes](const AxisValues& values) { return matches(values, axes); };
      for (Row& row : rows_)
        if (given.is_string() ? row.cell.label == given.text
                              : fits(row.values) || std::any_of(row.other_values.begin(), row.other_values.end(), fits))
          row.cell.apart = found = true;
      std::vector<std::string_view> labels;
      for (const Row& row : rows_) labels.push_back(row.cell.label);
      if (!found)
        problems_.add(given.at, given.is_string() ? unknown_word("row", given.text, labels)
                                                  : "matches no combination of the sweep");
    }
    problems_.throw_if_any_or_unused();
  }

  void collect(Experiment& out) {
    out.axes = paths_;
    out.groups = benchmarks_.groups();
    out.duplicates = duplicates_;
    constexpr std::size_t kNamed = 10;
    if (const std::size_t all = repeated_rows_.size(); all > kNamed) {
      repeated_rows_.resize(kNamed);
      repeated_rows_.push_back(concat(all - kNamed, " more rows have the same settings as others"));
    }
    out.repeated_rows = std::move(repeated_rows_);
    out.two_stage = two_stage_;
    if (out.two_stage) out.two_stage->metric = metric_for(task_of(rows_.front().config.model), two_stage_->metric);
    require_two_stage_metric();
    out.more_to_come = two_stage_.has_value() || tuned_ != nullptr;
    if (tuned_for_) out.tuned_for = choice_label(tuned_for_->axes, grids_, paths_);
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      Row& row = rows_[r];
      out.rows.push_back(std::move(row.cell));
      if (tuned_)
        tuned_->add_row(std::move(row.tree), row.config.start, std::move(row.seeds));
      else
        for (const std::uint64_t seed : row.seeds) add_trial(out, r, row.config, seed);
    }
    if (!tuned_) return;
    tuned_->keep(std::move(root_), std::move(placements_));
    for (std::size_t r = 0; r < rows_.size(); ++r) tuned_->add_stage(out, r, {});  // later stages depend on its results
    out.tuned = std::move(tuned_);
  }

  /// The number of seeds must not depend on what else a descriptor measures.
  void require_two_stage_metric() {
    const auto request = two_stage_ ? requested_by(two_stage_->metric) : std::nullopt;
    if (!request) return;
    for (const Row& row : rows_)
      if (!measures(row.config, *request)) {
        problems_.add(root_.find("seeds")->value.at,
                      concat(two_stage_->metric, " is not measured; add \"", word_of(*request), "\" to eval.metrics"));
        break;
      }
    problems_.throw_if_any_or_unused();
  }

  JsonNode root_, base_;
  std::string stem_;
  const ClassCounts& classes_;
  std::size_t max_trials_;
  std::shared_ptr<Sources> sources_;
  Problems& problems_;
  PlacementRows placements_;
  Benchmarks benchmarks_;
  std::vector<Grid> grids_;
  std::vector<std::string> paths_;
  std::vector<std::uint64_t> seeds_{0};
  std::vector<Choice> exclude_;
  std::optional<Choice> baseline_, tuned_for_;
  std::vector<std::pair<JsonNode, AxisChoice>> apart_;  // a row's name, or values of axes
  std::optional<TwoStageSeeds> two_stage_;
  std::shared_ptr<TunedRows> tuned_;
  std::vector<Row> rows_;
  std::unordered_map<std::string, std::size_t> row_of_config_;
  std::size_t duplicates_ = 0;
  std::vector<std::string> repeated_rows_;
  StartSources starts_;
  int start_depth_ = 0;
};

/// `root` has no "extends" left.
Experiment expand(JsonNode root, Experiment out, std::span<const std::string> sets, std::size_t max_trials,
                  const ClassCounts& classes, const std::shared_ptr<Sources>& sources, Problems& problems,
                  const WholeDescriptor* whole) {
  const std::vector<std::string> set_paths = apply_sets(root, sets, *sources, problems);
  out.whole.json = write_json(root, JsonStyle::indented);
  Expansion(std::move(root), out.stem, classes, max_trials, sources, problems, whole).run(set_paths, out);
  add_start_trials(out);
  return out;
}

}  // namespace

Experiment load_experiment(const std::filesystem::path& file, std::span<const std::string> sets, std::size_t max_trials,
                           const ClassCounts& classes) {
  const auto sources = std::make_shared<Sources>();
  Problems problems;
  Experiment out;
  out.stem = file.stem().string();
  JsonNode root = load_merged(file, *sources, problems, out.files);
  return expand(std::move(root), std::move(out), sets, max_trials, classes, sources, problems, nullptr);
}

Experiment load_experiment(const WholeDescriptor& descriptor, const std::filesystem::path& file,
                           const std::string& stem, std::span<const std::string> sets, std::size_t max_trials,
                           const ClassCounts& classes) {
  const auto sources = std::make_shared<Sources>();
  Problems problems;
  Experiment out;
  out.stem = stem;
  out.files = {file};
  JsonNode root = parse_json(descriptor.json, sources->add(concat(file.string(), ", descriptor ", stem)), problems);
  if (!root.is_object()) throw InputError(concat(to_string(root.at), ": expected an object, got ", describe(root)));
  return expand(std::move(root), std::move(out), sets, max_trials, classes, sources, problems, &descriptor);
}

}  // namespace normlab
