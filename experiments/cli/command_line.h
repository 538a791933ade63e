// Commands and their options. CLI11 reads them: its headers take seconds to compile, so command_line.cpp alone has
// them.
#pragma once

#include <functional>
#include <initializer_list>
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

/// An option or a positional argument. Its rules hold for each of its values; the help shows them.
class Option {
 public:
  explicit Option(CLI::Option* option = nullptr) : option_(option) {}
  bool given() const;

  Option required() const;
  Option needs(Option other) const;
  Option excludes(Option other) const;
  /// Both bounds are allowed. Number: int, std::int64_t, double. The help and the error show bounds that matter.
  template <class Number>
  Option range(Number least, Number most) const;
  Option positive() const;
  Option not_negative() const;
  Option one_of(const std::vector<std::string>& words) const;
  /// `complaint` says what is wrong with a value, nothing where it is right.
  Option check(std::function<std::string(const std::string& value)> complaint) const;
  /// Several values of one word with commas between.
  Option comma_separated() const;
  /// One value each time: the word after it is another argument.
  Option one_each() const;
  /// May stand without its value, which is this one then.
  Option or_alone(std::string_view value) const;
  /// The help shows the value that the variable has now, or this text.
  Option show_default() const;
  Option show_default(std::string_view text) const;

 private:
  CLI::Option* option_;
};

/// Called once the command line is read; gives the exit code.
using Action = std::function<int()>;

template <class E>
std::vector<std::string> words_of() {
  return {std::begin(kWords<E>), std::end(kWords<E>)};
}

/// A command, or the program itself. The variables of its options must live until the command line is read.
class Command {
 public:
  Command(CLI::App* app, Action* action) : app_(app), action_(action) {}

  Command add_command(const char* name, const char* what, Action work);
  /// An object of type Work holds the options and is called for the exit code.
  template <class Work>
  std::pair<Command, Work&> add_command(const char* name, const char* what) {
    const auto work = std::make_shared<Work>();
    return {add_command(name, what, [work] { return (*work)(); }), *work};
  }
  /// Commands of which one must be given.
  Command add_group(const char* name, const char* what);
  /// What the help says after the options: paragraphs, with newlines between.
  void footer(const char* text);
  /// What the help ends with: whole command lines that work in a clone of the repository.
  void examples(std::initializer_list<const char*> lines);

  Option add_flag(const char* name, bool& value, const char* what);
  /// For the types that command_line.cpp lists.
  template <class Value>
  Option add_option(const char* name, Value& value, const char* what);
  /// A number in these bounds. The help shows its default.
  template <class Number, class Bound>
  Option add_number(const char* name, Number& value, const char* what, Bound least, Bound most) {
    return add_option(name, value, what).range(least, most).show_default();
  }
  using Take = std::function<void(const std::string& value)>;
  Option add_option(const char* name, Take take, const char* what);
  /// One of these words, or a value of an enum by its word. The help shows the default.
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
  /// The same with a help that shows no default.
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

class CommandLine : public Command {
 public:
  CommandLine(const char* program, const char* what, const std::string& version);
  ~CommandLine();
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;

  /// Sets the variables of options from what stands after the program's name. Where the words ask for help alone, it
  /// prints that and gives the exit code. InputError where they are wrong; for an unknown option with the nearest.
  std::optional<int> read(const std::vector<std::string>& words);
  /// What the command does that was read.
  int carry_out() const { return action_of_command_(); }

 private:
  std::unique_ptr<CLI::App> program_;
  Action action_of_command_;
};

}  // namespace normlab
