// --lr-sensitivity and --learned as a user runs them, after a real training.
#include <doctest/doctest.h>

#include "tests/lab/base/text.h"
#include "tests/lab/cli/small_sweep.h"

using namespace normlab;

namespace {

/// Two placements at three rates, of which the last diverges; a seed each.
struct TrainedRates {
  TemporaryFolder folder;
  std::string descriptor = in_folder(folder, "rates.json"), out = " --out " + in_folder(folder, "out");

  TrainedRates() {
    std::ofstream(descriptor) << R"({
  "about": "How sensitive?",
  "dataset": {"name": "shapes", "train_images": 100, "eval_images": 40},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
  "train": {"steps": 10, "batch_size": 20, "optimizer": {"name": "sgd"}},
  "sweep": {"model.placement": ["pre_pre", "dpn"], "train.optimizer.lr": [0.01, 0.1, 1e30]},
  "baseline": {"model.placement": "pre_pre"}})";
    CHECK(run_program(folder, "run " + descriptor + out).code == 0);
  }
};

}  // namespace

TEST_CASE("lr_sensitivity program: a table from folders, an archive without curves and a descriptor") {
  const TrainedRates t;
  const Finished table = run_program(t.folder, "table " + t.descriptor + t.out + " --lr-sensitivity");
  CAPTURE(table.out);
  CAPTURE(table.err);
  CHECK(table.code == 0);
  CHECK(table.err.empty());
  CHECK(has(table.out, "placement  best eval/accuracy [%]  lr sensitivity  gain"));
  CHECK(has(table.out, "over 3 rates from 0.01 to 1e30"));
  CHECK(has(table.out, "not evenly spaced"));
  CHECK(has(table.out, "1/3 runs diverged"));
  CHECK(!has(table.out, "±0"));
  const std::string archive = in_folder(t.folder, "rates.jsonl");
  CHECK(run_program(t.folder, "export " + t.descriptor + t.out + " -o " + archive).code == 0);
  const Finished from = run_program(t.folder, "table " + t.descriptor + " --from " + archive + " --lr-sensitivity");
  CHECK(from.out == table.out);
  const Finished folders = run_program(t.folder, "table " + in_folder(t.folder, "out") + " --lr-sensitivity");
  CHECK(folders.code == 0);
  CHECK(has(folders.out, "lr sensitivity"));
  const std::string page = in_folder(t.folder, "r.html"), pictures = in_folder(t.folder, "pictures");
  const Finished report =
      run_program(t.folder, "report " + t.descriptor + " --from " + archive + " --lr-sensitivity -o " + page +
                                " --svg " + pictures + " --where 'lr = 0.01' --equivalent 5");
  CAPTURE(report.err);
  CHECK(has(text_of(page), "<h2>Learning-rate sensitivity</h2>"));
  CHECK(has(text_of(in_folder(t.folder, "pictures") + "/lr_sensitivity.svg"), "diverged at 1e+30"));
}

TEST_CASE("lr_sensitivity program: what is missing is said") {
  const TrainedRates t;
  const Finished none = run_program(t.folder, "table " + small_sweep(t.folder) + t.out + " --lr-sensitivity");
  CHECK(none.code == 2);
  CHECK(has(none.err, "--lr-sensitivity: no row has two rates; sweep over train.optimizer.lr"));
  const Finished learned = run_program(t.folder, "table " + t.descriptor + t.out + " --learned 0.01");
  CHECK(has(learned.out, "has not learned"));
  CHECK(!has(run_program(t.folder, "table " + t.descriptor + t.out).out, "learned"));
  CHECK(run_program(t.folder, "table " + t.descriptor + t.out + " --learned 0").code == 2);
}
