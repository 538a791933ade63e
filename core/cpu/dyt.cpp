// Dynamic Tanh, "Transformers without Normalization" section 4: y = gamma tanh(alpha x) + beta.
#include "core/cpu/kernel.h"
#include "core/cpu/vector_exp.h"

namespace normlab {
using namespace cpu;
namespace {

/// Calls f(r, c, n, t) for pieces of rows: n columns of row r from c on, with t = tanh(alpha x). A piece is several
/// short rows or a part of a long one.
template <class T, class F>
[[gnu::always_inline]] inline void each_piece(std::int64_t rows, std::int64_t cols, Acc<T> alpha, const T* x, F&& f) {
  using A = Acc<T>;
  constexpr std::int64_t kPiece = 512;
  const std::int64_t block = std::max<std::int64_t>(1, kPiece / cols), width = std::min(cols, kPiece);
  A* t = scratch<A>(Slot::a, block * width);
  for (std::int64_t r = 0; r < rows; r += block)
    for (std::int64_t c = 0; c < cols; c += width) {
      const std::int64_t count = std::min(block, rows - r), columns = std::min(width, cols - c), size = count * columns;
      const T* from = x + r * cols + c;
      each_vector<A>(size, [&](auto i, auto n) {
        const Vec<A> u = alpha * load(from + i, n);
        if constexpr (std::is_same_v<A, float>)
          store(t + i, tanh_of(u), n);
        else
          store(t + i, u, n);
        __builtin_prefetch(from + size + i);  // fetches the next input meanwhile
      });
      if constexpr (std::is_same_v<A, double>) vector_tanh(size, t, t);
      for (std::int64_t j = 0; j < count; ++j) f(r + j, c, columns, static_cast<const A*>(t + j * columns));
    }
}

/// du = dy gamma (1 - t^2) is the gradient of u = alpha x. dx = alpha du, dalpha = sum of du x, dgamma = sum of dy t,
/// dbeta = sum of dy.
template <class T, bool kAdd>
void dyt_gradients(const NormBackward& n, Acc<T> alpha, const Gradient& dalpha) {
  using A = Acc<T>;
  const std::int64_t rows = n.x.shape().rows(), cols = n.x.shape().back();
  const T *dy = n.dy.data<T>(), *x = n.x.data<T>();
  const Param<T>* gamma = n.gamma.data<Param<T>>();
  RowAdder<A, 2> sums(Slot::c, cols);
  T* out = n.dx.to.data<T>();
  double of_alpha = 0.0;
  each_piece<T>(rows, cols, alpha, x, [&](std::int64_t r, std::int64_t begin, std::int64_t columns, const A* t) {
    const std::int64_t e = r * cols + begin;
    Vec<A> of_piece{};
    each_vector<A>(columns, [&](auto c, auto k) {
      const Vec<A> up = load(dy + e + c, k), th = load(t + c, k), du = up * load(gamma + begin + c, k) * (1 - th * th);
      of_piece += du * load(x + e + c, k);
      sums.add(0, begin + c, up * th, k);
      sums.add(1, begin + c, up, k);
      if (out) put<kAdd>(out + e + c, alpha * du, k);
    });
    of_alpha += double(lane_sum(of_piece));
    if (begin + columns == cols) sums.end_rows(1);
  });
  if (dalpha) put(dalpha.to.data<Param<T>>()[0], A(of_alpha), adds(dalpha));
  sums.template finish<Param<T>>(0, n.dgamma);
  sums.template finish<Param<T>>(1, n.dbeta);
}

}  // namespace

void CpuBackend::dyt(Tensor x, Tensor alpha, Tensor gamma, Tensor beta, Tensor y) {
  for_type("dyt", x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    const std::int64_t cols = x.shape().back();
    const Param<T>*g = gamma.data<Param<T>>(), *b = beta.data<Param<T>>();
    T* out = y.data<T>();
    each_piece<T>(x.shape().rows(), cols, alpha.data<Param<T>>()[0], x.data<T>(),
                  [&](std::int64_t r, std::int64_t begin, std::int64_t columns, const Acc<T>* t) {
                    each_vector<Acc<T>>(columns, [&](auto c, auto n) {
                      store(out + r * cols + begin + c,
                            load(g + begin + c, n) * load(t + c, n) + load(b + begin + c, n), n);
                    });
                  });
  });
}

void CpuBackend::dyt_backward(const NormBackward& n, Tensor alpha, Gradient dalpha) {
  for_type("dyt", n.x.dtype(), [&](auto type) {
    using T = typename decltype(type)::type;
    choose(adds(n.dx), [&](auto add) { dyt_gradients<T, decltype(add)::value>(n, alpha.data<Param<T>>()[0], dalpha); });
  });
}

}  // namespace normlab
