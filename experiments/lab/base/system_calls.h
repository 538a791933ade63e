// System calls as POSIX and network file systems implement them.
#pragma once

#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string_view>
#include <utility>

namespace normlab {

/// Repeats the call while signals interrupt it: on FUSE and NFS any call may fail with EINTR.
template <class Call>
auto uninterrupted(Call&& call) {
  decltype(call()) result{};
  do result = call();
  while (result < 0 && errno == EINTR);
  return result;
}

/// Linux closes the descriptor even if close(2) reports EINTR; a second call could close another file.
inline int close_once(int descriptor) {
  const int result = ::close(descriptor);
  return result < 0 && errno == EINTR ? 0 : result;
}

/// An open file; -1: none.
class Descriptor {
 public:
  explicit Descriptor(int value) : value_(value) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor(Descriptor&& other) noexcept : value_(std::exchange(other.value_, -1)) {}
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (value_ >= 0) ::close(value_);
  }
  int get() const { return value_; }
  /// Network file systems report a failed write only on close.
  int close_checked() { return close_once(std::exchange(value_, -1)); }

 private:
  int value_;
};

/// `part(data, size, offset)` is write(2) or pwrite(2). On failure returns the number of bytes written, with errno set.
template <class Part>
std::size_t write_all(std::string_view bytes, Part&& part) {
  std::size_t done = 0;
  while (done < bytes.size()) {
    const ssize_t n = uninterrupted([&] { return part(bytes.data() + done, bytes.size() - done, done); });
    if (n == 0) errno = EIO;  // nothing written, but errno is not set
    if (n <= 0) break;
    done += std::size_t(n);
  }
  return done;
}

/// Returns the number of bytes read from `offset`, or -1 with errno.
inline ssize_t read_at(int descriptor, void* data, std::size_t size, off_t offset) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = uninterrupted(
        [&] { return ::pread(descriptor, static_cast<char*>(data) + done, size - done, offset + off_t(done)); });
    if (n < 0) return -1;
    if (n == 0) break;
    done += std::size_t(n);
  }
  return ssize_t(done);
}

}  // namespace normlab
