#include "experiments/lab/base/first_wins.h"

#include <doctest/doctest.h>
#include <signal.h>

#include <cerrno>
#include <fstream>
#include <thread>
#include <vector>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/trials/claim.h"
#include "tests/lab/base/child_process.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/system_calls.h"

using namespace normlab;

namespace {

std::size_t entries(const std::filesystem::path& folder) {
  return std::size_t(std::distance(std::filesystem::directory_iterator(folder), {}));
}

/// The error of link(2) in the processes of this test; 0: it links.
int refusal = 0;
int refuse_links(Call call) { return call == Call::link ? refusal : 0; }

/// The exit code of `work` in a child, whose choice does not affect other processes.
template <class Work>
int in_child_without_links(int error, Work&& work) {
  return wait_for_child(start_child([&] {
    refusal = error;
    answer = refuse_links;
    return work();
  }));
}

/// Errors of link(2) on file systems without hard links.
constexpr int kRefusals[] = {ENOSYS, EOPNOTSUPP, EPERM, EMLINK, EXDEV, EACCES, EINVAL};

}  // namespace

TEST_CASE("first wins: a refusal of hard links is told with the file system") {
  for (const int error : kRefusals) {
    CAPTURE(error);
    const TemporaryFolder folder;
    const int code = in_child_without_links(error, [&] {
      const std::string note = choose_first_wins(folder / "out").notice;
      if (note.find("has no hard links (" + std::generic_category().message(error) + ")") == note.npos) return 1;
      return note.find(" at /") == note.npos ? 2 : 0;
    });
    CHECK(code == 0);
  }
}

TEST_CASE("first wins: exclusive creation replaces hard links that are refused") {
  for (const int error : kRefusals) {
    CAPTURE(error);
    const TemporaryFolder folder;
    const int code = in_child_without_links(error, [&] {
      const FirstWins by = choose_first_wins(folder / "out");
      if (!publish(folder / "out/a", "one", by) || publish(folder / "out/a", "two", by)) return 3;
      const auto taken = take_away(folder / "out/a");
      if (!taken || !put_back(*taken, folder / "out/a", by)) return 4;
      if (read_file(folder / "out/a") != "one") return 5;
      const auto claim = Claim::acquire(folder / "out/trial", kLeaseSeconds, by);
      return claim && !Claim::acquire(folder / "out/trial", kLeaseSeconds, by) ? 0 : 6;
    });
    CHECK(code == 0);
    CHECK(entries(folder / "out") == 3);  // a, trial and the mark; no temporary, no reservation
    CHECK(std::filesystem::exists(folder / "out" / kExclusiveCreationFile));
  }
}

TEST_CASE("first wins: a disk that fails is an error") {
  for (const int error : {EIO, ENOSPC, EDQUOT, EROFS}) {
    CAPTURE(error);
    const TemporaryFolder folder;
    const int code = in_child_without_links(error, [&] {
      try {
        choose_first_wins(folder / "out");
        return 1;
      } catch (const EnvironmentError& problem) {
        return std::string(problem.what()).find(std::generic_category().message(error)) != std::string::npos ? 0 : 2;
      }
    });
    CHECK(code == 0);
    CHECK(entries(folder / "out") == 0);
  }
}

TEST_CASE("first wins: a run that began with hard links keeps to them") {
  const TemporaryFolder folder;
  CHECK(wait_for_child(start_child([&] {
          const FirstWins by = choose_first_wins(folder / "out");
          refusal = EPERM;
          answer = refuse_links;
          try {  // after a later refusal it must not follow another rule than other processes
            publish(folder / "out/a", "one", by);
            return 1;
          } catch (const EnvironmentError& error) {
            return by.notice.empty() &&
                           std::string(error.what()).find("made hard links when this run began") != std::string::npos
                       ? 0
                       : 2;
          }
        })) == 0);
  CHECK(entries(folder / "out") == 0);
}

TEST_CASE("first wins: a host with hard links follows one without them") {
  const TemporaryFolder folder;
  const auto wait_for = [&](const char* name) {
    while (!std::filesystem::exists(folder / name)) std::this_thread::yield();
  };
  const pid_t with_links = start_child([&] {
    static int links;
    links = 0;
    const FirstWins by = choose_first_wins(folder / "out");
    if (!by.notice.empty() || !publish(folder / "out/a", "one", by)) return 1;
    std::ofstream(folder / "begun") << "x";
    wait_for("other");
    answer = [](Call call) { return call == Call::link ? ++links, 0 : 0; };
    return publish(folder / "out/b", "two", by) && links == 0 ? 0 : 2;
  });
  wait_for("begun");
  CHECK(in_child_without_links(ENOSYS, [&] { return choose_first_wins(folder / "out").notice.empty() ? 1 : 0; }) == 0);
  std::ofstream(folder / "other") << "x";
  CHECK(wait_for_child(with_links) == 0);
  CHECK(wait_for_child(start_child([&] {
          const std::string note = choose_first_wins(folder / "out").notice;
          return note.find("is shared with hosts that have no hard links") != note.npos ? 0 : 1;
        })) == 0);
}

TEST_CASE("first wins: one of many processes without hard links publishes the whole") {
  const TemporaryFolder folder;
  for (int round = 0; round < 4; ++round) {
    CAPTURE(round);
    const auto path = folder / concat("result-", round);
    std::vector<pid_t> children;
    for (int i = 0; i < 6; ++i)
      children.push_back(start_child([&, i] {
        refusal = ENOSYS;
        answer = refuse_links;
        return publish(path, std::string(200'000, char('a' + i))) ? 1 : 0;
      }));
    while (!read_file_if_there(path)) continue;
    const std::string seen = read_file(path);
    CHECK(seen == std::string(200'000, seen.empty() ? ' ' : seen[0]));
    int winners = 0, winner = -1;
    for (int i = 0; i < 6; ++i)
      if (wait_for_child(children[std::size_t(i)]) == 1) ++winners, winner = i;
    CHECK(winners == 1);
    CHECK(seen == std::string(200'000, char('a' + winner)));
    CHECK(read_file(path) == seen);
  }
  CHECK(entries(folder.path()) == 4);
}

TEST_CASE("first wins: after a kill at any call the next process continues") {
  int published = 0;
  for (int calls = 0;; ++calls) {
    CAPTURE(calls);
    REQUIRE(calls < 100);
    const TemporaryFolder folder;
    static int left;
    const int code = wait_for_child(start_child([&] {
      left = calls;
      answer = [](Call call) {
        if (left-- == 0) ::raise(SIGKILL);
        return call == Call::link ? ENOSYS : 0;
      };
      publish(folder / "a", "killed");
      answer = nullptr;
      return 0;
    }));
    const auto after = read_file_if_there(folder / "a");
    if (after) CHECK(*after == "killed");
    published += after ? 1 : 0;
    CHECK(in_child_without_links(ENOSYS, [&] { return publish(folder / "a", "next") ? 1 : 0; }) == (after ? 0 : 1));
    CHECK(read_file(folder / "a") == (after ? "killed" : "next"));
    remove_temporaries(folder.path());
    CHECK(entries(folder.path()) == 1);
    if (code == 0) break;
    CHECK(code == -SIGKILL);
  }
  CHECK(published > 1);
}

TEST_CASE("first wins: a process that sleeps while it publishes replaces nothing") {
  for (const bool before_text : {true, false}) {  // stops before the text of its reservation
    CAPTURE(before_text);
    const TemporaryFolder folder;
    static bool at_write;
    at_write = before_text;
    const pid_t stopped = start_child([&] {
      answer = [](Call call) {
        static int writes = 0;
        const bool here = at_write ? call == Call::write && ++writes == 2 : call == Call::rename;
        if (here) ::raise(SIGSTOP);
        return call == Call::link ? ENOSYS : 0;
      };
      return publish(folder / "a", "stopped") ? 1 : 0;
    });
    siginfo_t info{};
    REQUIRE(::waitid(P_PID, id_t(stopped), &info, WSTOPPED) == 0);
    CHECK(in_child_without_links(ENOSYS, [&] { return publish(folder / "a", "awake") ? 1 : 0; }) == 1);
    ::kill(stopped, SIGCONT);
    CHECK(wait_for_child(stopped) == 0);
    CHECK(read_file(folder / "a") == "awake");
    CHECK(entries(folder.path()) == 1);
  }
}

TEST_CASE("first wins: a file system without any exclusive creation is refused") {
  const TemporaryFolder folder;
  const int code = wait_for_child(start_child([&] {
    answer = [](Call call) { return call == Call::link || call == Call::rename ? EPERM : 0; };
    try {
      choose_first_wins(folder / "out");
      return 1;
    } catch (const EnvironmentError& error) {
      return std::string(error.what()).find("neither hard links") != std::string::npos ? 0 : 2;
    }
  }));
  CHECK(code == 0);
  CHECK(entries(folder / "out") == 0);
}
