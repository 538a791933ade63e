#include "experiments/lab/base/files.h"

#include <doctest/doctest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <vector>

#include "core/error.h"
#include "tests/lab/base/child_process.h"
#include "tests/lab/base/own_device.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/system_calls.h"

using namespace normlab;

namespace {

std::size_t entries(const std::filesystem::path& folder) {
  return std::size_t(std::distance(std::filesystem::directory_iterator(folder), {}));
}

/// Runs `work` in a child whose files cannot grow beyond 1000 bytes: larger writes fail, as on a full disk.
template <class Work>
int with_small_files(Work&& work) {
  return wait_for_child(start_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    return work();
  }));
}

}  // namespace

TEST_CASE("files: an atomic write replaces the file and leaves nothing else") {
  const TemporaryFolder folder;
  write_atomically(folder / "a", "one");
  write_atomically(folder / "a", std::string(100'000, 'x') + '\0');
  CHECK(read_file(folder / "a") == std::string(100'000, 'x') + '\0');
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("files: what is not a file cannot be read") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(read_file(folder / "b"), doctest::Contains("No such file or directory"), EnvironmentError);
  CHECK_THROWS_WITH_AS(read_file(folder.path()), doctest::Contains("Is a directory"), EnvironmentError);
}

TEST_CASE("files: an atomic write to a missing folder is an error") {
  const TemporaryFolder folder;
  CHECK_THROWS_WITH_AS(write_atomically(folder / "missing/a", "one"), doctest::Contains("No such file or directory"),
                       EnvironmentError);
}

TEST_CASE("files: an atomic write on a full disk keeps the old file") {
  const TemporaryFolder folder;
  write_atomically(folder / "a", "old");
  const int code = with_small_files([&] {
    try {
      write_atomically(folder / "a", std::string(5000, 'x'));
      return 1;
    } catch (const EnvironmentError& error) {
      const std::string what = error.what();
      return what.find((folder / "a").string()) != what.npos && what.find("File too large") != what.npos &&
                     what.find("finished results are untouched") != what.npos
                 ? 0
                 : 2;
    }
  });
  CHECK(code == 0);
  CHECK(read_file(folder / "a") == "old");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("files: the error of a full disk names the file and the remedy") {
  const TemporaryFolder folder;
  const std::string full = (folder / "full").string();
  if (!make_device(full, kFullDevice)) {
    MESSAGE("skipped: no device can be made");
    return;
  }
  try {
    LineFile(full).append("line");
    FAIL("a full device took a line");
  } catch (const EnvironmentError& error) {
    CHECK(std::string(error.what()) ==
          "cannot append to " + full +
              ": No space left on device; free some space, then run the same command again; finished results are "
              "untouched");
    CHECK(error.code() == ExitCode::environment);
  }
}

TEST_CASE("files: a folder without permission to write is an error") {
  if (::geteuid() == 0) {
    CHECK_THROWS_WITH_AS(throw_system_error("write", "/x", EACCES),
                         "cannot write /x: Permission denied; no permission; check the owner and the mode, or choose "
                         "another folder",
                         EnvironmentError);
    MESSAGE("root may write everywhere: only the message was checked");
    return;
  }
  const TemporaryFolder folder;
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_read | std::filesystem::perms::owner_exec);
  CHECK_THROWS_AS(write_atomically(folder / "a", "x"), EnvironmentError);
  std::filesystem::permissions(folder.path(), std::filesystem::perms::owner_all);
}

TEST_CASE("files: one of many processes that publish wins") {
  const TemporaryFolder folder;
  std::vector<pid_t> children;
  for (int i = 0; i < 8; ++i)
    children.push_back(
        start_child([&, i] { return publish(folder / "result", std::string(1000, char('a' + i))) ? 1 : 0; }));
  int winners = 0, winner = -1;
  for (int i = 0; i < 8; ++i)
    if (wait_for_child(children[std::size_t(i)]) == 1) ++winners, winner = i;
  CHECK(winners == 1);
  CHECK(read_file(folder / "result") == std::string(1000, char('a' + winner)));
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("files: the bytes of lines are counted") {
  const TemporaryFolder folder;
  LineFile lines(folder / "m");
  lines.append("one");
  CHECK(lines.bytes() == 4);
}

TEST_CASE("files: a line that does not fit is cut off again") {
  const TemporaryFolder folder;
  {
    LineFile lines(folder / "m");
    lines.append("one");
    lines.sync();
  }
  const int code = with_small_files([&] {
    LineFile lines(folder / "m");
    if (lines.bytes() != 4) return 1;
    try {
      lines.append(std::string(2000, 'x'));
      return 2;
    } catch (const EnvironmentError&) {
      lines.append("two");
      return lines.bytes() == 8 ? 0 : 3;
    }
  });
  CHECK(code == 0);
  CHECK(read_file(folder / "m") == "one\ntwo\n");
}

TEST_CASE("files: only the temporaries of a killed writer are removed") {
  const TemporaryFolder folder;
  std::ofstream(folder / ".a.host.1.2.tmp") << "half";
  std::ofstream(folder / "b.tmp") << "mine";
  remove_temporaries(folder.path());
  CHECK(!std::filesystem::exists(folder / ".a.host.1.2.tmp"));
  CHECK(std::filesystem::exists(folder / "b.tmp"));
  remove_temporaries(folder / "missing");
}

TEST_CASE("files: only the temporaries of ended processes are abandoned") {
  const TemporaryFolder folder;
  const pid_t gone = start_child([&] {
    std::ofstream(temporary_name(folder / "plan.json")) << "half";
    return 0;
  });
  wait_for_child(gone);
  std::ofstream(temporary_name(folder / "plan.json")) << "mine";
  const std::string foreign = concat(".plan.json.elsewhere.", gone, ".1.tmp");
  for (const std::string& name : {foreign, std::string(".x.tmp"), concat(".plan.json.", gone, ".tmp")})
    std::ofstream(folder / name) << "another's";
  CHECK(entries(folder.path()) == 5);
  remove_abandoned_temporaries(folder.path());
  CHECK(entries(folder.path()) == 4);
  CHECK(std::filesystem::exists(folder / foreign));
}

TEST_CASE("files: a copy is of what a link leads to, and of files alone") {
  const TemporaryFolder folder;
  std::ofstream(folder / "a") << std::string(3'000'000, 'a');
  std::filesystem::create_symlink("a", folder / "link");
  CHECK(copy_regular_file(folder / "link", folder / "b"));
  CHECK(!std::filesystem::is_symlink(folder / "b"));
  CHECK(read_file(folder / "b") == read_file(folder / "a"));
  CHECK(!copy_regular_file(folder / "missing", folder / "c"));
  REQUIRE(mkfifo((folder / "pipe").c_str(), 0600) == 0);
  CHECK_THROWS_WITH_AS(copy_regular_file(folder / "pipe", folder / "c"), doctest::Contains("is a pipe"), InputError);
  CHECK_THROWS_AS(read_pieces(folder / "pipe", [](std::string_view) {}), InputError);  // without waiting for a writer
  CHECK_THROWS_AS(read_end_if_there(folder / "pipe", 10), InputError);
  CHECK(!std::filesystem::exists(folder / "c"));
  answer = [](Call call) { return call == Call::write ? ENOSPC : 0; };
  CHECK_THROWS_WITH_AS(copy_regular_file(folder / "a", folder / "d"),
                       doctest::Contains("No space left on device; free some space"), EnvironmentError);
  answer = nullptr;
}

TEST_CASE("files: a link to a folder around it is passed over") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "a/b");
  std::ofstream(folder / "a/b/file") << "x";
  std::filesystem::create_symlink(folder / "a/b", folder / "c");
  CHECK(files_below(folder.path()) == std::vector{folder / "a/b/file", folder / "c/file"});
  std::filesystem::create_symlink("..", folder / "a/b/up");
  CHECK(files_below(folder.path()) == std::vector{folder / "a/b/file", folder / "c/file"});
}

TEST_CASE("files: a call whose answer is lost has still been made") {
  const TemporaryFolder folder;
  answer = [](Call call) { return call == Call::link ? -EEXIST : 0; };  // a network file system that repeats the call
  CHECK(publish(folder / "a", "mine"));
  answer = [](Call call) { return call == Call::link ? -EIO : 0; };
  CHECK(publish(folder / "b", "mine"));
  CHECK(!publish(folder / "a", "another's"));
  answer = [](Call call) { return call == Call::rename ? -ENOENT : 0; };
  write_atomically(folder / "c", "mine");
  const auto taken = take_away(folder / "c");
  answer = nullptr;
  CHECK(read_file(folder / "a") == "mine");
  REQUIRE(taken);
  CHECK(read_file(*taken) == "mine");
  CHECK(entries(folder.path()) == 3);
}

TEST_CASE("files: a call that a signal interrupts is made again") {
  const TemporaryFolder folder;
  static std::array<int, 12> asked;
  asked.fill(0);
  answer = [](Call call) {  // fails two calls of three
    // Linux closes the descriptor even if close(2) fails.
    if (call == Call::close) return -EINTR;
    return asked[std::size_t(call)]++ % 3 < 2 ? EINTR : 0;
  };
  CHECK_NOTHROW(make_folders(folder / "x/y/z"));
  CHECK_NOTHROW(write_atomically(folder / "x/a", "one"));
  CHECK_NOTHROW(publish(folder / "x/b", "two"));
  CHECK_NOTHROW([&] {
    const auto taken = take_away(folder / "x/b");
    REQUIRE(taken);
    CHECK(put_back(*taken, folder / "x/b"));
    LineFile lines(folder / "x/lines");
    lines.append("three");
    lines.sync();
    remove_file(folder / "x/a");
  }());
  answer = nullptr;
  CHECK(std::filesystem::is_directory(folder / "x/y/z"));
  CHECK(read_file_if_there(folder / "x/b") == "two");
  CHECK(read_file_if_there(folder / "x/lines") == "three\n");
  CHECK(entries(folder / "x") == 3);
}

TEST_CASE("files: folders are made down to the last") {
  const TemporaryFolder folder;
  make_folders(folder / "a/b/");
  make_folders(folder / "a/b");
  make_folders("/");
  CHECK(std::filesystem::is_directory(folder / "a/b"));
}

TEST_CASE("files: a file in the place of a folder is an error") {
  const TemporaryFolder folder;
  std::ofstream(folder / "file") << "x";
  for (const char* path : {"file", "file/below"})
    CHECK_THROWS_WITH_AS(make_folders(folder / path),
                         doctest::Contains("there is a file where a folder is expected, or the reverse"),
                         EnvironmentError);
}

TEST_CASE("files: a file that is taken away is gone for the others") {
  const TemporaryFolder folder;
  write_atomically(folder / "a", "one");
  const auto taken = take_away(folder / "a");
  REQUIRE(taken);
  CHECK(!take_away(folder / "a"));
  CHECK(!read_file_if_there(folder / "a"));
  CHECK(read_file(*taken) == "one");
}

TEST_CASE("files: a file that is taken away can be put back") {
  const TemporaryFolder folder;
  write_atomically(folder / "a", "one");
  const auto taken = take_away(folder / "a");
  REQUIRE(taken);
  CHECK(put_back(*taken, folder / "a"));
  CHECK(read_file_if_there(folder / "a") == "one");
}

TEST_CASE("files: a file is not put back over a newer one") {
  const TemporaryFolder folder;
  write_atomically(folder / "a", "one");
  const auto again = take_away(folder / "a");
  REQUIRE(again);
  write_atomically(folder / "a", "two");
  CHECK(!put_back(*again, folder / "a"));
  CHECK(read_file(folder / "a") == "two");
  CHECK(entries(folder.path()) == 1);
}

TEST_CASE("files: an error of the system names the path and the remedy") {
  const std::pair<int, const char*> kAdvice[] = {{ENOSPC, "free some space"},
                                                 {EFBIG, "ulimit -f"},
                                                 {EROFS, "read-only"},
                                                 {EACCES, "no permission"},
                                                 {ENOENT, "check the path"},
                                                 {EISDIR, "there is a file where a folder is expected"},
                                                 {ELOOP, "form a loop"},
                                                 {ENAMETOOLONG, "choose a shorter one"},
                                                 {EMFILE, "ulimit -n"},
                                                 {EIO, "the disk or the network file system reports an error"},
                                                 {EINVAL, "run the same command again"}};
  for (const auto& expected : kAdvice) {
    CHECK_THROWS_WITH_AS(throw_system_error("write", "here/x", expected.first), doctest::Contains(expected.second),
                         EnvironmentError);
    CHECK_THROWS_WITH_AS(throw_system_error("write", "here/x", expected.first),
                         doctest::Contains("cannot write here/x: "), EnvironmentError);
  }
}

TEST_CASE("files: those below a folder are found through links, and once") {
  const TemporaryFolder folder;
  namespace fs = std::filesystem;
  fs::create_directories(folder / "a/sub");
  fs::create_directories(folder / "b");
  for (const char* name : {"a/1", "a/sub/2", "b/3", "outside"}) std::ofstream(folder / name) << name;
  fs::create_directory_symlink("..", folder / "a/up");
  fs::create_directory_symlink("../..", folder / "a/sub/up");
  fs::create_directory_symlink(".", folder / "a/here");
  fs::create_directory_symlink("../b", folder / "a/other");
  fs::create_directory_symlink("../a", folder / "b/back");
  std::vector<std::string> found;
  for (const fs::path& path : files_below(folder / "a"))
    found.push_back(path.lexically_relative(folder.path()).string());
  CHECK(found == std::vector<std::string>{"a/1", "a/other/3", "a/sub/2"});
  CHECK(files_below(folder / "none").empty());
}

TEST_CASE("files: a circle of links is no file to write") {
  const TemporaryFolder folder;
  std::filesystem::create_symlink("b", folder / "a");
  std::filesystem::create_symlink("a", folder / "b");
  CHECK_THROWS_WITH_AS(write_file_or_stream(folder / "a", "x"), doctest::Contains("links form a loop"),
                       EnvironmentError);
  CHECK(std::filesystem::is_symlink(folder / "a"));
}
