// Libraries that are opened when they are used: a command that uses none of them needs none of them.
#pragma once

#include <string>

namespace normlab {

class Library {
 public:
  /// Opens the shared library of that file name, for as long as the process lives. EnvironmentError with `name`, the
  /// loader's reason and `advice`.
  Library(std::string name, const std::string& file, std::string advice);
  /// Sets `to` to that function, of the library or of one that it needs. EnvironmentError where there is none.
  template <class Function>
  void find(const char* function, Function*& to) const {
    to = reinterpret_cast<Function*>(address(function));
  }
  /// The same, or null.
  template <class Function>
  void find_if_there(const char* function, Function*& to) const {
    to = reinterpret_cast<Function*>(address_if_there(function));
  }

 private:
  void* address(const char* function) const;
  void* address_if_there(const char* function) const;
  std::string name_, advice_;
  void* handle_;
};

}  // namespace normlab
