// The program on data sets from disk: CIFAR's binary files made on the fly, changed data, faults in files, real images.
#include <doctest/doctest.h>

#include "experiments/results/store.h"
#include "tests/experiments/cli/program.h"

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

const char* const kTiny = R"({
  "dataset": "cifar10",
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
  "train": {"epochs": 2, "batch_size": 10},
  "seeds": 1
})";

}  // namespace

TEST_CASE("program: a sweep on CIFAR's binary files; finished trials of other data are refused with both hashes") {
  const TemporaryFolder folder;
  std::ofstream(folder / "tiny.json") << kTiny;
  write_cifar(folder.path(), 20, 7);
  const std::string arguments = "run " + (folder / "tiny.json").string() + " --out " + (folder / "r").string() +
                                " --data " + folder.path().string();
  const Finished first = run_program(folder, arguments);
  CHECK_MESSAGE(first.code == 0, first.err);
  const ResultStore store(folder / "r");
  const std::string hash = store.trial(store.trial_ids().at(0)).load_result()->provenance.at("data_hash");
  write_cifar(folder.path(), 20, 8);
  const Finished other = run_program(folder, arguments + " --set seeds=2");
  CHECK(other.code == 2);
  CHECK_MESSAGE(other.err.find(hash) != std::string::npos, other.err);
  CHECK(other.err.find("was trained on other data") != std::string::npos);
  CHECK(store.trial_ids().size() == 1);
}

TEST_CASE("program: broken data files are named with record and byte") {
  const TemporaryFolder folder;
  std::ofstream(folder / "tiny.json") << kTiny;
  const std::string arguments = "run " + (folder / "tiny.json").string() + " --out " + (folder / "r").string() +
                                " --data " + folder.path().string();
  write_cifar(folder.path(), 20, 7, 77);
  const Finished label = run_program(folder, arguments);
  CHECK(label.code == 2);
  CHECK_MESSAGE(label.err.find("record 19, byte 58387: label 77 is not below 10") != std::string::npos, label.err);
  write_cifar(folder.path(), 20, 7);
  fs::resize_file(folder / "cifar10/cifar-10-batches-bin/data_batch_3.bin", 5000);
  const Finished cut = run_program(folder, arguments);
  CHECK(cut.code == 2);
  CHECK_MESSAGE(cut.err.find("data_batch_3.bin") != std::string::npos, cut.err);
  CHECK(!fs::exists(folder / "r" / "trials"));
}

TEST_CASE("program: real images, sixty steps of the CIFAR-10 recipe") {
  if (!std::getenv("NORMLAB_DATA")) {
    MESSAGE("skipped: NORMLAB_DATA does not point at real images");
    return;
  }
  const TemporaryFolder folder;
  const Finished steps = run_program(folder,
                                     "run experiments/recipes/cifar_small.json --set 'train={\"steps\": 60, "
                                     "\"batch_size\": 128}' --set seeds=1 --out " +
                                         (folder / "r").string());
  CHECK_MESSAGE(steps.code == 0, steps.err);
  const ResultStore store(folder / "r");
  CHECK(store.trial(store.trial_ids().at(0)).load_result()->metrics.at("eval/accuracy") > 0.15);
}
