// A pipe in place of any file that a user names: no command waits for a writer.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include "tests/lab/cli/program.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;
namespace fs = std::filesystem;

namespace {

void make_pipe(const fs::path& path) {
  fs::create_directories(path.parent_path());
  fs::remove(path);
  REQUIRE(mkfifo(path.c_str(), 0600) == 0);
}

}  // namespace

TEST_CASE("pipes: a pipe in place of a file is refused") {
  const TemporaryFolder folder;
  const auto in = [&](const std::string& name) { return (folder / name).string(); };
  make_pipe(folder / "pipe");
  make_pipe(folder / "pipe.npy");
  make_pipe(folder / "pipe.npz");
  make_pipe(folder / "pipe.safetensors");
  make_pipe(folder / "pipe.safetensors.index.json");
  write_file(folder / "extends.json", R"({"extends": "pipe"})");
  write_file(folder / "model.json", "{}");

  const fs::path data = folder / "data";
  for (const char* file :
       {"shards/train-000000.tar", "shards/test-000000.tar", "names/classes.txt", "list/labels.txt",
        "cifar/data_batch_1.bin", "tiny/wnids.txt", "idx/train-images-idx3-ubyte", "images/train/a/1.png"})
    make_pipe(data / file);
  write_file(data / "shards/classes.txt", "a\nb\n");
  write_tar(data / "names/train-000000.tar", {{"0.png", make_png(8, 8, 1)}, {"0.cls", "0"}});
  write_file(data / "list/1.png", make_png(8, 8, 1));
  write_file(data / "cifar/batches.meta.txt", "a\nb\n");
  fs::create_directories(data / "tiny/train");
  write_file(data / "images/val/a/1.png", make_png(8, 8, 1));

  const std::string info = "data info --data " + data.string() + " ";
  for (const std::string& command :
       {"check " + in("pipe"), "check " + in("extends.json"), "table " + in("pipe"),
        "eval --data shapes --weights " + in("pipe"), "eval --data shapes --weights " + in("pipe.safetensors"),
        "eval --data shapes --weights " + in("pipe.safetensors.index.json"),
        "convert --from timm --model " + in("model.json") + " " + in("pipe.safetensors") + " " + in("out.safetensors"),
        "convert --from augreg --model " + in("model.json") + " " + in("pipe.npz") + " " + in("out.safetensors"),
        info + "shards --layout webdataset", info + "names --layout webdataset",
        info + "list --layout image_list --labels labels.txt", info + "cifar --layout cifar",
        info + "tiny --layout tiny_imagenet", info + "idx --layout idx", info + "images --layout image_folder"}) {
    const Program program(folder, command);
    for (int wait = 0; wait < 600 && !program.ended(); ++wait)
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    CHECK_MESSAGE(program.ended(), command);
    program.signal_all(SIGKILL);
    const Finished done = program.wait();
    CHECK_MESSAGE(done.code == 2, command, "\n", done.out, done.err);
  }
}
