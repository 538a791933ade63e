#include "experiments/lab/trials/state_log.h"

#include "core/error.h"
#include "experiments/lab/base/files.h"
#include "experiments/lab/base/strict_json.h"

namespace normlab {
namespace {

StateRecord parse_record(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_strict_json(text, where);
  ObjectReader object(json, where);
  StateRecord record;
  record.step = object.integer("step");
  record.state = object.string("state");
  const std::string tensors = object.string("tensors");
  object.finish();
  if (tensors.size() % kStateDigits != 0) object.fail("tensors", "cut short");
  for (std::size_t at = 0; at < tensors.size(); at += kStateDigits)
    record.tensors.push_back(tensors.substr(at, kStateDigits));
  return record;
}

}  // namespace

std::string write_state_record(const StateRecord& record) {
  std::string tensors;
  for (const std::string& digits : record.tensors) tensors += digits;
  return nlohmann::ordered_json{{"step", record.step}, {"state", record.state}, {"tensors", tensors}}.dump();
}

std::vector<StateRecord> read_state_records(const std::filesystem::path& path) {
  std::vector<StateRecord> records;
  if (!std::filesystem::exists(path)) return records;
  const std::string text = read_file(path);
  std::size_t begin = 0;
  for (std::size_t end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
    records.push_back(parse_record(std::string_view(text).substr(begin, end - begin),
                                   concat(path.string(), ':', records.size() + 1)));
  return records;
}

}  // namespace normlab
