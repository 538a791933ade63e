#include "experiments/lab/trials/exported.h"

#include <doctest/doctest.h>
#include <sys/stat.h>

#include <nlohmann/json.hpp>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/trials/trial_files.h"
#include "tests/lab/base/text.h"
#include "tests/lab/pictures/fake_results.h"
#include "tests/lab/trials/unsealed_result.h"

using namespace normlab;
using Json = nlohmann::ordered_json;

namespace {

const char* const kFiveTrials = R"({
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
  "train": {"epochs": 4, "batch_size": 20},
  "seeds": 5
})";

/// Trials that are done with seals of their files, done without seals, diverged, failed, and missing.
struct FiveTrials {
  TemporaryFolder folder;
  Experiment experiment = experiment_of(folder, kFiveTrials);
  ResultStore store{folder / "out"};
  std::filesystem::path file = folder / "five.jsonl";
  std::string sealed, unsealed, diverged, failed;  // lines

  FiveTrials() {
    for (std::size_t t = 0; t < 4; ++t) trial(t).write_config(full_json(experiment.trials[t].config));
    for (const std::size_t t : {0, 1}) fake_metrics(store, experiment.trials[t], 0.5);
    TrialResult result = fake_result(experiment.trials[0], TrialEnd::done, 0.5);
    result.files["metrics.jsonl"] = seal_of_file(trial(0).metrics(1));
    trial(0).publish_result(result);
    publish_unsealed(trial(1), fake_result(experiment.trials[1], TrialEnd::done, 0.5));
    fake_diverged(store, experiment.trials[2], 25);
    fake_failed(store, experiment.trials[3], "no memory");
    sealed = export_line(trial(0), true);
    unsealed = export_line(trial(1), true);
    diverged = export_line(trial(2), true);
    failed = export_line(trial(3), true);
  }
  TrialFolder trial(std::size_t t) const { return store.trial(experiment.trials[t].id); }

  std::map<std::string, ExportedTrial> read(const std::string& text) const {
    write_atomically(file, text);
    return read_export(file).trials;
  }
  /// Why the file is refused, without its name; "" where it is taken.
  std::string refused(const std::string& text) const {
    try {
      read(text);
    } catch (const InputError& error) {
      const std::string what = error.what(), name = file.string();
      REQUIRE_MESSAGE(what.starts_with(name), what);
      return what.substr(name.size());
    }
    return "";
  }
};

/// The line with a member, named by its JSON pointer, that has another value; `seal`: under a seal that fits.
std::string changed(const std::string& line, const std::string& pointer, const Json& value, bool seal = false) {
  Json json = Json::parse(line);
  json[Json::json_pointer(pointer)] = value;
  if (seal) {
    json.erase("sha256");
    seal_json(json);
  }
  return json.dump() + "\n";
}

/// A line of another program.
std::string line_of_a_twin() {
  Json twin{{"schema", 1}, {"program", "a twin"}, {"seed", 0}, {"test_accuracy", 0.99}};
  seal_json(twin);
  return twin.dump() + "\n";
}

/// Trials with a note on the number of seeds of a table.
struct NotedTrials : FiveTrials {
  std::string note;  // its line

  NotedTrials() {
    const auto notes = store.out() / "experiments/small/tabled";
    make_folders(notes);
    write_atomically(notes / "seeds-3.json", write_note({{"seeds", 3}, {"by_rule", false}}));
    note = export_note("small/tabled", "seeds-3.json", store.note("small/tabled", "seeds-3.json"));
  }
};

}  // namespace

TEST_CASE("exported: a file reads back by the ids of its trials") {
  const FiveTrials five;
  const auto trials = five.read(five.sealed + five.unsealed + five.diverged + five.failed);
  CHECK(trials.size() == 4);
  const ResultStore store = ResultStore::exported(five.file);
  for (std::size_t t = 0; t < 5; ++t) {
    CAPTURE(t);
    const TrialFolder there = five.trial(t), here = store.trial(five.experiment.trials[t].id);
    CHECK(here.status().state == there.status().state);
    CHECK(here.status().message == there.status().message);
    const auto result = here.load_result();
    CHECK(result.has_value() == (t < 4));
    if (result && result->status != TrialEnd::diverged) CHECK(result == there.load_result());
    if (result && result->status == TrialEnd::done)
      CHECK(read_result_metrics(here, *result) == read_result_metrics(there, *there.load_result()));
  }
  const ExportedTrial& diverged = trials.at(five.experiment.trials[2].id);
  CHECK(diverged.where == five.file.string() + ":3");
  CHECK(diverged.result->diverged_step == 25);
  CHECK(std::isnan(diverged.metrics->back().values.at("train/loss")));
  CHECK(!trials.at(five.experiment.trials[1].id).result->sealed);
  CHECK(!std::filesystem::exists(five.file.string() + "/" + five.experiment.trials[4].id));
}

TEST_CASE("exported: an anonymous line names neither host nor folders") {
  const FiveTrials five;
  TrialResult result = *five.trial(0).load_result();
  result.provenance["host"] = "ada-laptop";
  result.provenance["data"] = "WebDataset, /home/ada, sets/my cifar10, train: 9 of 9 images";
  result.bad_images = {"/home/ada/my cats/1.jpg: is damaged: a/b", "/home/ada/2.jpg: is empty"};
  result.message = "the network read /home/ada/w.safetensors: it diverged";
  const TrialFolder trial = five.trial(4);
  trial.write_config(full_json(five.experiment.trials[4].config));
  result.id = five.experiment.trials[4].id;
  result.seed = 4;
  result.files.clear();
  trial.publish_result(result);
  for (const bool anonymous : {false, true}) {
    const std::string line = export_line(trial, false, anonymous);
    CHECK(has(line, "/home/ada") != anonymous);
    const TrialResult read = *five.read(line).at(result.id).result;
    CHECK(read.provenance.at("host") == (anonymous ? "anonymous" : "ada-laptop"));
    CHECK(has(read.provenance.at("data"), anonymous ? "WebDataset, DATA/my cifar10, train: 9" : "/home/ada, sets/my"));
    CHECK(read.metrics == result.metrics);
    if (!anonymous) continue;
    CHECK(read.bad_images == std::vector<std::string>{"DATA/1.jpg: is damaged: a/b", "DATA/2.jpg: is empty"});
    CHECK(read.message == "the network read DATA/w.safetensors: it diverged");
  }
  CHECK(export_line(five.trial(1), true, true) == five.unsealed);
  CHECK(export_line(five.trial(3), true, true) == five.failed);
}

TEST_CASE("exported: an anonymous line names no folder of data below the current one") {
  const FiveTrials five;
  TrialResult result = *five.trial(0).load_result();
  result.provenance["data"] =
      "image folder, home/ada/my pets/train, train: 12 of 14 images, images differ in size: home/ada/my "
      "pets/train/cat/1.png is 41x40 pixels, home/ada/my pets/train/cat/0.png is 40x40, libpng 1.6.39";
  result.bad_images = {"val dog/2.png: home/ada/my pets/val/dog/2.png: is empty"};
  result.message = "home/ada/my pets/val/dog/3.png: is damaged";
  const TrialFolder trial = five.trial(4);
  trial.write_config(full_json(five.experiment.trials[4].config));
  result.id = five.experiment.trials[4].id;
  result.seed = 4;
  result.files.clear();
  trial.publish_result(result);
  const std::string line = export_line(trial, false, true);
  CHECK(!has(line, "home/ada"));
  const TrialResult read = *five.read(line).at(result.id).result;
  CHECK(
      read.provenance.at("data") ==
      "image folder, DATA/train, train: 12 of 14 images, images differ in size: DATA/train/cat/1.png is 41x40 pixels, "
      "DATA/train/cat/0.png is 40x40, libpng 1.6.39");
  CHECK(read.bad_images == std::vector<std::string>{"val dog/2.png: DATA/val/dog/2.png: is empty"});
  CHECK(read.message == "DATA/val/dog/3.png: is damaged");
}

TEST_CASE("exported: a file without curves is refused where curves are needed") {
  const FiveTrials five;
  const std::string id = five.experiment.trials[0].id;
  five.read(export_line(five.trial(0), false));
  const ResultStore store = ResultStore::exported(five.file);
  const TrialFolder trial = store.trial(id);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_result_metrics(trial, *trial.load_result())),
                       doctest::Contains(":1: has no curve"), InputError);
  CHECK_THROWS_WITH_AS(static_cast<void>(read_result_correctness(trial, *trial.load_result())),
                       doctest::Contains("--bootstrap needs to know"), InputError);
}

TEST_CASE("exported: a changed value is refused with its line and place") {
  const FiveTrials five;
  for (const std::string* line : {&five.sealed, &five.unsealed}) {
    const bool sealed = line == &five.sealed;
    const auto says = [&](const std::string& pointer, const Json& value, const std::string& part) {
      CAPTURE(pointer);
      const std::string why = five.refused(five.diverged + changed(*line, pointer, value));
      CHECK_MESSAGE(why.starts_with(":2: "), why);
      CHECK_MESSAGE(has(why, part), why);
      CHECK_MESSAGE(has(why, "; no trial of this file is shown; write it again"), why);
    };
    says("/trial", "abc", "/config: is damaged: it holds the settings of trial ");
    says("/config/train/optimizer/lr", 0.5, "/config: is damaged: it holds the settings of trial ");
    says("/result/metrics/eval~1accuracy", 0.6,
         sealed ? "/result: is damaged: the SHA-256 of the rest of it is " : "0.6 here, 0.5 in the last line there");
    says("/result/metrics/eval~1accuracy", 1.5, "/result: \"metrics\": eval/accuracy: 1.5 is not an accuracy");
    says("/result/wall_seconds", 13.5, "is damaged: the SHA-256 of the rest of it is ");
    says("/result/seed", 7, "/result: is damaged");
    says("/result/id", std::string(64, 'a'), "/result: ");
    says("/metrics/4/eval~1accuracy", 0.6,
         "/metrics, so one of them is damaged: eval/accuracy 0.5 here, 0.6 in the last line there");
    says("/metrics/1/train~1loss", 0.25,
         sealed ? "/metrics: is damaged: has the SHA-256 " : ": is damaged: the SHA-256 of the rest of it is ");
    says("/metrics/3/step", 1, "/metrics/3: step 1 comes after step 30");
    says("/metrics/2/step", "x", "/metrics/2: \"step\": expected an integer");
    says("/sha256", std::string(64, '0'), ": is damaged: the SHA-256 of the rest of it is ");
  }
}

TEST_CASE("exported: a fitting seal does not make a damaged trial valid") {
  const FiveTrials five;
  const auto says = [&](const std::string& pointer, const Json& value, const std::string& part) {
    CAPTURE(pointer);
    CHECK_MESSAGE(has(five.refused(changed(five.unsealed, pointer, value, true)), part),
                  five.refused(changed(five.unsealed, pointer, value, true)));
  };
  says("/schema", 2, ":1: written with schema 2, this program reads 1; use the program that wrote it, or a newer one");
  says("/schema", "1", ":1: \"schema\": expected a non-negative integer");
  says("/result/schema", 9, ":1: /result: written with schema 9");
  says("/result/metrics/eval~1accuracy", nullptr, "/result: \"metrics\": \"eval/accuracy\": expected a number");
  says("/result/metrics", 5, "/result: \"metrics\": expected an object");
  says("/result/seed", 4, "/result: is damaged: seed 4 here, but 1 in /config");
  says("/result", "no", ":1: /result: expected an object");
  says("/config", 3, ":1: /config");
  says("/config/train", 3, ":1: /config");
  says("/metrics", 3, ":1: /metrics: expected a list");
  says("/metrics", Json::array(),
       "/metrics, so one of them is damaged: 50 steps here, the last line is of step 0 there");
  says("/more", 3, ":1: \"more\": unknown key");
}

TEST_CASE("exported: a change of any byte that changes a value is refused") {
  const FiveTrials five;
  for (const std::string* line : {&five.sealed, &five.unsealed})
    for (std::size_t at = 0; at < line->size(); ++at) {
      std::string bytes = *line;
      bytes[at] ^= 1;
      // The last digit of a number may say the same number.
      CHECK_MESSAGE((!five.refused(bytes).empty() || Json::parse(bytes) == Json::parse(*line)),
                    ("byte " + std::to_string(at)));
    }
}

TEST_CASE("exported: a damaged text is refused with its line") {
  const FiveTrials five;
  const std::string& line = five.sealed;
  const auto says = [&](const std::string& text, const std::string& part) {
    const std::string why = five.refused(text);
    CHECK_MESSAGE(has(why, part), why);
  };
  says("", ": holds no trials, it is empty");
  says("\n", ":1: byte 0: not valid JSON");
  says(line + "\n" + five.failed, ":2: byte 0: not valid JSON");
  says(line + five.failed.substr(0, 100), ":2: the last line is incomplete; the file is truncated");
  says(line.substr(0, line.size() - 1), ":1: the last line is incomplete");
  says(line.substr(0, 100) + "\n" + five.failed, ":1: byte 100: not valid JSON");
  says(line + five.diverged + line, ":3: trial " + five.experiment.trials[0].id + ", which ");
  says(std::string(line).insert(1, "\"schema\":1,"), ":1: duplicate key \"schema\"");
  says(std::string(line).insert(line.find("2.48") + 1, 1, '\0'), "a NUL byte");
  says(std::string(line).replace(line.find("\"wall_seconds\":12.5") + 15, 4, "NaN"), "not valid JSON");
  says(std::string(line).replace(line.find("\"wall_seconds\":12.5") + 15, 4, "1e999"), "not valid JSON");
  says("[" + line.substr(0, line.size() - 1) + "]\n", ":1: expected an object, found array");
  says(line + std::string(100'000'000, '1') + "\n", ":2: has 100000000 bytes; the limit for a line is ");
  says(line + std::string(20'000'000, '[') + "\n", ":2: nested too deeply");
  says("normlab correct 1 10 h\n", ":1: byte 1: not valid JSON");
}

TEST_CASE("exported: a path that is no regular file is refused") {
  const FiveTrials five;
  const auto no_file = [&](const std::filesystem::path& path, const std::string& part) {
    CHECK_THROWS_WITH_AS(read_export(path), doctest::Contains(part.c_str()), InputError);
  };
  no_file(five.folder.path(), "cannot be read: it is a folder, not a regular file");
  REQUIRE(mkfifo((five.folder / "pipe").c_str(), 0600) == 0);
  no_file(five.folder / "pipe", "cannot be read: it is a pipe, not a regular file");
  no_file(five.folder / "nothing", "cannot be read: No such file");
}

TEST_CASE("exported: lines of other programs are passed over") {
  const FiveTrials five;
  const std::string line = line_of_a_twin();
  CHECK(five.read(line + five.sealed + line).size() == 1);
  CHECK(has(five.refused(line), ": holds no trials of normlab"));
}

TEST_CASE("exported: lines of other programs are sealed") {
  const FiveTrials five;
  CHECK(has(five.refused(five.sealed + changed(line_of_a_twin(), "/test_accuracy", 0.98)),
            ":2: is damaged: the SHA-256"));
  CHECK(has(five.refused(changed(five.sealed, "/program", "a twin")), ":1: is damaged: the SHA-256"));
}

TEST_CASE("exported: a trial whose curve is damaged or missing is not written") {
  const FiveTrials five;
  const auto metrics = five.trial(0).metrics(1);
  const std::string good = read_file(metrics);
  write_atomically(metrics, good.substr(0, good.size() / 2) + good.substr(good.size() / 2 + 1));
  CHECK_THROWS_WITH_AS(export_line(five.trial(0), true), doctest::Contains(metrics.c_str()), InputError);
  remove_file(metrics);
  CHECK_THROWS_WITH_AS(export_line(five.trial(0), true), doctest::Contains(": does not exist"), InputError);
}

TEST_CASE("exported: a trial without a result is not written") {
  const FiveTrials five;
  CHECK_THROWS_WITH_AS(export_line(five.trial(4), true), doctest::Contains("the trial has no result"), InputError);
}

TEST_CASE("exported: a trial with the settings of another is not written") {
  const FiveTrials five;
  write_atomically(five.trial(1).path() / "config.json", full_json(five.experiment.trials[2].config));
  CHECK_THROWS_AS(export_line(five.trial(1), true), InputError);
}

TEST_CASE("exported: the notes of an experiment are exported with its trials") {
  const NotedTrials five;
  CHECK(five.store.note_names("small/tabled") == std::vector<std::string>{"seeds-3.json"});
  five.read(five.sealed + five.note);
  const ResultStore store = ResultStore::exported(five.file);
  CHECK(store.note_names("small/tabled") == five.store.note_names("small/tabled"));
  CHECK(store.note("small/tabled", "seeds-3.json") == five.store.note("small/tabled", "seeds-3.json"));
  CHECK(store.note("small/tabled", "seeds-4.json").is_null());
  CHECK(store.note_names("small/fixed").empty());
}

TEST_CASE("exported: a note that is damaged, doubled or without trials is refused") {
  const NotedTrials five;
  CHECK(has(five.refused(five.sealed + changed(five.note, "/content/seeds", 2, true)),
            ":2: /content: is damaged: the SHA-256"));
  CHECK(has(five.refused(five.sealed + changed(five.note, "/note", "seeds-4.json")), ":2: is damaged: the SHA-256"));
  CHECK(has(five.refused(five.sealed + five.note + five.note), ":3: note \"seeds-3.json\" appears again"));
  CHECK(has(five.refused(five.note), ": holds no trials of normlab"));
  for (const char* folder : {"../fixed", "small/..", "small/fixed/..", "/fixed", "small/", ""})
    CHECK(has(five.refused(five.sealed + changed(five.note, "/folder", folder, true)), "is not a plain name"));
  CHECK(has(five.refused(five.sealed + changed(five.note, "/note", "../seeds.json", true)),
            ":2: /note: \"../seeds.json\" is not a plain name"));
}
