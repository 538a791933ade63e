#include "experiments/lab/cli/command_line.h"

#include <fmt/core.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <limits>
#include <set>
#include <sstream>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/base/terminal.h"
#include "experiments/lab/base/text_layout.h"

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
    if (right) return std::string();
    const bool above = bounds.starts_with("at least") && CLI::detail::lexical_cast(text, value) && value > most;
    return concat("must be ", above ? fmt::format("at most {}", most) : bounds, ", not ", in_quotes(text));
  });
}

/// CLI11 writes "a,b".
std::string spaced(const std::string& list) {
  std::string text;
  for (const char c : list) text += c == ',' ? ", " : std::string(1, c);
  return text;
}

/// "-o, --output" or "DESCRIPTOR".
std::string name_of(const CLI::Option& option) { return spaced(option.get_name(false, true)); }

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
  added.callback([parsed = line_, work = std::move(work)] { parsed->action = work; });
  return {&added, line_};
}
Command Command::add_group(const char* name, const char* what) {
  return {app_->add_subcommand(name, what)->footer("")->require_subcommand(1), line_};
}
Command Command::add_form(Option flag, std::initializer_list<const char*> reads) {
  Form& form = line_->forms.emplace_back(Form{app_, flag.option_, {}, "With " + flag.name()});
  for (const char* name : reads) {
    form.title += concat(form.reads.empty() ? ", beside " : ", ", name);
    form.reads.push_back(app_->get_option(name));
  }
  return {app_, line_, &form};
}
void Command::footer(const std::string& text) { app_->footer(text); }
void Command::examples(const std::vector<const char*>& lines) {
  std::string text = app_->get_footer();
  text += concat(text.empty() ? "" : "\n\n", "Examples:");
  for (const char* line : lines) text += concat("\n  ", line);
  app_->footer(text);
}

Option Command::added(CLI::Option* option) const {
  if (form_ != nullptr) option->group(form_->title)->needs(form_->flag);
  return Option(option);
}
Option Command::add_flag(const char* name, bool& value, const char* what) {
  return added(app_->add_flag(name, value, what));
}
Option Command::add_variable(std::string name, Variable variable, const char* what) {
  if (!name.starts_with("-"))  // an argument
    for (char& c : name) c = char(std::toupper(static_cast<unsigned char>(c)));
  return added(std::visit([&](auto* value) { return app_->add_option(name, *value, what); }, variable));
}
Option Command::add_option(const char* name, const Take& take, const char* what) {
  return added(app_->add_option_function<std::string>(name, take, what));
}

namespace {

/// Without the option that `title` is about.
std::string names_of(const std::set<CLI::Option*>& options, const std::string& title = "") {
  std::set<std::string> names;  // sorted by name: pointer order varies between runs
  for (const CLI::Option* option : options)
    if (!title.starts_with("With " + option->get_name())) names.insert(name_of(*option));
  return joined({names.begin(), names.end()}, " and ");
}

std::pair<std::string, std::string> type_of(const CLI::Option& option) {
  const std::string all = option.get_type_name();
  const std::size_t colon = all.find(':');
  const std::string type = all.substr(0, colon);
  const bool whole = type == "INT" || type == "UINT";
  return {whole ? "N" : type == "FLOAT" ? "X" : type, colon == all.npos ? "" : all.substr(colon + 1)};
}

std::string path_of(const CLI::App* command) {
  std::string path;
  for (; command != nullptr; command = command->get_parent())
    path = concat(command->get_name(), path.empty() ? "" : " ", path);
  return path;
}

/// An option's or argument's name and description, as a section of the help shows them.
using HelpEntry = std::pair<std::string, std::string>;

HelpEntry entry_of(const CLI::Option& option) {
  const auto [type, values] = type_of(option);
  auto [name, what] = HelpEntry{name_of(option), option.get_description()};
  if (!option.get_positional() && option.get_items_expected_max() > 0) name += " " + type;
  if (option.get_items_expected_max() > 1) name += " ...";
  std::vector<std::string> remarks;
  if (option.get_required() && !option.get_positional()) remarks.emplace_back("required");
  if (!values.empty()) remarks.push_back(values);
  if (const std::string names = names_of(option.get_needs(), option.get_group()); !names.empty())
    remarks.push_back("with " + names);
  if (!option.get_excludes().empty()) remarks.push_back("not with " + names_of(option.get_excludes()));
  if (std::string value = option.get_default_str(); !value.empty()) {
    if (value.starts_with("[")) value = spaced(value.substr(1, value.size() - 2));  // several values
    remarks.push_back("default: " + value);
  }
  if (remarks.empty()) return {name, what};
  const bool in_parentheses = what.ends_with(")");
  if (in_parentheses) what.pop_back();
  return {name, concat(what, in_parentheses ? "; " : " (", joined(remarks, "; "), ")")};
}

std::string lines_of(const std::string& text, std::size_t columns) {
  return joined(wrapped(text, columns), "\n") + "\n";
}

/// Descriptions stand beside the names, on narrow terminals below them.
std::string section_of(const std::string& title, const std::vector<HelpEntry>& entries, std::size_t columns) {
  constexpr std::size_t kWidestName = 24, kColumnsForTwo = 60;
  std::size_t widest = 0;
  for (const auto& [name, what] : entries) widest = std::max(widest, display_width(name));
  const std::size_t indent = columns >= kColumnsForTwo ? std::min(widest, kWidestName) + 4 : 6;
  std::string out = "\n" + lines_of(title + ":", columns);
  for (const auto& [name, what] : entries) {
    const bool beside = columns >= kColumnsForTwo && display_width(name) + 4 <= indent;
    out +=
        "  " + name + (beside ? std::string(indent - 2 - display_width(name), ' ') : "\n" + std::string(indent, ' '));
    out += joined(wrapped(what, columns - indent), "\n" + std::string(indent, ' ')) + "\n";
  }
  return out;
}

/// Lines of the footer that begin with two spaces are command lines.
std::string help_of(const CLI::App& command) {
  constexpr std::size_t kWidest = 100;
  const std::size_t columns = std::min(kWidest, text_columns());
  const std::string path = path_of(&command);
  std::vector<std::pair<std::string, std::vector<HelpEntry>>> sections{{"Arguments", {}}};
  const auto add = [&](const std::string& title, const HelpEntry& entry) {
    const auto same = [&](const auto& section) { return section.first == title; };
    auto section = std::find_if(sections.begin(), sections.end(), same);
    if (section == sections.end()) section = sections.insert(section, {title, {}});
    section->second.push_back(entry);
  };
  std::string arguments;
  for (const CLI::Option* option : command.get_options()) {
    const HelpEntry entry = entry_of(*option);
    add(option->get_positional() ? "Arguments" : option->get_group(), entry);
    if (option->get_positional()) arguments += option->get_required() ? " " + entry.first : " [" + entry.first + "]";
  }
  const auto parts = command.get_subcommands([](const CLI::App*) { return true; });
  for (const CLI::App* part : parts) add("Commands", {part->get_name(), part->get_description()});
  std::string out = lines_of(concat(path, ": ", command.get_description()), columns) + "\n";
  out += lines_of(concat("Usage: ", path, parts.empty() ? " [OPTIONS]" : " COMMAND [OPTIONS]", arguments), columns);
  for (const auto& [title, entries] : sections)
    if (!entries.empty()) out += section_of(title, entries, columns);
  std::istringstream footer("\n" + command.get_footer());
  for (std::string line; std::getline(footer, line);)
    out +=
        line.starts_with("  ") ? "  " + joined(wrapped(line, columns - 4), " \\\n  ") + "\n" : lines_of(line, columns);
  return out;
}

/// Replaces CLI11's message.
std::string complaint_of(const CLI::App* command, const CLI::ParseError& error) {
  while (!command->get_subcommands().empty()) command = command->get_subcommands().back();
  const std::string what = error.what(), name = what.substr(0, what.find(':'));
  const bool lacks_command = error.get_name() == "RequiredError" && command->get_require_subcommand_min() > 0;
  return concat(lacks_command                            ? std::string("a command is required")
                : what.find(": At Most ") != what.npos   ? concat(name, ": is given more than once")
                : error.get_name() == "ArgumentMismatch" ? concat(name, ": a value is required")
                                                         : what,
                "; see ", path_of(command), " --help");
}

/// CLI11 would blame the words after an unknown option, and say of an unknown command that one is missing.
void refuse_unknown_words(CLI::App* program, const std::vector<std::string>& words) {
  CLI::App* command = program;
  const auto refuse = [&](const char* thing, const std::string& word, const std::vector<std::string>& names) {
    throw InputError(
        concat(unknown_word(thing, word, {names.begin(), names.end()}), "; see ", path_of(command), " --help"));
  };
  for (const std::string& word : words) {
    if (word == "--") return;
    std::vector<std::string> names;
    if (!word.starts_with("-")) {
      CLI::App* named = nullptr;
      for (CLI::App* part : command->get_subcommands([](const CLI::App*) { return true; })) {
        names.push_back(part->get_name());
        if (part->get_name() == word) named = part;
      }
      if (named == nullptr && command != program && command->get_require_subcommand_min() > 0)
        refuse("command", word, names);
      if (named != nullptr) command = named;
    } else if (const std::string option = word.substr(0, word.find('=')); option.starts_with("--")) {
      if (command->get_option_no_throw(option) != nullptr) continue;
      for (const CLI::Option* known : command->get_options())
        for (const std::string& name : known->get_lnames()) names.push_back("--" + name);
      refuse("option", option, names);
    }
  }
}

/// InputError for an option that a form does not read.
void require_read(const Form& form) {
  if (form.flag->count() == 0) return;
  const std::string flag = form.flag->get_name();
  for (const CLI::Option* option : form.command->get_options()) {
    const bool read = option == form.flag || option->get_group() == form.title ||
                      std::find(form.reads.begin(), form.reads.end(), option) != form.reads.end();
    if (option->count() > 0 && !read)
      throw InputError(concat(name_of(*option), ": does not apply with ", flag, "; leave it out; see ",
                              path_of(form.command), " --help"));
  }
}

}  // namespace

CommandLine::CommandLine(const char* program, const char* what, const std::string& version)
    : Command(new CLI::App(what, program), &parsed_), program_(app_) {
  app_->require_subcommand(1);
  app_->set_version_flag("--version", version, "print the version");
  app_->set_help_flag("-h,--help", "print this help");
  app_->formatter_fn([](const CLI::App* command, const std::string&, CLI::AppFormatMode) { return help_of(*command); });
}
CommandLine::~CommandLine() = default;
void CommandLine::require(std::string_view command, std::string_view argument) {
  app_->get_subcommand(std::string(command))->get_option(std::string(argument))->required();
}

std::optional<int> CommandLine::read(const std::vector<std::string>& words) {
  refuse_unknown_words(app_, words);
  try {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // the order that CLI11 expects
    app_->parse(reversed);
    for (const Form& form : parsed_.forms) require_read(form);
    return std::nullopt;
  } catch (const CLI::ParseError& error) {
    std::ostringstream output, complaint;
    if (app_->exit(error, output, complaint) != 0) throw InputError(complaint_of(app_, error));
    print_text("{}", output.str());
    return 0;
  }
}

}  // namespace normlab
