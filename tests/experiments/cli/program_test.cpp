// The whole program as a process: sweeps, kills, resumes, bad input, faults of the machine.
#include "tests/experiments/cli/program.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "experiments/base/safetensors.h"
#include "experiments/results/metrics_log.h"
#include "experiments/results/store.h"
#include "tests/experiments/cli/end_states.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

/// Two placements and two seeds on a few shapes: a second of training.
const char* const kSmall = R"({
  "about": "a test",
  "dataset": {"name": "shapes", "train_images": 200, "eval_images": 50},
  "model": {"patch_size": 8, "embed_dim": 16, "depth": 2, "num_heads": 2, "dropout": 0.1},
  "train": {"epochs": 4, "batch_size": 20, "schedule": {"warmup_epochs": 1}, "augment": {"crop_padding": 2}},
  "sweep": {"model.placement": ["pre_pre", "bn_ffnbn"]},
  "seeds": 2,
  "baseline": {"model.placement": "pre_pre"}
})";

std::string write(const TemporaryFolder& folder, const std::string& name, const std::string& text) {
  std::ofstream(folder / name) << text;
  return (folder / name).string();
}

std::string in(const TemporaryFolder& folder, const std::string& name) { return (folder / name).string(); }

void sleep_ms(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

}  // namespace

TEST_CASE(
    "program: a sweep prints its table, a second run does nothing, other workers and threads give the same bits") {
  const TemporaryFolder folder;
  const std::string file = write(folder, "small.json", kSmall);
  const Finished first = run_program(folder, "run " + file + " --out " + in(folder, "a") + " --workers 1 --threads 1");
  CHECK_MESSAGE(first.code == 0, first.err);
  CHECK(first.out.find("pre_pre") != std::string::npos);
  CHECK(first.out.find("bn_ffnbn") != std::string::npos);
  CHECK(first.out.find("±") != std::string::npos);
  CHECK(first.err.find("4 of 4 trials done (0 before)") != std::string::npos);
  CHECK((first.out + first.err).find('\x1b') == std::string::npos);  // no escape codes where nobody looks
  for (std::size_t begin = 0, end; begin < first.out.size(); begin = end + 1) {
    end = first.out.find('\n', begin);
    std::size_t width = 0;
    for (std::size_t i = begin; i < end; ++i) width += (static_cast<unsigned char>(first.out[i]) & 0xC0) != 0x80;
    CHECK(width <= 80);
  }
  const Finished again = run_program(folder, "run " + file + " --out " + in(folder, "a"));
  CHECK(again.err.find("4 of 4 trials done (4 before)") != std::string::npos);
  CHECK(again.out == first.out);
  CHECK(run_program(folder, "table " + file + " --out " + in(folder, "a")).out == first.out);

  CHECK(run_program(folder, "run " + file + " --out " + in(folder, "b") + " --workers 4 --threads 3").code == 0);
  CHECK(end_states(folder / "a") == end_states(folder / "b"));
  // One seed more runs two trials only.
  const Finished more = run_program(folder, "run " + file + " --set seeds=3 --out " + in(folder, "a"));
  CHECK(more.err.find("6 of 6 trials done (4 before)") != std::string::npos);
}

TEST_CASE("program: a diverged run has a result that names the tensor") {
  const TemporaryFolder folder;
  const std::string file = write(folder, "small.json", kSmall) +
                           " --set seeds=2 --set train.optimizer.name=sgd --set train.optimizer.lr=1e30 --set "
                           "'sweep={\"model.placement\": [\"none\"]}' "
                           "--set 'baseline={\"model.placement\": \"none\"}'";
  const Finished run = run_program(folder, "run " + file + " --out " + in(folder, "r"));
  CHECK_MESSAGE(run.code == 0, run.err);
  CHECK_MESSAGE(run.out.find("2/2 diverged @") != std::string::npos, run.out);
  const ResultStore store(folder / "r");
  for (const std::string& id : store.trial_ids()) {
    const std::optional<TrialResult> result = store.trial(id).load_result();
    REQUIRE(result.has_value());
    CHECK(result->message->find("the value of") != std::string::npos);
  }
}

TEST_CASE("program: bad input says what, where and what to do, exits with 2 or 3 and touches no result") {
  const TemporaryFolder folder;
  const std::string good = write(folder, "good.json", kSmall);
  const auto with = [&](std::string_view from, std::string_view to) {
    std::string text = kSmall;
    text.replace(text.find(from), from.size(), to);
    return write(folder, "bad.json", text);
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
          folder, command + file + (std::string(command) == "check " ? "" : " --out " + in(folder, "none")));
      CHECK(bad.code == 2);
      CHECK_MESSAGE(bad.err.find(c.expected) != std::string::npos, bad.err);
      CHECK(bad.out.empty());
    }
  }
  CHECK(!fs::exists(folder / "none"));
  const Finished missing = run_program(folder, "run " + good + " --set dataset=cifar10 --data " +
                                                   in(folder, "nowhere") + " --out " + in(folder, "none"));
  CHECK(missing.code == 2);
  CHECK_MESSAGE(missing.err.find("nowhere") != std::string::npos, missing.err);
  const Finished too_large =
      run_program(folder, "run " + good + " --set train.batch_size=500 --out " + in(folder, "none"));
  CHECK(too_large.code == 2);
  CHECK_MESSAGE(too_large.err.find("batch_size: 500 is more than the 200 training images") != std::string::npos,
                too_large.err);
  const Finished tf32 = run_program(folder, "run " + good + " --set train.precision=tf32 --out " + in(folder, "none"));
  CHECK(tf32.code == 3);
  CHECK_MESSAGE(tf32.err.find("\"tf32\" is how a GPU multiplies floats; take \"fp32\"") != std::string::npos, tf32.err);
  CHECK(run_program(folder, "bench step --shape micro --precision tf32").code == 3);
  CHECK(run_program(folder, "run " + in(folder, "not-there.json")).code >= 2);
  CHECK(run_program(folder, "run").code == 2);
  CHECK(run_program(folder, "frobnicate").code == 2);
  for (const char* command : {"run", "plan", "check", "table", "schema", "bench", "bench step", "bench norms"}) {
    const Finished help = run_program(folder, std::string(command) + " --help");
    CHECK(help.code == 0);
    CHECK(help.out.find("--help") != std::string::npos);
  }
}

TEST_CASE("program: a result folder that cannot be written, and a full disk, leave finished results alone") {
  const TemporaryFolder folder;
  const std::string file = write(folder, "small.json", kSmall);
  write(folder, "blocked", "a file where a folder should be");
  const Finished blocked = run_program(folder, "run " + file + " --out " + in(folder, "blocked"));
  CHECK(blocked.code == 3);
  CHECK_MESSAGE(blocked.err.find("blocked") != std::string::npos, blocked.err);

  REQUIRE(run_program(folder, "run " + file + " --set seeds=1 --out " + in(folder, "r")).code == 0);
  const auto before = end_states(folder / "r");
  // A limit of 8 blocks of 512 bytes stands for a disk that is full after 4 KB: no checkpoint fits.
  const Finished full = run_program(folder, "run " + file + " --out " + in(folder, "r"), "trap '' XFSZ; ulimit -f 8; ");
  CHECK(full.code == 3);
  CHECK_MESSAGE(full.err.find("checkpoint") != std::string::npos, full.err);
  CHECK(end_states(folder / "r") == before);
  CHECK(run_program(folder, "run " + file + " --out " + in(folder, "r")).code == 0);
}

TEST_CASE(
    "program: a checkpoint of another model or another program is refused; --allow-different-bits marks the result") {
  const TemporaryFolder folder;
  const std::string file = write(folder, "small.json", kSmall) +
                           " --set seeds=1 --set train.epochs=60 --set 'checkpoint={\"steps\": 5, \"seconds\": 1000}'";
  const std::string arguments = "run " + file + " --out " + in(folder, "r") + " --workers 1";
  const ResultStore store(folder / "r");
  const auto checkpoint = [&]() -> fs::path {
    for (const std::string& id : store.trial_ids())
      if (!store.finished(id) && fs::exists(store.trial(id).checkpoint(last_attempt(store.trial(id).path()))))
        return store.trial(id).checkpoint(last_attempt(store.trial(id).path()));
    return {};
  };
  const Program program(folder, arguments);
  for (int i = 0; i < 6000 && (!fs::exists(folder / "r" / "trials") || checkpoint().empty()); ++i) sleep_ms(5);
  program.signal_all(SIGKILL);
  program.wait();
  const fs::path path = checkpoint();
  REQUIRE(!path.empty());
  const SafetensorsFile original = SafetensorsFile::read(path);
  auto metadata = original.metadata();
  metadata["normlab.bits"] = "another binary";
  save_sealed_safetensors(path, metadata, original.tensors());
  const Finished other = run_program(folder, arguments);
  CHECK(other.code == 2);
  CHECK_MESSAGE(other.err.find("was written by another program") != std::string::npos, other.err);
  CHECK(run_program(folder, arguments + " --allow-different-bits").code == 0);
  int marked = 0;
  for (const std::string& id : store.trial_ids()) marked += store.trial(id).load_result()->different_bits;
  CHECK(marked == 1);

  const Program second(folder, "run " + file + " --out " + in(folder, "s") + " --workers 1");
  const ResultStore other_store(folder / "s");
  fs::path victim;
  for (int i = 0; i < 6000 && victim.empty(); ++i) {
    sleep_ms(5);
    if (!fs::exists(folder / "s" / "trials")) continue;
    for (const std::string& id : other_store.trial_ids())
      if (fs::exists(other_store.trial(id).checkpoint(1)) && !other_store.finished(id))
        victim = other_store.trial(id).checkpoint(1);
  }
  second.signal_all(SIGKILL);
  second.wait();
  REQUIRE(!victim.empty());
  metadata = SafetensorsFile::read(victim).metadata();
  metadata["normlab.model"] = "{\"embed_dim\":32}";
  save_sealed_safetensors(victim, metadata, SafetensorsFile::read(victim).tensors());
  const Finished wrong = run_program(folder, "run " + file + " --out " + in(folder, "s") + " --workers 1");
  CHECK(wrong.code == 2);
  CHECK_MESSAGE(wrong.err.find("is a checkpoint of another model") != std::string::npos, wrong.err);
}

TEST_CASE("program: bench prints what was measured") {
  const TemporaryFolder folder;
  const Finished bench = run_program(folder, "bench step --shape micro --seconds 0.1 --threads 1 --format json");
  CHECK(bench.code == 0);
  for (const char* key : {"images_per_second", "peak_mb", "gflops", "threads", "load", "publishable", "note"})
    CHECK(bench.out.find('"' + std::string(key) + '"') != std::string::npos);
  CHECK(run_program(folder, "bench step --placement nothing").code == 2);
  const Finished sized = run_program(
      folder, "bench step --batch 6 --depth 1 --images-per-shard 4 --seconds 0.1 --threads 1000 --format json");
  CHECK_MESSAGE(sized.code == 0, sized.err);
  CHECK(sized.out.find("\"batch\": 6, \"depth\": 1,") != std::string::npos);
  CHECK_MESSAGE(sized.out.find("\"publishable\": false") != std::string::npos, sized.out);  // 1000 threads
  CHECK(sized.out.find("1000 threads on") != std::string::npos);
  CHECK(run_program(folder, "bench step --batch 0").code == 2);
  const Finished emulated =
      run_program(folder, "bench step --shape micro --seconds 0.1 --precision bf16_emulated --format json");
  CHECK_MESSAGE(emulated.code == 0, emulated.err);
  CHECK(emulated.out.find("\"precision\": \"bf16_emulated\"") != std::string::npos);

  const Finished gemm = run_program(folder, "bench gemm --shape micro --seconds 0.001 --threads 1 --format json");
  CHECK_MESSAGE(gemm.code == 0, gemm.err);
  for (const char* key :
       {"openblas_gflops", "ours_gflops", "limit_images_per_second", "attn.qkv forward", "publishable"})
    CHECK_MESSAGE(gemm.out.find(key) != std::string::npos, key);
  const Finished profile = run_program(folder, "bench profile --shape micro --seconds 0.01");
  CHECK_MESSAGE(profile.code == 0, profile.err);
  for (const char* op : {"linear_gelu", "attention", "layer_norm", "lanes, clipping"})
    CHECK_MESSAGE(profile.out.find(op) != std::string::npos, op);

  const std::string few = "bench norms --seconds 0.001 --threads 2 --shape 65x40 4x3x3x24";
  const Finished norms = run_program(folder, few + " --format json");
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
  const Finished text = run_program(folder, few);
  for (std::size_t begin = 0, end; begin < text.out.size(); begin = end + 1) {
    end = text.out.find('\n', begin);
    CHECK(end - begin <= 80);
  }
  for (const char* shape : {"12", "4x", "4x0", "x4", "4x-4", "99999x99999", "four"})
    CHECK(run_program(folder, std::string("bench norms --shape ") + shape).code == 2);
}
