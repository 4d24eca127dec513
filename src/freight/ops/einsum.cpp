// Einstein's summation: products of tensors whose axes have letters, summed over the letters that the result lacks.
// Operands are joined in the order of the fewest FLOPs (einsum_order_internal.h), each pair by one batched matmul. The
// axes of an ellipsis have digits for letters. See linalg.h.
#include <algorithm>
#include <map>

#include "freight/ops/common.h"
#include "freight/ops/einsum_order_internal.h"
#include "freight/ops/elementwise.h"
#include "freight/ops/linalg.h"
#include "freight/ops/reduce.h"
#include "freight/ops/shape.h"

namespace freight {

namespace {

constexpr const char* kEinsum = "einsum";

// A tensor and the letter of each of its axes; no letter stands twice.
struct Lettered {
  Tensor x;
  std::string axes;
  bool has(char c) const { return axes.find(c) != std::string::npos; }
  int64_t extent(char c) const { return x.shape()[static_cast<int>(axes.find(c))]; }
};

struct Equation {
  std::vector<std::string> operands;
  std::string result;
};

// The digits of the last `count` axes of an ellipsis: from the back, where axes of operands that have fewer broadcast.
std::string digits(int64_t count) {
  const std::string all = "0123456789";
  return all.substr(all.size() - static_cast<size_t>(count));
}

// The equation without blanks, with digits in place of each ellipsis: as many as axes of the operand have no letter; in
// the result as many as any operand has, which also begin a result that is not written.
std::string spelled(const std::string& text, const std::vector<Tensor>& operands) {
  constexpr const char* kEllipsis = "...";
  std::string plain;
  for (const char c : text) {
    if (c != ' ') plain += c;
  }
  if (plain.find(kEllipsis) == std::string::npos) return plain;
  const size_t arrow = plain.find("->");
  const std::string left = plain.substr(0, arrow);
  std::string y;
  int64_t most = 0;
  size_t from = 0;
  for (size_t i = 0; from <= left.size(); ++i) {
    const size_t comma = std::min(left.find(',', from), left.size()), dots = left.find(kEllipsis, from);
    std::string axes = left.substr(from, comma - from);
    if (dots < comma && i < operands.size()) {
      const int64_t rank = operands[i].rank(), count = rank - static_cast<int64_t>(axes.size() - 3);
      if (count < 0)
        ops::fail_here(kEinsum, "'", axes, "' of '", text, "' needs rank ", axes.size() - 3, " or more: got ",
                       operands[i].type());
      axes.replace(dots - from, 3, digits(count));
      most = std::max(most, count);
    }
    y += (i > 0 ? "," : "") + axes;
    from = comma + 1;
  }
  if (arrow == std::string::npos || y.find('.') != std::string::npos) return y;  // parse refuses single dots
  std::string result = plain.substr(arrow);
  const size_t dots = result.find(kEllipsis);
  if (dots == std::string::npos && most > 0)
    ops::fail_here(kEinsum, "the result of '", text, "' needs ... for the axes that its operands have for theirs");
  return y + (dots == std::string::npos ? result : result.replace(dots, 3, digits(most)));
}

Equation parse(const std::string& text, const std::vector<Tensor>& given) {
  for (const char c : text) {
    if (c >= '0' && c <= '9')
      ops::fail_here(kEinsum, "'", text, "' holds '", std::string(1, c), "': expected letters, ..., commas and one ->");
  }
  const std::string plain = spelled(text, given);
  const size_t operands = given.size();
  Equation e;
  const size_t arrow = plain.find("->");
  const std::string left = plain.substr(0, arrow);
  e.operands.emplace_back();
  std::map<char, int> uses;
  for (const char c : left) {
    if (c == ',') {
      e.operands.emplace_back();
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9')) {
      e.operands.back() += c;
      ++uses[c];
    } else {
      ops::fail_here(kEinsum, "'", text, "' holds '", std::string(1, c), "': expected letters, ..., commas and one ->");
    }
  }
  if (e.operands.size() != operands)
    ops::fail_here(kEinsum, "'", text, "' names ", e.operands.size(), " operands: got ", operands);
  if (arrow != std::string::npos) {
    e.result = plain.substr(arrow + 2);
  } else {  // the axes of an ellipsis, then the letters that stand once, in the order of the alphabet
    for (const auto& [c, count] : uses) {
      if (count == 1 || c <= '9') e.result += c;
    }
  }
  for (size_t i = 0; i < e.result.size(); ++i) {
    const char c = e.result[i];
    if (uses.count(c) == 0 || e.result.find(c, i + 1) != std::string::npos)
      ops::fail_here(kEinsum, "letter '", std::string(1, c), "' of the result of '", text,
                     "' must appear once there and in an operand");
  }
  return e;
}

// Sums over axis i.
Lettered without(const Lettered& t, size_t i) {
  const bool counts = !is_floating(t.x.dtype());
  const Tensor total = sum(t.x, static_cast<int64_t>(i));
  std::string axes = t.axes;
  axes.erase(i, 1);
  return {counts ? cast(total, t.x.dtype()) : total, axes};
}

// The diagonal of a letter that stands twice.
Lettered with_letters(Tensor x, std::string axes, const std::string& text) {
  ops::need_types(x, element_types(infer::same), kEinsum);
  if (static_cast<size_t>(x.rank()) != axes.size())
    ops::fail_here(kEinsum, "'", axes, "' of '", text, "' needs rank ", axes.size(), ": got ", x.type());
  for (size_t i = 0; i < axes.size(); ++i) {
    for (size_t k = axes.find(axes[i], i + 1); k != std::string::npos; k = axes.find(axes[i], i + 1)) {
      const int a = static_cast<int>(i), b = static_cast<int>(k);
      if (x.shape()[a] != x.shape()[b])
        ops::fail_here(kEinsum, "letter '", std::string(1, axes[i]), "' has sizes ", x.shape()[a], " and ",
                       x.shape()[b], " in ", x.type());
      const Tensor on = equal(iota(x.shape(), a), iota(x.shape(), b));
      const Tensor kept = where(on, x, is_floating(x.dtype()) ? In(0.0) : In(0));  // no product: 0 times infinity
      const Lettered shorter = without({kept, axes}, k);
      x = shorter.x;
      axes = shorter.axes;
    }
  }
  return {x, axes};
}

// The axes in the order of `order`, which holds all letters of t; a letter that t lacks has extent 1.
Tensor arranged(const Lettered& t, const std::string& order) {
  Shape perm, shape;
  for (const char c : order) {
    if (t.has(c)) perm.push_back(static_cast<int64_t>(t.axes.find(c)));
    shape.push_back(t.has(c) ? t.extent(c) : 1);
  }
  bool moved = false;
  for (int i = 0; i < perm.rank(); ++i) moved = moved || perm[i] != i;
  return ops::reshaped(moved ? permute(t.x, perm) : t.x, shape);
}

int64_t extents(const Lettered& t, const std::string& letters) {
  int64_t n = 1;
  for (const char c : letters) n *= t.extent(c);
  return n;
}

// The product of two, summed over the letters that both have and that neither the result nor another operand has
// (`kept` are those).
Lettered joined(const Lettered& a, const Lettered& b, const std::string& kept) {
  const auto wanted = [&](char c) { return kept.find(c) != std::string::npos; };
  std::string batch, summed, left, right;
  for (const char c : a.axes) (!b.has(c) ? left : wanted(c) ? batch : summed) += c;
  for (const char c : b.axes) {
    if (!a.has(c)) right += c;
  }
  if (summed.empty() || !is_floating(a.x.dtype())) {  // nothing to contract, or integers, which matmul does not take
    const std::string order = batch + left + summed + right;
    Lettered product{arranged(a, order) * arranged(b, order), order};
    for (size_t i = order.size(); i-- > 0;) {
      if (summed.find(order[i]) != std::string::npos) product = without(product, i);
    }
    return product;
  }
  const int64_t n = extents(a, batch), k = extents(a, summed);
  const Tensor rows = reshape(arranged(a, batch + left + summed), {n, extents(a, left), k});
  const Tensor columns = reshape(arranged(b, batch + summed + right), {n, k, extents(b, right)});
  Shape shape;
  for (const char c : batch + left) shape.push_back(a.extent(c));
  for (const char c : right) shape.push_back(b.extent(c));
  return {reshape(matmul(rows, columns), shape), batch + left + right};
}

// Every letter has one extent in all operands that still have it.
std::map<char, int64_t> extents_of(const std::vector<Lettered>& terms) {
  std::map<char, const Lettered*> first;
  std::map<char, int64_t> extents;
  for (const Lettered& t : terms) {
    for (const char c : t.axes) {
      const Lettered& other = *first.try_emplace(c, &t).first->second;
      if (other.extent(c) != t.extent(c))
        ops::fail_here(kEinsum, c <= '9' ? std::string("an axis of ...") : cat("letter '", std::string(1, c), "'"),
                       " has sizes ", other.extent(c), " and ", t.extent(c), " in ", other.x.type(), " and ",
                       t.x.type());
      extents[c] = t.extent(c);
    }
  }
  return extents;
}

// Takes away axes of extent 1 whose letter has a larger extent in another operand: they broadcast, as in NumPy.
void broadcast_ones(std::vector<Lettered>& terms) {
  std::map<char, int64_t> most;
  for (const Lettered& t : terms) {
    for (const char c : t.axes) most[c] = std::max(most[c], t.extent(c));
  }
  for (Lettered& t : terms) {
    for (size_t i = t.axes.size(); i-- > 0;) {
      if (t.extent(t.axes[i]) != 1 || most[t.axes[i]] <= 1) continue;
      t = {squeeze(t.x, static_cast<int64_t>(i)), t.axes.substr(0, i) + t.axes.substr(i + 1)};
    }
  }
}

// Sums over the letters that one operand alone has and the result lacks.
void sum_own_letters(std::vector<Lettered>& terms, const std::string& result) {
  for (Lettered& t : terms) {
    for (size_t i = t.axes.size(); i-- > 0;) {
      const char c = t.axes[i];
      const auto uses = std::count_if(terms.begin(), terms.end(), [&](const Lettered& each) { return each.has(c); });
      if (uses == 1 && result.find(c) == std::string::npos) t = without(t, i);
    }
  }
}

}  // namespace

Tensor einsum(const std::string& equation, const TensorList& list, SourceLine at) {
  const Frame frame(at, kEinsum);
  const std::vector<Tensor> operands = ops::tensors_of(list, kEinsum);
  if (operands.empty()) ops::fail_here(kEinsum, "needs at least one operand");
  const Equation e = parse(equation, operands);
  std::vector<Lettered> terms;
  for (size_t i = 0; i < operands.size(); ++i) {
    terms.push_back(with_letters(operands[i], e.operands[i], equation));
    if (terms[i].x.dtype() != terms[0].x.dtype())
      ops::fail_here(kEinsum, "element types differ: got ", terms[0].x.type(), " and ", terms[i].x.type());
  }
  broadcast_ones(terms);
  ops::Contractions all{.operands = {},
                        .result = e.result,
                        .extents = extents_of(terms),
                        .whole_products = !is_floating(terms[0].x.dtype())};
  sum_own_letters(terms, e.result);
  for (const Lettered& t : terms) all.operands.push_back(t.axes);
  std::vector<bool> joins(terms.size(), false);  // has become part of another
  for (const auto& [first, second] : ops::contraction_order(all)) {
    joins[second] = true;
    std::string kept = e.result;
    for (size_t i = 0; i < terms.size(); ++i) {
      if (i != first && !joins[i]) kept += terms[i].axes;
    }
    terms[first] = joined(terms[first], terms[second], kept);
  }
  return arranged(terms[0], e.result);
}

}  // namespace freight
