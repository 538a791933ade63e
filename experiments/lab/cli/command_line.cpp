#include "experiments/lab/cli/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <cstdint>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/cli/help_text.h"

namespace normlab {

namespace {

/// The help shows a validator's description.
CLI::Validator validator(std::string shown, std::function<std::string(const std::string&)> complaint) {
  return CLI::Validator([complaint = std::move(complaint)](std::string& value) { return complaint(value); },
                        std::move(shown));
}

template <class Number>
CLI::Validator range_validator(const std::string& bounds, Number least, Number most) {
  return validator(bounds, [=](const std::string& text) {
    Number value;
    const bool right = CLI::detail::lexical_cast(text, value) && value >= least && value <= most;
    return right ? std::string() : concat("must be ", bounds, ", not ", in_quotes(text));
  });
}

}  // namespace

bool Option::given() const { return option_->count() > 0; }
std::string Option::name() const { return option_->get_name(); }
Option Option::required() const { return Option(option_->required()); }
Option Option::needs(Option other) const { return Option(option_->needs(other.option_)); }
Option Option::excludes(Option other) const { return Option(option_->excludes(other.option_)); }
template <class Number>
Option Option::range(Number least, Number most) const {
  constexpr double kUnlimited = 1e6;  // larger bounds only catch mistakes and are not shown
  const std::string bounds =
      double(most) >= kUnlimited ? fmt::format("at least {}", least) : fmt::format("{} to {}", least, most);
  return Option(option_->check(range_validator(bounds, least, most)));
}
template Option Option::range(int, int) const;
template Option Option::range(std::int64_t, std::int64_t) const;
template Option Option::range(double, double) const;
Option Option::positive(double most) const {
  using Limits = std::numeric_limits<double>;
  const std::string bounds = most < Limits::max() ? fmt::format("above 0 and at most {}", most) : "above 0";
  return Option(option_->check(range_validator(bounds, Limits::denorm_min(), most)));
}
Option Option::not_negative() const {
  return Option(option_->check(range_validator("at least 0", 0.0, std::numeric_limits<double>::max())));
}
Option Option::one_of(const std::vector<std::string>& words) const {
  std::string shown;
  for (std::size_t i = 0; i < words.size(); ++i)
    shown += (i == 0 ? "" : i + 1 < words.size() ? ", " : " or ") + words[i];
  const auto complaint = [words, shown](const std::string& word) {
    const bool known = std::find(words.begin(), words.end(), word) != words.end();
    return known ? "" : concat("must be ", shown, ", not ", in_quotes(word));
  };
  return Option(option_->type_name("WORD")->check(validator(shown, complaint)));
}
Option Option::check(std::function<std::string(const std::string&)> complaint) const {
  return Option(option_->check(validator("", std::move(complaint))));
}
Option Option::path() const {
  return check([](const std::string& value) { return value.empty() ? "must not be empty; give a path" : ""; });
}
Option Option::output(Output kind) const {
  option_->type_name(kind == Output::folder ? "FOLDER" : "FILE");
  if (kind == Output::stream) return path();
  return path().check([folder = kind == Output::folder](const std::string& value) {
    if (value == "-")
      return concat("must be a ", folder ? "folder" : "file", ", not standard output; ./- has this name");
    std::error_code error;
    const std::filesystem::file_status there = std::filesystem::status(value, error);
    const bool other = folder && std::filesystem::exists(there) && !std::filesystem::is_directory(there);
    return other ? concat(in_quotes(value), " is not a folder; give another one") : "";
  });
}
Option Option::comma_separated() const { return Option(option_->delimiter(',')); }
Option Option::one_each() const { return Option(option_->allow_extra_args(false)); }
Option Option::or_alone(std::string_view value) const {
  return Option(option_->expected(0, 1)->default_str(std::string(value)));
}
Option Option::show_default() const { return Option(option_->capture_default_str()); }
Option Option::show_default(std::string_view text) const { return Option(option_->default_str(std::string(text))); }

Command Command::add_command(const char* name, const char* what, Action work) {
  CLI::App& added = *app_->add_subcommand(name, what)->footer("");
  added.callback([action = action_, work = std::move(work)] { *action = work; });
  return {&added, action_};
}
Command Command::add_group(const char* name, const char* what) {
  return {app_->add_subcommand(name, what)->footer("")->require_subcommand(1), action_};
}
void Command::footer(const std::string& text) { app_->footer(text); }
void Command::examples(const std::vector<const char*>& lines) {
  std::string text = app_->get_footer();
  text += concat(text.empty() ? "" : "\n\n", "Examples:");
  for (const char* line : lines) text += concat("\n  ", line);
  app_->footer(text);
}

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
template Option Command::add_option(const char*, std::vector<std::int64_t>&, const char*);
template Option Command::add_option(const char*, std::vector<std::uint64_t>&, const char*);
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

/// "-o, --output" or "DESCRIPTOR".
std::string name_of(const CLI::Option& option) {
  if (option.get_positional()) {
    std::string name = option.get_name(true);
    std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return char(std::toupper(c)); });
    return name;
  }
  std::string name;
  for (const std::string& letter : option.get_snames()) name += concat(name.empty() ? "-" : ", -", letter);
  for (const std::string& word : option.get_lnames()) name += concat(name.empty() ? "--" : ", --", word);
  return name;
}

std::string names_of(const std::set<CLI::Option*>& options) {
  std::set<std::string> names;  // sorted by name: pointer order varies between runs
  for (const CLI::Option* option : options) names.insert(name_of(*option));
  return joined({names.begin(), names.end()}, " and ");
}

std::pair<std::string, std::string> type_of(const CLI::Option& option) {
  const std::string all = option.get_type_name();
  const std::size_t colon = all.find(':');
  const std::string type = all.substr(0, colon);
  const bool whole = type == "INT" || type == "UINT";
  return {whole ? "N" : type == "FLOAT" ? "X" : type, colon == all.npos ? "" : all.substr(colon + 1)};
}

/// CLI11 writes several values as "[a,b]".
std::string default_of(const CLI::Option& option) {
  const std::string value = option.get_default_str();
  if (!value.starts_with("[")) return value;
  std::string list;
  for (const char c : value.substr(1, value.size() - 2)) list += c == ',' ? ", " : std::string(1, c);
  return list;
}

HelpEntry entry_of(const CLI::Option& option) {
  const auto [type, values] = type_of(option);
  HelpEntry entry{name_of(option), option.get_description()};
  if (!option.get_positional() && option.get_items_expected_max() > 0) entry.name += " " + type;
  if (option.get_items_expected_max() > 1) entry.name += " ...";
  std::vector<std::string> remarks;
  if (option.get_required() && !option.get_positional()) remarks.emplace_back("required");
  if (!values.empty()) remarks.push_back(values);
  if (!option.get_needs().empty()) remarks.push_back("with " + names_of(option.get_needs()));
  if (!option.get_excludes().empty()) remarks.push_back("not with " + names_of(option.get_excludes()));
  if (const std::string value = default_of(option); !value.empty()) remarks.push_back("default: " + value);
  if (remarks.empty()) return entry;
  const bool in_parentheses = entry.what.ends_with(")");
  if (in_parentheses) entry.what.pop_back();
  entry.what += concat(in_parentheses ? "; " : " (", joined(remarks, "; "), ")");
  return entry;
}

std::string help_of(const CLI::App& command, const std::string& path) {
  HelpPage page{concat(path, ": ", command.get_description()), path, {}, {}};
  HelpSection arguments{"Arguments", {}}, options{"Options", {}}, commands{"Commands", {}};
  std::string usage;
  for (const CLI::Option* option : command.get_options()) {
    (option->get_positional() ? arguments : options).entries.push_back(entry_of(*option));
    if (!option->get_positional()) continue;
    const std::string& name = arguments.entries.back().name;
    usage += option->get_required() ? " " + name : " [" + name + "]";
  }
  for (const CLI::App* part : command.get_subcommands([](const CLI::App*) { return true; }))
    commands.entries.push_back({part->get_name(), part->get_description()});
  page.usage += concat(commands.entries.empty() ? " [OPTIONS]" : " COMMAND [OPTIONS]", usage);
  page.sections = {std::move(arguments), std::move(options), std::move(commands)};
  std::istringstream footer(command.get_footer());
  for (std::string line; std::getline(footer, line);) page.footer.push_back(line);
  constexpr std::size_t kWidest = 100;
  return help_text(page, std::min(kWidest, text_columns()));
}

std::string path_of(const CLI::App* command) {
  std::string path;
  for (; command != nullptr; command = command->get_parent())
    path = concat(command->get_name(), path.empty() ? "" : " ", path);
  return path;
}

/// Replaces CLI11's message.
std::string complaint_of(const CLI::App* command, const CLI::ParseError& error) {
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  const std::string what = error.what(), name = what.substr(0, what.find(':'));
  for (const CLI::Option* option : command->get_options())  // as the help names it
    if (option->get_positional() && what == concat(option->get_name(), " is required"))
      return concat(name_of(*option), " is required; see ", path_of(command), " --help");
  const bool lacks_command = error.get_name() == "RequiredError" && command->get_require_subcommand_min() > 0;
  return concat(lacks_command                            ? std::string("a command is required")
                : error.get_name() == "ArgumentMismatch" ? concat(name, ": a value is required")
                                                         : what,
                "; see ", path_of(command), " --help");
}

void describe_options(const CLI::App& command, const std::string& path, std::vector<DescribedOption>& to) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_items_expected_max() > 0)
      to.push_back({path, name_of(*option), type_of(*option).first, option->get_description()});
  for (const CLI::App* part : command.get_subcommands([](const CLI::App*) { return true; }))
    describe_options(*part, concat(path, path.empty() ? "" : " ", part->get_name()), to);
}

/// CLI11 would blame the words after an unknown option, and say of an unknown command that one is missing.
void refuse_unknown_words(CLI::App* program, const std::vector<std::string>& words) {
  CLI::App* command = program;
  for (const std::string& word : words) {
    if (word == "--") return;
    if (!word.starts_with("-")) {
      const std::vector<CLI::App*> parts = command->get_subcommands([](const CLI::App*) { return true; });
      const auto named = std::find_if(parts.begin(), parts.end(), [&](const auto* p) { return p->get_name() == word; });
      if (named == parts.end() && command != program && command->get_require_subcommand_min() > 0) {
        std::vector<std::string> names;
        for (const CLI::App* part : parts) names.push_back(part->get_name());
        throw InputError(
            concat(unknown_word("command", word, {names.begin(), names.end()}), "; see ", path_of(command), " --help"));
      }
      if (named != parts.end()) command = *named;
      continue;
    }
    if (!word.starts_with("--")) continue;
    const std::string option = word.substr(0, word.find('='));
    if (command->get_option_no_throw(option) != nullptr) continue;
    std::vector<std::string> names;
    for (const CLI::Option* known : command->get_options())
      for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
    throw InputError(
        concat(unknown_word("option", option, {names.begin(), names.end()}), "; see ", path_of(command), " --help"));
  }
}

}  // namespace

CommandLine::CommandLine(const char* program, const char* what, const std::string& version)
    : Command(new CLI::App(what, program), &action_of_command_), program_(app_) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", version, "print the version");
  app_->set_help_flag("-h,--help", "print this help");
  app_->formatter_fn([](const CLI::App* command, const std::string&, CLI::AppFormatMode) {
    return help_of(*command, path_of(command));
  });
}
CommandLine::~CommandLine() = default;

std::vector<DescribedOption> CommandLine::options() const {
  std::vector<DescribedOption> all;
  describe_options(*program_, "", all);
  return all;
}

std::optional<int> CommandLine::read(const std::vector<std::string>& words) {
  refuse_unknown_words(app_, words);
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // the order that CLI11 expects
    app_->parse(reversed);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::ostringstream output, complaint;
    if (app_->exit(error, output, complaint) != 0) throw InputError(complaint_of(app_, error));
    print_text("{}", output.str());
    return 0;
  }
}

}  // namespace normlab
