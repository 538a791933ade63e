#include "experiments/lab/trials/times_file.h"

#include <nlohmann/json.hpp>

namespace normlab {

std::string times_text(const EpochTime& time) {
  return nlohmann::ordered_json{{"epoch", time.epoch},
                                {"step", time.step},
                                {"steps", time.steps},
                                {"seconds", time.seconds},
                                {"evaluation_seconds", time.evaluation_seconds}}
      .dump();
}

}  // namespace normlab
