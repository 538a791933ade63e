#include "experiments/sweep/stages.h"

namespace normlab {

Experiment next_stage(Experiment loaded, const ResultStore&, Record) { return loaded; }

std::vector<std::string> stage_notes(const Experiment&) { return {}; }

}  // namespace normlab
