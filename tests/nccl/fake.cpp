// A library with the functions of NCCL that cuda/nccl.h opens. It moves bytes between processes of this machine, and
// checks each call: where it lies, what it points to, and that what a rank sends is what another one receives.
#include "tests/nccl/fake.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstring>

using namespace normlab::fake_nccl;

namespace {

constexpr int kMostRanks = 8;
constexpr std::size_t kBox = std::size_t{8} << 20;  // from one rank to another, in a group

struct Shared {
  std::atomic<int> arrived, round, claimed;
  char problem[512];
};
struct Comm {
  Shared* shared;
  int rank, ranks;
};
struct Item {
  Call call;
  const void* from;
  void* to;
  std::size_t bytes;
  int peer;
};

Control control;
Shared* shared = nullptr;
int depth = 0;
std::vector<Item> group;
Comm* current = nullptr;  // of all calls

[[gnu::format(printf, 1, 2)]] void report(const char* format, ...) {
  if (!shared || shared->claimed.exchange(1) != 0) return;
  std::va_list parts;
  va_start(parts, format);
  std::vsnprintf(shared->problem, sizeof shared->problem, format, parts);
  va_end(parts);
}

char* box(const Comm& comm, int from, int to) {
  return reinterpret_cast<char*>(comm.shared) + 4096 + kBox * static_cast<std::size_t>(from * kMostRanks + to);
}

void barrier(const Comm& comm) {
  const int round = comm.shared->round;
  if (comm.shared->arrived.fetch_add(1) + 1 == comm.ranks) {
    comm.shared->arrived = 0;
    ++comm.shared->round;
    return;
  }
  const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(60);
  while (comm.shared->round == round) {
    sched_yield();
    if (std::chrono::steady_clock::now() < until) continue;
    report("rank %d: the others make fewer exchanges", comm.rank);
    _exit(9);
  }
}

/// A box is a list of messages: who sent it by which call, how long it is, its bytes.
struct Head {
  Call call;
  std::size_t bytes;
};

void exchange(const Comm& comm, const std::vector<Item>& items) {
  std::size_t filled[kMostRanks] = {}, taken[kMostRanks] = {};
  for (const Item& item : items)
    for (int to = 0; to < comm.ranks; ++to) {
      const bool sends = item.call == Call::send
                             ? item.peer == to
                             : item.call == Call::broadcast && item.peer == comm.rank && to != comm.rank;
      if (!sends) continue;
      const Head head{item.call, item.bytes};
      if (filled[to] + 2 * sizeof head + item.bytes > kBox) return report("rank %d: the fake's box is full", comm.rank);
      char* const at = box(comm, comm.rank, to) + filled[to];
      std::memcpy(at, &head, sizeof head);
      std::memcpy(at + sizeof head, item.from, item.bytes);
      filled[to] += sizeof head + item.bytes;
    }
  for (int to = 0; to < comm.ranks; ++to) {
    const Head end{Call::group_end, 0};
    std::memcpy(box(comm, comm.rank, to) + filled[to], &end, sizeof end);
  }
  barrier(comm);
  const auto next = [&](int from) {
    Head head;
    std::memcpy(&head, box(comm, from, comm.rank) + taken[from], sizeof head);
    return head;
  };
  for (const Item& item : items) {
    const bool receives = item.call == Call::receive || (item.call == Call::broadcast && item.peer != comm.rank);
    if (!receives) continue;
    const Head head = next(item.peer);
    const Call due = item.call == Call::receive ? Call::send : Call::broadcast;
    if (head.call != due || head.bytes != item.bytes) {
      report("rank %d: wants %zu bytes of rank %d by call %d, which gives %zu by call %d", comm.rank, item.bytes,
             item.peer, int(due), head.bytes, int(head.call));
      break;
    }
    std::memcpy(item.to, box(comm, item.peer, comm.rank) + taken[item.peer] + sizeof head, item.bytes);
    taken[item.peer] += sizeof head + item.bytes;
  }
  for (int from = 0; from < comm.ranks; ++from)
    if (next(from).call != Call::group_end)
      report("rank %d: does not receive %zu bytes of rank %d", comm.rank, next(from).bytes, from);
  barrier(comm);
}

int add(const char* name, const Item& item, int type, void* of, void* stream) {
  if (control.failing == name) return control.error;
  auto* const comm = static_cast<Comm*>(of);
  if (depth == 0) report("%s: outside of a group", name);
  if (type != 1) report("%s: type %d is not ncclUint8", name, type);
  if (item.bytes == 0) report("%s: of no bytes", name);
  if (item.peer < 0 || item.peer >= comm->ranks) report("%s: no rank %d", name, item.peer);
  for (const void* const memory : {item.from, static_cast<const void*>(item.to)})
    if (memory && !control.on_device(memory, item.bytes))
      report("%s: %zu bytes that are not the device's", name, item.bytes);
  if (comm != current) report("%s: another communicator", name);
  if (!stream || (control.stream && control.stream != stream)) report("%s: another stream", name);
  control.stream = stream;
  group.push_back(item);
  control.records.push_back({item.call, item.peer, item.bytes});
  return 0;
}

Shared* map(const char* name) {
  const std::size_t bytes = 4096 + kBox * kMostRanks * kMostRanks;
  const int file = shm_open(name, O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes)) != 0) return nullptr;
  void* const at = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, file, 0);
  close(file);
  return at == MAP_FAILED ? nullptr : static_cast<Shared*>(at);
}

struct Id {
  char bytes[128];
};

}  // namespace

extern "C" {

Control* fake_nccl_control() {
  control.problem = [] { return shared ? static_cast<const char*>(shared->problem) : "no communicator"; };
  return &control;
}
int ncclGetVersion(int* version) {
  *version = control.version;
  return control.failing == "ncclGetVersion" ? control.error : 0;
}
const char* ncclGetErrorString(int error) { return error == 5 ? "invalid usage (fake)" : "remote error (fake)"; }
const char* ncclGetLastError(void*) { return "the fake says why"; }
int ncclGetUniqueId(Id* id) {
  if (control.failing == "ncclGetUniqueId") return control.error;
  std::snprintf(id->bytes, sizeof id->bytes, "/normlab-fake-nccl-%d", int(getpid()));
  return 0;
}
int ncclCommInitRank(void** comm, int ranks, Id id, int rank) {
  if (control.failing == "ncclCommInitRank") return control.error;
  shared = map(id.bytes);
  if (!shared || ranks > kMostRanks) return 2;  // ncclSystemError
  auto* const made = current = new Comm{shared, rank, ranks};
  barrier(*made);
  if (rank == 0) shm_unlink(id.bytes);
  control.records.clear();
  control.stream = nullptr;
  group.clear();
  depth = 0;
  *comm = made;
  return 0;
}
int ncclCommAbort(void* comm) {
  control.aborted = true;
  delete static_cast<Comm*>(comm);
  return 0;
}
int ncclCommGetAsyncError(void*, int* error) {
  *error = control.async_error;
  return 0;
}
int ncclGroupStart() {
  if (depth++ != 0) report("ncclGroupStart: within a group");
  control.records.push_back({Call::group_start});
  return 0;
}
int ncclGroupEnd() {
  if (control.failing == "ncclGroupEnd") return control.error;
  if (--depth != 0) report("ncclGroupEnd: no group has begun");
  control.records.push_back({Call::group_end});
  control.in_order(control.stream, [comm = *current, items = group] { exchange(comm, items); });
  group.clear();
  return 0;
}
int ncclSend(const void* from, std::size_t count, int type, int peer, void* comm, void* stream) {
  return add("ncclSend", {Call::send, from, nullptr, count, peer}, type, comm, stream);
}
int ncclRecv(void* to, std::size_t count, int type, int peer, void* comm, void* stream) {
  return add("ncclRecv", {Call::receive, nullptr, to, count, peer}, type, comm, stream);
}
int ncclBroadcast(const void* from, void* to, std::size_t count, int type, int root, void* comm, void* stream) {
  return add("ncclBroadcast", {Call::broadcast, from, to, count, root}, type, comm, stream);
}
}
