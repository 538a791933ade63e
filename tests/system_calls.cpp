#include "tests/system_calls.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>

namespace {

int asked(normlab::Call call) { return normlab::answer != nullptr ? normlab::answer(call) : 0; }

template <class Make>
int answered(normlab::Call call, Make&& make) {
  const int error = asked(call);
  if (error <= 0) {
    const long made = make();
    if (error == 0 || made < 0) return static_cast<int>(made);
  }
  errno = std::abs(error);
  return -1;
}

/// Bytes that a write may take; 0: it fails.
std::size_t taken(normlab::Call call, std::size_t size) {
  const int error = asked(call);
  if (error == 0) return size;
  if (error == normlab::kShort && size > 1) return size / 2;
  errno = error == normlab::kShort ? ENOSPC : error;
  return 0;
}

}  // namespace

using normlab::Call;

extern "C" {
ssize_t write(int descriptor, const void* bytes, std::size_t size) {
  const std::size_t part = taken(Call::write, size);
  return part == 0 && size > 0 ? -1 : ::syscall(SYS_write, descriptor, bytes, part);
}
ssize_t pwrite(int descriptor, const void* bytes, std::size_t size, off_t at) {
  const std::size_t part = taken(Call::pwrite, size);
  return part == 0 && size > 0 ? -1 : ::syscall(SYS_pwrite64, descriptor, bytes, part, at);
}
int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  const auto make = [&] { return ::syscall(SYS_openat, AT_FDCWD, path, flags, mode); };
  return (flags & O_CREAT) != 0 ? answered(Call::open_new, make) : static_cast<int>(make());
}
int fsync(int descriptor) {
  return answered(Call::fsync, [&] { return ::syscall(SYS_fsync, descriptor); });
}
int mkdir(const char* path, mode_t mode) noexcept {
  return answered(Call::mkdir, [&] { return ::syscall(SYS_mkdirat, AT_FDCWD, path, mode); });
}
int rename(const char* from, const char* to) noexcept {
  return answered(Call::rename, [&] { return ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); });
}
int renameat2(int, const char* from, int, const char* to, unsigned flags) noexcept {
  return answered(Call::exchange, [&] { return ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags); });
}
int link(const char* from, const char* to) noexcept {
  return answered(Call::link, [&] { return ::syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0); });
}
int unlink(const char* path) noexcept {
  return answered(Call::unlink, [&] { return ::syscall(SYS_unlinkat, AT_FDCWD, path, 0); });
}
int ftruncate(int descriptor, off_t size) noexcept {
  return answered(Call::ftruncate, [&] { return ::syscall(SYS_ftruncate, descriptor, size); });
}
int close(int descriptor) {
  return answered(Call::close, [&] { return ::syscall(SYS_close, descriptor); });
}
ssize_t send(int socket, const void* bytes, std::size_t size, int flags) {
  return answered(Call::send, [&] { return ::syscall(SYS_sendto, socket, bytes, size, flags, nullptr, 0); });
}
}
