#include <fmt/format.h>

#include <cstdio>
#include <memory>

#include "experiments/cli/commands.h"
#include "experiments/cli/descriptor_options.h"
#include "experiments/descriptor/schema.h"
#include "experiments/sweep/sweep_table.h"

namespace normlab {

void add_table(CLI::App& app, Action& action) {
  struct TableCommand {
    DescriptorOptions descriptor;
    std::string metric = "eval/accuracy", format = "text";
  };
  auto table = std::make_shared<TableCommand>();
  CLI::App& command = *app.add_subcommand("table", "print the result table of a descriptor, missing cells included");
  table->descriptor.add_file(command);
  table->descriptor.add_out(command);
  command.add_option("--metric", table->metric, "which number of a result")->capture_default_str();
  command.add_option("--format", table->format, "how it is written")
      ->check(CLI::IsMember({"text", "markdown", "csv", "json"}))
      ->capture_default_str();
  command.callback([table, &action] {
    action = [table] {
      const Experiment experiment = table->descriptor.load_staged();
      fmt::print("{}", sweep_table(experiment, ResultStore(table->descriptor.out), table->metric,
                                   *table_format(table->format)));
      return 0;
    };
  });
}

void add_schema(CLI::App& app, Action& action) {
  auto docs = std::make_shared<bool>(false);
  CLI::App& command = *app.add_subcommand("schema", "print the JSON Schema of descriptors, for editors");
  command.add_flag("--keys", *docs, "print all keys with their defaults as a Markdown table instead");
  command.callback([docs, &action] {
    action = [docs] {
      fmt::print("{}\n", *docs ? describe_fields() : json_schema());
      return 0;
    };
  });
}

}  // namespace normlab
