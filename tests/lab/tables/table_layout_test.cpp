// Tables that are too wide, too long or empty.
#include <doctest/doctest.h>

#include "tests/lab/base/text.h"
#include "tests/lab/tables/table_example.h"

using namespace normlab;

TEST_CASE("table: long labels and messages wrap within the width") {
  TableInput input = states_table();
  input.about = std::string(200, 'a') + " and a question that is longer than a line of eighty columns can be, mind you";
  input.rows[1].axes[0] = "model.placement.stem.patch_in=layer_norm, train.schedule.warmup_steps=500, ünïcödé";
  input.rows[4].seeds[0].message =
      "loss is nan at step 17 in blocks.3.attn.pre; see /a/very/long/path/" + std::string(90, 'x');
  const std::string text = rendered(input, TableFormat::text);
  CAPTURE(text);
  check_fits(text);
  CHECK(has(text, "ünïcödé"));
  CHECK(has(text, "nan at step"));
  check_fits(rendered(input, TableFormat::text, {}, 60), 60);
  check_fits(rendered(input, TableFormat::text, {}, 200), 200);
}

TEST_CASE("table: columns that do not fit go into blocks with the labels") {
  TableInput input;
  input.axes = {"model.placement", "train.optimizer.lr"};
  for (const char* placement : {"pre_pre", "dpn"})
    for (int i = 1; i <= 9; ++i)
      input.rows.push_back(
          table_row("", {placement, std::to_string(i)}, std::nullopt, {done_seed(0, 50 + i), done_seed(1, 51 + i)}));
  TableOptions options;
  options.cols = {"lr"};
  const std::string text = rendered(input, TableFormat::text, options);
  CAPTURE(text);
  check_fits(text);
  CHECK(count(text, "placement") == 2);
  CHECK(count(text, "\ndpn ") == 2);
  for (int i = 1; i <= 9; ++i) CHECK(count(text, "lr=" + std::to_string(i)) == 1);
}

TEST_CASE("table: more settings than fit share one column") {
  TableInput input;
  for (int a = 0; a < 12; ++a) input.axes.push_back("train.setting_" + std::to_string(a));
  for (int r = 0; r < 3; ++r) {
    std::vector<std::string> values;
    for (int a = 0; a < 12; ++a) values.push_back("value" + std::to_string(r * a + r));
    input.rows.push_back(table_row("", values, std::nullopt, {done_seed(0, 50.0 + r)}));
  }
  const std::string text = rendered(input, TableFormat::text);
  CAPTURE(text);
  check_fits(text);
  CHECK(has(text, "setting_7=value16"));
  CHECK(has(text, "52.00 (1)"));
}

TEST_CASE("table: characters with a meaning in a format are escaped") {
  TableInput input = states_table();
  input.rows[0].axes[0] = "a|b";
  CHECK(has(rendered(input, TableFormat::markdown), "| a\\|b |"));
  input.rows[0].axes[0] = "a,\"b\"";
  CHECK(has(rendered(input, TableFormat::csv), "\n\"a,\"\"b\"\"\","));
  input.rows[0].axes[0] = "50% of {a}_b & <c> \\ ~^#$";
  CHECK(has(rendered(input, TableFormat::latex),
            "\n50\\% of \\{a\\}\\_b \\& \\textless{}c\\textgreater{} "
            "\\textbackslash{} \\textasciitilde{}\\textasciicircum{}\\#\\$ &"));
  CHECK(has(rendered(input, TableFormat::html), "<th scope=\"row\">50% of {a}_b &amp; &lt;c&gt; \\ ~^#$</th>"));
  input.rows[0].axes[0] = "<script>\"x\"";
  CHECK(!has(rendered(input, TableFormat::html), "<script"));
}

TEST_CASE("table: a LaTeX row may begin with a bracket") {
  TableInput input = states_table();
  input.rows[0].axes[0] = "[0,1]";
  CHECK(has(rendered(input, TableFormat::latex), "\n{}[0,1] &"));
}

TEST_CASE("table: JSON holds a message that is not UTF-8") {
  TableInput input = states_table();
  input.rows[4].seeds[0].message = "not UTF-8: \xff";
  CHECK_NOTHROW(rendered(input, TableFormat::json));
}

TEST_CASE("table: a table without rows renders in every format") {
  for (std::size_t format = 0; format < kWordCount<TableFormat>; ++format)
    CHECK(!rendered(TableInput{}, static_cast<TableFormat>(format)).empty());
}
