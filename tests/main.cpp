#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <iostream>

#include "core/error.h"
#include "tests/devices.h"

int main(int argc, char** argv) {
  doctest::Context context(argc, argv);
  const int failed = context.run();
  try {
    if (!context.shouldExit()) std::cout << normlab::devices_report() << "\n";
  } catch (const normlab::Error& error) {  // a device that NORMLAB_TEST_DEVICES asks for
    std::cerr << error.what() << "\n";
    return static_cast<int>(error.code());
  }
  return failed;
}
