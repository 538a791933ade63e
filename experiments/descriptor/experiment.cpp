#include "experiments/descriptor/experiment.h"

#include <algorithm>
#include <unordered_map>

#include "core/error.h"
#include "experiments/descriptor/canonical.h"
#include "experiments/descriptor/fields.h"
#include "experiments/descriptor/merge.h"
#include "experiments/descriptor/reader.h"
#include "experiments/descriptor/suggest.h"
#include "experiments/descriptor/sweep.h"

namespace normlab {
namespace {

/// A row while rows are being collected.
struct Row {
  Cell cell;
  TrialConfig config;
  std::vector<std::uint64_t> seeds;
  std::vector<std::pair<std::string, std::string>> values;  // axis path -> value_text
};

/// A dotted path as a JSON pointer.
std::string pointer_of(std::string path) {
  std::replace(path.begin(), path.end(), '.', '/');
  return path.insert(0, 1, '/');
}

const std::string* find_value(const Row& row, const std::string& path) {
  for (const auto& [axis, text] : row.values)
    if (axis == path) return &text;
  return nullptr;
}

bool matches(const Row& row, const AxisChoice& choice) {
  return std::all_of(choice.values.begin(), choice.values.end(), [&](const auto& wanted) {
    const std::string* text = find_value(row, wanted.first);
    return text != nullptr && *text == wanted.second;
  });
}

class Expansion {
 public:
  Expansion(JsonNode root, std::string stem, std::size_t max_trials, Sources& sources, Problems& problems)
      : root_(std::move(root)),
        stem_(std::move(stem)),
        max_trials_(max_trials),
        sources_(sources),
        problems_(problems) {}

  void run(const std::vector<std::string>& set_paths, Experiment& out) {
    check_top_level();
    if (const JsonMember* rows = root_.find("placements")) placements_ = PlacementRows(rows->value, problems_);
    read_strings(out);
    if (const JsonMember* member = root_.find("sweep"))
      grids_ = read_sweep(member->value, placements_, sources_, problems_);
    else
      grids_.resize(1);
    if (root_.find("seeds") != nullptr &&
        std::all_of(grids_.begin(), grids_.end(), [](const Grid& grid) { return grid.seeds.has_value(); }))
      problems_.add(position_of("seeds"), "/seeds", "every grid has seeds of its own; leave these out");
    paths_ = axis_paths(grids_);
    refuse_swept(set_paths);
    read_choices();

    for (const char* key : {"dataset", "model", "train"})
      if (const JsonMember* member = root_.find(key)) base_.members.push_back(*member);
    base_.kind = JsonKind::object;
    base_.at = root_.at;
    check_values(base_, placements_, problems_);
    if (count_trials() > max_trials_)
      problems_.add(position_of("sweep"), "/sweep", concat("more than ", max_trials_, " trials; split the descriptor"));
    else
      for (const Grid& grid : grids_) for_each_combination(grid, [&](const auto& index) { add_row(grid, index); });
    check_choices();
    if (problems_.empty() && rows_.empty()) problems_.add(position_of("exclude"), "/exclude", "leaves no combination");
    problems_.throw_if_any_or_unused();
    match_baselines();
    collect(out);
    for (const Trial& trial : out.trials)  // a training in epochs is measured once its data are there
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
    const JsonPath top{};
    for (const JsonMember& member : root_.members) {
      const JsonPath here{&top, member.key, &member.key_at};
      if (std::find(keys.begin(), keys.end(), member.key) == keys.end())
        problems_.add(member.key_at, here.pointer(), unknown_key(member.key, keys));
      if (member.key == "extends") problems_.add(member.key_at, here.pointer(), "can only be given in the file");
    }
  }

  void read_strings(Experiment& out) {
    const JsonPath top{};
    for (const char* key : {"$schema", "about"}) {
      const JsonMember* member = root_.find(key);
      if (member == nullptr) continue;
      if (!member->value.is_string())
        problems_.add(member->value.at, pointer_step(member->key), "expected a string, got " + describe(member->value));
      else if (member->key == "about")
        out.about = member->value.text;
    }
    if (const JsonMember* member = root_.find("checkpoint"))
      out.checkpoint = read_checkpoint(member->value, JsonPath{&top, member->key, &member->value.at}, problems_);
    if (const JsonMember* member = root_.find("probes"))
      out.probes = read_probes(member->value, JsonPath{&top, member->key, &member->value.at}, problems_);
    if (const JsonMember* member = root_.find("paper"))
      out.paper = read_paper(member->value, JsonPath{&top, member->key, &member->value.at}, problems_);
    if (const JsonMember* member = root_.find("seeds"))
      seeds_ = read_seeds(member->value, JsonPath{&top, member->key, &member->value.at}, problems_);
  }

  /// A setting of the command line that an axis would overwrite is not ignored but refused.
  void refuse_swept(const std::vector<std::string>& set_paths) {
    for (const Source& source : sources_.all()) {
      if (source.has_lines) continue;
      for (const std::string& set : set_paths)
        for (const std::string& axis : paths_)
          if (source.name.substr(0, set.size() + 7) == "--set " + set + "=" && is_within(set, axis))
            problems_.add({&source, 1, 1, nullptr}, pointer_of(set),
                          concat(axis, " is an axis of the sweep, which would overwrite this; set \"sweep\" instead"));
    }
  }

  void read_choices() {
    const JsonPath top{};
    if (const JsonMember* member = root_.find("exclude")) {
      const JsonPath path{&top, member->key, &member->value.at};
      if (member->value.kind != JsonKind::array)
        problems_.add(member->value.at, path.pointer(), "expected a list of objects, got " + describe(member->value));
      for (std::size_t i = 0; i < member->value.items.size(); ++i) {
        const std::string number = std::to_string(i);
        const JsonNode& item = member->value.items[i];
        exclude_.push_back(read_choice(item, JsonPath{&path, number, &item.at}, grids_, problems_));
      }
      excluded_.resize(exclude_.size());
    }
    if (const JsonMember* member = root_.find("baseline"))
      baseline_ = read_choice(member->value, JsonPath{&top, member->key, &member->value.at}, grids_, problems_);
  }

  const std::vector<std::uint64_t>& seeds_of(const Grid& grid) const { return grid.seeds ? *grid.seeds : seeds_; }

  std::size_t count_trials() const {
    std::size_t sum = 0;
    for (const Grid& grid : grids_) {
      const std::size_t rows = grid.size(max_trials_), seeds = seeds_of(grid).size();
      if (rows > max_trials_ / seeds) return max_trials_ + 1;
      sum += rows * seeds;
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
        complete = set_path(tree, axis.path, value.node, axis.key_at, problems_) && complete;
        row.values.emplace_back(axis.path, value.text);
        row.cell.axes.emplace_back(axis.path, value.label);
      }
    bool left_out = false;
    for (std::size_t e = 0; e < exclude_.size(); ++e) {
      if (!matches(row, exclude_[e])) continue;
      left_out = excluded_[e] = true;
    }
    if (left_out) return;
    // A baseline counts as found although the trials are wrong: one problem at a time.
    baseline_found_ = baseline_found_ || (baseline_ && matches(row, *baseline_));
    if (!complete) return;
    row.config = read_trial(tree, placements_, ReadMode::descriptor, problems_);
    if (!problems_.empty()) return;
    row.seeds = seeds_of(grid);
    row.cell.label = label_of(row);
    const auto [known, added] = row_of_config_.try_emplace(canonical_json(row.config), rows_.size());
    if (added)
      rows_.push_back(std::move(row));
    else
      add_seeds(rows_[known->second], row.seeds);
  }

  void add_seeds(Row& row, const std::vector<std::uint64_t>& seeds) {
    for (const std::uint64_t seed : seeds) {
      if (std::find(row.seeds.begin(), row.seeds.end(), seed) == row.seeds.end())
        row.seeds.push_back(seed);
      else
        ++duplicates_;
    }
  }

  /// The last key of an axis's path names it, unless two axes would share it.
  std::string short_name(const std::string& path) const {
    const auto last = [](const std::string& p) { return p.substr(p.rfind('.') + 1); };
    const std::string name = last(path);
    const auto same =
        std::count_if(paths_.begin(), paths_.end(), [&](const std::string& p) { return last(p) == name; });
    return same > 1 ? path : name;
  }

  std::string label_of(const Row& row) const {
    if (paths_.size() == 1 && row.cell.axes.size() == 1) return row.cell.axes.front().second;  // one axis says itself
    std::string label;
    for (const auto& [path, value] : row.cell.axes)
      label += concat(label.empty() ? "" : ", ", short_name(path), "=", value);
    return label.empty() ? stem_ : label;
  }

  void check_choices() {
    for (std::size_t e = 0; e < exclude_.size(); ++e)
      if (problems_.empty() && !excluded_[e])
        problems_.add(exclude_[e].at, exclude_[e].pointer, "matches no combination of the sweep");
    if (problems_.empty() && baseline_ && !baseline_found_)
      problems_.add(baseline_->at, baseline_->pointer, "matches no combination of the sweep");
  }

  /// What a row has at the axes that the baseline leaves open.
  std::string strip_of(const Row& row) const {
    std::string strip;
    for (const std::string& path : paths_) {
      const auto fixed = [&](const auto& value) { return value.first == path; };
      const std::string* text = find_value(row, path);
      if (text != nullptr && std::none_of(baseline_->values.begin(), baseline_->values.end(), fixed))
        strip += concat(path, "=", *text, "\n");
    }
    return strip;
  }

  void match_baselines() {
    if (!baseline_) return;
    std::unordered_map<std::string, std::size_t> row_of_strip;
    for (std::size_t r = 0; r < rows_.size(); ++r)
      if (matches(rows_[r], *baseline_)) row_of_strip.try_emplace(strip_of(rows_[r]), r);
    for (Row& row : rows_) {
      const auto found = row_of_strip.find(strip_of(row));
      if (found != row_of_strip.end()) row.cell.baseline = found->second;
    }
  }

  void collect(Experiment& out) {
    out.axes = paths_;
    out.duplicates = duplicates_;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      Row& row = rows_[r];
      for (std::size_t s = 0; s < row.seeds.size(); ++s) {
        row.cell.trials.push_back(out.trials.size());
        Trial& trial =
            out.trials.emplace_back(Trial{row.config, {}, r, s, concat(row.cell.label, ", seed ", row.seeds[s])});
        trial.config.seed = row.seeds[s];
        trial.id = trial_id(trial.config);
      }
      out.rows.push_back(std::move(row.cell));
    }
  }

  JsonNode root_, base_;
  std::string stem_;
  std::size_t max_trials_;
  Sources& sources_;
  Problems& problems_;
  PlacementRows placements_;
  std::vector<Grid> grids_;
  std::vector<std::string> paths_;
  std::vector<std::uint64_t> seeds_{0};
  std::vector<AxisChoice> exclude_;
  std::vector<bool> excluded_;
  std::optional<AxisChoice> baseline_;
  bool baseline_found_ = false;
  std::vector<Row> rows_;
  std::unordered_map<std::string, std::size_t> row_of_config_;
  std::size_t duplicates_ = 0;
};

}  // namespace

const Trial& first_trial(const Experiment& experiment, const Cell& row) {
  return experiment.trials[row.trials.empty() ? row.tuning.front() : row.trials.front()];
}

Experiment load_experiment(const std::filesystem::path& file, std::span<const std::string> sets,
                           std::size_t max_trials) {
  Sources sources;
  Problems problems;
  Experiment out;
  out.stem = file.stem().string();
  JsonNode root = load_merged(file, sources, problems, out.files);
  const std::vector<std::string> set_paths = apply_sets(root, sets, sources, problems);
  Expansion(std::move(root), out.stem, max_trials, sources, problems).run(set_paths, out);
  return out;
}

}  // namespace normlab
