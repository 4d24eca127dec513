// Collectives between devices, of which each rank of a job has one. A call takes its turn in the device's queue of
// kernels, or beside it, and returns at once; nothing goes through memory of the host. backend/gpu/cuda/nccl.h is the
// one that exists.
// Collectives between processes, whose arrays lie in memory of the host, are comm/comm.h.
#pragma once
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "freight/base/device_memory.h"
#include "freight/base/dtype.h"

namespace freight {

// Every call is made by all ranks, in the same order and with the same count, type and root, each from one thread at a
// time. Addresses are of the device's memory. Sums are of f32, f64 or i64, moves of these and of u8. All ranks get the
// same bits of a sum, which may be others in another run: the order in which it is added is the library's.
//
// A rank that is lost ends what the devices do together. Every later call, and every wait of the host for the device,
// then throws Error(peer_lost) that names it.
class DeviceCollectives {
 public:
  virtual ~DeviceCollectives() = default;

  virtual std::string name() const = 0;  // "NCCL 2.28.9"
  virtual const std::shared_ptr<DeviceMemory>& memory() const = 0;

  // The calls that `calls` makes are one piece of work, in which none uses what another one writes.
  virtual void together(const std::function<void()>& calls) = 0;
  // The same in a queue of its own: it begins behind what the kernels' queue was given so far, and runs beside what
  // that is given next.
  virtual void beside(const std::function<void()>& calls) = 0;
  // The kernels' queue begins what it is given from now on when all that was given beside it is done.
  virtual void join() = 0;
  // Calls that are made while the device records a run are part of the recording. Whether a call is recorded is the
  // same on all ranks, and so is the order in which recordings are enqueued; each time the host says so by this.
  virtual void enqueued() = 0;
  // This rank does no more with the others, since one is lost: what the device was given and waits ends unfinished.
  virtual void abort(const std::string& why) = 0;
  // data (count) becomes the sum of all ranks' data.
  virtual void all_reduce(void* data, int64_t count, DType dtype) = 0;
  // from (count), to (W, count): to[r] is rank r's `from`.
  virtual void all_gather(const void* from, void* to, int64_t count, DType dtype) = 0;
  // data (count) of every rank becomes that of rank `root`.
  virtual void broadcast(void* data, int64_t count, DType dtype, int root) = 0;
};

}  // namespace freight
