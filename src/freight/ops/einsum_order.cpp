// Subsets of operands and sets of letters are bits of a number. See einsum_order_internal.h. Dynamic programming over
// subsets is that of Pfeifer, Haegeman, Verstraete, "Faster identification of optimal contraction sequences for tensor
// networks" (2014); the measure of the greedy choice is opt_einsum's (Smith and Gray, 2018).
#include "freight/ops/einsum_order_internal.h"

#include <bit>
#include <cstddef>
#include <limits>
#include <utility>

#include "freight/base/shape.h"

namespace freight::ops {

namespace {

constexpr size_t kExact = 8;
constexpr double kImpossible = std::numeric_limits<double>::infinity();

using Letters = uint64_t;

constexpr int kLetters = 62;  // a to z, A to Z, and the digits of ellipses
int bit_of(char c) { return c >= 'a' ? c - 'a' : c >= 'A' ? 26 + c - 'A' : 52 + c - '0'; }

Letters letters_of(const std::string& text) {
  Letters set = 0;
  for (const char c : text) set |= Letters{1} << bit_of(c);
  return set;
}

// The operands that are left, each by its lowest number and its letters.
struct Term {
  size_t number;
  Letters letters;
};

class Orders {
 public:
  explicit Orders(const Contractions& all) : result_(letters_of(all.result)), whole_products_(all.whole_products) {
    for (const auto& [letter, extent] : all.extents)
      extents_[static_cast<size_t>(bit_of(letter))] = static_cast<double>(extent);
    for (size_t i = 0; i < all.operands.size(); ++i) terms_.push_back({i, letters_of(all.operands[i])});
  }

  double left_to_right(std::vector<Contraction>& order) const {
    std::vector<Term> left = terms_;
    double flops = 0;
    while (left.size() > 1) flops += join(left, 0, 1, order);
    return flops;
  }

  double planned(std::vector<Contraction>& order) const {
    std::vector<Term> left = terms_;
    double flops = 0;
    while (left.size() > kExact) {
      size_t a = 0, b = 1;
      std::pair<double, double> least{kImpossible, kImpossible};  // elements that are added, FLOPs
      for (size_t i = 0; i < left.size(); ++i) {
        for (size_t k = i + 1; k < left.size(); ++k) {
          const Letters product = kept(left, i, k);
          const double pair_flops = flops_of(left[i].letters, left[k].letters, product);
          const std::pair<double, double> adds = {size(product) - size(left[i].letters) - size(left[k].letters),
                                                  pair_flops};
          if (pair_flops == kImpossible || adds >= least) continue;
          least = adds;
          a = i;
          b = k;
        }
      }
      flops += join(left, a, b, order);
    }
    return flops + exact(left, order);
  }

 private:
  double size(Letters set) const {
    double n = 1;
    for (; set != 0; set &= set - 1) n *= extents_[static_cast<size_t>(std::countr_zero(set))];
    return n;
  }

  // A multiply-add counts two, a product without a sum one.
  double flops_of(Letters a, Letters b, Letters product) const {
    const Letters both = a | b;
    const bool sums = both != product;
    const Letters widest = sums && !whole_products_ ? product : both;
    if (std::popcount(widest) > Shape::kMaxRank) return kImpossible;
    return size(both) * (sums ? 2 : 1);
  }

  // The letters of the product of two terms that the result or another term has.
  Letters kept(const std::vector<Term>& left, size_t a, size_t b) const {
    Letters wanted = result_;
    for (size_t i = 0; i < left.size(); ++i) {
      if (i != a && i != b) wanted |= left[i].letters;
    }
    return (left[a].letters | left[b].letters) & wanted;
  }

  double join(std::vector<Term>& left, size_t a, size_t b, std::vector<Contraction>& order) const {
    const Letters product = kept(left, a, b);
    const double flops = flops_of(left[a].letters, left[b].letters, product);
    order.push_back({left[a].number, left[b].number});
    left[a].letters = product;
    left.erase(left.begin() + static_cast<ptrdiff_t>(b));
    return flops;
  }

  double exact(const std::vector<Term>& terms, std::vector<Contraction>& order) const {
    const size_t subsets = size_t{1} << terms.size();
    std::vector<Letters> letters(subsets, 0);         // that the product of the subset has
    std::vector<double> flops(subsets, kImpossible);  // to make it
    std::vector<size_t> parts(subsets, 0);            // of the two that make it, the one with the lowest term
    for (size_t s = 1; s < subsets; ++s) {
      Letters inside = 0, wanted = result_;
      for (size_t i = 0; i < terms.size(); ++i) (s >> i & 1 ? inside : wanted) |= terms[i].letters;
      letters[s] = inside & wanted;
      if (std::has_single_bit(s)) {
        letters[s] = inside;
        flops[s] = 0;
        continue;
      }
      const size_t lowest = s & (~s + 1);
      for (size_t part = (s - 1) & s; part != 0; part = (part - 1) & s) {
        const size_t other = s ^ part;
        if ((part & lowest) == 0) continue;
        const double total = flops[part] + flops[other] + flops_of(letters[part], letters[other], letters[s]);
        if (total >= flops[s]) continue;
        flops[s] = total;
        parts[s] = part;
      }
    }
    if (flops[subsets - 1] < kImpossible) append(terms, parts, subsets - 1, order);
    return flops[subsets - 1];
  }

  // The contractions that make the subset; gives the number of its product.
  static size_t append(const std::vector<Term>& terms, const std::vector<size_t>& parts, size_t subset,
                       std::vector<Contraction>& order) {
    if (std::has_single_bit(subset)) return terms[static_cast<size_t>(std::countr_zero(subset))].number;
    const size_t first = append(terms, parts, parts[subset], order);
    const size_t second = append(terms, parts, subset ^ parts[subset], order);
    order.push_back({first, second});
    return first;
  }

  std::vector<Term> terms_;
  Letters result_;
  bool whole_products_;
  double extents_[kLetters] = {};
};

}  // namespace

std::vector<Contraction> contraction_order(const Contractions& all) {
  const Orders orders(all);
  std::vector<Contraction> written, planned;
  const double as_written = orders.left_to_right(written);
  if (all.operands.size() < 3) return written;
  return orders.planned(planned) < as_written ? planned : written;
}

}  // namespace freight::ops
