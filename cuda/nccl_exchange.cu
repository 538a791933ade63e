#include "cuda/nccl_exchange.h"

#include "core/error.h"

namespace normlab::NORMLAB_CUDA_NAMESPACE {
namespace {

const Nccl& opened(Group& group) {
  const Nccl* nccl = nullptr;
  group.agree([&] {
    static const Nccl library;
    nccl = &library;
  });
  return *nccl;
}

}  // namespace

NcclExchange::NcclExchange(Group& group, Stream& stream) : group_(group), stream_(stream), nccl_(opened(group)) {
  Nccl::Id id{};
  group.agree([&] {
    if (group.root()) nccl_.check("ncclGetUniqueId", nccl_.GetUniqueId(&id));
  });
  id = group.shared(id);
  group.agree([&] { nccl_.check("ncclCommInitRank", nccl_.CommInitRank(&comm_, group.size(), id, group.number())); });
  stream_.look_while_waiting([this] { look(); });
}

NcclExchange::~NcclExchange() {
  stream_.look_while_waiting(nullptr);
  end();
}

void NcclExchange::all_to_all(std::span<const Sent> send, std::span<const Received> receive) {
  const auto rank = static_cast<std::size_t>(group_.number());
  if (!send[rank].empty() && send[rank].data() != receive[rank].data())
    NORMLAB_CUDA_NAMESPACE::check("exchange",
                                  cudaMemcpyAsync(receive[rank].data(), send[rank].data(), send[rank].size(),
                                                  cudaMemcpyDeviceToDevice, stream_.handle()));
  as_group([&] {
    for (std::size_t r = 0; r < send.size(); ++r) {
      if (r == rank) continue;
      const int peer = static_cast<int>(r);
      if (!send[r].empty())
        note("ncclSend", nccl_.Send(send[r].data(), send[r].size(), Nccl::kByte, peer, comm_, stream_.handle()));
      if (!receive[r].empty())
        note("ncclRecv", nccl_.Recv(receive[r].data(), receive[r].size(), Nccl::kByte, peer, comm_, stream_.handle()));
    }
  });
}

void NcclExchange::all_gather(std::span<const Received> parts) {
  as_group([&] {
    for (std::size_t r = 0; r < parts.size(); ++r)
      if (!parts[r].empty())
        note("ncclBroadcast", nccl_.Broadcast(parts[r].data(), parts[r].data(), parts[r].size(), Nccl::kByte,
                                              static_cast<int>(r), comm_, stream_.handle()));
  });
}

void NcclExchange::as_group(FunctionRef<void()> body) {
  if (!comm_) throw EnvironmentError("NCCL: an earlier error has ended the connection of this process");
  note("ncclGroupStart", nccl_.GroupStart());
  body();
  note("ncclGroupEnd", nccl_.GroupEnd());  // also after an error, or the group would stay open
  check(failed_, error_);
  stream_.launched("an exchange between GPUs");
}

void NcclExchange::note(const char* call, int result) {
  if (error_ == 0) failed_ = call, error_ = result;
}

void NcclExchange::check(const char* call, int result) {
  try {
    nccl_.check(call, result, comm_);
  } catch (const EnvironmentError&) {
    end();
    throw;
  }
}

void NcclExchange::look() {
  if (!comm_) return;
  int error = 0;
  check("ncclCommGetAsyncError", nccl_.CommGetAsyncError(comm_, &error));
  check("an exchange between GPUs", error);
  try {
    group_.look();
  } catch (...) {
    end();
    throw;
  }
}

/// Not ncclCommDestroy(), which may wait for processes that are gone. Everything asked for is done, or must not go on.
void NcclExchange::end() {
  if (comm_) nccl_.CommAbort(comm_);
  comm_ = nullptr;
}

}  // namespace normlab::NORMLAB_CUDA_NAMESPACE
