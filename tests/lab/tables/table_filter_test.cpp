#include "experiments/lab/tables/table_filter.h"

#include <doctest/doctest.h>

#include "core/error.h"
#include "tests/lab/tables/table_example.h"

using namespace normlab;

namespace {

std::vector<std::string> shown(const TableInput& input, const std::string& where, const std::string& sort = "") {
  TableOptions options;
  options.where = where;
  options.sort = sort;
  std::vector<std::string> labels;
  for (const TableLine& line : table_model(input, options).lines) labels.push_back(line.label);
  return labels;
}

std::string filter_error(const TableInput& input, const std::string& where, const std::string& sort = "") {
  try {
    shown(input, where, sort);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

using Labels = std::vector<std::string>;

}  // namespace

TEST_CASE("table_filter: an axis is named by its path or its last key") {
  const TableInput input = strips_table();
  CHECK(shown(input, "placement = dpn") == Labels{"placement=dpn, lr=0.001", "placement=dpn, lr=0.003"});
  CHECK(shown(input, "model.placement = 'dpn' and lr = 1e-3") == Labels{"placement=dpn, lr=0.001"});
  CHECK(shown(input, "\"train.optimizer.lr\" >= 0.003 and not placement = dpn") ==
        Labels{"placement=pre_pre, lr=0.003", "placement=sub_ln, lr=0.003"});
}

TEST_CASE("table_filter: brackets, conjunctions and disjunctions bind in this order") {
  const TableInput input = strips_table();
  CHECK(shown(input, "lr<0.002 and (placement=dpn or placement=sub_ln)") ==
        Labels{"placement=dpn, lr=0.001", "placement=sub_ln, lr=0.001"});
  CHECK(shown(input, "lr=0.001 and placement=dpn or placement=sub_ln") ==
        Labels{"placement=dpn, lr=0.001", "placement=sub_ln, lr=0.001", "placement=sub_ln, lr=0.003"});
}

TEST_CASE("table_filter: a condition may name a column") {
  const TableInput input = strips_table();
  CHECK(shown(input, "gain > 1") == Labels{"placement=dpn, lr=0.001", "placement=dpn, lr=0.003"});
  CHECK(shown(input, "gain <= 1") == Labels{"placement=sub_ln, lr=0.001", "placement=sub_ln, lr=0.003"});
  CHECK(shown(input, "mean > 75 and n = 5") == Labels{"placement=dpn, lr=0.001", "placement=sub_ln, lr=0.001"});
  CHECK(shown(input, "differs = 1 and p < 0.01") == Labels{"placement=dpn, lr=0.001", "placement=dpn, lr=0.003"});
  CHECK(shown(input, "row = 'placement=dpn, lr=0.001'") == Labels{"placement=dpn, lr=0.001"});
  CHECK(shown(states_table(), "diverged > 0 or missing>=1 and failed = 1") == Labels{"post_post", "sub_ln"});
}

TEST_CASE("table_filter: a negated condition holds for a row without a value") {
  CHECK(shown(strips_table(), "not gain > -100") ==  // baselines have no gain
        Labels{"placement=pre_pre, lr=0.001", "placement=pre_pre, lr=0.003"});
}

TEST_CASE("table_filter: an empty condition shows every row") {
  CHECK(shown(strips_table(), "") == Labels{"placement=pre_pre, lr=0.001", "placement=pre_pre, lr=0.003",
                                            "placement=dpn, lr=0.001", "placement=dpn, lr=0.003",
                                            "placement=sub_ln, lr=0.001", "placement=sub_ln, lr=0.003"});
}

TEST_CASE("table_filter: an error names the column of the condition") {
  const TableInput input = strips_table();
  CHECK(filter_error(input, "placment = dpn") ==
        "--where: column 1: unknown axis or column \"placment\"; did you mean \"placement\"?\n  placment = dpn\n  ^");
  CHECK(filter_error(input, "lr < 1 and gian > 2").starts_with("--where: column 12: unknown axis or column \"gian\""));
  CHECK(filter_error(input, "lr ~ 1").starts_with("--where: column 4: expected one of ="));
  CHECK(filter_error(input, "lr = ").starts_with("--where: column 6: expected a value"));
  CHECK(filter_error(input, "lr > fast").starts_with("--where: column 6: \"fast\" is not a number"));
  CHECK(filter_error(input, "(lr = 1").starts_with("--where: column 1: this bracket is not closed"));
  CHECK(filter_error(input, "lr = 'x").starts_with("--where: column 6: this quote is not closed"));
  CHECK(filter_error(input, "lr = 1 lr = 2")
            .starts_with("--where: column 8: expected \"and\", \"or\" or the end of the condition"));
  CHECK(filter_error(input, "lr = 'ü' x").starts_with("--where: column 10: "));  // columns, not bytes
  CHECK(filter_error(input, std::string(5000, '(')).find("nested too deeply") != std::string::npos);
}

TEST_CASE("table_filter: a condition that no row meets is an error") {
  const TableInput input = strips_table();
  CHECK(filter_error(input, "gain > 100") == "--where: no row matches gain > 100");
}

TEST_CASE("table_filter: rows sort by an axis") {
  const TableInput input = strips_table();
  CHECK(shown(input, "placement=dpn", "-lr") == Labels{"placement=dpn, lr=0.003", "placement=dpn, lr=0.001"});
  CHECK(shown(input, "lr=0.003", "placement") ==
        Labels{"placement=dpn, lr=0.003", "placement=pre_pre, lr=0.003", "placement=sub_ln, lr=0.003"});
}

TEST_CASE("table_filter: rows sort by a column, those without a value last") {
  const TableInput input = strips_table();
  CHECK(shown(input, "lr = 0.001", "-gain") ==
        Labels{"placement=dpn, lr=0.001", "placement=sub_ln, lr=0.001", "placement=pre_pre, lr=0.001"});
  CHECK(shown(input, "lr = 0.001", "gain") ==
        Labels{"placement=sub_ln, lr=0.001", "placement=dpn, lr=0.001", "placement=pre_pre, lr=0.001"});
}

TEST_CASE("table_filter: sorting by an unknown column is an error") {
  CHECK(filter_error(strips_table(), "", "-gian") == "--sort: unknown axis or column \"gian\"; did you mean \"gain\"?");
}

TEST_CASE("table_filter: a filter leaves every number of a row as it is") {
  TableOptions options;
  const TableModel all = table_model(strips_table(), options);
  options.where = "placement = dpn";
  const TableModel some = table_model(strips_table(), options);
  REQUIRE(some.lines.size() == 2);
  for (const TableLine& line : some.lines) {
    const TableLine& same = all.lines[line.plan_index];
    CHECK(line.gain.text == same.gain.text);
    CHECK(line.gain_half_width.value == same.gain_half_width.value);
    CHECK(line.p.value == same.p.value);
  }
}

TEST_CASE("table_filter: a filtered table names the axes that differ and counts its rows") {
  TableOptions options;
  options.where = "placement = dpn";
  const TableModel some = table_model(strips_table(), options);
  CHECK(some.axes == std::vector<std::string>{"train.optimizer.lr"});  // the placement is the same in all rows
  CHECK(some.footer.back().text ==
        "2 of 6 rows are shown (placement = dpn); all of them are counted in intervals and marks.");
}

TEST_CASE("table_filter: an axis is named by the shortest end of its path that no other has") {
  const std::vector<std::string> momenta{"model.placement.attn.pre.momentum", "model.placement.mlp.pre.momentum"};
  CHECK(axis_name(momenta, 0) == "attn.pre.momentum");
  CHECK(table_fields(momenta).find("mlp.pre.momentum") == 1);
  CHECK(axis_name({"lr", "train.optimizer.lr"}, 0) == "lr");
  CHECK(axis_name({"lr", "train.optimizer.lr"}, 1) == "optimizer.lr");
}

TEST_CASE("table_filter: axes with the same last key are named by their path") {
  const std::vector<std::string> axes{"a.lr", "b.lr", "c.width"};
  CHECK(axis_name(axes, 0) == "a.lr");
  CHECK(axis_name(axes, 2) == "width");
  const FieldNames fields = table_fields(axes);
  CHECK(!fields.find("lr"));
  CHECK(fields.find("b.lr") == 1);
  CHECK(fields.find("width") == 2);
}
