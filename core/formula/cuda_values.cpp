// What a formula's instructions are in a kernel.
#include <charconv>
#include <cmath>
#include <functional>

#include "core/formula/cuda_writer.h"

namespace normlab::formula {

namespace {
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
}  // namespace

void CudaWriter::number_values() {
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
    for (std::size_t o = 0; o < i.in.size(); ++o) {
      if (i.in[o] == kNone) continue;
      v.in[o] = now[std::size_t(i.in[o])];
      Value& from = values_[std::size_t(v.in[o])];
      ++from.uses;
      if (v.extent >= Extent::rows || i.total != kNone)
        v.level = std::max(
            v.level, from.level + (from.extent == Extent::rows && from.code && reduces_channels(from.code->reduction)));
    }
    if (is_leaf(i.op)) v.leaf = i.op;
    now[std::size_t(i.out)] = add(v);
    of_code_.push_back(now[std::size_t(i.out)]);
  }
  for (const int r : p_.gradients) gradients_.push_back(r == kNone ? kNone : now[std::size_t(r)]);
  const auto value_in = [&](int r) { return r == kNone ? kNone : now[std::size_t(r)]; };
  result_ = value_in(p_.result);
  gate_result_ = value_in(p_.gate_result);
}

std::string CudaWriter::name(int v) const {
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
    case Op::gate:
    case Op::dy:
      return input_word(value.leaf) + "[at]";
    default:
      break;
  }
  if (value.held && !finishes_) return concat("s", v, "[at]");
  return concat(value.extent == Extent::number ? "n" : value.extent == Extent::rows ? "r" : "v", v);
}

std::string CudaWriter::literal(double number) {
  if (!std::isfinite(number)) return concat("(A(", number > 0 ? "1" : number < 0 ? "-1" : "0", ") / A(0))");
  char digits[40];
  std::string out(digits, std::to_chars(digits, digits + sizeof digits, number).ptr);
  if (out.find_first_of(".e") == out.npos) out += ".0";
  return concat("A(", out, ")");
}

std::string CudaWriter::products(const Value& v) const {
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

std::string CudaWriter::expression(const Value& v) const {
  const Op op = v.code->op;
  if (op == Op::add) return products(v);
  if (op == Op::inverse) return concat("A(1) / (", products(v), ")");
  if (op == Op::div) return concat(name(v.in[0]), " / ", name(v.in[1]));
  if (Op::stop < op && op <= Op::softplus) return concat(function_name(op), "(", products(v), ")");
  std::string out = function_name(op) + "(";
  for (std::size_t k = 0; k < 4 && v.in[k] != kNone; ++k) out += (k > 0 ? ", " : "") + name(v.in[k]);
  return out + ")";
}

std::set<int> CudaWriter::columns_needed(const std::vector<int>& roots) const {
  std::set<int> out;
  const std::function<void(int)> need = [&](int v) {
    if (v == kNone || !by_column(at(v)) || !out.insert(v).second) return;
    if (at(v).code && !(at(v).held) && at(v).code->reduction == Op::stop)
      for (const int in : at(v).in) need(in);
  };
  for (const int root : roots) need(root);
  return out;
}

std::string CudaWriter::vectors_loop() const {
  return concat(unroll(), "for (int i = 0; i < kVectors; ++i) {\nconst int column = (i * kLanes + lane) * V;\n",
                "if (!kWhole && column >= kCols) break;\n");
}

std::string CudaWriter::loop(const std::vector<int>& roots, const std::string& body) const {
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

void CudaWriter::reduce(const std::vector<int>& group) {
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
    after = concat("join<", finishes_ ? "1" : "kWarps", ">(g", group[0], ", of_warp, kHalf, turn, Plus());\n") + after;
    most_joined_ = std::max(most_joined_, sums.size());
  }
  text_ += before + loop(roots, body) + after;
}

void CudaWriter::single(int v) {
  const Value& value = at(v);
  const Op reduction = value.code->reduction;
  if (reduction == Op::sum_all) return sum_once(v);
  if (value.extent != Extent::number) return;
  if (reduction != Op::stop)
    reduce({v});
  else
    text_ += concat("const A n", v, " = ", expression(value), ";\n");
}

void CudaWriter::sum_once(int v) {
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

int CudaWriter::only_sum(int v) const {
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

}  // namespace normlab::formula
