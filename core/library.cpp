#include "core/library.h"

#include <dlfcn.h>

#include <utility>

#include "core/error.h"

namespace normlab {

Library::Library(std::string name, const std::string& file, std::string advice, Visible visible)
    : name_(std::move(name)),
      advice_(std::move(advice)),
      handle_(dlopen(file.c_str(), RTLD_NOW | (visible == Visible::here ? RTLD_LOCAL : RTLD_GLOBAL))) {
  if (!handle_) throw EnvironmentError(concat(name_, " cannot be loaded (", dlerror(), "); ", advice_));
}

void Library::close() { dlclose(handle_); }

void* Library::address(const char* function) const {
  void* const found = address_if_there(function);
  if (!found)
    throw EnvironmentError(concat(name_, ": ", function, " is missing", advice_.empty() ? "" : "; ", advice_));
  return found;
}

void* Library::address_if_there(const char* function) const { return dlsym(handle_, function); }

}  // namespace normlab
