// Any text as `--set path=value`s, with a form feed between them, on a small descriptor with placements, a sweep and
// tuning: refused with an InputError, or taken and each trial keeps its id through its texts.
#include "core/error.h"
#include "tests/fuzz/experiment_check.h"

using namespace normlab;
using namespace normlab::fuzz;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  static const std::filesystem::path file = folder.write("descriptor.json", R"({
    "dataset": {"name": "shapes", "train_images": 80, "eval_images": 40},
    "model": {"kind": "vit", "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "pool": "gap"},
    "train": {"steps": 2, "batch_size": 20, "optimizer": {"name": "adamw", "lr": 0.001}},
    "placements": {"mine": {"base": "pre_pre", "mlp.out": "rmsnorm"}},
    "sweep": {"model.placement": ["pre_pre", "dpn", "mine"]}, "seeds": 2})");
  Experiment experiment;
  try {
    experiment = load_experiment(file, parts_of(text_of(data, size)), kTrials);
  } catch (const InputError& error) {
    require(error.what()[0] != '\0', "an error without words");
    return 0;
  }
  check(experiment);
  return 0;
}
