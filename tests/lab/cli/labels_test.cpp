// Which class a label is, by every command that reads a list of labels: they agree, or all refuse.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "experiments/lab/data/archive.h"
#include "experiments/lab/trials/store.h"
#include "experiments/lab/weights/convert_files.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/data/fixtures.h"
#include "tests/lab/weights/tensors.h"

using namespace normlab;
using namespace normlab::test;
namespace fs = std::filesystem;

namespace {

using Names = std::vector<std::string>;

Names numbers(int first, int last, const std::string& prefix = "") {
  Names names;
  for (int i = first; i <= last; ++i) names.push_back(prefix + std::to_string(i));
  return names;
}
const Names kLetters{"ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen", "ibi", "jay", "kit", "lar"};
const Names kWnids{"n01440764", "n01443537", "n01484850", "n01491361"};

struct Case {
  const char* what;
  Names folders;  // of train/, each with one image
  Names labels;   // of val/00.png, ...
  std::string settings{}, classes_txt{};
  Names expected{};       // the names of the classes, or
  std::string refused{};  // a part of the message of each command
  Names order{};          // of the classes; empty: bytes
  bool alone = false;     // labels without names of images
};

std::vector<Case> cases() {
  std::vector<Case> all{
      {.what = "folders 0 to 11, labels are names",
       .folders = numbers(0, 11),
       .labels = numbers(0, 11),
       .expected = numbers(0, 11)},
      {.what = "folders 1 to 12, labels are names",
       .folders = numbers(1, 12),
       .labels = numbers(1, 12),
       .expected = numbers(1, 12)},
      {.what = "folders 1 to 12, a part of the names",
       .folders = numbers(1, 12),
       .labels = {"2", "10", "7"},
       .expected = {"2", "10", "7"}},
      {.what = "folders 1 to 12, labels 0 to 11",
       .folders = numbers(1, 12),
       .labels = numbers(0, 11),
       .refused = "label \"0\" is no class name, but label \"1\" in line 2 is one"},
      {.what = "folders 1 to 12, positions from 0 in natural order",
       .folders = numbers(1, 12),
       .labels = numbers(0, 11),
       .settings = R"("labels_from": 0, "class_order": "natural")",
       .expected = numbers(1, 12),
       .order = numbers(1, 12)},
      {.what = "folders 1 to 12, a part of the positions",
       .folders = numbers(1, 12),
       .labels = {"1", "9"},
       .settings = R"("labels_from": 0, "class_order": "natural")",
       .expected = {"2", "10"},
       .order = numbers(1, 12)},
      {.what = "folders 0 to 11, a base alone",
       .folders = numbers(0, 11),
       .labels = numbers(0, 11),
       .settings = R"("labels_from": 0)",
       .refused = "labels count from 0 in natural order: class \"2\""},
      {.what = "folders 0 to 11, positions in byte order",
       .folders = numbers(0, 11),
       .labels = {"2", "3"},
       .settings = R"("labels_from": 0, "class_order": "bytes")",
       .expected = {"10", "11"}},
      {.what = "letters, labels from 0", .folders = kLetters, .labels = numbers(0, 11), .expected = kLetters},
      {.what = "letters, labels from 1", .folders = kLetters, .labels = numbers(1, 12), .expected = kLetters},
      {.what = "letters, labels from 1 without the last class",
       .folders = kLetters,
       .labels = numbers(1, 11),
       .refused = "label \"1\" of \"00.png\" may be of several classes, and nothing says which:\n"
                  "  labels count from 0: class \"bee\"\n  labels count from 1: class \"ant\"\n"
                  "Say \"labels_from\": 0 or 1 in \"dataset\" (--labels-from)"},
      {.what = "letters, the same with its base",
       .folders = kLetters,
       .labels = numbers(1, 11),
       .settings = R"("labels_from": 1)",
       .expected = {kLetters.begin(), kLetters.end() - 1}},
      {.what = "letters, the other base",
       .folders = kLetters,
       .labels = numbers(1, 11),
       .settings = R"("labels_from": 0)",
       .expected = {kLetters.begin() + 1, kLetters.end()}},
      {.what = "letters, a number too large",
       .folders = kLetters,
       .labels = {"0", "12"},
       .refused = "labels.txt:2: label \"12\" is neither a class name nor a number from 0 to 11"},
      {.what = "letters, names mixed with numbers",
       .folders = kLetters,
       .labels = {"ant", "1"},
       .refused = "label \"1\" is no class name, but label \"ant\" in line 1 is one; write the name of a class"},
      {.what = "letters, names where numbers are announced",
       .folders = kLetters,
       .labels = {"ant", "bee"},
       .settings = R"("labels_from": 0)",
       .refused = "label \"ant\" is no number, but labels_from says"},
      {.what = "c0 to c11, numbers in two orders",
       .folders = numbers(0, 11, "c"),
       .labels = numbers(0, 11),
       .refused = "label \"2\" of \"02.png\" may be of several classes, and nothing says which:\n"
                  "  labels count from 0 in the order of the names' bytes: class \"c10\"\n"
                  "  labels count from 0 in natural order: class \"c2\"\n"
                  "Say \"labels_from\": 0 or 1 and \"class_order\": \"bytes\" or \"natural\""},
      {.what = "c0 to c11, natural order",
       .folders = numbers(0, 11, "c"),
       .labels = numbers(0, 11),
       .settings = R"("class_order": "natural")",
       .expected = numbers(0, 11, "c"),
       .order = numbers(0, 11, "c")},
      {.what = "c0 to c11, classes.txt",
       .folders = numbers(0, 11, "c"),
       .labels = {"0", "11", "1"},
       .classes_txt = "c5\nc0\nc1\nc2\nc3\nc4\nc6\nc7\nc8\nc9\nc10\nc11\n",
       .expected = {"c5", "c11", "c0"}},
      {.what = "numbers in classes.txt are names",
       .folders = numbers(0, 3),
       .labels = numbers(0, 3),
       .classes_txt = "3\n2\n1\n0\n",
       .expected = numbers(0, 3)},
      {.what = "capital letters",
       .folders = {"Abyssinian", "Bengal", "american_bulldog"},
       .labels = {"1", "2", "3"},
       .refused = "labels count from 1 in natural order: class \"american_bulldog\""},
      {.what = "WNIDs with ImageNet's numbers",
       .folders = kWnids,
       .labels = {"4", "2", "1", "3"},
       .refused = "the classes are WNIDs, and ImageNet's own numbers do not count the sorted WNIDs"},
      {.what = "WNIDs in sorted order",
       .folders = kWnids,
       .labels = {"4", "2", "1", "3"},
       .settings = R"("class_order": "bytes")",
       .expected = {kWnids[3], kWnids[1], kWnids[0], kWnids[2]}},
      {.what = "WNIDs with a base",
       .folders = kWnids,
       .labels = {"2", "3"},
       .settings = R"("labels_from": 1)",
       .expected = {kWnids[1], kWnids[2]}},
      {.what = "WNIDs by a file",
       .folders = kWnids,
       .labels = {"4", "2", "1", "3"},
       .settings = R"("class_order": "devkit.txt")",
       .expected = {kWnids[0], kWnids[2], kWnids[3], kWnids[1]},
       .order = {kWnids[3], kWnids[2], kWnids[1], kWnids[0]}},
      {.what = "WNIDs by classes.txt",
       .folders = kWnids,
       .labels = {"4", "2", "1", "3"},
       .classes_txt = "n01491361\nn01484850\nn01443537\nn01440764\n",
       .expected = {kWnids[0], kWnids[2], kWnids[3], kWnids[1]}},
      {.what = "WNIDs, a sorted classes.txt",
       .folders = kWnids,
       .labels = {"4", "2", "1", "3"},
       .classes_txt = "n01440764\nn01443537\nn01484850\nn01491361\n",
       .refused = "the classes are WNIDs"},
      {.what = "WNIDs by name",
       .folders = kWnids,
       .labels = {kWnids[2], kWnids[0]},
       .expected = {kWnids[2], kWnids[0]}},
      {.what = "a column of a CSV below a header",
       .folders = numbers(0, 11),
       .labels = {"7", "10"},
       .classes_txt = "csv",
       .expected = {"7", "10"}},
      {.what = "labels alone in byte order",
       .folders = numbers(0, 11),
       .labels = {"7", "10", "2"},
       .expected = {"7", "10", "2"},
       .alone = true},
      {.what = "labels alone without a base",
       .folders = kLetters,
       .labels = {"7", "10", "2"},
       .refused = "label \"7\" of \"00.png\" may be of several classes",
       .alone = true},
      {.what = "07 over folders 01 to 12",
       .folders = {"01", "02", "07", "12"},
       .labels = {"07", "02"},
       .expected = {"07", "02"}},
      {.what = "7 over folders 01 to 12, all of them",
       .folders = {"1", "02", "03"},
       .labels = {"1", "2", "03"},
       .refused = "label \"1\" of \"00.png\" may be of several classes"},
      {.what = "1 to 3 over folders 01 to 03",
       .folders = {"01", "02", "03"},
       .labels = {"1", "2", "3"},
       .expected = {"01", "02", "03"}},
      {.what = "07 over folders 0 to 11",
       .folders = numbers(0, 11),
       .labels = {"07", "02"},
       .refused = "label \"07\" of \"00.png\" may be of several classes, and nothing says which:\n"
                  "  labels are names but for zeros before them: class \"7\"\n"
                  "  labels count from 0 in the order of the names' bytes: class \"5\"\n"},
      {.what = "00 to 09 over folders 0 to 9",
       .folders = numbers(0, 9),
       .labels = {"00", "01", "02", "03", "04", "05", "06", "07", "08", "09"},
       .expected = numbers(0, 9)},
      {.what = "an order that is not there",
       .folders = kLetters,
       .labels = kLetters,
       .settings = R"("class_order": "none.txt")",
       .refused = "none.txt: no such file; a class order is"},
      {.what = "an order outside the folder",
       .folders = kLetters,
       .labels = kLetters,
       .settings = R"("class_order": "../x.txt")",
       .refused = "class order \"../x.txt\" is no file below"},
  };
  return all;
}

class ListPlace {
 public:
  explicit ListPlace(const Case& c) : case_(c) {
    const fs::path data = folder_ / "data";
    unsigned shade = 0;
    for (const std::string& name : c.folders) write_file(data / "train" / name / "a.png", make_png(8, 8, ++shade));
    std::string list = c.classes_txt == "csv" ? "file,label\n" : "";
    for (std::size_t i = 0; i < c.labels.size(); ++i) {
      const std::string image = fmt::format("{:02}.png", i);
      write_file(data / "val" / image, make_png(8, 8, ++shade));
      list += (c.alone ? "" : image + (c.classes_txt == "csv" ? "," : " ")) + c.labels[i] + "\n";
    }
    write_file(data / "labels.txt", list);
    if (!c.classes_txt.empty() && c.classes_txt != "csv") write_file(data / "classes.txt", c.classes_txt);
    write_file(data / "devkit.txt", "n01491361\nn01484850\nn01443537\nn01440764\n");
    write_file(folder_ / "d.json",
               fmt::format(R"({{"about": "a test", "dataset": {{"path": "data", "layout": "image_folder",
                 "labels": "labels.txt", "eval": "val",
                 "allow_small_eval": true{}{}}},
                 "model": {{"image_size": 8, "patch_size": 8, "embed_dim": 4, "depth": 1, "num_heads": 1}},
                 "train": {{"steps": 1, "batch_size": 2}}, "checkpoint": {{"keep": "last"}}}})",
                           c.settings.empty() ? "" : ", ", c.settings));
  }

  Finished run() const { return program("run d.json --data . --out results"); }
  Finished info() const { return program("data info data --slice val --format json" + options()); }
  Finished pack() const { return program("data pack data --slice val --out packed" + options()); }
  Finished eval(const fs::path& weights) const {
    return program("eval --weights '" + weights.string() + "' --normalize half --data data --slice val" + options());
  }
  fs::path checkpoint() const {
    const ResultStore store(folder_ / "results");
    return store.trial(store.trial_ids().at(0)).checkpoint(1);
  }
  std::string eval_hash() const {
    const ResultStore store(folder_ / "results");
    const std::string both = store.trial(store.trial_ids().at(0)).load_result()->provenance.at("data_hash");
    return both.substr(both.find('+') + 1);
  }
  /// What `data pack` made of val/, by image.
  Names packed() const {
    const Names classes = lines(text_of(folder_ / "packed/classes.txt"));
    std::map<std::string, std::string> class_of;
    std::string name;
    read_tar(folder_ / "packed/val-000000.tar", [&](const ArchiveMember& m) {
      const std::string text(m.content.begin(), m.content.end());
      if (m.name.ends_with(".cls")) name = classes.at(std::stoul(text));
      if (m.name.ends_with(".txt")) class_of[text] = name;
    });
    Names out;
    for (const auto& [key, of] : class_of) out.push_back(of);
    return out;
  }
  const TemporaryFolder& folder() const { return folder_; }

 private:
  static Names lines(const std::string& text) {
    std::istringstream in(text);
    Names all;
    for (std::string line; std::getline(in, line);) all.push_back(line);
    return all;
  }
  std::string options() const {
    std::string text = " --layout image_folder --labels labels.txt";
    const auto json = nlohmann::json::parse("{" + case_.settings + "}");
    if (json.contains("labels_from")) text += " --labels-from " + json["labels_from"].dump();
    if (json.contains("class_order")) text += " --class-order " + json["class_order"].get<std::string>();
    return text;
  }
  Finished program(const std::string& arguments) const {
    return run_program(folder_, arguments, "cd '" + folder_.path().string() + "'; ");
  }

  Case case_;
  TemporaryFolder folder_;
};

double bias(std::size_t c) { return 0.3 * std::sqrt(double(c)); }

/// The checkpoint's network with logits bias(0), bias(1), ... for every image, in a file that names no classes.
void write_constant(const fs::path& checkpoint, const fs::path& to, std::size_t classes) {
  WeightFile file = read_weight_file(checkpoint);
  const ModelConfig model = stated_model(file, std::nullopt, false);
  Tensors weights(file.tensors.source());
  for (const HostTensor& tensor : file.tensors) {
    std::vector<float> values(tensor.size());
    if (tensor.name == "head.bias")
      for (std::size_t c = 0; c < classes; ++c) values[c] = float(bias(c));
    if (tensor.name == "head.bias" || tensor.name == "head.weight")
      weights.add(host_tensor<float>(tensor.name, tensor.shape, values));
    else if (!tensor.name.starts_with("optimizer."))
      weights.add(tensor);
  }
  write_weight_file(to, weights, NameScheme::normlab, model);
}

/// The mean cross-entropy of these logits.
double constant_loss(const Names& order, const Names& expected) {
  double sum = 0, mean = 0;
  for (std::size_t c = 0; c < order.size(); ++c) sum += std::exp(bias(c));
  for (const std::string& name : expected)
    mean += bias(std::size_t(std::find(order.begin(), order.end(), name) - order.begin())) / double(expected.size());
  return std::log(sum) - mean;
}

}  // namespace

TEST_CASE("labels: run, eval, data info and data pack read a list as the same classes, or all refuse it") {
  const std::vector<Case> all = cases();
  const ListPlace first(all.front());
  REQUIRE(first.run().code == 0);
  write_constant(first.checkpoint(), first.folder() / "constant.safetensors", all.front().folders.size());
  for (const Case& c : all) {
    CAPTURE(c.what);
    const ListPlace place(c);
    if (!c.refused.empty()) {
      for (const Finished& done :
           {place.run(), place.info(), place.pack(), place.eval(first.folder() / "constant.safetensors")}) {
        CHECK(done.code == kBadInput);
        CHECK_SAYS(done.err, c.refused);
      }
      continue;
    }
    Names order = c.folders;
    std::sort(order.begin(), order.end());
    if (!c.order.empty()) order = c.order;

    const Finished run = place.run(), info = place.info(), pack = place.pack();
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    CAPTURE(info.err);
    REQUIRE(info.code == 0);
    const nlohmann::json slice = nlohmann::json::parse(info.out).at("slices").at(0);
    CHECK(slice.at("hash").get<std::string>() == place.eval_hash());
    std::map<std::string, std::int64_t> counts;
    for (const std::string& name : c.expected) ++counts[name];
    for (std::size_t i = 0; i < order.size(); ++i) {
      CHECK(slice.at("classes").at(i).at("name").get<std::string>() == order[i]);
      CHECK(slice.at("classes").at(i).at("images").get<std::int64_t>() == counts[order[i]]);
    }
    CAPTURE(pack.err);
    REQUIRE(pack.code == 0);
    CHECK(place.packed() == c.expected);

    const fs::path weights = place.folder() / "constant.safetensors";
    write_constant(place.checkpoint(), weights, order.size());
    const Finished eval = place.eval(weights);
    CAPTURE(eval.err);
    REQUIRE(eval.code == 0);
    REQUIRE(has(eval.out, "loss "));
    CHECK(std::stod(eval.out.substr(eval.out.find("loss ") + 5)) ==
          doctest::Approx(constant_loss(order, c.expected)).epsilon(1e-5));
  }
}

namespace {

/// Two images in each of three numbered folders, one place in train/ and one in val/, and weights for them.
struct Numbered {
  explicit Numbered(Names names = {"0", "10", "2"}) {
    unsigned shade = 0;
    for (const char* split : {"train", "val"})
      for (const std::string& name : names)
        write_file(folder / "data" / split / name / "a.png", make_png(8, 8, ++shade));
    write_file(folder / "d.json",
               R"({"about": "a test", "dataset": {"path": "data", "layout": "image_folder", "eval": "val",
      "allow_small_eval": true}, "model": {"image_size": 8, "patch_size": 8, "embed_dim": 4, "depth": 1, "num_heads": 1},
      "train": {"steps": 1, "batch_size": 2}, "checkpoint": {"keep": "last"}})");
    run = program("run d.json --data . --out results");
    const ResultStore store(folder / "results");
    write_constant(store.trial(store.trial_ids().at(0)).checkpoint(1), folder / "bare.safetensors", names.size());
  }
  Finished program(const std::string& arguments) const {
    return run_program(folder, arguments, "cd '" + folder.path().string() + "'; ");
  }
  Finished eval(const std::string& more = "", const std::string& data = "--data data --layout image_folder") const {
    return program("eval --weights bare.safetensors --normalize half --slice val " + data + " " + more);
  }
  TemporaryFolder folder;
  Finished run;
};

double loss_of(const Finished& done) { return std::stod(done.out.substr(done.out.find("loss ") + 5)); }

}  // namespace

TEST_CASE("labels: eval of weights without class names says where byte order and natural order differ") {
  const Numbered place;
  REQUIRE(place.run.code == 0);
  const Finished bytes = place.eval();
  CHECK(bytes.code == 0);
  CHECK_SAYS(bytes.err,
             "note: labels count the classes in the order of their names' bytes (0, 10, 2), as in torchvision; "
             "timm counts them in natural order (0, 2, 10). If the weights do so, too, give --class-order natural");
  for (const char* order : {"bytes", "natural"}) {
    const Finished given = place.eval(concat("--class-order ", order));
    CHECK(given.code == 0);
    CHECK(!has(given.err, "note:"));
  }
  // Evaluated on one class, natural order makes the label of folder 10 the third.
  fs::remove_all(place.folder / "data/val/0");
  fs::remove_all(place.folder / "data/val/2");
  const double sum = std::log(std::exp(bias(0)) + std::exp(bias(1)) + std::exp(bias(2)));
  CHECK(loss_of(place.eval()) == doctest::Approx(sum - bias(1)).epsilon(1e-5));
  CHECK(loss_of(place.eval("--class-order natural")) == doctest::Approx(sum - bias(2)).epsilon(1e-5));

  REQUIRE(place.program("data pack data --layout image_folder --out packed").code == 0);
  CHECK_SAYS(place.eval("", "--data packed --layout webdataset").err,
             "pack the folders again with --class-order natural");
  REQUIRE(place.program("data pack data --layout image_folder --out natural --class-order natural").code == 0);
  const Finished packed = place.eval("", "--data natural --layout webdataset");
  CHECK(!has(packed.err, "note:"));
  CHECK(loss_of(packed) == doctest::Approx(sum - bias(2)).epsilon(1e-5));

  CHECK(!has(Numbered({"ant", "bee", "cat"}).eval().err, "note:"));
}

TEST_CASE("labels: a training counts the classes in the order of its descriptor, and its weights remember it") {
  const Numbered place;
  const Finished run = place.program("run d.json --data . --out natural --set dataset.class_order=natural");
  REQUIRE(run.code == 0);
  const ResultStore store(place.folder / "natural");
  const std::string id = store.trial_ids().at(0);
  CHECK(id != ResultStore(place.folder / "results").trial_ids().at(0));
  CHECK_SAYS(place.program("eval " + id + " --out natural --data-root .").out, "bit-identical to the trial's result");
  const std::string other = "eval " + id + " --out natural --data data --layout image_folder --slice val";
  CHECK_SAYS(place.program(other).err, "label 1 is \"10\" here, but \"2\" in the training");
  CHECK(place.program(other + " --class-order natural").code == 0);
}

TEST_CASE("labels: options and keys that nothing would read are refused") {
  const Numbered place;
  const auto refused = [&](const std::string& arguments, const char* why) {
    const Finished done = place.program(arguments);
    CAPTURE(arguments);
    CHECK(done.code == kBadInput);
    CHECK_SAYS(done.err, why);
  };
  refused("data info data --layout image_folder --labels-from 1", "--labels-from: applies to a file of --labels");
  refused("data info data --layout image_folder --labels-from 2", "--labels-from");
  refused("data info shapes --class-order natural", "class_order \"natural\" orders classes that are folders");
  refused("check d.json --set dataset.labels_from=1", "only a file of labels and the layouts webdataset and idx");
  refused("check d.json --set dataset.labels=l.txt --set dataset.labels_from=2", "must be at most 1, got 2");
  refused("check d.json --set dataset.layout=webdataset --set dataset.class_order=natural",
          "the classes of layout webdataset have an order");
  refused("run d.json --data . --set dataset.class_order=none.txt", "none.txt: no such file");
}

TEST_CASE("labels: a trial whose labels are read otherwise is refused with what may have changed") {
  const Numbered place({"a", "b", "c"});
  for (const char* image : {"1.png", "2.png"}) write_file(place.folder / "flat/val" / image, make_png(8, 8, 5));
  for (const char* name : {"a", "b", "c"}) write_file(place.folder / "flat/train" / name / "x.png", make_png(8, 8, 7));
  write_file(place.folder / "flat/labels.txt", "1.png a\n2.png b\n");
  const std::string run =
      "run d.json --data . --out flat-results --set dataset.path=flat --set dataset.labels=labels.txt ";
  REQUIRE(place.program(run).code == 0);
  write_file(place.folder / "flat/labels.txt", "1.png b\n2.png a\n");
  const Finished shown = place.program(run);
  CHECK(shown.code == 0);  // the labels of this result were read as this program reads them
  CHECK_SAYS(shown.err, "1 of 1 trial done (1 before)");
  const Finished other = place.program(run + "--set seeds=2");
  CHECK(other.code == kBadInput);
  CHECK_SAYS(other.err, "was trained on data with hash");
  CHECK_SAYS(other.err,
             "If the files are the same, their labels may be read otherwise: since 0.2.0 a label that is the "
             "name of a class is that class");

  // A result of an earlier version is not shown as one of these labels, even if nothing is left to train.
  const TrialFolder trial =
      ResultStore(place.folder / "flat-results").trial(ResultStore(place.folder / "flat-results").trial_ids().at(0));
  TrialResult result = *trial.load_result();
  REQUIRE(result.provenance.erase("labels") == 1);
  fs::remove(trial.path() / "result.json");
  REQUIRE(trial.publish_result(result));
  const Finished older = place.program(run);
  CHECK(older.code == kBadInput);
  CHECK_SAYS(older.err, concat("trial ", result.id.substr(0, 12), " (d, seed 0) was trained on data with hash"));
  write_file(place.folder / "flat/labels.txt", "1.png 2\n2.png 1\n");
  CHECK_SAYS(place.program(run).err, "was trained on labels that are refused now: ");
  write_file(place.folder / "flat/labels.txt", "1.png a\n2.png b\n");
  CHECK(place.program(run).code == 0);
  fs::rename(place.folder / "flat", place.folder / "elsewhere");
  CHECK(place.program(run + "--set model.num_classes=3").code == 0);
}

TEST_CASE("labels: of classes with equal texts the first is the zero-shot answer") {
  const TemporaryFolder folder;
  const auto member = [](unsigned shade, int label) {
    return Members{{concat(shade, ".png"), make_png(8, 8, shade)},
                   {concat(shade, ".txt"), label == 1 ? "a bee" : "a crane"},
                   {concat(shade, ".cls"), std::to_string(label)}};
  };
  const auto write = [&](const std::string& split, const std::vector<int>& labels, unsigned shade) {
    Members all;
    for (const int label : labels)
      for (auto& part : member(shade++, label)) all.push_back(part);
    write_tar(folder / "pairs" / (split + "-000000.tar"), all);
  };
  fs::create_directories(folder / "pairs");
  write_file(folder / "pairs/classes.txt", "crane\nbee\ncrane\n");
  write("train", {0, 1, 2, 0}, 1);
  write_file(folder / "p.json", R"({"about": "a test",
    "dataset": {"path": "pairs", "layout": "webdataset", "captions": true, "allow_small_eval": true},
    "model": {"image_size": 8, "patch_size": 8, "embed_dim": 8, "depth": 1, "num_heads": 1, "pool": "gap",
              "task": "contrast", "text": {"vocabulary": 257, "length": 12, "embed_dim": 8, "depth": 1, "num_heads": 1,
                                           "mlp_dim": 16}},
    "train": {"steps": 1, "batch_size": 4, "loss": "softmax"}, "eval": {"templates": ["a photo of a {}"]}})");
  // The same six images each time: those that are not nearest to the texts of the first class are to the second's.
  const auto accuracy = [&](int label) {
    write("test", std::vector<int>(6, label), 10);
    const Finished run = run_program(folder, concat("run p.json --data . --out results", label),
                                     "cd '" + folder.path().string() + "'; ");
    CAPTURE(run.err);
    REQUIRE(run.code == 0);
    const ResultStore store(folder / concat("results", label));
    return store.trial(store.trial_ids().at(0)).load_result()->metrics.at("eval/accuracy");
  };
  CHECK(accuracy(2) == 0);
  CHECK(accuracy(0) + accuracy(1) == 1);
}
