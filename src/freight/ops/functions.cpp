// The signatures of the public functions, one row per declaration of the headers, in their order; see signature.h.
// Those of pointwise ops that are functions of the same name stand in the op table. Operators that repeat a function
// (&&, ||, !) or assign its result (+=) have no row.
#include <algorithm>

#include "freight/base/error.h"
#include "freight/ops/signature_internal.h"

namespace freight {

namespace {

using ops::FunctionList;
using ops::Named;
using Unary = Tensor (*)(const In&);
using Binary = Tensor (*)(const In&, const In&);
using Reducing = Tensor (*)(const In&, const Axes&, Keep);
using MaybeIn = std::optional<In>;
using namespace dtypes;

// The element types in which an op computes: its type rule has them.
DTypes types_of(Op op) { return element_types(info(op).infer); }

void arithmetic(FunctionList& t) {
  t.header("elementwise.h");
  t.takes(types_of(Op::add));
  t.add_operator("add", "operator+", Binary(operator+), "a + b", {"a", "b"});
  t.add_operator("subtract", "operator-", Binary(operator-), "a - b", {"a", "b"});
  t.add_operator("multiply", "operator*", Binary(operator*), "a b", {"a", "b"});
  t.add_operator("divide", "operator/", Binary(operator/), "a / b; of integers in f32", {"a", "b"});
  t.add_operator("negative", "operator-", Unary(operator-), "-a", {"a"});
  t.add("remainder", Binary(remainder), "what a division leaves, with the sign of b", {"a", "b"});
  t.add("floor_divide", Binary(floor_divide), "a / b rounded down, of integers too; no gradient", {"a", "b"});
  t.add("clamp", clamp, "min(max(x, lo), hi); between numbers only elements inside of (lo, hi) have a gradient",
        {"x", "lo", "hi"});
  t.takes(types_of(Op::lt));
  t.add_operator("less", "operator<", Binary(operator<), "bool: a < b", {"a", "b"});
  t.add_operator("less_equal", "operator<=", Binary(operator<=), "bool: a <= b", {"a", "b"});
  t.add_operator("greater", "operator>", Binary(operator>), "bool: a > b", {"a", "b"});
  t.add_operator("greater_equal", "operator>=", Binary(operator>=), "bool: a >= b", {"a", "b"});
  t.takes(types_of(Op::eq));
  t.add("equal", Binary(equal), "bool: a = b", {"a", "b"});
  t.add("not_equal", Binary(not_equal), "bool: a differs from b", {"a", "b"});
  t.add("logical_xor", Binary(logical_xor), "of bool: one of them", {Named("a").of(kBool), Named("b").of(kBool)});
  t.add("bitwise_invert", Unary(bitwise_invert), "of integers: the other bits",
        {Named("x").of(types_of(Op::bitwise_xor))});
  t.add("is_inf", Unary(is_inf), "bool: infinite", {Named("x").of(types_of(Op::is_finite))});
  t.add("is_nan", Unary(is_nan), "bool: not a number", {"x"});
  t.add("signbit", Unary(signbit), "bool: negative, or -0, or a NaN with that sign",
        {Named("x").of(types_of(Op::add))});
  t.add("positive", Unary(positive), "x itself; no bool", {Named("x").of(types_of(Op::add) | kComplex)});
  t.add("trunc", Unary(trunc), "the whole number at x or next to it toward zero", {Named("x").of(kFloating)});
  t.add("where", where, "a where the condition holds, else b; all three broadcast",
        {Named("condition").of(kBool), "a", "b"});
  t.add("cast", cast, "the same numbers in another element type; float to integer truncates", {"x", "dtype"});
}

// The functions that the op table has: their rows say operands and doc.
void of_the_table(FunctionList& t) {
#define FREIGHT_OP(...)
#define FREIGHT_UNARY(op, ...) t.add(Op::op, op);
#define FREIGHT_BINARY FREIGHT_UNARY
#include "freight/ir/op_table.inc"
#undef FREIGHT_OP
}

void reductions(FunctionList& t) {
  t.header("reduce.h");
  const DTypes summed = types_of(Op::sum), ordered = types_of(Op::argmax);
  t.takes(summed | kBool);
  const std::vector<Named> over = {"x", {"axes", Axes{}}, {"keep", Keep::no}};
  t.add("sum", Reducing(sum), "sums over the axes; of integers and bool in i64, of u64 in u64", over);
  t.takes(kFloating);
  t.add("mean", Reducing(mean), "means over the axes; floating", over);
  t.takes(types_of(Op::reduce_max));
  t.add("max", Reducing(max), "largest elements over the axes; ties share the gradient", over);
  t.add("min", Reducing(min), "smallest elements over the axes; ties share the gradient", over);
  t.takes(summed | kBool);
  t.add("prod", Reducing(prod), "products over the axes; of integers and bool in i64, of u64 in u64", over);
  t.takes(types_of(Op::ne));
  t.add("any", Reducing(any), "bool: true if any element differs from 0", over);
  t.add("all", Reducing(all), "bool: true if all elements differ from 0", over);
  t.takes(kNumber);
  t.add("logsumexp", Reducing(logsumexp), "ln(sum(exp(x))), with the maximum subtracted first; of integers in f32",
        over);
  t.takes(kFloating);
  t.add("norm", norm, "sum(|x|^p)^(1/p) over the axes", {"x", {"axes", Axes{}}});
  t.add("var", var, "the sum of squared differences from the mean, divided by n - correction", {"x", {"axes", Axes{}}});
  t.add("stddev", stddev, "the root of var", {"x", {"axes", Axes{}}});
  t.takes(summed | kBool);
  t.add("cumsum", cumsum, "element i is the sum of elements 0 to i along the axis; in the types of sum", {"x", "axis"});
  const std::vector<Named> along = {"x", {"axis", -1}, {"keep", Keep::no}};
  t.add("cumprod", cumprod, "element i is the product of elements 0 to i along the axis; in the types of sum",
        {"x", "axis"});
  t.takes(ordered);
  t.add("argmax", argmax, "i32: index of the first largest element along the axis", along);
  t.add("argmin", argmin, "i32: index of the first smallest element along the axis", along);
}

void shaping(FunctionList& t) {
  t.header("shape.h");
  t.takes(kAll);
  t.add("reshape", reshape, "the same elements in row-major order under another shape; one size may be -1",
        {"x", "shape"});
  t.add("flatten", flatten, "joins the axes from start to end, inclusive", {"x", {"start", 1}, {"end", -1}});
  t.add("transpose", transpose, "swaps two axes", {"x", {"a", -2}, {"b", -1}});
  t.add("permute", permute, "result axis i is axis perm[i] of x", {"x", "perm"});
  t.add("squeeze", squeeze, "drops an axis of size 1", {"x", "axis"});
  t.add("unsqueeze", unsqueeze, "adds an axis of size 1 before `axis` of the result", {"x", "axis"});
  t.add("broadcast_to", broadcast_to, "leading axes are added, sizes of 1 expand", {"x", "shape"});
  t.add("slice", slice, "elements start, start + step, ... below limit along the axis; ends are clamped",
        {"x", "axis", "start", "limit", {"step", 1}});
  t.add("narrow", narrow, "`length` elements from `start` along the axis", {"x", "axis", "start", "length"});
  t.add("select", select, "the slice at `index`, without the axis", {"x", "axis", "index"});
  t.add("pad", pad, "per axis `low` elements before and `high` after, all `value`",
        {"x", "low", "high", Named::number({"value", 0})});
  t.add("flip", flip, "the elements of the axis in reverse order", {"x", "axis"});
  t.add("roll", roll, "the elements of the axis moved by `shift` places, around its ends", {"x", "shift", "axis"});
  t.add("repeat", repeat, "each element of the axis as often as its entry of `times`, or the only one, says",
        {"x", "times", "axis"});
  t.add("tile", tile, "x repeated `times` times along each of its last axes", {"x", "times"});
  t.add("diff", diff, "differences of neighbors along the axis, n times",
        {Named("x").of(types_of(Op::sub) | kBool), {"n", 1}, {"axis", -1}});
  t.add("concat", concat, "joins along an existing axis", {"xs", "axis"});
  t.add("stack", stack, "joins along a new axis", {"xs", {"axis", 0}});
  t.add("split", static_cast<std::vector<Tensor> (*)(const In&, const std::vector<int64_t>&, Axis)>(split),
        "chunks of the given sizes, whose sum is the size of the axis", {"x", "sizes", "axis"});
  t.add("chunk", chunk, "`parts` equal chunks", {"x", "parts", "axis"});
  t.add("zeros", zeros, "all 0", {"shape", {"dtype", DType::f32}});
  t.add("ones", ones, "all 1", {"shape", {"dtype", DType::f32}});
  t.add("full", full, "all `value`", {"shape", Named::number("value"), {"dtype", DType::f32}});
  t.add("iota", iota, "0, 1, ... along one axis of `shape`", {"shape", "axis", {"dtype", DType::i32}});
  t.add("arange", static_cast<Tensor (*)(WholeNumber, DType, SourceLine)>(arange), "0, 1, ..., n - 1",
        {"n", {"dtype", DType::i32}});
  t.add("arange", static_cast<Tensor (*)(const In&, const In&, const In&)>(arange),
        "start, start + step, ... before stop: i32 of integers, else f32",
        {Named::number("start"), Named::number("stop"), Named::number({"step", 1})});
  t.add("linspace", linspace, "`count` numbers from start to stop, both of them, at equal distances",
        {"start", "stop", "count", {"dtype", DType::f32}});
  t.add("eye", eye, "(rows, columns): 1 on the diagonal, 0 elsewhere; columns -1: as many as rows",
        {"rows", {"columns", -1}, {"dtype", DType::f32}});
}

void indexing(FunctionList& t) {
  t.header("index.h");
  t.takes(types_of(Op::gather));
  const Named index = Named("index").of(kInteger);
  t.add("gather", gather, "whole rows: the axis is replaced by the shape of `index`", {"x", index, {"axis", 0}});
  t.add("scatter_add", scatter_add, "zeros with `size` rows along the axis, to which those of `updates` are added",
        {index, Named("updates").of(types_of(Op::scatter_add)), "size", {"axis", 0}});
  t.add("gather_elements", gather_elements, "one element per index along the axis, in the shape of `index`",
        {"x", index, {"axis", -1}});
  t.add("scatter", scatter, "x with the rows of `updates` at those that `index` names; the last of two for one counts",
        {"x", index, "updates", {"axis", 0}});
  t.add("scatter_elements", scatter_elements, "the same with one element per index along the axis",
        {"x", index, "updates", {"axis", -1}});
  t.add("index_put", index_put, "x with `updates` at the elements that the indices of its first axes name together",
        {"x", Named("indices").of(kInteger | kBool), "updates"});
  t.add("update_slice", update_slice, "x with `updates` from `start` on along the axis; start may be a tensor",
        {"x", "updates", Named("start").of(kInteger), {"axis", 0}});
  t.add("one_hot", one_hot, "index (...) -> (..., depth): 1 at the index, 0 elsewhere",
        {index, "depth", {"dtype", DType::f32}});
  t.add("bincount", bincount, "(size), i64: how often each number occurs", {index, "size"});
  t.add("embedding", embedding,
        "rows of the table, those longer than max_norm scaled down; the row padding_idx receives no gradient",
        {index, Named("table").of(types_of(Op::embedding))});
  t.add_on_host("nonzero", nonzero,
                "per axis i32 (N): the places of elements that are not 0, row-major; no compiled step", {"x"});
  t.header("sort.h");
  t.takes(types_of(Op::argsort));
  const Named axis{"axis", -1}, ascending{"order", Order::ascending};
  t.add("argsort", argsort, "i32: indices that sort x along the axis", {"x", axis, ascending});
  t.add("sort", sort, "the sorted elements along the axis, and their indices in x", {"x", axis, ascending});
  t.add("topk", topk, "the k largest (descending) or smallest (ascending), in that order",
        {"x", "k", axis, {"order", Order::descending}});
  t.add("searchsorted", searchsorted, "i32: where values belong in `sorted` (N), left or right of equal ones",
        {"sorted", "values", {"side", Side::left}});
  t.takes(kAll);
  t.add_on_host("unique", unique,
                "distinct elements, or slices along an axis, ascending; their first places, the place of each among "
                "them, counts; no compiled step",
                {"x"});
}

void contractions(FunctionList& t) {
  t.header("linalg.h");
  t.takes(types_of(Op::matmul));
  t.add("matmul", Binary(matmul), "(..., M, K) x (..., K, N) -> (..., M, N); batch axes broadcast", {"a", "b"});
  t.add("linear", +[](const In& x, const In& w, const MaybeIn& b) { return b ? linear(x, w, *b) : linear(x, w); },
        "x (..., in) times w (out, in) transposed, plus b (out)", {"x", "w", "b"});
  t.takes(types_of(Op::mul));
  t.add("einsum", einsum, "Einstein's summation: axes with letters, products summed over those the result lacks",
        {"equation", "operands"});
}

void products(FunctionList& t) {
  t.header("linalg.h");
  t.takes(types_of(Op::mul));
  t.add("tensordot", static_cast<Tensor (*)(const In&, const In&, WholeNumber)>(tensordot),
        "products summed over the last `axes` axes of a and the first of b", {"a", "b", {"axes", 2}});
  t.add("tensordot",
        static_cast<Tensor (*)(const In&, const In&, const std::vector<int64_t>&, const std::vector<int64_t>&)>(
            tensordot),
        "products summed over axes of a and b that correspond", {"a", "b", "a_axes", "b_axes"});
  t.add("vecdot", vecdot, "the sum of a b over the axis; the others broadcast", {"a", "b", {"axis", -1}});
  t.add("outer", Binary(outer), "a (M), b (N) -> (M, N): every product", {"a", "b"});
  t.add("kron", Binary(kron), "each element of a times all of b, sizes multiplied", {"a", "b"});
  t.add("cross", cross, "the cross product of vectors of 3 numbers along the axis", {"a", "b", {"axis", -1}});
  t.takes(kAll);
  t.add("diagonal", diagonal, "the elements at (i, i + offset) of (..., M, N)", {"x", {"offset", 0}});
  t.add("matrix_trace", matrix_trace, "the sum of the diagonal; of integers in i64",
        {Named("x").of(types_of(Op::sum) | kBool), {"offset", 0}});
  t.add("tril", tril, "zeros above the diagonal k", {"x", {"k", 0}});
  t.add("triu", triu, "zeros below the diagonal k", {"x", {"k", 0}});
}

void factorizations(FunctionList& t) {
  t.header("linalg.h");
  t.takes(types_of(Op::lu_factor));
  t.add("lu_factor", lu_factor, "x[permutation] = L U; both in lu, pivots as exchanges of rows, from 0", {"x"});
  t.add("lu", lu, "p l u = x; p as indices with p_indices", {"x"});
  t.add("lu_solve", lu_solve, "the solution of x y = b by lu and permutation of lu_factor",
        {"lu", Named("permutation").of(kInteger), "b"});
  t.add("lu_cond", lu_cond, "an estimate of the condition in the 1-norm by lu of lu_factor(x) and the 1-norm of x",
        {"lu", "norm"});
  t.add("solve", solve, "the solution of a x = b: a (..., N, N), b (..., N, K) or (N)", {"a", "b"});
  t.add("solve_triangular", solve_triangular, "the same by a's upper triangle; x a = b with right", {"a", "b"});
  t.add("mirrored", mirrored, "the symmetric matrix of one triangle of x", {"x"});
  t.add("cholesky", cholesky, "lower L with L L^T = x, or upper U with U^T U = x; reads that triangle", {"x"});
  t.add("cho_solve", cho_solve, "the solution of x y = b by the factor cholesky(x)", {"factor", "b"});
  t.add("inv", Unary(inv), "the inverse", {"x"});
  t.add("det", Unary(det), "the determinant", {"x"});
  t.add("slogdet", slogdet, "the determinant as sign exp(logabsdet)", {"x"});
  t.add("matrix_power", matrix_power, "x times itself, n times; of a negative n the inverse", {"x", "n"});
  t.add("expm", expm, "the matrix exponential; NaN for norms beyond what max_squarings reach", {"x"});
  t.add("qr", qr, "orthonormal columns q and upper triangular r with q r = x", {"x", {"mode", QrMode::reduced}});
  t.add("eigh", eigh, "ascending eigenvalues and orthonormal eigenvectors, in columns, of a symmetric x", {"x"});
  t.add("eigvalsh", eigvalsh, "the eigenvalues of eigh", {"x"});
  t.add("eig", eig, "eigenvalues and eigenvectors of norm 1, in columns; real and imaginary parts", {"x"});
  t.add("eigvals", eigvals, "the eigenvalues of eig", {"x"});
  t.add("svd", svd, "u diag(s) vh = x, s descending", {"x"});
  t.add("svdvals", svdvals, "the singular values of svd", {"x"});
  t.add("lstsq", lstsq, "least-squares solution x of minimum norm, sums of squared residuals, the rank", {"a", "b"});
  t.add("pinv", pinv, "the pseudo-inverse (..., N, M)", {"x"});
  t.add("matrix_rank", matrix_rank, "i64: how many singular values count", {"x"});
  t.takes(kFloating);
  t.add("matrix_norm", matrix_norm, "a norm of (..., M, N)", {"x"});
  t.add("vector_norm", vector_norm, "sum(|x|^ord)^(1/ord) over the axes, for negative orders too",
        {"x", {"axes", Axes{}}});
  t.takes(types_of(Op::lu_factor));
  t.add("cond", cond, "the norm of x times that of its inverse", {"x", {"p", MatrixOrder::two}});
}

void convolutions(FunctionList& t) {
  t.header("conv.h");
  t.takes(types_of(Op::conv));
  t.add("conv1d",
        +[](const In& x, const In& w, const MaybeIn& bias, const ConvOptions& o) {
          return bias ? conv1d(x, w, *bias, o) : conv1d(x, w, o);
        },
        "cross-correlation of x (N, C, L) with w (K, C / groups, k), plus bias (K)", {"x", "w", "bias"});
  t.add("conv2d",
        +[](const In& x, const In& w, const MaybeIn& bias, const ConvOptions& o) {
          return bias ? conv2d(x, w, *bias, o) : conv2d(x, w, o);
        },
        "cross-correlation of x (N, C, H, W) with w (K, C / groups, kh, kw), plus bias (K)", {"x", "w", "bias"});
  t.add("conv_transpose2d", conv_transpose2d,
        "the gradient of conv2d with respect to its input: w (C, K / groups, kh, kw)", {"x", "w"});
  t.takes(types_of(Op::max_pool));
  t.add("max_pool1d", max_pool1d, "the maximum of each window of x (N, C, L)", {"x"});
  t.add("max_pool2d", max_pool2d, "the maximum of each window of x (N, C, H, W)", {"x"});
  t.add("max_pool1d_with_indices", max_pool1d_with_indices, "max_pool1d, and the place of each maximum in x", {"x"});
  t.add("max_pool2d_with_indices", max_pool2d_with_indices,
        "max_pool2d, and the place of each maximum in its image, row by row", {"x"});
  t.takes(types_of(Op::avg_pool) | kInteger);
  t.add("avg_pool1d", avg_pool1d, "the mean of each window of x (N, C, L); of integers rounded toward zero", {"x"});
  t.add("avg_pool2d", avg_pool2d, "the mean of each window of x (N, C, H, W); of integers rounded toward zero", {"x"});
  t.takes(types_of(Op::adaptive_avg_pool));
  t.add("adaptive_avg_pool2d", adaptive_avg_pool2d, "means of windows that make a result (N, C, *output)",
        {"x", {"output", 1}});
}

void networks(FunctionList& t) {
  t.header("neural.h");
  t.takes(kFloating);
  const Named classes = Named("target").of(kInteger);
  const Named eps{"eps", 1e-5}, reduction{"reduction", Reduction::mean};
  t.add("softmax", softmax, "exp(x) / sum exp(x) along the axis", {"x", {"axis", -1}});
  t.add("log_softmax", log_softmax, "ln of softmax along the axis", {"x", {"axis", -1}});
  t.add("gelu", gelu, "x Phi(x), or its tanh approximation", {"x", {"kind", GeluKind::erf}});
  t.add("silu", Unary(silu), "x sigmoid(x)", {"x"});
  t.add("leaky_relu", leaky_relu, "x where positive, else slope x", {"x", {"slope", kLeakySlope}});
  t.add("elu", elu, "x where positive, else alpha (exp(x) - 1)", {"x", {"alpha", kEluAlpha}});
  t.add("softplus", Unary(softplus), "ln(1 + exp(x)), stable for large |x|", {"x"});
  t.add("batch_norm", batch_norm, "x (N, C, ...) normalized over all axes but C, then scale and shift; its statistics",
        {"x", "scale", "shift", eps});
  t.add("batch_norm_inference", batch_norm_inference, "x (N, C, ...) normalized by given statistics (C)",
        {"x", "scale", "shift", "mean", "variance", eps});
  t.add("layer_norm", layer_norm, "x normalized over its last axes, as many as scale and shift have",
        {"x", "scale", "shift", eps});
  t.add("group_norm", group_norm, "x (N, C, ...) normalized in `groups` groups of channels",
        {"x", "groups", "scale", "shift", eps});
  t.add("cross_entropy", cross_entropy,
        "-ln softmax of logits (N, C, ...) at target: (N, ...) classes, or (N, C, ...) probabilities",
        {"logits", Named("target").of(kFloating | kInteger)});
  t.add("nll_loss", nll_loss, "-log_probabilities (N, C, ...) at target (N, ...)", {"log_probabilities", classes});
  t.add("mse_loss", mse_loss, "(a - b)^2", {"a", "b", reduction});
  t.add("l1_loss", l1_loss, "|a - b|", {"a", "b", reduction});
  t.add("smooth_l1_loss", smooth_l1_loss, "0.5 d^2 / beta for d = |a - b| below beta, else d - beta / 2",
        {"a", "b", {"beta", 1.0}, reduction});
  t.add("huber_loss", huber_loss, "0.5 d^2 for d = |a - b| below delta, else delta (d - delta / 2)",
        {"a", "b", {"delta", 1.0}, reduction});
  t.add("kl_div", kl_div, "target (ln target - log_probabilities)", {"log_probabilities", "target"});
  t.add("bce_with_logits", bce_with_logits, "binary cross-entropy of sigmoid(logits) against targets in [0, 1]",
        {"logits", "target"});
  t.add("count_correct", count_correct, "i32: how many rows of logits (N, C) have their largest entry at target (N)",
        {Named("logits").of(types_of(Op::argmax)), classes});
  t.header("sequence.h");
  t.add("attention", attention,
        "softmax(scale q k^T) v: q (B, H, T, D), k and v (B, H, S, D); scale 0: 1 / sqrt(D); mask (B, H, T, S), also "
        "broadcast: bool (true: seen), or added to the scores",
        {"q", "k", "v"});
  t.add("attention_weights", attention_weights, "softmax(scale q k^T) (B, H, T, S), by which attention sums the values",
        {"q", "k"});
  t.add("lstm", lstm, "states (N, T, H) of the inputs' part of the gates x (N, T, 4 H) and weight (4 H, H)",
        {"x", "weight"});
  t.add("gru", gru, "states (N, T, H) of the inputs' part of the gates x (N, T, 3 H), weight (3 H, H), inside (H)",
        {"x", "weight", "inside"});
  t.add("lstm_layer", lstm_layer, "states (N, T, H) of x (N, T, D), weight_ih (4 H, D), bias (4 H), weight (4 H, H)",
        {"x", "weight_ih", "bias", "weight"});
  t.add("gru_layer", gru_layer,
        "states (N, T, H) of x (N, T, D), weight_ih (3 H, D), bias (3 H), weight (3 H, H), inside (H)",
        {"x", "weight_ih", "bias", "weight", "inside"});
}

void random(FunctionList& t) {
  t.header("random.h");
  t.add("random_uniform", random_uniform, "f32 in [lo, hi)", {"shape", {"lo", 0.0}, {"hi", 1.0}});
  t.add("random_normal", random_normal, "f32, normally distributed", {"shape", {"mean", 0.0}, {"deviation", 1.0}});
  t.add("randn", randn, "f32, normally distributed with mean 0 and standard deviation 1", {"shape"});
  t.add("randint", randint, "i64 in [low, high), at most 2^24 different ones", {"low", "high", "shape"});
  t.add("dropout", dropout, "elements zeroed with probability p, the rest scaled by 1 / (1 - p)", {"x", "p"});
}

}  // namespace

const std::vector<Signature>& public_functions() {
  static const std::vector<Signature> kFunctions = [] {
    FunctionList t;
    arithmetic(t);
    of_the_table(t);
    reductions(t);
    shaping(t);
    indexing(t);
    contractions(t);
    products(t);
    factorizations(t);
    convolutions(t);
    networks(t);
    random(t);
    return std::move(t.functions);
  }();
  return kFunctions;
}

}  // namespace freight
