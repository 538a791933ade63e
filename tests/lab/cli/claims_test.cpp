// `normlab claims`, as a process.
#include <doctest/doctest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "experiments/lab/base/files.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

/// A claim of two rows, two seeds each, that train in a second.
struct Claims {
  Claims() {
    fs::create_directories(claims);
    std::ofstream(claims / "03-rate.json") << R"({"dataset": {"name": "shapes", "train_images": 40, "eval_images": 40},
      "model": {"kind": "vit", "patch_size": 8, "embed_dim": 8, "depth": 1, "num_heads": 1},
      "train": {"steps": 4, "batch_size": 10},
      "sweep": {"train.optimizer.lr": [0.001, 0.1]}, "baseline": {"train.optimizer.lr": 0.001}, "seeds": 2,
      "claim": {"source": "A paper", "says": "The rate matters.", "scale": "twin",
                "tests": [{"kind": "gain", "metric": "train/loss", "where": "lr = 0.1", "outside": [-1e-6, 1e-6]}]}})";
    std::ofstream(claims / "12-speed.json") << R"({"dataset": "shapes", "train": {"steps": 4},
      "claim": {"source": "A paper", "says": "It is fast.", "scale": "timing", "repeat": 2,
                "bench": ["norms --shape 8x16 --seconds 0.001 --threads 1"],
                "tests": [{"kind": "timing", "of": "rows[norm=dyt].eval_ms", "over": "rows[norm=dyt].eval_bound_ms",
                           "range": [1e-9, null]}]}})";
  }
  Finished call(const std::string& words) const {
    return run_program(folder, "claims --claims " + claims.string() + " " + words);
  }
  TemporaryFolder folder;
  fs::path claims = folder / "claims", out = folder / "out";
};

}  // namespace

TEST_CASE("claims: a run trains and times what is missing, once, and judges it") {
  const Claims made;
  const std::string out = " --out " + made.out.string();
  const Finished before = made.call(out);
  CHECK(before.code == 0);
  CHECK(has(before.out, "0 of 4 runs "));
  CHECK(has(before.out, "0 of 2 repetitions "));
  const Finished plan = made.call("--plan --gflops 100" + out);
  CHECK(plan.code == 0);
  CHECK(has(plan.out, "rate"));
  CHECK(has(plan.out, "counted once"));
  const Finished ran = made.call("--run --threads 1" + out);
  CHECK_MESSAGE(ran.code == 0, ran.err);
  CHECK(has(ran.err, "03-rate: 4 of 4 trials done (0 before), 0 diverged, 0 failed, 0 refused"));
  CHECK(has(ran.err, "12-speed: 2 of 2 repetitions"));
  const Finished again = made.call("--run --threads 1 --format json" + out);
  CHECK(has(again.err, "03-rate: 4 of 4 trials done (4 before)"));
  CHECK_FALSE(has(again.err, "repetitions"));
  const auto claims = nlohmann::json::parse(again.out)["claims"];
  REQUIRE(claims.size() == 2);
  CHECK(claims[0]["number"] == "3");
  CHECK(claims[0]["done"] == 4);
  CHECK(claims[0]["verdict"] != "not run");
  CHECK(claims[1]["verdict"] == "holds here");
  CHECK(claims[1]["estimates"][0]["n"] == 2);
  CHECK(has(claims[1]["command"].get<std::string>(), "normlab bench norms --shape 8x16"));
  CHECK(count(text_of(made.out / "bench/12-speed.bench.jsonl"), "\"repetition\":2") == 1);

  // The same from archives, in any folder below the one given.
  const fs::path archive = made.folder / "archive/claims";
  fs::create_directories(archive);
  const std::string descriptor = (made.claims / "03-rate.json").string();
  const Finished exported =
      run_program(made.folder, "export " + descriptor + out + " --full -o " + (archive / "03-rate.jsonl").string());
  REQUIRE_MESSAGE(exported.code == 0, exported.err);
  fs::copy(made.out / "bench/12-speed.bench.jsonl", archive);
  const Finished from = made.call("--format json --from " + (made.folder / "archive").string());
  CHECK_MESSAGE(from.code == 0, from.err);
  CHECK(from.out == again.out);

  // One archive has no timings beside it.
  const Finished one = made.call("--format json --from " + (archive / "03-rate.jsonl").string());
  CHECK_MESSAGE(one.code == 0, one.err);
  const auto of_one = nlohmann::json::parse(one.out)["claims"];
  CHECK(of_one[0] == claims[0]);
  CHECK(of_one[1]["verdict"] == "not run");
}

TEST_CASE("claims: a trial that two claims need is trained with the probes of either") {
  const Claims made;
  auto probing = nlohmann::json::parse(read_file(made.claims / "03-rate.json"));
  probing["probes"]["gradients"] = 2;
  probing["claim"]["tests"] = {
      {{"kind", "probe"}, {"of", "grad_norm/head"}, {"where", "lr = 0.1"}, {"range", {nullptr, 100}}}};
  std::ofstream(made.claims / "07-gradient.json") << probing;
  const std::string out = " --out " + made.out.string();
  const Finished alone = made.call("3 --run --threads 1" + out);
  CHECK_MESSAGE(alone.code == 0, alone.err);
  const Finished late = made.call("--format json" + out);
  CHECK(late.code == 2);
  CHECK(has(late.err, "claim 7: 2 of 2 runs of lr 0.1 did not measure grad_norm/head"));
  const auto claims = nlohmann::json::parse(late.out)["claims"];
  CHECK(claims[0]["verdict"] != "not run");
  CHECK(claims[1]["verdict"] == "undecided");

  fs::remove_all(made.out);
  const Finished both = made.call("3 7 --run --threads 1 --format json" + out);
  CHECK_MESSAGE(both.code == 0, both.err);
  CHECK(nlohmann::json::parse(both.out)["claims"][1]["verdict"] == "holds here");
  CHECK(has(both.err, "03-rate: 4 of 4 trials done (4 before)"));
}

TEST_CASE("claims: wrong numbers, folders and descriptors are refused") {
  const Claims made;
  for (const auto& [words, part] : {std::pair{"4", "has no claim of this number; it has 3, 12"},
                                    {"--run --from docs", "--run: writes to a folder of results"},
                                    {"--from /nonexistent", "/nonexistent"},
                                    {"--gflops 3", "--plan"}}) {
    const Finished done = made.call(words);
    const std::string said = words;
    CAPTURE(said);
    CHECK(done.code == 2);
    CHECK(done.out.empty());
    CHECK_MESSAGE(has(done.err, part), done.err);
  }
  CHECK(has(run_program(made.folder, "claims --claims /nonexistent").err, "no such folder of claims"));
  std::ofstream(made.claims / "05-none.json") << R"({"dataset": "shapes", "train": {"steps": 4}})";
  CHECK(has(made.call("5").err, "05-none.json: has no \"claim\""));
}

TEST_CASE("claims: the descriptors of experiments/claims pass, and no number is missing") {
  const TemporaryFolder folder;
  std::vector<int> numbers;
  for (const fs::path& file : list_folder("experiments/claims")) {
    numbers.push_back(std::stoi(file.filename().string()));
    const Finished done = run_program(folder, "check " + file.string());
    CHECK_MESSAGE(done.code == 0, done.err);
    const auto claim = nlohmann::json::parse(read_file(file))["claim"];
    CHECK_MESSAGE((claim["scale"] != "twin" || claim.contains("scale_note")), file, ": why may its scale decide it?");
  }
  std::sort(numbers.begin(), numbers.end());
  REQUIRE(numbers.size() == 53);
  for (int n = 0; n < 53; ++n) CHECK(numbers[std::size_t(n)] == n + 1);
}

TEST_CASE("claims: --printed trains what is missing, and compares it from folders and archives alike") {
  const Claims made;
  const fs::path quick = made.claims / "quick.json", archive = made.folder / "archive/quick.jsonl";
  std::ofstream(quick) << R"({"dataset": {"name": "shapes", "train_images": 40, "eval_images": 40},
    "model": {"kind": "vit", "patch_size": 8, "embed_dim": 8, "depth": 1, "num_heads": 1},
    "train": {"steps": 8, "batch_size": 10}, "seeds": 5,
    "printed": {"repository": "a/b", "commit": "0123abc", "file": "README.md",
                "numbers": [{"value": 99.5, "evaluation": "unstated"}]}})";
  const std::string out = " --out " + made.out.string(), json = "--printed quick --format json ";
  const auto number = [](const Finished& done) { return nlohmann::json::parse(done.out)["printed"].at(0); };
  CHECK(number(made.call(json + out))["verdict"] == "not run");
  const Finished plan = made.call("--printed quick --plan --gflops 100" + out);
  CHECK_MESSAGE(plan.code == 0, plan.err);
  CHECK(has(plan.out, "quick"));
  const Finished ran = made.call(json + "--run --threads 1" + out);
  REQUIRE_MESSAGE(ran.code == 0, ran.err);
  CHECK(has(ran.err, "quick: 5 of 5 trials done"));
  CHECK(number(ran)["last"]["n"] == 5);
  CHECK(number(ran)["best"]["mean"].get<double>() >= number(ran)["last"]["mean"].get<double>());
  CHECK(number(ran)["verdict"] != "not run");

  fs::create_directories(archive.parent_path());
  const std::string exported = "export " + quick.string() + out + " -o " + archive.string();
  const std::string from = json + "--from " + archive.parent_path().string();
  REQUIRE(run_program(made.folder, exported + " --full").code == 0);
  CHECK(made.call(from).out == ran.out);
  fs::remove(archive);
  REQUIRE(run_program(made.folder, exported).code == 0);
  const Finished without = made.call(from);
  CHECK_MESSAGE(without.code == 0, without.err);
  CHECK(number(without)["last"] == number(ran)["last"]);
  CHECK(number(without)["best"]["n"] == 0);
  CHECK(number(without)["verdict"] == "open");
  CHECK(has(number(without)["why"].get<std::string>(), "5 of 5 runs without a curve"));

  for (const auto& [words, part] :
       {std::pair{"--printed --format html", "--printed: cannot be written as html; use text, markdown or json"},
        {"--printed --format svg", "--printed: cannot be written as svg"},
        {"--printed quack", "quack: "},
        {"--printed quack", "has no descriptor of this name; it has 03-rate, 12-speed, quick"},
        {"--printed 03-rate", "03-rate.json: has no \"printed\""},
        {"--printed --run --from docs", "--run: writes to a folder of results"},
        {"quick", "has no claim of this number"}}) {
    const Finished done = made.call(words);
    const auto& shown = part;
    CAPTURE(shown);
    CHECK(done.code == 2);
    CHECK(done.out.empty());
    CHECK_MESSAGE(has(done.err, part), done.err);
  }
}

TEST_CASE("claims: the descriptors of experiments/printed pass, and have the sizes that their sources print") {
  const TemporaryFolder folder;
  std::map<std::string, const char*> parameters{{"s_chh_fashion_mnist", "210058 parameters"},  // 210k
                                                {"s_chh_cifar10", "827530 parameters"},        // 820k
                                                {"tintn", "119098 parameters"},                // not printed
                                                {"dyt_study", "4771082 parameters"},           // 4.771 million
                                                {"vit_lite", "3716874 parameters"},            // 3.717M
                                                {"spt_lsa", "2692426 parameters"},             // not printed
                                                {"uva15", "3195146 parameters"},               // not printed
                                                {"kentaroy47", "9523722 parameters"}};         // not printed
  for (const fs::path& file : list_folder("experiments/printed")) {
    CAPTURE(file);
    const Finished done = run_program(folder, "check " + file.string());
    CHECK_MESSAGE(done.code == 0, done.err);
    REQUIRE(parameters.contains(file.stem().string()));
    CHECK(has(run_program(folder, "explain --init " + file.string()).out, parameters.at(file.stem().string())));
    parameters.erase(file.stem().string());
    const auto descriptor = nlohmann::json::parse(read_file(file));
    CHECK(descriptor.value("seeds", 5) == 5);
    CHECK(descriptor["printed"]["commit"].get<std::string>().size() == 40);
  }
  CHECK(parameters.empty());
}

TEST_CASE("claims: timings of --device cuda are the GPU's, in a file of their own") {
  const Claims made;
  const Finished ran = made.call("12 --run --device cuda --out " + made.out.string());
  if (ran.code == 0) {  // there is a GPU
    CHECK(fs::exists(made.out / "bench/12-speed.cuda.bench.jsonl"));
  } else {
    CHECK(ran.code == 3);
    CHECK_MESSAGE(has(ran.err, "--format json --device cuda failed; run it alone to see why"), ran.err);
  }
  CHECK_FALSE(fs::exists(made.out / "bench/12-speed.bench.jsonl"));
}
