// Trials on several ranks, as programs: equal bits, resuming with another number, killed ranks, refusals.
#include <doctest/doctest.h>
#include <signal.h>

#include <cstdlib>
#include <random>

#include "tests/lab/cli/small_sweep.h"

using namespace normlab;

namespace {

std::string ranks_option(int ranks) { return " --ranks " + std::to_string(ranks); }

/// Everything that a step may contain: two norms, drop-path, mixing, clipping, an average, probes.
std::string whole_sweep(const TemporaryFolder& folder, const std::string& settings) {
  const std::string probes =
      R"({"signal": 5, "gradients": [3], "attention": 7, "activations": [0, 9], "mapping": [9], "updates": 10})";
  const std::string all[] = {"seeds=1",
                             "model.embed_dim=64",  // seven chunks of parameters
                             "model.drop_path=0.2",
                             "train.augment.mix.mixup=0.2",
                             "train.augment.mix.scope=image",
                             "train.clip_norm=0.5",
                             "train.ema.decay=0.9",
                             "dataset.train='\"train[:190]\"'",
                             "dataset.minival='\"train[190:]\"'",
                             "probes='" + probes + "'",
                             settings};
  std::string line;
  for (const std::string& one : all) line += " --set " + one;
  return small_sweep(folder, line);
}

/// The ranks of a run's first trial: the worker, then the processes that it has forked.
std::vector<pid_t> ranks_of(pid_t run, std::size_t ranks) {
  std::vector<pid_t> found;
  comes_true(
      [&] {
        found = children_of(run);
        if (found.size() != 1) return false;
        for (const pid_t pid : children_of(found[0])) found.push_back(pid);
        return found.size() == ranks;
      },
      20);
  return found;
}

/// Runs that lose a random rank, each continued with another number of ranks, until the sweep is done.
void check_kills(int kills) {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder,
                                       "--set seeds=1 --set model.embed_dim=48 --set train.epochs=30 --set "
                                       "checkpoint.steps=3 --set 'sweep={\"model.placement\": [\"bn\"]}'"
                                       " --set 'baseline={\"model.placement\": \"bn\"}'");
  REQUIRE(run_program(folder, "run " + file + " --out " + in_folder(folder, "whole")).code == 0);
  std::mt19937 random(1);
  const int numbers[] = {2, 3, 4, 5};
  int messages = 0;
  for (int kill_number = 0; kill_number < kills; ++kill_number) {
    const int ranks = numbers[kill_number % 4];
    if (!whole_results(folder / "r").empty()) std::filesystem::remove_all(folder / "r");
    const Program run(folder,
                      "run " + file + " --workers 1 --threads 1 --out " + in_folder(folder, "r") + ranks_option(ranks));
    const std::vector<pid_t> all = ranks_of(run.pid(), std::size_t(ranks));
    pause_ms(int(random() % 200));
    const std::size_t victim = kill_number % 2 == 0 ? 0 : random() % std::max<std::size_t>(all.size(), 1);
    if (all.size() == std::size_t(ranks)) kill(all[victim], SIGKILL);
    const Finished ended = run.wait();
    const std::string who = "rank " + std::to_string(victim) + " of " + std::to_string(ranks) + " (process ";
    const bool said = ended.err.find(who) != std::string::npos &&
                      ended.err.find(
                          "was ended by signal 9 (Killed; memory may have run out); the same command "
                          "resumes from the last checkpoint") != std::string::npos;
    messages += said;
    CHECK_MESSAGE(ended.code == (said ? 3 : 0), ended.code << ended.err);
    CHECK_MESSAGE(ended.err.find("failed:") == std::string::npos, ended.err);
    for (const pid_t rank : all) CHECK(comes_true([&] { return kill(rank, 0) != 0; }, 10));
  }
  CHECK(messages > kills / 2);
  const Finished last = run_program(folder, "run " + file + " --out " + in_folder(folder, "r") + ranks_option(3));
  CHECK_MESSAGE(last.code == 0, last.err);
  CHECK(whole_results(folder / "r") == whole_results(folder / "whole"));
  CHECK(leftovers(folder / "r").empty());
}

/// The path of a library that this process has loaded.
std::string loaded_library(const std::string& name) {
  std::ifstream maps("/proc/self/maps");
  for (std::string word; maps >> word;)
    if (word.find('/' + name) != std::string::npos) return word;
  return "";
}

}  // namespace

TEST_CASE("ranks: a run has the same files with any number, and verify agrees") {
  for (const std::string precision : {"fp32", "bf16_emulated"}) {
    const TemporaryFolder folder;
    const std::string run = "run " + whole_sweep(folder, "train.precision=" + precision);
    const Finished first = run_program(folder, run + " --out " + in_folder(folder, "1"));
    REQUIRE_MESSAGE(first.code == 0, first.err);
    const auto whole = whole_results(folder / "1");
    CHECK(whole.size() == 2);
    for (const int ranks : {2, 3, 4, 8}) {
      const std::string out = " --out " + in_folder(folder, std::to_string(ranks));
      const Finished ended = run_program(folder, run + out + ranks_option(ranks) + " --threads 1 --workers 1");
      CHECK_MESSAGE(ended.code == 0, ended.err);
      CHECK_MESSAGE(whole_results(folder / std::to_string(ranks)) == whole, ranks << " ranks, " << precision);
    }
    const std::string id = ResultStore(folder / "3").trial_ids().front();
    const Finished verified =
        run_program(folder, "verify " + id + " --out " + in_folder(folder, "3") + ranks_option(2));
    CHECK_MESSAGE(verified.code == 0, verified.out << verified.err);
    CHECK(verified.out.find("the result is bit-identical") != std::string::npos);
  }
}

TEST_CASE("ranks: Ctrl-C stops them with a checkpoint, which another number continues") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder, "--set seeds=1 --set model.embed_dim=64 --set train.epochs=30");
  REQUIRE(run_program(folder, "run " + file + " --out " + in_folder(folder, "whole")).code == 0);
  const std::string run = "run " + file + " --workers 1 --out " + in_folder(folder, "r");
  const Program first(folder, run + ranks_option(3));
  ranks_of(first.pid(), 3);
  pause_ms(200);
  first.signal_all(SIGINT);
  CHECK(first.wait().code == 130);
  CHECK(in_the_middle(ResultStore(folder / "r")));
  CHECK(run_program(folder, run + ranks_option(2)).code == 0);
  CHECK(whole_results(folder / "r") == whole_results(folder / "whole"));
}

TEST_CASE("ranks: a random one is killed, and another number continues") { check_kills(6); }
TEST_CASE("ranks: a hundred kills" * doctest::skip()) { check_kills(100); }

TEST_CASE("ranks: a trial that diverges does so with any number") {
  const TemporaryFolder folder;
  const std::string run =
      "run " + small_sweep(folder, "--set seeds=1 --set 'train.optimizer={\"name\": \"sgd\", \"lr\": 1e9}'");
  std::string alone;
  for (const int ranks : {1, 2, 3}) {
    const std::string out = in_folder(folder, std::to_string(ranks));
    CHECK(run_program(folder, run + " --out " + out + ranks_option(ranks)).code == 0);
    std::string ends;
    const ResultStore store(folder / std::to_string(ranks));
    for (const std::string& id : store.trial_ids()) ends += store.trial(id).load_result()->message.value_or("") + "\n";
    CHECK(ends.find("step ") == 0);
    if (ranks == 1) alone = ends;
    CHECK(ends == alone);
  }
}

TEST_CASE("ranks: what cannot be divided is refused before the first step") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder), out = " --out " + in_folder(folder, "r");
  const auto refused = [&](const std::string& options, int code, const std::string& words, const std::string& prefix) {
    const Finished ended = run_program(folder, "run " + file + out + options, prefix);
    CHECK_MESSAGE(ended.code == code, options << prefix << ended.err);
    CHECK_MESSAGE(ended.err.find(words) != std::string::npos, options << prefix << ended.err);
    CHECK(whole_results(folder / "r").empty());
  };
  std::filesystem::create_directories(folder / "r" / "trials");
  refused(" --ranks 0", 2, "--ranks: must be 1 to 256", "");
  refused(" --ranks 21", 2,
          "--ranks 21: a batch has 20 images, and each rank needs at least one; use fewer ranks, or raise "
          "train.batch_size",
          "");
  refused(" --gpu-shards 2", 2, "--gpu-shards: cuts the batches of GPUs; add --device cuda, or leave it out", "");
  refused(" --gpu-shards 9 --device cuda", 2, "--gpu-shards: must be 1 to 8", "");
  const std::string no_gpus = "export CUDA_VISIBLE_DEVICES=; ";
  refused(" --device cuda --ranks 2 --workers 2", 2, "--workers 2: 2 ranks on GPUs train one trial at a time", no_gpus);
  refused(" --device cuda --ranks 2", 3, "--device cuda: ", no_gpus);
  refused(" --ranks-per-trial 2", 2, "no launcher such as mpirun or srun has started this process with others", "");
  const std::string lonely = "export PMI_RANK=0 PMI_SIZE=x; ";
  refused("", 3, "the variables PMI_RANK=0 and PMI_SIZE=x are not the numbers of a rank", lonely);
  std::filesystem::create_directory(folder / "lib");
  const std::string libraries = "export LD_LIBRARY_PATH='" + (folder / "lib").string() + "'; ";
  for (const char* name : {"libmpi_abi.so.0", "libmpi.so.40", "libmpi.so.12", "libmpich.so.12"})
    std::ofstream(folder / "lib" / name) << "no library";
  for (const char* launcher :
       {"export OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2; ", "export PMI_RANK=0 PMI_SIZE=2; ",
        "export PMIX_RANK=0; ", "export SLURM_PROCID=0 SLURM_STEP_NUM_TASKS=4; "})
    refused("", 3, "but no MPI library can be loaded (libmpi", libraries + launcher);
  std::filesystem::remove(folder / "lib" / "libmpi.so.40");
  std::filesystem::create_symlink(loaded_library("libm.so.6"), folder / "lib" / "libmpi.so.40");
  refused("", 3, "libmpi.so.40: has an unknown ABI: MPI: ompi_mpi_comm_world is missing",
          libraries + "export PMIX_RANK=0; ");
  const Finished verified = run_program(folder, "verify 0123", "export PMI_RANK=0 PMI_SIZE=2; ");
  CHECK(verified.code == 2);
  CHECK_MESSAGE(verified.err.find("each would do the same") != std::string::npos, verified.err);
  const Finished again = run_program(folder, "verify 0123 --device cuda --ranks 2 --out " + in_folder(folder, "r"));
  CHECK(again.code == 2);
  CHECK_MESSAGE(again.err.find("one GPU repeats the bits of several; give their --gpu-shards") != std::string::npos,
                again.err);
  // A batch script's variables, and a launcher of one process, start nothing else.
  CHECK(run_program(folder, "run " + file + out,
                    libraries + "export SLURM_PROCID=0 SLURM_NTASKS=4 PMI_RANK=0 PMI_SIZE=1; ")
            .code == 0);
}
