// See device_sum.h. Whatever is enqueued here takes its turn behind the plan that made the summands and in front of
// the one that reads them.
#include "freight/job/device_sum.h"

#include <bit>
#include <utility>

#include "freight/base/device_collectives.h"
#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/comm/tree_sum.h"
#include "freight/ir/builder.h"
#include "freight/job/plan_sum.h"
#include "freight/job/ranks.h"
#include "freight/ops/ops.h"
#include "freight/run/plan.h"
#include "freight/trace/device.h"

namespace freight::job {

namespace {

using Variables = std::vector<Variable>;

// Makes a variable beside each, with `parts` of it as rows; 0: one, in its shape.
Variables copies_of(const char* kind, const Variables& variables, int64_t parts = 0) {
  Variables all;
  for (const Variable& v : variables) {
    Type type = v.type();
    if (parts > 0) type.shape = {parts, type.numel()};
    all.emplace_back(cat(kind, ".", v.name()), type);
    if (all.back().device() != v.device()) all.back().to_device(v.device());
  }
  return all;
}

// to <- to + from.
struct AddTo {
  Variables to, from;
  void operator()() const {
    for (size_t i = 0; i < to.size(); ++i) to[i].assign(to[i].value() + from[i].value());
  }
};

// to <- the sum of some rows (rows, numel of `to`), in the tree over them.
struct AddRows {
  Variables to, rows;
  std::vector<int64_t> order;  // of the rows in the tree
  Tensor sum(const Tensor& of, size_t first, size_t count) const {
    if (count == 1) return select(of, 0, order[first]);
    const auto half = static_cast<size_t>(comm::left_half(static_cast<int>(count)));
    return sum(of, first, half) + sum(of, first + half, count - half);
  }
  void operator()() const {
    for (size_t i = 0; i < to.size(); ++i) {
      to[i].assign(reshape(sum(rows[i].value(), 0, order.size()), to[i].shape()));
    }
  }
};

// The step of x + y for f32 of that shape, which may overwrite y.
std::shared_ptr<const Plan> plan_of_addition(const Type& type, const std::string& device) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", type}, {}), y = b.one(Op::input, LeafAttrs{"y", type}, {});
  g.outputs = {b.binary(Op::add, x, y)};
  auto plan = plan_for(g, {.backend = device, .deterministic = true});
  FREIGHT_CHECK(plan->steps().size() == 1 && plan->arena_bytes() == 0, "an addition is one step");
  return plan;
}

}  // namespace

struct DeviceSum::State {
  State(const std::vector<Variable>& all, const GradientSumOptions& o)
      : summands(all),
        ranks(*o.sharding.ranks->devices()),
        sharding(o.sharding),
        deal(o.sharding.deal()),
        adds_by_rank(o.sharding.adds_by_rank()),
        options{.backend = o.compile.backend, .deterministic = true} {}

  void* address(const Variable& v, DeviceAccess access) const {
    return v.array().storage()->on_device(ranks.memory(), access);
  }
  // Copies variables, `to` at that row.
  void copy(const Variables& to, const Variables& from, int64_t row = 0) const {
    for (size_t i = 0; i < to.size(); ++i) {
      const size_t bytes = from[i].type().bytes();
      const bool whole = to[i].type().bytes() == bytes;
      char* const at = static_cast<char*>(address(to[i], whole ? DeviceAccess::write : DeviceAccess::update));
      ranks.memory()->copy(at + static_cast<size_t>(row) * bytes, address(from[i], DeviceAccess::read), bytes,
                           Queue::kernels);
    }
  }
  // The two last of the sums that are complete become one.
  void fold() {
    const size_t at = counts.size() - 2;
    folds[at]();
    counts[at] += counts.back();
    counts.pop_back();
  }
  void keep() {
    const size_t at = counts.size();
    if (at == sums.size()) {
      sums.push_back(copies_of("kept", summands));
      if (at > 0) folds.push_back(freight::compile(AddTo{sums[at - 1], sums[at]}, options));
    }
    copy(sums[at], summands);
    counts.push_back(1);
    while (counts.size() > 1 && counts.back() == counts[counts.size() - 2]) fold();
  }
  void gather(const Variables& from) {
    ranks.together([&] {
      for (size_t i = 0; i < from.size(); ++i) {
        ranks.all_gather(address(from[i], DeviceAccess::read), address(gathered[i], DeviceAccess::write),
                         from[i].type().numel(), DType::f32);
      }
    });
    (*add_gathered)();
  }
  // The summand of that number is the last part's, and becomes the sum of all parts of this rank. It may be part of a
  // recording.
  void add_kept(size_t summand) const {
    void* const to = address(summands[summand], DeviceAccess::update);
    for (size_t i = counts.size(); i-- > 0;) {
      void* const operands[] = {address(sums[i][summand], DeviceAccess::read), to, to, nullptr};
      additions[summand]->steps()[0].kernel->run(operands);
    }
  }
  // The summands are a part's.
  void add(int64_t number) {
    if (!adds_by_rank) {
      copy(slots, summands, number);
    } else if (deal.count() > 1) {
      keep();
    }
  }
  // The part is the one within whose plan devices sum.
  bool within_plan(int64_t number) const { return plan_sum && number + 1 == deal.count(); }
  bool sums_all() const { return plan_sum && plan_sum->sums_all(); }

  void prepare_exact();
  void prepare_plan_sum(const GradientSumOptions& options);

  const Variables summands;
  DeviceCollectives& ranks;
  const Sharding sharding;
  const ShardAssignment deal;
  const bool adds_by_rank;
  const CompileOptions options;
  std::unique_ptr<PlanSum> plan_sum = {};  // null where all sums are made behind the last part
  // Sums of 1, 2, 4, ... parts of this rank that are complete, as they meet in the tree.
  std::vector<Variables> sums = {};
  std::vector<Compiled<AddTo>> folds = {};                  // a sum and the one behind it
  std::vector<std::shared_ptr<const Plan>> additions = {};  // by summand, where one rank's parts are several
  std::vector<int64_t> counts = {};                         // parts in each
  // The parts of all ranks meet here first: this rank's, a row for each, and everybody's.
  Variables slots = {}, gathered = {};
  std::unique_ptr<Compiled<AddRows>> add_gathered = {};
};

DeviceSum::DeviceSum(const std::vector<Variable>& summands, const GradientSumOptions& options)
    : state_(new State(summands, options)) {
  State& s = *state_;
  const auto& backend = options.compile.backend;
  const std::string device = backend.empty() ? current_device() : *trace::device_named(backend);
  const Sharding& sharding = options.sharding;
  for (size_t i = 0; !sharding.exact && s.deal.most() > 1 && i < summands.size(); ++i) {
    s.additions.push_back(plan_of_addition({DType::f32, {summands[i].type().numel()}}, device));
  }
  if (sharding.exact) s.prepare_exact();
  const bool needed = sharding.ranks->overlap() != Overlap::no || sharding.shared_statistics;
  if (may_sum_within_plan(sharding) && needed) s.prepare_plan_sum(options);
}

void DeviceSum::State::prepare_exact() {
  const int64_t most = adds_by_rank ? 1 : deal.most();
  if (!adds_by_rank) slots = copies_of("shards", summands, most);
  gathered = copies_of("all_shards", summands, most * deal.world);
  std::vector<int64_t> order;
  for (int r = 0; r < deal.world; ++r) {
    const int64_t count = adds_by_rank ? 1 : deal.count_of(r);
    for (int64_t i = 0; i < count; ++i) order.push_back(r * most + i);
  }
  add_gathered = std::make_unique<Compiled<AddRows>>(AddRows{summands, gathered, std::move(order)}, options);
}

void DeviceSum::State::prepare_plan_sum(const GradientSumOptions& o) {
  Ranks& r = *sharding.ranks;
  plan_sum = std::make_unique<PlanSum>(ranks, [&r](const PlanSum::Intention& mine) { return r.gather(mine); });
  if (r.overlap() == Overlap::no) return;
  SumPieces pieces = pieces_of(summands, o.first_plan().get(), r);
  plan_sum->lay(std::move(pieces.summands), std::move(pieces.ends));
  if (deal.most() == 1) return;
  plan_sum->prepare_by([this, numbers = std::move(pieces.numbers)](size_t i) { add_kept(numbers[i]); });
}

DeviceSum::~DeviceSum() = default;

void DeviceSum::start() { state_->counts.clear(); }

Collectives* DeviceSum::begin_part(int64_t number) {
  return state_->within_plan(number) ? state_->plan_sum.get() : nullptr;
}

void DeviceSum::end_part(int64_t number) {
  if (!state_->within_plan(number) || !state_->sums_all()) state_->add(number);
}

void DeviceSum::skip_part(int64_t number, const SumOrder& order) {
  for (const Variable& v : state_->summands) v.set(0.0);
  if (state_->within_plan(number)) state_->plan_sum->run_empty(order);
  end_part(number);
}

void DeviceSum::finish() {
  State& s = *state_;
  if (s.sums_all()) return;
  if (!s.counts.empty()) {
    while (s.counts.size() > 1) s.fold();
    s.copy(s.summands, s.sums[0]);
    s.counts.clear();
  }
  if (s.sharding.exact) return s.gather(s.slots.empty() ? s.summands : s.slots);
  s.ranks.together([&] {
    for (const Variable& v : s.summands) {
      s.ranks.all_reduce(s.address(v, DeviceAccess::update), v.type().numel(), DType::f32);
    }
  });
}

size_t DeviceSum::kept_bytes(size_t summands, const Sharding& sharding) {
  const ShardAssignment deal = sharding.deal();
  size_t blocks = 0;
  if (sharding.adds_by_rank()) {
    const auto count = static_cast<uint64_t>(deal.count());
    blocks = count > 1 ? static_cast<size_t>(std::bit_width(count)) : 0;
    if (sharding.exact) blocks += static_cast<size_t>(deal.world);
  } else {
    blocks = static_cast<size_t>(deal.most() * (deal.world + 1));
  }
  return blocks * summands;
}

}  // namespace freight::job
