#include "experiments/lab/sweep/merge.h"

#include <fmt/core.h>

#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <thread>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/first_wins.h"
#include "experiments/lab/base/folders.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/sweep/verify_files.h"
#include "experiments/lab/trials/exported.h"
#include "experiments/lab/trials/store.h"
#include "experiments/lab/trials/trial_copies.h"

namespace normlab {
namespace {

namespace fs = std::filesystem;

/// A note of an experiment, or the timings of a claim.
struct MergedFile {
  std::string where, text;
};
using MergedFiles = std::map<fs::path, MergedFile>;  // by path below OUT

void add_files(MergedFiles& records, const fs::path& from, const fs::path& below, std::string_view extension) {
  for (const fs::path& path : files_below(from / below))
    if (path.filename().string().front() != '.' && path.extension() == extension)
      records[path.lexically_relative(from)] = {path.string(), read_file(path)};
}

bool is_plan(const fs::path& path) { return path.filename() == kPlanNote; }

MergedFiles records_of(const ResultStore& store) {
  MergedFiles records;
  const ExportedResults* const archives = store.exported();
  if (archives == nullptr) {
    add_files(records, store.out(), "experiments", ".json");
    add_files(records, store.out(), "bench", ".jsonl");
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
std::optional<std::string> joined_records(const fs::path& path, const MergedFile& a, const MergedFile& b) {
  const auto note_of = [](const MergedFile& r) { return take_note(parse_strict_json(r.text, r.where), r.where); };
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
  const std::vector<std::string> problems = verify_files(store, false).problems;
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
  Merge(const fs::path& out, std::chrono::milliseconds patience) : out_(out), patience_(patience) {}

  /// Collects what a source has.
  void take(const ResultStore& source) {
    require_undamaged(source);
    for (const std::string& id : source.trial_ids()) {
      const TrialFolder trial = source.trial(id);
      const std::optional<TrialResult> result = trial.load_result();
      if (!result) {
        ++merged_.unfinished;
        continue;
      }
      copies_[id].push_back(checked_copy(trial, *result));
    }
    take_records(source);
  }

  /// Compares what the sources have with the folder that they are copied to.
  void compare() {
    for (const auto& [id, copies] : copies_) {
      const std::optional<TrialResult> result = out_.trial(id).load_result();
      for (const TrialCopy& copy : copies)
        require_same_result({copies.front().result, false, copies.front().where}, {copy.result, false, copy.where});
      if (!result) continue;
      const TrialCopy there = checked_copy(out_.trial(id), *result);
      require_same_result({there.result, false, there.where}, {copies.front().result, false, copies.front().where});
    }
    take_records(out_);
  }

  Merged write() {
    out_ = ResultStore(out_.out(), choose_first_wins(out_.out()));
    merged_.notice = out_.first_wins().notice;
    put_back_set_aside(out_);
    for (const fs::path& part : abandoned_parts(out_)) remove_folder(part);
    place_all();
    for (const auto& [path, record] : records_) write(path, record);
    for (const auto& [id, names] : missing_)
      for (const std::string& name : names)
        merged_.problems.push_back(
            fmt::format("{}: is missing or damaged, and no source has it", (out_.trial(id).path() / name).string()));
    for (const auto& [id, copies] : copies_) merged_.there += busy_.contains(id) ? 0 : copies.size();
    merged_.there -= merged_.copied + merged_.completed;
    return merged_;
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr auto kPause = std::chrono::milliseconds(20);  // between two looks at a claim

  static TrialCopy checked_copy(const TrialFolder& trial, const TrialResult& result) {
    try {
      return copy_of(trial, result);
    } catch (const InputError& error) {
      throw InputError(concat(error.what(), ". Nothing was copied"));
    }
  }

  void take_records(const ResultStore& store) {
    for (auto& [path, record] : records_of(store)) {
      const auto [known, added] = records_.try_emplace(path, record);
      if (!added) known->second = joined(path, known->second, record, ". Nothing was copied");
    }
  }

  /// One record that holds both. InputError if they contradict each other.
  static MergedFile joined(const fs::path& path, const MergedFile& first, const MergedFile& other,
                           std::string_view end) {
    if (is_plan(path) || same(first.text, other.text)) return first;
    if (const auto both = is_timings(path) ? std::nullopt : joined_records(path, first, other))
      return {first.where + " and " + other.where, *both};
    throw InputError(fmt::format("{} and {}: {}{}", first.where, other.where,
                                 is_timings(path) ? "are different timings of one claim; leave one of them out"
                                                  : "record different decisions about one experiment, so their "
                                                    "trials do not belong together",
                                 end));
  }

  /// Places the trials that are free, then waits for the others.
  void place_all() {
    std::map<std::string, std::string> held;  // by id: what its claim and lease read at first
    LeaseWatch watch;
    std::set<std::string> left;
    for (const auto& [id, copies] : copies_) left.insert(id);
    for (std::optional<Clock::time_point> begin; !left.empty();) {
      std::erase_if(left, [&](const std::string& id) { return place(id); });
      const Clock::time_point now = Clock::now();
      if (!begin) begin = now;
      std::erase_if(left, [&](const std::string& id) { return lives(id, now - *begin, held, watch); });
      if (!left.empty()) std::this_thread::sleep_for(kPause);
    }
  }

  /// Whether a process works on the trial that will not end soon. Ends the claim of one whose lease stands still.
  bool lives(const std::string& id, Clock::duration waited, std::map<std::string, std::string>& held,
             LeaseWatch& watch) {
    const fs::path path = out_.trial(id).path();
    const std::optional<Owner> owner = read_claim(path);
    if (!owner || is_dead(*owner)) return false;
    const std::string seen = lease_of(path, *owner);
    const bool moves = held.try_emplace(id, seen).first->second != seen || owner->lease_seconds == 0;
    if (moves && waited > patience_) {
      busy_.insert(id);
      merged_.problems.push_back(fmt::format("{}: process {} on {} works on this trial; merge again when it has ended",
                                             path.string(), owner->pid, owner->host));
      return true;
    }
    if (owner->lease_seconds > 0 && watch.stale(id, seen, owner->lease_seconds, Clock::now()))
      out_.trial(id).break_claim(*owner);
    return false;
  }

  /// False if another process has the trial.
  bool place(const std::string& id) {
    constexpr int kTries = 10;  // while other processes change the trial
    const TrialFolder trial = out_.trial(id);
    for (int i = 0; i < kTries; ++i) {
      std::optional<TrialCopy> joined = join(id, 0);
      if (!joined) return true;
      if (!fs::exists(trial.path())) {
        const TemporaryFolderBeside part(trial.path());
        if (!write_part(*joined, part.path()) || !place_copy(part.path(), trial, nullptr)) continue;
        ++merged_.copied;
        return true;
      }
      std::optional<Claim> claim = Claim::acquire(trial.path(), kLeaseSeconds, out_.first_wins());
      if (!claim) return false;
      joined = join(id, claim->attempt());
      const std::optional<TrialResult> before = trial.load_result();
      const TemporaryFolderBeside part(trial.path());
      const bool placed = joined && write_part(*joined, part.path()) && place_copy(part.path(), trial, &*claim);
      if (!placed) claim->withdraw();
      if (!placed && joined) continue;
      if (joined) ++(before && before->status == joined->result.status ? merged_.completed : merged_.copied);
      return true;
    }
    throw EnvironmentError(
        fmt::format("{}: other processes keep changing it; merge again when they have ended", trial.path().string()));
  }

  /// What the trial's folder should hold; none if it is there. `attempt`: of this process's claim.
  std::optional<TrialCopy> join(const std::string& id, std::int64_t attempt) {
    const TrialFolder trial = out_.trial(id);
    std::vector<TrialCopy> copies = copies_.at(id);
    const std::optional<TrialResult> result = trial.load_result();
    if (!result) {
      const bool keeps = trial.has_checkpoint();  // which a failed result would remove
      std::optional<TrialCopy> joined = joined_copies(copies);
      return keeps && joined->result.status == TrialEnd::failed ? std::nullopt : joined;
    }
    const TrialCopy there = whole_files_of(trial, *result, attempt);
    copies.insert(copies.begin(), there);
    const TrialCopy joined = joined_copies(copies);
    missing_[id] = missing_files(joined);
    return lacks_files(there, joined) ? std::optional(joined) : std::nullopt;
  }

  /// False if another process removed the part, which it took for abandoned.
  static bool write_part(const TrialCopy& copy, const fs::path& part) {
    try {
      write_copy(copy, part);
      return true;
    } catch (const EnvironmentError&) {
      std::error_code unknown;
      if (fs::exists(part, unknown) || unknown) throw;
      return false;
    }
  }

  void write(const fs::path& path, const MergedFile& record) {
    const fs::path to = out_.out() / path;
    if (record.where == to.string()) return;
    make_folders(to.parent_path());
    remove_abandoned_temporaries(to.parent_path());
    if (publish(to, record.text, out_.first_wins())) {
      merged_.timings += is_timings(path);
    } else if (!is_plan(path)) {
      try {
        write_joined(path, to, record);
      } catch (const InputError& error) {  // another process wrote it after compare()
        merged_.problems.push_back(error.what());
      }
    }
  }

  void write_joined(const fs::path& path, const fs::path& to, const MergedFile& record) {
    const auto both = [&] { return joined(path, {to.string(), read_file(to)}, record, ""); };
    if (same(both().text, read_file(to))) return;
    // Runs publish a record once; merges, which replace it, take turns.
    const fs::path experiment = to.parent_path().parent_path();
    LeaseWatch watch;
    for (;;) {
      if (auto claim = Claim::acquire(experiment, kLeaseSeconds, out_.first_wins())) {
        write_atomically(to, both().text);
        claim->withdraw();
        return;
      }
      if (const auto owner = read_claim(experiment);
          owner && watch.stale("", lease_of(experiment, *owner), owner->lease_seconds, Clock::now()))
        break_claim(experiment, *owner, out_.first_wins());
      std::this_thread::sleep_for(kPause);
    }
  }

  ResultStore out_;
  const std::chrono::milliseconds patience_;
  Merged merged_;
  std::map<std::string, std::vector<TrialCopy>> copies_;     // by id
  std::map<std::string, std::vector<std::string>> missing_;  // by id: files that no copy has
  std::set<std::string> busy_;                               // ids of trials left out
  MergedFiles records_;
};

/// Whether a source is the folder that is copied to.
bool is_same(const fs::path& source, const fs::path& out) {
  std::error_code unknown;
  return fs::equivalent(source, out, unknown);
}

}  // namespace

Merged merge_results(const std::vector<fs::path>& sources, const fs::path& out, std::chrono::milliseconds patience) {
  std::vector<ResultStore> stores;
  for (const fs::path& source : sources)
    if (!is_same(source, out)) stores.push_back(open_source(source));
  Merge merge(out, patience);
  for (const ResultStore& store : stores) merge.take(store);
  merge.compare();
  return merge.write();
}

}  // namespace normlab
