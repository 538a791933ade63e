// The table of docs/commands.md: exit codes after bad input, missing parts of the machine and limits.
#include <doctest/doctest.h>

#include <set>

#include "tests/lab/base/own_device.h"
#include "tests/lab/cli/small_sweep.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

/// A folder with a finished sweep, a network and images for it.
struct Workplace {
  TemporaryFolder folder;
  std::string file = small_sweep(folder), out = " --out " + in_folder(folder, "r");
  std::string id;
  Workplace() {
    REQUIRE(run_program(folder, "run " + file + out).code == 0);
    id = ResultStore(folder / "r").trial_ids().front();
  }
  TrialFolder trial() const { return ResultStore(folder / "r").trial(id); }
  std::string weights() const { return trial().checkpoint(1).string(); }

  std::vector<std::string> reads(const std::string& descriptor, const std::string& results) const {
    return {"check " + descriptor,
            "plan " + descriptor + results,
            "table " + descriptor + results,
            "status " + descriptor + results,
            "status --missing " + descriptor + results,
            "explain " + descriptor,
            "explain " + descriptor + " " + descriptor,
            "export --curves --by-row " + descriptor + results,
            "report " + descriptor + results + " -o " + in_folder(folder, "report.html")};
  }
  std::vector<std::string> computes() const {
    return {"eval --weights " + weights() + " --data shapes --slice test[:50]", "eval --probe " + file,
            "verify " + id + out, "bench step --seconds 0.01 --threads 1"};
  }
  void check(const std::string& command, const std::vector<int>& codes, const std::string& prefix = "",
             const std::string& streams = "") const {
    const Finished run = run_program(folder, command, prefix, streams);
    CHECK_MESSAGE(std::find(codes.begin(), codes.end(), run.code) != codes.end(), prefix << command << streams << ": "
                                                                                         << run.code << "\n"
                                                                                         << run.err);
    CHECK_MESSAGE(run.err.find("internal error") == run.err.npos, prefix << command << streams << ": " << run.err);
    const bool heard = streams.empty() && prefix.find("ulimit -f 0") == prefix.npos;  // here its output is a file
    if (heard && (run.code == 2 || run.code == 3)) CHECK_MESSAGE(run.err.size() > 10, prefix << command);
  }
  void check(const std::vector<std::string>& commands, const std::vector<int>& codes, const std::string& prefix = "",
             const std::string& streams = "") const {
    for (const std::string& command : commands) check(command, codes, prefix, streams);
  }
  std::string new_run() const {
    static int number = 0;
    return "run " + file + " --workers 1 --out " + in_folder(folder, "new" + std::to_string(number++));
  }
};

/// The shell itself opens the program's output, so it keeps its files.
const std::string kFourFiles = "sh -c 'ulimit -n 4; shift; exec \"$@\"' sh ";

/// Has the program find files that are no libraries under these names.
std::string unusable(const TemporaryFolder& folder, const std::vector<std::string>& libraries) {
  const fs::path place = folder / libraries.front();
  fs::create_directory(place);
  for (const std::string& library : libraries) std::ofstream(place / library) << "no library";
  return "export LD_LIBRARY_PATH='" + place.string() + "'; ";
}

}  // namespace

TEST_CASE("exit codes: the page names the commands that are tested as those that compute nothing") {
  const Workplace here;
  std::set<std::string> named, tested{"--version", "--help", "list", "clean"};  // of these, single calls below
  for (const std::string& command : here.reads("", "")) tested.insert(command.substr(0, command.find(' ')));
  const std::string page = text_of("docs/commands.md");
  const std::size_t from = page.find("\"Reads\" are the commands"), to = page.find("\n\n", from);
  REQUIRE(from != page.npos);
  for (std::size_t at = from; (at = page.find('`', at)) < to; at = page.find('`', at + 1) + 1)
    named.insert(page.substr(at + 1, page.find('`', at + 1) - at - 1));
  CHECK(named == tested);
}

TEST_CASE("exit codes: bad input ends a command with 2") {
  const Workplace here;
  const TemporaryFolder& folder = here.folder;
  here.check({"", "frobnicate", "--frobnicate", "run", "check", "run " + here.file + " --workers 0",
              "table " + here.file + " --format xml", "bench", "data", "data info"},
             {2});
  std::ofstream(folder / "wrong.json") << R"({"train": {"epoch": 1}})";
  std::ofstream(folder / "broken.json") << "{";
  fs::create_directory(folder / "folder.json");
  for (const char* name : {"wrong.json", "broken.json", "folder.json", "none.json"}) {
    const std::string descriptor = in_folder(folder, name);
    auto commands = here.reads(descriptor, here.out);
    if (std::string(name) == "folder.json")
      std::erase_if(commands, [](const auto& c) { return c.starts_with("table"); });
    here.check(commands, {2});
    here.check({"run " + descriptor, "eval --probe " + descriptor}, {2});
  }
  const std::string converted = " " + in_folder(folder, "x.safetensors");
  for (const char* name : {"none.safetensors", "none.npz", "none.safetensors.index.json"})
    here.check({"eval --weights " + in_folder(folder, name) + " --data shapes",
                "convert " + in_folder(folder, name) + converted},
               {2});
  here.check({"verify 0123456789ab" + here.out, "bench step --shape nothing", "convert " + here.file + converted},
             {2, 3});
}

TEST_CASE("exit codes: damage to a result ends with 2, a failing disk with 3") {
  const Workplace here;
  const fs::path result = here.trial().path() / "result.json";
  const std::string whole = text_of(result);
  const std::vector<std::string> commands = {
      "table " + here.file + here.out, "report " + here.file + here.out + " -o " + in_folder(here.folder, "x.html"),
      "export --curves --by-row " + here.file + here.out};
  std::ofstream(result) << whole.substr(0, whole.size() / 2);
  here.check(commands, {2});
  // Reading the first bytes of this one is an error of input and output.
  fs::remove(result);
  fs::create_symlink("/proc/self/mem", result);
  here.check(commands, {3});
  here.check("run " + here.file + here.out, {3});
  fs::remove(result);
  std::ofstream(result) << whole;
  here.check(commands, {0});
}

TEST_CASE("exit codes: odd places for results cause no internal error") {
  const Workplace here;
  const TemporaryFolder& folder = here.folder;
  std::ofstream(folder / "a-file") << "x";
  fs::create_symlink("circle", folder / "circle");
  make_device(folder / "device", kNullDevice);
  for (const std::string& place :
       {in_folder(folder, "a-file"), in_folder(folder, "circle"), in_folder(folder, std::string(300, 'n')),
        in_folder(folder, "device"), in_folder(folder, "a-file/below"), std::string("''")}) {
    here.check(here.reads(here.file, " --out " + place), {0, 2, 3});
    here.check({"list " + here.id + " --out " + place, "clean --out " + place, "verify " + here.id + " --out " + place},
               {0, 2, 3});
    here.check("run " + here.file + " --out " + place, {2, 3});
  }
}

TEST_CASE("exit codes: a missing part of the machine ends what needs it with 3") {
  const Workplace here;
  const std::string no_blas = unusable(here.folder, {"libopenblas.so.0"});
  here.check(here.reads(here.file, here.out), {0}, no_blas);
  here.check(here.new_run(), {3}, no_blas);
  here.check(here.computes(), {3}, no_blas);
  const std::string no_dnnl = unusable(here.folder, {"libdnnl.so.2", "libdnnl.so.3"});
  here.check(here.new_run(), {0}, no_dnnl);
  here.check(here.computes(), {0}, no_dnnl);
  here.check(here.new_run() + " --set train.precision=bf16", {3}, no_dnnl);
  here.check(here.new_run(), {0}, "unset HOME; exec env -i sh -c 'shift; exec \"$@\"' sh ");
  const std::string bare = "unshare -rm sh -c 'mount -t tmpfs none /proc && shift && exec \"$@\"' sh ";
  if (std::system((bare + "shifted true 2>/dev/null").c_str()) == 0) {
    here.check(here.reads(here.file, here.out), {0}, bare);
    here.check(here.new_run(), {3}, bare);
  }
}

TEST_CASE("exit codes: lost standard output ends a command with 3") {
  const Workplace here;
  const std::vector<std::string> reads = here.reads(here.file, here.out);
  here.check(reads, {0}, "", "2>&-");
  here.check(reads, {0}, "", "2>/dev/full");
  here.check(here.computes(), {0}, "", "2>/dev/full");
  for (const char* lost : {">&-", ">/dev/full"}) {
    here.check({"--version", "--help", "check " + here.file, "table " + here.file + here.out, here.new_run()}, {3}, "",
               lost);
    here.check(here.computes(), {3}, "", lost);
  }
}

TEST_CASE("exit codes: a limit of the shell marks no trial as failed") {
  const Workplace here;
  const std::vector<std::string> reads = here.reads(here.file, here.out);
  here.check(reads, {0}, "ulimit -v 150000; ");
  here.check(here.new_run(), {0, 3}, "ulimit -t 60; ulimit -v 150000; ");
  here.check(here.computes(), {0, 3}, "ulimit -t 60; ulimit -v 150000; ");
  here.check(reads, {0}, "ulimit -s 54; ");  // the page's 64 kB with room for a larger environment
  here.check(here.new_run(), {3}, "ulimit -s 64; ");
  here.check(here.computes(), {3}, "ulimit -s 64; ");
  here.check({"check " + here.file, "plan " + here.file + here.out}, {0}, kFourFiles);
  here.check(here.new_run(), {3}, kFourFiles);
  here.check("report " + here.file + here.out + " -o " + in_folder(here.folder, "limited.html"), {3}, "ulimit -f 8; ");
  here.check("convert " + here.weights() + " " + in_folder(here.folder, "limited.safetensors"), {3}, "ulimit -f 8; ");
  here.check("table " + here.file + here.out, {3}, "ulimit -f 0; ");

  // Blocks of 512 bytes: nothing fits, no plan, no checkpoint.
  for (const char* blocks : {"0", "1", "2", "8", "40"}) {
    const std::string run = here.new_run();
    here.check(run, {3}, std::string("ulimit -f ") + blocks + "; ");
    const Finished again = run_program(here.folder, run);
    CHECK_MESSAGE(again.code == 0, blocks << ": " << again.err);
    CHECK_MESSAGE(again.err.find("4 of 4 trials done") != again.err.npos, again.err);
  }
  for (const std::string limit : {"ulimit -St 1", "ulimit -t 1", "ulimit -t 2"}) {
    const std::string run = here.new_run() + " --threads 1 --set train.epochs=1500 --set seeds=1";
    here.check(run, {3}, limit + "; ");
    const ResultStore store(here.folder /
                            run.substr(run.find("new"), run.find(' ', run.find("new")) - run.find("new")));
    for (const std::string& trial : store.trial_ids())
      if (const auto result = store.trial(trial).load_result()) CHECK(result->status != TrialEnd::failed);
  }
}
