#include <fmt/core.h>

#include <map>
#include <optional>

#include "core/error.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/canonical.h"
#include "experiments/lab/pictures/page.h"
#include "experiments/lab/pictures/report.h"
#include "experiments/lab/tables/markup.h"

namespace normlab {
namespace {

using Provenance = std::map<std::string, std::string>;

using Results = std::map<std::string, std::optional<TrialResult>>;  // by trial

/// Leaves out trials that the table could not read; the table reports those.
Results read_results(const ReportInput& input) {
  Results results;
  for (const TableLine& line : input.table.lines)
    for (const TableSeed& seed : line.seeds) {
      if (!line.is_planned()) continue;  // no trial of its own
      std::optional<TrialResult>& result = results[seed.trial];
      if (seed.state != SeedState::unreadable) result = input.store.trial(seed.trial).load_result();
    }
  return results;
}

/// The provenance that all results share.
Provenance shared_provenance(const Results& results) {
  std::optional<Provenance> shared;
  for (const auto& [id, result] : results) {
    if (!result) continue;
    const Provenance& provenance = result->provenance;
    if (!shared) shared = provenance;
    std::erase_if(*shared, [&](const auto& entry) {
      const auto found = provenance.find(entry.first);
      return found == provenance.end() || found->second != entry.second;
    });
  }
  return shared.value_or(Provenance());
}

std::string term(const std::string& name, const std::string& text) {
  return html_element("dt", name) + html_element("dd", text);
}

std::string state_words(const TableSeed& seed) {
  std::string words(word_of(seed.state));
  if (seed.state == SeedState::diverged) {
    words += fmt::format(" after step {}", seed.diverged_step);
    if (!seed.diverged_site.empty()) words += " at " + seed.diverged_site;
  }
  const bool going = seed.state == SeedState::running || seed.state == SeedState::stopped;
  if (going) words += " " + percent_done(seed.progress);
  return words;
}

std::string duration(double seconds) {
  if (seconds < 120) return fmt::format("{:.1f} s", seconds);
  return seconds < 7200 ? fmt::format("{:.1f} minutes", seconds / 60) : fmt::format("{:.1f} hours", seconds / 3600);
}

std::string result_terms(const TrialResult& result, const Provenance& shared) {
  std::string html;
  if (!result.sealed) html += term("seal", "none: " + std::string(kUnsealedWords));
  for (const auto& [name, value] : result.metrics) html += term(name, fmt::format("{}", value));
  for (const auto& [name, slice] : result.slices) html += term(name + " images", fmt::format("{}", slice.images));
  html += term("time", duration(result.wall_seconds) + fmt::format(", {:.0f} images/s", result.images_per_second));
  if (result.peak_mb > 0) html += term("peak memory", fmt::format("{} MB", result.peak_mb));
  if (result.steps > 0) html += term("steps", fmt::format("{}", result.steps));
  if (result.stopped_early_step)
    html += term("stopped early", fmt::format("after step {}", *result.stopped_early_step));
  if (result.early_stop_rule) html += term("early stop", *result.early_stop_rule);
  if (result.diverged_rule) html += term("diverged by", *result.diverged_rule);
  if (result.diverged_value) html += term("value there", fmt::format("{}", *result.diverged_value));
  if (result.resumed > 0)
    html += term("resumed", fmt::format("{} from a checkpoint{}", plural(result.resumed, "time"),
                                        result.different_bits ? ", under a program with other bits" : ""));
  if (!result.bad_images.empty()) html += term("images left out", joined(result.bad_images, "; "));
  for (const auto& [name, value] : result.provenance)
    if (const auto found = shared.find(name); found == shared.end() || found->second != value)
      html += term(name, value);
  return html;
}

std::string trial_part(const TableSeed& seed, const std::optional<TrialResult>& result, const TableModel& table,
                       const Provenance& shared) {
  const bool fine = seed.state == SeedState::done;
  std::string html = "<details class=\"trial\" id=\"trial-" + escaped(seed.trial) + "\"><summary>";
  html += html_element("span", fmt::format("seed {}", seed.seed), "name");
  html += html_element("span", state_words(seed), fine ? "" : "warn");
  if (seed.value)
    html += html_element("span", fmt::format("{:.6g}{}", table.scale * *seed.value, table.unit == "%" ? " %" : ""));
  if (seed.gain) html += html_element("span", fmt::format("gain {:+.4g}", *seed.gain));
  html += "</summary>\n<dl>" + term("trial", seed.trial) + term("state", state_words(seed));
  if (!seed.message.empty()) html += term("message", seed.message);
  if (result) html += result_terms(*result, shared);
  html += "</dl>\n";
  if (result && !shared.empty())
    html += "<p class=\"soft\">The rest is <a href=\"#provenance\">the same in every trial</a>.</p>\n";
  return html + "</details>\n";
}

std::string difference_table(const std::string& base_label, const std::string& label, const TrialConfig& base,
                             const TrialConfig& other) {
  const auto differences = config_differences(base, other);
  if (differences.empty()) return html_element("p", "No setting differs from " + base_label + "'s.");
  const auto value = [](const std::string& text) {
    return "<td><code>" + (text.empty() ? "\u2013" : escaped(text)) + "</code></td>";
  };
  std::string html = "<div class=\"scroll\" tabindex=\"0\"><table>" +
                     html_element("caption", "Settings that differ from the baseline's") +
                     "<thead><tr><th scope=\"col\">setting</th>";
  for (const std::string& heading : {base_label, label}) html += "<th scope=\"col\">" + escaped(heading) + "</th>";
  html += "</tr></thead>\n";
  for (const SettingDifference& difference : differences)
    html += "<tr><th scope=\"row\"><code>" + escaped(difference.path) + "</code></th>" + value(difference.base) +
            value(difference.other) + "</tr>\n";
  return html + "</table></div>\n";
}

std::string row_summary(const TableLine& line) {
  std::string html = "<summary>" + html_element("span", line.label, "name");
  if (!line.mean.text.empty())
    html += html_element("span", with_interval(line.mean, line.half_width) + " (" + line.count + ")");
  if (line.is_baseline)
    html += html_element("span", "baseline", "soft");
  else if (const std::string gain = gain_cell(line).text(); !gain.empty())
    html += html_element("span", "gain " + gain);
  if (!line.notes.empty()) html += html_element("span", joined(line.notes, ", "), "warn");
  return html + "</summary>\n";
}

}  // namespace

std::string trials_section(const ReportInput& input) {
  const Results results = read_results(input);
  const Provenance shared = shared_provenance(results);
  const auto config_of = [&](std::size_t row) -> const TrialConfig* {
    const auto& indices = input.experiment.rows[row].trials;
    return indices.empty() ? nullptr : &input.experiment.trials[indices.front()].config;
  };
  std::string html =
      "<section id=\"trials\">\n<h2>Trials</h2>\n"
      "<p class=\"soft\">For each row: what its config changes, its trials with their provenance, and its whole "
      "config.</p>\n"
      "<div class=\"tools\" hidden><button type=\"button\" id=\"open-all\">Open all</button><button type=\"button\" "
      "id=\"close-all\">Close all</button></div>\n";
  for (const TableLine& line : input.table.lines) {
    if (!line.is_planned()) continue;
    html += fmt::format("<details class=\"row\" id=\"row-{0}\" data-row=\"{0}\">", line.plan_index) + row_summary(line);
    const TrialConfig* config = config_of(line.plan_index);
    if (config != nullptr && line.baseline && *line.baseline != line.plan_index)
      if (const TrialConfig* base = config_of(*line.baseline))
        html += difference_table(input.experiment.rows[*line.baseline].label, line.label, *base, *config);
    for (const TableSeed& seed : line.seeds) html += trial_part(seed, results.at(seed.trial), input.table, shared);
    if (config != nullptr)
      html += "<details><summary>Whole config, with the first seed</summary><pre tabindex=\"0\">" +
              escaped(full_json(*config)) + "</pre></details>\n";
    html += "</details>\n";
  }
  if (!shared.empty()) {
    html += "<h3 id=\"provenance\">The same in every trial that has a result</h3>\n<dl>";
    for (const auto& [name, value] : shared) html += term(name, value);
    html += "</dl>\n";
  }
  return html + "</section>\n";
}

}  // namespace normlab
