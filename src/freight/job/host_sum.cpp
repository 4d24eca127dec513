// See host_sum.h.
#include "freight/job/host_sum.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>

#include "freight/backend/backend.h"
#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/strings.h"
#include "freight/comm/tree_sum.h"
#include "freight/job/ranks.h"
#include "freight/passes/pieces.h"
#include "freight/trace/device.h"
#include "freight/trace/tracer.h"

namespace freight::job {

namespace {

constexpr size_t kAlign = 16;  // floats: 64 bytes
// Steps that are watched before it is chosen when sums are made; the first of them plans, the others are timed.
constexpr int64_t kWatched = 4;

// False if all parts are gathered before they are added, are interleaved, or must first be copied from a device.
bool may_overlap(const Sharding& s) {
  if (!s.ranks || !s.adds_by_rank() || interleaves_parts(s)) return false;
  if (s.ranks->world() == 1 || s.ranks->any_device_memory()) return false;
  const Overlap asked = s.ranks->overlap();
  return asked == Overlap::yes || (asked == Overlap::automatic && s.ranks->comm().over_network());
}

void add(const void* a, const void* b, void* to, int64_t count) {
  const void* const both[] = {a, b};
  comm::tree_sum(both, 2, to, count, DType::f32);
}

}  // namespace

HostSum::HostSum(const std::vector<Variable>& summands, const GradientSumOptions& options)
    : sharding_(options.sharding),
      deal_(sharding_.deal()),
      own_memory_(backend(options.compile.backend.empty() ? current_device() : options.compile.backend).memory() !=
                  nullptr),
      adds_by_rank_(sharding_.adds_by_rank()),
      overlaps_(may_overlap(sharding_)) {
  if (sharding_.ranks && adds_by_rank_) ranks_ = std::make_unique<RankSum>(sharding_.ranks->comm());
  if (!overlaps_) {
    lay(summands);
    return;
  }
  const SumPieces pieces = pieces_of(summands, options.first_plan().get(), *sharding_.ranks);
  lay(pieces.summands);
  ranks_->cut(pieces.ends);
  overlaps_next_ = sharding_.ranks->overlap() == Overlap::yes;
}

HostSum::~HostSum() {
  if (!overlaps_ || ranks_->times().steps == 0 || !sharding_.ranks->first()) return;
  const RankSum::Times& t = ranks_->times();
  const auto ms = [&](double seconds) { return fixed(seconds * 1e3 / static_cast<double>(t.steps), 2); };
  logging::info(cat("all-reduce overlapped with ", t.steps, " steps: ", ms(t.sums), " ms each, of which ", ms(t.waited),
                    " ms were waited for"));
}

void HostSum::lay(const std::vector<Variable>& summands) {
  summands_ = summands;
  std::vector<int64_t> sizes;
  for (const Variable& v : summands) {
    sizes.push_back(static_cast<int64_t>((static_cast<size_t>(v.type().numel()) + kAlign - 1) / kAlign * kAlign));
  }
  block_ = Array(DType::f32, {std::accumulate(sizes.begin(), sizes.end(), int64_t{0})});
  std::memset(block_.raw(), 0, block_.bytes());
  float* at = data();
  for (size_t i = 0; i < summands.size(); ++i) {
    summands[i].impl()->bind(Storage::borrow(at, summands[i].type().bytes(), block_.storage()));
    at += sizes[i];
  }
  if (ranks_) ranks_->lay(data(), sizes);
  if (adds_by_rank_) return;
  slots_ = Array(DType::f32, {deal_.most(), block_.numel()});
  all_slots_ = Array(DType::f32, {deal_.world, deal_.most(), block_.numel()});
  std::memset(slots_.raw(), 0, slots_.bytes());
}

size_t HostSum::kept_bytes(size_t block, const Sharding& s) {
  const ShardAssignment deal = s.deal();
  const size_t own = interleaves_parts(s) ? block * static_cast<size_t>(deal.count()) : 0;
  if (!s.adds_by_rank()) return own + block * static_cast<size_t>(1 + deal.most() * (deal.world + 1));
  // All parts but the last are kept, as complete branches of the tree.
  const auto kept = static_cast<uint64_t>(std::max<int64_t>(deal.count(), 1) - 1);
  return own + block * (1 + static_cast<size_t>(std::bit_width(kept)));
}

void HostSum::start() {
  counts_.clear();
  sum_times_.clear();
  within_last_ = false;
  begun_ = std::chrono::steady_clock::now();
}

Collectives* HostSum::begin_part(int64_t number) {
  if (!overlaps_ || !is_last(number)) return nullptr;
  within_last_ = true;
  begin_ranks(overlaps_next_ ? RankSum::Mode::beside : RankSum::Mode::behind);
  return ranks_.get();
}

void HostSum::begin_ranks(RankSum::Mode mode) {
  before_last_ = seconds_since(begun_);
  ranks_->begin(mode, [this](int64_t from, int64_t count) { add_kept(from, count); });
}

// A device with memory of its own has the newest of what it summed: it goes to the block, and from there back to the
// device when the update reads it.
void HostSum::bring_home() const {
  if (!own_memory_) return;
  for (const Variable& v : summands_) v.array().raw();
}

void HostSum::end_part(int64_t number) {
  bring_home();
  if (!adds_by_rank_) {
    std::memcpy(slots_.data<float>() + number * block_.numel(), data(), block_.bytes());
  } else if (within_last_) {
    ranks_->computed();
  } else if (!is_last(number)) {
    keep();
  }
}

void HostSum::skip_part(int64_t number, const SumOrder&) {
  begin_part(number);
  put_part(number, nullptr);
}

void HostSum::put_part(int64_t number, const float* block) {
  bring_home();
  if (block) {
    std::memcpy(data(), block, block_.bytes());
  } else {
    std::memset(data(), 0, block_.bytes());
  }
  end_part(number);
}

void HostSum::keep() {
  const size_t at = counts_.size();
  if (at == kept_.size()) kept_.emplace_back(DType::f32, block_.shape());
  std::memcpy(kept_[at].raw(), data(), block_.bytes());
  counts_.push_back(1);
  while (counts_.size() > 1 && counts_.back() == counts_[counts_.size() - 2]) fold();
}

void HostSum::fold() {
  const size_t at = counts_.size() - 2;
  add(kept_[at].raw(), kept_[at + 1].raw(), kept_[at].raw(), block_.numel());
  counts_[at] += counts_.back();
  counts_.pop_back();
}

// Some elements of the block, which has the last part, become the sums of this rank's parts.
void HostSum::add_kept(int64_t from, int64_t count) const {
  for (size_t i = counts_.size(); i-- > 0;) {
    add(kept_[i].data<float>() + from, data() + from, data() + from, count);
  }
}

void HostSum::finish() {
  if (!adds_by_rank_) return gather_slots();
  if (!ranks_) return add_kept(0, block_.numel());
  if (!within_last_) begin_ranks(RankSum::Mode::behind);
  ranks_->finish();
  for (const SumTime& t : ranks_->sum_times()) {
    sum_times_.push_back({t.begin + before_last_, t.end + before_last_, t.bytes});
  }
  if (overlaps_ && ++steps_ == kWatched) choose();
}

void HostSum::gather_slots() {
  const int64_t floats = block_.numel(), most = deal_.most();
  const double begin = seconds_since(begun_);
  sharding_.ranks->comm().all_gather(slots_.raw(), all_slots_.raw(), most * floats, DType::f32);
  sum_times_.push_back({begin, seconds_since(begun_), static_cast<double>(most * floats * 4)});
  std::vector<const void*> parts;
  for (int r = 0; r < deal_.world; ++r) {
    for (int64_t i = 0; i < deal_.count_of(r); ++i) parts.push_back(all_slots_.data<float>() + (r * most + i) * floats);
  }
  comm::tree_sum(parts.data(), static_cast<int>(parts.size()), data(), floats, DType::f32);
}

// Chooses when the sums are made from now on, by what rank 0 saw of its plan's steps and by the line of this job's
// all-reduce.
void HostSum::choose() {
  Ranks& ranks = *sharding_.ranks;
  const SumCost cost = measure_sums(ranks.comm());
  const std::vector<freight::Summand> seen = ranks_->summands();
  const auto bytes = static_cast<double>(block_.bytes());
  const double compute = ranks_->compute_seconds(), behind = compute + cost.of(bytes);
  const Pieces pieces = cut_pieces(seen, cost);
  const double least = std::max(compute, pieces.done);
  std::vector<int64_t> layout(seen.size() + 1);  // whether they are made beside; where a piece ends
  layout[0] = ranks.overlap() == Overlap::yes || pays_beside(least, behind) ? 1 : 0;
  for (const size_t end : pieces.ends) layout[end] = 1;
  ranks.broadcast(layout.data(), layout.size() * sizeof(int64_t));
  overlaps_next_ = layout[0] == 1;
  std::vector<size_t> ends;
  for (size_t i = 1; i < layout.size(); ++i) {
    if (layout[i] == 1) ends.push_back(i);
  }
  ranks_->cut(ends);
  if (!ranks.first()) return;
  const auto ms = [](double seconds) { return fixed(seconds * 1e3, 1); };
  logging::info(cat("all-reduce: ", ms(cost.of(bytes)), " ms in one piece, ", ms(compute),
                    " ms of compute before it; overlapped with compute in ", ends.size(), " pieces ", ms(least),
                    " ms instead of ", ms(behind), overlaps_next_ ? "" : ": not worth it"));
}

bool HostSum::sum_within(std::span<void* const> parts, const Type& type) {
  const int64_t n = type.shape.numel();
  const auto room = [&](std::vector<double>& memory, int64_t tensors) {
    memory.assign((static_cast<size_t>(tensors) * type.bytes() + sizeof(double) - 1) / sizeof(double), 0.0);
    return reinterpret_cast<char*>(memory.data());
  };
  char* const total = room(total_, 1);
  char* const mine = room(mine_, deal_.most());
  std::vector<const void*> by_part;
  size_t next = 0;
  for (size_t i = 0; i < running_.size(); ++i) {
    char* const at = mine + i * type.bytes();
    if (running_[i]) std::memcpy(at, parts[next++], type.bytes());
    by_part.push_back(at);
  }
  if (!adds_by_rank_) {
    char* const all = room(all_, deal_.most() * deal_.world);
    sharding_.ranks->comm().all_gather(mine, all, deal_.most() * n, type.dtype);
    by_part.clear();
    for (int r = 0; r < deal_.world; ++r) {
      for (int64_t i = 0; i < deal_.count_of(r); ++i) {
        by_part.push_back(all + static_cast<size_t>(r * deal_.most() + i) * type.bytes());
      }
    }
  }
  comm::tree_sum(by_part.data(), static_cast<int>(by_part.size()), total, n, type.dtype);
  if (adds_by_rank_ && sharding_.ranks) sharding_.ranks->comm().all_reduce(total, n, type.dtype);
  for (void* const part : parts) std::memcpy(part, total, type.bytes());
  return true;
}

}  // namespace freight::job
