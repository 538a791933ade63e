// Dropout and drop-path with a given mask, the drawing of masks, and the search for NaN.
#include "core/cpu/kernel.h"

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace normlab {
using namespace cpu;

namespace {

/// For each element or each group of `keep`: `factor` where the mask keeps it, else 0.
template <class A>
class Factors {
 public:
  Factors(std::int64_t group, double rate, const Tensor& keep)
      : group_(group), keep_(keep.data<std::uint8_t>()), factor_(A(1 / (1 - rate))) {}
  /// Calls f(i, lanes, factors) for each vector of n elements.
  template <class F>
  void each(std::int64_t n, F&& f) const {
    if (group_ == 1)
      each_vector<A>(n, [&](auto i, auto lanes) { f(i, lanes, of(i, lanes)); });
    else
      for (std::int64_t g = 0; g < n / group_; ++g) {
        const Vec<A> all = Vec<A>{} + (keep_[g] ? factor_ : A(0));
        each_vector<A>(group_, [&](auto i, auto lanes) { f(g * group_ + i, lanes, all); });
      }
  }

 private:
  template <class L>
  Vec<A> of(std::int64_t i, L lanes) const {
    using Words = Vec<std::conditional_t<sizeof(A) == 4, std::int32_t, std::int64_t>>;
    Vector<std::uint8_t, kLanes<A, kRowBytes>> bytes{};
    std::memcpy(&bytes, keep_ + i, static_cast<std::size_t>(lanes.count()));
    return std::bit_cast<Vec<A>>(std::bit_cast<Words>(Vec<A>{} + factor_) &
                                 (__builtin_convertvector(bytes, Words) != 0));
  }
  const std::int64_t group_;
  const std::uint8_t* const keep_;
  const A factor_;
};

using Words64 = Vector<std::uint64_t>;

/// 0, 1, 2, ...
constexpr Words64 kLane = []<std::size_t... kAt>(std::index_sequence<kAt...>) { return Words64{kAt...}; }
(std::make_index_sequence<kLanes<std::uint64_t>>{});

/// Products of the lower halves of 64-bit lanes.
Words64 multiply_low(const Words64& a, std::uint32_t b) noexcept {
#if defined(__AVX512F__)
  // With a mask, as g++ 12 warns of the other form's operand.
  return (Words64)_mm512_maskz_mul_epu32(__mmask8(-1), (__m512i)a, _mm512_set1_epi64(b));
#elif defined(__AVX2__)
  return (Words64)_mm256_mul_epu32((__m256i)a, _mm256_set1_epi64x(b));
#else
  return (a & 0xffffffffu) * std::uint64_t{b};
#endif
}

/// The first word of philox4x32() at `kLanes` adjacent positions. A word is the lower half of a lane; what the upper
/// half holds is never read, which saves the shuffles of packed words.
Words64 first_words(StreamKey key, std::uint64_t position, std::uint64_t step) noexcept {
  const Words64 place = kLane + position;
  Words64 word0 = place, word1 = place >> 32, word2 = Words64{} + step, word3 = word2 >> 32;
  std::uint32_t key0 = key.key[0], key1 = key.key[1];
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Words64 product0 = multiply_low(word0, 0xD2511F53u), product1 = multiply_low(word2, 0xCD9E8D57u);
    word0 = (product1 >> 32) ^ word1 ^ std::uint64_t{key0};
    word2 = (product0 >> 32) ^ word3 ^ std::uint64_t{key1};
    word1 = product1;
    word3 = product0;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
  return word0 & 0xffffffffu;
}

}  // namespace

void CpuBackend::dropout(std::int64_t group, double rate, Tensor x, Tensor keep, Tensor residual, Tensor y) {
  for_type("dropout", x.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    const Factors<A> factors(group, rate, keep);
    const T *in = x.data<T>(), *under = residual.data<T>();
    T* out = y.data<T>();
    choose(bool(residual), [&](auto sums) {
      choose(group == 1, [&](auto by_element) {
        factors.each(x.size(), [&](auto i, auto lanes, const Vec<A>& factor) {
          Vec<A> value = load(in + i, lanes) * factor;
          // A dropped element is zero, whatever it was.
          if constexpr (decltype(by_element)::value) value = factor == 0 ? Vec<A>{} : value;
          if constexpr (decltype(sums)::value) value += load(under + i, lanes);
          store(out + i, value, lanes);
        });
      });
    });
  });
}

void CpuBackend::dropout_backward(std::int64_t group, double rate, Tensor dy, Tensor keep, Gradient dx) {
  if (!dx) return;
  for_type("dropout", dy.dtype(), [&]<class T>(Type<T>) {
    using A = Acc<T>;
    const T* up = dy.data<T>();
    T* out = dx.to.data<T>();
    choose(adds(dx), [&](auto add) {
      Factors<A>(group, rate, keep).each(dy.size(), [&](auto i, auto lanes, const Vec<A>& factor) {
        put<decltype(add)::value>(out + i, load(up + i, lanes) * factor, lanes);
      });
    });
  });
}

void CpuBackend::draw_mask(MaskDraw d, const StepState* state, Tensor keep_mask) {
  const std::uint64_t threshold = drop_threshold(d.rate);
  const auto step = static_cast<std::uint64_t>(state->step);
  std::uint8_t* out = keep_mask.data<std::uint8_t>();
  each_vector<std::uint64_t, kVectorBytes>(keep_mask.size(), [&](auto i, auto lanes) {
    const auto kept = first_words(d.key, static_cast<std::uint64_t>(d.first + i), step) >= threshold;
    const auto bytes = __builtin_convertvector(kept & 1, Vector<std::uint8_t, kLanes<std::uint64_t>>);
    std::memcpy(out + i, &bytes, static_cast<std::size_t>(lanes.count()));
  });
}

void CpuBackend::check_finite(Tensor x, std::int32_t code, Tensor flag) {
  for_type("check_finite", x.dtype(), [&]<class T>(Type<T>) {
    const T* in = x.data<T>();
    // A sum of x * 0 is NaN exactly if some x is not finite, and needs no branch per element.
    const Acc<T> zero = sum<Acc<T>>(x.size(), [&](auto i) { return Acc<T>(in[i]) * 0; });
    std::int32_t* seen = flag.data<std::int32_t>();
    if (!(zero == 0) && *seen == 0) *seen = code;
  });
}

}  // namespace normlab
