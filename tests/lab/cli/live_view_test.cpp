// Progress of a run: on a terminal, for programs, and from other shells.
#include <doctest/doctest.h>
#include <fcntl.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/experiment.h"
#include "tests/lab/cli/on_terminal.h"
#include "tests/lab/cli/small_sweep.h"

using namespace normlab;
using nlohmann::json;

namespace {

std::size_t widest(const std::vector<std::string>& lines) {
  std::size_t width = 0;
  for (const std::string& line : lines)
    if (line.find('|') != std::string::npos) width = std::max(width, display_width(line));
  return width;
}

}  // namespace

TEST_CASE("live view: each worker's line fits the terminal") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder, "--set train.epochs=3000");
  OnTerminal run("run " + file + " --out " + in_folder(folder, "r") + " --workers 3 --threads 1", 70, 20);
  const ResultStore store(folder / "r");
  std::string seen;
  REQUIRE(comes_true([&] {
    seen += run.read_for(300);
    return seen.find("loss") != std::string::npos;
  }));
  const std::array parts{
      "\x1b[4A\r\x1b[J",  // up over four lines, and anew
      "0/4 done | ",     "  pre_pre, seed 0 | step ", "  bn_ffnbn, seed 0 | step ", " img/s", " left"};
  seen = run.read_for(1500);
  const bool all_shown = comes_true([&] {  // a worker may begin late on a busy machine
    const auto shown = [&](const char* part) { return seen.find(part) != std::string::npos; };
    if (std::all_of(parts.begin(), parts.end(), shown)) return true;
    seen += run.read_for(300);
    return false;
  });
  CHECK_MESSAGE(all_shown, seen);
  const auto wide = plain_lines(seen);
  CHECK(widest(wide) <= 69);
  CHECK(widest(wide) > 39);
  run.resize(40, 20);
  run.read_for(600);
  const auto narrow = plain_lines(run.read_for(1000));
  CHECK(widest(narrow) <= 39);
  CHECK(widest(narrow) > 20);
  run.resize(40, 3);  // room for two lines and the cursor
  run.read_for(600);
  CHECK(run.read_for(800).find("... and 3 more") != std::string::npos);
  run.signal(SIGTERM);
  std::string end;
  for (std::string more = "x"; !more.empty(); end += more) more = run.read_for(2000);
  CHECK(run.wait() == 128 + SIGTERM);
  CHECK(end.find("stopping: each trial writes a checkpoint") != std::string::npos);
}

TEST_CASE("live view: status shows running trials from another shell") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder, "--set train.epochs=3000");
  const std::string out = " --out " + in_folder(folder, "r");
  const Finished before = run_program(folder, "status " + file + out);
  CHECK(before.code == 0);
  CHECK(before.out == "small: 4 trials: 4 missing\n");
  const Program run(folder, "run " + file + out + " --workers 2 --threads 1");
  json found;
  REQUIRE(comes_true([&] {
    found = json::parse(run_program(folder, "status " + file + out + " --format json").out);
    return found["trials"][0].contains("step") && found["trials"][1].contains("step");
  }));
  CHECK(found["counts"] == json{{"running", 2}, {"missing", 2}});
  CHECK(found["seconds_left"].is_number());
  const json& trial = found["trials"][0];
  CHECK(trial["state"] == "running");
  CHECK(trial["label"] == "pre_pre, seed 0");
  CHECK(trial["steps"] == 30000);
  CHECK(trial["step"].get<int>() > 0);
  CHECK(trial["progress"].get<double>() > 0);
  CHECK(trial["images_per_second"].get<double>() > 0);
  CHECK(trial["seconds_left"].get<double>() > 0);
  CHECK(trial["loss"].is_number());
  CHECK(trial["data_share"].get<double>() > 0);
  CHECK(trial["data_share"].get<double>() < 1);
  CHECK(trial["lease_seconds"] == 60);
  CHECK(trial["heartbeat_age_seconds"].get<double>() < 30);
  const auto workers = children_of(run.pid());
  CHECK(std::count(workers.begin(), workers.end(), trial["pid"].get<pid_t>()) == 1);
  const Finished text = run_program(folder, "status " + file + out);
  CHECK_MESSAGE(text.out.find("2 missing, 2 running; ") != std::string::npos, text.out);
  CHECK_MESSAGE(text.out.find("/30000") != std::string::npos, text.out);
  CHECK_MESSAGE(text.out.find(":" + std::to_string(trial["pid"].get<int>())) != std::string::npos, text.out);
  CHECK(text.out.find("bn_ffnbn, seed 0") == std::string::npos);
  for (const std::string& line : plain_lines(text.out)) CHECK(display_width(line) <= 80);
  CHECK(run_program(folder, "status " + file + out + " --all").out.find("bn_ffnbn, seed 0") != std::string::npos);
  run.signal_one(SIGTERM);
  run.wait();
  const Finished stopped = run_program(folder, "status " + file + out);
  CHECK_MESSAGE(stopped.out.find("2 missing, 2 stopped") != std::string::npos, stopped.out);
}

TEST_CASE("live view: status says when a trial is bound by its images") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder), out = " --out " + in_folder(folder, "r");
  const TrialFolder trial = ResultStore(folder / "r").trial(load_experiment(file).trials[0].id);
  make_folders(trial.path());
  const auto claim = trial.claim(1, std::nullopt);
  REQUIRE(claim);
  const auto status = [&](const LeaseNote& note, const std::string& options = "") {
    claim->note(note);
    REQUIRE(comes_true([&] {
      const auto lease = read_lease(claim->attempt_folder());
      return lease && lease->note.step == note.step;
    }));
    return run_program(folder, "status " + file + out + options, "export COLUMNS=120; ").out;
  };
  const auto has = [](const std::string& text, const std::string& what) {
    return text.find(what) != std::string::npos;
  };
  LeaseNote note{.step = 1, .steps = 9, .images_per_second = 5, .loss = 1.0, .data_share = 0.342, .data_threads = 1};
  const std::string waits = status(note);
  CHECK_MESSAGE(has(waits, "\n  waits 34% of its time for images: if cores are free, use --data-threads 2\n"), waits);
  note.step = 2, note.data_threads = 0;
  const std::string makes = status(note);
  CHECK_MESSAGE(has(makes, "\n  spends 34% of its time making images: if cores are free, --data-threads 1 "), makes);
  CHECK(json::parse(status(note, " --format json"))["trials"][0]["data_share"] == 0.342);
  note.step = 3, note.data_share = 0.1;
  CHECK(!has(status(note), "images"));
  note.step = 4, note.data_share = std::nullopt;
  CHECK(!has(status(note), "images"));
  CHECK(!json::parse(status(note, " --format json"))["trials"][0].contains("data_share"));
}

TEST_CASE("live view: --json-progress writes one object per line") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder, "--set train.epochs=60 --set seeds=1");
  const auto check = [](const std::string& text) {
    std::map<std::string, int> events;
    for (const std::string& line : plain_lines(text)) {
      if (line.empty()) continue;
      const json object = json::parse(line);
      ++events[object.at("event")];
      CHECK(object.at("time").is_string());
      if (object.at("event") != "progress") continue;
      for (const char* key : {"trial", "label", "worker", "step", "steps", "images_per_second", "loss", "seconds_left"})
        CHECK_MESSAGE(object.contains(key), key);
    }
    CHECK(events["begin"] == 1);
    CHECK(events["progress"] >= 2);
    CHECK(events["sweep"] >= 1);
    CHECK(events["trial"] == 2);
    CHECK(events["end"] == 1);
  };
  const std::string arguments = "run " + file + " --workers 2 --threads 1 --out " + in_folder(folder, "a");
  const Finished to_file = run_program(folder, arguments + " --json-progress " + in_folder(folder, "p.jsonl"));
  CHECK(to_file.code == 0);
  CHECK(to_file.err.find("2 of 2 trials done") != std::string::npos);
  check(text_of(folder / "p.jsonl"));
  const Finished to_error =
      run_program(folder, "run " + file + " --workers 2 --threads 1 --json-progress - --out " + in_folder(folder, "b"));
  CHECK(to_error.code == 0);
  check(to_error.err);
}

TEST_CASE("live view: a --json-progress file that cannot be opened ends with 3") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder, "--set train.epochs=60 --set seeds=1");
  CHECK(run_program(folder, "run " + file + " --out " + in_folder(folder, "c") + " --json-progress " +
                                in_folder(folder, "small.json/p"))
            .code == 3);
}
