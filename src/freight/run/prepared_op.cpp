// Prepared ops and their cache: a hash table into a list, most recently used first. See prepared_op.h.
#include "freight/run/prepared_op.h"

#include <algorithm>
#include <list>
#include <mutex>
#include <string_view>
#include <unordered_map>

#include "freight/base/error.h"
#include "freight/run/plan.h"

namespace freight {

RunOptions eager_options(const std::string& device) { return {.backend = device, .round_each = true}; }

PreparedOp::PreparedOp(Op op, const Attrs& attrs, std::span<const Type> operands, const std::string& device) {
  if (op == Op::input || op == Op::state) {
    fail(ErrorKind::usage, name(op), "a leaf has nothing to run: give its elements to the op that reads it");
  }
  Graph g;
  std::vector<Value> in;
  for (const Type& t : operands) in.push_back(g.add(Op::input, LeafAttrs{cat("x", in.size()), t}, {})[0]);
  g.outputs = g.add(op, attrs, in);
  for (Value v : g.outputs) results_.push_back(g.type(v));
  executable_ =
      std::make_unique<Executable>(std::make_shared<const Plan>(g, eager_options(device), Measure::first_shape),
                                   std::vector<std::shared_ptr<Storage>>{});
}

void PreparedOp::run(const std::vector<Array>& operands, const std::vector<Array>& results) const {
  executable_->run(operands, results);
}

size_t PreparedOp::held_bytes() const {
  const Plan& plan = executable_->plan();
  return plan.arena_bytes() + plan.host_bytes() + plan.kept_bytes();
}

namespace {

// A call asks for this, in the caller's memory: a look-up copies nothing.
struct Wanted {
  Op op;
  const Attrs& attrs;
  std::span<const Type> operands;
  std::string_view device;

  uint64_t hash() const {
    uint64_t h = hash_combine(static_cast<uint64_t>(op), freight::hash(attrs));
    for (const Type& t : operands) {
      h = hash_combine(h, static_cast<uint64_t>(t.dtype) << 8 | static_cast<uint64_t>(t.shape.rank()));
      for (const int64_t d : t.shape) h = hash_combine(h, static_cast<uint64_t>(d));
    }
    return hash_combine(h, std::hash<std::string_view>{}(device));
  }
};

struct Entry {
  uint64_t hash;
  Op op;
  Attrs attrs;
  std::vector<Type> operands;
  std::string device;
  std::shared_ptr<const PreparedOp> made;

  bool answers(const Wanted& w) const {
    return op == w.op && device == w.device &&
           std::equal(operands.begin(), operands.end(), w.operands.begin(), w.operands.end()) && equal(attrs, w.attrs);
  }
};

class PreparedOps {
 public:
  // Null where there is none.
  std::shared_ptr<const PreparedOp> find(const Wanted& wanted, uint64_t hash) {
    const std::lock_guard lock(mutex_);
    auto found = look_up(wanted, hash);
    ++(found ? stats_.hits : stats_.misses);
    return found;
  }

  // Another thread may have been faster: its op is the one that stays.
  std::shared_ptr<const PreparedOp> insert(const Wanted& wanted, uint64_t hash,
                                           std::shared_ptr<const PreparedOp> made) {
    const std::lock_guard lock(mutex_);
    if (auto found = look_up(wanted, hash)) return found;
    if (made->held_bytes() > kPreparedBytes) return made;
    entries_.push_front({hash,
                         wanted.op,
                         wanted.attrs,
                         {wanted.operands.begin(), wanted.operands.end()},
                         std::string(wanted.device),
                         made});
    by_hash_.emplace(hash, entries_.begin());
    stats_.held_bytes += made->held_bytes();
    while (entries_.size() > kPreparedOps || stats_.held_bytes > kPreparedBytes) evict();
    return made;
  }

  PreparedOpStats stats() {
    const std::lock_guard lock(mutex_);
    stats_.size = entries_.size();
    return stats_;
  }

  void clear() {
    const std::lock_guard lock(mutex_);
    by_hash_.clear();
    entries_.clear();
    stats_ = {};
  }

 private:
  std::shared_ptr<const PreparedOp> look_up(const Wanted& wanted, uint64_t hash) {
    const auto [first, last] = by_hash_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      if (!it->second->answers(wanted)) continue;
      entries_.splice(entries_.begin(), entries_, it->second);
      return it->second->made;
    }
    return nullptr;
  }

  void evict() {
    const auto oldest = std::prev(entries_.end());
    const auto [first, last] = by_hash_.equal_range(oldest->hash);
    by_hash_.erase(std::find_if(first, last, [&](const auto& row) { return row.second == oldest; }));
    stats_.held_bytes -= oldest->made->held_bytes();
    entries_.erase(oldest);
    ++stats_.evictions;
  }

  std::mutex mutex_;
  std::list<Entry> entries_;
  std::unordered_multimap<uint64_t, std::list<Entry>::iterator> by_hash_;
  PreparedOpStats stats_;
};

PreparedOps& prepared_ops() {
  static PreparedOps ops;
  return ops;
}

}  // namespace

std::shared_ptr<const PreparedOp> prepare(Op op, const Attrs& attrs, std::span<const Type> operands,
                                          const std::string& device) {
  const Wanted wanted{op, attrs, operands, device};
  const uint64_t hash = wanted.hash();
  if (auto found = prepared_ops().find(wanted, hash)) return found;
  return prepared_ops().insert(wanted, hash, std::make_shared<const PreparedOp>(op, attrs, operands, device));
}

PreparedOpStats prepared_op_stats() { return prepared_ops().stats(); }

void clear_prepared_ops() { prepared_ops().clear(); }

}  // namespace freight
