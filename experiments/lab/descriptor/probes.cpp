#include "experiments/lab/descriptor/probes.h"

#include <set>

#include "experiments/lab/descriptor/forms.h"

namespace normlab {
bool ProbeConfig::empty() const {
  return !without_block &&
         std::all_of(kProbeRows.begin(), kProbeRows.end(), [&](const ProbeRow& row) { return of(row.kind).empty(); });
}

void Form<std::vector<ProbeStep>>::read(FieldReader& in, const JsonNode& node, std::vector<ProbeStep>& out, Range) {
  if (!node.is_array()) return in.report(node.at, "expected a list of steps, got " + describe(node));
  std::set<std::int64_t> seen;
  for (const JsonNode& item : node.items) {
    std::int64_t step = 0;
    const std::size_t before = in.reported();
    in.value(item, step, kFromZero);
    if (in.reported() != before) continue;
    if (!seen.insert(step).second)
      in.report(item.at, concat("step ", step, " is given twice"));
    else
      out.push_back({step, concat(to_string(item.at), ": ", item.at.pointer())});
  }
}

void Form<ProbeSteps>::read(FieldReader& in, const JsonNode& node, ProbeSteps& out, Range) {
  if (node.is_array()) return in.value(node, out.listed);
  if (node.is_number()) return in.value(node, out.every, kFromOne);
  if (!node.is_object())
    return in.report(node.at,
                     "expected a list of steps, a number n for every n-th step, or an object with \"at\", "
                     "\"every\" and \"last\", got " +
                         describe(node));
  in.object(node, out);
  if (out.last > 0 && out.every == 0)
    in.report(node.at, "\"last\" keeps the last of the steps of \"every\", which is missing");
}

void Form<ProbeConfig>::read(FieldReader& in, const JsonNode& node, ProbeConfig& out, Range) {
  if (!node.is_object())
    return in.report(node.at, "expected an object such as {\"signal\": [0, 1000]}, got " + describe(node));
  in.object(node, out);
}

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

void require_within_training(const ProbeConfig& probes, std::int64_t steps, const std::string& training) {
  std::string text;
  for (const ProbeRow& row : kProbeRows)
    for (const ProbeStep& wanted : probes.of(row.kind).listed)
      if (wanted.step >= steps)
        text += concat(text.empty() ? "" : "\n", wanted.where, ": step ", wanted.step, " is after the end of ",
                       training, ", whose steps are 0 to ", steps - 1);
  if (!text.empty())
    throw InputError(
        text +
        "\nA probe runs before a step's update; to measure after the last update, use `normlab eval --probe --weights`");
}

}  // namespace normlab
