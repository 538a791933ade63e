// Files of a sweep that change after they were written: every command that reads such a file names it.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/cli/two_trials.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

/// Members of result.json and values that no training of kTwoTrials gives.
const std::vector<std::pair<std::string, std::string>> kForged = {{"eval/accuracy", "0.99"},
                                                                  {"eval/accuracy", "7.5"},
                                                                  {"eval/accuracy", "-1"},
                                                                  {"eval/accuracy", "-1e300"},
                                                                  {"eval/loss", "-5"},
                                                                  {"steps", "3"},
                                                                  {"seed", "7"},
                                                                  {"attempt", "9"},
                                                                  {"wall_seconds", "-1"},
                                                                  {"wall_seconds", "1e300"},
                                                                  {"status", "\"diverged\""}};

std::string replaced(std::string text, const std::string& from, const std::string& to) {
  const auto at = text.find(from);
  REQUIRE_MESSAGE(at != text.npos, (from + " is not in " + text));
  return text.replace(at, from.size(), to);
}

std::string flipped(std::string bytes, std::size_t at) {
  bytes[at] ^= 1;
  return bytes;
}

/// A descriptor and its results, which a test damages and puts right again.
struct Results {
  TemporaryFolder folder;
  std::string file;
  ResultStore store{folder / "out"};

  Finished call(const std::string& words) const {
    return run_program(folder, words + " --out " + store.out().string());
  }
  TrialFolder trial(std::size_t i = 0) const { return store.trial(store.trial_ids()[i]); }
  fs::path result() const { return trial().path() / "result.json"; }

  /// Writes `bytes` into the file, looks, and writes back what was there.
  void with(const fs::path& path, const std::string& bytes, const std::function<void()>& look) const {
    const std::string good = read_file(path);
    REQUIRE(bytes != good);
    write_atomically(path, bytes);
    look();
    write_atomically(path, good);
  }
  /// The command ends with code 2, and says the file's name.
  void names(const std::string& words, const fs::path& path) const {
    CAPTURE(words);
    const Finished done = call(words);
    CHECK_MESSAGE(done.code == 2, (done.out + done.err));
    CHECK_MESSAGE(has(done.err, path.string()), (done.out + done.err));
  }
  void verify_names(const fs::path& path) const {
    CAPTURE(path);
    const Finished done = call("verify --files");
    CHECK_MESSAGE(done.code == 2, done.out);
    CHECK_MESSAGE(has(done.out, path.string()), done.out);
  }
};

struct Trained : Results {
  Trained() {
    file = (folder / "small.json").string();
    std::ofstream(file) << kTwoTrials;
    const Finished done = call("run " + file + " --threads 1");
    REQUIRE_MESSAGE(done.code == 0, done.err);
  }
};

/// Two trials, trained once: for tests that put right what they damage.
const Trained& trained() {
  static const Trained once;
  return once;
}

/// Results of the version before there were seals.
struct Unsealed : Results {
  Unsealed() {
    fs::copy("tests/lab/trials/unsealed", folder.path(), fs::copy_options::recursive);
    file = (folder / "unsealed.json").string();
  }
  /// One that is done.
  fs::path done() const {
    for (const std::string& id : store.trial_ids())
      if (const auto path = store.trial(id).path() / "result.json"; has(read_file(path), "\"done\"")) return path;
    FAIL("no trial is done");
    return {};
  }
};

/// A temporary file next to the plan, of a process that has ended.
fs::path left_by_a_killed_run(const Results& sweep) {
  const pid_t ended = fork();
  if (ended == 0) _exit(0);
  waitpid(ended, nullptr, 0);
  const fs::path left =
      sweep.store.out() / "experiments/small" / (".plan.json." + host_name() + "." + std::to_string(ended) + ".1.tmp");
  write_atomically(left, "{");
  return left;
}

/// A member's number or word with another in its place.
std::string with_value(const std::string& text, const std::string& member, const std::string& value) {
  const auto name = text.find("\"" + member + "\": ");
  REQUIRE_MESSAGE(name != text.npos, member);
  const auto begin = name + member.size() + 4, end = text.find_first_of(",\n", begin);
  return text.substr(0, begin) + value + text.substr(end);
}

}  // namespace

TEST_CASE("seals: what reads weights names a damaged checkpoint") {
  const Trained& sweep = trained();
  const fs::path checkpoint = sweep.trial().checkpoint(1);
  const std::string good = read_file(checkpoint), eval = "eval --data shapes --slice test[:20] --weights ";
  const auto run = [&](const std::string& words) { return run_program(sweep.folder, words); };
  const std::string copy = (sweep.folder / "copy.safetensors").string();
  const auto all_name = [&](const std::string& what) {
    for (const std::string& words : {eval + checkpoint.string(), "convert " + checkpoint.string() + " " + copy,
                                     "eval --probe " + sweep.file + " --weights " + checkpoint.string()}) {
      CAPTURE(words);
      const Finished done = run(words);
      CHECK_MESSAGE(done.code == 2, (done.out + done.err));
      CHECK_MESSAGE(has(done.err, checkpoint.string() + ": " + what), (done.out + done.err));
    }
    CHECK(!fs::exists(copy));
  };
  const Finished fine = run(eval + checkpoint.string());
  CHECK_MESSAGE(fine.code == 0, fine.err);
  sweep.with(checkpoint, flipped(good, good.size() - 5),
             [&] { all_name("is damaged: the SHA-256 of its tensors is "); });
  sweep.with(checkpoint, replaced(good, "\\\"patch_size\\\":8", "\\\"patch_size\\\":4"),
             [&] { all_name("is damaged: the SHA-256 of its metadata, names and shapes is "); });
  sweep.with(checkpoint, read_file(sweep.trial(1).checkpoint(1)), [&] { all_name("is a file of trial "); });
}

TEST_CASE("seals: a converted file is sealed anew") {
  const Trained& sweep = trained();
  const std::string checkpoint = sweep.trial().checkpoint(1).string(),
                    eval = "eval --data shapes --slice test[:20] --weights ";
  const auto run = [&](const std::string& words) { return run_program(sweep.folder, words); };
  const std::string copy = (sweep.folder / "converted.safetensors").string();
  const Finished fine = run(eval + checkpoint);
  CHECK(run("convert " + checkpoint + " " + copy).code == 0);
  CHECK(run(eval + copy).out == fine.out);
  const std::string converted = read_file(copy);
  sweep.with(copy, flipped(converted, converted.size() - 5), [&] {
    const Finished done = run(eval + copy);
    CHECK_MESSAGE(done.code == 2, (done.out + done.err));
    CHECK_MESSAGE(has(done.err, copy + ": is damaged: the SHA-256 of its tensors is "), done.err);
  });
}

TEST_CASE("seals: no number of a changed result is shown") {
  const Trained& sweep = trained();
  const std::string good = read_file(sweep.result());
  std::vector<std::pair<std::string, std::string>> changes = kForged;
  changes.insert(changes.end(), {{"images_per_second", "1"}, {"version", "\"another\""}});
  for (const auto& change : changes) {
    const std::string &member = change.first, &value = change.second;  // clang 14 captures no structured binding
    CAPTURE(member);
    CAPTURE(value);
    sweep.with(sweep.result(), with_value(good, member, value), [&] {
      sweep.names("table " + sweep.file, sweep.result());
      sweep.names("report " + sweep.file + " -o " + (sweep.folder / "report.html").string(), sweep.result());
      sweep.names("list " + sweep.trial().path().filename().string(), sweep.result());
      const Finished table = sweep.call("table --format csv " + sweep.file);
      CHECK_MESSAGE(has(table.out, ",1,2,"), table.out);  // the other seed alone counts
    });
  }
  CHECK(sweep.call("table " + sweep.file).code == 0);
}

TEST_CASE("seals: what reads metrics names those that were changed or removed") {
  const Trained& sweep = trained();
  const fs::path metrics = sweep.trial().metrics(1);
  const std::string report = "report " + sweep.file + " -o " + (sweep.folder / "report.html").string();
  const std::string good = read_file(metrics);
  const auto digit = good.find("\"eval/loss\":") + 14;
  for (const std::string& bad : {flipped(good, digit), good.substr(0, good.size() / 2), std::string()}) {
    CAPTURE(bad);
    sweep.with(metrics, bad, [&] {
      sweep.names("export --curves --by-row " + sweep.file, metrics);
      sweep.names(report, metrics);
      sweep.names("table " + sweep.file + " --select mean_last_k --last 2", metrics);
    });
  }
  fs::remove(metrics);
  sweep.names("export --curves --by-row " + sweep.file, metrics);
  sweep.names(report, metrics);
  write_atomically(metrics, good);
}

TEST_CASE("seals: table --bootstrap names bits that were changed") {
  const Trained& sweep = trained();
  const fs::path bits = sweep.trial().metrics(1).parent_path() / "correct.bits";
  const std::string right = read_file(bits),
                    others = read_file(sweep.trial(1).metrics(1).parent_path() / "correct.bits");
  for (const std::string& bad : {flipped(right, right.size() - 2), others})
    sweep.with(bits, bad, [&] { sweep.names("table " + sweep.file + " --bootstrap", bits); });
}

TEST_CASE("seals: find and table name settings that were changed") {
  const Trained& sweep = trained();
  const fs::path config = sweep.trial().path() / "config.json";
  const std::string settings = read_file(config);
  sweep.with(config, replaced(settings, "\"lr\": ", "\"lr\": 1"), [&] {
    sweep.names("list " + sweep.trial().path().filename().string(), config);
    sweep.names("table " + sweep.store.out().string(), config);
  });
}

TEST_CASE("seals: verify --files names every file that was changed") {
  const Trained sweep;
  const Finished fine = sweep.call("verify --files");
  CHECK_MESSAGE(fine.code == 0, fine.out);
  CHECK_MESSAGE(has(fine.out, "2 results sealed, 0 unsealed, 0 trials without a result"), fine.out);
  const auto is_named = [&](const fs::path& path) { sweep.verify_names(path); };
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(sweep.store.out()))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::size_t sealed = 0;
  for (const fs::path& path : files) {
    const fs::path name = path.filename();
    if (name == "log" || name == "lease" || name == "times.jsonl" || path.extension() == ".log") continue;
    ++sealed;
    const std::string good = read_file(path);
    if (good.empty()) continue;
    sweep.with(path, flipped(good, good.size() / 2), [&] { is_named(path); });
    sweep.with(path, good.substr(0, good.size() / 2), [&] { is_named(path); });
    sweep.with(path, good + "x", [&] { is_named(path); });
  }
  CHECK(sealed == 2 * 6 + 2);  // config, result, metrics, states, bits, checkpoint; plan and tabled

  const fs::path checkpoint = sweep.trial().checkpoint(1);
  const std::string good = read_file(checkpoint);
  fs::remove(checkpoint);
  is_named(checkpoint);
}

TEST_CASE("seals: verify --files counts what clean deleted") {
  const Trained sweep;
  const fs::path checkpoint = sweep.trial().checkpoint(1);
  CHECK(sweep.call("clean --keep weights --yes").code == 0);
  CHECK(!fs::exists(checkpoint));
  const Finished cleaned = sweep.call("verify --files");
  CHECK_MESSAGE(cleaned.code == 0, cleaned.out);
  CHECK_MESSAGE(has(cleaned.out, "deleted by `normlab clean`, or left out of an archive: 2 files"), cleaned.out);
  const fs::path weights = checkpoint.parent_path() / "weights.safetensors";
  const std::string kept = read_file(weights);
  sweep.with(weights, flipped(kept, kept.size() - 3), [&] { sweep.verify_names(weights); });
}

TEST_CASE("seals: verify --files of neither results nor a trial is refused") {
  const Trained& sweep = trained();
  CHECK(sweep.call("verify --files zzz").code == 2);
  CHECK(run_program(sweep.folder, "verify --files --out " + sweep.folder.path().string()).code == 2);
}

TEST_CASE("seals: results without seals print the table that they printed before") {
  const Unsealed sweep;
  const Finished table = sweep.call("table " + sweep.file);
  CHECK_MESSAGE(table.code == 0, table.err);
  CHECK(table.out == text_of("tests/lab/trials/unsealed/table.txt"));
  CHECK(sweep.call("table " + sweep.file + " --bootstrap").code == 0);
  CHECK(sweep.call("table " + sweep.file + " --select best_minival").code == 0);
}

TEST_CASE("seals: results without seals are marked as such") {
  const Unsealed sweep;
  const std::string words = "not sealed: written by a version that stored no hashes, so damage can go undetected";
  CHECK(has(sweep.call("status " + sweep.file).out, "6 of the results are " + words));
  CHECK(has(sweep.call("list " + sweep.trial().path().filename().string()).out, "seal    none: written by a version"));
  const std::string page = (sweep.folder / "report.html").string();
  CHECK(sweep.call("report " + sweep.file + " -o " + page).code == 0);
  CHECK(has(text_of(page), "6 of 6 results have no hashes, so damage can go undetected"));
}

TEST_CASE("seals: a run leaves results without seals unsealed") {
  const Unsealed sweep;
  const Finished files = sweep.call("verify --files");
  CHECK_MESSAGE(files.code == 0, files.out);
  CHECK_MESSAGE(has(files.out, "0 results sealed, 6 unsealed"), files.out);
  const Finished table = sweep.call("table " + sweep.file);
  CHECK(sweep.call("run " + sweep.file).out == table.out);  // nothing is left to do
  CHECK(sweep.call("verify --files").out == files.out);
}

TEST_CASE("seals: weights without seals are evaluated") {
  const Unsealed sweep;
  for (const std::string& id : sweep.store.trial_ids())
    if (const auto weights = attempt_folder(sweep.store.trial(id).path(), 1) / "weights.safetensors";
        fs::exists(weights))
      CHECK(run_program(sweep.folder, "eval --data shapes --slice test[:20] --weights " + weights.string()).code == 0);
}

TEST_CASE("seals: a result without a seal is compared with the files beside it") {
  const Unsealed sweep;
  const fs::path path = sweep.done();
  const std::string good = read_file(path);
  std::vector<std::pair<std::string, std::string>> changes = kForged;
  changes.emplace_back("train/loss", "1.5");
  for (const auto& change : changes) {
    const std::string &member = change.first, &value = change.second;  // clang 14 captures no structured binding
    CAPTURE(member);
    CAPTURE(value);
    sweep.with(path, with_value(good, member, value), [&] {
      sweep.names("table " + sweep.file, path);
      sweep.names("export --curves --by-row " + sweep.file, path);
    });
  }
  const fs::path folder = attempt_folder(path.parent_path(), 1);
  const std::string bits = read_file(folder / "correct.bits");
  sweep.with(folder / "correct.bits", flipped(bits, bits.size() - 2),
             [&] { sweep.names("table " + sweep.file, folder / "correct.bits"); });
  fs::remove(folder / "metrics.jsonl");
  sweep.names("export --curves --by-row " + sweep.file, folder / "metrics.jsonl");
}

TEST_CASE("seals: a table of two programs' results names both") {
  const Unsealed sweep;
  const fs::path path = sweep.done();
  const std::string good = read_file(path);
  const auto at = good.find("\"binary ") + 8;
  const std::string binary = good.substr(at, 16);
  CHECK(!has(sweep.call("table " + sweep.file).out, "Mixed environments"));
  sweep.with(path, replaced(good, binary, "0123456789abcdef"), [&] {
    const Finished table = sweep.call("table " + sweep.file + " --width 400");
    CHECK(table.code == 0);
    CHECK_MESSAGE(has(table.out, "0123456789abcdef"), table.out);
    CHECK_MESSAGE(has(table.out, binary), table.out);
  });
}

TEST_CASE("seals: clean deletes the temporary file of a killed run only with --yes") {
  const Trained sweep;
  const fs::path left = left_by_a_killed_run(sweep);
  CHECK(has(sweep.call("clean " + sweep.file + " --keep last").out, left.string()));
  CHECK(fs::exists(left));
  CHECK(sweep.call("clean --keep last --yes").code == 0);
  CHECK(!fs::exists(left));
}

TEST_CASE("seals: the next run deletes the temporary file of a killed one") {
  const Trained sweep;
  const fs::path left = left_by_a_killed_run(sweep);
  CHECK(sweep.call("run " + sweep.file).code == 0);
  CHECK(!fs::exists(left));
}
