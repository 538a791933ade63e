// Formulas a second time, simply: every value is an array of the size of x, in double, by the definitions of the
// language. And random formulas.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <map>
#include <numbers>
#include <random>
#include <string>
#include <vector>

#include "core/formula/graph.h"

namespace normlab::formula {

struct Sizes {
  std::int64_t images, tokens, channels;
  std::int64_t size() const { return images * tokens * channels; }
};

using Values = std::vector<double>;

/// What test formulas may read.
inline const std::vector<Parameter> kParameters{{.name = "alpha", .value = 0.7},
                                                {.name = "beta", .per_channel = true, .value = 0.2},
                                                {.name = "gamma", .per_channel = true, .value = 1.1},
                                                {.name = "shift", .value = -0.4}};
inline Tree tree_of(const std::string& text, const std::vector<Parameter>& parameters = kParameters) {
  std::vector<Name> names;
  for (const Parameter& p : parameters) names.push_back({p.name, p.per_channel ? kChannel : Axes(0)});
  return parse(text, names);
}

/// Parameters by name, each of 1 or `channels` values, or kGate, of as many as x.
inline Values interpret(const Tree& tree, const Sizes& s, const Site& site, const Values& x,
                        const std::map<std::string, Values>& parameters) {
  std::vector<Values> done;
  const auto map = [&](auto f) {
    Values out(std::size_t(s.size()));
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = f(i);
    return out;
  };
  const auto axes_of = [&](std::size_t i) {
    const std::int64_t all = std::int64_t(i);
    return std::array{all / (s.tokens * s.channels), all / s.channels % s.tokens, all % s.channels};
  };
  const auto index = [&](std::int64_t image, std::int64_t token, std::int64_t channel) {
    return std::size_t((image * s.tokens + token) * s.channels + channel);
  };
  // The values of `v` that the value at i is reduced over.
  const auto group = [&](const Values& v, std::size_t i, Axes over) {
    const auto [image, token, channel] = axes_of(i);
    Values out;
    for (std::int64_t t = 0; t < s.tokens; ++t)
      for (std::int64_t c = 0; c < s.channels; ++c)
        if (((over & kToken) || t == token) && ((over & kChannel) || c == channel))
          out.push_back(v[index(image, t, c)]);
    return out;
  };
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const Term& t : tree.terms) {
    const auto a = [&](std::size_t i) -> const Values& { return done[std::size_t(t.arguments[i])]; };
    const std::string& w = t.word;
    if (t.arguments.empty()) {
      const std::map<std::string, double> numbers{{"", t.number},
                                                  {"pi", std::numbers::pi},
                                                  {"e", std::numbers::e},
                                                  {"C", double(site.channels)},
                                                  {"N", double(site.tokens)},
                                                  {"depth", double(site.depth)},
                                                  {"block", double(site.block)}};
      if (w == "x")
        done.push_back(x);
      else if (w == "channel")
        done.push_back(map([&](std::size_t i) { return double(std::int64_t(i) % s.channels + 1); }));
      else if (const auto number = numbers.find(w); number != numbers.end())
        done.push_back(map([&](std::size_t) { return number->second; }));
      else
        done.push_back(map([&](std::size_t i) {
          const Values& p = parameters.at(w);
          return p[p.size() == 1 ? 0 : i % (w == kGate ? p.size() : std::size_t(s.channels))];
        }));
      continue;
    }
    const Called called = find_function(w);
    if (called.function && called.function->reduces && t.arguments.size() == called.function->least) {
      const Axes over = called.over;
      const std::string word(called.function->word);
      const auto reduced = [&](std::size_t i) {
        const Values v = group(a(0), i, over);
        if (word == "dot") {
          const Values other = group(a(1), i, over);
          double sum = 0;
          for (std::size_t k = 0; k < v.size(); ++k) sum += v[k] * other[k];
          return sum;
        }
        double sum = 0, squares = 0;
        for (const double e : v) sum += e, squares += e * e;
        const double n = double(v.size()), mean = sum / n;
        double off = 0;
        for (const double e : v) off += (e - mean) * (e - mean);
        if (word == "sum") return sum;
        if (word == "mean") return mean;
        if (word == "var") return off / n;
        if (word == "std") return std::sqrt(off / n + site.eps);
        if (word == "rms") return std::sqrt(squares / n + site.eps);
        if (word == "norm") return std::sqrt(squares + site.eps);
        if (std::any_of(v.begin(), v.end(), [](double e) { return std::isnan(e); })) return nan;
        return word == "max" ? *std::max_element(v.begin(), v.end()) : *std::min_element(v.begin(), v.end());
      };
      Values out(std::size_t(s.size()));
      for (std::size_t i = 0; i < out.size(); ++i) {
        const auto [image, token, channel] = axes_of(i);
        const std::size_t first = index(image, over & kToken ? 0 : token, over & kChannel ? 0 : channel);
        out[i] = first < i ? out[first] : reduced(i);
      }
      done.push_back(std::move(out));
      continue;
    }
    done.push_back(map([&](std::size_t i) -> double {
      const double p = a(0)[i], q = t.arguments.size() > 1 ? a(1)[i] : 0.0;
      const bool none = std::isnan(p) || std::isnan(q);
      if (w == "+") return p + q;
      if (w == "-") return p - q;
      if (w == "*") return p * q;
      if (w == "/") return p / q;
      if (w == "^") {
        const Term& exponent = tree.terms[std::size_t(t.arguments[1])];
        const bool literal = exponent.word.empty() ||
                             (exponent.word == "neg" && tree.terms[std::size_t(exponent.arguments[0])].word.empty());
        return p < 0 && !(literal && q == std::floor(q) && std::abs(q) <= 8) ? nan : std::pow(p, q);
      }
      if (w == "neg") return -p;
      if (w == "stop") return p;
      if (w == "abs") return std::abs(p);
      if (w == "sign") return p > 0 ? 1 : p < 0 ? -1 : p;
      if (w == "sqrt") return std::sqrt(p);
      if (w == "rsqrt") return 1 / std::sqrt(p);
      if (w == "exp") return std::exp(p);
      if (w == "expm1") return std::expm1(p);
      if (w == "log") return std::log(p);
      if (w == "log1p") return std::log1p(p);
      if (w == "tanh") return std::tanh(p);
      if (w == "sigmoid") return 1 / (1 + std::exp(-p));
      if (w == "erf") return std::erf(p);
      if (w == "atan") return std::atan(p);
      if (w == "sin") return std::sin(p);
      if (w == "cos") return std::cos(p);
      if (w == "softplus") return p > 30 ? p : std::log1p(std::exp(p));
      if (w == "relu") return std::isnan(p) ? p : std::max(p, 0.0);
      if (w == "silu") return p / (1 + std::exp(-p));
      if (w == "gelu") return p * 0.5 * std::erfc(-p / std::numbers::sqrt2);
      if (w == "min") return none ? nan : std::min(p, q);
      if (w == "max") return none ? nan : std::max(p, q);
      if (w == "clamp") return none || std::isnan(a(2)[i]) ? nan : std::min(std::max(p, q), a(2)[i]);
      if (w == "where<") return none ? nan : p < q ? a(2)[i] : a(3)[i];
      if (w == "where>") return none ? nan : p > q ? a(2)[i] : a(3)[i];
      throw std::runtime_error("interpreter: " + w);
    }));
  }
  return done.back();
}

/// Texts of formulas; about half of them are well typed.
class RandomFormulas {
 public:
  explicit RandomFormulas(std::uint64_t seed) : random_(seed) {}
  std::string next() { return part(4); }

 private:
  std::size_t below(std::size_t n) { return std::size_t(random_() % n); }
  std::string part(int deep) {
    if (deep == 0 || below(8) == 0) return leaf();
    const auto p = [&] { return part(deep - 1 - int(below(2) && deep > 1)); };
    switch (below(13)) {
      case 0:
        return "(" + p() + " + " + p() + ")";
      case 1:
        return "(" + p() + " - " + p() + ")";
      case 2:
      case 3:
        return p() + " * " + p();
      case 4:
        return p() + " / (abs(" + p() + ") + 0.5)";
      case 5:
        return "(" + p() + ")^" + std::vector<std::string>{"2", "3", "-1", "-2", "0.5", "alpha", "C", "9"}[below(8)];
      case 6: {
        static const std::vector<std::string> safe{"abs", "sign",     "tanh", "sigmoid", "erf",  "atan", "sin",
                                                   "cos", "softplus", "relu", "silu",    "gelu", "exp",  "expm1"};
        return safe[below(safe.size())] + "(" + p() + ")";
      }
      case 7:
        return std::vector<std::string>{"sqrt", "rsqrt", "log", "log1p"}[below(4)] + "(abs(" + p() + ") + 0.3)";
      case 8:
        return std::vector<std::string>{"min", "max"}[below(2)] + "(" + p() + ", " + p() + ")";
      case 9:
        return "where(" + p() + (below(2) ? " < " : " > ") + p() + ", " + p() + ", " + p() + ")";
      case 10:
        return "clamp(" + p() + ", -0.7, " + p() + ")";
      case 11:
        return "-" + leaf() + " * " + p();
      default: {
        static const std::vector<std::string> over{"mean", "sum", "min", "max", "rms", "var", "std", "norm"};
        static const std::vector<std::string> of{"", "", "", "_tokens", "_image"};
        if (below(8) == 0) return "dot" + of[below(5)] + "(" + p() + ", " + p() + ")";
        return over[below(over.size())] + of[below(5)] + "(" + p() + ")";
      }
    }
  }
  std::string leaf() {
    static const std::vector<std::string> leaves{"x",   "x",    "x", "x", "gamma", "beta", "alpha",  "shift",
                                                 "0.5", "1.25", "2", "e", "C",     "N",    "channel"};
    return leaves[below(leaves.size())];
  }
  std::mt19937_64 random_;
};

}  // namespace normlab::formula
