#include "experiments/lab/descriptor/norm_formulas.h"

#include <algorithm>

#include "core/kernels.h"
#include "experiments/lab/descriptor/forms.h"

namespace normlab {
namespace {

constexpr std::string_view kAboutKey = "about", kKindKey = "kind";

NormSpec default_formula(ModelKind model) {
  return model == ModelKind::swin ? swin_norm(NormKind::formula) : norm_of(NormKind::formula);
}

/// Why no parameter can have this name, or "".
std::string_view refused_name(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  const auto fits = [&](char c) { return letter(c) || (c >= '0' && c <= '9'); };
  if (name.empty() || !letter(name.front()) || !std::all_of(name.begin(), name.end(), fits))
    return "a parameter's name has letters, digits and underscores, and begins with no digit";
  constexpr auto& kKeys = kKeysOf<FormulaKeys>;
  if (name == kAboutKey || name == kKindKey || std::find(kKeys.begin(), kKeys.end(), name) != kKeys.end())
    return "a key of norms has this name; choose another";
  const std::vector<std::string_view> words = formula::reserved_words();
  const bool is_word =
      formula::find_function(name).function || std::find(words.begin(), words.end(), name) != words.end();
  return is_word ? "the language of formulas has this word; choose another" : "";
}

/// parse(text) or a problem.
template <class Parse>
std::optional<formula::Tree> parsed(FieldReader& in, const JsonNode& node, const Parse& parse) {
  try {
    return parse(node.text);
  } catch (const formula::FormulaError& error) {
    const std::string_view meant = error.word.empty() ? "" : nearest(error.word, error.candidates);
    in.report(node.at, concat("character ", error.at + 1, ": ", error.what(),
                              meant.empty() ? "" : concat("; did you mean ", in_quotes(meant), "?")));
    return std::nullopt;
  }
}

/// False, with a problem, if `text` is no formula with these parameters.
bool parse_formula(FieldReader& in, const JsonNode& text, NormFormula& out) {
  const std::size_t declared = out.parameters.size();
  for (const FormulaParameter& usual : kUsualParameters)
    if (std::none_of(out.parameters.begin(), out.parameters.end(), [&](const auto& p) { return p.name == usual.name; }))
      out.parameters.push_back(usual);
  std::vector<formula::Name> names;
  for (const FormulaParameter& p : out.parameters)
    names.push_back({p.name, p.per == ParameterPer::channel ? formula::kChannel : formula::Axes(0)});
  std::optional<formula::Tree> tree = parsed(in, text, [&](const std::string& t) { return formula::parse(t, names); });
  if (!tree) return false;
  out.tree = *std::move(tree);
  out.text = formula::text_of(out.tree);
  const auto unread = [&](const FormulaParameter& p) { return !out.tree.reads(p.name); };
  out.parameters.erase(std::remove_if(out.parameters.begin() + std::ptrdiff_t(declared), out.parameters.end(), unread),
                       out.parameters.end());
  std::sort(out.parameters.begin(), out.parameters.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return true;
}

void read_eps(FieldReader& in, const JsonMember& eps, NormSpec& spec) {
  if (!spec.formula->tree.reads_eps())
    return in.report(eps.key_at, "the formula has no rms, std or norm, which alone add eps");
  in.value(eps.value, spec.eps, kPositive);
}

}  // namespace

void Form<InitialValue>::read(FieldReader& in, const JsonNode& node, InitialValue& out, Range) {
  out = {};
  if (node.is_number()) return in.value(node, out.number);
  if (!node.is_string())
    return in.report(node.at, "expected a number or a formula such as \"1 / sqrt(block)\", got " + describe(node));
  const std::optional<formula::Tree> tree = parsed(in, node, formula::parse_number);
  if (!tree) return;
  if (tree->root().word.empty())
    out.number = tree->root().number;
  else
    out.text = formula::text_of(*tree);
}

void Form<FormulaParameter>::read(FieldReader& in, const JsonNode& node, FormulaParameter& out, Range) {
  if (node.is_number()) return in.value(node, out.init);
  if (node.is_object()) return void(in.object(node, out));
  in.report(node.at,
            "expected a number or an object such as {\"init\": 1, \"per\": \"channel\"}, got " + describe(node));
}

JsonNode Form<FormulaParameter>::write(const FormulaParameter& p, WriteOptions options) {
  JsonNode object = json_object();
  write_rows(object, p, {.init = p.init}, options);
  if (options.everything) return object;
  JsonNode init = Form<InitialValue>::write(p.init, options);
  if (object.members.empty() && init.is_number()) return init;
  object.add("init", std::move(init));
  return object;
}

void Form<std::vector<FormulaParameter>>::read(FieldReader& in, const JsonNode& node,
                                               std::vector<FormulaParameter>& out, Range) {
  if (!node.is_object()) return in.report(node.at, "expected an object such as {\"alpha\": 1}, got " + describe(node));
  for (const JsonMember& member : node.members)
    if (const std::string_view why = refused_name(member.key); !why.empty())
      in.report(member.key_at, std::string(why));
    else
      in.value(member.value, out.emplace_back(FormulaParameter{.name = member.key}));
}

JsonNode Form<std::vector<FormulaParameter>>::write(const std::vector<FormulaParameter>& parameters,
                                                    WriteOptions options) {
  JsonNode object = json_object();
  for (const FormulaParameter& p : parameters)
    if (options.everything ||
        std::find(std::begin(kUsualParameters), std::end(kUsualParameters), p) == std::end(kUsualParameters))
      object.add(p.name, Form<FormulaParameter>::write(p, options));
  return object;
}

void Form<ActivationConfig>::read(FieldReader& in, const JsonNode& node, ActivationConfig& out, Range) {
  out = {};
  if (node.is_string() && find_word(node.text, out.kind)) return;
  if (node.is_string())
    return in.report(
        node.at, unknown_word("activation", node.text, {kWords<ActivationKind>.begin(), kWords<ActivationKind>.end()}) +
                     "; a formula is an object, {\"formula\": \"x * sigmoid(1.702 * x)\"}");
  if (!node.is_object())
    return in.report(node.at,
                     "expected a word such as \"silu\" or an object such as "
                     "{\"formula\": \"x * sigmoid(1.702 * x)\"}, got " +
                         describe(node));
  ActivationKeys keys;
  const std::size_t before = in.reported();
  in.object(node, keys);
  if (in.reported() > before) return;
  std::optional<formula::Tree> tree = parsed(in, node.find("formula")->value, formula::parse_elementwise);
  if (!tree) return;
  std::string text = formula::text_of(*tree);
  out = {ActivationKind::formula, interned({.tree = *std::move(tree), .text = std::move(text)})};
}

JsonNode Form<ActivationConfig>::write(const ActivationConfig& activation, WriteOptions) {
  return activation.formula ? object({{"formula", activation.formula->text}}) : word_of(activation.kind);
}

void read_formula(FieldReader& in, const JsonNode& node, bool has_name, NormSpec& out) {
  FormulaKeys keys;
  const std::size_t before = in.reported();
  in.object(node, keys, {has_name ? kAboutKey : kKindKey});
  if (const JsonMember* kind = has_name ? nullptr : node.find(kKindKey))
    in.report(kind->key_at, "a formula takes the place of a kind; leave one of them out");
  if (const JsonMember* about = has_name ? node.find(kAboutKey) : nullptr) {
    std::string text;
    in.value(about->value, text);
  };
  NormFormula formula{.parameters = keys.parameters};
  if (in.reported() > before || !parse_formula(in, node.find("formula")->value, formula)) return;
  for (const FormulaParameter& p : keys.parameters)
    if (!formula.tree.reads(p.name))
      in.report(node.find("parameters")->value.find(p.name)->key_at, "the formula does not read it");
  if (formula.parameters.size() + formula.tree.reads(kProgress) > kMostFormulaParameters)
    in.report(node.find("formula")->value.at, concat("a formula has at most ", kMostFormulaParameters,
                                                     " parameters, this one has ", formula.parameters.size()));
  if (in.reported() > before) return;
  out = default_formula(in.kind());
  out.formula = interned(std::move(formula));
  if (const JsonMember* eps = node.find("eps")) read_eps(in, *eps, out);
}

void change_formula(FieldReader& in, const JsonNode& node, NormSpec& out) {
  NormFormula formula = *out.formula;
  for (const JsonMember& member : node.members) {
    const auto named = [&](const FormulaParameter& p) { return p.name == member.key; };
    const auto found = std::find_if(formula.parameters.begin(), formula.parameters.end(), named);
    if (found != formula.parameters.end())
      in.value(member.value, found->init);
    else if (member.key == "eps")
      read_eps(in, member, out);
    else if (member.key != kKindKey)
      in.report(member.key_at, unknown_key(member.key, keys_of(out)));
  }
  out.formula = interned(std::move(formula));
}

JsonNode written_formula(const NormSpec& spec, WriteOptions options) {
  FormulaKeys keys{.formula = spec.formula->text, .parameters = spec.formula->parameters};
  if (spec.formula->tree.reads_eps() && (options.everything || spec.eps != default_formula(options.kind).eps))
    keys.eps = spec.eps;
  JsonNode object = Form<FormulaKeys>::write(keys, options);
  if (const JsonNode* parameters = value_of(object, "parameters"); parameters && parameters->members.empty())
    object.remove("parameters");
  return object;
}

JsonNode formula_schema(bool has_name) {
  return rows_schema<FormulaKeys>(has_name ? object({{kAboutKey.data(), type("string")}}) : json_object());
}

std::vector<std::string_view> keys_of(const NormSpec& spec) {
  std::vector<std::string_view> out;
  if (spec.formula == nullptr) {
    for_each_field<NormSpec>([&](const auto& row) {
      if (row.key != kKindKey && row.unmet(spec) == nullptr) out.push_back(row.key);
    });
    return out;
  }
  for (const FormulaParameter& p : spec.formula->parameters) out.push_back(p.name);
  if (spec.formula->tree.reads_eps()) out.push_back("eps");
  return out;
}

bool NamedFormulas::read(const JsonNode* rows, FieldReader& in) {
  std::string text = rows == nullptr ? "" : write_json(*rows, JsonStyle::compact);
  if (text == text_) return false;
  text_ = std::move(text);
  rows_.clear();
  if (rows == nullptr) return true;
  if (!rows->is_object())
    in.report(rows->at, "expected an object such as {\"mine\": {\"formula\": \"x / rms(x)\"}}, got " + describe(*rows));
  for (const JsonMember& member : rows->members) {
    rows_[member.key] = {};  // known, even if it is wrong
    if (NormKind kind{}; find_word(member.key, kind))
      in.report(member.key_at, "a built-in kind of norm has this name; choose another");
    else if (!member.value.is_object())
      in.report(member.value.at, "expected an object with a \"formula\", got " + describe(member.value));
    else if (NormSpec spec; read_formula(in, member.value, true, spec), spec.formula != nullptr)
      rows_[member.key] = {spec, member.value.find("eps") != nullptr};
  }
  return true;
}

bool NamedFormulas::find(std::string_view name, ModelKind model, NormSpec& out) const {
  const auto row = rows_.find(name);
  if (row == rows_.end()) return false;
  out = row->second.spec;
  if (out.formula && !row->second.has_eps) out.eps = default_formula(model).eps;
  return true;
}

std::vector<std::string_view> NamedFormulas::names() const {
  std::vector<std::string_view> out;
  for (const auto& [name, row] : rows_) out.push_back(name);
  return out;
}

std::vector<std::string_view> NamedFormulas::parameter_names() const {
  std::vector<std::string_view> out;
  for (const auto& [name, row] : rows_)
    if (row.spec.formula)
      for (const FormulaParameter& p : row.spec.formula->parameters) out.push_back(p.name);
  return out;
}

std::string_view NamedFormulas::name_of(const NormSpec& spec) const {
  for (const auto& [name, row] : rows_)
    if (row.spec.formula == spec.formula && (!row.has_eps || row.spec.eps == spec.eps)) return name;
  return "";
}

}  // namespace normlab
