// Reading a file ends in an experiment or in an InputError, whatever the file holds.
#include <doctest/doctest.h>

#include <random>

#include "experiments/lab/descriptor/canonical.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

constexpr std::string_view kSample = R"({
  // comments are allowed
  "about": "\u0041 ä",
  "dataset": { "name": "shapes", "train_images": 50 },
  "placements": { "mine": { "base": "dpn", "final": { "kind": "batch_norm", "eps": 1e-4 } } },
  "model": { "variant": "Ti/4", "depth": 2, "image_size": [32, 32], "placement": { "base": "mine", "head_scale": "after_proj", "blocks": { "0": { "attn": { "pre": "dyt" } }, "rest": { "mlp": {} } } } },
  "train": { "steps": 5, "batch_size": 8, "optimizer": { "lr": 1e-3 }, "schedule": { "warmup_steps": 1 } },
  "sweep": [ { "model.placement": ["mine", {"layer_scale": {"kind": "scalar", "init": 0}}], "seeds": [1, 2] },
             { "model.embed_dim,model.num_heads": [[64, 2], [96, 3]], "train.batch_size": [5] } ],
  "exclude": [ { "model.embed_dim": 64 } ],
  "tune": [ { "axes": { "train.optimizer.lr": [1e-3, 2e-3] }, "dataset": { "train": "train[:40]", "eval": "train[40:]" }, "train": { "steps": 4 } } ],
  "seeds": 2,
  "baseline": { "model.placement": "mine" }
}
)";

/// True for an experiment, false for an InputError with words; anything else ends the test.
bool reads(DescriptorFiles& files, std::string_view text) {
  try {
    files.load(text);
    return true;
  } catch (const InputError& error) {
    CHECK(std::string_view(error.what()).size() > 5);
    return false;
  }
}

}  // namespace

TEST_CASE("descriptor: a text with any one byte missing reads or is refused") {
  DescriptorFiles files;
  REQUIRE(reads(files, kSample));
  int read = 0;
  for (std::size_t i = 0; i < kSample.size(); ++i) {
    std::string text(kSample);
    text.erase(i, 1);
    read += reads(files, text) ? 1 : 0;
  }
  CHECK(read > 100);  // spaces and comments
  CHECK(read < int(kSample.size()) / 2);
}

TEST_CASE("descriptor: a text that is cut off anywhere is refused") {
  DescriptorFiles files;
  for (std::size_t i = 0; i + 2 < kSample.size(); ++i) CHECK_FALSE(reads(files, kSample.substr(0, i)));
}

TEST_CASE("descriptor: a text with random changes of bytes reads or is refused") {
  DescriptorFiles files;
  std::mt19937 random(5);
  constexpr std::string_view kBytes = "{}[]\",:0123456789eE.-+/*\\ \ntfn\x80\xFF";
  for (int i = 0; i < 1500; ++i) {
    std::string text(kSample);
    for (auto n = 1 + random() % 3; n > 0; --n) {
      const std::size_t at = random() % text.size(), length = random() % 12;
      const std::string piece = text.substr(at, length);
      if (const auto what = random() % 3; what == 0)
        text[at] = kBytes[random() % kBytes.size()];
      else if (what == 1)
        text.insert(random() % text.size(), piece);
      else
        text.erase(at, length);
    }
    reads(files, text);
  }
}

TEST_CASE("descriptor: a key with a value of any other kind reads or is refused") {
  DescriptorFiles files;
  constexpr std::string_view kValues[] = {
      "null",    "true", "-1",   "0",  "18446744073709551615", "1e308",  "-1e-308",   "\"\"",
      "\"dpn\"", "[]",   "[[]]", "{}", "{\"kind\": null}",     "[1, 2]", "{\"\": {}}"};
  for (const char* path : {"about",
                           "extends",
                           "dataset",
                           "dataset.name",
                           "dataset.path",
                           "dataset.layout",
                           "dataset.train_images",
                           "model",
                           "model.kind",
                           "model.variant",
                           "model.image_size",
                           "model.patch_size",
                           "model.embed_dim",
                           "model.depth",
                           "model.mlp_dim",
                           "model.drop_path",
                           "model.placement",
                           "model.placement.base",
                           "model.placement.attn",
                           "model.placement.attn.pre",
                           "model.placement.attn.pre.kind",
                           "model.placement.layer_scale",
                           "model.placement.layer_scale.init",
                           "model.placement.init_gain",
                           "model.placement.blocks",
                           "model.placement.blocks.0-3",
                           "model.placement.blocks.rest.attn.pre",
                           "model.layer_scale",
                           "train",
                           "train.epochs",
                           "train.steps",
                           "train.batch_size",
                           "train.optimizer",
                           "train.optimizer.name",
                           "train.schedule",
                           "sweep",
                           "seeds",
                           "baseline",
                           "placements",
                           "placements.x",
                           "checkpoint",
                           "exclude",
                           "checkpoint.steps",
                           "probes",
                           "probes.signal",
                           "probes.gradients",
                           "",
                           ".",
                           "$schema"})
    for (const std::string_view value : kValues) {
      const std::string set = concat(path, "=", value);
      CAPTURE(set);
      files.problems("{}", {set});
      files.problems(concat("{\"sweep\": {\"", path, "\": [", value, "]}}"));
      std::string nested(value);  // the same without --set
      for (std::string rest = path;;) {
        const std::size_t dot = rest.rfind('.');
        nested = concat("{\"", rest.substr(dot + 1), "\": ", nested, "}");
        if (dot == std::string::npos) break;
        rest.resize(dot);
      }
      const std::string told = files.problems(nested);
      for (const char* bad : {"nan", "std::", "basic_string"}) CHECK(told.find(bad) == std::string::npos);
      CHECK_NOTHROW([&] {
        try {
          config_from_json(nested, "text");
        } catch (const InputError&) {
        }
      }());
    }
}
