// NVIDIA's libraries, opened on first use, so that the binary starts where only a driver is installed.
#pragma once

#include <cublas_v2.h>

#include "core/dtype.h"
#include "core/error.h"
#ifndef NORMLAB_CUDA_EMULATED
#include <dlfcn.h>

#include <string>
#endif

namespace normlab::NORMLAB_CUDA_NAMESPACE {

inline cudaDataType_t data_type(DType dtype) {
  return dtype == DType::f64 ? CUDA_R_64F : dtype == DType::bf16 ? CUDA_R_16BF : CUDA_R_32F;
}

class Library {
 public:
#ifdef NORMLAB_CUDA_EMULATED
  explicit Library(const char*) {}
  template <class Function>
  void find(const char*, Function* emulated, Function*& to) const {
    to = emulated;
  }
#define NORMLAB_LIBRARY_FUNCTION(name) #name, &name
#else
  /// `name` is for example "cublas". Opens the runtime's major version, from where the system looks, then from
  /// /usr/local/cuda. Throws EnvironmentError if there is none.
  explicit Library(const std::string& name) : file_(concat("lib", name, ".so.", CUDART_VERSION / 1000)) {
    handle_ = dlopen(file_.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_) handle_ = dlopen(("/usr/local/cuda/lib64/" + file_).c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle_)
      throw EnvironmentError(concat("--device cuda: ", file_, " cannot be loaded (", dlerror(), "); install CUDA ",
                                    CUDART_VERSION / 1000, "'s libcublas, or add its folder to LD_LIBRARY_PATH"));
  }
  /// Sets `to` to that function. Throws EnvironmentError if the library is too old for it.
  template <class Function>
  void find(const char* name, Function*& to) const {
    to = reinterpret_cast<Function*>(dlsym(handle_, name));
    if (!to) throw EnvironmentError(concat("--device cuda: ", file_, " has no ", name, "; install a newer version"));
  }

 private:
  std::string file_;
  void* handle_ = nullptr;  // open until the process ends
#define NORMLAB_LIBRARY_FUNCTION(name) #name
#endif
};

/// A struct of a library's functions from a list of F(member, function): its members, and how each is found.
#define NORMLAB_LIBRARY_MEMBER(member, function) decltype(&function) member = nullptr;
#define NORMLAB_LIBRARY_FIND(member, function) library.find(NORMLAB_LIBRARY_FUNCTION(function), member);

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
