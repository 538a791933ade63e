#include "core/ranks/ranks.h"

#include <algorithm>

#include "core/error.h"

namespace normlab {
namespace {

class SingleRank final : public Ranks {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void all_to_all(std::span<const Sent> send, std::span<const Received> receive) override {
    std::copy(send[0].begin(), send[0].end(), receive[0].begin());
  }
  void all_gather(std::span<const Received>) override {}
  void broadcast(Received, int) override {}
  void barrier() override {}
};

}  // namespace

std::string Ranks::shared_text(std::string text, int from) {
  text.resize(shared(text.size(), from));
  broadcast(std::as_writable_bytes(std::span(text)), from);
  return text;
}

void Ranks::agree(FunctionRef<void()> body) {
  int code = 0;
  std::string mine;
  std::exception_ptr thrown;
  try {
    body();
  } catch (const std::exception& error) {
    const auto* known = dynamic_cast<const Error*>(&error);
    code = int(known ? known->code() : ExitCode::environment);
    mine = error.what();
    thrown = std::current_exception();
  }
  const std::vector<int> codes = gathered(code);
  const auto first = std::find_if(codes.begin(), codes.end(), [](int of) { return of != 0; });
  if (first == codes.end()) return;
  const auto from = int(first - codes.begin());
  const std::string text = shared_text(mine, from);
  if (thrown) std::rethrow_exception(thrown);
  if (*first == int(ExitCode::bad_input)) throw InputError(text);
  throw EnvironmentError(concat("rank ", from, " of ", size(), ": ", text));
}

Ranks& single_rank() {
  static SingleRank alone;
  return alone;
}

}  // namespace normlab
