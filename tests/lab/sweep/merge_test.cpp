#include "experiments/lab/sweep/merge.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <set>

#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/sweep/verify_files.h"
#include "experiments/lab/trials/exported.h"
#include "experiments/lab/trials/trial_copies.h"
#include "experiments/lab/trials/trial_files.h"
#include "tests/lab/base/child_process.h"
#include "tests/lab/pictures/fake_results.h"
#include "tests/lab/trials/unsealed_result.h"
#include "tests/system_calls.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

const char* const kSweep = R"({"dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2}, "train": {"epochs": 4, "batch_size": 20},
  "sweep": {"model.placement": ["pre_pre", "dpn"]}, "seeds": 5, "baseline": {"model.placement": "pre_pre"}})";

/// A done trial with its settings, as a run leaves it.
void add_done(const ResultStore& store, const Trial& trial, double accuracy) {
  store.trial(trial.id).write_config(full_json(trial.config));
  fake_done(store, trial, accuracy);
}

struct TwoFolders {
  TemporaryFolder folder;
  Experiment experiment = experiment_of(folder, kSweep);
  ResultStore a{folder / "a"}, b{folder / "b"};
  fs::path out = folder / "out";
};

/// A done, a diverged and a failed trial with settings and sealed files, as a run leaves them, and a note.
struct Archived : TwoFolders {
  fs::path archive = folder / "archives" / "a.jsonl";

  Archived() {
    for (std::size_t t = 0; t < 3; ++t) trial(t).write_config(full_json(experiment.trials[t].config));
    fake_metrics(a, experiment.trials[0], 0.5);
    TrialResult done = fake_result(experiment.trials[0], TrialEnd::done, 0.5);
    done.files["metrics.jsonl"] = seal_of_file(trial(0).metrics(1));
    done.files["checkpoint.safetensors"] = {7, std::string(64, '0')};
    trial(0).publish_result(done);
    note_removed(attempt_folder(trial(0).path(), 1), {"checkpoint.safetensors"});
    fake_diverged(a, experiment.trials[1], 25);
    fake_failed(a, experiment.trials[2], "no memory");
    make_folders(a.out() / "experiments" / "small" / "fixed");
    write_atomically(a.out() / "experiments" / "small" / "fixed" / "lr.json", write_note({{"lr", 0.1}}));
  }
  TrialFolder trial(std::size_t t) const { return a.trial(experiment.trials[t].id); }
  /// Writes the archive, and a timing file beside it.
  void write(bool full) const {
    std::string lines;
    for (std::size_t t = 0; t < 3; ++t) lines += export_line(trial(t), full);
    lines += export_note("small/fixed", "lr.json", a.note("small/fixed", "lr.json"));
    make_folders(archive.parent_path());
    write_atomically(archive, lines);
    write_atomically(archive.parent_path() / "01-speed.bench.jsonl", "{}\n");
  }
};

/// A trial with a file of every kind, as a run leaves it.
struct Copies : TwoFolders {
  const Trial& planned = experiment.trials[0];
  const TrialFolder trial = a.trial(planned.id);
  std::set<std::string> all;  // paths below the trial's folder

  Copies() {
    trial.write_config(full_json(planned.config));
    fake_metrics(a, planned, 0.5);
    const fs::path attempt = attempt_folder(trial.path(), 1);
    write_atomically(attempt / "states.jsonl", "");
    save_sealed_safetensors(trial.checkpoint(1), {{kTrialKey, planned.id}, {kMetricsBytesKey, "0"}}, {});
    TrialResult result = fake_result(planned, TrialEnd::done, 0.5);
    result.files = seal_attempt(trial, 1, true);
    trial.publish_result(result);
    write_atomically(attempt / "log", "begun and ended");
    all = names(a.out());
  }
  std::set<std::string> names(const fs::path& results) const {
    const fs::path there = results / "trials" / planned.id;
    std::set<std::string> found;
    for (const fs::path& path : files_below(there)) found.insert(path.lexically_relative(there));
    return found;
  }
};

/// The name of a part that another process of this host makes.
fs::path part_of(const fs::path& trial, pid_t process) {
  std::string name = temporary_name(trial).string();
  const std::string own = concat('.', ::getpid(), '.');
  return name.replace(name.rfind(own), own.size(), concat('.', process, '.'));
}

std::atomic<long> writes_left{0};
std::atomic<int> kill_at_rename{0};

}  // namespace

TEST_CASE("merge: copies every result once, and leaves out what has none") {
  const TwoFolders made;
  for (std::size_t t = 0; t < 8; ++t) add_done(t < 5 ? made.a : made.b, made.experiment.trials[t], 0.5);
  add_done(made.b, made.experiment.trials[0], 0.5);  // the same in both
  fake_metrics(made.b, made.experiment.trials[9], 0.5);
  const Merged merged = merge_results({made.folder / "a", made.folder / "b"}, made.out);
  CHECK(merged.copied == 8);
  CHECK(merged.there == 1);
  CHECK(merged.unfinished == 1);
  const ResultStore out(made.out);
  CHECK(out.trial_ids().size() == 8);
  for (const std::string& id : out.trial_ids()) CHECK(out.finished(id));
  const Merged again = merge_results({made.folder / "b"}, made.out);
  CHECK(again.copied == 0);
  CHECK(again.there == 4);
}

TEST_CASE("merge: equal trials with different results are not merged") {
  const TwoFolders made;
  add_done(made.a, made.experiment.trials[0], 0.5);
  add_done(made.a, made.experiment.trials[1], 0.5);
  add_done(made.b, made.experiment.trials[1], 0.6);
  CHECK_THROWS_WITH_AS(merge_results({made.folder / "a", made.folder / "b"}, made.out),
                       doctest::Contains("are the same trial with different results: eval/accuracy is 0.5 and 0.6"),
                       InputError);
  CHECK(!fs::exists(made.out));
}

TEST_CASE("merge: a finished result takes the place of a failed one") {
  const TwoFolders made;
  made.a.trial(made.experiment.trials[0].id).write_config(full_json(made.experiment.trials[0].config));
  fake_failed(made.a, made.experiment.trials[0], "no memory");
  add_done(made.b, made.experiment.trials[0], 0.5);
  for (const auto& [first, second] : {std::pair{"a", "b"}, {"b", "a"}}) {
    const fs::path out = made.folder / (std::string("out-") + first);
    CHECK(merge_results({made.folder / first, made.folder / second}, out).copied == 1);
    CHECK(ResultStore(out).finished(made.experiment.trials[0].id));
  }
  const Merged merged = merge_results({made.folder / "b"}, made.folder / "a");
  CHECK(merged.copied == 1);
  CHECK(merged.there == 0);
  CHECK(made.a.finished(made.experiment.trials[0].id));
}

TEST_CASE("merge: archives of one folder that contradict each other are refused") {
  const TwoFolders made;
  const Trial& trial = made.experiment.trials[0];
  const fs::path folder = made.folder / "archives";
  make_folders(folder);
  for (const auto& [store, name, accuracy] : {std::tuple{&made.a, "a.jsonl", 0.5}, {&made.b, "b.jsonl", 0.6}}) {
    add_done(*store, trial, accuracy);
    write_atomically(folder / name, export_line(store->trial(trial.id), false));
  }
  CHECK_THROWS_WITH_AS(ResultStore::exported(folder),
                       doctest::Contains("b.jsonl:1: are the same trial with different results: eval/accuracy is 0.5"),
                       InputError);
}

TEST_CASE("merge: a damaged file of a source is named, and nothing is copied") {
  const TwoFolders made;
  const Trial& trial = made.experiment.trials[0];
  const TrialFolder folder = made.a.trial(trial.id);
  folder.write_config(full_json(trial.config));
  fake_metrics(made.a, trial, 0.5);
  const fs::path attempt = attempt_folder(folder.path(), 1), plan = made.a.out() / "experiments" / "small";
  write_atomically(attempt / "other.bits", "0123456789");
  TrialResult result = fake_result(trial, TrialEnd::done, 0.5);
  result.files = seal_attempt(folder, 1, true);
  folder.publish_result(result);
  make_folders(plan);
  write_atomically(plan / "plan.json", write_note({{"rows", nlohmann::json::array()}}));
  add_done(made.b, made.experiment.trials[1], 0.5);
  const auto refused = [&] {
    try {
      merge_results({made.b.out(), made.a.out()}, made.out);
      return std::string();
    } catch (const InputError& error) {
      return std::string(error.what());
    }
  };
  for (const fs::path& file :
       {folder.path() / "config.json", folder.metrics(1), attempt / "other.bits", plan / "plan.json"}) {
    const std::string good = read_file(file);
    for (const std::string& text : {std::string(), good.substr(0, good.size() / 2), good + "garbage"}) {
      write_atomically(file, text);
      const std::string message = refused();
      CHECK_MESSAGE(message.find(file.string()) != message.npos, message);
      CHECK(message.find("Nothing was copied") != message.npos);
      CHECK(!fs::exists(made.out));
    }
    if (file.filename() != "plan.json") {
      fs::remove(file);
      CHECK(refused().find(file.string()) != std::string::npos);
    }
    write_atomically(file, good);
  }
  fs::remove(folder.metrics(1));  // on purpose, as `merge` of an archive without curves does
  note_removed(attempt, {"metrics.jsonl"});
  fake_metrics(made.b, made.experiment.trials[2], 0.5);  // has no result, so it is not copied
  write_atomically(made.b.trial(made.experiment.trials[2].id).metrics(1), "garbage");
  CHECK(refused() == "");
  CHECK(ResultStore(made.out).trial_ids().size() == 2);
}

TEST_CASE("merge: a folder without results, and different decisions, are not merged") {
  const TwoFolders made;
  fs::create_directories(made.folder / "c");
  CHECK_THROWS_WITH_AS(merge_results({made.folder / "c"}, made.out),
                       doctest::Contains("holds neither \"trials\" nor archives"), InputError);
  for (const char* name : {"a", "b"}) {
    add_done(name == std::string("a") ? made.a : made.b, made.experiment.trials[0], 0.5);
    fs::create_directories(made.folder / name / "experiments" / "small" / "fixed");
    write_atomically(made.folder / name / "experiments" / "small" / "fixed" / "lr.json", write_note({{"lr", name}}));
  }
  CHECK_THROWS_WITH_AS(merge_results({made.folder / "a", made.folder / "b"}, made.out),
                       doctest::Contains("record different decisions"), InputError);
}

TEST_CASE("merge: tables that were shown in either source were shown") {
  const TwoFolders made;
  const char* const name = "seeds-2.json";
  const fs::path below = fs::path("experiments") / "small" / "tabled", archives = made.folder / "archives";
  make_folders(archives);
  for (const ResultStore* store : {&made.a, &made.b}) {
    const std::string mine = store == &made.a ? "row-a" : "row-b";
    add_done(*store, made.experiment.trials[mine == "row-a" ? 0 : 1], 0.5);
    make_folders(store->out() / below);
    write_atomically(store->out() / below / name,
                     write_note({{"seeds", 2}, {"by_rule", mine == "row-a"}, {"rows", {"row", mine}}}));
    write_atomically(archives / (mine + ".jsonl"),
                     export_line(store->trial(store->trial_ids()[0]), false) +
                         export_note("small/tabled", name, store->note("small/tabled", name)));
  }
  const auto check = [&](const ResultStore& store) {
    const nlohmann::json note = store.note("small/tabled", name);
    CHECK(note["seeds"] == 2);
    CHECK(note["by_rule"] == false);  // seeds may have been raised by hand
    CHECK(note["rows"] == nlohmann::json{"row", "row-a", "row-b"});
  };
  for (int times = 0; times < 2; ++times) {  // into an empty folder, and into one that has the union
    merge_results({made.folder / "a", made.folder / "b"}, made.out);
    check(ResultStore(made.out));
  }
  CHECK(verify_files(ResultStore(made.out)).problems.empty());
  check(ResultStore::exported(archives));
  merge_results({archives}, made.folder / "of archives");
  check(ResultStore(made.folder / "of archives"));
}

TEST_CASE("merge: what an interrupted merge left is no trial, and the next one removes it") {
  const TwoFolders made;
  const std::string& id = made.experiment.trials[0].id;
  add_done(made.a, made.experiment.trials[0], 0.5);
  const fs::path trials = made.out / "trials";
  const pid_t ended = start_child([] { return 0; });
  wait_for_child(ended);
  const fs::path of_this = temporary_name(trials / id), of_ended = part_of(trials / id, ended),
                 of_other = trials / concat(".", id, ".elsewhere.7.1.tmp"), of_older = trials / concat(".", id, ".tmp");
  for (const fs::path& part : {of_this, of_ended, of_other, of_older}) {
    make_folders(part);
    write_atomically(part / "config.json", "{");
  }
  for (const fs::path& path : {of_older / "config.json", of_older})
    fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(2));
  made.a.write_plan("small", plan_json(made.experiment));
  const fs::path plan = made.out / "experiments" / "small" / kPlanNote, half = part_of(plan, ended);
  make_folders(plan.parent_path());
  write_atomically(plan, plan_json(made.experiment));
  write_atomically(half, "{");
  CHECK(ResultStore(made.out).trial_ids().empty());
  CHECK(merge_results({made.folder / "a"}, made.out).copied == 1);
  CHECK(!fs::exists(half));
  CHECK(fs::exists(plan));
  const std::vector<fs::path> left = list_folder(trials);
  CHECK(std::set(left.begin(), left.end()) == std::set{of_other, of_this, trials / id});  // whose processes may live
  CHECK(ResultStore(made.out).finished(id));
}

TEST_CASE("merge: links are copied as what they lead to") {
  for (const bool absolute : {true, false}) {
    const Copies made;
    const fs::path elsewhere = made.folder / "elsewhere", attempt = attempt_folder(made.trial.path(), 1);
    make_folders(elsewhere);
    const auto move = [&](const fs::path& path, const fs::path& to) {
      fs::rename(path, to);
      fs::create_symlink(absolute ? to : to.lexically_relative(path.parent_path()), path);
    };
    move(made.trial.checkpoint(1), elsewhere / "c");
    move(attempt, elsewhere / "attempt");
    move(made.trial.path(), elsewhere / "trial");
    // The links in the moved folders lead to the same files.
    if (!absolute) {
      fs::remove(elsewhere / "attempt" / "checkpoint.safetensors");
      fs::create_symlink("../c", elsewhere / "attempt" / "checkpoint.safetensors");
      fs::remove(elsewhere / "trial" / "attempt-1");
      fs::create_symlink("../attempt", elsewhere / "trial" / "attempt-1");
    }
    CHECK(merge_results({made.a.out()}, made.out).copied == 1);
    fs::remove_all(elsewhere);
    fs::remove_all(made.a.out());
    CHECK(verify_files(ResultStore(made.out)).problems.empty());
    CHECK(made.names(made.out) == made.all);
  }
}

TEST_CASE("merge: what cannot be copied is named, and nothing is copied") {
  const Copies made;
  const fs::path odd = attempt_folder(made.trial.path(), 1) / "odd";
  const auto check = [&](const std::string& words) {
    CHECK_THROWS_WITH_AS(merge_results({made.a.out()}, made.out),
                         doctest::Contains(concat(odd.string(), ": is ", words).c_str()), InputError);
    CHECK_THROWS_WITH_AS(merge_results({made.a.out()}, made.out), doctest::Contains(". Nothing was copied"),
                         InputError);
    CHECK(!fs::exists(made.out));
    fs::remove(odd);
  };
  REQUIRE(mkfifo(odd.c_str(), 0600) == 0);
  check("a pipe, which cannot be copied; put a file in its place");
  fs::create_symlink("nowhere", odd);
  check("a link that leads nowhere");
  fs::create_symlink("odd", odd);
  check("a link to itself");
  fs::create_symlink("..", odd);
  check("a link to a folder around it");
  fs::remove(made.trial.checkpoint(1));
  REQUIRE(mkfifo(made.trial.checkpoint(1).c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(merge_results({made.a.out()}, made.out), doctest::Contains("is a pipe"), InputError);
}

TEST_CASE("merge: a full disk is named with advice, and costs nothing, from each write on") {
  const Copies made;
  const fs::path former = attempt_folder(ResultStore(made.out).trial(made.trial.path().filename()).path(), 1);
  int said = 0;
  for (long calls = 0;; ++calls) {
    CAPTURE(calls);
    REQUIRE(calls < 1000);
    fs::remove_all(made.out);
    make_folders(former);  // an unfinished trial, whose place is taken
    write_atomically(former / "log", "begun");
    std::string error;
    writes_left = calls;
    answer = [](Call call) {
      const bool writes = call == Call::write || call == Call::open_new || call == Call::mkdir || call == Call::fsync;
      return writes && writes_left-- <= 0 ? ENOSPC : 0;
    };
    try {
      merge_results({made.a.out()}, made.out);
    } catch (const EnvironmentError& problem) {
      error = problem.what();
    }
    answer = nullptr;
    if (writes_left >= 0) break;
    if (!error.empty()) {
      ++said;
      CHECK_MESSAGE(
          error.find("No space left on device; free some space, then run the same command again") != error.npos, error);
    }
    CHECK((fs::exists(former / "log") || made.names(made.out) == made.all));
    for (const fs::path& path : list_folder(made.out / "trials"))
      CHECK_MESSAGE(path.filename().string().front() != '.', path.string());
    merge_results({made.a.out()}, made.out);
    CHECK(made.names(made.out) == made.all);
  }
  CHECK(said > 20);
}

TEST_CASE("merge: the richest copy counts in any order") {
  const Copies made;
  const fs::path bare = made.folder / "bare.jsonl", full = made.folder / "full.jsonl";
  write_atomically(bare, export_line(made.trial, false, true));
  write_atomically(full, export_line(made.trial, true));
  std::vector<fs::path> sources{made.a.out(), bare, full};
  std::sort(sources.begin(), sources.end());
  int order = 0;
  do {
    const fs::path at_once = made.folder / concat("at once ", order),
                   by_one = made.folder / concat("one by one ", order);
    const Merged merged = merge_results(sources, at_once);
    CHECK(merged.copied == 1);
    CHECK(merged.there == 2);
    for (const fs::path& source : sources) merge_results({source}, by_one);
    for (const fs::path& out : {at_once, by_one}) {
      CHECK(made.names(out) == made.all);
      CHECK(verify_files(ResultStore(out)).problems.empty());
      CHECK(verify_files(ResultStore(out)).removed == 0);
      CHECK(merge_results(sources, out).there == 3);
    }
    ++order;
  } while (std::next_permutation(sources.begin(), sources.end()));
  const fs::path out = made.folder / "out of an archive";
  merge_results({bare}, out);
  CHECK(made.names(out) != made.all);
  const Merged merged = merge_results({made.a.out()}, out);
  CHECK(merged.completed == 1);
  CHECK(merged.copied + merged.there == 0);
}

TEST_CASE("merge: copies of one training complete each other") {
  const Copies made;
  const TrialFolder other = made.b.trial(made.trial.path().filename());
  fs::create_directories(other.path().parent_path());
  fs::copy(made.trial.path(), other.path(), fs::copy_options::recursive);
  note_removed(attempt_folder(made.trial.path(), 1), {"checkpoint.safetensors"});
  fs::remove(made.trial.checkpoint(1));
  note_removed(attempt_folder(other.path(), 1), {"metrics.jsonl", "states.jsonl"});
  fs::remove(other.metrics(1));
  fs::remove(attempt_folder(other.path(), 1) / "states.jsonl");
  write_atomically(attempt_folder(other.path(), 1) / "times.jsonl", "{}\n");  // which no result lists
  merge_results({made.a.out(), made.b.out()}, made.out);
  auto all = made.all;
  all.insert("attempt-1/times.jsonl");
  CHECK(made.names(made.out) == all);
  const FilesReport report = verify_files(ResultStore(made.out));
  CHECK(report.problems.empty());
  CHECK(report.removed == 0);
}

TEST_CASE("merge: of two trainings with equal numbers, the one with more counts, and no file of both is mixed") {
  const Copies made;
  const std::string id = made.trial.path().filename();
  TrialResult result = *made.trial.load_result();
  const TrialFolder other = made.b.trial(id);
  make_folders(other.path());
  fs::copy(attempt_folder(made.trial.path(), 1), attempt_folder(other.path(), 2), fs::copy_options::recursive);
  fs::copy(made.trial.path() / "config.json", other.path() / "config.json");
  result.attempt = 2;
  result.files["other"] = seal_of("another training");
  write_atomically(attempt_folder(other.path(), 2) / "other", "another training");
  other.publish_result(result);
  note_removed(attempt_folder(made.trial.path(), 1), {"checkpoint.safetensors"});
  fs::remove(made.trial.checkpoint(1));
  for (const bool first : {true, false}) {
    const fs::path out = made.folder / (first ? "first" : "second");
    merge_results(first ? std::vector{made.b.out(), made.a.out()} : std::vector{made.a.out(), made.b.out()}, out);
    CHECK(ResultStore(out).trial(id).load_result()->attempt == 2);
    CHECK(fs::exists(ResultStore(out).trial(id).checkpoint(2)));
    CHECK(!fs::exists(attempt_folder(ResultStore(out).trial(id).path(), 1)));
    CHECK(verify_files(ResultStore(out)).problems.empty());
  }
  CHECK(merge_results({made.b.out()}, made.a.out()).completed == 1);
  CHECK(made.trial.load_result()->attempt == 2);
}

TEST_CASE("merge: a trial is there already only if its files are whole") {
  for (const std::string& file : Copies().all) {
    CAPTURE(file);
    const Copies made;
    merge_results({made.a.out()}, made.out);
    const fs::path there = made.out / "trials" / made.trial.path().filename() / file;
    if (file == "result.json") continue;  // without it, the trial is not finished
    const std::string whole = read_file(there);
    CHECK(merge_results({made.a.out()}, made.out).there == 1);
    for (const bool missing : {true, false}) {
      if (!missing && (whole.empty() || file == "attempt-1/log")) continue;  // which has no seal
      if (missing)
        fs::remove(there);
      else
        write_atomically(there, whole.substr(0, whole.size() / 2));
      CHECK(merge_results({made.a.out()}, made.out).completed == 1);
      CHECK(read_file(there) == whole);
    }
  }
  const Copies made;  // as an older merge beside `clean` left it
  const TrialFolder there = ResultStore(made.out).trial(made.trial.path().filename());
  make_folders(there.path());
  fs::copy(made.trial.path() / "result.json", there.path());
  CHECK(merge_results({made.a.out()}, made.out).completed == 1);
  CHECK(made.names(made.out) == made.all);
  note_removed(attempt_folder(made.trial.path(), 1), {"checkpoint.safetensors"});
  fs::remove(made.trial.checkpoint(1));
  fs::remove(there.checkpoint(1));
  const Merged merged = merge_results({made.a.out()}, made.out);
  CHECK(merged.completed + merged.copied == 0);
  REQUIRE(merged.problems.size() == 1);  // it was removed on purpose in the source alone
  CHECK(merged.problems[0] == there.checkpoint(1).string() + ": is missing or damaged, and no source has it");
}

TEST_CASE("merge: a file that neither the folder nor a source has is named") {
  const Copies made;
  const fs::path bare = made.folder / "bare.jsonl";
  write_atomically(bare, export_line(made.trial, false));
  fs::remove(attempt_folder(made.trial.path(), 1) / "states.jsonl");
  CHECK(merge_results({bare}, made.a.out()).problems.size() == 1);
  fs::remove(made.trial.checkpoint(1));
  fs::remove(made.trial.path() / "config.json");
  const Merged merged = merge_results({bare}, made.a.out());
  CHECK(merged.completed == 1);
  CHECK(merged.problems.size() == 2);
  CHECK(fs::exists(made.trial.path() / "config.json"));
  CHECK(verify_files(made.a).problems.size() == 2);
}

TEST_CASE("merge: a trial that a process works on is left out, and that of a dead process is not") {
  const Copies made;
  add_done(made.a, made.experiment.trials[1], 0.5);
  const TrialFolder there = ResultStore(made.out).trial(made.trial.path().filename());
  std::optional<Claim> claim = Claim::acquire(there.path(), 0.6);
  const Merged merged = merge_results({made.a.out()}, made.out, std::chrono::milliseconds(300));
  REQUIRE(merged.problems.size() == 1);
  CHECK_MESSAGE(merged.problems[0].find("works on this trial; merge again when it has ended") != std::string::npos,
                merged.problems[0]);
  CHECK(merged.copied == 1);
  CHECK(merged.there == 0);
  CHECK(!there.result_text());
  claim->release();
  const pid_t child = start_child([&] {
    const auto dead = Claim::acquire(there.path());
    ::_exit(dead ? 0 : 1);
    return 1;
  });
  REQUIRE(wait_for_child(child) == 0);
  CHECK(merge_results({made.a.out()}, made.out).copied == 1);
  CHECK(made.names(made.out) == made.all);
}

TEST_CASE("merge: on a file system that exchanges no names, a kill costs nothing") {
  const Copies made;
  const std::string id = made.trial.path().filename();
  const TrialFolder there = ResultStore(made.out).trial(id);
  for (const bool killed : {false, true}) {
    fs::remove_all(made.out);
    make_folders(there.path());
    fs::copy(made.trial.path() / "result.json", there.path());
    const std::string former = read_file(there.path() / "result.json");
    kill_at_rename = killed ? 2 : 0;
    const pid_t child = start_child([&] {
      answer = [](Call call) {
        static int renames = 0;
        static bool refused = false;
        if (call == Call::exchange) refused = true;
        if (call == Call::rename && refused && ++renames == kill_at_rename) ::_exit(7);
        return call == Call::exchange ? EINVAL : 0;
      };
      return merge_results({made.a.out()}, made.out).completed == 1 ? 0 : 1;
    });
    CHECK(wait_for_child(child) == (killed ? 7 : 0));
    if (killed) {
      CHECK(!fs::exists(there.path()));
      const ResultStore store(made.out);
      put_back_set_aside(store);
      CHECK(read_file(there.path() / "result.json") == former);
      merge_results({made.a.out()}, made.out);
    }
    CHECK(made.names(made.out) == made.all);
    CHECK(list_folder(made.out / "trials") == std::vector{there.path()});
  }
}

TEST_CASE("merge: a trial that diverged at NaN is copied once") {
  const TwoFolders made;
  const Trial& trial = made.experiment.trials[0];
  made.a.trial(trial.id).write_config(full_json(trial.config));
  fake_metrics(made.a, trial, 0.2, 2);
  TrialResult result = fake_result(trial, TrialEnd::diverged, 0.1);
  result.diverged_step = result.steps = 25;
  result.diverged_value = std::numeric_limits<double>::quiet_NaN();
  made.a.trial(trial.id).publish_result(result);
  CHECK(merge_results({made.a.out()}, made.out).copied == 1);
  CHECK(merge_results({made.a.out()}, made.out).there == 1);
}

TEST_CASE("merge: a failed result does not take the place of a trial that can be resumed") {
  const Copies made;
  const Trial& trial = made.experiment.trials[1];
  made.a.trial(trial.id).write_config(full_json(trial.config));
  fake_failed(made.a, trial, "no memory");
  const TrialFolder there = ResultStore(made.out).trial(trial.id);
  make_folders(attempt_folder(there.path(), 1));
  fs::copy(made.trial.checkpoint(1), there.checkpoint(1));
  CHECK(merge_results({made.a.out()}, made.out).copied == 1);
  CHECK(!there.result_text());
  CHECK(fs::exists(there.checkpoint(1)));
}

TEST_CASE("merge: an archive becomes a folder of results that verifies, and can be exported again") {
  for (const bool full : {true, false}) {
    const Archived made;
    made.write(full);
    const Merged merged = merge_results({made.archive.parent_path()}, made.out);
    CHECK(merged.copied == 3);
    CHECK(merged.timings == 1);
    CHECK(read_file(made.out / "bench" / "01-speed.bench.jsonl") == "{}\n");
    const ResultStore out(made.out);
    for (std::size_t t = 0; t < 3; ++t) {
      const std::string& id = made.experiment.trials[t].id;
      CHECK(out.trial(id).load_result() == made.trial(t).load_result());
      CHECK(export_line(out.trial(id), false) == export_line(made.trial(t), false));
      if (full) CHECK(export_line(out.trial(id), true) == export_line(made.trial(t), true));
    }
    CHECK(out.note("small/fixed", "lr.json") == made.a.note("small/fixed", "lr.json"));
    const FilesReport report = verify_files(out);
    CHECK(report.problems.empty());
    CHECK(report.removed == (full ? 1 : 2));
    // A curve completes a trial without one; no archive has the curve of a failed trial.
    const Merged again = merge_results({made.archive, made.a.out()}, made.out);
    CHECK(again.completed == (full ? 0 : 2));
    CHECK(again.there == (full ? 6 : 4));
    for (std::size_t t = 0; t < 3; ++t)
      CHECK(export_line(out.trial(made.experiment.trials[t].id), true) == export_line(made.trial(t), true));
  }
}

TEST_CASE("merge: an unsealed result of an archive stays unsealed") {
  const Archived made;
  const Trial& trial = made.experiment.trials[4];
  const TrialFolder unsealed = made.b.trial(trial.id);
  unsealed.write_config(full_json(trial.config));
  publish_unsealed(unsealed, fake_result(trial, TrialEnd::done, 0.5));
  make_folders(made.archive.parent_path());
  write_atomically(made.archive, export_line(unsealed, false));
  CHECK(merge_results({made.archive}, made.out).copied == 1);
  const std::optional<TrialResult> result = ResultStore(made.out).trial(trial.id).load_result();
  CHECK(!result->sealed);
  CHECK(result == unsealed.load_result());
}

TEST_CASE("merge: an archive that contradicts a folder is refused") {
  const Archived made;
  made.write(false);
  add_done(made.b, made.experiment.trials[0], 0.6);
  CHECK_THROWS_WITH_AS(merge_results({made.archive, made.b.out()}, made.out), doctest::Contains("a.jsonl:1 and "),
                       InputError);
  CHECK(!fs::exists(made.out));
  make_folders(made.a.out() / "bench");
  write_atomically(made.a.out() / "bench" / "01-speed.bench.jsonl", "[]\n");
  CHECK_THROWS_WITH_AS(
      merge_results({made.archive.parent_path(), made.a.out()}, made.out),
      doctest::Contains("are different timings of one claim; leave one of them out. Nothing was copied"), InputError);
}

TEST_CASE("merge: of equal trials in a folder of archives, one with a curve counts") {
  const Archived made;
  made.write(true);
  fs::rename(made.archive, made.archive.parent_path() / "b.jsonl");
  made.write(false);  // a.jsonl, which is read first
  const ResultStore both = ResultStore::exported(made.archive.parent_path());
  CHECK(read_result_metrics(both.trial(made.experiment.trials[0].id), *made.trial(0).load_result()).size() ==
        kFakeEvaluations);
}

TEST_CASE("merge: a folder that was being removed is not put back as a trial") {
  const TemporaryFolder folder;
  const ResultStore store(folder / "out");
  const std::string id(64, 'a');
  const fs::path trials = store.out() / "trials";
  const std::string of_dead = concat(".", host_name(), ".4194303.1.tmp"), former = concat(".", id, ".former", of_dead);
  fs::create_directories(trials / concat(".", former, of_dead));
  put_back_set_aside(store);
  CHECK(!fs::exists(trials / concat(".", id)));
  fs::create_directories(trials / former);
  put_back_set_aside(store);
  CHECK(fs::exists(trials / id));
}
