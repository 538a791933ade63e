// Results in one file: `normlab export`, and the commands that read it by --from.
#include <doctest/doctest.h>

#include <algorithm>

#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/cli/python.h"
#include "tests/lab/cli/two_trials.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

struct Exported {
  TemporaryFolder folder;
  std::string out = (folder / "out").string(), file, jsonl = (folder / "new/two.jsonl").string();

  Finished call(const std::string& words) const { return run_program(folder, words); }
  Finished export_to(const std::string& options) const {
    return call("export " + file + " --out " + out + " -o " + jsonl + " " + options);
  }
  /// The command prints the same from the folder and from the file.
  void same(const std::string& command) const {
    CAPTURE(command);
    const Finished there = call(command + " --out " + out), here = call(command + " --from " + jsonl);
    CHECK_MESSAGE(there.code == 0, there.err);
    CHECK(here.code == there.code);
    CHECK(here.out == there.out);
    CHECK(here.err == there.err);
  }
};

struct Trained : Exported {
  Trained() {
    file = (folder / "two.json").string();
    std::ofstream(file) << kTwoTrials;
    const Finished done = call("run " + file + " --threads 1 --out " + out);
    REQUIRE_MESSAGE(done.code == 0, done.err);
  }
  /// The command ends with code 2, prints nothing and says `part`.
  void fails(const std::string& words, const std::string& part) const {
    CAPTURE(words);
    const Finished done = call(words);
    CHECK(done.code == 2);
    CHECK(done.out.empty());
    CHECK_MESSAGE(has(done.err, part), done.err);
  }
};

/// Two trials, trained once. A test that changes their results puts them right again.
const Trained& trained() {
  static const Trained once;
  return once;
}

std::string page_of(const fs::path& path) {
  std::string text = text_of(path);
  const auto at = text.find("Written 2");  // the second it was written
  REQUIRE(at != text.npos);
  return text.erase(at, std::string_view("Written 2026-11-22T17:43:56Z").size());
}

std::vector<std::string> sorted_lines(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  return lines;
}

}  // namespace

TEST_CASE("export: commands show from the file what they show from the folder") {
  const Trained& two = trained();
  const Finished written = two.export_to("--full");
  CHECK_MESSAGE(written.code == 0, written.err);
  CHECK(written.out.empty());
  CHECK(has(written.err, "two.jsonl: 2 of 2 trials"));
  for (const char* options : {"", " --format json", " --format csv", " --select best_minival",
                              " --select mean_last_k --last 2", " --metric train/loss", " --detect 1"})
    two.same("table " + two.file + options);
  two.same("export --curves --by-row " + two.file);
  two.same("export --curves --by-row " + two.file + " --seeds --metric train/loss");
  const auto report = [&](const std::string& source, const std::string& name) {
    const Finished done = two.call("report " + two.file + source + " -o " + (two.folder / name).string());
    CHECK_MESSAGE(done.code == 0, done.err);
    return page_of(two.folder / name);
  };
  CHECK(report(" --out " + two.out, "a.html") == report(" --from " + two.jsonl, "b.html"));
}

TEST_CASE("export: the file of a folder has all its trials") {
  const Trained& two = trained();
  REQUIRE(two.export_to("--full").code == 0);
  const std::string all = (two.folder / "all.jsonl").string();
  CHECK(two.call("export " + two.out + " --full -o " + all).code == 0);
  CHECK(sorted_lines(text_of(all)) == sorted_lines(text_of(two.jsonl)));  // the folder's are in the order of ids
}

TEST_CASE("export: results without seals have the same table from the file") {
  Exported six;
  fs::copy("tests/lab/trials/unsealed", six.folder.path(), fs::copy_options::recursive);
  six.file = (six.folder / "unsealed.json").string();
  CHECK(six.export_to("--full").code == 0);
  const Finished table = six.call("table " + six.file + " --from " + six.jsonl);
  CHECK(table.out == text_of("tests/lab/trials/unsealed/table.txt"));
}

TEST_CASE("export: a file without curves has a table but no curves") {
  const Trained& two = trained();
  const std::string from = " --from " + two.jsonl;
  CHECK(two.export_to("").code == 0);
  CHECK(two.call("table " + two.file + from).code == 0);
  const Finished bare = two.call("export --curves --by-row " + two.file + from);
  CHECK(bare.code == 2);
  const std::string words =
      "2 of 2 trials with a result came without learning curves; export them again with `normlab export --full`";
  CHECK(bare.err == words + "\n");
  const std::string page = (two.folder / "bare.html").string();
  const Finished report = two.call("report " + two.file + from + " -o " + page);
  CHECK_MESSAGE(report.code == 0, report.err);
  CHECK(report.err == words + "\nwrote " + page + "\n");
  const std::string html = text_of(page);
  CHECK_FALSE(has(html, "Results that could not be read"));
  CHECK(has(html, "<h2>Learning curves</h2>\n<p>2 of 2 trials with a result came without learning curves; "));
}

TEST_CASE("export: a trial merged without its curve is exported without it") {
  const Trained& two = trained();
  REQUIRE(two.export_to("").code == 0);
  const std::string merged = (two.folder / "merged").string(), again = (two.folder / "again.jsonl").string();
  REQUIRE(two.call("merge " + two.jsonl + " --out " + merged).code == 0);
  const Finished exported = two.call("export " + two.file + " --out " + merged + " --full -o " + again);
  CHECK_MESSAGE(exported.code == 0, exported.err);
  CHECK(has(exported.err, "2 trials without a curve, merged from an archive that was written without --full"));
  CHECK(text_of(again) == text_of(two.jsonl));
}

TEST_CASE("export: trials of a program from an uncommitted tree are warned of") {
  const Trained& two = trained();
  const fs::path out = two.folder / "dirty";
  fs::copy(two.out, out, fs::copy_options::recursive);
  const ResultStore store(out);
  const auto version = [&](const std::string& id, const std::string& text) {
    TrialResult result = *store.trial(id).load_result();
    result.provenance["version"] = text;
    std::ofstream(store.trial(id).path() / "result.json") << write_trial_result(result);
  };
  for (const std::string& id : store.trial_ids()) version(id, "0.2.0+1234abcd");
  const std::string words =
      "export " + two.file + " --out " + out.string() + " -o " + (two.folder / "d.jsonl").string();
  CHECK_FALSE(has(two.call(words).err, "committed"));
  version(store.trial_ids().front(), "0.2.0+1234abcd-dirty");
  const Finished warned = two.call(words);
  CHECK_MESSAGE(warned.code == 0, warned.err);
  CHECK(has(warned.err,
            "1 trial of a program from sources that were not committed (0.2.0+1234abcd-dirty), which no reader can "
            "build; before you publish, commit, build and train again\n"));
  const Finished run = two.call("run " + two.file + " --out " + out.string());
  CHECK(has(run.err, "is built from sources that were not committed") == is_uncommitted(build_version()));
}

TEST_CASE("export: an archive that becomes a folder again has its experiment") {
  const Trained& two = trained();
  for (const char* options : {"", "--anonymous"}) {
    REQUIRE(two.export_to(options).code == 0);
    const std::string merged = (two.folder / ("listed" + std::string(options))).string();
    REQUIRE(two.call("merge " + two.jsonl + " --out " + merged).code == 0);
    const Finished listed = two.call("list --out " + merged);
    CHECK(listed.code == 0);
    CHECK(listed.out == "two: 2 trials, 2 done\n  " + (*options ? std::string("two.json") : two.file) + "\n");
    CHECK(two.call("verify --files --out " + merged).code == 0);
  }
}

TEST_CASE("export: a bootstrap from a file is refused") {
  const Trained& two = trained();
  const std::string table = "table " + two.file, from = " --from " + two.jsonl;
  CHECK(two.export_to("--full").code == 0);
  two.fails(table + from + " --bootstrap", "--bootstrap needs to know which test images each run gets right");
  two.fails("report " + two.file + from + " --bootstrap", "--bootstrap needs to know");
}

TEST_CASE("export: --from is refused where it does not apply") {
  const Trained& two = trained();
  const std::string table = "table " + two.file, from = " --from " + two.jsonl;
  REQUIRE(two.export_to("--full").code == 0);
  two.fails(table + from + " --out " + two.out, "--out");
  two.fails("table " + two.out + from, "--from: applies to a descriptor");
  two.fails(table + " --from " + two.out, "is a folder of results, not of archives; give it with --out");
  two.fails("export " + two.out + " --format csv" + from, "--from: applies to a descriptor");
  two.fails("export " + two.file + from + " -o x", "--from: needs --format csv or --format jsonl");
}

TEST_CASE("export: options that exclude each other are refused") {
  const Trained& two = trained();
  two.fails("export " + two.file + " --out " + two.out, "--output");
  two.fails("export " + two.out + " --set seeds=1 -o x", "--set: applies to a descriptor");
  two.fails("export " + two.file + " --curves --format archive -o x", "--curves: needs --format csv or --format jsonl");
  two.fails("export " + two.file + " --full --format csv", "--full: needs --format archive");
  two.fails("export " + two.file + " --anonymous --format csv", "--anonymous: needs --format archive");
}

TEST_CASE("export: a folder without results of the descriptor is refused") {
  const Trained& two = trained();
  two.fails("export " + two.file + " --out " + two.folder.path().string() + " -o x", "has no results for 2 trials");
  two.fails("export " + two.folder.path().string() + " --format csv", "no results are in this folder");
}

TEST_CASE("export: an archive of another descriptor is told") {
  const Trained& two = trained();
  REQUIRE(two.export_to("--full").code == 0);
  const Finished other = two.call("table " + two.file + " --set train.batch_size=7 --from " + two.jsonl);
  CHECK_MESSAGE(has(other.err, "two.jsonl: none of its 2 trials belongs to "), other.err);
  CHECK(two.call("table " + two.file + " --from " + two.jsonl).err.empty());
}

TEST_CASE("export: no command shows numbers of a damaged file") {
  const Trained& two = trained();
  const std::string table = "table " + two.file, from = " --from " + two.jsonl;
  REQUIRE(two.export_to("--full").code == 0);
  std::string text = text_of(two.jsonl);
  const auto at = text.rfind("\"train/loss\":") + 13;
  text[at] = text[at] == '1' ? '2' : '1';
  write_atomically(two.jsonl, text);
  for (const std::string& command : {table, "export --curves --by-row " + two.file,
                                     "report " + two.file + " -o " + two.folder.path().string() + "/r.html"})
    two.fails(command + from, "two.jsonl:2: ");
  CHECK(!fs::exists(two.folder / "r.html"));
}

TEST_CASE("export: a trial with damaged metrics is not exported") {
  const Trained& two = trained();
  REQUIRE(two.export_to("--full").code == 0);
  const std::string text = text_of(two.jsonl);
  const ResultStore store(two.out);
  const fs::path metrics = store.trial(store.trial_ids()[0]).metrics(1);
  const std::string good = text_of(metrics);
  std::string lines = good;
  lines[lines.find("train/loss\":") + 12] ^= 1;
  write_atomically(metrics, lines);
  const Finished done = two.export_to("--full");
  write_atomically(metrics, good);
  CHECK(done.code == 2);
  CHECK_MESSAGE(has(done.err, metrics.string() + ": is damaged"), done.err);
  CHECK(text_of(two.jsonl) == text);
}

TEST_CASE("export: the tables of docs/results.md are those of the files that it names") {
  const TemporaryFolder folder;
  const std::string page = text_of("docs/results.md"), with_file = " --from docs/results/";
  for (const std::string& words : {"placements_cifar10.json" + with_file + "cifar10.jsonl",
                                   "bf16_cifar10.json" + with_file + "cifar10.jsonl --equivalent 0.5",
                                   "cifar_augmented.json" + with_file + "cifar_augmented.jsonl"}) {
    CAPTURE(words);
    const Finished table = run_program(folder, "table experiments/" + words);
    CHECK_MESSAGE(table.code == 0, table.err);
    // The page leaves out the footer, which follows an empty line after the rows.
    const auto rows = table.out.find("\n\n") + 2;
    CHECK(has(page, "```text\n" + table.out.substr(0, table.out.find("\n\n", rows) + 1) + "```\n"));
  }
  const std::string gains = " --cells gain --rows placement --cols ", small = "papers/dual_patchnorm/";
  for (const std::string& words :
       {"transfer_cifar10.json" + with_file + "transfer_cifar10.jsonl" + gains + "start --cols image_size",
        "transfer_fewshot.json" + with_file + "transfer_fewshot.jsonl --metric eval/5shot_accuracy",
        "transfer_segmentation.json" + with_file + "transfer_segmentation.jsonl" + gains + "fraction",
        std::string("claims/02-dual-patchnorm.json --from docs/results --where 'placement = dpn'"),
        small + "finetune384_tiny.json" + with_file + "dual_patchnorm_finetune384_tiny.jsonl",
        small + "imagenet21k_25shot_tiny.json" + with_file +
            "dual_patchnorm_imagenet21k_25shot_tiny.jsonl --metric eval/25shot_accuracy",
        small + "vtab_tiny.json" + with_file +
            "dual_patchnorm_vtab_tiny.jsonl --where 'placement = dpn' --family table",
        small + "lit_tiny.json" + with_file + "dual_patchnorm_lit_tiny.jsonl",
        small + "segmentation_tiny.json" + with_file +
            "dual_patchnorm_segmentation_tiny.jsonl --where 'placement = dpn_to_head' --family table",
        "cifar10_copy.json" + with_file + "cifar10_copy.jsonl",
        "dpn_stacks.json" + with_file + "dpn_stacks.jsonl --where 'patch_in = layer_norm'",
        "norms_by_depth.json" + with_file + "norms_by_depth.jsonl" + gains + "depth",
        "norms_by_optimizer.json" + with_file + "norms_by_optimizer.jsonl" + gains + "name",
        "formula_search.json" + with_file + "formula_search.jsonl" + gains + "p",
        "activations.json" + with_file + "activations.jsonl --rows activation --cols placement --cells gain",
        "norms_2026.json" + with_file + "norms_2026.jsonl --where 'mlp = plain'" + gains + "rotary",
        "norms_2026.json" + with_file + "norms_2026.jsonl --where 'mlp = gated'" + gains + "rotary",
        "placements_two_data_sets.json" + with_file + "placements_two_data_sets.jsonl" + gains + "name"}) {
    CAPTURE(words);
    const Finished table = run_program(folder, "table experiments/" + words);
    CHECK_MESSAGE(table.code == 0, table.err);
    const auto rows = table.out.find("\n\n") + 1;
    CHECK(has(page, table.out.substr(rows + 1, table.out.find("\n\n", rows + 1) - rows)));
  }
}

TEST_CASE("export: a file with no trial of normlab is refused") {
  const TemporaryFolder folder;
  const std::string with_file = " --from docs/results/";
  const Finished twins =
      run_program(folder, "table experiments/placements_cifar10.json" + with_file + "cifar10_twin.jsonl");
  CHECK(twins.code == 2);
  CHECK_MESSAGE(has(twins.err, "cifar10_twin.jsonl: holds no trials of normlab"), twins.err);
}

TEST_CASE("export: rows from a descriptor are those of the folder or archive") {
  const Trained& two = trained();
  CHECK(two.export_to("--full").code == 0);
  for (const std::string options : {" --format csv", " --format jsonl", " --format csv --curves"}) {
    two.same("export " + two.file + options);
    const Finished folder = two.call("export " + two.out + options);
    CHECK(folder.code == 0);
    CHECK(sorted_lines(folder.out) == sorted_lines(two.call("export " + two.file + options + " --out " + two.out).out));
  }
}

TEST_CASE("export: the lines of docs/tables.md read every number as it was stored") {
  const Trained& two = trained();
  const std::string to = " --out " + two.out + " --format csv -o " + two.folder.path().string();
  REQUIRE(two.call("export " + two.file + to + "/trials.csv").code == 0);
  REQUIRE(two.call("export " + two.file + " --curves" + to + "/curves.csv").code == 0);
  REQUIRE(two.call("export " + two.file + " --out " + two.out + " --format jsonl -o " + two.jsonl).code == 0);
  const std::string page = text_of("docs/tables.md"), kCheck = R"(
import json
wanted = [json.loads(line) for line in open("new/two.jsonl")]
assert len(wanted) == 2 and None not in [row["eval/loss"] for row in wanted]
for name in ["eval/accuracy", "eval/loss", "train/loss", "wall_seconds", "train.optimizer.lr", "train.batch_size"]:
    assert list(trials[name]) == [row[name] for row in wanted], name
assert len(losses) == len(set(zip(losses["trial"], losses["step"]))) > 2
assert str(trials["model.qkv_bias"].dtype).lower() in ("bool", "boolean"), trials["model.qkv_bias"].dtype
)";
  std::size_t at = 0;
  for (const std::string module : {"pandas", "polars"}) {
    const std::size_t begin = page.find("```python\nimport " + module, at) + 10;
    REQUIRE(begin > at + 9);
    at = page.find("```\n", begin);
    const std::string lines = page.substr(begin, at - begin);
    CHECK(std::count(lines.begin(), lines.end(), '\n') == 5);
    if (const std::string why = lacks_module(two.folder, module); !why.empty()) {
      MESSAGE(why);
      continue;
    }
    const Finished done = run_python(two.folder, lines + kCheck);
    CHECK_MESSAGE(done.code == 0, done.out);
  }
}
