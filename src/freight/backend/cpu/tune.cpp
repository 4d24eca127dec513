// See tune.h.
#include "freight/backend/cpu/tune.h"

#include <dnnl_version.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>

#include "freight/base/array.h"
#include "freight/base/cpu_info.h"
#include "freight/base/env.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

// Each candidate runs at least kMinRuns times and kMinSeconds in all; on a busy machine, where the best runs do not
// agree, up to kMaxSeconds, which is the end for slow ones after kMinSlowRuns. Another candidate than the first must
// win by kMargin: in its best time, or, on a busy machine, against the other's run beside it in the middle of all
// rounds and at all in kMostRounds of them.
constexpr size_t kMinRuns = 5, kMinSlowRuns = 3, kMaxRuns = 400;
constexpr int kRevision = 7;  // of the kernels: raise it when one becomes faster, so that all are measured again
constexpr size_t kCold = size_t{64} << 20;  // more than the caches hold
constexpr double kMinSeconds = 0.004, kMaxSeconds = 0.1, kMargin = 0.95, kMostRounds = 0.8, kAgreement = 1.1;

std::string signature(const StepSpec& spec) {
  std::string s = name(spec.node->op);
  if (const auto* m = std::get_if<MatmulAttrs>(&spec.node->attrs)) {
    s += cat(m->trans_a ? " ta" : "", m->trans_b ? " tb" : "", m->epilogue.bias ? " bias" : "",
             m->epilogue.residual ? " residual" : "", m->epilogue.relu ? " relu" : "");
  }
  for (const auto* list : {&spec.in, &spec.out}) {
    for (const Operand& o : *list) s += cat(" ", o.type, o.layout);
  }
  return s;
}

// What choices hold for. Models may compute with fewer threads than there are (ThreadLimit).
std::string circumstances() {
  static const std::string machine = cat(cpu_info().model, ", oneDNN ", DNNL_VERSION_MAJOR, ".", DNNL_VERSION_MINOR,
                                         ".", DNNL_VERSION_PATCH, ", kernels ", kRevision, ", ");
  return cat(machine, thread_count(), " threads");
}

// The choices of this machine, loaded once; every new one is written at once. A file that cannot be read or written
// costs a measurement, never an error.
class Memory {
 public:
  Memory() : path_(env::cache_dir() + "/cpu-choices.json") {
    const auto stored = read();
    for (const auto& [key, steps] : stored.items()) {
      if (!steps.is_object()) continue;
      for (const auto& [step, choice] : steps.items()) {
        if (choice.is_string()) choices_[key][step] = choice.get<std::string>();
      }
    }
  }

  bool find(const std::string& step, std::string& choice) {
    std::lock_guard lock(mutex_);
    const auto& choices = choices_[circumstances()];
    const auto it = choices.find(step);
    if (it == choices.end()) return false;
    choice = it->second;
    return true;
  }

  enum class For : uint8_t { process, ever };
  void remember(const std::string& step, const std::string& choice, For time) {
    std::lock_guard lock(mutex_);
    const std::string key = circumstances();
    choices_[key][step] = choice;
    if (time == For::process) return;
    auto stored = read();  // others may have written meanwhile
    stored[key][step] = choice;
    std::error_code ignored;
    std::filesystem::create_directories(std::filesystem::path(path_).parent_path(), ignored);
    const std::string temporary = path_ + ".new";
    {
      std::ofstream file(temporary);
      if (!(file << stored.dump(1))) return;
    }
    std::filesystem::rename(temporary, path_, ignored);
  }

 private:
  nlohmann::json read() const {
    std::ifstream file(path_);
    auto stored = nlohmann::json::parse(file, nullptr, false);
    return stored.is_object() ? stored : nlohmann::json::object();
  }

  std::mutex mutex_;
  std::string path_;
  std::map<std::string, std::map<std::string, std::string>> choices_;  // by circumstances
};

Memory& memory() {
  static Memory m;
  return m;
}

// Zeroed buffers for all operands of a step.
class Buffers {
 public:
  Buffers(const Alternative& a, size_t scratch) : cold_(a.cold) {
    for (const auto* list : {&a.spec.in, &a.spec.out}) {
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

// The times of one candidate. Three runs that agree are believed.
class Times {
 public:
  void run(Kernel& kernel, void* const* operands) {
    using Clock = std::chrono::steady_clock;
    const auto start = Clock::now();
    kernel.run(operands);
    double t = std::chrono::duration<double>(Clock::now() - start).count();
    total_ += t;
    rounds_.push_back(t);
    for (double& b : best_) {
      if (t < b) std::swap(t, b);
    }
  }
  double best() const { return best_[0]; }
  bool settled() const {
    return rounds_.size() >= (slow() ? kMinSlowRuns : kMinRuns) && best_[2] <= best_[0] * kAgreement;
  }
  bool done() const {
    return rounds_.size() >= kMaxRuns || (rounds_.size() >= kMinSlowRuns && slow()) ||
           (settled() && total_ >= kMinSeconds);
  }
  // Both ran in turn.
  bool wins_rounds(const Times& other) const {
    std::vector<double> ratios;
    for (size_t i = 0; i < rounds_.size(); ++i) ratios.push_back(rounds_[i] / other.rounds_[i]);
    std::sort(ratios.begin(), ratios.end());
    return ratios[ratios.size() / 2] < kMargin &&
           ratios[static_cast<size_t>(static_cast<double>(ratios.size() - 1) * kMostRounds)] < 1;
  }

 private:
  bool slow() const { return total_ >= kMaxSeconds; }

  double best_[3] = {1e9, 1e9, 1e9}, total_ = 0;
  std::vector<double> rounds_;
};

}  // namespace

size_t fastest(const std::string& step, const std::vector<Alternative>& alternatives) {
  if (alternatives.size() == 1 || env::get("FREIGHT_TUNE") == "0") return 0;
  std::string choice;
  if (memory().find(step, choice)) {
    for (size_t i = 0; i < alternatives.size(); ++i) {
      if (alternatives[i].name == choice) return i;
    }
  }
  struct Run {
    std::unique_ptr<Kernel> kernel;
    Buffers buffers;
    Times times;
  };
  std::vector<Run> runs;
  for (const Alternative& a : alternatives) {
    auto kernel = a.make();
    const size_t scratch = kernel->scratch_bytes();
    runs.push_back({std::move(kernel), Buffers(a, scratch), {}});
    runs.back().kernel->run(runs.back().buffers.operands());
  }
  const auto all = [&](bool (Times::*what)() const) {
    return std::all_of(runs.begin(), runs.end(), [&](const Run& r) { return (r.times.*what)(); });
  };
  while (!all(&Times::done)) {
    for (Run& r : runs) r.times.run(*r.kernel, r.buffers.operands());
  }
  // What was found on a machine too busy to tell is not written down: the next process may see more.
  const bool settled = all(&Times::settled);
  size_t winner = 0;
  for (size_t i = 1; i < runs.size(); ++i) {
    const Times &mine = runs[i].times, &other = runs[winner].times;
    const bool wins = settled ? mine.best() < other.best() * (winner != 0 ? 1.0 : kMargin) : mine.wins_rounds(other);
    if (wins) winner = i;
  }
  std::string text = "tune " + step + ":";
  for (size_t i = 0; i < runs.size(); ++i)
    text += cat(" ", alternatives[i].name, " ", fixed(runs[i].times.best() * 1e6, 1), " us");
  log::debug(text);
  memory().remember(step, alternatives[winner].name, settled ? Memory::For::ever : Memory::For::process);
  return winner;
}

std::unique_ptr<Kernel> choose(const StepSpec& spec, const std::vector<Candidate>& candidates) {
  if (candidates.size() == 1 || spec.deterministic) return candidates[0].make();
  std::vector<Alternative> alternatives;
  for (const Candidate& c : candidates) alternatives.push_back({c.name, spec, c.make});
  return candidates[fastest(signature(spec), alternatives)].make();
}

}  // namespace freight::cpu
