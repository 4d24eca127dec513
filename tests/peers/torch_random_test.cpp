// A thousand configurations of pooling, normalization, losses, indexing, order and reductions, drawn with a seed:
// values, gradients and refusals must be PyTorch's (torch_random.py computes them). Skipped where no Python with torch
// is found; FREIGHT_TORCH_PYTHON names one.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "freight/base/error.h"
#include "freight/ops/ops.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"
#include "tests/support/torch_python.h"

namespace freight {
namespace {

using nlohmann::json;
using Tensors = std::vector<Tensor>;

struct Case {
  std::string op;
  Tensors inputs;
  json options = json::object();
  std::function<Tensor(const Tensors&)> ours;
};

// Draws the same numbers everywhere: the engine is fixed by the standard, its distributions are not.
class Draw {
 public:
  explicit Draw(uint32_t seed) : engine_(seed) {}
  int64_t whole(int64_t low, int64_t high) {  // both ends
    return low + static_cast<int64_t>(engine_() % static_cast<uint32_t>(high - low + 1));
  }
  bool chance(int percent) { return whole(1, 100) <= percent; }
  template <class T>
  T pick(const std::vector<T>& of) {
    return of[static_cast<size_t>(whole(0, std::ssize(of) - 1))];
  }
  double unit() { return static_cast<double>(whole(0, 1'000'000)) / 1e6; }
  // About normal, none closer to another than PyTorch's and our roundings, so that no maximum is a matter of chance.
  Tensor floats(const Shape& shape, double low = -3, double high = 3) {
    std::vector<float> v(static_cast<size_t>(shape.numel()));
    for (float& x : v) x = static_cast<float>(low + (high - low) * unit());
    return Tensor::of(v, shape);
  }
  Tensor integers(const Shape& shape, int64_t low, int64_t high) {
    std::vector<int64_t> v(static_cast<size_t>(shape.numel()));
    for (int64_t& x : v) x = whole(low, high);
    const Tensor t = Tensor::of(v, shape);
    return cast(t, pick<DType>({DType::i32, DType::i64}));
  }
  // Few values, so that many are equal.
  Tensor coarse(const Shape& shape) { return chance(50) ? integers(shape, -3, 3) : round(floats(shape)) * 0.5; }
  Shape shape(int least, int most) {
    Shape s;
    for (int64_t rank = whole(least, most); rank > 0; --rank) s.push_back(whole(1, 5));
    return s;
  }

 private:
  std::mt19937 engine_;
};

json list(const Shape& s) { return s.vector(); }

Case pooling(Draw& d) {
  const int spatial = static_cast<int>(d.whole(1, 2));
  Shape x{d.whole(1, 2), d.whole(1, 5)}, kernel, stride, padding;
  for (int i = 0; i < spatial; ++i) {
    x.push_back(d.whole(1, 9));
    kernel.push_back(d.whole(1, 4));
    stride.push_back(d.whole(1, 4));
    padding.push_back(d.chance(50) ? 0 : d.whole(0, kernel[i] / 2 + d.chance(10)));
  }
  const bool average = d.chance(60);
  PoolOptions o{
      .kernel = Extents(kernel), .stride = Extents(stride), .padding = Extents(padding), .ceil_mode = d.chance(60)};
  Case c{(average ? "avg_pool" : "max_pool") + std::to_string(spatial) + "d", {d.floats(x)}, {}, {}};
  c.options = {
      {"kernel", list(kernel)}, {"stride", list(stride)}, {"padding", list(padding)}, {"ceil_mode", o.ceil_mode}};
  if (average) c.options["count_include_pad"] = o.count_include_pad = d.chance(60);
  c.ours = [=](const Tensors& in) {
    if (average) return spatial == 1 ? avg_pool1d(in[0], o) : avg_pool2d(in[0], o);
    return spatial == 1 ? max_pool1d(in[0], o) : max_pool2d(in[0], o);
  };
  return c;
}

Case adaptive(Draw& d) {
  const Shape output{d.whole(1, 5), d.whole(1, 5)};
  return {"adaptive_avg_pool2d",
          {d.floats({d.whole(1, 2), d.whole(1, 3), d.whole(1, 9), d.whole(1, 9)})},
          {{"output", list(output)}},
          [=](const Tensors& in) { return adaptive_avg_pool2d(in[0], Extents(output)); }};
}

Case normalisation(Draw& d) {
  Shape x{d.whole(2, 4), d.whole(1, 6)};
  for (int64_t i = d.whole(0, 2); i > 0; --i) x.push_back(d.whole(1, 5));
  const double eps = d.pick<double>({1e-5, 1e-3});
  const std::string op = d.pick<std::string>({"batch_norm", "layer_norm", "group_norm"});
  Shape weight{x[1]};
  if (op == "layer_norm") {
    weight = {};
    for (int i = static_cast<int>(d.whole(1, x.rank() - 1)); i < x.rank(); ++i) weight.push_back(x[i]);
  }
  Case c{op, {d.floats(x), d.floats(weight, 0.5, 2), d.floats(weight)}, {{"eps", eps}}, {}};
  const int64_t groups = d.whole(1, 3);
  if (op == "group_norm") c.options["groups"] = groups;
  c.ours = [=](const Tensors& in) {
    if (op == "batch_norm") return batch_norm(in[0], in[1], in[2], eps).y;
    return op == "layer_norm" ? layer_norm(in[0], in[1], in[2], eps) : group_norm(in[0], groups, in[1], in[2], eps);
  };
  return c;
}

Reduction reduction_of(const std::string& name) {
  return name == "mean" ? Reduction::mean : name == "sum" ? Reduction::sum : Reduction::none;
}

Case class_loss(Draw& d) {
  const int64_t n = d.whole(1, 5), classes = d.whole(1, 7);
  const std::string reduction = d.pick<std::string>({"mean", "sum", "none"});
  const bool wrong = d.chance(8);  // a label that names no class
  Tensor labels = d.integers({n}, wrong ? -2 : 0, classes - 1 + wrong);
  Tensor logits = d.floats({n, classes});
  if (d.chance(25)) logits = where(d.integers({n, classes}, 0, 3) > 0, logits, -INFINITY);
  if (d.chance(20)) {
    return {"nll_loss", {logits, labels}, {{"reduction", reduction}}, [=](const Tensors& in) {
              return nll_loss(in[0], in[1], {.reduction = reduction_of(reduction)});
            }};
  }
  CrossEntropyOptions o{.label_smoothing = d.chance(40) ? 0.1 : 0.0, .reduction = reduction_of(reduction)};
  Case c{"cross_entropy", {logits, labels}, {{"reduction", reduction}, {"label_smoothing", o.label_smoothing}}, {}};
  if (d.chance(20)) {  // probabilities, of finite logits: of infinite ones PyTorch gives NaN, we the limit
    c.inputs = {d.floats({n, classes}), softmax(d.floats({n, classes}), 1)};
  } else if (d.chance(50)) {
    o.ignore_index = d.pick<int64_t>({0, -100, 1});
    c.options["ignore_index"] = *o.ignore_index;
    if (*o.ignore_index == -100 && d.chance(50)) {
      c.inputs[1] = where(d.integers({n}, 0, 1) > 0, c.inputs[1], -100);
    }
  } else {
    c.options["ignore_index"] = -1'000'000;  // PyTorch always ignores one
  }
  c.ours = [=](const Tensors& in) { return cross_entropy(in[0], in[1], o); };
  return c;
}

Case value_loss(Draw& d) {
  const Shape shape = d.shape(1, 3);
  const std::string reduction = d.pick<std::string>({"mean", "sum", "none"});
  const Reduction r = reduction_of(reduction);
  const double bend = d.pick<double>({0.5, 1, 2});
  const std::string op =
      d.pick<std::string>({"mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "kl_div", "bce_with_logits"});
  Case c{op, {d.floats(shape), d.floats(shape)}, {{"reduction", reduction}}, {}};
  if (op == "kl_div" || op == "bce_with_logits") c.inputs[1] = d.floats(shape, 0.01, 1);
  if (op == "bce_with_logits") c.inputs[0] = d.chance(30) ? zeros(shape) : d.floats(shape, -30, 30);
  if (op == "smooth_l1_loss") c.options["beta"] = bend;
  if (op == "huber_loss") c.options["delta"] = bend;
  c.ours = [=](const Tensors& in) {
    if (op == "mse_loss") return mse_loss(in[0], in[1], r);
    if (op == "l1_loss") return l1_loss(in[0], in[1], r);
    if (op == "smooth_l1_loss") return smooth_l1_loss(in[0], in[1], bend, r);
    if (op == "huber_loss") return huber_loss(in[0], in[1], bend, r);
    return op == "kl_div" ? kl_div(in[0], in[1], {.reduction = r}) : bce_with_logits(in[0], in[1], {.reduction = r});
  };
  return c;
}

Case pointwise(Draw& d) {
  const Shape shape = d.shape(1, 3);
  const Tensor x = d.chance(30) ? round(d.floats(shape)) : d.floats(shape, -8, 8);
  switch (d.whole(0, 6)) {
    case 0: return {"softplus", {x * 6.0}, json::object(), [](const Tensors& in) { return softplus(in[0]); }};
    case 1: return {"elu", {x}, {{"alpha", 1.5}}, [](const Tensors& in) { return elu(in[0], 1.5); }};
    case 2: return {"leaky_relu", {x}, {{"slope", 0.1}}, [](const Tensors& in) { return leaky_relu(in[0], 0.1); }};
    case 3: {
      const bool approximate = d.chance(50);
      return {"gelu", {x}, {{"tanh", approximate}}, [=](const Tensors& in) {
                return gelu(in[0], approximate ? GeluKind::tanh : GeluKind::erf);
              }};
    }
    case 4: return {"clamp", {x}, {{"lo", -1.0}, {"hi", 2.0}}, [](const Tensors& in) { return clamp(in[0], -1, 2); }};
    case 5: {
      const bool c_like = d.chance(40);
      const Tensor by = where(d.integers(shape, 0, 1) > 0, 1.7, -2.3);
      if (d.chance(30)) {
        const Tensor a = cast(x, DType::i32), b = where(d.integers(shape, 0, 1) > 0, full(shape, 3, DType::i32), -2);
        return {c_like ? "fmod" : "remainder", {a, b}, json::object(), [=](const Tensors& in) {
                  return c_like ? fmod(in[0], in[1]) : remainder(in[0], in[1]);
                }};
      }
      return {c_like ? "fmod" : "remainder", {d.floats(shape, -8, 8), by}, json::object(), [=](const Tensors& in) {
                return c_like ? fmod(in[0], in[1]) : remainder(in[0], in[1]);
              }};
    }
    default:
      return {"pow", {x, round(d.floats(shape, -2, 3))}, json::object(), [](const Tensors& in) {
                return pow(in[0], in[1]);
              }};
  }
}

Case indexing(Draw& d) {
  const Shape shape = d.shape(1, 3);
  const int64_t axis = d.whole(0, shape.rank() - 1), extent = shape[static_cast<int>(axis)];
  const int64_t beyond = d.chance(10);
  const Tensor x = d.floats(shape);
  switch (d.whole(0, 5)) {
    case 0:
      return {
          "gather", {x, d.integers({d.whole(0, 6)}, 0, extent - 1 + beyond)}, {{"axis", axis}}, [=](const Tensors& in) {
            return gather(in[0], in[1], axis);
          }};
    case 1: {
      Shape picks = shape;
      picks[static_cast<int>(axis)] = d.whole(1, 6);
      return {"gather_elements", {x, d.integers(picks, -beyond, extent - 1)}, {{"axis", axis}}, [=](const Tensors& in) {
                return gather_elements(in[0], in[1], axis);
              }};
    }
    case 2: {
      const int64_t size = d.whole(1, 6);
      return {"scatter_add",
              {d.integers({extent}, 0, size - 1 + beyond), x},
              {{"size", size}, {"axis", axis}},
              [=](const Tensors& in) { return scatter_add(in[0], in[1], size, axis); }};
    }
    case 3: {
      const int64_t rows = d.whole(1, 6), padding = d.whole(-1, rows - 1);
      return {"embedding",
              {d.integers(shape, -beyond, rows - 1), d.floats({rows, 3})},
              {{"padding_idx", padding}},
              [=](const Tensors& in) { return embedding(in[0], in[1], {.padding_idx = padding}); }};
    }
    case 4: {
      const int64_t depth = d.whole(1, 6);
      return {"one_hot", {d.integers(shape, -beyond, depth - 1)}, {{"depth", depth}}, [=](const Tensors& in) {
                return one_hot(in[0], depth);
              }};
    }
    default: {
      const int64_t size = d.whole(1, 6);
      return {"bincount", {d.integers(shape, 0, size - 1 + beyond)}, {{"size", size}}, [=](const Tensors& in) {
                return bincount(in[0], size);
              }};
    }
  }
}

Case ordering(Draw& d) {
  const Shape shape = d.shape(1, 3);
  const int64_t axis = d.whole(-shape.rank(), shape.rank() - 1);
  const bool descending = d.chance(50);
  const Order order = descending ? Order::descending : Order::ascending;
  Tensor x = d.coarse(shape);
  if (is_floating(x.dtype()) && d.chance(20)) x = where(equal(x, 0.5), NAN, x);
  const json options{{"axis", axis}, {"descending", descending}};
  switch (d.whole(0, 2)) {
    case 0: return {"sort", {x}, options, [=](const Tensors& in) { return sort(in[0], axis, order).values; }};
    case 1: return {"argsort", {x}, options, [=](const Tensors& in) { return argsort(in[0], axis, order); }};
    default: {
      const int64_t k = d.whole(0, 5);
      json more = options;
      more["k"] = k;
      return {"topk", {x}, more, [=](const Tensors& in) { return topk(in[0], k, axis, order).values; }};
    }
  }
}

Case reducing(Draw& d) {
  const Shape shape = d.shape(1, 4);
  Shape axes;
  for (int i = 0; i < shape.rank(); ++i) {
    if (d.chance(60)) axes.push_back(i);
  }
  if (axes.empty()) axes.push_back(0);
  const int64_t axis = axes[0];
  const Axes all_axes(axes.vector());
  const bool kept = d.chance(40);
  const Keep keep = kept ? Keep::yes : Keep::no;
  const json over{{"axes", list(axes)}, {"keep", kept}}, along{{"axis", axis}, {"keep", kept}};
  const Tensor x = d.floats(shape), coarse = d.coarse(shape);
  switch (d.whole(0, 9)) {
    case 0: return {"sum", {coarse}, over, [=](const Tensors& in) { return sum(in[0], all_axes, keep); }};
    case 1: return {"max", {coarse}, over, [=](const Tensors& in) { return max(in[0], all_axes, keep); }};
    case 2: return {"min", {x}, over, [=](const Tensors& in) { return min(in[0], all_axes, keep); }};
    case 3: return {"prod", {coarse}, along, [=](const Tensors& in) { return prod(in[0], axis, keep); }};
    case 4: return {"any", {coarse}, along, [=](const Tensors& in) { return any(in[0], axis, keep); }};
    case 5: return {"all", {coarse}, along, [=](const Tensors& in) { return all(in[0], axis, keep); }};
    case 6: {
      const double p = d.pick<double>({0, 0.5, 1, 2, 3, INFINITY});
      json more = over;
      more["p"] = std::isinf(p) ? json("inf") : json(p);
      // Equal largest elements share the gradient; at 0 below p = 1 PyTorch's is NaN.
      return {"norm", {p == 2 && d.chance(30) ? zeros(shape) : x}, more, [=](const Tensors& in) {
                return norm(in[0], all_axes, {.p = p, .keep = keep});
              }};
    }
    case 7: {
      int64_t n = 1;
      for (int64_t a : axes) n *= shape[static_cast<int>(a)];
      const int64_t correction = n > 1 ? d.whole(0, 1) : 0;
      const bool root = d.chance(50);
      json more = over;
      more["correction"] = correction;
      const VarOptions o{.correction = static_cast<double>(correction), .keep = keep};
      return {root ? "stddev" : "var", {x}, more, [=](const Tensors& in) {
                return root ? stddev(in[0], all_axes, o) : var(in[0], all_axes, o);
              }};
    }
    case 8: {
      Tensor t = x * 20.0;
      if (d.chance(30)) t = where(d.integers(shape, 0, 2) > 0, t, -INFINITY);
      return {"logsumexp", {t}, over, [=](const Tensors& in) { return logsumexp(in[0], all_axes, keep); }};
    }
    default: return {"cumsum", {coarse}, {{"axis", axis}}, [=](const Tensors& in) { return cumsum(in[0], axis); }};
  }
}

Case einstein(Draw& d) {
  const std::string text = d.pick<std::string>(
      {"ij,jk->ik", "ij,jk", "bij,bjk->bik", "ij->ji", "ii->i", "ii", "ij->", "i,j->ij", "ij,ij->i", "ij,ik,il->jkl",
       "ijk,jil->kl", "bhtd,bhsd->bhts", "abc,cd->abd", "i,i", "ij,kl->", "iij,j->i", "abc->cab", "ab,bc,cd,de->ae"});
  std::map<char, int64_t> extents;
  Case c{"einsum", {}, {{"equation", text}}, {}};
  Shape shape;
  const std::string left = text.substr(0, text.find("->"));
  for (const char letter : left + ",") {
    if (letter != ',') {
      if (!extents.count(letter)) extents[letter] = d.whole(1, 4);
      shape.push_back(extents[letter]);
    } else {
      c.inputs.push_back(d.floats(shape));
      shape = {};
    }
  }
  c.ours = [=](const Tensors& in) { return einsum(text, in); };
  return c;
}

Case any_case(Draw& d) {
  const int64_t kind = d.whole(0, 99);
  if (kind < 22) return pooling(d);
  if (kind < 25) return adaptive(d);
  if (kind < 35) return normalisation(d);
  if (kind < 50) return class_loss(d);
  if (kind < 60) return value_loss(d);
  if (kind < 68) return pointwise(d);
  if (kind < 78) return indexing(d);
  if (kind < 84) return ordering(d);
  return kind < 94 ? reducing(d) : einstein(d);
}

json numbers(const Tensor& t) {
  json all = json::array();
  if (!is_floating(t.dtype())) return t.to_vector<int64_t>();
  for (const double v : t.to_vector<double>()) {
    if (std::isfinite(v)) {
      all.push_back(v);
    } else {
      all.push_back(std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf");
    }
  }
  return all;
}

// What we answer: values, then the gradients of the floating inputs.
struct Answer {
  std::string refused;
  Shape shape;
  Tensors values;
};

Answer answer(const Case& c) {
  try {
    const Tensor y = c.ours(c.inputs);
    Answer a{"", y.shape(), {y}};
    Tensors floating;
    for (const Tensor& t : c.inputs) {
      if (is_floating(t.dtype())) floating.push_back(t);
    }
    if (is_floating(y.dtype()) && y.numel() > 0 && !floating.empty()) {
      const Tensor place = reshape(arange(y.numel()), y.shape());
      const Tensor weights = cast(remainder(place * 37, 11) - 5, DType::f32) / 4;
      const Tensors dx = grad(sum(y * weights), floating, {.allow_unused = true});
      a.values.insert(a.values.end(), dx.begin(), dx.end());
    }
    for (const Tensor& t : a.values) t.array();
    return a;
  } catch (const Error& e) {
    return {e.what(), {}, {}};
  }
}

double number_of(const json& v) {
  if (v.is_string()) return std::strtod(v.get<std::string>().c_str(), nullptr);
  return v.is_boolean() ? v.get<bool>() : v.get<double>();
}

// Equal to 1e-5 of the largest number, and infinite or none where PyTorch's is.
std::string difference(const Tensor& got, const json& want) {
  const std::vector<double> values = got.to_vector<double>();
  if (values.size() != want.size()) return cat(values.size(), " numbers, need ", want.size());
  double scale = 1;
  for (const json& v : want) {
    if (std::isfinite(number_of(v))) scale = std::max(scale, std::fabs(number_of(v)));
  }
  for (size_t i = 0; i < values.size(); ++i) {
    const double w = number_of(want[i]), v = values[i];
    const bool same = std::isfinite(w) ? std::fabs(v - w) <= 1e-5 * scale : std::isnan(w) ? std::isnan(v) : v == w;
    if (!same) return cat("at ", i, " got ", v, ", need ", w);
  }
  return "";
}

std::string compare(const Case& c, const Answer& ours, const json& theirs) {
  if (theirs.contains("refused") != !ours.refused.empty()) {
    return ours.refused.empty() ? "PyTorch refuses: " + theirs["refused"].get<std::string>()
                                : "PyTorch accepts, we refuse: " + ours.refused;
  }
  if (theirs.contains("refused")) return "";
  if (list(ours.shape) != theirs["shape"]) return "shape " + to_string(ours.shape) + ", need " + theirs["shape"].dump();
  std::string text = difference(ours.values[0], theirs["values"]);
  size_t next = 1;
  for (size_t i = 0; i < c.inputs.size() && text.empty() && ours.values.size() > 1; ++i) {
    if (!is_floating(c.inputs[i].dtype())) continue;
    const json& gradient = theirs["gradients"][i];
    if (!gradient.is_null()) {
      text = difference(ours.values[next], gradient);
      if (!text.empty()) text = cat("gradient ", i, " ", text);
    }
    ++next;
  }
  return text;
}

TEST(TorchRandom, AThousandConfigurationsAgree) {
  const std::string python = testing::torch_python();
  if (python.empty()) GTEST_SKIP() << testing::kWithoutTorch;
  const testing::TemporaryDir dir;
  const DeviceScope on("cpu");
  Draw draw(20261125);
  std::vector<Case> cases;
  std::vector<Answer> answers;
  json asked = json::array();
  for (int i = 0; i < 1000; ++i) {
    const Case& c = cases.emplace_back(any_case(draw));
    json inputs = json::array();
    for (const Tensor& t : c.inputs) {
      inputs.push_back({{"dtype", to_string(t.dtype())}, {"shape", list(t.shape())}, {"data", numbers(t)}});
    }
    asked.push_back({{"op", c.op}, {"inputs", inputs}, {"options", c.options}});
    answers.push_back(answer(c));
  }
  std::ofstream(dir / "cases.json") << asked;
  const std::string command = cat("'", python, "' '", source_dir(), "/tests/peers/torch_random.py' '",
                                  dir / "cases.json", "' '", dir / "answers.json", "'");
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  const json theirs = json::parse(std::ifstream(dir / "answers.json"));
  ASSERT_EQ(theirs.size(), cases.size());
  int refused = 0;
  for (size_t i = 0; i < cases.size(); ++i) {
    refused += !answers[i].refused.empty();
    const std::string text = compare(cases[i], answers[i], theirs[i]);
    EXPECT_EQ(text, "") << "case " << i << ": " << asked[i].dump().substr(0, 700);
  }
  EXPECT_LT(refused, 120);  // configurations that both refuse say little
}

}  // namespace
}  // namespace freight
