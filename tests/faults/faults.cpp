// Preloaded into normlab by tests/faults/run: makes the n-th call of one kind fail, or records all that changes files.
// Calls of all processes of a run are numbered together, from main() on, in the order in which they are made.
//
//   FAULTS_STATE   file of 4096 bytes, zero at first: how often each call was made, and how often one failed
//   FAULTS_CALL    write pwrite fsync rename exchange link open mkdir ftruncate close read alloc
//   FAULTS_ERROR   ENOSPC EIO EINTR short ENOMEM, or another errno by its number
//   FAULTS_AT      the number of the call that fails; none: all are counted and none fails
//   FAULTS_STAY    1: all later ones fail too
//   FAULTS_STREAM  1 or 2: of write, only those to this descriptor are counted
//   FAULTS_RECORD  file for records of what changes below FAULTS_ROOT, and of what is written to standard output
#include <dlfcn.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace {

enum Call {
  kWrite,
  kPwrite,
  kFsync,
  kRename,
  kExchange,
  kLink,
  kOpen,
  kMkdir,
  kFtruncate,
  kClose,
  kRead,
  kAlloc,
  kCalls
};
constexpr const char* kNames[] = {"write", "pwrite", "fsync",     "rename", "exchange", "link",
                                  "open",  "mkdir",  "ftruncate", "close",  "read",     "alloc"};
constexpr int kShort = -1;

/// The file FAULTS_STATE; tests/faults/run knows the order.
struct State {
  std::atomic<unsigned long> counts[kCalls];
  std::atomic<unsigned long> failed;
  std::atomic<unsigned> recording;  // a lock over the processes: records stand in the order of what they tell
};

State* state = nullptr;
int fault_call = kCalls, fault_error = 0, fault_stream = -1;
unsigned long fault_at = 0;
bool fault_stays = false, active = false;
int record_file = -1;
char root[PATH_MAX];

/// Zero, an errno, or kShort.
int fault(Call call) {
  if (!active) return 0;
  const unsigned long number = ++state->counts[call];
  if (call != fault_call || fault_at == 0 || !(number == fault_at || (fault_stays && number > fault_at))) return 0;
  ++state->failed;
  return fault_error;
}

/// As fault(), with errno set; true where the call is to fail.
bool fails(Call call) {
  const int error = fault(call);
  if (error > 0) errno = error;
  return error > 0;
}

/// How many bytes of `size` may go through; -1: none, and errno is set.
ssize_t allowed(Call call, std::size_t size) {
  const int error = fault(call);
  if (error == 0) return ssize_t(size);
  if (error == kShort) return ssize_t(size > 1 ? size / 2 : size);
  errno = error;
  return -1;
}

bool ours(const char* path) {
  const std::size_t length = std::strlen(root);
  return std::strncmp(path, root, length) == 0 && (path[length] == '/' || path[length] == 0);
}

/// False where the path is not below the root.
bool absolute(const char* path, char* out) {
  if (path[0] == '/') {
    std::snprintf(out, PATH_MAX, "%s", path);
  } else {
    if (::syscall(SYS_getcwd, out, PATH_MAX) < 0) return false;
    const std::size_t length = std::strlen(out);
    std::snprintf(out + length, PATH_MAX - length, "/%s", path);
  }
  return ours(out);
}

bool path_of(int descriptor, char* out) {
  char name[64];
  std::snprintf(name, sizeof name, "/proc/self/fd/%d", descriptor);
  const long length = ::syscall(SYS_readlinkat, AT_FDCWD, name, out, PATH_MAX - 1);
  if (length < 0) return false;
  out[length] = 0;
  return ours(out);
}

/// Holds the lock while a call is made and its record written. errno is the call's.
class Recording {
 public:
  Recording() : on_(active && record_file >= 0) {
    if (!on_) return;
    for (unsigned expected = 0; !state->recording.compare_exchange_weak(expected, 1); expected = 0)
      ::syscall(SYS_sched_yield);
  }
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;
  ~Recording() {
    if (on_) state->recording = 0;
  }
  bool on() const { return on_; }

  /// "LENGTH WORDS\n" and that many bytes.
  void put(const char* words, const void* bytes = nullptr, std::size_t size = 0) const {
    const int before = errno;
    char line[2 * PATH_MAX + 100];
    const int length = std::snprintf(line, sizeof line, "%zu\t%s\n", size, words);
    ::syscall(SYS_write, record_file, line, std::size_t(length));
    if (size > 0) ::syscall(SYS_write, record_file, bytes, size);
    errno = before;
  }
  void put(const char* kind, const char* a, const char* b) const {
    char words[2 * PATH_MAX + 50];
    std::snprintf(words, sizeof words, "%s\t%s\t%s", kind, a, b);
    put(words);
  }
  /// One that names a file by its inode.
  void put(const char* kind, int descriptor, long at, const char* path, const void* bytes = nullptr,
           std::size_t size = 0) const {
    struct stat status {};
    ::fstat(descriptor, &status);
    char words[PATH_MAX + 100];
    std::snprintf(words, sizeof words, "%s\t%lu\t%ld\t%s", kind, static_cast<unsigned long>(status.st_ino), at, path);
    put(words, bytes, size);
  }

 private:
  const bool on_;
};

ssize_t write_to(int descriptor, const void* bytes, std::size_t size, const off_t* at) {
  const Recording recording;
  char path[PATH_MAX];
  const bool file = recording.on() && path_of(descriptor, path);
  off_t offset = 0;
  if (file && at == nullptr) {
    struct stat status {};
    ::fstat(descriptor, &status);
    const bool appends = (::syscall(SYS_fcntl, descriptor, F_GETFL) & O_APPEND) != 0;
    offset = appends ? status.st_size : off_t(::syscall(SYS_lseek, descriptor, 0, SEEK_CUR));
  }
  const long n = at != nullptr ? ::syscall(SYS_pwrite64, descriptor, bytes, size, *at)
                               : ::syscall(SYS_write, descriptor, bytes, size);
  if (file && n > 0) recording.put("write", descriptor, at != nullptr ? *at : offset, path, bytes, std::size_t(n));
  if (recording.on() && descriptor == STDOUT_FILENO && n > 0) recording.put("out", bytes, std::size_t(n));
  return n;
}

int open_at(int folder, const char* path, int flags, mode_t mode) {
  if (fails(kOpen)) return -1;
  const Recording recording;
  char name[PATH_MAX];
  const bool known = recording.on() && folder == AT_FDCWD && absolute(path, name);
  struct stat status {};
  const bool there = known && ::stat(path, &status) == 0;
  const int result = int(::syscall(SYS_openat, folder, path, flags, mode));
  if (known && result >= 0 && !there) recording.put("create", result, 0, name);
  if (known && result >= 0 && there && (flags & O_TRUNC) != 0) recording.put("truncate", result, 0, name);
  return result;
}

/// For two names, or one.
template <class Make>
int named(const char* kind, const char* a, const char* b, Make&& make) {
  const Recording recording;
  char from[PATH_MAX], to[PATH_MAX] = "";
  const bool known = recording.on() && absolute(a, from) && (b == nullptr || absolute(b, to));
  const int result = int(make());
  if (known && result == 0) recording.put(kind, from, to);
  return result;
}

// Standard output and error go through write() above: the C library's own streams call the system by themselves.
ssize_t stream_write(void* stream, const char* bytes, std::size_t size) {
  const int descriptor = stream == nullptr ? STDOUT_FILENO : STDERR_FILENO;
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = ::write(descriptor, bytes + done, size - done);
    if (n <= 0) return done > 0 ? ssize_t(done) : 0;  // to fopencookie(3), 0 is the error
    done += std::size_t(n);
  }
  return ssize_t(done);
}

const char* setting(const char* name) {
  const char* value = std::getenv(name);
  return value == nullptr || *value == 0 ? nullptr : value;
}

int error_of(const char* word) {
  if (std::strcmp(word, "short") == 0) return kShort;
  if (std::strcmp(word, "ENOSPC") == 0) return ENOSPC;
  if (std::strcmp(word, "EIO") == 0) return EIO;
  if (std::strcmp(word, "EINTR") == 0) return EINTR;
  if (std::strcmp(word, "ENOMEM") == 0) return ENOMEM;
  return std::atoi(word);
}

void begin() {
  const char* file = setting("FAULTS_STATE");
  if (file == nullptr) return;
  const int descriptor = int(::syscall(SYS_openat, AT_FDCWD, file, O_RDWR | O_CLOEXEC, 0));
  void* map = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
  ::syscall(SYS_close, descriptor);
  if (map == MAP_FAILED) return;
  state = static_cast<State*>(map);
  if (const char* call = setting("FAULTS_CALL"))
    for (int i = 0; i < kCalls; ++i)
      if (std::strcmp(call, kNames[i]) == 0) fault_call = i;
  if (const char* error = setting("FAULTS_ERROR")) fault_error = error_of(error);
  if (const char* at = setting("FAULTS_AT")) fault_at = std::strtoul(at, nullptr, 10);
  if (const char* stream = setting("FAULTS_STREAM")) fault_stream = std::atoi(stream);
  fault_stays = setting("FAULTS_STAY") != nullptr;
  if (const char* record = setting("FAULTS_RECORD")) {
    std::snprintf(root, sizeof root, "%s", setting("FAULTS_ROOT"));
    const int opened = int(::syscall(SYS_openat, AT_FDCWD, record, O_WRONLY | O_CREAT | O_APPEND, 0666));
    record_file = int(::syscall(SYS_fcntl, opened, F_DUPFD, 700));
    ::syscall(SYS_close, opened);
  }
  stdout = ::fopencookie(nullptr, "w", {nullptr, stream_write, nullptr, nullptr});
  stderr = ::fopencookie(&state, "w", {nullptr, stream_write, nullptr, nullptr});
  std::setvbuf(stderr, nullptr, _IONBF, 0);
  active = true;
}

int (*real_main)(int, char**, char**) = nullptr;
int main_with_faults(int argc, char** argv, char** environment) {
  begin();
  return real_main(argc, argv, environment);
}

}  // namespace

extern "C" {

int __libc_start_main(int (*main)(int, char**, char**), int argc, char** argv, void (*init)(), void (*end)(),
                      void (*loader_end)(), void* stack) {
  real_main = main;
  const auto next = reinterpret_cast<decltype(&__libc_start_main)>(::dlsym(RTLD_NEXT, "__libc_start_main"));
  return next(main_with_faults, argc, argv, init, end, loader_end, stack);
}

ssize_t write(int descriptor, const void* bytes, std::size_t size) {
  const bool counted = fault_stream < 0 || descriptor == fault_stream;
  const ssize_t part = counted ? allowed(kWrite, size) : ssize_t(size);
  return part < 0 ? -1 : write_to(descriptor, bytes, std::size_t(part), nullptr);
}
ssize_t pwrite(int descriptor, const void* bytes, std::size_t size, off_t at) {
  const ssize_t part = allowed(kPwrite, size);
  return part < 0 ? -1 : write_to(descriptor, bytes, std::size_t(part), &at);
}
ssize_t pwrite64(int descriptor, const void* bytes, std::size_t size, off_t at) {
  return pwrite(descriptor, bytes, size, at);
}
ssize_t read(int descriptor, void* bytes, std::size_t size) {
  const ssize_t part = allowed(kRead, size);
  return part < 0 ? -1 : ::syscall(SYS_read, descriptor, bytes, part);
}
int fsync(int descriptor) {
  if (fails(kFsync)) return -1;
  const Recording recording;
  char path[PATH_MAX];
  const bool known = recording.on() && path_of(descriptor, path);
  const int result = int(::syscall(SYS_fsync, descriptor));
  if (known && result == 0) recording.put("sync", descriptor, 0, path);
  return result;
}
int open(const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open_at(AT_FDCWD, path, flags, mode);
}
int open64(const char* path, int flags, ...) __attribute__((alias("open")));
int openat(int folder, const char* path, int flags, ...) {
  va_list list;
  va_start(list, flags);
  const mode_t mode = (flags & O_CREAT) != 0 ? va_arg(list, mode_t) : 0;
  va_end(list);
  return open_at(folder, path, flags, mode);
}
int openat64(int folder, const char* path, int flags, ...) __attribute__((alias("openat")));
int rename(const char* from, const char* to) noexcept {
  if (fails(kRename)) return -1;
  return named("rename", from, to, [&] { return ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0); });
}
int renameat2(int, const char* from, int, const char* to, unsigned flags) noexcept {
  if (fails(kExchange)) return -1;
  return named("exchange", from, to, [&] { return ::syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, flags); });
}
int link(const char* from, const char* to) noexcept {
  if (fails(kLink)) return -1;
  return named("link", from, to, [&] { return ::syscall(SYS_linkat, AT_FDCWD, from, AT_FDCWD, to, 0); });
}
int mkdir(const char* path, mode_t mode) noexcept {
  if (fails(kMkdir)) return -1;
  return named("mkdir", path, nullptr, [&] { return ::syscall(SYS_mkdirat, AT_FDCWD, path, mode); });
}
int unlink(const char* path) noexcept {
  return named("remove", path, nullptr, [&] { return ::syscall(SYS_unlinkat, AT_FDCWD, path, 0); });
}
int rmdir(const char* path) noexcept {
  return named("remove", path, nullptr, [&] { return ::syscall(SYS_unlinkat, AT_FDCWD, path, AT_REMOVEDIR); });
}
int remove(const char* path) noexcept {
  const int result = unlink(path);
  return result != 0 && errno == EISDIR ? rmdir(path) : result;
}
int ftruncate(int descriptor, off_t size) noexcept {
  if (fails(kFtruncate)) return -1;
  const Recording recording;
  char path[PATH_MAX];
  const bool known = recording.on() && path_of(descriptor, path);
  const int result = int(::syscall(SYS_ftruncate, descriptor, size));
  if (known && result == 0) recording.put("truncate", descriptor, size, path);
  return result;
}
/// Whatever it answers, Linux has closed the descriptor.
int close(int descriptor) {
  const int result = int(::syscall(SYS_close, descriptor));
  return fails(kClose) ? -1 : result;
}

void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);

void* malloc(std::size_t size) { return fails(kAlloc) ? nullptr : __libc_malloc(size); }
void* calloc(std::size_t count, std::size_t size) { return fails(kAlloc) ? nullptr : __libc_calloc(count, size); }
void* realloc(void* old, std::size_t size) { return fails(kAlloc) ? nullptr : __libc_realloc(old, size); }
void* memalign(std::size_t alignment, std::size_t size) {
  return fails(kAlloc) ? nullptr : __libc_memalign(alignment, size);
}
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  return fails(kAlloc) ? nullptr : __libc_memalign(alignment, size);
}
int posix_memalign(void** out, std::size_t alignment, std::size_t size) {
  *out = fails(kAlloc) ? nullptr : __libc_memalign(alignment, size);
  return *out != nullptr || size == 0 ? 0 : ENOMEM;
}
void* mmap(void* address, std::size_t size, int protection, int flags, int descriptor, off_t offset) noexcept {
  if (fails(kAlloc)) return MAP_FAILED;
  return reinterpret_cast<void*>(::syscall(SYS_mmap, address, size, protection, flags, descriptor, offset));
}
}
