// Options that select a data set.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "experiments/lab/cli/command_line.h"
#include "experiments/lab/data/data_source.h"

namespace normlab {

void add_data_source(Command& command, DataSource& source);
/// --labels-from and --class-order; `change` is called with each.
void add_label_options(
    Command& command, std::optional<int>& labels_from, std::string& class_order,
    const std::function<void(Option)>& change = [](Option) {});

}  // namespace normlab
