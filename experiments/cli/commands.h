// The commands of the binary. Each adds itself to the command line; what it does comes back as the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/words.h"

namespace normlab {

/// Called once the command line is read; gives the exit code.
using Action = std::function<int()>;

/// Adds a command. An object of type Command holds its options; where the command is asked for, it is called for the
/// exit code.
template <class Command>
std::pair<CLI::App&, Command&> add_command(CLI::App& app, Action& action, const char* name, const char* what) {
  auto command = std::make_shared<Command>();
  CLI::App& added = *app.add_subcommand(name, what);
  added.callback([command, &action] { action = [command] { return (*command)(); }; });
  return {added, *command};
}

/// An option that is a number in these bounds. The help shows its default.
template <class Number, class Bound>
CLI::Option* add_number(CLI::App& command, const char* name, Number& value, const char* what, Bound least, Bound most) {
  return command.add_option(name, value, what)->check(CLI::Range(least, most))->capture_default_str();
}

template <class E>
std::vector<std::string> words_of() {
  return {std::begin(kWords<E>), std::end(kWords<E>)};
}
/// An option that is one of these words, or a value of an enum by its word. The help shows its default.
inline CLI::Option* add_choice(CLI::App& command, const char* name, std::string& value, const char* what,
                               const std::vector<std::string>& words) {
  return command.add_option(name, value, what)->check(CLI::IsMember(words))->capture_default_str();
}
template <class E>
requires std::is_enum_v<E> CLI::Option* add_choice(CLI::App& command, const char* name, E& value, const char* what,
                                                   const std::vector<std::string>& words = words_of<E>()) {
  const auto take = [&value](const std::string& word) { find_word(word, value); };
  return command.add_option_function<std::string>(name, take, what)
      ->check(CLI::IsMember(words))
      ->default_str(std::string(word_of(value)));
}
/// The same with a help that shows all words and no default.
template <class E>
CLI::Option* add_words(CLI::App& command, const char* name, E& value, const char* what) {
  std::map<std::string, E> words;
  for (std::size_t i = 0; i < kWordCount<E>; ++i) words.emplace(kWords<E>[i], static_cast<E>(i));
  return command.add_option(name, value, what)->transform(CLI::CheckedTransformer(words));
}

void add_run(CLI::App& app, Action& action);
void add_plan(CLI::App& app, Action& action);
void add_check(CLI::App& app, Action& action);
void add_explain(CLI::App& app, Action& action);
void add_status(CLI::App& app, Action& action);
void add_table(CLI::App& app, Action& action);
void add_schema(CLI::App& app, Action& action);
void add_probe(CLI::App& app, Action& action);
void add_report(CLI::App& app, Action& action);
void add_convert(CLI::App& app, Action& action);
void add_curves(CLI::App& app, Action& action);
void add_export(CLI::App& app, Action& action);
void add_eval(CLI::App& app, Action& action);
void add_bench(CLI::App& app, Action& action);
void add_data(CLI::App& app, Action& action);
void add_diff(CLI::App& app, Action& action);
void add_find(CLI::App& app, Action& action);
void add_missing(CLI::App& app, Action& action);
void add_clean(CLI::App& app, Action& action);
void add_verify(CLI::App& app, Action& action);

/// Parts of `normlab data`.
void add_data_info(CLI::App& data, Action& action);
void add_data_pack(CLI::App& data, Action& action);
void add_data_preview(CLI::App& data, Action& action);

/// Reads the command line and does what it says; errors become one message on standard error and their exit code.
int run_command_line(int argc, char** argv);

}  // namespace normlab
