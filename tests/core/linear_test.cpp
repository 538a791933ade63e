// Dense layers in every form and type, against sums in double by plain loops.
#include <doctest/doctest.h>

#include <cmath>
#include <string>
#include <vector>

#include "autograd/randn.h"
#include "core/arena.h"
#include "core/backend.h"
#include "tests/devices.h"

namespace normlab {
namespace {

using Numbers = std::vector<double>;

double value(const Tensor& t, std::int64_t i) {
  return t.dtype() == DType::f64   ? t.data<double>()[i]
         : t.dtype() == DType::f32 ? double(t.data<float>()[i])
                                   : double(float(t.data<bf16>()[i]));
}
void set(const Tensor& t, std::int64_t i, double to) {
  if (t.dtype() == DType::f64)
    t.data<double>()[i] = to;
  else if (t.dtype() == DType::f32)
    t.data<float>()[i] = float(to);
  else
    t.data<bf16>()[i] = bf16(to);
}
Numbers numbers(const Tensor& t) {
  Numbers all;
  for (std::int64_t i = 0; i < t.size(); ++i) all.push_back(value(t, i));
  return all;
}

enum class Form { linear, linear_add, gelu_erf, gelu_tanh };
struct Case {
  Form form;
  bool bias;
  Write write;
  bool dw = true;  // dw and dx are asked for, or only the gradient of the bias
};

/// Value and slope.
std::pair<double, double> gelu_of(Form form, double h) {
  const double pi = std::acos(-1.0);
  if (form == Form::gelu_erf) {
    const double phi = std::erfc(-h / std::sqrt(2.0)) / 2;
    return {h * phi, phi + h * std::exp(-h * h / 2) / std::sqrt(2 * pi)};
  }
  const double root = std::sqrt(2 / pi), t = std::tanh(root * (h + 0.044715 * h * h * h));
  return {h * (1 + t) / 2, (1 + t) / 2 + h * (1 - t * t) / 2 * root * (1 + 3 * 0.044715 * h * h)};
}

struct Layer {
  LinearDims d;
  Tensor x, w, b, residual, dy, kept, y, dx, dw, db;

  Layer(Arena& arena, LinearDims dims, DType type, const Case& c) : d(dims) {
    // All types get numbers that bf16 can hold, except biases, so that only the kernels differ.
    const auto drawn = [&](const Shape& shape, std::uint64_t seed, DType to, bool exact = false) {
      const Tensor from = randn(arena, shape, DType::f64, seed), t = arena.empty(shape, to);
      for (std::int64_t i = 0; i < t.size(); ++i)
        set(t, i, exact ? double(float(value(from, i))) : double(float(bf16(value(from, i)))));
      return t;
    };
    const DType acc = acc_of(type);
    x = drawn({d.rows, d.in}, 1, type);
    w = drawn({d.out, d.in}, 2, acc);
    if (c.bias) b = drawn({d.out}, 3, acc, true);
    residual = drawn({d.rows, d.out}, 4, type);
    dy = drawn({d.rows, d.out}, 5, type);
    kept = arena.empty({d.rows, d.out}, type), y = arena.empty({d.rows, d.out}, type);
    dx = arena.empty({d.rows, d.in}, type), dw = arena.empty({d.out, d.in}, acc), db = arena.empty({d.out}, acc);
    for (const Tensor& t : {dx, dw, db})
      for (std::int64_t i = 0; i < t.size(); ++i) set(t, i, 1.0);
  }

  void run(Backend& backend, const Case& c) const {
    Gradient to_x, to_w;
    if (c.dw) to_x = {dx, c.write}, to_w = {dw, c.write};
    const Gradient to_b{db, c.write};
    const GeluForm form = c.form == Form::gelu_erf ? GeluForm::erf : GeluForm::tanh;
    if (c.form == Form::linear || c.form == Form::linear_add) {
      backend.linear(d, x, w, b, c.form == Form::linear ? Tensor() : residual, y);
      backend.linear_backward(d, {dy, x, w, to_x, to_w, to_b});
    } else {
      backend.linear_gelu(d, form, x, w, b, kept, y);
      backend.linear_gelu_backward(d, form, {dy, x, w, to_x, to_w, to_b, kept});
    }
    backend.synchronize();
  }

  /// What run() should give: y, dx, dw and db.
  std::vector<Numbers> expected(const Case& c) const {
    const auto at = [](std::int64_t r, std::int64_t cols, std::int64_t k) {
      return static_cast<std::size_t>(r * cols + k);
    };
    const double start = c.write == Write::add ? 1.0 : 0.0, otherwise = c.dw ? start : 1.0;
    Numbers out(std::size_t(d.rows * d.out)), to_x(std::size_t(d.rows * d.in), otherwise),
        to_w(std::size_t(d.out * d.in), otherwise), to_b(std::size_t(d.out), start);
    const Numbers vx = numbers(x), vw = numbers(w), up = numbers(dy), plus = numbers(residual);
    for (std::int64_t r = 0; r < d.rows; ++r)
      for (std::int64_t o = 0; o < d.out; ++o) {
        double h = b ? value(b, o) : 0.0, g = up[at(r, d.out, o)];
        for (std::int64_t i = 0; i < d.in; ++i) h += vx[at(r, d.in, i)] * vw[at(o, d.in, i)];
        if (c.form == Form::linear_add) h += plus[at(r, d.out, o)];
        if (c.form == Form::gelu_erf || c.form == Form::gelu_tanh) {
          const auto [activated, slope] = gelu_of(c.form, h);
          g *= slope;
          h = activated;
        }
        out[at(r, d.out, o)] = h;
        to_b[static_cast<std::size_t>(o)] += g;
        for (std::int64_t i = 0; c.dw && i < d.in; ++i) {
          to_x[at(r, d.in, i)] += g * vw[at(o, d.in, i)];
          to_w[at(o, d.in, i)] += g * vx[at(r, d.in, i)];
        }
      }
    return {out, to_x, to_w, to_b};
  }
};

/// The largest difference beside the largest number.
double apart(const Tensor& got, const Numbers& wanted) {
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double difference = std::abs(value(got, static_cast<std::int64_t>(i)) - wanted[i]);
    error = difference <= error ? error : difference;  // NaN stays
    largest = std::max(largest, std::abs(wanted[i]));
  }
  return error / largest;
}

}  // namespace

TEST_CASE("linear: every form and type equals sums in double") {
  const std::vector<Case> cases{{Form::linear, true, Write::assign},     {Form::linear, false, Write::assign},
                                {Form::linear, true, Write::add},        {Form::linear, true, Write::assign, false},
                                {Form::linear_add, true, Write::assign}, {Form::linear_add, false, Write::add},
                                {Form::gelu_erf, true, Write::assign},   {Form::gelu_erf, false, Write::add},
                                {Form::gelu_tanh, true, Write::assign},  {Form::gelu_tanh, false, Write::assign},
                                {Form::gelu_tanh, true, Write::add},     {Form::gelu_tanh, true, Write::assign, false}};
  // Widths of whole vectors and others; rows of one chunk, of two chunks, and a single row.
  const std::vector<LinearDims> sizes{{70, 24, 48}, {131, 10, 21}, {1, 8, 16}};
  on_each_device([&] {
    for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
      Backend& backend =
          type == DType::bf16 ? current_device().backend.with_bf16(current_device().bf16) : current_device().backend;
      const double bound = type == DType::f64 ? 1e-14 : type == DType::f32 ? 3e-6 : 0x1p-7;
      for (std::size_t number = 0; number < cases.size(); ++number)
        for (const LinearDims& d : sizes) {
          CAPTURE(to_string(type));
          CAPTURE(number);
          CAPTURE(d.rows);
          Arena arena(current_device().memory());
          const Layer layer(arena, d, type, cases[number]);
          layer.run(backend, cases[number]);
          const std::vector<Numbers> wanted = layer.expected(cases[number]);
          CHECK(apart(layer.y, wanted[0]) < bound);
          CHECK(apart(layer.dx, wanted[1]) < bound);
          CHECK(apart(layer.dw, wanted[2]) < bound);
          CHECK(apart(layer.db, wanted[3]) < bound);
        }
    }
  });
}

TEST_CASE("linear: the backward pass through a GELU before the layer equals sums in double") {
  on_each_device([&] {
    for (const DType type : {DType::f32, DType::f64, DType::bf16})
      for (const Form form : {Form::gelu_erf, Form::gelu_tanh})
        for (const Write write : {Write::assign, Write::add})
          for (const std::int64_t width : {std::int64_t{48}, std::int64_t{21}}) {
            CAPTURE(to_string(type));
            CAPTURE(static_cast<int>(form));
            CAPTURE(static_cast<int>(write));
            CAPTURE(width);
            Backend& backend = type == DType::bf16 ? current_device().backend.with_bf16(current_device().bf16)
                                                   : current_device().backend;
            Arena arena(current_device().memory());
            const Case before{form, true, Write::assign}, after{Form::linear, false, write};
            const Layer one(arena, {37, 16, width}, type, before), two(arena, {37, width, 24}, type, after);
            const GeluForm gelu = form == Form::gelu_erf ? GeluForm::erf : GeluForm::tanh;
            if (&current_device() == &devices_under_test()[0]) {
              CHECK_THROWS_WITH_AS(backend.linear_backward_through_gelu(two.d, gelu, {}),
                                   "linear_backward_through_gelu: this device has no such product", InputError);
              continue;
            }
            one.run(backend, before);
            backend.linear_backward_through_gelu(
                two.d, gelu, {two.dy, one.y, two.w, {two.dx, write}, {two.dw, write}, {two.db, write}, one.kept});
            backend.synchronize();
            Layer same = two;
            same.x = one.y;  // for dw
            const std::vector<Numbers> plain = same.expected(after);
            const double start = write == Write::add ? 1.0 : 0.0;
            Numbers dh = plain[1];
            const Numbers vx = numbers(one.x), vw = numbers(one.w);
            for (std::int64_t r = 0; r < one.d.rows; ++r)
              for (std::int64_t o = 0; o < width; ++o) {
                double h = value(one.b, o);
                for (std::int64_t i = 0; i < one.d.in; ++i)
                  h += vx[std::size_t(r * one.d.in + i)] * vw[std::size_t(o * one.d.in + i)];
                double& g = dh[std::size_t(r * width + o)];
                g = start + (g - start) * gelu_of(form, h).second;
              }
            const double bound = type == DType::f64 ? 1e-14 : type == DType::f32 ? 3e-6 : 0x1p-7;
            CHECK(apart(two.dx, dh) < bound);
            CHECK(apart(two.dw, plain[2]) < bound);
            CHECK(apart(two.db, plain[3]) < bound);
          }
  });
}

TEST_CASE("linear: GELU without a tensor for the backward pass gives the same output") {
  on_each_device([] {
    Arena arena(current_device().memory());
    const Case c{Form::gelu_tanh, true, Write::assign};
    const Layer layer(arena, {9, 8, 24}, DType::f32, c);
    current_device().backend.linear_gelu(layer.d, GeluForm::tanh, layer.x, layer.w, layer.b, {}, layer.y);
    current_device().backend.synchronize();
    CHECK(apart(layer.y, layer.expected(c)[0]) < 3e-6);
  });
}

}  // namespace normlab
