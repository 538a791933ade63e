// A group of processes that train one network together. It only moves bytes: nn/training/rank_shards.h decides what is
// computed where.
#pragma once

#include <cstddef>
#include <exception>
#include <span>
#include <string>
#include <vector>

#include "core/function_ref.h"

namespace normlab {

/// Moves bytes between the ranks, all in memory of one kind: the host's, or a device's (Device::exchange). All ranks
/// make the same calls in the same order, one at a time.
class Exchange {
 public:
  virtual ~Exchange() = default;
  using Sent = std::span<const std::byte>;
  using Received = std::span<std::byte>;
  /// Sends send[r] to rank r, and receives receive[r] from it, of the size that r sends. A part may be empty.
  virtual void all_to_all(std::span<const Sent> send, std::span<const Received> receive) = 0;
  /// Gives every rank the parts of all: parts[rank()] is sent, the others are received.
  virtual void all_gather(std::span<const Received> parts) = 0;
  /// Copies the bytes of rank `from` to all ranks.
  virtual void broadcast(Received bytes, int from) = 0;
};

/// An exchange of the host's memory. Each call throws EnvironmentError once another rank has failed or is gone.
class Ranks : public Exchange {
 public:
  virtual int rank() const = 0;
  virtual int size() const = 0;
  bool root() const { return rank() == 0; }
  bool alone() const { return size() == 1; }

  virtual void barrier() = 0;
  /// Throws like the other calls, but waits for no rank. For a rank that waits for a device.
  virtual void look() {}
  /// Tells the other ranks that this one cannot continue, and why: their next calls throw. May end the process.
  virtual void fail([[maybe_unused]] const std::exception& why) {}

  /// Every rank's value, in the order of the ranks.
  template <class T>
  std::vector<T> gathered(const T& mine) {
    std::vector<T> all(static_cast<std::size_t>(size()), mine);
    std::vector<Received> parts;
    for (T& value : all) parts.push_back(std::as_writable_bytes(std::span(&value, 1)));
    all_gather(parts);
    return all;
  }
  /// The value of rank `from`.
  template <class T>
  T shared(T value, int from = 0) {
    broadcast(std::as_writable_bytes(std::span(&value, 1)), from);
    return value;
  }
  /// Replaces `values` by those of rank `from`, as many as it has.
  template <class T>
  void share(std::vector<T>& values, int from) {
    values.resize(shared(values.size(), from));
    broadcast(std::as_writable_bytes(std::span(values)), from);
  }
  /// The text of rank `from`, of any length.
  std::string shared_text(std::string text, int from = 0);
  /// Calls `body`, which makes no call of this group, in every rank. If it throws in some, all throw: each its own
  /// error, the others an InputError or EnvironmentError with that of the first.
  void agree(FunctionRef<void()> body);
};

/// The group of this process alone, which has nothing to send.
Ranks& single_rank();

}  // namespace normlab
