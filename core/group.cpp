#include "core/group.h"

#include <algorithm>

#include "core/error.h"

namespace normlab {
namespace {

class GroupOfOne final : public Group {
 public:
  int number() const override { return 0; }
  int size() const override { return 1; }
  void all_to_all(std::span<const Sent> send, std::span<const Received> receive) override {
    std::copy(send[0].begin(), send[0].end(), receive[0].begin());
  }
  void all_gather(std::span<const Received>) override {}
};

}  // namespace

void Group::broadcast(Received bytes, int from) {
  if (alone()) return;
  std::vector<Received> parts(static_cast<std::size_t>(size()));
  parts[static_cast<std::size_t>(from)] = bytes;
  all_gather(parts);
}

void Group::agree(FunctionRef<void()> body) {
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
  const auto first = std::find_if(codes.begin(), codes.end(), [](int found) { return found != 0; });
  if (first == codes.end()) return;
  const auto from = int(first - codes.begin());
  const std::string text = shared_text(mine, from);
  if (thrown) std::rethrow_exception(thrown);
  if (*first == int(ExitCode::bad_input)) throw InputError(text);
  throw EnvironmentError(concat("rank ", from, " of ", size(), ": ", text));
}

Group& group_of_one() {
  static GroupOfOne alone;
  return alone;
}

}  // namespace normlab
