// What a table says of its evaluated slices.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "tests/lab/base/text.h"
#include "tests/lab/tables/table_example.h"

using namespace normlab;

namespace {

TableInput with_slices(std::int64_t images, double guess) {
  TableInput input = states_table();
  for (TableRow& row : input.rows)
    for (TableSeed& seed : row.seeds)
      if (seed.state == SeedState::done) seed.images = images, seed.guess = guess;
  return input;
}

std::vector<std::string> sentences(const TableInput& input, const std::string& key, const TableOptions& options = {}) {
  std::vector<std::string> found;
  for (const TableSentence& sentence : table_model(input, options).footer)
    if (sentence.key == key) found.push_back(sentence.text);
  return found;
}

using Texts = std::vector<std::string>;

}  // namespace

TEST_CASE("table: guessing and the size of the slice are said once, in every format") {
  const TableInput input = with_slices(38, 31.0 / 38);
  const std::string line = "The evaluation slice has 38 images; always the most frequent class: 81.6%.";
  CHECK(sentences(input, "guessing") == Texts{line});
  for (const TableFormat format : {TableFormat::text, TableFormat::markdown, TableFormat::json})
    CHECK(has(rendered(input, format, {}, 200), line));
  CHECK(has(rendered(input, TableFormat::latex), "always the most frequent class: 81.6\\%"));
  const std::string csv = rendered(input, TableFormat::csv);
  CHECK(has(csv, ",images,guess,notes\n"));
  CHECK(has(csv, ",38,81.57894736842105,"));
  const auto json = nlohmann::json::parse(rendered(input, TableFormat::json));
  CHECK(json["rows"][0]["seeds"][0]["images"] == 38);
  CHECK(json["rows"][0]["seeds"][0]["guess"] == 31.0 / 38);
  // Results that do not record it say nothing.
  CHECK(sentences(states_table(), "guessing").empty());
  CHECK(!has(rendered(states_table(), TableFormat::csv), "guess"));
}

TEST_CASE("table: each data set has its line") {
  TableInput input = with_slices(100, 0.5);
  input.axes = {"benchmark"};
  for (TableSeed& seed : input.rows[1].seeds) seed.images = 3669, seed.guess = 0.0272;
  for (TableSeed& seed : input.rows[2].seeds) seed.images = 21841, seed.guess = 0.000046;
  CHECK(sentences(input, "guessing") ==
        Texts{"pre_pre; dpn: the evaluation slice has 100 images; always the most frequent class: 50.0%.",
              "pre_post: the evaluation slice has 3669 images; always the most frequent class: 2.7%.",
              "post_post: the evaluation slice has 21841 images; always the most frequent class: 0.005%."});
}

TEST_CASE("table: the words are those of the metric") {
  TableInput input = with_slices(100, 0.5);
  const auto of = [&](const std::string& metric) {
    TableOptions options;
    options.metric = metric;
    return sentences(input, "guessing", options).front();
  };
  CHECK(of("minival/accuracy") == "The minival has 100 images; always the most frequent class: 50.0%.");
  CHECK(of("eval/top5_accuracy") ==
        "The evaluation slice has 100 images; always the five most frequent classes: 50.0%.");
  input.unit = "", input.scale = 1;
  CHECK(of("eval/loss") == "The evaluation slice has 100 images; the lowest loss of one answer for all of them: 0.5.");
  for (TableRow& row : input.rows)
    for (TableSeed& seed : row.seeds) seed.guess = std::nullopt;
  CHECK(of("eval/text_recall1") == "The evaluation slice has 100 images.");
}

TEST_CASE("table: runs whose loss is above that of guessing are noted") {
  TableInput input = states_table();
  input.rows[0].seeds[1].above_guessing = input.rows[0].seeds[2].above_guessing = true;
  for (TableSeed& seed : input.rows[1].seeds) seed.above_guessing = true;
  const TableModel model = table_model(input, {});
  CHECK(model.lines[0].notes == Texts{"2/3 loss above guessing"});
  CHECK(model.lines[1].notes == Texts{"loss above guessing"});
  CHECK(sentences(input, "above_guessing").size() == 1);
  CHECK(sentences(states_table(), "above_guessing").empty());
}
