#include "experiments/cli/command_line.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <map>
#include <sstream>

#include "core/error.h"
#include "experiments/base/suggest.h"
#include "experiments/base/terminal.h"

namespace normlab {

bool Option::given() const { return option_->count() > 0; }
Option Option::required() const { return Option(option_->required()); }
Option Option::needs(Option other) const { return Option(option_->needs(other.option_)); }
Option Option::excludes(Option other) const { return Option(option_->excludes(other.option_)); }
template <class Number>
Option Option::range(Number least, Number most) const {
  return Option(option_->check(CLI::Range(least, most)));
}
template Option Option::range(int, int) const;
template Option Option::range(std::int64_t, std::int64_t) const;
template Option Option::range(double, double) const;
Option Option::positive() const { return Option(option_->check(CLI::PositiveNumber)); }
Option Option::not_negative() const { return Option(option_->check(CLI::NonNegativeNumber)); }
Option Option::one_of(const std::vector<std::string>& words) const {
  return Option(option_->check(CLI::IsMember(words)));
}
Option Option::check(std::function<std::string(const std::string&)> complaint) const {
  return Option(option_->check(std::move(complaint)));
}
Option Option::comma_separated() const { return Option(option_->delimiter(',')); }
Option Option::one_each() const { return Option(option_->allow_extra_args(false)); }
Option Option::or_alone(std::string_view value) const {
  return Option(option_->expected(0, 1)->default_str(std::string(value)));
}
Option Option::show_default() const { return Option(option_->capture_default_str()); }
Option Option::show_default(std::string_view text) const { return Option(option_->default_str(std::string(text))); }

Command Command::add_command(const char* name, const char* what, Action work) {
  CLI::App& added = *app_->add_subcommand(name, what);
  added.callback([action = action_, work = std::move(work)] { *action = work; });
  return {&added, action_};
}
Command Command::add_group(const char* name, const char* what) {
  return {app_->add_subcommand(name, what)->require_subcommand(1), action_};
}
void Command::footer(const char* text) { app_->footer(text); }

Option Command::add_flag(const char* name, bool& value, const char* what) {
  return Option(app_->add_flag(name, value, what));
}
template <class Value>
Option Command::add_option(const char* name, Value& value, const char* what) {
  return Option(app_->add_option(name, value, what));
}
template Option Command::add_option(const char*, int&, const char*);
template Option Command::add_option(const char*, std::int64_t&, const char*);
template Option Command::add_option(const char*, std::uint64_t&, const char*);
template Option Command::add_option(const char*, double&, const char*);
template Option Command::add_option(const char*, std::string&, const char*);
template Option Command::add_option(const char*, std::filesystem::path&, const char*);
template Option Command::add_option(const char*, std::vector<double>&, const char*);
template Option Command::add_option(const char*, std::vector<std::string>&, const char*);
template Option Command::add_option(const char*, std::vector<std::filesystem::path>&, const char*);
template Option Command::add_option(const char*, std::optional<int>&, const char*);
template Option Command::add_option(const char*, std::optional<std::uint64_t>&, const char*);
template Option Command::add_option(const char*, std::optional<double>&, const char*);
template Option Command::add_option(const char*, std::optional<std::string>&, const char*);
Option Command::add_option(const char* name, Take take, const char* what) {
  return Option(app_->add_option_function<std::string>(name, take, what));
}

namespace {

/// Options that the command named by the words before them does not have: CLI11 would blame what follows them.
void refuse_unknown_options(CLI::App* command, const std::vector<std::string>& words) {
  for (const std::string& word : words) {
    if (word == "--") return;
    if (!word.starts_with("--")) {
      for (CLI::App* part : command->get_subcommands([](const CLI::App*) { return true; }))
        if (part->get_name() == word) command = part;
      continue;
    }
    const std::string option = word.substr(0, word.find('='));
    if (command->get_option_no_throw(option) != nullptr) continue;
    std::vector<std::string> names;
    for (const CLI::Option* known : command->get_options())
      for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
    std::string path;
    for (const CLI::App* part = command; part->get_parent() != nullptr; part = part->get_parent())
      path = part->get_name() + " " + path;
    throw InputError(
        concat(unknown_word("option", option, {names.begin(), names.end()}), "; see normlab ", path, "--help"));
  }
}

}  // namespace

CommandLine::CommandLine(const char* program, const char* what, const std::string& version)
    : Command(new CLI::App(what, program), &action_of_command_), program_(app_) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", version);
}
CommandLine::~CommandLine() = default;

std::optional<int> CommandLine::read(const std::vector<std::string>& words) {
  refuse_unknown_options(app_, words);
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // as CLI11 wants them
    app_->parse(reversed);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::ostringstream output, complaint;
    const int code = app_->exit(error, output, complaint);
    print_text("{}", output.str());
    tell("{}", complaint.str());
    return code == 0 ? 0 : static_cast<int>(ExitCode::bad_input);
  }
}

}  // namespace normlab
