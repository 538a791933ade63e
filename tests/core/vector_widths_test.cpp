// Element by element and sums of columns where a vector ends within a row, in half of one, at the end of a tensor or
// before its beginning: the CPU's on every device.
#include "tests/core/as_on_cpu.h"

using namespace normlab;

namespace {

struct Size {
  std::int64_t rows, cols;
};

/// Whole vectors of every type, of four and of two values, none; several rows of a thread, one row; more columns than a
/// block has. Then the same with tensors that do not begin at a vector.
void of_each_width(void (*operations)(Run&, Size)) {
  for (const Size size : {Size{3, 8}, {70, 20}, {9, 6}, {5, 33}, {1, 16}, {1, 5}, {150, 64}, {2, 520}})
    for (const std::int64_t shift : {0, 1}) {
      CAPTURE(size.rows);
      CAPTURE(size.cols);
      CAPTURE(shift);
      as_on_cpu([&](Run& run) { operations(run, size); }, shift);
    }
}

}  // namespace

TEST_CASE("vector widths: gains, biases and DyT are the CPU's") {
  of_each_width([](Run& run, Size s) {
    const Shape x{s.rows, s.cols}, channels{s.cols};
    run.backend.affine(run.in(x), run.parameter(channels), run.parameter(channels), run.out(x));
    run.backend.affine_backward(run.in(x), run.in(x), run.parameter(channels), run.gradient(x),
                                run.parameter_gradient(channels), run.parameter_gradient(channels));
    run.backend.dyt(run.in(x), run.parameter({1}), run.parameter(channels), run.parameter(channels), run.out(x));
    run.backend.dyt_backward(run.in(x), run.in(x), run.parameter({1}), run.parameter(channels), run.gradient(x),
                             run.parameter_gradient({1}), run.parameter_gradient(channels),
                             run.parameter_gradient(channels));
    run.backend.dyt_backward(run.in(x), run.in(x), run.parameter({1}), run.parameter(channels), {},
                             run.parameter_gradient({1}), {}, run.parameter_gradient(channels));
    run.backend.dyt_backward(run.in(x), run.in(x), run.parameter({1}), run.parameter(channels), run.gradient(x), {}, {},
                             {});
  });
}
