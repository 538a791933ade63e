// The program on data sets from disk: CIFAR's binary files made on the fly, changed data, faults in files, real images.
#include <doctest/doctest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "experiments/lab/data/image.h"
#include "experiments/lab/data/jpeg.h"
#include "experiments/lab/trials/store.h"
#include "experiments/lab/weights/convert_files.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/data/fashion_mnist.h"
#include "tests/lab/pictures/svg_reader.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

/// Ten classes of noise, `records` a file; `first` is the first pixel of every image.
void write_cifar(const fs::path& root, int records, unsigned char first, int label_of_last = 0) {
  const fs::path folder = root / "cifar10" / "cifar-10-batches-bin";
  fs::create_directories(folder);
  std::ofstream(folder / "batches.meta.txt") << "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n\n";
  for (const char* name :
       {"data_batch_1", "data_batch_2", "data_batch_3", "data_batch_4", "data_batch_5", "test_batch"}) {
    std::ofstream file(folder / (std::string(name) + ".bin"), std::ios::binary);
    for (int r = 0; r < records; ++r) {
      std::string record(3073, static_cast<char>(first));
      record[0] = static_cast<char>(r + 1 == records ? label_of_last : r % 10);
      for (std::size_t i = 2; i < record.size(); ++i)
        record[i] = static_cast<char>((i * 37 + static_cast<std::size_t>(r) * 101) % 251);
      file.write(record.data(), static_cast<std::streamsize>(record.size()));
    }
  }
}

/// Two classes of photographs, of one size where `sizes` is 1; the last of each split is cut short where it is
/// `broken`.
void write_pets(const fs::path& root, int sizes, bool broken = true) {
  for (const char* split : {"train", "val"}) {
    for (int i = 0; i < 24; ++i) {
      Image image;
      image.resize(40, 32 + 8 * (i % sizes));
      for (std::size_t v = 0; v < image.pixels.size(); ++v)
        image.pixels[v] = static_cast<std::uint8_t>((v * 7 + static_cast<std::size_t>(i) * 50) % 256);
      std::vector<std::uint8_t> bytes = encode_jpeg(image, 90);
      if (broken && i == 23) bytes.resize(bytes.size() / 2);
      const fs::path file = root / "pets" / split / (i % 2 == 0 ? "cat" : "dog") / (std::to_string(100 + i) + ".jpg");
      fs::create_directories(file.parent_path());
      std::ofstream(file, std::ios::binary)
          .write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    }
  }
}

const char* const kTiny = R"({
  "dataset": "cifar10",
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
  "train": {"epochs": 2, "batch_size": 10},
  "seeds": 1
})";

/// The command that trains it on the data in `folder`.
std::string run_tiny(const TemporaryFolder& folder) {
  std::ofstream(folder / "tiny.json") << kTiny;
  return "run " + (folder / "tiny.json").string() + " --out " + (folder / "r").string() + " --data " +
         folder.path().string();
}

/// Photographs of three sizes, one of each split broken.
struct Pets {
  TemporaryFolder folder;
  std::string data = " --data " + folder.path().string();
  Pets() { write_pets(folder.path(), 3); }
  Finished pack(const std::string& out, const std::string& more = "") const {
    return run_program(folder, "data pack pets --layout image_folder" + data + " --size 32 --shard-size 10 --out " +
                                   (folder / out).string() + more);
  }
};

/// Photographs of one size with a broken one, and the command that trains on them.
struct BrokenPet {
  TemporaryFolder folder;
  std::string arguments = "run " + (folder / "pets.json").string() + " --out " + (folder / "r").string() + " --data " +
                          folder.path().string();
  BrokenPet() {
    write_pets(folder.path(), 1);
    std::ofstream(folder / "pets.json") << R"({
    "dataset": {"path": "pets", "layout": "image_folder", "eval": "val"},
    "model": {"image_size": [40, 32], "channels": 3, "num_classes": 2, "patch_size": 8,
              "embed_dim": 16, "depth": 1, "num_heads": 2},
    "train": {"epochs": 1, "batch_size": 5}
  })";
  }
};

/// A descriptor of shapes, and sheets of its training images.
struct Sheets {
  TemporaryFolder folder;
  std::string start = "data preview " + (folder / "tiny.json").string() + " -o ";
  Sheets() {
    std::ofstream(folder / "tiny.json") << R"({
    "dataset": {"name": "shapes", "train_images": 40, "eval_images": 10},
    "model": {"patch_size": 8,
              "embed_dim": 16, "depth": 1, "num_heads": 2},
    "train": {"epochs": 1, "batch_size": 8,
              "augment": {"randaugment": {"dialect": "torchvision"}, "mix": {"mixup": 0.5}}}
  })";
  }
  std::string sheet(const std::string& name, const std::string& rest) const {
    const Finished done = run_program(folder, start + (folder / name).string() + rest);
    CHECK_MESSAGE(done.code == 0, done.err);
    const std::string page = text_of(folder / name);
    return page.substr(page.find("<main>"));  // the heading names the seed
  }
};

/// A training on photographs of many sizes, made once.
struct TrainedPets {
  TemporaryFolder folder;
  ResultStore store{folder / "results"};
  TrainedPets() {
    write_pets(folder.path(), 3, false);
    std::ofstream(folder / "pets.json") << R"({
    "dataset": {"path": "pets", "layout": "image_folder", "eval": "val",
                "mean": [0.5, 0.5, 0.5], "std": [0.5, 0.5, 0.5]},
    "model": {"image_size": 24, "channels": 3, "num_classes": 2, "patch_size": 8,
              "embed_dim": 16, "depth": 1, "num_heads": 2},
    "train": {"steps": 4, "batch_size": 8, "augment": {"crop": "inception_torchvision"},
              "eval_transform": {"crop": "center", "crop_pct": 0.8, "resize": "bicubic"}}
  })";
    const Finished run = run_program(folder, "run " + (folder / "pets.json").string() + " --data " +
                                                 folder.path().string() + " --out " + store.out().string());
    REQUIRE_MESSAGE(run.code == 0, run.err);
  }
  TrialFolder trial() const { return store.trial(store.trial_ids().at(0)); }
};
const TrainedPets& trained_pets() {
  static const TrainedPets once;
  return once;
}
const std::string kCenter = " --crop center --crop-pct 0.8 --resize bicubic";

/// Its weights in a file that says nothing of a training, and photographs to evaluate them on.
struct BareWeights {
  TemporaryFolder folder;
  BareWeights() {
    WeightFile file = read_weight_file(trained_pets().trial().checkpoint(1));
    const ModelConfig model = stated_model(file, std::nullopt, false);
    Tensors weights(file.tensors.source());
    for (const HostTensor& tensor : file.tensors)
      if (!tensor.name.starts_with("optimizer.")) weights.add(tensor);
    write_weight_file(folder / "bare.safetensors", weights, NameScheme::normlab, model);
    write_pets(folder.path(), 3, false);
  }
  std::string refused(const std::string& options) const {
    const Finished done =
        run_program(folder, "eval --weights " + (folder / "bare.safetensors").string() + " --data " +
                                (folder / "pets").string() + " --layout image_folder --slice val" + options);
    CHECK(done.code == 2);
    return done.err;
  }
};

}  // namespace

TEST_CASE("program: a sweep with finished trials of other data is refused") {
  const TemporaryFolder folder;
  const std::string arguments = run_tiny(folder);
  write_cifar(folder.path(), 20, 7);
  const Finished first = run_program(folder, arguments);
  CHECK_MESSAGE(first.code == 0, first.err);
  const ResultStore store(folder / "r");
  const std::string hash = store.trial(store.trial_ids().at(0)).load_result()->provenance.at("data_hash");
  write_cifar(folder.path(), 20, 8);
  const Finished other = run_program(folder, arguments + " --set seeds=2");
  CHECK(other.code == 2);
  CHECK_MESSAGE(other.err.find(hash) != std::string::npos, other.err);
  CHECK(other.err.find("was trained on data with hash") != std::string::npos);
  CHECK(store.trial_ids().size() == 1);
}

TEST_CASE("program: a label outside CIFAR-10's classes is named with record and byte") {
  const TemporaryFolder folder;
  const std::string arguments = run_tiny(folder);
  write_cifar(folder.path(), 20, 7, 77);
  const Finished label = run_program(folder, arguments);
  CHECK(label.code == 2);
  CHECK_MESSAGE(label.err.find("record 19, byte 58387: label 77 is not below 10") != std::string::npos, label.err);
  CHECK(!fs::exists(folder / "r" / "trials"));
}

TEST_CASE("program: a file of CIFAR-10 that is cut short is named") {
  const TemporaryFolder folder;
  const std::string arguments = run_tiny(folder);
  write_cifar(folder.path(), 20, 7);
  fs::resize_file(folder / "cifar10/cifar-10-batches-bin/data_batch_3.bin", 5000);
  const Finished cut = run_program(folder, arguments);
  CHECK(cut.code == 2);
  CHECK_MESSAGE(cut.err.find("data_batch_3.bin") != std::string::npos, cut.err);
  CHECK(!fs::exists(folder / "r" / "trials"));
}

TEST_CASE("program: sixty steps of a recipe learn from real images") {
  if (const std::string without = without_fashion_mnist(); !without.empty()) {
    MESSAGE(without);
    return;
  }
  const TemporaryFolder folder;
  const Finished steps = run_program(
      folder,
      "run experiments/recipes/cifar_small.json --set dataset=fashion_mnist --set 'train={\"steps\": 60, \"batch_size\": "
      "128}' --set seeds=1 --out " +
          (folder / "r").string());
  CHECK_MESSAGE(steps.code == 0, steps.err);
  const ResultStore store(folder / "r");
  CHECK(store.trial(store.trial_ids().at(0)).load_result()->metrics.at("eval/accuracy") > 0.4);
}

TEST_CASE("data info: the text counts images and names the broken one") {
  const Pets pets;
  const Finished text = run_program(pets.folder, "data info pets --layout image_folder" + pets.data);
  CHECK_MESSAGE(text.code == 0, text.err);
  CHECK_MESSAGE(text.out.find("images    23, and 1 that cannot be decoded") != std::string::npos, text.out);
  CHECK(text.out.find("width     32 / 40 / 48") != std::string::npos);
  CHECK(text.out.find("height    40  (smallest / median / largest)") != std::string::npos);
  CHECK(text.out.find("bad       dog/123.jpg: ") != std::string::npos);
}

TEST_CASE("data info: --full hashes the content of each slice") {
  const Pets pets;
  const Finished json = run_program(
      pets.folder, "data info " + (pets.folder / "pets").string() + " --layout image_folder --format json --full");
  REQUIRE_MESSAGE(json.code == 0, json.err);
  const std::string hash = nlohmann::json::parse(json.out)["slices"][1]["content_hash"];
  CHECK(hash.size() == 64);
  CHECK(hash.find_first_not_of("0123456789abcdef") == hash.npos);
}

TEST_CASE("data info: an unknown data set is refused") {
  const Pets pets;
  const Finished unknown = run_program(pets.folder, "data info pest" + pets.data);
  CHECK(unknown.code == 2);
  CHECK(unknown.err.find("unknown dataset \"pest\"") != std::string::npos);
}

TEST_CASE("data pack: a bad image stops it before a shard is written") {
  const Pets pets;
  const Finished stopped = pets.pack("stopped");
  CHECK(stopped.code == 2);
  CHECK_MESSAGE(stopped.err.find("dog/123.jpg") != std::string::npos, stopped.err);
  CHECK(!fs::exists(pets.folder / "stopped/train-000000.tar"));
}

TEST_CASE("data pack: the shards are the same for any number of threads") {
  const Pets pets;
  for (const std::string threads : {"1", "2"}) {
    const Finished packed = pets.pack("packed" + threads, " --skip-bad --threads " + threads);
    CHECK_MESSAGE(packed.code == 0, packed.err);
    CHECK_MESSAGE(packed.out.find("train: 23 images in 3 shards, 8 of them copied unchanged") != std::string::npos,
                  packed.out);
    CHECK(packed.err.find("skipped: dog/123.jpg: ") != std::string::npos);
  }
  for (const char* file : {"classes.txt", "train-000000.tar", "train-000002.tar", "val-000001.tar"})
    CHECK(text_of(pets.folder / "packed1" / file) == text_of(pets.folder / "packed2" / file));
}

TEST_CASE("data pack: shards that are there already are not overwritten") {
  const Pets pets;
  REQUIRE(pets.pack("packed1", " --skip-bad").code == 0);
  const Finished again = pets.pack("packed1", " --skip-bad");
  CHECK(again.code == 2);
  CHECK(again.err.find("exists already") != std::string::npos);
}

TEST_CASE("data pack: the shards have the images and classes of the folder") {
  const Pets pets;
  REQUIRE(pets.pack("packed1", " --skip-bad").code == 0);
  const Finished shards = run_program(pets.folder, "data info packed1 --layout webdataset --format json" + pets.data);
  REQUIRE_MESSAGE(shards.code == 0, shards.err);
  const auto info = nlohmann::json::parse(shards.out);
  CHECK(info["layout"] == "webdataset");
  CHECK(info["slices"][0]["slice"] == "train");
  CHECK(info["slices"][0]["images"] == 23);
  CHECK(info["slices"][0]["height"]["max"] == 40);
  CHECK(info["slices"][0]["width"]["max"] == 38);  // 48 * 32 / 40
  CHECK(info["slices"][0]["classes"][1]["name"] == "dog");
  CHECK(info["slices"][0]["classes"][1]["images"] == 11);
}

TEST_CASE("program: a bad image ends a training") {
  const BrokenPet pet;
  const Finished ended = run_program(pet.folder, pet.arguments);
  CHECK(ended.code == 2);
  CHECK_MESSAGE(ended.err.find("dog/123.jpg") != std::string::npos, ended.err);
}

TEST_CASE("program: a bad image that is skipped is named in result and log") {
  const BrokenPet pet;
  const Finished skipped = run_program(pet.folder, pet.arguments + " --set dataset.on_bad_image=skip");
  CHECK_MESSAGE(skipped.code == 0, skipped.err);
  const ResultStore store(pet.folder / "r");
  const TrialFolder trial = store.trial(store.trial_ids().at(0));
  const std::vector<std::string> bad = trial.load_result()->bad_images;
  REQUIRE(bad.size() == 2);
  CHECK(bad[0].rfind("train dog/123.jpg: ", 0) == 0);
  CHECK(bad[1].rfind("eval dog/123.jpg: ", 0) == 0);
  std::string log;
  for (const auto& entry : fs::recursive_directory_iterator(trial.path()))
    if (entry.path().filename().string().find("log") != std::string::npos) log += text_of(entry.path());
  CHECK_MESSAGE(log.find("2 images cannot be decoded and are left out: train dog/123.jpg") != std::string::npos, log);
}

TEST_CASE("program: training shard by shard is the same for any number of threads") {
  const TemporaryFolder folder;
  write_pets(folder.path(), 1);
  const std::string data = " --data " + folder.path().string();
  const Finished packed = run_program(folder, "data pack pets --layout image_folder --skip-bad --shard-size 5" + data +
                                                  " --out " + (folder / "shards").string());
  REQUIRE_MESSAGE(packed.code == 0, packed.err);
  std::ofstream(folder / "shards.json") << R"({
    "dataset": {"path": "shards", "layout": "webdataset", "eval": "val", "order": "shards", "shuffle_buffer": 4,
                "train_shards": "train-{000000..000004}.tar"},
    "model": {"image_size": [40, 32], "channels": 3, "num_classes": 2, "patch_size": 8,
              "embed_dim": 16, "depth": 1, "num_heads": 2},
    "train": {"epochs": 3, "batch_size": 5}
  })";
  std::vector<double> losses;
  for (const char* options : {" --threads 1", " --threads 2", " --set dataset.shuffle_buffer=9"}) {
    const fs::path out = folder / ("r" + std::to_string(losses.size()));
    const Finished run =
        run_program(folder, "run " + (folder / "shards.json").string() + data + " --out " + out.string() + options);
    REQUIRE_MESSAGE(run.code == 0, run.err);
    const ResultStore store(out);
    losses.push_back(store.trial(store.trial_ids().at(0)).load_result()->metrics.at("eval/loss"));
  }
  CHECK(losses[0] == losses[1]);
  CHECK(losses[0] != losses[2]);
}

TEST_CASE("data preview: the sheet is the same for any number of threads") {
  const Sheets sheets;
  const std::string one = sheets.sheet("1.html", " --images 12");
  CHECK(occurrences(one, "<figure><img class=\"pixels\" alt=\"as stored\" src=\"data:image/png;base64,iVBOR") == 12);
  CHECK(sheets.sheet("2.html", " --images 12 --threads 3") == one);
}

TEST_CASE("data preview: seed and augmentation change the sheet") {
  const Sheets sheets;
  const std::string one = sheets.sheet("1.html", " --images 12");
  CHECK(sheets.sheet("3.html", " --images 12 --seed 1") != one);
  CHECK(sheets.sheet("4.html", " --images 12 --set train.augment.mix.mixup=0") != one);
}

TEST_CASE("data preview: a file that would be taken for an image is refused") {
  const Sheets sheets;
  const Finished refused = run_program(sheets.folder, sheets.start + (sheets.folder / "sheet.png").string());
  CHECK(refused.code == 2);
  CHECK(refused.err.find("sheet.png: the sheet is an HTML page; end its name in .html") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(sheets.folder / "sheet.png"));
}

TEST_CASE("data preview: a folder that is not there is named with exit code 3") {
  const Sheets sheets;
  const Finished nowhere = run_program(sheets.folder, sheets.start + "/proc/nowhere/sheet.html");
  CHECK(nowhere.code == 3);
  CHECK(nowhere.err.find("/proc/nowhere") != std::string::npos);
}

TEST_CASE("eval: photographs of many sizes give the loss that their training gave") {
  const TrainedPets& pets = trained_pets();
  const std::map<std::string, double> metrics = pets.trial().load_result()->metrics;
  const std::string eval = "eval --weights " + pets.trial().checkpoint(1).string() + " --data " +
                           (pets.folder / "pets").string() + " --layout image_folder --slice val";
  const std::string expected = fmt::format(
      "accuracy {:.2f}% ({:.0f} of 24), loss {:.6g}\nalways the most frequent class: accuracy 50.00%; "
      "lowest loss of one answer for all 0.693147; 24 images\n",
      100 * metrics.at("eval/accuracy"), 24 * metrics.at("eval/accuracy"), metrics.at("eval/loss"));
  for (const char* threads : {" --threads 1", " --threads 2"})
    CHECK(run_program(pets.folder, eval + " --normalize half" + kCenter + threads).out == expected);
  CHECK(run_program(pets.folder, eval + " --normalize half --crop stretch").out != expected);
}

TEST_CASE("eval: weights that say nothing of a training need crop and normalisation") {
  const BareWeights bare;
  CHECK(bare.refused(" --normalize half").find("resize them to the model's with --crop center") != std::string::npos);
  CHECK(bare.refused(kCenter).find("give --normalize") != std::string::npos);
}

TEST_CASE("eval: a photograph that is cut short is named") {
  const BareWeights bare;
  fs::resize_file(bare.folder / "pets" / "val" / "dog" / "101.jpg", 300);
  CHECK(bare.refused(" --normalize half" + kCenter).find("dog/101.jpg") != std::string::npos);
}
