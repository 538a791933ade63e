// The bits of a training do not depend on the order in which the program's objects are linked, so none depends on which
// object an inline function is taken from.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>

#include "experiments/lab/trials/store.h"
#include "tests/lab/cli/program.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

/// Trial -> the hashes of its state, after the sweep's training by `program`.
std::map<std::string, std::string> states(const TemporaryFolder& folder, const fs::path& program) {
  const fs::path out = folder / program.filename();
  const std::string usual = program_path();
  setenv("NORMLAB_BINARY", program.c_str(), 1);
  const Finished run = run_program(folder, "run " + (folder / "many.json").string() + " --out " + out.string());
  setenv("NORMLAB_BINARY", usual.c_str(), 1);
  REQUIRE_MESSAGE(run.code == 0, run.err);
  std::map<std::string, std::string> all;
  for (const std::string& id : ResultStore(out).trial_ids())
    all[id] = text_of(out / "trials" / id / "attempt-1" / "states.jsonl");
  return all;
}

}  // namespace

TEST_CASE("link order: a program of objects in reverse order trains the same bits") {
  const fs::path program = program_path(), reversed = program.parent_path() / "tests/normlab_reversed";
  const TemporaryFolder folder;
  std::ofstream(folder / "many.json") << R"({
    "about": "many kernels", "dataset": {"name": "shapes", "train_images": 64, "eval_images": 32},
    "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "drop_path": 0.1},
    "train": {"steps": 12, "batch_size": 16, "ema": {"decay": 0.9}, "label_smoothing": 0.1,
      "augment": {"randaugment": {"dialect": "timm", "interpolation": "bilinear"}, "mix": {"mixup": 0.2}, "crop_padding": 4}},
    "sweep": [{"model.placement": ["pre_pre", "normformer", "bn_ffnbn", "dyt"]}, {"train.optimizer.name": ["adamw", "lamb", "muon"]}]})";
  const auto usual = states(folder, program);
  CHECK(usual.size() == 6);
  CHECK(states(folder, reversed) == usual);
}
