#include "experiments/lab/descriptor/canonical.h"

#include <doctest/doctest.h>

using namespace normlab;

TEST_CASE("config difference: each setting that differs is named, the seed is not") {
  TrialConfig base, other;
  other.seed = 7;
  CHECK(config_differences(base, other).empty());
  other.train.optimizer.lr = 0.002;
  other.train.epochs = 3;
  std::get<ViTConfig>(other.model).depth += 1;
  const auto found = config_differences(base, other);
  REQUIRE(found.size() == 3);
  CHECK(found[0].path == "model.depth");
  CHECK(found[1].path == "train.epochs");
  CHECK(found[1].base == "10.0");
  CHECK(found[1].other == "3.0");
  CHECK(found[2].path == "train.optimizer.lr");
  CHECK(found[2].other == "0.002");
}

TEST_CASE("config difference: a setting of one side only has no value on the other") {
  TrialConfig base, other;
  other.train.optimizer.name = OptimizerName::sgd;  // has a momentum, AdamW has none
  bool only_base = false, only_other = false;
  for (const SettingDifference& difference : config_differences(base, other)) {
    only_base = only_base || difference.other.empty();
    only_other = only_other || difference.base.empty();
  }
  CHECK(only_base);
  CHECK(only_other);
}
