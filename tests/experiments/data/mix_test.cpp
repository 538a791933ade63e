#include "experiments/data/mix.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numeric>

#include "core/dtype.h"

using namespace normlab;

namespace {

constexpr std::uint64_t kSeed = 5;

std::vector<double> lambdas(const MixConfig& config, std::int64_t steps) {
  std::vector<double> all;
  for (std::int64_t step = 0; step < steps; ++step)
    all.push_back(draw_mixing(config, 2, 16, 16, kSeed, step)[0].lambda);
  return all;
}
double mean(const std::vector<double>& values) {
  return std::accumulate(values.begin(), values.end(), 0.0) / double(values.size());
}

}  // namespace

TEST_CASE("mix: partners are predecessors, or in timm those from the other end") {
  for (const std::int64_t batch : {1, 2, 5, 6}) {
    const auto before = draw_mixing({.mixup = 0.5}, batch, 4, 4, kSeed, 3);
    const auto torchvision = draw_mixing({.mixup = 0.5, .dialect = MixDialect::torchvision}, batch, 4, 4, kSeed, 3);
    const auto reversed = draw_mixing({.mixup = 0.5, .dialect = MixDialect::timm}, batch, 4, 4, kSeed, 3);
    for (std::int64_t i = 0; i < batch; ++i) {
      const auto at = static_cast<std::size_t>(i);
      CHECK(before[at].partner == (i == 0 ? batch - 1 : i - 1));
      CHECK(torchvision[at].partner == before[at].partner);
      CHECK(reversed[at].partner == batch - 1 - i);
      CHECK(before[at].lambda == before[0].lambda);  // one a batch
      CHECK(reversed[at].lambda == torchvision[at].lambda);
    }
  }
}

TEST_CASE("mix: nothing is drawn when both are off, and lambda is Beta's, in big_vision the larger half") {
  for (const Mixing& mixing : draw_mixing({}, 4, 8, 8, kSeed, 0)) CHECK((mixing.lambda == 1 && !mixing.cut));
  // Beta(p, p) has mean 1/2 and variance 1 / (4 (2 p + 1)); folded at p = 1 it is uniform on [1/2, 1].
  for (const double p : {0.2, 0.8, 1.0, 3.0}) {
    const auto drawn = lambdas({.mixup = p, .dialect = MixDialect::timm}, 4000);
    double variance = 0;
    for (const double l : drawn) variance += (l - 0.5) * (l - 0.5) / double(drawn.size());
    CHECK(mean(drawn) == doctest::Approx(0.5).epsilon(0.04));
    CHECK(variance == doctest::Approx(0.25 / (2 * p + 1)).epsilon(0.06));
  }
  const auto folded = lambdas({.mixup = 1.0}, 4000);
  CHECK(*std::min_element(folded.begin(), folded.end()) >= 0.5);
  CHECK(mean(folded) == doctest::Approx(0.75).epsilon(0.02));
}

TEST_CASE("mix: how often anything is mixed, how often it is cutmix; an image at a time as well") {
  for (const MixScope scope : {MixScope::batch, MixScope::image}) {
    const MixConfig config{.mixup = 0.8,
                           .cutmix = 1.0,
                           .dialect = MixDialect::timm,
                           .scope = scope,
                           .probability = 0.6,
                           .switch_probability = 0.3};
    double mixed = 0, cut = 0, all = 0;
    for (std::int64_t step = 0; step < 2000; ++step)
      for (const Mixing& mixing : draw_mixing(config, 4, 32, 32, kSeed, step)) {
        ++all;
        mixed += mixing.cut || mixing.lambda < 1;
        cut += mixing.cut;
      }
    CHECK(mixed / all == doctest::Approx(0.6).epsilon(0.06));
    CHECK(cut / mixed == doctest::Approx(0.3).epsilon(0.1));
  }
  const auto images = draw_mixing({.mixup = 1.0, .scope = MixScope::image}, 3, 8, 8, kSeed, 0);
  CHECK(images[0].lambda != images[1].lambda);
  CHECK(images[1].lambda != images[2].lambda);
  const auto longer = draw_mixing({.mixup = 1.0, .scope = MixScope::image}, 7, 8, 8, kSeed, 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(longer[i].lambda == images[i].lambda);  // by its place alone
}

TEST_CASE("mix: a box lies in the image, is as large as lambda says unless cut off, and lambda is what stays") {
  for (const MixDialect dialect : {MixDialect::timm, MixDialect::torchvision, MixDialect::big_vision}) {
    CAPTURE(int(dialect));
    std::int64_t odd = 0;
    double kept = 0;
    for (std::int64_t step = 0; step < 3000; ++step) {
      const Mixing mixing = draw_mixing({.cutmix = 1.0, .dialect = dialect}, 2, 31, 17, kSeed, step)[0];
      const Box& box = mixing.box;
      REQUIRE(mixing.cut);
      REQUIRE((box.top >= 0 && box.left >= 0 && box.height >= 0 && box.width >= 0));
      REQUIRE((box.top + box.height <= 31 && box.left + box.width <= 17));
      CHECK(mixing.lambda == 1 - double(box.height * box.width) / (31 * 17));
      const bool whole = box.top > 0 && box.top + box.height < 31 && box.left > 0 && box.left + box.width < 17;
      odd += whole && box.height % 2 == 1;
      kept += mixing.lambda / 3000;
    }
    // A middle anywhere: about 0.6 of a uniform lambda's box is left on average. Only timm has odd sides.
    CHECK((odd > 0) == (dialect == MixDialect::timm));
    CHECK(kept > 0.55);
    CHECK(kept < 0.85);
  }
}

TEST_CASE("mix: pixels and targets, rounded once") {
  const std::vector<float> own{1, 2, 3, 4, 5, 6}, partner{10, 20, 30, 40, 50, 60};  // 2x3, one channel
  std::vector<float> out(6);
  mix_image(Mixing{1, 0.75, false, {}}, own.data(), partner.data(), 2, 3, 1, out.data());
  CHECK(out == std::vector<float>{3.25, 6.5, 9.75, 13, 16.25, 19.5});
  mix_image(Mixing{1, 0.5, true, {0, 1, 2, 1}}, own.data(), partner.data(), 2, 3, 1, out.data());
  CHECK(out == std::vector<float>{1, 20, 3, 4, 50, 6});
  std::vector<bf16> narrow(6);
  mix_image(Mixing{1, 0.75, false, {}}, own.data(), partner.data(), 2, 3, 1, narrow.data());
  for (std::size_t i = 0; i < 6; ++i) CHECK(float(narrow[i]) == float(bf16(0.75f * own[i] + 0.25f * partner[i])));

  const std::vector<Mixing> mixings{{1, 0.75, false, {}}, {0, 0.5, false, {}}};
  const std::vector<std::int32_t> labels{2, 0};
  std::vector<double> targets(8);
  mix_targets<double>(mixings, labels, 4, 0.0, Smoothing::all, targets.data());
  CHECK(targets == std::vector<double>{0.25, 0, 0.75, 0, 0.5, 0, 0.5, 0});
  // As torch.nn.functional.cross_entropy spreads it over soft targets: t (1 - e) + e / C.
  std::vector<double> smooth(8);
  mix_targets<double>(mixings, labels, 4, 0.1, Smoothing::all, smooth.data());
  for (std::size_t i = 0; i < 8; ++i) CHECK(smooth[i] == doctest::Approx(targets[i] * 0.9 + 0.025).epsilon(1e-12));
  // Over the others: 1 - e for the label, e / (C - 1) for each other class.
  mix_targets<double>(mixings, labels, 4, 0.3, Smoothing::others, smooth.data());
  CHECK(smooth[0] == doctest::Approx(0.75 * 0.1 + 0.25 * 0.7));
  CHECK(smooth[1] == doctest::Approx(0.1));
  CHECK(smooth[2] == doctest::Approx(0.75 * 0.7 + 0.25 * 0.1));
}
