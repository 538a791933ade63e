// Which rows of a table are drawn.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "experiments/lab/tables/table_model.h"

namespace normlab {

/// of_any_table: words that name no row are passed over, since they name rows of another table.
enum class RowWords : std::uint8_t { of_this_table, of_any_table };
/// Keeps the lines that `words` name, and the baselines that they are compared with. A word is a row's label
/// ("depth=12, placement=dyt", in pieces where it has a comma), one of its parts ("depth=12") or a part's value ("dyt").
/// InputError for another word, with a suggestion. Numbers stay those of the whole table.
void choose_rows(TableModel& table, const std::vector<std::string>& words, RowWords known);

}  // namespace normlab
