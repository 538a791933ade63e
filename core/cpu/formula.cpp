// Runs the program of a formula over a shard's rows, on one thread.
#include <functional>
#include <span>

#include "core/cpu/formula_ops.h"
#include "core/formula/program.h"

namespace normlab {
using namespace cpu;
using namespace formula;
namespace {

using Kind = Instruction::Kind;

constexpr bool finds_extreme(Op op) {
  return (Op::max_c <= op && op <= Op::first_least_c) || (Op::max_t <= op && op <= Op::first_least_t);
}
constexpr bool is_least(Op op) {
  return op == Op::min_c || op == Op::first_least_c || op == Op::min_t || op == Op::first_least_t;
}
constexpr bool is_place(Op op) {
  return op == Op::first_most_c || op == Op::first_least_c || op == Op::first_most_t || op == Op::first_least_t;
}

struct Add {
  template <class V>
  V operator()(V a, V b) const {
    return a + b;
  }
};
struct Sub {
  template <class V>
  V operator()(V a, V b) const {
    return a - b;
  }
};
struct Mul {
  template <class V>
  V operator()(V a, V b) const {
    return a * b;
  }
};
template <class First, class Then, bool kReversed>
struct Both {
  template <class V>
  V operator()(V a, V b, V c) const {
    return kReversed ? Then()(c, First()(a, b)) : Then()(First()(a, b), c);
  }
};

template <class A>
Kernel<A> fused(const Instruction& i) {
  const auto with = [&](auto f) -> Kernel<A> {
    if (i.op == Op::add) return f(Add());
    return i.op == Op::sub ? f(Sub()) : f(Mul());
  };
  return with([&](auto first) -> Kernel<A> {
    using First = decltype(first);
    if (i.then == Op::add) return map_kernel<A, 3>(Both<First, Add, false>());
    if (i.then == Op::mul) return map_kernel<A, 3>(Both<First, Mul, false>());
    return i.reversed ? map_kernel<A, 3>(Both<First, Sub, true>()) : map_kernel<A, 3>(Both<First, Sub, false>());
  });
}

template <class A>
Kernel<A> kernel_for(const Instruction& i) {
  using V = Vec<A>;
  if (i.then != Op::stop) return fused<A>(i);
  if (const Kernel<A> function = function_of<A>(i.op)) return function;
  switch (i.op) {
    case Op::add:
      return map_kernel<A, 2>(Add());
    case Op::sub:
      return map_kernel<A, 2>(Sub());
    case Op::mul:
      return map_kernel<A, 2>(Mul());
    case Op::times:
      return map_kernel<A, 2>([](V a, V b) {
        const V y = a * b;
        return ((a == 0) | (b == 0)) ? V{} : y;
      });
    case Op::div:
      return map_kernel<A, 2>([](V a, V b) { return a / b; });
    case Op::pow:
      return map_kernel<A, 2>([](V a, V b) {
        for (int k = 0; k < int(kLanes<A, kRowBytes>); ++k) b[k] = std::pow(a[k], b[k]);
        return a < 0 ? V{} + std::numeric_limits<A>::quiet_NaN() : b;
      });
    case Op::min:
      return map_kernel<A, 2>([](V a, V b) { return b != b ? b : b < a ? b : a; });
    case Op::max:
      return map_kernel<A, 2>([](V a, V b) { return b != b ? b : a < b ? b : a; });
    case Op::select:
      return map_kernel<A, 4>([](V a, V b, V c, V d) {
        const V chosen = a < b ? c : d, sum = a + b;
        return ((a != a) | (b != b)) ? sum : chosen;  // NaN
      });
    case Op::same:
      return map_kernel<A, 3>([](V a, V b, V c) { return a == b ? c : V{}; });
    default:
      return nullptr;
  }
}

/// Where an operand is for a row of the call and a channel.
template <class A>
struct Reference {
  A* base = nullptr;
  std::int64_t by_row = 0, by_channel = 0,
               step = 0;  // step -1: the tile's columns
  bool wide = true;
  View<A> at(std::int64_t row, std::int64_t channel, std::int64_t n) const {
    return {base + row * by_row + channel * by_channel, step < 0 ? n : step, wide};
  }
};
/// An instruction whose operands are found.
template <class A>
struct Step {
  const Instruction* instruction = nullptr;
  Kernel<A> kernel = nullptr;
  Reference<A> in[4], out;
  View<A> fixed[4], fixed_out;  // outside of tiles
  bool of_rows = false, of_channels = false;
  int operands = 0;
};

/// One call: its memory, and where it stands.
template <class T>
class Run {
  using A = Acc<T>;

 public:
  Run(const Program& program, const Programs& programs, FormulaDims dims, const Tensor& x, const Tensor& dy,
      Gradient result, std::span<const Tensor> parameters, A* lasting, bool backward)
      : p_(program),
        g_(programs.graph),
        d_(dims),
        x_(x.data<T>()),
        dy_(dy.data<T>()),
        out_(result.to.data<T>()),
        adds_(result.write == Write::add),
        backward_(backward),
        lasting_(lasting),
        tile_(std::int64_t(program.tile)),
        block_rows_(std::clamp<std::int64_t>(tile_ / dims.cols, 1, kMostBlockRows)),
        wide_cols_((dims.cols + kLanes<A, kRowBytes> - 1) / kLanes<A, kRowBytes> * kLanes<A, kRowBytes>),
        memory_((program.registers + 1) * tile_ + program.kept * block_rows_ * wide_cols_ +
                program.channels * wide_cols_ + program.rows * kMostBlockRows + program.numbers),
        states_(program.rows),
        totals_(program.states * 2 * wide_cols_),
        extremes_(program.states * wide_cols_),
        row_extremes_(program.rows),
        channels_(program.channels),
        steps_(count_steps()) {
    tiles_ = memory_;
    kept_ = tiles_ + (program.registers + 1) * tile_;
    A* const buffers = kept_ + program.kept * block_rows_ * wide_cols_;
    rows_ = buffers + program.channels * wide_cols_;
    numbers_ = rows_ + program.rows * kMostBlockRows;
    for (int c = 0; c < program.channels; ++c) channels_[c] = buffers + c * wide_cols_;
    std::fill_n(totals_.begin(), program.states * 2 * wide_cols_, 0.0);
    std::fill_n(extremes_.begin(), program.states * wide_cols_, Extreme<A>());
    for (const Given& given : program.given) give(g_[given.id], given.operand, parameters);
    Step<A>* next = steps_;
    each_list([&](const std::vector<Instruction>& code, bool in_tiles) {
      for (const Instruction& i : code) *next++ = step_of(i, in_tiles);
    });
  }

  void operator()() {
    const Step<A>* next = one_row(steps_, p_.before);
    const std::int64_t images = p_.by_image ? d_.images : 1, rows = d_.images * d_.rows / images;
    for (std::int64_t image = 0; image < images; ++image) {
      first_row_ = image * rows;
      if (backward_) move_lasting(image, 0, 0, false);
      const Step<A>* step = next;
      for (const Pass& pass : p_.passes) step = run(step, pass, image, rows);
      if (!backward_) move_lasting(image, 0, 0, true);
    }
    finish(p_.passes.back(), true);
    one_row(steps_ + count_steps() - std::int64_t(p_.after.size()), p_.after);
  }

  /// Writes the gradient of a parameter.
  void put_gradient(const Operand& from, const Gradient& to) const {
    if (!to) return;
    A* const values = to.to.data<A>();
    const View<A> view = outside(from).at(0, 0, 0);
    for (std::int64_t i = 0; i < to.to.size(); ++i)
      put(values[i], view.values == nullptr ? A(0) : view.values[view.wide ? i : 0], adds(to));
  }

 private:
  void give(const Node& node, const Operand& to, std::span<const Tensor> parameters) {
    if (node.op == Op::parameter && to.where == Where::channels)
      channels_[to.index] = parameters[std::size_t(node.index)].data<A>();
    else if (node.op == Op::channel)
      for (std::int64_t c = 0; c < d_.cols; ++c) channels_[to.index][c] = A(c + 1);
    else
      numbers_[to.index] = node.op == Op::number      ? A(node.number)
                           : node.op == Op::parameter ? parameters[std::size_t(node.index)].data<A>()[0]
                                                      : A(d_.rows);
  }

  /// All lists of instructions, in the order of their steps.
  template <class F>
  void each_list(F&& f) const {
    f(p_.before, false);
    for (const Pass& pass : p_.passes) {
      f(pass.image, false);
      for (const Phase& phase : pass.phases) {
        f(phase.rows, false);
        f(phase.tiles, true);
      }
    }
    f(p_.after, false);
  }
  std::int64_t count_steps() const {
    std::int64_t count = 0;
    each_list([&](const auto& code, bool) { count += std::ssize(code); });
    return count;
  }
  Step<A> step_of(const Instruction& i, bool in_tiles) const {
    Step<A> step;
    step.instruction = &i;
    if (i.kind == Kind::compute) step.kernel = kernel_for<A>(i);
    for (std::size_t k = 0; k < 4; ++k) step.in[k] = in_tiles ? inside(i.in[k]) : outside(i.in[k]);
    step.out = in_tiles ? inside(i.out) : outside(i.out);
    for (std::size_t k = 0; k < 4; ++k) step.fixed[k] = step.in[k].at(0, 0, 0);
    step.fixed_out = step.out.at(0, 0, 0);
    step.of_rows = i.in[0].where == Where::row || i.out.where == Where::row;
    step.of_channels = !step.of_rows && (i.out.where == Where::channels || i.kind == Kind::reduce);
    while (step.operands < 4 && i.in[std::size_t(step.operands)].where != Where::none) ++step.operands;
    return step;
  }

  /// Of values that are the same for all rows of a block, and of a block's rows
  /// as one vector.
  Reference<A> outside(const Operand& o) const {
    switch (o.where) {
      case Where::number:
        return {numbers_ + o.index, 0, 0, 0, false};
      case Where::channels:
        return {channels_[o.index], 0, 1, 0, true};
      case Where::row:
        return {rows_ + o.index * kMostBlockRows, 0, 0, 0, true};
      default:
        return {};
    }
  }
  Reference<A> inside(const Operand& o) const {
    const auto memory = [&](const void* p) { return Reference<A>{(A*)p, d_.cols, 1, d_.cols, true}; };
    constexpr bool kSame = std::is_same_v<T, A>;
    switch (o.where) {
      case Where::row:
        return {rows_ + o.index * kMostBlockRows, 0, 0, 1, false};
      case Where::tile:
        return {tiles_ + (o.index + 1) * tile_, 0, 0, -1, true};
      case Where::kept:
        return {kept_ + o.index * block_rows_ * wide_cols_, 0, 1, wide_cols_, true};
      case Where::result:
        return kSame && !adds_ && out_ ? memory(out_) : Reference<A>{tiles_, 0, 0, -1, true};
      case Where::x:
        return kSame ? memory(x_) : Reference<A>{};
      case Where::dy:
        return kSame ? memory(dy_) : Reference<A>{};
      default:
        return outside(o);
    }
  }

  /// Instructions on numbers and on values for each channel, or on the rows of
  /// a block: one vector each. Returns the step after them.
  const Step<A>* one_row(const Step<A>* step, const std::vector<Instruction>& code) {
    for (const Instruction& i : code) {
      const View<A>* const in = step->fixed;
      A* const out = step->fixed_out.values;
      const std::int64_t n = step->of_rows ? count_ : step->of_channels ? d_.cols : 1;
      if (step->kernel != nullptr)
        step->kernel(in, step->fixed_out, 1, n, {});
      else if (i.op == Op::token)
        for (std::int64_t r = 0; r < count_; ++r) out[r] = A((row_ - first_row_) + r);
      else if (reduces_channels(i.op))
        reduce_channels(i, in, out, n);
      else
        for (std::int64_t r = 0; r < (step->of_rows ? n : 1); ++r)
          add_row(i, step->of_rows ? View<A>{in[0].values + r, 0, false} : in[0], row_ - first_row_ + r, 0, d_.cols);
      ++step;
    }
    return step;
  }
  /// Of values for each channel.
  void reduce_channels(const Instruction& i, const View<A>* in, A* out, std::int64_t n) {
    if (!finds_extreme(i.op)) {
      *out = row_sum<A>(n, [&](auto c, auto lanes) { return load(in[0].values + c, lanes); });
      return;
    }
    Extreme<A> found;
    for (std::int64_t c = 0; c < n; ++c) found.see(in[0].values[c], A(c + 1), is_least(i.op));
    *out = is_place(i.op) ? found.at : found.best;
  }

  const Step<A>* run(const Step<A>* step, const Pass& pass, std::int64_t image, std::int64_t rows) {
    const Step<A>*const begin = one_row(step, pass.image), *end = begin;
    const bool last = &pass == &p_.passes.back();
    const std::int64_t width = d_.cols <= tile_ ? d_.cols : tile_ / 2;
    since_flush_ = 0;
    for (row_ = first_row_; row_ < first_row_ + rows; row_ += count_) {
      count_ = std::min(block_rows_, first_row_ + rows - row_);
      if (backward_) move_lasting(image, row_, count_, false);
      end = begin;
      for (const Phase& phase : pass.phases) {
        const Step<A>* const tiles = one_row(end, phase.rows);
        end = tiles + phase.tiles.size();
        for (std::int64_t c = 0; tiles != end && c < d_.cols; c += width)
          run_tile(tiles, end, c, std::min(width, d_.cols - c));
      }
      if (last && !backward_) move_lasting(image, row_, count_, true);
      if ((since_flush_ += int(count_)) >= kMostBlockRows) flush(pass);
    }
    flush(pass);
    finish(pass, false);
    return end;
  }

  void run_tile(const Step<A>* step, const Step<A>* end, std::int64_t c, std::int64_t n) {
    const T* const streams[] = {out_, x_, dy_};
    std::size_t stream = 0;
    for (; step != end; ++step) {
      const Instruction& i = *step->instruction;
      View<A> in[4];
      in[1].values = in[2].values = nullptr;
      for (int k = 0; k < step->operands; ++k) in[k] = step->in[k].at(row_, c, n);
      const View<A> out = step->out.at(row_, c, n);
      if (step->kernel != nullptr) {
        Ahead ahead;  // in the next rows, so that memory is read while this tile
                      // is computed
        if (stream < (backward_ ? 3 : 2))
          ahead = {reinterpret_cast<const char*>(streams[stream] + (row_ + count_) * d_.cols + c),
                   d_.cols * std::int64_t(sizeof(T)), sizeof(T), stream == 0};
        ++stream;
        step->kernel(in, out, count_, n, ahead);
      } else if (i.kind == Kind::store) {
        if (out_ && (i.in[0].where != Where::result || adds_ || !std::is_same_v<T, A>)) store_tile(in[0], c, n);
      } else if (i.kind == Kind::compute) {  // of x or dy
        const T* const from = (i.op == Op::x ? x_ : dy_) + row_ * d_.cols + c;
        for (std::int64_t r = 0; r < count_; ++r)
          each_vector<A>(
              n, [&](auto k, auto lanes) { store(out.row(r) + k, load(from + r * d_.cols + k, lanes), lanes); });
      } else if (i.op == Op::sum_c) {
        sum_tile(i, in, c, n);
      } else if (reduces_channels(i.op)) {
        for (std::int64_t r = 0; r < count_; ++r) {
          Extreme<A>& found = row_extremes_[i.out.index];
          if (c == 0) found = {};
          for (std::int64_t k = 0; k < n; ++k) found.see(in[0].row(r)[k], A(c + k + 1), is_least(i.op));
          rows_[i.out.index * kMostBlockRows + r] = is_place(i.op) ? found.at : found.best;
        }
      } else if (finds_extreme(i.op)) {
        for (std::int64_t r = 0; r < count_; ++r) add_row(i, {in[0].row(r), 0, true}, row_ - first_row_ + r, c, n);
      } else {
        add_tile(i, in, c, n);
      }
    }
  }

  /// The sums of rows, or of their parts from column c on.
  void sum_tile(const Instruction& i, const View<A>* in, std::int64_t c, std::int64_t n) {
    A* const sums = rows_ + i.out.index * kMostBlockRows;
    with_product(in, [&]<class P>() {
      for (std::int64_t r = 0; r < count_; ++r) {
        const P term(in, r);
        RowState<A> state{};
        if (c > 0) state = states_[i.out.index];
        sum_piece<A>(n, state, term);
        if (n < d_.cols) states_[i.out.index] = state;
        sums[r] = lane_sum((state[0] + state[1]) + (state[2] + state[3]));
      }
    });
  }

  void store_tile(const View<A>& from, std::int64_t c, std::int64_t n) {
    for (std::int64_t r = 0; r < count_; ++r) {
      T* const to = out_ + (row_ + r) * d_.cols + c;
      choose(adds_, [&](auto add) {
        choose(from.wide, [&](auto wide) {
          const Source<A, decltype(wide)::value> from_row(from, r);
          each_vector<A>(n, [&](auto k, auto lanes) { put<decltype(add)::value>(to + k, from_row(k, lanes), lanes); });
        });
      });
    }
  }

  // Sums over rows: a few are added in A, and these sums in double (RowAdder).
  // Those over the rows of an image begin anew with each pass.
  double* total(const Instruction& i) { return totals_ + i.state * 2 * wide_cols_; }
  A* few(const Instruction& i) { return reinterpret_cast<A*>(total(i) + wide_cols_); }
  void add_tile(const Instruction& i, const View<A>* in, std::int64_t c, std::int64_t n) {
    A* const to = few(i) + c;
    with_product(in, [&]<class P>() {
      P terms[kMostBlockRows];
      const std::int64_t rows = count_;
      for (std::int64_t r = 0; r < rows; ++r) terms[r] = P(in, r);
      each_vector<A>(n, [&](auto k, auto lanes) {
        Vec<A> sum = load(to + k, lanes);
        for (std::int64_t r = 0; r < rows; ++r) sum += terms[r](k, lanes);
        store(to + k, sum, lanes);
      });
    });
  }
  /// The values of one row, or of one image: n from channel c on, or one.
  void add_row(const Instruction& i, const View<A>& in, std::int64_t token, std::int64_t c, std::int64_t n) {
    const std::int64_t count = in.wide ? n : 1;
    for (std::int64_t k = 0; k < count; ++k)
      if (finds_extreme(i.op))
        extremes_[i.state * wide_cols_ + c + k].see(in.values[k], A(token), is_least(i.op));
      else
        total(i)[c + k] += double(in.values[k]);
  }
  void flush(const Pass& pass) {
    since_flush_ = 0;
    for (const Instruction& i : pass.sums) {
      if (i.out.where != Where::channels || i.in[0].where == Where::channels || finds_extreme(i.op)) continue;
      double* const sum = total(i);
      A* const values = few(i);
      for (std::int64_t c = 0; c < d_.cols; ++c) {
        sum[c] += double(values[c]);
        values[c] = 0;
      }
    }
  }
  /// Puts sums in their places and begins anew.
  void finish(const Pass& pass, bool of_all) {
    for (const Instruction& i : pass.sums) {
      if ((i.op == Op::sum_all) != of_all) continue;
      const View<A> out = outside(i.out).at(0, 0, 0);
      for (std::int64_t c = 0; c < (out.wide ? d_.cols : 1); ++c)
        if (finds_extreme(i.op)) {
          Extreme<A>& found = extremes_[i.state * wide_cols_ + c];
          out.values[c] = is_place(i.op) ? found.at : found.best;
          found = {};
        } else {
          out.values[c] = A(total(i)[c]);
          total(i)[c] = 0;
        }
    }
  }

  /// Writes or reads what lasts from the forward to the backward pass: of some
  /// rows, or with none of the image.
  void move_lasting(std::int64_t image, std::int64_t row, std::int64_t rows, bool writes) {
    const std::int64_t all = d_.images * d_.rows;
    A* at = lasting_;
    for (const Operand& l : p_.lasting) {
      const View<A> view = outside(l).at(0, 0, 0);
      const bool of_rows = l.where == Where::row;
      const std::int64_t each = of_rows || l.where == Where::number ? 1 : d_.cols, count = of_rows    ? rows
                                                                                           : rows > 0 ? 0
                                                                                                      : each;
      A* const memory = at + (of_rows ? row : image * each);
      std::copy_n(writes ? view.values : memory, count, writes ? memory : view.values);
      at += each * (of_rows ? all : d_.images);
    }
  }

  const Program& p_;
  const Graph& g_;
  const FormulaDims d_;
  const T *const x_, *const dy_;
  T* const out_;
  const bool adds_, backward_;
  A* const lasting_;
  const std::int64_t tile_, block_rows_, wide_cols_;
  const Scratch<A> memory_;
  const Scratch<RowState<A>> states_;
  const Scratch<double> totals_;
  const Scratch<Extreme<A>> extremes_;
  const Scratch<Extreme<A>> row_extremes_;
  const Scratch<A*> channels_;
  const Scratch<Step<A>> steps_;
  A *tiles_ = nullptr, *kept_ = nullptr, *rows_ = nullptr, *numbers_ = nullptr;
  std::int64_t first_row_ = 0, row_ = 0, count_ = 0;
  int since_flush_ = 0;
};

}  // namespace

void CpuBackend::formula(FormulaDims d, const FormulaForward& f) {
  for_type("formula", f.x.dtype(), [&]<class T>(Type<T>) {
    const Program& program = f.programs->forward[std::size_t(f.x.dtype())];
    Run<T>(program, *f.programs, d, f.x, Tensor(), {f.y}, f.parameters, f.lasting.data<Acc<T>>(), false)();
  });
}

void CpuBackend::formula_backward(FormulaDims d, const FormulaBackward& b) {
  const FormulaForward& f = b.forward;
  for_type("formula_backward", f.x.dtype(), [&]<class T>(Type<T>) {
    const Program& program = f.programs->backward[std::size_t(f.x.dtype())];
    Run<T> run(program, *f.programs, d, f.x, b.dy, b.dx, f.parameters, f.lasting.data<Acc<T>>(), true);
    run();
    for (std::size_t p = 0; p < program.gradients.size(); ++p) run.put_gradient(program.gradients[p], b.dparameters[p]);
    if (b.dx && f.programs->graph.dx() == kNone && !adds(b.dx)) std::fill_n(b.dx.to.data<T>(), b.dx.to.size(), T());
  });
}

}  // namespace normlab
