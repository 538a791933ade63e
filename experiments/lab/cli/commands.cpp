#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <new>
#include <string>
#include <string_view>

#include "core/cpu/blas.h"
#include "core/error.h"
#include "experiments/lab/base/build_info.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/cli/commands.h"
#include "experiments/lab/sweep/signals.h"

namespace normlab {
namespace {

struct NamedCommand {
  std::string_view name;
  void (*add)(Command&);
};
#define NORMLAB_ROW(name) {#name, add_##name},
constexpr NamedCommand kCommands[] = {NORMLAB_COMMANDS(NORMLAB_ROW)};
#undef NORMLAB_ROW

bool is_command(std::string_view word) {
  return std::any_of(std::begin(kCommands), std::end(kCommands), [&](const NamedCommand& c) { return c.name == word; });
}

/// A command of the version before that is an option of another one now. The next release takes away this, and what
/// follows from it below.
struct OldName {
  std::string_view name, now;                                // now: as the message says it
  std::vector<std::string> words;                            // of the new command
  std::vector<std::pair<std::string, std::string>> renamed;  // options
  std::string required;                                      // an argument that the new command may lack
};

/// Null for any other word.
const OldName* find_old_name(std::string_view word) {
  static const std::vector<OldName> all{
      {"missing", "status --missing", {"status", "--missing"}, {}, ""},
      {"curves", "export --curves --by-row", {"export", "--curves", "--by-row"}, {}, ""},
      {"find", "list ID", {"list"}, {}, "ID"},
      {"diff", "explain A B", {"explain"}, {}, "B"},
      {"fewshot", "eval --fewshot", {"eval", "--fewshot"}, {{"--data", "--data-root"}, {"--dataset", "--data"}}, ""},
      {"probe", "eval --probe", {"eval", "--probe"}, {{"--data", "--data-root"}}, ""},
      {"figures",
       "report --figures FOLDER",
       {"report"},
       {{"--output", "--figures"}, {"-o", "--figures"}, {"--last", "--steps"}},
       ""},
      {"schema", "check --schema", {"check", "--schema"}, {}, ""}};
  const auto found = std::find_if(all.begin(), all.end(), [&](const OldName& old) { return old.name == word; });
  return found == all.end() ? nullptr : &*found;
}

/// Tells the new name on standard error, and gives the words, of which `first` is the old name, for the new command.
std::vector<std::string> replaced(const OldName& old, const std::vector<std::string>& given, std::size_t first) {
  tell("normlab {} is now `normlab {}`; the old name goes with the next release\n", old.name, old.now);
  const auto name = given.begin() + std::ptrdiff_t(first);
  std::vector<std::string> words(given.begin(), name), rest(name + 1, given.end());
  words.insert(words.end(), old.words.begin(), old.words.end());
  bool drawn = false;  // the folder of the figures is given
  for (auto word = rest.begin(); word != std::find(rest.begin(), rest.end(), "--"); ++word)
    for (const auto& [before, after] : old.renamed) {
      const bool letter = before.size() == 2;  // its value may follow without a space
      if (letter ? !word->starts_with(before) : word->substr(0, word->find('=')) != before) continue;
      const std::string value = word->substr(before.size());
      *word = after + (letter && !value.empty() ? "=" : "") + value;
      drawn = drawn || after == "--figures";
      break;
    }
  if (old.name == "figures" && !drawn) words.emplace_back("--figures=figures");
  words.insert(words.end(), rest.begin(), rest.end());
  return words;
}

/// `help X` becomes `X --help`, and an old name the new one. InputError for an unknown command.
std::vector<std::string> words_of_user(int argc, char** argv, const OldName*& old) {
  std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
  std::size_t first = 0;
  while (first < words.size() && words[first].starts_with("--blas-env")) first += words[first] == "--blas-env" ? 2 : 1;
  if (first >= words.size() || words[first].starts_with("-") || is_command(words[first])) return words;
  if (words[first] == "help") {
    words.erase(words.begin() + std::ptrdiff_t(first));
    words.emplace_back("--help");
  }
  if (old = find_old_name(words[first]); old != nullptr) words = replaced(*old, words, first);
  if (words[first].starts_with("-") || is_command(words[first])) return words;
  std::vector<std::string_view> names;
  for (const NamedCommand& command : kCommands) names.push_back(command.name);
  throw InputError(concat(unknown_word("command", words[first], names), "; see normlab --help"));
}

int carry_out(int argc, char** argv) {
  CommandLine app("normlab",
                  "train Vision Transformers with norms at any site, and compare placements of norms in sweeps",
                  "normlab " + build_version() + " (" + build_level() + ")");
  app.footer(
      "Exit codes: 0 done, 1 a trial failed or a value is not finite, 2 bad input, 3 the machine (disk, library, CPU, "
      "GPU), 129, 130, 138 or 143 stopped by a signal; docs/commands.md has the details.\n"
      "Results go to standard output, messages to standard error. `normlab help COMMAND` explains a command.");
  app.examples({"normlab run experiments/placements_gratings.json", "normlab help table"});
  std::string blas_env = "clear";
  app.add_option("--blas-env", blas_env,
                 "clear inherited OPENBLAS_* variables (the default, since some halve the speed) or keep them")
      .one_of({"clear", "keep"});
  const OldName* old = nullptr;
  const std::vector<std::string> words = words_of_user(argc, argv, old);
  add_commands(app, words);
  const bool required = old != nullptr && !old->required.empty();
  if (required && std::find(words.begin(), words.end(), "--help") == words.end())
    app.require(old->words.front(), old->required);
  if (const std::optional<int> code = app.read(words)) return *code;
  if (blas_env == "clear") clear_blas_environment();
  return app.carry_out();
}

constexpr std::string_view kOutOfMemory = "out of memory; use fewer --workers or a smaller batch\n";

thread_local bool allocation_failed = false;
[[noreturn]] void note_failed_allocation() {
  allocation_failed = true;
  throw std::bad_alloc();
}

/// For running out of memory where nothing may be thrown: nlohmann's destructors and std::filesystem's iterators
/// allocate. g++ does not always report which exception is active.
std::terminate_handler usual_end = nullptr;
[[noreturn]] void end_without_unwinding() {
  if (allocation_failed && (std::current_exception() || std::uncaught_exceptions() > 0)) {
    if (::write(STDERR_FILENO, kOutOfMemory.data(), kOutOfMemory.size())) {  // best effort
    }
    ::_exit(static_cast<int>(ExitCode::environment));
  }
  usual_end();
  std::abort();
}

/// Runs `work`; an error becomes a message and an exit code.
int guarded(const std::function<int()>& work) {
  try {
    try {
      return work();
    } catch (const std::filesystem::filesystem_error& error) {
      throw_system_error("read", error.path1(), error.code().value());
    }
  } catch (const Error& error) {
    tell("{}\n", error.what());
    return static_cast<int>(error.code());
  } catch (const std::bad_alloc&) {
    tell_text(kOutOfMemory);
  } catch (const std::exception& error) {
    tell("internal error: {}\n", error.what());
  }
  return static_cast<int>(ExitCode::environment);
}

}  // namespace

void add_commands(Command& app, const std::vector<std::string>& words) {
  const auto first = std::find_if(words.begin(), words.end(), is_command);
  const auto before = [&](std::string_view word) { return std::find(words.begin(), first, word) != first; };
  const bool all = before("--help") || before("-h") || (first == words.end() && !before("--version"));
  for (const NamedCommand& command : kCommands)
    if (all || (first != words.end() && command.name == *first)) command.add(app);
}

int run_command_line(int argc, char** argv) {
  std::set_new_handler(note_failed_allocation);
  usual_end = std::set_terminate(end_without_unwinding);
  open_standard_streams();
  ignore_signals_of_writes();
  const int code = guarded([&] { return carry_out(argc, argv); });
  const int output = guarded([] {
    flush_output();
    return 0;
  });
  return output == 0 ? code : output;
}

}  // namespace normlab
