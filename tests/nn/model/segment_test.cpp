// Task segment: the class of each pixel. Its loss is a mean over the labelled pixels of a whole step.
#include <doctest/doctest.h>

#include <cmath>

#include "core/random.h"
#include "nn/model/init.h"
#include "nn/training/engine.h"
#include "tests/devices.h"
#include "tests/nn/model/random_head.h"
#include "tests/nn/model/small_network.h"

using namespace normlab;

namespace {

constexpr std::int64_t kSide = 16, kPixels = kSide * kSide, kImages = 5;

ViTConfig small_segmenter(Pool pool = Pool::gap) {
  ViTConfig c = small_vit("pre_pre");
  c.task = Task::segment;
  c.pool = pool;
  return c;
}

/// Images, and labels of which about one in `ignored` is left out, more in later images.
struct Labelled : Batch {
  std::vector<std::int32_t> labels;
  Labelled(const ModelConfig& c, std::int64_t count, DType dtype, std::uint64_t seed = 5)
      : Batch(c, count, dtype, seed) {
    const StreamKey key = stream_key(seed, "test", "masks");
    for (std::int64_t i = 0; i < count * kPixels; ++i) {
      const auto word = draw(key, static_cast<std::uint64_t>(i));
      const bool ignored = word[1] % 7 < static_cast<std::uint32_t>(1 + i / kPixels);
      labels.push_back(ignored ? kIgnoredLabel : static_cast<std::int32_t>(word[0] % num_classes(c)));
    }
  }
  std::int64_t labelled() const { return std::ssize(labels) - std::count(labels.begin(), labels.end(), kIgnoredLabel); }
  Tensor targets() { return Tensor(labels.data(), {std::ssize(labels) / kPixels, kSide, kSide}, DType::i32); }
};

struct Network {
  ShardPool pool;
  Engine engine;
  explicit Network(const ViTConfig& c, int threads = 1, std::int64_t per_shard = 2,
                   Precision precision = Precision::fp64, std::int64_t accumulate = 1, std::int64_t batch = kImages)
      : pool(threads), engine(current_device().backend, pool, c, settings(per_shard, precision, accumulate, batch)) {
    initialise(engine.parameters(), c, 3);
    random_head(engine);
    engine.state().lr = 1e-2;
  }
  static EngineSettings settings(std::int64_t per_shard, Precision precision, std::int64_t accumulate,
                                 std::int64_t batch) {
    EngineSettings s;
    s.precision = precision;
    s.max_batch = batch;
    s.images_per_shard = per_shard;
    s.accumulate = accumulate;
    return s;
  }
};

/// One axis of a bilinear resize with half-pixel centres: the neighbours of an output and the weight of the second.
struct Between {
  std::int64_t low, high;
  double share;
};
Between between(std::int64_t out, std::int64_t in_size, std::int64_t out_size) {
  const double at = std::max(0.0, (double(out) + 0.5) * double(in_size) / double(out_size) - 0.5);
  const auto low = std::min(static_cast<std::int64_t>(at), in_size - 1);
  return {low, std::min(low + 1, in_size - 1), at - double(low)};
}

/// The mean cross-entropy over labelled pixels, from the logits [images, 4, 4, classes] of the patches.
double loss_by_hand(const std::vector<double>& logits, const std::vector<std::int32_t>& labels, std::int64_t classes) {
  double total = 0;
  std::int64_t count = 0;
  for (std::size_t p = 0; p < labels.size(); ++p) {
    if (labels[p] == kIgnoredLabel) continue;
    const std::int64_t image = std::int64_t(p) / kPixels, y = std::int64_t(p) % kPixels / kSide,
                       x = std::int64_t(p) % kSide;
    const Between row = between(y, 4, kSide), column = between(x, 4, kSide);
    const auto at = [&](std::int64_t r, std::int64_t c, std::int64_t k) {
      return logits[static_cast<std::size_t>(((image * 4 + r) * 4 + c) * classes + k)];
    };
    std::vector<double> z;
    for (std::int64_t k = 0; k < classes; ++k)
      z.push_back((1 - row.share) *
                      ((1 - column.share) * at(row.low, column.low, k) + column.share * at(row.low, column.high, k)) +
                  row.share *
                      ((1 - column.share) * at(row.high, column.low, k) + column.share * at(row.high, column.high, k)));
    double sum = 0;
    for (const double one : z) sum += std::exp(one);
    total += std::log(sum) - z[static_cast<std::size_t>(labels[p])];
    ++count;
  }
  return total / double(count);
}

}  // namespace

TEST_CASE("segment: the loss is the mean over all labelled pixels of the step, on every device") {
  on_each_device([] {
    for (const Pool pool : {Pool::gap, Pool::token}) {
      const ViTConfig c = small_segmenter(pool);
      Labelled data(c, kImages, DType::f64);
      Network whole(c, 1, kImages);
      std::vector<double> logits;
      whole.engine.outputs(data.images, logits);
      REQUIRE(std::ssize(logits) == kImages * 16 * c.num_classes);
      const double expected = loss_by_hand(logits, data.labels, c.num_classes);
      CHECK(whole.engine.forward_backward(data.images, data.targets()) == doctest::Approx(expected).epsilon(1e-12));
      Network parts(c, 2, 1);
      CHECK(parts.engine.forward_backward(data.images, data.targets()) == doctest::Approx(expected).epsilon(1e-12));
    }
  });
}

TEST_CASE("segment: training has the same bits for any number of threads, and follows the whole batch's gradient") {
  const ViTConfig c = small_segmenter();
  Labelled data(c, kImages, DType::f32);
  const auto losses = [&](int threads, std::int64_t per_shard, std::int64_t accumulate) {
    Network network(c, threads, per_shard, Precision::fp32, accumulate);
    std::vector<double> out;
    for (int step = 0; step < 4; ++step) out.push_back(network.engine.train_step(data.images, data.targets()));
    return out;
  };
  const std::vector<double> one = losses(1, 2, 1);
  CHECK(one == losses(3, 2, 1));
  CHECK(one.back() < one.front());
  const std::vector<double> whole = losses(1, kImages, 1), accumulated = losses(2, 1, 5);
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i] == doctest::Approx(whole[i]).epsilon(1e-4));
    CHECK(accumulated[i] == doctest::Approx(whole[i]).epsilon(1e-4));
  }
}

TEST_CASE("segment: gradients are right in double") {
  on_each_device([] {
    const ViTConfig c = small_segmenter(Pool::token);
    Labelled data(c, kImages, DType::f64);
    Network network(c);
    Engine& engine = network.engine;
    for (const char* name : {"head.weight", "head.bias", "pos_embed", "cls_token", "blocks.1.mlp.fc2.weight"}) {
      CAPTURE(name);
      engine.forward_backward(data.images, data.targets());
      engine.sum_gradients();
      const int number = engine.parameters().find(name);
      double* const values = engine.parameters().value(number).data<double>();
      const Tensor gradient = engine.parameters().gradient(0, number);
      const std::vector<double> g(gradient.data<double>(), gradient.data<double>() + gradient.size());
      double squares = 0;
      for (const double one : g) squares += one * one;
      REQUIRE(squares > 0);
      const double h = 1e-7 / std::sqrt(squares);  // a class token of zeros curves the loss
      const auto moved = [&](double by) {
        for (std::size_t i = 0; i < g.size(); ++i) values[i] += by * g[i];
        const double loss = engine.forward_backward(data.images, data.targets());
        for (std::size_t i = 0; i < g.size(); ++i) values[i] -= by * g[i];
        return loss;
      };
      CHECK((moved(h) - moved(-h)) / (2 * h) == doctest::Approx(squares).epsilon(1e-6));
    }
  });
}

TEST_CASE("segment: steps with other numbers of labelled pixels have their own mean, on every device") {
  on_each_device([] {
    const ViTConfig c = small_segmenter();
    Network network(c);
    network.engine.state().lr = 0;  // so that each loss is that of the initial network
    std::vector<double> logits;
    for (std::uint64_t step = 0; step < 6; ++step) {
      Labelled data(c, kImages, DType::f64, step % 2);
      if (step == 2) data.labels.assign(data.labels.size(), kIgnoredLabel);
      network.engine.outputs(data.images, logits);
      const double expected = step == 2 ? 0 : loss_by_hand(logits, data.labels, c.num_classes);
      CHECK(network.engine.train_step(data.images, data.targets()) == doctest::Approx(expected).epsilon(1e-12));
    }
    CHECK(network.engine.state_is_finite());
  });
}

TEST_CASE("segment: the head starts small and the rest as in a classification") {
  const ViTConfig c = small_segmenter();
  ViTConfig classifier = c;
  classifier.task = Task::classify;
  ShardPool pool(1);
  Engine a(cpu_backend(), pool, c, {}), b(cpu_backend(), pool, classifier, {});
  initialise(a.parameters(), c, 3);
  initialise(b.parameters(), classifier, 3);
  for (std::size_t p = 0; p < a.parameters().parameters().size(); ++p) {
    const std::string& name = a.parameters().parameters()[p].name;
    CAPTURE(name);
    const Tensor values = a.parameters().value(static_cast<int>(p)),
                 others = b.parameters().value(b.parameters().find(name));
    double most = 0, squares = 0;
    for (std::int64_t i = 0; i < values.size(); ++i) {
      const double v = values.data<float>()[i];
      if (name != "head.weight") CHECK(v == double(others.data<float>()[i]));
      most = std::max(most, std::abs(v));
      squares += v * v;
    }
    if (name != "head.weight") continue;
    CHECK(most <= 0.04 + 1e-9);
    CHECK(std::sqrt(squares / double(values.size())) == doctest::Approx(0.02 * 0.88).epsilon(0.15));
  }
}

TEST_CASE("segment: what does not fit is refused") {
  const ViTConfig c = small_segmenter();
  Labelled data(c, kImages, DType::f64);
  Network network(c);
  CHECK_THROWS_WITH_AS(network.engine.forward_backward(data.images, data.Batch::labels),
                       "labels is [5], expected [5, 16, 16]", InputError);
  data.labels[static_cast<std::size_t>(3 * kPixels + 9)] = 7;
  CHECK_THROWS_WITH_AS(network.engine.forward_backward(data.images, data.targets()),
                       "image 3 of the batch has a pixel with label 7, but the network has 7 classes", InputError);
  ViTConfig bad = c;
  bad.rep_size = 8;
  bad.num_classes = 256;
  std::string keys;
  for (const ConfigProblem& problem : validate(bad)) keys += problem.key + " ";
  CHECK(keys == "rep_size num_classes ");
}
