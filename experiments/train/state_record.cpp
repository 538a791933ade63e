#include "experiments/train/state_record.h"

#include <map>

#include "experiments/base/safetensors.h"
#include "experiments/base/sha256.h"
#include "experiments/train/checkpoint.h"

namespace normlab {

StateRecord record_state(Engine& engine) {
  StateRecord record;
  record.step = engine.state().step;
  std::map<std::string, std::string> hashes;
  for_each_state_tensor(engine, [&](const std::string& name, const Tensor& t) {
    const std::string hash = Sha256().update({static_cast<const std::byte*>(t.raw()), t.bytes()}).hex();
    record.tensors.push_back(hash.substr(0, kStateDigits));
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

}  // namespace normlab
