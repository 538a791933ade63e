// Whole runs whose trials start from weights.
#include <doctest/doctest.h>

#include "experiments/lab/weights/convert_files.h"
#include "tests/lab/cli/killed_runs.h"

using namespace normlab;

namespace {

const char* const kPretrain = R"({"about": "a test",
  "dataset": {"name": "shapes", "train_images": 100, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
  "train": {"epochs": 2, "batch_size": 20, "ema": {"decay": 0.9}},
  "sweep": {"model.placement": ["pre_pre", "bn_ffnbn"]}, "seeds": 2})";

const char* const kFinetune = R"({"extends": "pretrain.json", "about": "a test",
  "dataset": {"shapes_seed": 9},
  "start": {"from": {"descriptor": "pretrain.json"}},
  "train": {"freeze": ["stem", "blocks.0"], "epochs": 3}})";

std::string write_both(const TemporaryFolder& folder) {
  std::ofstream(folder / "pretrain.json") << kPretrain;
  std::ofstream(folder / "finetune.json") << kFinetune;
  return in_folder(folder, "finetune.json");
}

void pretrain(const TemporaryFolder& folder) {
  REQUIRE(run_program(folder, "run " + in_folder(folder, "pretrain.json") + out_option(folder)).code == 0);
}

/// The path of a checkpoint of a trial of pretrain.json, which it trains.
std::string pretrained_file(const TemporaryFolder& folder) {
  write_both(folder);
  pretrain(folder);
  const ResultStore store(folder / "r");
  return store.trial(store.trial_ids().front()).checkpoint(1).string();
}

/// The attempt's log of the only trials that start from others.
std::string logs_of_starts(const ResultStore& store) {
  std::string found;
  for (const std::string& id : store.trial_ids())
    if (const std::string log = text_of(store.trial(id).log(1)); log.find("starts from") != log.npos) found += log;
  return found;
}

}  // namespace

TEST_CASE("start: a run trains the trials to start from first") {
  const TemporaryFolder folder;
  const Finished run = run_program(folder, "run " + write_both(folder) + out_option(folder));
  CAPTURE(run.err);
  CHECK(run.code == 0);
  CHECK(run.err.find("8 of 8 trials done") != std::string::npos);
  const ResultStore store(folder / "r");
  CHECK(store.trial_ids().size() == 8);
  const std::string logs = logs_of_starts(store);
  CHECK(logs.find("tensors matched, 0 missing, 0 left over") != std::string::npos);
}

TEST_CASE("start: what another run has trained is not trained again") {
  const TemporaryFolder folder;
  const std::string finetune = write_both(folder);
  pretrain(folder);
  const Finished run = run_program(folder, "run " + finetune + out_option(folder));
  CHECK(run.err.find("8 of 8 trials done (4 before)") != std::string::npos);
}

TEST_CASE("start: frozen parameters keep the values of the start") {
  const TemporaryFolder folder;
  REQUIRE(run_program(folder, "run " + write_both(folder) + out_option(folder)).code == 0);
  const ResultStore store(folder / "r");
  std::size_t compared = 0;
  for (const std::string& id : store.trial_ids()) {
    const auto config = read_file(store.trial(id).path() / "config.json");
    const std::size_t at = config.find("\"trial\": \"");
    if (at == config.npos) continue;
    const WeightFile tuned = read_weight_file(store.trial(id).checkpoint(1)),
                     start = read_weight_file(store.trial(config.substr(at + 10, 64)).checkpoint(1));
    for (const HostTensor& tensor : start.tensors) {
      const bool frozen = tensor.name.starts_with("patch_embed.") || tensor.name.starts_with("blocks.0.");
      if (tensor.name.starts_with("blocks.1.attn.q.weight"))
        CHECK(tuned.tensors.get(tensor.name).floats() != tensor.floats());
      if (!frozen) continue;
      CAPTURE(tensor.name);
      CHECK(tuned.tensors.get(tensor.name).floats() == tensor.floats());
      ++compared;
    }
  }
  CHECK(compared > 4 * 10);
}

TEST_CASE("start: the averaged weights are other weights") {
  const TemporaryFolder folder;
  const std::string finetune = write_both(folder);
  REQUIRE(run_program(folder, "run " + finetune + out_option(folder)).code == 0);
  const Finished run = run_program(folder, "run " + finetune + " --set start.weights=ema" + out_option(folder));
  CHECK(run.code == 0);
  CHECK(run.err.find("8 of 8 trials done (4 before)") != std::string::npos);
}

TEST_CASE("start: a killed run resumes in either stage with the same bits") {
  const TemporaryFolder folder;
  check_killed_run(folder, write_both(folder), " --workers 2");
}

TEST_CASE("start: missing lists both stages") {
  const TemporaryFolder folder;
  const Finished missing = run_program(folder, "status --missing " + write_both(folder) + out_option(folder));
  CHECK(missing.out.find("pretrain: bn_ffnbn, seed 1") != std::string::npos);
  CHECK(missing.err.find("8 of 8 trials without a result") != std::string::npos);
}

TEST_CASE("start: the plan counts both stages") {
  const TemporaryFolder folder;
  const Finished plan = run_program(folder, "plan " + write_both(folder) + out_option(folder));
  CAPTURE(plan.out);
  CHECK(plan.out.find("2 rows, 8 trials, 4 of them to start from") != std::string::npos);
}

TEST_CASE("start: a Slurm script covers the trials that can begin") {
  const TemporaryFolder folder;
  const Finished plan =
      run_program(folder, "plan " + write_both(folder) + " --format slurm --hours 1" + out_option(folder));
  CHECK(plan.out.find("# Missing trials: 4.") != std::string::npos);
  CHECK(plan.out.find("# 4 more start from these trials") != std::string::npos);
}

TEST_CASE("start: explain names the weights") {
  const TemporaryFolder folder;
  const Finished explained = run_program(folder, "explain " + write_both(folder));
  CAPTURE(explained.out);
  CHECK(explained.out.find("the last weights of pretrain: pre_pre, seed 0") != std::string::npos);
}

TEST_CASE("start: deleted weights are an error that says what to do") {
  const TemporaryFolder folder;
  const std::string finetune = write_both(folder);
  pretrain(folder);
  REQUIRE(run_program(folder, "clean --keep none --yes" + out_option(folder)).code == 0);
  const Finished run = run_program(folder, "run " + finetune + out_option(folder));
  CAPTURE(run.err);
  CHECK(run.code != 0);
  CHECK(run.err.find("was deleted by `normlab clean`, or left out of an archive; remove this folder") !=
        std::string::npos);
}

TEST_CASE("start: a trial that starts from a diverged one is refused") {
  const TemporaryFolder folder;
  const std::string finetune = write_both(folder);
  std::ofstream(folder / "pretrain.json") << std::string(kPretrain).replace(
      std::string(kPretrain).find("\"epochs\": 2"), 11, "\"epochs\": 2, \"optimizer\": {\"lr\": 1e30}");
  const Finished run = run_program(folder, "run " + finetune + out_option(folder));
  CAPTURE(run.err);
  CHECK(run.code != 0);
  CHECK(run.err.find("which diverged, so there are no weights to start from") != std::string::npos);
}

TEST_CASE("start: a trial that starts from another is verified") {
  const TemporaryFolder folder;
  REQUIRE(run_program(folder, "run " + write_both(folder) + out_option(folder)).code == 0);
  const ResultStore store(folder / "r");
  for (const std::string& id : store.trial_ids()) {
    if (read_file(store.trial(id).path() / "config.json").find("\"trial\": \"") == std::string::npos) continue;
    const Finished verify = run_program(folder, "verify " + id + " --from-step 0 --steps 15" + out_option(folder));
    CAPTURE(verify.err);
    CAPTURE(verify.out);
    CHECK(verify.code == 0);
    CHECK(verify.out.find("bit-identical") != std::string::npos);
    break;
  }
}

TEST_CASE("start: a file that does not fit is refused before any training") {
  const TemporaryFolder folder;
  const std::string file = pretrained_file(folder);
  const Finished run = run_program(folder, "run " + in_folder(folder, "pretrain.json") + " --set start=" + file +
                                               " --set model.embed_dim=32 --set seeds=1" + out_option(folder, "other"));
  CAPTURE(run.err);
  CHECK(run.code == 2);
  CHECK(run.err.find("patch_embed.weight is [16, 192], but this model needs [32, 192]") != std::string::npos);
  CHECK(run.err.find(" more") != std::string::npos);
  CHECK(run.err.find("refused") == std::string::npos);
}

TEST_CASE("start: check accepts the rows that a file fits, and names one that it does not fit") {
  const TemporaryFolder folder;
  const std::string file = pretrained_file(folder);
  const std::string check =
      "check " + in_folder(folder, "pretrain.json") + " --set start=" + file + " --set start.leave_out='[\"head\"]'";
  const Finished both = run_program(folder, check);
  CAPTURE(both.err);
  CHECK(both.code == 2);
  int fits = 0;
  for (const std::string row : {"pre_pre", "bn_ffnbn"}) {
    const Finished one = run_program(folder, check + " --set 'sweep={\"model.placement\": [\"" + row + "\"]}'");
    CAPTURE(one.err);
    CHECK((one.code == 0) == (both.err.find(row + ", seed 0: start: " + file) == std::string::npos));
    fits += one.code == 0 ? 1 : 0;
  }
  CHECK(fits == 1);
}

TEST_CASE("start: positions come from the grid of the source, whose number of patches says nothing") {
  const TemporaryFolder folder;
  std::ofstream(folder / "wide.json") << R"({"about": "a test",
    "dataset": {"name": "shapes", "train_images": 60, "eval_images": 30},
    "model": {"patch_size": 8, "image_size": [16, 64], "embed_dim": 16, "depth": 1, "num_heads": 2},
    "train": {"steps": 1, "batch_size": 20, "augment": {"crop": "stretch"}, "eval_transform": {"crop": "stretch"}}})";
  std::ofstream(folder / "square.json") << R"({"extends": "wide.json", "about": "a test",
    "model": {"image_size": 32}, "start": {"from": {"descriptor": "wide.json"}}})";
  const auto run = [&](const std::string& command, const std::string& options) {
    return run_program(folder, command + " " + in_folder(folder, "square.json") + options);
  };
  Finished refused = run("check", "");
  CAPTURE(refused.err);
  CHECK(refused.code == 2);
  CHECK(refused.err.find("pos_embed has a grid of 2x8 there and 4x4 here") != std::string::npos);

  const std::string bilinear = " --set start.resize_positions=bilinear";
  const Finished done = run("run", bilinear + out_option(folder));
  CAPTURE(done.err);
  CHECK(done.code == 0);
  const ResultStore store(folder / "r");
  CHECK(logs_of_starts(store).find("positions 2x8 -> 4x4 by bilinear") != std::string::npos);

  // The same from a file of the wide network.
  REQUIRE(run_program(folder, "run " + in_folder(folder, "wide.json") + out_option(folder, "w")).code == 0);
  const ResultStore wide(folder / "w");
  const std::string file = wide.trial(wide.trial_ids().front()).checkpoint(1).string();
  const std::string from_file = " --set 'start={\"file\": \"" + file + "\"}'";
  refused = run("check", from_file);
  CAPTURE(refused.err);
  CHECK(refused.code == 2);
  CHECK(refused.err.find("pos_embed is of another grid, but this model needs 4x4; \"resize_positions\" resizes its "
                         "grid of 2x8") != std::string::npos);
  CHECK(run("check", from_file + bilinear).code == 0);
}
