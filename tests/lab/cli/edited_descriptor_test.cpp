// A run trains and shows the descriptor that it read at its start, whatever happens to the file meanwhile.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/lab/base/text.h"
#include "tests/lab/cli/small_sweep.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

const char* const kBase = R"({
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50, "train": "train[:150]"},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
  "train": {"epochs": 12, "batch_size": 20}})";

struct Kind {
  const char *name, *text;
};
/// Later trials follow from results, or from a trial that another descriptor trains.
const Kind kKinds[] = {
    {"plain", R"({"extends": "base.json", "sweep": {"model.placement": ["pre_pre", "bn"]}, "seeds": 2,
                  "baseline": {"model.placement": "pre_pre"}})"},
    {"tuned", R"({"extends": "base.json", "sweep": {"model.placement": ["pre_pre", "bn"]}, "seeds": 1,
                  "tune": [{"axes": {"train.optimizer.lr": [1e-3, 1e-2]},
                            "dataset": {"train": "train[:120]", "eval": "train[120:150]"}}]})"},
    {"staged", R"({"extends": "base.json", "sweep": {"model.placement": ["pre_pre", "bn"]},
                   "baseline": {"model.placement": "pre_pre"},
                   "seeds": {"first": 2, "max": 3, "gain_halfwidth": 0.001}})"},
    {"started", R"({"extends": "base.json", "seeds": 2, "start": {"from": {"descriptor": "base.json"}},
                    "train": {"epochs": 3}})"},
};

}  // namespace

TEST_CASE("edited: a run ends with the table of what it has trained") {
  const TemporaryFolder folder;
  const std::string cd = "cd '" + folder.path().string() + "'; ";
  const fs::path base = folder / "base.json";
  for (const Kind& kind : kKinds) {
    CAPTURE(kind.name);
    const std::string name = kind.name;
    const fs::path file = folder / (name + ".json");
    const auto write = [&] {
      std::ofstream(base) << kBase;
      std::ofstream(file) << kind.text;
    };
    const std::string run = "run " + name + ".json --workers 1 --threads 1 --out ";
    write();
    const Finished undisturbed = run_program(folder, run + name + "-whole", cd);
    REQUIRE_MESSAGE(undisturbed.code == 0, undisturbed.err);
    int number = 0;
    const auto disturbed = [&](const std::function<void()>& how) {
      const std::string out = name + "-" + std::to_string(number++);
      CAPTURE(out);
      write();
      const Program program(folder, run + out, cd);
      REQUIRE(comes_true([&] { return !owners(ResultStore(folder / out)).empty(); }));
      how();
      const Finished ended = program.wait();
      CHECK_MESSAGE(ended.code == 0, ended.err);
      CHECK(ended.out == undisturbed.out);
      CHECK(has(ended.err, " done (0 before), 0 diverged, 0 failed, 0 refused"));
      CHECK(whole_results(folder / out) == whole_results(folder / (name + "-whole")));
    };
    disturbed([&] { std::ofstream(file) << R"({"extends": "base.json", "train": {"epochs": 1}, "seeds": 7})"; });
    disturbed([&] { std::ofstream(file) << R"({"extends": "base.js)"; });
    disturbed([&] { fs::rename(file, folder / "elsewhere.json"); });
    disturbed([&] { fs::remove(file), fs::remove(base); });
  }
}

TEST_CASE("edited: a run names the settings that differ from those of the last one") {
  const TemporaryFolder folder;
  const std::string cd = "cd '" + folder.path().string() + "'; ";
  std::ofstream(folder / "base.json") << kBase;
  const auto write = [&](const std::string& train) {
    std::ofstream(folder / "x.json") << R"({"extends": "base.json", "sweep": {"model.placement": ["pre_pre", "bn"]},
      "seeds": 2, "train": {)" << train
                                     << "}}";
  };
  write(R"("epochs": 1, "optimizer": {"lr": 0.001})");
  const std::string run = "run x.json --out r";
  REQUIRE(run_program(folder, run, cd).code == 0);
  write(R"("epochs": 1, "optimizer": {"lr": 0.003})");
  const std::string words = "train.optimizer.lr 0.001 -> 0.003";
  for (const std::string command : {"status", "table"})
    CHECK(has(run_program(folder, command + " x.json --out r", cd).err,
              "that run had other settings, from --set or in the file: " + words + "\n"));
  const Finished again = run_program(folder, run, cd);
  CHECK_MESSAGE(has(again.err,
                    "stay on disk (pre_pre, seed 0; pre_pre, seed 1; bn, seed 0; bn, seed 1); settings that "
                    "differ: " +
                        words + "\n"),
                again.err);
  const Finished many = run_program(folder,
                                    run +
                                        " --set train.epochs=2 --set train.batch_size=10 --set model.depth=1 --set "
                                        "model.qkv_bias=false --set train.optimizer.weight_decay=0.123",
                                    cd);
  CHECK_MESSAGE(has(many.err, "settings that differ: model.depth 2 -> 1; "), many.err);
  CHECK_MESSAGE(has(many.err, " and 1 more\n"), many.err);
  const Finished same = run_program(folder,
                                    run +
                                        " --set train.epochs=2 --set train.batch_size=10 --set model.depth=1 --set "
                                        "model.qkv_bias=false --set train.optimizer.weight_decay=0.123",
                                    cd);
  CHECK(!has(same.err, "differ"));
  // Without the former trials, nothing is said about their settings.
  fs::remove_all(folder / "r/trials");
  const Finished without = run_program(folder, run + " --set train.epochs=3", cd);
  CHECK_MESSAGE(without.code == 0, without.err);
  CHECK(has(without.err, "trials are new"));
  CHECK(!has(without.err, "differ"));
}

TEST_CASE("edited: the reader of a pipe sees the progress of all stages") {
  const TemporaryFolder folder;
  const std::string cd = "cd '" + folder.path().string() + "'; ";
  std::ofstream(folder / "base.json") << kBase;
  std::ofstream(folder / "staged.json") << kKinds[2].text;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const Finished run = run_program(folder, "run staged.json --threads 1 --out r --json-progress pipe",
                                   cd + "timeout 100 cat pipe > read & ");
  CHECK_MESSAGE(run.code == 0, run.err);
  CHECK(comes_true([&] { return count(text_of(folder / "read"), "\"event\":\"end\"") == 2; }, 10));
  CHECK(count(text_of(folder / "read"), "\"event\":\"begin\"") == 2);
}
