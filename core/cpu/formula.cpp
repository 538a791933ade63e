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
        states_(program.rows + 1),
        totals_(program.states * 2 * wide_cols_),
        extremes_(program.states * wide_cols_),
        row_extremes_(program.rows),
        channels_(program.channels) {
    tiles_ = memory_;
    kept_ = tiles_ + (program.registers + 1) * tile_;
    A* const buffers = kept_ + program.kept * block_rows_ * wide_cols_;
    rows_ = buffers + program.channels * wide_cols_;
    numbers_ = rows_ + program.rows * kMostBlockRows;
    for (int c = 0; c < program.channels; ++c) channels_[c] = buffers + c * wide_cols_;
    std::fill_n(totals_.begin(), program.states * 2 * wide_cols_, 0.0);
    std::fill_n(extremes_.begin(), program.states * wide_cols_, Extreme<A>());
    for (const Given& given : program.given) give(g_[given.id], given.operand, parameters);
  }

  void operator()() {
    one_row(p_.before);
    const std::int64_t images = p_.by_image ? d_.images : 1, rows = d_.images * d_.rows / images;
    for (std::int64_t image = 0; image < images; ++image) {
      first_row_ = image * rows;
      if (backward_) move_lasting(image, 0, 0, false);
      for (const Pass& pass : p_.passes) run(pass, image, rows);
      if (!backward_) move_lasting(image, 0, 0, true);
    }
    finish(p_.passes.back(), true);
    one_row(p_.after);
  }

  /// Writes the gradient of a parameter.
  void put_gradient(const Operand& from, const Gradient& to) const {
    if (!to) return;
    A* const values = to.to.data<A>();
    const View<A> view = from.where == Where::none ? View<A>{} : outside(from, 0);
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

  /// Of values that are the same for all rows of a block, and of a block's rows as one vector.
  View<A> outside(const Operand& o, std::int64_t c) const {
    switch (o.where) {
      case Where::number:
        return {numbers_ + o.index, 0, false};
      case Where::channels:
        return {channels_[o.index] + c, 0, true};
      case Where::row:
        return {rows_ + o.index * kMostBlockRows, 0, true};
      default:
        return {};
    }
  }
  /// In a tile of n columns from c on.
  View<A> inside(const Operand& o, std::int64_t c, std::int64_t n) const {
    switch (o.where) {
      case Where::row:
        return {rows_ + o.index * kMostBlockRows, 1, false};
      case Where::tile:
        return {tiles_ + (o.index + 1) * tile_, n, true};
      case Where::kept:
        return {kept_ + o.index * block_rows_ * wide_cols_ + c, wide_cols_, true};
      case Where::result:
        if constexpr (std::is_same_v<T, A>)
          if (!adds_ && out_) return {out_ + row_ * d_.cols + c, d_.cols, true};
        return {tiles_, n, true};
      case Where::x:
      case Where::dy:
        if constexpr (std::is_same_v<T, A>)
          return {const_cast<A*>(o.where == Where::x ? x_ : dy_) + row_ * d_.cols + c, d_.cols, true};
        return {};
      default:
        return outside(o, c);
    }
  }

  /// Instructions on numbers and on values for each channel, or on the rows of a block: one vector each.
  void one_row(const std::vector<Instruction>& code) {
    for (const Instruction& i : code) {
      View<A> in[4];
      for (std::size_t k = 0; k < 4; ++k) in[k] = outside(i.in[k], 0);
      const View<A> out = outside(i.out, 0);
      const bool of_rows = i.in[0].where == Where::row || i.out.where == Where::row;
      const std::int64_t n = of_rows ? count_ : i.out.where == Where::channels || i.kind == Kind::reduce ? d_.cols : 1;
      if (i.op == Op::token)
        for (std::int64_t r = 0; r < count_; ++r) out.values[r] = A((row_ - first_row_) + r);
      else if (i.kind == Kind::compute)
        compute(i.op, in, out, 1, n);
      else if (reduces_channels(i.op))
        reduce_channels(i, in, out.values, n);
      else
        for (std::int64_t r = 0; r < (of_rows ? n : 1); ++r)
          add_row(i, of_rows ? View<A>{in[0].values + r, 0, false} : in[0], row_ - first_row_ + r, 0, d_.cols);
    }
  }
  /// Of values for each channel.
  void reduce_channels(const Instruction& i, const View<A>* in, A* out, std::int64_t n) {
    if (!finds_extreme(i.op)) return sum_row(in, 0, n, true, true, states_[p_.rows], *out);
    Extreme<A> found;
    for (std::int64_t c = 0; c < n; ++c) found.see(in[0].values[c], A(c + 1), is_least(i.op));
    *out = is_place(i.op) ? found.at : found.best;
  }

  void run(const Pass& pass, std::int64_t image, std::int64_t rows) {
    one_row(pass.image);
    const bool last = &pass == &p_.passes.back();
    since_flush_ = 0;
    for (row_ = first_row_; row_ < first_row_ + rows; row_ += count_) {
      count_ = std::min(block_rows_, first_row_ + rows - row_);
      if (backward_) move_lasting(image, row_, count_, false);
      for (const Phase& phase : pass.phases) {
        one_row(phase.rows);
        if (phase.tiles.empty()) continue;
        const std::int64_t width = std::min(tile_, d_.cols);
        for (std::int64_t c = 0; c < d_.cols; c += width) run_tile(phase.tiles, c, std::min(width, d_.cols - c));
      }
      if (last && !backward_) move_lasting(image, row_, count_, true);
      if ((since_flush_ += int(count_)) >= kMostBlockRows) flush(pass);
    }
    flush(pass);
    finish(pass, false);
  }

  void run_tile(const std::vector<Instruction>& code, std::int64_t c, std::int64_t n) {
    for (const Instruction& i : code) {
      View<A> in[4];
      for (std::size_t k = 0; k < 4 && i.in[k].where != Where::none; ++k) in[k] = inside(i.in[k], c, n);
      if (i.kind == Kind::store) {
        if (out_ && (i.in[0].where != Where::result || adds_ || !std::is_same_v<T, A>)) store_tile(in[0], c, n);
      } else if (i.op == Op::x || i.op == Op::dy) {
        const T* const from = (i.op == Op::x ? x_ : dy_) + row_ * d_.cols + c;
        const View<A> out = inside(i.out, c, n);
        for (std::int64_t r = 0; r < count_; ++r)
          each_vector<A>(
              n, [&](auto k, auto lanes) { store(out.row(r) + k, load(from + r * d_.cols + k, lanes), lanes); });
      } else if (i.kind == Kind::compute) {
        compute(i.op, in, inside(i.out, c, n), count_, n);
      } else if (i.op == Op::sum_c) {
        for (std::int64_t r = 0; r < count_; ++r)
          sum_row(in, r, n, c == 0, c + n == d_.cols, states_[i.out.index], rows_[i.out.index * kMostBlockRows + r]);
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

  void store_tile(const View<A>& from, std::int64_t c, std::int64_t n) {
    for (std::int64_t r = 0; r < count_; ++r) {
      T* const to = out_ + (row_ + r) * d_.cols + c;
      const A* const values = from.row(r);
      choose(adds_, [&](auto add) {
        choose(from.wide, [&](auto wide) {
          each_vector<A>(n, [&](auto k, auto lanes) {
            put<decltype(add)::value>(to + k, part_of<A, decltype(wide)::value>(values, k, lanes), lanes);
          });
        });
      });
    }
  }

  // Sums over rows: a few are added in A, and these sums in double (RowAdder). Those over the rows of an image begin
  // anew with each pass.
  double* total(const Instruction& i) { return totals_ + i.state * 2 * wide_cols_; }
  A* few(const Instruction& i) { return reinterpret_cast<A*>(total(i) + wide_cols_); }
  void add_tile(const Instruction& i, const View<A>* in, std::int64_t c, std::int64_t n) {
    A* const to = few(i) + c;
    const auto add = [&](auto&& term) {
      each_vector<A>(n, [&](auto k, auto lanes) {
        Vec<A> sum = load(to + k, lanes);
        for (std::int64_t r = 0; r < count_; ++r) sum += term(r, k, lanes);
        store(to + k, sum, lanes);
      });
    };
    if (in[1].values == nullptr)
      add([&](auto r, auto k, auto lanes) { return load(in[0].row(r) + k, lanes); });
    else if (in[1].wide)
      add([&](auto r, auto k, auto lanes) { return load(in[0].row(r) + k, lanes) * load(in[1].row(r) + k, lanes); });
    else
      add([&](auto r, auto k, auto lanes) { return load(in[0].row(r) + k, lanes) * *in[1].row(r); });
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
      const View<A> out = outside(i.out, 0);
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

  /// Writes or reads what lasts from the forward to the backward pass: of some rows, or with none of the image.
  void move_lasting(std::int64_t image, std::int64_t row, std::int64_t rows, bool writes) {
    const std::int64_t all = d_.images * d_.rows;
    A* at = lasting_;
    for (const Lasting& l : p_.lasting) {
      const View<A> view = outside(l.operand, 0);
      const bool of_rows = l.operand.where == Where::row;
      const std::int64_t each = of_rows || l.operand.where == Where::number ? 1 : d_.cols, count = of_rows    ? rows
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
