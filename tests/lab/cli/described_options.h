// The options and arguments of all commands that take a value.
#pragma once

#include <CLI/CLI.hpp>
#include <functional>

#include "experiments/lab/cli/commands.h"

namespace normlab {

struct DescribedOption {
  std::string command, name;  // "data preview", "-o, --output"; an argument in capitals
  std::string type, what;     // "FILE", "FOLDER", "TEXT", "INT", ...; the description
};

inline std::vector<DescribedOption> described_options() {
  struct Opened : CommandLine {
    using CommandLine::CommandLine;
    const CLI::App& app() const { return *app_; }
  };
  Opened line("normlab", "", "");
  add_commands(line, {"--help"});
  std::vector<DescribedOption> all;
  const std::function<void(const CLI::App&, const std::string&)> add = [&](const CLI::App& command,
                                                                           const std::string& path) {
    for (const CLI::Option* option : command.get_options()) {
      if (option->get_items_expected_max() == 0) continue;
      std::string name = option->get_name(false, true), type = option->get_type_name();
      if (const std::size_t comma = name.find(','); comma != name.npos) name.insert(comma + 1, " ");
      all.push_back({path, name, type.substr(0, type.find(':')), option->get_description()});
    }
    for (const CLI::App* part : command.get_subcommands([](const CLI::App*) { return true; }))
      add(*part, path + (path.empty() ? "" : " ") + part->get_name());
  };
  add(line.app(), "");
  return all;
}

}  // namespace normlab
