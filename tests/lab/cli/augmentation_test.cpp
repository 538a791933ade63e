// Training with the whole augmentation chain, as a process: threads, kills and resumes change no bit.
#include <doctest/doctest.h>

#include "tests/core/cpu/bf16_choice.h"
#include "tests/lab/cli/end_states.h"

using namespace normlab;

namespace {

/// All that `shapes` may have (no flip: it would change classes), in both scopes of mixing and both dialects of crops.
const char* const kEverything = R"({
  "about": "a test",
  "dataset": {"name": "shapes", "train_images": 90, "eval_images": 20},
  "model": {"image_size": [16, 24], "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2, "drop_path": 0.1},
  "train": {
    "epochs": 40, "batch_size": 20, "drop_last": false, "label_smoothing": 0.1, "smoothing": "others",
    "augment": {
      "crop_padding": 1, "crop": "inception_tensorflow", "crop_area": [0.3, 1.0], "resize": "random", "repeats": 3,
      "randaugment": {"dialect": "timm", "magnitude": 9, "magnitude_std": 0.5, "increasing": true,
                      "interpolation": "random"},
      "color_jitter": {"brightness": 0.3, "contrast": 0.3, "saturation": 0.3, "hue": 0.1},
      "erasing": {"dialect": "timm", "probability": 0.25, "fill": "pixel"},
      "mix": {"mixup": 0.8, "cutmix": 1.0, "dialect": "timm"}
    },
    "eval_transform": {"crop": "center", "resize_to": 26}
  },
  "sweep": {"train.augment.mix.scope,train.augment.crop":
            [["batch", "inception_tensorflow"], ["image", "inception_torchvision"]]}
})";

std::int64_t checkpoints(const std::filesystem::path& out) {
  if (!std::filesystem::exists(out)) return 0;
  std::error_code ignored;  // folders come and go while the program runs
  std::int64_t count = 0;
  for (std::filesystem::recursive_directory_iterator file(out, ignored), end; file != end; file.increment(ignored))
    count += file->path().filename() == "checkpoint.safetensors";
  return count;
}

std::string in(const TemporaryFolder& folder, const std::string& name) { return (folder / name).string(); }

}  // namespace

TEST_CASE("augmentation: neither threads nor kills change a bit of a training") {
  const TemporaryFolder folder;
  std::ofstream(folder / "everything.json") << kEverything;
  const std::string run =
      "run " + in(folder, "everything.json") + " --set 'checkpoint={\"steps\": 3, \"seconds\": 1000}'";
  const std::string precision = has_native_bf16() ? "bf16" : "bf16_emulated";
  for (const std::string& more : {std::string(), " --set train.precision=" + precision}) {
    CAPTURE(more);
    const std::string name = more.empty() ? "fp32-" : "bf16-";
    const auto out = [&](const std::string& which) { return more + " --out " + in(folder, name + which); };
    const Finished first = run_program(folder, run + out("1") + " --threads 1 --workers 1");
    REQUIRE_MESSAGE(first.code == 0, first.err);
    const auto expected = end_states(folder / (name + "1"));
    CHECK(expected.size() == 2);
    REQUIRE(run_program(folder, run + out("2") + " --threads 2 --workers 1").code == 0);
    CHECK(end_states(folder / (name + "2")) == expected);
    REQUIRE(run_program(folder, run + out("3") + " --threads 3 --workers 1 --data-threads 2").code == 0);
    CHECK(end_states(folder / (name + "3")) == expected);

    const std::string again = run + out("killed") + " --threads 2 --workers 2";
    int killed = 0;
    for (int round = 0; round < 4; ++round) {
      const std::int64_t before = checkpoints(folder / (name + "killed"));
      const Program program(folder, again);
      // Between two checkpoints, wherever that falls.
      for (int wait = 0; wait < 2000 && checkpoints(folder / (name + "killed")) == before; ++wait)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      std::this_thread::sleep_for(std::chrono::milliseconds(round));
      program.signal_all(SIGKILL);
      killed += program.wait().code == -SIGKILL;
    }
    CHECK(killed > 0);
    REQUIRE(run_program(folder, again).code == 0);
    CHECK(end_states(folder / (name + "killed")) == expected);
  }
}
