// Tokens, windows, masks and resampled images on every device against the CPU's, in every type, written and added.
#include <doctest/doctest.h>

#include <cmath>
#include <functional>
#include <limits>

#include "tests/core/as_on_cpu.h"

using namespace normlab;

namespace {

constexpr TokenDims kTokens{3, 5, 7};

/// The code that check_finite() writes.
class Flag {
 public:
  explicit Flag(Arena& arena) : flag_(arena.empty({1}, DType::i32)) { clear(); }
  void clear() { *flag_.data<std::int32_t>() = 0; }
  /// What it is after a check of x.
  std::int32_t after(const Tensor& x, std::int32_t code) {
    Backend& backend = current_device().backend;
    backend.check_finite(x, code, flag_);
    backend.synchronize();
    return *flag_.data<std::int32_t>();
  }

 private:
  const Tensor flag_;
};

/// Calls `check` with a clear flag, values of which one is not finite, and finite ones.
void check_flags(const std::function<void(Flag&, const Tensor&, const Tensor&)>& check) {
  on_each_device([&] {
    for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
      Arena arena(current_device().memory());
      Flag flag(arena);
      const Tensor fine = randn(arena, {700}, type, 1);
      for (const std::int64_t at : {0, 255, 256, 699})
        for (const double value : {std::numeric_limits<double>::quiet_NaN(), double(INFINITY), -double(INFINITY)}) {
          const Tensor x = randn(arena, {700}, type, 1);
          if (type == DType::f32) x.data<float>()[at] = float(value);
          if (type == DType::f64) x.data<double>()[at] = value;
          if (type == DType::bf16) x.data<bf16>()[at] = bf16(float(value));
          flag.clear();
          check(flag, x, fine);
        }
    }
  });
}

}  // namespace

TEST_CASE("moved tokens: patches are the CPU's") {
  as_on_cpu([](Run& run) {
    const PatchDims patches{2, 6, 4, 3, 3, 2};
    run.backend.gather(patches, run.in({2, 6, 4, 3}), {run.out({2, 4, 18})});
    run.backend.scatter(patches, run.in({2, 4, 18}), run.gradient({2, 6, 4, 3}));
  });
}

TEST_CASE("moved tokens: added positions are the CPU's") {
  as_on_cpu([](Run& run) {
    run.backend.add_positions(kTokens, run.in({3, 5, 7}), run.parameter({5, 7}), run.out({3, 5, 7}));
    run.backend.add_positions_backward(kTokens, run.in({3, 5, 7}), run.gradient({3, 5, 7}),
                                       run.parameter_gradient({5, 7}));
    run.backend.add_positions_backward(kTokens, run.in({3, 5, 7}), {}, {});
  });
}

TEST_CASE("moved tokens: means of tokens are the CPU's") {
  as_on_cpu([](Run& run) {
    run.backend.mean_tokens(kTokens, run.in({3, 5, 7}), run.out({3, 7}));
    run.backend.mean_tokens_backward(kTokens, run.in({3, 7}), run.gradient({3, 5, 7}));
  });
}

TEST_CASE("moved tokens: a token put before the others is the CPU's") {
  as_on_cpu([](Run& run) {
    const TokenDims all{3, 6, 7};
    const PartDims rest{42, 7, 35};
    const Tensor y = run.out({3, 6, 7});
    run.backend.put_token(all, run.parameter({7}), y);
    run.backend.scatter(rest, run.in({3, 5, 7}), {y});
    run.backend.put_token_backward(all, run.in({3, 6, 7}), run.parameter_gradient({7}));
    run.backend.gather(rest, run.in({3, 6, 7}), run.gradient({3, 5, 7}));
  });
}

TEST_CASE("moved tokens: tokens put together are the CPU's") {
  as_on_cpu([](Run& run) {
    for (const std::int64_t n : {1, 3, 4}) {
      const Shape first{3, n, 7}, second{3, 5 - n, 7};
      const PartDims of_first{35, 0, 7 * n}, of_second{35, 7 * n, 7 * (5 - n)};
      const Tensor y = run.out({3, 5, 7});
      run.backend.scatter(of_first, run.in(first), {y});
      run.backend.scatter(of_second, run.in(second), {y});
      run.backend.gather(of_first, run.in({3, 5, 7}), run.gradient(first));
      run.backend.gather(of_second, run.in({3, 5, 7}), run.gradient(second));
      run.backend.gather(of_second, run.in({3, 5, 7}), {});
    }
  });
}

TEST_CASE("moved tokens: selected tokens are the CPU's") {
  as_on_cpu([](Run& run) {
    for (const std::int64_t n : {1, 3, 4}) {
      run.backend.gather(PartDims{35, 7 * (5 - n), 7 * n}, run.in({3, 5, 7}), {run.out({3, n, 7})});
      run.backend.gather(InPart{{35, 7, 7 * n}}, run.in({3, n, 7}), run.gradient({3, 5, 7}));
    }
  });
}

TEST_CASE("moved tokens: sums of gradients over many images are the CPU's") {
  as_on_cpu([](Run& run) {
    run.backend.add_positions_backward({150, 2, 3}, run.in({150, 2, 3}), {}, run.parameter_gradient({2, 3}));
    run.backend.put_token_backward({150, 2, 35}, run.in({150, 2, 35}), run.parameter_gradient({35}));
  });
}

TEST_CASE("moved tokens: windows with and without shift and padding are the CPU's") {
  as_on_cpu([](Run& run) {
    using enum WindowPadding;
    for (const WindowDims& d :
         {WindowDims{2, 4, 6, 3, 2}, WindowDims{2, 5, 4, 3, 3, 1, 1}, WindowDims{2, 5, 4, 3, 3, 1, 1, after_shift},
          WindowDims{1, 3, 7, 5, 4, 2, 2}, WindowDims{1, 3, 7, 5, 4, 2, 2, after_shift},
          WindowDims{2, 4, 7, 3, 4, 0, 2}, WindowDims{2, 6, 3, 3, 3, 1, 0, after_shift}, WindowDims{2, 3, 2, 1, 4}}) {
      const Shape grid{d.batch, d.height, d.width, d.cols}, windows{d.batch * d.windows(), d.tokens(), d.cols};
      run.backend.gather(d, run.in(grid), {run.out(windows)});
      run.backend.scatter(d, run.in(windows), run.gradient(grid));
      run.backend.scatter(d, run.in(windows), {run.out(grid)});
      run.backend.gather(d, run.in(grid), run.gradient(windows));
    }
  });
}

TEST_CASE("moved tokens: merged neighbours are the CPU's") {
  as_on_cpu([](Run& run) {
    for (const GridDims& d : {GridDims{2, 4, 6, 3}, GridDims{2, 5, 3, 7}, GridDims{3, 1, 2, 1}}) {
      const Shape grid{d.batch, d.height, d.width, d.cols},
          merged{d.batch, (d.height + 1) / 2 * ((d.width + 1) / 2), 4 * d.cols};
      run.backend.gather(d, run.in(grid), {run.out(merged)});
      run.backend.scatter(d, run.in(merged), run.gradient(grid));
    }
  });
}

TEST_CASE("moved tokens: dropout of elements and of images is the CPU's") {
  as_on_cpu([](Run& run) {
    const Shape shape{4, 5, 7};
    for (const std::int64_t group : {1, 7, 35}) {
      const Shape groups{4 * 35 / group};
      run.backend.dropout(group, 0.3, run.in(shape), run.mask(groups), {}, run.out(shape));
      run.backend.dropout(group, 0.3, run.in(shape), run.mask(groups), run.in(shape), run.out(shape));
      run.backend.dropout_backward(group, 0.3, run.in(shape), run.mask(groups), run.gradient(shape));
    }
  });
}

TEST_CASE("moved tokens: resampled images and their gradients are the CPU's") {
  as_on_cpu([](Run& run) {
    for (const Resampling how : {Resampling::bilinear, Resampling::bilinear_antialias, Resampling::corners,
                                 Resampling::bicubic, Resampling::bicubic_antialias})
      for (const ResampleDims& d : {ResampleDims{2, 5, 4, 3, 7, 3, how}, ResampleDims{1, 3, 9, 2, 1, 4, how},
                                    ResampleDims{1, 1, 2, 5, 4, 2, how}}) {
        const Shape in{d.batch, d.height, d.width, d.channels}, out{d.batch, d.out_height, d.out_width, d.channels};
        run.backend.resample(d, run.in(in), run.out(out));
        run.backend.resample_backward(d, run.in(out), run.gradient(in));
      }
  });
}

TEST_CASE("check_finite: a value that is not finite is found at every place") {
  check_flags([](Flag& flag, const Tensor& x, const Tensor&) { CHECK(flag.after(x, -7) == -7); });
}

TEST_CASE("check_finite: the first code stays") {
  check_flags([](Flag& flag, const Tensor& x, const Tensor& fine) {
    flag.after(x, -7);
    CHECK(flag.after(x, 5) == -7);
    CHECK(flag.after(fine, 6) == -7);
  });
}

TEST_CASE("check_finite: finite values set no code") {
  on_each_device([] {
    for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
      Arena arena(current_device().memory());
      Flag flag(arena);
      CHECK(flag.after(randn(arena, {700}, type, 1), 3) == 0);
    }
  });
}
