// Any bytes as each of the files of a trial, as a plan and as exported results: result.json, metrics.jsonl,
// states.jsonl, correct.bits, claim, lease, plan.json. All are refused with an InputError or taken; what is taken comes
// back the same from the writer.
#include "core/error.h"
#include "experiments/lab/sweep/plan_file.h"
#include "experiments/lab/trials/claim.h"
#include "experiments/lab/trials/correctness_file.h"
#include "experiments/lab/trials/exported.h"
#include "experiments/lab/trials/metrics_log.h"
#include "experiments/lab/trials/store.h"
#include "experiments/lab/trials/trial_result.h"
#include "tests/fuzz/target.h"

using namespace normlab;
using namespace normlab::fuzz;

namespace {

/// Runs `work` unless it refuses its input.
template <class Work>
void taken_or_refused(const Work& work) {
  try {
    work();
  } catch (const InputError& error) {
    require(error.what()[0] != '\0', "an error without words");
  }
}

/// Lines are compared as text, since NaN is not equal to itself.
void check_metrics(const Folder& folder, const std::filesystem::path& file) {
  std::optional<MetricsLine> last;
  taken_or_refused([&] { last = last_metrics_line(file); });
  std::vector<MetricsLine> lines;
  try {
    lines = read_metrics(file);
  } catch (const InputError&) {
    return;
  }
  require(lines.empty() == !last.has_value(), "the last line is not the last of all");
  const auto write = [&](const char* name, const std::vector<MetricsLine>& what) {
    std::filesystem::remove(folder / name);
    MetricsLog log(folder / name);
    for (const MetricsLine& line : what) log.append(line);
    return read_file(folder / name);
  };
  const std::string text = write("metrics-1", lines);
  require(write("metrics-2", read_metrics(folder / "metrics-1")) == text, "metrics change on their way");
  if (last) require(text.ends_with(write("metrics-3", {*last})), "the last line is another one");
}

void check_claim(const Folder& folder) {
  const std::optional<Owner> owner = read_claim(folder.path());
  require(owner.has_value(), "a claim that is there is not seen");
  static_cast<void>(is_dead(*owner));
  const std::string text = lease_of(folder.path() / "nowhere", *owner);  // the claim's text, without a lease
  folder.write("again/claim", text);
  require(read_claim(folder / "again") == owner, "the claim changes on its way");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  const std::string_view text = text_of(data, size);
  const std::filesystem::path file = folder.write("file", text);
  taken_or_refused([&] {
    TrialResult result = parse_trial_result(text, "result.json");
    result.sealed = true;  // hardly any input has the right hash, so most are of the schema without one
    const std::string written = write_trial_result(result);
    require(write_trial_result(parse_trial_result(written, "again.json")) == written, "the result changes on its way");
  });
  check_metrics(folder, file);
  taken_or_refused([&] {
    const std::vector<StateRecord> records = read_state_records(file);
    std::string lines;
    for (const StateRecord& record : records) lines += write_state_record(record) + "\n";
    require(read_state_records(folder.write("states", lines)) == records, "states change on their way");
  });
  taken_or_refused([&] {
    const Correctness bits = read_correctness(file);
    write_correctness(folder / "bits", bits);
    require(read_correctness(folder / "bits") == bits, "bits change on their way");
    require(bits.count() <= bits.images(), "more images are right than there are");
  });
  taken_or_refused([&] { static_cast<void>(read_export(file)); });
  folder.write("claim", text);
  folder.write("lease", text);
  taken_or_refused([&] { check_claim(folder); });
  static_cast<void>(read_lease(folder.path()));
  folder.write("experiments/plan/plan.json", text);
  taken_or_refused([&] { static_cast<void>(read_plan_files(ResultStore(folder.path()))); });
  return 0;
}
