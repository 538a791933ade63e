// `normlab init`: a descriptor from a folder of images.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/data/deep_png.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;
namespace fs = std::filesystem;

namespace {

class Home {
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

  void refused(const std::string& name, const std::string& message) const {
    const Finished done = command("init sets/" + name);
    CHECK(done.code == kBadInput);
    CHECK_MESSAGE(has(done.err, message), done.err);
    CHECK(!fs::exists(folder / (name + ".json")));
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
  const Home place;
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
  const Home place;
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
  const Home place;
  write_classes(place.sets / "icons", 4, 20, 1);
  REQUIRE(place.command("init sets/icons").code == 0);
  const std::string written = text_of(place.folder / "icons.json");
  const Finished again = place.command("init sets/icons");
  CHECK(again.code == kBadInput);
  CHECK(has(again.err, "icons.json: exists already"));
  CHECK(text_of(place.folder / "icons.json") == written);
}

TEST_CASE("init: -o - prints the descriptor") {
  const Home place;
  write_classes(place.sets / "icons", 4, 20, 1);
  REQUIRE(place.command("init sets/icons").code == 0);
  CHECK(place.command("init sets/icons -o -").out == text_of(place.folder / "icons.json"));
}

TEST_CASE("init: classes of one image cannot be in training and evaluation") {
  const Home place;
  write_classes(place.sets / "single", 6, 1, 1);
  place.refused("single",
                "6 of 6 classes have one image (class 0, class 1, class 2, class 3, class 4, ...), so they cannot");
  write_classes(place.sets / "few", 6, 3, 1);
  place.refused("few",
                "has 18 images. One in five of each class, 6, would be evaluated, and the result of fewer than 10");
  write_classes(place.sets / "small" / "train", 2, 20, 1);
  write_classes(place.sets / "small" / "val", 2, 4, 1);
  place.refused("small", "val has 8 images that can be decoded, and the result of fewer than 10 says next to nothing");
}

TEST_CASE("init: each class has its share in training and evaluation") {
  const Home place;
  write_classes(place.sets / "pairs", 10, 2, 1);
  const nlohmann::json d = place.init("pairs");
  CHECK(d["dataset"]["stratified"] == true);
  CHECK(d["dataset"]["slice_seed"] == 0);
  CHECK(has(place.said, "train[:80%] 10 images, 1 of each class"));
  CHECK(has(place.said, "train[80%:] 10 images, 1 of each class"));
  // Other commands cut the slice as the training did.
  const std::string slice = " --layout image_folder --slice 'train[80%:]' ";
  CHECK(has(place.command("data info sets/pairs" + slice + "--stratified").out, "classes   10; 1 to 1 images each\n"));
  CHECK_FALSE(has(place.command("data info sets/pairs" + slice).out, "classes   10; 1 to 1 images each\n"));
  const std::string trial = fs::directory_iterator(place.folder / "results" / "trials")->path().filename();
  const Finished own = place.command("eval " + trial + " --data-root sets"),
                 by_name = place.command("eval " + trial + " --data sets/pairs" + slice);
  CHECK_MESSAGE(own.code == 0, own.err);
  const std::string loss = own.out.substr(own.out.find("eval/loss") + 23, 7);
  CHECK_MESSAGE(has(by_name.out, "loss " + loss), own.out, by_name.out, by_name.err);
}

TEST_CASE("init: Training and Testing are splits") {
  for (const auto& [train, eval] :
       {std::pair("Training", "Testing"), {"seg_train", "seg_test"}, {"TRAIN", "Validation"}}) {
    const Home place;
    write_classes(place.sets / "kaggle" / train, 3, 8, 1);
    write_classes(place.sets / "kaggle" / eval, 3, 4, 1);
    const nlohmann::json d = place.init("kaggle");
    CHECK(d["dataset"]["train"] == train);
    CHECK(d["dataset"]["eval"] == eval);
    CHECK(has(place.said, "image_folder, 3 classes"));
    const Finished info = place.command("data info sets/kaggle --layout image_folder");
    CHECK(has(info.out, concat(train, ": image folder")));
    CHECK(has(info.out, "classes   3; 8 to 8 images each"));
    // By hand, as if the splits were classes.
    const std::string by_hand =
        " kaggle.json --data sets --set dataset.train='train[:80%]' --set dataset.eval='train[80%:]'";
    for (const char* command : {"check", "plan", "run"}) {
      const Finished refused = place.command(command + by_hand);
      CHECK(refused.code == kBadInput);
      CHECK_MESSAGE(has(refused.err, "has no split \"train\""), refused.err);
    }
  }
}

TEST_CASE("init: folders that hold the same folders are no classes") {
  const Home place;
  for (const char* name : {"first", "second"}) write_classes(place.sets / "halves" / name, 3, 8, 1);
  place.refused("halves", "its folders first, second all hold the same folders, so they are splits and not classes");
  write_classes(place.sets / "wrapped" / "archive", 3, 8, 1);
  place.refused("wrapped",
                "has only one class; a training needs at least two. If the folders in archive are classes or "
                "splits, run init for ");
}

TEST_CASE("init: labels beside a folder of images are found") {
  const Home place;
  std::string csv = "file,label\n", with_folder, alone;
  for (int i = 0; i < 60; ++i) {
    for (const char* set : {"csv", "paths", "alone"})
      write_file(place.sets / set / "images" / concat(i + 10, ".png"), make_png(24, 24, static_cast<unsigned>(i)));
    csv += concat(i + 10, ".png,", i % 2 == 0 ? "even" : "odd", "\n");
    with_folder += concat("images/", i + 10, ".png ", i % 3, "\n");
    alone += concat(i % 3, "\n");
  }
  write_file(place.sets / "csv" / "labels.csv", csv);
  write_file(place.sets / "paths" / "list.txt", with_folder);
  write_file(place.sets / "alone" / "labels.txt", alone);
  const nlohmann::json d = place.init("csv");
  CHECK(d["dataset"]["layout"] == "image_list");
  CHECK(d["dataset"]["labels"] == "labels.csv");
  CHECK(has(place.said, "train[:80%] 48 images, 24 of each class, 24x24 pixels"));
  CHECK(place.init("paths")["dataset"]["labels"] == "list.txt");
  CHECK(place.init("alone")["dataset"]["labels"] == "labels.txt");
}

TEST_CASE("init: equal images in training and evaluation, or under two labels, are named") {
  const Home place;
  write_classes(place.sets / "twins" / "train", 2, 12, 1);
  write_classes(place.sets / "twins" / "val", 2, 12, 1);
  for (int c = 0; c < 2; ++c)
    for (int i = 0; i < 12; ++i)  // other pictures than those of train, but for two
      write_file(place.sets / "twins" / "val" / concat("class ", c) / concat(i, ".png"),
                 make_png(32, 32, static_cast<unsigned>(100 + 12 * c + i)));
  const fs::path train = place.sets / "twins" / "train", val = place.sets / "twins" / "val";
  fs::copy_file(train / "class 0" / "3.png", val / "class 0" / "a.png");
  fs::copy_file(train / "class 1" / "4.png", val / "class 0" / "b.png");
  fs::copy_file(train / "class 1" / "5.png", train / "class 0" / "5 again.png");
  place.init("twins");
  const std::string both =
                        "2 images of val are also in train, 1 of them with another label: val/class 0/b.png is "
                        "train/class 1/4.png; val/class 0/a.png is train/class 0/3.png\n",
                    twice =
                        "1 images of train repeat another one of it, 1 of them with another label: train/class "
                        "1/5.png is train/class 0/5 again.png\n";
  CHECK_MESSAGE(has(place.said, both), place.said);
  CHECK_MESSAGE(has(place.said, twice), place.said);
  const Finished info = place.command("data info sets/twins --layout image_folder");
  CHECK(has(info.out, "equal: " + both));
  CHECK(has(info.out, "equal: " + twice));
  const Finished json = place.command("data info sets/twins --layout image_folder --format json");
  CHECK(nlohmann::json::parse(json.out)["equal_images"].size() == 2);
}

TEST_CASE("init: the share of the most frequent class is told") {
  const Home place;
  write_classes(place.sets / "uneven", 3, 10, 1);
  for (int i = 0; i < 90; ++i)
    write_file(place.sets / "uneven" / "disc" / concat(i, ".png"), make_png(32, 32, static_cast<unsigned>(i)));
  place.init("uneven");
  CHECK_MESSAGE(has(place.said, "always answering \"disc\" gives 75.0% of train[80%:]"), place.said);
  write_classes(place.sets / "even", 3, 20, 1);
  place.init("even");
  CHECK_FALSE(has(place.said, "always answering"));
}

TEST_CASE("init: 16-bit grayscale is told, with advice where it uses few levels") {
  const Home place;
  for (int i = 0; i < 60; ++i)
    for (const char* set : {"scan", "xray"}) {
      const unsigned level = std::string(set) == "scan" ? 300 : 1000 * static_cast<unsigned>(i % 2);
      write_file(place.sets / set / concat("class ", i % 2) / concat(i, ".png"),
                 make_deep_png(32, 32, 16, PNG_COLOR_TYPE_GRAY, level, level == 300 ? 105 : 2000));
    }
  place.init("scan");  // 300 to 3555
  CHECK_MESSAGE(has(place.said,
                    "60 images are 16-bit grayscale, of which the upper byte of each pixel is used: values of "
                    "256 to 3583 keep only 13 of 256 levels. Multiply all values by 16 (numpy: a * 16) and "
                    "write the files again."),
                place.said);
  const std::string trial = fs::directory_iterator(place.folder / "results" / "trials")->path();
  CHECK(has(text_of(fs::path(trial) / "attempt-1" / "log"),
            "60 images here are 16-bit grayscale: the upper byte of a pixel is used"));
  place.init("xray");
  CHECK_MESSAGE(has(place.said, "60 images are 16-bit grayscale, of which the upper byte of each pixel is used.\n"),
                place.said);
  const Finished info = place.command("data info sets/scan --layout image_folder");
  CHECK(has(info.out, "gray16    60 images are 16-bit grayscale"));
}

TEST_CASE("init: shards under a known data set's name get another name") {
  const Home place;
  Members members;
  for (int i = 0; i < 12; ++i) {
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
  const Home place;
  std::string labels;
  for (int i = 0; i < 50; ++i) {
    write_file(place.sets / "listed" / concat(i, ".png"), make_png(24, 24, static_cast<unsigned>(i)));
    labels += concat(i, ".png ", i % 2 == 0 ? "even" : "odd", "\n");
  }
  write_file(place.sets / "listed" / "labels.txt", labels);
  CHECK(place.init("listed")["dataset"]["labels"] == "labels.txt");
}

TEST_CASE("init: a list that has two readings is refused until one is given, which the descriptor keeps") {
  const Home place;
  std::string labels;
  for (int i = 0; i < 60; ++i) {
    write_file(place.sets / "two" / concat(i, ".png"), make_png(24, 24, static_cast<unsigned>(i)));
    labels += concat(i, ".png ", 1 + i % 2, "\n");
  }
  write_file(place.sets / "two" / "labels.txt", labels);
  write_file(place.sets / "two" / "classes.txt", "ant\nbee\ncat\n");
  const Finished refused = run_program(place.folder, "init '" + (place.sets / "two").string() + "' -o -");
  CHECK(refused.code == 2);
  CHECK_MESSAGE(has(refused.err, "labels count from 1: class \"ant\""), refused.err);
  const Finished given = run_program(place.folder, "init '" + (place.sets / "two").string() + "' --labels-from 1 -o -");
  CHECK_MESSAGE(has(given.out, "\"labels_from\": 1"), given.err);
}

TEST_CASE("init: files about the folder and other texts do not make a folder of classes a list") {
  const Home place;
  for (const char* name : {"divided/train", "divided/val", "flat"}) write_classes(place.sets / name, 2, 30, 1);
  for (const char* name : {"divided/README.md", "divided/sizes.csv", "flat/README.md", "flat/LICENSE"})
    write_file(place.sets / name, "About these images.\n");
  CHECK(place.init("divided")["dataset"]["eval"] == "val");
  CHECK(place.init("flat")["dataset"]["layout"] == "image_folder");
  std::string labels;
  for (int i = 0; i < 60; ++i) labels += concat("class ", i % 2, "/", i / 2, ".png,", i < 30 ? "low" : "high", "\n");
  write_file(place.sets / "flat" / "labels.csv", labels);
  const Finished made = place.command("init sets/flat -o -");
  CHECK_MESSAGE(has(made.out, "\"layout\": \"image_list\""), made.err);
}

TEST_CASE("init: a folder beside train that is no split is named") {
  const Home place;
  for (const char* name : {"train", "valid", "holdout"}) write_classes(place.sets / "many" / name, 2, 10, 1);
  CHECK(place.init("many")["dataset"]["eval"] == "valid");
  CHECK(has(place.said, "not used: the folder holdout; a split beside train is called val, "));
}

TEST_CASE("init: what is no data set is refused") {
  const Home place;
  place.refused("nowhere", "no such folder");
  write_file(place.sets / "texts" / "a.txt", "a");
  write_file(place.sets / "texts" / "b.txt", "b");
  place.refused("texts", "0 images and 2 other files");
  fs::create_directories(place.sets / "pairs" / "images" / "train");
  fs::create_directories(place.sets / "pairs" / "masks" / "train");
  place.refused("pairs", "images/ and masks/ are the layout image_masks");
  write_classes(place.sets / "one", 1, 3, 1);
  place.refused("one", "one class");
  write_classes(place.sets / "later" / "val", 2, 3, 1);
  place.refused("later", "has no split \"train\" to train on, only val");
  write_file(place.sets / "shard" / "classes.txt", "a\nb\n");
  Members members;
  for (int i = 0; i < 60; ++i) {
    members.push_back({concat(i, ".png"), make_png(24, 24, 1)});
    members.push_back({concat(i, ".cls"), std::to_string(i % 2)});
  }
  write_tar(place.sets / "shard" / "train-000000.tar", members);
  place.refused("shard", "all pixels of its training images have the same value in some channel");
  for (int i = 0; i < 60; ++i)
    write_file(place.sets / "broken" / concat(i % 2 == 0 ? "a/" : "b/", i, ".png"), make_png(20, 20, 5).substr(0, 60));
  place.refused("broken", "none of its training images can be decoded");
}
