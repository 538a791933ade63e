// The processes that train one network together. There is always such a group, mostly of one process. It only moves
// bytes: nn/training/shares.h decides what is computed where.
#pragma once

#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "core/function_ref.h"

namespace normlab {

/// Moves bytes between the processes of a group, all in memory of one kind: the host's, or a device's
/// (Device::exchange). All make the same calls in the same order, one at a time.
class Exchange {
 public:
  virtual ~Exchange() = default;
  using Sent = std::span<const std::byte>;
  using Received = std::span<std::byte>;
  /// Sends send[r] to process r, and receives receive[r] from it, of the size that r sends. A part may be empty.
  virtual void all_to_all(std::span<const Sent> send, std::span<const Received> receive) = 0;
  /// Gives every process the parts of all: its own part is sent, the others are received.
  virtual void all_gather(std::span<const Received> parts) = 0;
};

/// An exchange of the host's memory. Each call throws EnvironmentError once another process has failed or is gone.
class Group : public Exchange {
 public:
  virtual int number() const = 0;  // of this process, from 0
  virtual int size() const = 0;
  bool root() const { return number() == 0; }
  bool alone() const { return size() == 1; }

  /// Throws like the other calls, but waits for no process. For one that waits for a device.
  virtual void look() {}
  /// Tells the others that this process cannot continue, and why: their next calls throw. May end the process.
  virtual void fail([[maybe_unused]] const std::exception& why) {}

  /// Copies the bytes of process `from` to all.
  void broadcast(Received bytes, int from);
  /// The value of each process, in their order.
  template <class T>
  std::vector<T> gathered(const T& mine) {
    std::vector<T> all(static_cast<std::size_t>(size()), mine);
    std::vector<Received> parts;
    for (T& value : all) parts.push_back(std::as_writable_bytes(std::span(&value, 1)));
    all_gather(parts);
    return all;
  }
  /// The value of process `from`.
  template <class T>
  T shared(T value, int from = 0) {
    broadcast(std::as_writable_bytes(std::span(&value, 1)), from);
    return value;
  }
  /// Replaces `values` by those of process `from`, as many as it has.
  template <class Values>
  void share(Values& values, int from) {
    values.resize(shared(values.size(), from));
    broadcast(std::as_writable_bytes(std::span(values)), from);
  }
  /// The text of process `from`, of any length.
  std::string shared_text(std::string text, int from = 0) {
    share(text, from);
    return text;
  }
  /// Calls `body`, which makes no call of this group, in every process. If it throws in some, all throw: each its own
  /// error, the others an InputError or EnvironmentError with that of the first.
  void agree(FunctionRef<void()> body);
};

/// The group of this process alone, which has nothing to send.
Group& group_of_one();

/// How a program comes to the group that trains a network: it may be in one already, or fork `forked` processes of this
/// machine for each training.
struct Team {
  int forked = 1;
  Group* group = &group_of_one();
  const char* option = "--ranks";  // by which the user chose the size
  static constexpr int kMostForked = 256;
  int size() const { return forked * group->size(); }
  /// Calls `body` in all processes of the group at once. If it forks them, in this one as number 0, and in children that
  /// end with it; then it returns when all have ended. Throws what `body` throws here. If another process fails, throws
  /// its error with its number before it; EnvironmentError if it is killed. The others are ended then. EnvironmentError
  /// if the system starts no more processes.
  void run(FunctionRef<void(Group&)> body) const;
  /// What to say of process `number` of a team, whose end waitpid() describes by `status`:
  /// "rank 1 of 3 (process 4711) was ended by signal 9 (Killed; memory may have run out); the same command resumes from
  /// the last checkpoint".
  static std::string death(int number, int size, int process, int status);
};

}  // namespace normlab
