#include "core/formula/cuda_source.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <functional>
#include <map>
#include <set>

#include "core/error.h"

namespace normlab::formula {
namespace {

// What follows the constants of a kernel: T (storage), A (arithmetic), kCols, V, kVectors (of a lane), kWarps (of a
// team), kTeams.
constexpr const char* kHelpers = R"cuda(
#ifdef NORMLAB_CUDA_EMULATED
#define NORMLAB_KERNEL static
using std::atan, std::cos, std::erf, std::exp, std::expm1, std::log, std::log1p, std::pow, std::sin, std::sqrt, std::tanh;
#else
#define NORMLAB_KERNEL extern "C" __global__
#endif
#ifndef NORMLAB_UNROLL
#define NORMLAB_UNROLL _Pragma("unroll")
#define NORMLAB_SHARED(T, name, count)                                    \
  __shared__ alignas(16) unsigned char name##_bytes[sizeof(T) * (count)]; \
  T* const name = reinterpret_cast<T*>(name##_bytes)
#define NORMLAB_DYNAMIC_SHARED(T, name)                                   \
  extern __shared__ __align__(16) unsigned char normlab_dynamic_shared[]; \
  T* const name = reinterpret_cast<T*>(normlab_dynamic_shared)
#endif
constexpr int kHeld = kVectors * V, kLanes = 32 * kWarps, kThreads = kLanes * kTeams;
constexpr bool kWhole = kHeld * kLanes == kCols;
constexpr unsigned kAllLanes = 0xffffffffu;

__device__ inline float widened(unsigned short v) {
  const unsigned bits = unsigned(v) << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}
__device__ inline float widened(float v) { return v; }
__device__ inline double widened(double v) { return v; }
__device__ inline void round_to(float& to, float v) { to = v; }
__device__ inline void round_to(double& to, double v) { to = v; }
__device__ inline void round_to(unsigned short& to, float v) {
#ifdef NORMLAB_CUDA_EMULATED
  to = normlab::bf16(v).bits;
#else
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to) : "f"(v));
#endif
}

// V adjacent values of a row.
struct Packed {
#ifdef NORMLAB_CUDA_EMULATED
  T values[V];
#else
  typename Words<T, V>::type words;
#endif
};
__device__ inline Packed loaded(const T* from) {
  Packed to;
#ifdef NORMLAB_CUDA_EMULATED
  for (int k = 0; k < V; ++k) to.values[k] = from[k];
#else
  to.words = *reinterpret_cast<const typename Words<T, V>::type*>(from);
#endif
  return to;
}
__device__ inline void widen(const Packed& from, A* to) {
  T values[V];
  memcpy(static_cast<void*>(values), &from, sizeof values);
  NORMLAB_UNROLL
  for (int k = 0; k < V; ++k) to[k] = widened(values[k]);
}
__device__ inline void store(T* to, const A* from) {
  T values[V];
  NORMLAB_UNROLL
  for (int k = 0; k < V; ++k) round_to(values[k], from[k]);
#ifdef NORMLAB_CUDA_EMULATED
  for (int k = 0; k < V; ++k) to[k] = values[k];
#else
  typename Words<T, V>::type words;
  memcpy(&words, values, sizeof words);
  *reinterpret_cast<typename Words<T, V>::type*>(to) = words;
#endif
}
// Copies V values into shared memory while the thread goes on, and waits for such copies.
__device__ inline void copy_ahead(T* to, const T* from) {
#ifdef NORMLAB_CUDA_EMULATED
  for (int k = 0; k < V; ++k) to[k] = from[k];
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" : : "r"(unsigned(__cvta_generic_to_shared(to))), "l"(from) : "memory");
#endif
}
__device__ inline void wait_for_copies() {
#ifndef NORMLAB_CUDA_EMULATED
  asm volatile("cp.async.wait_all;" : : : "memory");
#endif
}
// Brings what is added to later nearer, without a register.
__device__ inline void will_read(const T* from) {
#ifndef NORMLAB_CUDA_EMULATED
  asm volatile("prefetch.global.L2 [%0];" : : "l"(from));
#endif
}
// V parameters, which need not be aligned.
__device__ inline void load_parameters(const A* from, A (&to)[V]) {
#ifndef NORMLAB_CUDA_EMULATED
  constexpr int kPart = 16 / int(sizeof(A));
  if (V % kPart == 0 && reinterpret_cast<unsigned long long>(from) % 16 == 0) {
    NORMLAB_UNROLL
    for (int k = 0; k < V; k += kPart) {
      const uint4 part = *reinterpret_cast<const uint4*>(from + k);
      memcpy(to + k, &part, V < kPart ? 0 : sizeof part);
    }
    return;
  }
#endif
  NORMLAB_UNROLL
  for (int k = 0; k < V; ++k) to[k] = from[k];
}

// The largest or smallest value, and where it is first; at < 0: none. NaN is both.
struct Extreme {
  A best;
  int at;
};
template <bool kLeast>
struct First {
  __device__ Extreme operator()(Extreme a, Extreme b) const {
    if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
    const bool none_a = a.best != a.best, none_b = b.best != b.best;
    if (none_a != none_b) return none_a ? a : b;
    if (none_a || a.best == b.best) return a.at < b.at ? a : b;
    return (a.best < b.best) == kLeast ? a : b;
  }
};
struct Plus {
  template <class S>
  __device__ S operator()(S a, S b) const {
    return a + b;
  }
};
template <class S>
__device__ inline S of_other(S value, int step) {
  return __shfl_xor_sync(kAllLanes, value, step);
}
__device__ inline Extreme of_other(Extreme e, int step) { return {of_other(e.best, step), of_other(e.at, step)}; }

// Joins each value over groups of kOf warps; the same bits in each lane. All threads must call this. Calls take turns
// with the halves of `memory`, so that one barrier is enough.
template <int kOf, int K, class S, class F>
__device__ inline void join(S (&values)[K], double* memory, int half, int& turn, F both) {
  NORMLAB_UNROLL
  for (int k = 0; k < K; ++k)
    for (int step = 16; step > 0; step /= 2) values[k] = both(values[k], of_other(values[k], step));
  if (kOf == 1) return;
  const int warp = int(threadIdx.x) / 32, warps = int(blockDim.x) / 32, first = warp / kOf * kOf;
  S* const of_warp = reinterpret_cast<S*>(memory + turn * half);
  turn = 1 - turn;
  if (threadIdx.x % 32 == 0)
    for (int k = 0; k < K; ++k) of_warp[k * warps + warp] = values[k];
  __syncthreads();
  NORMLAB_UNROLL
  for (int k = 0; k < K; ++k) {
    values[k] = of_warp[k * warps + first];
    for (int w = 1; w < kOf; ++w) values[k] = both(values[k], of_warp[k * warps + first + w]);
  }
}

// A column's sum over all chunks. The lanes of a warp have one column each, the warps share the chunks and read many at
// once. All threads must call this; 0 if not `inside`.
__device__ inline double chunk_sum(const FormulaArguments& a, int step, int column, bool inside) {
  NORMLAB_SHARED(double, of_warp, 256);
  const int lane = int(threadIdx.x) % 32, warp = int(threadIdx.x) / 32;
  double sum = 0;
  if (inside) {
    const double* from = a.partial + column;
    long long chunk = warp;
    for (; chunk + 7 * 8 < a.chunks; chunk += 8 * 8) {
      double values[8];
      NORMLAB_UNROLL
      for (int i = 0; i < 8; ++i) values[i] = from[(chunk + i * 8) * step];
      NORMLAB_UNROLL
      for (int i = 0; i < 8; ++i) sum += values[i];
    }
    for (; chunk < a.chunks; chunk += 8) sum += from[chunk * step];
  }
  __syncthreads();  // no thread reads an earlier sum any more
  of_warp[threadIdx.x] = sum;
  __syncthreads();
  double total = 0;
  for (int w = 0; w < 8; ++w) total += of_warp[w * 32 + lane];
  return total;
}

__device__ inline A size_of(A v) { return v < 0 ? -v : v; }
__device__ inline A sign_of(A v) { return v > 0 ? A(1) : v < 0 ? A(-1) : v; }
__device__ inline A sigmoid_of(A v) { return 1 / (1 + exp(-v)); }
__device__ inline A softplus_of(A v) {
  const A rest = log1p(exp(-size_of(v)));
  return v > 0 ? v + rest : rest;
}
__device__ inline A times_of(A a, A b) { return a == 0 || b == 0 ? A(0) : a * b; }
__device__ inline A pow_of(A a, A b) { return a < 0 ? a - a + A(0) / A(0) : pow(a, b); }
__device__ inline A min_of(A a, A b) { return b != b ? b : b < a ? b : a; }
__device__ inline A max_of(A a, A b) { return b != b ? b : a < b ? b : a; }
__device__ inline A select_of(A a, A b, A c, A d) { return a != a || b != b ? a + b : a < b ? c : d; }
__device__ inline A same_of(A a, A b, A c) { return a == b ? c : A(0); }
)cuda";

/// For compilers of CUDA, before the constants.
constexpr const char* kWords = R"cuda(
#ifndef NORMLAB_CUDA_EMULATED
template <class T, int V>
struct Words {
  using type = uint4;
};
template <class T>
struct Words<T, 1> {
  using type = T;
};
#endif
)cuda";

std::string function_name(Op op) {
  static const std::map<Op, const char*> kNames{{Op::abs, "size_of"},
                                                {Op::sign, "sign_of"},
                                                {Op::sqrt, "sqrt"},
                                                {Op::exp, "exp"},
                                                {Op::expm1, "expm1"},
                                                {Op::log, "log"},
                                                {Op::log1p, "log1p"},
                                                {Op::tanh, "tanh"},
                                                {Op::sigmoid, "sigmoid_of"},
                                                {Op::erf, "erf"},
                                                {Op::atan, "atan"},
                                                {Op::sin, "sin"},
                                                {Op::cos, "cos"},
                                                {Op::softplus, "softplus_of"},
                                                {Op::times, "times_of"},
                                                {Op::pow, "pow_of"},
                                                {Op::min, "min_of"},
                                                {Op::max, "max_of"},
                                                {Op::select, "select_of"},
                                                {Op::same, "same_of"}};
  return kNames.at(op);
}
bool is_least(Op op) {
  return op == Op::min_c || op == Op::first_least_c || op == Op::min_t || op == Op::first_least_t;
}
bool is_place(Op op) {
  return op == Op::first_most_c || op == Op::first_least_c || op == Op::first_most_t || op == Op::first_least_t;
}
bool is_sum(Op op) { return op == Op::sum_c || op == Op::sum_t || op == Op::sum_all; }
std::string first_of(Op op) { return is_least(op) ? "First<true>()" : "First<false>()"; }

class Writer {
 public:
  Writer(const Programs& programs, bool backward, DType dtype, int vector)
      : all_(programs),
        p_(backward ? programs.backward : programs.forward),
        g_(programs.graph),
        backward_(backward),
        cols_(programs.graph.site().channels),
        vector_(vector) {
    const int most = dtype == DType::f64 ? 8 : 16;
    for (warps_ = 1;; warps_ *= 2) {
      vectors_ = int((cols_ + 32 * warps_ * vector_ - 1) / (32 * warps_ * vector_));
      if (vectors_ * vector_ <= most || warps_ == 16) break;
    }
    wide_ = vectors_ * vector_ > most;
    out_.by_image = p_.by_image;
    out_.teams = p_.by_image ? 16 / warps_ : warps_ == 1 ? 4 : 1;
    out_.threads = 32 * warps_ * out_.teams;
    const int threads_at_once = backward || dtype == DType::f64 ? 512 : 1024;
    out_.blocks = threads_at_once / out_.threads;
    const char* const t = dtype == DType::bf16 ? "unsigned short" : dtype == DType::f64 ? "double" : "float";
    text_ = concat(kWords, "using T = ", t, ";\nusing A = ", dtype == DType::f64 ? "double" : "float",
                   ";\nconstexpr int kCols = ", cols_, ", V = ", vector_, ", kVectors = ", vectors_,
                   ", kWarps = ", warps_, ", kTeams = ", out_.teams, ";\n", text_of_arguments(), kHelpers);
  }

  CudaSource source() {
    number_values();
    rows_kernel();
    finish_kernel();
    out_.text = std::move(text_);
    return std::move(out_);
  }

 private:
  /// One for each instruction that is run, and for each leaf.
  struct Value {
    const Instruction* code = nullptr;
    Op leaf = Op::stop;
    Id id = kNone;
    Extent extent{};
    int place = kNone;                        // its register
    std::array<int, 4 * kMostSummands> in{};  // values
    int level = 0;                            // reductions over channels that come before it
    bool held = false;                        // per channel, in registers from pass to pass
    int uses = 0;
    bool lasts = false;
  };

  static std::string text_of_arguments() {
#define NORMLAB_TEXT_OF(...) #__VA_ARGS__
#define NORMLAB_TEXT(...) NORMLAB_TEXT_OF(__VA_ARGS__)
    return "#ifdef NORMLAB_CUDA_EMULATED\nusing normlab::formula::FormulaArguments;\n#else\n" NORMLAB_TEXT(
        NORMLAB_FORMULA_ARGUMENTS) "\n#endif\n";
#undef NORMLAB_TEXT
#undef NORMLAB_TEXT_OF
  }

  /// Follows the registers through the program: each use gets the value that its register has then.
  void number_values() {
    std::vector<int> now(p_.registers.size(), kNone);
    for (std::size_t r = 0; r < now.size(); ++r) {
      const Register& one = p_.registers[r];
      if (one.leaf == kNone && !(one.lasts && backward_)) continue;
      Value v;
      if (one.leaf != kNone) v.leaf = g_[one.leaf].op, v.id = one.leaf;
      v.extent = one.extent;
      v.place = int(r);
      v.lasts = one.lasts;
      v.held = one.lasts && one.extent == Extent::channels;
      now[r] = add(v);
    }
    for (const Instruction& i : p_.code) {
      Value v;
      v.code = &i;
      v.id = i.id;
      v.place = i.out;
      v.extent = p_.registers[std::size_t(i.out)].extent;
      v.lasts = p_.registers[std::size_t(i.out)].lasts;
      v.held = reduces_tokens(i.reduction) && v.extent == Extent::channels;
      v.in.fill(kNone);
      for (std::size_t o = 0; o < i.in.size(); ++o) {
        if (i.in[o] == kNone) continue;
        v.in[o] = now[std::size_t(i.in[o])];
        Value& from = values_[std::size_t(v.in[o])];
        ++from.uses;
        if (v.extent >= Extent::rows || i.total != kNone)
          v.level = std::max(v.level, from.level + (from.extent == Extent::rows && from.code &&
                                                    reduces_channels(from.code->reduction)));
      }
      if (is_leaf(i.op)) v.leaf = i.op;
      now[std::size_t(i.out)] = add(v);
      of_code_.push_back(now[std::size_t(i.out)]);
    }
    for (const int r : p_.gradients) gradients_.push_back(r == kNone ? kNone : now[std::size_t(r)]);
    result_ = p_.result == kNone ? kNone : now[std::size_t(p_.result)];
  }
  int add(const Value& v) {
    values_.push_back(v);
    return int(values_.size()) - 1;
  }
  const Value& at(int v) const { return values_[std::size_t(v)]; }
  static bool by_column(const Value& v) { return v.extent == Extent::channels || v.extent == Extent::block; }

  std::string name(int v) const {
    const Value& value = at(v);
    switch (value.leaf) {
      case Op::number:
        return literal(g_[value.id].number);
      case Op::tokens:
        return "A(a.rows)";
      case Op::token:
        return "A(row - begin)";
      case Op::channel:
        return "A(c + 1)";
      case Op::x:
        return "x[at]";
      case Op::dy:
        return "dy[at]";
      default:
        break;
    }
    if (value.held && !finishes_) return concat("s", v, "[at]");
    return concat(value.extent == Extent::number ? "n" : value.extent == Extent::rows ? "r" : "v", v);
  }
  static std::string literal(double number) {
    if (!std::isfinite(number)) return concat("(A(", number > 0 ? "1" : number < 0 ? "-1" : "0", ") / A(0))");
    char digits[40];
    std::string out(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
    if (out.find_first_of(".e") == out.npos) out += ".0";
    return concat("A(", out, ")");
  }

  /// The sum of products that an instruction has or its function reads.
  std::string products(const Value& v) const {
    std::string out;
    for (std::size_t s = 0; s < v.code->summands; ++s) {
      std::string term;
      for (std::size_t f = 0; f < 4; ++f)
        if (v.in[4 * s + f] != kNone) term += concat(term.empty() ? "" : " * ", name(v.in[4 * s + f]));
      const bool minus = v.code->minus[s];
      out += s == 0 ? concat(minus ? "-" : "", term) : concat(minus ? " - " : " + ", term);
    }
    return out;
  }
  std::string expression(const Value& v) const {
    const Op op = v.code->op;
    if (op == Op::add) return products(v);
    if (op == Op::inverse) return concat("A(1) / (", products(v), ")");
    if (op == Op::div) return concat(name(v.in[0]), " / ", name(v.in[1]));
    if (Op::stop < op && op <= Op::softplus) return concat(function_name(op), "(", products(v), ")");
    std::string out = function_name(op) + "(";
    for (std::size_t k = 0; k < 4 && v.in[k] != kNone; ++k) out += (k > 0 ? ", " : "") + name(v.in[k]);
    return out + ")";
  }

  /// The values of columns that these need, in their order.
  std::set<int> columns_needed(const std::vector<int>& roots) const {
    std::set<int> out;
    const std::function<void(int)> need = [&](int v) {
      if (v == kNone || !by_column(at(v)) || !out.insert(v).second) return;
      if (at(v).code && !(at(v).held) && at(v).code->reduction == Op::stop)
        for (const int in : at(v).in) need(in);
    };
    for (const int root : roots) need(root);
    return out;
  }
  /// What a reduction or an instruction reads.
  std::vector<int> operands(int v) const { return {at(v).in.begin(), at(v).in.end()}; }

  /// A loop over a lane's vectors, to be closed.
  std::string vectors_loop() const {
    return concat(unroll(), "for (int i = 0; i < kVectors; ++i) {\nconst int column = (i * kLanes + lane) * V;\n",
                  "if (!kWhole && column >= kCols) break;\n");
  }
  /// Before loops that registers need unrolled.
  const char* unroll() const { return wide_ ? "" : "NORMLAB_UNROLL\n"; }

  /// A loop over the columns that are this lane's, which computes what `roots` needs and runs `body` for each.
  std::string loop(const std::vector<int>& roots, const std::string& body) const {
    const std::set<int> needed = columns_needed(roots);
    std::string vectors, values;
    for (const int v : needed) {
      const Value& value = at(v);
      if (value.leaf == Op::parameter) {
        if (finishes_)
          vectors += concat("const A v", v, " = p", v, "[c];\n");
        else
          vectors += concat("A w", v, "[V];\nload_parameters(p", v, " + column, w", v, ");\n");
        if (!finishes_) values += concat("const A v", v, " = w", v, "[k];\n");
      } else if (value.code && !value.held && value.code->reduction == Op::stop && value.leaf == Op::stop) {
        values += concat("const A v", v, " = ", expression(value), ";\n");
      }
    }
    if (finishes_) {
      std::string sums;
      for (const int v : needed)
        if (at(v).code && at(v).code->reduction == Op::sum_all)
          sums += concat("const A v", v, " = A(chunk_sum(a, ", out_.partial, ", ", slots_.at(v),
                         " * kCols + c, c < kCols));\n");
      return concat("for (int tile = int(blockIdx.x); tile * 32 < kCols; tile += int(gridDim.x)) {\n",
                    "const int c = tile * 32 + int(threadIdx.x) % 32;\n", sums, "if (c < kCols) {\n", vectors, values,
                    body, "}\n}\n");
    }
    return concat(vectors_loop(), vectors, "NORMLAB_UNROLL\nfor (int k = 0; k < V; ++k) {\n",
                  "[[maybe_unused]] const int at = i * V + k, c = column + k;\n", values, body, "}\n}\n");
  }

  /// Reductions over channels that do not wait for each other, of rows or of parameters.
  void reduce(const std::vector<int>& group) {
    std::vector<int> sums, roots;
    std::string before, body, after;
    for (const int v : group) {
      const Op op = at(v).code->reduction;
      const std::string to = concat(at(v).extent == Extent::rows ? "r" : "n", v);
      for (const int in : operands(v)) roots.push_back(in);
      if (is_sum(op)) {
        body += concat("g", group[0], "[", sums.size(), "] += ", products(at(v)), ";\n");
        after += concat("const A ", to, " = g", group[0], "[", sums.size(), "];\n");
        sums.push_back(v);
      } else {
        before += concat("Extreme e", v, "[1] = {{0, -1}};\n");
        body += concat("e", v, "[0] = ", first_of(op), "(e", v, "[0], {", name(at(v).in[1]), ", c + 1});\n");
        after += concat("join<", finishes_ ? "1" : "kWarps", ">(e", v, ", of_warp, kHalf, turn, ", first_of(op),
                        ");\nconst A ", to, " = ",
                        is_place(op) ? concat("A(e", v, "[0].at)") : concat("e", v, "[0].best"), ";\n");
        most_joined_ = std::max<std::size_t>(most_joined_, 2);
      }
    }
    if (!sums.empty()) {
      before += concat("A g", group[0], "[", sums.size(), "] = {};\n");
      after =
          concat("join<", finishes_ ? "1" : "kWarps", ">(g", group[0], ", of_warp, kHalf, turn, Plus());\n") + after;
      most_joined_ = std::max(most_joined_, sums.size());
    }
    text_ += before + loop(roots, body) + after;
  }

  /// A number, or a reduction that gives one; values of columns are computed where they are needed.
  void single(int v) {
    const Value& value = at(v);
    const Op reduction = value.code->reduction;
    if (reduction == Op::sum_all) return sum_once(v);
    if (value.extent != Extent::number) return;
    if (reduction != Op::stop)
      reduce({v});
    else
      text_ += concat("const A n", v, " = ", expression(value), ";\n");
  }
  /// A sum over images of what has one value for each.
  void sum_once(int v) {
    const bool first = !out_.by_image;  // it is the same for all blocks
    const std::string where = first ? " && blockIdx.x == 0" : "";
    if (at(v).extent == Extent::number)
      text_ += concat("if (thread == 0", where, ") d", v, " += double(", products(at(v)), ");\n");
    else
      text_ += concat("if (team == 0", where, ") {\n",
                      loop(operands(v), concat("totals[(", slots_.at(v), " * kHeld + at) * kThreads] += double(",
                                               products(at(v)), ");\n")),
                      "}\n");
  }

  void leaves(bool gradients) {
    std::string rows = "0", images = "0";
    std::int64_t of_rows = 0, of_images = 0;
    for (std::size_t v = 0; v < values_.size(); ++v) {
      const Value& value = values_[v];
      if (value.leaf == Op::parameter) {
        const int p = g_[value.id].index;
        text_ += concat("const A* const p", v, " = static_cast<const A*>(a.parameters[", p, "]);\n");
        if (value.extent == Extent::number) text_ += concat("const A n", v, " = *p", v, ";\n");
      }
    }
    if (gradients) return;
    // What lasts lies in the order of the registers, which are the first in both programs, and of the values that read
    // them.
    for (std::size_t r = 0; r < p_.registers.size() && p_.registers[r].lasts; ++r) {
      if (backward_) lasting_.push_back(int(r));
      text_ += concat("A* const l", r, " = static_cast<A*>(a.lasting) + a.images * (", of_rows, " * a.rows + ",
                      of_images, ");\n");
      const Extent extent = p_.registers[r].extent;
      (extent == Extent::rows ? of_rows : of_images) += extent == Extent::channels ? cols_ : 1;
    }
  }
  void rows_kernel() {
    int slots = 0;
    for (const int v : of_code_) {  // sums over rows of columns have a place, those of numbers too
      const Value& value = at(v);
      if (value.code->total == kNone) continue;
      if (value.extent == Extent::channels) {
        slots_[v] = slots;
        slots += is_sum(value.code->reduction) ? 1 : 2;
        if (value.code->reduction == Op::sum_all) all_sums_.push_back(v);
      } else if (value.code->reduction == Op::sum_all) {
        all_numbers_.push_back(v);
      }
    }
    // The sums over all rows come first, so that their places are those in `partial`.
    slots = 0;
    for (const int v : all_sums_) slots_[v] = slots++;
    for (auto& [v, slot] : slots_)
      if (at(v).code->reduction != Op::sum_all) slot = slots, slots += is_sum(at(v).code->reduction) ? 1 : 2;
    out_.sums = !all_sums_.empty() || !all_numbers_.empty();
    out_.partial = std::int64_t(all_sums_.size()) * cols_ + std::int64_t(all_numbers_.size());
    const std::int64_t totals = std::int64_t(slots) * vectors_ * vector_ * out_.threads * 8;
    constexpr std::int64_t kMostShared = 96 * 1024;  // what each GPU has
    const std::int64_t ahead = backward_ && vector_ > 1 ? std::int64_t(2) * vectors_ * out_.threads * 16 : 0;
    const bool shares = totals <= kMostShared;
    out_.scratch = shares ? 0 : totals / 8;
    out_.shared = shares ? std::size_t(totals) : 0;
    stages_ = ahead > 0 && std::int64_t(out_.shared) + ahead <= kMostShared;
    if (stages_) out_.shared += std::size_t(ahead);

    const std::size_t begin = text_.size();
    text_ += "const int thread = int(threadIdx.x), lane = thread % kLanes, team = thread / kLanes;\nint turn = 0;\n";
    text_ += out_.by_image ? "const long long begin = blockIdx.x * a.rows, end = begin + a.rows;\n"
                           : "const long long begin = blockIdx.x * a.chunk_rows, all = a.images * a.rows,\n"
                             "end = begin + a.chunk_rows < all ? begin + a.chunk_rows : all;\n";
    if (out_.shared > 0) text_ += "NORMLAB_DYNAMIC_SHARED(double, memory);\n";
    if (stages_)
      text_ += concat("T* const staged = reinterpret_cast<T*>(memory + ", shares ? totals / 8 : 0, ") + thread * V;\n");
    if (slots > 0) {
      if (shares)
        text_ += "double* const all_totals = memory;\n";
      else
        text_ += concat("double* const all_totals = a.scratch + blockIdx.x * ", totals / 8, "ll;\n");
      text_ += concat("double* const totals = all_totals + thread;\nfor (int k = 0; k < ", slots,
                      " * kHeld; ++k) totals[k * kThreads] = 0;\n");
    }
    leaves(false);
    for (const int v : all_numbers_) text_ += concat("double d", v, " = 0;\n");
    if (backward_)
      for (const int v : lasting_) {
        if (at(v).extent == Extent::number) text_ += concat("const A n", v, " = l", v, "[blockIdx.x];\n");
        if (at(v).held)
          text_ += concat("A s", v, "[kHeld] = {};\n",
                          loop({}, concat("s", v, "[at] = l", v, "[blockIdx.x * kCols + c];\n")));
      }
    std::size_t first = 0;
    for (const Pass& pass : p_.passes) {
      for (std::size_t k = first; k < pass.rows; ++k) single(of_code_[k]);
      write_singles(first, pass.rows);
      rows_of_pass(pass, &pass == &p_.passes.back());
      first = pass.end;
    }
    write_sums();
    const std::string body = text_.substr(begin);
    text_.resize(begin);
    const std::size_t half = std::max<std::size_t>(most_joined_, 1) * std::size_t(out_.threads / 32);
    text_ += concat("\nNORMLAB_KERNEL void __launch_bounds__(", out_.threads, ", ", out_.blocks,
                    ") rows(const FormulaArguments a) {\nconstexpr int kHalf = ", half,
                    ";\n[[maybe_unused]] NORMLAB_SHARED(double, of_warp, 2 * kHalf);\n", body, "}\n");
  }

  /// What the forward pass keeps of an image's numbers.
  void write_singles(std::size_t first, std::size_t end) {
    for (std::size_t k = first; k < end && !backward_; ++k) write_lasting(of_code_[k]);
  }
  void write_lasting(int v) {
    const Value& value = at(v);
    if (backward_ || !value.lasts) return;
    if (value.extent == Extent::number)
      text_ += concat("if (thread == 0) l", value.place, "[blockIdx.x] = n", v, ";\n");
    else if (value.extent == Extent::rows)
      text_ += concat("if (there && lane == 0) l", value.place, "[row] = r", v, ";\n");
    else
      text_ += concat("if (team == 0) {\n",
                      loop({v}, concat("l", value.place, "[blockIdx.x * kCols + c] = ", name(v), ";\n")), "}\n");
  }

  void rows_of_pass(const Pass& pass, bool last) {
    std::vector<int> scalars, sums;              // of rows; over rows
    std::map<int, std::vector<int>> reductions;  // over channels, by the level of what they read
    std::map<int, int> sums_of_sums;             // over rows and channels: of which
    bool reads_x = false, reads_dy = false;
    int levels = 0;
    for (std::size_t k = pass.rows; k < pass.end; ++k) {
      const int v = of_code_[k];
      const Value& value = at(v);
      reads_x = reads_x || value.leaf == Op::x;
      reads_dy = reads_dy || value.leaf == Op::dy;
      levels = std::max(levels, value.level);
      if (value.code->total != kNone) {
        sums.push_back(v);
        if (const int of = only_sum(v); of != kNone) sums_of_sums[of] = v;
      } else if (reduces_channels(value.code->reduction)) {
        reductions[value.level].push_back(v);
      } else if (value.extent == Extent::rows && value.leaf == Op::stop) {
        scalars.push_back(v);
      }
    }
    const bool writes = last && (result_ != kNone || backward_);
    if (sums.empty() && reductions.empty() && scalars.empty() && !writes) return;
    for (auto& [level, group] : reductions) std::erase_if(group, [&](int v) { return sums_of_sums.contains(v); });
    std::erase_if(reductions, [](const auto& of) { return of.second.empty(); });
    if (!reductions.empty()) levels = std::max(levels, reductions.rbegin()->first + 1);

    std::string few;
    for (const int v : sums) {
      const bool sum = is_sum(at(v).code->reduction);
      if (at(v).extent == Extent::channels) {
        text_ += concat(sum ? "A f" : "Extreme f", v, "[kHeld]", sum ? " = {};\n" : ";\n");
        if (!sum) text_ += concat("for (Extreme& one : f", v, ") one = {0, -1};\n");
        if (sum)
          few += concat("totals[(", slots_.at(v), " * kHeld + at) * kThreads] += double(f", v, "[at]);\nf", v,
                        "[at] = 0;\n");
      } else if (!sum) {
        text_ += concat("Extreme f", v, "[1] = {{0, -1}};\n");
      } else if (at(v).code->reduction != Op::sum_all) {
        text_ += concat("double d", v, " = 0;\n");
      }
    }
    if (!few.empty()) few = concat(unroll(), "for (int at = 0; at < kHeld; ++at) {\n", few, "}\n");

    text_ += "{\n";
    std::string fetched, ahead;
    const auto read = [&](bool reads, const char* word) {
      if (!reads) return;
      const std::string place =
          concat("staged + (", word == std::string("x") ? "" : "kVectors + ", "i) * kThreads * V");
      text_ += concat("const T* const of_", word, " = static_cast<const T*>(a.", word, ");\n");
      if (!stages_) text_ += concat("Packed next_", word, "[kVectors] = {};\n");
      const std::string from = concat("of_", word, " + of_row * kCols + column");
      ahead += stages_ ? concat("copy_ahead(", place, ", ", from, ");\n")
                       : concat("next_", word, "[i] = loaded(", from, ");\n");
      fetched +=
          concat("A ", word, "[kHeld] = {};\n", vectors_loop(), "if (!there) break;\nwiden(",
                 stages_ ? concat("loaded(", place, ")") : concat("next_", word, "[i]"), ", ", word, " + i * V);\n}\n");
    };
    if (stages_) fetched = "wait_for_copies();\n";
    read(reads_x, "x");
    read(reads_dy, "dy");
    std::string ahead_of_rows;
    if (backward_)
      for (const int v : lasting_)
        if (at(v).extent == Extent::rows) {
          text_ += concat("A next_r", v, " = 0;\n");
          ahead_of_rows += concat("next_r", v, " = l", v, "[of_row];\n");
          fetched += concat("[[maybe_unused]] const A r", v, " = next_r", v, ";\n");
        }
    if (!ahead.empty()) ahead = concat(vectors_loop(), ahead, "}\n");
    text_ += concat("const auto fetch = [&](long long of_row) {\nif (of_row >= end) return;\n", ahead, ahead_of_rows,
                    "};\nfetch(begin + team);\n");
    if (!few.empty()) text_ += "int since = 0;\n";
    if (writes)
      text_ +=
          concat("T* const out = static_cast<T*>(a.out);\nconst bool adds = a.adds >> ", kMostParameters, " & 1;\n");
    text_ +=
        concat("for (long long first = begin; first < end; first += kTeams) {\n",
               "[[maybe_unused]] const long long row = first + team;\n[[maybe_unused]] const bool there = row < end;\n",
               fetched, "fetch(row + kTeams);\n");
    if (writes && backward_)
      text_ +=
          concat("if (out && adds && there) {\n", vectors_loop(), "will_read(out + row * kCols + column);\n}\n}\n");
    for (int level = 0; level <= levels; ++level) {
      for (const int v : scalars)
        if (at(v).level == level) {
          text_ += concat("const A r", v, " = ", expression(at(v)), ";\n");
        }
      if (const auto group = reductions.find(level); group != reductions.end()) reduce(group->second);
    }
    for (std::size_t k = pass.rows; k < pass.end && last; ++k)
      if (at(of_code_[k]).extent == Extent::rows) write_lasting(of_code_[k]);
    last_loop(sums, sums_of_sums, writes);
    if (!few.empty()) text_ += concat("if (++since % 8 == 0) {\n", few, "}\n");
    text_ += concat("}\n", few, "}\n");
    finish_pass(sums);
  }
  static constexpr int kMostParameters = 7;

  /// A sum over channels that nothing but the sum `v` over rows reads, unchanged.
  int only_sum(int v) const {
    const Value& value = at(v);
    if (!is_sum(value.code->reduction) || value.code->summands != 1 || value.code->minus[0]) return kNone;
    int of = kNone;
    for (const int in : value.in) {
      if (in == kNone) continue;
      if (of != kNone) return kNone;
      of = in;
    }
    const bool alone =
        of != kNone && at(of).code && at(of).code->reduction == Op::sum_c && at(of).uses == 1 && !at(of).lasts;
    return alone ? of : kNone;
  }

  /// The result, and what is added up over rows.
  void last_loop(const std::vector<int>& sums, const std::map<int, int>& sums_of_sums, bool writes) {
    std::vector<int> roots;
    std::string body, after;
    for (const int v : sums) {
      const Value& value = at(v);
      const Op op = value.code->reduction;
      const auto of =
          std::find_if(sums_of_sums.begin(), sums_of_sums.end(), [&](const auto& s) { return s.second == v; });
      if (of != sums_of_sums.end()) {
        for (const int in : operands(of->first)) roots.push_back(in);
        text_ += concat("A t", v, " = 0;\n");
        body += concat("t", v, " += ", products(at(of->first)), ";\n");
        after += concat("d", v, " += double(t", v, ");\n");
      } else if (value.extent == Extent::channels) {
        for (const int in : operands(v)) roots.push_back(in);
        if (is_sum(op))
          body += concat("f", v, "[at] += ", products(value), ";\n");
        else
          body +=
              concat("f", v, "[at] = ", first_of(op), "(f", v, "[at], {", name(value.in[1]), ", int(row - begin)});\n");
      } else if (is_sum(op)) {
        after += concat("if (lane == 0) d", v, " += double(", products(value), ");\n");
      } else {
        after +=
            concat("f", v, "[0] = ", first_of(op), "(f", v, "[0], {", name(value.in[1]), ", int(row - begin)});\n");
      }
    }
    if (writes && result_ != kNone) {
      text_ += "A y[kHeld];\n";
      roots.push_back(result_);
      body += concat("y[at] = ", name(result_), ";\n");
    }
    text_ += "if (there) {\n";
    if (!body.empty()) text_ += loop(roots, body);
    text_ += after;
    if (writes) {
      const std::string value = result_ == kNone ? "A(0)" : "y[i * V + k]";
      text_ += concat("if (out) {\n", vectors_loop(), "A values[V];\n",
                      backward_ ? "if (adds) widen(loaded(out + row * kCols + column), values);\n" : "",
                      "NORMLAB_UNROLL\n", "for (int k = 0; k < V; ++k) values[k] = ",
                      backward_ ? concat("adds ? values[k] + ", value, " : ", value) : value,
                      ";\nstore(out + row * kCols + column, values);\n}\n}\n");
    }
    text_ += "}\n";
  }

  /// Makes what is reduced over the rows of an image known to all threads of its block.
  void finish_pass(const std::vector<int>& sums) {
    const auto each_held = [&](const std::string& body) {
      return concat(unroll(), "for (int at = 0; at < kHeld; ++at) {\n", body, "}\n");
    };
    std::string stored, read;
    for (const int v : sums) {
      const Op op = at(v).code->reduction;
      if (op == Op::sum_all) continue;
      if (at(v).extent == Extent::channels) {
        const int slot = slots_.at(v);
        const auto total = [&](int more) { return concat("all_totals[(", slot + more, " * kHeld + at) * kThreads"); };
        if (is_sum(op)) {
          read += concat("A s", v, "[kHeld];\n",
                         each_held(concat("double sum = 0;\nfor (int t = 0; t < kTeams; ++t) sum += ", total(0),
                                          " + t * kLanes + lane];\ns", v, "[at] = A(sum);\n")));
        } else {
          stored += each_held(concat(total(0), " + thread] = double(f", v, "[at].best);\n", total(1),
                                     " + thread] = double(f", v, "[at].at);\n"));
          read += concat("A s", v, "[kHeld];\n",
                         each_held(concat("Extreme one{0, -1};\nfor (int t = 0; t < kTeams; ++t)\none = ", first_of(op),
                                          "(one, {A(", total(0), " + t * kLanes + lane]), int(", total(1),
                                          " + t * kLanes + lane])});\ns", v,
                                          "[at] = ", is_place(op) ? "A(one.at)" : "one.best", ";\n")));
        }
      } else if (is_sum(op)) {
        text_ += concat("double g", v, "[1] = {d", v, "};\njoin<kThreads / 32>(g", v,
                        ", of_warp, kHalf, turn, Plus());\nconst A n", v, " = A(g", v, "[0]);\n");
      } else {
        text_ += concat("join<kThreads / 32>(f", v, ", of_warp, kHalf, turn, ", first_of(op), ");\nconst A n", v, " = ",
                        is_place(op) ? concat("A(f", v, "[0].at)") : concat("f", v, "[0].best"), ";\n");
        most_joined_ = std::max<std::size_t>(most_joined_, 2);
      }
    }
    if (!read.empty()) text_ += stored + "__syncthreads();\n" + read;
    for (const int v : sums)
      if (at(v).code->reduction != Op::sum_all) write_lasting(v);
  }

  /// A chunk's sums over all rows.
  void write_sums() {
    if (!out_.sums) return;
    text_ += concat("double* const partial = a.partial + blockIdx.x * ", out_.partial, "ll;\n");
    int number = 0;
    for (const int v : all_numbers_) {
      text_ += concat("double g", v, "[1] = {d", v, "};\njoin<kThreads / 32>(g", v,
                      ", of_warp, kHalf, turn, Plus());\nif (thread == 0) partial[", all_sums_.size(), " * kCols + ",
                      number++, "] = g", v, "[0];\n");
    }
    if (all_sums_.empty()) return;
    text_ += concat("__syncthreads();\nif (team == 0) {\nfor (int s = 0; s < ", all_sums_.size(), "; ++s)\n",
                    loop({}, concat("double sum = 0;\nfor (int t = 0; t < kTeams; ++t) sum += ",
                                    "all_totals[(s * kHeld + at) * kThreads + t * kLanes + lane];\n",
                                    "partial[s * kCols + c] = sum;\n")),
                    "}\n");
  }

  /// The gradients of parameters from the sums over all rows.
  void finish_kernel() {
    if (!backward_ || p_.gradients.empty()) return;
    finishes_ = true;
    std::set<int> needed;
    const std::function<void(int)> need = [&](int v) {
      if (v == kNone || !needed.insert(v).second) return;
      if (at(v).code && at(v).code->reduction != Op::sum_all)
        for (const int in : at(v).in) need(in);
    };
    for (const int v : gradients_) need(v);
    bool waits = false, columns = false;  // for all columns
    text_ += concat("\nNORMLAB_KERNEL void __launch_bounds__(", kFinishThreads,
                    ") finish(const FormulaArguments a) {\n[[maybe_unused]] constexpr int kHalf = 0;\n",
                    "[[maybe_unused]] double* const of_warp = nullptr;\n[[maybe_unused]] int turn = 0;\n",
                    "const bool writes = threadIdx.x < 32;\n");
    leaves(true);
    for (std::size_t j = 0; j < all_numbers_.size(); ++j)
      if (needed.contains(all_numbers_[j]))
        text_ += concat("const A n", all_numbers_[j], " = A(chunk_sum(a, ", out_.partial, ", ", all_sums_.size(),
                        " * kCols + ", j, ", true));\n");
    for (const int v : of_code_) {
      if (!needed.contains(v) || at(v).extent != Extent::number || at(v).code->reduction == Op::sum_all) continue;
      waits = waits || at(v).code->reduction != Op::stop;
      single(v);
    }
    std::string of_columns, of_numbers;
    std::vector<int> roots;
    for (std::size_t p = 0; p < gradients_.size(); ++p) {
      if (!all_.parameters[p].learned) continue;
      const int v = gradients_[p];
      const std::string value = v == kNone ? "A(0)" : name(v);
      const auto put = [&](const char* index) {
        return concat("if (A* const to = static_cast<A*>(a.gradients[", p, "]); to && writes)\nto[", index,
                      "] = a.adds >> ", p, " & 1 ? A(to[", index, "] + ", value, ") : ", value, ";\n");
      };
      if (all_.parameters[p].per_channel) {
        of_columns += put("c");
        roots.push_back(v);
        columns = true;
      } else {
        of_numbers += put("0");
      }
    }
    if (columns) text_ += loop(roots, of_columns);
    if (!of_numbers.empty()) text_ += concat("if (blockIdx.x == 0 && threadIdx.x == 0) {\n", of_numbers, "}\n");
    text_ += "}\n";
    out_.finish_blocks = columns && !waits ? (cols_ + 31) / 32 : columns || !of_numbers.empty() ? 1 : 0;
  }

  const Programs& all_;
  const Program& p_;
  const Graph& g_;
  const bool backward_;
  const std::int64_t cols_;
  const int vector_;
  int warps_ = 1, vectors_ = 1;
  bool wide_ = false, stages_ = false, finishes_ = false;
  CudaSource out_;
  std::string text_;
  std::vector<Value> values_;
  std::vector<int> of_code_, gradients_, lasting_, all_sums_, all_numbers_;
  std::map<int, int> slots_;
  std::size_t most_joined_ = 1;
  int result_ = kNone;
};

}  // namespace

std::uint64_t text_hash(std::string_view text) { return std::hash<std::string_view>()(text); }

CudaSource cuda_source(const Programs& programs, bool backward, DType dtype, int vector) {
  return Writer(programs, backward, dtype, vector).source();
}

}  // namespace normlab::formula
