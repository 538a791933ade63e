// A descriptor of two trials of 60 steps, with a second slice and several evaluations.
#pragma once

namespace normlab {

inline constexpr const char* kTwoTrials = R"({
  "about": "a test",
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 40, "train": "train[:150]",
              "minival": "train[150:]"},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2, "dropout": 0.1},
  "train": {"steps": 60, "batch_size": 10},
  "seeds": 2
})";

}  // namespace normlab
