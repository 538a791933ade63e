// Commands and their options. Only command_line.cpp includes CLI11, which takes seconds to compile.
#pragma once

#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/words.h"

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace normlab {

/// What an option names for a command to write: a file, a file or with "-" a standard stream, or a folder.
enum class Output { file, stream, folder };

/// An option or a positional argument. Its rules apply to each value; the help shows them.
class Option {
 public:
  explicit Option(CLI::Option* option = nullptr) : option_(option) {}
  bool given() const;
  std::string name() const;  // "--tasks"

  Option required() const;
  Option needs(Option other) const;
  Option excludes(Option other) const;
  /// Inclusive. Number: int, std::int64_t, double. The help and the error show the bounds that matter.
  template <class Number>
  Option range(Number least, Number most) const;
  Option positive(double most = std::numeric_limits<double>::max()) const;
  Option not_negative() const;
  Option one_of(const std::vector<std::string>& words) const;
  /// `complaint` returns what is wrong with a value, or "".
  Option check(std::function<std::string(const std::string& value)> complaint) const;
  /// A path, so an empty text is refused.
  Option path() const;
  /// A path that the command writes to. The help shows FILE or FOLDER.
  Option output(Output kind) const;
  /// Several values in one word, separated by commas.
  Option comma_separated() const;
  /// One value per occurrence: the word after it is another argument.
  Option one_each() const;
  /// The value may be omitted and is then `value`.
  Option or_alone(std::string_view value) const;
  /// The help shows the variable's current value, or this text.
  Option show_default() const;
  Option show_default(std::string_view text) const;

 private:
  CLI::Option* option_;
};

/// Called after parsing; returns the exit code.
using Action = std::function<int()>;

template <class E>
std::vector<std::string> words_of() {
  return {std::begin(kWords<E>), std::end(kWords<E>)};
}

/// A command, or the program itself. The variables bound to its options must live until parsing is done.
class Command {
 public:
  Command(CLI::App* app, Action* action) : app_(app), action_(action) {}

  Command add_command(const char* name, const char* what, Action work);
  /// Work holds the options; calling it returns the exit code.
  template <class Work>
  std::pair<Command, Work&> add_command(const char* name, const char* what) {
    const auto work = std::make_shared<Work>();
    return {add_command(name, what, [work] { return (*work)(); }), *work};
  }
  /// One of the group's commands must be given.
  Command add_group(const char* name, const char* what);
  /// Paragraphs after the options, separated by newlines.
  void footer(const std::string& text);
  /// The help's last part: complete command lines that work in a clone of the repository.
  void examples(const std::vector<const char*>& lines);

  Option add_flag(const char* name, bool& value, const char* what);
  /// For the types that command_line.cpp instantiates.
  template <class Value>
  Option add_option(const char* name, Value& value, const char* what);
  /// A number within bounds. The help shows its default.
  template <class Number, class Bound>
  Option add_number(const char* name, Number& value, const char* what, Bound least, Bound most) {
    return add_option(name, value, what).range(least, most).show_default();
  }
  using Take = std::function<void(const std::string& value)>;
  Option add_option(const char* name, Take take, const char* what);
  /// One of these words, or an enum value by its word. The help shows the default.
  Option add_choice(const char* name, std::string& value, const char* what, const std::vector<std::string>& words) {
    return add_option(name, value, what).one_of(words).show_default();
  }
  template <class E>
  requires std::is_enum_v<E> Option add_choice(const char* name, E& value, const char* what,
                                               const std::vector<std::string>& words = words_of<E>()) {
    return add_option(
               name, [&value](const std::string& word) { find_word(word, value); }, what)
        .one_of(words)
        .show_default(word_of(value));
  }
  /// The same without a default in the help.
  template <class E>
  Option add_words(const char* name, E& value, const char* what) {
    return add_option(
               name, [&value](const std::string& word) { find_word(word, value); }, what)
        .one_of(words_of<E>());
  }

 protected:
  CLI::App* app_;

 private:
  Action* action_;
};

/// An option or argument that takes a value, as the help describes it.
struct DescribedOption {
  std::string command, name;  // "data preview", "-o, --output"; an argument in capitals
  std::string type, what;     // "FILE", "FOLDER", "TEXT", "N", "X" or "WORD"; the description
};

class CommandLine : public Command {
 public:
  CommandLine(const char* program, const char* what, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// Sets the option variables. If the words (those after the program's name) only ask for help, prints it and returns
  /// the exit code. InputError if they are invalid; for an unknown option with the nearest match.
  std::optional<int> read(const std::vector<std::string>& words);
  /// Of all commands that have been added.
  std::vector<DescribedOption> options() const;
  int carry_out() const { return action_of_command_(); }

 private:
  std::unique_ptr<CLI::App> program_;
  Action action_of_command_;
};

}  // namespace normlab
