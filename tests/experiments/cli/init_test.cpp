// `normlab init`: a descriptor from a folder of images.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/experiments/base/text.h"
#include "tests/experiments/cli/program.h"
#include "tests/experiments/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;
namespace fs = std::filesystem;

namespace {

class Place {
 public:
  Finished command(const std::string& arguments) const {
    return run_program(folder, arguments, "unset NORMLAB_DATA; cd '" + folder.path().string() + "'; ");
  }
  /// init NAME, and then: the descriptor passes check, and trains as it is but for its length.
  nlohmann::json init(const std::string& name) const {
    const Finished made = command("init 'sets/" + name + "'");
    CAPTURE(made.err);
    REQUIRE(made.code == 0);
    said = made.err;
    const std::string file = name + ".json", options = "'" + file + "' --data sets";
    const Finished checked = command("check " + options);
    CAPTURE(checked.err);
    CHECK(checked.code == 0);
    const Finished run =
        command("run " + options + " --set train.epochs=1 --set train.schedule.warmup_epochs=0 --set seeds=1");
    CAPTURE(run.err);
    CHECK(run.code == 0);
    return nlohmann::json::parse(text_of(folder / file));
  }

  TemporaryFolder folder;
  fs::path sets = folder / "sets";
  mutable std::string said;
};

/// `images` photographs of each class, of sizes that differ where `sizes` is above 1.
void write_classes(const fs::path& folder, int classes, int images, int sizes) {
  for (int c = 0; c < classes; ++c)
    for (int i = 0; i < images; ++i)
      write_file(folder / concat("class ", c) / concat(i, ".png"),
                 make_png(32 + 7 * (i % sizes), 32 + 9 * (i % sizes), static_cast<unsigned>(50 * c + i)));
}

}  // namespace

TEST_CASE("init: photographs in train and val become a descriptor that trains") {
  const Place place;
  write_classes(place.sets / "my photos" / "train", 3, 10, 3);
  write_classes(place.sets / "my photos" / "val", 3, 4, 3);
  write_file(place.sets / "my photos" / "train" / "class 1" / "cut.png", make_png(20, 20, 5).substr(0, 60));
  const nlohmann::json d = place.init("my photos");
  CHECK(d["dataset"]["layout"] == "image_folder");
  CHECK(d["dataset"]["eval"] == "val");
  CHECK(d["dataset"]["on_bad_image"] == "skip");
  CHECK(d["dataset"]["mean"].size() == 3);
  CHECK(d["train"]["eval_transform"]["crop"] == "center");
  CHECK(has(place.said, "skipped: class 1/cut.png: "));
  CHECK(has(place.said, "train  30 images, 10 of each class, 32x32 to 50x46 pixels"));
  CHECK(has(place.said, "normlab run 'my photos.json' --data "));
}

TEST_CASE("init: an undivided folder of small images becomes a descriptor that trains") {
  const Place place;
  write_classes(place.sets / "icons", 4, 20, 1);
  const nlohmann::json d = place.init("icons");
  CHECK(d["dataset"]["train"] == "train[:80%]");
  CHECK(d["dataset"]["eval"] == "train[80%:]");
  CHECK(d["model"]["image_size"] == 32);
  CHECK(d["model"]["patch_size"] == 4);
  CHECK(!d["train"].contains("eval_transform"));
  CHECK(!d["dataset"].contains("allow_absent_classes"));
}

TEST_CASE("init: a descriptor that is there already is not overwritten") {
  const Place place;
  write_classes(place.sets / "icons", 4, 20, 1);
  REQUIRE(place.command("init sets/icons").code == 0);
  const std::string written = text_of(place.folder / "icons.json");
  const Finished again = place.command("init sets/icons");
  CHECK(again.code == kBadInput);
  CHECK(has(again.err, "icons.json: exists already"));
  CHECK(text_of(place.folder / "icons.json") == written);
}

TEST_CASE("init: -o - prints the descriptor") {
  const Place place;
  write_classes(place.sets / "icons", 4, 20, 1);
  REQUIRE(place.command("init sets/icons").code == 0);
  CHECK(place.command("init sets/icons -o -").out == text_of(place.folder / "icons.json"));
}

TEST_CASE("init: classes of one image may be absent from the training images") {
  const Place place;
  write_classes(place.sets / "single", 6, 1, 1);
  CHECK(place.init("single")["dataset"]["allow_absent_classes"] == true);
  CHECK(has(place.said, "some classes have no training image"));
}

TEST_CASE("init: shards under a known data set's name get another name") {
  const Place place;
  Members members;
  for (int i = 0; i < 8; ++i) {
    members.push_back({concat(i, ".png"), make_png(24, 24, static_cast<unsigned>(i))});
    members.push_back({concat(i, ".cls"), std::to_string(i % 2)});
  }
  write_file(place.sets / "cifar10" / "classes.txt", "left\nright\n");
  write_tar(place.sets / "cifar10" / "train-000000.tar", members);
  write_tar(place.sets / "cifar10" / "test-000000.tar", members);
  const nlohmann::json shards = place.init("cifar10");
  CHECK(shards["dataset"]["name"] == "cifar10_own");
  CHECK(shards["dataset"]["path"] == "cifar10");
  CHECK(shards["dataset"]["eval"] == "test");
}

TEST_CASE("init: a list of labels is found") {
  const Place place;
  std::string labels;
  for (int i = 0; i < 10; ++i) {
    write_file(place.sets / "listed" / concat(i, ".png"), make_png(24, 24, static_cast<unsigned>(i)));
    labels += concat(i, ".png ", i % 2 == 0 ? "even" : "odd", "\n");
  }
  write_file(place.sets / "listed" / "labels.txt", labels);
  CHECK(place.init("listed")["dataset"]["labels"] == "labels.txt");
}

TEST_CASE("init: files about the folder and other texts do not make a folder of classes a list") {
  const Place place;
  for (const char* name : {"divided/train", "divided/val", "flat"}) write_classes(place.sets / name, 2, 10, 1);
  for (const char* name : {"divided/README.md", "divided/sizes.csv", "flat/README.md", "flat/LICENSE"})
    write_file(place.sets / name, "About these images.\n");
  CHECK(place.init("divided")["dataset"]["eval"] == "val");
  CHECK(place.init("flat")["dataset"]["layout"] == "image_folder");
  std::string labels;
  for (int i = 0; i < 10; ++i) labels += concat("class ", i % 2, "/", i, ".png,", i < 5 ? "low" : "high", "\n");
  write_file(place.sets / "flat" / "labels.csv", labels);
  const Finished made = place.command("init sets/flat -o -");
  CHECK_MESSAGE(has(made.out, "\"layout\": \"image_list\""), made.err);
}

TEST_CASE("init: a folder beside train that is no split is named") {
  const Place place;
  for (const char* name : {"train", "valid", "holdout"}) write_classes(place.sets / "many" / name, 2, 10, 1);
  CHECK(place.init("many")["dataset"]["eval"] == "valid");
  CHECK(has(place.said, "not used: the folder holdout; a split beside train is called val, "));
}

TEST_CASE("init: what is no data set is refused") {
  const Place place;
  const auto refused = [&](const std::string& name, const std::string& message) {
    const Finished done = place.command("init sets/" + name);
    CAPTURE(done.err);
    CHECK(done.code == kBadInput);
    CHECK(has(done.err, message));
    CHECK(!fs::exists(place.folder / (name + ".json")));
  };
  refused("nowhere", "no such folder");
  write_file(place.sets / "texts" / "a.txt", "a");
  write_file(place.sets / "texts" / "b.txt", "b");
  refused("texts", "0 images and 2 other files");
  fs::create_directories(place.sets / "pairs" / "images" / "train");
  fs::create_directories(place.sets / "pairs" / "masks" / "train");
  refused("pairs", "images/ and masks/ are the layout image_masks");
  write_classes(place.sets / "one", 1, 3, 1);
  refused("one", "one class");
  write_classes(place.sets / "later" / "val", 2, 3, 1);
  refused("later", "has no split \"train\" to train on, only val");
  write_file(place.sets / "shard" / "classes.txt", "a\nb\n");
  write_tar(place.sets / "shard" / "train-000000.tar", {{"0.png", make_png(24, 24, 1)}, {"0.cls", "0"}});
  refused("shard", "all pixels of its training images have the same value in some channel");
  for (const char* name : {"a/0.png", "b/0.png"})
    write_file(place.sets / "broken" / name, make_png(20, 20, 5).substr(0, 60));
  refused("broken", "none of its training images can be decoded");
}
