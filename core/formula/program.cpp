#include "core/formula/program.h"

#include <algorithm>
#include <set>

namespace normlab::formula {
namespace {

using Kind = Instruction::Kind;

constexpr Width kWidths[] = {{4, false}, {8, false}, {4, true}};
constexpr std::size_t kTileBytes = 8192;

class Compiler {
 public:
  /// `lasting`: what the backward pass reads of the forward pass's values for rows and images.
  Compiler(const Graph& graph, Width width, bool backward, const std::vector<Id>& lasting)
      : g_(graph), width_(width), backward_(backward), lasting_(lasting), place_(graph.nodes().size()) {
    p_.tile = kTileBytes / width.bytes;
    short_rows_ = std::size_t(graph.site().channels) <= p_.tile;
  }

  Program program() {
    if (backward_) {
      result_ = g_.dx();
      for (const Id id : g_.dparameters()) roots_.push_back(id);
    } else {
      result_ = g_.y();
    }
    roots_.push_back(result_);
    order();
    place_values();
    for (int pass = 0; pass <= last_pass_; ++pass) p_.passes.push_back(compiled_pass(pass));
    for (const Id id : needed_)
      if (after_[at(id)]) p_.after.push_back(computed(id));
    if (backward_)
      for (const Id id : g_.dparameters()) p_.gradients.push_back(id == kNone ? Operand{} : place_[at(id)]);
    return std::move(p_);
  }

 private:
  static std::size_t at(Id id) { return std::size_t(id); }
  bool lasts(Id id) const { return std::find(lasting_.begin(), lasting_.end(), id) != lasting_.end(); }
  bool is_input(Id id) const { return is_leaf(g_[id].op) || (backward_ && lasts(id)); }
  bool in_tile(Id id) const { return g_[id].axes == kAllAxes; }
  bool in_row(Id id) const { return g_[id].axes == Axes(kImage | kToken); }
  bool in_block(Id id) const { return in_tile(id) || in_row(id); }
  template <class F>
  void each_argument(Id id, F&& f) const {
    for (const Id a : g_[id].in)
      if (a != kNone) f(a);
  }

  /// Finds what is needed, in which pass over an image and which phase of a
  /// block each value is known first, and what follows from sums over all rows.
  void order() {
    const std::size_t n = g_.nodes().size();
    std::vector<bool> needed(n);
    for (const Id root : roots_)
      if (root != kNone) needed[at(root)] = true;
    for (Id id = Id(n) - 1; id >= 0; --id)
      if (needed[at(id)] && !is_input(id)) each_argument(id, [&](Id a) { needed[at(a)] = true; });
    pass_.assign(n, 0);
    phase_.assign(n, 0);
    after_.assign(n, false);
    uses_.assign(n, 0);
    for (Id id = 0; id < Id(n); ++id) {
      if (!needed[at(id)]) continue;
      needed_.push_back(id);
      if (is_input(id)) continue;
      each_argument(id, [&](Id a) {
        ++uses_[at(a)];
        after_[at(id)] = after_[at(id)] || after_[at(a)] || g_[a].op == Op::sum_all;
        pass_[at(id)] = std::max(pass_[at(id)], pass_[at(a)]);
        if (in_block(a)) phase_[at(id)] = std::max(phase_[at(id)], phase_[at(a)] + (reduces(id) && in_tile(a)));
      });
      if (reduces_tokens(g_[id].op)) ++pass_[at(id)];
      last_pass_ = std::max(last_pass_, pass_[at(id)]);
      p_.by_image = p_.by_image || (!(g_[id].axes & kToken) && (g_[id].axes & kImage));
    }
    for (std::size_t i = needed_.size(); i-- > 0;) {
      const Id id = needed_[i];
      const int inner = is_input(id) || within_.contains(id) ? -1 : inner_of(id);
      if (inner >= 0) within_.insert(g_[id].in[std::size_t(inner)]);
    }
    for (const Id id : lasting_) p_.by_image = p_.by_image || !(g_[id].axes & kToken);
  }
  bool reduces(Id id) const { return reduces_channels(g_[id].op); }

  /// Gives a place to all values but those of tiles.
  void place_values() {
    for (const Id id : needed_) {
      const Node& n = g_[id];
      Operand& to = place_[at(id)];
      if (in_tile(id)) continue;
      if (in_row(id))
        to = {Where::row, p_.rows++};
      else if (n.axes & kChannel)
        to = {Where::channels, p_.channels++};
      else
        to = {Where::number, p_.numbers++};
      if (is_leaf(n.op) && n.op != Op::token) p_.given.push_back({id, to});
      if (!is_input(id) && !(n.axes & kImage) && !after_[at(id)] && n.op != Op::sum_all)
        p_.before.push_back(computed(id));
    }
    for (const Id id : lasting_) p_.lasting.push_back(place_[at(id)]);
  }
  /// The instruction for a value outside of tiles.
  Instruction computed(Id id) {
    Instruction out = in_row(id) ? instruction(id, [&](Id a) { return place_[at(a)]; }) : Instruction{.op = g_[id].op};
    for (std::size_t a = 0; a < 4 && g_[id].in[a] != kNone && !in_row(id); ++a) out.in[a] = place_[at(g_[id].in[a])];
    if (reduces(id)) out.kind = Kind::reduce;
    out.out = place_[at(id)];
    return out;
  }
  static bool is_simple(Op op) { return op == Op::add || op == Op::sub || op == Op::mul; }
  /// Whether only one instruction reads this simple value, so that it can be a
  /// part of it.
  bool is_inner(Id id, bool (Compiler::*in_shape)(Id) const) const {
    const auto varies = [&](Id a) { return (this->*in_shape)(a); };
    return varies(id) && !is_input(id) && !lasts(id) && is_simple(g_[id].op) && uses_[at(id)] == 1 &&
           (varies(g_[id].in[0]) || varies(g_[id].in[1]));
  }
  /// The argument of a simple value that is computed by the same instruction,
  /// or -1.
  int inner_of(Id id) const {
    const auto in_shape = in_tile(id) ? &Compiler::in_tile : &Compiler::in_row;
    if (!is_simple(g_[id].op) || !in_block(id)) return -1;
    return is_inner(g_[id].in[0], in_shape) ? 0 : is_inner(g_[id].in[1], in_shape) ? 1 : -1;
  }
  /// The instruction for a value, whose arguments value(argument) gives.
  template <class F>
  Instruction instruction(Id id, F&& argument) const {
    const Node& n = g_[id];
    Instruction out{.op = n.op, .id = id};
    const int inner = inner_of(id);
    if (inner < 0) {
      for (std::size_t a = 0; a < 4 && n.in[a] != kNone; ++a) out.in[a] = argument(n.in[a]);
      return out;
    }
    const Node& within = g_[n.in[std::size_t(inner)]];
    out.op = within.op;
    out.then = n.op;
    out.reversed = inner == 1;
    out.in = {argument(within.in[0]), argument(within.in[1]), argument(n.in[std::size_t(1 - inner)])};
    return out;
  }

  Pass compiled_pass(int pass) {
    const bool last = pass == last_pass_;
    // What this pass is for: sums over its rows, or the result and the sums of
    // gradients.
    std::vector<Id> targets;
    for (const Id id : needed_) {
      if (is_input(id)) continue;
      const Op op = g_[id].op;
      if ((reduces_tokens(op) && pass_[at(id)] == pass + 1) || (last && op == Op::sum_all)) targets.push_back(id);
    }
    std::set<Id> inside;  // values of blocks that they follow from
    const auto need = [&](auto&& self, Id id) -> void {
      if (!in_block(id) || !inside.insert(id).second || is_input(id)) return;
      each_argument(id, [&](Id a) { self(self, a); });
    };
    for (const Id id : targets) need(need, g_[id].in[0]);
    if (last && !backward_)
      for (const Id id : lasting_) need(need, id);
    if (last && result_ != kNone) need(need, result_);
    int phases = 0;
    for (const Id id : inside) phases = std::max(phases, phase_[at(id)]);
    // What each phase computes in tiles: arguments of reductions, and the
    // result.
    const auto target_phase = [&](Id id) { return phase_[at(g_[id].in[0])]; };
    std::vector<std::vector<Id>> sums(std::size_t(phases) + 1);
    for (const Id id : inside)
      if (!is_input(id) && reduces(id) && in_tile(g_[id].in[0])) sums[std::size_t(target_phase(id))].push_back(id);
    for (const Id id : targets)
      if (in_tile(g_[id].in[0])) sums[std::size_t(target_phase(id))].push_back(id);
    const bool has_result = last && result_ != kNone;
    const int result_phase = has_result && in_block(result_) ? phase_[at(result_)] : phases;

    Pass out;
    kept_.clear();
    for (const bool emits : {false, true}) {  // at first to find out what to keep
      emits_ = emits;
      first_phase_.clear();
      for (int f = 0; f <= phases; ++f) {
        Phase phase;
        code_ = &phase.tiles;
        in_register_.clear();
        registers_ = 0;
        phase_now_ = f;
        if (emits)
          for (const Id id : inside)
            if (in_row(id) && (!is_input(id) || g_[id].op == Op::token) && phase_[at(id)] == f &&
                !(reduces(id) && in_tile(g_[id].in[0])) && !within_.contains(id))
              phase.rows.push_back(computed(id));
        for (const Id id : sums[std::size_t(f)]) reduce(id);
        if (has_result && f == result_phase) store();
        if (emits) allocate(phase.tiles);
        if (emits) out.phases.push_back(std::move(phase));
      }
    }
    // Each row's values are known in the last phase.
    for (const Id id : targets)
      if (in_row(g_[id].in[0])) out.phases.back().rows.push_back(over_rows(id));
    for (const Id id : needed_)
      if (!is_input(id) && !in_block(id) && (g_[id].axes & kImage) && !reduces_tokens(g_[id].op) &&
          pass_[at(id)] == pass)
        out.image.push_back(computed(id));
    for (const Id id : targets)
      if (!in_block(g_[id].in[0])) out.image.push_back(over_rows(id));
    const auto take_sums = [&](const std::vector<Instruction>& code) {
      for (const Instruction& i : code)
        if (i.kind == Kind::reduce && !reduces_channels(i.op)) out.sums.push_back(i);
    };
    take_sums(out.image);
    for (const Phase& phase : out.phases) {
      take_sums(phase.rows);
      take_sums(phase.tiles);
    }
    return out;
  }

  Instruction over_rows(Id id) {
    Instruction out = computed(id);
    out.kind = Kind::reduce;
    out.state = p_.states++;
    return out;
  }

  /// How many instructions a value of a tile takes to compute again.
  int cost(Id id, int most) const {
    if (!in_tile(id) || is_input(id) || most < 0) return 0;
    const Op op = g_[id].op;
    int sum = op == Op::div || op == Op::inverse || op == Op::sqrt     ? 3
              : (Op::exp <= op && op <= Op::softplus) || op == Op::pow ? 8
                                                                       : 1;
    each_argument(id, [&](Id a) { sum += cost(a, most - sum); });
    return sum;
  }

  /// The value of a tile or what is spread over it, computed in this phase
  /// unless it is known.
  Operand value(Id id) {
    if (!in_tile(id)) return place_[at(id)];
    const Op op = g_[id].op;
    if (!width_.widens && (op == Op::x || op == Op::dy)) return {op == Op::x ? Where::x : Where::dy};
    if (op == Op::stop) return value(g_[id].in[0]);
    if (const auto known = in_register_.find(id); known != in_register_.end()) return known->second;
    const auto [first, is_first] = first_phase_.try_emplace(id, phase_now_);
    if (!is_first && first->second != phase_now_ && !is_input(id) && cost(id, 3) > (short_rows_ ? 0 : 2)) {
      if (!emits_) kept_.try_emplace(id, Operand{Where::kept, p_.kept++});
      return kept_.at(id);
    }
    Instruction i = instruction(id, [&](Id a) { return value(a); });
    const auto kept = kept_.find(id);
    i.out = emits_ && kept != kept_.end() ? kept->second : Operand{Where::tile, registers_++};
    code_->push_back(i);
    return in_register_[id] = i.out;
  }
  void reduce(Id id) {
    const Id a = g_[id].in[0];
    const bool sums = g_[id].op == Op::sum_c || g_[id].op == Op::sum_all;
    Instruction i{.kind = Kind::reduce, .op = g_[id].op, .out = place_[at(id)], .id = id};
    std::vector<Id> factors{a};
    while (sums && factors.size() < 3) {
      const auto product = std::find_if(factors.begin(), factors.end(),
                                        [&](Id f) { return g_[f].op == Op::mul && is_inner(f, &Compiler::in_tile); });
      if (product == factors.end()) break;
      const Node& n = g_[*product];
      *product = n.in[0];
      factors.push_back(n.in[1]);
    }
    std::stable_sort(factors.begin(), factors.end(), [&](Id p, Id q) { return in_tile(p) > in_tile(q); });
    for (std::size_t f = 0; f < factors.size(); ++f) i.in[f] = value(factors[f]);
    if (g_[id].op != Op::sum_c && !reduces(id) && emits_) i.state = p_.states++;
    code_->push_back(i);
  }
  void store() {
    const Operand result = value(result_);
    if (!code_->empty() && code_->back().out == result && result.where == Where::tile) {
      for (Instruction& i : *code_) {
        for (Operand& in : i.in)
          if (in == result) in = {Where::result};
        if (i.out == result) i.out = {Where::result};
      }
      code_->push_back({.kind = Kind::store, .in = {Operand{Where::result}}});
      return;
    }
    code_->push_back({.kind = Kind::store, .in = {result}});
  }

  /// Gives a phase's values registers that are free again after their last use.
  void allocate(std::vector<Instruction>& code) {
    std::vector<std::size_t> last(std::size_t(registers_), 0);
    for (std::size_t i = 0; i < code.size(); ++i)
      for (const Operand& in : code[i].in)
        if (in.where == Where::tile) last[std::size_t(in.index)] = i;
    std::vector<int> physical(last.size()), free;
    int count = 0;
    for (std::size_t i = 0; i < code.size(); ++i) {
      std::set<int> ended;
      for (Operand& in : code[i].in)
        if (in.where == Where::tile) {
          if (last[std::size_t(in.index)] == i) ended.insert(physical[std::size_t(in.index)]);
          in.index = physical[std::size_t(in.index)];
        }
      free.insert(free.end(), ended.begin(), ended.end());
      if (code[i].out.where != Where::tile) continue;
      int& to = physical[std::size_t(code[i].out.index)];
      if (free.empty()) {
        to = count++;
      } else {
        to = free.back();
        free.pop_back();
      }
      code[i].out.index = to;
    }
    p_.registers = std::max(p_.registers, count);
    p_.operations += code.size();
  }

  const Graph& g_;
  const Width width_;
  const bool backward_;
  const std::vector<Id>& lasting_;
  bool short_rows_ = false, emits_ = false;
  Program p_;
  Id result_ = kNone;
  std::vector<Id> roots_, needed_;
  std::vector<int> pass_, phase_, uses_;
  std::vector<bool> after_;
  std::set<Id> within_;  // computed by the instructions that read them
  std::vector<Operand> place_;
  int last_pass_ = 0, registers_ = 0, phase_now_ = 0;
  std::map<Id, Operand> in_register_, kept_;
  std::map<Id, int> first_phase_;
  std::vector<Instruction>* code_ = nullptr;
};

}  // namespace

Programs::Programs(const Tree& tree, const Site& site, const std::vector<Parameter>& given)
    : graph(tree, site, given), parameters(given) {
  // Reductions of the forward pass, and what it makes of them, as the backward pass reads them.
  std::vector<bool> forward_needs(graph.nodes().size()), backward_needs(graph.nodes().size());
  const auto mark = [&](std::vector<bool>& needs, Id root) {
    if (root != kNone) needs[std::size_t(root)] = true;
  };
  mark(forward_needs, graph.y());
  mark(backward_needs, graph.dx());
  for (const Id id : graph.dparameters()) mark(backward_needs, id);
  std::vector<Id> lasting;
  for (Id id = Id(graph.nodes().size()) - 1; id >= 0; --id)
    for (const Id a : graph[id].in)
      if (a != kNone && forward_needs[std::size_t(id)]) forward_needs[std::size_t(a)] = true;
  for (Id id = Id(graph.nodes().size()) - 1; id >= 0; --id) {
    if (!backward_needs[std::size_t(id)]) continue;
    const Op op = graph[id].op;
    const bool is_small = (graph[id].axes & kImage) && graph[id].axes != kAllAxes && !is_leaf(op);
    if (forward_needs[std::size_t(id)] && is_small) {
      lasting.push_back(id);
      continue;
    }
    for (const Id a : graph[id].in)
      if (a != kNone) backward_needs[std::size_t(a)] = true;
  }
  for (std::size_t w = 0; w < 3; ++w) {
    forward[w] = Compiler(graph, kWidths[w], false, lasting).program();
    backward[w] = Compiler(graph, kWidths[w], true, lasting).program();
  }
}

std::int64_t Programs::lasting_size(std::int64_t images, std::int64_t rows) const {
  std::int64_t size = 0;
  for (const Operand& l : forward[0].lasting)
    size += l.where == Where::row ? rows : l.where == Where::channels ? images * graph.site().channels : images;
  return size;
}

}  // namespace normlab::formula
