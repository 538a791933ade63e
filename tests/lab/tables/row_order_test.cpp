#include "tests/lab/tables/table_example.h"

using namespace normlab;

namespace {

/// Three placements on two data sets, three seeds each; on the second in the order `second`.
TableInput two_data_sets(const std::vector<double>& second) {
  TableInput input;
  input.axes = {"dataset.name", "model.placement"};
  const char* const placements[] = {"pre_pre", "post_post", "dpn"};
  for (const std::string data : {"a", "b"})
    for (std::size_t p = 0; p < 3; ++p) {
      const double value = data == "a" ? 70 + double(p) : second[p];
      input.rows.push_back(table_row(data + placements[p], {data, placements[p]}, data == "a" ? 0 : 3,
                                     {done_seed(0, value), done_seed(1, value + 0.1), done_seed(2, value - 0.2)}));
    }
  return input;
}

std::vector<std::string> orders(const TableInput& input, const std::string& axis) {
  TableOptions options;
  options.order = axis;
  std::vector<std::string> sentences;
  for (const TableSentence& sentence : table_model(input, options).footer)
    if (sentence.key == "order") sentences.push_back(sentence.text);
  return sentences;
}

}  // namespace

TEST_CASE("row_order: rows of two data sets in the same order agree, and in the opposite order do not") {
  const std::vector<std::string> same = orders(two_data_sets({80, 85, 90}), "placement");
  REQUIRE(same.size() == 4);
  CHECK(same[0].starts_with("Order of rows: Spearman's correlation of two runs with different seeds"));
  CHECK(same[1] == "Order within name=a: 1.00 ±0.00 (3 rows, 3 seeds).");
  CHECK(same[2] == "Order within name=b: 1.00 ±0.00 (3 rows, 3 seeds).");
  CHECK(same[3] == "Order between name=a and name=b: 1.00 ±0.00 (3 rows, 3 seeds).");
  CHECK(orders(two_data_sets({90, 85, 80}), "model.placement")[3] ==
        "Order between name=a and name=b: -1.00 ±0.00 (3 rows, 3 seeds).");
  CHECK(orders(two_data_sets({90, 85, 80}), "").empty());
}

TEST_CASE("row_order: an axis without two orders is refused") {
  TableInput input = two_data_sets({80, 85, 90});
  CHECK_THROWS_WITH(orders(input, "placment"), doctest::Contains("--order: unknown axis \"placment\""));
  CHECK_THROWS_WITH(orders(input, "name"), doctest::Contains("--order dataset.name: two rows beside one baseline"));
  input.rows.resize(3);
  CHECK_THROWS_WITH(orders(input, "placement"),
                    doctest::Contains("no two baselines have three of its values in common"));
}
