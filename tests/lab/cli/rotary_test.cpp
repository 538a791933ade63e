// Networks with rotary positions and registers, from a descriptor to results and files of weights.
#include <doctest/doctest.h>

#include "experiments/lab/weights/convert_files.h"
#include "tests/lab/cli/killed_runs.h"

using namespace normlab;

namespace {

const char* const kSweep = R"-({
  "about": "a test",
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "drop_path": 0.2, "dropout": 0.1,
            "registers": 4},
  "train": {"epochs": 2, "batch_size": 20, "clip_norm": 0.5},
  "sweep": [
    {"model.pool": ["token", "gap"], "model.pos_embed": ["none"], "model.rotary": ["dinov3"],
     "model.placement": ["vit5"]},
    {"model.pool": ["token"], "model.pos_embed_class": [true], "model.distill_token": [true],
     "model.rotary": [{"dialect": "eva02", "grid": [14, 7], "register_base": 100}], "model.placement": ["bn_ffnbn"]}
  ]
})-";

struct Files {
  TemporaryFolder folder;
  std::string descriptor = in_folder(folder, "d.json");
  explicit Files(const std::string& text = kSweep) { std::ofstream(descriptor) << text; }
  Finished call(const std::string& command, const std::string& more = "") const {
    return run_program(folder, command + " " + descriptor + " " + more);
  }
  Finished run(const std::string& out, const std::string& more = "") const {
    return call("run", more + " --out " + in_folder(folder, out));
  }
};

}  // namespace

TEST_CASE("rotary: a run has the same bits for any threads and ranks, and verify agrees") {
  const Files files;
  const Finished first = files.run("1", "--threads 1 --workers 1");
  REQUIRE_MESSAGE(first.code == 0, first.err);
  const auto whole = whole_results(files.folder / "1");
  REQUIRE(whole.size() == 3);
  int run = 1;
  for (const std::string more : {"--threads 3 --workers 1", "--workers 2", "--ranks 2 --threads 1 --workers 1"}) {
    CAPTURE(more);
    const std::string out = std::to_string(++run);
    const Finished ended = files.run(out, more);
    REQUIRE_MESSAGE(ended.code == 0, ended.err);
    CHECK(whole_results(files.folder / out) == whole);
  }
  for (const auto& [id, state] : whole) {
    const Finished verified = run_program(files.folder, "verify " + id + " --out " + in_folder(files.folder, "1"));
    CHECK_MESSAGE(verified.code == 0, verified.out << verified.err);
    CHECK(verified.out.find("the result is bit-identical") != std::string::npos);
  }
}

TEST_CASE("rotary: a killed run is continued with the same bits") {
  const Files files;
  check_killed_run(files.folder, files.descriptor, " --set train.epochs=2 --workers 1");
}

TEST_CASE("rotary: weights go to timm and come back, and merged batch norms give the same loss") {
  const Files files;
  REQUIRE(files.run("r", "--threads 1").code == 0);
  const ResultStore store(files.folder / "r");
  const auto loss = [&](const std::string& weights) {
    const Finished done = run_program(files.folder, "eval --weights " + weights + " --data shapes");
    REQUIRE_MESSAGE(done.code == 0, done.err);
    return std::stod(done.out.substr(done.out.find("loss ") + 5));
  };
  int written = 0;
  for (const std::string& id : store.trial_ids()) {
    const std::string checkpoint = store.trial(id).checkpoint(1).string();
    const std::string theirs = in_folder(files.folder, "theirs.safetensors"),
                      back = in_folder(files.folder, "back.safetensors");
    const Finished to = run_program(files.folder, "convert " + checkpoint + " " + theirs + " --to timm");
    if (to.code != 0) {  // the second row
      CHECK_MESSAGE(to.err.find("rotary.register_base: is set, but timm does not turn registers") != std::string::npos,
                    to.err);
      const std::string fused = in_folder(files.folder, "fused.safetensors");
      const Finished merged = run_program(files.folder, "convert " + checkpoint + " " + fused + " --fuse-bn");
      REQUIRE_MESSAGE(merged.code == 0, merged.err);
      CHECK(loss(fused) == doctest::Approx(loss(checkpoint)).epsilon(1e-4));
      continue;
    }
    ++written;
    const Finished from = run_program(files.folder, "convert " + theirs + " " + back + " --from timm");
    REQUIRE_MESSAGE(from.code == 0, from.err);
    CHECK(loss(back) == loss(checkpoint));
  }
  CHECK(written == 2);
}

TEST_CASE("rotary: registers are frozen, decayed and multiplied by their name, and belong to the stem") {
  const Files files;
  for (
      const char* more :
      {"--set 'train.freeze=[\"reg_token\"]' --set 'train.optimizer.multipliers=[{\"name\": \"reg_token\", \"lr\": 2}]'",
       "--set 'train.freeze=[\"stem\"]'", "--set train.optimizer.name=muon", "--set train.optimizer.layer_decay=0.5"}) {
    CAPTURE(more);
    const Finished run = files.run("f", more);
    CHECK_MESSAGE(run.code == 0, run.err);
  }
}

TEST_CASE("rotary: a network starts from another at a larger size, and segments without its registers") {
  const Files files;
  std::ofstream(in_folder(files.folder, "fine.json")) << R"-({
    "dataset": {"name": "shapes", "train_images": 60, "eval_images": 20, "masks": "classes"},
    "model": {"task": "segment", "image_size": 48, "patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2,
              "registers": 4, "pool": "gap", "pos_embed": "none", "rotary": "dinov3", "placement": "vit5"},
    "start": {"from": {"descriptor": "d.json", "row": {"model.pool": "gap"}, "seed": 0}, "leave_out": ["head"]},
    "train": {"epochs": 1, "batch_size": 20}
  })-";
  const Finished run = run_program(
      files.folder, "run " + in_folder(files.folder, "fine.json") + " --out " + in_folder(files.folder, "o"));
  CHECK_MESSAGE(run.code == 0, run.out << run.err);
  CHECK_MESSAGE(run.out.find("eval/miou") != std::string::npos, run.out);
}
