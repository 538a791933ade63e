// The classes of the data against those of the model, in every layout and every command that reads images.
#include <doctest/doctest.h>

#include <functional>

#include "tests/lab/cli/program.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kNames{"ant", "bee", "cat", "dog", "elk"};

std::string lines_of(int classes) {
  std::string text;
  for (int c = 0; c < classes; ++c) text += kNames[static_cast<std::size_t>(c)] + "\n";
  return text;
}

/// Four images of each class in each split.
constexpr int kEach = 4;
std::string image_of(int c, int i) { return make_png(8, 8, static_cast<unsigned>(10 * c + i)); }

void write_folders(const fs::path& folder, int classes) {
  for (const char* split : {"train", "val"})
    for (int c = 0; c < classes; ++c)
      for (int i = 0; i < kEach; ++i)
        write_file(folder / split / kNames[static_cast<std::size_t>(c)] / concat(i, ".png"), image_of(c, i));
}

void write_shards(const fs::path& folder, int classes) {
  write_file(folder / "classes.txt", lines_of(classes));
  for (const char* split : {"train", "test"}) {
    Members members;
    for (int c = 0; c < classes; ++c)
      for (int i = 0; i < kEach; ++i) {
        members.push_back({concat(c, "_", i, ".png"), image_of(c, i)});
        members.push_back({concat(c, "_", i, ".cls"), std::to_string(c)});
      }
    write_tar(folder / concat(split, "-000000.tar"), members);
  }
}

void write_cifar(const fs::path& folder, int classes) {
  write_file(folder / "batches.meta.txt", lines_of(classes));
  for (const char* name :
       {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}) {
    std::string records;
    for (int c = 0; c < classes; ++c)
      records += static_cast<char>(c) + std::string(3072, static_cast<char>(40 * c + 9));
    write_file(folder / concat(name, ".bin"), records);
  }
}

std::string big_endian(int value) {
  std::string bytes;
  for (int shift = 24; shift >= 0; shift -= 8) bytes += static_cast<char>(value >> shift & 255);
  return bytes;
}

void write_idx(const fs::path& folder, int classes) {
  write_file(folder / "classes.txt", lines_of(classes));
  for (const char* split : {"train", "t10k"}) {
    std::string images = std::string("\0\0\x08\x03", 4) + big_endian(classes * kEach) + big_endian(8) + big_endian(8);
    std::string labels = std::string("\0\0\x08\x01", 4) + big_endian(classes * kEach);
    for (int i = 0; i < classes * kEach; ++i) {
      images += std::string(64, static_cast<char>(7 * i));
      labels += static_cast<char>(i % classes);
    }
    write_file(folder / concat(split, "-images-idx3-ubyte"), images);
    write_file(folder / concat(split, "-labels-idx1-ubyte"), labels);
  }
}

void write_tiny_imagenet(const fs::path& folder, int classes) {
  write_file(folder / "wnids.txt", lines_of(classes));
  std::string annotations;
  for (int c = 0; c < classes; ++c)
    for (int i = 0; i < kEach; ++i) {
      const std::string& name = kNames[static_cast<std::size_t>(c)];
      write_file(folder / "train" / name / "images" / concat(name, "_", i, ".png"), image_of(c, i));
      write_file(folder / "val" / "images" / concat("val_", c, "_", i, ".png"), image_of(c, i));
      annotations += concat("val_", c, "_", i, ".png\t", name, "\t0\t0\t7\t7\n");
    }
  write_file(folder / "val" / "val_annotations.txt", annotations);
}

/// In folders of splits, or flat.
void write_list(const fs::path& folder, int classes, bool flat) {
  std::string labels;
  for (const std::string split : {"train/", "test/"}) {
    if (flat && split == "test/") break;
    for (int c = 0; c < classes; ++c)
      for (int i = 0; i < 2 * kEach; ++i) {
        const std::string file = concat(flat ? "" : split, c, "_", i, ".png");
        write_file(folder / file, image_of(c, i));
        labels += file + " " + kNames[static_cast<std::size_t>(c)] + "\n";
      }
  }
  write_file(folder / "labels.txt", labels);
}

struct Layout {
  std::string name, dataset, model, eval;  // settings other than layout and num_classes; options of `eval`
  std::function<void(const fs::path&, int)> write;
};
std::vector<Layout> layouts() {
  const std::string rgb = R"("channels": 3, "image_size": 8, "patch_size": 4, )";
  const std::string labels = R"(, "labels": "labels.txt")";
  return {
      {"image_folder", R"(, "eval": "val")", rgb, "--slice val", write_folders},
      {"webdataset", "", rgb, "", write_shards},
      {"cifar", R"(, "allow_small_eval": true)", R"("channels": 3, "image_size": 32, "patch_size": 8, )", "",
       write_cifar},
      {"idx", "", R"("channels": 1, "image_size": 8, "patch_size": 4, )", "", write_idx},
      {"tiny_imagenet", R"(, "eval": "val")", rgb, "--slice val", write_tiny_imagenet},
      {"image_list", labels, rgb, "--labels labels.txt",
       [](const fs::path& folder, int classes) { write_list(folder, classes, false); }},
      {"image_list", labels + R"(, "train": "train[:14]", "eval": "train[14:]")", rgb,
       "--labels labels.txt --slice train",
       [](const fs::path& folder, int classes) { write_list(folder, classes, true); }},
  };
}

struct Case {
  TemporaryFolder folder;
  const Layout& layout;
  explicit Case(const Layout& of, int classes = 3) : layout(of) { layout.write(folder / "data" / "d", classes); }

  std::string in(const std::string& name) const { return (folder / name).string(); }
  /// A descriptor whose `num_classes` is left out where it is 0.
  void describe(const std::string& file, int classes, const std::string& dataset = "") const {
    std::ofstream(folder / file) << R"({"dataset": {"name": "d", "layout": ")" << layout.name << '"' << layout.dataset
                                 << dataset << R"(}, "model": {)" << layout.model
                                 << (classes > 0 ? concat("\"num_classes\": ", classes, ", ") : "")
                                 << R"("embed_dim": 8, "depth": 1, "num_heads": 1},
      "train": {"steps": 2, "batch_size": 2, "augment": {"mix": {"mixup": 0.5}}}})";
  }
  Finished run(const std::string& arguments) const {
    const bool given = arguments.find("--data-root") != std::string::npos;
    return run_program(folder, arguments + (given ? "" : " --data " + in("data")));
  }
  std::string result_folder(const std::string& out) const {
    for (const auto& entry : fs::directory_iterator(folder / out / "trials")) return entry.path().filename().string();
    return "";
  }
};

}  // namespace

TEST_CASE("classes: data with another number of classes than the model are refused") {
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name + layout.dataset);
    const Case c(layout);
    for (const int model : {1, 2, 4, 40}) {
      CAPTURE(model);
      c.describe("d.json", model);
      const std::string what = concat("has 3 classes, but the model has ", model);
      for (const std::string& command : {"run " + c.in("d.json") + " --out " + c.in("out"),
                                         "eval --probe " + c.in("d.json") + " --data-root " + c.in("data"),
                                         "data preview " + c.in("d.json") + " -o " + c.in("sheet.html")}) {
        const Finished done = c.run(command);
        CHECK_MESSAGE(done.code == 2, command, "\n", done.out, done.err);
        CHECK_SAYS(done.err, what);
        CHECK_SAYS(done.err, "model.num_classes");
        CHECK_SAYS(done.err, (c.folder / "data" / "d").string());
        CHECK_SAYS(done.err, "set \"model.num_classes\" to 3");
        CHECK((done.err.find("dataset.allow_absent_classes") != std::string::npos) == (model > 3));
        CHECK(done.err.find(what) == done.err.rfind(what));  // said once
      }
      CHECK_FALSE(fs::exists(c.folder / "sheet.html"));
      CHECK_FALSE(fs::exists(c.folder / "out" / "trials"));
    }
  }
}

TEST_CASE("classes: check and plan refuse another number of classes than the data here have, as run does") {
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name + layout.dataset);
    const Case c(layout);
    c.describe("d.json", 4);
    const std::string said = c.run("run " + c.in("d.json") + " --out " + c.in("out")).err;
    for (const char* command : {"check ", "plan "}) {
      const Finished done = c.run(command + c.in("d.json"));
      CHECK_MESSAGE(done.code == 2, done.out);
      CHECK_SAYS(done.err, "has 3 classes, but the model has 4; set \"model.num_classes\" to 3, or leave it out");
      CHECK(said.find(done.err.substr(done.err.find("model.num_classes"))) != std::string::npos);
    }
    const std::string nowhere = "NORMLAB_DATA=" + c.in("nothing") + " ";
    fs::create_directories(c.folder / "nothing");
    CHECK(run_program(c.folder, "check " + c.in("d.json"), nowhere).code == 0);
    CHECK(run_program(c.folder, "plan --gflops 100 " + c.in("d.json"), nowhere).code == 0);
  }
}

TEST_CASE("classes: an evaluation without meaning is refused before the first step") {
  const Layout folders = layouts().front();
  const Case c(folders);
  const auto refused = [&](const std::string& what) {
    for (const std::string command : {"check ", "plan ", "run "}) {
      const Finished done = c.run(command + c.in("d.json") + (command == "check " ? "" : " --out " + c.in("out")));
      CHECK_MESSAGE(done.code == 2, command, done.out);
      CHECK_SAYS(done.err, what);
    }
    CHECK_FALSE(fs::exists(c.folder / "out" / "trials"));
  };
  const fs::path val = c.folder / "data" / "d" / "val";
  for (const char* gone : {"ant/0.png", "ant/1.png", "bee/0.png"}) fs::remove(val / gone);
  c.describe("d.json", 3);
  refused("evaluation slice \"val\": has 9 images; the result of fewer than 10 says next to nothing");
  c.describe("d.json", 3, R"(, "allow_small_eval": true)");
  for (const char* command : {"check ", "plan ", "run "}) CHECK(c.run(command + c.in("d.json")).code == 0);
  // Classes that training lacks.
  write_file(val / "dog" / "0.png", image_of(3, 0));
  c.describe("d.json", 3);
  refused("val/dog: the training split has no class of this name");
  fs::remove_all(val);
  for (int i = 0; i < 12; ++i) write_file(val / "elk" / concat(i, ".png"), image_of(4, i));
  fs::create_directories(c.folder / "data" / "d" / "train" / "elk");
  write_file(c.folder / "data" / "d" / "train" / "elk" / "0.png", image_of(4, 40));
  c.describe("d.json", 4,
             R"(, "classes": ["ant", "bee", "cat", "elk"], "train": "train[:10]", "allow_absent_classes": true)");
  for (int seed = 0; seed < 40; ++seed) {  // some slice of ten lacks the class of one image
    const std::string set = concat(" --set dataset.slice_seed=", seed);
    const Finished done = c.run("check " + c.in("d.json") + set);
    if (done.code == 0) continue;
    CHECK_SAYS(done.err, "no image has a class of the training slice \"train[:10]\", so none can be answered right");
    return;
  }
  FAIL("each slice has the class");
}

TEST_CASE("classes: allow_absent_classes allows a model with more classes") {
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name + layout.dataset);
    const Case c(layout);
    c.describe("d.json", 5, R"(, "allow_absent_classes": true)");
    for (const std::string& command : {"run " + c.in("d.json") + " --out " + c.in("out"),
                                       "eval --probe " + c.in("d.json") + " --data-root " + c.in("data"),
                                       "data preview " + c.in("d.json") + " -o " + c.in("wide.html")}) {
      const Finished done = c.run(command);
      CHECK_MESSAGE(done.code == 0, command, "\n", done.out, done.err);
    }
    // The same images with the same captions, though each row of targets is wider.
    c.describe("three.json", 3);
    CHECK(c.run("data preview " + c.in("three.json") + " -o " + c.in("three.html")).code == 0);
    const auto images = [&](const char* name) {
      const std::string page = test::read_file(c.folder / name);
      return page.substr(page.find("<main>"));
    };
    CHECK(images("wide.html") == images("three.html"));
  }
}

TEST_CASE("classes: allow_absent_classes allows no model with fewer classes") {
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name + layout.dataset);
    const Case c(layout);
    c.describe("fewer.json", 2, R"(, "allow_absent_classes": true)");
    CHECK(c.run("run " + c.in("fewer.json") + " --out " + c.in("fewer")).code == 2);
  }
}

TEST_CASE("classes: a num_classes that is left out is that of the data") {
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name + layout.dataset);
    const Case c(layout);
    c.describe("d.json", 0);
    const std::string out = " --out " + c.in("out");
    const Finished run = c.run("run " + c.in("d.json") + out);
    REQUIRE_MESSAGE(run.code == 0, run.err);
    const std::string trial = c.result_folder("out");
    CHECK_SAYS(text_of(c.folder / "out" / "trials" / trial / "config.json"), "\"num_classes\": 3");
    const Finished given =
        run_program(c.folder, "status --missing " + c.in("d.json") + out + " --set model.num_classes=3");
    CHECK_MESSAGE(given.code == 0, given.out, given.err);
    CHECK_SAYS(given.err, "0 of 1 trial without a result");
    CHECK(c.run("table " + c.in("d.json") + out).code == 0);
    CHECK(c.run("plan " + c.in("d.json") + out).code == 0);
    CHECK(c.run("explain " + c.in("d.json")).code == 0);
  }
}

TEST_CASE("classes: without the data a num_classes that is left out is unknown") {
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name + layout.dataset);
    const Case c(layout);
    c.describe("d.json", 0);
    const std::string nowhere = "NORMLAB_DATA=" + c.in("nothing") + " ";
    fs::create_directories(c.folder / "nothing");
    const Finished table = run_program(c.folder, "table " + c.in("d.json") + " --out " + c.in("out"), nowhere);
    CHECK(table.code == 2);
    CHECK_SAYS(table.err, "num_classes is missing");
    CHECK_SAYS(table.err, "--data");
    const Finished check = run_program(c.folder, "check " + c.in("d.json"), nowhere);
    CHECK_MESSAGE(check.code == 0, check.err);
    CHECK_SAYS(check.out, "Not checked: the number of classes; model.num_classes is left out");
    CHECK(c.run("check " + c.in("d.json")).out.find("Not checked") == std::string::npos);
  }
}

TEST_CASE("classes: check finds an unknown class, or says that the names are not here") {
  const TemporaryFolder folder;
  const auto check = [&](const std::string& dataset) {
    std::ofstream(folder / "d.json") << R"({"about": "a test", "dataset": )" << dataset << R"(, "seeds": 1})";
    return run_program(folder, "check " + (folder / "d.json").string(), "NORMLAB_DATA=" + folder.path().string() + " ");
  };
  const Finished generated = check(R"({"name": "shapes", "classes": ["far_beside", "cross"]})");
  CHECK(generated.code == 2);
  CHECK_SAYS(generated.err, "dataset \"shapes\": unknown class \"cross\"");
  const Finished absent = check(R"({"name": "cifar10", "classes": ["cat", "dgo"]})");
  CHECK(absent.code == 0);
  CHECK_SAYS(absent.out, "Not checked: the names of the classes of \"cifar10\": ");
}

TEST_CASE("classes: check refuses a split that the data here lack") {
  for (const Layout& layout : layouts()) {
    if (layout.name != "image_folder" && layout.name != "webdataset") continue;
    const Case c(layout);
    c.describe("d.json", 3);
    CHECK(c.run("check " + c.in("d.json")).code == 0);
    std::string text = test::read_file(c.folder / "d.json");
    text.replace(text.find("\"layout\""), 0, "\"minival\": \"later\", ");
    write_file(c.folder / "d.json", text);
    const Finished refused = c.run("check " + c.in("d.json"));
    CHECK(refused.code == 2);
    CHECK_SAYS(refused.err, "dataset.minival: ");
    CHECK_SAYS(refused.err, layout.name == "webdataset" ? "has no split \"later\", only train, test"
                                                        : "has no split \"later\", only train, val");
  }
}

TEST_CASE("classes: eval refuses data with other classes than the network's") {
  for (const Layout& layout : layouts()) {
    CAPTURE(layout.name + layout.dataset);
    const Case c(layout), more(layout, 4), fewer(layout, 2);
    c.describe("d.json", 3);
    REQUIRE(c.run("run " + c.in("d.json") + " --out " + c.in("out")).code == 0);
    const fs::path trial = c.folder / "out" / "trials" / c.result_folder("out");
    const std::string eval = "eval --weights " + (trial / "attempt-1" / "checkpoint.safetensors").string() +
                             " --normalize half --layout " + layout.name + " " + layout.eval + " --data d --data-root ";
    const Finished same = run_program(c.folder, eval + c.in("data"));
    CHECK_MESSAGE(same.code == 0, same.err);
    for (const auto& given : {std::pair(&more, "has 4 classes, but the training of this model had 3"),
                              {&fewer, "has 2 classes, but the training of this model had 3"}}) {
      const Finished done = run_program(c.folder, eval + given.first->in("data"));
      const std::string text = given.second;
      CHECK_MESSAGE(done.code == 2, done.out);
      CHECK_SAYS(done.err, text);
      CHECK(done.out == "");
    }
    CHECK(run_program(c.folder, "verify " + trial.string() + " --data " + more.in("data")).code == 2);
  }
}

TEST_CASE("classes: a class that only the evaluation images have is named") {
  const Layout folders = layouts().front();
  const Case c(folders);
  write_file(c.folder / "data" / "d" / "val" / "dog" / "0.png", image_of(3, 0));
  for (const int model : {3, 4}) {
    c.describe("d.json", model);
    const Finished run = c.run("run " + c.in("d.json") + " --out " + c.in("out"));
    CHECK(run.code == 2);
    CHECK_SAYS(run.err, "val/dog: the training split has no class of this name");
  }
}

TEST_CASE("classes: a part of a known data set is refused") {
  const Layout folders = layouts().front();
  const Case c(folders);
  fs::rename(c.folder / "data" / "d", c.folder / "data" / "imagenet");
  std::ofstream(c.folder / "d.json") << R"({"dataset": {"name": "imagenet", "eval": "val"},
    "model": {"image_size": 8, "patch_size": 4, "embed_dim": 8, "depth": 1, "num_heads": 1},
    "train": {"steps": 2, "batch_size": 2}})";
  const Finished run = c.run("run " + c.in("d.json") + " --out " + c.in("out"));
  CHECK_MESSAGE(run.code == 2, run.out);
  CHECK_SAYS(run.err, "has 3 classes, but the model has 1000");
  CHECK_SAYS(run.err, "give the part its own name");
}
