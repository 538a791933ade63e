// Ranks that an MPI launcher started. The MPI library is opened at run time, so that the program needs none.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "core/group.h"

namespace normlab {

/// What a launcher says in the environment of a process that it started.
struct Launch {
  std::string by;  // "mpirun of Open MPI"
  int rank = 0;
  int size = 0;  // 0: the launcher does not say
};

/// Reads the environment variables of Open MPI, MPICH (PMI), PMIx and srun. None if this process was started alone, or
/// as one of one.
std::optional<Launch> find_launch();

class Mpi {
 public:
  virtual ~Mpi() = default;
  virtual Group& world() = 0;
  /// The ranks of the world whose number divided by `ranks` is that of this one. All of the world call it.
  virtual std::unique_ptr<Group> group(int ranks) = 0;
  /// "Open MPI v4.1.4, ..."
  virtual std::string version() const = 0;
  /// Ends MPI in this process, after which no group may be used. All of the world call it.
  virtual void end() = 0;
};

/// Opens and starts the launcher's MPI: the library of the MPI 5 ABI (libmpi_abi.so.0), Open MPI (libmpi.so.40) or
/// MPICH (libmpi.so.12, Debian's libmpich.so.12). Once per process. EnvironmentError if there is none, if it is not
/// what its name says, or if it finds another number of ranks than the launcher has started.
std::unique_ptr<Mpi> start_mpi(const Launch& launch);

}  // namespace normlab
