// The contrastive loss over shards: values and gradients are those of one shard, and equal for any number of threads.
#include "autograd/contrast.h"

#include <doctest/doctest.h>

#include <cmath>

#include "autograd/randn.h"
#include "core/shards.h"
#include "tests/devices.h"

using namespace normlab;

namespace {

constexpr std::int64_t kPairs = 11, kWidth = 5;

struct Numbers {
  std::vector<double> losses, image, text, t, b;
  bool operator==(const Numbers&) const = default;
};

std::vector<double> numbers(const Tensor& t) { return {t.data<double>(), t.data<double>() + t.size()}; }

/// Cut into shards of `images` pairs; gradients of t and b are summed in shard order.
Numbers run(ContrastKind kind, std::int64_t images, int threads, double upstream_step = 0.1) {
  const auto shards = int((kPairs + images - 1) / images);
  Arena memory;
  const Tensor image = randn(memory, {kPairs, kWidth}, DType::f64, 1),
               text = randn(memory, {kPairs, kWidth}, DType::f64, 2);
  const Tensor t = memory.empty({1}, DType::f64), b = memory.empty({1}, DType::f64);
  *t.data<double>() = 1.5;
  *b.data<double>() = -2;
  std::vector<Numbers> parts(static_cast<std::size_t>(shards));
  std::vector<std::unique_ptr<Arena>> arenas;
  for (int s = 0; s < shards; ++s) arenas.push_back(std::make_unique<Arena>());
  ShardPool pool(threads);
  pool.run(shards, std::min(shards, 4), shards > 1, [&](Collective& c) {
    const std::int64_t first = c.rank() * images, count = std::min(images, kPairs - first);
    Tape tape(cpu_backend(), *arenas[std::size_t(c.rank())]);
    const Var x = tape.input(image.slice(first, count), true), y = tape.input(text.slice(first, count), true),
              scale = tape.input(t, true), bias = tape.input(b, true);
    const Var losses = contrastive_loss(unit_rows(x), unit_rows(y), scale, bias, kind, {count, first, kPairs, &c});
    const Tensor seed = tape.empty_like(losses.value());
    for (std::int64_t i = 0; i < count; ++i) seed.data<double>()[i] = 1 + upstream_step * double(first + i);
    tape.backward(losses, seed);
    parts[std::size_t(c.rank())] = {numbers(losses.value()), numbers(x.grad()), numbers(y.grad()),
                                    numbers(scale.grad()), numbers(bias.grad())};
  });
  Numbers all;
  all.t = all.b = {0};
  for (const Numbers& part : parts) {
    all.losses.insert(all.losses.end(), part.losses.begin(), part.losses.end());
    all.image.insert(all.image.end(), part.image.begin(), part.image.end());
    all.text.insert(all.text.end(), part.text.begin(), part.text.end());
    all.t[0] += part.t[0];
    all.b[0] += part.b[0];
  }
  return all;
}

void check_near(const std::vector<double>& a, const std::vector<double>& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) CHECK(a[i] == doctest::Approx(b[i]).epsilon(1e-12));
}

}  // namespace

TEST_CASE("contrastive loss: shards give the values and gradients of the whole batch") {
  for (const ContrastKind kind : {ContrastKind::softmax, ContrastKind::sigmoid}) {
    const Numbers whole = run(kind, kPairs, 1);
    for (const std::int64_t images : {1, 2, 4}) {
      const Numbers cut = run(kind, images, 2);
      check_near(cut.losses, whole.losses);
      check_near(cut.image, whole.image);
      check_near(cut.text, whole.text);
      check_near(cut.t, whole.t);
      check_near(cut.b, whole.b);
    }
  }
}

TEST_CASE("contrastive loss: the same bits for any number of threads") {
  for (const ContrastKind kind : {ContrastKind::softmax, ContrastKind::sigmoid})
    for (const int threads : {2, 3, 8}) CHECK(run(kind, 3, threads) == run(kind, 3, 1));
}

TEST_CASE("contrastive loss: a pair alone has nothing to contrast") {
  Arena arena, memory;
  Tape tape(cpu_backend(), arena);
  SingleShard alone;
  const auto var = [&](const Shape& s) { return tape.input(randn(memory, s, DType::f32, 1)); };
  CHECK_THROWS_WITH_AS(
      contrastive_loss(var({1, 4}), var({1, 4}), var({1}), var({1}), ContrastKind::softmax, {1, 0, 1, &alone}),
      "contrastive_loss: a batch of one pair has nothing to contrast; use a larger batch", InputError);
  CHECK_THROWS_WITH_AS(
      contrastive_loss(var({2, 4}), var({2, 5}), var({1}), var({1}), ContrastKind::softmax, {2, 0, 2, &alone}),
      "contrastive_loss: text is [2, 5], expected [2, 4]", InputError);
}

TEST_CASE("unit rows: a row of zeros stays zero and gets a finite gradient") {
  on_each_device([] {
    Arena arena(current_device().memory()), memory(current_device().memory());
    Tape tape(current_device().backend, arena);
    const Tensor zero = memory.empty({2, 40}, DType::f32);
    current_device().backend.fill(zero, 0);
    const Var x = tape.input(zero, true), y = unit_rows(x);
    tape.backward(y, randn(memory, {2, 40}, DType::f32, 3));
    current_device().backend.synchronize();
    for (int i = 0; i < 80; ++i) {
      CHECK(y.value().data<float>()[i] == 0);
      CHECK(std::isfinite(x.grad().data<float>()[i]));
    }
  });
}

TEST_CASE("embed: bf16 rounds the rows, and gradients of equal numbers add up") {
  on_each_device([] {
    Arena arena(current_device().memory()), memory(current_device().memory());
    Backend& backend = current_device().backend.with_bf16(current_device().bf16);
    Tape tape(backend, arena);
    const Tensor ids = memory.empty({2, 2}, DType::i32);
    const std::int32_t wanted[] = {2, 0, 2, 2};
    std::copy_n(wanted, 4, ids.data<std::int32_t>());
    const Var table = tape.input(randn(memory, {4, 3}, DType::f32, 1), true);
    const Var y = embed(table, ids, DType::bf16);
    CHECK(y.shape() == Shape{2, 2, 3});
    tape.backward(y, randn(memory, {2, 2, 3}, DType::bf16, 2));
    backend.synchronize();
    const Tensor seed = randn(memory, {2, 2, 3}, DType::bf16, 2);
    for (int c = 0; c < 3; ++c) {
      CHECK(float(y.value().data<bf16>()[3 + c]) == float(bf16(table.value().data<float>()[c])));
      const auto up = [&](int row) { return float(seed.data<bf16>()[3 * row + c]); };
      CHECK(table.grad().data<float>()[6 + c] == doctest::Approx(up(0) + up(2) + up(3)).epsilon(1e-6));
      CHECK(table.grad().data<float>()[c] == up(1));
      CHECK(table.grad().data<float>()[3 + c] == 0);
    }
  });
}
