// The files of a sweep: verified, cleaned, damaged.
#include <doctest/doctest.h>

#include <fstream>
#include <map>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/base/child_process.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/end_states.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/cli/two_trials.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

struct Sweep {
  TemporaryFolder folder;
  std::string file = (folder / "small.json").string();
  ResultStore store{folder / "out"};
  Sweep() {
    std::ofstream(file) << kTwoTrials;
    const Finished done = run();
    REQUIRE_MESSAGE(done.code == 0, done.err);
  }
  Finished run(const std::string& more = "") const {
    return run_program(folder, "run " + file + " --out " + store.out().string() + " --threads 1 " + more);
  }
  Finished call(const std::string& words) const {
    return run_program(folder, words + " --out " + store.out().string());
  }
};

/// Trained once: for tests that put right what they change.
const Sweep& trained() {
  static const Sweep once;
  return once;
}

void flip(const fs::path& path, std::size_t from_end) {
  std::string bytes = read_file(path);
  bytes[bytes.size() - from_end] ^= 1;
  write_atomically(path, bytes);
}

std::string logs(const TrialFolder& trial) {
  std::string all;
  for (std::int64_t attempt = 1; attempt <= last_attempt(trial.path()); ++attempt) all += text_of(trial.log(attempt));
  return all;
}

}  // namespace

TEST_CASE("verify: a trial that is trained again has the same bits") {
  const Sweep& sweep = trained();
  const std::string id = sweep.store.trial_ids().front();
  const Finished same = sweep.call("verify " + id.substr(0, 10) + " --steps 100");
  CHECK_MESSAGE(same.code == 0, (same.out + same.err));
  CHECK(has(same.out, "from the initial values of seed"));
  CHECK(has(same.out, "2 states on record are bit-identical"));
  CHECK(has(same.out, "the result is bit-identical"));
  CHECK(run_program(sweep.folder, "verify " + sweep.store.trial(id).path().string()).code == 0);
}

TEST_CASE("verify: what names no trial is refused") {
  const Finished refused = trained().call("verify zzz");
  CHECK(refused.code == 2);
  CHECK(has(refused.err, "neither a trial's folder, which contains config.json, nor the beginning"));
}

TEST_CASE("verify: too few steps are refused with the number to take") {
  const std::string id = trained().store.trial_ids().front();
  const Finished refused = trained().call("verify " + id.substr(0, 10) + " --steps 10");
  CHECK(refused.code == 2);
  CHECK(has(refused.err, "use --steps 50"));
}

TEST_CASE("verify: a state that differs is named with step and tensor") {
  const Sweep& sweep = trained();
  const std::string id = sweep.store.trial_ids().front();
  const TrialFolder trial = sweep.store.trial(id);
  const fs::path states = attempt_folder(trial.path(), 1) / kStatesFile, result_file = trial.path() / "result.json";
  const std::string good = read_file(states), good_result = read_file(result_file), mark = "\"tensors\":\"";
  std::string text = good;
  char& digit = text[text.find(mark) + mark.size()];
  digit = digit == '0' ? '1' : '0';
  write_atomically(states, text);
  const Finished damaged = sweep.call("verify " + id.substr(0, 10));
  CHECK(damaged.code == 2);
  CHECK(has(damaged.err, states.string() + ": "));
  TrialResult result = *trial.load_result();
  result.files[kStatesFile] = seal_of_file(states);
  write_atomically(result_file, write_trial_result(result));
  const Finished other = sweep.call("verify " + id.substr(0, 10));
  write_atomically(states, good);
  write_atomically(result_file, good_result);
  CHECK(other.code == 1);
  CHECK_MESSAGE(has(other.out, "DIFFERENT at step 50: tensor "), other.out);
}

TEST_CASE("clean: checkpoints of finished trials are deleted only with --yes") {
  const Sweep sweep;
  const std::string table = sweep.call("table " + sweep.file).out;
  const auto checkpoints = [&] {
    int count = 0;
    for (const std::string& id : sweep.store.trial_ids()) count += fs::exists(sweep.store.trial(id).checkpoint(1));
    return count;
  };
  CHECK(sweep.run("--set seeds=3 --max-trials 0").code == 0);
  CHECK(checkpoints() == 3);
  const Finished said = sweep.call("clean " + sweep.file);
  std::uintmax_t bytes = 0;
  for (const std::string& id : sweep.store.trial_ids())
    if (const fs::path file = sweep.store.trial(id).checkpoint(1); has(said.out, file.string()))
      bytes += fs::file_size(file);
  CHECK(said.code == 0);
  CHECK_MESSAGE(has(said.out, std::to_string(bytes) + " bytes in 2 files of 2 finished trials would be deleted"),
                said.out);
  CHECK(has(said.out, "add --yes"));
  CHECK(checkpoints() == 3);
  CHECK(has(sweep.call("clean " + sweep.file + " --keep last").out, "0 bytes"));
  const TrialFolder weights = sweep.store.trial(sweep.store.trial_ids()[0]);
  CHECK(sweep.call("clean " + sweep.file + " --keep weights --yes").code == 0);
  CHECK(checkpoints() == 1);
  // The third trial has no result any more: its checkpoint stays.
  for (const std::string& id : sweep.store.trial_ids())
    if (fs::exists(sweep.store.trial(id).checkpoint(1))) fs::remove(sweep.store.trial(id).path() / "result.json");
  CHECK(sweep.call("clean --yes").code == 0);
  CHECK(checkpoints() == 1);
  CHECK(sweep.call("table " + sweep.file).out == table);
}

TEST_CASE("clean: what an ended merge left is deleted with --yes, and what a living one makes is not") {
  const TemporaryFolder folder;
  const fs::path trials = folder / "r" / "trials", living = temporary_name(trials / "0123");
  const pid_t ended = start_child([] { return 0; });
  wait_for_child(ended);
  std::string name = living.string();
  const std::string own = concat('.', getpid(), '.');
  const fs::path part = name.replace(name.rfind(own), own.size(), concat('.', ended, '.'));
  for (const fs::path& path : {part, living}) {
    fs::create_directories(path / "attempt-1");
    write_atomically(path / "attempt-1" / "log", "12345");
  }
  const std::string out = " --out '" + (folder / "r").string() + "'";
  const Finished said = run_program(folder, "clean" + out);
  CHECK_MESSAGE(has(said.out, "attempt-1/log\n5 bytes in 1 file of 0 finished trials would be deleted"), said.out);
  CHECK(fs::exists(part));
  CHECK(run_program(folder, "clean --yes" + out).code == 0);
  CHECK(list_folder(trials) == std::vector{living});
  CHECK(fs::exists(living / "attempt-1" / "log"));
}

TEST_CASE("run: a deleted config.json is written again") {
  const Sweep& sweep = trained();
  const fs::path config = sweep.store.trial(sweep.store.trial_ids().front()).path() / "config.json";
  const std::string text = read_file(config);
  fs::remove(config);
  const Finished table = run_program(sweep.folder, "table " + sweep.store.out().string());
  CHECK(table.code == 2);
  CHECK_MESSAGE(has(table.out + table.err, "config.json: is missing"), (table.out + table.err));
  CHECK(sweep.run().code == 0);
  CHECK(read_file(config) == text);
}

TEST_CASE("clean: a call with neither descriptor nor --out is refused") {
  CHECK(run_program(trained().folder, "clean").code == 2);
}

TEST_CASE("program: a result of a newer schema is refused and kept") {
  const Sweep& sweep = trained();
  const auto path = sweep.store.trial(sweep.store.trial_ids().front()).path() / "result.json";
  const std::string good = read_file(path);
  std::string newer = good;
  newer.replace(newer.find("\"schema\": 2"), 11, "\"schema\": 9");
  write_atomically(path, newer);
  const Finished refused = sweep.run();
  const std::string left = read_file(path);
  write_atomically(path, good);
  CHECK(refused.code == 2);
  CHECK_MESSAGE(has(refused.err, "written with schema 9, this program reads 1 and 2; use the program that wrote it"),
                refused.err);
  CHECK(left == newer);
}

TEST_CASE("program: a damaged result is refused until it is deleted") {
  const Sweep sweep;
  const auto undisturbed = end_states(sweep.folder / "out");
  const auto path = sweep.store.trial(sweep.store.trial_ids().front()).path() / "result.json";
  const std::string good = read_file(path);
  write_atomically(path, good.substr(0, good.size() / 2));
  const Finished refused = sweep.run();
  CHECK(refused.code == 2);
  CHECK_MESSAGE(has(refused.err, path.string()), refused.err);
  CHECK_MESSAGE(has(refused.err, "delete this file and start the same command again"), refused.err);
  fs::remove(path);
  CHECK(sweep.run().code == 0);
  CHECK(end_states(sweep.folder / "out") == undisturbed);
}

TEST_CASE("program: a damaged checkpoint or metrics file changes no bit of the result") {
  const Sweep sweep;
  const auto undisturbed = end_states(sweep.folder / "out");
  for (const bool metrics : {false, true}) {
    CAPTURE(metrics);
    const TrialFolder trial = sweep.store.trial(sweep.store.trial_ids()[metrics ? 1 : 0]);
    fs::remove(trial.path() / "result.json");
    flip(metrics ? trial.metrics(1) : trial.checkpoint(1), 4);  // the last bytes of a tensor, of a line
    const Finished again = sweep.run();
    CHECK_MESSAGE(again.code == 0, again.err);
    CHECK_MESSAGE(has(logs(trial),
                      metrics ? "is damaged: the SHA-256 of its first " : "is damaged: the SHA-256 of its tensors is "),
                  logs(trial));
    CHECK(trial.load_result()->resumed == 0);
  }
  CHECK(end_states(sweep.folder / "out") == undisturbed);
}

TEST_CASE("program: --tensorboard writes event files into its folder") {
  const TemporaryFolder folder;
  std::ofstream(folder / "small.json") << kTwoTrials;
  const Finished done =
      run_program(folder, "run " + (folder / "small.json").string() + " --out " + (folder / "out").string() +
                              " --tensorboard " + (folder / "tb").string());
  CHECK_MESSAGE(done.code == 0, done.err);
  const auto files = [&](const char* below) {
    std::map<std::string, std::string> texts;
    for (const auto& entry : fs::recursive_directory_iterator(folder / below))
      if (entry.is_regular_file()) texts[entry.path().lexically_relative(folder / below)] = read_file(entry.path());
    return texts;
  };
  const auto written = files("tb");
  CHECK(written.size() == 2);
  for (const auto& [name, text] : written) CHECK(has(text, "minival/accuracy"));
  // Trials that are finished already get the same files, but for the times of the events.
  const Finished again =
      run_program(folder, "run " + (folder / "small.json").string() + " --out " + (folder / "out").string() +
                              " --tensorboard " + (folder / "later").string());
  CHECK_MESSAGE(again.code == 0, again.err);
  for (const auto& [name, text] : files("later")) {
    REQUIRE(written.contains(name));
    CHECK(text.size() == written.at(name).size());
  }
  CHECK(files("later").size() == 2);
}

TEST_CASE("program: a refused run does not change the plan") {
  const Sweep& sweep = trained();
  const std::string plan = text_of(sweep.store.out() / "experiments" / "small" / "plan.json");
  const Finished refused = sweep.run("--set train.batch_size=1 --set train.precision=tf32");
  CHECK(refused.code == 3);  // this processor has no TF32
  CHECK_MESSAGE(has(refused.err, "tf32"), refused.err);
  CHECK(text_of(sweep.store.out() / "experiments" / "small" / "plan.json") == plan);
}
