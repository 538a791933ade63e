// A complete device: memory, kernels, updates and product settings. Code that needs only one part includes that
// part's header.
#pragma once

#include "core/device.h"
#include "core/devices.h"
#include "core/kernels.h"
#include "core/updates.h"

/// Declares a function of NORMLAB_KERNELS or NORMLAB_UPDATES in a device's class.
#define NORMLAB_OVERRIDE(...) void __VA_ARGS__ override;

namespace normlab {

class Backend : public Device, public Kernels, public Updates {
 public:
  /// This device with bf16 products computed in the given way. Throws EnvironmentError if it lacks the instructions.
  virtual Backend& with_bf16(Bf16Products) = 0;
  /// This device with float products that round their inputs to 10 mantissa bits (TF32). Throws EnvironmentError if it
  /// has no such products.
  virtual Backend& with_tf32() = 0;
  /// The algorithms chosen for products so far, in the form that choose_products() reads. Empty on a device that does
  /// not choose. All backends of one device share the choice.
  virtual std::string product_choices() const { return {}; }
  /// Uses the algorithms in `recorded` from now on; "" restores the device's own choice. Throws InputError if this
  /// device cannot use them.
  virtual void choose_products([[maybe_unused]] const std::string& recorded) {}
};

}  // namespace normlab
