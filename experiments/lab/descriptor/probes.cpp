#include "experiments/lab/descriptor/probes.h"

#include <set>

#include "experiments/lab/descriptor/field_reader.h"

namespace normlab {
namespace {

constexpr std::string_view kForms =
    "expected a list of steps, a number n for every n-th step, or an object with \"at\", \"every\" and \"last\"";

class ProbeReader {
 public:
  explicit ProbeReader(Problems& problems) : reader_(rows_, problems) {}

  void read(const JsonNode& node, ProbeConfig& out) {
    if (!node.is_object())
      return reader_.report(node.at, "expected an object such as {\"signal\": [0, 1000]}, got " + describe(node));
    std::vector<std::string_view> known{kWithoutBlock};
    for (const ProbeRow& row : kProbeRows) known.push_back(row.word);
    for (const JsonMember& member : node.members) {
      const auto row =
          std::find_if(kProbeRows.begin(), kProbeRows.end(), [&](const ProbeRow& r) { return r.word == member.key; });
      if (row != kProbeRows.end())
        read_steps(member.value, out.of(row->kind));
      else if (member.key == kWithoutBlock)
        reader_.value(member.value, out.without_block, {});
      else
        reader_.report(member.key_at, unknown_key(member.key, known));
    }
  }

 private:
  static constexpr std::string_view kWithoutBlock = "without_block";

  std::int64_t number(const JsonNode& node, Range range) {
    std::int64_t out = 0;
    reader_.value(node, out, range);
    return out;
  }

  std::vector<ProbeStep> list(const JsonNode& list) {
    std::vector<ProbeStep> out;
    std::set<std::int64_t> seen;
    for (const JsonNode& item : list.items) {
      const std::size_t before = reader_.reported();
      const std::int64_t step = number(item, kFromZero);
      if (reader_.reported() != before) continue;
      if (!seen.insert(step).second)
        reader_.report(item.at, concat("step ", step, " is given twice"));
      else
        out.push_back({step, concat(to_string(item.at), ": ", item.at.pointer())});
    }
    return out;
  }

  void read_steps(const JsonNode& node, ProbeSteps& out) {
    if (node.is_array()) {
      out.listed = list(node);
    } else if (node.is_number()) {
      out.every = number(node, kFromOne);
    } else if (node.is_object()) {
      read_parts(node, out);
    } else {
      reader_.report(node.at, concat(kForms, ", got ", describe(node)));
    }
  }

  void read_parts(const JsonNode& node, ProbeSteps& out) {
    for (const JsonMember& member : node.members) {
      if (member.key == "at" && member.value.is_array())
        out.listed = list(member.value);
      else if (member.key == "at")
        reader_.report(member.value.at, "expected a list of steps, got " + describe(member.value));
      else if (member.key == "every")
        out.every = number(member.value, kFromOne);
      else if (member.key == "last")
        out.last = number(member.value, kFromOne);
      else
        reader_.report(member.key_at, unknown_key(member.key, {"at", "every", "last"}));
    }
    if (out.last > 0 && out.every == 0)
      reader_.report(node.at, "\"last\" keeps the last of the steps of \"every\", which is missing");
  }

  PlacementRows rows_;
  FieldReader reader_;
};

}  // namespace

std::vector<std::int64_t> ProbeSteps::kept(std::int64_t trained) const {
  std::set<std::int64_t> steps;
  for (const ProbeStep& step : listed)
    if (step.step < trained) steps.insert(step.step);
  if (every > 0) {
    const std::int64_t measured = (trained + every - 1) / every;
    for (std::int64_t k = last > 0 ? std::max<std::int64_t>(0, measured - last) : 0; k < measured; ++k)
      steps.insert(k * every);
  }
  return {steps.begin(), steps.end()};
}

double added_time(const ProbeConfig& probes, std::int64_t steps) {
  double added = 0;
  for (const ProbeRow& row : kProbeRows) {
    ProbeSteps all = probes.of(row.kind);
    all.last = 0;
    added += (row.cost - 1) * double(all.kept(steps).size());
  }
  return added / double(steps);
}

ProbeConfig read_probes(const JsonNode& node, Problems& problems) {
  ProbeConfig out;
  ProbeReader(problems).read(node, out);
  return out;
}

void require_within_training(const ProbeConfig& probes, std::int64_t steps, const std::string& training) {
  std::string text;
  for (const ProbeSteps& probe : probes.steps)
    for (const ProbeStep& wanted : probe.listed)
      if (wanted.step >= steps)
        text += concat(text.empty() ? "" : "\n", wanted.where, ": step ", wanted.step, " is after the end of ",
                       training, ", whose steps are 0 to ", steps - 1);
  if (!text.empty())
    throw InputError(
        text +
        "\nA probe runs before a step's update; to measure after the last update, use `normlab eval --probe --weights`");
}

}  // namespace normlab
