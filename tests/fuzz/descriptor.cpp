// Any text as a descriptor, from the bytes to the trials. A form feed, which no JSON holds, ends the descriptor; what
// follows up to the next one is base.json, which it may extend, and then `--set` after `--set`. Whatever was read
// keeps its id when its trials go through their canonical and their full text.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "core/error.h"
#include "experiments/descriptor/canonical.h"
#include "experiments/descriptor/experiment.h"
#include "experiments/descriptor/json_tree.h"
#include "experiments/descriptor/problems.h"

using namespace normlab;

namespace {

constexpr std::size_t kTrials = 48;  // a sweep of thousands would only take time

void require(bool condition, const char* what) {
  if (condition) return;
  std::fprintf(stderr, "descriptor: %s\n", what);
  std::abort();
}

/// A folder of this process's own, removed at its end.
class Folder {
 public:
  Folder() {
    std::error_code error;
    const std::filesystem::path memory = "/dev/shm";  // where there is one, nothing goes to a disk
    const bool there = std::filesystem::is_directory(memory, error);
    std::string name = ((there ? memory : std::filesystem::temp_directory_path()) / "normlab-fuzz-XXXXXX").string();
    require(::mkdtemp(name.data()) != nullptr, "cannot make a folder");
    path_ = name;
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::filesystem::path write(const char* name, std::string_view text) const {
    std::ofstream(path_ / name, std::ios::binary).write(text.data(), std::streamsize(text.size()));
    return path_ / name;
  }

 private:
  std::filesystem::path path_;
};

std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find('\f', begin), text.size());
    parts.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

/// False where a file would extend any other than base.json: the fuzzer opens no files of this machine.
bool is_confined(const std::string& text) {
  Sources sources;
  Problems problems;
  try {
    const JsonNode root = parse_json(text, sources.add("x"), problems);
    const JsonMember* extends = root.is_object() ? root.find("extends") : nullptr;
    return extends == nullptr || !extends->value.is_string() || extends->value.text == "base.json";
  } catch (const InputError&) {
    return true;  // it will be refused in the same way
  }
}

void check(const Experiment& experiment) {
  require(!experiment.trials.empty() && experiment.trials.size() <= kTrials, "too many trials, or none");
  for (const Cell& row : experiment.rows) {
    require(!row.baseline || *row.baseline < experiment.rows.size(), "a baseline beyond the rows");
    for (const std::size_t trial : row.trials) require(trial < experiment.trials.size(), "a trial beyond the trials");
  }
  for (const Trial& trial : experiment.trials) {
    require(trial_id(config_from_json(canonical_json(trial.config), "canonical")) == trial.id,
            "the canonical text has another id");
    require(trial_id(config_from_json(full_json(trial.config), "full")) == trial.id, "the full text has another id");
    require(model_from_json(canonical_model_json(trial.config.model), "model") == trial.config.model,
            "the model's text gives another model");
    require(model_cost(trial.config.model).parameters > 0, "a model without parameters");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const std::vector<std::string> parts = parts_of({reinterpret_cast<const char*>(data), size});
  if (!is_confined(parts[0]) || (parts.size() > 1 && !is_confined(parts[1]))) return 0;
  const std::filesystem::path file = folder.write("descriptor.json", parts[0]);
  folder.write("base.json", parts.size() > 1 ? parts[1] : "{}");
  const std::vector<std::string> sets(parts.begin() + std::min<std::ptrdiff_t>(2, std::ptrdiff_t(parts.size())),
                                      parts.end());
  Experiment experiment;
  try {
    experiment = load_experiment(file, sets, kTrials);
  } catch (const InputError& error) {
    require(error.what()[0] != '\0', "an error without words");
    return 0;
  }
  check(experiment);  // what was read must go through its texts: an InputError here is a finding
  return 0;
}
