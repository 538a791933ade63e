#include "experiments/lab/metrics/few_shot.h"

#include <fmt/core.h>

#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"
#include "tests/reference/fixture.h"

namespace normlab::reference {
namespace {

std::vector<std::int32_t> labels_of(const Fixture& f, const std::string& name) {
  const std::vector<double> numbers = f.numbers(name);
  return {numbers.begin(), numbers.end()};
}

Features features_of(const Fixture& f, const std::string& name) {
  return {static_cast<std::size_t>(f.shape(name).back()), f.numbers(name)};
}

template <class List>
void add_list(Results& results, const std::string& name, const List& list) {
  results.add(name, {std::ssize(list)}, {list.begin(), list.end()});
}

void add_classifier(Results& results, const std::string& suffix, const FewShotClassifier& classifier,
                    const Features& test, std::int64_t classes) {
  results.add("out/w" + suffix, {std::int64_t(test.width) + 1, classes}, classifier.weights());
  results.add("out/scores" + suffix, {std::int64_t(test.rows()), classes}, classifier.scores(test));
  add_list(results, "out/predictions" + suffix, classifier.predictions(test));
}

}  // namespace

std::vector<Results> run_few_shot(const Fixture& f) {
  const std::int64_t classes = f.config().at("num_classes").get<std::int64_t>();
  const Features train = features_of(f, "in/x_train"), test = features_of(f, "in/x_test");
  const std::vector<std::int32_t> labels = labels_of(f, "in/y_train");
  Results results{"double"};
  if (f.op() == "few_shot") {
    int number = 0;
    for (const auto& l2 : f.config().at("l2"))
      add_classifier(results, fmt::format("_{}", number++), FewShotClassifier(train, labels, classes, l2.get<double>()),
                     test, classes);
    return {results};
  }
  const double l2 = f.config().at("l2").get<double>();
  const std::vector<std::int32_t> wanted = labels_of(f, "in/y_test");
  for (const auto& run : f.config().at("runs")) {
    const auto seed = run.at("seed").get<std::uint64_t>();
    const auto shots = run.at("shots").get<std::int64_t>();
    const std::string suffix = fmt::format("_seed{}_shots{}", seed, shots);
    const std::vector<std::size_t> chosen = few_shot_choice(labels, classes, seed, shots);
    add_list(results, "out/index" + suffix, chosen);
    Features some{train.width};
    std::vector<std::int32_t> some_labels;
    for (const std::size_t i : chosen) {
      some.values.insert(some.values.end(), train.row(i).begin(), train.row(i).end());
      some_labels.push_back(labels[i]);
    }
    const FewShotClassifier classifier(some, some_labels, classes, l2);
    add_classifier(results, suffix, classifier, test, classes);
    const std::vector<std::int32_t> found = classifier.predictions(test);
    double right = 0;
    for (std::size_t i = 0; i < found.size(); ++i) right += found[i] == wanted[i];
    if (right / double(found.size()) != run.at("accuracy").get<double>())
      throw InputError(fmt::format("accuracy{} is {}", suffix, right / double(found.size())));
  }
  return {results};
}

std::vector<std::string> check_numpy_permutations(const std::filesystem::path& path) {
  const nlohmann::json table = parse_strict_json(read_file(path), path.string());
  std::vector<std::string> failures;
  for (const auto& row : table.at("rows")) {
    const auto seed = row.at("seed").get<std::uint64_t>();
    std::vector<std::string> words, numbers;
    for (const std::uint32_t word : numpy_seed_words(seed)) words.push_back(fmt::format("{:08x}", word));
    NumpyRandom first(seed), random(seed);
    for (int i = 0; i < 4; ++i) numbers.push_back(fmt::format("{:016x}", first.next64()));
    if (words != row.at("seed_words")) failures.push_back(fmt::format("seed {}: other words", seed));
    if (numbers != row.at("next64")) failures.push_back(fmt::format("seed {}: other numbers", seed));
    for (const auto& expected : row.at("permutations_in_turn")) {
      std::vector<std::int64_t> values(expected.size());
      for (std::size_t i = 0; i < values.size(); ++i) values[i] = std::int64_t(i);
      random.shuffle(values);
      if (values != expected.get<std::vector<std::int64_t>>())
        failures.push_back(fmt::format("seed {}: another permutation of {}", seed, values.size()));
    }
  }
  return failures;
}

}  // namespace normlab::reference
