// normlab report and normlab export --curves --by-row as a user calls them.
#include <doctest/doctest.h>

#include "tests/lab/cli/program.h"
#include "tests/lab/cli/small_sweep.h"
#include "tests/lab/pictures/fake_results.h"
#include "tests/lab/pictures/svg_reader.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

const char* const kThreeRows = R"({
  "about": "Which one is best? Three rows.",
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
  "train": {"epochs": 4, "batch_size": 20},
  "sweep": {"model.placement": ["pre_pre", "sub_ln", "dpn"]},
  "seeds": 3,
  "baseline": {"model.placement": "pre_pre"}
})";

std::string in(const TemporaryFolder& folder, const std::string& name) { return (folder / name).string(); }

/// A finished sweep without a training; its arguments for the program.
std::string fake_sweep(const TemporaryFolder& folder) {
  const Experiment experiment = experiment_of(folder, kThreeRows);
  const ResultStore store(folder / "results");
  for (const Trial& trial : experiment.trials)
    fake_done(store, trial, 0.5 + 0.02 * double(trial.row) + 0.005 * double((trial.config.seed * 7 + trial.row) % 5));
  return in(folder, "small.json") + " --out " + in(folder, "results");
}

}  // namespace

TEST_CASE("report: page and pictures are written into new folders") {
  const TemporaryFolder folder;
  std::ofstream(folder / "small.json") << kThreeRows;
  const std::string arguments = in(folder, "small.json") + " --set seeds=2 --out " + in(folder, "results");
  REQUIRE(run_program(folder, "run " + arguments).code == 0);
  const Finished made = run_program(
      folder, "report " + arguments + " -o " + in(folder, "new/deep/page.html") + " --svg " + in(folder, "pictures"));
  CHECK_MESSAGE(made.code == 0, made.err);
  CHECK(made.out.empty());
  const std::string html = text_of(folder / "new/deep/page.html");
  CHECK(html.find("<h1>Which one is best?</h1>") != std::string::npos);
  CHECK(html.find("3 rows, 6 trials: 6 done.") != std::string::npos);
  CHECK(drawn(html, "circle", "p-dot").size() == 8);  // two rows, two seeds, a wide and a narrow picture
  for (const char* name : {"gains.svg", "curves-eval-accuracy.svg", "curves-train-loss.svg"}) {
    CHECK(text_of(folder / "pictures" / name).rfind("<svg xmlns=", 0) == 0);
    CHECK(made.err.find(name) != std::string::npos);
  }
  const Finished table = run_program(folder, "table " + arguments + " --format json");
  CHECK(table.code == 0);
}

TEST_CASE("report: a page that cannot be written ends with 3") {
  const TemporaryFolder folder;
  const std::string arguments = fake_sweep(folder);
  std::ofstream(folder / "file") << "no folder";
  const Finished below_file = run_program(folder, "report " + arguments + " -o " + in(folder, "file/page.html"));
  CHECK(below_file.code == 3);
  CHECK(below_file.err.find(in(folder, "file")) != std::string::npos);
  fs::create_directory(folder / "taken");
  const Finished on_folder = run_program(folder, "report " + arguments + " -o " + in(folder, "taken"));
  CHECK(on_folder.code == 2);
  CHECK(on_folder.err.find(in(folder, "taken") + ": is a folder") != std::string::npos);
  for (const auto& entry : fs::directory_iterator(folder.path()))  // nothing half-written lies about
    CHECK(entry.path().filename().string().find("tmp") == std::string::npos);
}

TEST_CASE("report: a misspelt metric is refused with the nearest name") {
  const TemporaryFolder folder;
  const std::string arguments = fake_sweep(folder);
  for (const std::string& command : {"report " + arguments + " -o " + in(folder, "x.html") + " --curves eval/acuracy",
                                     "report " + arguments + " -o " + in(folder, "x.html") + " --metric eval/acuracy",
                                     "export --curves --by-row " + arguments + " --metric eval/acuracy"}) {
    const Finished wrong = run_program(folder, command);
    CAPTURE(wrong.err);
    CHECK(wrong.code == 2);
    CHECK(wrong.err.find("did you mean \"eval/accuracy\"?") != std::string::npos);
    CHECK(!fs::exists(folder / "x.html"));
  }
}

TEST_CASE("curves: bands and seeds are printed as CSV") {
  const TemporaryFolder folder;
  const std::string arguments = fake_sweep(folder);
  const Finished bands = run_program(folder, "export --curves --by-row " + arguments + " --metric eval/loss");
  CHECK(bands.code == 0);
  CHECK(bands.out.find("row,step,mean,low,high,n\npre_pre,10,2,2,2,3\n") == 0);
  CHECK(occurrences(bands.out, "\n") == 1 + 3 * 5);
  const Finished seeds =
      run_program(folder, "export --curves --by-row " + arguments + " --metric eval/loss --seeds --format csv");
  CHECK(seeds.out.find("row,seed,step,value\npre_pre,0,10,2\n") == 0);
  CHECK(occurrences(seeds.out, "\n") == 1 + 3 * 3 * 5);
  CHECK(run_program(folder, "export --curves --by-row " + arguments + " --format xml").code == 2);
}

TEST_CASE("report: a damaged file leaves the rest of the page") {
  const TemporaryFolder folder;
  const std::string arguments = fake_sweep(folder);
  const ResultStore store(folder / "results");
  std::ofstream(store.trial(store.trial_ids().front()).metrics(1)) << "{\"step\": oops}\n";
  const Finished made = run_program(folder, "report " + arguments + " -o " + in(folder, "page.html"));
  CHECK(made.code == 2);
  CHECK(made.err.find("metrics.jsonl:1") != std::string::npos);
  const std::string html = text_of(folder / "page.html");
  CHECK(html.find("Results that could not be read") != std::string::npos);
  CHECK(html.find("id=\"gains\"") != std::string::npos);
}

TEST_CASE("report: a browser sorts and filters the page's tables") {
  if (std::getenv("NORMLAB_LONG") == nullptr) {
    MESSAGE("skipped: starts a browser; NORMLAB_LONG=1 runs it");
    return;
  }
  const TemporaryFolder folder;
  const std::string arguments = fake_sweep(folder);
  REQUIRE(run_program(folder, "report " + arguments + " -o " + in(folder, "page.html")).code == 0);
  const std::string log = in(folder, "browser.txt");
  const int status = std::system(
      ("python3 tests/lab/pictures/browser_test.py " + in(folder, "page.html") + " >" + log + " 2>&1").c_str());
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (code == 77 || code == 127) {
    MESSAGE((code == 77 ? text_of(log) : "skipped: no python3 on this machine"));
    return;
  }
  CHECK_MESSAGE(code == 0, text_of(log));
}

TEST_CASE("report: -o writes through symbolic links") {
  const TemporaryFolder folder;
  const std::string arguments = fake_sweep(folder);
  std::ofstream(folder / "real.html") << "old";
  fs::create_symlink("real.html", folder / "link.html");
  fs::create_symlink("link.html", folder / "second.html");
  CHECK(run_program(folder, "report " + arguments + " -o " + in(folder, "second.html")).code == 0);
  CHECK(fs::is_symlink(folder / "link.html"));
  CHECK(fs::is_symlink(folder / "second.html"));
  CHECK(text_of(folder / "real.html").find("<h1>") != std::string::npos);
}

TEST_CASE("report: -o - prints the page") {
  const TemporaryFolder folder;
  const std::string arguments = fake_sweep(folder);
  const Finished shown = run_program(folder, "report " + arguments + " -o -");
  CHECK(shown.code == 0);
  CHECK(shown.out.find("<h1>Which one is best?</h1>") != std::string::npos);
  CHECK(shown.err.find("wrote") == std::string::npos);
  CHECK_FALSE(fs::exists("-"));
}

TEST_CASE("report: --watch rewrites the page until the sweep ends") {
  const TemporaryFolder folder;
  const std::string arguments = small_sweep(folder) + " --out " + in(folder, "results");
  const auto page = [&] { return text_of(folder / "page.html"); };
  const auto reloads = [&] { return page().find("<meta http-equiv=\"refresh\" content=\"1\">") != std::string::npos; };
  const Program watch(folder, "report " + arguments + " --watch 1 -o " + in(folder, "page.html"));
  REQUIRE(comes_true(reloads));
  CHECK(page().find("2 rows, 4 trials: 4 missing.") != std::string::npos);
  CHECK_FALSE(fs::exists(folder / "results/trials"));
  REQUIRE(run_program(folder, "run " + arguments + " --workers 1").code == 0);
  REQUIRE(comes_true([&] { return watch.ended(); }));
  const Finished watched = watch.wait();
  CHECK_MESSAGE(watched.code == 0, watched.err);
  CHECK(occurrences(watched.err, "page.html") == 1);
  CHECK(page().find("2 rows, 4 trials: 4 done.") != std::string::npos);
  CHECK_FALSE(reloads());
}

TEST_CASE("report: --watch of a sweep that is over writes one page and ends") {
  const TemporaryFolder folder;
  const std::string arguments = fake_sweep(folder);
  CHECK(run_program(folder, "report " + arguments + " --watch -o " + in(folder, "page.html")).code == 0);
}

TEST_CASE("report: Ctrl-C ends --watch with a page that no longer reloads") {
  const TemporaryFolder folder;
  const std::string arguments = small_sweep(folder) + " --out " + in(folder, "results");
  const Program watch(folder, "report " + arguments + " --watch 60 -o " + in(folder, "page.html"));
  const auto reloads = [&] {
    return text_of(folder / "page.html").find("http-equiv=\"refresh\"") != std::string::npos;
  };
  REQUIRE(comes_true(reloads));
  watch.signal_one(SIGINT);
  REQUIRE(comes_true([&] { return watch.ended(); }, 10));
  CHECK(watch.wait().code == 130);
  CHECK_FALSE(reloads());
  CHECK(text_of(folder / "page.html").find("4 missing.") != std::string::npos);
}

TEST_CASE("report: --watch refuses what it cannot do") {
  const TemporaryFolder folder;
  const std::string sweep = small_sweep(folder);
  for (const auto& [words, part] :
       {std::pair{"report " + sweep + " --watch -o -", "--watch: needs a file to rewrite"},
        std::pair{"report " + sweep + " --watch 0", "--watch: must be 1 to 99999, not \"0\""}}) {
    const Finished refused = run_program(folder, words);
    CHECK(refused.code == 2);
    CHECK_MESSAGE(refused.err.find(part) != std::string::npos, refused.err);
  }
}
