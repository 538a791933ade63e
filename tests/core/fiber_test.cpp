#include "core/fiber.h"

#include <doctest/doctest.h>

#include <array>
#include <exception>
#include <stdexcept>
#include <string>

using namespace normlab;

namespace {

/// Pauses in the middle of a catch block, and then throws on what it has caught.
struct Catcher {
  std::string name, caught{};
  Fiber fiber{};
  explicit Catcher(std::string of) : name(std::move(of)) {
    fiber.begin([](void* self) { static_cast<Catcher*>(self)->run(); }, this);
  }
  void run() {
    try {
      try {
        throw std::runtime_error(name);
      } catch (const std::runtime_error&) {
        fiber.pause();
        throw;
      }
    } catch (const std::runtime_error& error) {
      caught = error.what();
    }
  }
};

}  // namespace

TEST_CASE("fiber: each one keeps the exceptions that it has caught") {
  std::array<Catcher, 3> all{Catcher("first"), Catcher("second"), Catcher("third")};
  for (Catcher& one : all) CHECK(!one.fiber.resume());
  CHECK(std::current_exception() == nullptr);
  for (const std::size_t next : {0u, 2u, 1u}) CHECK(all[next].fiber.resume());
  for (const Catcher& one : all) CHECK(one.caught == one.name);
}
