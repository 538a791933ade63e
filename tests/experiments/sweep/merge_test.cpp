#include "experiments/sweep/merge.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include "experiments/base/files.h"
#include "experiments/base/strict_json.h"
#include "experiments/descriptor/canonical.h"
#include "experiments/results/exported.h"
#include "experiments/results/trial_files.h"
#include "experiments/sweep/verify_files.h"
#include "tests/experiments/report/fake_results.h"
#include "tests/experiments/results/unsealed_result.h"

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
    lines += export_note(a, "small/fixed", "lr.json");
    make_folders(archive.parent_path());
    write_atomically(archive, lines);
    write_atomically(archive.parent_path() / "01-speed.bench.jsonl", "{}\n");
  }
};

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
  CHECK(merge_results({made.folder / "b"}, made.folder / "a").copied == 1);
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
    write_atomically(archives / (mine + ".jsonl"), export_line(store->trial(store->trial_ids()[0]), false) +
                                                       export_note(*store, "small/tabled", name));
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

TEST_CASE("merge: what an interrupted merge left is no trial, and the next one finishes") {
  const TwoFolders made;
  const std::string& id = made.experiment.trials[0].id;
  add_done(made.a, made.experiment.trials[0], 0.5);
  const fs::path part = made.out / "trials" / concat(".", id, ".tmp");
  make_folders(part);
  write_atomically(part / "config.json", "{");
  CHECK(ResultStore(made.out).trial_ids().empty());
  CHECK(merge_results({made.folder / "a"}, made.out).copied == 1);
  CHECK(!fs::exists(part));
  CHECK(ResultStore(made.out).finished(id));
}

TEST_CASE("merge: a merge that fails leaves no part of a trial") {
  const TwoFolders made;
  add_done(made.a, made.experiment.trials[0], 0.5);
  const fs::path trial = made.a.trial(made.experiment.trials[0].id).path();
  REQUIRE(mkfifo((trial / "pipe").c_str(), 0600) == 0);  // which cannot be copied
  CHECK_THROWS_WITH_AS(merge_results({made.folder / "a"}, made.out), doctest::Contains("cannot be written"),
                       EnvironmentError);
  CHECK(list_folder(made.out / "trials").empty());
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
    // A result with a curve replaces one without; no archive has the curve of a failed trial.
    CHECK(merge_results({made.archive, made.a.out()}, made.out).there == (full ? 5 : 3));
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
