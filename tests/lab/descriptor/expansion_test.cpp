// The expansion of random descriptors against an independent, slow enumeration.
#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>

#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/descriptor/json_tree.h"
#include "tests/lab/descriptor/descriptor_files.h"

using namespace normlab;

namespace {

using Assignment = std::vector<std::pair<std::string, std::string>>;  // path -> value, in the order they were given

struct SlowGrid {
  std::vector<std::pair<std::vector<std::string>, std::vector<std::vector<std::string>>>> groups;  // paths, values
  std::vector<int> seeds;  // empty: those of the descriptor
};

struct SlowRow {
  std::map<std::string, std::string> settings;
  Assignment axes;
  std::vector<int> seeds;
};

const std::vector<std::pair<std::string, std::vector<std::string>>> kPaths{
    {"model.depth", {"1", "2", "3"}},
    {"train.batch_size", {"8", "16", "24"}},
    {"train.optimizer.lr", {"0.1", "0.2", "0.3"}},
    {"model.dropout", {"0.1", "0.2"}},
    {"train.optimizer.weight_decay", {"0.01", "0.02", "0.03"}},
    {"train.label_smoothing", {"0.1", "0.2"}}};

/// All combinations of a grid, by recursion over its groups: the last one fastest.
void enumerate(const SlowGrid& grid, std::size_t group, const Assignment& so_far, std::vector<Assignment>& out) {
  if (group == grid.groups.size()) return out.push_back(so_far);
  const auto& [paths, values] = grid.groups[group];
  for (const std::vector<std::string>& tuple : values) {
    Assignment next = so_far;
    for (std::size_t p = 0; p < paths.size(); ++p) next.emplace_back(paths[p], tuple[p]);
    enumerate(grid, group + 1, next, out);
  }
}

bool holds(const Assignment& combination, const Assignment& excluded) {
  for (const auto& wanted : excluded)
    if (std::find(combination.begin(), combination.end(), wanted) == combination.end()) return false;
  return true;
}

std::string list_of(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items) out += (out.empty() ? "" : ", ") + item;
  return "[" + out + "]";
}
std::string list_of(const std::vector<int>& items) {
  std::vector<std::string> words;
  for (const int item : items) words.push_back(std::to_string(item));
  return list_of(words);
}

std::map<std::string, std::string> settings_of(const TrialConfig& c) {
  const auto text = [](double v) { return value_text(JsonNode(v)); };
  return {{"model.depth", std::to_string(vit_of(c).depth)},
          {"train.batch_size", std::to_string(c.train.batch_size)},
          {"train.optimizer.lr", text(c.train.optimizer.lr)},
          {"model.dropout", text(vit_of(c).dropout.stem)},
          {"train.optimizer.weight_decay", text(c.train.optimizer.weight_decay)},
          {"train.label_smoothing", text(c.train.label_smoothing)}};
}

class RandomDescriptor {
 public:
  explicit RandomDescriptor(unsigned seed) : random_(seed) {
    const std::size_t grids = 1 + below(3);
    for (std::size_t g = 0; g < grids; ++g) grids_.push_back(grid(grids > 1));
    for (const auto& [path, values] : kPaths) base_[path] = values[below(values.size())];
    seeds_ = some_seeds();
    for (std::size_t g = 0; g < grids_.size(); ++g) {
      std::vector<Assignment> all;
      enumerate(grids_[g], 0, {}, all);
      combinations_.push_back(all);
      // Each excludes one combination of the grid, and all others with its values.
      if (below(3) == 0 && !all.front().empty()) {
        Assignment chosen = all[below(all.size())];
        std::shuffle(chosen.begin(), chosen.end(), random_);
        chosen.resize(1 + below(chosen.size()));
        excluded_.push_back(chosen);
      }
    }
  }

  std::string text() const {
    std::string sweep, exclude;
    bool own_everywhere = true;
    for (const SlowGrid& grid : grids_) {
      std::string axes;
      for (const auto& [paths, values] : grid.groups) {
        std::string key, list;
        for (const std::string& path : paths) key += (key.empty() ? "" : ",") + path;
        for (const std::vector<std::string>& tuple : values)
          list += (list.empty() ? "" : ", ") + (paths.size() == 1 ? tuple[0] : list_of(tuple));
        axes += concat(axes.empty() ? "" : ", ", "\"", key, "\": [", list, "]");
      }
      if (!grid.seeds.empty()) axes += concat(axes.empty() ? "" : ", ", "\"seeds\": ", list_of(grid.seeds));
      own_everywhere = own_everywhere && !grid.seeds.empty();
      sweep += concat(sweep.empty() ? "" : ", ", "{", axes, "}");
    }
    for (const Assignment& one : excluded_) {
      std::string members;
      for (const auto& [path, value] : one) members += concat(members.empty() ? "" : ", ", "\"", path, "\": ", value);
      exclude += concat(exclude.empty() ? "" : ", ", "{", members, "}");
    }
    const auto base = [&](const char* path) { return base_.at(path); };
    return concat("{\"model\": {\"depth\": ", base("model.depth"), ", \"dropout\": ", base("model.dropout"),
                  "}, \"train\": {\"batch_size\": ", base("train.batch_size"),
                  ", \"label_smoothing\": ", base("train.label_smoothing"),
                  ", \"optimizer\": {\"lr\": ", base("train.optimizer.lr"),
                  ", \"weight_decay\": ", base("train.optimizer.weight_decay"),
                  "}}, \"sweep\": ", grids_.size() == 1 && grids_[0].seeds.empty() ? sweep : "[" + sweep + "]",
                  exclude.empty() ? "" : ", \"exclude\": [" + exclude + "]",
                  own_everywhere ? "" : ", \"seeds\": " + list_of(seeds_), "}");
  }

  std::vector<SlowRow> rows(std::size_t& duplicates) const {
    std::vector<SlowRow> rows;
    duplicates = 0;
    for (std::size_t g = 0; g < grids_.size(); ++g)
      for (const Assignment& combination : combinations_[g]) {
        bool left_out = false;
        for (const Assignment& one : excluded_) left_out = left_out || holds(combination, one);
        if (left_out) continue;
        SlowRow row{base_, combination, grids_[g].seeds.empty() ? seeds_ : grids_[g].seeds};
        for (const auto& [path, value] : combination) row.settings[path] = value;
        SlowRow* former = nullptr;
        for (SlowRow& other : rows)
          if (other.settings == row.settings) former = &other;
        if (former == nullptr) {
          rows.push_back(row);
          continue;
        }
        for (const int seed : row.seeds) {
          if (std::find(former->seeds.begin(), former->seeds.end(), seed) == former->seeds.end())
            former->seeds.push_back(seed);
          else
            ++duplicates;
        }
      }
    return rows;
  }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }

  std::vector<int> some_seeds() {
    std::vector<int> all{0, 1, 2, 3, 4, 5};
    std::shuffle(all.begin(), all.end(), random_);
    all.resize(1 + below(3));
    return all;
  }

  /// Every value at most once an axis, most often; sometimes twice, which is the same row again.
  std::vector<std::string> some_values(const std::vector<std::string>& values) {
    std::vector<std::string> out = values;
    std::shuffle(out.begin(), out.end(), random_);
    out.resize(1 + below(out.size()));
    if (below(8) == 0) out.push_back(out.front());
    return out;
  }

  SlowGrid grid(bool may_have_seeds) {
    SlowGrid out;
    std::vector<std::size_t> order(kPaths.size());
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    std::shuffle(order.begin(), order.end(), random_);
    order.resize(below(5));
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto& [path, values] = kPaths[order[i]];
      std::vector<std::vector<std::string>> tuples;
      if (i + 1 < order.size() && below(4) == 0) {  // zipped with the next
        const auto& [other, others] = kPaths[order[++i]];
        for (std::size_t k = 0; k < 1 + below(3); ++k)
          tuples.push_back({values[below(values.size())], others[below(others.size())]});
        out.groups.push_back({{path, other}, tuples});
        continue;
      }
      for (const std::string& value : some_values(values)) tuples.push_back({value});
      out.groups.push_back({{path}, tuples});
    }
    if (may_have_seeds && below(3) == 0) out.seeds = some_seeds();
    return out;
  }

  std::mt19937 random_;
  std::vector<SlowGrid> grids_;
  std::map<std::string, std::string> base_;
  std::vector<int> seeds_;
  std::vector<Assignment> excluded_;
  std::vector<std::vector<Assignment>> combinations_;
};

}  // namespace

TEST_CASE("descriptor: random sweeps expand as a slow enumeration does") {
  DescriptorFiles files;
  std::size_t merged = 0, left_out = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    const RandomDescriptor descriptor(seed);
    const std::string text = descriptor.text();
    CAPTURE(text);
    std::size_t duplicates = 0;
    const std::vector<SlowRow> rows = descriptor.rows(duplicates);
    if (rows.empty()) {
      CHECK(files.problems(text).find("excludes every combination; leave at least one") != std::string::npos);
      ++left_out;
      continue;
    }
    const Experiment e = files.load(text);
    REQUIRE(e.rows.size() == rows.size());
    CHECK(e.duplicates == duplicates);
    merged += duplicates > 0;
    std::set<std::string> ids;
    std::size_t next = 0;
    for (std::size_t r = 0; r < rows.size(); ++r) {
      CHECK(Assignment(e.rows[r].axes) == rows[r].axes);
      REQUIRE(e.rows[r].trials.size() == rows[r].seeds.size());
      for (std::size_t s = 0; s < rows[r].seeds.size(); ++s, ++next) {
        REQUIRE(e.rows[r].trials[s] == next);
        const Trial& trial = e.trials[next];
        CHECK(settings_of(trial.config) == rows[r].settings);
        CHECK(trial.config.seed == std::uint64_t(rows[r].seeds[s]));
        CHECK(trial.row == r);
        CHECK(trial.id == trial_id(trial.config));
        CHECK(ids.insert(trial.id).second);
      }
    }
    CHECK(e.trials.size() == next);
  }
  CHECK(merged > 20);
  CHECK(left_out > 0);
}

TEST_CASE("descriptor: chosen classes set the number of classes") {
  DescriptorFiles files;
  const Experiment e = files.load(R"({"dataset": {"name": "cifar10", "classes": ["cat", "dog", "frog"]}})");
  CHECK(vit_of(e.trials[0].config).num_classes == 3);
  CHECK(files.problems(R"({"dataset": {"name": "cifar10", "classes": ["cat", "dog"]}, "model": {"num_classes": 10}})")
            .find("2 classes in dataset.classes") != std::string::npos);
}

TEST_CASE("descriptor: a class that is given twice is refused") {
  DescriptorFiles files;
  CHECK(files.problems(R"({"dataset": {"name": "cifar10", "classes": ["cat", "dog", "cat"]}})") ==
        "d.json:1:59: /dataset/classes/2: the class \"cat\" is given twice");
}

TEST_CASE("descriptor: merged classes set the number of classes, in the order of their names") {
  DescriptorFiles files;
  const auto config = [&](const std::string& groups) {
    return files.load(R"({"dataset": {"name": "cifar10", "class_groups": )" + groups + "}}").trials[0].config;
  };
  const TrialConfig merged = config(R"({"vehicle": ["ship", "truck"], "animal": ["cat", "dog"]})");
  CHECK(vit_of(merged).num_classes == 2);
  CHECK(merged.dataset.class_groups == ClassGroups{{"animal", {"cat", "dog"}}, {"vehicle", {"ship", "truck"}}});
  CHECK(canonical_json(merged) ==
        canonical_json(config(R"({"animal": ["cat", "dog"], "vehicle": ["ship", "truck"]})")));
  CHECK(config_from_json(canonical_json(merged), "canonical") == merged);
  CHECK(config_from_json(full_json(merged), "full") == merged);
}

TEST_CASE("descriptor: groups of classes that contradict themselves are refused") {
  const auto problems = [](const std::string& groups) {
    return DescriptorFiles().problems(R"({"dataset": {"name": "cifar10", )" + groups + "}}");
  };
  CHECK(problems(R"("class_groups": {"a": ["cat"], "b": ["dog", "cat"]})") ==
        "d.json:1:77: /dataset/class_groups/b/1: the class \"cat\" is given twice");
  CHECK(problems(R"("class_groups": {"a": ["cat"], "b": []})") ==
        "d.json:1:69: /dataset/class_groups/b: name at least one class");
  CHECK(problems(R"("class_groups": ["cat"])") ==
        "d.json:1:49: /dataset/class_groups: expected an object {\"name\": [classes]}, got a list");
  CHECK(problems(R"("class_groups": {"a": "cat"})").find("/dataset/class_groups/a: expected a list") !=
        std::string::npos);
  CHECK(problems(R"("classes": ["cat"], "class_groups": {"a": ["cat"]})") ==
        "d.json:1:53: /dataset/class_groups: classes is given too; leave one of them out");
}

TEST_CASE("descriptor: the label of shapes sets the number of classes") {
  DescriptorFiles files;
  const auto config = [&](const std::string& label) {
    return files.load(R"({"dataset": {"name": "shapes", "label": ")" + label + "\"}}").trials[0].config;
  };
  const std::pair<const char*, int> kExpected[] = {
      {"relation", 10}, {"kind", 5}, {"colour", 8}, {"number", 4}, {"position", 9}};
  for (const auto& [label, classes] : kExpected) {
    CHECK(vit_of(config(label)).num_classes == classes);
    CHECK(config_from_json(canonical_json(config(label)), "canonical") == config(label));
  }
  CHECK(canonical_json(config("relation")).find("label") == std::string::npos);
  CHECK(files.problems(R"({"dataset": {"name": "shapes", "label": "color"}})") ==
        "d.json:1:41: /dataset/label: unknown word \"color\"; did you mean \"colour\"?");
  CHECK(files.problems(R"({"dataset": {"name": "gratings", "label": "kind"}})") ==
        "d.json:1:34: /dataset/label: only shapes has labels to choose from");
  CHECK(files
            .problems(R"({"dataset": {"name": "shapes", "label": "position", "train_images": 8},
                           "train": {"batch_size": 4}})")
            .find("the training images lack 1 of the 9 classes") != std::string::npos);
}
