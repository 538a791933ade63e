#include "experiments/lab/trials/loss_meaning.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>

#include "experiments/lab/data/dataset.h"

using namespace normlab;

namespace {

std::string copy_of(const std::string& data_hash) {
  TrialResult result;
  result.provenance = {{"data_hash", data_hash}};
  return jpeg_copy_of(result);
}

}  // namespace

TEST_CASE("known copies: what a result records counts before its hash") {
  const std::string test = "e395d04f5878bb135883d0bb0e59275d16e64c4008b1f8974fadadbb38311cce", other(64, 'a');
  CHECK(copy_of(other + "+" + test) == "cifar10 as JPEG, quality 75");
  CHECK(copy_of(other + "+" + test + "+" + other) == "cifar10 as JPEG, quality 75");  // with a minival
  CHECK(copy_of(other + "+" + other).empty());
  CHECK(copy_of(test).empty());
  CHECK(copy_of("").empty());
  CHECK(jpeg_copy_of({}).empty());
  TrialResult result;
  result.provenance = {{"data_hash", other + "+" + test}, {kJpegCopy, "cifar10 as JPEG, quality 90"}};
  CHECK(jpeg_copy_of(result) == "cifar10 as JPEG, quality 90");
}

TEST_CASE("known copies: the known hashes are those of a JPEG copy of CIFAR-10") {
  const char* root = std::getenv("NORMLAB_DATA");
  if (root == nullptr || !std::filesystem::is_directory(std::filesystem::path(root) / "cifar10")) {
    MESSAGE("skipped: set NORMLAB_DATA to a folder with cifar10 in it");
    return;
  }
  const ClassGroups groups{{"animal", {"bird", "cat", "deer", "dog", "frog", "horse"}},
                           {"vehicle", {"airplane", "automobile", "ship", "truck"}}};
  struct Case {
    const char *train, *eval;
    std::vector<std::string> classes{};
    ClassGroups groups{};
    const char* path = "";
  };
  for (const Case& each :
       {Case{"train[:800]", "test"},
        {.train = "train[:800]", .eval = "test", .classes = {"automobile", "cat", "dog", "horse", "truck"}},
        {.train = "train[:800]", .eval = "test", .classes = {"airplane", "bird", "deer", "frog", "ship"}},
        {.train = "train[:800]", .eval = "test", .groups = groups},
        {.train = "train[:800]", .eval = "train[90%:]"},
        {.train = "train[:800]", .eval = "train[90%:][:200]"},
        {.train = "train[:800]", .eval = "train[90%:][:200]", .groups = groups},
        {.train = "train", .eval = "test", .path = "cifar10-4000/jpg"}}) {
    CAPTURE(each.eval);
    DatasetConfig config;
    config.name = "cifar10";
    config.train = each.train;
    config.eval = each.eval;
    config.classes = each.classes;
    config.class_groups = each.groups;
    config.path = each.path;
    if (!std::filesystem::is_directory(std::filesystem::path(root) / (config.path.empty() ? config.name : config.path)))
      continue;
    const DataPair pair = load_dataset(config, std::nullopt, 2);
    const std::string here = jpeg_copy(config.name, pair);
    if (here != "cifar10 as JPEG, quality 75") {
      MESSAGE("skipped: these images are not that copy, but: ", here);
      return;
    }
    CHECK(copy_of(data_hash(pair)) == here);
  }
}
