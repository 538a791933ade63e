#include "experiments/lab/descriptor/start_source.h"

#include <algorithm>
#include <set>

#include "core/visible_text.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/leave_out.h"
#include "experiments/lab/descriptor/recipes.h"
#include "experiments/lab/descriptor/sweep.h"
#include "nn/model/model.h"
#include "nn/model/resize_positions.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

/// A path in a descriptor is relative to that file, and one of `--set` to the current folder.
fs::path relative_to(const Position& at, const std::string& path) {
  const bool in_file = at.source != nullptr && at.source->has_lines && !at.source->name.starts_with(kRecipePrefix);
  return in_file ? (fs::path(at.source->name).parent_path() / path).lexically_normal() : fs::path(path);
}

/// Descriptors that are being read because another one starts from them.
struct Reading {
  static std::set<fs::path>& open() {
    static thread_local std::set<fs::path> files;
    return files;
  }
  fs::path file;
  bool is_new;
  explicit Reading(const fs::path& path) : file(fs::weakly_canonical(path)), is_new(open().insert(file).second) {}
  ~Reading() {
    if (is_new) open().erase(file);
  }
  Reading(const Reading&) = delete;
  Reading& operator=(const Reading&) = delete;
};

std::string labels_of(const std::vector<const Cell*>& rows) {
  constexpr std::size_t kShown = 6;
  std::string out;
  for (std::size_t i = 0; i < std::min(rows.size(), kShown); ++i)
    out += concat(i > 0 ? "; " : "", visible_line(rows[i]->label));
  return rows.size() > kShown ? out + "; ..." : out;
}

const std::string* label_at(const AxisLabels& axes, const std::string& path) {
  for (const auto& [axis, label] : axes)
    if (axis == path) return &label;
  return nullptr;
}

}  // namespace

std::string weights_sha256(const fs::path& path) {
  const std::string text = read_file(path);
  if (!path.string().ends_with(kSafetensorsIndexEnding)) return sha256_hex(text);
  Sha256 hash;
  hash.update(text);
  for (const fs::path& file : safetensors_files(path)) hash.update(sha256_hex(read_file(file)));
  return hash.hex();
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

void StartSources::take_file_hash(StartConfig& start, Problems& problems) {
  if (whole_ != nullptr)
    if (const auto known = whole_->weights.find(start.file); known != whole_->weights.end()) {
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
      problems.add(start.at, concat("there is no file ", shown(path.string()),
                                    "; with its \"sha256\", results can be read without it"));
    hashes_[start.file] = start.sha256;
    return;
  }
  std::string& found = hashes_[start.file];
  if (found.empty()) found = weights_sha256(path);
  if (!start.sha256.empty() && start.sha256 != found)
    problems.add(start.at, concat(path.string(), " has the SHA-256 ", found, ", not ", shown(start.sha256)));
  start.sha256 = found;
}

/// Null, with a problem, if there is no such descriptor or if it starts from itself.
const Experiment* StartSources::descriptor_at(const StartConfig& start, std::size_t max_trials,
                                              const ClassCounts& classes, Problems& problems) {
  const std::string& written = start.from->descriptor;
  if (whole_ != nullptr)
    if (const auto known = whole_->starts.find(written); known != whole_->starts.end()) {
      note_path(written, written);
      const auto [place, is_new] = descriptors_.try_emplace(written);
      if (is_new)
        place->second =
            load_experiment(known->second, written, fs::path(written).stem().string(), {}, max_trials, classes);
      return &place->second;
    }
  const fs::path path = relative_to(start.at, written);
  const auto fail = [&](const std::string& what) {
    problems.add(start.at, what);
    return nullptr;
  };
  std::error_code error;
  if (!fs::is_regular_file(path, error)) return fail(concat("there is no descriptor ", shown(path.string())));
  const Reading reading(path);
  if (!reading.is_new) return fail(concat(path.string(), " starts from itself"));
  note_path(written, path.string());
  auto known = descriptors_.find(path.string());
  if (known == descriptors_.end())
    known = descriptors_.emplace(path.string(), load_experiment(path, {}, max_trials, classes)).first;
  return &known->second;
}

std::shared_ptr<StartRow> StartSources::row_of(const StartConfig& start, const AxisLabels& axes,
                                               PlacementRows& placements, std::size_t max_trials,
                                               const ClassCounts& classes, Problems& problems) {
  const auto fail = [&](const std::string& what) {
    problems.add(start.at, what);
    return nullptr;
  };
  const Experiment* const read = descriptor_at(start, max_trials, classes, problems);
  if (read == nullptr) return nullptr;
  const Experiment& other = *read;
  const fs::path& path = other.files.front();
  if (other.tuned)
    return fail(concat(path.string(),
                       " tunes its rows, so their settings are unknown before it has run; name a "
                       "descriptor with fixed settings"));
  AxisLabels wanted;
  for (const JsonMember& member : start.from->row.members) {
    if (std::find(other.axes.begin(), other.axes.end(), member.key) == other.axes.end()) {
      problems.add(member.key_at, unknown_word("axis", member.key, {other.axes.begin(), other.axes.end()}));
      return nullptr;
    }
    wanted.emplace_back(member.key, axis_label(member.key, member.value, placements));
  }
  for (const std::string& axis : other.axes)
    if (const std::string* own = label_at(axes, axis); own != nullptr && label_at(wanted, axis) == nullptr)
      wanted.emplace_back(axis, *own);
  std::vector<const Cell*> found, all;
  for (const Cell& row : other.rows) {
    all.push_back(&row);
    if (std::all_of(wanted.begin(), wanted.end(), [&](const auto& choice) {
          const std::string* label = label_at(row.axes, choice.first);
          return label != nullptr && *label == choice.second;
        }))
      found.push_back(&row);
  }
  if (found.size() != 1)
    return fail(concat(found.empty() ? "no row of " : "several rows of ", path.string(),
                       found.empty() ? " has" : " have", " these axis values: ", labels_of(found.empty() ? all : found),
                       "; \"row\" names one as {axis: value}"));
  if (other.checkpoint.keep == KeepCheckpoint::none)
    return fail(concat(path.string(), " keeps no weights (\"checkpoint\": {\"keep\": \"none\"})"));
  TrialConfig config = first_trial(other, *found.front()).config;
  config.start.trial.clear();  // depends on the seed
  return std::make_shared<StartRow>(
      StartRow{config, concat(other.stem, ": ", found.front()->label), start.from->seed, found.front()->start});
}

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
  if (const auto unused = left_out.unused())
    problems.add(trial.start.at, concat("\"leave_out\": no parameter matches ", in_quotes(rule.leave_out[*unused])));
  if (wrong.empty()) return;
  constexpr std::size_t kShown = 4;
  std::string what = "the network that it starts from does not fit: ";
  for (std::size_t i = 0; i < std::min(wrong.size(), kShown); ++i) what += concat(i > 0 ? "; " : "", wrong[i]);
  if (wrong.size() > kShown) what += concat("; and ", wrong.size() - kShown, " more");
  problems.add(trial.start.at, what);
}

}  // namespace normlab
