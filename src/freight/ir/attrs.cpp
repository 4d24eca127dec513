// Equality and hashing of attributes through their field lists; see attrs.h.
#include "freight/ir/attrs.h"

#include <bit>
#include <cstring>

#include "freight/ir/graph.h"

namespace freight {

uint64_t hash_combine(uint64_t seed, uint64_t value) {
  // The finaliser of splitmix64 over the sum.
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

// Flattens fields into words; equal attributes give equal words.
struct Words {
  std::vector<uint64_t> words;
  void push(uint64_t w) { words.push_back(w); }
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

std::vector<uint64_t> words_of(const Attrs& a) {
  Words w;
  w.push(a.index());
  std::visit([&](const auto& s) { visit_fields(s, w); }, a);
  return std::move(w.words);
}

}  // namespace

bool equal(const Attrs& a, const Attrs& b) { return words_of(a) == words_of(b); }

uint64_t hash(const Attrs& a) {
  uint64_t h = 0;
  for (uint64_t w : words_of(a)) h = hash_combine(h, w);
  return h;
}

}  // namespace freight
