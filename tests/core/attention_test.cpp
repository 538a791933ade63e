// Attention and attention inside windows on every device against plain loops in double: sizes around those of the tiles
// that the GPU's kernels use, in every type.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <string>
#include <vector>

#include "autograd/randn.h"
#include "tests/devices.h"

using namespace normlab;

namespace {

struct Case {
  std::int64_t batch, tokens, heads, head_dim;
  bool side_by_side = false, drops = false;
  Write write = Write::assign;
  std::int64_t window = 0, shift_y = 0;  // of a grid 2 windows high and as wide as the batch then says
  std::int64_t shift_x = shift_y;
  std::int64_t width() const { return heads * head_dim; }
  std::int64_t stride() const { return side_by_side ? 3 * width() : width(); }
  WindowDims windows() const {
    const std::int64_t across = std::max<std::int64_t>(batch / 2, 1);
    return {batch / (std::min<std::int64_t>(batch, 2) * across),
            std::min<std::int64_t>(batch, 2) * window,
            across * window,
            width(),
            window,
            shift_y,
            shift_x};
  }
};
constexpr double kRate = 0.25;

using Doubles = std::vector<double>;

Doubles doubles(const Tensor& t) {
  Doubles all;
  for (std::int64_t i = 0; i < t.size(); ++i)
    all.push_back(t.dtype() == DType::bf16  ? double(float(t.data<bf16>()[i]))
                  : t.dtype() == DType::f32 ? double(t.data<float>()[i])
                                            : t.data<double>()[i]);
  return all;
}

/// Everything that attention gives, [B, N, H d] each but lse [B, H, N] and dtable.
struct Results {
  Doubles y, lse, dq, dk, dv, dtable;
};

/// q, k, v, what comes back and what the gradients held before, in T.
class Problem {
 public:
  Problem(const Case& c, const TestDevice& device, DType type) : case_(c), device_(device), type_(type) {
    const Shape shape{c.batch, c.tokens, c.width()}, packed{c.batch, c.tokens, c.stride()};
    if (c.side_by_side) {
      qkv_ = thirds(randn(memory_, packed, type, 1));
      before_ = thirds(randn(memory_, packed, type, 5));
    } else {
      for (std::uint64_t i = 0; i < 3; ++i) {
        qkv_.push_back(randn(memory_, shape, type, 1 + i));
        before_.push_back(randn(memory_, shape, type, 5 + i));
      }
    }
    dy_ = randn(memory_, shape, type, 4);
    const std::int64_t offsets = (2 * c.window - 1) * (2 * c.window - 1);
    if (c.window) {
      table_ = randn(memory_, {offsets, c.heads}, acc_of(type), 8);
      dtable_ = randn(memory_, {offsets, c.heads}, acc_of(type), 9);
    }
    if (c.drops) {
      keep_ = memory_.empty({c.batch, c.heads, c.tokens, c.tokens}, DType::u8);
      for (std::int64_t i = 0; i < keep_.size(); ++i) keep_.data<std::uint8_t>()[i] = i * 7 % 11 % 4 != 0;
    }
  }

  /// By the loops of the definition.
  Results expected() const;
  /// What the gradients hold until computed().
  Results before() const {
    return {{},
            {},
            unpacked(before_[0]),
            unpacked(before_[1]),
            unpacked(before_[2]),
            dtable_ ? doubles(dtable_) : Doubles()};
  }
  /// By the device's kernels. `wanted`: whether dq, dk, dv and dtable are.
  Results computed(const bool (&wanted)[4]) const;

 private:
  std::vector<Tensor> thirds(const Tensor& packed) const {
    std::vector<Tensor> parts;
    for (std::int64_t i = 0; i < 3; ++i)
      parts.emplace_back(
          static_cast<char*>(packed.raw()) + static_cast<std::size_t>(i * case_.width()) * size_of(type_),
          Shape{case_.batch, case_.tokens, case_.stride()}, type_);
    return parts;
  }
  /// A part without what lies beside it.
  Doubles unpacked(const Tensor& t) const {
    Doubles all;
    const std::int64_t tokens = case_.batch * case_.tokens;
    for (std::int64_t n = 0; n < tokens; ++n) {
      const Doubles row =
          doubles(Tensor(static_cast<char*>(t.raw()) + static_cast<std::size_t>(n * case_.stride()) * size_of(type_),
                         {case_.width()}, type_));
      all.insert(all.end(), row.begin(), row.end());
    }
    return all;
  }

  const Case case_;
  const TestDevice& device_;
  const DType type_;
  mutable Arena memory_{device_.memory()};
  std::vector<Tensor> qkv_, before_;
  Tensor dy_, table_, dtable_, keep_;
};

/// What is added to the score between tokens i and j of window w, and the row of the table.
struct Bias {
  std::int64_t row;
  double mask;
};
Bias bias_between(const WindowDims& d, std::int64_t w, std::int64_t i, std::int64_t j) {
  const std::int64_t dy = i / d.window - j / d.window, dx = i % d.window - j % d.window;
  const auto apart = [&](std::int64_t first, std::int64_t side, std::int64_t shift, std::int64_t a, std::int64_t b) {
    // Before the shift a token stood `shift` further; those that stood beyond the last came from the first ones.
    const std::int64_t sides = (side + d.window - 1) / d.window * d.window;
    return (first + a + shift >= sides) != (first + b + shift >= sides);
  };
  const std::int64_t down = w % d.windows() / d.across() * d.window, across = w % d.across() * d.window;
  const bool masked = apart(down, d.height, d.shift_y, i / d.window, j / d.window) ||
                      apart(across, d.width, d.shift_x, i % d.window, j % d.window);
  return {(dy + d.window - 1) * (2 * d.window - 1) + dx + d.window - 1, masked ? -100.0 : 0.0};
}

Results Problem::expected() const {
  const std::int64_t B = case_.batch, N = case_.tokens, H = case_.heads, d = case_.head_dim;
  const WindowDims windows = case_.window ? case_.windows() : WindowDims{};
  const Doubles q = unpacked(qkv_[0]), k = unpacked(qkv_[1]), v = unpacked(qkv_[2]), dy = doubles(dy_);
  const Doubles table = table_ ? doubles(table_) : Doubles();
  const bool adds = case_.write == Write::add;
  Results r;
  r.y.resize(q.size());
  r.dq = r.dk = r.dv = Doubles(q.size());
  if (table_) r.dtable = Doubles(table.size());
  const double scale = 1 / std::sqrt(double(d));
  for (std::int64_t b = 0; b < B; ++b)
    for (std::int64_t h = 0; h < H; ++h)
      for (std::int64_t i = 0; i < N; ++i) {
        const auto at = [&](std::int64_t n, std::int64_t c) {
          return static_cast<std::size_t>((b * N + n) * H * d + h * d + c);
        };
        const auto dot = [&](const Doubles& x, std::int64_t n, const Doubles& z, std::int64_t m) {
          double total = 0;
          for (std::int64_t c = 0; c < d; ++c) total += x[at(n, c)] * z[at(m, c)];
          return total;
        };
        Doubles p(static_cast<std::size_t>(N)), dp = p, kept = p;
        double sum = 0, inner = 0;
        for (std::size_t j = 0; j < p.size(); ++j) {
          const auto key = static_cast<std::int64_t>(j);
          double score = scale * dot(q, i, k, key);
          if (table_) {
            const Bias bias = bias_between(windows, b, i, key);
            score += table[static_cast<std::size_t>(bias.row * H + h)] + bias.mask;
          }
          sum += p[j] = std::exp(score);
          kept[j] = !keep_ ? 1.0 : keep_.data<std::uint8_t>()[((b * H + h) * N + i) * N + key] / (1 - kRate);
        }
        r.lse.push_back(std::log(sum));
        for (std::size_t j = 0; j < p.size(); ++j) {
          p[j] /= sum;
          dp[j] = kept[j] * dot(dy, i, v, static_cast<std::int64_t>(j));
          inner += p[j] * dp[j];
        }
        for (std::size_t j = 0; j < p.size(); ++j) {
          const auto key = static_cast<std::int64_t>(j);
          const double ds = p[j] * (dp[j] - inner);
          if (table_) r.dtable[static_cast<std::size_t>(bias_between(windows, b, i, key).row * H + h)] += ds;
          for (std::int64_t c = 0; c < d; ++c) {
            r.y[at(i, c)] += p[j] * kept[j] * v[at(key, c)];
            r.dv[at(key, c)] += p[j] * kept[j] * dy[at(i, c)];
            r.dq[at(i, c)] += scale * ds * k[at(key, c)];
            r.dk[at(key, c)] += scale * ds * q[at(i, c)];
          }
        }
      }
  const auto add = [&](Doubles& to, const Doubles& what) {
    for (std::size_t i = 0; adds && i < to.size(); ++i) to[i] += what[i];
  };
  add(r.dq, unpacked(before_[0]));
  add(r.dk, unpacked(before_[1]));
  add(r.dv, unpacked(before_[2]));
  if (table_) add(r.dtable, doubles(dtable_));
  return r;
}

Results Problem::computed(const bool (&wanted)[4]) const {
  const AttentionDims d{case_.batch, case_.tokens, case_.heads, case_.head_dim, case_.stride()};
  Backend& backend = device_.backend.with_bf16(device_.bf16);
  const Tensor y = memory_.empty({case_.batch, case_.tokens, case_.width()}, type_);
  const Tensor lse = memory_.empty({case_.batch, case_.heads, case_.tokens}, acc_of(type_));
  const auto gradient = [&](int which, const Tensor& to) {
    return wanted[which] ? Gradient{to, case_.write} : Gradient();
  };
  const Gradient dq = gradient(0, before_[0]), dk = gradient(1, before_[1]), dv = gradient(2, before_[2]);
  AttentionInput input{qkv_[0], qkv_[1], qkv_[2], keep_, case_.drops ? kRate : 0};
  if (case_.window) input.windows = case_.windows(), input.table = table_;
  backend.attention(d, input, {y, lse});
  backend.attention_backward(d, input, {y, lse}, dy_, {dq, dk, dv, case_.window ? gradient(3, dtable_) : Gradient()});
  backend.synchronize();
  return {doubles(y),           doubles(lse),         unpacked(before_[0]),
          unpacked(before_[1]), unpacked(before_[2]), dtable_ ? doubles(dtable_) : Doubles()};
}

void check_near(const std::string& what, const Doubles& got, const Doubles& expected, double within) {
  CAPTURE(what);
  REQUIRE(got.size() == expected.size());
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    largest = std::max(largest, std::abs(expected[i]));
    const double apart = std::abs(got[i] - expected[i]);
    if (!(apart <= error)) error = apart;  // NaN stays
  }
  CHECK(error <= within * (1 + largest));
}

void check_case(const Case& c, DType type, const bool (&wanted)[4] = {true, true, true, true}) {
  CAPTURE(c.tokens);
  CAPTURE(c.head_dim);
  CAPTURE(to_string(type));
  const Problem problem(c, current_device(), type);
  const Results before = problem.before(), expected = problem.expected(), got = problem.computed(wanted);
  // In bf16 results are rounded, on the CPU the weights before them, and the rounded y comes back into the gradients.
  const double within = type == DType::f64 ? 1e-13 : type == DType::f32 ? 2e-6 : 0x1p-7;
  check_near("y", got.y, expected.y, within);
  check_near("lse", got.lse, expected.lse, type == DType::bf16 ? 2e-6 : within);
  const char* names[] = {"dq", "dk", "dv", "dtable"};
  Doubles Results::*const gradients[] = {&Results::dq, &Results::dk, &Results::dv, &Results::dtable};
  for (std::size_t i = 0; i < std::size(gradients); ++i) {
    const std::string name = names[i];
    if (wanted[i]) {
      check_near(name, got.*gradients[i], expected.*gradients[i], within);
    } else {
      CAPTURE(name);
      CHECK(got.*gradients[i] == before.*gradients[i]);
    }
  }
}

}  // namespace

TEST_CASE("attention: sizes around those of the tiles follow the definition") {
  on_each_device([] {
    for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
      check_case({2, 1, 2, 1}, type);
      check_case({1, 7, 3, 5, true, false, Write::add}, type);
      check_case({1, 33, 1, 8, true, true}, type);
      check_case({1, 17, 1, 64, true, false, Write::add}, type);
      check_case({1, 9, 1, 47, false, true}, type);
    }
    check_case({1, 20, 1, 68, true}, DType::bf16);
    check_case({1, 18, 1, 127, false, true}, DType::f32);
    check_case({1, 18, 1, 256, true}, DType::f32);
    check_case({1, 9, 1, 130, false, true, Write::add}, DType::f64);
    check_case({1, 9, 1, 100, true}, DType::f64);
    check_case({1, 150, 1, 4, true}, DType::f32);  // several tiles of queries
    check_case({1, 70, 1, 3, false, true, Write::add}, DType::f64);
  });
}

TEST_CASE("attention: a GPU refuses heads wider than a tile, before a step and in it") {
  on_each_device([] {
    Backend& backend = current_device().backend;
    if (!backend.whole_batch()) return;
    backend.prepare_attention({1, 2, 1, 256, 256}, DType::f32);
    constexpr const char* kWhat =
        "--device cuda: attention takes heads of at most 256 values, but a head of this network has 257; use more "
        "heads (num_heads), or --device cpu";
    const AttentionDims wide{1, 2, 1, 257, 257};
    CHECK_THROWS_WITH_AS(backend.prepare_attention(wide, DType::f32), kWhat, InputError);
    Arena arena(current_device().memory());
    const Tensor q = randn(arena, {1, 2, 257}, DType::f32, 1);
    CHECK_THROWS_WITH_AS(backend.attention(wide, {.q = q, .k = q, .v = q}, {q, q}), kWhat, InputError);
  });
}

TEST_CASE("attention: bf16 sizes around the tensor cores' tiles follow the definition") {
  on_each_device([] {
    check_case({2, 16, 2, 16, true}, DType::bf16);
    check_case({1, 17, 2, 32, true, true, Write::add}, DType::bf16);
    check_case({1, 65, 1, 64, true, false, Write::add}, DType::bf16);
    check_case({1, 129, 1, 8, false, true, Write::add}, DType::bf16);  // more rows than a block has at once
    check_case({1, 290, 1, 60, true, true, Write::add}, DType::bf16);  // more keys than fit, hence tiles of them
    check_case({1, 170, 1, 97, true}, DType::bf16);
    check_case({1, 64, 1, 40}, DType::bf16);
    check_case({1, 33, 1, 47, true, true, Write::add}, DType::bf16);
    check_case({1, 70, 1, 88, true, false, Write::add}, DType::bf16);
    check_case({1, 66, 1, 128, true, true}, DType::bf16);
    check_case({1, 40, 1, 126, false, false, Write::add}, DType::bf16);
    check_case({1, 18, 1, 130, true}, DType::bf16);  // wider than theirs
    check_case({4, 49, 1, 32, true, false, Write::assign, 7, 3}, DType::bf16);
    check_case({4, 144, 1, 16, true, true, Write::add, 12, 6}, DType::bf16);
  });
}

TEST_CASE("attention: heads wider than a tile of a GPU follow the definition on the CPU") {
  on_each_device([] {
    if (current_device().backend.whole_batch()) return;
    check_case({1, 70, 1, 260, true, true, Write::add}, DType::f32);
    check_case({2, 5, 2, 257}, DType::f64);
    check_case({1, 9, 1, 300, true, false, Write::add}, DType::bf16);
    check_case({4, 9, 1, 258, true, true, Write::add, 3, 1}, DType::f64);
  });
}

TEST_CASE("attention: a device's errors in bf16 are at most twice the CPU's") {
  for (const Case& c : {Case{1, 197, 1, 64, true}, Case{2, 50, 2, 32, true, true}}) {
    const bool wanted[4] = {true, true, true, false};
    Doubles of_cpu;
    on_each_device([&] {
      CAPTURE(c.tokens);
      const Problem problem(c, current_device(), DType::bf16);
      const Results expected = problem.expected(), got = problem.computed(wanted);
      Doubles errors;
      for (const auto& part : {&Results::y, &Results::dq, &Results::dk, &Results::dv}) {
        double squares = 0, largest = 0;
        for (std::size_t i = 0; i < (got.*part).size(); ++i) {
          const double apart = (got.*part)[i] - (expected.*part)[i];
          squares += apart * apart;
          largest = std::max(largest, std::abs(apart));
        }
        errors.push_back(std::sqrt(squares));
        errors.push_back(largest);
      }
      if (of_cpu.empty()) of_cpu = errors;
      for (std::size_t i = 0; i < errors.size(); ++i) {
        CAPTURE(i);
        CAPTURE(of_cpu[i]);
        CHECK(errors[i] <= 2 * of_cpu[i]);
      }
    });
  }
}

TEST_CASE("attention: gradients that are not asked for stay as they are") {
  on_each_device([] {
    for (const int only : {0, 1, 2}) {
      const bool wanted[4] = {only == 0, only == 1, only == 2, false};
      check_case({1, 5, 2, 6, true}, DType::f32, wanted);
      check_case({4, 9, 2, 6, true, false, Write::assign, 3, 1}, DType::f32, wanted);
    }
    check_case({4, 4, 2, 6, true, false, Write::assign, 2, 1}, DType::f64, {false, false, false, true});
  });
}

TEST_CASE("attention: gradients have the same bits whether asked for together or alone") {
  on_each_device([] {
    // A GPU computes all of a head in one block, if it fits, and single ones by tiles.
    for (const Case& c : {Case{2, 65, 2, 64, true}, Case{1, 196, 1, 64, false, false, Write::add},
                          Case{1, 208, 1, 20, true, true}, Case{4, 49, 2, 32, true, true, Write::assign, 7, 3}}) {
      CAPTURE(c.tokens);
      const Results all = Problem(c, current_device(), DType::bf16).computed({true, true, true, c.window > 0});
      const Doubles Results::*const parts[] = {&Results::dq, &Results::dk, &Results::dv, &Results::dtable};
      for (int i = 0; i < (c.window > 0 ? 4 : 3); ++i) {
        const Results one = Problem(c, current_device(), DType::bf16).computed({i == 0, i == 1, i == 2, i == 3});
        CHECK(one.*parts[i] == all.*parts[i]);
      }
    }
  });
}

TEST_CASE("attention: windows with and without shift follow the definition") {
  on_each_device([] {
    for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
      check_case({4, 9, 2, 5, true, false, Write::assign, 3, 0}, type);
      check_case({8, 9, 2, 6, false, true, Write::add, 3, 1}, type);
      check_case({8, 9, 2, 6, true, false, Write::assign, 3, 0, 1}, type);
      check_case({8, 9, 2, 5, false, false, Write::add, 3, 1, 0}, type);
    }
    check_case({4, 49, 1, 4, true, true, Write::add, 7, 3}, DType::f32);  // more keys than a tile has
    check_case({1, 64, 1, 33, true, false, Write::assign, 8, 4}, DType::f32);
    check_case({300, 1, 1, 2, false, false, Write::add, 1, 0}, DType::f64);  // chunks of several windows
  });
}

TEST_CASE("attention: scores far from zero do not overflow") {
  on_each_device([] {
    Arena memory(current_device().memory());
    const AttentionDims d{1, 40, 1, 2, 2};
    const Tensor q = memory.empty({1, 40, 2}, DType::f32), k = memory.empty({1, 40, 2}, DType::f32),
                 v = memory.empty({1, 40, 2}, DType::f32), y = memory.empty({1, 40, 2}, DType::f32),
                 lse = memory.empty({1, 1, 40}, DType::f32);
    for (std::int64_t i = 0; i < 80; ++i) {
      q.data<float>()[i] = 300.0f;
      k.data<float>()[i] = i / 2 == 37 ? 100.0f : -100.0f;  // one key, late, has all the weight
      v.data<float>()[i] = float(i);
    }
    current_device().backend.attention(d, {q, k, v}, {y, lse});
    current_device().backend.synchronize();
    for (std::int64_t i = 0; i < 40; ++i) {
      CHECK(y.data<float>()[2 * i] == 74.0f);
      CHECK(y.data<float>()[2 * i + 1] == 75.0f);
      CHECK(lse.data<float>()[i] == doctest::Approx(60000.0 / std::sqrt(2.0)));
    }
  });
}
