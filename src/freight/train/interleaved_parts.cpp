// See interleaved_parts.h.
#include "freight/train/interleaved_parts.h"

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/run/plan.h"
#include "freight/train/step_internal.h"

namespace freight::train {

namespace {

constexpr size_t kMostBound = 64;  // plans of a slot with their memory: shapes of batches

}  // namespace

void InterleavedParts::add(const Array& x, const Array& y, const RandomState& random) {
  parts_.push_back({x.clone(), y.clone(), random});
}

InterleavedParts::Bound& InterleavedParts::bind(size_t part, const Array& block, const void* random_state) {
  PartBuffers& slot = *slots_[part];
  const Part& p = parts_[part];
  const std::string key = cat(type_of(p.x), type_of(p.y));
  if (const auto known = slot.bound.find(key); known != slot.bound.end()) return known->second;
  if (slot.bound.size() == kMostBound) slot.bound.clear();
  const std::shared_ptr<const Plan> plan = source_.plan(type_of(p.x), type_of(p.y));
  const Graph& g = plan->graph();
  if (g.leaves(Op::input).size() != 2) {
    fail(ErrorKind::usage, "--sync-batch-norm",
         "is not for a network that reads the program's arrays in its forward pass, nor with --class-weight");
  }
  if (!slot.block.defined()) slot.block = Array(block.dtype(), block.shape());
  Bound b;
  std::vector<std::shared_ptr<Storage>> storages;
  Executable::Options options{.arena = slot.arena};
  const auto* const begin = static_cast<const char*>(block.raw());
  for (const Array& state : source_.states(p.x, p.y)) {
    const auto* const at = static_cast<const char*>(state.raw());
    if (at >= begin && at < begin + block.bytes()) {
      char* const own = static_cast<char*>(slot.block.raw()) + (at - begin);
      b.own.emplace_back(state.dtype(), state.shape(), Storage::borrow(own, state.bytes(), slot.block.storage()));
      storages.push_back(b.own.back().storage());
    } else {
      if (at == random_state) options.random_state = storages.size();
      storages.push_back(state.storage());
    }
  }
  b.executable = std::make_unique<Executable>(plan, std::move(storages), std::move(options));
  if (slot.results.empty()) {
    for (const Value v : g.outputs) slot.results.emplace_back(g.type(v).dtype, g.type(v).shape);
  }
  return slot.bound.emplace(key, std::move(b)).first->second;
}

void InterleavedParts::run(job::HostSum& sum, const void* random_state) {
  while (slots_.size() < parts_.size()) slots_.push_back(std::make_unique<PartBuffers>());
  std::vector<Executable::Joint> all;
  std::vector<Bound*> bound;
  std::vector<bool> running;
  for (size_t i = 0; i < parts_.size(); ++i) {
    const Part& p = parts_[i];
    running.push_back(p.x.numel() > 0);
    if (!running.back()) continue;
    bound.push_back(&bind(i, sum.block(), random_state));
    all.push_back({bound.back()->executable.get(), {p.x, p.y}, slots_[i]->results, p.random});
  }
  sum.run_interleaved(running);
  if (!all.empty()) {
    Executable::run_together(all, sum);
  } else {  // the others need this rank all the same
    const std::shared_ptr<const Plan> plan =
        source_.plan(train::rows(type_of(parts_[0].x), 1), train::rows(type_of(parts_[0].y), 1));
    for (const Type& type : order_of_sums(*plan).within) sum.sum_within({}, type);
  }
  for (const Bound* b : bound) {
    for (const Array& a : b->own) a.raw();  // a device's newest come to the block
  }
  for (size_t i = 0; i < parts_.size(); ++i) {
    sum.put_part(static_cast<int64_t>(i), running[i] ? slots_[i]->block.data<float>() : nullptr);
  }
}

}  // namespace freight::train
