// What mpi_world.h is in a program that is built without MPI.
#include "base/error.h"
#include "cluster/transport/mpi_world.h"

namespace butterfly::cluster {

std::string MpiWorld::why_not() {
  return "mpi: this program was built without MPI; install libopenmpi-dev and configure with "
         "-DBUTTERFLY_MPI=ON";
}

std::shared_ptr<MpiWorld> MpiWorld::join() { fail(Errc::kUnsupported, "{}", why_not()); }

}  // namespace butterfly::cluster
