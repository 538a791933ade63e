// Writes the kernels of one direction of a formula. Names in the text: nK is a number, rK a number of a row, vK a value
// of a column, sK an array of the lane's columns that stays from pass to pass, pK and lK parameters and what lasts.
#pragma once

#include <map>
#include <set>

#include "core/error.h"
#include "core/formula/cuda_source.h"
#include "core/kernels.h"

namespace normlab::formula {

inline bool is_least(Op op) {
  return op == Op::min_c || op == Op::first_least_c || op == Op::min_t || op == Op::first_least_t;
}
inline bool is_place(Op op) {
  return op == Op::first_most_c || op == Op::first_least_c || op == Op::first_most_t || op == Op::first_least_t;
}
inline bool is_sum(Op op) { return op == Op::sum_c || op == Op::sum_t || op == Op::sum_all; }
inline std::string first_of(Op op) { return is_least(op) ? "First<true>()" : "First<false>()"; }

class CudaWriter {
 public:
  CudaWriter(const Programs& programs, bool backward, DType dtype, int vector);
  CudaSource source();

 private:
  /// One for each instruction that is run, and for each leaf.
  struct Value {
    const Instruction* code = nullptr;
    Op leaf = Op::stop;
    Id id = kNone;
    Extent extent{};
    int place = kNone;                      // its register
    std::array<int, 4 * kMostSummands> in;  // values
    int level = 0;                          // reductions over channels that come before it
    bool held = false;                      // per channel, in registers from pass to pass
    int uses = 0;
    bool lasts = false;
    Value() { in.fill(kNone); }
  };

  /// Follows the registers through the program: each use gets the value that its register has then.
  void number_values();
  int add(const Value& v) {
    values_.push_back(v);
    return int(values_.size()) - 1;
  }
  const Value& at(int v) const { return values_[std::size_t(v)]; }
  static bool by_column(const Value& v) { return v.extent == Extent::channels || v.extent == Extent::block; }
  std::string name(int v) const;
  static std::string literal(double number);
  /// The sum of products that an instruction has or its function reads.
  std::string products(const Value& v) const;
  std::string expression(const Value& v) const;
  /// The values of columns that these need, in their order.
  std::set<int> columns_needed(const std::vector<int>& roots) const;
  /// What a reduction or an instruction reads.
  std::vector<int> operands(int v) const { return {at(v).in.begin(), at(v).in.end()}; }
  /// A sum over channels that nothing but the sum `v` over rows reads, unchanged.
  int only_sum(int v) const;

  /// Before loops that registers need unrolled.
  const char* unroll() const { return wide_ ? "" : "NORMLAB_UNROLL\n"; }
  /// A loop over a lane's vectors, to be closed.
  std::string vectors_loop() const;
  /// A loop over the columns that are this lane's, which computes what `roots` needs and runs `body` for each.
  std::string loop(const std::vector<int>& roots, const std::string& body) const;
  /// Reductions over channels that do not wait for each other, of rows or of parameters.
  void reduce(const std::vector<int>& group);
  /// A number, or a reduction that gives one; values of columns are computed where they are needed.
  void single(int v);
  /// A sum over images of what has one value for each.
  void sum_once(int v);

  void rows_kernel();
  /// Keeps a value that the backward pass reads.
  void write_lasting(int v);
  /// A loop over the block's rows.
  void rows_of_pass(const Pass& pass, bool last);
  /// Of Op::x, Op::gate and Op::dy: the name of its memory and of a row of it.
  static std::string input_word(Op leaf) { return leaf == Op::x ? "x" : leaf == Op::gate ? "gate" : "dy"; }
  /// What the last pass writes.
  struct Result {
    int value;         // kNone: 0
    std::string word;  // of its memory
    int bit;           // of `adds`
  };
  std::vector<Result> results() const;
  /// The results, and what is added up over rows.
  void last_loop(const std::vector<int>& sums, const std::map<int, int>& sums_of_sums,
                 const std::vector<Result>& written);
  /// Makes what is reduced over the rows of an image known to all threads of its block.
  void finish_pass(const std::vector<int>& sums);
  /// A chunk's sums over all rows.
  void write_sums();
  static std::string text_of_arguments();
  /// Where parameters and what lasts are; for `finish` the parameters alone.
  void leaves(bool gradients);
  /// The gradients of parameters from the sums over all rows.
  void finish_kernel();

  const Programs& all_;
  const Program& p_;
  const Graph& g_;
  const bool backward_, gated_;
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
  int result_ = kNone, gate_result_ = kNone;
};

}  // namespace normlab::formula
