// The commands of the version before give what their new forms give, and say what those are.
#include <doctest/doctest.h>

#include "tests/lab/base/text.h"
#include "tests/lab/cli/small_sweep.h"

using namespace normlab;

namespace {

struct Renamed {
  std::string before, now, form;  // the old command line, the new one, and what the message calls it
};

struct Place {
  TemporaryFolder folder;
  std::string file = small_sweep(folder), out = " --out " + in_folder(folder, "r"), first, second;
  Place() {
    REQUIRE(run_program(folder, "run " + file + " --set train.epochs=2" + out).code == 0);
    const std::vector<std::string> ids = ResultStore(folder / "r").trial_ids();
    first = ids[0], second = ids[1];
  }
  std::vector<Renamed> renamed() const {
    const std::string set = file + " --set train.epochs=2", made = in_folder(folder, "figures"),
                      data = in_folder(folder, "data");
    const std::string shots = first + out + " --shots 1,2 --threads 1";
    std::filesystem::create_directories(data);
    return {{"missing " + file + out, "status --missing " + file + out, "status --missing"},
            {"missing --ids " + file + out, "status --missing --ids " + file + out, "status --missing"},
            {"curves " + set + out, "export --curves --by-row " + set + out, "export --curves --by-row"},
            {"curves " + set + out + " --metric train/loss --seeds --format csv",
             "export " + set + out + " --curves --by-row --metric train/loss --seeds", "export --curves --by-row"},
            {"find " + first + out, "list " + first + out, "list ID"},
            {"diff " + first + " " + second + out, "explain " + first + " " + second + out, "explain A B"},
            {"diff " + file + " experiments/micro_trials.json", "explain " + file + " experiments/micro_trials.json",
             "explain A B"},
            {"fewshot " + shots + " --data " + data + " --dataset gratings --crop stretch",
             "eval --fewshot " + shots + " --data-root " + data + " --data gratings --crop stretch", "eval --fewshot"},
            {"fewshot " + shots + " --dataset=gratings --crop stretch",
             "eval --fewshot " + shots + " --data=gratings --crop stretch", "eval --fewshot"},
            {"probe " + file + " --images 10 --format csv --data=" + data,
             "eval --probe " + file + " --images 10 --format csv --data-root=" + data, "eval --probe"},
            {"figures " + set + out + " --only strip,curves --last 3 -o " + made,
             "report " + set + out + " --only strip,curves --steps 3 --figures " + made, "report --figures FOLDER"},
            {"figures " + set + out + " --only strip -o" + made,
             "report " + set + out + " --only strip --figures " + made, "report --figures FOLDER"},
            {"schema", "check --schema", "check --schema"},
            {"schema --keys", "check --keys", "check --schema"}};
  }
};

std::string line_of(const Renamed& one) {
  return "normlab " + one.before.substr(0, one.before.find(' ')) + " is now `normlab " + one.form +
         "`; the old name goes with the next release\n";
}

}  // namespace

TEST_CASE("old names: output and exit code are those of the new form, and one line names it") {
  const Place place;
  for (const Renamed& one : place.renamed()) {
    CAPTURE(one.before);
    const Finished before = run_program(place.folder, one.before), now = run_program(place.folder, one.now);
    CHECK_MESSAGE(now.code == 0, now.err);
    CHECK(before.code == now.code);
    CHECK(before.out == now.out);
    CHECK(before.err == line_of(one) + now.err);
  }
}

TEST_CASE("old names: figures without a folder go to figures") {
  const Place place;
  CHECK(run_program(place.folder, "figures " + place.file + " --set train.epochs=2" + place.out + " --only strip",
                    "cd '" + place.folder.path().string() + "'; ")
            .code == 0);
  CHECK(std::filesystem::exists(place.folder / "figures" / "strip.svg"));
}

TEST_CASE("old names: help is that of the new command") {
  const TemporaryFolder folder;
  for (const auto& [before, now] : {std::pair{"missing", "status"},
                                    {"curves", "export"},
                                    {"find", "list"},
                                    {"diff", "explain"},
                                    {"fewshot", "eval"},
                                    {"probe", "eval"},
                                    {"figures", "report"},
                                    {"schema", "check"}}) {
    const auto& shown = before;
    CAPTURE(shown);
    const Finished help = run_program(folder, std::string("help ") + before);
    CHECK(help.code == 0);
    CHECK(help.out == run_program(folder, std::string("help ") + now).out);
    CHECK(help.err.starts_with(std::string("normlab ") + before + " is now `normlab " + now));
    CHECK(run_program(folder, std::string(before) + " --help").out == help.out);
    CHECK(!has(run_program(folder, "help").out, std::string("\n  ") + before + " "));
  }
}

TEST_CASE("old names: errors name the new command") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder);
  for (const auto& [words, error] : std::vector<std::pair<std::string, std::string>>{
           {"missing", "DESCRIPTOR is required; see normlab status --help\n"},
           {"missing " + file + " --idz",
            "unknown option \"--idz\"; did you mean \"--ids\"?; see normlab status --help\n"},
           {"missing " + file + " --format json",
            "--format: does not apply with --missing; leave it out; see normlab status --help\n"},
           {"find", "ID is required; see normlab list --help\n"},
           {"diff " + file, "B is required; see normlab explain --help\n"},
           {"fewshot --shots 0", "--shots: must be at least 1, not \"0\"; see normlab eval --help\n"},
           {"fewshot x --slice test",
            "--slice: does not apply with --fewshot; leave it out; see normlab eval --help\n"},
           {"probe", "eval --probe: give a descriptor\n"},
           {"figures " + file + " --only nothing", "--only: unknown figure \"nothing\"; one of: "},
           {"figures " + file + " --watch",
            "--watch: does not apply with --figures; leave it out; see normlab report --help\n"},
           {"schema " + file, "DESCRIPTOR: does not apply with --schema; leave it out; see normlab check --help\n"},
           {"missin x", "unknown command \"missin\""}}) {
    const auto& shown = words;
    CAPTURE(shown);
    const Finished refused = run_program(folder, words);
    CHECK(refused.code == kBadInput);
    CHECK(refused.out.empty());
    CHECK_MESSAGE(has(refused.err, error), refused.err);
  }
}

TEST_CASE("forms: an option of a form needs it, and the form refuses options that it does not read") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder);
  for (const auto& [words, error] : std::vector<std::pair<std::string, std::string>>{
           {"status --ids " + file, "--ids requires --missing"},
           {"eval x --shots 1", "--shots requires --fewshot"},
           {"eval x --images 3", "--images requires --probe"},
           {"eval x --fewshot --probe", "--probe: does not apply with --fewshot"},
           {"report --only strip " + file, "--only requires --figures"},
           {"report --figures f -o r.html " + file, "-o, --output: does not apply with --figures"},
           {"export --by-row " + file, "--by-row requires --curves"},
           {"export --curves --by-row --full " + file, "--full: does not apply with --by-row"},
           {"export --curves --by-row --format jsonl " + file, "--by-row: needs --format csv"},
           {"export --curves --by-row " + folder.path().string(), "--by-row: needs a descriptor"},
           {"check", "check: give a descriptor, or --keys"},
           {"explain a b --all", "B excludes --all"},
           {"list ab --format json", "ID excludes --format"}}) {
    const auto& shown = words;
    CAPTURE(shown);
    const Finished refused = run_program(folder, words);
    CHECK(refused.code == kBadInput);
    CHECK(refused.out.empty());
    CHECK_MESSAGE(has(refused.err, error), refused.err);
  }
}
