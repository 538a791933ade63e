// Variables of the environment in tests.
#pragma once

#include <cstdlib>
#include <string>

namespace normlab {

/// Sets a variable of the environment for a scope.
class Variable {
 public:
  explicit Variable(const char* value, const char* name = "NORMLAB_DATA") : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    if (value != nullptr) {
      setenv(name, value, 1);
    } else {
      unsetenv(name);
    }
  }
  Variable(const Variable&) = delete;
  Variable& operator=(const Variable&) = delete;
  ~Variable() { old_.empty() ? unsetenv(name_) : setenv(name_, old_.c_str(), 1); }

 private:
  const char* name_;
  std::string old_;
};

}  // namespace normlab
