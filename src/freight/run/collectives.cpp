// See collectives.h.
#include "freight/run/collectives.h"

#include <utility>

#include "freight/base/device_memory.h"
#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight {

namespace {

thread_local Collectives* current = nullptr;

class AllReduce final : public Kernel {
 public:
  AllReduce(std::shared_ptr<DeviceMemory> memory, const Type& type, bool read_within)
      : memory_(std::move(memory)), type_(type), read_within_(read_within) {}

  void run(void* const* operands) override {
    const size_t bytes = type_.bytes();
    if (operands[0] != operands[1] && bytes > 0) {
      if (memory_) {
        memory_->copy(operands[1], operands[0], bytes, Queue::kernels);
      } else {
        parallel_copy(operands[1], operands[0], bytes);
      }
    }
    if (!current) return;
    if (read_within_ || memory_) {
      fail(ErrorKind::usage, "all_reduce",
           memory_ ? "sums over ranks are of host memory as yet"
                   : "a sum over ranks is there behind the run, but another step of it reads the sum",
           ": ", type_);
    }
    current->ready(operands[1]);
  }
  std::string name() const override { return "all_reduce"; }

 private:
  std::shared_ptr<DeviceMemory> memory_;
  Type type_;
  bool read_within_;
};

}  // namespace

CollectivesScope::CollectivesScope(Collectives* to) : before_(current) {
  if (to) current = to;
}
CollectivesScope::~CollectivesScope() { current = before_; }

std::unique_ptr<Kernel> make_all_reduce(std::shared_ptr<DeviceMemory> memory, const Type& type, bool read_within) {
  return std::make_unique<AllReduce>(std::move(memory), type, read_within);
}

}  // namespace freight
