// What somebody else does with results: read them without the images or the descriptor, train one row again, and
// compare it with an archive.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "experiments/lab/base/strict_json.h"
#include "experiments/lab/trials/exported.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/small_sweep.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;
namespace fs = std::filesystem;

namespace {

constexpr const char* kSweep = R"({
  "about": "a test",
  "dataset": {"name": "shapes", "train_images": 100, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
  "train": {"steps": 20, "batch_size": 10, "schedule": {"warmup_steps": 2}},
  "sweep": {"model.placement": ["pre_pre", "dpn"], "train.optimizer.lr": [1e-3, 3e-3]},
  "seeds": 3,
  "baseline": {"model.placement": "pre_pre"}
})";

struct Workplace {
  TemporaryFolder folder;
  std::string out = in_folder(folder, "out");
  Finished call(const std::string& words) const { return run_program(folder, words); }
  std::string write(const std::string& name, const std::string& text) const {
    write_file(folder / name, text);
    return in_folder(folder, name);
  }
  Finished run(const std::string& words) const { return call("run " + words + " --threads 1 --out " + out); }
  /// Row and seed of each trial with a result.
  std::set<std::string> trained() const {
    std::set<std::string> found;
    const ResultStore store(out);
    for (const std::string& id : store.trial_ids()) {
      const auto config = nlohmann::json::parse(store.trial(id).read_config());
      if (store.trial(id).result_text())
        found.insert(concat(config["model"]["placement"]["stem"]["patch_in"] == "none" ? "pre_pre" : "dpn", " ",
                            config["train"]["optimizer"]["lr"].get<double>(), " ", config["seed"].get<int>()));
    }
    return found;
  }
};

/// The archive with its trials changed, and sealed again.
void change(const fs::path& archive, const std::function<void(nlohmann::ordered_json& result)>& edit) {
  std::istringstream lines(text_of(archive));
  std::string text;
  for (std::string line; std::getline(lines, line);) {
    nlohmann::ordered_json json = nlohmann::ordered_json::parse(line);
    if (json.contains("trial")) {
      edit(json["result"]);
      json["result"].erase("sha256");
      seal_json(json["result"]);
      json.erase("sha256");
      seal_json(json);
    }
    text += json.dump() + "\n";
  }
  write_file(archive, text);
}

}  // namespace

TEST_CASE("one row: run trains the rows and seeds that are asked for, and shows them") {
  const Workplace place;
  const std::string file = place.write("sweep.json", kSweep);
  const Finished done = place.run(file + " --where 'placement = dpn and lr > 0.002' --seed 1");
  CHECK_MESSAGE(done.code == 0, done.err);
  CHECK(place.trained() == std::set<std::string>{"dpn 0.003 1"});
  CHECK(has(done.err, "11 trials of other rows and seeds left out"));
  CHECK(has(done.out, "dpn"));
  CHECK(!has(done.out, "pre_pre "));
  CHECK(place.run(file + " --where 'placement = pre_pre' --seed 0,2").code == 0);
  CHECK(place.trained() == std::set<std::string>{"dpn 0.003 1", "pre_pre 0.001 0", "pre_pre 0.001 2", "pre_pre 0.003 0",
                                                 "pre_pre 0.003 2"});
}

TEST_CASE("one row: a condition or seed that fits nothing is refused before anything is trained") {
  const Workplace place;
  const std::string file = place.write("sweep.json", kSweep);
  const auto refused = [&](const std::string& words, const std::string& part) {
    const Finished done = place.run(file + " " + words);
    CHECK(done.code == 2);
    CHECK_MESSAGE(has(done.err, part), done.err);
  };
  refused("--where 'placement = post_post'", "matches no row; the rows are placement=pre_pre, lr=1e-3");
  refused("--where 'gain > 0.5'", "unknown axis or column \"gain\"; known are placement, lr, row");
  refused("--where 'placment = dpn'", "did you mean \"placement\"?");
  refused("--seed 7", "--seed 7: no such row has this seed; they have 0, 1, 2");
  CHECK(!fs::exists(fs::path(place.out) / "trials"));
}

TEST_CASE("one row: the trial that another starts from is trained with it") {
  const Workplace place;
  const std::string file = place.write("chain.json", R"({
    "dataset": {"name": "shapes", "train_images": 100, "eval_images": 50},
    "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
    "train": {"steps": 5, "batch_size": 10},
    "sweep": {"model.placement": ["pre_pre", "dpn"]},
    "seeds": 2})");
  place.write("second.json", R"({
    "dataset": {"name": "shapes", "train_images": 100, "eval_images": 50},
    "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
    "train": {"steps": 4, "batch_size": 10},
    "start": {"from": {"descriptor": "chain.json", "row": {"model.placement": "dpn"}}},
    "sweep": {"model.placement": ["dpn"]}, "seeds": 2})");
  const Finished done = place.run(in_folder(place.folder, "second.json") + " --seed 1");
  CHECK_MESSAGE(done.code == 0, done.err);
  CHECK(ResultStore(place.out).trial_ids().size() == 2);
  // The archive alone knows the descriptor that the row starts from.
  const std::string archive = in_folder(place.folder, "second.jsonl");
  CHECK(
      place.call("export " + in_folder(place.folder, "second.json") + " --out " + place.out + " -o " + archive).code ==
      0);
  const Finished before = place.call("table " + in_folder(place.folder, "second.json") + " --out " + place.out);
  fs::remove(file);
  fs::remove(place.folder / "second.json");
  const Finished after = place.call("table " + archive);
  CHECK_MESSAGE(after.code == 0, after.err);
  CHECK(after.out == before.out);
}

TEST_CASE("one row: an archive is read without its descriptor, and brings it along when it is merged") {
  const Workplace place;
  place.write("base.json", kSweep);
  const std::string file = place.write("sweep.json", R"({"extends": "base.json", "seeds": 2})");
  const std::string set = " --set train.steps=10", archive = in_folder(place.folder, "sweep.jsonl");
  REQUIRE(place.run(file + set).code == 0);
  const Finished table = place.call("table " + file + set + " --out " + place.out);
  CHECK(place.call("export " + file + set + " --full --out " + place.out + " -o " + archive).code == 0);
  fs::remove(file);
  fs::remove(place.folder / "base.json");
  const Finished alone = place.call("table " + archive);
  CHECK_MESSAGE(alone.code == 0, alone.err);
  CHECK(alone.out == table.out);
  for (const std::string& command :
       {"report " + archive + " -o " + in_folder(place.folder, "r.html"), "export --curves --by-row " + archive,
        "report " + archive + " --only strip --figures " + in_folder(place.folder, "figures"),
        "export " + archive + " --format csv", "explain " + archive, "table " + archive + " --set seeds=1"}) {
    const Finished done = place.call(command);
    CHECK_MESSAGE(done.code == 0, done.err);
  }
  const std::string other = in_folder(place.folder, "merged");
  CHECK(place.call("merge " + archive + " --out " + other).code == 0);
  const Finished list = place.call("list --out " + other);
  CHECK_MESSAGE(has(list.out, "sweep: 8 trials, 8 done"), list.out);

  // Without it, the message says what to do.
  std::string bare;
  std::istringstream lines(text_of(archive));
  for (std::string line; std::getline(lines, line);)
    if (!has(line, "plan.json")) bare += line + "\n";
  write_file(place.folder / "bare.jsonl", bare);
  const Finished refused = place.call("table " + in_folder(place.folder, "bare.jsonl"));
  CHECK(refused.code == 2);
  CHECK(has(refused.err, "holds no descriptor"));
  CHECK(has(refused.err, "--from"));
}

TEST_CASE("one row: results of own images are read where the images are not") {
  const Workplace place;
  for (const char* split : {"train", "val"})
    for (int c = 0; c < 3; ++c)
      for (int i = 0; i < 12; ++i)
        write_file(place.folder / "data" / "mine" / split / concat("class", c) / concat(i, ".png"),
                   make_png(16, 16, static_cast<unsigned>(100 * c + i)));
  const std::string data = in_folder(place.folder, "data");
  const std::string file = place.write("mine.json", R"({
    "dataset": {"name": "mine", "path": "mine", "layout": "image_folder", "eval": "val"},
    "model": {"image_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
    "train": {"steps": 5, "batch_size": 10}, "seeds": 2})");
  REQUIRE(place.run(file + " --data " + data).code == 0);
  const std::string archive = in_folder(place.folder, "mine.jsonl");
  REQUIRE(place.call("export " + file + " --full --data " + data + " --out " + place.out + " -o " + archive).code == 0);
  const Finished table = place.call("table " + file + " --data " + data + " --out " + place.out);
  fs::remove_all(data);
  for (const std::string& source : {file + " --out " + place.out, file + " --from " + archive, archive}) {
    const Finished done = place.call("table " + source);
    CHECK_MESSAGE(done.code == 0, done.err);
    CHECK(done.out == table.out);
  }
  for (const char* command : {"status ", "status --missing ", "explain "}) {
    const Finished done =
        place.call(command + file + (command == std::string("explain ") ? "" : " --out " + place.out));
    CHECK_MESSAGE((done.code == 0 || command == std::string("explain ")), done.err);
  }
  // Nothing states the number: the message is that of the missing data.
  const Finished nowhere = place.call("table " + file + " --out " + in_folder(place.folder, "empty"));
  CHECK(nowhere.code == 2);
  CHECK_MESSAGE(has(nowhere.err, "num_classes"), nowhere.err);
}

TEST_CASE("one row: verify trains a trial of an archive again and compares every bit, or the row's seeds") {
  const Workplace place;
  const std::string file = place.write("sweep.json", kSweep), archive = in_folder(place.folder, "sweep.jsonl");
  const std::string rows = " --set 'sweep={\"model.placement\":[\"pre_pre\"]}'";
  REQUIRE(place.run(file + rows).code == 0);
  REQUIRE(place.call("export " + file + rows + " --full --out " + place.out + " -o " + archive).code == 0);
  const std::string id = ResultStore(place.out).trial_ids().front();
  const std::string verify = "verify " + id.substr(0, 8) + " --from " + archive;
  const Finished same = place.call(verify);
  CHECK_MESSAGE(same.code == 0, same.err);
  CHECK_MESSAGE(has(same.out, "2 lines of metrics are bit-identical"), same.out);
  CHECK(has(same.out, "the result is bit-identical, and the same images are answered correctly"));

  // Another value in the record is a difference.
  REQUIRE(place.call("export " + file + rows + " --out " + place.out + " -o " + archive).code == 0);
  change(archive, [](auto& result) {
    result["metrics"]["eval/loss"] = result["metrics"]["eval/loss"].template get<double>() + 1e-9;
  });
  const Finished different = place.call(verify);
  CHECK(different.code == 1);
  CHECK_MESSAGE(has(different.out, "DIFFERENT: eval/loss is "), different.out);

  // Another program: m ± t(2) s sqrt(1 + 1/3) of the archived seeds.
  const auto other_program = [&](const std::vector<double>& values) {
    std::size_t next = 0;
    change(archive, [&](auto& result) {
      result["provenance"]["bits"] = "another";
      result["provenance"]["blas_core"] = "Katmai";
      result["metrics"]["eval/accuracy"] = values[next++];
      result["files"] = nlohmann::ordered_json::object();
    });
    return place.call(verify);
  };
  // t(2) = 4.3027; the sd of 0, 0.5, 1 is 0.5; 0.5 ± 2.48.
  const Finished within = other_program({0, 0.5, 1});
  CHECK_MESSAGE(within.code == 0, within.err);
  CHECK(has(within.out, "blas_core: Katmai in the archive, "));
  CHECK_MESSAGE(has(within.out, "expected: 50 ±2.5e+02, the 95% prediction interval of the row's 3 archived seeds"),
                within.out);
  CHECK(has(within.out, "WITHIN"));
  const Finished outside = other_program({0.98, 0.985, 0.99});
  CHECK(outside.code == 1);
  CHECK_MESSAGE(has(outside.out, "expected: 98.5 ±2.5, "), outside.out);
  CHECK(has(outside.out, "OUTSIDE"));

  const Finished steps = place.call(verify + " --steps 5");
  CHECK(steps.code == 2);
  CHECK(has(steps.err, "--steps"));
  const Finished unknown = place.call("verify 0123456789 --from " + archive);
  CHECK(unknown.code == 2);
}

TEST_CASE("one row: seeds that start from other trials, or from none, are of another row") {
  const Workplace place;
  constexpr const char* kSettings = R"("dataset": {"name": "shapes", "train_images": 100, "eval_images": 50},
    "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2}, "seeds": 2,)";
  place.write("parent.json", concat("{", kSettings, R"("train": {"steps": 5, "batch_size": 10},
    "sweep": {"model.placement": ["pre_pre", "dpn"]}})"));
  const std::string file = place.write("child.json", concat("{", kSettings, R"("train": {"steps": 4, "batch_size": 10},
    "sweep": {"start": [null, {"from": {"descriptor": "parent.json"}}], "model.placement": ["pre_pre", "dpn"]}})"));
  REQUIRE(place.run(file).code == 0);
  const std::string archive = in_folder(place.folder, "child.jsonl");
  REQUIRE(place.call("export " + file + " --out " + place.out + " -o " + archive).code == 0);
  change(archive, [](auto& result) { result["provenance"]["bits"] = "another"; });
  const ResultStore store(place.out);
  for (const std::string& id : store.trial_ids()) {
    const Finished done = place.call("verify " + id + " --from " + archive + " --out " + place.out);
    CHECK_MESSAGE(has(done.out, "the row's 2 archived seeds"), done.out);
  }
}
