// Values that "tune" draws.
#include "experiments/lab/descriptor/draws.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "experiments/lab/descriptor/tune.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

/// The largest distance between the distribution of `shares` and the uniform one: Kolmogorov's statistic.
double distance_to_uniform(std::vector<double> shares) {
  std::sort(shares.begin(), shares.end());
  double most = 0;
  const double n = double(shares.size());
  for (std::size_t i = 0; i < shares.size(); ++i)
    most = std::max({most, double(i + 1) / n - shares[i], shares[i] - double(i) / n});
  return most;
}

std::string tuned(const std::string& axes, const std::string& seeds = "") {
  return concat("{\"dataset\": {\"train\": \"train[:80%]\", \"minival\": \"train[80%:]\"},\n\"tune\": [{\"axes\": {",
                axes, "}", seeds, "}]}");
}

const char *const kDrawnRate = R"("train.optimizer.lr": {"log_uniform": [1e-4, 1e-2], "n": 8})",
                  *const kDrawnDecay = R"("train.optimizer.weight_decay": {"uniform": [0, 0.3], "n": 8})";

}  // namespace

TEST_CASE("draws: values are uniform, or uniform in the logarithm, with quantiles to match") {
  // 1% of samples of 400 are farther than 1.63 / sqrt(400) = 0.0815 (Kolmogorov).
  for (const std::uint64_t seed : {0, 1, 2}) {
    const Draw log{DrawRange{1e-5, 1}, std::nullopt, 400, seed}, linear{std::nullopt, DrawRange{-2, 3}, 400, seed};
    std::vector<double> shares;
    for (const double value : drawn_values(log, "train.optimizer.lr")) shares.push_back(std::log10(value) / 5 + 1);
    CHECK(distance_to_uniform(shares) < 0.0815);
    CHECK(std::abs(std::count_if(shares.begin(), shares.end(), [](double s) { return s < 0.25; }) - 100) < 26);
    shares.clear();
    for (const double value : drawn_values(linear, "train.optimizer.lr")) shares.push_back((value + 2) / 5);
    CHECK(distance_to_uniform(shares) < 0.0815);
  }
}

TEST_CASE("draws: values are different, have three digits and lie in the range") {
  const Draw draw{DrawRange{1.0004e-4, 1.2e-4}, std::nullopt, 15, 0};
  const std::vector<double> values = drawn_values(draw, "a");
  CHECK(std::set<double>(values.begin(), values.end()).size() == 15);
  for (const double value : values) {
    CHECK(value >= 1.0004e-4);
    CHECK(value <= 1.2e-4);
    CHECK((value == 1.0004e-4 || std::abs(value * 1e6 - std::round(value * 1e6)) < 1e-9));
  }
  CHECK(drawn_values({draw.log_uniform, std::nullopt, 50, 0}, "a").size() < 50);
}

TEST_CASE("draws: a setting that is an integer gets integers") {
  const Draw draw{std::nullopt, DrawRange{2.5, 9.5}, 7, 0};
  for (const char* path : {"train.batch_size", "model.depth", "train.schedule.warmup_steps"}) {
    const std::vector<double> values = drawn_values(draw, path);
    CHECK(std::set<double>(values.begin(), values.end()) == std::set<double>{3, 4, 5, 6, 7, 8, 9});
  }
  std::map<double, int> counts;  // of 400 draws: 100 of each, with a standard deviation of 8.7
  for (std::uint64_t seed = 0; seed < 400; ++seed)
    ++counts[drawn_values({std::nullopt, DrawRange{1, 4}, 1, seed}, "model.depth")[0]];
  CHECK(counts.size() == 4);
  for (const auto& [value, count] : counts) CHECK(std::abs(count - 100) < 30);
  CHECK(drawn_values({std::nullopt, DrawRange{16.2, 16.8}, 1, 0}, "model.image_size").empty());
  for (const char* path : {"train.optimizer.lr", "model.dropout"})
    CHECK(drawn_values(draw, path)[0] != std::round(drawn_values(draw, path)[0]));
  DescriptorFiles files;
  CHECK(files.problems(tuned(R"("train.optimizer.lr": {"uniform": [-1, 1], "n": 3})")) ==
        "d.json:2:55: /tune/0/axes/train.optimizer.lr/uniform/0: must be at least 0, got -1");
  CHECK(files.problems(tuned(R"("train.optimizer.lr": {"log_uniform": [1e-9, 1e300], "n": 3})"))
            .find("uniform/1: is more than a float can hold") != std::string::npos);
  CHECK(files.problems(tuned(R"("train.batch_size": {"uniform": [0, 9], "n": 3})"))
            .find("uniform/0: must be at least 1") != std::string::npos);
  CHECK(files.load(tuned(R"("train.batch_size": {"log_uniform": [32, 256], "n": 4})")).trials.size() == 4);
  CHECK(files.problems(tuned(R"("train.batch_size": {"uniform": [32, 34], "n": 4})"))
            .find("the range holds fewer than 4 different integers of three significant digits") != std::string::npos);
}

TEST_CASE("draws: they depend on seed and key alone, and keys are independent") {
  const Draw draw{std::nullopt, DrawRange{0, 1}, 200, 0};
  const auto a = drawn_values(draw, "a"), b = drawn_values(draw, "b");
  CHECK(a == drawn_values(draw, "a"));
  CHECK(a != drawn_values({std::nullopt, draw.uniform, 200, 1}, "a"));
  double covariance = 0;
  for (std::size_t i = 0; i < a.size(); ++i) covariance += (a[i] - 0.5) * (b[i] - 0.5) / 200;
  CHECK(std::abs(12 * covariance) < 0.2);  // the correlation, whose error is 0.07
  // Fewer draws are the first of more.
  const auto few = drawn_values({std::nullopt, draw.uniform, 5, 0}, "a");
  CHECK(few == std::vector<double>(a.begin(), a.begin() + 5));
}

TEST_CASE("draws: keys drawn together make points, which are combined with lists") {
  DescriptorFiles files;
  const Experiment one = files.load(tuned(kDrawnRate, ", \"seeds\": 2"));
  CHECK(one.trials.size() == 16);
  const Experiment both = files.load(tuned(concat(kDrawnRate, ", ", kDrawnDecay)));
  CHECK(both.trials.size() == 8);
  const Experiment product = files.load(tuned(concat(kDrawnRate, ", \"model.dropout\": [0, 0.1], ", kDrawnDecay)));
  CHECK(product.trials.size() == 16);
  std::set<double> rates;
  for (const Trial& trial : both.trials) {
    const OptimizerSettings& optimizer = trial.config.train.optimizer;
    rates.insert(optimizer.lr);
    CHECK(optimizer.weight_decay <= 0.3);
    CHECK(trial.label.find(value_text(optimizer.lr)) != std::string::npos);
  }
  CHECK(rates.size() == 8);
  const std::vector<double> values = drawn_values({DrawRange{1e-4, 1e-2}, std::nullopt, 8, 0}, "train.optimizer.lr");
  CHECK(both.trials[3].config.train.optimizer.lr == values[3]);
}

TEST_CASE("draws: an archive's descriptor states the seed, and gives the same trials") {
  DescriptorFiles files;
  const Experiment given = files.load(tuned(kDrawnRate));
  const auto whole = nlohmann::json::parse(given.whole.json);
  CHECK(whole["tune"][0]["axes"]["train.optimizer.lr"]["seed"] == 0);
  const Experiment again = files.load(given.whole.json);
  REQUIRE(again.trials.size() == given.trials.size());
  for (std::size_t t = 0; t < given.trials.size(); ++t) CHECK(again.trials[t].id == given.trials[t].id);
}

TEST_CASE("draws: a winner is at the edge only where one key is drawn alone, and 0 is no edge") {
  DescriptorFiles files;
  const auto edges = [&](const std::string& axes) {
    std::size_t count = 0;
    const Experiment e = files.load(tuned(axes));
    const TuneStage& stage = e.tuned->stages().front();
    for (std::size_t c = 0; c < stage.candidates(); ++c)
      for (const TunedValue& value : stage.values(c)) count += value.at_edge;
    return count;
  };
  CHECK(edges(kDrawnRate) == 2);
  CHECK(edges(kDrawnDecay) == 1);
  CHECK(edges(concat(kDrawnRate, ", ", kDrawnDecay)) == 0);
  CHECK(edges(concat(kDrawnRate, ", \"model.dropout\": [0, 0.1]")) == 2 * 2 + 8);
}

TEST_CASE("draws: the errors say where and what to write") {
  DescriptorFiles files;
  const auto problem = [&](const std::string& axes, const std::string& what) {
    const std::string found = files.problems(tuned(axes));
    CHECK_MESSAGE(found.find(what) != found.npos, axes, ": ", found);
  };
  const std::string at = "/tune/0/axes/train.optimizer.lr";
  problem(R"("train.optimizer.lr": {"n": 8})", at + ": expected one of \"log_uniform\" and \"uniform\"");
  problem(R"("train.optimizer.lr": {"log_uniform": [1e-4, 1e-2]})", at + ": the key \"n\" is missing");
  problem(R"("train.optimizer.lr": {"log_uniform": [0, 1e-2], "n": 8})", at + "/log_uniform/0: ");
  problem(R"("train.optimizer.lr": {"uniform": [2, 1], "n": 8})", "the first number is larger than the second");
  problem(R"("train.optimizer.lr": {"uniform": [1, 2], "n": 0})", at + "/n: expected a number from 1 to 100000, got 0");
  problem(R"("train.optimizer.lr": {"uniform": [1, 1], "n": 2})", "holds fewer than 2 different values");
  problem(R"("train.optimizer.lr": {"loguniform": [1, 2], "n": 2})", "did you mean \"log_uniform\"?");
  problem(concat(kDrawnRate, R"(, "model.dropout": {"uniform": [0, 0.5], "n": 4})"),
          "drawn together with train.optimizer.lr; give both the same \"n\", such as 8");
  problem(R"("train.optimizer.lr": {"uniform": [-3, -1], "n": 2})", at + "/uniform/1: must be at least 0, got -1");
  problem(R"("train.optimizer.name": {"uniform": [1, 3], "n": 2})", "/tune/0/axes/train.optimizer.name: ");
  CHECK(files.problems(concat("{\"sweep\": {", kDrawnRate, "}}"))
            .find("values are drawn for one key of \"tune\" at a time") != std::string::npos);
}
