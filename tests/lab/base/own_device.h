// Devices in a test's folder: a program that replaced one would do no harm.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <filesystem>
#include <string>

namespace normlab {

inline constexpr unsigned kNullDevice = 3, kFullDevice = 7;  // the minor numbers of /dev/null and /dev/full

/// Makes the device and returns true, if this user and this file system can have one.
inline bool make_device(const std::filesystem::path& path, unsigned minor_number) {
  if (::mknod(path.c_str(), S_IFCHR | 0666, makedev(1, minor_number)) != 0) return false;
  const int opened = ::open(path.c_str(), O_WRONLY | O_CLOEXEC);
  if (opened >= 0) ::close(opened);
  if (opened < 0) ::unlink(path.c_str());
  return opened >= 0;
}

}  // namespace normlab
