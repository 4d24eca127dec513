// `freight linalg`: solves systems and factorizes matrices in npy files, and reports how far the result can be trusted:
// the residual, and the condition of the matrix.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <limits>

#include "command.h"
#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/base/finite.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"
#include "freight/io/json_library.h"
#include "freight/io/npy.h"
#include "freight/ops/ops.h"
#include "freight/trace/device.h"
#include "freight/trace/scope.h"
#include "options.h"
#include "output_path.h"
#include "text_table.h"

namespace freight::app {
namespace {

using Json = nlohmann::ordered_json;
using Named = std::vector<std::pair<std::string, Tensor>>;

struct LinalgFlags {
  std::string operation, output, device = "auto", assume = "gen";
  std::vector<std::string> files;
  std::optional<double> rcond;
  bool upper = false, reduced = false, json = false;
};

// The results of an operation; if it made an LU, its factors are used to estimate the condition.
struct Computed {
  Computed(Named named) : results(std::move(named)) {}
  Computed(Named named, Tensor factors) : results(std::move(named)), lu(std::move(factors)) {}
  Named results;
  Tensor lu;
};

// finite: results of finite operands must be finite, too. The condition of a singular matrix is not.
enum class Bounds { finite, none };

// An operation: what is computed from the files, and the residual, relative to the size that it is measured by.
struct Operation {
  const char* name;
  int operands, results;
  const char* doc;
  std::function<Computed(const std::vector<Tensor>& in, const LinalgFlags& f)> run;
  // Null if there is none. Called with the operands and the results.
  std::function<Tensor(const std::vector<Tensor>& in, const Named& out, const LinalgFlags& f)> rest = nullptr;
  Bounds bounds = Bounds::finite;
};

// The structures that --assume names.
constexpr const char* kUpperTriangle = "upper_triangular";
constexpr const char* kLowerTriangle = "lower_triangular";
Assume assumed(const std::string& text) {
  if (text == "pos") return Assume::pos;
  if (text == kUpperTriangle) return Assume::upper_triangular;
  if (text == kLowerTriangle) return Assume::lower_triangular;
  return text == "sym" ? Assume::sym : Assume::gen;
}

// The matrix for solve: all of A, or the matrix that one triangle of it determines.
Tensor assumed(const Tensor& a, const LinalgFlags& f) {
  if (f.assume == kUpperTriangle) return triu(a);
  if (f.assume == kLowerTriangle) return tril(a);
  return f.assume == "gen" ? a : mirrored(a, {.upper = f.upper});
}

// b, or a solution for it, as columns: a b with one axis is a vector, and so are the solutions of a batch for it.
Tensor right_columns(const Tensor& t, const Tensor& b) { return b.rank() == 1 ? unsqueeze(t, -1) : t; }

Computed solution(const std::vector<Tensor>& in, const LinalgFlags& f) {
  const Assume assume = assumed(f.assume);
  const bool by_lu = assume == Assume::gen || assume == Assume::sym;
  if (!by_lu) return Named{{"x", solve(in[0], in[1], {.assume_a = assume, .upper = f.upper})}};
  const LuFactor factors = lu_factor(assumed(in[0], f), {.refuse_singular = true});
  return {{{"x", lu_solve(factors.lu, factors.permutation, in[1])}}, factors.lu};
}

const std::vector<Operation>& operations() {
  static const std::vector<Operation> all = {
      {"solve", 2, 1, "x with A x = B, by LU; --assume describes A", solution,
       [](const auto& in, const Named& out, const LinalgFlags& f) {
         return right_columns(in[1], in[1]) - matmul(assumed(in[0], f), right_columns(out[0].second, in[1]));
       }},
      {"lstsq", 2, 3, "least-squares x of minimum norm; --rcond",
       [](const auto& in, const LinalgFlags& f) {
         const LeastSquares r = lstsq(in[0], in[1], {.rcond = f.rcond});
         return Named{{"x", r.x}, {"residuals", r.residuals}, {"rank", r.rank}};
       }},
      {"lu", 1, 3, "p, l, u with P L U = A",
       [](const auto& in, const LinalgFlags&) {
         const Lu r = lu(in[0]);
         return Named{{"p", r.p}, {"l", r.l}, {"u", r.u}};
       },
       [](const auto& in, const Named& out, const LinalgFlags&) {
         return in[0] - matmul(out[0].second, matmul(out[1].second, out[2].second));
       }},
      {"cholesky", 1, 1, "l with L L^T = A; --upper: u with U^T U = A",
       [](const auto& in, const LinalgFlags& f) {
         return Named{{f.upper ? "u" : "l", cholesky(in[0], {.upper = f.upper})}};
       },
       [](const auto& in, const Named& out, const LinalgFlags& f) {
         const Tensor& c = out[0].second;
         const Tensor t = transpose(c);
         return mirrored(in[0], {.upper = f.upper}) - (f.upper ? matmul(t, c) : matmul(c, t));
       }},
      {"qr", 1, 2, "q, r with Q R = A; --no-reduced: q is square",
       [](const auto& in, const LinalgFlags& f) {
         const Qr r = qr(in[0], f.reduced ? QrMode::reduced : QrMode::complete);
         return Named{{"q", r.q}, {"r", r.r}};
       },
       [](const auto& in, const Named& out, const LinalgFlags&) {
         return in[0] - matmul(out[0].second, out[1].second);
       }},
      {"svd", 1, 3, "u, s, vh with U diag(s) Vh = A; --no-reduced: u and vh are square",
       [](const auto& in, const LinalgFlags& f) {
         const Svd r = svd(in[0], {.full_matrices = !f.reduced});
         return Named{{"u", r.u}, {"s", r.s}, {"vh", r.vh}};
       },
       [](const auto& in, const Named& out, const LinalgFlags&) {
         const int64_t k = out[1].second.dim(-1);
         const Tensor u = narrow(out[0].second, -1, 0, k), vh = narrow(out[2].second, -2, 0, k);
         return in[0] - matmul(u * unsqueeze(out[1].second, -2), vh);
       }},
      {"eigh", 1, 2, "values, vectors of a symmetric matrix; --upper",
       [](const auto& in, const LinalgFlags& f) {
         const Eigh r = eigh(in[0], {.upper = f.upper});
         return Named{{"values", r.values}, {"vectors", r.vectors}};
       },
       [](const auto& in, const Named& out, const LinalgFlags& f) {
         const Tensor& v = out[1].second;
         return matmul(mirrored(in[0], {.upper = f.upper}), v) - v * unsqueeze(out[0].second, -2);
       }},
      {"eig", 1, 4, "values and vectors of any square matrix, real and imaginary parts",
       [](const auto& in, const LinalgFlags&) {
         const Eig r = eig(in[0]);
         return Named{{"values_re", r.values_re},
                      {"values_im", r.values_im},
                      {"vectors_re", r.vectors_re},
                      {"vectors_im", r.vectors_im}};
       },
       [](const auto& in, const Named& out, const LinalgFlags&) {
         const Tensor re = unsqueeze(out[0].second, -2), im = unsqueeze(out[1].second, -2);
         const Tensor &u = out[2].second, &v = out[3].second;
         return abs(matmul(in[0], u) - (u * re - v * im)) + abs(matmul(in[0], v) - (u * im + v * re));
       }},
      {"inv", 1, 1, "the inverse",
       [](const auto& in, const LinalgFlags&) {
         return Named{{"inverse", inv(in[0])}};
       },
       [](const auto& in, const Named& out, const LinalgFlags&) {
         return matmul(in[0], out[0].second) - eye(in[0].dim(-1), -1, in[0].dtype());
       }},
      {"pinv", 1, 1, "the pseudo-inverse; --rcond",
       [](const auto& in, const LinalgFlags& f) {
         return Named{{"pinv", pinv(in[0], {.rtol = f.rcond})}};
       }},
      {"det", 1, 3, "the determinant, and the sign and logarithm that do not overflow",
       [](const auto& in, const LinalgFlags&) {
         const SlogDet r = slogdet(in[0]);
         return Named{{"det", det(in[0])}, {"sign", r.sign}, {"logabsdet", r.logabsdet}};
       },
       nullptr, Bounds::none},
      {"rank", 1, 1, "how many singular values count; --rcond",
       [](const auto& in, const LinalgFlags& f) {
         return Named{{"rank", matrix_rank(in[0], {.rtol = f.rcond})}};
       }},
      {"cond", 1, 1, "the condition in the 2-norm: how much a relative error of B may grow in x",
       [](const auto& in, const LinalgFlags&) {
         return Named{{"cond", cond(in[0])}};
       },
       nullptr, Bounds::none},
  };
  return all;
}

const Operation& operation_of(const std::string& name) {
  std::vector<std::string> names;
  for (const Operation& o : operations()) {
    if (name == o.name) return o;
    names.push_back(o.name);
  }
  refuse_name("linalg", name, names);
}

// Refuses an option that the operation does not use.
void need_no_others(const Options& options, const std::string& operation) {
  static const std::pair<const char*, std::vector<std::string>> kTakenBy[] = {
      {"--assume", {"solve"}},
      {"--upper", {"solve", "cholesky", "eigh"}},
      {"--reduced", {"qr", "svd"}},
      {"--rcond", {"lstsq", "pinv", "rank"}},
  };
  for (const auto& [option, takers] : kTakenBy) {
    if (!options.given(option) || std::find(takers.begin(), takers.end(), operation) != takers.end()) continue;
    refuse_flag_of(option, join(takers, ", "), cat("this is ", operation));
  }
}

// Describes the first element that is NaN or infinite: "element (0, 3) is nan"; empty if there is none.
std::string not_finite_text(const Array& array) {
  if (count_nonfinite(array) == 0) return "";
  const Array wide = array.cast(DType::f64);
  int64_t at = 0;
  while (std::isfinite(wide.data<double>()[at])) ++at;
  const double value = wide.data<double>()[at];
  std::string place;
  for (int axis = array.shape().rank() - 1; axis >= 0; at /= array.shape()[axis--]) {
    place = cat(at % array.shape()[axis], place.empty() ? "" : ", ", place);
  }
  return cat("element (", place, ") is ", std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf");
}

// Reads a matrix in f32 or f64; integers become f64.
Array matrix_of(const std::string& file) {
  Array a = io::load_npy(file);
  if (a.dtype() != DType::f32 && a.dtype() != DType::f64) a = io::computable(a, file).cast(DType::f64);
  if (const std::string fault = not_finite_text(a); !fault.empty()) {
    fail(ErrorKind::data, file, fault, ": expected finite numbers");
  }
  return a;
}

// Refuses infinite results: finite operands may have results beyond the range of their type.
void need_finite(const Operation& o, const std::string& name, const Array& result) {
  if (o.bounds == Bounds::none) return;
  if (const std::string fault = not_finite_text(result); !fault.empty()) {
    fail(ErrorKind::diverged, o.name, fault, " of ", name, " ", Type{result.dtype(), result.shape()},
         ": expected operands whose results stay in the range of ", result.dtype(),
         result.dtype() == DType::f32 ? "; f64 has a larger one" : "; scale them");
  }
}

// The 1-norm of each matrix.
Tensor norms_of(const Tensor& x) { return matrix_norm(cast(x, DType::f64), {.ord = MatrixOrder::one}); }

// The maximum; NaN if an element is NaN.
double largest(const Tensor& x) { return x.numel() == 0 ? 0 : max(x).item<double>(); }

double epsilon_of(const Tensor& x) {
  return x.dtype() == DType::f64 ? std::numeric_limits<double>::epsilon()
                                 : static_cast<double>(std::numeric_limits<float>::epsilon());
}

// The norm of the residual divided by the norms of operands and results, in units of rounding, for the matrix of the
// batch where it is largest: below about 30 the result is as exact as its type allows.
double scaled_residual(const Operation& o, const std::vector<Tensor>& in, const Named& out, const LinalgFlags& f) {
  const Tensor left = o.rest(in, out, f);
  if (left.numel() == 0) return 0;
  const Tensor rest = norms_of(left);
  // Divides step by step: a product of the norms might overflow.
  Tensor ratio = rest / norms_of(in[0]);
  if (o.operands == 2) ratio = ratio / norms_of(right_columns(out[0].second, in[1]));
  if (f.operation == "inv") ratio = ratio / norms_of(out[0].second);
  const auto n = static_cast<double>(std::max<int64_t>({in[0].dim(-1), in[0].dim(-2), 1}));
  return largest(where(equal(rest, 0.0), 0.0, ratio)) / (n * epsilon_of(in[0]));
}

// The condition in the 1-norm, for the matrix of the batch where it is largest: an estimate from the factors, or exact
// if the inverse is known.
std::optional<double> condition_of(const std::vector<Tensor>& in, const Computed& computed, const LinalgFlags& f) {
  if (in[0].numel() == 0) return std::nullopt;
  if (f.operation == "inv") return largest(norms_of(in[0]) * norms_of(computed.results[0].second));
  if (f.operation != "solve") return std::nullopt;
  const Tensor a = assumed(in[0], f), norm = matrix_norm(a, {.ord = MatrixOrder::one});
  const Tensor lu = computed.lu.defined() ? computed.lu : lu_factor(a).lu;
  return largest(cast(lu_cond(lu, norm), DType::f64));
}

// JSON has no infinity and no NaN; as words they differ from each other and from missing values.
Json number(double v) {
  if (std::isfinite(v)) return v;
  return std::isnan(v) ? "nan" : v > 0 ? "inf" : "-inf";
}

// The number of an array without axes, else all numbers in row-major order. Whole numbers stay whole.
Json numbers(const Array& a) {
  Json j = Json::array();
  if (is_floating(a.dtype())) {
    for (const double v : a.to_vector<double>()) j.push_back(number(v));
  } else {
    for (const int64_t v : a.to_vector<int64_t>()) j.push_back(v);
  }
  return a.shape().rank() == 0 ? j[0] : j;
}

void write(const std::string& path, const std::vector<std::pair<std::string, Array>>& results) {
  if (path.empty()) return;
  if (ends_with(path, ".npz")) {
    io::save_npz(path, {results.begin(), results.end()});
  } else {
    io::save_npy(path, results.at(0).second);
  }
}

// Runs the operation; errors about a matrix name its file.
Computed computed_from_files(const Operation& op, const std::vector<Tensor>& in, const LinalgFlags& f,
                             std::vector<std::pair<std::string, Array>>& results) {
  try {
    Computed computed = op.run(in, f);
    std::vector<Tensor> wanted;
    for (const auto& result : computed.results) wanted.push_back(result.second);
    if (computed.lu.defined()) wanted.push_back(computed.lu);
    eval(wanted);
    for (const auto& [name, tensor] : computed.results) {
      need_finite(op, name, tensor.array());
      results.emplace_back(name, tensor.array());
    }
    return computed;
  } catch (const Error& e) {
    throw Error(e.kind(), e.op(), cat(e.message(), "; read from ", join(f.files, " and ")), e.where());
  }
}

// The answer that the command prints.
struct Answer {
  double seconds = 0, epsilon = 0;  // epsilon of the matrix's type
  std::optional<double> residual = std::nullopt, condition = std::nullopt;
  std::vector<std::pair<std::string, Array>> results = {};
};

constexpr int64_t kShown = 16;  // numbers of a result on the terminal

// True if the output file has the result: an npy file has only the first one.
bool is_written(size_t result, const LinalgFlags& f) {
  return ends_with(f.output, ".npz") || (!f.output.empty() && result == 0);
}

void print_json(const Answer& a, const LinalgFlags& f) {
  Json j = {{"operation", f.operation}, {"device", current_device()}, {"seconds", a.seconds}};
  if (a.residual) j["scaled_residual"] = number(*a.residual);
  if (a.condition) j["condition"] = number(*a.condition);
  for (size_t i = 0; i < a.results.size(); ++i) {
    const auto& [name, array] = a.results[i];
    Json r = {{"name", name}, {"type", to_string(Type{array.dtype(), array.shape()})}};
    if (array.numel() <= kShown || !is_written(i, f)) r["values"] = numbers(array);
    j["results"].push_back(std::move(r));
  }
  std::printf("%s\n", j.dump(2).c_str());
}

// The numbers of a result, or where they were written.
std::string values_text(const Array& array, size_t result, const LinalgFlags& f) {
  if (array.numel() > kShown) {
    if (is_written(result, f)) return "";
    const char* const file = operation_of(f.operation).results > 1 || result > 0 ? "FILE.npz" : "FILE.npy";
    return cat(with_commas(array.numel()), " numbers, not shown: -o ", file, " writes them");
  }
  std::string text = numbers(array).dump();
  text.erase(std::remove(text.begin(), text.end(), '"'), text.end());
  return text;
}

void print_text(const Answer& a, const LinalgFlags& f) {
  std::vector<std::vector<std::string>> shown;
  for (size_t i = 0; i < a.results.size(); ++i) {
    const auto& [name, array] = a.results[i];
    shown.push_back({name, to_string(Type{array.dtype(), array.shape()}), values_text(array, i, f)});
  }
  std::printf("%s on %s in %.4g s\n%s", f.operation.c_str(), current_device().c_str(), a.seconds,
              text_table({"result", "type", "values"}, shown).c_str());
  if (a.residual) {
    std::printf("residual %.3g times n eps norms (below 30: as accurate as the type allows)\n", *a.residual);
  }
  if (a.condition) {
    std::printf("condition about %.3g in the 1-norm%s%s\n", *a.condition,
                *a.condition * a.epsilon < 1 ? "" : ": singular to working precision, no digit of ",
                *a.condition * a.epsilon < 1 ? ""
                : f.operation == "inv"       ? "the inverse need be right"
                                             : "x need be right");
  }
  if (!f.output.empty()) std::printf("written to %s\n", f.output.c_str());
}

}  // namespace

int linalg_command(const Args& args) {
  LinalgFlags f;
  f.reduced = true;
  std::vector<std::vector<std::string>> rows;
  for (const Operation& o : operations()) rows.push_back({cat("  ", o.name), o.operands == 2 ? "A B" : "A", o.doc});
  Options o("linalg", "Solves systems and factorizes matrices in npy files, on any device (docs/linalg.md).",
            "OPERATION A.npy [B.npy] [-o FILE] [options]",
            text_table({"  operation", "files", "gives"}, rows) +
                "\n  freight linalg solve A.npy B.npy -o x.npy\n  freight linalg svd A.npy -o factors.npz --json\n");
  o.positional("operation", &f.operation, "one of the list below", true);
  o.positional("files", &f.files, "(..., M, N), and the right-hand side; f32 or f64, integers are converted to f64",
               true);
  o.add("-o,--output", &f.output, "file of the results: .npz, or .npy for a single one", {.value = "FILE"});
  o.add("--device", &f.device, "auto, cpu, ref, cuda:N, opencl:N or another backend");
  o.add("--assume", &f.assume, "structure of the matrix for solve: general, positive definite, symmetric or triangular",
        {.one_of = {"gen", "pos", "sym", kUpperTriangle, kLowerTriangle}});
  o.add("--upper", &f.upper, "read the upper triangle of a symmetric matrix, not the lower one");
  o.add("--reduced", &f.reduced, "reduced factors of qr and svd");
  o.add("--rcond", &f.rcond, "singular values up to this fraction of the largest count as 0 (lstsq, pinv, rank)",
        {.value = "FRACTION", .min = 0});
  o.add("--json", &f.json, "print JSON");
  o.essentials({"operation", "files", "--output", "--device", "--assume", "--upper", "--reduced", "--rcond", "--json",
                "--help"});
  if (o.parse(args) == Options::Outcome::done) return 0;

  const Operation& op = operation_of(f.operation);
  need_no_others(o, f.operation);
  if (f.files.size() != static_cast<size_t>(op.operands)) {
    fail(ErrorKind::usage, f.operation, "expected ", op.operands == 2 ? "two: A.npy B.npy" : "one: A.npy", ", got ",
         f.files.size(), f.files.size() == 1 ? " file" : " files");
  }
  check_output("--output", f.output, f.files);
  if (!f.output.empty() && op.results > 1 && !ends_with(f.output, ".npz")) {
    fail(ErrorKind::usage, "--output", "expected a name that ends in .npz, got ", f.output, ": ", f.operation, " has ",
         op.results, " results");
  }
  const DeviceScope scope(f.device);
  std::vector<Tensor> in;
  for (const std::string& file : f.files) in.emplace_back(matrix_of(file));
  if (in.size() == 2 && in[0].dtype() != in[1].dtype()) {
    for (Tensor& t : in) t = cast(t, DType::f64);
  }
  // Errors name the operation, and not the line of this program or the ops that it consists of.
  const Frame frame(SourceLine{"", 0}, op.name);
  const auto start = std::chrono::steady_clock::now();
  Answer answer{.epsilon = epsilon_of(in[0])};
  const Computed computed = computed_from_files(op, in, f, answer.results);
  answer.seconds = seconds_since(start);
  write(f.output, answer.results);
  if (op.rest && in[0].numel() > 0) answer.residual = scaled_residual(op, in, computed.results, f);
  answer.condition = condition_of(in, computed, f);
  if (f.json) {
    print_json(answer, f);
  } else {
    print_text(answer, f);
  }
  return 0;
}

}  // namespace freight::app
