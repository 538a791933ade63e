// Whole runs of image-text training: image towers first, then text towers on frozen ones.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/lab/cli/killed_runs.h"

using namespace normlab;

namespace {

const char* const kTowers = R"({"about": "a test",
  "dataset": {"name": "shapes", "label": "kind", "train_images": 100, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2},
  "train": {"epochs": 2, "batch_size": 20},
  "sweep": {"model.placement": ["pre_pre", "dpn"]}, "seeds": 2, "baseline": {"model.placement": "pre_pre"}})";

const char* const kPairs = R"({"extends": "towers.json", "about": "a test",
  "dataset": {"shapes_seed": 9, "captions": true},
  "start": {"from": {"descriptor": "towers.json"}, "leave_out": ["head", "text"]},
  "model": {"task": "contrast", "text": {"vocabulary": 34, "length": 24, "embed_dim": 16, "depth": 1, "num_heads": 2, "mlp_dim": 32}},
  "train": {"freeze": ["stem", "blocks", "final"], "epochs": 4, "schedule": {"warmup_epochs": 1}},
  "eval": {"templates": ["a red {}", "a {}"]}})";

std::string write_both(const TemporaryFolder& folder) {
  std::ofstream(folder / "towers.json") << kTowers;
  std::ofstream(folder / "pairs.json") << kPairs;
  return in_folder(folder, "pairs.json");
}

bool says(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

/// The id of a trial of pairs.json.
std::string a_pair_trial(const ResultStore& store) {
  for (const std::string& id : store.trial_ids())
    if (store.trial(id).load_result()->metrics.contains("eval/text_recall1")) return id;
  return "";
}

}  // namespace

TEST_CASE("image and text: every command works on such a run") {
  const TemporaryFolder folder;
  const std::string pairs = write_both(folder), out = out_option(folder);
  const Finished plan = run_program(folder, "plan " + pairs + out);
  CHECK(says(plan.out, "the head's inputs are computed once: 150 images"));
  const Finished check = run_program(folder, "check " + pairs + " --set model.text.vocabulary=20");
  CHECK(check.code == 2);
  CHECK(
      says(check.err, "model.text.vocabulary is 20, but the vocabulary, the words of the captions of shapes, has 34"));
  const Finished explain = run_program(folder, "explain " + pairs);
  CHECK(says(explain.out, "logits = exp(t)"));
  const Finished run = run_program(folder, "run " + pairs + out);
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  CHECK(says(run.err, "8 of 8 trials done"));
  CHECK(says(run.out, "eval/accuracy"));
  for (const std::string command : {"table ", "report ", "status ", "export --curves --by-row "}) {
    CAPTURE(command);
    CHECK(
        run_program(folder, command + pairs + out + (command == "report " ? " -o " + in_folder(folder, "r.html") : ""))
            .code == 0);
  }
  CHECK(says(run_program(folder, "table " + pairs + out + " --metric eval/text_recall1").out, "eval/text_recall1"));
  const std::string id = a_pair_trial(ResultStore(folder / "r"));
  REQUIRE_FALSE(id.empty());
  const Finished eval = run_program(folder, "eval " + id + out),
                 verify = run_program(folder, "verify " + id + out + " --from-step 0 --steps 100");
  CAPTURE(eval.err);
  CHECK(eval.code == 0);
  CAPTURE(verify.err);
  CHECK(verify.code == 0);
}

TEST_CASE("image and text: few-shot evaluation judges the image tower, of images with and without captions") {
  const TemporaryFolder folder;
  const std::string pairs =
      write_both(folder) + " --set seeds=1 --set dataset.mean=[0.4,0.4,0.4]" + " --set dataset.std=[0.3,0.3,0.3]";
  const Finished run = run_program(folder, "run " + pairs + out_option(folder));
  CAPTURE(run.err);
  REQUIRE(run.code == 0);
  const ResultStore store(folder / "r");
  const std::string pair = a_pair_trial(store);
  REQUIRE_FALSE(pair.empty());
  const auto config = nlohmann::json::parse(store.trial(pair).read_config());
  const std::string tower = config["start"]["trial"];  // its image tower, which the pairs froze
  const auto few_shot = [&](const std::string& trial, const std::string& more) {
    const Finished found = run_program(folder, "eval --fewshot " + trial + " --shots 1,5" + out_option(folder) + more);
    CHECK_MESSAGE(found.code == 0, found.err);
    return found.out;
  };
  const std::string bare = R"( --data '{"name": "shapes", "label": "kind", "shapes_seed": 9, "train_images": 100,
    "eval_images": 50, "mean": [0.4, 0.4, 0.4], "std": [0.3, 0.3, 0.3]}')";
  const std::string expected = few_shot(tower, bare);
  CHECK(says(expected, "5 shots"));
  CHECK(few_shot(pair, "") == expected);
  CHECK(few_shot(pair, bare) == expected);
}

TEST_CASE("image and text: a killed run resumes with the same bits") {
  const TemporaryFolder folder;
  check_killed_run(folder, write_both(folder), " --workers 2 --threads 2");
}

TEST_CASE("image and text: ranks, which gather the features of all, give the bits of one process") {
  const TemporaryFolder folder;
  const std::string run = "run " + write_both(folder) + " --set seeds=1 --threads 1 --out ";
  REQUIRE(run_program(folder, run + in_folder(folder, "1")).code == 0);
  for (const std::string ranks : {"2", "3"}) {
    const Finished ended = run_program(folder, run + in_folder(folder, ranks) + " --workers 1 --ranks " + ranks);
    CHECK_MESSAGE(ended.code == 0, ended.err);
    CHECK(whole_results(folder / ranks) == whole_results(folder / "1"));
  }
}
