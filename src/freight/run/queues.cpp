// The order of a device's queues. Each queue works in order, and a step waits for those of other queues alone that
// use the same bytes, of which one writes: what it reads must have been made, and what it overwrites (the plan gives
// memory to one result after the other) must have been read. A copy so begins as early as its bytes allow, wherever it
// stands in the plan; how long memory is kept free for it is the memory plan's choice (passes/memory.cpp).
#include <algorithm>
#include <array>

#include "freight/run/plan.h"

namespace freight {

namespace {

// Bytes that a step reads or writes: of an arena, or all of the caller's block of that number.
struct Span {
  MemoryKind kind;
  int32_t block;
  size_t from, to;
  bool writes;

  static Span of(const Buffer& b, bool writes) {
    const bool arena = b.kind == MemoryKind::arena || b.kind == MemoryKind::host;
    return arena ? Span{b.kind, 0, b.offset, b.offset + b.bytes, writes} : Span{b.kind, b.index, 0, SIZE_MAX, writes};
  }
  bool conflicts(const Span& o) const {
    return (writes || o.writes) && kind == o.kind && block == o.block && from < o.to && o.from < to;
  }
};

using Spans = std::vector<Span>;
bool conflict(const Spans& a, const Spans& b) {
  return std::any_of(a.begin(), a.end(), [&](const Span& x) {
    return std::any_of(b.begin(), b.end(), [&](const Span& y) { return x.conflicts(y); });
  });
}

constexpr int32_t kNothing = kRunBegins - 1;
// By queue: its last step that is known to be done.
using Done = std::array<int32_t, kQueues>;

// Goes through the steps in order and keeps, for each queue, what its next step may take as done.
class Ordering {
 public:
  Ordering(std::vector<PlanStep>& steps, const PlacedGraph& placed, const MemoryPlan& memory)
      : steps_(steps), spans_(steps.size()), done_at_(steps.size()) {
    known_.fill({kNothing, kNothing, kNothing});
    known_[0].fill(kRunBegins);  // the kernels' queue ended the run before
    for (size_t i = 0; i < steps.size(); ++i) {
      const Node& n = placed.graph.node(steps[i].node);
      const auto add = [&](Value v, bool writes) {
        spans_[i].push_back(Span::of(memory.buffers[placed.place(v).root], writes));
      };
      for (Value v : n.inputs) add(v, false);
      for (Value v : n.outputs) add(v, true);
      const Buffer& scratch = memory.scratch[steps[i].node];
      if (scratch.bytes > 0) spans_[i].push_back(Span::of(scratch, true));
    }
  }

  std::vector<int32_t> run() {
    for (size_t i = 0; i < steps_.size(); ++i) {
      if (!steps_[i].once) place(static_cast<int32_t>(i));
    }
    std::vector<int32_t> last;
    for (size_t q = 1; q < kQueues; ++q) {
      if (!given_[q].empty()) await(0, given_[q].back(), last);
    }
    return last;
  }

 private:
  void place(int32_t step) {
    const auto i = static_cast<size_t>(step), queue = static_cast<size_t>(steps_[i].queue);
    std::vector<int32_t> needed;
    if (given_[queue].empty() && queue != 0) needed.push_back(kRunBegins);
    for (size_t q = 0; q < kQueues; ++q) {
      if (q == queue) continue;
      const auto it = std::find_if(given_[q].rbegin(), given_[q].rend(), [&](int32_t s) {
        return s <= known_[queue][q] || conflict(spans_[static_cast<size_t>(s)], spans_[i]);
      });
      if (it != given_[q].rend()) needed.push_back(*it);
    }
    std::sort(needed.rbegin(), needed.rend());  // the later ones know more
    for (const int32_t s : needed) await(queue, s, steps_[i].after);
    known_[queue][queue] = step;
    done_at_[i] = known_[queue];
    given_[queue].push_back(step);
  }

  void await(size_t queue, int32_t step, std::vector<int32_t>& after) {
    Done done{kRunBegins, kRunBegins, kRunBegins};
    size_t of = 0;
    if (step != kRunBegins) {
      done = done_at_[static_cast<size_t>(step)];
      of = static_cast<size_t>(steps_[static_cast<size_t>(step)].queue);
    }
    if (step <= known_[queue][of]) return;
    after.push_back(step);
    for (size_t q = 0; q < kQueues; ++q) known_[queue][q] = std::max(known_[queue][q], done[q]);
  }

  std::vector<PlanStep>& steps_;
  std::vector<Spans> spans_;                         // by step
  std::vector<Done> done_at_;                        // by step: what is done when it is
  std::array<Done, kQueues> known_;                  // by queue
  std::array<std::vector<int32_t>, kQueues> given_;  // by queue: its steps so far
};

}  // namespace

std::vector<int32_t> order_queues(std::vector<PlanStep>& steps, const PlacedGraph& placed, const MemoryPlan& memory) {
  const bool one = std::all_of(steps.begin(), steps.end(), [](const PlanStep& s) { return s.queue == Queue::kernels; });
  return one ? std::vector<int32_t>() : Ordering(steps, placed, memory).run();
}

}  // namespace freight
