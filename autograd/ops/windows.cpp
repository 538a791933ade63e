// Cuts a token grid into windows and joins them ("Swin Transformer", section 3.2).
#include "autograd/ops.h"
#include "core/backend.h"

namespace normlab {

WindowDims Windows::dims(std::int64_t batch, std::int64_t cols) const {
  return {.batch = batch,
          .height = height,
          .width = width,
          .cols = cols,
          .window = window,
          .shift_y = shift_y,
          .shift_x = shift_x,
          .padding = padding};
}

Var cut_windows(const Var& x, const Windows& windows) {
  const Shape& s = x.shape();
  if (s.rank() != 3 || s[1] != windows.height * windows.width)
    throw InputError(
        concat("cut_windows: x is ", s.str(), ", expected [batch, ", windows.height, " * ", windows.width, ", width]"));
  for (const std::int64_t shift : {windows.shift_y, windows.shift_x})
    if (windows.window < 1 || shift < 0 || shift >= windows.window)
      throw InputError(concat("cut_windows: a window of ", windows.window, " with a shift of ", shift));
  const WindowDims dims = windows.dims(s[0], s[2]);
  Tape& tape = x.tape();
  Tensor y = tape.empty({dims.batch * dims.windows(), dims.tokens(), dims.cols}, x.value().dtype());
  tape.backend().gather(dims, x.value(), {y});
  const Saved saved = tape.save(x);
  const Var out = tape.record("cut_windows", {x}, y,
                              [=](Backend& backend, const Tensor& dy, Grads& d) { backend.scatter(dims, dy, d[0]); });
  tape.can_remake(out, [=](Backend& backend, const Tensor& again) { backend.gather(dims, saved.value(), {again}); });
  return out;
}

Var join_windows(const Var& x, const Windows& windows) {
  const Shape& s = x.shape();
  const WindowDims one = windows.dims(1, s.back());
  if (s.rank() != 3 || s[0] % one.windows() != 0 || s[1] != one.tokens())
    throw InputError(
        concat("join_windows: x is ", s.str(), ", expected [batch * ", one.windows(), ", ", one.tokens(), ", width]"));
  const WindowDims dims = windows.dims(s[0] / one.windows(), s[2]);
  Tape& tape = x.tape();
  Tensor y = tape.empty({dims.batch, dims.height * dims.width, dims.cols}, x.value().dtype());
  tape.backend().scatter(dims, x.value(), {y});
  return tape.record("join_windows", {x}, y,
                     [=](Backend& backend, const Tensor& dy, Grads& d) { backend.gather(dims, dy, d[0]); });
}

}  // namespace normlab
