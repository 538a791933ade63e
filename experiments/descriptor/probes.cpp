#include "experiments/descriptor/probes.h"

#include <set>

#include "experiments/descriptor/field_reader.h"

namespace normlab {
namespace {

class ProbeReader {
 public:
  explicit ProbeReader(Problems& problems) : reader_(rows_, problems) {}

  std::int64_t number(const JsonNode& node, Range range) {
    std::int64_t out = 0;
    reader_.value(node, out, range);
    return out;
  }

  std::vector<ProbeStep> steps(const JsonNode& list) {
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

  void read(const JsonNode& node, ProbeConfig& out) {
    if (!node.is_object())
      return reader_.report(node.at, "expected an object such as {\"signal\": [0, 1000]}, got " + describe(node));
    for (const JsonMember& member : node.members) {
      const bool list = member.value.is_array();
      if (member.key == "signal") {
        if (list)
          out.signal = steps(member.value);
        else
          reader_.report(member.value.at, "expected a list of steps, got " + describe(member.value));
      } else if (member.key == "gradients") {
        if (list)
          out.gradients = steps(member.value);
        else if (member.value.is_number())
          out.gradients_every = number(member.value, kFromOne);
        else
          reader_.report(member.value.at,
                         "expected a list of steps, or a number n for every n-th step, got " + describe(member.value));
      } else {
        reader_.report(member.key_at, unknown_key(member.key, {"signal", "gradients"}));
      }
    }
  }

 private:
  PlacementRows rows_;
  FieldReader reader_;
};

}  // namespace

ProbeConfig read_probes(const JsonNode& node, Problems& problems) {
  ProbeConfig out;
  ProbeReader(problems).read(node, out);
  return out;
}

void require_within_training(const ProbeConfig& probes, std::int64_t steps, const std::string& training) {
  std::string text;
  for (const std::vector<ProbeStep>* list : {&probes.signal, &probes.gradients})
    for (const ProbeStep& wanted : *list)
      if (wanted.step >= steps)
        text += concat(text.empty() ? "" : "\n", wanted.where, ": step ", wanted.step, " is after the end of ",
                       training, ", whose steps are 0 to ", steps - 1);
  if (!text.empty())
    throw InputError(
        text +
        "\nA probe runs before a step's update; to measure after the last update, use `normlab probe --weights`");
}

}  // namespace normlab
