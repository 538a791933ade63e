// Shared libraries that are opened on first use, so that commands which need none run without them.
#pragma once

#include <cstdint>
#include <string>

namespace normlab {

class Library {
 public:
  /// Whether libraries that are opened later see its symbols.
  enum class Visible : std::uint8_t { here, to_all };
  /// Opens the shared library `file` for the lifetime of the process. Throws EnvironmentError with `name`, the loader's
  /// reason and `advice`.
  Library(std::string name, const std::string& file, std::string advice, Visible visible = Visible::here);
  /// Closes it before that: nothing of it may be used again.
  void close();
  /// Sets `to` to that function of the library or of one of its dependencies. Throws EnvironmentError if there is none.
  template <class Function>
  void find(const char* function, Function*& to) const {
    to = reinterpret_cast<Function*>(address(function));
  }
  /// Sets `to` to the address of a variable.
  template <class Object>
  void find_object(const char* variable, Object*& to) const {
    to = static_cast<Object*>(address(variable));
  }
  /// The same as find(), but sets null if there is none.
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
