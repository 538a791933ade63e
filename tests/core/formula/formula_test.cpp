// Formulas: values against a second interpreter, gradients against finite differences, and built-in norms that are
// written as formulas against their kernels.
#include <doctest/doctest.h>

#include "tests/core/formula/case.h"

namespace normlab::formula {
namespace {

void check_random(std::uint64_t seed, int count, const Sizes& sizes, std::size_t every) {
  RandomFormulas texts(seed);
  int tried = 0, again = 0;
  for (int done = 0; done < count;) {
    const std::string text = texts.next();
    try {
      Case c(tree_of(text), sizes, seed + std::uint64_t(++tried));
      CAPTURE(text);
      const bool compared = agrees(c, every);
      done += compared;
      again += !compared;
    } catch (const FormulaError&) {
    }
  }
  MESSAGE(again, " of ", again + count, " points near kinks or poles were drawn again");
  CHECK(again < count);
}

}  // namespace

TEST_CASE("formula: random formulas have the interpreter's values, and gradients like finite differences") {
  check_random(1, 200, {2, 3, 5}, 1);
}

TEST_CASE("formula: ten thousand random formulas" * doctest::skip()) { check_random(11, 10000, {2, 3, 5}, 1); }

TEST_CASE("formula: the same for blocks of one row and of many") {
  check_random(2, 10, {1, 9, 1100}, 1999);
  // Rows that are cut: sums over all rows, of values, of sums over channels, and of products of such sums.
  for (const char* text : {"gamma * tanh(alpha * x + alpha) + beta", "x * sigmoid(1.702 * x)", "x * alpha + x * x"}) {
    CAPTURE(text);
    Case c(tree_of(text), {1, 19, 2500}, 7);
    CHECK(agrees(c, 1999));
  }
  check_random(3, 30, {2, 61, 37}, 997);
}

TEST_CASE("formula: gradients of x that are the same for some of its values") {
  for (const char* text : {"where(x > 9, 1, sum_tokens(x))", "where(x > 9, 1, sum(x))", "where(x > 9, 1, sum_image(x))",
                           "where(x > 9, x, x)", "where(stop(x) > 9, 1, 2)"}) {
    CAPTURE(text);
    Case c(tree_of(text), {2, 3, 5}, 7);
    CHECK(agrees(c, 1));
  }
}

TEST_CASE("formula: the tree's text has the same tree") {
  RandomFormulas texts(4);
  for (int i = 0; i < 300; ++i) {
    try {
      const Tree tree = tree_of(texts.next());
      const std::string text = text_of(tree);
      CAPTURE(text);
      const Tree again = tree_of(text);
      CHECK(text_of(again) == text);
      REQUIRE(again.terms.size() == tree.terms.size());
      for (std::size_t t = 0; t < tree.terms.size(); ++t) {
        CHECK(again.terms[t].word == tree.terms[t].word);
        CHECK(again.terms[t].arguments == tree.terms[t].arguments);
        CHECK(again.terms[t].number == tree.terms[t].number);
      }
    } catch (const FormulaError&) {
    }
  }
}

TEST_CASE("formula: operators bind as in mathematics") {
  for (const auto& [text, canonical] : std::map<std::string, std::string>{{"x+1*2", "x + 1 * 2"},
                                                                          {"(x+1)*2", "(x + 1) * 2"},
                                                                          {"x-(1-2)", "x - (1 - 2)"},
                                                                          {"(x-1)-2", "x - 1 - 2"},
                                                                          {"x/(2*3)", "x / (2 * 3)"},
                                                                          {"-x^2", "-x^2"},
                                                                          {"(-x)^2", "(-x)^2"},
                                                                          {"x^2^3", "x^2^3"},
                                                                          {"(x^2)^3", "(x^2)^3"},
                                                                          {"x^-2", "x^-2"},
                                                                          {"2^-x^2", "2^-x^2"},
                                                                          {"x*1.50e0", "x * 1.5"},
                                                                          {"x * 0.000001", "x * 1e-06"},
                                                                          {"where( x>0 ,x,- x)", "where(x > 0, x, -x)"},
                                                                          {"((x))", "x"}})
    CHECK(text_of(tree_of(text)) == canonical);
  CHECK(Case(tree_of("x * 0 - 2^-2^2 * 16"), {1, 1, 1}, 1).value()[0] == -1);
}

TEST_CASE("formula: built-in norms agree with their kernels") {
  struct Builtin {
    const char *name, *text;
    std::vector<Parameter> parameters;
    std::function<Var(const std::vector<Var>&, double eps)> kernel;
    std::vector<std::size_t> order;  // of the kernel's parameters, among the formula's
  };
  const Parameter gamma{.name = "gamma", .per_channel = true, .value = 1.1}, beta{"beta", true, true, 0.2},
      alpha{"alpha", false, true, 0.7}, shift{"shift", false, true, -0.3};
  const auto pointwise = [](PointwisePhi phi) {
    return [phi](const std::vector<Var>& v, double) { return pointwise_norm(phi, v[0], v[1], v[2], v[3], v[4]); };
  };
  const std::vector<Builtin> builtins{
      {"layer_norm",
       "gamma * (x - mean(x)) / std(x) + beta",
       {beta, gamma},
       [](const std::vector<Var>& v, double eps) { return layer_norm(v[0], v[2], v[1], eps); },
       {}},
      {"layer_norm_fixed",
       "(x - mean(x)) / std(x)",
       {},
       [](const std::vector<Var>& v, double eps) { return layer_norm(v[0], {}, {}, eps); },
       {}},
      {"affine",
       "gamma * x + beta",
       {beta, gamma},
       [](const std::vector<Var>& v, double) { return affine(v[0], v[2], v[1]); },
       {}},
      {"rms_norm",
       "gamma * x / rms(x)",
       {gamma},
       [](const std::vector<Var>& v, double eps) { return rms_norm(v[0], v[1], eps); },
       {}},
      {"l2",
       "gamma * x / norm(x)",
       {gamma},
       [](const std::vector<Var>& v, double eps) { return l2_norm(v[0], v[1], eps); },
       {}},
      {"dyt",
       "gamma * tanh(alpha * x) + beta",
       {alpha, beta, gamma},
       [](const std::vector<Var>& v, double) { return pointwise_norm(PointwisePhi::tanh, v[0], v[1], {}, v[3], v[2]); },
       {}},
      {"derf", "gamma * erf(alpha * x + shift) + beta", {alpha, shift, gamma, beta}, pointwise(PointwisePhi::erf), {}},
      {"isru",
       "gamma * (alpha * x + shift) / sqrt(1 + (alpha * x + shift)^2) + beta",
       {alpha, shift, gamma, beta},
       pointwise(PointwisePhi::isru),
       {}},
      {"softsign",
       "gamma * (alpha * x + shift) / (1 + abs(alpha * x + shift)) + beta",
       {alpha, shift, gamma, beta},
       pointwise(PointwisePhi::softsign),
       {}},
      {"atan",
       "gamma * 2 / pi * atan(alpha * x + shift) + beta",
       {alpha, shift, gamma, beta},
       pointwise(PointwisePhi::atan),
       {}},
      {"hardtanh",
       "gamma * clamp(alpha * x + shift, -1, 1) + beta",
       {alpha, shift, gamma, beta},
       pointwise(PointwisePhi::hardtanh),
       {}},
      {"dyisru",
       "gamma * sqrt(C) * x / sqrt(alpha + x^2) + beta",
       {alpha, beta, gamma},
       [](const std::vector<Var>& v, double) {
         return pointwise_norm(PointwisePhi::dyisru, v[0], v[1], {}, v[3], v[2]);
       },
       {}},
      {"seednorm",
       "(gamma + tanh(dot(x, beta)) * a) * x / rms(x)",
       {{"a", true, true, 0.4}, {"beta", true, true, 0.02}, gamma},
       [](const std::vector<Var>& v, double eps) { return seednorm(v[0], v[1], v[2], v[3], eps); },
       {}},
      {"bhyt",
       "gamma * tanh(alpha * x / (10 * rms(x)))",
       {alpha, gamma},
       [](const std::vector<Var>& v, double eps) { return bhyt(v[0], v[1], v[2], 10, eps); },
       {}},
      {"group_norm",
       "gamma * (x - mean_image(x)) / std_image(x) + beta",
       {beta, gamma},
       [](const std::vector<Var>& v, double eps) { return group_norm(v[0], v[2], v[1], 1, eps); },
       {}},
      {"instance_norm",
       "gamma * (x - mean_tokens(x)) / std_tokens(x) + beta",
       {beta, gamma},
       [](const std::vector<Var>& v, double eps) { return group_norm(v[0], v[2], v[1], v[0].shape().back(), eps); },
       {}}};
  for (const Sizes& sizes : {Sizes{2, 7, 40}, Sizes{2, 3, 2100}})
    for (const Builtin& b : builtins)
      for (const DType type : {DType::f64, DType::f32, DType::bf16}) {
        CAPTURE(b.name);
        CAPTURE(to_string(type));
        CAPTURE(sizes.channels);
        Case c(tree_of(b.text, b.parameters), sizes, 5, b.parameters);
        // Numbers that bf16 holds, so that only the arithmetic differs.
        for (Values* v : {&c.in[0], &c.dy})
          for (double& e : *v) e = double(float(bf16(e)));
        const std::vector<Values> got = c.run(type);
        OpCase row;
        Arena memory, tape_memory;
        Tape tape(cpu_backend().with_bf16(Bf16Products::emulated), tape_memory);
        const auto tensor = [&](const Values& v, const Shape& shape) {
          const Tensor t = memory.empty(shape, DType::f64);
          std::copy(v.begin(), v.end(), t.data<double>());
          return t;
        };
        const Shape shape{sizes.images, sizes.tokens, sizes.channels};
        std::vector<Var> leaves{tape.input(tensor(c.in[0], shape), true)};
        for (std::size_t p = 1; p < c.in.size(); ++p)
          leaves.push_back(tape.input(tensor(c.in[p], {std::int64_t(c.in[p].size())}), true));
        const Var y = b.kernel(leaves, c.site.eps);
        tape.backward(y, tensor(c.dy, shape));
        const double rounding = type == DType::f64 ? 1e-12 : type == DType::f32 ? 1e-5 : 1.0 / 250;
        Values exact;
        for (std::int64_t i = 0; i < sizes.size(); ++i) exact.push_back(normlab::value(y.value(), i));
        CHECK(difference(got[0], exact) < rounding);
        for (std::size_t k = 0; k < leaves.size(); ++k) {
          CAPTURE(k);
          exact.clear();
          for (std::int64_t i = 0; i < leaves[k].value().size(); ++i)
            exact.push_back(normlab::value(leaves[k].grad(), i));
          CHECK(difference(got[k + 1], exact) < (k == 0 ? rounding : type == DType::f64 ? 1e-12 : 1e-5));
        }
      }
}

TEST_CASE("formula: edges") {
  const double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  struct Edge {
    const char* text;
    double x, alpha, y, dx, dalpha;
  };
  for (const Edge& e : {Edge{"sign(x)", 0, 1, 0, 0, 0},
                        {"abs(x)", 0, 1, 0, 0, 0},
                        {"relu(x)", 0, 1, 0, 0, 0},
                        {"min(x, alpha)", 1, 1, 1, 1, 0},
                        {"max(x, alpha)", 1, 1, 1, 1, 0},
                        {"max(alpha, x)", 1, 1, 1, 0, 1},
                        {"clamp(x, -1, 1)", 1, 1, 1, 1, 0},
                        {"where(x < 1, log(x), x)", 1, 1, 1, 1, 0},
                        {"where(x < 0.5, sqrt(x - 1), x)", 1, 1, 1, 1, 0},
                        {"where(x > 0, 1 / x, 3 * x)", 0, 1, 0, 3, 0},
                        {"where(x > 0, sqrt(x), 0 * x)", 0, 1, 0, 0, 0},
                        {"sqrt(x * x)", 0, 1, 0, 0, 0},
                        {"abs(x)^alpha", 0, 2, 0, 0, 0},
                        {"(x + 2)^alpha", -1, 3, 1, 3, 0},
                        {"x^0.5", 4, 1, 2, 0.25, 0},
                        {"x^3", -2, 1, -8, 12, 0},
                        {"x^-2", -2, 1, 0.25, 0.25, 0},
                        {"softplus(x)", 0, 1, std::log(2.0), 0.5, 0},
                        {"stop(x) * x", 3, 1, 9, 3, 0},
                        {"x + stop(alpha)", 3, 1, 4, 1, 0}}) {
    CAPTURE(e.text);
    Case c(tree_of(e.text), {1, 1, 1}, 1);
    c.in[0] = {e.x};
    c.in[1] = {e.alpha};
    c.dy = {1};
    const std::vector<Values> got = c.run(DType::f64);
    CHECK(got[0][0] == doctest::Approx(e.y));
    CHECK(got[1][0] == doctest::Approx(e.dx));
    CHECK(got[2][0] == doctest::Approx(e.dalpha));
  }
  for (const char* text :
       {"min(x, alpha)", "max(x, alpha)", "min(alpha, x)", "max(alpha, x)", "clamp(x, -1, 1)", "relu(x)", "sign(x)",
        "where(x < 0, 1, 2) * where(0 < 1, 1, x)", "max(x) * x", "min(x) + x * 0", "x^-alpha", "where(x < x, x, x)"}) {
    CAPTURE(text);
    Case c(tree_of(text), {1, 1, 3}, 1);
    c.in[0] = {1, nan, 2};
    for (const DType type : {DType::f64, DType::f32, DType::bf16}) CHECK(std::isnan(c.run(type)[0][1]));
  }
  for (const char* text : {"x^0.5", "x^alpha", "x^C", "x^9", "x^(1 + 1)"}) {
    CAPTURE(text);
    Case negative(tree_of(text), {1, 1, 2}, 1);
    negative.in[0] = {-1, -1};
    negative.in[1] = {2};
    CHECK(std::isnan(negative.run(DType::f64)[0][0]));
  }
  Case pole(tree_of("1 / x"), {1, 1, 1}, 1);
  pole.in[0] = {0};
  CHECK(pole.run(DType::f64)[0][0] == infinity);
}

TEST_CASE("formula: the gradient of a largest value goes to the first of equal ones") {
  for (const auto& [text, dx] : std::map<std::string, Values>{{"0 * x + max(x)", {0, 9, 0, 36, 0, 0}},
                                                              {"0 * x - max(-x)", {0, 0, 9, 0, 36, 0}},
                                                              {"0 * x + min(-x)", {0, -9, 0, -36, 0, 0}},
                                                              {"0 * x + max_image(x)", {0, 45, 0, 0, 0, 0}},
                                                              {"0 * x + max_tokens(x)", {11, 13, 0, 0, 0, 21}}}) {
    const auto& shown = text;
    CAPTURE(shown);
    Case c(tree_of(text), {1, 2, 3}, 1);
    c.in[0] = {1, 5, -2, 5, 1, 5};
    c.in[0][3] = text.find("tokens") == text.npos ? 5 : 1;
    c.dy = {2, 3, 4, 9, 10, 17};
    if (text.find("tokens") == text.npos) c.dy = {2, 3, 4, 11, 12, 13};
    CHECK(c.run(DType::f64)[1] == dx);
  }
}

TEST_CASE("formula: rows give the same bits together and alone") {
  for (const char* text : {"gamma * (x - mean(x)) / std(x) + beta", "x / (abs(x) + alpha * rms(x)) + tanh(x) * max(x)"})
    for (const std::int64_t channels : {7, 192, 1500})
      for (const DType type : {DType::f32, DType::f64, DType::bf16}) {
        CAPTURE(text);
        Case all(tree_of(text), {13, 1, channels}, 1);
        const std::vector<Values> together = all.run(type);
        for (std::size_t i = 0; i < 13; ++i) {
          Case one = all;
          one.sizes.images = 1;
          const auto row = [&](const Values& v) {
            const auto begin = v.begin() + std::ptrdiff_t(i) * channels;
            return Values(begin, begin + channels);
          };
          one.in[0] = row(all.in[0]);
          one.dy = row(all.dy);
          const std::vector<Values> alone = one.run(type);
          CHECK(alone[0] == row(together[0]));
          CHECK(alone[1] == row(together[1]));
        }
      }
}

TEST_CASE("formula: the part that is NaN first is named") {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  struct First {
    const char *text, *wanted;
    double x = 1, alpha = 1, dy = 1;
  };
  for (const First& f : {First{"log(x) + sqrt(x - 2) * x", "sqrt(x - 2)"},
                         {"gamma * log(mean(x) - 2) * x + sqrt(-x)", "log(mean(x) - 2)"},
                         {"x * sqrt(sum_tokens(x) - 7)", "sqrt(sum_tokens(x) - 7)"},
                         {"x * sqrt(sum_image(x) - 19)", "sqrt(sum_image(x) - 19)"},
                         {"sqrt(x) - sqrt(2 * x)", "the derivative by x", 0},
                         {"x * 1e200 * 1e200 - x * 1e300 * 1e300", "x * 1e+200 * 1e+200 - x * 1e+300 * 1e+300"},
                         {"x * alpha", "alpha", 1, nan},
                         {"x * alpha", "x", nan, 1},
                         {"exp(x) * alpha", "the derivative by exp(x) * alpha", 1, 1, nan},
                         {"gamma * x / rms(x)", ""}}) {
    CAPTURE(f.text);
    Case c(tree_of(f.text), {1, 6, 3}, 1);
    c.in[0].assign(18, f.x);
    c.in[1] = {f.alpha};
    c.dy.assign(18, f.dy);
    const Programs programs(c.tree, c.site, c.parameters);
    Arena memory;
    const auto tensor = [&](const Values& v, const Shape& shape) {
      const Tensor t = memory.empty(shape, DType::f64);
      std::copy(v.begin(), v.end(), t.data<double>());
      return t;
    };
    FormulaBackward input{.forward = {.programs = &programs, .x = tensor(c.in[0], {1, 6, 3})},
                          .dy = tensor(c.dy, {1, 6, 3})};
    for (std::size_t p = 0; p < c.parameters.size(); ++p)
      input.forward.parameters[p] = tensor(c.in[p + 1], {std::int64_t(c.in[p + 1].size())});
    CHECK(cpu_backend().first_nan({1, 6, 3}, input) == f.wanted);
  }
}

TEST_CASE("formula: what is wrong with a text is named with its place") {
  const auto problem = [](const std::string& text) {
    try {
      tree_of(text);
    } catch (const FormulaError& error) {
      return concat(error.at, ": ", error.what(), error.word.empty() ? "" : " [" + error.word + "]");
    }
    return std::string("none");
  };
  const std::string deep = std::string(70, '(') + "x" + std::string(70, ')');
  std::string many = "x";
  for (int i = 0; i < 130; ++i) many += " + x";
  for (const auto& [text, wanted] : std::vector<std::pair<std::string, std::string>>{
           {"", "0: the formula is empty"},
           {"   ", "3: the formula is empty"},
           {"x +", "3: expected a value, got the end"},
           {"x x", "2: expected an operator or the end, got 'x'"},
           {"(x", "2: expected ')' after the expression, got the end"},
           {"x * alhpa", "4: unknown value; declare it in \"parameters\" if it is one [alhpa]"},
           {"tahn(x)", "0: unknown function [tahn]"},
           {"tanh", "0: tanh is a function; give its arguments in parentheses, as in tanh(x)"},
           {"tanh(x, x)", "0: tanh takes 1 argument, got 2"},
           {"tanh()", "0: tanh takes 1 argument, got 0"},
           {"clamp(x)", "0: clamp takes 3 arguments, got 1"},
           {"max(x, x, x)", "0: max takes 1 or 2 arguments, got 3"},
           {"max_image(x, x)", "0: max_image takes 1 argument, got 2"},
           {"x * 1e999", "4: the number 1e999 is too large or too small"},
           {"x * 2x", "5: expected an operator after the number, got 'x'"},
           {"x / 0", "2: division by zero, whatever x is"},
           {"x / (2 - 1 * 2)", "2: division by zero, whatever x is"},
           {"x < 1", "2: a comparison can only be the first argument of where(a < b, p, q)"},
           {"where(x, 1, 2)", "0: where needs a comparison first: where(a < b, p, q)"},
           {"where(1, x < 2, x)", "11: a comparison can only be the first argument of where(a < b, p, q)"},
           {"mean(x)",
            "0: the result has one value for each image and token; a norm gives one for each image, token "
            "and channel"},
           {"gamma * 2", "0: the result does not depend on x"},
           {"x - mean(mean(x))", "4: mean is over the channels of its argument, which is the same for every channel"},
           {"x * mean_tokens(gamma)",
            "4: mean_tokens is over the tokens of its argument, which is the same for every token"},
           {"x + batch_mean(x)", "4: a formula has no statistics over the batch; use the kind batch_norm"},
           {deep, "64: nested deeper than 64 parentheses, calls and signs"},
           {many, "510: a formula has at most 256 operations, values and numbers"},
           {std::string(5000, ' ') + "x", "4096: a formula has at most 4096 characters, this one has 5001"}}) {
    const auto& shown = text;
    CAPTURE(shown);
    CHECK(problem(text).substr(0, wanted.size()) == wanted);
  }
}

}  // namespace normlab::formula
