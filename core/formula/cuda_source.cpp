#include "core/formula/cuda_source.h"

#include <algorithm>
#include <functional>

#include "core/formula/cuda_helpers.h"
#include "core/formula/cuda_writer.h"

namespace normlab::formula {

static_assert(std::extent_v<decltype(FormulaArguments::parameters)> == kMostFormulaParameters);

CudaWriter::CudaWriter(const Programs& programs, bool backward, DType dtype, int vector)
    : all_(programs),
      p_(backward ? programs.backward : programs.forward),
      g_(programs.graph),
      backward_(backward),
      gated_(std::any_of(g_.nodes().begin(), g_.nodes().end(), [](const Node& n) { return n.op == Op::gate; })),
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
  const int threads_at_once = backward || dtype == DType::f64 ? 512 : gated_ ? 768 : 1024;
  out_.blocks = threads_at_once / out_.threads;
  const char* const t = dtype == DType::bf16 ? "unsigned short" : dtype == DType::f64 ? "double" : "float";
  text_ = concat("using T = ", t, ";\nusing A = ", dtype == DType::f64 ? "double" : "float",
                 ";\n#ifndef NORMLAB_CUDA_EMULATED\nusing Words = ", vector_ > 1 ? "uint4" : "T",
                 ";\n#endif\nconstexpr int kCols = ", cols_, ", V = ", vector_, ", kVectors = ", vectors_,
                 ", kWarps = ", warps_, ", kTeams = ", out_.teams, ";\n", text_of_arguments(), kCudaHelpers);
}

CudaSource CudaWriter::source() {
  number_values();
  rows_kernel();
  finish_kernel();
  out_.text = std::move(text_);
  return std::move(out_);
}

std::string CudaWriter::text_of_arguments() {
#define NORMLAB_TEXT_OF(...) #__VA_ARGS__
#define NORMLAB_TEXT(...) NORMLAB_TEXT_OF(__VA_ARGS__)
  return "#ifdef NORMLAB_CUDA_EMULATED\nusing normlab::formula::FormulaArguments;\n#else\n" NORMLAB_TEXT(
      NORMLAB_FORMULA_ARGUMENTS) "\n#endif\n";
#undef NORMLAB_TEXT
#undef NORMLAB_TEXT_OF
}

void CudaWriter::leaves(bool gradients) {
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
    text_ += concat("A* const l", r, " = static_cast<A*>(a.lasting) + a.images * (", of_rows, " * a.rows + ", of_images,
                    ");\n");
    const Extent extent = p_.registers[r].extent;
    (extent == Extent::rows ? of_rows : of_images) += extent == Extent::channels ? cols_ : 1;
  }
}

void CudaWriter::finish_kernel() {
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

std::uint64_t text_hash(std::string_view text) { return std::hash<std::string_view>()(text); }

CudaSource cuda_source(const Programs& programs, bool backward, DType dtype, int vector) {
  return CudaWriter(programs, backward, dtype, vector).source();
}

}  // namespace normlab::formula
