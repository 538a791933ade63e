#include "tests/cuda_emulation/streams.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "core/error.h"
#include "tests/cuda_emulation/heap.h"
#include "tests/cuda_emulation/scheduler.h"

using namespace normlab;
using namespace normlab::emulation;

struct EmulatedStream {
  int number;
  Clock before{};  // what its next work comes after
};
/// How much of each captured stream a point of a capture comes after.
using CaptureClock = std::map<EmulatedStream*, std::size_t>;
struct EmulatedEvent {
  const bool timed;
  double seconds = 0;
  Clock before{};
  struct Captured {
    CaptureClock after;
    std::shared_ptr<Clock> at_launch;
  };
  std::optional<Captured> captured{};  // if it was recorded last in the capture that goes on
};
struct EmulatedGraph {
  struct Item {
    EmulatedStream* stream;
    std::function<void()> work;
  };
  EmulatedStream* origin;
  std::vector<Item> work{};
  std::map<EmulatedStream*, CaptureClock> streams{};        // those that take part
  std::map<EmulatedStream*, EmulatedStream> of_launches{};  // the branches of an executable, each time from the start
};

namespace {

double passed = 0;
double now() {
  return passed + std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

struct Done {
  std::uint32_t first, end;
  const char* op;
};
/// Of work that the host has not waited for.
struct HostCopy {
  int stream;
  std::uint32_t end;
  const char* op;
  char* host;
  bool writes;
  std::vector<char> bytes;
};

std::mutex mutex;
std::uint32_t next_serial = 1, all_before = 1;  // the host has waited for all work below
Clock waited;                                   // of the host
std::map<int, std::deque<Done>> pending;        // of each stream, what the host has not waited for
std::vector<HostCopy> host_copies;
const char* changed = nullptr;  // the work whose source the host has changed too early
std::map<const char*, std::size_t> pinned;
EmulatedStream default_stream{0};
int streams = 0;
thread_local EmulatedStream* current = &default_stream;

std::unique_ptr<EmulatedGraph> captured;  // while a capture goes on
std::vector<EmulatedEvent*> captured_events;
long launched = 0;
bool endless_work = false;
int left_out = 0, of_calls = 0, event_calls = 0;
unsigned flags_of_event = 0;

class Turn {
 public:
  explicit Turn(EmulatedStream* stream) : before_(std::exchange(current, stream ? stream : &default_stream)) {}
  ~Turn() { current = before_; }
  Turn(const Turn&) = delete;
  Turn& operator=(const Turn&) = delete;

 private:
  EmulatedStream* const before_;
};

void join(Clock& to, const Clock& from) {
  for (const auto& [stream, serial] : from) to[stream] = std::max(to[stream], serial);
  std::erase_if(to, [](const auto& entry) { return entry.second <= all_before; });
}
std::uint32_t done_until(const Clock& clock, int stream) {
  const auto found = clock.find(stream);
  return found == clock.end() ? all_before : std::max(all_before, found->second);
}

/// The host has waited for what the clock says.
void host_waited(const Clock& clock) {
  join(waited, clock);
  for (auto& [stream, work] : pending)
    while (!work.empty() && work.front().end <= done_until(waited, stream)) work.pop_front();
  std::erase_if(pending, [](const auto& entry) { return entry.second.empty(); });
  std::erase_if(host_copies, [&](const HostCopy& copy) {
    if (copy.end > done_until(waited, copy.stream)) return false;
    if (copy.writes)
      std::memcpy(copy.host, copy.bytes.data(), copy.bytes.size());
    else if (std::memcmp(copy.host, copy.bytes.data(), copy.bytes.size()) != 0)
      changed = copy.op;
    return true;
  });
}
/// Not where the host waits in a destructor.
void throw_if_changed() {
  if (const char* const op = std::exchange(changed, nullptr))
    throw Fault(concat(op, ": the host changes pinned memory while it is copied"));
}

const Done* find(std::uint32_t serial, int& stream) {
  for (const auto& [number, work] : pending) {
    const auto found = std::partition_point(work.begin(), work.end(), [&](const Done& d) { return d.end <= serial; });
    if (found == work.end() || found->first > serial) continue;
    stream = number;
    return &*found;
  }
  return nullptr;
}

bool in_pinned(const char* address) {
  const auto after = pinned.upper_bound(address);
  return after != pinned.begin() && address < std::prev(after)->first + std::prev(after)->second;
}

void keep(EmulatedStream* stream, std::function<void()> work) {
  captured->work.push_back({stream, std::move(work)});
  ++captured->streams[stream][stream];
}
void end_capture() {
  for (EmulatedEvent* event : captured_events) event->captured.reset();
  captured_events.clear();
}

/// Whether a test leaves out this call.
bool leaves_out() { return of_calls != 0 && event_calls++ % of_calls == left_out; }

}  // namespace

namespace normlab::emulation {

Work begin_work(const char* op, std::uint64_t blocks) {
  const std::lock_guard lock(mutex);
  throw_if_changed();
  Clock& clock = current->before;
  join(clock, waited);
  Work work{next_serial, next_serial};
  next_serial += static_cast<std::uint32_t>(blocks);
  for (const auto& [stream, list] : pending) {
    if (stream == current->number) continue;
    const std::uint32_t until = done_until(clock, stream);
    const auto found = std::partition_point(list.begin(), list.end(), [&](const Done& d) { return d.end <= until; });
    if (found != list.end()) work.unordered = std::min(work.unordered, found->first);
  }
  clock[current->number] = next_serial;
  pending[current->number].push_back({work.first, next_serial, op});
  return work;
}

bool out_of_order(std::uint32_t serial) {
  const std::lock_guard lock(mutex);
  int stream = 0;
  const Done* const work = find(serial, stream);
  return work && work->end > done_until(current->before, stream);
}

std::string words_of(std::uint32_t serial) {
  const std::lock_guard lock(mutex);
  int stream = 0;
  const Done* const work = find(serial, stream);
  return work ? concat(work->op, " of stream ", stream) : "earlier work";
}

void touch(const char* op, const Work& work, const void* address, std::size_t bytes, bool writes) {
  const char* const begin = static_cast<const char*>(address);
  for (std::size_t at = 0; at < bytes;) {
    const std::size_t in = heap_offset(begin + at) % 4, count = std::min<std::size_t>(4 - in, bytes - at);
    Touches& seen = heap_touches(begin + at);
    Touch mine{};
    mine.serial = work.first;
    mine.bytes = static_cast<std::uint8_t>(((1u << count) - 1) << in);
    for (const Touch* before : {&seen.write, writes ? &seen.read : nullptr})
      if (before && before->serial >= work.unordered && (before->bytes & mine.bytes) && out_of_order(before->serial))
        throw Fault(concat(op, " of stream ", current->number, writes ? " writes" : " reads", " what ",
                           words_of(before->serial), before == &seen.write ? " has written" : " has read",
                           kOutOfOrder));
    (writes ? seen.write : seen.read) = mine;
    at += count;
  }
}

bool is_pinned(const void* address) {
  const std::lock_guard lock(mutex);
  return in_pinned(static_cast<const char*>(address));
}
void touch_host(const char* op, const Work& work, void* address, std::size_t bytes, bool writes) {
  const std::lock_guard lock(mutex);
  auto* const host = static_cast<char*>(address);
  if (!in_pinned(host)) return;
  HostCopy copy{current->number, work.first + 1, op, host, writes, {host, host + bytes}};
  // Whoever does not wait finds no number there.
  for (std::size_t at = 0; writes && at + sizeof kPoison <= bytes; at += sizeof kPoison)
    std::memcpy(host + at, &kPoison, sizeof kPoison);
  host_copies.push_back(std::move(copy));
}
void pin(void* block, std::size_t bytes) {
  const std::lock_guard lock(mutex);
  pinned[static_cast<char*>(block)] = bytes;
}
void unpin(void* block) {  // for which the device is waited for
  const std::lock_guard lock(mutex);
  const auto found = pinned.find(static_cast<char*>(block));
  if (found == pinned.end()) return;
  std::erase_if(host_copies, [&](const HostCopy& copy) {
    return copy.host >= found->first && copy.host < found->first + found->second;
  });
  pinned.erase(found);
}

bool capturing(cudaStream_t stream) { return captured && captured->streams.contains(stream); }
void pass(double seconds) { passed += seconds; }
void in_order(cudaStream_t stream, const std::function<void()>& work) {
  if (capturing(stream)) return keep(stream, work);
  const Turn turn(stream);
  work();
}
void wait_for_all() {
  const std::lock_guard lock(mutex);
  all_before = next_serial;
  waited.clear();
  host_waited({});
}

long graphs_launched() { return launched; }
void set_endless_work(bool endless) { endless_work = endless; }
void leave_out_events(int which, int of) {
  left_out = which;
  of_calls = of;
  event_calls = 0;
}
unsigned event_flags() { return flags_of_event; }

}  // namespace normlab::emulation

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) {
  const std::lock_guard lock(mutex);
  *stream = new EmulatedStream{++streams};
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  delete stream;
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (capturing(stream)) return cudaErrorStreamCaptureUnsupported;
  const std::lock_guard lock(mutex);
  host_waited((stream ? stream : &default_stream)->before);
  throw_if_changed();
  return error_at("");
}
cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return endless_work ? cudaErrorNotReady : cudaStreamSynchronize(stream);
}
cudaError_t cudaDeviceSynchronize() {
  wait_for_all();
  return cudaSuccess;
}
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  *status = capturing(stream) ? cudaStreamCaptureStatusActive : cudaStreamCaptureStatusNone;
  return cudaSuccess;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode) {
  captured.reset(new EmulatedGraph{.origin = stream});
  captured->streams[stream] = {};
  return cudaSuccess;
}
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  if (!captured) return cudaErrorInvalidValue;
  end_capture();
  *graph = captured.release();
  CaptureClock& at_end = (*graph)->streams[stream];
  for (auto& [other, clock] : (*graph)->streams)
    if (at_end[other] != clock[other]) {
      delete std::exchange(*graph, nullptr);
      return cudaErrorStreamCaptureUnjoined;
    }
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph, unsigned long long) {
  const std::lock_guard lock(mutex);
  *executable = new EmulatedGraph(*graph);
  for (const auto& [stream, clock] : graph->streams)
    if (stream != graph->origin) (*executable)->of_launches.emplace(stream, EmulatedStream{++streams});
  return cudaSuccess;
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  ++launched;
  for (auto& [captured_stream, branch] : executable->of_launches) branch.before = {};
  for (const EmulatedGraph::Item& item : executable->work) {
    const Turn turn(item.stream == executable->origin ? stream : &executable->of_launches.at(item.stream));
    item.work();
  }
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  delete graph;
  return cudaSuccess;
}
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t executable) {
  delete executable;
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  flags_of_event = flags;
  *event = new EmulatedEvent{.timed = (flags & cudaEventDisableTiming) == 0};
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  std::erase(captured_events, event);
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const std::lock_guard lock(mutex);
  if (leaves_out()) return cudaSuccess;
  if (capturing(stream)) {
    const auto at_launch = std::make_shared<Clock>();
    keep(stream, [at_launch] { *at_launch = current->before; });
    event->captured = {captured->streams[stream], at_launch};
    captured_events.push_back(event);
    return cudaSuccess;
  }
  event->seconds = now();
  event->before = (stream ? stream : &default_stream)->before;
  join(event->before, waited);
  return cudaSuccess;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  const std::lock_guard lock(mutex);
  if (leaves_out()) return cudaSuccess;
  if (event->captured) {
    for (const auto& [other, count] : event->captured->after) {
      std::size_t& mine = captured->streams[stream][other];
      mine = std::max(mine, count);
    }
    keep(stream, [at_launch = event->captured->at_launch] { join(current->before, *at_launch); });
    return cudaSuccess;
  }
  if (capturing(stream)) return cudaErrorStreamCaptureIsolation;
  join((stream ? stream : &default_stream)->before, event->before);
  return cudaSuccess;
}
cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  const std::lock_guard lock(mutex);
  if (!leaves_out()) host_waited(event->before);
  throw_if_changed();
  return cudaSuccess;
}
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t begin, cudaEvent_t end) {
  if (!begin->timed || !end->timed || begin->seconds == 0 || end->seconds == 0) return cudaErrorInvalidResourceHandle;
  *milliseconds = static_cast<float>(1e3 * (end->seconds - begin->seconds));
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) { return cudaEventSynchronize(event); }
