#include "core/ranks/mpi_ranks.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/error.h"
#include "core/library.h"

namespace normlab {
namespace {

/// Bytes that a rank sends or receives in one call, whose counts are of type int.
constexpr std::size_t kMostBytes = std::size_t{256} << 20;

/// What differs between the ABIs: the type of handles, and the values of these.
template <class Handle>
struct Constants {
  Handle world, byte;
  int serialized;  // MPI_THREAD_SERIALIZED
};

template <class Handle>
struct Functions {
  int (*Init_thread)(int*, char***, int, int*);
  int (*Finalize)();
  int (*Abort)(Handle, int);
  int (*Comm_rank)(Handle, int*);
  int (*Comm_size)(Handle, int*);
  int (*Comm_split)(Handle, int, int, Handle*);
  int (*Allgatherv)(const void*, int, Handle, void*, const int*, const int*, Handle, Handle);
  int (*Alltoallv)(const void*, const int*, const int*, Handle, void*, const int*, const int*, Handle, Handle);
  int (*Get_library_version)(char*, int*);

  explicit Functions(const Library& library) {
    library.find("MPI_Init_thread", Init_thread);
    library.find("MPI_Finalize", Finalize);
    library.find("MPI_Abort", Abort);
    library.find("MPI_Comm_rank", Comm_rank);
    library.find("MPI_Comm_size", Comm_size);
    library.find("MPI_Comm_split", Comm_split);
    library.find("MPI_Allgatherv", Allgatherv);
    library.find("MPI_Alltoallv", Alltoallv);
    library.find("MPI_Get_library_version", Get_library_version);
  }
};

std::string version_of(int (*get)(char*, int*)) {
  std::string text(8192, '\0');  // the longest of all ABIs
  int length = 0;
  get(text.data(), &length);
  text.resize(static_cast<std::size_t>(length));
  std::replace(text.begin(), text.end(), '\t', ' ');
  return text.substr(0, text.find_first_of(std::string_view(",\n\0", 3)));  // the build follows
}

/// Errors end the job with MPI's own message: that is the default of its communicators.
template <class Handle>
class MpiRanks final : public Group {
 public:
  MpiRanks(const Functions<Handle>& mpi, Handle byte, Handle group) : mpi_(mpi), byte_(byte), group_(group) {
    mpi_.Comm_rank(group_, &rank_);
    mpi_.Comm_size(group_, &size_);
  }
  int number() const override { return rank_; }
  int size() const override { return size_; }

  void all_to_all(std::span<const Sent> send, std::span<const Received> receive) override {
    std::size_t longest = 0;
    for (const Sent& part : send) longest = std::max(longest, part.size());
    const std::vector<std::size_t> all = gathered(longest);
    const std::size_t step = kMostBytes / send.size();
    for (std::size_t at = 0, end = *std::max_element(all.begin(), all.end()); at < end; at += step) {
      const Cut to(send, at, step), from(receive, at, step);
      sent_.resize(to.bytes);
      for (std::size_t r = 0; r < send.size(); ++r) to.copy(r, send[r].data() + at, sent_.data() + to.begins[r]);
      received_.resize(from.bytes);
      mpi_.Alltoallv(sent_.data(), to.counts.data(), to.begins.data(), byte_, received_.data(), from.counts.data(),
                     from.begins.data(), byte_, group_);
      for (std::size_t r = 0; r < send.size(); ++r)
        from.copy(r, received_.data() + from.begins[r], receive[r].data() + at);
    }
  }

  void all_gather(std::span<const Received> parts) override {
    std::size_t longest = 0;
    for (const Received& part : parts) longest = std::max(longest, part.size());
    const std::size_t step = kMostBytes / parts.size();
    for (std::size_t at = 0; at < longest; at += step) {
      const Cut cut(parts, at, step);
      const auto rank = static_cast<std::size_t>(rank_);
      received_.resize(cut.bytes);
      mpi_.Allgatherv(cut.counts[rank] > 0 ? parts[rank].data() + at : nullptr, cut.counts[rank], byte_,
                      received_.data(), cut.counts.data(), cut.begins.data(), byte_, group_);
      for (std::size_t r = 0; r < parts.size(); ++r)
        if (r != rank) cut.copy(r, received_.data() + cut.begins[r], parts[r].data() + at);
    }
  }

  void fail(const std::exception& why) override {
    std::fprintf(stderr, "normlab: rank %d of %d: %s\n", rank_, size_, why.what());
    std::fflush(nullptr);
    const auto* error = dynamic_cast<const Error*>(&why);
    mpi_.Abort(group_, int(error ? error->code() : ExitCode::environment));
  }

 private:
  /// Bytes `at` to at + step of each part, and where they lie when joined.
  struct Cut {
    std::vector<int> counts, begins;
    std::size_t bytes = 0;
    template <class Part>
    Cut(std::span<const Part> parts, std::size_t at, std::size_t step) {
      for (const Part& part : parts) {
        counts.push_back(static_cast<int>(at < part.size() ? std::min(step, part.size() - at) : 0));
        begins.push_back(static_cast<int>(bytes));
        bytes += static_cast<std::size_t>(counts.back());
      }
    }
    void copy(std::size_t part, const std::byte* from, std::byte* to) const {
      if (counts[part] > 0) std::memcpy(to, from, static_cast<std::size_t>(counts[part]));
    }
  };

  const Functions<Handle>& mpi_;
  const Handle byte_, group_;
  int rank_ = 0, size_ = 1;
  std::vector<std::byte> sent_, received_;
};

template <class Handle>
class MpiOf final : public Mpi {
 public:
  MpiOf(const Library& library, const Constants<Handle>& constants) : mpi_(library), constants_(constants) {
    int provided = 0;
    mpi_.Init_thread(nullptr, nullptr, constants_.serialized, &provided);
    if (provided < constants_.serialized)
      throw EnvironmentError(concat(version(), ": allows no calls from several threads (MPI_THREAD_SERIALIZED)"));
    world_ = std::make_unique<MpiRanks<Handle>>(mpi_, constants_.byte, constants_.world);
  }
  Group& world() override { return *world_; }
  std::unique_ptr<Group> group(int ranks) override {
    Handle part{};
    mpi_.Comm_split(constants_.world, world_->number() / ranks, world_->number(), &part);
    return std::make_unique<MpiRanks<Handle>>(mpi_, constants_.byte, part);
  }
  std::string version() const override { return version_of(mpi_.Get_library_version); }
  void end() override { mpi_.Finalize(); }

 private:
  const Functions<Handle> mpi_;
  const Constants<Handle> constants_;
  std::unique_ptr<MpiRanks<Handle>> world_;
};

std::unique_ptr<Mpi> open_abi(const Library& library) {
  int (*version)(int*, int*) = nullptr;
  library.find("MPI_Abi_get_version", version);
  const auto handle = [](std::uintptr_t value) { return reinterpret_cast<void*>(value); };
  return std::make_unique<MpiOf<void*>>(library, Constants<void*>{handle(0x101), handle(0x247), 2048});
}
/// Handles are addresses of objects in the library.
std::unique_ptr<Mpi> open_open_mpi(const Library& library) {
  char *world = nullptr, *byte = nullptr;
  library.find_object("ompi_mpi_comm_world", world);
  library.find_object("ompi_mpi_byte", byte);
  return std::make_unique<MpiOf<void*>>(library, Constants<void*>{world, byte, 2});
}
/// Handles are numbers, also in the libraries that keep MPICH's ABI.
std::unique_ptr<Mpi> open_mpich(const Library& library) {
  const std::string version = version_of(Functions<int>(library).Get_library_version);
  if (version.find("MPICH") == version.npos && version.find("Intel") == version.npos &&
      version.find("MVAPICH") == version.npos)
    throw EnvironmentError(concat("it calls itself ", version));
  return std::make_unique<MpiOf<int>>(library, Constants<int>{0x44000000, 0x4c00010d, 2});
}

enum class Abi : std::uint8_t { standard, open_mpi, mpich };
struct Candidate {
  Abi abi;
  const char* file;
  std::unique_ptr<Mpi> (*open)(const Library& library);
};
constexpr Candidate kCandidates[] = {{Abi::standard, "libmpi_abi.so.0", open_abi},
                                     {Abi::open_mpi, "libmpi.so.40", open_open_mpi},
                                     {Abi::mpich, "libmpi.so.12", open_mpich},
                                     {Abi::mpich, "libmpich.so.12", open_mpich}};

int number(const char* text) {
  int value = -1;
  const std::string_view all(text);
  const auto [end, error] = std::from_chars(all.data(), all.data() + all.size(), value);
  return error == std::errc() && end == all.data() + all.size() ? value : -1;
}

constexpr const char* kOpenMpi = "mpirun of Open MPI";
constexpr const char* kPmi = "a launcher with PMI";

}  // namespace

std::optional<Launch> find_launch() {
  struct Names {
    const char *by, *rank, *size;
  };
  // srun sets the last pair for its tasks, but not for a batch script.
  for (const Names& names :
       {Names{kOpenMpi, "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"}, Names{kPmi, "PMI_RANK", "PMI_SIZE"},
        Names{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}, Names{"a launcher with PMIx", "PMIX_RANK", nullptr}}) {
    const char* const rank = std::getenv(names.rank);
    const char* const size = names.size ? std::getenv(names.size) : "0";
    if (!rank || !size) continue;
    const Launch launch{names.by, number(rank), number(size)};
    if (launch.rank < 0 || launch.size < 0)
      throw EnvironmentError(concat("the variables ", names.rank, "=", rank, names.size ? " and " : "",
                                    names.size ? concat(names.size, "=", size) : "", " are not the numbers of a rank"));
    if (launch.size == 1) return std::nullopt;
    return launch;
  }
  return std::nullopt;
}

std::unique_ptr<Mpi> start_mpi(const Launch& launch) {
  std::string missing;
  for (const Candidate& candidate : kCandidates) {
    // A library that cannot belong to the launcher would find one rank only.
    if (candidate.abi == Abi::mpich && launch.by == kOpenMpi) continue;
    if (candidate.abi == Abi::open_mpi && launch.by == kPmi) continue;
    std::optional<Library> library;
    try {
      library.emplace("MPI", candidate.file, "", Library::Visible::to_all);
    } catch (const EnvironmentError&) {
      missing += concat(missing.empty() ? "" : ", ", candidate.file);
      continue;
    }
    std::unique_ptr<Mpi> mpi;
    try {
      mpi = candidate.open(*library);
    } catch (const EnvironmentError& error) {
      throw EnvironmentError(concat(candidate.file, ": has an unknown ABI: ", error.what()));
    }
    const int found = mpi->world().size();
    if (found == launch.size || (launch.size == 0 && found > 1)) return mpi;
    throw EnvironmentError(concat(
        launch.by, " has started ", launch.size > 0 ? concat(launch.size, " ranks") : std::string("ranks"), ", but ",
        candidate.file, " (", mpi->version(), ") finds ", found, "; use the launcher of that library"));
  }
  throw EnvironmentError(concat(launch.by, " has started this process, but no MPI library can be loaded (", missing,
                                "); install the launcher's library, or train with --ranks, which needs none"));
}

}  // namespace normlab
