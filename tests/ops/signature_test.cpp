// Signatures as data (ops/signature.h, ir/signature.h) against what they describe: each declaration of the headers
// under src/freight/ops has exactly one row of the same names, types and defaults, rows call what they name, and
// docs/functions.md lists them. FREIGHT_WRITE_DOCS=1 writes its tables anew.
#include "freight/ops/signature.h"

#include <cstdlib>
#include <filesystem>
#include <map>
#include <regex>
#include <set>

#include "freight/base/strings.h"
#include "freight/ir/signature.h"
#include "freight/ops/ops.h"
#include "tests/support/document.h"
#include "tests/support/error_of.h"

#include "tests/ops/op_rows.h"
#include "tests/support/folders.h"

namespace freight::test {
namespace {

namespace fs = std::filesystem;
using freight::testing::cell;
using Texts = std::vector<std::string>;

// The header without comments, preprocessor lines and repeated blanks.
std::string plain_text(const std::string& path) {
  std::string text = freight::testing::read_text(path);
  text = std::regex_replace(text, std::regex("//[^\n]*|\n#[^\n]*"), "");
  return std::regex_replace(text, std::regex("\\s+"), " ");
}

std::string trimmed(const std::string& s) { return std::regex_replace(s, std::regex("^ +| +$"), ""); }

// Splits at commas outside of brackets.
Texts parts_of(const std::string& list) {
  Texts parts;
  std::string part;
  int depth = 0;
  for (const char c : list) {
    depth += std::string("([{<").find(c) != std::string::npos;
    depth -= std::string(")]}>").find(c) != std::string::npos;
    if (c == ',' && depth == 0) {
      parts.push_back(trimmed(part));
      part.clear();
    } else {
      part += c;
    }
  }
  if (!trimmed(part).empty()) parts.push_back(trimmed(part));
  return parts;
}

// "Axis axis = -1" -> the type without const and &, the name, the default as a document shows it.
struct Declared {
  std::string type, name, usual;
};
std::string usual_text(std::string text) {
  static const std::map<std::string, std::string> kWords = {{"{}", "all"},
                                                            {"Keep::no", "false"},
                                                            {"kLeakySlope", cat(kLeakySlope)},
                                                            {"kEluAlpha", cat(kEluAlpha)},
                                                            {"std::nullopt", "none"}};
  if (const auto word = kWords.find(text); word != kWords.end()) return word->second;
  if (text.rfind("::") != std::string::npos) text = text.substr(text.rfind("::") + 2);
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  return *end ? text : cat(number);
}
Declared declared(const std::string& text) {
  static const std::regex kForm("^(?:const )?([\\w:<>]+)&? (\\w+)(?: = (.*))?$");
  std::smatch m;
  if (!std::regex_match(text, m, kForm)) ADD_FAILURE() << "not understood: " << text;
  return {m[1], m[2], m[3].matched ? usual_text(m[3]) : ""};
}

struct Function {
  std::string header, callee, text;  // the text: "Axis axis = -1, ..." in the form of rows
};
std::string form_of(const std::vector<Declared>& parameters) {
  Texts parts;
  for (const Declared& p : parameters) {
    parts.push_back(cat(p.type, " ", p.name, p.usual.empty() ? "" : " = ", p.usual));
  }
  return join(parts, ", ");
}

// The fields of the structs of all headers.
std::map<std::string, std::vector<Declared>> structs_of(const std::string& text) {
  std::map<std::string, std::vector<Declared>> found;
  static const std::regex kStruct("struct (\\w+Options) \\{(.*?;) \\};");
  for (std::sregex_iterator m(text.begin(), text.end(), kStruct), end; m != end; ++m) {
    for (const std::string& field : split((*m)[2].str(), ';')) {
      if (trimmed(field).empty()) continue;
      Declared d = declared(trimmed(field));
      if (d.type == "Tensor") d.usual = "none";
      found[(*m)[1]].push_back(d);
    }
  }
  return found;
}

std::vector<Function> functions_of(const std::string& header, const std::string& text) {
  std::vector<Function> found;
  const auto structs = structs_of(text);
  static const std::regex kFunction(
      "(?:[;}{] )(?:Tensor|Sorted|Unique|Pooled|BatchNormResult|LuFactor|Lu|SlogDet|Qr|Eigh|Eig|Eigvals|Svd|"
      "LeastSquares|std::vector<Tensor>) (operator[^( ]+|\\w+)\\(");
  for (std::sregex_iterator m(text.begin(), text.end(), kFunction), end; m != end; ++m) {
    const size_t open = static_cast<size_t>(m->position() + m->length());
    const std::string list = text.substr(open, text.find(");", open) - open);
    std::vector<Declared> parameters;
    for (const std::string& part : parts_of(list)) {
      const Declared p = declared(part);
      if (p.type == "SourceLine") continue;
      if (const auto options = structs.find(p.type); options != structs.end()) {
        EXPECT_EQ(p.usual, "all") << header << ": " << list;  // {}: the defaults of the struct
        parameters.insert(parameters.end(), options->second.begin(), options->second.end());
      } else {
        parameters.push_back(p);
      }
    }
    found.push_back({header, (*m)[1], form_of(parameters)});
  }
  return found;
}

// The declarations that a row stands for: with and without a tensor that may be missing.
Texts forms_of(const Signature& s) {
  std::vector<Declared> with, without;
  bool optional = false;
  for (const Parameter& p : s.parameters) {
    const bool missing = p.kind == Parameter::Kind::tensor && !p.required && p.options.empty() &&
                         std::holds_alternative<NotGiven>(p.usual);
    const Declared d{p.type, p.name, missing ? "" : default_text(p)};
    optional = optional || missing;
    with.push_back(d);
    if (!missing) without.push_back(d);
  }
  return optional ? Texts{form_of(with), form_of(without)} : Texts{form_of(with)};
}

TEST(Signatures, EachDeclarationOfTheHeadersHasExactlyOneRow) {
  // What repeats a function, or assigns its result.
  const std::set<std::string> repeats = {"operator&&", "operator||", "operator!"};
  std::multiset<std::string> in_headers, in_rows;
  const fs::path folder = source_dir() + "/src/freight/ops";
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string header = entry.path().filename();
    if (entry.path().extension() != ".h" || header.starts_with("signature") || header.ends_with("_internal.h") ||
        header == "common.h")
      continue;
    for (const Function& f : functions_of(header, plain_text(entry.path()))) {
      if (!repeats.contains(f.callee)) in_headers.insert(cat(header, ": ", f.callee, "(", f.text, ")"));
    }
  }
  for (const Signature& s : public_functions()) {
    for (const std::string& form : forms_of(s)) in_rows.insert(cat(s.header, ": ", s.callee, "(", form, ")"));
  }
  EXPECT_GT(in_headers.size(), 110u);
  for (const std::string& f : in_headers) {
    EXPECT_EQ(in_rows.count(f), 1u) << f << " is declared; ops/functions.cpp needs one row that says the same";
  }
  for (const std::string& f : in_rows) {
    EXPECT_EQ(in_headers.count(f), 1u) << f << " is a row of ops/functions.cpp; no header declares it like that";
  }
}

TEST(Signatures, NamesAndDefaultsCanBeAsked) {
  const std::vector<const Signature*> found = functions_named("conv2d");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(to_string(*found[0]), "conv2d(x, w, bias = none, stride = 1, padding = 0, dilation = 1, groups = 1) -> y");
  EXPECT_EQ(functions_named("arange").size(), 2u);
  EXPECT_TRUE(functions_named("softmaxx").empty());
  for (const Signature& s : public_functions()) {
    SCOPED_TRACE(s.name);
    EXPECT_FALSE(s.doc.empty());
    EXPECT_EQ(s.doc.find('\n'), std::string::npos);
    std::set<std::string> names;
    for (const Parameter& p : s.parameters) EXPECT_TRUE(names.insert(p.name).second) << p.name << " twice";
  }
}

TEST(Signatures, FaultsOfACallNameFunctionAndArgument) {
  const Signature &softmax_row = *functions_named("softmax")[0], &gelu_row = *functions_named("gelu")[0];
  const Tensor x = zeros({2, 3});
  const auto text = [](const Signature& s, const std::vector<ArgumentValue>& values) {
    return freight::testing::message_of([&] { invoke(s, values); });
  };
  EXPECT_NE(text(softmax_row, {}).find("softmax: argument x is missing: expected tensor"), std::string::npos);
  EXPECT_NE(text(softmax_row, {x, 0.5}).find("softmax: argument axis: expected integer, got 0.5"), std::string::npos);
  EXPECT_NE(text(softmax_row, {x, true}).find("softmax: argument axis: expected integer, got true"), std::string::npos);
  EXPECT_NE(text(softmax_row, {Tensor()}).find("softmax: argument x: expected tensor, got an undefined tensor"),
            std::string::npos);
  EXPECT_NE(text(gelu_row, {x, std::string("erv")}).find("gelu: argument kind: expected one of erf, tanh, got erv"),
            std::string::npos);
  EXPECT_NE(text(gelu_row, {x, NotGiven{}, int64_t{1}})
                .find("gelu: too many arguments: expected at most 2, got 3: gelu(x, kind = erf) -> y"),
            std::string::npos);
  // The function's own refusal carries the caller's line.
  EXPECT_NE(text(softmax_row, {x, int64_t{5}}).find("signature_test.cpp:"), std::string::npos);
}

// Calls by values with other than default arguments, beside the same calls in C++: every kind of argument and every
// options struct.
struct Call {
  const char* name;
  std::vector<ArgumentValue> values;
  std::function<std::vector<Tensor>()> direct;
};
#define FREIGHT_CALL(name, expression, ...)                             \
  Call {                                                                \
    name, {__VA_ARGS__}, [=] { return std::vector<Tensor> expression; } \
  }

Tensor random_floats(const Shape& shape, uint64_t seed, Fill fill = Fill::normal) {
  return Tensor(random_array({{DType::f32, shape}, fill}, seed));
}
Tensor random_indices(int64_t count, int64_t bound, uint64_t seed) {
  return Tensor(random_array({{DType::i32, {count}}, Fill::index, bound}, seed));
}
using Whole = int64_t;
using Wholes = std::vector<int64_t>;
using Text = std::string;
const NotGiven kLeftOut;

std::vector<Call> calls_of_arrays() {
  const Tensor x = random_floats({2, 4, 6, 5}, 1), m = random_floats({4, 6}, 4), classes = random_indices(4, 6, 7);
  return {
      FREIGHT_CALL("subtract", {m - 2}, m, Whole{2}),
      FREIGHT_CALL("subtract", {0.5 - m}, 0.5, m),
      FREIGHT_CALL("negative", {-m}, m),
      FREIGHT_CALL("less", {m < 0.25}, m, 0.25),
      FREIGHT_CALL("cast", {cast(m, DType::f64)}, m, DType::f64),
      FREIGHT_CALL("sum", ({sum(x, {0, -1}, Keep::yes)}), x, Wholes{0, -1}, true),
      FREIGHT_CALL("mean", {mean(x, 1)}, x, Whole{1}),
      FREIGHT_CALL("norm", ({norm(x, {2, 3}, {.p = 1, .keep = Keep::yes})}), x, Wholes{2, 3}, Whole{1}, true),
      FREIGHT_CALL("var", ({var(x, 1, {.correction = 0, .keep = Keep::yes})}), x, Whole{1}, Whole{0}, true),
      FREIGHT_CALL("argmax", {argmax(x, 1, Keep::yes)}, x, Whole{1}, true),
      FREIGHT_CALL("cumsum", {cumsum(x, 1)}, x, Whole{1}),
      FREIGHT_CALL("slice", {slice(x, 2, -5, 6, 2)}, x, Whole{2}, Whole{-5}, Whole{6}, Whole{2}),
      FREIGHT_CALL("pad", ({pad(m, {1, 0}, {0, 2}, -1.5)}), m, Wholes{1, 0}, Wholes{0, 2}, -1.5),
      FREIGHT_CALL("concat", ({concat({m, m}, 1)}), std::vector<Tensor>{m, m}, Whole{1}),
      FREIGHT_CALL("split", (split(m, std::vector<int64_t>{1, 3}, 0)), m, Wholes{1, 3}, Whole{0}),
      FREIGHT_CALL("full", ({full({2, 3}, 7, DType::i64)}), Wholes{2, 3}, Whole{7}, DType::i64),
      FREIGHT_CALL("linspace", {linspace(-1, 2.5, 7, DType::f64)}, Whole{-1}, 2.5, Whole{7}, DType::f64),
      FREIGHT_CALL("eye", {eye(3, 5)}, Whole{3}, Whole{5}),
      FREIGHT_CALL("gather", {gather(m, classes, 1)}, m, classes, Whole{1}),
      FREIGHT_CALL("scatter_add", {scatter_add(classes, m, 7)}, classes, m, Whole{7}),
      FREIGHT_CALL("one_hot", {one_hot(classes, 8, DType::i32)}, classes, Whole{8}, DType::i32),
      FREIGHT_CALL("index_put", ({index_put(transpose(m), {classes}, 2.5, {.accumulate = true})}), transpose(m),
                   std::vector<Tensor>{classes}, 2.5, true),
      FREIGHT_CALL("embedding", ({embedding(classes, transpose(m), {.padding_idx = 2, .max_norm = 1, .norm_type = 3})}),
                   classes, transpose(m), Whole{2}, Whole{1}, Whole{3}),
      FREIGHT_CALL("unique",
                   ({unique(m, {.axis = 1}).values, unique(m, {.axis = 1}).indices, unique(m, {.axis = 1}).inverse,
                     unique(m, {.axis = 1}).counts}),
                   m, Whole{1}),
      FREIGHT_CALL("topk", ({topk(m, 2, 0, Order::ascending).values, topk(m, 2, 0, Order::ascending).indices}), m,
                   Whole{2}, Whole{0}, Text("ascending")),
  };
}

std::vector<Call> calls_of_networks() {
  const Tensor x = random_floats({2, 4, 6, 5}, 1), w = random_floats({6, 2, 3, 3}, 2), bias = random_floats({6}, 3);
  const Tensor m = random_floats({4, 6}, 4), c = random_floats({4}, 10, Fill::positive),
               q = random_floats({2, 3, 4, 5}, 8);
  const Tensor wide = random_floats({2, 4, 12}, 5), w1 = random_floats({4, 4, 3}, 6),
               back = random_floats({4, 2, 3, 3}, 7);
  const Tensor classes = random_indices(4, 6, 7), counts = random_indices(2, 4, 9),
               steps = random_floats({2, 4, 3}, 13);
  const Tensor w12 = random_floats({12, 3}, 12), b12 = random_floats({12}, 17), narrow = random_floats({2, 4, 9}, 16);
  const Tensor w9 = random_floats({9, 3}, 14), b9 = random_floats({9}, 18), inside = random_floats({3}, 15);
  const Tensor square_matrix = random_floats({4, 4}, 20);
  const Tensor seen(random_array({{DType::boolean, {4, 4}}, Fill::boolean}, 19));
  const ConvOptions strided{.stride = {2, 1}, .padding = 1, .dilation = 2, .groups = 2};
  const PoolOptions pooled{.kernel = 3, .stride = 2, .padding = 1, .ceil_mode = true, .count_include_pad = false};
  const BatchNormResult normed = batch_norm(x, c, c, 0.1);
  return {
      FREIGHT_CALL("linear", {linear(m, m)}, m, m),
      FREIGHT_CALL("linear", {linear(m, m, c)}, m, m, c),
      FREIGHT_CALL("einsum", ({einsum("ij,kj->ik", {m, m})}), Text("ij,kj->ik"), std::vector<Tensor>{m, m}),
      FREIGHT_CALL("conv1d", ({conv1d(wide, w1, {.stride = 2})}), wide, w1, kLeftOut, Whole{2}),
      FREIGHT_CALL("conv2d", {conv2d(x, w, strided)}, x, w, kLeftOut, Wholes{2, 1}, Whole{1}, Whole{2}, Whole{2}),
      FREIGHT_CALL("conv2d", {conv2d(x, w, bias, strided)}, x, w, bias, Wholes{2, 1}, Whole{1}, Whole{2}, Whole{2}),
      FREIGHT_CALL("conv_transpose2d", ({conv_transpose2d(x, back, {.stride = 2, .padding = 1, .output_padding = 1})}),
                   x, back, Whole{2}, Whole{1}, Whole{1}),
      FREIGHT_CALL("avg_pool2d", {avg_pool2d(x, pooled)}, x, Whole{3}, Whole{2}, Whole{1}, true, false),
      FREIGHT_CALL("max_pool1d", ({max_pool1d(wide, {.kernel = 3, .stride = 1})}), wide, Whole{3}, Whole{1}),
      FREIGHT_CALL("adaptive_avg_pool2d", ({adaptive_avg_pool2d(x, {2, 3})}), x, Wholes{2, 3}),
      FREIGHT_CALL("softmax", {softmax(m, 0)}, m, Whole{0}),
      FREIGHT_CALL("gelu", {gelu(m, GeluKind::tanh)}, m, Text("tanh")),
      FREIGHT_CALL("elu", {elu(m, 2)}, m, Whole{2}),
      FREIGHT_CALL("batch_norm", ({normed.y, normed.mean, normed.variance}), x, c, c, 0.1),
      FREIGHT_CALL("group_norm", {group_norm(x, 2, c, c, 0.1)}, x, Whole{2}, c, c, 0.1),
      FREIGHT_CALL(
          "cross_entropy",
          ({cross_entropy(m, classes, {.label_smoothing = 0.1, .reduction = Reduction::sum, .ignore_index = 3})}), m,
          classes, 0.1, Text("sum"), Whole{3}),
      FREIGHT_CALL("cross_entropy", ({cross_entropy(m, classes, {.weight = abs(bias)})}), m, classes, kLeftOut,
                   kLeftOut, kLeftOut, abs(bias)),
      FREIGHT_CALL("nll_loss",
                   ({nll_loss(m, classes, {.reduction = Reduction::sum, .ignore_index = 3, .weight = abs(bias)})}), m,
                   classes, Text("sum"), Whole{3}, abs(bias)),
      FREIGHT_CALL("kl_div", ({kl_div(m, m, {.reduction = Reduction::sum, .log_target = true})}), m, m, Text("sum"),
                   true),
      FREIGHT_CALL("bce_with_logits",
                   ({bce_with_logits(m, m * 0.1, {.reduction = Reduction::none, .pos_weight = abs(bias)})}), m, m * 0.1,
                   Text("none"), kLeftOut, abs(bias)),
      FREIGHT_CALL("expm", ({expm(square_matrix, {.max_squarings = 3})}), square_matrix, Whole{3}),
      FREIGHT_CALL("huber_loss", {huber_loss(m, m * 2, 0.7, Reduction::none)}, m, m * 2, 0.7, Text("none")),
      FREIGHT_CALL("attention", ({attention(q, q, q, {.causal = true, .scale = 0.3, .lengths = counts})}), q, q, q,
                   true, 0.3, counts),
      FREIGHT_CALL("attention_weights", ({attention_weights(q, q, {.scale = 0.3, .mask = seen})}), q, q, false, 0.3,
                   kLeftOut, seen),
      FREIGHT_CALL("lstm", ({lstm(wide, w12, {.reverse = true, .counts = counts})}), wide, w12, true, counts),
      FREIGHT_CALL("gru", {gru(narrow, w9, inside)}, narrow, w9, inside),
      FREIGHT_CALL("lstm_layer", {lstm_layer(steps, w12, b12, w12)}, steps, w12, b12, w12),
      FREIGHT_CALL("gru_layer", ({gru_layer(steps, w9, b9, w9, inside, {.reverse = true})}), steps, w9, b9, w9, inside,
                   true),
  };
}

std::vector<Call> calls_of_matrices() {
  const Tensor a = random_floats({4, 4}, 20, Fill::matrix), p = random_floats({4, 4}, 21, Fill::positive_definite);
  const Tensor b = random_floats({4, 2}, 22), tall = random_floats({5, 3}, 23, Fill::matrix),
               c = random_floats({5}, 24);
  const LuFactor f = lu_factor(a);
  const Tensor size = matrix_norm(a, {.ord = MatrixOrder::one});
  const Lu factors = lu(tall, {.p_indices = true});
  const Svd parts = svd(tall, {.full_matrices = false});
  const LeastSquares least = lstsq(tall, c, {.rcond = 0.5});
  const Qr whole = qr(tall, QrMode::complete);
  return {
      FREIGHT_CALL("tensordot", {tensordot(tall, a, 0)}, tall, a, Whole{0}),
      FREIGHT_CALL("lu_factor", ({f.lu, f.pivots, f.permutation}), a, true),
      FREIGHT_CALL("lu", ({factors.p, factors.l, factors.u}), tall, true),
      FREIGHT_CALL("lu_solve", ({lu_solve(f.lu, f.permutation, b, {.trans = true})}), f.lu, f.permutation, b, true),
      FREIGHT_CALL("solve", ({solve(p, b, {.assume_a = Assume::pos, .upper = true})}), p, b, Text("pos"), true),
      FREIGHT_CALL("lu_cond", {lu_cond(f.lu, size)}, f.lu, size),
      FREIGHT_CALL("mirrored", ({mirrored(a, {.upper = true})}), a, true),
      FREIGHT_CALL("solve_triangular",
                   ({solve_triangular(p, b, {.lower = true, .trans = true, .unit_diagonal = true})}), p, b, true, true,
                   true, false, true),
      FREIGHT_CALL("cholesky", ({cholesky(p, {.upper = true})}), p, true),
      FREIGHT_CALL("qr", ({whole.q, whole.r}), tall, Text("complete")),
      FREIGHT_CALL("svd", ({parts.u, parts.s, parts.vh}), tall, false),
      FREIGHT_CALL("lstsq", ({least.x, least.residuals, least.rank}), tall, c, 0.5),
      FREIGHT_CALL("matrix_rank", ({matrix_rank(tall, {.rtol = 0.9})}), tall, 0.9),
      FREIGHT_CALL("matrix_norm", ({matrix_norm(tall, {.ord = MatrixOrder::nuc, .keep = Keep::yes})}), tall,
                   Text("nuc"), true),
      FREIGHT_CALL("vector_norm", ({vector_norm(tall, 0, {.ord = -1})}), tall, Whole{0}, Whole{-1}),
      FREIGHT_CALL("cond", {cond(a, MatrixOrder::one)}, a, Text("one")),
  };
}
#undef FREIGHT_CALL

TEST(Signatures, ACallByValuesIsTheCallInCpp) {
  std::set<std::string> kinds, options;
  std::vector<Call> calls = calls_of_arrays();
  for (const Call& c : calls_of_networks()) calls.push_back(c);
  for (const Call& c : calls_of_matrices()) calls.push_back(c);
  for (const Call& c : calls) {
    SCOPED_TRACE(c.name);
    const Signature& row = *functions_named(c.name)[0];
    const std::vector<Tensor> got = invoke(row, c.values), expected = c.direct();
    ASSERT_EQ(got.size(), expected.size());
    if (!row.results.empty()) {
      EXPECT_EQ(got.size(), row.results.size());
    }
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_EQ(got[i].type(), expected[i].type());
      EXPECT_EQ(got[i].to_vector<double>(), expected[i].to_vector<double>()) << "result " << i;
    }
    for (size_t i = 0; i < c.values.size(); ++i) {
      if (std::holds_alternative<NotGiven>(c.values[i])) continue;
      kinds.insert(name(row.parameters[i].kind));
      options.insert(row.parameters[i].options);
    }
  }
  for (const Signature& s : public_functions()) {
    for (const Parameter& p : s.parameters) {
      EXPECT_TRUE(kinds.contains(name(p.kind))) << "no call has a " << name(p.kind);
      EXPECT_TRUE(options.contains(p.options)) << "no call has " << p.options;
    }
  }
}

TEST(OpSignatures, ReadTheColumnAndTheFields) {
  const OpSignature s = signature(Op::matmul);
  EXPECT_EQ(s.operands, (std::vector<OpValue>{{"a"}, {"b"}, {"bias", true}, {"residual", true}}));
  EXPECT_EQ(s.results, (std::vector<OpValue>{{"y"}}));
  ASSERT_EQ(s.attributes.size(), 7u);
  EXPECT_EQ(s.attributes[2].name, "bias");
  EXPECT_EQ(s.attributes[2].text, "false");
  EXPECT_EQ(signature(Op::concat).operands, (std::vector<OpValue>{{"xs", false, true}}));
  EXPECT_EQ(signature(Op::fused).operands, (std::vector<OpValue>{{"operands", true, true}}));
  EXPECT_TRUE(signature(Op::constant).operands.empty());
  EXPECT_EQ(info(Op::attention_grad).min_inputs, 6);
  EXPECT_EQ(info(Op::attention_grad).max_inputs, 9);
  EXPECT_EQ(info(Op::concat).max_inputs, -1);
}

TEST(OpSignatures, NodesHaveTheOperandsAndResultsThatTheyName) {
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    EXPECT_GT(std::string(row.doc).size(), 1u) << row.name;
    EXPECT_FALSE(signature(row.op).results.empty()) << row.name;
  }
  std::map<Op, std::set<size_t>> seen;
  for (const OpRow& row : op_rows()) {
    const Graph g = graph_of(row);
    seen[row.op].insert(g.outputs.size());
  }
  for (const auto& [op, counts] : seen) {
    std::set<size_t> said;
    const std::vector<OpValue> results = signature(op).results;
    const auto optional = std::count_if(results.begin(), results.end(), [](const OpValue& v) { return v.optional; });
    for (size_t missing = 0; missing <= static_cast<size_t>(optional); ++missing) said.insert(results.size() - missing);
    EXPECT_EQ(counts, said) << name(op);
  }
}

TEST(OpSignatures, FaultsOfNodesNameWhatIsNeeded) {
  Graph g;
  Builder b(g);
  const Value x = b.one(Op::input, LeafAttrs{"x", {DType::f32, {2, 2}}}, {});
  using freight::testing::message_of;
  EXPECT_NE(message_of([&] {
              b.add(Op::matmul, MatmulAttrs{}, {x});
            }).find("matmul: expected 2 to 4, got 1 inputs: a, b, bias?, residual? -> y"),
            std::string::npos);
  EXPECT_NE(message_of([] {
              parse("graph {\n  %0 = input \"x\" : f32[2]\n  %1 = softmax(%0) {axes=1} : f32[2]\n  return %1\n}\n");
            }).find("unknown attribute `axes` of softmax: expected axis, got `axes`"),
            std::string::npos);
}

std::string functions_table() {
  std::string out, header;
  for (const Signature& s : public_functions()) {
    if (s.header != header) {
      header = s.header;
      out += cat(out.empty() ? "" : "\n", "### ", header, "\n\n| function | gives | element types |\n|---|---|---|\n");
    }
    const std::string callee = s.callee == s.name ? "" : cat(" (`", s.callee, "`)");
    out += cat("| `", cell(to_string(s)), "`", callee, " | ", cell(s.doc), " | ", types_text(s), " |\n");
  }
  return out;
}

std::string choices_table() {
  std::string out = "| argument | of | values |\n|---|---|---|\n";
  std::map<std::string, std::pair<Texts, Texts>> by_type;  // the type in C++: functions, words
  for (const Signature& s : public_functions()) {
    for (const Parameter& p : s.parameters) {
      if (p.kind != Parameter::Kind::choice) continue;
      by_type[cat(p.name, "` (`", p.type)].first.push_back(cat("`", s.name, "`"));
      by_type[cat(p.name, "` (`", p.type)].second = p.choices;
    }
  }
  for (const auto& [type, users] : by_type) {
    out += cat("| `", type, "`) | ", join(users.first, ", "), " | ", join(users.second, ", "), " |\n");
  }
  return out;
}

std::string ops_table() {
  std::string out = "| op | attributes | gives |\n|---|---|---|\n";
  for (int i = 0; i < kOpCount; ++i) {
    const OpInfo& row = info(static_cast<Op>(i));
    Texts attributes;
    for (const OpAttribute& a : signature(row.op).attributes) {
      attributes.push_back(cat("`", a.name, a.text.empty() ? "" : "=", a.text, "`"));
    }
    out +=
        cat("| `", row.name, ": ", cell(row.signature), "` | ", join(attributes, ", "), " | ", cell(row.doc), " |\n");
  }
  return out;
}

TEST(Signatures, TheDocumentListsThem) {
  freight::testing::expect_tables(
      source_dir() + "/docs/functions.md",
      {{"functions", functions_table()}, {"choices", choices_table()}, {"ops", ops_table()}});
}

}  // namespace
}  // namespace freight::test
