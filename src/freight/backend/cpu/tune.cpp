// See tune.h.
#include "freight/backend/cpu/tune.h"

#include <dnnl_version.h>

#include <algorithm>
#include <cstring>

#include "freight/backend/choices.h"
#include "freight/base/array.h"
#include "freight/base/cpu_info.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int kRevision = 8;  // of the kernels: raise it when one becomes faster, so that all are measured again
constexpr size_t kCold = size_t{64} << 20;  // more than the caches hold

// What choices hold for. Models may compute with fewer threads than there are (ThreadLimit).
std::string circumstances() {
  static const std::string machine = cat(cpu_info().model, ", oneDNN ", DNNL_VERSION_MAJOR, ".", DNNL_VERSION_MINOR,
                                         ".", DNNL_VERSION_PATCH, ", kernels ", kRevision, ", ");
  return cat(machine, thread_count(), " threads");
}

// Zeroed buffers for all operands of a step.
class Buffers {
 public:
  Buffers(const StepSpec& spec, size_t scratch, int cold) : cold_(cold) {
    for (const auto* list : {&spec.in, &spec.out}) {
      for (const Operand& o : *list) {
        const size_t bytes = layout_bytes(o.type, o.layout) + 64;
        if (static_cast<int>(operands_.size()) == cold_) stride_ = (bytes + 63) / 64 * 64;
        add(static_cast<int>(operands_.size()) == cold_ ? std::max(kCold, stride_) : bytes);
      }
    }
    add(scratch + 64);
  }
  // For the next run: the cold operand lies behind where it lay in the last one.
  void* const* operands() {
    if (cold_ >= 0) {
      const Storage& block = *storage_[static_cast<size_t>(cold_)];
      at_ = at_ + 2 * stride_ <= block.size() ? at_ + stride_ : 0;
      operands_[static_cast<size_t>(cold_)] = static_cast<char*>(block.data()) + at_;
    }
    return operands_.data();
  }

 private:
  void add(size_t bytes) {
    storage_.push_back(Storage::allocate(bytes));
    std::memset(storage_.back()->data(), 0, bytes);  // until it is written, all of a large block is one page of zeros
    operands_.push_back(storage_.back()->data());
  }
  std::vector<std::shared_ptr<Storage>> storage_;
  std::vector<void*> operands_;
  int cold_;
  size_t stride_ = 0, at_ = 0;
};

}  // namespace

size_t fastest(const std::string& step, const std::vector<Candidate>& candidates, const std::vector<StepSpec>& specs,
               int cold) {
  if (candidates.size() == 1 || !measures(specs[0])) return 0;
  static Choices choices("cpu-choices.txt");
  std::vector<Choices::Candidate> measured;
  for (size_t i = 0; i < candidates.size(); ++i) {
    measured.push_back({candidates[i].name, [&, i] {
                          const std::shared_ptr<Kernel> kernel = candidates[i].make();
                          const auto buffers = std::make_shared<Buffers>(specs[i], kernel->scratch_bytes(), cold);
                          return [=](int times) {
                            for (int k = 0; k < times; ++k) kernel->run(buffers->operands());
                          };
                        }});
  }
  return choices.fastest(cat(step, " on ", circumstances()), measured);
}

std::unique_ptr<Kernel> choose(const StepSpec& spec, const std::vector<Candidate>& candidates) {
  const std::vector<StepSpec> same(candidates.size(), spec);
  return candidates[fastest(signature(spec), candidates, same)].make();
}

}  // namespace freight::cpu
