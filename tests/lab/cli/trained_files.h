// Files that commands read, for tests of what they write.
#pragma once

#include <doctest/doctest.h>

#include "experiments/lab/base/files.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/cli/two_trials.h"

namespace normlab {

/// Four trials with an archive of their results; the descriptor extends another file and has a claim.
struct Trained {
  Trained() {
    std::filesystem::create_directories(folder / "claims");
    std::ofstream(folder / "claims/base.json") << kTwoTrials;
    std::ofstream(folder / "claims/1-two.json") << R"({"extends": "base.json",
      "sweep": {"train.optimizer.lr": [0.001, 0.1]}, "baseline": {"train.optimizer.lr": 0.001},
      "claim": {"source": "A paper", "says": "It learns.", "scale": "twin",
                "tests": [{"kind": "gain", "metric": "train/loss", "where": "lr = 0.1", "outside": [-1e-6, 1e-6]}]}})";
    succeeds("run claims/1-two.json --threads 1 --out out");
    succeeds("export claims/1-two.json --out out --full -o archives/two.jsonl");
    trial = "out/trials/" + ResultStore(folder / "out").trial_ids().front();
    checkpoint = trial + "/attempt-1/checkpoint.safetensors";
    std::filesystem::create_symlink(std::filesystem::absolute(folder / checkpoint), folder / "link.safetensors");
    std::filesystem::create_symlink(std::filesystem::absolute(folder / "claims/base.json"), folder / "link.json");
  }
  Finished call(const std::string& words) const {
    return run_program(folder, words, "cd '" + folder.path().string() + "'; ");
  }
  void succeeds(const std::string& words) const {
    const Finished done = call(words);
    REQUIRE_MESSAGE(done.code == 0, words, ": ", done.err);
  }
  /// The command ends with code 2 and changes no file.
  void refuses(const std::string& words, const std::string& file, const std::string& why) const {
    CAPTURE(words);
    const std::map<std::string, std::string> before = files();
    const Finished done = call(words);
    CHECK(done.code == 2);
    CHECK_MESSAGE(has(done.err, file + ": " + why), done.err);
    CHECK(files() == before);
  }
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> all;
    for (const char* part : {"claims", "out", "archives", "copies", "data"})
      for (const std::filesystem::path& file : files_below(folder / part)) all[file.string()] = text_of(file);
    return all;
  }
  TemporaryFolder folder;
  std::string trial, checkpoint;
};

}  // namespace normlab
