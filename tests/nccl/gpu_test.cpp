// NVIDIA's own NCCL with one rank: its functions as cuda/nccl.h declares them.
#include <cstring>
#include <numeric>

#include "cuda/nccl.h"
#include "tests/devices.h"

using namespace normlab;

TEST_CASE("NCCL on a GPU: one rank sends to itself and broadcasts") {
  on_each_device([&] {
    if (current_device().name != "cuda") return;
    const Nccl nccl;
    Nccl::Id id{};
    nccl.check("ncclGetUniqueId", nccl.GetUniqueId(&id));
    Nccl::Comm comm = nullptr;
    nccl.check("ncclCommInitRank", nccl.CommInitRank(&comm, 1, id, 0));

    Backend& backend = current_device().backend;
    Arena memory(backend.memory());
    constexpr std::size_t kBytes = 1000;
    const Tensor from = memory.empty({kBytes}, DType::u8), to = memory.empty({kBytes}, DType::u8);
    backend.synchronize();
    auto* const sent = static_cast<unsigned char*>(from.raw());
    auto* const received = static_cast<unsigned char*>(to.raw());
    std::iota(sent, sent + kBytes, static_cast<unsigned char>(0));
    std::memset(received, 0, kBytes);

    nccl.check("ncclGroupStart", nccl.GroupStart());
    nccl.check("ncclSend", nccl.Send(sent, kBytes, Nccl::kByte, 0, comm, nullptr));
    nccl.check("ncclRecv", nccl.Recv(received, kBytes, Nccl::kByte, 0, comm, nullptr));
    nccl.check("ncclGroupEnd", nccl.GroupEnd());
    nccl.check("ncclBroadcast", nccl.Broadcast(received, received, kBytes, Nccl::kByte, 0, comm, nullptr));
    int error = 1;
    nccl.check("ncclCommGetAsyncError", nccl.CommGetAsyncError(comm, &error));
    CHECK(error == 0);
    nccl.check("ncclCommAbort", nccl.CommAbort(comm));
    backend.synchronize();
    CHECK(std::memcmp(sent, received, kBytes) == 0);
  });
}
