#include "experiments/lab/pictures/page.h"

#include <fmt/core.h>

#include "core/error.h"
#include "experiments/lab/base/sha256.h"
#include "experiments/lab/pictures/svg.h"
#include "experiments/lab/tables/markup.h"

namespace normlab {
namespace {

/// "sha256-<Base64>": identifies the only script that the page may run.
std::string script_hash(std::string_view script) {
  const std::string hex = sha256_hex(script);
  std::string digest;
  for (std::size_t i = 0; i < hex.size(); i += 2) digest += char(std::stoi(hex.substr(i, 2), nullptr, 16));
  return "sha256-" + base64(digest);
}

}  // namespace

std::string page_start(const std::string& title, int reload_seconds) {
  std::string html =
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'; "
      "img-src data:; script-src '" +
      script_hash(page_script()) + "'; base-uri 'none'; form-action 'none'\">\n";
  if (reload_seconds > 0) html += fmt::format("<meta http-equiv=\"refresh\" content=\"{}\">\n", reload_seconds);
  html += html_element("title", title) + "\n<style>";
  html += page_style();
  html += picture_style();
  return html + "</style>\n</head>\n<body>\n";
}

std::string page_end() { return concat("<script>", page_script(), "</script>\n</body>\n</html>\n"); }

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

}  // namespace normlab
