#include "experiments/lab/trials/claim.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <algorithm>
#include <fstream>
#include <thread>
#include <vector>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/base/child_process.h"
#include "tests/lab/base/temporary_folder.h"

using namespace normlab;

namespace {

void write_claim(const std::filesystem::path& folder, const Owner& owner) {
  std::ofstream(folder / "claim") << "{\"host\":\"" << owner.host << "\",\"boot_id\":\"" << owner.boot_id
                                  << "\",\"pid\":" << owner.pid << ",\"start_time\":" << owner.start_time
                                  << ",\"attempt\":" << owner.attempt << ",\"pid_namespace\":\"" << owner.pid_namespace
                                  << "\",\"lease_seconds\":" << owner.lease_seconds << "}\n";
}

/// This process, as the owner of a first attempt.
Owner own() {
  Owner owner = this_process();
  owner.attempt = 1;
  owner.lease_seconds = kLeaseSeconds;
  return owner;
}

/// A claim as versions wrote it that knew neither containers nor leases.
void write_old_claim(const std::filesystem::path& folder, const Owner& owner) {
  std::ofstream(folder / "claim") << "{\"host\":\"" << owner.host << "\",\"boot_id\":\"" << owner.boot_id
                                  << "\",\"pid\":" << owner.pid << ",\"start_time\":" << owner.start_time
                                  << ",\"attempt\":1}\n";
}

/// Claims the trial in a child that is then killed; its claim stays. Returns when the child is dead but not yet reaped.
pid_t claim_and_die(const std::filesystem::path& trial) {
  const pid_t child = start_child([&] {
    const auto claim = Claim::acquire(trial);
    if (!claim) return 1;
    std::ofstream(claim->attempt_folder() / ".checkpoint.host.1.1.tmp") << "half";
    ::raise(SIGKILL);
    return 2;
  });
  siginfo_t info{};
  ::waitid(P_PID, id_t(child), &info, WEXITED | WNOWAIT);
  return child;
}

}  // namespace

TEST_CASE("claim: one process holds it until it releases it") {
  const TemporaryFolder folder;
  {
    const auto claim = Claim::acquire(folder.path());
    REQUIRE(claim);
    CHECK(claim->attempt() == 1);
    CHECK(!claim->taken_over());
    CHECK(std::filesystem::is_directory(folder / "attempt-1"));
    CHECK(read_claim(folder.path())->pid == ::getpid());
    CHECK(!Claim::acquire(folder.path()));
    // Neither another process nor a forked copy of the claim can give it back.
    CHECK(wait_for_child(start_child([&] { return Claim::acquire(folder.path()) ? 1 : 0; })) == 0);
    CHECK(wait_for_child(start_child([&] { return const_cast<Claim&>(*claim).release(), 0; })) == 0);
    CHECK(read_claim(folder.path()));
  }
  CHECK(!read_claim(folder.path()));
  CHECK(Claim::acquire(folder.path())->attempt() == 2);
}

TEST_CASE("claim: the claim of a killed process is taken over at once") {
  const TemporaryFolder folder;
  for (int round = 1; round <= 3; ++round) {
    const pid_t child = claim_and_die(folder.path());
    const auto claim = Claim::acquire(folder.path());
    REQUIRE(claim);
    CHECK(claim->taken_over());
    CHECK(claim->attempt() == 2 * round);
    CHECK(!std::filesystem::exists(attempt_folder(folder.path(), 2 * round - 1) / ".checkpoint.host.1.1.tmp"));
    CHECK(wait_for_child(child) == -SIGKILL);
  }
}

TEST_CASE("claim: an attempt whose process died before it claimed costs its number") {
  const TemporaryFolder folder;
  wait_for_child(claim_and_die(folder.path()));
  make_folders(folder / "attempt-8");
  CHECK(Claim::acquire(folder.path())->attempt() == 9);
}

TEST_CASE("claim: of several processes that see a dead owner, one keeps its claim") {
  for (int round = 0; round < 8; ++round) {
    const TemporaryFolder folder;
    wait_for_child(claim_and_die(folder.path()));
    std::vector<pid_t> children;
    for (int i = 0; i < 4; ++i)
      children.push_back(start_child([&, i] {
        const auto wait_for = [&](const std::string& name) {
          while (!std::filesystem::exists(folder / name)) std::this_thread::yield();
        };
        wait_for("go");
        const auto claim = Claim::acquire(folder.path(), kShortestLease);
        std::ofstream(folder / concat("tried-", i)) << "tried";
        for (int other = 0; other < 4; ++other) wait_for(concat("tried-", other));  // alive while the others try
        // A process that took the claim of another for the dead one's has found out by its next beat.
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        return claim && !claim->lost() ? 1 : 0;
      }));
    std::ofstream(folder / "go") << "go";
    int winners = 0;
    for (const pid_t child : children) winners += wait_for_child(child);
    CHECK(winners == 1);
  }
}

TEST_CASE("claim: only the owner that was judged dead loses its claim") {
  const TemporaryFolder folder;
  const auto claim = Claim::acquire(folder.path());
  Owner other = *read_claim(folder.path());
  other.attempt = 7;
  CHECK(!break_claim(folder.path(), other));
  CHECK(!claim->lost());
  CHECK(break_claim(folder.path(), *read_claim(folder.path())));
  CHECK(!std::filesystem::exists(folder / "claim"));
  CHECK(!break_claim(folder.path(), other));
}

TEST_CASE("claim: an owner with a reused process id or of an earlier boot is dead") {
  CHECK(!is_dead(own()));
  Owner reused = own();
  reused.start_time += 1;
  CHECK(is_dead(reused));
  Owner before = own();
  before.boot_id = "before";
  CHECK(is_dead(before));
  const TemporaryFolder folder;
  write_claim(folder.path(), reused);
  CHECK(Claim::acquire(folder.path())->attempt() == 2);
}

TEST_CASE("claim: an owner on another host or in another container is never judged") {
  Owner contained = own();
  contained.start_time += 1;
  contained.pid_namespace = "pid:[1]";
  CHECK(!is_dead(contained));
  Owner other = own();
  other.boot_id = "before";
  other.host = "elsewhere";
  CHECK(!is_dead(other));
  const TemporaryFolder folder;
  write_claim(folder.path(), other);
  CHECK(!Claim::acquire(folder.path()));
  const TrialStatus status = TrialFolder(folder.path()).status();
  CHECK(status.state == TrialState::running);
  CHECK(status.message == concat("process ", other.pid, " on elsewhere"));
}

TEST_CASE("claim: the owner of a claim of an earlier version is judged on this host") {
  const TemporaryFolder folder;
  Owner owner = this_process();
  write_old_claim(folder.path(), owner);
  CHECK(!Claim::acquire(folder.path()));  // alive
  owner.start_time += 1;
  write_old_claim(folder.path(), owner);
  CHECK(Claim::acquire(folder.path())->attempt() == 2);  // dead
}

TEST_CASE("claim: a claim of an earlier version on another host is refused") {
  const TemporaryFolder folder;
  Owner owner = this_process();
  owner.host = "elsewhere";
  write_old_claim(folder.path(), owner);
  try {
    Claim::acquire(folder.path());
    FAIL("taken");
  } catch (const InputError& error) {
    CHECK(std::string(error.what()).find("an earlier version of normlab on another host wrote this claim") !=
          std::string::npos);
    CHECK(std::string(error.what()).find("on elsewhere has ended, delete this file") != std::string::npos);
  }
}

TEST_CASE("claim: a process whose claim was taken notices at its next beat") {
  const TemporaryFolder folder;
  const auto claim = Claim::acquire(folder.path(), 1.0);
  CHECK(!claim->lost());
  REQUIRE(break_claim(folder.path(), *read_claim(folder.path())));
  for (int i = 0; i < 200 && !claim->lost(); ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
  CHECK(claim->lost());
}

TEST_CASE("claim: a process whose claim was taken does not release the next one") {
  const TemporaryFolder folder;
  const auto claim = Claim::acquire(folder.path(), 1.0);
  REQUIRE(break_claim(folder.path(), *read_claim(folder.path())));
  const auto next = Claim::acquire(folder.path());
  REQUIRE(next);
  CHECK(next->attempt() == 2);
  const_cast<Claim&>(*claim).release();
  CHECK(read_claim(folder.path())->attempt == 2);
}

TEST_CASE("claim: a damaged claim is an error that says what to do") {
  const TemporaryFolder folder;
  for (const char* text : {"", "{}", R"({"host":"h","boot_id":"b","pid":0,"start_time":1,"attempt":1})",
                           R"({"host":"h","boot_id":"b","pid":1,"start_time":1,"attempt":9223372036854775807})",
                           R"({"host":"h","boot_id":"b","pid":1,"start_time":1,"attempt":1,"lease_seconds":1e99})"}) {
    std::ofstream(folder / "claim") << text;
    try {
      Claim::acquire(folder.path());
      FAIL("taken: " << text);
    } catch (const InputError& error) {
      CHECK(std::string(error.what()).find("if no process is working on this trial, delete this file") !=
            std::string::npos);
    }
  }
}

TEST_CASE("claim: each trial that several processes race for is finished once") {
  constexpr int kProcesses = 6, kTrials = 12;
  const TemporaryFolder folder;
  const ResultStore store(folder.path());
  const auto work = [&](bool dies) {
    int made = 0;
    for (int round = 0; round < 1000; ++round) {
      bool all_done = true;
      for (int i = 0; i < kTrials; ++i) {
        const std::string id = "trial" + std::to_string(i);
        const TrialFolder trial = store.trial(id);
        if (trial.finished()) continue;
        all_done = false;
        const auto claim = trial.claim();
        if (!claim) continue;
        if (dies && ++made == 3) ::raise(SIGKILL);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
        TrialResult result;
        result.id = id;
        // A process that lost its claim at the moment of a takeover comes second here; its work does not count.
        if (!trial.publish_result(result)) continue;
        std::ofstream(folder / "finished", std::ios::app) << id << std::endl;
      }
      if (all_done) return 0;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return 52;
  };
  std::vector<pid_t> children;
  for (int i = 0; i < kProcesses; ++i) children.push_back(start_child([&, i] { return work(i % 3 == 0); }));
  for (int i = 0; i < kProcesses; ++i) {
    const int code = wait_for_child(children[std::size_t(i)]);
    CHECK((code == 0 || (i % 3 == 0 && code == -SIGKILL)));
  }
  const std::string lines = read_file(folder / "finished");
  CHECK(std::count(lines.begin(), lines.end(), '\n') == kTrials);
  for (const std::string& id : store.trial_ids()) {
    CHECK(store.finished(id));
    CHECK(!read_claim(store.trial(id).path()));
  }
  CHECK(store.trial_ids().size() == kTrials);
}
