// `normlab eval --predictions --confusion`, and folders of images without classes.
#include "experiments/lab/cli/eval_forms.h"

#include <doctest/doctest.h>

#include <cmath>

#include "experiments/lab/weights/npy.h"
#include "tests/lab/base/text.h"
#include "tests/lab/cli/program.h"
#include "tests/lab/data/fixtures.h"

using namespace normlab;
using namespace normlab::test;
namespace fs = std::filesystem;

namespace {

const std::vector<std::string> kNames{"ant, big", "bee \"b\"", "cat\nnap", "dog", "eel", "fox", "gnu"};

/// Seven classes, of which the first has most images.
class Training {
 public:
  Training() {
    for (const std::string split : {"train", "test"})
      for (std::size_t c = 0; c < kNames.size(); ++c)
        for (std::size_t i = 0; i < (c == 0 ? 12u : 2u); ++i)
          write_file(folder / "data" / "pets" / split / kNames[c] / concat("no, ", i, ".png"),
                     make_png(16, 16, static_cast<unsigned>(40 * c + i + (split == "test" ? 7 : 0))));
    write_file(folder / "pets.json", R"({
      "about": "a test", "dataset": {"name": "pets", "layout": "image_folder", "mean": [0.4, 0.41, 0.37],
                                     "std": [0.2, 0.21, 0.22]},
      "model": {"image_size": 16, "patch_size": 8, "embed_dim": 16, "depth": 1, "num_heads": 2},
      "train": {"steps": 8, "batch_size": 6, "eval_transform": {"crop": "center", "crop_pct": 0.9}},
      "eval": {"metrics": ["balanced_accuracy", "top5_accuracy", "per_class"]}})");
    run = command("run pets.json --out results --data data");
    for (const auto& entry : fs::directory_iterator(folder / "results" / "trials")) id = entry.path().filename();
  }
  Finished command(const std::string& arguments) const {
    return run_program(folder, arguments, "cd '" + folder.path().string() + "'; export NORMLAB_DATA=data; ");
  }
  TemporaryFolder folder;
  Finished run;
  std::string id;
};

const Training& trained() {
  static const Training once;
  return once;
}

/// Rows of a CSV file (RFC 4180), read here by other means than it was written.
std::vector<std::vector<std::string>> rows_of(const std::string& text) {
  std::vector<std::vector<std::string>> rows(1, {""});
  bool quoted = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (quoted && c == '"' && i + 1 < text.size() && text[i + 1] == '"')
      rows.back().back() += text[i++];
    else if (c == '"')
      quoted = !quoted;
    else if (quoted || (c != ',' && c != '\n'))
      rows.back().back() += c;
    else if (c == ',')
      rows.back().emplace_back();
    else
      rows.emplace_back(1, "");
  }
  rows.pop_back();
  return rows;
}

}  // namespace

TEST_CASE("answers: probabilities are those of the softmax, or of the class's sigmoid") {
  const double logits[] = {1.0, 3.0, -2.0};
  // exp(3) / (exp(1) + exp(3) + exp(-2)), and 1 / (1 + exp(-3)).
  CHECK(largest_probability(logits, false) == doctest::Approx(0.8756005950630876).epsilon(1e-12));
  CHECK(largest_probability(logits, true) == doctest::Approx(0.9525741268224334).epsilon(1e-12));
  const double large[] = {1000.0, 999.0};
  CHECK(largest_probability(large, false) == doctest::Approx(1 / (1 + std::exp(-1.0))));
}

TEST_CASE("answers: predictions and confusion agree with the logits and with the result") {
  const Training& t = trained();
  CAPTURE(t.run.err);
  REQUIRE(t.run.code == 0);
  CHECK(has(t.run.out, "The evaluation slice has 24 images; always the most frequent class: 50.0%."));
  const Finished done = t.command("eval " + t.id + " --predictions p.csv --confusion c.csv --logits l.npy");
  CAPTURE(done.err);
  REQUIRE(done.code == 0);
  CHECK(has(done.out, "always the most frequent class: accuracy 50.00%; lowest loss of one answer for all 1.589"));
  const auto predictions = rows_of(text_of(t.folder / "p.csv")), confusion = rows_of(text_of(t.folder / "c.csv"));
  CHECK(predictions[0] == std::vector<std::string>{"file", "true_class", "answer", "probability"});
  REQUIRE(predictions.size() == 25);
  CHECK(predictions[1][0] == "ant, big/no, 0.png");
  std::vector<std::string> header{"true class / answer"};
  header.insert(header.end(), kNames.begin(), kNames.end());
  REQUIRE(confusion.size() == kNames.size() + 1);
  CHECK(confusion[0] == header);
  const std::vector<float> logits = read_npy(t.folder / "l.npy").floats();
  double right = 0, balanced = 0, top = 0;
  for (std::size_t c = 0; c < kNames.size(); ++c) {
    CHECK(confusion[c + 1][0] == kNames[c]);
    std::vector<int> counts(kNames.size());
    double own = 0, all = 0;
    for (std::size_t i = 0; i < 24; ++i) {
      if (predictions[i + 1][1] != kNames[c]) continue;
      const auto z = std::span(logits).subspan(7 * i, 7);
      const auto best = std::size_t(std::max_element(z.begin(), z.end()) - z.begin());
      CHECK(predictions[i + 1][2] == kNames[best]);
      double sum = 0;
      for (const float value : z) sum += std::exp(double(value) - double(z[best]));
      CHECK(std::stod(predictions[i + 1][3]) == doctest::Approx(1 / sum).epsilon(1e-6));
      ++counts[best];
      own += best == c, all += 1, right += best == c;
      top += std::count_if(z.begin(), z.end(), [&](float value) { return value > z[c]; }) < 5;
    }
    balanced += own / all / 7;
    for (std::size_t k = 0; k < kNames.size(); ++k) CHECK(confusion[c + 1][k + 1] == std::to_string(counts[k]));
  }
  const auto table = [&](const std::string& metric) {
    return t.command("table pets.json --out results --format csv --metric '" + metric + "'").out;
  };
  CHECK(has(table("eval/accuracy"), concat(',', 100 * right / 24).substr(0, 7)));
  CHECK(has(table("eval/balanced_accuracy"), concat(',', 100 * balanced).substr(0, 7)));
  CHECK(has(table("eval/top5_accuracy"), concat(',', 100 * top / 24).substr(0, 7)));
  CHECK(has(table("eval/class_accuracy/cat\\nnap"), "eval/class_accuracy/cat\\nnap [%]"));
  const Finished again = t.command("eval " + t.id);
  CHECK(has(again.out, "eval/balanced_accuracy"));
  CHECK(has(again.out, "bit-identical to the trial's result"));
  const Finished unknown = t.command("table pets.json --out results --metric eval/accurcy");
  CHECK(unknown.code == 2);
  CHECK(has(unknown.err, "eval/class_accuracy/CLASS"));
  CHECK(!has(unknown.err, "gnu"));
}

TEST_CASE("answers: finished trials that lack a metric are named with what to do") {
  const Training& t = trained();
  std::string text = text_of(t.folder / "pets.json");
  text.replace(text.find(",\n      \"eval\""), text.npos, "}");
  write_file(t.folder / "plain.json", text);
  REQUIRE(t.command("run plain.json --out plain").code == 0);
  const Finished plan = t.command("plan pets.json --out plain --gflops 10");
  CAPTURE(plan.err);
  CHECK(has(plan.out, "1 of 1 done"));
  CHECK(has(plan.out, "Finished, but without these metrics of the descriptor's eval.metrics:"));
  CHECK(has(plan.out, "eval/balanced_accuracy, eval/top5_accuracy, eval/class_accuracy/CLASS\nRemove these folders"));
  CHECK(!has(t.command("plan pets.json --out results --gflops 10").out, "Finished, but"));
  const Finished table = t.command("table pets.json --out plain --metric eval/balanced_accuracy");
  CHECK(table.code == 2);
  CHECK(has(table.err, "no result has it; add \"balanced_accuracy\" to the descriptor's eval.metrics"));
}

TEST_CASE("answers: outputs that cannot be are refused before the evaluation") {
  const Training& t = trained();
  const auto refused = [&](const std::string& options, const std::string& why) {
    const Finished done = t.command("eval " + t.id + " " + options);
    CAPTURE(done.err);
    CHECK(done.code == 2);
    CHECK(done.out.empty());
    CHECK(has(done.err, why));
  };
  refused("--predictions x.csv --confusion x.csv", "x.csv: is given twice");
  refused("--predictions results/trials/" + t.id + "/p.csv", "is in the folder of a trial");
  refused("--data data/pets/test/dog --confusion c.csv", "--confusion: the images have no labels");
  refused("--data data/pets/test/dog --slice test", "--slice: data/pets/test/dog holds images without classes");
}

TEST_CASE("answers: a folder of images without classes gets answers and no accuracy") {
  const Training& t = trained();
  const fs::path folder = t.folder / "holiday";
  fs::create_directories(folder / "day 2");
  fs::copy_file(t.folder / "data/pets/test/dog/no, 1.png", folder / "a,b.png");
  fs::copy_file(t.folder / "data/pets/test/ant, big/no, 3.png", folder / "day 2" / "c.png");
  write_file(folder / "notes.txt", "x");
  const Finished done = t.command("eval " + t.id + " --data holiday");
  CAPTURE(done.err);
  CHECK(done.code == 0);
  CHECK(has(done.err, "holiday: 2 images without classes; not read:\n"));
  CHECK(has(done.err, "notes.txt: is not an image"));
  CHECK(!has(done.out + done.err, "accuracy"));
  const auto rows = rows_of(done.out);
  REQUIRE(rows.size() == 3);
  CHECK(rows[0] == std::vector<std::string>{"file", "answer", "probability"});
  // The training's own transform and normalisation: the same answers as for the labelled images.
  t.command("eval " + t.id + " --predictions labelled.csv");
  for (const auto& [file, of] : {std::pair{1, "dog/no, 1.png"}, {2, "ant, big/no, 3.png"}})
    for (const auto& labelled : rows_of(text_of(t.folder / "labelled.csv")))
      if (labelled[0] == of) {
        CHECK(rows[std::size_t(file)][1] == labelled[2]);
        CHECK(std::stod(rows[std::size_t(file)][2]) == doctest::Approx(std::stod(labelled[3])).epsilon(1e-5));
      }
  CHECK(rows[1][0] == "a,b.png");
  CHECK(rows[2][0] == "day 2/c.png");
  // A file; damaged images are named, and cost only themselves.
  write_file(folder / "broken.png", "\x89PNG\r\n\x1a\nrubbish");
  const Finished damaged = t.command("eval " + t.id + " --data holiday --predictions out/p.csv");
  CHECK(damaged.code == 2);
  CHECK(damaged.out.empty());
  CHECK(has(damaged.err, "broken.png"));
  CHECK(text_of(t.folder / "out" / "p.csv") == done.out);
  // Folders of classes are labelled data, as they were with --layout.
  const Finished labelled = t.command("eval " + t.id + " --data data/pets");
  CHECK(labelled.code == 0);
  CHECK(labelled.out == t.command("eval " + t.id + " --data data/pets --layout image_folder").out);
  CHECK(has(labelled.out, " of 24), loss "));
  CHECK(t.command("eval " + t.id + " --data data/pets/test").out == labelled.out);
  fs::create_directories(t.folder / "some" / "dog");
  fs::create_directories(t.folder / "some" / "dgo");
  const Finished misspelt = t.command("eval " + t.id + " --data some");
  CHECK(misspelt.code == 2);
  CHECK(has(misspelt.err, "some of its folders are classes of the training, others are not: \"dgo\""));
}
