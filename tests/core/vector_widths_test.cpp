// Element by element and sums of columns where a vector ends within a row, in half of one, at the end of a tensor or
// before its beginning: the CPU's on every device.
#include <functional>
#include <variant>

#include "core/step_state.h"
#include "core/update_settings.h"
#include "tests/core/as_on_cpu.h"

using namespace normlab;

namespace {

struct Size {
  std::int64_t rows, cols;
};

/// Whole vectors of every type, of four and of two values, none; several rows of a thread, one row; more columns than a
/// block has. Then the same with tensors that do not begin at a vector.
void of_each_width(const std::function<void(Run&, Size)>& operations) {
  for (const Size size : {Size{3, 8}, {30, 20}, {9, 6}, {5, 33}, {1, 16}, {1, 5}, {130, 64}, {2, 264}})
    for (const std::int64_t shift : {0, 1}) {
      if (shift > 0 && size.rows > 100) continue;
      CAPTURE(size.rows);
      CAPTURE(size.cols);
      CAPTURE(shift);
      as_on_cpu([&](Run& run) { operations(run, size); }, shift);
    }
}

void of_tokens(void (*operations)(Run&, const TokenDims&)) {
  of_each_width([&](Run& run, Size s) { operations(run, {3, s.rows + 1, s.cols}); });
}

/// Images of few channels.
void of_each_depth(void (*operations)(Run&, std::int64_t cols)) {
  for (const std::int64_t cols : {3, 4, 8, 16})
    for (const std::int64_t shift : {0, 1}) {
      CAPTURE(cols);
      CAPTURE(shift);
      as_on_cpu([&](Run& run) { operations(run, cols); }, shift);
    }
}

void of_each_length(void (*operations)(Run&, std::int64_t n, std::int64_t shift)) {
  for (const std::int64_t n : {1, 4, 7, 1030, 4099})
    for (const std::int64_t shift : {0, 1}) {
      CAPTURE(n);
      CAPTURE(shift);
      as_on_cpu([&](Run& run) { operations(run, n, shift); }, shift);
    }
}

/// Variances of channels, at least a half.
Tensor variances(Run& run, std::int64_t cols) {
  const Tensor t = run.parameter_out({cols});
  for (std::int64_t c = 0; c < cols; ++c)
    if (t.dtype() == DType::f64)
      t.data<double>()[c] = 0.5 + double(c % 7);
    else
      t.data<float>()[c] = 0.5f + float(c % 7);
  return t;
}

}  // namespace

TEST_CASE("vector widths: gains and biases are the CPU's") {
  of_each_width([](Run& run, Size s) {
    const Shape x{s.rows, s.cols}, channels{s.cols};
    run.backend.affine(run.in(x), run.parameter(channels), run.parameter(channels), run.out(x));
    run.backend.affine_backward(run.in(x), run.in(x), run.parameter(channels), run.gradient(x),
                                run.parameter_gradient(channels), run.parameter_gradient(channels));
  });
}

TEST_CASE("vector widths: DyT is the CPU's") {
  of_each_width([](Run& run, Size s) {
    const Shape x{s.rows, s.cols}, channels{s.cols};
    run.backend.pointwise_norm(PointwisePhi::tanh, run.in(x), run.parameter({1}), {}, run.parameter(channels),
                               run.parameter(channels), run.out(x));
    const auto backward = [&](const Gradient& dx, const Gradient& dgamma, const Gradient& dbeta,
                              const Gradient& dalpha) {
      run.backend.pointwise_norm_backward(PointwisePhi::tanh,
                                          {run.in(x), run.in(x), run.parameter(channels), {}, {}, dx, dgamma, dbeta},
                                          run.parameter({1}), {}, dalpha, {});
    };
    backward(run.gradient(x), run.parameter_gradient(channels), run.parameter_gradient(channels),
             run.parameter_gradient({1}));
    backward({}, {}, run.parameter_gradient(channels), run.parameter_gradient({1}));
    backward(run.gradient(x), {}, {}, {});
  });
}

TEST_CASE("vector widths: sums over the rows of several warps are the CPU's") {
  as_on_cpu([](Run& run) {
    const Shape x{2300, 4}, channels{4};
    run.backend.affine_backward(run.in(x), run.in(x), run.parameter(channels), run.gradient(x),
                                run.parameter_gradient(channels), run.parameter_gradient(channels));
    run.backend.scale_backward(2, run.in(x), run.in(x), run.parameter({2}), {}, run.parameter_gradient({2}));
  });
}

TEST_CASE("vector widths: batch norm is the CPU's") {
  of_each_width([](Run& run, Size s) {
    constexpr std::int64_t rows_per_image = 3;
    const Shape x{s.rows * rows_per_image, s.cols}, channels{s.cols};
    for (const std::int64_t of_group : {0, 2}) {
      const BatchNormDims d{s.rows, rows_per_image, s.cols, 0, s.rows, of_group, 1e-2, 0.1};
      SingleShard alone;
      const Tensor in = run.in(x), gamma = run.parameter(channels), beta = run.parameter(channels);
      const Tensor mean = run.parameter_out({d.groups(), s.cols}), rstd = run.parameter_out({d.groups(), s.cols});
      run.backend.batch_norm(d, alone, {in, gamma, beta, run.out(x), mean, rstd}, run.kept(run.parameter(channels)),
                             variances(run, s.cols));
      run.backend.batch_norm_backward(d, alone,
                                      {run.in(x), in, gamma, mean, rstd, run.gradient(x),
                                       run.parameter_gradient(channels), run.parameter_gradient(channels)});
      run.backend.batch_norm_backward(d, alone,
                                      {run.in(x), in, gamma, mean, rstd, {}, {}, run.parameter_gradient(channels)});
    }
  });
}

TEST_CASE("vector widths: batch norm by running statistics is the CPU's") {
  of_each_width([](Run& run, Size s) {
    const NormDims d{s.rows * 3, s.cols, 1e-5};
    const Shape x{d.rows, s.cols}, channels{s.cols};
    const Tensor mean = run.parameter(channels), var = variances(run, s.cols);
    run.backend.batch_norm_frozen(d, run.in(x), run.parameter(channels), run.parameter(channels), mean, var,
                                  run.out(x));
    run.backend.batch_norm_frozen_backward(d,
                                           {run.in(x),
                                            run.in(x),
                                            run.parameter(channels),
                                            {},
                                            {},
                                            run.gradient(x),
                                            run.parameter_gradient(channels),
                                            run.parameter_gradient(channels)},
                                           mean, var);
  });
}

TEST_CASE("vector widths: gains of groups of any width are the CPU's") {
  of_each_width([](Run& run, Size s) {
    const Shape x{s.rows, s.cols};
    for (std::int64_t group = 1; group <= s.cols; ++group) {
      if (s.cols % group != 0 || (group > 11 && group < s.cols)) continue;
      const Shape gains{s.cols / group};
      run.backend.scale(group, run.in(x), run.parameter(gains), run.out(x));
      run.backend.scale_backward(group, run.in(x), run.in(x), run.parameter(gains), run.gradient(x),
                                 run.parameter_gradient(gains));
    }
  });
}

TEST_CASE("vector widths: GELU is the CPU's") {
  of_each_width([](Run& run, Size s) {
    const Shape x{s.rows, s.cols};
    for (const GeluForm form : {GeluForm::erf, GeluForm::tanh}) {
      run.backend.gelu(form, run.in(x), run.out(x));
      run.backend.gelu_backward(form, run.in(x), run.in(x), run.gradient(x));
    }
  });
}

TEST_CASE("vector widths: tanh is the CPU's") {
  of_each_width([](Run& run, Size s) {
    const Shape x{s.rows, s.cols};
    run.backend.tanh(run.in(x), run.out(x));
    run.backend.tanh_backward(run.in(x), run.in(x), run.gradient(x));
  });
}

TEST_CASE("vector widths: sums of two tensors are the CPU's") {
  of_each_width([](Run& run, Size s) {
    const Shape x{s.rows, s.cols};
    run.backend.add(run.in(x), run.in(x), run.out(x));
    run.backend.copy_gradient(run.in(x), run.gradient(x));
  });
}

TEST_CASE("vector widths: filled tensors are the CPU's") {
  of_each_width([](Run& run, Size s) { run.backend.fill(run.parameter_out({s.rows, s.cols}), 0.3); });
}

TEST_CASE("vector widths: masks of elements and of rows are the CPU's") {
  of_each_width([](Run& run, Size s) {
    const Shape x{s.rows, s.cols};
    for (const std::int64_t group : {std::int64_t{1}, s.cols}) {
      const Shape groups{s.rows * s.cols / group};
      run.backend.dropout(group, 0.3, run.in(x), run.mask(groups), {}, run.out(x));
      run.backend.dropout(group, 0.3, run.in(x), run.mask(groups), run.in(x), run.out(x));
      run.backend.dropout_backward(group, 0.3, run.in(x), run.mask(groups), run.gradient(x));
    }
  });
}

TEST_CASE("vector widths: added positions are the CPU's") {
  of_tokens([](Run& run, const TokenDims& d) {
    const Shape x{d.batch, d.tokens, d.cols}, positions{d.tokens, d.cols};
    run.backend.add_positions(d, run.in(x), run.parameter(positions), run.out(x));
    run.backend.add_positions_backward(d, run.in(x), run.gradient(x), run.parameter_gradient(positions));
  });
}

TEST_CASE("vector widths: means of tokens are the CPU's") {
  of_tokens([](Run& run, const TokenDims& d) {
    const Shape x{d.batch, d.tokens, d.cols}, one{d.batch, d.cols};
    run.backend.mean_tokens(d, run.in(x), run.out(one));
    run.backend.mean_tokens_backward(d, run.in(one), run.gradient(x));
  });
}

TEST_CASE("vector widths: a token put before the others is the CPU's") {
  of_tokens([](Run& run, const TokenDims& d) {
    const Shape x{d.batch, d.tokens, d.cols}, longer{d.batch, d.tokens + 1, d.cols};
    const TokenDims all{d.batch, d.tokens + 1, d.cols};
    const PartDims rest{all.tokens * d.cols, d.cols, d.tokens * d.cols};
    const Tensor y = run.out(longer);
    run.backend.put_token(all, run.parameter({d.cols}), y);
    run.backend.scatter(rest, run.in(x), {y});
    run.backend.put_token_backward(all, run.in(longer), run.parameter_gradient({d.cols}));
    run.backend.gather(rest, run.in(longer), run.gradient(x));
  });
}

TEST_CASE("vector widths: selected tokens are the CPU's") {
  of_tokens([](Run& run, const TokenDims& d) {
    const Shape x{d.batch, d.tokens, d.cols}, others{d.batch, d.tokens - 1, d.cols};
    const PartDims part{d.tokens * d.cols, d.cols, (d.tokens - 1) * d.cols};
    run.backend.gather(part, run.in(x), {run.out(others)});
    run.backend.gather(InPart{part}, run.in(others), run.gradient(x));
  });
}

TEST_CASE("vector widths: tokens put together are the CPU's") {
  of_tokens([](Run& run, const TokenDims& d) {
    const Shape x{d.batch, d.tokens, d.cols}, first{d.batch, 1, d.cols}, others{d.batch, d.tokens - 1, d.cols};
    const PartDims of_first{d.tokens * d.cols, 0, d.cols}, rest{d.tokens * d.cols, d.cols, (d.tokens - 1) * d.cols};
    const Tensor y = run.out(x);
    run.backend.scatter(of_first, run.in(first), {y});
    run.backend.scatter(rest, run.in(others), {y});
    run.backend.gather(of_first, run.in(x), run.gradient(first));
  });
}

TEST_CASE("vector widths: patches are the CPU's") {
  of_each_depth([](Run& run, std::int64_t cols) {
    const PatchDims patches{2, 6, 4, cols, 3, 2};
    run.backend.gather(patches, run.in({2, 6, 4, cols}), {run.out({2, 4, 6 * cols})});
    run.backend.scatter(patches, run.in({2, 4, 6 * cols}), run.gradient({2, 6, 4, cols}));
  });
}

TEST_CASE("vector widths: windows are the CPU's") {
  of_each_depth([](Run& run, std::int64_t cols) {
    const WindowDims d{2, 5, 4, cols, 3, 1, 1};
    const Shape grid{2, 5, 4, cols}, windows{2 * d.windows(), d.tokens(), cols};
    run.backend.gather(d, run.in(grid), {run.out(windows)});
    run.backend.scatter(d, run.in(windows), run.gradient(grid));
    run.backend.scatter(d, run.in(windows), {run.out(grid)});
    run.backend.gather(d, run.in(grid), run.gradient(windows));
  });
}

TEST_CASE("vector widths: merged neighbours are the CPU's") {
  of_each_depth([](Run& run, std::int64_t cols) {
    const Shape grid{2, 5, 4, cols}, merged{2, 6, 4 * cols};
    run.backend.gather(GridDims{2, 5, 4, cols}, run.in(grid), {run.out(merged)});
    run.backend.scatter(GridDims{2, 5, 4, cols}, run.in(merged), run.gradient(grid));
  });
}

TEST_CASE("vector widths: sums of lanes and of their squares are the CPU's") {
  of_each_length([](Run& run, std::int64_t n, std::int64_t) {
    for (const std::int64_t lanes : {1, 3, 7, 8}) {
      const std::int64_t stride = n + 5;
      const Tensor all = run.kept(run.parameter({lanes * stride})), square = run.memory({1}, DType::f64);
      run.backend.sum_lanes(lanes, stride, all.slice(0, n), square.data<double>());
      run.kept(square);
    }
  });
}

TEST_CASE("vector widths: steps of each optimiser are the CPU's") {
  of_each_length([](Run& run, std::int64_t n, std::int64_t shift) {
    auto* state = new (run.memory({sizeof(StepState)}, DType::u8).raw()) StepState{};
    state->lr = state->schedule = 0.1;
    state->bias_correction1 = 0.2;
    state->bias_correction2 = 0.02;
    state->clip_factor = 0.5;
    double* const ratio = run.memory({1}, DType::f64).data<double>();
    *ratio = 0.75;
    const AdamWSettings adamw{0.8, 0.98, 1e-3, 0.1};
    for (const UpdateRule& rule : {UpdateRule{adamw}, UpdateRule{AdamSettings{0.8, 0.98, 1e-3, 0.1}},
                                   UpdateRule{SgdSettings{0.9, 0.1, true}}, UpdateRule{LionSettings{0.9, 0.99, 0.1}},
                                   UpdateRule{BigVisionAdamSettings{0.8, 0.98, 1e-3, 0.1, MomentProduct::rounded}},
                                   UpdateRule{BigVisionAdamSettings{0.8, 0.98, 1e-3, 0.1, MomentProduct::wide}},
                                   UpdateRule{MomentumSettings{0.9, 0.1, false, MomentProduct::constant}},
                                   UpdateRule{LambSettings{adamw, true, ratio}}})
      for (const bool narrow : {false, true}) {
        const bool may_be_narrow = std::holds_alternative<BigVisionAdamSettings>(rule.settings) ||
                                   std::holds_alternative<MomentumSettings>(rule.settings);
        if (narrow && !may_be_narrow) continue;
        Tensor m = run.kept(run.parameter({n}));
        if (narrow) {
          const Tensor from = m;
          m = run.memory({n + shift}, DType::bf16).slice(shift, n);
          for (std::int64_t i = 0; i < n; ++i)
            m.data<bf16>()[i] = from.dtype() == DType::f64 ? bf16(from.data<double>()[i]) : bf16(from.data<float>()[i]);
        }
        const Tensor p = run.kept(run.parameter({n}));
        const Tensor rounded =
            p.dtype() == DType::f32 ? run.memory({n + shift}, DType::bf16).slice(shift, n) : Tensor();
        run.backend.update(rule, {.factors = {0.5, 2.0},
                                  .state = state,
                                  .gradient = run.parameter({n}),
                                  .decay = run.mask({n}),
                                  .p = p,
                                  .m = m,
                                  .v = run.kept(variances(run, n)),
                                  .rounded = rounded});
        run.backend.synchronize();
        if (rounded)
          for (std::int64_t i = 0; i < n; ++i) REQUIRE(rounded.data<bf16>()[i].bits == bf16(p.data<float>()[i]).bits);
      }
  });
}

TEST_CASE("vector widths: averages over steps are the CPU's") {
  of_each_length([](Run& run, std::int64_t n, std::int64_t) {
    auto* state = new (run.memory({sizeof(StepState)}, DType::u8).raw()) StepState{};
    run.backend.average(0.75, state, run.parameter({n}), run.kept(run.parameter({n})));
  });
}

TEST_CASE("vector widths: copies rounded to bf16 are the CPU's") {
  of_each_length([](Run& run, std::int64_t n, std::int64_t shift) {
    const Tensor weights = run.parameter({n});
    if (weights.dtype() == DType::f32)
      run.backend.round_to_bf16(weights, run.kept(run.memory({n + shift}, DType::bf16).slice(shift, n)));
  });
}

TEST_CASE("vector widths: a drawn mask is that of core/random.h") {
  on_each_device([] {
    const StreamKey key = stream_key(1, "drop", "mask");
    const std::int64_t from = (std::int64_t{1} << 32) - 20, step = (std::int64_t{1} << 33) + 5;
    for (const std::int64_t n : {1, 16, 37, 5000})
      for (const std::int64_t shift : {0, 3}) {
        const auto drawn = [&](Backend& backend) {
          Arena arena(backend.memory());
          auto* state = new (arena.empty({sizeof(StepState)}, DType::u8).raw()) StepState{};
          state->step = step;
          const Tensor mask = arena.empty({n + shift}, DType::u8).slice(shift, n);
          backend.draw_mask({key, 0.4, from}, state, mask);
          backend.synchronize();
          return std::vector<std::uint8_t>(mask.data<std::uint8_t>(), mask.data<std::uint8_t>() + n);
        };
        std::vector<std::uint8_t> expected;
        for (std::int64_t i = 0; i < n; ++i)
          expected.push_back(keep(draw(key, std::uint64_t(from + i), std::uint64_t(step))[0], drop_threshold(0.4)));
        CAPTURE(n);
        CHECK(drawn(cpu_backend()) == expected);
        CHECK(drawn(current_device().backend) == expected);
      }
  });
}
