#include "experiments/cli/commands.h"

namespace normlab {

void add_data(CLI::App& app, Action& action) {
  CLI::App& data = *app.add_subcommand("data", "look at datasets and bring them into another form");
  data.require_subcommand(1);
  add_data_info(data, action);
  add_data_pack(data, action);
  add_data_preview(data, action);
}

}  // namespace normlab
