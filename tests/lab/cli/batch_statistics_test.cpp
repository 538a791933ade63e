// A batch norm that an epoch's last batch gives one value per channel is refused before the first step.
#include <doctest/doctest.h>

#include "tests/lab/cli/program.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;
namespace fs = std::filesystem;

namespace {

const std::string kRefusal =
    "train.drop_last: the batch norm pooled would see one value per channel, which has no variance: it has one row "
    "per image, and 5 training images in batches of 2 leave a last batch of 1; set train.drop_last to true, or another "
    "train.batch_size";

/// Five training images in two classes, and a descriptor of batches of two.
struct FiveImages {
  TemporaryFolder folder;
  std::string file = (folder / "five.json").string();
  FiveImages() {
    for (unsigned i = 0; i < 8; ++i)
      write_file(folder / "mine" / (i < 5 ? "train" : "val") / (i % 2 == 0 ? "a" : "b") / (std::to_string(i) + ".png"),
                 make_png(8, 8, i));
    write_file(
        file,
        R"({"dataset": {"name": "mine", "path": "mine", "layout": "image_folder", "eval": "val", "allow_small_eval": true,
        "mean": [0.5, 0.5, 0.5], "std": [0.2, 0.2, 0.2]},
      "model": {"image_size": 8, "patch_size": 4, "embed_dim": 8, "depth": 1, "num_heads": 1, "num_classes": 2,
        "placement": {"base": "pre_pre", "pooled": "batch_norm"}},
      "train": {"epochs": 2, "batch_size": 2, "drop_last": false}})");
  }
  Finished run(const std::string& command, const std::string& options = "") const {
    return run_program(folder, command + " " + file + options, "export COLUMNS=200; ");
  }
  std::string data() const { return " --data " + folder.path().string(); }
  std::string out() const { return " --out " + (folder / "r").string(); }
};

}  // namespace

TEST_CASE("batch statistics: check, plan and run refuse a last batch of one of the images that are here") {
  const FiveImages five;
  for (const Finished& done : {five.run("check", five.data()), five.run("plan", five.data() + five.out()),
                               five.run("run", five.data() + five.out())}) {
    CHECK(done.code == 2);
    CHECK_MESSAGE(done.err.find(kRefusal) != std::string::npos, done.err);
  }
  CHECK(!fs::exists(five.folder / "r" / "trials"));
}

TEST_CASE("batch statistics: check says what it cannot check without the images") {
  const FiveImages five;
  fs::create_directory(five.folder / "none");
  const Finished done = five.run("check", " --data " + (five.folder / "none").string());
  CHECK_MESSAGE(done.code == 0, done.err);
  CHECK_MESSAGE(
      done.out.find("Not checked: the last batch of an epoch: the images of \"mine\" cannot be counted here") !=
          std::string::npos,
      done.out);
}

TEST_CASE("batch statistics: another batch size trains") {
  const FiveImages five;
  const std::string three = " --set train.batch_size=3";
  CHECK(five.run("check", five.data() + three).code == 0);
  const Finished done = five.run("run", five.data() + five.out() + three);
  CHECK_MESSAGE(done.code == 0, done.err);
}
