#include "experiments/lab/descriptor/merge.h"

#include <algorithm>
#include <set>

#include "core/error.h"
#include "core/visible_text.h"
#include "experiments/lab/base/regular_file.h"
#include "experiments/lab/base/suggest.h"
#include "experiments/lab/descriptor/keys.h"
#include "experiments/lab/descriptor/recipes.h"

namespace normlab {
namespace {

std::string join(std::string_view path, std::string_view key) {
  return path.empty() ? std::string(key) : concat(path, ".", key);
}

bool is_placement(std::string_view path) { return path == "model.placement" || path == "model.text.placement"; }

/// Objects that count as a single value.
bool replaced_whole(std::string_view path) {
  return is_placement(path) || path == "model.layer_scale" || path == "sweep" || path == "baseline" ||
         path == "seeds" || path == "tuned_for" || path == "benchmarks" || path.substr(0, 11) == "placements.";
}

/// The key for which a bare word at this path is short, or "".
std::string_view key_of_word(std::string_view path) {
  if (path == "dataset") return "name";
  if (path == "start") return "file";
  if (is_placement(path)) return "base";
  if (path == "model.layer_scale" || is_within(path, "model.placement") || is_within(path, "model.text.placement"))
    return "kind";
  return {};
}

void open_word(JsonNode& node, std::string_view path) {
  const std::string_view key = key_of_word(path);
  if (!node.is_string() || key.empty()) return;
  JsonNode object = json_object();
  object.at = node.at;
  object.add(std::string(key), std::move(node));
  node = std::move(object);
}

/// `key` is about to be set in the object at `path`.
void remove_rival(JsonNode& object, std::string_view path, std::string_view key) {
  for (const Exclusive& pair : kExclusive) {
    if (pair.object != path) continue;
    if (pair.a == key) object.remove(pair.b);
    if (pair.b == key) object.remove(pair.a);
  }
}

void merge_over(JsonNode& base, const JsonNode& child, std::string_view path) {
  for (const JsonMember& member : child.members) remove_rival(base, path, member.key);
  for (const JsonMember& member : child.members) {
    JsonMember* existing = base.find(member.key);
    if (existing == nullptr) {
      base.members.push_back(member);
      continue;
    }
    const std::string inner = join(path, member.key);
    if (member.value.is_object()) open_word(existing->value, inner);
    if (member.value.is_object() && existing->value.is_object() && !replaced_whole(inner))
      merge_over(existing->value, member.value, inner);
    else
      *existing = member;
  }
}

/// The position of an intermediate object that `--set` creates, with `rest` of its path remaining.
Position made_at(Position at, std::string_view rest) {
  if (!at.source->has_lines)
    for (auto steps = std::count(rest.begin(), rest.end(), '.'); steps > 0 && at.place != nullptr; --steps)
      at.place = at.place->parent;
  return at;
}

/// A member on a path; creates an object if it is missing.
JsonNode& step_into(JsonNode& node, const std::string& path, std::string_view key, const Position& at) {
  if (JsonMember* existing = node.find(key)) {
    open_word(existing->value, path);
    return existing->value;
  }
  JsonNode made = json_object();
  made.at = at;
  if (is_placement(path)) {
    JsonNode base = "pre_pre";  // the default placement of a model
    base.at = at;
    made.add("base", base);
  }
  return node.add(std::string(key), made);
}

/// A longer chain is a mistake or an attempt to exhaust the reader.
constexpr std::size_t kMostFiles = 64;

/// The base's full path, and a suggestion.
std::string missing(const std::filesystem::path& base) {
  std::error_code error;
  const std::filesystem::path full = std::filesystem::absolute(base, error);
  const std::string words = concat("there is no file ", shown(error ? base.string() : full.string()));
  if (const Recipe* recipe = find_recipe(base.stem().string()))
    return concat(words, "; did you mean ", in_quotes(concat(kRecipePrefix, recipe->name)), "?");
  std::vector<std::string> beside;
  for (std::filesystem::directory_iterator entry(full.parent_path(), error), end; !error && entry != end;
       entry.increment(error))
    if (entry->path().extension() == ".json") beside.push_back(entry->path().filename().string());
  std::sort(beside.begin(), beside.end());
  const std::string_view near = nearest(base.filename().string(), {beside.begin(), beside.end()});
  return near.empty() ? words : concat(words, "; did you mean ", in_quotes(near), "?");
}

class Chain {
 public:
  Chain(Sources& sources, Problems& problems, std::vector<std::filesystem::path>& files)
      : sources_(sources), problems_(problems), files_(files) {}

  JsonNode load(const std::filesystem::path& file) { return load(file, read(file)); }

 private:
  struct Text {
    std::pair<dev_t, ino_t> identity;
    std::string text;
  };
  static Text read(const std::filesystem::path& file) {
    const RegularFile opened(file);
    if (file.extension() == ".jsonl")
      throw InputError(
          concat(file.string(),
                 ": is an archive of results; a descriptor is a .json file, and commands that read results take it "
                 "with --from"));
    Text out{opened.identity(), opened.read(kMaxJsonBytes)};
    if (out.text.size() > kMaxJsonBytes)
      throw InputError(concat(file.string(), ": longer than ", kMaxJsonBytes, " bytes, the limit for a descriptor"));
    return out;
  }

  JsonNode load(const std::filesystem::path& file, const Text& text) {
    files_.push_back(file);
    seen_.insert(text.identity);
    JsonNode root = parse_json(text.text, sources_.add(file.string()), problems_);
    if (!root.is_object()) throw InputError(concat(to_string(root.at), ": expected an object, got ", describe(root)));
    const JsonMember* extends = root.find("extends");
    if (extends == nullptr) return root;
    const JsonNode target = extends->value;
    root.remove("extends");
    JsonNode merged = load_base(file, target);
    if (target.text.starts_with(kRecipePrefix)) merged.remove("about");  // a recipe's "about" does not apply here
    // What is printed for the base, or measured elsewhere, is not so for these settings.
    merged.remove("printed");
    merged.remove("external");
    merge_over(merged, root);
    merged.at = root.at;
    return merged;
  }

  JsonNode load_base(const std::filesystem::path& file, const JsonNode& target) {
    const auto fail = [&](const std::string& what) {
      throw InputError(concat(to_string(target.at), ": /extends: ", what));
    };
    if (!target.is_string()) fail("expected the path of a descriptor, got " + describe(target));
    std::filesystem::path base = (file.parent_path() / target.text).lexically_normal();
    // A recipe extends only recipes.
    if (file.string().starts_with(kRecipePrefix)) base = concat(kRecipePrefix, base.stem().string());
    Text text;
    if (target.text.starts_with(kRecipePrefix)) base = target.text;
    if (const std::string name = base.string(); name.starts_with(kRecipePrefix)) {
      const Recipe* recipe = find_recipe(name.substr(kRecipePrefix.size()));
      if (const auto all = recipe_names(); recipe == nullptr)
        fail(unknown_word("recipe", name, {all.begin(), all.end()}));
      text = {{0, static_cast<ino_t>(recipe - recipes().data())}, std::string(recipe->text)};
    } else {
      std::error_code error;
      if (!std::filesystem::exists(base, error)) fail(missing(base));
      try {
        text = read(base);
      } catch (const InputError& refused) {
        fail(refused.what());
      }
    }
    if (seen_.contains(text.identity)) fail(concat(base.string(), " extends itself through a cycle"));
    if (files_.size() == kMostFiles) fail(concat("more than ", kMostFiles, " descriptors extend one another"));
    return load(base, text);
  }

  Sources& sources_;
  Problems& problems_;
  std::vector<std::filesystem::path>& files_;
  std::set<std::pair<dev_t, ino_t>> seen_;
};

}  // namespace

bool has_form(std::string_view path, std::string_view pattern) {
  const auto step_of = [](std::string_view& rest) {
    const std::string_view step = rest.substr(0, rest.find('.'));
    rest.remove_prefix(std::min(step.size() + 1, rest.size()));
    return step;
  };
  if (pattern.empty()) return path.empty();
  const std::string_view step = step_of(pattern);
  if (step != kAnySteps) return !path.empty() && step_of(path) == step && has_form(path, pattern);
  while (pattern.starts_with("**.")) step_of(pattern);  // which means the same
  for (; !path.empty(); step_of(path))
    if (has_form(path, pattern)) return true;
  return pattern.empty();
}

bool is_within(std::string_view path, std::string_view prefix) {
  return path.substr(0, prefix.size()) == prefix && (path.size() == prefix.size() || path[prefix.size()] == '.');
}

void merge_over(JsonNode& base, const JsonNode& child) { merge_over(base, child, ""); }

std::string set_path(JsonNode& root, std::string_view path, const JsonNode& value, const Position& key_at) {
  JsonNode* node = &root;
  std::string so_far;
  for (std::string_view rest = path;;) {
    const std::size_t dot = is_placement(so_far) && is_pattern(rest) ? rest.npos : rest.find('.');
    const std::string_view key = rest.substr(0, dot);
    if (key.empty()) return "a path needs a key on each side of a dot";
    if (key == kAnySteps) return "** stands for sites of a placement, as in \"model.placement.**.eps\"";
    if (!node->is_object()) return concat(so_far, " is ", describe(*node), " and has no keys");
    if (dot == std::string_view::npos) {
      remove_rival(*node, so_far, key);
      JsonMember* member = node->find(key);
      if (member == nullptr) member = &node->members.emplace_back(JsonMember{std::string(key), {}, {}});
      member->key_at = key_at;
      member->value = value;
      return "";
    }
    so_far = join(so_far, key);
    node = &step_into(*node, so_far, key, made_at(key_at, rest));
    rest.remove_prefix(dot + 1);
  }
}

JsonNode load_merged(const std::filesystem::path& file, Sources& sources, Problems& problems,
                     std::vector<std::filesystem::path>& files) {
  return Chain(sources, problems, files).load(file);
}

std::vector<std::string> apply_sets(JsonNode& root, std::span<const std::string> sets, Sources& sources,
                                    Problems& problems) {
  std::vector<std::string> paths;
  for (const std::string& set : sets) {
    const std::size_t equals = set.find('=');
    if (equals == std::string::npos || equals == 0)
      throw InputError(concat("--set ", set, ": expected path=value, such as --set train.epochs=2"));
    const std::string path = set.substr(0, equals), text = set.substr(equals + 1);
    Source* source = sources.add("--set " + set, /*has_lines=*/false);
    Position at{source, 1, 1, nullptr};
    for (std::size_t begin = 0, end = 0; end != path.npos; begin = end + 1) {
      end = path.find('.', begin);
      at.place = source->place(at.place, path.substr(begin, end - begin));
    }
    JsonNode value = text;
    try {
      value = parse_json(text, source, problems, at.place);
    } catch (const InputError&) {  // not JSON: a word, as in --set model.placement=dpn
    }
    value.at = at;
    if (const std::string problem = set_path(root, path, value, at); problem.empty())
      paths.push_back(path);
    else
      problems.add(at, pointer_step(path), problem);
  }
  return paths;
}

}  // namespace normlab
