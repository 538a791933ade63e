// No command needs more of the machine than it uses: libraries, address space, /proc, a home folder, an environment.
#include <doctest/doctest.h>
#include <oneapi/dnnl/dnnl_version.h>

#include "core/cpu/bf16_products.h"
#include "core/cpu/instruction_set.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/small_sweep.h"

using namespace normlab;

namespace {

/// A sweep that is done, and commands that multiply nothing.
struct Done {
  TemporaryFolder folder;
  std::string file = small_sweep(folder), out = " --out " + in_folder(folder, "r");
  std::vector<std::string> commands;
  Done() {
    REQUIRE(run_program(folder, "run " + file + out).code == 0);
    const std::string id = ResultStore(folder / "r").trial_ids().front();
    commands = {"--version",
                "--help",
                "run --help",
                "check --schema",
                "check --keys",
                "check " + file,
                "plan " + file + out,
                "table " + file + out,
                "table " + in_folder(folder, "r"),
                "status " + file + out + " --all",
                "explain " + file + " --all",
                "explain --placements",
                "list " + id + out,
                "explain " + file + " " + file,
                "status --missing " + file + out,
                "export --curves --by-row " + file + out,
                "clean " + out,
                "report " + file + out + " -o " + in_folder(folder, "report.html")};
  }
  /// Each of them ends and prints as it does without the prefix.
  void check_with(const std::string& prefix) const {
    for (const std::string& command : commands) {
      const Finished here = run_program(folder, command), there = run_program(folder, command, prefix);
      CHECK_MESSAGE(there.code == here.code, prefix << command << ": " << there.code << " " << there.err);
      CHECK_MESSAGE(there.out == here.out, prefix << command);
      CHECK_MESSAGE(there.err == here.err, prefix << command);
    }
  }
};

/// A prefix for the shell with which this file is found in place of a library.
std::string with_library(const TemporaryFolder& folder, const std::string& file, const std::string& content) {
  std::filesystem::create_directory(folder / "lib");
  std::ofstream(folder / "lib" / file) << content;
  return "export LD_LIBRARY_PATH='" + (folder / "lib").string() + "'; ";
}

/// A prefix for the shell that runs the words after it by `launcher`, such as "env -i".
std::string through(const std::string& launcher, const std::string& first = "true") {
  return launcher + " sh -c '" + first + " && shift && exec \"$@\"' sh ";
}

}  // namespace

TEST_CASE("libraries: without OpenBLAS only what multiplies is refused") {
  const Done done;
  const std::string without = with_library(done.folder, "libopenblas.so.0", "no library");
  done.check_with(without);
  const std::string id = ResultStore(done.folder / "r").trial_ids().front();
  for (const std::string& command :
       {"run " + done.file + " --out " + in_folder(done.folder, "none"), "run " + done.file + done.out,
        "verify " + id + done.out, "eval --probe " + done.file, std::string("bench step --seconds 0.01")}) {
    const Finished refused = run_program(done.folder, command, without);
    CHECK_MESSAGE(refused.code == 3, command << refused.err);
    CHECK_MESSAGE(has(refused.err, "OpenBLAS cannot be loaded"), refused.err);
    CHECK_MESSAGE(has(refused.err, "apt-get install libopenblas0-pthread"), refused.err);
  }
  CHECK(!std::filesystem::exists(done.folder / "none" / "trials"));
}

TEST_CASE("libraries: a serial OpenBLAS is refused before any trial begins") {
  const TemporaryFolder folder;
  const std::string prefix = with_library(folder, "serial.c", "int openblas_get_parallel(void) { return 0; }");
  const std::string library = (folder / "lib" / "libopenblas.so.0").string();
  REQUIRE(std::system(
              ("cc -shared -fPIC -o '" + library + "' '" + (folder / "lib" / "serial.c").string() + "'").c_str()) == 0);
  const Finished refused =
      run_program(folder, "run " + small_sweep(folder) + " --out " + in_folder(folder, "none"), prefix);
  CHECK(refused.code == 3);
  CHECK_MESSAGE(has(refused.err, "the serial build is installed"), refused.err);
  CHECK(!std::filesystem::exists(folder / "none" / "trials"));
  CHECK(run_program(folder, "check " + small_sweep(folder), prefix).code == 0);
}

TEST_CASE("libraries: an OpenBLAS that does not know the CPU is asked for the widest kernels that it has") {
  if (!cpu_has("avx2")) return;
  const TemporaryFolder folder;
  const std::string source = R"(#include <stdlib.h>
#include <string.h>
static const char* core = "Prescott";
__attribute__((constructor)) static void choose(void) {
  const char* wanted = getenv("OPENBLAS_CORETYPE");
  if (wanted && strcmp(wanted, HAS) == 0) core = HAS;
}
int openblas_get_parallel(void) { return 1; }
void openblas_set_num_threads(int n) {}
const char* openblas_get_config(void) { return "a stand-in"; }
const char* openblas_get_corename(void) { return core; }
void cblas_dgemm(void) { abort(); }
void cblas_sgemm(int order, int ta, int tb, int m, int n, int k, float alpha, const float* a, int lda, const float* b,
                 int ldb, float beta, float* c, int ldc) {
  for (int i = 0; i < m; ++i)
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int l = 0; l < k; ++l) sum += (ta == 112 ? a[l * lda + i] : a[i * lda + l]) * (tb == 112 ? b[j * ldb + l] : b[l * ldb + j]);
      c[i * ldc + j] = alpha * sum + (beta == 0 ? 0 : beta * c[i * ldc + j]);
    }
})";
  const std::string prefix = with_library(folder, "standin.c", source), lib = (folder / "lib").string();
  for (const bool has_wide : {true, false}) {
    CAPTURE(has_wide);
    REQUIRE(std::system(concat("cc -shared -fPIC -DHAS='\"", has_wide ? "Haswell" : "Barcelona", "\"' -o '", lib,
                               "/libopenblas.so.0' '", lib, "/standin.c'")
                            .c_str()) == 0);
    const Finished run = run_program(
        folder, "run " + small_sweep(folder) + " --out " + in_folder(folder, has_wide ? "wide" : "old"), prefix);
    CHECK_MESSAGE(run.code == 0, run.err);
    CHECK_MESSAGE(has(run.err, has_wide ? "OpenBLAS Haswell (pthread)" : "OpenBLAS Prescott (pthread)"), run.err);
    const bool is_widest = has_wide && !cpu_has("avx512vl");
    CHECK_MESSAGE(has(run.err, "OpenBLAS lacks the") == !is_widest, run.err);
  }
}

TEST_CASE("libraries: a run names the libraries whose products it uses") {
  const TemporaryFolder folder;
  const std::string run = "run " + small_sweep(folder) + " --out " + in_folder(folder, "r");
  const Finished fp32 = run_program(folder, run);
  CHECK_MESSAGE((has(fp32.err, "OpenBLAS ") && !has(fp32.err, "oneDNN ")), fp32.err);
  if (!cpu_has("avx512bf16") && !cpu_has("amx-bf16")) return;
  const Finished bf16 = run_program(folder, run + " --set train.precision=bf16");
  CHECK_MESSAGE(has(bf16.err, concat(", oneDNN ", onednn_info(), ", ")), bf16.err);
}

TEST_CASE("libraries: without oneDNN only bf16 is refused") {
  const Done done;
  const std::string without = with_library(done.folder, "libdnnl.so." + std::to_string(DNNL_VERSION_MAJOR), "none");
  done.check_with(without);
  const std::string run = "run " + done.file + " --out " + in_folder(done.folder, "again");
  CHECK(run_program(done.folder, run, without).code == 0);
  const Finished bf16 = run_program(done.folder, run + " --set train.precision=bf16", without);
  CHECK(bf16.code == 3);
  if (cpu_has("avx512bf16") || cpu_has("amx-bf16")) CHECK_MESSAGE(has(bf16.err, "oneDNN cannot be loaded"), bf16.err);
}

TEST_CASE("libraries: without librsvg only pictures in PDF and PNG are refused") {
  const Done done;
  const std::string without = with_library(done.folder, "librsvg-2.so.2", "no library");
  done.check_with(without);
  const std::string draw = "report " + done.file + done.out + " --only strip --figures " + in_folder(done.folder, "f");
  CHECK(run_program(done.folder, draw, without).code == 0);
  for (const std::string format : {"pdf", "png"}) {
    const Finished refused = run_program(done.folder, draw + " --format " + format, without);
    CHECK(refused.code == 3);
    CHECK_MESSAGE(has(refused.err, "--format: librsvg cannot be loaded ("), refused.err);
    CHECK_MESSAGE(has(refused.err, "apt-get install librsvg2-2"), refused.err);
    CHECK(!std::filesystem::exists(done.folder / "f" / ("strip." + format)));
  }
}

TEST_CASE("libraries: --blas-env keep leaves OpenBLAS its variables but no threads") {
  const TemporaryFolder folder;
  const std::string run = "run " + small_sweep(folder) + " --out " + in_folder(folder, "r");
  const std::string core = "OPENBLAS_CORETYPE=Haswell OPENBLAS_NUM_THREADS=8 ";
  const Finished cleared = run_program(folder, run, "export " + core + "; ");
  const Finished kept = run_program(folder, "--blas-env keep " + run, "export " + core + "; ");
  const Finished plain = run_program(folder, run);
  CHECK(kept.code == 0);
  CHECK_MESSAGE(has(kept.err, "OpenBLAS Haswell"), kept.err);
  const std::string own = plain.err.substr(plain.err.find("OpenBLAS"), 20);
  CHECK_MESSAGE(has(cleared.err, own), cleared.err);
  // Threads of its own would not start here; it waits for them for ever.
  const Finished narrow =
      run_program(folder, "--blas-env keep " + run, "export " + core + "; ulimit -t 60; ulimit -v 300000; ");
  CHECK_MESSAGE((narrow.code == 0 || narrow.code == 3), narrow.code << narrow.err);
}

TEST_CASE("libraries: 150 MB of address space suffice for what multiplies nothing") {
  const Done done;
  done.check_with("ulimit -t 60; ulimit -v 150000; ");
}

TEST_CASE("libraries: in any address space a run ends with a known code") {
  const TemporaryFolder folder;
  const std::string file = small_sweep(folder);
  for (int megabytes = 100; megabytes <= 500; megabytes += 50) {
    const std::string out = in_folder(folder, "r" + std::to_string(megabytes));
    const Finished run = run_program(folder, "run " + file + " --out " + out + " --workers 2",
                                     "ulimit -t 60; ulimit -v " + std::to_string(megabytes * 1000) + "; ");
    const bool starved = run.code == 1 && has(run.err, "failed: out of memory");
    CHECK_MESSAGE((run.code == 0 || run.code == 3 || starved), megabytes << ": " << run.code << " " << run.err);
  }
}

TEST_CASE("libraries: in little address space bench gemm ends with a known code") {
  const TemporaryFolder folder;
  const Finished eval =
      run_program(folder, "bench gemm --shape small --seconds 0.001 --threads 2", "ulimit -t 60; ulimit -v 300000; ");
  CHECK_MESSAGE((eval.code == 0 || eval.code == 3), eval.code << " " << eval.err);
}

TEST_CASE("libraries: what trains nothing needs no /proc, home folder or environment") {
  const Done done;
  done.check_with("unset HOME; ");
  done.check_with(through("env -i"));
  const std::string bare =
      through("unshare -rm", "mount -t tmpfs none /proc && mount -t tmpfs none /sys && mount -t tmpfs none /root");
  if (std::system((bare + "shifted true 2>/dev/null").c_str()) == 0)
    done.check_with(bare);
  else
    MESSAGE("skipped: this system lets nobody mount in a namespace of their own");
}
