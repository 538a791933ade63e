// Ranks on GPUs, under emulation, with tests/nccl/fake.cpp in NCCL's place: bits, calls and errors.
#include <signal.h>
#include <unistd.h>

#include "core/backend.h"
#include "cuda/nccl.h"
#include "tests/nccl/on_gpus.h"
#include "tests/nn/training/formula_network.h"
#include "tests/nn/training/ranks_training.h"

using namespace normlab;
using fake_nccl::Call;

namespace {

void check_gpus(Case c, std::int64_t shards) {
  const Fresh fresh;
  c.settings.device_shards = shards;
  const std::vector<std::byte> alone = trained(c, *cuda_emulated::make_backend(0), group_of_one(), 1);
  for (int ranks = 1; ranks <= shards; ++ranks) {
    CAPTURE(ranks);
    on_gpus(ranks, [&](Backend& backend, Group& group) {
      const long before = emulation::graphs_launched();
      const std::vector<std::byte> here = trained(c, backend, group, 2);
      const bool equal =
          std::equal(here.begin(), here.end(), alone.begin()) && (!group.root() || here.size() == alone.size());
      const std::vector<char> all = group.gathered(char(equal));
      if (!group.root()) return;
      CHECK(all == std::vector<char>(all.size(), 1));
      CHECK(emulation::graphs_launched() > before);
      if (ranks > 1) CHECK(std::string(fake().problem()) == "");
    });
  }
}

Case small_case() {
  Case c;
  c.batch = c.settings.max_batch = 6;
  c.last = 3;
  c.equal_steps = 4;  // the first ones make memory, the later ones replay their graph
  return c;
}

/// The ranks of another group in the same processes.
class OtherGroup final : public Group {
 public:
  explicit OtherGroup(Group& of) : of_(of) {}
  int number() const override { return of_.number(); }
  int size() const override { return of_.size(); }
  void all_to_all(std::span<const Sent> send, std::span<const Received> receive) override {
    of_.all_to_all(send, receive);
  }
  void all_gather(std::span<const Received> parts) override { of_.all_gather(parts); }

 private:
  Group& of_;
};

std::string message_of(FunctionRef<void()> body) {
  try {
    body();
  } catch (const EnvironmentError& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace

TEST_CASE("ranks on GPUs: layer norm, in four shards") { check_gpus(small_case(), 4); }

TEST_CASE("ranks on GPUs: bf16, in parts of a batch, three shards") {
  Case c = small_case();
  c.settings.precision = Precision::bf16;
  c.settings.accumulate = 2;
  check_gpus(c, 3);
}

TEST_CASE("ranks on GPUs: Swin, drop-path, dropout and an average of the weights") {
  Case c = small_case();
  SwinConfig model = small_swin("pre_pre");
  model.drop_path = 0.5;
  model.dropout = 0.1;
  c.model = model;
  c.settings.ema.decay = 0.9;
  check_gpus(c, 2);
}

TEST_CASE("ranks on GPUs: norms and activations that are formulas, and heads, in two shards") {
  for (const ViTConfig& model : {with_formulas(), with_gates(), with_heads(small_vit("pre_pre"), AttnGate::head)}) {
    Case c = small_case();
    c.model = model;
    check_gpus(c, 2);
  }
}

TEST_CASE("ranks on GPUs: every optimiser") {
  for (std::size_t name = 0; name < kWords<OptimizerName>.size(); ++name) {
    CAPTURE(name);
    Case c = small_case();
    c.settings.optimizer.name = static_cast<OptimizerName>(name);
    c.settings.optimizer.weight_decay = 0.1;
    check_gpus(c, 2);
  }
}

TEST_CASE("ranks on GPUs: the fewest images, and frozen parameters") {
  Case c = small_case();
  c.batch = c.settings.max_batch = 3;
  c.last = 1;
  c.settings.freeze = {"stem", "blocks.0"};
  check_gpus(c, 4);
}

TEST_CASE("ranks on GPUs: each exchange is one group of calls with sizes that agree") {
  const Fresh fresh;
  on_gpus(3, [](Backend& backend, Group& group) {
    Arena memory(backend.memory());
    const Tensor bytes = memory.empty({30}, DType::u8);
    backend.synchronize();
    auto* const data = static_cast<std::byte*>(bytes.raw());
    const int own = group.number();
    std::fill_n(data, 30, std::byte(own));
    const auto at = [&](int first, int count) { return Exchange::Received(data + first, std::size_t(count)); };
    Exchange& gpus = backend.exchange(group);
    fake().records.clear();
    // Rank r sends r + 1 bytes to each, but rank 2 nothing to rank 0.
    const auto sent = [](int from, int to) { return from == 2 && to == 0 ? 0 : from + 1; };
    std::vector<Exchange::Sent> send;
    std::vector<Exchange::Received> receive;
    for (int r = 0; r < 3; ++r) {
      send.push_back(at(0, sent(own, r)));
      receive.push_back(at(5 + 5 * r, sent(r, own)));
    }
    gpus.all_to_all(send, receive);
    gpus.all_gather(std::vector{at(20, 2), at(22, 0), at(22, 3)});
    gpus.all_gather(std::vector{at(0, 0), at(26, 3), at(0, 0)});
    backend.synchronize();
    std::string seen;
    for (int i = 5; i < 30; ++i) {
      const int value = int(data[i]);
      if (i < 20 && i % 5 == 0) seen += ' ';
      seen += i < 20 && value == own && (i - 5) / 5 != own ? "." : std::to_string(value);
    }
    seen += ' ';
    for (const fake_nccl::Record& r : fake().records) {
      if (r.call == Call::group_start || r.call == Call::group_end) {
        seen += r.call == Call::group_start ? '(' : ')';
        continue;
      }
      const char* const name = r.call == Call::send ? " send " : r.call == Call::receive ? " receive " : " of ";
      seen += concat(name, r.peer, ":", r.bytes);
    }
    if (&backend.exchange(group) != &gpus) seen += " made again";
    const char* const due[] = {
        " 00000 11... .....0022201110 ( send 1:1 receive 1:2 send 2:1)( of 0:2 of 2:3)( of 1:3)",
        " 0.... 11111 222..0022211111 ( send 0:2 receive 0:1 send 2:2 receive 2:3)( of 0:2 of 2:3)( of 1:3)",
        " 0.... 11... 222220022221112 ( receive 0:1 send 1:3 receive 1:2)( of 0:2 of 2:3)( of 1:3)"};
    for (int r = 0; r < 3; ++r) {
      const std::string of = group.shared_text(seen, r);
      if (group.root()) CHECK(of == due[r]);
    }
    if (group.root()) CHECK(std::string(fake().problem()) == "");
  });
}

TEST_CASE("ranks on GPUs: the fake sees calls that do not fit") {
  const Fresh fresh;
  const auto found = [](FunctionRef<void(Backend&, Exchange&, Group&, std::byte*)> body) {
    std::string problem;
    on_gpus(2, [&](Backend& backend, Group& group) {
      Arena memory(backend.memory());
      auto* const data = static_cast<std::byte*>(memory.empty({60}, DType::u8).raw());
      body(backend, backend.exchange(group), group, data);
      group.gathered(0);
      problem = fake().problem();
    });
    return problem;
  };
  CHECK(found([](Backend&, Exchange& gpus, Group& group, std::byte* data) {
          const std::size_t bytes = group.root() ? 3 : 4;  // rank 0 receives less than rank 1 sends
          gpus.all_to_all(std::vector<Exchange::Sent>(2, {data, bytes}),
                          std::vector<Exchange::Received>(2, {data + 8, bytes}));
        }).find(" bytes of rank ") != std::string::npos);
  CHECK(found([](Backend&, Exchange& gpus, Group& group, std::byte* data) {
          const auto bytes = [&](int r) { return std::size_t(group.root() && r == 1 ? 2 : 0); };  // nobody receives
          gpus.all_to_all(std::vector<Exchange::Sent>{{data, bytes(0)}, {data, bytes(1)}},
                          std::vector<Exchange::Received>(2));
        }) == "rank 1: does not receive 2 bytes of rank 0");
  CHECK(found([](Backend&, Exchange& gpus, Group&, std::byte*) {
          std::byte here[4] = {};
          gpus.all_gather(std::vector<Exchange::Received>{here, {}});
        }) == "ncclBroadcast: 4 bytes that are not the device's");
}

TEST_CASE("ranks on GPUs: what NCCL refuses ends all ranks with its words") {
  const Fresh fresh;
  for (const char* call : {"ncclGetUniqueId", "ncclCommInitRank", "ncclSend", "ncclBroadcast", "ncclGroupEnd"}) {
    CAPTURE(call);
    fake().failing = call;
    const std::string said = message_of([&] {
      on_gpus(2, [&](Backend& backend, Group& group) {
        Arena memory(backend.memory());
        auto* const data = static_cast<std::byte*>(memory.empty({60}, DType::u8).raw());
        Exchange& gpus = backend.exchange(group);
        gpus.all_gather(std::vector<Exchange::Received>{{data, 4}, {}});
        gpus.all_to_all(std::vector<Exchange::Sent>(2, {data, 4}), std::vector<Exchange::Received>(2, {data + 8, 4}));
        CHECK(false);
      });
    });
    CHECK_MESSAGE(said.find(concat("NCCL: ", call, ": invalid usage (fake) (the fake says why); NCCL_DEBUG=WARN")) !=
                      std::string::npos,
                  said);
  }
}

TEST_CASE("ranks on GPUs: an error that comes later ends a rank that waits") {
  const Fresh fresh;
  const std::string said = message_of([&] {
    on_gpus(2, [&](Backend& backend, Group& group) {
      Exchange& gpus = backend.exchange(group);
      backend.synchronize();
      if (group.root()) emulation::set_endless_work(true);  // it waits for the other
      if (group.root()) fake().async_error = 6;
      if (!group.root()) pause();
      try {
        backend.synchronize();
      } catch (const EnvironmentError&) {
        CHECK(fake().aborted);
        CHECK(message_of([&] { gpus.all_gather({}); }).find("an earlier error") != std::string::npos);
        throw;
      }
    });
  });
  CHECK(said.starts_with("NCCL: an exchange between GPUs: remote error (fake)"));
}

TEST_CASE("ranks on GPUs: a rank of a later group that waits sees an error, too") {
  const Fresh fresh;
  const std::string said = message_of([&] {
    on_gpus(2, [&](Backend& backend, Group& group) {
      backend.exchange(group);
      OtherGroup later(group);
      backend.exchange(later);
      if (!group.root()) return;
      emulation::set_endless_work(true);
      fake().async_error = 6;
      backend.synchronize();
    });
  });
  CHECK_MESSAGE(said.starts_with("NCCL: an exchange between GPUs: remote error (fake)"), said);
}

TEST_CASE("ranks on GPUs: a killed rank ends those that wait for their GPU") {
  const Fresh fresh;
  const std::string said = message_of([] {
    on_gpus(3, [](Backend& backend, Group& group) {
      backend.exchange(group);
      group.gathered(0);
      emulation::set_endless_work(true);
      if (group.number() == 2) kill(getpid(), SIGKILL);
      backend.synchronize();
    });
  });
  CHECK_MESSAGE(said.starts_with("rank 2 of 3 (process "), said);
}

TEST_CASE("NCCL: a missing and an old library") {
  const Fresh fresh;
  CHECK(message_of([] { Nccl("libnccl-none.so.2"); })
            .starts_with("NCCL, which moves data between GPUs, cannot be loaded (libnccl-none.so.2: cannot open shared "
                         "object file"));
  fake().version = 21212;
  CHECK(message_of([] { Nccl(); }) ==
        "NCCL: libnccl.so.2 has the version number 21212, but at least 21300 (2.13) is needed; install NCCL 2 "
        "(libnccl2) or add its folder to LD_LIBRARY_PATH; one rank on a GPU needs none");
  fake().failing = "ncclGetVersion";
  CHECK(message_of([] { Nccl(); }) == "NCCL: ncclGetVersion: invalid usage (fake)");
}
