#include "core/formula/program.h"

#include <algorithm>
#include <atomic>
#include <set>
#include <utility>

namespace normlab::formula {
namespace {

constexpr std::size_t at(Id id) { return std::size_t(id); }
bool reduces_rows(Op op) { return reduces_tokens(op) || op == Op::sum_all; }

/// Products whose sum is a value.
struct Product {
  bool minus = false;
  Id same = kNone;
  std::vector<Id> factors{};
};
using Sum = std::vector<Product>;

class Compiler {
 public:
  Compiler(const Graph& graph, const std::vector<Id>& lasting, bool backward, bool joins)
      : g_(graph),
        backward_(backward),
        joins_(joins),
        lasting_(lasting.begin(), lasting.end()),
        result_(backward ? graph.dx() : graph.y()),
        gate_result_(backward ? graph.dgate() : kNone),
        code_(graph.nodes().size()),
        register_(graph.nodes().size(), kNone) {
    for (const Id id : lasting) {
      p_.registers[at(register_of(id))].lasts = true;
      p_.by_image = p_.by_image || !(g_[id].axes & kToken);
    }
    if (result_ != kNone) p_.result = added({.extent = Extent::block});
    if (gate_result_ != kNone) p_.gate_result = added({.extent = Extent::block});
  }

  Program program() {
    order();
    for (int pass = 0; pass <= last_pass_; ++pass) compile(pass);
    std::vector<Instruction> after;
    for (const Id id : needed_)
      if (after_[at(id)]) after.push_back(code_[at(id)]);
    resolve(after);
    p_.by_value = lasting_.empty() && !p_.by_image &&
                  std::all_of(needed_.begin(), needed_.end(), [&](Id id) { return is_by_value(id); });
    if (backward_)
      for (const Id id : g_.dparameters()) p_.gradients.push_back(id == kNone ? kNone : register_of(id));
    return std::move(p_);
  }

 private:
  /// Whether a value is the same if rows are cut, or is a sum over rows of sums over channels, which are then cut too.
  bool is_by_value(Id id) const {
    const Instruction& i = code_[at(id)];
    const auto of_rows = [&](Id a) { return a != kNone && extent_of(a) == Extent::rows; };
    if (reduces_channels(g_[id].op) && g_[id].op != Op::sum_c) return false;
    if (std::none_of(i.in.begin(), i.in.end(), of_rows)) return true;
    if (g_[id].op != Op::sum_all || extent_of(id) != Extent::number) return false;
    for (std::size_t s = 0; s < i.summands; ++s)
      if (std::count_if(&i.in[4 * s], &i.in[4 * s] + 4, of_rows) != 1) return false;
    return true;
  }
  bool is_input(Id id) const { return is_leaf(g_[id].op) || (backward_ && lasting_.contains(id)); }
  bool in_rows(Id id) const { return (g_[id].axes & kToken) != 0; }
  Extent extent_of(Id id) const {
    const Axes axes = g_[id].axes;
    if (axes & kToken) return axes & kChannel ? Extent::block : Extent::rows;
    return axes & kChannel ? Extent::channels : Extent::number;
  }
  template <class F>
  void each_operand(Id id, F&& f) const {
    for (const Id a : code_[at(id)].in)
      if (a != kNone) f(a);
  }

  /// A value as one factor among values of this extent.
  Sum factor(Id id, Extent among) const {
    const Extent own = extent_of(id);
    if (own == among || own == Extent::channels) return {{.factors = {id}}};
    return {{.same = id}};
  }
  static Sum sum(Sum a, const Sum& b, bool minus) {
    for (Product p : b) {
      p.minus = p.minus != minus;
      a.push_back(std::move(p));
    }
    return a;
  }
  /// Nothing if it is no product of one instruction.
  static Sum product(const Sum& a, const Sum& b) {
    if (a.size() != 1 || b.size() != 1 || (a[0].same != kNone && b[0].same != kNone)) return {};
    Product out = a[0];
    out.minus = out.minus != b[0].minus;
    if (out.same == kNone) out.same = b[0].same;
    out.factors.insert(out.factors.end(), b[0].factors.begin(), b[0].factors.end());
    if (out.factors.size() > kMostFactors) return {};
    return {out};
  }
  /// A value, or a part of one, as a sum of products that one instruction computes.
  Sum sum_of(Id id, Extent among, bool is_part) const {
    const Node& n = g_[id];
    const bool simple = n.op == Op::add || n.op == Op::sub || n.op == Op::mul || n.op == Op::neg;
    if (!simple || is_input(id) || extent_of(id) != among || (is_part && (!joins_ || stored_[at(id)])))
      return factor(id, among);
    const std::array whole{factor(n.in[0], among), n.in[1] == kNone ? Sum() : factor(n.in[1], among)};
    const std::array parts{sum_of(n.in[0], among, true), n.in[1] == kNone ? Sum() : sum_of(n.in[1], among, true)};
    if (n.op == Op::neg) return sum({}, parts[0], true);
    for (const auto& [a, b] :
         {std::pair{&parts[0], &parts[1]}, {&parts[0], &whole[1]}, {&whole[0], &parts[1]}, {&whole[0], &whole[1]}}) {
      Sum joined = n.op == Op::mul ? product(*a, *b) : sum(*a, *b, n.op == Op::sub);
      if (!joined.empty() && joined.size() <= kMostSummands) return joined;
    }
    return {};
  }

  /// The instruction for a value, whose operands are values yet.
  Instruction instruction(Id id) {
    const Node& n = g_[id];
    Instruction out;
    out.op = n.op;
    out.out = out.id = id;
    const bool sums = n.op == Op::sum_c || n.op == Op::sum_t || n.op == Op::sum_all;
    if (reduces_channels(n.op) || reduces_rows(n.op)) {
      out.reduction = n.op;
      out.op = sums ? Op::add : Op::stop;
      if (reduces_rows(n.op)) out.total = p_.totals++;
    }
    const bool copies = n.op == Op::stop;
    if (copies || n.op == Op::sub || n.op == Op::mul || n.op == Op::neg) out.op = Op::add;
    const bool of_one = Op::stop <= out.op && out.op <= Op::softplus;
    if (out.op != Op::add && !of_one) {
      std::copy(n.in.begin(), n.in.end(), out.in.begin());
      return out;
    }
    const bool of_argument = sums || of_one || copies;
    const Id of = of_argument ? n.in[0] : id;
    Sum terms = sum_of(of, extent_of(of), of_argument);
    if (of_one && (terms.size() != 1 || terms[0].factors.size() != 1 || out.op == Op::stop || out.op == Op::softplus))
      terms = factor(of, extent_of(of));
    std::stable_sort(terms.begin(), terms.end(),
                     [](const Product& a, const Product& b) { return a.factors.size() > b.factors.size(); });
    for (const Product& p : terms) {
      int* const in = out.in.data() + 4 * out.summands;
      in[0] = p.same;
      std::copy(p.factors.begin(), p.factors.end(), in + 1);
      out.minus[out.summands++] = p.minus;
    }
    return out;
  }

  /// Finds what is needed, in which pass over an image each value is known first, and what follows from sums over all
  /// rows.
  void order() {
    const std::size_t n = g_.nodes().size();
    std::vector<Id> roots = backward_ ? g_.dparameters() : std::vector<Id>(lasting_.begin(), lasting_.end());
    roots.insert(roots.end(), {result_, gate_result_});
    std::vector<bool> needed(n);
    for (int round = 0; round < 2; ++round) {  // at first to find out what is computed by itself anyhow
      stored_ = std::exchange(needed, std::vector<bool>(n));
      p_.totals = 0;
      for (const Id root : roots)
        if (root != kNone) needed[at(root)] = true;
      for (Id id = Id(n) - 1; id >= 0; --id) {
        if (!needed[at(id)] || is_input(id)) continue;
        code_[at(id)] = instruction(id);
        each_operand(id, [&](Id a) { needed[at(a)] = true; });
      }
    }
    pass_.assign(n, 0);
    after_.assign(n, false);
    for (Id id = 0; id < Id(n); ++id) {
      if (!needed[at(id)]) continue;
      needed_.push_back(id);
      if (is_leaf(g_[id].op)) {
        code_[at(id)].op = g_[id].op;
        code_[at(id)].out = code_[at(id)].id = id;
      }
      if (is_input(id)) continue;
      each_operand(id, [&](Id a) {
        after_[at(id)] = after_[at(id)] || after_[at(a)] || g_[a].op == Op::sum_all;
        pass_[at(id)] = std::max(pass_[at(id)], pass_[at(a)]);
      });
      if (reduces_tokens(g_[id].op)) ++pass_[at(id)];
      last_pass_ = std::max(last_pass_, pass_[at(id)]);
      p_.by_image = p_.by_image || (!in_rows(id) && (g_[id].axes & kImage));
    }
  }

  void compile(int pass) {
    const bool last = pass == last_pass_;
    std::vector<Instruction> before, rows;
    std::set<Id> inside;  // values of rows that are needed, and the sums that need them
    const auto need = [&](auto&& self, Id id) -> void {
      if (!in_rows(id) || !inside.insert(id).second || is_input(id)) return;
      each_operand(id, [&](Id a) { self(self, a); });
    };
    for (const Id id : needed_) {
      if (is_input(id) || after_[at(id)]) continue;
      const Op op = g_[id].op;
      const bool of_rows = reduces_rows(op) && in_rows(g_[id].in[0]);
      if (op == Op::sum_all    ? last
          : reduces_tokens(op) ? pass_[at(id)] == pass + 1
                               : pass_[at(id)] == pass && !in_rows(id)) {
        if (of_rows) {
          inside.insert(id);
          each_operand(id, [&](Id a) { need(need, a); });
        } else {
          before.push_back(code_[at(id)]);
        }
      }
      if (last && !backward_ && lasting_.contains(id)) need(need, id);
    }
    for (const Id id : {result_, gate_result_})
      if (last && id != kNone) need(need, id);
    for (const bool sums : {false, true})  // at last sums over rows, which read memory in leaps
      for (const Id id : inside)
        if ((!is_input(id) || is_leaf(g_[id].op)) && reduces_rows(g_[id].op) == sums) rows.push_back(code_[at(id)]);
    resolve(before);
    const std::size_t first = p_.code.size();
    resolve(rows);
    if (last) {
      copy(result_, p_.result);
      copy(gate_result_, p_.gate_result);
    }
    p_.passes.push_back({first, p_.code.size()});
  }
  /// Copies a value to the register of a result, unless an instruction computed it there.
  void copy(Id id, int to) {
    if (to == kNone || place_of(id) == to) return;
    Instruction copy;
    copy.op = Op::add;
    copy.summands = 1;
    copy.in[(g_[id].axes & kChannel) != 0] = place_of(id);
    copy.out = to;
    copy.id = id;
    p_.code.push_back(copy);
  }
  /// Whether an instruction computes all values of a block.
  bool is_computed(Id id) const { return extent_of(id) == Extent::block && !is_input(id); }

  int added(const Register& r) {
    p_.registers.push_back(r);
    return int(p_.registers.size()) - 1;
  }
  int register_of(Id id) {
    int& r = register_[at(id)];
    if (r == kNone) r = added({.extent = extent_of(id), .leaf = is_leaf(g_[id].op) ? id : kNone});
    return r;
  }
  bool is_result(Id id) const { return is_computed(id) && (id == result_ || id == gate_result_); }
  /// The register of a value; of a result, the one that is written to memory.
  int place_of(Id id) {
    if (!is_result(id)) return register_of(id);
    return id == result_ ? p_.result : p_.gate_result;
  }
  /// Whether a value is in a register that is free again after its last use.
  bool passes_by(Id id) const { return is_computed(id) && !is_result(id); }

  /// Adds instructions to the program, with registers as operands.
  void resolve(std::vector<Instruction>& code) {
    std::map<Id, std::size_t> last;
    for (std::size_t i = 0; i < code.size(); ++i)
      for (const Id a : code[i].in)
        if (a != kNone) last[a] = i;
    std::vector<int> free = pool_;
    for (std::size_t i = 0; i < code.size(); ++i) {
      std::set<int> ended;
      for (int& in : code[i].in) {
        if (in == kNone) continue;
        const Id a = in;
        in = place_of(a);
        if (passes_by(a) && last[a] == i) ended.insert(in);
      }
      free.insert(free.end(), ended.begin(), ended.end());
      const Id to = code[i].out;
      if (!passes_by(to)) {
        code[i].out = place_of(to);
      } else {
        if (free.empty()) {
          free.push_back(added({.extent = Extent::block}));
          pool_.push_back(free.back());
        }
        code[i].out = register_[at(to)] = free.back();
        free.pop_back();
      }
    }
    p_.code.insert(p_.code.end(), code.begin(), code.end());
  }

  const Graph& g_;
  const bool backward_, joins_;
  const std::set<Id> lasting_;
  const Id result_, gate_result_;
  Program p_;
  std::vector<Id> needed_;
  std::vector<int> pass_;
  std::vector<bool> after_, stored_;
  std::vector<Instruction> code_;  // of each value
  std::vector<int> register_;
  std::vector<int> pool_;  // registers of blocks
  int last_pass_ = 0;
};

}  // namespace

std::size_t Program::operations() const {
  return std::size_t(std::count_if(code.begin(), code.end(), [&](const Instruction& i) {
    return std::any_of(i.in.begin(), i.in.end(),
                       [&](int r) { return r != kNone && registers[at(r)].extent == Extent::block; });
  }));
}

Programs::Programs(const Tree& text, const Site& site, const std::vector<Parameter>& given, bool joins)
    : tree(text), graph(text, site, given), parameters(given), number([] {
        static std::atomic<std::uint64_t> made{0};
        return made++;
      }()) {
  // Reductions of the forward pass, and what it makes of them, as the backward pass reads them.
  const std::size_t n = graph.nodes().size();
  std::vector<bool> forward_needs(n), backward_needs(n);
  const auto mark = [](std::vector<bool>& needs, std::span<const Id> ids) {
    for (const Id id : ids)
      if (id != kNone) needs[at(id)] = true;
  };
  mark(forward_needs, std::array{graph.y()});
  mark(backward_needs, std::array{graph.dx(), graph.dgate()});
  mark(backward_needs, graph.dparameters());
  std::vector<Id> lasting;
  for (std::size_t id = n; id-- > 0;) {
    const Node& node = graph.nodes()[id];
    if (forward_needs[id]) mark(forward_needs, node.in);
    if (!backward_needs[id]) continue;
    if (forward_needs[id] && (node.axes & kImage) && node.axes != kAllAxes && !is_leaf(node.op))
      lasting.push_back(Id(id));
    else
      mark(backward_needs, node.in);
  }
  forward = Compiler(graph, lasting, false, joins).program();
  backward = Compiler(graph, lasting, true, joins).program();
}

std::int64_t Programs::lasting_size(std::int64_t images, std::int64_t rows) const {
  std::int64_t size = 0;
  for (const Register& r : forward.registers)
    if (r.lasts)
      size += r.extent == Extent::rows ? rows : r.extent == Extent::channels ? images * graph.site().channels : images;
  return size;
}

}  // namespace normlab::formula
