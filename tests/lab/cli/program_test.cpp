// The whole program as a process: sweeps, kills, resumes, bad input, faults of the machine.
#include "tests/lab/cli/program.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "core/error.h"
#include "experiments/lab/base/safetensors.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"
#include "tests/lab/cli/end_states.h"
#include "tests/lab/cli/small_sweep.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

const std::string kFewNorms = "bench norms --seconds 0.001 --threads 2 --shape 65x40 4x3x3x24";

/// The sweep, run once in "a".
struct Swept {
  TemporaryFolder folder;
  std::string file = small_sweep(folder);
  Finished first = run("a", " --workers 1 --threads 1");
  Finished run(const std::string& out, const std::string& options = "") const {
    return run_program(folder, "run " + file + " --out " + in_folder(folder, out) + options);
  }
};
const Swept& swept() {
  static const Swept once;
  return once;
}

void refused(const std::string& settings, int code, const std::string& words) {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder);
  const Finished done = run_program(folder, "run " + file + settings + " --out " + in_folder(folder, "none"));
  CHECK(done.code == code);
  CHECK_MESSAGE(done.err.find(words) != std::string::npos, done.err);
  CHECK(done.out.empty());
  CHECK(!fs::exists(folder / "none" / "trials"));
}

/// Two trials of 600 steps in "r", and of one that is not finished the checkpoint.
struct Interrupted {
  TemporaryFolder folder;
  std::string arguments = "run " + small_sweep(folder) +
                          " --set seeds=1 --set train.epochs=60 --set 'checkpoint={\"steps\": 5, \"seconds\": "
                          "1000}' --out " +
                          in_folder(folder, "r") + " --workers 1";
  ResultStore store{folder / "r"};
  fs::path path;

  Interrupted() {
    const Program program(folder, arguments);
    for (int i = 0; i < 6000 && checkpoint().empty(); ++i) pause_ms(5);
    program.signal_all(SIGKILL);
    program.wait();
    path = checkpoint();
    REQUIRE(!path.empty());
  }
  fs::path checkpoint() const {
    if (!fs::exists(folder / "r" / "trials")) return {};
    for (const std::string& id : store.trial_ids())
      if (!store.finished(id) && fs::exists(store.trial(id).checkpoint(last_attempt(store.trial(id).path()))))
        return store.trial(id).checkpoint(last_attempt(store.trial(id).path()));
    return {};
  }
  /// Gives the checkpoint another value of a key, under a seal that fits.
  void set(const std::string& key, const std::string& value) const {
    const SafetensorsFile original = SafetensorsFile::read(path);
    auto metadata = original.metadata();
    metadata[key] = value;
    save_sealed_safetensors(path, metadata, original.tensors());
  }
};

}  // namespace

TEST_CASE("program: a sweep ends with its table") {
  const Finished& first = swept().first;
  CHECK_MESSAGE(first.code == 0, first.err);
  CHECK(first.out.find("pre_pre") != std::string::npos);
  CHECK(first.out.find("bn_ffnbn") != std::string::npos);
  CHECK(first.out.find("±") != std::string::npos);
  CHECK(first.err.find("4 of 4 trials done (0 before)") != std::string::npos);
}

TEST_CASE("program: a table in a file has no escape codes and fits 80 columns") {
  const Finished& first = swept().first;
  CHECK((first.out + first.err).find('\x1b') == std::string::npos);
  for (std::size_t begin = 0, end; begin < first.out.size(); begin = end + 1) {
    end = first.out.find('\n', begin);
    std::size_t width = 0;
    for (std::size_t i = begin; i < end; ++i) width += (static_cast<unsigned char>(first.out[i]) & 0xC0) != 0x80;
    CHECK(width <= 80);
  }
}

TEST_CASE("program: a second run of a sweep trains nothing") {
  const Finished again = swept().run("a");
  CHECK(again.code == 0);
  CHECK(again.err.find("4 of 4 trials done (4 before)") != std::string::npos);
  CHECK(again.out == swept().first.out);
}

TEST_CASE("program: table prints what the run printed") {
  const Swept& sweep = swept();
  const Finished table = run_program(sweep.folder, "table " + sweep.file + " --out " + in_folder(sweep.folder, "a"));
  CHECK(table.code == 0);
  CHECK(table.out == sweep.first.out);
}

TEST_CASE("program: workers and threads change no bit of a sweep") {
  CHECK(swept().run("b", " --workers 4 --threads 3").code == 0);
  CHECK(end_states(swept().folder / "a") == end_states(swept().folder / "b"));
}

TEST_CASE("program: one seed more runs its own trials alone") {
  fs::copy(swept().folder / "a", swept().folder / "more", fs::copy_options::recursive);
  const Finished more = swept().run("more", " --set seeds=3");
  CHECK(more.code == 0);
  CHECK(more.err.find("6 of 6 trials done (4 before)") != std::string::npos);
}

TEST_CASE("program: a diverged run's result names where it diverged") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder) +
                           " --set seeds=2 --set train.optimizer.name=sgd --set train.optimizer.lr=1e30 --set "
                           "'sweep={\"model.placement\": [\"none\"]}' "
                           "--set 'baseline={\"model.placement\": \"none\"}'";
  const Finished run = run_program(folder, "run " + file + " --out " + in_folder(folder, "r"));
  CHECK_MESSAGE(run.code == 0, run.err);
  CHECK_MESSAGE(run.out.find("2/2 diverged @") != std::string::npos, run.out);
  const ResultStore store(folder / "r");
  for (const std::string& id : store.trial_ids()) {
    const std::optional<TrialResult> result = store.trial(id).load_result();
    REQUIRE(result.has_value());
    CHECK_MESSAGE(std::regex_search(*result->message, std::regex("^step 1: .* the value of [a-z_]+ at [a-z_.0-9]+$")),
                  *result->message);
  }
}

TEST_CASE("program: a wrong descriptor is refused with its place") {
  const TemporaryFolder folder;
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = kSmallSweep;
    text.replace(text.find(from), from.size(), to);
    std::ofstream(folder / "bad.json") << text;
    return in_folder(folder, "bad.json");
  };
  struct Case {
    std::string from, to, expected;
  };
  const Case cases[] = {
      {"\"batch_size\"", "\"batchsize\"", "bad.json:5:26: /train/batchsize: unknown key; did you mean \"batch_size\"?"},
      {"\"bn_ffnbn\"", "\"bn_fnbn\"", "unknown placement \"bn_fnbn\"; did you mean \"bn_ffnbn\"?"},
      {"\"num_heads\": 2", "\"num_heads\": 3", "/model/num_heads"},
      {"\"patch_size\": 8", "\"patch_size\": 5", "/model/patch_size"},
      {"\"batch_size\": 20", "\"batch_size\": 0", "/train/batch_size"},
      {"\"batch_size\": 20", "\"batch_size\": \"many\"", "/train/batch_size"},
      {"\"batch_size\": 20", "\"batch_size\": 20, \"precision\": \"bf16_emulate\"", "\"bf16_emulated\"?"},
      {"\"epochs\": 4", "\"epochs\": 4, \"optimizer\": {\"lr\": -1}", "/train/optimizer/lr"},
      {"\"crop_padding\": 2", "\"flip\": true", "/train/augment/flip: a flip turns one class of shapes into another"},
      {"\"seeds\": 2", "\"seeds\": 2, \"seeds\": 3", "/seeds"},
      {"\"depth\": 2", "\"depth\": 2,", "bad.json:4:"},
  };
  for (const Case& c : cases) {
    const std::string file = with(c.from, c.to);
    for (const char* command : {"check ", "run "}) {
      const Finished bad = run_program(
          folder, command + file + (std::string(command) == "check " ? "" : " --out " + in_folder(folder, "none")));
      CHECK(bad.code == 2);
      CHECK_MESSAGE(bad.err.find(c.expected) != std::string::npos, bad.err);
      CHECK(bad.out.empty());
    }
  }
  CHECK(!fs::exists(folder / "none"));
}

TEST_CASE("program: data that are not there are named") {
  refused(" --set dataset=cifar10 --data /nowhere", 2, "nowhere");
}

TEST_CASE("program: a batch larger than the training set is refused") {
  refused(" --set train.batch_size=500", 2, "batch_size: 500 is more than the 200 training images");
}

TEST_CASE("program: a precision of GPUs alone ends with 3 on the CPU") {
  refused(" --set train.precision=tf32", 3, "\"tf32\" exists on GPUs only; use \"fp32\"");
  const TemporaryFolder folder;
  CHECK(run_program(folder, "bench step --shape micro --precision tf32").code == 3);
}

TEST_CASE("program: a call without a descriptor or with an unknown command is refused") {
  const TemporaryFolder folder;
  for (const std::string& words :
       {"run " + in_folder(folder, "not-there.json"), std::string("run"), std::string("frobnicate")}) {
    const Finished done = run_program(folder, words);
    CHECK_MESSAGE(done.code == 2, words);
    CHECK(done.out.empty());
  }
}

TEST_CASE("program: every command has --help") {
  const TemporaryFolder folder;
  for (const char* command : {"run", "plan", "check", "table", "bench", "bench step", "bench norms"}) {
    const Finished help = run_program(folder, std::string(command) + " --help");
    CHECK(help.code == 0);
    CHECK(help.out.find("--help") != std::string::npos);
  }
}

TEST_CASE("program: a result folder that cannot be made is named") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder);
  std::ofstream(folder / "blocked") << "a file where a folder should be";
  const Finished blocked = run_program(folder, "run " + file + " --out " + in_folder(folder, "blocked"));
  CHECK(blocked.code == 2);
  CHECK_MESSAGE(blocked.err.find("blocked") != std::string::npos, blocked.err);
}

TEST_CASE("program: a full disk leaves finished results alone") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder);
  REQUIRE(run_program(folder, "run " + file + " --set seeds=1 --out " + in_folder(folder, "r")).code == 0);
  const auto before = end_states(folder / "r");
  // A limit of 8 blocks of 512 bytes acts as a disk that is full after 4 KB: no checkpoint fits.
  const Finished full =
      run_program(folder, "run " + file + " --out " + in_folder(folder, "r"), "trap '' XFSZ; ulimit -f 8; ");
  CHECK(full.code == 3);
  CHECK_MESSAGE(full.err.find("checkpoint") != std::string::npos, full.err);
  CHECK(end_states(folder / "r") == before);
  CHECK(run_program(folder, "run " + file + " --out " + in_folder(folder, "r")).code == 0);
}

TEST_CASE("program: another program's checkpoint is refused without --allow-different-bits") {
  const Interrupted run;
  run.set("normlab.bits", "another binary");
  const Finished other = run_program(run.folder, run.arguments);
  CHECK(other.code == 2);
  CHECK_MESSAGE(other.err.find("was written by another program") != std::string::npos, other.err);
  CHECK_MESSAGE(other.err.find("0 failed, 1 refused") != std::string::npos, other.err);
  CHECK(run_program(run.folder, run.arguments + " --allow-different-bits").code == 0);
  int marked = 0;
  for (const std::string& id : run.store.trial_ids()) marked += run.store.trial(id).load_result()->different_bits;
  CHECK(marked == 1);
}

TEST_CASE("program: a checkpoint of another model is refused") {
  const Interrupted run;
  run.set("normlab.model", "{\"embed_dim\":32}");
  const Finished wrong = run_program(run.folder, run.arguments);
  CHECK(wrong.code == 2);
  CHECK_MESSAGE(wrong.err.find("is a checkpoint of another model") != std::string::npos, wrong.err);
}

TEST_CASE("bench step: the document has all that was measured") {
  const TemporaryFolder folder;
  const Finished bench = run_program(folder, "bench step --shape micro --seconds 0.1 --threads 1 --format json");
  CHECK(bench.code == 0);
  for (const char* key : {"images_per_second", "peak_mb", "gflops", "threads", "load", "publishable", "note"})
    CHECK(bench.out.find('"' + std::string(key) + '"') != std::string::npos);
}

TEST_CASE("bench step: 1000 threads are not worth publishing") {
  const TemporaryFolder folder;
  const Finished sized = run_program(
      folder, "bench step --batch 6 --depth 1 --images-per-shard 4 --seconds 0.1 --threads 1000 --format json");
  CHECK_MESSAGE(sized.code == 0, sized.err);
  CHECK(sized.out.find("\"batch\": 6, \"depth\": 1,") != std::string::npos);
  CHECK_MESSAGE(sized.out.find("\"publishable\": false") != std::string::npos, sized.out);  // 1000 threads
  CHECK(sized.out.find("1000 threads on") != std::string::npos);
}

TEST_CASE("bench step: an unknown placement or an empty batch is refused") {
  const TemporaryFolder folder;
  CHECK(run_program(folder, "bench step --placement nothing").code == 2);
  CHECK(run_program(folder, "bench step --batch 0").code == 2);
}

TEST_CASE("bench step: emulated bf16 is measured") {
  const TemporaryFolder folder;
  const Finished emulated =
      run_program(folder, "bench step --shape micro --seconds 0.1 --precision bf16_emulated --format json");
  CHECK_MESSAGE(emulated.code == 0, emulated.err);
  CHECK(emulated.out.find("\"precision\": \"bf16_emulated\"") != std::string::npos);
}

TEST_CASE("bench gemm: all three kernels are measured") {
  const TemporaryFolder folder;
  const Finished gemm = run_program(folder, "bench gemm --shape micro --seconds 0.001 --threads 1 --format json");
  CHECK_MESSAGE(gemm.code == 0, gemm.err);
  for (const char* key : {"openblas_gflops", "onednn_gflops", "ours_gflops", "limit_images_per_second",
                          "attn.qkv forward", "publishable"})
    CHECK_MESSAGE(gemm.out.find(key) != std::string::npos, key);
}

TEST_CASE("bench profile: each kind of operation has a row") {
  const TemporaryFolder folder;
  const Finished profile = run_program(folder, "bench profile --shape micro --seconds 0.01");
  CHECK_MESSAGE(profile.code == 0, profile.err);
  for (const char* op : {"linear_gelu", "attention", "layer_norm", "lanes, clipping"})
    CHECK_MESSAGE(profile.out.find(op) != std::string::npos, op);
}

TEST_CASE("bench norms: every norm is measured at every shape") {
  const TemporaryFolder folder;
  const Finished norms = run_program(folder, kFewNorms + " --format json");
  CHECK(norms.code == 0);
  const nlohmann::json measured = nlohmann::json::parse(norms.out);
  for (const char* key : {"device", "threads", "precision", "load", "publishable", "note"})
    CHECK_MESSAGE(measured.contains(key), key);
  std::set<std::string> seen;
  for (const nlohmann::json& row : measured["rows"]) {
    seen.insert(row["shape"].get<std::string>() + " " + row["norm"].get<std::string>());
    for (const char* key : {"bandwidth_gb_per_second", "train_ms", "train_bound_ms", "train_ratio", "eval_ms",
                            "eval_bound_ms", "eval_ratio"})
      CHECK_MESSAGE(row.contains(key), key);
  }
  for (const char* shape : {"65x40", "4x3x3x24"})
    for (const char* norm : {"layer_norm", "layer_norm_fixed", "affine", "rms_norm", "batch_norm", "dyt"})
      CHECK_MESSAGE(seen.contains(std::string(shape) + " " + norm), norm);
}

TEST_CASE("bench norms: the text fits 80 columns") {
  const TemporaryFolder folder;
  const Finished text = run_program(folder, kFewNorms);
  for (std::size_t begin = 0, end; begin < text.out.size(); begin = end + 1) {
    end = text.out.find('\n', begin);
    CHECK(end - begin <= 80);
  }
}

TEST_CASE("bench norms: what is no shape is refused") {
  const TemporaryFolder folder;
  for (const char* shape : {"12", "4x", "4x0", "x4", "4x-4", "99999x99999", "four"})
    CHECK(run_program(folder, std::string("bench norms --shape ") + shape).code == 2);
}
