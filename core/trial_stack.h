// Networks that one thread trains side by side on one device. Where they take steps of equal sizes, these run together,
// so that small networks fill a large device.
#pragma once

#include "core/function_ref.h"

namespace normlab {

class Backend;

class TrialStack {
 public:
  virtual ~TrialStack() = default;
  virtual int places() const = 0;
  /// That of the network in this place, which uses no other.
  virtual Backend& backend(int place) = 0;
  /// Calls body(place) for each place, each on a fiber (core/fiber.h) of this thread, and returns when all have
  /// returned. Then throws what the first of them threw.
  virtual void run(FunctionRef<void(int place)> body) = 0;
  /// In the body: lets the others go on, without this network, until `ready` is true.
  virtual void wait(FunctionRef<bool()> ready) = 0;
};

}  // namespace normlab
