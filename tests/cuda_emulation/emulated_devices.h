// The emulated GPU's makers, for tests outside of cuda/.
#pragma once

#include <memory>

#include "core/backend.h"
#include "core/trial_stack.h"

namespace normlab::cuda_emulated {

std::unique_ptr<Backend> make_backend(int number, bool shared = false);
std::unique_ptr<TrialStack> make_stack(int places, int number = 0, bool shared = false);

}  // namespace normlab::cuda_emulated
