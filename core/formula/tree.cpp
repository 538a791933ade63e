#include "core/formula/tree.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <numbers>

#include "core/error.h"

namespace normlab::formula {
namespace {

constexpr Function kFunctions[] = {
    {"abs", 1, 1},       {"sign", 1, 1},       {"sqrt", 1, 1},      {"rsqrt", 1, 1},      {"exp", 1, 1},
    {"expm1", 1, 1},     {"log", 1, 1},        {"log1p", 1, 1},     {"tanh", 1, 1},       {"sigmoid", 1, 1},
    {"erf", 1, 1},       {"atan", 1, 1},       {"sin", 1, 1},       {"cos", 1, 1},        {"softplus", 1, 1},
    {"relu", 1, 1},      {"silu", 1, 1},       {"gelu", 1, 1},      {"clamp", 3, 3},      {"stop", 1, 1},
    {"where", 3, 3},     {"mean", 1, 1, true}, {"sum", 1, 1, true}, {"min", 1, 2, true},  {"max", 1, 2, true},
    {"rms", 1, 1, true}, {"var", 1, 1, true},  {"std", 1, 1, true}, {"norm", 1, 1, true}, {"dot", 2, 2, true}};
constexpr Name kValues[] = {
    {"x", kAllAxes}, {"channel", kChannel}, {"progress"}, {"pi"}, {"e"}, {"C"}, {"N"}, {"depth"}, {"block"}};
constexpr std::span<const Name> kNumbers = std::span(kValues).subspan<3>();
constexpr Name kElementwise[] = {{kGate, kAllAxes}}, kRows[] = {{kGate, kAllAxes}};
/// What the language leaves out, and what to use instead.
constexpr std::string_view kAbsent[][2] = {
    {"batch", "a formula has no statistics over the batch; use the kind batch_norm"},
    {"matmul", "a formula has no matrices; docs/extending.md says how a kind of norm gets an operation of its own"},
    {"random", "a formula has no randomness; use model.dropout or model.drop_path"},
    {"previous", "a formula has no memory from step to step; docs/extending.md says how a kind of norm gets state"}};

bool starts_name(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }

std::string axes_text(Axes axes) {
  std::string out;
  for (const auto& [bit, name] : {std::pair{kImage, "image"}, {kToken, "token"}, {kChannel, "channel"}})
    if (axes & bit) out += concat(out.empty() ? "" : " and ", name);
  return out;
}

class Parser {
 public:
  Parser(std::string_view text, std::span<const Name> values, std::span<const Name> parameters)
      : text_(text), values_(values), parameters_(parameters) {}

  /// Of any result.
  Tree tree() {
    if (text_.size() > kMostCharacters)
      throw FormulaError(kMostCharacters,
                         concat("a formula has at most ", kMostCharacters, " characters, this one has ", text_.size()));
    if (peek() == '\0')
      throw FormulaError(at_,
                         concat("the formula is empty; write one such as \"",
                                parameters_.data() == kElementwise ? "x * sigmoid(x)" : "gamma * x / rms(x)", '"'));
    sum();
    if (peek() == '<' || peek() == '>') refuse_comparison();
    if (peek() != '\0') throw FormulaError(at_, concat("expected an operator or the end, got ", seen()));
    return std::move(tree_);
  }
  Tree norm() {
    Tree tree = this->tree();
    const Term& result = tree.root();
    if (!result.of_x) throw FormulaError(0, "the result does not depend on x");
    if (result.axes != kAllAxes)
      throw FormulaError(
          result.at, concat("the result has one value for each ", result.axes == 0 ? "call" : axes_text(result.axes),
                            "; a norm gives one for each image, token and channel"));
    return tree;
  }

 private:
  char peek() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() ? text_[at_] : '\0';
  }
  bool take(char sign) {
    if (peek() != sign || at_ == text_.size()) return false;
    ++at_;
    return true;
  }
  std::string seen() {
    peek();
    return at_ == text_.size() ? std::string("the end") : concat("'", text_[at_], "'");
  }
  void expect(char sign, const char* where) {
    if (!take(sign)) throw FormulaError(at_, concat("expected '", sign, "' ", where, ", got ", seen()));
  }
  [[noreturn]] void refuse_comparison() {
    throw FormulaError(at_, "a comparison can only be the first argument of where(a < b, p, q)");
  }

  int add(std::string word, std::size_t at, std::vector<int> arguments, Axes axes, double number = 0) {
    if (tree_.terms.size() == kMostTerms)
      throw FormulaError(at, concat("a formula has at most ", kMostTerms, " operations, values and numbers"));
    bool of_x = word == "x";
    for (const int a : arguments) of_x = of_x || tree_.terms[std::size_t(a)].of_x;
    tree_.terms.push_back({std::move(word), number, std::move(arguments), at, axes, of_x});
    return int(tree_.terms.size()) - 1;
  }
  const Term& term(int i) const { return tree_.terms[std::size_t(i)]; }
  int operate(std::string word, std::size_t at, std::vector<int> arguments) {
    Axes axes = 0;
    for (const int a : arguments) axes |= term(a).axes;
    return add(std::move(word), at, std::move(arguments), axes);
  }

  /// Counts what is open around a part of the text.
  struct Nested {
    explicit Nested(Parser& parser) : depth(parser.depth_) {
      if (++depth > kMostNested)
        throw FormulaError(parser.at_, concat("nested deeper than ", kMostNested, " parentheses, calls and signs"));
    }
    ~Nested() { --depth; }
    Nested(const Nested&) = delete;
    Nested& operator=(const Nested&) = delete;
    std::size_t& depth;
  };

  /// Parts with one of two signs between them, from left to right.
  int chain(char plus, char minus, int (Parser::*part)()) {
    int left = (this->*part)();
    while (peek() == plus || peek() == minus) {
      const std::size_t at = at_;
      const std::string sign(1, text_[at_++]);
      const int right = (this->*part)();
      if (sign == "/" && evaluate(tree_, {}, right) == 0) throw FormulaError(at, "division by zero, whatever x is");
      left = operate(sign, at, {left, right});
    }
    return left;
  }
  int sum() {
    const Nested nested(*this);
    return chain('+', '-', &Parser::product);
  }
  int product() { return chain('*', '/', &Parser::minus); }
  int minus() {
    peek();
    const std::size_t at = at_;
    if (!take('-')) return power();
    const Nested nested(*this);
    return operate("neg", at, {minus()});
  }
  int power() {
    const int base = atom();
    peek();
    const std::size_t at = at_;
    if (!take('^')) return base;
    const Nested nested(*this);
    const int exponent = minus();
    return operate("^", at, {base, exponent});
  }

  int atom() {
    const char c = peek();
    if (is_digit(c) || c == '.') return number();
    if (starts_name(c)) return name();
    if (c == '\0' && at_ < text_.size()) throw FormulaError(at_, "a zero byte is no part of a formula");
    if (!take('(')) throw FormulaError(at_, concat("expected a value, got ", seen()));
    const int inside = sum();
    if (peek() == '<' || peek() == '>') refuse_comparison();
    expect(')', "after the expression");
    return inside;
  }
  int number() {
    const std::size_t at = at_;
    double value = 0;
    const auto [end, error] = std::from_chars(text_.data() + at, text_.data() + text_.size(), value);
    at_ = std::size_t(end - text_.data());
    if (error == std::errc::result_out_of_range)
      throw FormulaError(at, concat("the number ", text_.substr(at, at_ - at), " is too large or too small"));
    if (error != std::errc()) throw FormulaError(at, concat("expected a number, got ", seen()));
    if (at_ < text_.size() && (starts_name(text_[at_]) || text_[at_] == '.'))
      throw FormulaError(at_, concat("expected an operator after the number, got ", seen()));
    return add("", at, {}, 0, value);
  }
  int name() {
    const std::size_t at = at_;
    while (at_ < text_.size() && (starts_name(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string word(text_.substr(at, at_ - at));
    const Called called = find_function(word);
    if (peek() == '(') return call(called, word, at);
    if (called.function)
      throw FormulaError(at, concat(word, " is a function; give its arguments in parentheses, as in ", word, "(x)"));
    for (const std::span<const Name> names : {values_, parameters_})
      for (const Name& known : names)
        if (known.name == word) return add(word, at, {}, known.axes);
    refuse_absent(word, at);
    std::vector<std::string_view> known;
    for (const std::span<const Name> names : {values_, parameters_})
      for (const Name& value : names) known.push_back(value.name);
    throw FormulaError(at,
                       values_.data() == kNumbers.data()
                           ? "unknown value; an initial value reads numbers, pi, e, C, N, depth and block"
                       : parameters_.data() == kElementwise
                           ? "unknown value; an activation reads x, g and numbers, and has no parameters"
                           : "unknown value; declare it in \"parameters\" if it is one",
                       word, std::move(known));
  }
  int call(Called called, const std::string& word, std::size_t at) {
    if (!called.function) {
      refuse_absent(word, at);
      std::vector<std::string_view> known;
      for (const Function& function : kFunctions) known.push_back(function.word);
      throw FormulaError(at, "unknown function", word, std::move(known));
    }
    const Function& f = *called.function;
    take('(');
    std::vector<int> arguments;
    std::string name = word;
    do {
      if (arguments.empty() && peek() == ')') break;
      arguments.push_back(sum());
      if (peek() != '<' && peek() != '>') continue;
      if (word != "where" || arguments.size() != 1) refuse_comparison();
      name += text_[at_++];
      arguments.push_back(sum());
    } while (take(','));
    expect(')', concat("after the arguments of ", word).c_str());
    const std::size_t count = arguments.size() - (word == "where" && name != word);
    if (word == "where" && name == word) throw FormulaError(at, "where needs a comparison first: where(a < b, p, q)");
    const std::size_t most = called.over == kChannel ? f.most : f.least;
    if (count < f.least || count > most)
      throw FormulaError(at, concat(word, " takes ", f.least, most > f.least ? concat(" or ", most) : "",
                                    most == 1 ? " argument" : " arguments", ", got ", count));
    const bool reduces = f.reduces && count == f.least;
    const int result = operate(std::move(name), at, std::move(arguments));
    if (!reduces) return result;
    if (parameters_.data() == kElementwise)
      throw FormulaError(at, concat(word, " joins several values; an activation computes each value by itself"));
    Term& term = tree_.terms[std::size_t(result)];
    if ((term.axes & called.over) != called.over)
      throw FormulaError(at,
                         concat(word, " is over the ", axes_text(called.over), "s of its argument, which is the same ",
                                "for every ", axes_text(Axes(called.over & ~term.axes))));
    term.axes = Axes(term.axes & ~called.over);
    return result;
  }
  static void refuse_absent(std::string_view word, std::size_t at) {
    for (const auto& [part, why] : kAbsent)
      if (word.find(part) != word.npos) throw FormulaError(at, std::string(why));
  }

  const std::string_view text_;
  const std::span<const Name> values_, parameters_;
  std::size_t at_ = 0, depth_ = 0;
  Tree tree_;
};

/// How strongly a term holds its parts together: a sum 1, a product 2, a minus 3, a power 4, anything else 5.
int binding(const Term& t) {
  if (t.word == "+" || t.word == "-") return 1;
  if (t.word == "*" || t.word == "/") return 2;
  return t.word == "neg" ? 3 : t.word == "^" ? 4 : 5;
}

void print(const Tree& tree, int i, int least, std::string& out) {
  const Term& t = tree.terms[std::size_t(i)];
  const int own = binding(t);
  if (own < least) out += '(';
  const auto part = [&](std::size_t a, int need) { print(tree, t.arguments[a], need, out); };
  if (t.word.empty()) {
    char digits[32];
    out.append(digits, std::to_chars(digits, digits + sizeof digits, t.number).ptr);
  } else if (t.word == "neg") {
    out += '-';
    part(0, 3);
  } else if (own == 4) {  // the exponent may carry minus signs and be a power itself
    part(0, 5);
    out += '^';
    const Term& exponent = tree.terms[std::size_t(t.arguments[1])];
    print(tree, t.arguments[1], exponent.word == "neg" ? 3 : 4, out);
  } else if (own < 3) {
    part(0, own);
    out += ' ' + t.word + ' ';
    part(1, own + 1);
  } else {
    const bool where = t.word.starts_with("where");
    out += where ? "where" : t.word;
    for (std::size_t a = 0; a < t.arguments.size(); ++a) {
      out += a == 0 ? "(" : where && a == 1 ? concat(' ', t.word.back(), ' ') : ", ";
      part(a, 1);
    }
    if (!t.arguments.empty()) out += ')';
  }
  if (own < least) out += ')';
}

bool any(const Tree& tree, bool (*is)(const Called&)) {
  return std::any_of(tree.terms.begin(), tree.terms.end(), [&](const Term& t) {
    const Called called = find_function(t.word);
    return called.function && called.function->reduces && t.arguments.size() == called.function->least && is(called);
  });
}

}  // namespace

bool Tree::reads(std::string_view word) const {
  return std::any_of(terms.begin(), terms.end(), [&](const Term& t) { return t.word == word; });
}
bool Tree::reads_eps() const {
  return any(*this, [](const Called& called) {
    const std::string_view word = called.function->word;
    return word == "rms" || word == "std" || word == "norm";
  });
}
bool Tree::reduces() const {
  return any(*this, [](const Called&) { return true; });
}
bool Tree::over_tokens() const {
  return any(*this, [](const Called& called) { return called.over != kChannel; });
}

Called find_function(std::string_view word) {
  Called out;
  for (const auto& [suffix, over] : {std::pair{"_tokens", kToken}, {"_image", Axes(kToken | kChannel)}})
    if (word.ends_with(suffix)) {
      word.remove_suffix(std::string_view(suffix).size());
      out.over = over;
    }
  for (const Function& f : kFunctions)
    if (f.word == word && (f.reduces || out.over == kChannel)) out.function = &f;
  return out;
}

std::vector<std::string_view> reserved_words() {
  std::vector<std::string_view> out;
  for (const Name& value : kValues) out.push_back(value.name);
  for (const auto& absent : kAbsent) out.push_back(absent[0]);
  for (const Function& f : kFunctions) out.push_back(f.word);
  return out;
}

Tree parse(std::string_view text, std::span<const Name> parameters) { return Parser(text, kValues, parameters).norm(); }

Tree parse_elementwise(std::string_view text) { return Parser(text, kValues, kElementwise).norm(); }

Tree parse_rows(std::string_view text) { return Parser(text, kValues, kRows).norm(); }

Tree parse_number(std::string_view text) { return Parser(text, kNumbers, {}).tree(); }

double evaluate(const Tree& tree, std::span<const double> site_values, int term) {
  const Term& t = term < 0 ? tree.root() : tree.terms[std::size_t(term)];
  const std::string_view word = t.word;
  if (word.empty()) return t.number;
  for (std::size_t i = 0; i < site_values.size(); ++i)
    if (word == kSiteValues[i]) return site_values[i];
  if (word == "pi") return std::numbers::pi;
  if (word == "e") return std::numbers::e;
  constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();
  double v[4]{};
  for (std::size_t i = 0; i < t.arguments.size(); ++i) {
    v[i] = evaluate(tree, site_values, t.arguments[i]);
    if (std::isnan(v[i]) && (i < 2 || !word.starts_with("where"))) return kNaN;
  }
  constexpr std::string_view kUnary[] = {"neg",     "abs",  "sqrt", "rsqrt", "exp",      "expm1", "log",
                                         "log1p",   "tanh", "erf",  "atan",  "sin",      "cos",   "sign",
                                         "sigmoid", "silu", "gelu", "relu",  "softplus", "stop"};
  double (*const kCompute[])(double) = {[](double a) { return -a; },
                                        std::fabs,
                                        std::sqrt,
                                        [](double a) { return 1 / std::sqrt(a); },
                                        std::exp,
                                        std::expm1,
                                        std::log,
                                        std::log1p,
                                        std::tanh,
                                        std::erf,
                                        std::atan,
                                        std::sin,
                                        std::cos,
                                        [](double a) { return double((a > 0) - (a < 0)); },
                                        [](double a) { return 1 / (1 + std::exp(-a)); },
                                        [](double a) { return a / (1 + std::exp(-a)); },
                                        [](double a) { return a * (1 + std::erf(a / std::numbers::sqrt2)) / 2; },
                                        [](double a) { return std::max(a, 0.0); },
                                        [](double a) { return std::max(a, 0.0) + std::log1p(std::exp(-std::fabs(a))); },
                                        [](double a) { return a; }};
  static_assert(std::size(kUnary) == std::size(kCompute));
  for (std::size_t i = 0; i < std::size(kUnary); ++i)
    if (word == kUnary[i]) return kCompute[i](v[0]);
  if (word == "+") return v[0] + v[1];
  if (word == "-") return v[0] - v[1];
  if (word == "*") return v[0] * v[1];
  if (word == "/") return v[0] / v[1];
  if (word == "min") return std::min(v[0], v[1]);
  if (word == "max") return std::max(v[0], v[1]);
  if (word == "clamp") return std::min(std::max(v[0], v[1]), v[2]);
  if (word.starts_with("where")) return (word.back() == '<' ? v[0] < v[1] : v[0] > v[1]) ? v[2] : v[3];
  if (word != "^") return kNaN;
  const Term& power = tree.terms[std::size_t(t.arguments[1])];
  const bool is_literal = (power.word == "neg" ? tree.terms[std::size_t(power.arguments[0])] : power).word.empty();
  return v[0] < 0 && !(is_literal && std::fabs(v[1]) <= 8) ? kNaN : std::pow(v[0], v[1]);
}

std::string text_of(const Tree& tree, int term) {
  std::string out;
  print(tree, term < 0 ? int(tree.terms.size()) - 1 : term, 1, out);
  return out;
}

}  // namespace normlab::formula
