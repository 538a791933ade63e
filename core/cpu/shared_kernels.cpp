// How the CPU runs the kernels that all devices share.
#include "core/cpu/kernel.h"
#include "core/shared/losses.h"
#include "core/shared/maps.h"
#include "core/shared/rotary.h"

namespace normlab {
using namespace cpu;
namespace {

/// A row's loops and sums, on this thread.
struct ThreadRow {
  static constexpr bool kAddsTargets = true;
  bool leads() const { return true; }
  template <class F>
  void each(std::int64_t n, F&& f) const {
    for (std::int64_t c = 0; c < n; ++c) f(c);
  }
  template <class A, class F>
  A sum(std::int64_t n, F&& term) const {
    return cpu::sum<A>(n, term);
  }
  template <class A, class F>
  A sum_in_order(std::int64_t n, F&& term) const {
    A total = 0;
    for (std::int64_t c = 0; c < n; ++c) total += term(c);
    return total;
  }
  template <class F>
  auto max(std::int64_t n, F&& value) const {
    auto top = value(0);
    for (std::int64_t c = 1; c < n; ++c) top = std::max(top, value(c));
    return top;
  }
  template <class T, class A>
  void put(T& to, A value, bool add) const {
    cpu::put(to, value, add);
  }
};

/// gain[c / group] expanded to all columns, so that loops need no division.
template <class P>
const P* spread(std::int64_t group, std::int64_t cols, const P* gain, P* wide) {
  if (group == 1) return gain;
  for (std::int64_t c = 0; c < cols; ++c) wide[c] = gain[c / group];
  return wide;
}

}  // namespace

/// Rejects labels out of range: such an image would have no target and the loss 0.
void CpuBackend::require_classes(const char* op, const LossDims& d, const Tensor& labels) {
  for (std::int64_t b = 0; labels && b < d.batch; ++b) {
    const std::int32_t label = labels.data<std::int32_t>()[b];
    if ((label >= 0 && label < d.classes) || label == d.ignored) continue;
    throw InputError(concat(op, ": ", d.ignored ? "pixel" : "image", " ", b, " has label ", label, ", but there are ",
                            d.classes, " classes", d.ignored ? concat(", and ", *d.ignored, " is ignored") : ""));
  }
}

template <class F>
void CpuBackend::each_row(const char*, std::int64_t rows, const F& f) {
  for (std::int64_t r = 0; r < rows; ++r) f(ThreadRow(), r);
}

template <class F, std::size_t kIn, std::size_t kColumns, std::size_t kSums>
void CpuBackend::map(const char* op, std::int64_t rows, std::int64_t cols, const F& f,
                     const Operands<kIn, kColumns, kSums>& operands) {
  for_type(op, operands.in[0].dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    const T* in[kIn];
    for (std::size_t i = 0; i != kIn; ++i) in[i] = operands.in[i].template data<T>();
    const A* columns[kColumns + 1];
    const Scratch<A> wide(operands.group == 1 ? 0 : cols);
    for (std::size_t k = 0; k != kColumns; ++k)
      columns[k] = spread(operands.group, cols, operands.columns[k].template data<A>(), wide.begin());
    T* const out = operands.y.to.template data<T>();
    [&]<std::size_t... i, std::size_t... k>(std::index_sequence<i...>, std::index_sequence<k...>) {
      if constexpr (kSums == 0) {
        constexpr std::int64_t kPiece = 256;
        for (std::int64_t e = 0; e < rows * cols; e += cols)
          for (std::int64_t first = 0; first < cols; first += kPiece) {
            A values[kPiece];  // rounded before they are added, as where the addition is another operation
            const std::int64_t count = std::min(kPiece, cols - first);
            for (std::int64_t c = 0; c < count; ++c)
              values[c] = f(A(in[i][e + first + c])..., columns[k][first + c]...);
            for (std::int64_t c = 0; c < count; ++c) put(out[e + first + c], values[c], adds(operands.y));
          }
      } else {
        RowAdder<A, kSums> sums(cols);
        choose(adds(operands.y), [&](auto add) {
          for (std::int64_t e = 0; e < rows * cols; e += cols) {
            each_vector<A>(cols, [&](auto c, auto n) {
              Vec<A> terms[kSums];
              const Vec<A> y = f(terms, load(in[i] + e + c, n)..., load(columns[k] + c, n)...);
              for (std::size_t s = 0; s != kSums; ++s) sums.add(int(s), c, terms[s], n);
              if (out) put<decltype(add)::value>(out + e + c, y, n);
            });
            sums.end_rows(1);
          }
        });
        for (std::size_t s = 0; s != kSums; ++s) sums.template finish<A>(int(s), operands.sums[s], operands.group);
      }
    }
    (std::make_index_sequence<kIn>(), std::make_index_sequence<kColumns>());
  });
}

template class SharedKernels<CpuBackend>;

}  // namespace normlab
