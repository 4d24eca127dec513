// Equality and hashing of attributes through their field lists; see attrs.h.
#include "freight/ir/attrs.h"

#include <bit>
#include <cstring>
#include <utility>

#include "freight/ir/attrs_internal.h"
#include "freight/ir/graph.h"

namespace freight {

uint64_t hash_combine(uint64_t seed, uint64_t value) {
  // The finalizer of splitmix64 over the sum.
  uint64_t z = seed * 0x9E3779B97F4A7C15ull + value + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return z ^ (z >> 31);
}

namespace {

uint64_t hash_bytes(const void* data, size_t n) {
  const auto* p = static_cast<const unsigned char*>(data);
  uint64_t h = n;
  for (; n >= 8; n -= 8, p += 8) {
    uint64_t word;
    std::memcpy(&word, p, 8);
    h = hash_combine(h, word);
  }
  for (; n > 0; --n, ++p) h = hash_combine(h, *p);
  return h;
}

// Folds fields into one hash. Neither this nor Same allocates: an eager call asks for both (run/prepared_op.h).
struct Hash {
  uint64_t value = 0;
  void push(uint64_t w) { value = hash_combine(value, w); }
  void operator()(std::string_view, const int64_t& v) { push(static_cast<uint64_t>(v)); }
  void operator()(std::string_view, const double& v) { push(std::bit_cast<uint64_t>(v)); }
  void operator()(std::string_view, const bool& v) { push(v); }
  void operator()(std::string_view, const DType& v) { push(static_cast<uint64_t>(v)); }
  void operator()(std::string_view, const FusedKind& v) { push(static_cast<uint64_t>(v)); }
  void operator()(std::string_view, const Shape& v) {
    push(static_cast<uint64_t>(v.rank()));
    for (int64_t d : v) push(static_cast<uint64_t>(d));
  }
  void operator()(std::string_view, const Type& v) {
    push(static_cast<uint64_t>(v.dtype));
    (*this)("", v.shape);
  }
  void operator()(std::string_view, const std::string& v) { push(hash_bytes(v.data(), v.size())); }
  void operator()(std::string_view, const Array& v) { push(v.defined() ? hash_bytes(v.raw(), v.bytes()) : 0); }
  void operator()(std::string_view, const std::shared_ptr<const Graph>& v) { push(v ? structural_hash(*v) : 0); }
};

// Equal fields: numbers by their bits (a NaN equals itself, the zeros differ), arrays and graphs by content.
struct Same {
  template <class T>
  bool operator()(const T& a, const T& b) const {
    return a == b;
  }
  bool operator()(const double& a, const double& b) const {
    return std::bit_cast<uint64_t>(a) == std::bit_cast<uint64_t>(b);
  }
  bool operator()(const Array& a, const Array& b) const {
    if (a.defined() != b.defined() || a.bytes() != b.bytes()) return false;
    return !a.defined() || a.storage() == b.storage() || std::memcmp(a.raw(), b.raw(), a.bytes()) == 0;
  }
  bool operator()(const std::shared_ptr<const Graph>& a, const std::shared_ptr<const Graph>& b) const {
    return a == b || (a && b && structurally_equal(*a, *b));
  }
};

}  // namespace

static_assert(std::is_nothrow_move_constructible_v<AnyAttrs> && std::is_nothrow_move_assignable_v<AnyAttrs>);
Attrs::Attrs(const Attrs& other) = default;
Attrs::Attrs(Attrs&& other) noexcept = default;
Attrs& Attrs::operator=(const Attrs& other) = default;
Attrs& Attrs::operator=(Attrs&& other) noexcept = default;
Attrs::~Attrs() = default;

bool equal(const Attrs& a, const Attrs& b) { return fields_match(a, b, Same{}); }

uint64_t hash(const Attrs& a) {
  Hash h;
  h.push(a.index());
  std::visit([&](const auto& s) { visit_fields(s, h); }, a);
  return h.value;
}

}  // namespace freight
