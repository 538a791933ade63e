// The kernel that goes through rows.
#include <algorithm>

#include "core/formula/cuda_writer.h"

namespace normlab::formula {

void CudaWriter::rows_kernel() {
  // Sums of columns have a place; those over all rows come first, as in `partial`.
  for (const int v : of_code_) {
    if (at(v).code->reduction != Op::sum_all) continue;
    (at(v).extent == Extent::channels ? all_sums_ : all_numbers_).push_back(v);
  }
  int slots = 0;
  for (const int v : all_sums_) slots_[v] = slots++;
  for (const int v : of_code_) {
    const Op op = at(v).code->reduction;
    if (!reduces_tokens(op) || at(v).extent != Extent::channels) continue;
    slots_[v] = slots;
    slots += is_sum(op) ? 1 : 2;
  }
  out_.sums = !all_sums_.empty() || !all_numbers_.empty();
  out_.partial = std::int64_t(all_sums_.size()) * cols_ + std::int64_t(all_numbers_.size());
  const std::int64_t totals = std::int64_t(slots) * vectors_ * vector_ * out_.threads * 8;
  constexpr std::int64_t kMostShared = 96 * 1024;  // what each GPU has
  const std::int64_t inputs = gated_ ? 3 : 2;
  const std::int64_t ahead = backward_ && vector_ > 1 ? inputs * vectors_ * out_.threads * 16 : 0;
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
        text_ +=
            concat("A s", v, "[kHeld] = {};\n", loop({}, concat("s", v, "[at] = l", v, "[blockIdx.x * kCols + c];\n")));
    }
  std::size_t first = 0;
  for (const Pass& pass : p_.passes) {
    for (std::size_t k = first; k < pass.rows; ++k) single(of_code_[k]);
    for (std::size_t k = first; k < pass.rows; ++k) write_lasting(of_code_[k]);
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

void CudaWriter::write_lasting(int v) {
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

void CudaWriter::rows_of_pass(const Pass& pass, bool last) {
  std::vector<int> scalars, sums;              // of rows; over rows
  std::map<int, std::vector<int>> reductions;  // over channels, by the level of what they read
  std::map<int, int> sums_of_sums;             // over rows and channels: of which
  std::set<Op> inputs;                         // that are read
  int levels = 0;
  for (std::size_t k = pass.rows; k < pass.end; ++k) {
    const int v = of_code_[k];
    const Value& value = at(v);
    if (value.leaf <= Op::dy) inputs.insert(value.leaf);
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
  if (stages_) fetched = "wait_for_copies();\n";
  for (const Op leaf : inputs) {
    const std::string word = input_word(leaf);
    const int before = leaf == Op::x ? 0 : leaf == Op::dy ? 1 : 2;
    const std::string place = concat("staged + (", before, " * kVectors + i) * kThreads * V");
    text_ += concat("const T* const of_", word, " = static_cast<const T*>(a.", word, ");\n");
    if (!stages_) text_ += concat("Packed next_", word, "[kVectors] = {};\n");
    const std::string from = concat("of_", word, " + of_row * kCols + column");
    ahead += stages_ ? concat("copy_ahead(", place, ", ", from, ");\n")
                     : concat("next_", word, "[i] = loaded(", from, ");\n");
    fetched +=
        concat("A ", word, "[kHeld] = {};\n", vectors_loop(), "if (!there) break;\nwiden(",
               stages_ ? concat("loaded(", place, ")") : concat("next_", word, "[i]"), ", ", word, " + i * V);\n}\n");
  }
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
  const std::vector<Result> written = writes ? results() : std::vector<Result>();
  for (const auto& [value, word, bit] : written)
    text_ += concat("T* const ", word, " = static_cast<T*>(a.", word, ");\nconst bool adds_", word, " = a.adds >> ",
                    bit, " & 1;\n");
  text_ +=
      concat("for (long long first = begin; first < end; first += kTeams) {\n",
             "[[maybe_unused]] const long long row = first + team;\n[[maybe_unused]] const bool there = row < end;\n",
             fetched, "fetch(row + kTeams);\n");
  for (const auto& [value, word, bit] : written)
    if (backward_)
      text_ += concat("if (", word, " && adds_", word, " && there) {\n", vectors_loop(), "will_read(", word,
                      " + row * kCols + column);\n}\n}\n");
  for (int level = 0; level <= levels; ++level) {
    for (const int v : scalars)
      if (at(v).level == level) {
        text_ += concat("const A r", v, " = ", expression(at(v)), ";\n");
      }
    if (const auto group = reductions.find(level); group != reductions.end()) reduce(group->second);
  }
  for (std::size_t k = pass.rows; k < pass.end && last; ++k)
    if (at(of_code_[k]).extent == Extent::rows) write_lasting(of_code_[k]);
  last_loop(sums, sums_of_sums, written);
  if (!few.empty()) text_ += concat("if (++since % 8 == 0) {\n", few, "}\n");
  text_ += concat("}\n", few, "}\n");
  finish_pass(sums);
}

std::vector<CudaWriter::Result> CudaWriter::results() const {
  std::vector<Result> out{{result_, "out", kMostFormulaParameters}};
  if (backward_ && gated_) out.push_back({gate_result_, "dgate", kMostFormulaParameters + 1});
  return out;
}

void CudaWriter::last_loop(const std::vector<int>& sums, const std::map<int, int>& sums_of_sums,
                           const std::vector<Result>& written) {
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
      after += concat("f", v, "[0] = ", first_of(op), "(f", v, "[0], {", name(value.in[1]), ", int(row - begin)});\n");
    }
  }
  for (const auto& [value, word, bit] : written) {
    if (value == kNone) continue;
    text_ += concat("A of_", word, "[kHeld];\n");
    roots.push_back(value);
    body += concat("of_", word, "[at] = ", name(value), ";\n");
  }
  text_ += "if (there) {\n";
  if (!body.empty()) text_ += loop(roots, body);
  text_ += after;
  for (const auto& [of, word, bit] : written) {
    const std::string value = of == kNone ? "A(0)" : concat("of_", word, "[i * V + k]"),
                      place = concat(word, " + row * kCols + column");
    text_ += concat("if (", word, ") {\n", vectors_loop(), "A values[V];\n",
                    backward_ ? concat("if (adds_", word, ") widen(loaded(", place, "), values);\n") : "",
                    "NORMLAB_UNROLL\n", "for (int k = 0; k < V; ++k) values[k] = ",
                    backward_ ? concat("adds_", word, " ? values[k] + ", value, " : ", value) : value, ";\nstore(",
                    place, ", values);\n}\n}\n");
  }
  text_ += "}\n";
}

void CudaWriter::finish_pass(const std::vector<int>& sums) {
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
        read += concat(
            "A s", v, "[kHeld];\n",
            each_held(concat("Extreme one{0, -1};\nfor (int t = 0; t < kTeams; ++t)\none = ", first_of(op), "(one, {A(",
                             total(0), " + t * kLanes + lane]), int(", total(1), " + t * kLanes + lane])});\ns", v,
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

void CudaWriter::write_sums() {
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

}  // namespace normlab::formula
