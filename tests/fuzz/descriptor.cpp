// Any text as a descriptor, from the bytes to the trials. A form feed, which no JSON holds, ends the descriptor; what
// follows up to the next one is base.json, which it may extend, and then `--set` after `--set`. Whatever was read
// keeps its id when its trials go through their canonical and their full text.
#include <cstdio>
#include <cstdlib>

#include "core/error.h"
#include "experiments/lab/descriptor/json_tree.h"
#include "experiments/lab/descriptor/problems.h"
#include "experiments/lab/descriptor/schema.h"
#include "tests/fuzz/experiment_check.h"

using namespace normlab;
using namespace normlab::fuzz;

namespace {

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

}  // namespace

/// `--schema` prints all keys and words, for the dictionary that tests/fuzz/run makes.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  if (*argc != 2 || (*argv)[1] != std::string("--schema")) return 0;
  std::fputs((json_schema() + describe_fields()).c_str(), stdout);
  std::exit(0);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const std::vector<std::string> parts = parts_of(text_of(data, size));
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
  check(experiment);
  return 0;
}
