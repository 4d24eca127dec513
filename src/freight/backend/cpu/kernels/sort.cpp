// See sort.h.
#include "freight/backend/cpu/kernels/sort.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "freight/base/error.h"
#include "freight/base/threads.h"

namespace freight::cpu {

namespace {

// The key of an element: a pair for complex numbers, whose real parts count first, else of 32 bits or 64 for types of 8
// bytes: ascending, NaN last; zeros of both signs have one key, and so have all NaN.
template <class T>
auto real_key(T x) {
  using Key = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  constexpr Key kTop = Key{1} << (sizeof(Key) * 8 - 1);
  if constexpr (std::is_floating_point_v<T>) {
    const Key bits = std::bit_cast<Key>(x + T(0));  // of -0 that is 0
    return x != x ? ~Key{0} : bits & kTop ? ~bits : bits | kTop;
  } else {
    return std::is_signed_v<T> ? static_cast<Key>(x) ^ kTop : static_cast<Key>(x);
  }
}
template <class T>
auto sort_key(T x) {
  if constexpr (kIsComplex<T>) {
    return std::pair(real_key(x.real()), real_key(x.imag()));
  } else if constexpr (kIsHalf<T>) {
    return real_key(static_cast<float>(x));
  } else {
    return real_key(x);
  }
}

// The element that a key stands for; of zeros and NaN one of them.
template <class T, class Key>
T element_of_key(Key key) {
  if constexpr (kIsHalf<T>) {
    return static_cast<T>(element_of_key<float>(key));
  } else {
    constexpr Key kTop = Key{1} << (sizeof(Key) * 8 - 1);
    if constexpr (std::is_floating_point_v<T>) {
      return std::bit_cast<T>(key & kTop ? key ^ kTop : ~key);
    } else {
      return static_cast<T>(std::is_signed_v<T> ? key ^ kTop : key);
    }
  }
}

constexpr int kDigit = 11;  // bits: 2048 places to write to, whose lines of memory the first two caches hold
constexpr int64_t kParallelElements = 1 << 14;
constexpr int64_t kFew = 256;  // up to here the counts of the digits cost more than comparisons

struct KeyAndNumber {
  uint64_t key;
  int64_t number;
};
uint64_t bits_of(uint64_t item) { return item; }
uint64_t bits_of(const KeyAndNumber& item) { return item.key; }

// Sorts by the bits [first, end) of bits_of(item). `spare` has room for n items, too.
template <int kFirst, int kEnd, class Item>
void radix_sort(Item* items, Item* spare, int64_t n) {
  constexpr int kPasses = (kEnd - kFirst + kDigit - 1) / kDigit;
  constexpr uint64_t kPlaces = uint64_t{1} << kDigit, kMask = kPlaces - 1;
  const auto counts = std::make_unique<std::array<std::array<uint32_t, kPlaces>, kPasses>>();  // zeros
  for (int64_t i = 0; i < n; ++i) {
    for (int pass = 0; pass < kPasses; ++pass) {
      ++(*counts)[static_cast<size_t>(pass)][bits_of(items[i]) >> (kFirst + pass * kDigit) & kMask];
    }
  }
  Item *from = items, *to = spare;
  for (int pass = 0; pass < kPasses; ++pass) {
    auto& count = (*counts)[static_cast<size_t>(pass)];
    const int shift = kFirst + pass * kDigit;
    if (count[bits_of(from[0]) >> shift & kMask] == static_cast<uint32_t>(n)) continue;  // all have the same digit
    uint32_t place = 0;
    for (uint32_t& c : count) place += std::exchange(c, place);
    for (int64_t i = 0; i < n; ++i) to[count[bits_of(from[i]) >> shift & kMask]++] = from[i];
    std::swap(from, to);
  }
  if (from != items) std::copy_n(from, n, items);
}

template <int kFirst, int kEnd, class Item>
void sort_items(Item* items, int64_t n) {
  // Counts have 32 bits.
  if (n <= kFew || n > std::numeric_limits<uint32_t>::max()) {
    return std::stable_sort(items, items + n, [](const Item& a, const Item& b) { return bits_of(a) < bits_of(b); });
  }
  const auto spare = std::make_unique_for_overwrite<Item[]>(static_cast<size_t>(n));
  radix_sort<kFirst, kEnd>(items, spare.get(), n);
}

template <class Key>
void turn(Key* keys, int64_t n, SortOrder by) {
  if (by == SortOrder::descending) std::transform(keys, keys + n, keys, [](Key k) { return ~k; });
}

template <class Item, int kFirst, int kEnd, class Key, class Make, class Number>
void order_items(const Key* keys, int64_t n, int64_t* order, Make make, Number number) {
  const auto items = std::make_unique_for_overwrite<Item[]>(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) items[static_cast<size_t>(i)] = make(keys[i], i);
  sort_items<kFirst, kEnd>(items.get(), n);
  for (int64_t i = 0; i < n; ++i) order[i] = number(items[static_cast<size_t>(i)]);
}

template <class Key>
void order_of(Key* keys, int64_t n, SortOrder by, int64_t* order) {
  turn(keys, n, by);
  if (sizeof(Key) == 4 && n <= std::numeric_limits<uint32_t>::max()) {  // the number is in the lower half of an item
    return order_items<uint64_t, 32, 64>(
        keys, n, order, [](Key key, int64_t i) { return uint64_t{key} << 32 | static_cast<uint64_t>(i); },
        [](uint64_t item) { return static_cast<int64_t>(item & 0xffffffffu); });
  }
  order_items<KeyAndNumber, 0, 64>(
      keys, n, order,
      [](Key key, int64_t i) {
        return KeyAndNumber{key, i};
      },
      [](const KeyAndNumber& item) { return item.number; });
}

template <class Part>
void order_of(std::pair<Part, Part>* keys, int64_t n, SortOrder by, int64_t* order) {
  std::iota(order, order + n, 0);
  std::stable_sort(order, order + n, [&](int64_t a, int64_t b) {
    return by == SortOrder::ascending ? keys[a] < keys[b] : keys[b] < keys[a];
  });
}

template <class Key>
void sort_keys(Key* keys, int64_t n, SortOrder by) {
  turn(keys, n, by);
  sort_items<0, sizeof(Key) * 8>(keys, n);
  turn(keys, n, by);
}

// The keys of a lane. `exact`, if it is asked for: each element is what its key stands for, which NaN and -0 are not.
template <class T>
auto keys_of(const SortLane& lane, bool* exact = nullptr) {
  std::vector<decltype(sort_key(T{}))> keys(static_cast<size_t>(lane.n));
  const char* x = lane.x;
  bool same = true;
  for (auto& key : keys) {
    const T v = *reinterpret_cast<const T*>(std::exchange(x, x + lane.step));
    key = sort_key(v);
    if constexpr (kIsComplex<T>) {
      same = false;
    } else if constexpr (!std::is_integral_v<T>) {
      const auto number = static_cast<std::conditional_t<kIsHalf<T>, float, T>>(v);
      same &= number == number && !(number == 0 && std::signbit(number));
    }
  }
  if (exact) *exact = same;
  return keys;
}

}  // namespace

void sorted_order(const SortLane& lane, int64_t* order) {
  dispatch(lane.dtype, [&]<class T>(T) { order_of(keys_of<T>(lane).data(), lane.n, lane.by, order); });
}

void sorted_elements(const SortLane& lane, char* y, int64_t step) {
  dispatch(lane.dtype, [&]<class T>(T) {
    bool exact;
    auto keys = keys_of<T>(lane, &exact);
    if constexpr (!kIsComplex<T>) {
      if (exact) {
        sort_keys(keys.data(), lane.n, lane.by);
        for (const auto key : keys) *reinterpret_cast<T*>(std::exchange(y, y + step)) = element_of_key<T>(key);
        return;
      }
    }
    std::vector<int64_t> order(keys.size());
    order_of(keys.data(), lane.n, lane.by, order.data());
    for (const int64_t i : order)
      *reinterpret_cast<T*>(std::exchange(y, y + step)) = *reinterpret_cast<const T*>(lane.x + i * lane.step);
  });
}

void places_among(const SortedNumbers& sorted, int64_t count, char* places, const char* values, const int64_t* steps) {
  dispatch(sorted.dtype, [&]<class T>(T) {
    const auto* x = reinterpret_cast<const T*>(sorted.x);
    for (int64_t i = 0; i < count; ++i) {
      const auto key = sort_key(*reinterpret_cast<const T*>(values + i * steps[1]));
      int64_t low = 0, high = sorted.n;
      while (low < high) {
        const int64_t middle = (low + high) / 2;
        const auto other = sort_key(x[sorted.numbers ? sorted.numbers[middle] : middle]);
        const bool above = sorted.right ? other <= key : other < key;
        (above ? low : high) = above ? middle + 1 : middle;
      }
      *reinterpret_cast<int64_t*>(places + i * steps[0]) = low;
    }
  });
}

void argsort(const IndexProblem& p, const void* x, int32_t* y, SortOrder by) {
  const int64_t lanes = p.outer * p.inner, size = static_cast<int64_t>(size_of(p.dtype));
  parallel_for(lanes, lanes * p.rows >= kParallelElements, [&](int64_t lane) {
    std::vector<int64_t> order(static_cast<size_t>(p.rows));
    const int64_t first = lane / p.inner * p.rows * p.inner + lane % p.inner;
    sorted_order({p.dtype, static_cast<const char*>(x) + first * size, p.inner * size, p.rows, by}, order.data());
    for (int64_t i = 0; i < p.rows; ++i) y[first + i * p.inner] = static_cast<int32_t>(order[static_cast<size_t>(i)]);
  });
}

}  // namespace freight::cpu
