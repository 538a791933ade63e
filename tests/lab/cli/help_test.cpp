// The help of every command: it can be read in any terminal, and its examples work.
#include <doctest/doctest.h>

#include <filesystem>
#include <map>
#include <regex>
#include <sstream>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/descriptor/experiment.h"
#include "tests/lab/cli/on_terminal.h"

using namespace normlab;

namespace {

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// The names below "Commands:".
std::vector<std::string> commands_in(const std::string& help) {
  std::vector<std::string> names;
  bool listed = false;
  for (const std::string& line : lines_of(help)) {
    if (line == "Commands:")
      listed = true;
    else if (line.empty())
      listed = false;
    else if (listed && line[2] != ' ')
      names.push_back(line.substr(2, line.find(' ', 2) - 2));
  }
  return names;
}

std::string help_of(const TemporaryFolder& folder, const std::string& command, int columns) {
  const Finished finished = run_program(folder, command + " --help", "COLUMNS=" + std::to_string(columns) + " ");
  CHECK(finished.code == 0);
  return finished.out;
}

using Pages = std::map<std::string, std::string>;
Pages all_help(int columns) {
  const TemporaryFolder folder;
  Pages pages{{"", help_of(folder, "", columns)}};
  for (const std::string& name : commands_in(pages[""])) {
    const std::string page = pages[name] = help_of(folder, name, columns);
    for (const std::string& part : commands_in(page))
      pages[name + " " + part] = help_of(folder, name + " " + part, columns);
  }
  return pages;
}

/// Of the program, its commands and theirs: help by path, "" for the program. At 40 and 80 columns, made once.
const Pages& narrow_pages() {
  static const Pages once = all_help(40);
  return once;
}
const Pages& wide_pages() {
  static const Pages once = all_help(80);
  return once;
}

/// The command lines that a help ends with.
std::vector<std::string> examples_in(const std::string& help) {
  std::vector<std::string> examples;
  bool inside = false, goes_on = false;
  for (std::string line : lines_of(help)) {
    if (!inside) {
      inside = line == "Examples:";
      continue;
    }
    CHECK_MESSAGE(line.starts_with("  "), "the help goes on after its examples: " << line);
    if (!goes_on) examples.emplace_back();
    goes_on = line.ends_with(" \\");
    examples.back() += (examples.back().empty() ? "" : " ") + line.substr(2, line.size() - (goes_on ? 4 : 2));
  }
  return examples;
}

/// Words as a shell passes them on, without a command before `normlab` and without what follows ">".
std::vector<std::string> words_of(const std::string& line) {
  std::vector<std::string> words;
  std::string word;
  bool quoted = false;
  for (const char c : line + " ") {
    if (c == '\'')
      quoted = !quoted;
    else if (c != ' ' || quoted)
      word += c;
    else if (!word.empty())
      words.push_back(std::exchange(word, ""));
  }
  words.erase(words.begin(), std::find(words.begin(), words.end(), "normlab"));
  words.erase(std::find(words.begin(), words.end(), ">"), words.end());
  return words;
}

/// The words after `normlab` in an example.
std::vector<std::string> arguments_of(const std::string& example) {
  std::vector<std::string> words = words_of(example);
  REQUIRE_MESSAGE(words.size() > 1, example);
  words.erase(words.begin());
  return words;
}

bool is_output(const std::string& option) { return option == "-o" || option == "--out"; }

}  // namespace

TEST_CASE("help: every page fits 40 and 80 columns") {
  CHECK(wide_pages().size() > 20);
  for (const auto& each : wide_pages()) {
    const std::string& path = each.first;  // clang 14 captures no structured binding
    for (const std::string& line : lines_of(each.second))
      CHECK_MESSAGE(display_width(line) <= 80, path << ": " << line);
    for (const std::string& line : lines_of(narrow_pages().at(path)))
      CHECK_MESSAGE(display_width(line) <= 40, path << ": " << line);
  }
}

TEST_CASE("help: a narrow page has the words of a wide one") {
  const auto words = [](const std::string& text) {
    std::istringstream stream(text);
    std::vector<std::string> all;
    for (std::string word; stream >> word;)
      if (word != "\\") all.push_back(word);
    return all;
  };
  for (const auto& each : wide_pages())
    CHECK_MESSAGE(words(narrow_pages().at(each.first)) == words(each.second), each.first);
}

TEST_CASE("help: no page shows internal names or limits") {
  for (const auto& each : wide_pages()) {
    const std::string &path = each.first, &page = each.second;
    for (const char* internal : {"ENUM", "INT", "FLOAT", " in [", "->", "SUBCOMMAND", "Excludes"})
      CHECK_MESSAGE(page.find(internal) == page.npos, path << " has " << internal);
    CHECK_MESSAGE(!std::regex_search(page, std::regex("[0-9]{7}")), path << ": a large number in\n" << page);
  }
}

TEST_CASE("help: every page ends with two examples of its command") {
  for (const auto& each : wide_pages()) {
    const std::string& path = each.first;
    const std::vector<std::string> examples = examples_in(each.second);
    CHECK_MESSAGE(examples.size() == 2, path << " has " << examples.size() << " examples");
    for (const std::string& example : examples)
      if (arguments_of(example).at(0) != "help")
        CHECK_MESSAGE((path.empty() || example.find("normlab " + path + " ") != example.npos), path << ": " << example);
  }
}

TEST_CASE("help: every example of help asks for a page that is there") {
  for (const auto& each : wide_pages())
    for (const std::string& example : examples_in(each.second)) {
      const std::vector<std::string> words = arguments_of(example);
      if (words[0] != "help") continue;
      const std::string asked = words.size() > 2 ? words[1] + " " + words[2] : words[1];
      CHECK_MESSAGE(wide_pages().contains(asked), each.first << ": " << example);
    }
}

TEST_CASE("help: every example is a command line that the program reads") {
  for (const auto& each : wide_pages())
    for (const std::string& example : examples_in(each.second)) {
      std::vector<std::string> words = arguments_of(example);
      if (words[0] == "help") continue;
      CommandLine line("normlab", "", "");
      add_commands(line, words);
      try {
        CHECK_MESSAGE(!line.read(words), each.first << ": " << example);
      } catch (const InputError& error) {
        FAIL_CHECK(example << ": " << error.what());
      }
    }
}

TEST_CASE("help: files and trials of the examples are there") {
  const Experiment front = load_experiment("experiments/placements_gratings.json");
  for (const auto& each : wide_pages())
    for (const std::string& example : examples_in(each.second)) {
      const std::vector<std::string> words = arguments_of(example);
      if (words[0] == "help") continue;
      for (std::size_t i = 1; i < words.size(); ++i) {
        const bool file = words[i].ends_with(".json") || words[i].ends_with(".jsonl");
        if (file && !is_output(words[i - 1])) CHECK_MESSAGE(std::filesystem::exists(words[i]), example);
        if (!std::regex_match(words[i], std::regex("[0-9a-f]{8}"))) continue;
        const bool known = std::any_of(front.trials.begin(), front.trials.end(),
                                       [&](const Trial& trial) { return trial.id.starts_with(words[i]); });
        CHECK_MESSAGE(known, example << ": no trial of placements_gratings.json is " << words[i]);
      }
    }
}

TEST_CASE("help: on a terminal the text fills its width up to 100 columns") {
  const auto on_terminal = [](unsigned short columns) {
    OnTerminal terminal("run --help", columns, 50);
    const std::vector<std::string> lines = plain_lines(terminal.read_for(5000));
    CHECK(terminal.wait() == 0);
    std::size_t widest = 0;
    for (const std::string& line : lines) widest = std::max(widest, display_width(line));
    return widest;
  };
  CHECK(on_terminal(40) <= 40);
  CHECK(on_terminal(70) <= 70);
  CHECK(on_terminal(70) > 60);
  CHECK(on_terminal(300) <= 100);
}

TEST_CASE("help: in a pipe the text has the width in COLUMNS") {
  const TemporaryFolder folder;
  const std::string usual = run_program(folder, "run --help").out;
  for (const char* columns : {"COLUMNS=80 ", "COLUMNS=none ", "COLUMNS= ", "COLUMNS=99999999999999999999999 "})
    CHECK(run_program(folder, "run --help", columns).out == usual);
  CHECK(run_program(folder, "run --help", "COLUMNS=40 ").out != usual);
  CHECK(run_program(folder, "run --help", "COLUMNS=1 ").out == run_program(folder, "run --help", "COLUMNS=40 ").out);
}
