// Whole runs with whitened patches: the transform is fixed, belongs to the data alone, and survives a stop.
#include <doctest/doctest.h>

#include "tests/lab/cli/small_sweep.h"

using namespace normlab;

namespace {

const char* const kWhiten = R"({"about": "a test",
  "dataset": {"name": "shapes", "train_images": 120, "eval_images": 40},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2,
            "placement": {"base": "pre_pre", "stem": {"patch_in": {"kind": "whiten", "sample": 100}}}},
  "train": {"steps": 6, "batch_size": 20, "eval_every_epochs": 0},
  "seeds": 2})";

/// The bytes of a tensor in the checkpoint of every trial.
std::vector<std::string> tensor_of_trials(const TemporaryFolder& folder, const std::string& name) {
  std::vector<std::string> out;
  const ResultStore store(folder / "r");
  for (const std::string& id : store.trial_ids()) {
    const auto file = SafetensorsFile::read(store.trial(id).path() / "attempt-1" / "checkpoint.safetensors");
    for (const TensorView& tensor : file.tensors())
      if (tensor.name == name && tensor.shape.size() == 2)
        out.emplace_back(reinterpret_cast<const char*>(tensor.data.data()), tensor.data.size());
  }
  return out;
}

}  // namespace

TEST_CASE("whiten: training leaves the transform as the data gave it") {
  const TemporaryFolder folder;
  std::ofstream(folder / "w.json") << kWhiten;
  const std::string file = in_folder(folder, "w.json"), out = " --out " + in_folder(folder, "r");
  const Finished run = run_program(folder, "run " + file + out);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  const std::vector<std::string> weights = tensor_of_trials(folder, "stem.patch_in.weight"),
                                 embeddings = tensor_of_trials(folder, "patch_embed.weight");
  REQUIRE(weights.size() == 2);
  CHECK(weights[0] == weights[1]);
  CHECK(weights[0] != std::string(weights[0].size(), '\0'));
  REQUIRE(embeddings.size() == 2);
  CHECK(embeddings[0] != embeddings[1]);
}

TEST_CASE("whiten: belongs at the patches") {
  const TemporaryFolder folder;
  std::ofstream(folder / "w.json")
      << R"({"about": "a test", "dataset": "shapes", "model": {"placement": {"base": "pre_pre", "final": "whiten"}}})";
  const Finished check = run_program(folder, "check " + in_folder(folder, "w.json"));
  CHECK(check.code != 0);
  CHECK(check.err.find("whiten can only be at stem.patch_in") != std::string::npos);
}
