// Random and aimed damage to every file of a results folder, then every command that reads it: the command names the
// damaged file, or its output does not change.
#include <doctest/doctest.h>
#include <unistd.h>

#include <cstdlib>
#include <map>
#include <regex>
#include <set>

#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/train/checkpoint.h"
#include "experiments/lab/trials/trial_files.h"
#include "experiments/lab/weights/npy.h"
#include "tests/damage/damages.h"
#include "tests/damage/results_folder.h"
#include "tests/lab/base/temporary_folder.h"
#include "tests/lab/weights/tensors.h"

using namespace normlab;
namespace fs = std::filesystem;

namespace {

std::uint64_t setting(const char* variable, std::uint64_t otherwise) {
  const char* text = std::getenv(variable);
  return text == nullptr ? otherwise : std::strtoull(text, nullptr, 10);
}

/// Sizes and times of all files, to see whether a command has written.
using Listing = std::map<std::string, std::pair<std::uintmax_t, fs::file_time_type>>;
Listing listing_of(const fs::path& folder) {
  Listing listing;
  for (const auto& entry : fs::recursive_directory_iterator(folder))
    if (entry.is_regular_file()) listing[entry.path().string()] = {entry.file_size(), entry.last_write_time()};
  return listing;
}

/// One call of the program.
struct Command {
  std::vector<std::string> words;
  fs::path product;     // a file that it writes, shown like its output
  bool writes = false;  // into the results folder
  std::string key() const { return joined(words, " "); }
};

class Rig {
 public:
  Rig() {
    static_cast<void>(
        bits_identity(cpu_backend(), Precision::fp32));  // once, and not in each child: it reads the whole program
    fs::create_directory(scratch_);
    write_images();
    results_.emplace(folder_.path());
    out_ = results_->store().out();
    fs::copy(out_, pristine_, fs::copy_options::recursive);
    for (const fs::path& path : files())
      if (path.extension() == ".safetensors") weights_[trial_of(path)].push_back(path.string());
    for (const char* stem : ResultsFolder::kStems) {
      const Experiment experiment = results_->load(stem);
      for (const Trial& trial : experiment.trials) stem_of_.emplace(trial.id, stem);
    }
    for (const std::string& id : results_->store().trial_ids())
      for (const Command& command : commands_for(id)) remember(command);
    for (const char* stem : ResultsFolder::kStems)
      for (const Command& command : commands_for_stem(stem)) remember(command);
    restore();
  }

  void damage_once(std::uint64_t seed) {
    Damager damager(seed);
    const Damage damage = damager.damage(files());
    ++damages;
    const std::string id = trial_of(damage.paths.front()), stem = stem_of(damage.paths.front());
    std::vector<Command> commands = id.empty() ? std::vector<Command>() : commands_for(id);
    for (Command& command : commands_for_stem(stem)) commands.push_back(std::move(command));
    const Listing before = listing_of(out_);
    for (const Command& command : commands) {
      if (command.writes) continue;
      judge(seed, damage, command, outcome_of(command));
    }
    ++checks;
    // A table that is shown for the first time is recorded.
    if (damage.removal && damage.paths.front().parent_path().filename() == "tabled") fs::remove(damage.paths.front());
    if (listing_of(out_) != before) fail(seed, damage, "the commands that only read", "a file has changed");
    for (const Command& command : commands)
      if (command.writes) judge(seed, damage, command, outcome_of(command));
    restore();
  }

  std::size_t damages = 0, checks = 0, failures = 0;

 private:
  void write_images() {
    std::vector<std::uint8_t> pixels(20 * 32 * 32 * 3);
    for (std::size_t i = 0; i < pixels.size(); ++i) pixels[i] = std::uint8_t(i * 7919 % 251);
    write_npy(images_, host_tensor<std::uint8_t>("images", {20, 32, 32, 3}, std::move(pixels)));
    std::vector<std::int64_t> labels(20);
    for (std::size_t i = 0; i < labels.size(); ++i) labels[i] = std::int64_t(i % 10);
    write_npy(labels_, host_tensor<std::int64_t>("labels", {20}, std::move(labels)));
  }

  std::vector<fs::path> files() const {
    std::vector<fs::path> all;
    for (const auto& entry : fs::recursive_directory_iterator(out_))
      if (entry.is_regular_file() && entry.path().extension() != ".log") all.push_back(entry.path());
    std::sort(all.begin(), all.end());
    return all;
  }

  std::string trial_of(const fs::path& path) const {
    const fs::path below = fs::relative(path, out_ / "trials");
    return below.begin()->string() == ".." ? "" : below.begin()->string();
  }
  std::string stem_of(const fs::path& path) const {
    const std::string id = trial_of(path);
    if (!id.empty()) return stem_of_.at(id);
    return fs::relative(path, out_ / "experiments").begin()->string();
  }

  std::vector<Command> commands_for_stem(const std::string& stem) const {
    const std::string file = results_->descriptor(stem), page = (scratch_ / "page.html").string();
    const auto with_out = [&](std::vector<std::string> words, fs::path product = {}, bool writes = false) {
      words.insert(words.end(), {"--out", out_.string()});
      return Command{std::move(words), std::move(product), writes};
    };
    return {with_out({"table", file}),
            with_out({"table", file, "--select", "mean_last_k", "--last", "2", "--format", "csv"}),
            with_out({"table", file, "--bootstrap", "--format", "json"}),
            {{"table", out_.string()}, {}, false},
            with_out({"export", file, "--curves", "--by-row", "--seeds"}),
            with_out({"report", file, "-o", page}, page),
            with_out({"status", file, "--all"}),
            with_out({"status", "--missing", file}),
            with_out({"plan", file, "--gflops", "100"}),  // which measures nothing
            with_out({"clean", file}),
            with_out({"verify", "--files"}),
            with_out({"run", file, "--workers", "1", "--threads", "1"}, {}, true)};
  }
  std::vector<Command> commands_for(const std::string& id) const {
    const std::string out = out_.string(), copy = (scratch_ / "copy.safetensors").string();
    const std::string other = results_->store().trial_ids().front();
    std::vector<Command> all{{{"list", id, "--out", out}, {}, false},
                             {{"explain", id, other, "--out", out}, {}, false}};
    for (const std::string& weights : weights_.contains(id) ? weights_.at(id) : std::vector<std::string>()) {
      all.push_back({{"eval", "--weights", weights, "--data", images_, "--labels", labels_, "--normalize", "half",
                      "--threads", "1"},
                     {},
                     false});
      all.push_back({{"convert", weights, copy}, copy, false});
      all.push_back({{"eval", "--probe", results_->descriptor(stem_of_.at(id)), "--weights", weights, "--threads", "1"},
                     {},
                     false});
    }
    return all;
  }

  Outcome outcome_of(const Command& command) {
    std::error_code none;
    if (!command.product.empty()) fs::remove(command.product, none);
    Outcome outcome = run_forked(command.words, scratch_);
    static const std::regex kWritten("Written [^<]*<");  // the time
    if (!command.product.empty() && fs::exists(command.product))
      outcome.out += std::regex_replace(read_file(command.product), kWritten, "<");
    return outcome;
  }

  void remember(const Command& command) {
    if (undamaged_.contains(command.key())) return;
    undamaged_[command.key()] = outcome_of(command);
    if (command.writes) restore();
  }

  void restore() {
    fs::remove_all(out_);
    fs::copy(pristine_, out_, fs::copy_options::recursive);
  }

  void judge(std::uint64_t seed, const Damage& damage, const Command& command, const Outcome& outcome) {
    ++checks;
    const Outcome& whole = undamaged_.at(command.key());
    if (outcome.hung) return fail(seed, damage, command.key(), "it hangs");
    if (outcome.code < 0 || outcome.code > 3)
      return fail(seed, damage, command.key(), "it ended with " + std::to_string(outcome.code) + ": " + outcome.err);
    if (outcome.code == whole.code && outcome.out == whole.out) return;
    if (is_named(damage, outcome) || is_said_to_be_missing(damage, command, outcome)) return;
    if (is_progress(damage, command) || command.words.front() == "clean") return;  // which shows sizes on the disk
    fail(seed, damage, command.key(),
         "silent: code " + std::to_string(outcome.code) + "\n--- before\n" + whole.out.substr(0, 3000) + "\n--- now\n" +
             outcome.out.substr(0, 3000) + outcome.err);
  }

  /// The file, or the trial that it belongs to, with an exit code that tells.
  bool is_named(const Damage& damage, const Outcome& outcome) const {
    const std::string text = outcome.out + outcome.err;
    for (const fs::path& path : damage.paths) {
      if (outcome.code != 0 && text.find(path.string()) != text.npos) return true;
      if (outcome.code != 0 && text.find((out_ / "trials" / trial_of(path)).string()) != text.npos) return true;
    }
    return false;
  }

  /// A result that is gone leaves a trial that has none, a plan that is gone one that never ran: both are shown so.
  bool is_said_to_be_missing(const Damage& damage, const Command& command, const Outcome& outcome) const {
    if (!damage.removal) return false;
    const std::string name = damage.paths.front().filename().string(), verb = command.words.front();
    if (verb == "verify" && !is_of_result(damage.paths.front())) return true;  // such files are only counted
    if (name == "plan.json" && verb == "table") return outcome.out.find("plan.json") != std::string::npos;
    if (name == "plan.json") return verb == "list" || verb == "plan";
    if (name != "result.json") return false;
    for (const char* word : {"missing", "stopped", "without a result"})
      if (outcome.out.find(word) != std::string::npos) return true;
    if (verb == "run") {  // trains what had failed
      const auto result = ResultStore(pristine_).trial(trial_of(damage.paths.front())).load_result();
      return result && result->status == TrialEnd::failed;
    }
    return verb == "plan" || verb == "explain";  // which count, and compare what there is
  }

  /// Whether a result lists the file, or what it would be if it were there.
  bool is_of_result(const fs::path& path) const {
    const std::string id = trial_of(path);
    if (id.empty()) return false;
    const TrialFolder trial = ResultStore(pristine_).trial(id);
    const auto result = trial.load_result();
    const std::string attempt = path.parent_path().filename().string();
    return result && (attempt == id || attempt == attempt_folder("", result->attempt).string());
  }

  /// How far a trial without a result is, which the last line of its metrics says.
  bool is_progress(const Damage& damage, const Command& command) const {
    static const std::set<std::string> kShow{"table", "status", "list", "report"};
    for (const fs::path& path : damage.paths)
      if (path.filename() == "metrics.jsonl" && !fs::exists(pristine_ / "trials" / trial_of(path) / "result.json"))
        return kShow.contains(command.words.front());
    return false;
  }

  void fail(std::uint64_t seed, const Damage& damage, const std::string& command, const std::string& why) {
    ++failures;
    std::string paths;
    for (const fs::path& path : damage.paths) paths += " " + fs::relative(path, out_).string();
    MESSAGE("damage " << seed << ":" << paths << ": " << damage.words << "\nnormlab " << command << "\n" << why);
  }

  TemporaryFolder folder_;
  fs::path scratch_ = folder_ / "scratch", pristine_ = folder_ / "pristine", out_;
  const std::string images_ = (folder_ / "images.npy").string(), labels_ = (folder_ / "labels.npy").string();
  std::optional<ResultsFolder> results_;
  std::map<std::string, std::string> stem_of_;               // of trials
  std::map<std::string, std::vector<std::string>> weights_;  // files of trials that eval reads
  std::map<std::string, Outcome> undamaged_;
};

/// Temporary folders in memory, where there is such a place: nothing of this test has to survive the machine.
class InMemory {
 public:
  InMemory()
      : set_(std::getenv("TMPDIR") == nullptr && access("/dev/shm", W_OK) == 0 &&
             setenv("TMPDIR", "/dev/shm", 0) == 0) {}
  ~InMemory() {
    if (set_) unsetenv("TMPDIR");
  }
  InMemory(const InMemory&) = delete;
  InMemory& operator=(const InMemory&) = delete;

 private:
  bool set_;
};

}  // namespace

TEST_CASE("damage: random damage to a file is named or changes no output") {
  const std::uint64_t count = setting("NORMLAB_DAMAGES", 50), seed = setting("NORMLAB_DAMAGE_SEED", 1),
                      first = setting("NORMLAB_DAMAGE_FIRST", 0);
  const InMemory in_memory;
  Rig rig;
  for (std::uint64_t i = first; i < first + count; ++i) rig.damage_once(seed * 1'000'000 + i);
  std::printf("damage: %zu damages, %zu checks, %zu failures\n", rig.damages, rig.checks, rig.failures);
  CHECK(rig.damages == count);
  CHECK(rig.failures == 0);
}

TEST_CASE("damage: a changed value of an unsealed result is named where another file repeats it") {
  const InMemory in_memory;
  const TemporaryFolder folder;
  fs::copy("tests/lab/trials/unsealed", folder / "whole", fs::copy_options::recursive);
  const ResultStore store(folder / "whole/out");
  const std::string file = (folder / "whole/unsealed.json").string();
  std::size_t damages = 0;
  for (const std::string& id : store.trial_ids()) {
    const fs::path path = store.trial(id).path() / "result.json";
    const std::string whole = read_file(path);
    const auto json = nlohmann::ordered_json::parse(whole);
    std::vector<std::string> pointers{"/seed", "/attempt", "/status", "/id", "/schema"};
    for (const auto& [name, value] : json["metrics"].items())
      pointers.push_back("/metrics/" + name.substr(0, name.find('/')) + "~1" + name.substr(name.find('/') + 1));
    pointers.push_back(json["status"] == "done" ? "/steps" : "/diverged_step");
    for (std::uint64_t seed = 0; seed < 3; ++seed)
      for (const std::string& pointer : pointers) {
        Damager damager(seed + 17);
        const std::string words = damager.change_value(path, pointer);
        if (words.empty()) continue;
        ++damages;
        for (std::vector<std::string> call :
             {std::vector<std::string>{"table", file}, {"export", "--curves", "--by-row", file}, {"list", id}}) {
          call.insert(call.end(), {"--out", store.out().string()});
          const Outcome outcome = run_forked(call, folder.path());
          CHECK_MESSAGE(outcome.code == 2, (words + "\n" + call.front() + "\n" + outcome.out + outcome.err));
          CHECK_MESSAGE((outcome.out + outcome.err).find(path.string()) != std::string::npos,
                        (words + "\n" + outcome.err));
        }
        std::ofstream(path) << whole;
      }
  }
  CHECK(damages > 60);
}
