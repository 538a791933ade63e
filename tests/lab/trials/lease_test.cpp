#include "experiments/lab/trials/lease.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <limits>

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/system_calls.h"

using namespace normlab;
using namespace std::chrono_literals;

namespace {

void write_lease(const TemporaryFolder& folder) { Heartbeat(folder / "claim", "me", folder.path(), 0.5); }

}  // namespace

TEST_CASE("lease: a counter is stale once it has not changed for the lease time") {
  LeaseWatch watch;
  const LeaseWatch::Clock::time_point begin{};
  const auto at = [&](double seconds, const std::string& seen, const std::string& trial = "a") {
    return watch.stale(
        trial, seen, 60,
        begin + std::chrono::duration_cast<LeaseWatch::Clock::duration>(std::chrono::duration<double>(seconds)));
  };
  for (int second = 0; second < 60; second += 2) CHECK(!at(second, "1"));
  CHECK(at(60, "1"));
  CHECK(!at(60, "1", "b"));  // another trial has a time of its own
  watch.forget("a");
  CHECK(!at(62, "1"));
  for (int second = 64; second < 120; second += 2) CHECK(!at(second, "1"));
  CHECK(!at(120, "2"));  // it moved: the time begins again
  CHECK(!at(178, "2"));
  CHECK(!at(182, "1"));  // any change counts, also backwards
}

TEST_CASE("lease: a gap between two looks counts for at most a quarter of the lease") {
  LeaseWatch watch;  // such as one whose process was paused
  const LeaseWatch::Clock::time_point begin{};
  CHECK(!watch.stale("a", "1", 60, begin));
  CHECK(!watch.stale("a", "1", 60, begin + 24h));
  CHECK(!watch.stale("a", "1", 60, begin + 48h));
  CHECK(!watch.stale("a", "1", 60, begin + 72h));
  CHECK(watch.stale("a", "1", 60, begin + 96h));
}

TEST_CASE("lease: a heartbeat counts and records the notes of the training") {
  const TemporaryFolder folder;
  write_atomically(folder / "claim", "me");
  CHECK(!read_lease(folder.path()));
  Heartbeat heart(folder / "claim", "me", folder.path(), 0.5);
  heart.start();
  const auto first = read_lease(folder.path());
  REQUIRE(first);
  CHECK(first->note.steps == 0);
  CHECK(!first->note.loss);
  const auto size = std::filesystem::file_size(folder / "lease");
  heart.note({.step = 7,
              .steps = 1'000'000'000,
              .images_per_second = 1234.5,
              .loss = std::nan(""),
              .data_share = 1.0 / 3,
              .data_threads = 1024});
  std::optional<LeaseRecord> later;
  for (int i = 0; i < 300 && (!later || later->note.step == 0); ++i) {
    std::this_thread::sleep_for(10ms);
    later = read_lease(folder.path());
  }
  REQUIRE(later);
  CHECK(later->count > first->count);
  CHECK(later->note.step == 7);
  CHECK(later->note.images_per_second == 1234.5);
  CHECK(std::isnan(later->note.loss.value()));
  CHECK(later->note.data_share == 0.333);
  CHECK(later->note.data_threads == 1024);
  CHECK(later->age_seconds < 5);
  CHECK(std::filesystem::file_size(folder / "lease") == size);  // it is overwritten in place
}

TEST_CASE("lease: one of a version without the share of time for images is read") {
  const TemporaryFolder folder;
  std::ofstream(folder / "lease") << R"({"count":3,"step":2,"steps":9,"images_per_second":1.5,"loss":0.5})"
                                  << "\n";
  const auto lease = read_lease(folder.path());
  REQUIRE(lease);
  CHECK(lease->note.step == 2);
  CHECK(!lease->note.data_share);
}

TEST_CASE("lease: the longest note fits") {
  const TemporaryFolder folder;
  write_atomically(folder / "claim", "me");
  Heartbeat heart(folder / "claim", "me", folder.path(), 0.5);
  heart.start();
  constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();
  heart.note({.step = kMost,
              .steps = kMost,
              .images_per_second = 1e-101 / 3,
              .loss = std::nan(""),
              .data_share = 1.0 / 3,
              .data_threads = 1024});
  std::optional<LeaseRecord> found;
  for (int i = 0; i < 300 && (!found || found->note.step == 0); ++i) {
    std::this_thread::sleep_for(10ms);
    found = read_lease(folder.path());
  }
  REQUIRE(found);
  CHECK(found->note.step == kMost);
  CHECK(found->note.data_threads == 1024);
}

TEST_CASE("lease: a heartbeat that was stopped counts no more") {
  const TemporaryFolder folder;
  write_atomically(folder / "claim", "me");
  Heartbeat heart(folder / "claim", "me", folder.path(), 0.5);
  heart.start();
  REQUIRE(read_lease(folder.path()));
  heart.stop();
  const auto stopped = read_lease(folder.path())->count;
  std::this_thread::sleep_for(300ms);
  CHECK(read_lease(folder.path())->count == stopped);
}

TEST_CASE("lease: a heartbeat finds out that its claim or its folder is gone") {
  const auto found_out = [](Heartbeat& heart) {
    for (int i = 0; i < 300 && !heart.lost(); ++i) std::this_thread::sleep_for(10ms);
    return heart.lost();
  };
  const TemporaryFolder folder;
  const auto attempt = folder / "attempt-1";
  for (int round = 0; round < 3; ++round) {
    make_folders(attempt);
    write_atomically(folder / "claim", "me");
    Heartbeat heart(folder / "claim", "me", attempt, 0.5);
    heart.start();
    std::this_thread::sleep_for(200ms);
    CHECK(!heart.lost());
    if (round == 0) write_atomically(folder / "claim", "you");
    if (round == 1) remove_file(folder / "claim");
    if (round == 2) std::filesystem::remove_all(attempt);
    CHECK(found_out(heart));
  }
}

TEST_CASE("lease: an interrupted or short write continues") {
  const TemporaryFolder folder;
  static int asked;
  for (const int first : {EINTR, kShort}) {
    static int what;
    what = first, asked = 0;
    answer = [](Call call) { return call == Call::pwrite && asked++ == 0 ? what : 0; };
    CHECK_NOTHROW(write_lease(folder));
    answer = nullptr;
    CHECK(read_lease(folder.path()));
    CHECK(asked == 2);
    remove_file(folder / "lease");
  }
}

TEST_CASE("lease: a full disk is an error that names its cause") {
  const TemporaryFolder folder;
  static int asked;
  asked = 0;
  answer = [](Call call) { return call != Call::pwrite ? 0 : asked++ == 0 ? kShort : ENOSPC; };
  CHECK_THROWS_WITH_AS(write_lease(folder), doctest::Contains("No space left on device"), EnvironmentError);
  answer = nullptr;
}

TEST_CASE("lease: an interrupted close is no error") {
  const TemporaryFolder folder;
  answer = [](Call call) { return call == Call::close ? -EINTR : 0; };
  CHECK_NOTHROW(write_lease(folder));
  answer = nullptr;
}
