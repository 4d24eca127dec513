// See tune.h.
#include "freight/backend/cpu/tune.h"

#include <dnnl_version.h>

#include "freight/backend/choices.h"
#include "freight/backend/cpu/kernels/simd_tables.h"
#include "freight/base/cpu_info.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

constexpr int kRevision = 15;  // of the kernels: raise it when the speed of one changes, so that all are measured again

// What choices hold for. Models may compute with fewer threads than there are (ThreadLimit).
std::string circumstances() {
  static const std::string machine = cat(cpu_info().model, ", oneDNN ", DNNL_VERSION_MAJOR, ".", DNNL_VERSION_MINOR,
                                         ".", DNNL_VERSION_PATCH, ", kernels ", kRevision, ", ");
  constexpr const char* kSets[] = {"AVX-512", "AVX2", "baseline"};
  return cat(machine, thread_count(), " threads, ", kSets[simd_target()]);
}

std::vector<size_t> operand_bytes(const StepSpec& spec) {
  std::vector<size_t> bytes;
  for (const auto* list : {&spec.in, &spec.out}) {
    for (const Operand& o : *list) bytes.push_back(layout_bytes(o.type, o.layout));
  }
  return bytes;
}

// Operands that a measurement makes for itself stand beside nothing yet, but must not take the memory of what is to
// come or of a run that is about to be refused: a larger step is not measured, and computes as it does without
// measurement. The system is not asked for small steps, which takes longer than all else that plans them.
bool has_room(const StepSpec& spec) {
  constexpr double kSmall = 1 << 24;
  double bytes = 0;
  for (const size_t operand : operand_bytes(spec)) bytes += static_cast<double>(operand);
  return bytes <= kSmall || bytes <= static_cast<double>(cpu_info().memory_available_bytes) / 4;
}

}  // namespace

size_t fastest(const std::string& step, const std::vector<Candidate>& candidates, const std::vector<StepSpec>& specs,
               int cold) {
  if (const auto forced = ForcedChoice::among(candidates.size())) return *forced;
  if (candidates.size() == 1 || !measures(specs[0]) || !has_room(specs[0])) return 0;
  static Choices choices("cpu-choices.txt");
  // Candidates run one after the other, so that those whose operands are as large share them: of a recurrent layer,
  // which keeps a value of every step, one set may be half of what the plan takes.
  std::vector<size_t> sizes;
  std::shared_ptr<ZeroOperands> shared;
  std::vector<Choices::Candidate> measured;
  for (size_t i = 0; i < candidates.size(); ++i) {
    measured.push_back({candidates[i].name,
                        [&, i] {
                          const std::shared_ptr<Kernel> kernel = candidates[i].make();
                          if (!shared || operand_bytes(specs[i]) != sizes) {
                            sizes = operand_bytes(specs[i]);
                            shared = std::make_shared<ZeroOperands>(specs[i], kernel->scratch_bytes(), nullptr, cold);
                          }
                          shared->reserve_scratch(kernel->scratch_bytes());
                          return [kernel, zeros = shared](int times) {
                            for (int k = 0; k < times; ++k) kernel->run(zeros->addresses());
                          };
                        },
                        candidates[i].guess});
  }
  return choices.fastest(cat(step, " on ", circumstances()), measured, specs[0].rule);
}

std::unique_ptr<Kernel> choose(const StepSpec& spec, const std::vector<Candidate>& candidates) {
  const std::vector<StepSpec> same(candidates.size(), spec);
  return candidates[fastest(signature(spec), candidates, same)].make();
}

}  // namespace freight::cpu
