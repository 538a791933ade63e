#include "experiments/lab/data/mix.h"

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

const std::vector<float> kOwn{1, 2, 3, 4, 5, 6}, kPartner{10, 20, 30, 40, 50, 60};  // 2x3, one channel

constexpr MixDialect kDialects[] = {MixDialect::timm, MixDialect::torchvision, MixDialect::big_vision};

/// What cutmix draws for images of 31x17 in 3000 steps.
std::vector<Mixing> cutmixes(MixDialect dialect) {
  std::vector<Mixing> all;
  for (std::int64_t step = 0; step < 3000; ++step)
    all.push_back(draw_mixing({.cutmix = 1.0, .dialect = dialect}, 2, 31, 17, kSeed, step)[0]);
  return all;
}

const std::vector<Mixing> kMixings{{1, 0.75, false, {}}, {0, 0.5, false, {}}};
const std::vector<double> kTargets{0.25, 0, 0.75, 0, 0.5, 0, 0.5, 0};

/// The targets of kMixings for two images of classes 2 and 0 of 4.
std::vector<double> targets_of(double smoothing, Smoothing kind) {
  const std::vector<std::int32_t> labels{2, 0};
  std::vector<double> targets(8);
  mix_targets<double>(kMixings, labels, 4, smoothing, kind, targets.data());
  return targets;
}

}  // namespace

TEST_CASE("mix: partners are predecessors, or those from the other end in timm") {
  for (const std::int64_t batch : {1, 2, 5, 6}) {
    const auto before = draw_mixing({.mixup = 0.5}, batch, 4, 4, kSeed, 3);
    const auto torchvision = draw_mixing({.mixup = 0.5, .dialect = MixDialect::torchvision}, batch, 4, 4, kSeed, 3);
    const auto reversed = draw_mixing({.mixup = 0.5, .dialect = MixDialect::timm}, batch, 4, 4, kSeed, 3);
    for (std::int64_t i = 0; i < batch; ++i) {
      const auto at = static_cast<std::size_t>(i);
      CHECK(before[at].partner == (i == 0 ? batch - 1 : i - 1));
      CHECK(torchvision[at].partner == before[at].partner);
      CHECK(reversed[at].partner == batch - 1 - i);
    }
  }
}

TEST_CASE("mix: a batch has one lambda") {
  for (const std::int64_t batch : {1, 2, 5, 6}) {
    const auto before = draw_mixing({.mixup = 0.5}, batch, 4, 4, kSeed, 3);
    const auto torchvision = draw_mixing({.mixup = 0.5, .dialect = MixDialect::torchvision}, batch, 4, 4, kSeed, 3);
    const auto reversed = draw_mixing({.mixup = 0.5, .dialect = MixDialect::timm}, batch, 4, 4, kSeed, 3);
    for (std::size_t at = 0; at < std::size_t(batch); ++at) {
      CHECK(before[at].lambda == before[0].lambda);
      CHECK(reversed[at].lambda == torchvision[at].lambda);
    }
  }
}

TEST_CASE("mix: nothing is mixed without mixup and cutmix") {
  for (const Mixing& mixing : draw_mixing({}, 4, 8, 8, kSeed, 0)) CHECK((mixing.lambda == 1 && !mixing.cut));
}

TEST_CASE("mix: from off_epoch on an image is its own partner") {
  for (const MixDialect dialect : kDialects) {
    MixConfig config{.mixup = 0.5, .dialect = dialect};
    const auto mixed = draw_mixing(config, 4, 8, 8, kSeed, 7);
    config.off_epoch = 3;
    const auto last = draw_mixing(config, 4, 8, 8, kSeed, 7, 2), off = draw_mixing(config, 4, 8, 8, kSeed, 7, 3);
    for (std::size_t i = 0; i < 4; ++i) {
      CHECK((last[i].lambda == mixed[i].lambda && last[i].partner == mixed[i].partner));
      CHECK((off[i].lambda == 1 && !off[i].cut && off[i].partner == std::int64_t(i)));
    }
  }
}

TEST_CASE("mix: lambda has the mean and variance of Beta") {
  // Beta(p, p) has mean 1/2 and variance 1 / (4 (2 p + 1)).
  for (const double p : {0.2, 0.8, 1.0, 3.0}) {
    const auto drawn = lambdas({.mixup = p, .dialect = MixDialect::timm}, 4000);
    double variance = 0;
    for (const double l : drawn) variance += (l - 0.5) * (l - 0.5) / double(drawn.size());
    CHECK(mean(drawn) == doctest::Approx(0.5).epsilon(0.04));
    CHECK(variance == doctest::Approx(0.25 / (2 * p + 1)).epsilon(0.06));
  }
}

TEST_CASE("mix: big_vision takes the larger half of lambda") {
  // At p = 1 it is uniform on [1/2, 1].
  const auto folded = lambdas({.mixup = 1.0}, 4000);
  CHECK(*std::min_element(folded.begin(), folded.end()) >= 0.5);
  CHECK(mean(folded) == doctest::Approx(0.75).epsilon(0.02));
}

TEST_CASE("mix: mixup and cutmix are as frequent as asked") {
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
}

TEST_CASE("mix: each image has its own lambda if mixed one by one") {
  const auto images = draw_mixing({.mixup = 1.0, .scope = MixScope::image}, 3, 8, 8, kSeed, 0);
  CHECK(images[0].lambda != images[1].lambda);
  CHECK(images[1].lambda != images[2].lambda);
}

TEST_CASE("mix: the lambda of an image depends on its place alone") {
  const auto images = draw_mixing({.mixup = 1.0, .scope = MixScope::image}, 3, 8, 8, kSeed, 0);
  const auto longer = draw_mixing({.mixup = 1.0, .scope = MixScope::image}, 7, 8, 8, kSeed, 0);
  for (std::size_t i = 0; i < 3; ++i) CHECK(longer[i].lambda == images[i].lambda);
}

TEST_CASE("mix: a cutmix box lies within the image") {
  for (const MixDialect dialect : kDialects) {
    CAPTURE(int(dialect));
    for (const Mixing& mixing : cutmixes(dialect)) {
      const Box& box = mixing.box;
      REQUIRE(mixing.cut);
      REQUIRE((box.top >= 0 && box.left >= 0 && box.height >= 0 && box.width >= 0));
      REQUIRE((box.top + box.height <= 31 && box.left + box.width <= 17));
    }
  }
}

TEST_CASE("mix: the lambda of cutmix is the share outside the box") {
  for (const MixDialect dialect : kDialects) {
    CAPTURE(int(dialect));
    for (const Mixing& mixing : cutmixes(dialect))
      CHECK(mixing.lambda == 1 - double(mixing.box.height * mixing.box.width) / (31 * 17));
  }
}

TEST_CASE("mix: only timm draws boxes with odd sides") {
  for (const MixDialect dialect : kDialects) {
    CAPTURE(int(dialect));
    std::int64_t odd = 0;
    for (const Mixing& mixing : cutmixes(dialect)) {
      const Box& box = mixing.box;
      const bool whole = box.top > 0 && box.top + box.height < 31 && box.left > 0 && box.left + box.width < 17;
      odd += whole && box.height % 2 == 1;
    }
    CHECK((odd > 0) == (dialect == MixDialect::timm));
  }
}

TEST_CASE("mix: the middle of a box is anywhere in the image") {
  for (const MixDialect dialect : kDialects) {
    CAPTURE(int(dialect));
    double kept = 0;
    for (const Mixing& mixing : cutmixes(dialect)) kept += mixing.lambda / 3000;
    // About 0.6 of the box of a uniform lambda remains on average.
    CHECK(kept > 0.55);
    CHECK(kept < 0.85);
  }
}

TEST_CASE("mix: mixup weighs the pixels of both images") {
  std::vector<float> out(6);
  mix_image(Mixing{1, 0.75, false, {}}, kOwn.data(), kPartner.data(), 2, 3, 1, out.data());
  CHECK(out == std::vector<float>{3.25, 6.5, 9.75, 13, 16.25, 19.5});
}

TEST_CASE("mix: cutmix takes the pixels of the box from the partner") {
  std::vector<float> out(6);
  mix_image(Mixing{1, 0.5, true, {0, 1, 2, 1}}, kOwn.data(), kPartner.data(), 2, 3, 1, out.data());
  CHECK(out == std::vector<float>{1, 20, 3, 4, 50, 6});
}

TEST_CASE("mix: pixels of bf16 are rounded once") {
  std::vector<bf16> narrow(6);
  mix_image(Mixing{1, 0.75, false, {}}, kOwn.data(), kPartner.data(), 2, 3, 1, narrow.data());
  for (std::size_t i = 0; i < 6; ++i) CHECK(float(narrow[i]) == float(bf16(0.75f * kOwn[i] + 0.25f * kPartner[i])));
}

TEST_CASE("mix: targets weigh the labels of both images") { CHECK(targets_of(0.0, Smoothing::all) == kTargets); }

TEST_CASE("mix: smoothing over all classes is PyTorch's of soft targets") {
  // torch.nn.functional.cross_entropy computes t (1 - e) + e / C.
  const std::vector<double> smooth = targets_of(0.1, Smoothing::all);
  for (std::size_t i = 0; i < 8; ++i) CHECK(smooth[i] == doctest::Approx(kTargets[i] * 0.9 + 0.025).epsilon(1e-12));
}

TEST_CASE("mix: smoothing over the others gives the label 1 - e") {
  const std::vector<double> smooth = targets_of(0.3, Smoothing::others);  // e / (C - 1) for each other class
  CHECK(smooth[0] == doctest::Approx(0.75 * 0.1 + 0.25 * 0.7));
  CHECK(smooth[1] == doctest::Approx(0.1));
  CHECK(smooth[2] == doctest::Approx(0.75 * 0.7 + 0.25 * 0.1));
}
