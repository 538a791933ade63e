// A complete device: memory, kernels, updates and product settings. Code that needs only one part includes that
// part's header.
#pragma once

#include <vector>

#include "core/device.h"
#include "core/devices.h"
#include "core/kernels.h"
#include "core/updates.h"

/// Declares a function of NORMLAB_KERNELS or NORMLAB_UPDATES in a device's class.
#define NORMLAB_OVERRIDE(...) void __VA_ARGS__ override;

namespace normlab {

/// A product of a step by a device's library, and what Backend::tune_products() measured.
struct TunedProduct {
  std::string product;            // its sizes and types, as product_choices() names it
  std::int64_t calls = 0;         // since choose_products()
  double first = 0, best = 0;     // seconds of a call with the library's first algorithm, and with the one taken
  int taken = 0, candidates = 0;  // the place of the one taken among those of the library, from 0; how many there are
};

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
  /// Uses the algorithms of a file, from now on, for products that choose_products() is given none for, and names its
  /// SHA-256 in provenance(). Throws InputError (file and line) if this device cannot use one of them.
  virtual void prefer_products([[maybe_unused]] const ProductAlgorithms& algorithms) {}
  /// Times the library's algorithms for each product since choose_products(), in rounds of all that total so many
  /// `seconds` for each algorithm, and chooses another than the first where it is at least 3% faster.
  virtual std::vector<TunedProduct> tune_products([[maybe_unused]] double seconds) { return {}; }
};

}  // namespace normlab
