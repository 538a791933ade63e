// What a descriptor's "start" refers to: a file, a row of this descriptor, or one of another.
#include <algorithm>
#include <set>

#include "core/visible_text.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/design.h"
#include "experiments/lab/descriptor/leave_out.h"
#include "experiments/lab/descriptor/recipes.h"
#include "nn/model/model.h"
#include "nn/model/resize_positions.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

constexpr int kMostStarts = 8;  // trials that start from one another in a chain; more are a mistake

std::string labels_of(const std::vector<const Cell*>& rows) {
  constexpr std::size_t kShown = 6;
  std::string out;
  for (std::size_t i = 0; i < std::min(rows.size(), kShown); ++i)
    out += concat(i > 0 ? "; " : "", visible_line(rows[i]->label));
  return rows.size() > kShown ? out + "; ..." : out;
}

/// Reports parameters of `trial` that the network of `from` lacks or has in another shape, unless they are left out.
void check_start(const TrialConfig& trial, const TrialConfig& from, Problems& problems) {
  const StartRule& rule = trial.start;
  if (rule.weights == StartWeights::ema && from.train.ema.decay == 0)
    problems.add(trial.start.at, "\"weights\": \"ema\", but that training averages no weights (train.ema)");
  ParameterSet here, there;
  make_model(here, trial.model);
  make_model(there, from.model);
  const bool other_classes = num_classes(trial.model) != num_classes(from.model);
  LeaveOut left_out(rule.leave_out);
  std::vector<std::string> wrong;
  for (const ParameterInfo& p : here.parameters()) {
    if (left_out.takes(p, other_classes)) continue;
    const int found = there.find(p.name);
    if (found < 0) {
      wrong.push_back(p.name + " is not in it");
      continue;
    }
    const Shape& shape = there.parameters()[static_cast<std::size_t>(found)].shape;
    if (p.role == Role::positions && shape.back() == p.shape.back()) {
      const PatchGrid source = patch_grid(std::get<ViTConfig>(from.model)),
                      own = patch_grid(std::get<ViTConfig>(trial.model));
      const std::int64_t before = shape[1] - source.size(), own_before = p.shape[1] - own.size();
      if (before != own_before)
        wrong.push_back(
            concat(p.name, " has ", before, " rows for tokens before the patches there and ", own_before, " here"));
      else if (source != own && rule.resize_positions == StartPositions::same)
        wrong.push_back(concat(p.name, " has a grid of ", to_string(source), " there and ", to_string(own),
                               " here; \"resize_positions\" names how to resize it"));
      continue;
    }
    if (shape == p.shape) continue;
    wrong.push_back(concat(p.name, " is ", shape.str(), " there and ", p.shape.str(), " here"));
  }
  for (const ParameterInfo& p : there.parameters())
    if (here.find(p.name) < 0 && !left_out.takes(p.name)) wrong.push_back(p.name + " is in it alone");
  const auto *own = std::get_if<ViTConfig>(&trial.model), *source = std::get_if<ViTConfig>(&from.model);
  const auto counts_patches = [](const ViTConfig* c) { return c && c->rotary.dialect == RotaryDialect::eva02; };
  if (counts_patches(own) && counts_patches(source) && own->rotary.grid[0] == 0 &&
      reference_grid(*source) != patch_grid(*own)) {
    const PatchGrid grid = reference_grid(*source);
    wrong.push_back(concat("its rotary positions count patches in a grid of ", to_string(grid),
                           "; give \"rotary\" the \"grid\" [", grid.height, ", ", grid.width,
                           "], or that of this network"));
  }
  if (const auto unused = left_out.unused())
    problems.add(trial.start.at, concat("\"leave_out\": no parameter matches ", in_quotes(rule.leave_out[*unused])));
  if (wrong.empty()) return;
  constexpr std::size_t kShown = 4;
  std::string what = "the network that it starts from does not fit: ";
  for (std::size_t i = 0; i < std::min(wrong.size(), kShown); ++i) what += concat(i > 0 ? "; " : "", wrong[i]);
  if (wrong.size() > kShown) what += concat("; and ", wrong.size() - kShown, " more");
  problems.add(trial.start.at, what);
}

}  // namespace

fs::path relative_to(const Position& at, const std::string& path) {
  const bool in_file = at.source != nullptr && at.source->has_lines && !at.source->name.starts_with(kRecipePrefix);
  return in_file ? (fs::path(at.source->name).parent_path() / path).lexically_normal() : fs::path(path);
}

const std::string* find_value(const AxisLabels& values, const std::string& path) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const auto& value) { return value.first == path; });
  return found == values.end() ? nullptr : &found->second;
}

std::nullptr_t StartSources::fail(const StartConfig& start, const std::string& what) {
  problems_.add(start.at, what);
  return nullptr;
}

void StartSources::resolve(GridRow& row) {
  StartConfig& start = row.config.start;
  if (start.at.source == nullptr) return;  // there is no "start"
  if (start.file.empty() && !start.from)
    return problems_.add(start.at, "expected \"file\" or \"from\", which say where the weights are");
  if (start.from) {
    row.cell.start = start.from->descriptor.empty() ? row_of_this(row, start) : row_of_other(start, row.cell.axes);
    if (row.cell.start) check_start(row.config, row.cell.start->config, problems_);
    start.from.reset();
  } else {
    take_file_hash(start);
  }
  start.at = {};  // the descriptor's text does not outlive its reading
}

void StartSources::note_path(const std::string& written, const std::string& meant) {
  ambiguous_ |= paths_.try_emplace(written, meant).first->second != meant;
}

void StartSources::write(WholeDescriptor& to) const {
  if (ambiguous_) to.json.clear();
  for (const auto& [written, meant] : paths_) {
    if (const auto hash = hashes_.find(meant); hash != hashes_.end()) to.weights[written] = hash->second;
    if (const auto descriptor = descriptors_.find(meant); descriptor != descriptors_.end()) {
      to.starts[written] = descriptor->second.whole;
      if (descriptor->second.whole.json.empty()) to.json.clear();
    }
  }
}

/// Makes `start.file` relative to the current folder, and writes its hash to `start.sha256`. If a hash is given, the file
/// may be absent.
void StartSources::take_file_hash(StartConfig& start) {
  if (design_.whole != nullptr)
    if (const auto known = design_.whole->weights.find(start.file); known != design_.whole->weights.end()) {
      note_path(start.file, start.file);
      start.sha256 = hashes_[start.file] = known->second;
      return;
    }
  const fs::path path = relative_to(start.at, start.file);
  note_path(start.file, path.string());
  start.file = path.string();
  std::error_code error;
  if (!fs::is_regular_file(path, error)) {
    if (start.sha256.empty())
      problems_.add(start.at, concat("there is no file ", shown(path.string()),
                                     "; with its \"sha256\", results can be read without it"));
    hashes_[start.file] = start.sha256;
    return;
  }
  std::string& found = hashes_[start.file];
  if (found.empty()) found = weights_sha256(path);
  if (!start.sha256.empty() && start.sha256 != found)
    problems_.add(start.at, concat(path.string(), " has the SHA-256 ", found, ", not ", shown(start.sha256)));
  start.sha256 = found;
}

/// Null, with a problem, if there is no such descriptor or if it starts from itself.
const Experiment* StartSources::descriptor_at(const StartConfig& start) {
  const std::string& written = start.from->descriptor;
  if (design_.whole != nullptr)
    if (const auto known = design_.whole->starts.find(written); known != design_.whole->starts.end()) {
      note_path(written, written);
      const auto [place, is_new] = descriptors_.try_emplace(written);
      if (is_new)
        place->second = load_experiment(known->second, written, fs::path(written).stem().string(), {},
                                        design_.max_trials, design_.classes);
      return &place->second;
    }
  const fs::path path = relative_to(start.at, written);
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return fail(start, concat("there is no descriptor ", shown(path.string())));
  std::set<fs::path> around = design_.around;
  if (!around.insert(fs::weakly_canonical(path)).second)
    return fail(start, concat(path.string(), " starts from itself"));
  note_path(written, path.string());
  auto known = descriptors_.find(path.string());
  if (known == descriptors_.end())
    known =
        descriptors_
            .emplace(path.string(), load_experiment(path, {}, design_.max_trials, design_.classes, std::move(around)))
            .first;
  return &known->second;
}

/// The row of this descriptor with the axis values of "from", and otherwise those of `row`.
std::shared_ptr<StartRow> StartSources::row_of_this(const GridRow& row, const StartConfig& start) {
  if (design_.tuned) return fail(start, "a row of a descriptor with \"tune\" cannot be started from");
  if (++depth_ > kMostStarts) return fail(start, "starts from itself");
  GridRow other;
  AxisLabels values = row.values.front();
  if (!start.from->row.members.empty())
    for (const auto& [path, text] : read_choice(start.from->row, design_.grids, problems_).values) {
      const auto axis = std::find_if(values.begin(), values.end(),
                                     [&, path = path](const auto& value) { return value.first == path; });
      if (axis == values.end())
        values.emplace_back(path, text);
      else
        axis->second = text;
    }
  if (!problems_.empty()) return nullptr;
  JsonNode tree = design_.base;
  for (const auto& [path, text] : values) {
    const auto [axis, value] = find_axis_value(design_.grids, path, text);
    lay(tree, *axis, value, problems_);
    other.cell.axes.emplace_back(path, axis->values[value].label);
  }
  other.config = read_trial(tree, design_.placements, ReadMode::descriptor, problems_, design_.classes);
  if (!problems_.empty()) return nullptr;
  other.cell.label = row_label(other.cell.axes, design_.paths, design_.stem);
  other.values.push_back(std::move(values));
  resolve(other);
  --depth_;
  return std::make_shared<StartRow>(StartRow{other.config, other.cell.label, start.from->seed, other.cell.start});
}

/// The row of `start.from` in another descriptor. Axes that it does not name have the labels in `axes`. Null, with a
/// problem, if there is no such row or more than one. InputError with the other descriptor's problems.
std::shared_ptr<StartRow> StartSources::row_of_other(const StartConfig& start, const AxisLabels& axes) {
  const Experiment* const read = descriptor_at(start);
  if (read == nullptr) return nullptr;
  const Experiment& other = *read;
  const fs::path& path = other.files.front();
  if (other.tuned)
    return fail(start, concat(path.string(),
                              " tunes its rows, so their settings are unknown before it has run; name a descriptor "
                              "with fixed settings"));
  AxisLabels wanted;
  for (const JsonMember& member : start.from->row.members) {
    if (std::find(other.axes.begin(), other.axes.end(), member.key) == other.axes.end()) {
      problems_.add(member.key_at, unknown_word("axis", member.key, {other.axes.begin(), other.axes.end()}));
      return nullptr;
    }
    wanted.emplace_back(member.key, axis_label(member.key, member.value, design_.placements));
  }
  for (const std::string& axis : other.axes)
    if (const std::string* own = find_value(axes, axis); own != nullptr && find_value(wanted, axis) == nullptr)
      wanted.emplace_back(axis, *own);
  std::vector<const Cell*> found, all;
  for (const Cell& row : other.rows) {
    all.push_back(&row);
    if (matches(row.axes, wanted)) found.push_back(&row);
  }
  if (found.size() != 1)
    return fail(start, concat(found.empty() ? "no row of " : "several rows of ", path.string(),
                              found.empty() ? " has" : " have", " these axis values: ",
                              labels_of(found.empty() ? all : found), "; \"row\" names one as {axis: value}"));
  if (other.checkpoint.keep == KeepCheckpoint::none)
    return fail(start, concat(path.string(), " keeps no weights (\"checkpoint\": {\"keep\": \"none\"})"));
  TrialConfig config = first_trial(other, *found.front()).config;
  config.start.trial.clear();  // depends on the seed
  return std::make_shared<StartRow>(
      StartRow{config, concat(other.stem, ": ", found.front()->label), start.from->seed, found.front()->start});
}

}  // namespace normlab
