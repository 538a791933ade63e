// Runs the program of a formula over a shard's rows, on one thread.

#include "core/cpu/cpu_backend.h"
#include "core/cpu/formula_ops.h"

namespace normlab {
using namespace cpu;
using namespace formula;
namespace {

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
  std::int64_t by_row = 0, by_image = 0, by_column = 0;
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
        block_(block_of_program()),
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
        for (std::int64_t row = 0; row < rows; row += block_.rows)
          for (std::int64_t column = 0; column < d_.cols; column += block_.cols) {
            const std::int64_t count = std::min(block_.rows, rows - row);
            move(image, image * rows + row, false, column);
            fetch(pass, count);
            run(pass.rows, pass.end, count, row);
            for (const Result& result : results_)
              if (&pass == &p_.passes.back() && result.from != kNone && result.to && (result.adds || !kSame))
                write(result, count);
          }
        move(image, image * rows, true);
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
  struct Block {
    std::int64_t rows, cols;
  };
  /// As many rows as keep the registers near the first-level cache; more of them share an instruction's cost. Where no
  /// value needs others of its row, wide rows are cut, so that sums over rows still get eight at a time.
  Block block_of_program() const {
    const auto blocks = std::count_if(p_.registers.begin(), p_.registers.end(),
                                      [](const Register& r) { return r.extent == Extent::block; });
    const std::int64_t values = kCache / std::int64_t(sizeof(A)) / (blocks + 1);
    const std::int64_t rows = std::max<std::int64_t>(values / d_.cols, 1);
    const std::int64_t cut = std::max<std::int64_t>(values / (p_.totals > 0 ? 8 : 4) / 64 * 64, 64);
    if (p_.by_value && !nan_ && cut < d_.cols) return {p_.totals > 0 ? 8 : 1, cut};
    return {rows > 8 ? rows / 8 * 8 : rows > 4 ? 4 : rows, d_.cols};
  }
  std::int64_t size_of(Extent extent) const {
    return extent == Extent::number     ? 1
           : extent == Extent::channels ? d_.cols
           : extent == Extent::rows     ? block_.rows
                                        : block_.rows * block_.cols;
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
        place = {(A*)there, d_.cols, 0, 1};
      } else {
        place.begin = memory + used;
        used += lines(size) + kLine;  // not all at the same place in a page
        if (memory && leaf == Op::number) *place.begin = A(g_[one.leaf].number);
        if (memory && leaf == Op::tokens) *place.begin = A(d_.rows);
        for (std::int64_t c = 0; memory && leaf == Op::channel && c < d_.cols; ++c) place.begin[c] = A(c + 1);
      }
      if (one.extent == Extent::channels) place.by_column = 1;
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
      const std::int64_t of_block = places_[i.in[o]].by_row ? d_.cols : block_.cols;
      call.in[o] = {nullptr, in == Extent::block ? of_block : by_row,
                    in == Extent::channels || (in == step.extent && !by_row)};
      step.follows = step.follows && call.in[o].step == (call.in[o].is_vector ? d_.cols : 0);
    }
    step.follows = step.follows && i.reduction == Op::stop && block_.cols == d_.cols;
    call.instruction = &i;
    call.cols = step.extent >= Extent::block || step.extent == Extent::channels ? d_.cols : 1;
    call.out_step = places_[i.out].by_row ? d_.cols : block_.cols;
    call.ahead_step = d_.cols * std::int64_t(sizeof(T));
    call.total = totals_ + i.total * 2 * d_.cols;
    call.place = call.total + d_.cols;
    return step;
  }

  /// Tells the instructions of a block, functions first, what is read in the next block and written in this one.
  void fetch(const Pass& pass, std::int64_t rows) {
    const std::int64_t here = row_ * d_.cols + column_;
    const std::int64_t next = here + (block_.cols < d_.cols ? block_.cols : rows * d_.cols);
    std::array<const char*, 5> wanted{};
    std::size_t count = 0, used = 0;
    for (const Result& result : results_)
      if (&pass == &p_.passes.back() && result.from != kNone && result.to)
        wanted[count++] = reinterpret_cast<const char*>(result.to + here);
    for (const Input& input : inputs_)
      if (input.values) wanted[count++] = reinterpret_cast<const char*>(input.values + next);
    for (const bool functions : {true, false})
      for (std::size_t s = pass.rows; s < pass.end; ++s) {
        const Instruction& i = p_.code[s];
        const bool asks = steps_[s].kernel && steps_[s].extent == Extent::block && i.total == kNone;
        if (!asks || (Op::stop < i.op && i.op <= Op::softplus) != functions) continue;
        Ahead& from = steps_[s].call.ahead;
        from.fill(used < count ? wanted[used] : nullptr);
        for (std::size_t k = 0; k < (functions ? from.size() : 1) && used < count; ++k) from[k] = wanted[used++];
      }
  }

  void move(std::int64_t image, std::int64_t row, bool begins, std::int64_t column = 0) {
    for (int r = 0; r < int(p_.registers.size()); ++r)
      if (begins || places_[r].by_row || places_[r].by_column)
        now_[r] =
            places_[r].begin + row * places_[r].by_row + image * places_[r].by_image + column * places_[r].by_column;
    row_ = row;
    column_ = column;
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
        const std::int64_t cols = std::min(block_.cols, d_.cols - column_);
        call.rows = step.follows ? 1 : rows;
        call.cols = step.follows ? rows * cols : cols;
        call.total = totals_ + i.total * 2 * d_.cols + column_;
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
    const std::int64_t size = extent < Extent::rows ? size_of(extent) : size_of(extent) / block_.rows * rows;
    if (std::any_of(now_[at], now_[at] + size, [](A v) { return v != v; })) (*nan_)[std::size_t(id)] = true;
  }
  void read(const T* from, const Call<A>& call) const {
    if constexpr (!kSame)
      for (std::int64_t r = 0; r < call.rows; ++r) {
        const T* const row = from + (row_ + r) * d_.cols + column_;
        A* const out = call.out + r * block_.cols;
        each_vector<A>(call.cols, [&](auto i, auto lanes) { store(out + i, load(row + i, lanes), lanes); });
      }
  }
  void write(const Result& result, std::int64_t rows) const {
    const std::int64_t cols = std::min(block_.cols, d_.cols - column_);
    choose(result.adds, [&](auto add) {
      for (std::int64_t r = 0; r < rows; ++r) {
        T* const to = result.to + (row_ + r) * d_.cols + column_;
        const A* const from = now_[result.from] + r * block_.cols;
        each_vector<A>(cols,
                       [&](auto i, auto lanes) { put<decltype(add)::value>(to + i, load(from + i, lanes), lanes); });
      }
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
  const Block block_;
  const Scratch<A> memory_;
  const Scratch<double> totals_;
  const Scratch<Place<A>> places_;
  const Scratch<A*> now_;
  const Scratch<Step<A>> steps_;
  std::int64_t row_ = 0, column_ = 0;
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
