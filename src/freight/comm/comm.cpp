// See comm.h.
#include "freight/comm/comm.h"

namespace freight::comm {

const char* to_string(Collective collective) {
  switch (collective) {
    case Collective::all_reduce: return "all_reduce";
    case Collective::all_gather: return "all_gather";
    case Collective::broadcast: return "broadcast";
    case Collective::barrier: break;
  }
  return "barrier";
}

}  // namespace freight::comm
