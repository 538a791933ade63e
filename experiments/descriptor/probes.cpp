#include "experiments/descriptor/probes.h"

#include <set>

#include "experiments/descriptor/field_reader.h"

namespace normlab {
namespace {

class ProbeReader {
 public:
  explicit ProbeReader(Problems& problems) : reader_(rows_, problems) {}

  std::int64_t number(const JsonNode& node, const JsonPath& path, Range range) {
    std::int64_t out = 0;
    reader_.value(node, path, out, range);
    return out;
  }

  std::vector<ProbeStep> steps(const JsonNode& list, const JsonPath& path) {
    std::vector<ProbeStep> out;
    std::set<std::int64_t> seen;
    for (std::size_t i = 0; i < list.items.size(); ++i) {
      const JsonNode& item = list.items[i];
      const std::string index = std::to_string(i);
      const JsonPath here{&path, index, &item.at};
      const std::size_t before = reader_.reported();
      const std::int64_t step = number(item, here, kFromZero);
      if (reader_.reported() != before) continue;
      if (!seen.insert(step).second)
        reader_.report(item.at, here, concat("step ", step, " is given twice"));
      else
        out.push_back({step, concat(to_string(item.at), ": ", here.pointer())});
    }
    return out;
  }

  void read(const JsonNode& node, const JsonPath& path, ProbeConfig& out) {
    if (!node.is_object()) return reader_.report(node.at, path, "expected an object, got " + describe(node));
    for (const JsonMember& member : node.members) {
      const JsonPath here{&path, member.key, &member.value.at};
      const bool list = member.value.kind == JsonKind::array;
      if (member.key == "signal") {
        if (list)
          out.signal = steps(member.value, here);
        else
          reader_.report(member.value.at, here, "expected a list of steps, got " + describe(member.value));
      } else if (member.key == "gradients") {
        if (list)
          out.gradients = steps(member.value, here);
        else if (member.value.is_number())
          out.gradients_every = number(member.value, here, kFromOne);
        else
          reader_.report(member.value.at, here,
                         "expected a list of steps, or a number n for every n-th, got " + describe(member.value));
      } else {
        reader_.report(member.key_at, JsonPath{&path, member.key, &member.key_at},
                       unknown_key(member.key, {"signal", "gradients"}));
      }
    }
  }

 private:
  PlacementRows rows_;
  FieldReader reader_;
};

}  // namespace

ProbeConfig read_probes(const JsonNode& node, const JsonPath& path, Problems& problems) {
  ProbeConfig out;
  ProbeReader(problems).read(node, path, out);
  return out;
}

void require_within_training(const ProbeConfig& probes, std::int64_t steps, const std::string& training) {
  std::string text;
  for (const std::vector<ProbeStep>* list : {&probes.signal, &probes.gradients})
    for (const ProbeStep& wanted : *list)
      if (wanted.step >= steps)
        text += concat(text.empty() ? "" : "\n", wanted.where, ": step ", wanted.step, " is beyond ", training,
                       ", whose steps are 0 to ", steps - 1);
  if (!text.empty())
    throw InputError(text +
                     "\nA probe comes before a step's update; after the last one, use `normlab probe --weights`");
}

}  // namespace normlab
