// What the program says of a JPEG copy of a data set that is published without loss.
#include <doctest/doctest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "experiments/lab/base/files.h"
#include "experiments/lab/data/decode.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;
namespace fs = std::filesystem;

namespace {

const std::string kCopy = "cifar10 as JPEG, quality 75", kLine = kCopy + ": not the published pixels";

constexpr const char* kClasses = "a\nb\nc\nd\ne\nf\ng\nh\ni\nj\n";

/// Shards of twenty training and ten test images of ten classes, as JPEGs of this quality or, with 0, as PNGs.
void write_images(const fs::path& folder, int quality) {
  write_file(folder / "classes.txt", kClasses);
  for (const auto& [split, first, count] : {std::tuple("train", 0u, 20u), std::tuple("test", 20u, 10u)}) {
    Members members;
    for (unsigned i = first; i < first + count; ++i) {
      members.push_back(
          {concat(i, quality == 0 ? ".png" : ".jpg"),
           quality == 0 ? make_png(32, 32, i) : make_jpeg(32, 32, i, JpegKind::rgb, [=](jpeg_compress_struct& jpeg) {
             jpeg_set_quality(&jpeg, quality, TRUE);
           })});
      members.push_back({concat(i, ".cls"), std::to_string(i % 10)});
    }
    write_tar(folder / concat(split, "-000000.tar"), members);
  }
}

/// Copies of quality 75 and 90, PNGs, and a sweep over the first and the last.
struct Copies {
  Copies() {
    write_images(folder / "data/jpg", 75);
    write_images(folder / "data/jpg90", 90);
    write_images(folder / "data/png", 0);
    std::ofstream(folder / "two.json") << R"({
      "dataset": {"name": "cifar10", "path": "png", "layout": "webdataset", "mean": [0.5, 0.5, 0.5],
                  "std": [0.25, 0.25, 0.25]},
      "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
      "train": {"steps": 20, "batch_size": 10},
      "sweep": {"dataset.path": ["jpg", "png"]},
      "seeds": 2
    })";
  }
  Finished call(const std::string& words) const {
    return run_program(folder, words, "cd '" + folder.path().string() + "'; export NORMLAB_DATA=data; ");
  }
  /// Its standard output; the command succeeds.
  std::string out(const std::string& words) const {
    CAPTURE(words);
    const Finished done = call(words);
    CHECK_MESSAGE(done.code == 0, done.err);
    return done.out;
  }
  TemporaryFolder folder;
};

struct Trained : Copies {
  Trained() : run(call("run two.json --threads 1 --out out")) { REQUIRE_MESSAGE(run.code == 0, run.err); }
  /// The results by whether their images were JPEGs.
  std::map<bool, std::vector<std::string>> ids() const {
    std::map<bool, std::vector<std::string>> found;
    const ResultStore store(folder / "out");
    for (const std::string& id : store.trial_ids())
      found[has(text_of(store.trial(id).path() / "config.json"), "\"jpg\"")].push_back(id);
    return found;
  }
  Finished run;
};
const Trained& trained() {
  static const Trained once;
  return once;
}

const std::string kHalf = "\n" + kCopy + ", in 2 of 4 runs: not the published pixels.\n";

}  // namespace

TEST_CASE("jpeg copy: data info names a copy with its quality") {
  const Copies copies;
  fs::rename(copies.folder / "data/jpg", copies.folder / "data/cifar10");
  const std::string text = copies.out("data info cifar10");
  CHECK(text.ends_with("\n" + kLine + "\n"));
  CHECK(nlohmann::json::parse(copies.out("data info cifar10 --format json")).at("jpeg_copy") == kCopy);
  fs::remove_all(copies.folder / "data/cifar10");
  fs::rename(copies.folder / "data/png", copies.folder / "data/cifar10");
  CHECK(!has(copies.out("data info cifar10"), "JPEG,"));
  CHECK(!nlohmann::json::parse(copies.out("data info cifar10 --format json")).contains("jpeg_copy"));
  CHECK(!has(copies.out("data info jpg90 --layout webdataset"), "not the published pixels"));  // own images
}

TEST_CASE("jpeg copy: packing makes one, and says so") {
  const Copies copies;
  fs::rename(copies.folder / "data/png", copies.folder / "data/cifar10");
  CHECK(copies.out("data pack cifar10 --out packed")
            .ends_with("cifar10 as JPEG, quality 95: not the published pixels\n"));
  CHECK(copies.out("data pack cifar10 --quality 60 --out deeper/cifar10")
            .ends_with("quality 60: not the published pixels\n"));
  CHECK(copies.out("data info cifar10 --data deeper").ends_with("quality 60: not the published pixels\n"));
  CHECK(!has(copies.out("data pack jpg --layout webdataset --out other"), "published"));
}

TEST_CASE("jpeg copy: a run says so once, and each trial's log and result") {
  const Trained& two = trained();
  CHECK(count(two.run.err, kLine) == 1);
  const ResultStore store(two.folder / "out");
  for (const auto& [copy, ids] : two.ids()) {
    REQUIRE(ids.size() == 2);
    for (const std::string& id : ids) {
      const auto result = store.trial(id).load_result();
      CHECK(result->provenance.contains("jpeg_copy") == copy);
      if (copy) CHECK(result->provenance.at("jpeg_copy") == kCopy);
      CHECK(has(text_of(store.trial(id).log(1)), kLine) == copy);
    }
  }
}

TEST_CASE("jpeg copy: the footer says so, from the folder, an archive and merged results") {
  const Trained& two = trained();
  CHECK(has(two.run.out, kHalf));
  CHECK(has(two.out("table two.json --out out"), kHalf));
  CHECK(has(two.out("table out"), kHalf));
  two.out("export two.json --out out --full -o two.jsonl");
  two.out("export two.json --out out --anonymous -o anonymous.jsonl");
  CHECK(has(two.out("table anonymous.jsonl"), kHalf));
  CHECK(has(two.out("table two.json --from two.jsonl"), kHalf));
  CHECK(has(two.out("table two.jsonl"), kHalf));
  two.out("merge two.jsonl --out merged");
  CHECK(has(two.out("table two.json --out merged"), kHalf));
  CHECK(has(two.out("table two.json --from two.jsonl --format json"), "in 2 of 4 runs: not the published pixels."));
  two.out("report two.json --out out -o page.html");
  CHECK(has(text_of(two.folder / "page.html"), kCopy + ", in 2 of 4 runs: not the published pixels."));
}

TEST_CASE("jpeg copy: all rows of a table are copies, or none") {
  const Trained& two = trained();
  const std::string jpg = two.out("run two.json --set 'sweep={}' --set dataset.path=jpg --out out --threads 1");
  CHECK(has(jpg, "\n" + kLine + ".\n"));
  CHECK(!has(two.out("table two.json --set 'sweep={}' --out out"), "published"));
}

TEST_CASE("jpeg copy: evaluations say so") {
  const Trained& two = trained();
  const std::string jpg = two.ids().at(true).front(), png = two.ids().at(false).front();
  CHECK(has(two.out("eval --out out " + jpg), "\n" + kLine + "\n"));
  CHECK(!has(two.out("eval --out out " + png), "published"));
  CHECK(has(two.call("eval --out out " + jpg + " --slice train").err, "\n" + kLine + "\n"));
  CHECK(!has(two.call("eval --out out " + png + " --slice train").err, "published"));
  CHECK(has(two.out("eval --fewshot --out out " + jpg + " --shots 1"), "\n" + kLine + "\n"));
  CHECK(!has(two.out("eval --fewshot --out out " + png + " --shots 1"), "published"));
}

TEST_CASE("jpeg copy: whether the images are JPEGs changes no id and no bit") {
  const Copies copies;
  fs::create_directories(copies.folder / "first");
  fs::rename(copies.folder / "data/jpg", copies.folder / "first/png");  // where the descriptor looks for PNGs
  const std::string run = "run two.json --set 'sweep={}' --set seeds=1 --threads 1 ";
  copies.out(run + "--data first --out a");
  // The same pixels as PNGs.
  const fs::path second = copies.folder / "second/png";
  write_file(second / "classes.txt", kClasses);
  for (const auto& [split, first, many] : {std::tuple("train", 0u, 20u), std::tuple("test", 20u, 10u)}) {
    Members members;
    for (unsigned i = first; i < first + many; ++i) {
      const std::string jpeg = make_jpeg(32, 32, i, JpegKind::rgb,
                                         [](jpeg_compress_struct& settings) { jpeg_set_quality(&settings, 75, TRUE); });
      Image image;
      decode_image({reinterpret_cast<const std::uint8_t*>(jpeg.data()), jpeg.size()}, "x", image);
      const std::vector<std::uint8_t> png = png_bytes(image);
      members.push_back({concat(i, ".png"), {png.begin(), png.end()}});
      members.push_back({concat(i, ".cls"), std::to_string(i % 10)});
    }
    write_tar(second / concat(split, "-000000.tar"), members);
  }
  CHECK(!has(copies.out(run + "--data second --out b"), "published"));
  const ResultStore a(copies.folder / "a"), b(copies.folder / "b");
  CHECK(a.trial_ids() == b.trial_ids());
  const auto jpg = a.trial(a.trial_ids().front()).load_result(), png = b.trial(b.trial_ids().front()).load_result();
  CHECK(jpg->metrics == png->metrics);
  CHECK(jpg->provenance.at("data_hash") == png->provenance.at("data_hash"));
  CHECK(jpg->provenance.contains("jpeg_copy"));
  CHECK(!png->provenance.contains("jpeg_copy"));
}

TEST_CASE("jpeg copy: archives from before it was recorded have the line by their hash") {
  const TemporaryFolder folder;
  const auto table = [&](const std::string& words) {
    const Finished done = run_program(folder, "table experiments/" + words);
    CHECK_MESSAGE(done.code == 0, done.err);
    return done.out;
  };
  const std::string from = " --from docs/results/", line = "\n" + kLine + ".\n";
  for (const char* archive : {"placements_cifar10_fast.json --from docs/results/cifar10_fast.jsonl",
                              "cifar_augmented.json --from docs/results/cifar_augmented.jsonl",
                              "lr_sensitivity.json --from docs/results/lr_sensitivity.jsonl --lr-sensitivity",
                              "norms_by_optimizer.json --from docs/results/norms_by_optimizer.jsonl"}) {
    CAPTURE(archive);
    CHECK(has(table(archive), line));
  }
  // Half of the tasks are generated.
  CHECK(has(table("papers/dual_patchnorm/vtab_tiny.json" + from + "dual_patchnorm_vtab_tiny.jsonl"),
            "\n" + kCopy + ", in "));
  CHECK(!has(table("papers/dual_patchnorm/lit_tiny.json" + from + "dual_patchnorm_lit_tiny.jsonl"), "published"));
}
