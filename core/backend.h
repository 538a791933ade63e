// A device with its kernels and updates, and how it computes products. Each part has a header of its own; code that
// needs one part includes that one.
#pragma once

#include "core/device.h"
#include "core/devices.h"
#include "core/kernels.h"
#include "core/updates.h"

/// A declaration from NORMLAB_KERNELS or NORMLAB_UPDATES inside the class of a device.
#define NORMLAB_OVERRIDE(...) void __VA_ARGS__ override;

namespace normlab {

class Backend : public Device, public Kernels, public Updates {
 public:
  /// This device with products in bf16 done that way. Throws EnvironmentError where it lacks the instructions.
  virtual Backend& with_bf16(Bf16Products) = 0;
  /// This device with products of floats that round their inputs to 10 bits after the first (TF32). Throws
  /// EnvironmentError where there are no such products.
  virtual Backend& with_tf32() = 0;
  /// Which algorithm each product uses, on a device that chooses one by itself, in a form for choose_products(). Empty
  /// where there is no choice. All backends of one device share the choice.
  virtual std::string product_choices() const { return {}; }
  /// From here on as in `recorded` ("": by the device's own choice). InputError where this device cannot.
  virtual void choose_products([[maybe_unused]] const std::string& recorded) {}
};

}  // namespace normlab
