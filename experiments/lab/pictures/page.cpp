#include "experiments/lab/pictures/page.h"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <utility>

#include "core/error.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/tables/markup.h"

namespace normlab {
namespace {

/// The style sheet of a page, without the rules for pictures.
constexpr std::string_view kStyle = R"css(
:root{color-scheme:light dark;--back:#fff;--text:#1a1a1a;--soft:#555;--line:#d0d4d9;--fill:#f3f5f7;--link:#005a9c;--warn:#a84300;--shade:#0004}
*{box-sizing:border-box}
body{margin:0 auto;padding:1rem 1.25rem 3rem;max-width:62rem;background:var(--back);color:var(--text);
font:16px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;overflow-wrap:anywhere}
h1{font-size:1.6rem;line-height:1.25;margin:.5rem 0}
h2{font-size:1.25rem;margin:2.5rem 0 .5rem;border-bottom:1px solid var(--line);padding-bottom:.25rem}
h3{font-size:1rem;margin:1.25rem 0 .4rem}
p{margin:.5rem 0;max-width:46rem}
a{color:var(--link)}
nav ul{list-style:none;display:flex;flex-wrap:wrap;gap:.25rem 1.25rem;padding:0;margin:.75rem 0}
.soft,figcaption,.footnotes{color:var(--soft);font-size:.9rem}
.footnotes{padding-left:1.2rem;max-width:46rem}
.footnotes li{margin:.2rem 0}
.problems{border-left:4px solid var(--warn);padding:.25rem .75rem;background:var(--fill)}
.scroll{overflow-x:auto;margin:.5rem 0;background:linear-gradient(to left,var(--back) 1rem,transparent) 100%/2rem 100% no-repeat local,
linear-gradient(to left,var(--shade),transparent) 100%/.75rem 100% no-repeat scroll}
table{border-collapse:collapse;font-variant-numeric:tabular-nums;font-size:.92rem}
caption{text-align:left;color:var(--soft);font-size:.9rem;padding:.25rem 0}
th,td{padding:.3rem .7rem;border-bottom:1px solid var(--line);text-align:left;vertical-align:top;overflow-wrap:normal}
thead th{background:var(--fill)}
#results thead th{white-space:nowrap}
tbody th{font-weight:500}
td.number,th.number{text-align:right}td.number{white-space:nowrap}
#results td:not(.number){min-width:14rem;overflow-wrap:anywhere}
#results tbody th{min-width:6rem;overflow-wrap:anywhere}
#results tr>:first-child{position:sticky;left:0}
#results tbody tr>:first-child{background:var(--back)}
tr.baseline th{font-weight:700}
#results tbody tr.baseline>*{background:var(--fill)}
th button{font:inherit;font-weight:600;color:inherit;background:none;border:0;padding:0;cursor:pointer;text-align:left}
th button::after{content:"\2195";padding-left:.35em;color:var(--soft)}
th[aria-sort=ascending] button::after{content:"\2191";color:var(--text)}
th[aria-sort=descending] button::after{content:"\2193";color:var(--text)}
.tools{display:flex;flex-wrap:wrap;gap:.5rem 1rem;align-items:center;margin:.75rem 0}
.tools[hidden],[data-row][hidden],tr[hidden]{display:none}
input[type=search]{font:inherit;padding:.3rem .5rem;border:1px solid var(--soft);border-radius:4px;background:var(--back);
color:inherit;width:16rem;max-width:100%}
.tools button{font:inherit;padding:.25rem .7rem;border:1px solid var(--soft);border-radius:4px;background:var(--fill);
color:inherit;cursor:pointer}
:focus-visible{outline:3px solid var(--link);outline-offset:2px}
figure{margin:1rem 0}
figcaption{max-width:46rem;margin:.4rem 0}
.picture{max-width:100%;height:auto;display:block}
.narrow{display:none}
.panels{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,17rem),1fr));gap:1rem;margin:.75rem 0}
.panels.large{grid-template-columns:repeat(auto-fill,minmax(min(100%,24rem),1fr))}
.panels .picture{width:100%}
details{margin:.35rem 0}
summary{cursor:pointer;padding:.2rem 0}
details.row{border:1px solid var(--line);border-radius:6px;padding:.1rem .75rem}
details.row>summary{display:flex;flex-wrap:wrap;gap:0 1rem;list-style-position:inside}
details.row>summary::before,details.trial>summary::before{content:"\25B8";color:var(--soft);margin-right:-.4rem}
details.row[open]>summary::before,details.trial[open]>summary::before{content:"\25BE"}
details.row>summary::-webkit-details-marker,details.trial>summary::-webkit-details-marker{display:none}
details.trial{border-top:1px solid var(--line);margin:0}
details.trial>summary{display:flex;flex-wrap:wrap;gap:0 1rem}
summary .name{font-weight:600}
.warn{color:var(--warn)}
dl{display:grid;grid-template-columns:minmax(7rem,max-content) 1fr;gap:.15rem 1rem;margin:.4rem 0;font-size:.9rem}
dt{color:var(--soft)}
dd{margin:0;min-width:0}
code{overflow-wrap:anywhere}
pre,code{font:.85rem/1.4 ui-monospace,SFMono-Regular,Consolas,"DejaVu Sans Mono",monospace}
pre{background:var(--fill);padding:.75rem;overflow-x:auto;overflow-wrap:normal;max-height:30rem}
footer{margin-top:3rem;border-top:1px solid var(--line);padding-top:.5rem}
.skip{position:absolute;left:-100rem}
.skip:focus{left:1rem;top:.5rem;background:var(--back);padding:.3rem .6rem}
@media (max-width:640px){body{padding:.75rem .75rem 2rem}th,td{padding:.3rem .45rem}.wide{display:none}.narrow{display:block}
dl{grid-template-columns:1fr}dd{margin-bottom:.3rem}}
@media screen and (max-width:480px){#results table{font-size:.85rem}#results th,#results td{padding:.3rem .25rem}
#results thead th{white-space:normal}#results tbody th{min-width:4.5rem}#results td:not(.number){min-width:9rem}}
@media screen and (prefers-color-scheme:dark){:root{--back:#15181c;--text:#ececec;--soft:#b5bac0;--line:#3a4048;
--fill:#20252b;--link:#7cc4f5;--warn:#f0a13c;--shade:#fff6}}
@media print{:root{color-scheme:light}body{max-width:none;padding:0;font-size:11pt}.tools,.skip,nav{display:none}
th button::after{content:""}.wide{display:block}.narrow{display:none}
figure svg,.panel,tr{break-inside:avoid}h2,h3,summary{break-after:avoid}.scroll{overflow:visible;background:none}
.panels{grid-template-columns:repeat(3,1fr)}pre{max-height:none;white-space:pre-wrap}a{color:inherit;text-decoration:none}}
)css";

/// Sorts and filters the table and opens the parts below it. A page is readable without it.
constexpr std::string_view kScript = R"js(
(() => {
  "use strict";
  const table = document.querySelector("#results table");
  const body = table && table.tBodies[0];
  if (body) {
    const rows = [...body.rows];
    const headings = [...table.tHead.rows[table.tHead.rows.length - 1].cells];
    const key = (row, column) => {
      const cell = row.cells[column];
      if (!cell) return null;
      if (cell.dataset.sort !== undefined && cell.dataset.sort !== "") return Number(cell.dataset.sort);
      return cell.textContent.trim() || null;
    };
    // Numbers before words, cells without anything last, equal ones in the plan's order.
    const compare = (a, b, sign) => {
      if (a === null || b === null) return (a === null) - (b === null);
      if (typeof a !== typeof b) return typeof a === "number" ? -1 : 1;
      return sign * (typeof a === "number" ? a - b : a.localeCompare(b, "en", { numeric: true }));
    };
    const status = document.getElementById("status");
    const sortBy = (column) => {
      const heading = headings[column];
      const next = { none: "ascending", ascending: "descending", descending: "none" }[heading.getAttribute("aria-sort") || "none"];
      for (const other of headings) other.removeAttribute("aria-sort");
      const order = rows.map((row, place) => ({ row, place }));
      if (next !== "none") {
        heading.setAttribute("aria-sort", next);
        const sign = next === "ascending" ? 1 : -1;
        order.sort((a, b) => compare(key(a.row, column), key(b.row, column), sign) || a.place - b.place);
      }
      for (const { row } of order) body.append(row);
    };
    headings.forEach((heading, column) => {
      const button = document.createElement("button");
      button.type = "button";
      button.append(...heading.childNodes);
      button.title = "sort by this column: rising, falling, as planned";
      button.addEventListener("click", () => sortBy(column));
      heading.append(button);
    });
    const filter = document.getElementById("filter");
    const apply = () => {
      const words = filter.value.toLowerCase().split(/\s+/).filter(Boolean);
      const shown = new Set();
      let known = true, count = 0;
      for (const row of rows) {
        const text = row.textContent.toLowerCase();
        row.hidden = !words.every((word) => text.includes(word));
        if (row.hidden) continue;
        count += 1;
        if (row.dataset.rows === undefined) known = false;
        else row.dataset.rows.split(" ").forEach((number) => shown.add(number));
      }
      for (const part of document.querySelectorAll("[data-row]"))
        part.hidden = known && words.length > 0 && !shown.has(part.dataset.row);
      status.textContent = words.length ? `${count} of ${rows.length} rows` : "";
    };
    filter.addEventListener("input", apply);
    filter.addEventListener("keydown", (event) => {
      if (event.key !== "Escape") return;
      filter.value = "";
      apply();
    });
    if (filter.value) apply();
  }
  for (const [id, open] of [["open-all", true], ["close-all", false]])
    document.getElementById(id).addEventListener("click", () => {
      for (const part of document.querySelectorAll("#trials details.row, #trials details.trial")) part.open = open;
    });
  for (const tools of document.querySelectorAll(".tools")) tools.hidden = false;
  // A page that loads itself again stays where it was, with the same words in the filter and the same parts open.
  try {
    const name = "normlab " + location.pathname, filter = document.getElementById("filter");
    const parts = () => [...document.querySelectorAll("details")];
    const kept = JSON.parse(sessionStorage.getItem(name));
    sessionStorage.removeItem(name);
    if (kept) {
      filter.value = kept.filter;
      filter.dispatchEvent(new Event("input"));
      parts().forEach((part, place) => { part.open = kept.open[place] ?? part.open; });
      scrollTo(0, kept.top);
    }
    if (document.querySelector("meta[http-equiv=refresh]"))
      addEventListener("pagehide", () => sessionStorage.setItem(name, JSON.stringify(
        { top: scrollY, filter: filter.value, open: parts().map((part) => part.open) })));
  } catch (error) {}  // a browser that keeps nothing for files
})();
)js";

/// "sha256-<Base64>": identifies the only script that the page may run.
std::string script_hash() {
  const std::string hex = sha256_hex(kScript);
  std::string digest;
  for (std::size_t i = 0; i < hex.size(); i += 2) digest += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  return "sha256-" + base64(digest);
}

/// Width of a character as a share of the font size, an upper estimate.
constexpr double kCharacterWidth = 0.58;

std::size_t columns_in(double width, double font_size) {
  return std::size_t(std::max(1.0, width / (kCharacterWidth * font_size)));
}

}  // namespace

std::string page_start(const std::string& title, int reload_seconds) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "img-src data:; script-src '" +
      script_hash() + "'; base-uri 'none'; form-action 'none'\">\n";
  if (reload_seconds > 0) html += fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", reload_seconds);
  html += html_element("title", title) + "\n<style>";
  return concat(html, kStyle, picture_style(), "</style>\n</head>\n<body>\n");
}

std::string page_end() { return concat("<script>", kScript, "</script>\n</body>\n</html>\n"); }

std::string html_element(std::string_view tag, std::string_view text, std::string_view name) {
  return fmt::format("<{}{}{}{}>{}</{}>", tag, name.empty() ? "" : " class=\"", name, name.empty() ? "" : "\"",
                     escaped(text), tag);
}

std::string html_table(const std::vector<std::vector<std::string>>& rows, const std::string& caption) {
  std::string html = "<table>" + (caption.empty() ? "" : html_element("caption", caption));
  for (const std::vector<std::string>& row : rows) {
    const bool heading = &row == &rows.front();
    html += heading ? "<thead><tr>" : "<tr>";
    for (const std::string& cell : row)
      html += heading                 ? "<th scope=\"col\">" + escaped(cell) + "</th>"
              : &cell == &row.front() ? "<th scope=\"row\">" + escaped(cell) + "</th>"
                                      : html_element("td", cell);
    html += heading ? "</tr></thead>\n" : "</tr>\n";
  }
  return html + "</table>";
}

std::string svg_number(double value) {
  if (!std::isfinite(value)) return "0";  // callers draw finite numbers only; this keeps the SVG valid
  std::string text = fmt::format("{:.2f}", value);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

void SvgWriter::begin(std::string_view tag, SvgAttributes attributes) {
  out_ += '<';
  out_ += tag;
  for (const SvgAttribute& attribute : attributes) {
    if (attribute.value.empty()) continue;
    out_ += ' ';
    out_ += attribute.name;
    out_ += "=\"" + escaped(attribute.value) + '"';
  }
}

void SvgWriter::open(std::string_view tag, SvgAttributes attributes) {
  begin(tag, attributes);
  out_ += ">\n";
  open_.emplace_back(tag);
}

void SvgWriter::close() {
  out_ += "</" + open_.back() + ">\n";
  open_.pop_back();
}

void SvgWriter::element(std::string_view tag, SvgAttributes attributes, std::string_view hover) {
  begin(tag, attributes);
  if (hover.empty())
    out_ += "/>\n";
  else
    out_ += "><title>" + escaped(hover) + "</title></" + std::string(tag) + ">\n";
}

void SvgWriter::text(std::string_view tag, std::string_view content, SvgAttributes attributes) {
  begin(tag, attributes);
  out_ += '>' + escaped(content) + "</" + std::string(tag) + ">\n";
}

std::string SvgWriter::take() {
  open_.clear();
  return std::exchange(out_, {});
}

// Okabe and Ito's colours, which colour-blind readers can distinguish; shapes and dashes carry the same information.
// Without CSS variables and nesting, so that programs that only render SVG can read it.
std::string_view picture_style() {
  return R"css(
.picture{font-family:system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif;font-size:12px}
.picture text{fill:#1a1a1a}
.picture .p-back{fill:#ffffff}
.picture .p-soft{fill:#555555;font-size:11px}
.picture .p-head{font-weight:600;font-size:13px}
.picture .p-end{text-anchor:end}
.picture .p-mid{text-anchor:middle}
.picture .p-grid{stroke:#dddddd}
.picture .p-lane{stroke:#eeeeee}
.picture .p-zero{stroke:currentColor;stroke-width:1.5}
.picture .p-bar,.picture .p-many{stroke:currentColor;stroke-width:2;fill:none;stroke-linejoin:round}
.picture .p-dot{fill:currentColor;fill-opacity:.35;stroke:currentColor}
.picture .p-mean{fill:#ffffff;stroke:currentColor;stroke-width:2}
.picture .p-clear,.picture .p-band,.picture .p-point,.picture .p-pixel,.picture .p-level{fill:currentColor}
.picture .p-band{fill-opacity:.22}
.picture .p-cross{stroke:currentColor;stroke-width:2.5;fill:none}
.picture .p-note{fill:#a84300;font-size:11px}
.picture .p-mark{fill:none;stroke:currentColor;stroke-width:1.3}
.picture .p-dots{fill:none;stroke:currentColor;stroke-width:3;stroke-linecap:round;stroke-opacity:.7}
.picture .p-s0{color:#1a1a1a}.picture .p-s1{color:#0072b2}.picture .p-s2{color:#d55e00}.picture .p-s3{color:#009e73}
.picture .p-s4{color:#cc79a7}.picture .p-s5{color:#b98900}.picture .p-s6{color:#3f9fd0}.picture .p-s7{color:#777777}
.picture .p-f0,.picture .p-f1,.picture .p-f4,.picture .p-f7{fill:currentColor}
.picture .p-f2,.picture .p-f6{fill:#ffffff}
.picture .p-d1{stroke-dasharray:7 3}.picture .p-d2{stroke-dasharray:2 2}.picture .p-d3{stroke-dasharray:9 3 2 3}
.picture .p-d5{stroke-dasharray:5 5}.picture .p-d6{stroke-dasharray:12 4}.picture .p-d7{stroke-dasharray:3 2 9 2}
.picture .p-base{stroke-width:1.4;stroke-dasharray:5 3}
.picture .p-note,.picture .p-label{paint-order:stroke;stroke:#ffffff;stroke-width:3px}
@media screen and (prefers-color-scheme:dark){
.picture text{fill:#ececec}
.picture .p-back{fill:#15181c}
.picture .p-soft{fill:#b5bac0}
.picture .p-grid{stroke:#3a4048}
.picture .p-lane{stroke:#282d33}
.picture .p-mean,.picture .p-f2,.picture .p-f6{fill:#15181c}
.picture .p-clear{fill:currentColor}
.picture .p-s0{color:#ececec}.picture .p-s1{color:#56b4e9}.picture .p-s2{color:#f0a13c}.picture .p-s3{color:#2fce9f}
.picture .p-s4{color:#e39fc6}.picture .p-s5{color:#e6d04a}.picture .p-s6{color:#8fd0f5}.picture .p-s7{color:#a5a5a5}
.picture .p-note{fill:#f0a13c}
.picture .p-note,.picture .p-label{stroke:#15181c}
}
)css";
}

double text_width(std::string_view text, double font_size) {
  return kCharacterWidth * font_size * double(display_width(text));
}

std::vector<std::string> lines_of(const std::string& text, double width, double font_size) {
  return wrapped(text, columns_in(width, font_size));
}

std::string fitted(const std::string& text, double width, double font_size) {
  return shorten_middle(text, columns_in(width, font_size));
}

}  // namespace normlab
