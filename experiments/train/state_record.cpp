#include "experiments/train/state_record.h"

#include <map>

#include "core/error.h"
#include "experiments/descriptor/sha256.h"
#include "experiments/results/strict_json.h"
#include "experiments/train/checkpoint.h"
#include "experiments/weights/safetensors.h"

namespace normlab {
namespace {

constexpr std::size_t kDigits = 8;  // of a tensor: enough to name the one that differs; `state` is what proves equality

StateRecord parse_record(std::string_view text, const std::string& where) {
  const nlohmann::json json = parse_strict_json(text, where);
  ObjectReader object(json, where);
  StateRecord record;
  record.step = object.integer("step");
  record.state = object.string("state");
  const std::string tensors = object.string("tensors");
  object.finish();
  if (tensors.size() % kDigits != 0) object.fail("tensors", "cut short");
  for (std::size_t at = 0; at < tensors.size(); at += kDigits) record.tensors.push_back(tensors.substr(at, kDigits));
  return record;
}

}  // namespace

StateRecord record_state(Engine& engine) {
  StateRecord record;
  record.step = engine.state().step;
  std::map<std::string, std::string> hashes;
  for_each_state_tensor(engine, [&](const std::string& name, const Tensor& t) {
    const std::string hash = Sha256().update({static_cast<const std::byte*>(t.raw()), t.bytes()}).hex();
    record.tensors.push_back(hash.substr(0, kDigits));
    hashes[name] = hash;
  });
  record.state = hash_of_hashes(hashes);
  return record;
}

std::vector<std::string> state_names(Engine& engine) {
  std::vector<std::string> names;
  for_each_state_tensor(engine, [&](const std::string& name, const Tensor&) { names.push_back(name); });
  return names;
}

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
