// Commands and their options. Only command_line.cpp includes CLI11, which takes seconds to compile.
#pragma once

#include <cstdint>
#include <deque>
#include <filesystem>
#include <functional>
#include <initializer_list>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
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
  friend class Command;
  CLI::Option* option_;
};

/// Called after parsing; returns the exit code.
using Action = std::function<int()>;

/// What an option has its command do instead, and the other options that it reads.
struct Form {
  CLI::App* command;
  CLI::Option* flag;
  std::vector<CLI::Option*> reads;
  std::string title;
};

/// What all commands of a command line share.
struct Parsed {
  Action action;
  std::deque<Form> forms;
};

template <class E>
std::vector<std::string> words_of() {
  return {std::begin(kWords<E>), std::end(kWords<E>)};
}

/// A command, or the program itself. The variables bound to its options must live until parsing is done.
class Command {
 public:
  Command(CLI::App* app, Parsed* line, const Form* form = nullptr) : app_(app), line_(line), form_(form) {}

  Command add_command(const char* name, const char* what, Action work);
  /// Work holds the options; calling it returns the exit code.
  template <class Work>
  std::pair<Command, Work&> add_command(const char* name, const char* what) {
    const auto work = std::make_shared<Work>();
    return {add_command(name, what, [work] { return (*work)(); }), *work};
  }
  /// One of the group's commands must be given.
  Command add_group(const char* name, const char* what);
  /// Of the options added so far, `flag` leaves only `reads`, such as "--out" and "TRIAL". Options added to the returned
  /// command need the flag, and the help shows them in a section of their own.
  Command add_form(Option flag, std::initializer_list<const char*> reads);
  /// Paragraphs after the options, separated by newlines.
  void footer(const std::string& text);
  /// The help's last part: complete command lines that work in a clone of the repository.
  void examples(const std::vector<const char*>& lines);

  Option add_flag(const char* name, bool& value, const char* what);
  /// For the types of Variable.
  template <class Value>
  Option add_option(const char* name, Value& value, const char* what) {
    return add_variable(name, &value, what);
  }
  using Take = std::function<void(const std::string& value)>;
  Option add_option(const char* name, const Take& take, const char* what);
  /// A number within bounds.
  template <class Value, class Bound>
  Option add_bounded(const char* name, Value& value, const char* what, Bound least, Bound most) {
    return add_option(name, value, what).range(least, most);
  }
  /// The same; the help shows its default.
  template <class Value, class Bound>
  Option add_number(const char* name, Value& value, const char* what, Bound least, Bound most) {
    return add_bounded(name, value, what, least, most).show_default();
  }
  template <class Path>
  Option add_output(Output kind, const char* name, Path& value, const char* what) {
    return add_option(name, value, what).output(kind);
  }
  /// An enum value by its word; none if the option is left out.
  template <class E>
  Option add_optional_words(const char* name, std::optional<E>& value, const char* what) {
    return add_option(
               name, [&value](const std::string& word) { find_word(word, value.emplace()); }, what)
        .one_of(words_of<E>());
  }
  /// An enum value by its word.
  template <class E>
  Option add_words(const char* name, E& value, const char* what,
                   const std::vector<std::string>& words = words_of<E>()) {
    return add_option(
               name, [&value](const std::string& word) { find_word(word, value); }, what)
        .one_of(words);
  }
  /// The same, or one of these words; the help shows the default.
  template <class E>
  requires std::is_enum_v<E> Option add_choice(const char* name, E& value, const char* what,
                                               const std::vector<std::string>& words = words_of<E>()) {
    return add_words(name, value, what, words).show_default(word_of(value));
  }
  Option add_choice(const char* name, std::string& value, const char* what, const std::vector<std::string>& words) {
    return add_option(name, value, what).one_of(words).show_default();
  }

 protected:
  CLI::App* app_;

 private:
  using Variable = std::variant<int*, std::int64_t*, std::uint64_t*, double*, std::string*, std::filesystem::path*,
                                std::vector<double>*, std::vector<std::int64_t>*, std::vector<std::uint64_t>*,
                                std::vector<std::string>*, std::vector<std::filesystem::path>*, std::optional<int>*,
                                std::optional<std::uint64_t>*, std::optional<double>*, std::optional<std::string>*>;
  Option add_variable(std::string name, Variable variable, const char* what);
  Option added(CLI::Option* option) const;
  Parsed* line_;
  const Form* form_;  // null: the options are the command's own
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
  int carry_out() const { return parsed_.action(); }
  /// For a caller that cannot do without an argument that the command may lack.
  void require(std::string_view command, std::string_view argument);

 private:
  std::unique_ptr<CLI::App> program_;
  Parsed parsed_;
};

}  // namespace normlab
