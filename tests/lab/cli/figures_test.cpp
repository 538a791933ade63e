// normlab report --figures as a user calls it.
#include <doctest/doctest.h>

#include "tests/lab/base/text.h"
#include "tests/lab/cli/python.h"
#include "tests/lab/cli/small_sweep.h"
#include "tests/lab/pictures/fake_results.h"
#include "tests/lab/pictures/svg_reader.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

/// A finished sweep of three rows without a training, and its figures.
struct Drawn {
  TemporaryFolder folder;
  std::string arguments;
  Drawn() {
    const Experiment experiment = experiment_of(folder, R"({"about": "Which one is best? Three rows.",
      "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
      "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
      "train": {"epochs": 4, "batch_size": 20}, "sweep": {"model.placement": ["pre_pre", "sub_ln", "dpn"]},
      "seeds": 3, "baseline": {"model.placement": "pre_pre"}})");
    const ResultStore store(folder / "results");
    for (const Trial& trial : experiment.trials)
      fake_done(store, trial, 0.5 + 0.02 * double(trial.row) + 0.005 * double((trial.config.seed * 7 + trial.row) % 5));
    arguments = in_folder(folder, "small.json") + " --out " + in_folder(folder, "results");
  }
  Finished draw(const std::string& options) const {
    return run_program(folder, "report " + arguments + " --figures " + in_folder(folder, "f") + " " + options);
  }
  std::string text(const std::string& name) const { return text_of(folder / "f" / name); }
  void forget_seed(std::uint64_t seed, const std::string& row) const {
    const Experiment experiment = load_experiment(folder / "small.json");
    for (const Trial& trial : experiment.trials)
      if (trial.config.seed == seed && experiment.rows[trial.row].label == row)
        fs::remove_all(ResultStore(folder / "results").trial(trial.id).path());
  }
};

}  // namespace

TEST_CASE("figures: rows, width, titles and limits are as asked for") {
  const Drawn sweep;
  const std::string looks = " --rows dpn --width 3.25in --no-titles --script";
  for (const char* only : {"--only curves --overlay", "--only strip --xlim=-1.5,3"}) {
    const Finished made = sweep.draw(only + looks);
    REQUIRE_MESSAGE(made.code == 0, made.err);
  }
  const std::string strip = sweep.text("strip.svg"), curves = sweep.text("curves.svg");
  for (const std::string& svg : {strip, curves}) {
    REQUIRE(!svg.empty());
    CHECK(drawn(svg, "svg").front().number("width") == 312);
    CHECK(occurrences(svg, "sub_ln") == 0);
    CHECK(occurrences(svg, ">dpn<") > 0);
  }
  CHECK(occurrences(strip, ">Gains over") == 1);  // in <title>, which readers of the screen hear
  CHECK(occurrences(strip, "class=\"p-head\"") == 0);
  const auto ticks = drawn(strip, "text", "p-tick");
  CHECK(ticks.front().content == "−1");
  CHECK(ticks.back().content == "+3");
  CHECK(occurrences(curves, ">pre_pre</text>") == 3);  // the baseline stays, in each panel
  CHECK(occurrences(curves, ">eval/accuracy [%]</text>") == 1);
  CHECK(sweep.text("curves.csv").find("eval/accuracy [%],dpn,50,5") != std::string::npos);
  CHECK(fs::exists(sweep.folder / "f/curves.py"));
}

TEST_CASE("figures: a gain counts its pairs, and pages of an earlier figure go") {
  const Drawn sweep;
  sweep.forget_seed(2, "pre_pre");
  fs::create_directories(sweep.folder / "f");
  for (const char* old : {"strip-2.svg", "strip-3.svg", "strip-2.png"})
    std::ofstream(sweep.folder / "f" / old) << "old";
  const Finished made = sweep.draw("--only strip");
  CHECK(made.code == 0);
  CHECK(has(sweep.text("strip.csv"), ",sub_ln,gain,"));
  CHECK(has(sweep.text("strip.csv"), ",2\n"));
  CHECK(!has(sweep.text("strip.csv"), ",3\n"));
  CHECK(!fs::exists(sweep.folder / "f/strip-2.svg"));
  CHECK(!fs::exists(sweep.folder / "f/strip-3.svg"));
  CHECK(fs::exists(sweep.folder / "f/strip-2.png"));
  CHECK(has(made.err, "strip-3.svg, a page of an earlier figure"));
}

TEST_CASE("figures: why a figure is missing is said of the chosen rows") {
  const Drawn sweep;
  const Finished chosen = sweep.draw("--only strip,mapping --rows pre_pre");
  CHECK(chosen.code == 2);
  CHECK(has(chosen.err, "strip: none of the chosen rows has its numbers; other rows do"));
  CHECK(has(chosen.err, "mapping: no trial has been measured by the probe"));
  for (std::uint64_t seed = 0; seed < 3; ++seed) sweep.forget_seed(seed, "pre_pre");
  REQUIRE(sweep.draw("--only strip").code == 0);
  CHECK(has(sweep.text("strip.md"), "There is none yet: no row shares a finished seed with its baseline."));
}

TEST_CASE("figures: limits tell arrows") {
  const Drawn sweep;
  const std::string sentence = "Arrows: beyond the axis, at the number beside them.";
  REQUIRE(sweep.draw("--only strip --xlim=-1,3").code == 0);
  CHECK(has(sweep.text("strip.md"), sentence));
  REQUIRE(sweep.draw("--only strip --xlim=-100,100").code == 0);
  CHECK(!has(sweep.text("strip.md"), sentence));
}

TEST_CASE("figures: a format names the files, and each has its numbers") {
  const Drawn sweep;
  for (const std::string format : {"pdf", "png"}) {
    const Finished made = sweep.draw("--only strip --format " + format);
    if (made.code == 3 && has(made.err, "librsvg cannot be loaded")) {
      MESSAGE("skipped: " << made.err);
      return;
    }
    REQUIRE_MESSAGE(made.code == 0, made.err);
    CHECK(sweep.text("strip." + format).substr(1, 3) == (format == "pdf" ? "PDF" : "PNG"));
    CHECK(!fs::exists(sweep.folder / "f/strip.svg"));
    CHECK(fs::exists(sweep.folder / "f/strip.csv"));
  }
}

TEST_CASE("figures: options that fit no figure are refused before anything is written") {
  const Drawn sweep;
  for (const auto& [options, error] : std::vector<std::pair<std::string, std::string>>{
           {"--rows dpm", "--rows: unknown row \"dpm\""},
           {"--rows sub_lm", "did you mean \"sub_ln\"?"},
           {"--width 3", "--width: \"3\" is no width from 2.5in to 20in, such as 3.25in"},
           {"--width 1in", "--width: \"1in\" is no width"},
           {"--width 1e9in", "--width: \"1e9in\" is no width"},
           {"--width nanin", "--width: \"nanin\" is no width"},
           {"--xlim 3", "--xlim: expects the least and the greatest value"},
           {"--xlim 3,3", "--xlim: expects the least and the greatest value"},
           {"--xlim 0,inf", "--xlim: expects the least and the greatest value"},
           {"--xlim=-1e308,1e308", "--xlim: expects the least and the greatest value"},
           {"--xlim 1,1.0000000000000002", "--xlim: expects the least and the greatest value"},
           {"--xlim 1e9,2e9", "--xlim: nothing of strip lies between 1000000000 and 2000000000"},
           {"--width 0x5in", "--width: \"0x5in\" is no width"},
           {"--only strop", "--only: unknown figure \"strop\"; did you mean \"strip\"?"},
           {"--steps 1048577", "--steps: must be at most 1048576, not \"1048577\""},
           {"--format gif", "--format: must be svg, pdf or png, not \"gif\""}}) {
    const Finished refused = sweep.draw(options);
    CHECK(refused.code == 2);
    CHECK_MESSAGE(has(refused.err, error), refused.err);
    CHECK(!fs::exists(sweep.folder / "f"));
  }
}

TEST_CASE("figures: a script draws each figure from its CSV") {
  const Drawn sweep;
  REQUIRE(sweep.draw("--only strip,curves --script").code == 0);
  REQUIRE(sweep.draw("--only curves --overlay --script").code == 0);
  const TemporaryFolder python;
  if (const std::string why = lacks_module(python, "matplotlib"); !why.empty()) {
    MESSAGE(why);
    return;
  }
  for (const std::string name : {"strip", "curves", "curves-train-loss"}) {
    const std::string script = (sweep.folder / "f" / (name + ".py")).string();
    const Finished run = run_python(python, "import runpy, sys\nsys.argv = ['" + script + "', '" + name +
                                                ".svg']\nrunpy.run_path('" + script + "')\n");
    CHECK_MESSAGE(run.code == 0, run.out);
    CHECK(text_of(python / (name + ".svg")).find("</svg>") != std::string::npos);
  }
  REQUIRE(sweep.draw("--only strip --xlim=-1,1 --script").code == 0);
  const std::string stem = (sweep.folder / "f/strip").string();
  const Finished arrows = run_python(python,
                                     "import csv, runpy, sys\nimport matplotlib\n"
                                     "matplotlib.rcParams['svg.fonttype'] = 'none'\n"
                                     "sys.argv = ['strip.py', 'arrows.svg']\nrunpy.run_path('" +
                                         stem + ".py')\nsvg = open('arrows.svg').read()\n" +
                                         "means = [float(r[3]) for r in list(csv.reader(open('" + stem +
                                         ".csv')))[1:]]\n"
                                         "print(all(m > 1 and svg.count(f'>{m:.3g}<') == 1 for m in means))\n");
  CHECK_MESSAGE(has(arrows.out, "True"), arrows.out);
}
