#include "experiments/lab/pictures/page.h"

namespace normlab {

std::string_view page_script() {
  return R"js(
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
}

}  // namespace normlab
