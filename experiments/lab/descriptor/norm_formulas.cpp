#include "experiments/lab/descriptor/norm_formulas.h"

#include <algorithm>

#include "core/kernels.h"
#include "experiments/lab/descriptor/forms.h"
#include "experiments/lab/descriptor/formula_fields.h"

namespace normlab {
namespace {

constexpr std::string_view kFormulaKeys[] = {"formula", "parameters", "eps"};
constexpr std::string_view kAboutKey = "about", kKindKey = "kind";

bool is_identifier(std::string_view name) {
  const auto letter = [](char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; };
  return !name.empty() && letter(name.front()) &&
         std::all_of(name.begin(), name.end(), [&](char c) { return letter(c) || (c >= '0' && c <= '9'); });
}

/// Why no parameter can have this name, or "".
std::string refused_name(std::string_view name) {
  if (!is_identifier(name)) return "a parameter's name has letters, digits and underscores, and begins with no digit";
  for (const std::string_view key : {kFormulaKeys[0], kFormulaKeys[1], kFormulaKeys[2], kAboutKey, kKindKey})
    if (name == key) return "a key of norms has this name; choose another";
  for (const std::string_view word : formula::reserved_words())
    if (name == word || (formula::find_function(name).function != nullptr))
      return "the language of formulas has this word; choose another";
  return "";
}

void read_parameter(FieldReader& in, const JsonMember& member, std::vector<FormulaParameter>& out) {
  if (std::string why = refused_name(member.key); !why.empty()) return in.report(member.key_at, why);
  const std::optional<FormulaParameter> usual = undeclared_parameter(member.key);
  ParameterKeys keys;
  if (usual) keys = {.init = usual->value, .per = ParameterPer::channel};
  if (member.value.is_number()) {
    keys.per = ParameterPer::one;
    in.value(member.value, keys.init);
  } else if (!member.value.is_object()) {
    return in.report(
        member.value.at,
        "expected a number or an object such as {\"init\": 1, \"per\": \"channel\"}, got " + describe(member.value));
  } else {
    in.object(member.value, keys);
    if (!usual && member.value.find("init") == nullptr)
      in.report(member.value.at, "give the initial value, as {\"init\": 1}");
  }
  out.push_back({{.name = member.key,
                  .per_channel = keys.per == ParameterPer::channel,
                  .learned = keys.learned,
                  .value = keys.init},
                 keys.decay});
}

void report_formula(FieldReader& in, const JsonNode& node, const formula::FormulaError& error) {
  const std::string_view meant = error.word.empty() ? "" : nearest(error.word, error.candidates);
  in.report(node.at, concat("character ", error.at + 1, ": ", error.what(),
                            meant.empty() ? "" : concat("; did you mean ", in_quotes(meant), "?")));
}

/// False, with a problem, if `text` is no formula with these parameters.
bool parse_formula(FieldReader& in, const JsonNode& text, NormFormula& out) {
  std::vector<formula::Name> names;
  const auto declare = [&](const FormulaParameter& p) {
    names.push_back({p.name, p.per_channel ? formula::kChannel : formula::Axes(0)});
  };
  for (const FormulaParameter& p : out.parameters) declare(p);
  std::vector<FormulaParameter> usual;
  for (const char* name : {"beta", "gamma"})
    if (std::none_of(out.parameters.begin(), out.parameters.end(), [&](const auto& p) { return p.name == name; }))
      usual.push_back(*undeclared_parameter(name));
  for (const FormulaParameter& p : usual) declare(p);
  try {
    out.tree = formula::parse(text.text, names);
  } catch (const formula::FormulaError& error) {
    report_formula(in, text, error);
    return false;
  }
  out.text = formula::text_of(out.tree);
  for (const FormulaParameter& p : usual)
    if (out.tree.reads(p.name)) out.parameters.push_back(p);
  std::sort(out.parameters.begin(), out.parameters.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
  return true;
}

void read_eps(FieldReader& in, const JsonMember& eps, NormSpec& spec) {
  if (!spec.formula->tree.reads_eps())
    return in.report(eps.key_at, "the formula has no rms, std or norm, which alone add eps");
  in.value(eps.value, spec.eps, kPositive);
}

}  // namespace

void read_formula(FieldReader& in, const JsonNode& node, bool has_name, NormSpec& out) {
  std::vector<std::string_view> keys(std::begin(kFormulaKeys), std::end(kFormulaKeys));
  if (has_name) keys.push_back(kAboutKey);
  const std::size_t before = in.reported();
  for (const JsonMember& member : node.members)
    if (std::find(keys.begin(), keys.end(), member.key) == keys.end())
      in.report(member.key_at, member.key == kKindKey ? "a formula takes the place of a kind; leave one of them out"
                                                      : unknown_key(member.key, keys));
  if (const JsonMember* about = has_name ? node.find(kAboutKey) : nullptr; about && !about->value.is_string())
    in.report(about->value.at, "expected a string, got " + describe(about->value));
  NormFormula formula;
  const JsonMember* const declared = node.find("parameters");
  if (declared && !declared->value.is_object())
    in.report(declared->value.at, "expected an object such as {\"alpha\": 1}, got " + describe(declared->value));
  else if (declared)
    for (const JsonMember& member : declared->value.members) read_parameter(in, member, formula.parameters);
  const JsonMember* const text = node.find("formula");
  if (text == nullptr) return in.report(node.at, "give the \"formula\", such as \"gamma * x / rms(x)\"");
  if (!text->value.is_string())
    return in.report(text->value.at, "expected a formula such as \"gamma * x / rms(x)\", got " + describe(text->value));
  if (in.reported() > before || !parse_formula(in, text->value, formula)) return;
  for (const FormulaParameter& p : formula.parameters)
    if (!formula.tree.reads(p.name)) in.report(declared->value.find(p.name)->key_at, "the formula does not read it");
  if (formula.parameters.size() > kMostFormulaParameters)
    in.report(text->value.at, concat("a formula has at most ", kMostFormulaParameters, " parameters, this one has ",
                                     formula.parameters.size()));
  if (in.reported() > before) return;
  out = in.kind() == ModelKind::swin ? swin_norm(NormKind::formula) : norm_of(NormKind::formula);
  out.formula = interned(std::move(formula));
  if (const JsonMember* eps = node.find("eps")) read_eps(in, *eps, out);
}

void change_formula(FieldReader& in, const JsonNode& node, NormSpec& out) {
  NormFormula formula = *out.formula;
  for (const JsonMember& member : node.members) {
    if (member.key == kKindKey) continue;
    if (member.key == "eps") {
      read_eps(in, member, out);
      continue;
    }
    const auto found = std::find_if(formula.parameters.begin(), formula.parameters.end(),
                                    [&](const FormulaParameter& p) { return p.name == member.key; });
    if (found != formula.parameters.end()) {
      in.value(member.value, found->value);
      continue;
    }
    std::vector<std::string_view> keys{"eps"};
    for (const FormulaParameter& p : formula.parameters) keys.push_back(p.name);
    in.report(member.key_at, unknown_key(member.key, keys));
  }
  out.formula = interned(std::move(formula));
}

JsonNode written_formula(const NormSpec& spec, WriteOptions options) {
  JsonNode object = json_object(), parameters = json_object();
  object.add("formula", spec.formula->text);
  for (const FormulaParameter& p : spec.formula->parameters) {
    const std::optional<FormulaParameter> usual = undeclared_parameter(p.name);
    const bool is_usual = usual && p.per_channel && p.learned && !p.decays && p.value == usual->value;
    const ParameterKeys keys{.init = p.value,
                             .per = p.per_channel ? ParameterPer::channel : ParameterPer::one,
                             .learned = p.learned,
                             .decay = p.decays};
    if (is_usual && !options.everything) continue;
    if (!options.everything && !p.per_channel && p.learned && !p.decays) {
      parameters.add(p.name, p.value);
      continue;
    }
    JsonNode& one = parameters.add(p.name, json_object());
    one.add("init", p.value);
    one.add("per", word_of(keys.per));
    if (options.everything || !p.learned) one.add("learned", p.learned);
    if (options.everything || p.decays) one.add("decay", p.decays);
  }
  if (!parameters.members.empty()) object.add("parameters", std::move(parameters));
  const double usual =
      options.kind == ModelKind::swin ? swin_norm(NormKind::formula).eps : norm_of(NormKind::formula).eps;
  if (spec.formula->tree.reads_eps() && (options.everything || spec.eps != usual)) object.add("eps", spec.eps);
  return object;
}

JsonNode formula_schema(bool has_name) {
  const JsonNode parameter = if_type("object", rows_schema<ParameterKeys>(), type("number"));
  JsonNode text = object({{"type", "string"}, {"maxLength", std::int64_t(formula::kMostCharacters)}});
  JsonNode members = object({{"formula", std::move(text)},
                             {"parameters", object({{"type", "object"}, {"additionalProperties", parameter}})},
                             {"eps", number_schema("number", kPositive)}});
  if (has_name) members.add(std::string(kAboutKey), type("string"));
  JsonNode node = closed_object(std::move(members));
  node.add("required", list_of_words({"formula"}));
  return node;
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
  if (out.formula && !row->second.has_eps)
    out.eps = model == ModelKind::swin ? swin_norm(NormKind::formula).eps : norm_of(NormKind::formula).eps;
  return true;
}

std::vector<std::string_view> NamedFormulas::names() const {
  std::vector<std::string_view> out;
  for (const auto& [name, row] : rows_) out.push_back(name);
  return out;
}

std::string_view NamedFormulas::name_of(const NormSpec& spec) const {
  for (const auto& [name, row] : rows_)
    if (row.spec.formula == spec.formula && (!row.has_eps || row.spec.eps == spec.eps)) return name;
  return "";
}

}  // namespace normlab
