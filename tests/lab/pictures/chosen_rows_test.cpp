#include "experiments/lab/pictures/chosen_rows.h"

#include <doctest/doctest.h>

#include "core/error.h"

using namespace normlab;

namespace {

TableModel two_depths() {
  TableModel table;
  for (const char* depth : {"depth=4", "depth=12"})
    for (const char* placement : {"pre_pre", "dpn", "sub_ln"}) {
      TableLine& line = table.lines.emplace_back();
      line.label = concat(depth, ", placement=", placement);
      line.plan_index = table.lines.size() - 1;
      line.baseline = line.plan_index / 3 * 3;
      line.is_baseline = line.plan_index % 3 == 0;
    }
  return table;
}

std::vector<std::size_t> rows(const std::vector<std::string>& words, RowWords known = RowWords::of_this_table) {
  TableModel table = two_depths();
  choose_rows(table, words, known);
  std::vector<std::size_t> left;
  for (const TableLine& line : table.lines) left.push_back(line.plan_index);
  return left;
}

}  // namespace

TEST_CASE("chosen rows: labels, parts and values name rows, which keep their baselines") {
  using Rows = std::vector<std::size_t>;
  CHECK(rows({"depth=12", " placement=dpn"}) == Rows{3, 4});  // as a list splits the label
  CHECK(rows({"depth=12, placement=dpn"}) == Rows{3, 4});
  CHECK(rows({"sub_ln"}) == Rows{0, 2, 3, 5});
  CHECK(rows({"depth=4"}) == Rows{0, 1, 2});
  CHECK(rows({"sub_ln", "depth=12", "placement=dpn"}) == Rows{0, 2, 3, 4, 5});
  CHECK(rows({"pre_pre"}) == Rows{0, 3});
}

TEST_CASE("chosen rows: an unknown word is refused with the nearest one, or passed over") {
  CHECK_THROWS_WITH(rows({"dpn", "sub_lm"}), "--rows: unknown row \"sub_lm\"; did you mean \"sub_ln\"?");
  CHECK_THROWS_AS(rows({""}), InputError);
  CHECK(rows({"dpn", "lr=0.1"}, RowWords::of_any_table) == std::vector<std::size_t>{0, 1, 3, 4});
}
