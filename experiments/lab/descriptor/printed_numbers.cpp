#include "experiments/lab/descriptor/printed_numbers.h"

#include <algorithm>

#include "experiments/lab/descriptor/forms.h"

namespace normlab {

int decimals_of(const JsonNode& number) {
  constexpr std::size_t kMost = 6;
  const std::string written = number.kind == JsonKind::real ? number.text : "";
  const std::size_t point = written.find('.');
  return point == written.npos ? 0 : int(std::min(written.size() - point - 1, kMost));
}

void Form<PrintedPercent>::read(FieldReader& in, const JsonNode& node, PrintedPercent& out, Range) {
  const double value = node.number();
  if (!(kPrintedPercent.low <= value && value <= kPrintedPercent.high))
    return in.report(node.at, "expected a percentage from 1 to 100, such as 86.3, got " + describe(node));
  out = {value, decimals_of(node)};
}

void Form<CommitName>::read(FieldReader& in, const JsonNode& node, CommitName& out, Range) {
  const auto is_digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
  if (!node.is_string() || node.text.size() < 7 || node.text.size() > 40 ||
      !std::all_of(node.text.begin(), node.text.end(), is_digit))
    return in.report(node.at, "expected a commit, 7 to 40 hexadecimal digits, got " + describe(node));
  out = {node.text};
}

void Form<PrintedNumber>::read(FieldReader& in, const JsonNode& node, PrintedNumber& out, Range) {
  out.place = concat(to_string(node.at), ": ", node.at.pointer());
  in.object(node, out);
}

void Form<PrintedNumbers>::read(FieldReader& in, const JsonNode& node, PrintedNumbers& out, Range) {
  if (!in.object(node, out)) return;
  if (out.images == PrintedImages::other && node.find("images_note") == nullptr)
    in.report(node.find("images")->value.at, "needs \"images_note\": which images the results are of");
}

}  // namespace normlab
