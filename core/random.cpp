#include "core/random.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <utility>

#include "core/error.h"

namespace normlab {
namespace {

constexpr std::uint64_t kFnvBasis = 0xcbf29ce484222325u, kFnvPrime = 0x100000001b3u;

std::uint64_t fnv_byte(std::uint64_t hash, unsigned char byte) { return (hash ^ byte) * kFnvPrime; }

std::uint64_t fnv_text(std::uint64_t hash, std::string_view text) {
  for (const char c : text) hash = fnv_byte(hash, static_cast<unsigned char>(c));
  return hash;
}

/// A polynomial, highest power first.
template <std::size_t kTerms>
double horner(const double (&coefficients)[kTerms], double x) {
  double sum = 0;
  for (const double c : coefficients) sum = sum * x + c;
  return sum;
}

// AS 241, PPND16: numerators and denominators for the centre, the near tails and the far tails.
constexpr double kCentreTop[] = {2.5090809287301226727e+3, 3.3430575583588128105e+4, 6.7265770927008700853e+4,
                                 4.5921953931549871457e+4, 1.3731693765509461125e+4, 1.9715909503065514427e+3,
                                 1.3314166789178437745e+2, 3.3871328727963666080e0};
constexpr double kCentreBottom[] = {
    5.2264952788528545610e+3, 2.8729085735721942674e+4, 3.9307895800092710610e+4, 2.1213794301586595867e+4,
    5.3941960214247511077e+3, 6.8718700749205790830e+2, 4.2313330701600911252e+1, 1.0};
constexpr double kNearTop[] = {7.74545014278341407640e-4, 2.27238449892691845833e-2, 2.41780725177450611770e-1,
                               1.27045825245236838258e0,  3.64784832476320460504e0,  5.76949722146069140550e0,
                               4.63033784615654529590e0,  1.42343711074968357734e0};
constexpr double kNearBottom[] = {
    1.05075007164441684324e-9, 5.47593808499534494600e-4, 1.51986665636164571966e-2, 1.48103976427480074590e-1,
    6.89767334985100004550e-1, 1.67638483018380384940e0,  2.05319162663775882187e0,  1.0};
constexpr double kFarTop[] = {2.01033439929228813265e-7, 2.71155556874348757815e-5, 1.24266094738807843860e-3,
                              2.65321895265761230930e-2, 2.96560571828504891230e-1, 1.78482653991729133580e0,
                              5.46378491116411436990e0,  6.65790464350110377720e0};
constexpr double kFarBottom[] = {
    2.04426310338993978564e-15, 1.42151175831644588870e-7, 1.84631831751005468180e-5, 7.86869131145613259100e-4,
    1.48753612908506148525e-2,  1.36929880922735805310e-1, 5.99832206555887937690e-1, 1.0};

}  // namespace

StreamKey stream_key(std::uint64_t seed, std::string_view stream, std::string_view name) {
  std::uint64_t hash = kFnvBasis;
  for (int shift = 0; shift < 64; shift += 8) hash = fnv_byte(hash, static_cast<unsigned char>(seed >> shift));
  hash = fnv_text(fnv_byte(fnv_text(hash, stream), 0), name);
  hash = (hash ^ (hash >> 33)) * 0xff51afd7ed558ccdu;
  hash = (hash ^ (hash >> 33)) * 0xc4ceb9fe1a85ec53u;
  hash ^= hash >> 33;
  return {{static_cast<std::uint32_t>(hash), static_cast<std::uint32_t>(hash >> 32)}};
}

double normal_cdf(double x) { return 0.5 * std::erfc(-x / std::numbers::sqrt2); }

double normal_quantile(double p) {
  if (!(p > 0 && p < 1)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return p == 0 ? -kInfinity : p == 1 ? kInfinity : std::numeric_limits<double>::quiet_NaN();
  }
  const double q = p - 0.5;
  if (std::abs(q) <= 0.425) {
    const double r = 0.180625 - q * q;
    return q * horner(kCentreTop, r) / horner(kCentreBottom, r);
  }
  const double r = std::sqrt(-std::log(q < 0 ? p : 1 - p));
  const double x = r <= 5 ? horner(kNearTop, r - 1.6) / horner(kNearBottom, r - 1.6)
                          : horner(kFarTop, r - 5) / horner(kFarBottom, r - 5);
  return q < 0 ? -x : x;
}

double normal(StreamKey key, std::uint64_t position) {
  const auto words = draw(key, position);
  return normal_quantile(uniform(words[0], words[1]));
}

double truncated_normal(StreamKey key, std::uint64_t position, double lo, double hi) {
  // In the upper tail the distribution function is 1 - tiny; the lower tail loses no digits.
  if (lo > 0) return -truncated_normal(key, position, -hi, -lo);
  const auto words = draw(key, position);
  const double from = normal_cdf(lo), to = normal_cdf(hi);
  return std::clamp(normal_quantile(from + (to - from) * uniform(words[0], words[1])), lo, hi);
}

std::uint32_t drop_threshold(double rate) {
  if (!(rate >= 0 && rate < 1)) throw InputError(concat("a drop rate must be in [0, 1), got ", rate));
  return static_cast<std::uint32_t>(std::min(std::floor(rate * 0x1p32 + 0.5), 0x1p32 - 1));
}

std::vector<std::int64_t> permutation(StreamKey key, std::int64_t n, std::uint64_t epoch) {
  std::vector<std::pair<std::uint64_t, std::int64_t>> drawn(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) {
    const auto words = draw(key, static_cast<std::uint64_t>(i), epoch);
    drawn[static_cast<std::size_t>(i)] = {std::uint64_t{words[0]} << 32 | words[1], i};
  }
  std::sort(drawn.begin(), drawn.end());
  std::vector<std::int64_t> order(drawn.size());
  std::transform(drawn.begin(), drawn.end(), order.begin(), [](const auto& pair) { return pair.second; });
  return order;
}

}  // namespace normlab
