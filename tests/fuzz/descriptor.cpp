// Any text as a descriptor, from the bytes to the trials. A form feed, which no JSON holds, ends the descriptor; what
// follows up to the next one is base.json, which it may extend, and then `--set` after `--set`. Whatever was read
// keeps its id when its trials go through their canonical and their full text. The dictionary is descriptor.dict and
// every key and word of the schema.
#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "experiments/descriptor/json_tree.h"
#include "experiments/descriptor/problems.h"
#include "experiments/descriptor/schema.h"
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

const Folder& folder() {
  static const Folder one;
  return one;
}

/// Keys of objects, words of enums, and examples, as the quoted entries of a dictionary.
void add_words(const nlohmann::json& schema, std::set<std::string>& entries) {
  const auto add = [&](const std::string& word) { entries.insert(concat("\"\\\"", word, "\\\"\"\n")); };
  if (!schema.is_structured()) return;
  for (const char* list : {"enum", "examples"})
    if (schema.is_object() && schema.contains(list))
      for (const nlohmann::json& word : schema[list])
        if (word.is_string()) add(word);
  if (schema.is_object() && schema.contains("const") && schema["const"].is_string()) add(schema["const"]);
  if (schema.is_object() && schema.contains("properties"))
    for (const auto& [key, unused] : schema["properties"].items()) add(key);
  for (const nlohmann::json& inner : schema) add_words(inner, entries);
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int* count, char*** arguments) {
  constexpr std::string_view kOption = "-dict=";
  static std::string option;  // as long as libFuzzer reads it
  for (char*& argument : std::span(*arguments, std::size_t(*count))) {
    if (!std::string_view(argument).starts_with(kOption)) continue;
    std::ifstream given(argument + kOption.size(), std::ios::binary);
    std::string text{std::istreambuf_iterator<char>(given), {}};
    std::set<std::string> entries;
    add_words(nlohmann::json::parse(json_schema()), entries);
    for (const std::string& entry : entries) text += entry;
    option = concat(kOption, folder().write("descriptor.dict", text).string());
    argument = option.data();
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::vector<std::string> parts = parts_of(text_of(data, size));
  if (!is_confined(parts[0]) || (parts.size() > 1 && !is_confined(parts[1]))) return 0;
  const std::filesystem::path file = folder().write("descriptor.json", parts[0]);
  folder().write("base.json", parts.size() > 1 ? parts[1] : "{}");
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
