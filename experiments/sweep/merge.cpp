#include "experiments/sweep/merge.h"

#include <fmt/core.h>

#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "core/error.h"
#include "experiments/base/files.h"
#include "experiments/base/strict_json.h"
#include "experiments/results/exported.h"
#include "experiments/results/store.h"
#include "experiments/results/trial_files.h"
#include "experiments/sweep/verify_files.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

/// Removes the folder at the end of its life, if it is still there.
struct Part {
  fs::path path;
  ~Part() {
    std::error_code ignored;
    fs::remove_all(path, ignored);
  }
};

/// Makes a folder that appears whole or not at all; `fill` writes into the folder it is given.
void place_whole(const fs::path& to, const std::function<void(const fs::path&)>& fill) {
  const fs::path part = to.parent_path() / fmt::format(".{}.tmp", to.filename().string());
  const Part removed{part};
  try {
    fs::create_directories(to.parent_path());
    fs::remove_all(part);
    fs::create_directory(part);
    fill(part);
    fs::remove_all(to);  // an unfinished trial, or one without a curve
    fs::rename(part, to);
  } catch (const fs::filesystem_error& error) {
    throw EnvironmentError(fmt::format("{}: cannot be written: {}", to.string(), error.code().message()));
  }
}

void copy_entries(const fs::path& from, const fs::path& to) {
  for (const fs::path& entry : list_folder(from))
    if (entry.filename() != "claim")
      fs::copy(entry, to / entry.filename(), fs::copy_options::recursive | fs::copy_options::copy_symlinks);
}

/// A note of an experiment, or the timings of a claim.
struct Record {
  std::string where, text;
};
using Records = std::map<fs::path, Record>;  // by path below OUT

void add_files(Records& records, const fs::path& from, const fs::path& below) {
  for (const fs::path& path : files_below(from / below))
    if (path.filename().string().front() != '.')
      records[path.lexically_relative(from)] = {path.string(), read_file(path)};
}

Records records_of(const ResultStore& store) {
  Records records;
  const ExportedResults* const archives = store.exported();
  if (archives == nullptr) {
    for (const char* folder : {"experiments", "bench"})
      if (fs::exists(store.out() / folder)) add_files(records, store.out(), folder);
    return records;
  }
  for (const auto& [folder, notes] : archives->notes)
    for (const auto& [name, note] : notes)
      records[fs::path("experiments") / folder / name] = {
          fmt::format("{}: note {}/{}", store.out().string(), folder, name), note.dump(2) + "\n"};
  if (fs::is_directory(store.out()))
    for (const fs::path& path : files_below(store.out()))
      if (path.extension() == ".jsonl" && path.stem().extension() == kTimingsSuffix)
        records["bench" / path.filename()] = {path.string(), read_file(path)};
  return records;
}

bool is_timings(const fs::path& path) { return *path.begin() == "bench"; }

/// Whether two texts record the same; the order of keys does not count.
bool same(const std::string& a, const std::string& b) {
  using Json = nlohmann::json;
  return a == b || (Json::accept(a) && Json::accept(b) && Json::parse(a) == Json::parse(b));
}

/// joined_notes() of two records of one path.
std::optional<std::string> joined_records(const fs::path& path, const Record& a, const Record& b) {
  const auto note_of = [](const Record& r) { return take_note(parse_strict_json(r.text, r.where), r.where); };
  return joined_notes(path.parent_path(), note_of(a), note_of(b));
}

ResultStore open_source(const fs::path& source) {
  if (fs::is_directory(source / "trials")) return ResultStore(source);
  try {
    return ResultStore::exported(source);
  } catch (const InputError& error) {
    if (!fs::is_directory(source) || !files_below(source).empty()) throw;
    throw InputError(fmt::format("{}: holds neither \"trials\" nor archives of `normlab export`", source.string()));
  }
}

/// Archives are checked as they are read.
void require_undamaged(const ResultStore& store) {
  if (store.exported() != nullptr) return;
  const std::vector<std::string> problems = verify_results(store).problems;
  if (problems.empty()) return;
  const std::string out = store.out().string();
  throw InputError(fmt::format(
      "{}. Nothing was copied. Restore the file from a copy, or move a damaged trial's folder out of {}{}",
      problems.front(), out,
      problems.size() == 1
          ? ""
          : fmt::format("; `normlab verify --files --out {}` lists all {} problems", out, problems.size())));
}

class Merge {
 public:
  explicit Merge(const fs::path& out) : out_(out) {}

  /// Collects what a source has. `out` itself comes first; its results are not copied.
  void take(const ResultStore& store) {
    const bool out = store.out() == out_;
    if (!out) require_undamaged(store);
    for (const std::string& id : store.trial_ids()) {
      const TrialFolder trial = store.trial(id);
      std::optional<TrialResult> result = trial.load_result();
      if (!result) {
        merged_.unfinished += !out;
        continue;
      }
      const std::string where = trial.exported() ? trial.exported()->where : trial.path().string();
      const Found found{where, *result, trial};
      const auto [known, added] = results_.try_emplace(id, found);
      if (added) continue;
      const auto placed = [](const Found& f) { return PlacedResult{f.result, has_curve(f.trial, f.result), f.where}; };
      if (counts_instead(placed(found), placed(known->second)))
        known->second = found;
      else
        ++merged_.there;
    }
    for (auto& [path, record] : records_of(store)) {
      const auto [known, added] = records_.try_emplace(path, record);
      if (added || path.filename() == "plan.json" || same(known->second.text, record.text)) continue;
      if (const auto joined = is_timings(path) ? std::nullopt : joined_records(path, known->second, record)) {
        known->second = {known->second.where + " and " + record.where, *joined};
        continue;
      }
      throw InputError(fmt::format("{} and {}: {}. Nothing was copied", known->second.where, record.where,
                                   is_timings(path) ? "are different timings of one claim; leave one of them out"
                                                    : "record different decisions about one experiment, so their "
                                                      "trials do not belong together"));
    }
  }

  Merged write() {
    for (const auto& [id, found] : results_) {
      const fs::path to = out_ / "trials" / id;
      if (found.trial.path() == to) continue;
      if (const auto owner = read_claim(to); owner && !is_dead(*owner))
        throw InputError(fmt::format("{}: a process works on this trial; merge again when it has ended", to.string()));
      place_whole(to, [&, &trial = found.trial](const fs::path& part) {
        if (trial.exported() != nullptr)
          write_exported_trial(*trial.exported(), part);
        else
          copy_entries(trial.path(), part);
      });
      ++merged_.copied;
    }
    for (const auto& [path, record] : records_) {
      const fs::path to = out_ / path;
      if (record.where == to.string()) continue;
      std::error_code failed;
      fs::create_directories(to.parent_path(), failed);  // write_atomically() reports a failure
      write_atomically(to, record.text);
      merged_.timings += is_timings(path);
    }
    return merged_;
  }

 private:
  struct Found {
    std::string where;
    TrialResult result;
    TrialFolder trial;
  };

  const fs::path out_;
  Merged merged_;
  std::map<std::string, Found> results_;  // by id
  Records records_;
};

}  // namespace

Merged merge_results(const std::vector<fs::path>& sources, const fs::path& out) {
  std::vector<ResultStore> stores{ResultStore(out)};
  for (const fs::path& source : sources) stores.push_back(open_source(source));
  Merge merge(out);
  for (const ResultStore& store : stores) merge.take(store);
  return merge.write();
}

}  // namespace normlab
