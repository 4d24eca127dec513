// The processes of one job sum and move arrays together; every one of them takes part in each call. This is the
// interface; shared_memory.h is the transport for processes of one host, network_comm.h that between hosts, and join.h
// takes the one or the other. Nothing here knows graphs or plans. A process of a job is a rank: R of W, from 0 on.
// "Step" is whatever number the caller gives by at_step().
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "freight/base/dtype.h"

namespace freight::comm {

enum class Collective : uint8_t { all_reduce, all_gather, broadcast, barrier };
const char* to_string(Collective collective);

// Every call below is made by all ranks, in the same order and with the same count, type and root, each from one thread
// at a time. It returns when this rank's arrays hold the result and may be used again; other ranks may still be in it.
// Sums are of f32, f64 or i64 (which wraps around), moves of these and of u8. A sum is added in the order of
// tree_sum.h, which depends on W alone: every rank has the same bits, in every run.
//
// Errors, after each of which the job is over for this object, so that later calls throw the same:
//   usage      ranks call different collectives, or with other counts, types or roots; both calls are named
//   peer_lost  a rank ended, gave up by abort(), or did not come within the timeout; it is named
// A type that cannot be added, a negative count or a root that is no rank is Error(usage), too, but ends nothing: other
// ranks never see that call. where() of an error names rank, step and host of the thrower, op() its collective.
class Comm {
 public:
  virtual ~Comm() = default;

  virtual int rank() const = 0;   // the number of this process, from 0 to world() - 1
  virtual int world() const = 0;  // ranks of the job, 1 or more
  // True if a collective mostly waits for the network, so that another thread can compute meanwhile; false if the
  // processors move the data themselves.
  virtual bool over_network() const = 0;

  // data (count) becomes the sum of all ranks' data.
  virtual void all_reduce(void* data, int64_t count, DType dtype) = 0;
  // from (count), to (W, count): to[r] is rank r's `from`. `from` may be its own place in `to`.
  virtual void all_gather(const void* from, void* to, int64_t count, DType dtype) = 0;
  // data (count) of every rank becomes that of rank `root`.
  virtual void broadcast(void* data, int64_t count, DType dtype, int root) = 0;
  // Returns when all ranks called it.
  virtual void barrier() = 0;

  // Ends the job: the others throw an error with `reason` from the collective that they are in, or enter next. Needs no
  // partner and does not throw, so that a rank can call it on its way out.
  virtual void abort(const std::string& reason) noexcept = 0;
  // Sets the step that error messages give for this rank, its own and those of other ranks about it.
  virtual void at_step(int64_t step) = 0;

  // The seconds that this rank has waited in collectives for each other rank, by rank. wait_report.h finds slow ranks
  // by them.
  virtual std::vector<double> waited() const = 0;

  // Describes a rank that is known to be lost: "rank 2 failed: its process 12 on host b ended or was killed; ...". ""
  // if none is known. Waits outside of collectives, as of devices for each other, ask this and whereabouts(), from any
  // thread.
  virtual std::string lost() const { return {}; }
  // Describes where each other rank is: "rank 1 was last in barrier at step 7, its process 12 on host b is stopped".
  virtual std::string whereabouts() const { return {}; }
};

}  // namespace freight::comm
