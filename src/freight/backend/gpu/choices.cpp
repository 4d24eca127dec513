// See choices.h.
#include "freight/backend/gpu/choices.h"

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <fstream>

#include "freight/backend/gpu/kernel_text.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"

namespace freight::gpu {

namespace {

constexpr int kRuns = 5;
constexpr double kLong = 5e-4;  // seconds that a run should take for the wait behind it not to count
constexpr int kMostRepeats = 20;
constexpr double kLongest = 1e9;                  // seconds
constexpr const char* kRevision = "kernels 1\n";  // raise it when the generated kernels change in speed

// Operands and scratch of a step on the device, all zeros.
class Blocks {
 public:
  Blocks(const StepSpec& spec, size_t scratch, DeviceMemory& memory) : memory_(memory) {
    for (const auto* list : {&spec.in, &spec.out}) {
      for (const Operand& o : *list) add(layout_bytes(o.type, o.layout));
    }
    add(scratch);
  }
  ~Blocks() {
    for (void* b : blocks_) memory_.release(b);
  }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;
  void* const* operands() const { return blocks_.data(); }

 private:
  void add(size_t bytes) {
    blocks_.push_back(memory_.allocate(bytes));
    const std::vector<char> zeros(bytes);
    memory_.upload(blocks_.back(), zeros.data(), bytes);
  }
  DeviceMemory& memory_;
  std::vector<void*> blocks_;
};

}  // namespace

Choices::Choices(const std::string& driver, const std::string& identity)
    : driver_(driver), path_(cat(env::cache_dir(), "/", driver, "/choices-", hash_name(kRevision + identity), ".txt")) {
  std::ifstream file(path_);
  for (std::string name, step; file >> name && std::getline(file >> std::ws, step);) found_[step] = name;
}

size_t Choices::fastest(const std::string& step, const StepSpec& spec, DeviceMemory& memory,
                        const std::vector<Kernel*>& candidates) {
  std::lock_guard lock(mutex_);
  if (const auto it = found_.find(step); it != found_.end()) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (candidates[i]->name() == it->second) return i;
    }
  }
  size_t scratch = 0;
  for (const Kernel* k : candidates) scratch = std::max(scratch, k->scratch_bytes());
  const Blocks blocks(spec, scratch, memory);
  std::vector<double> best(candidates.size(), kLongest);
  int repeats = 1;                          // of a step, in a run
  for (int run = 0; run <= kRuns; ++run) {  // the first one compiles
    if (run == 2) {
      const double least = *std::min_element(best.begin(), best.end());
      repeats = static_cast<int>(std::clamp(kLong / least, 1.0, 1.0 * kMostRepeats));
    }
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (best[i] > kLongest) continue;
      using Clock = std::chrono::steady_clock;
      const auto start = Clock::now();
      try {
        for (int k = 0; k < repeats; ++k) candidates[i]->run(blocks.operands());
        memory.wait();
      } catch (const Error& e) {
        log::info(cat(driver_, ": not used for ", step, ": ", candidates[i]->name(), ": ", e.what()));
        best[i] = 2 * kLongest;  // a library may refuse this device
        continue;
      }
      if (run > 0) best[i] = std::min(best[i], std::chrono::duration<double>(Clock::now() - start).count() / repeats);
    }
  }
  const auto winner = static_cast<size_t>(std::min_element(best.begin(), best.end()) - best.begin());
  std::string times;
  for (size_t i = 0; i < best.size(); ++i)
    times += cat(" ", candidates[i]->name(), " ", fixed(best[i] * 1e6, 1), " us");
  log::debug(cat(driver_, ": ", step, ":", times));
  found_[step] = candidates[winner]->name();
  std::error_code ignored;  // a file that cannot be written costs a measurement, never an error
  std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
  std::ofstream(path_, std::ios::app) << found_[step] << " " << step << "\n";
  return winner;
}

}  // namespace freight::gpu
