// Choice between implementations of a step by measurement when a plan is made. What was found is kept in a file under
// the cache directory, so that a second process plans at once and alike. What was found while other programs disturbed
// the measurement is marked with the number of attempts so far: a later process measures again, up to kMostAttempts in
// all, if no other program computes when it asks.
#pragma once
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "freight/backend/backend.h"
#include "freight/base/cpu_share.h"

namespace freight {

class Storage;

// What a choice between kernels of a step depends on, as a name: types, layouts, and of a matmul all attributes.
std::string signature(const StepSpec& spec);
// Whether kernels of the step may be measured at all: not where it is to be deterministic, nor with FREIGHT_TUNE=0.
bool measures(const StepSpec& spec);

// While one lives, choices take the candidate with this number, or the last one there is: so that tests reach them all.
// For one thread that makes plans.
class ForcedChoice {
 public:
  explicit ForcedChoice(size_t number);
  ~ForcedChoice();
  ForcedChoice(const ForcedChoice&) = delete;
  ForcedChoice& operator=(const ForcedChoice&) = delete;
  // The number among `candidates`, where one is forced.
  static std::optional<size_t> among(size_t candidates);
};

// Operands and scratch memory of a step, all zeros: of the host, or of a device. `cold`: the operand that lies in no
// cache when the step runs, as the weights of a large net do not.
class ZeroOperands {
 public:
  ZeroOperands(const StepSpec& spec, size_t scratch, std::shared_ptr<DeviceMemory> memory, int cold = -1);
  // For the next run.
  void* const* addresses();
  // Makes sure that there are so many bytes of scratch memory.
  void reserve_scratch(size_t bytes);

 private:
  void* allocate(size_t number, size_t bytes);

  std::shared_ptr<DeviceMemory> memory_;
  int cold_;
  size_t stride_ = 0, at_ = 0;  // of the cold operand within its block
  std::vector<std::shared_ptr<Storage>> blocks_;
  std::vector<void*> addresses_;
};

// The rule by which the choices of a plan are made (StepSpec::rule).
class ChoiceRule {
 public:
  // A step that is not known gets this: a measurement, or the choice of the nearest known step; or a measurement unless
  // one of its candidates is a guess by itself (Choices::Candidate::guess).
  enum class Unknown : uint8_t { measured, guessed, measured_or_at_once };
  // How long the answer holds for those who ask under the same rule: until somebody has measured the step, or as long
  // as the process, so that the step has the same bits in each plan.
  enum class Lasting : uint8_t { until_measured, process };

  explicit ChoiceRule(Unknown unknown, Lasting lasting = Lasting::until_measured)
      : unknown_(unknown), lasting_(lasting) {}
  // How many choices were guessed that a measurement may yet change.
  size_t guesses() const { return guesses_; }

 private:
  friend class Choices;
  Unknown unknown_;
  Lasting lasting_;
  size_t guesses_ = 0;
};

class Choices {
 public:
  struct Candidate {
    std::string name;  // one word
    // Makes it ready; what is returned runs it so many times, and comes back when that is done.
    std::function<std::function<void(int times)>()> prepare;
    // It is made at once, where others take longer to make than a guess could gain: the guess is this one.
    bool guess = false;
  };
  static constexpr int kMostAttempts = 3;

  // `file` of the cache directory: a line for each choice. A run should take `least_run` seconds: what is waited for
  // behind it then does not count. `alone` says if a measurement would be undisturbed now.
  explicit Choices(const std::string& file, double least_run = 0, bool (*alone)() = CpuShare::alone);
  // The candidate that is fastest, measured or remembered; by a rule, or guessed. One that throws Error at once is
  // skipped. `step` names all that the choice depends on: what is computed, device, libraries, the kernels'
  // revision. `rule`: null where each step that is not known is measured.
  size_t fastest(const std::string& step, const std::vector<Candidate>& candidates, ChoiceRule* rule = nullptr);

 private:
  struct Known {
    std::vector<int64_t> extents;
    std::string name;
  };
  size_t by_rule(const std::string& step, const std::vector<Candidate>& candidates, ChoiceRule* rule);
  size_t measured(const std::string& step, const std::vector<Candidate>& candidates);
  size_t nearest(const std::string& step, const std::vector<Candidate>& candidates);
  void index(const std::string& step, const std::string& name);

  // A candidate's name. `attempts`: the measurements so far, all by other processes and all disturbed; 0 where the
  // choice stands.
  struct Found {
    std::string name;
    int attempts = 0;
  };
  bool worth_another_attempt(const Found& found, const ChoiceRule* rule) const;

  std::string path_;
  double least_run_;
  bool (*alone_)();
  std::recursive_mutex mutex_;                // one is measured at a time; a candidate may choose among ways of its own
  std::map<std::string, Found> found_;        // by step
  std::map<std::string, std::string> given_;  // those that hold for the process
  // Choices by the words of a step without its extents, made once somebody has looked for a neighbor.
  std::map<std::string, std::vector<Known>> kinds_;
};

}  // namespace freight
