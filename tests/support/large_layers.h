// Large operands of layers: attention, recurrent layers, pools, tables of rows, normalizations, classes, moved
// elements, running sums, sorts, random numbers and updates (large_repeated.h says how they are checked). Extents are
// those of one copy.
#pragma once
#include <utility>

#include "freight/passes/passes.h"
#include "tests/support/large_case.h"
#include "tests/support/large_repeated.h"

namespace freight::test {

// The results of an op, and the gradients of their first by the operands that are floating, from a cotangent that is
// the last operand.
inline Repeated with_gradient(Op op, const Attrs& attrs, const std::vector<Block>& in, const std::vector<Outcome>& out,
                              int64_t copies, double tolerance = 1e-3) {
  const auto make = [=](Builder& b, const std::vector<Value>& x, int64_t) {
    const std::vector<Value> operands(x.begin(), x.end() - 1);
    std::vector<Value> sources, results{b.add(op, attrs, operands)[0]};
    for (const Value v : operands) {
      if (is_floating(b.type(v).dtype)) sources.push_back(v);
    }
    for (const Value v : grad(b.graph(), results[0], sources, x.back())) results.push_back(v);
    return results;
  };
  return {copies, in, make, out, tolerance};
}

inline Block block(const Shape& shape, int axis, DType dtype = DType::f32, Fill fill = Fill::normal) {
  return {{dtype, shape}, axis, fill, 0, 0};
}
inline Block indices(const Shape& shape, int axis, int64_t bound, double step = 0) {
  return {{DType::i64, shape}, axis, Fill::index, bound, step};
}

// --- attention: q, k, v (B, H, T, D) ---

inline void add_attention(LargeCases& all) {
  const AttentionAttrs plain{.scale = 0.125}, causal{.scale = 0.125, .causal = true};
  const auto heads = [&](const std::string& what, int64_t gib, DType dtype, const AttentionAttrs& a, const Shape& q,
                         int64_t keys, bool on_gpu) {
    Shape k = q;
    k[2] = keys;
    all.add(what, gib,
            one_op(Op::attention, a, {block(q, 0, dtype), block(k, 0, dtype), block(k, 0, dtype)},
                   {{.axis = 0}, {.axis = 0}}, beyond_bytes({dtype, keys > q[2] ? k : q}),
                   dtype == DType::bf16 ? 3e-2 : 1e-4),
            on_gpu);
  };
  heads("attention of many heads", 10, DType::f32, plain, {1, 8, 33, 32}, 5, false);
  heads("attention of many samples, causal", 9, DType::f32, causal, {3, 1, 40, 16}, 40, true);
  heads("attention of many keys in all", 9, DType::f32, plain, {1, 1, 3, 64}, 65, false);
  heads("bf16, attention of many heads", 10, DType::bf16, plain, {1, 8, 33, 32}, 5, false);
  // One head's queries, or keys, beyond 2^31 bytes.
  const auto long_keys = [&](const std::string& what, int64_t gib, DType dtype, double tolerance) {
    const Shape k{1, 1, 64, 64};
    all.add(what, gib,
            one_op(Op::attention, plain, {block({1, 1, 2, 64}, -1, dtype), block(k, 2, dtype), block(k, 2, dtype)},
                   {{.power = 1e-9}, {.log = 1}}, beyond_bytes({dtype, k}), tolerance));
  };
  long_keys("attention by many keys", 6, DType::f32, 2e-3);  // sums of 8 million terms in f32
  long_keys("bf16, attention by many keys", 11, DType::bf16, 3e-2);
  all.add("attention with queries of 2^31 bytes", 8,
          one_op(Op::attention, plain, {block({1, 1, 32, 64}, 2), block({1, 1, 9, 64}, -1), block({1, 1, 9, 64}, -1)},
                 {{.axis = 2}, {.axis = 2}}, beyond_bytes({DType::f32, {1, 1, 32, 64}})),
          true);
  const auto gradient = [&](const std::string& what, int64_t gib, DType dtype, const Shape& q, const Shape& k, int axis,
                            const Outcome& of_k, int64_t copies, double tolerance) {
    const int keys_axis = axis == 0 ? 0 : -1;
    all.add(what, gib,
            with_gradient(
                Op::attention, plain,
                {block(q, axis, dtype), block(k, keys_axis, dtype), block(k, keys_axis, dtype), block(q, axis, dtype)},
                {{.axis = axis}, {.axis = axis}, of_k, of_k}, copies, tolerance));
  };
  gradient("attention's gradient of many samples", 11, DType::f32, {3, 1, 33, 32}, {3, 1, 3, 32}, 0, {.axis = 0},
           beyond_bytes({DType::f32, {3, 1, 33, 32}}), 1e-3);
  gradient("attention's gradient of many queries", 11, DType::f32, {1, 1, 32, 8}, {1, 1, 9, 8}, 2, {},
           beyond_bytes({DType::f32, {1, 1, 32, 8}}) / 2, 2e-2);
  gradient("bf16, attention's gradient of many samples", 11, DType::bf16, {3, 1, 33, 32}, {3, 1, 3, 32}, 0, {.axis = 0},
           beyond_bytes({DType::bf16, {3, 1, 33, 32}}), 4e-2);
}

// --- convolutions of many channels: x (N, C, spatial), w (O, C / groups, taps) ---

inline void add_channels(LargeCases& all) {
  const Shape one{1, 1};
  const auto conv = [&](const std::string& what, int64_t gib, const Block& x, const Block& w, const Outcome& y,
                        int64_t copies, int64_t pad) {
    const ConvAttrs a{one, {pad, pad}, {pad, pad}, one, 1, {}, {}};
    all.add(what, gib, one_op(Op::conv, a, {x, w}, {y}, copies, 2e-3));
  };
  const Block numbers = block({1, 64, 23, 23}, 1), weight = block({16, 64, 1, 1}, 1);
  conv("1x1 of a million channels", 8, numbers, weight, {}, beyond_bytes(numbers.type), 0);
  const Block wide = block({64, 96, 3, 3}, 1);
  conv("3x3 with weights of 2^31 bytes", 12, block({1, 96, 2, 2}, 1), wide, {}, beyond_bytes(wide.type), 1);
  const Block results = block({64, 96, 3, 3}, 0);
  conv("3x3 to many results", 12, block({1, 96, 2, 2}, -1), results, {.axis = 1}, beyond_bytes(results.type), 1);
}

// --- recurrent layers: x (N, T, G H) the inputs' part of the gates, w (G H, H) ---

// Weights are small, so that what a state was is forgotten within a copy of many steps.
inline Repeated recurrent(const RecurrentAttrs& a, DType dtype, const Shape& x, int axis, bool gradient,
                          double tolerance) {
  const int64_t gates = a.gru ? 3 : 4, h = x[2] / gates;
  const auto make = [=](Builder& b, const std::vector<Value>& v, int64_t) {
    std::vector<Value> operands{v[0], b.binary(Op::mul, v[1], b.constant_like(0.2, v[1]))};
    if (a.gru) operands.push_back(v[2]);
    std::vector<Value> results = b.add(Op::recurrent, a, operands);
    if (!gradient) return results;
    results.resize(1);
    for (const Value g : grad(b.graph(), results[0], operands, v.back())) results.push_back(g);
    return results;
  };
  std::vector<Block> in{block(x, axis, dtype), block({gates * h, h}, -1)};
  std::vector<Outcome> out(3, {.axis = axis});
  if (a.gru) in.push_back(block({h}, -1));
  if (gradient) {
    in.push_back(block({x[0], x[1], h}, axis, dtype, Fill::unit));
    out = {{.axis = axis}, {.axis = axis}, {}};
    if (a.gru) out.push_back({});
  }
  return {beyond_bytes({dtype, x}), in, make, out, tolerance};
}

inline void add_recurrent(LargeCases& all) {
  const RecurrentAttrs lstm, gru{.gru = true}, back{.gru = true, .reverse = true};
  const Shape many_lstm{3, 5, 32}, many_gru{3, 5, 24}, long_lstm{1, 64, 16}, long_gru{2, 64, 12};
  all.add("lstm of many samples", 9, recurrent(lstm, DType::f32, many_lstm, 0, false, 1e-4), true);
  all.add("gru of many samples", 9, recurrent(gru, DType::f32, many_gru, 0, false, 1e-4));
  all.add("lstm of many steps", 9, recurrent(lstm, DType::f32, long_lstm, 1, false, 1e-4));
  all.add("gru of many steps, from the end", 9, recurrent(back, DType::f32, long_gru, 1, false, 1e-4));
  all.add("lstm's gradient of many samples", 11, recurrent(lstm, DType::f32, many_lstm, 0, true, 2e-3));
  all.add("gru's gradient of many steps", 11, recurrent(gru, DType::f32, long_gru, 1, true, 2e-3));
  all.add("bf16, lstm of many samples", 9, recurrent(lstm, DType::bf16, many_lstm, 0, false, 3e-2));
  all.add("bf16, gru's gradient of many samples", 11, recurrent(gru, DType::bf16, many_gru, 0, true, 0.1));
}

// --- pools: x (N, C, spatial) ---

inline void add_pools(LargeCases& all) {
  const auto pool = [](int64_t kernel, int64_t stride, int64_t pad, int spatial, bool count_pad = true) {
    const auto all_axes = [&](int64_t v) { return Shape::filled(spatial, v); };
    return PoolAttrs{all_axes(kernel), all_axes(stride), all_axes(pad), all_axes(pad), count_pad, {}};
  };
  // The maxima, their places, and the gradient by places.
  const auto largest = [&](const std::string& what, int64_t gib, DType dtype, const PoolAttrs& a, const Shape& x,
                           int axis, bool on_gpu = false) {
    const auto make = [=](Builder& b, const std::vector<Value>& v, int64_t) {
      const std::vector<Value> y = b.add(Op::max_pool, a, {v[0]});
      PoolAttrs back = a;
      back.shape = b.shape(v[0]);
      std::vector<Value> results{y[0], b.one(Op::max_pool_grad, back, {y[0], y[1]})};
      if (axis < 3) results.push_back(y[1]);  // places in rows depend on how long these are
      return results;
    };
    const double places = axis < 2 ? 0 : static_cast<double>(x.rank() == 3 ? x[2] : x[2] * x[3]);
    std::vector<Outcome> out{{.axis = axis}, {.axis = axis}};
    if (axis < 3) out.push_back({.axis = axis, .step = places});
    all.add(what, gib,
            {beyond_bytes({dtype, x}),
             {block(x, axis, dtype, Fill::distinct)},
             make,
             out,
             dtype == DType::bf16 ? 1e-2 : 1e-4},
            on_gpu);
  };
  largest("maxima of many images", 11, DType::f32, pool(3, 2, 1, 2), {3, 3, 14, 14}, 0, true);
  largest("maxima of a high image", 11, DType::f32, pool(3, 2, 1, 2), {1, 4, 8, 36}, 2);
  largest("maxima of a wide image", 11, DType::f32, pool(2, 2, 0, 2), {1, 2, 34, 8}, 3);
  largest("maxima of a row", 11, DType::f32, pool(4, 4, 0, 1), {1, 1, 64}, 2);
  largest("bf16, maxima of many images", 11, DType::bf16, pool(3, 2, 1, 2), {3, 32, 14, 14}, 0);
  largest("bf16, maxima of a high image", 11, DType::bf16, pool(17, 17, 0, 2), {1, 1, 34, 68}, 2);

  const auto mean = [&](const std::string& what, int64_t gib, DType dtype, const PoolAttrs& a, const Shape& x, int axis,
                        bool on_gpu = false) {
    const auto make = [=](Builder& b, const std::vector<Value>& v, int64_t) {
      const Value y = b.one(Op::avg_pool, a, {v[0]});
      PoolAttrs back = a;
      back.shape = b.shape(v[0]);
      return std::vector<Value>{y, b.one(Op::avg_pool_grad, back, {y})};
    };
    all.add(what, gib,
            {beyond_bytes({dtype, x}),
             {block(x, axis, dtype)},
             make,
             {{.axis = axis}, {.axis = axis}},
             dtype == DType::bf16 ? 2e-2 : 1e-4},
            on_gpu);
  };
  mean("means of many images", 11, DType::f32, pool(3, 2, 1, 2, false), {3, 3, 14, 14}, 0, true);
  mean("means of a high image", 11, DType::f32, pool(3, 2, 1, 2), {1, 4, 8, 36}, 2);
  mean("means of a row", 11, DType::f32, pool(5, 4, 2, 1, false), {1, 1, 64}, 2);
  mean("bf16, means of many images", 11, DType::bf16, pool(3, 2, 1, 2), {3, 32, 14, 14}, 0);
  // One mean over everything.
  const auto whole = [&](const std::string& what, const Shape& x, bool quick) {
    const auto make = [](Builder& b, const std::vector<Value>& v, int64_t) {
      const Shape shape = b.shape(v[0]), window{shape[2], shape[3]}, none{0, 0}, one{1, 1};
      return std::vector<Value>{b.one(Op::avg_pool, PoolAttrs{window, window, none, none, true, {}}, {v[0]}),
                                b.one(Op::adaptive_avg_pool, AdaptivePoolAttrs{one}, {v[0]})};
    };
    const int64_t copies = quick ? (int64_t{1} << 26) / x.numel() : beyond_bytes({DType::f32, x});
    all.add(what, quick ? 1 : 4, {copies, {block(x, 2, DType::f32, Fill::positive)}, make, {{}, {}}, 1e-4}, quick,
            quick);
  };
  whole("the mean of a large plane", {1, 1, 8, 8192}, true);
  whole("the mean of a plane of 2^31 bytes", {1, 1, 8, 8192}, false);
}

// --- rows of tables ---

inline void add_tables(LargeCases& all) {
  const Shape rows{40, 64};
  const int64_t copies = beyond_bytes({DType::f32, rows});
  all.add("embedding of a large table", 6,
          one_op(Op::embedding, EmbeddingAttrs{}, {indices({3}, 0, 40, 40), block(rows, 0)}, {{.axis = 0}}, copies),
          true);
  all.add("embedding of many tokens", 4,
          one_op(Op::embedding, EmbeddingAttrs{}, {indices({40}, 0, 9), block({9, 64}, -1)}, {{.axis = 0}}, copies));
  all.add("embedding's gradient of a large table", 7,
          with_gradient(Op::embedding, EmbeddingAttrs{}, {indices({3}, 0, 40, 40), block(rows, 0), block({3, 64}, 0)},
                        {{.axis = 0}, {.axis = 0}}, copies));
  all.add("embedding's gradient of many tokens", 7,
          with_gradient(Op::embedding, EmbeddingAttrs{}, {indices({40}, 0, 9), block({9, 64}, -1), block({40, 64}, 0)},
                        {{.axis = 0}, {}}, copies, 2e-2));
  const auto elements = [&](const std::string& what, int64_t gib, const Shape& x, const Shape& index, int axis) {
    const auto make = [=](Builder& b, const std::vector<Value>& v, int64_t) {
      const Value y = b.one(Op::gather_elements, AxisAttrs{1}, {v[0], v[1]});
      return std::vector<Value>{y, b.one(Op::scatter_elements_add, ScatterAttrs{1, b.shape(v[0])[1]}, {v[1], y})};
    };
    const double step = axis == 1 ? static_cast<double>(x[1]) : 0;
    all.add(what, gib,
            {beyond_bytes({DType::f32, x}),
             {block(x, axis), indices(index, axis, x[1], step)},
             make,
             {{.axis = axis}, {.axis = axis}},
             1e-4});
  };
  elements("picked elements of many rows", 7, {5, 40, 9}, {5, 4, 9}, 0);
  elements("picked elements of long rows", 7, {2, 90, 3}, {2, 6, 3}, 1);
  all.add("plain updates of rows of a large table", 6,
          one_op(Op::sgd_rows, NoAttrs{},
                 {block(rows, 0), indices({3}, 0, 40, 40), block({3, 64}, 0), block({}, -1, DType::f32, Fill::unit)},
                 {{.axis = 0}}, copies));
  all.add("one-hot rows", 4,
          one_op(Op::one_hot, OneHotAttrs{64, DType::f32}, {indices({40}, 0, 64)}, {{.axis = 0}}, copies));
  all.add(
      "checked indices", 6,
      one_op(Op::check_index, RowsAttrs{9}, {indices({64}, 0, 9)}, {{.axis = 0}}, beyond_bytes({DType::i64, {64}})));
}

// --- normalizations and classes ---

inline void add_norms(LargeCases& all) {
  const auto both = [&](const std::string& what, int64_t gib, Op op, const NormAttrs& a, const Shape& x, int axis,
                        int64_t channels, bool gradient) {
    const std::vector<Block> in{block(x, axis), block({channels}, -1), block({channels}, -1)};
    const int64_t copies = beyond_bytes({DType::f32, x});
    if (gradient) {
      std::vector<Block> more = in;
      more.push_back(block(x, axis));
      return all.add(what, gib, with_gradient(op, a, more, {{.axis = axis}, {.axis = axis}, {}, {}}, copies, 2e-3));
    }
    const size_t statistics = op == Op::batch_norm ? 2 : 0;
    std::vector<Outcome> out{{.axis = axis}};
    for (size_t i = 0; i < statistics; ++i) out.push_back({.power = 1e-9});
    all.add(what, gib, one_op(op, a, in, out, copies, 1e-3), op == Op::layer_norm);
  };
  both("layer norm of many rows", 7, Op::layer_norm, {}, {40, 64}, 0, 64, false);
  both("layer norm's gradient of many rows", 11, Op::layer_norm, {}, {40, 64}, 0, 64, true);
  both("batch norm of many images", 7, Op::batch_norm, {}, {3, 5, 14, 14}, 0, 5, false);
  both("batch norm of a high image", 7, Op::batch_norm, {}, {1, 4, 8, 36}, 2, 4, false);
  both("batch norm's gradient of many rows", 11, Op::batch_norm, {}, {40, 64}, 0, 64, true);
  both("group norm of a high image", 7, Op::group_norm, {.groups = 2}, {1, 4, 8, 36}, 2, 4, false);
  // Scale and shift are as long as the rows.
  const Shape row{2, 64};
  all.add("layer norm of two rows", 11,
          one_op(Op::layer_norm, NormAttrs{}, {block(row, 1), block({64}, 0), block({64}, 0)}, {{.axis = 1}},
                 beyond_bytes({DType::f32, row}), 1e-3));

  const Shape logits{3, 64}, batch{40, 64};
  const int64_t classes = beyond_bytes({DType::f32, logits}), rows = beyond_bytes({DType::f32, batch});
  all.add("softmax of many classes", 7,
          one_op(Op::softmax, AxisAttrs{1}, {block(logits, 1)}, {{.axis = 1, .power = -1}}, classes));
  all.add("log softmax of many classes", 7,
          one_op(Op::log_softmax, AxisAttrs{1}, {block(logits, 1)}, {{.axis = 1, .log = -1}}, classes));
  all.add("softmax of many rows", 7, one_op(Op::softmax, AxisAttrs{1}, {block(batch, 0)}, {{.axis = 0}}, rows), true);
  all.add("softmax over the first axis", 7, one_op(Op::softmax, AxisAttrs{0}, {block(batch, 1)}, {{.axis = 1}}, rows));
  all.add("log softmax's gradient of many rows", 11,
          with_gradient(Op::log_softmax, AxisAttrs{1}, {block(batch, 0), block(batch, 0)}, {{.axis = 0}, {.axis = 0}},
                        rows));
  // The target is a class of the last copy.
  const auto loss = [](Builder& b, const std::vector<Value>& v, int64_t copies) {
    const Value far = b.constant(static_cast<double>((copies - 1) * 64), b.type(v[1]));
    return b.one(Op::cross_entropy, CrossEntropyAttrs{}, {v[0], b.binary(Op::add, v[1], far)});
  };
  all.add("cross entropy of many classes", 6,
          {classes,
           {block(logits, 1), indices({3}, -1, 64)},
           [=](Builder& b, const std::vector<Value>& v, int64_t copies) { return std::vector{loss(b, v, copies)}; },
           {{.log = 1}},
           1e-4});
  all.add("cross entropy of many rows, and its gradient", 8,
          with_gradient(Op::cross_entropy, CrossEntropyAttrs{}, {block(batch, 0), indices({40}, 0, 64), block({40}, 0)},
                        {{.axis = 0}, {.axis = 0}}, rows),
          true);
  all.add("cross entropy against probabilities", 8,
          one_op(Op::cross_entropy, CrossEntropyAttrs{.label_smoothing = 0.1},
                 {block(batch, 0), block(batch, 0, DType::f32, Fill::probabilities)}, {{.axis = 0}}, rows));
}

// --- sums of millions of numbers that all count ---

inline void add_sums(LargeCases& all) {
  const Shape x{2, 64};
  const int64_t copies = beyond_bytes({DType::f32, x});
  const auto matmul = [](Builder& b, const std::vector<Value>& v, int64_t) {
    return std::vector<Value>{b.matmul(v[0], v[1], false, true)};
  };
  const auto numbers = [&](int axis) { return block(x, axis, DType::f32, Fill::positive); };
  all.add("a product of two rows against two", 5, {copies, {numbers(1), numbers(1)}, matmul, {{}}, 2e-2});
  all.add("sums of two rows", 3, one_op(Op::sum, AxesAttrs{{1}}, {numbers(1)}, {{}}, copies), true);
  all.add("the sum of two rows", 3, one_op(Op::sum, AxesAttrs{{0, 1}}, {numbers(1)}, {{}}, copies), true);
  all.add("sums of two columns", 3,
          one_op(Op::sum, AxesAttrs{{0}}, {block({64, 2}, 0, DType::f32, Fill::positive)}, {{}}, copies), true);
}

// --- moved and converted elements, sorts, updates ---

inline void add_moves(LargeCases& all) {
  const Shape image{3, 5, 14, 12}, high{1, 3, 8, 36};
  const int64_t images = beyond_bytes({DType::f32, image}), rows = beyond_bytes({DType::f32, high});
  all.add("channels last of many images", 6,
          one_op(Op::transpose, PermAttrs{{0, 2, 3, 1}}, {block(image, 0)}, {{.axis = 0}}, images), true);
  all.add("channels last of a high image", 6,
          one_op(Op::transpose, PermAttrs{{0, 2, 3, 1}}, {block(high, 2)}, {{.axis = 1}}, rows));
  all.add("axes turned round", 6,
          one_op(Op::transpose, PermAttrs{{3, 2, 1, 0}}, {block(high, 2)}, {{.axis = 1}}, rows));
  all.add("a frame around images", 8,
          one_op(Op::pad, PadAttrs{{0, 0, 1, 2}, {0, 0, 3, 0}, {0, 0, 0, 1}, 0.5}, {block(image, 0)}, {{.axis = 0}},
                 images));
  all.add("channels joined", 9,
          one_op(Op::concat, AxisAttrs{1}, {block(image, 0), block({3, 2, 14, 12}, 0)}, {{.axis = 0}}, images), true);
  all.add("high images joined", 9,
          one_op(Op::concat, AxisAttrs{1}, {block(high, 2), block({1, 2, 8, 36}, 2)}, {{.axis = 2}}, rows));
  const auto parts = [](Builder& b, const std::vector<Value>& v, int64_t) {
    Shape start = Shape::filled(4, 0), limit = b.shape(v[0]), step = Shape::filled(4, 1);
    start[3] = 1;
    step[3] = 3;
    limit[1] = 2;
    return std::vector<Value>{b.slice(v[0], start, limit, step)};
  };
  all.add("parts of many images", 5, {images, {block(image, 0)}, parts, {{.axis = 0}}, 0});
  all.add("parts of a high image", 5, {rows, {block(high, 2)}, parts, {{.axis = 2}}, 0});
  const auto cast = [&](DType from, DType to, int64_t gib, double tolerance) {
    const Type wider{size_of(from) > size_of(to) ? from : to, {128}};
    all.add(cat("numbers of ", from, " as ", to), gib,
            one_op(Op::cast, CastAttrs{to}, {block({128}, 0, from)}, {{.axis = 0}}, beyond_bytes(wider), tolerance));
  };
  cast(DType::f32, DType::bf16, 4, 1e-2);
  cast(DType::bf16, DType::f32, 4, 1e-6);
  cast(DType::f32, DType::f16, 4, 1e-3);
  cast(DType::f16, DType::f32, 4, 1e-6);
  cast(DType::f32, DType::i32, 5, 0);
  cast(DType::i32, DType::i64, 4, 0);
  cast(DType::f64, DType::f32, 4, 1e-6);
}

// --- running sums and sorts ---

inline void add_sorts(LargeCases& all) {
  // Running sums: shifted halves along the axis, as cumsum is made of. Each copy begins anew.
  const auto running = [&](const std::string& what, const Shape& shape, int axis, int summed) {
    const auto make = [=](Builder& b, const std::vector<Value>& v, int64_t) {
      Value t = v[0];
      const Shape full = b.shape(t), none = Shape::filled(full.rank(), 0);
      for (int64_t shift = 1; shift < full[summed]; shift *= 2) {
        Shape limit = full, low = none;
        limit[summed] -= shift;
        low[summed] = shift;
        const Value before = b.slice(t, none, limit, Shape::filled(full.rank(), 1));
        t = b.binary(Op::add, t, b.pad(before, low, none, none, 0));
      }
      return std::vector<Value>{t};
    };
    all.add(what, 11, {beyond_bytes({DType::f32, shape}), {block(shape, axis)}, make, {{.axis = axis}}, 1e-4});
  };
  running("running sums of many rows", {40, 64}, 0, 1);
  running("running sums of long columns", {9, 64}, 1, 0);

  // Argsort keeps three words for an element, so that its operand is of bytes.
  all.add("sorted rows", 12,
          one_op(Op::argsort, SortAttrs{1, false}, {{{DType::u8, {40, 16}}, 0, Fill::index, 200, 0}}, {{.axis = 0}},
                 beyond_bytes({DType::i32, {40, 16}}), 0));
  all.add("sorted columns", 12,
          one_op(Op::argsort, SortAttrs{0, true}, {{{DType::u8, {16, 40}}, 1, Fill::index, 200, 0}}, {{.axis = 1}},
                 beyond_bytes({DType::i32, {16, 40}}), 0));
  // The largest three of each row, and where they are.
  const auto largest = [](Builder& b, const std::vector<Value>& v, int64_t) {
    const Value order = b.one(Op::argsort, SortAttrs{1, true}, {v[0]});
    Shape limit = b.shape(order);
    limit[1] = 3;
    const Value first = b.slice(order, {0, 0}, limit, {1, 1});
    return std::vector<Value>{b.one(Op::gather_elements, AxisAttrs{1}, {v[0], first}), first};
  };
  all.add("largest of rows", 12,
          {beyond_bytes({DType::f32, {40, 16}}) / 2,
           {block({40, 16}, 0, DType::f32, Fill::distinct)},
           largest,
           {{.axis = 0}, {.axis = 0}},
           1e-6});
}

// --- generators: numbers beyond 2^31 to 2^34, where counters of numbers and of random blocks leave 32 bits ---

constexpr int64_t kSeed = 1234, kStep = 5, kStream = 3, kDrawn = 4096;  // kDrawn: numbers of a row

// The sum over the first row, the one of the middle and the last of `rows` rows of numbers, which nothing in memory
// holds: made(key) gives them, and number(i) what number i is.
template <class Made, class Number>
void check_drawn(const RunGraph& run, int64_t rows, double tolerance, const Made& made, const Number& number) {
  const std::vector<int64_t> seen{0, rows / 2, rows - 1};
  Graph g;
  Builder b(g);
  const Value key = b.one(Op::input, LeafAttrs{"key", {DType::i64, {2}}}, {});
  const Value row = b.one(Op::iota, IotaAttrs{{rows, 1}, 0, DType::i64}, {}), x = made(b, key);
  Value looks;
  for (const int64_t r : seen) {
    const Value here = b.binary(Op::eq, row, b.constant_like(static_cast<double>(r), row));
    looks = looks.valid() ? b.binary(Op::logical_or, looks, here) : here;
  }
  const Value kept = b.where(b.broadcast(looks, b.shape(x)), x, b.constant_like(0, x));
  g.outputs = {b.sum(kept, {0})};
  const Array y = run(g, {Array::of<int64_t>({kSeed, kStep}, {2})})[0];
  int shown = 0;
  for (int64_t i = 0; i < kDrawn; ++i) {
    double want = 0;
    for (const int64_t r : seen) want += number(static_cast<uint64_t>(r * kDrawn + i));
    const double got = y.to_vector<double>()[static_cast<size_t>(i)];
    if (std::fabs(got - want) > tolerance && shown++ < 3)
      ADD_FAILURE() << "column " << i << " sums up to " << got << ", need " << want;
  }
}

inline double drawn(uint64_t i) { return static_cast<double>(random_uniform(kSeed, kStep, kStream, i)); }

// Normal numbers are drawn in double, 2^31 of them in minutes: tests/backend/tile_chain_test.cpp looks at some far
// behind.
inline void add_generators(LargeCases& all) {
  const auto uniform = [&](const std::string& what, int64_t rows) {
    all.add({what, 1, [=](const RunGraph& run) {
               const auto made = [=](Builder& b, Value key) {
                 return b.one(Op::random_uniform, RandomAttrs{{rows, kDrawn}, kStream}, {key});
               };
               check_drawn(run, rows, 1e-5, made, drawn);
             }});
  };
  constexpr int64_t kRows31 = (int64_t{1} << 31) / kDrawn;
  uniform("uniform numbers beyond 2^32", 2 * kRows31 + 1);
  uniform("uniform numbers beyond 2^34", 8 * kRows31 + 1);
  for (const int bits : {31, 32}) {
    const int64_t rows = (bits == 31 ? 1 : 2) * kRows31 + 1;
    all.add(
        {cat("dropout beyond 2^", bits, " elements"), 1, [=](const RunGraph& run) {
           const auto made = [=](Builder& b, Value key) {
             return b.one(Op::dropout, DropoutAttrs{0.25, kStream}, {b.constant(3, {DType::f32, {rows, kDrawn}}), key});
           };
           check_drawn(run, rows, 1e-5, made, [=](uint64_t i) { return drawn(i) >= 0.25 ? 4.0 : 0.0; });
         }});
  }
}

inline void add_updates(LargeCases& all) {
  const Shape p{4096};
  const auto number = [] { return block({}, -1, DType::f32, Fill::unit); };
  all.add("an update with momentum", 11,
          one_op(Op::sgd_update, SgdAttrs{.momentum = 0.9, .weight_decay = 1e-2},
                 {block(p, 0), block(p, 0), number(), block(p, 0)}, {{.axis = 0}, {.axis = 0}},
                 beyond_bytes({DType::f32, p})));
  // The tensors are bf16, so that seven of them find room.
  const auto adam = [](Builder& b, const std::vector<Value>& v, int64_t) {
    const Value step = b.constant(3, {DType::f32, {}});
    const auto updated = b.add(Op::adam_update, AdamAttrs{.weight_decay = 1e-2, .decoupled = true},
                               {v[0], v[1], v[2], step, v[3], v[4]});
    return std::vector<Value>{updated[0]};
  };
  const auto moment = [&] { return block(p, 0, DType::bf16, Fill::positive); };
  all.add(
      "an update of Adam", 11,
      {beyond_bytes({DType::bf16, p}), {moment(), moment(), number(), moment(), moment()}, adam, {{.axis = 0}}, 2e-2},
      true);
}

inline void add_layers(LargeCases& all) {
  add_attention(all);
  add_channels(all);
  add_recurrent(all);
  add_pools(all);
  add_tables(all);
  add_norms(all);
  add_sums(all);
  add_moves(all);
  add_sorts(all);
  add_generators(all);
  add_updates(all);
}

}  // namespace freight::test
