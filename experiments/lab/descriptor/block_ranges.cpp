// The "blocks" of a placement, applied over its other sites.
#include <optional>

#include "core/visible_text.h"
#include "experiments/lab/base/text_layout.h"
#include "experiments/lab/descriptor/forms.h"
#include "nn/model/limits.h"

namespace normlab {
namespace {

/// Of "3", "0-3" or "0-25%"; percent are written as their first and last whole percent, 0 and 24. nullopt for any other
/// form, including leading zeros and "3-3".
struct ReadRange {
  std::int64_t first, last;
  bool percent;
};
std::optional<ReadRange> read_block_range(std::string_view text) {
  const bool percent = text.ends_with('%');
  if (percent) text.remove_suffix(1);
  const auto number = [](std::string_view digits) -> std::optional<std::int64_t> {
    const auto value = std::int64_t(whole_number(digits).value_or(0));
    return std::to_string(value) == digits ? std::optional(value) : std::nullopt;
  };
  const std::size_t dash = text.find('-');
  const auto first = number(text.substr(0, dash)), last = dash == text.npos ? first : number(text.substr(dash + 1));
  if (!first || !last || (dash != text.npos && *first >= *last)) return std::nullopt;
  if (!percent) return ReadRange{*first, *last, false};
  if (dash == text.npos || *last > 100) return std::nullopt;
  return ReadRange{*first, *last - 1, true};
}

}  // namespace

void Form<Placement>::read_blocks(FieldReader& in, const JsonNode& node, Placement& out) {
  if (!node.is_object())
    return in.report(node.at,
                     "expected an object of blocks such as {\"0-3\": {\"attn\": {...}}}, got " + describe(node));
  struct Given {
    std::int64_t first, last;
    const JsonMember* member;
  };
  std::vector<Given> ranges;
  const JsonMember* rest = nullptr;
  for (const JsonMember& member : node.members) {
    if (member.key == kOtherBlocks) {
      rest = &member;
      continue;
    }
    const auto read = read_block_range(member.key);
    if (!read) {
      in.report(member.key_at, "expected blocks as \"3\", \"0-3\", \"0-25%\" or \"rest\"");
      continue;
    }
    const std::int64_t first = read->first, last = read->last;
    if (out.blocks.empty() && ranges.empty()) out.in_percent = read->percent;
    if (out.in_percent != read->percent) {
      in.report(member.key_at, concat("is in ", read->percent ? "percent of the depth" : "numbers of blocks",
                                      ", but the ranges ", ranges.empty() ? "of the base" : "before it", " are not"));
      continue;
    }
    if (last >= limits::kDepth) {
      in.report(member.key_at, concat("no network has block ", last, "; the last block of the deepest network is ",
                                      limits::kDepth - 1));
      continue;
    }
    const auto other = std::find_if(ranges.begin(), ranges.end(),
                                    [&](const Given& given) { return given.first <= last && first <= given.last; });
    if (other != ranges.end())
      in.report(member.key_at,
                concat("overlaps ", in_quotes(other->member->key), "; a block takes its sites from one range only"));
    else
      ranges.push_back({first, last, &member});
  }
  for (const Given& given : ranges) carve_blocks(out, given.first, given.last);
  const auto read_range = [&](BlockRange& range, const JsonMember& member) { in.object(member.value, range); };
  for (BlockRange& range : out.blocks) {
    const auto owner = std::find_if(ranges.begin(), ranges.end(), [&](const Given& given) {
      return given.first <= range.first && range.last <= given.last;
    });
    if (owner != ranges.end())
      read_range(range, *owner->member);
    else if (rest != nullptr)
      read_range(range, *rest);
  }
  if (rest == nullptr) return;
  BlockRange others{0, 0, out.attn, out.mlp};
  read_range(others, *rest);
  out.attn = others.attn;
  out.mlp = others.mlp;
}

}  // namespace normlab
