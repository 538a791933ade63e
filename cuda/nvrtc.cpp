#include "cuda/nvrtc.h"

#include <dlfcn.h>

#include <stdexcept>

#include "core/error.h"
#include "core/library.h"

namespace normlab {
namespace {

constexpr const char* kFlags[] = {"--fmad=false", "-std=c++17"};
constexpr int kInvalidOption = 5;  // NVRTC_ERROR_INVALID_OPTION

/// Where the system looks, or else in /usr/local/cuda.
std::string file_of(int major) {
  const std::string file = concat("libnvrtc.so.", major), there = "/usr/local/cuda/lib64/" + file;
  if (void* const handle = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL)) return dlclose(handle), file;
  void* const handle = dlopen(there.c_str(), RTLD_NOW | RTLD_LOCAL);
  return handle ? (dlclose(handle), there) : file;
}

}  // namespace

Nvrtc::Nvrtc(int major) {
  const Library library("--device cuda: NVRTC, which compiles formulas,", file_of(major),
                        concat("install libnvrtc", major, " or cuda-nvrtc-", major,
                               "-0, or `pip install nvidia-cuda-nvrtc` ", "and add its folder to LD_LIBRARY_PATH"));
  library.find("nvrtcGetErrorString", error_);
  library.find("nvrtcVersion", version_);
  library.find("nvrtcCreateProgram", create_);
  library.find("nvrtcCompileProgram", compile_);
  library.find("nvrtcGetProgramLogSize", log_size_);
  library.find("nvrtcGetProgramLog", log_);
  library.find("nvrtcGetCUBINSize", code_size_);
  library.find("nvrtcGetCUBIN", code_);
  library.find("nvrtcDestroyProgram", destroy_);
  int of_major = 0, of_minor = 0;
  check("nvrtcVersion", version_(&of_major, &of_minor));
  words_ = concat(of_major, ".", of_minor);
  for (const char* const flag : kFlags) words_ += concat(" ", flag);
}

void Nvrtc::check(const char* call, int result) const {
  if (result != 0) throw EnvironmentError(concat("NVRTC: ", call, ": ", error_(result)));
}

std::vector<char> Nvrtc::machine_code(const std::string& text, int major, int minor) const {
  Program program = nullptr;
  check("nvrtcCreateProgram", create_(&program, text.c_str(), "formula.cu", 0, nullptr, nullptr));
  const struct Destroy {
    const Nvrtc& of;
    Program program;
    ~Destroy() { of.destroy_(&program); }
  } destroy{*this, program};
  const std::string target = concat("--gpu-architecture=sm_", major, minor);
  std::vector<const char*> options(std::begin(kFlags), std::end(kFlags));
  options.push_back(target.c_str());
  const int result = compile_(program, int(options.size()), options.data());
  if (result == kInvalidOption)
    throw EnvironmentError(concat("NVRTC ", words_, " does not know GPUs of compute capability ", major, ".", minor,
                                  "; install a newer version"));
  std::size_t size = 0;
  if (result != 0) {
    check("nvrtcGetProgramLogSize", log_size_(program, &size));
    std::string log(size, ' ');
    check("nvrtcGetProgramLog", log_(program, log.data()));
    throw std::logic_error(concat("NVRTC ", words_, " does not compile a formula, which is a fault of normlab: ",
                                  error_(result), "\n", log, "\n", text));
  }
  check("nvrtcGetCUBINSize", code_size_(program, &size));
  std::vector<char> code(size);
  check("nvrtcGetCUBIN", code_(program, code.data()));
  return code;
}

}  // namespace normlab
