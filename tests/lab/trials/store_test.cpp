#include "experiments/lab/trials/store.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <fstream>
#include <set>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/trials/metrics_log.h"
#include "tests/lab/base/child_process.h"
#include "tests/lab/base/save_safetensors.h"
#include "tests/lab/base/temporary_folder.h"

using namespace normlab;

namespace {

TrialResult result_of(const std::string& id, TrialEnd status = TrialEnd::done) {
  TrialResult result;
  result.id = id;
  result.status = status;
  if (status == TrialEnd::diverged) result.diverged_step = 3;
  return result;
}

std::string text_in(const std::filesystem::path& path) { return read_file(path); }

void append_steps(const std::filesystem::path& path, int first, int last) {
  MetricsLog log(path);
  for (int step = first; step <= last; ++step) log.append({.step = step, .progress = step / 10.0, .values = {}});
}

}  // namespace

TEST_CASE("store: the first config of a trial stays") {
  const TemporaryFolder folder;
  const ResultStore store(folder / "out");
  CHECK(store.trial_ids().empty());
  const TrialFolder trial = store.trial("a1");
  trial.write_config("{}");
  trial.write_config("{\"other\":1}");
  CHECK(trial.read_config() == "{}");
  CHECK(store.trial_ids() == std::vector<std::string>{"a1"});
}

TEST_CASE("store: the last plan of an experiment stays") {
  const TemporaryFolder folder;
  const ResultStore store(folder / "out");
  store.write_plan("placements", "[1]");
  store.write_plan("placements", "[2]");
  CHECK(text_in(folder / "out/experiments/placements/plan.json") == "[2]");
  CHECK(store.trial_ids().empty());
}

TEST_CASE("store: a name that leads out of the folder is refused") {
  const TemporaryFolder folder;
  const ResultStore store(folder / "out");
  for (const char* name : {"", ".", "..", "../x", "/x", "a/b"}) {
    CHECK_THROWS_AS(store.trial(name), InputError);
    CHECK_THROWS_AS(store.write_plan(name, ""), InputError);
  }
}

TEST_CASE("store: the first result that has not failed stays") {
  const TemporaryFolder folder;
  const ResultStore store(folder.path());
  const TrialFolder trial = store.trial("a");
  CHECK(!trial.load_result());
  CHECK(trial.publish_result(result_of("a", TrialEnd::failed)));
  CHECK(!store.finished("a"));
  CHECK(trial.status().state == TrialState::failed);
  CHECK(!trial.publish_result(result_of("a", TrialEnd::failed)));
  CHECK(!trial.claim());
  CHECK(trial.publish_result(result_of("a", TrialEnd::diverged)));
  CHECK(trial.status().state == TrialState::diverged);
  CHECK(!trial.publish_result(result_of("a")));
  CHECK(!trial.publish_result(result_of("a", TrialEnd::failed)));
  CHECK(trial.load_result()->status == TrialEnd::diverged);
  CHECK(store.finished("a"));
  CHECK(!trial.claim());
  CHECK(!std::filesystem::exists(trial.path() / "claim"));
}

TEST_CASE("store: a result that names another trial is refused") {
  const TemporaryFolder folder;
  const ResultStore store(folder.path());
  const TrialFolder trial = store.trial("a");
  REQUIRE(trial.publish_result(result_of("a", TrialEnd::diverged)));
  std::filesystem::create_directories(store.trial("b").path());
  std::filesystem::copy(trial.path() / "result.json", store.trial("b").path() / "result.json");
  CHECK_THROWS_AS(store.finished("b"), InputError);
}

TEST_CASE("store: a failed trial that is retried resumes from its checkpoint") {
  const TemporaryFolder folder;
  const TrialFolder trial = ResultStore(folder.path()).trial("a");
  std::vector<std::string> problems;
  make_folders(attempt_folder(trial.path(), 1));
  save_safetensors(trial.checkpoint(1), {{kMetricsBytesKey, "0"}}, {});
  trial.publish_result(result_of("a", TrialEnd::failed));
  const auto failed = trial.result_text();
  {
    const auto claim = trial.claim(kLeaseSeconds, failed);
    REQUIRE(claim);
    CHECK(claim->attempt() == 2);
    CHECK(!trial.result_text());
    CHECK(text_in(claim->attempt_folder() / "failed.json") == failed);
    CHECK(trial.latest_checkpoint(problems)->attempt == 1);
    trial.publish_result(result_of("a", TrialEnd::diverged));
  }
  // A result that was published meanwhile is not the one that was to be retried.
  CHECK(!trial.claim(kLeaseSeconds, failed));
}

TEST_CASE("store: a diverged trial that is retried starts anew") {
  const TemporaryFolder folder;
  const TrialFolder trial = ResultStore(folder.path()).trial("a");
  std::vector<std::string> problems;
  make_folders(attempt_folder(trial.path(), 1));
  save_safetensors(trial.checkpoint(1), {{kMetricsBytesKey, "0"}}, {});
  trial.publish_result(result_of("a", TrialEnd::diverged));
  {
    const auto claim = trial.claim(kLeaseSeconds, trial.result_text());
    REQUIRE(claim);
    CHECK(std::filesystem::exists(claim->attempt_folder() / "diverged.json"));
    CHECK(!trial.latest_checkpoint(problems));
  }
  CHECK(trial.status().state == TrialState::missing);
  CHECK(!std::filesystem::exists(trial.path() / "claim"));
}

TEST_CASE("store: the state of a trial follows its files") {
  const TemporaryFolder folder;
  const TrialFolder trial = ResultStore(folder.path()).trial("a");
  CHECK(trial.status().state == TrialState::missing);
  CHECK(trial.status().progress == 0);
  {
    const auto claim = trial.claim();
    append_steps(trial.metrics(1), 1, 4);
    CHECK(trial.status().state == TrialState::running);
    CHECK(trial.status().progress == 0.4);
    CHECK(trial.status().owner->pid == ::getpid());
  }
  CHECK(trial.status().state == TrialState::stopped);
  CHECK(trial.status().progress == 0.4);
  save_safetensors(trial.checkpoint(1), {{kMetricsBytesKey, "0"}}, {});
  std::filesystem::remove(trial.metrics(1));  // how far it was is lost, that it began is not
  CHECK(trial.status().state == TrialState::stopped);
  CHECK(trial.status().progress == 0);
  trial.publish_result(result_of("a"));
  CHECK(trial.status().state == TrialState::done);
}

TEST_CASE("store: an attempt resumes from the last checkpoint with the metrics up to it") {
  const TemporaryFolder folder;
  const TrialFolder trial = ResultStore(folder.path()).trial("a");
  std::vector<std::string> problems;
  CHECK(!trial.latest_checkpoint(problems));

  const pid_t child = start_child([&] {
    const auto claim = trial.claim();
    append_steps(trial.metrics(1), 1, 4);
    const auto bytes = std::to_string(std::filesystem::file_size(trial.metrics(1)));
    save_safetensors(trial.checkpoint(1), {{kMetricsBytesKey, bytes}, {"normlab.step", "4"}}, {});
    append_steps(trial.metrics(1), 5, 6);
    std::ofstream(trial.metrics(1), std::ios::app) << "{\"step\":7,";
    ::raise(SIGKILL);
    return 0;
  });
  CHECK(wait_for_child(child) == -SIGKILL);

  const auto claim = trial.claim();
  REQUIRE(claim);
  REQUIRE(claim->attempt() == 2);
  const auto from = trial.latest_checkpoint(problems);
  REQUIRE(from);
  CHECK(problems.empty());
  CHECK(from->attempt == 1);
  CHECK(from->metadata.at("normlab.step") == "4");
  trial.copy_metrics(*from, claim->attempt());
  append_steps(trial.metrics(2), 5, 10);
  const auto lines = read_metrics(trial.metrics(2));
  REQUIRE(lines.size() == 10);
  for (int i = 0; i < 10; ++i) CHECK(lines[std::size_t(i)].step == i + 1);
}

TEST_CASE("store: checkpoints that cannot be used are passed over with the reason") {
  const TemporaryFolder folder;
  const TrialFolder trial = ResultStore(folder.path()).trial("a");
  std::vector<std::string> problems;
  for (const int attempt : {1, 2}) make_folders(attempt_folder(trial.path(), attempt));
  append_steps(trial.metrics(1), 1, 4);
  const auto bytes = std::to_string(std::filesystem::file_size(trial.metrics(1)));
  save_safetensors(trial.checkpoint(1), {{kMetricsBytesKey, bytes}, {"normlab.step", "4"}}, {});
  REQUIRE(trial.latest_checkpoint(problems)->attempt == 1);
  REQUIRE(problems.empty());
  std::ofstream(trial.checkpoint(2)) << "half a header";
  for (const char* length : {"1000000", "many"}) {
    const auto attempt = last_attempt(trial.path()) + 1;
    make_folders(attempt_folder(trial.path(), attempt));
    save_safetensors(trial.checkpoint(attempt), {{kMetricsBytesKey, length}}, {});
  }
  make_folders(attempt_folder(trial.path(), 5));
  save_safetensors(trial.checkpoint(5), {}, {});
  CHECK(trial.latest_checkpoint(problems)->attempt == 1);
  REQUIRE(problems.size() == 4);
  CHECK(problems[0].find("its metadata lack \"normlab.metrics_bytes\"; using an earlier") != std::string::npos);
  CHECK(problems[1].find("\"many\" is not a length") != std::string::npos);
  CHECK(problems[2].find("saved with 1000000 bytes of metrics") != std::string::npos);
  CHECK(problems[3].find("attempt-2/checkpoint.safetensors: byte 0: a header of") != std::string::npos);
}

TEST_CASE("store: files that a killed process left of a finished trial are cleared away") {
  const TemporaryFolder folder;
  const TrialFolder trial = ResultStore(folder / "out").trial("a1");
  make_folders(trial.path());
  const auto left = trial.path() / ".result.json.host.1.1.tmp";
  write_atomically(left, "{");
  auto claim = trial.claim();
  REQUIRE(claim);
  trial.tidy();
  CHECK(std::filesystem::exists(left));
  claim.reset();
  trial.tidy();
  CHECK(!std::filesystem::exists(left));
  CHECK(!read_claim(trial.path()));
}

TEST_CASE("store: each state of a trial has its own word") {
  std::set<std::string_view> words;
  for (const TrialState state :
       {TrialState::missing, TrialState::running, TrialState::failed, TrialState::diverged, TrialState::done})
    words.insert(word_of(state));
  CHECK(words.size() == 5);
  CHECK(words.contains("diverged"));
}
