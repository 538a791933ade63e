#include "cuda/nccl.h"

#include "core/error.h"

namespace normlab {
namespace {

constexpr const char* kAdvice =
    "install NCCL 2 (libnccl2) or add its folder to LD_LIBRARY_PATH; one rank on a GPU needs none";
constexpr int kOldest = 21300;

}  // namespace

Nccl::Nccl(const std::string& file) {
  const Library library("NCCL, which moves data between GPUs,", file, kAdvice);
  int (*get_version)(int*) = nullptr;
  library.find("ncclGetVersion", get_version);
  library.find("ncclGetErrorString", GetErrorString);
  int version = 0;
  if (const int error = get_version(&version); error != 0)
    throw EnvironmentError(concat("NCCL: ncclGetVersion: ", GetErrorString(error)));
  if (version < kOldest)  // before 2.9 a number had four digits
    throw EnvironmentError(concat("NCCL: ", file, " has the version number ", version, ", but at least ", kOldest,
                                  " (2.13) is needed; ", kAdvice));
  library.find("ncclGetLastError", GetLastError);
  library.find("ncclGetUniqueId", GetUniqueId);
  library.find("ncclCommInitRank", CommInitRank);
  library.find("ncclCommAbort", CommAbort);
  library.find("ncclCommGetAsyncError", CommGetAsyncError);
  library.find("ncclGroupStart", GroupStart);
  library.find("ncclGroupEnd", GroupEnd);
  library.find("ncclSend", Send);
  library.find("ncclRecv", Recv);
  library.find("ncclBroadcast", Broadcast);
}

void Nccl::check(const char* call, int result, Comm comm) const {
  if (result == 0) return;
  const char* const last = GetLastError(comm);
  const std::string more = last && *last ? concat(" (", last, ")") : std::string();
  throw EnvironmentError(concat("NCCL: ", call, ": ", GetErrorString(result), more,
                                "; NCCL_DEBUG=WARN shows more. The same command resumes from the last checkpoint"));
}

}  // namespace normlab
