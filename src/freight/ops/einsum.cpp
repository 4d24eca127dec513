// Einstein's summation: products of tensors whose axes have letters, summed over the letters that the result lacks.
// Operands are joined from left to right, each pair by one batched matmul. See linalg.h.
#include <algorithm>
#include <map>

#include "freight/ir/infer.h"
#include "freight/ops/common.h"
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

Equation parse(const std::string& text, size_t operands) {
  std::string plain;
  for (const char c : text) {
    if (c != ' ') plain += c;
  }
  Equation e;
  const size_t arrow = plain.find("->");
  const std::string left = plain.substr(0, arrow);
  e.operands.emplace_back();
  std::map<char, int> uses;
  for (const char c : left) {
    if (c == ',') {
      e.operands.emplace_back();
    } else if ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')) {
      e.operands.back() += c;
      ++uses[c];
    } else {
      ops::fail_here(kEinsum, "'", text, "' holds '", std::string(1, c), "': need letters, commas and one ->");
    }
  }
  if (e.operands.size() != operands)
    ops::fail_here(kEinsum, "'", text, "' names ", e.operands.size(), " operands: got ", operands);
  if (arrow != std::string::npos) {
    e.result = plain.substr(arrow + 2);
  } else {  // the letters that stand once, in the order of the alphabet
    for (const auto& [c, count] : uses) {
      if (count == 1) e.result += c;
    }
  }
  for (size_t i = 0; i < e.result.size(); ++i) {
    const char c = e.result[i];
    if (uses.count(c) == 0 || e.result.find(c, i + 1) != std::string::npos)
      ops::fail_here(kEinsum, "letter '", std::string(1, c), "' of the result of '", text,
                     "' must stand once there and in an operand");
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
  if (!computes(x.dtype()))
    ops::fail_here(kEinsum, "does not compute in ", x.dtype(), ": got ", x.type(), "; ", mend_of_carried(x.dtype()));
  if (static_cast<size_t>(x.rank()) != axes.size())
    ops::fail_here(kEinsum, "'", axes, "' of '", text, "' needs rank ", axes.size(), ": got ", x.type());
  for (size_t i = 0; i < axes.size(); ++i) {
    for (size_t k = axes.find(axes[i], i + 1); k != std::string::npos; k = axes.find(axes[i], i + 1)) {
      const int a = static_cast<int>(i), b = static_cast<int>(k);
      if (x.shape()[a] != x.shape()[b])
        ops::fail_here(kEinsum, "letter '", std::string(1, axes[i]), "' has extents ", x.shape()[a], " and ",
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

// The product of two, summed over the letters that neither the result nor a later operand has (`kept` are those).
Lettered joined(Lettered a, Lettered b, const std::string& kept) {
  const auto wanted = [&](char c) { return kept.find(c) != std::string::npos; };
  for (Lettered* t : {&a, &b}) {  // what one alone has, and nobody wants
    const Lettered& other = t == &a ? b : a;
    for (size_t i = t->axes.size(); i-- > 0;) {
      if (!wanted(t->axes[i]) && !other.has(t->axes[i])) *t = without(*t, i);
    }
  }
  std::string batch, summed, left, right;
  for (const char c : a.axes) (!b.has(c) ? left : wanted(c) ? batch : summed) += c;
  for (const char c : b.axes) {
    if (!a.has(c)) right += c;
    if (a.has(c) && a.extent(c) != b.extent(c))
      ops::fail_here(kEinsum, "letter '", std::string(1, c), "' has extents ", a.extent(c), " and ", b.extent(c),
                     " in ", a.x.type(), " and ", b.x.type());
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

}  // namespace

Tensor einsum(const std::string& equation, const std::vector<Tensor>& operands, SourceLine at) {
  const Frame frame(at);
  if (operands.empty()) ops::fail_here(kEinsum, "needs at least one operand");
  const Equation e = parse(equation, operands.size());
  std::vector<Lettered> terms;
  for (size_t i = 0; i < operands.size(); ++i) {
    terms.push_back(with_letters(ops::get(operands[i], kEinsum), e.operands[i], equation));
    if (terms[i].x.dtype() != terms[0].x.dtype())
      ops::fail_here(kEinsum, "element types differ: got ", terms[0].x.type(), " and ", terms[i].x.type());
  }
  Lettered total = terms[0];
  for (size_t i = 1; i < terms.size(); ++i) {
    std::string kept = e.result;
    for (size_t k = i + 1; k < terms.size(); ++k) kept += terms[k].axes;
    total = joined(total, terms[i], kept);
  }
  for (size_t i = total.axes.size(); i-- > 0;) {
    if (e.result.find(total.axes[i]) == std::string::npos) total = without(total, i);
  }
  return arranged(total, e.result);
}

}  // namespace freight
