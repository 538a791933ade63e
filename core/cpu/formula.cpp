// Runs the program of a formula over a shard's rows, on one thread.
#include <functional>
#include <numeric>

#include "core/cpu/cpu_backend.h"
#include "core/cpu/formula_ops.h"

namespace normlab {
using namespace cpu;
using namespace formula;
namespace {

template <class A, class S>
void sum_channels(const Call<A>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r) {
    const S values(call, r);
    call.out[r] = row_sum<A>(call.cols, [&](auto i, auto lanes) { return first(values(i, lanes), lanes); });
  }
}
/// A few rows are added in A, and these sums in double; single numbers in double.
template <class A, class S>
void sum_rows(const Call<A>& call) {
  const Scratch<A> few(call.cols);
  const auto add = [&]<std::size_t... k>(std::int64_t row, bool begins, std::index_sequence<k...>) {
    const S values[] = {S(call, row + std::int64_t(k))...};
    each_vector<A>(call.cols, [&](auto i, auto lanes) {
      Vec<A> sum = values[0](i, lanes);
      if (!begins) sum += load(few + i, lanes);
      for (std::size_t r = 1; r < sizeof...(k); ++r) sum += values[r](i, lanes);
      store(few + i, sum, lanes);
    });
  };
  for (std::int64_t first = 0, row = 0; first < call.rows; first = row) {
    const std::int64_t end = std::min(call.rows, first + (call.cols > 1 ? 8 : 1));
    for (; row + 4 <= end; row += 4) add(row, row == first, std::make_index_sequence<4>());
    for (; row < end; ++row) add(row, row == first, std::make_index_sequence<1>());
    for (std::int64_t c = 0; c < call.cols; ++c) call.total[c] += double(few[c]);
  }
}

/// The kernel for the numbers of factors, which do not grow from product to product.
template <class A>
Kernel<A> kernel_of_sum(const Instruction& i) {
  const auto factors = [&](std::size_t s) {
    return s >= i.summands ? -1
                           : int(std::count_if(&i.in[4 * s + 1], &i.in[4 * s] + 4, [](int r) { return r != kNone; }));
  };
  const std::array counts{factors(0), factors(1), factors(2)};
  Kernel<A> found = nullptr;
  const auto match = [&]<int a, int b, int c>(std::integer_sequence<int, a, b, c>) {
    if constexpr (a >= b && b >= c && (b >= 0 || c < 0)) {
      if (counts != std::array{a, b, c}) return;
      using S = Summands<A, a, b, c>;
      found = sum_rows<A, S>;
      if (i.reduction == Op::stop) found = write_values<A, S, std::identity>;
      if (i.reduction == Op::sum_c) found = sum_channels<A, S>;
    }
  };
  [&]<int... k>(std::integer_sequence<int, k...>) {
    (match(std::integer_sequence<int, k / 25, k / 5 % 5 - 1, k % 5 - 1>()), ...);
  }
  (std::make_integer_sequence<int, 100>());
  return found;
}

/// The largest or smallest value so far, and where it was first: a channel from 1 or a token from 0. NaN stays.
template <class A>
struct Extreme {
  A best = 0, at = -1;
  template <bool kLeast>
  void see(A value, std::int64_t place) {
    const bool better = kLeast ? !(value >= best) : !(value <= best);
    if (at < 0 || (best == best && better)) *this = {value, A(place)};
  }
};
template <class A, bool kLeast, bool kPlace>
void extreme_of_channels(const Call<A>& call) {
  for (std::int64_t r = 0; r < call.rows; ++r) {
    Extreme<A> found;
    for (std::int64_t c = 0; c < call.cols; ++c)
      found.template see<kLeast>(call.in[1].values[r * call.in[1].step + c], c + 1);
    call.out[r] = kPlace ? found.at : found.best;
  }
}
/// Leaves best and at in the totals.
template <class A, bool kLeast>
void extreme_of_tokens(const Call<A>& call) {
  for (std::int64_t c = 0; c < call.cols; ++c) {
    double *const best = call.total + c, *const at = call.place + c;
    Extreme<double> found{*best, *at};
    for (std::int64_t r = 0; r < call.rows; ++r)
      found.template see<kLeast>(double(call.in[1].values[r * call.in[1].step + c]), call.token + r);
    *best = found.best;
    *at = found.at;
  }
}

template <class A>
Kernel<A> kernel_for(const Instruction& i) {
  using V = Vec<A>;
  const Op r = i.reduction, op = i.op;
  if (op == Op::add) return kernel_of_sum<A>(i);
  if (r == Op::max_c) return extreme_of_channels<A, false, false>;
  if (r == Op::min_c) return extreme_of_channels<A, true, false>;
  if (r == Op::first_most_c) return extreme_of_channels<A, false, true>;
  if (r == Op::first_least_c) return extreme_of_channels<A, true, true>;
  if (r == Op::max_t || r == Op::first_most_t) return extreme_of_tokens<A, false>;
  if (r == Op::min_t || r == Op::first_least_t) return extreme_of_tokens<A, true>;
  if (op == Op::token) return [](const Call<A>& call) { std::iota(call.out, call.out + call.cols, A(call.token)); };
  if (op == Op::div) return map_kernel<A, 2>(std::divides<>());
  if (op == Op::min) return map_kernel<A, 2>([](V a, V b) { return b != b ? b : b < a ? b : a; });
  if (op == Op::max) return map_kernel<A, 2>([](V a, V b) { return b != b ? b : a < b ? b : a; });
  if (op == Op::same) return map_kernel<A, 3>([](V a, V b, V c) { return a == b ? c : V{}; });
  if (op == Op::times)
    return map_kernel<A, 2>([](V a, V b) {
      const V y = a * b;
      return ((a == 0) | (b == 0)) ? V{} : y;
    });
  if (op == Op::pow)
    return map_kernel<A, 2>([](V a, V b) {
      for (int k = 0; k < int(kLanes<A, kRowBytes>); ++k) b[k] = std::pow(a[k], b[k]);
      return a < 0 ? V{} + std::numeric_limits<A>::quiet_NaN() : b;
    });
  if (op == Op::select)
    return map_kernel<A, 4>([](V a, V b, V c, V d) {
      const V chosen = a < b ? c : d, sum = a + b;
      return ((a != a) | (b != b)) ? sum : chosen;  // NaN
    });
  return function_of<A>(op);
}

/// An instruction as a call, of which `operands` are at places that may move.
template <class A>
struct Step {
  Call<A> call;
  Kernel<A> kernel = nullptr;
  Extent extent{};      // of what it goes through
  bool follows = true;  // the rows of all operands follow one another
  std::array<std::uint8_t, 4 * kMostSummands> operands{};
  std::size_t count = 0;
};
/// Where a register is for a row and an image.
template <class A>
struct Place {
  A* begin = nullptr;
  std::int64_t by_row = 0, by_image = 0;
};

/// One call: its memory, and where it stands.
template <class T>
class Run {
  using A = Acc<T>;
  static constexpr bool kSame = std::is_same_v<T, A>;
  static constexpr std::int64_t kCache = 81920;  // bytes
  static constexpr std::int64_t kLine = kLanes<A, kRowBytes>;
  static std::int64_t lines(std::int64_t values) { return (values + kLine - 1) / kLine * kLine; }

 public:
  Run(const Program& program, FormulaDims dims, const FormulaForward& inputs, const Tensor& dy, Gradient result,
      Gradient gate_result, A* lasting, std::vector<bool>* nan = nullptr)
      : p_(program),
        g_(inputs.programs->graph),
        d_(dims),
        inputs_{{Op::x, inputs.x.data<T>()}, {Op::gate, inputs.gate.data<T>()}, {Op::dy, dy.data<T>()}},
        results_{{p_.result, result.to.data<T>(), adds(result)},
                 {p_.gate_result, gate_result.to.data<T>(), adds(gate_result)}},
        nan_(nan),
        block_rows_(rows_of_blocks()),
        memory_(1 + lay_out(nullptr, inputs.parameters, lasting)),
        totals_(program.totals * 2 * dims.cols),
        places_(std::ssize(program.registers)),
        now_(std::ssize(program.registers)),
        steps_(std::ssize(program.code)) {
    lay_out(memory_, inputs.parameters, lasting);
    for (std::size_t k = 0; k < p_.code.size(); ++k) {
      begin(p_.code[k]);
      steps_[k] = step_of(p_.code[k]);
    }
  }

  void operator()() {
    move(0, 0, true);
    for (int r = 0; nan_ && r < int(p_.registers.size()); ++r)
      if (const Id leaf = p_.registers[std::size_t(r)].leaf; leaf != kNone && g_[leaf].op == Op::parameter)
        look(leaf, r, 0);
    const std::int64_t images = p_.by_image ? d_.images : 1, rows = d_.images * d_.rows / images;
    for (std::int64_t image = 0; image < images; ++image) {
      std::size_t first = 0;
      for (const Pass& pass : p_.passes) {
        move(image, image * rows, true);
        run(first, pass.rows, 0, 0);
        for (std::int64_t row = 0; row < rows; row += block_rows_) {
          const std::int64_t count = std::min(block_rows_, rows - row);
          move(image, image * rows + row, false);
          run(pass.rows, pass.end, count, row);
          for (const Result& result : results_)
            if (&pass == &p_.passes.back() && result.from != kNone && result.to && (result.adds || !kSame))
              write(result, count);
        }
        finish(first, pass.end, image + 1 == images);
        first = pass.end;
      }
    }
    run(p_.passes.back().end, p_.code.size(), 0, 0);
  }

  /// Writes the gradient of a parameter.
  void put_gradient(int from, const Gradient& to) const {
    if (!to) return;
    A* const values = to.to.data<A>();
    const bool same = from == kNone || extent_of(from) == Extent::number;
    for (std::int64_t i = 0; i < to.to.size(); ++i)
      put(values[i], from == kNone ? A(0) : now_[from][same ? 0 : i], adds(to));
  }

 private:
  struct Input {
    Op leaf;
    const T* values;
  };
  struct Result {
    int from;
    T* to;
    bool adds;
  };
  Extent extent_of(int r) const { return p_.registers[std::size_t(r)].extent; }
  /// Rows of a block: as many as keep the registers near the first-level cache. More rows share an instruction's cost.
  std::int64_t rows_of_blocks() const {
    const auto blocks = std::count_if(p_.registers.begin(), p_.registers.end(),
                                      [](const Register& r) { return r.extent == Extent::block; });
    const std::int64_t values = kCache / std::int64_t(sizeof(A)) / (blocks + 1);
    const std::int64_t rows = std::max<std::int64_t>(values / d_.cols, 1);
    return rows > 8 ? rows / 8 * 8 : rows > 4 ? 4 : rows;
  }
  std::int64_t size_of(Extent extent) const {
    return extent == Extent::number     ? 1
           : extent == Extent::channels ? d_.cols
           : extent == Extent::rows     ? block_rows_
                                        : block_rows_ * d_.cols;
  }

  /// Of an input, or of a result that is assigned.
  const T* memory_of(Op leaf, int r) const {
    for (const Input& input : inputs_)
      if (leaf == input.leaf) return input.values;
    for (const Result& result : results_)
      if (r == result.from && !result.adds) return result.to;
    return nullptr;
  }
  /// Says where registers are, and fills those that hold something from the beginning. Returns how much memory they take.
  std::int64_t lay_out(A* memory, const std::array<Tensor, kMostFormulaParameters>& parameters, A* lasting) {
    std::int64_t used = 0;
    for (int r = 0; r < int(p_.registers.size()); ++r) {
      const Register& one = p_.registers[std::size_t(r)];
      const Op leaf = one.leaf == kNone ? Op::stop : g_[one.leaf].op;
      const std::int64_t size = size_of(one.extent);
      Place<A> place;
      if (one.lasts) {
        place = {lasting, one.extent == Extent::rows, one.extent == Extent::rows ? 0 : size};
        lasting += one.extent == Extent::rows ? d_.images * d_.rows : d_.images * size;
      } else if (leaf == Op::parameter) {
        place.begin = parameters[std::size_t(g_[one.leaf].index)].data<A>();
      } else if (const T* const there = memory_of(leaf, r); kSame && there) {
        place = {(A*)there, d_.cols, 0};
      } else {
        place.begin = memory + used;
        used += lines(size) + kLine;  // not all at the same place in a page
        if (memory && leaf == Op::number) *place.begin = A(g_[one.leaf].number);
        if (memory && leaf == Op::tokens) *place.begin = A(d_.rows);
        for (std::int64_t c = 0; memory && leaf == Op::channel && c < d_.cols; ++c) place.begin[c] = A(c + 1);
      }
      if (memory) places_[r] = place;
    }
    return used;
  }

  Step<A> step_of(const Instruction& i) const {
    Step<A> step;
    step.kernel = kernel_for<A>(i);
    step.extent = i.reduction == Op::stop ? extent_of(i.out) : Extent::number;
    Call<A>& call = step.call;
    for (std::size_t k = 0; k < i.in.size(); ++k) {
      if (i.in[k] == kNone) continue;
      step.operands[step.count++] = std::uint8_t(k);
      if (i.reduction != Op::stop) step.extent = std::max(step.extent, extent_of(i.in[k]));
    }
    for (std::size_t k = 0; k < step.count; ++k) {
      const std::size_t o = step.operands[k];
      const Extent in = extent_of(i.in[o]);
      const bool by_row = in == Extent::rows && (step.extent == Extent::block || i.reduction != Op::stop);
      call.in[o] = {nullptr, in == Extent::block ? d_.cols : by_row,
                    in == Extent::channels || (in == step.extent && !by_row)};
      step.follows = step.follows && call.in[o].step == (call.in[o].is_vector ? d_.cols : 0);
    }
    step.follows = step.follows && i.reduction == Op::stop;
    call.instruction = &i;
    call.cols = step.extent >= Extent::block || step.extent == Extent::channels ? d_.cols : 1;
    call.total = totals_ + i.total * 2 * d_.cols;
    call.place = call.total + d_.cols;
    return step;
  }

  void move(std::int64_t image, std::int64_t row, bool begins) {
    for (int r = 0; r < int(p_.registers.size()); ++r)
      if (begins || places_[r].by_row)
        now_[r] = places_[r].begin + row * places_[r].by_row + image * places_[r].by_image;
    row_ = row;
  }

  /// Some instructions, on so many rows from the token `token` on.
  void run(std::size_t first, std::size_t end, std::int64_t rows, std::int64_t token) {
    for (std::size_t s = first; s < end; ++s) {
      const Instruction& i = p_.code[s];
      Step<A>& step = steps_[s];
      Call<A>& call = step.call;
      for (std::size_t k = 0; k < step.count; ++k) call.in[step.operands[k]].values = now_[i.in[step.operands[k]]];
      call.out = now_[i.out];
      call.token = token;
      if (step.extent == Extent::block) {
        call.rows = step.follows ? 1 : rows;
        call.cols = step.follows ? rows * d_.cols : d_.cols;
      } else if (step.extent == Extent::rows) {
        (i.reduction == Op::stop ? call.cols : call.rows) = rows;
      }
      if (step.kernel)
        step.kernel(call);
      else
        read(memory_of(i.op, kNone), call);
      if (nan_ && i.total == kNone) look(i.id, i.out, rows);
    }
  }
  void look(Id id, int at, std::int64_t rows) {
    const Extent extent = extent_of(at);
    const std::int64_t size = extent < Extent::rows ? size_of(extent) : size_of(extent) / block_rows_ * rows;
    if (std::any_of(now_[at], now_[at] + size, [](A v) { return v != v; })) (*nan_)[std::size_t(id)] = true;
  }
  void read(const T* from, const Call<A>& call) const {
    if constexpr (!kSame)
      each_vector<A>(call.rows * call.cols,
                     [&](auto i, auto lanes) { store(call.out + i, load(from + row_ * d_.cols + i, lanes), lanes); });
  }
  void write(const Result& result, std::int64_t rows) const {
    T* const to = result.to + row_ * d_.cols;
    const A* const from = now_[result.from];
    choose(result.adds, [&](auto add) {
      each_vector<A>(rows * d_.cols,
                     [&](auto i, auto lanes) { put<decltype(add)::value>(to + i, load(from + i, lanes), lanes); });
    });
  }

  void begin(const Instruction& i) {
    if (i.total == kNone) return;
    double* const total = totals_ + i.total * 2 * d_.cols;
    std::fill_n(total, d_.cols, 0.0);
    std::fill_n(total + d_.cols, d_.cols, -1.0);
  }
  /// Puts sums over rows in their registers and begins anew: those of an image, or at the end those of all.
  void finish(std::size_t first, std::size_t end, bool at_end) {
    for (std::size_t s = first; s < end; ++s) {
      const Instruction& i = p_.code[s];
      if (i.total == kNone || (i.reduction == Op::sum_all && !at_end)) continue;
      const bool is_place = i.reduction == Op::first_most_t || i.reduction == Op::first_least_t;
      const double* const total = totals_ + (i.total * 2 + is_place) * d_.cols;
      for (std::int64_t c = 0; c < size_of(extent_of(i.out)); ++c) now_[i.out][c] = A(total[c]);
      begin(i);
      if (nan_) look(i.id, i.out, 0);
    }
  }

  const Program& p_;
  const Graph& g_;
  const FormulaDims d_;
  const Input inputs_[3];
  const Result results_[2];
  std::vector<bool>* const nan_;  // by value: whether it is NaN; may be null
  const std::int64_t block_rows_;
  const Scratch<A> memory_;
  const Scratch<double> totals_;
  const Scratch<Place<A>> places_;
  const Scratch<A*> now_;
  const Scratch<Step<A>> steps_;
  std::int64_t row_ = 0;
};

}  // namespace

void CpuBackend::formula(FormulaDims d, const FormulaForward& f) {
  for_type("formula", f.x.dtype(), [&]<class T>(Type<T>) {
    Run<T>(f.programs->forward, d, f, Tensor(), {f.y}, {}, f.lasting.data<Acc<T>>())();
  });
}

void CpuBackend::formula_backward(FormulaDims d, const FormulaBackward& b) {
  const FormulaForward& f = b.forward;
  for_type("formula_backward", f.x.dtype(), [&]<class T>(Type<T>) {
    const Program& program = f.programs->backward;
    Run<T> run(program, d, f, b.dy, b.dx, b.dgate, f.lasting.data<Acc<T>>());
    run();
    for (std::size_t p = 0; p < program.gradients.size(); ++p) run.put_gradient(program.gradients[p], b.dparameters[p]);
    const auto clear = [](int result, const Gradient& of) {
      if (of && result == kNone && !adds(of)) std::fill_n(of.to.data<T>(), of.to.size(), T());
    };
    clear(program.result, b.dx);
    clear(program.gate_result, b.dgate);
  });
}

void CpuBackend::put_progress(const StepState* state, Tensor to) { fill(to, state->progress); }

std::string CpuBackend::first_nan(FormulaDims d, const FormulaBackward& input) {
  FormulaForward f = input.forward;
  const Tree& tree = f.programs->tree;
  const Programs alone(tree, f.programs->graph.site(), f.programs->parameters, false);
  f.programs = &alone;
  std::vector<bool> nan(alone.graph.nodes().size());
  const auto is_nan = [&](Id id) { return id != kNone && nan[std::size_t(id)]; };
  for_type("first_nan", f.x.dtype(), [&]<class T>(Type<T>) {
    const Scratch<Acc<T>> lasting(alone.lasting_size(d.images, d.images * d.rows));
    Run<T>(alone.forward, d, f, Tensor(), {}, {}, lasting, &nan)();
    if (input.dy) Run<T>(alone.backward, d, f, input.dy, {}, {}, lasting, &nan)();
  });
  for (std::size_t t = 0; t < tree.terms.size(); ++t)
    if (is_nan(alone.graph.of_term(t))) return text_of(tree, int(t));
  for (std::size_t t = tree.terms.size(); t-- > 0;)
    if (is_nan(alone.graph.gradient(alone.graph.of_term(t)))) return "the derivative by " + text_of(tree, int(t));
  return {};
}

}  // namespace normlab
