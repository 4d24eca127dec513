// See linear.h.
#include "freight/tables/linear.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/tables/table.h"

namespace freight::tables {

namespace {

struct KindRow {
  LinearKind kind;
  const char* name;
  const char* doc;
  double lambda;  // if --lambda is not given
  bool classes;   // it is for classification
};
constexpr std::array<KindRow, 4> kKinds = {{
    {LinearKind::linear, "linear", "least squares regression, with standard errors", 0, false},
    {LinearKind::ridge, "ridge", "ridge regression: least squares with L2 regularization (--lambda)", 1, false},
    {LinearKind::logistic, "logistic", "logistic regression: classification", 1, true},
    {LinearKind::poisson, "poisson", "Poisson regression: counts, with a log link", 0, false},
}};
const KindRow& row_of_kind(LinearKind kind) {
  return *std::find_if(kKinds.begin(), kKinds.end(), [&](const KindRow& r) { return r.kind == kind; });
}

constexpr std::array<const char*, 4> kLinks = {"identity", "log", "logit", "softmax"};  // by RowLink
constexpr const char* kLink = "linear.link";
constexpr const char* kTerms = "linear.terms";    // i64 (width, 2): column, level
constexpr const char* kCenters = "linear.means";  // f64 (width, 2): mean, scale
constexpr const char* kWeights = "linear.weights";
constexpr const char* kIntercepts = "linear.intercepts";
constexpr const char* kErrors = "linear.errors";
constexpr size_t kMostLines = 30;

static_assert(DesignTerm::kMissing == store::LinearForm::Term::kMissing);

store::RowLink link_of(LinearKind kind, size_t classes) {
  if (kind == LinearKind::poisson) return store::RowLink::exponential;
  if (kind != LinearKind::logistic) return store::RowLink::identity;
  return classes == 2 ? store::RowLink::logistic : store::RowLink::softmax;
}

}  // namespace

LinearModel::LinearModel(store::RowLink link, Design design, LinearFit fit, const store::RowShape& shape)
    : link_(link), design_(std::move(design)), fit_(std::move(fit)), classes_(shape.classes) {
  for (const DesignTerm& term : design_.terms()) names_.push_back(name_of(term, shape.columns));
}

int64_t LinearModel::outputs() const { return link_ == store::RowLink::logistic ? 2 : fit_.intercepts.numel(); }

template <class F>
void LinearModel::each_row(const Array& rows, F&& f) const {
  const int64_t n = rows.shape()[0], columns = rows.shape()[1], width = design_.width(), sums = fit_.intercepts.numel();
  std::vector<double> numbers(static_cast<size_t>(width)), z;
  const auto* const weights = fit_.weights.data<double>();
  for (int64_t i = 0; i < n; ++i) {
    design_.encode(rows.data<double>() + i * columns, numbers.data());
    z.resize(static_cast<size_t>(sums));  // two classes have one sum and two predictions
    for (int64_t k = 0; k < sums; ++k) {
      z[static_cast<size_t>(k)] =
          std::inner_product(numbers.begin(), numbers.end(), weights + k * width, fit_.intercepts.data<double>()[k]);
    }
    f(i, z);
  }
}

Array LinearModel::run(const Array& rows) const {
  Array out(DType::f32, {rows.shape()[0], outputs()});
  each_row(rows, [&](int64_t i, std::vector<double>& z) {
    store::apply_link(link_, z);
    std::transform(z.begin(), z.end(), out.data<float>() + i * outputs(),
                   [](double v) { return static_cast<float>(v); });
  });
  return out;
}

Array LinearModel::margins(const Array& rows) const {
  Array out(DType::f64, {rows.shape()[0], fit_.intercepts.numel()});
  each_row(rows, [&](int64_t i, const std::vector<double>& z) {
    std::copy(z.begin(), z.end(), out.data<double>() + i * out.shape()[1]);
  });
  return out;
}

// Numbers of the design are centered, so a column's contribution is its coefficients times its distance from the mean.
Array LinearModel::contributions(const Array& rows) const {
  const int64_t n = rows.shape()[0], columns = rows.shape()[1], width = design_.width(), sums = fit_.intercepts.numel();
  Array out(DType::f64, {n, sums, columns + 1});
  std::fill_n(out.data<double>(), out.numel(), 0.0);
  std::vector<double> numbers(static_cast<size_t>(width));
  for (int64_t i = 0; i < n; ++i) {
    design_.encode(rows.data<double>() + i * columns, numbers.data());
    for (int64_t k = 0; k < sums; ++k) {
      double* const to = out.data<double>() + (i * sums + k) * (columns + 1);
      const double* const weights = fit_.weights.data<double>() + k * width;
      for (int64_t t = 0; t < width; ++t) {
        to[design_.terms()[static_cast<size_t>(t)].column] += weights[t] * numbers[static_cast<size_t>(t)];
      }
      to[columns] = fit_.intercepts.data<double>()[k];
    }
  }
  return out;
}

store::RowForm LinearModel::form() const {
  store::LinearForm form{.link = link_, .terms = {}, .weights = fit_.weights, .intercepts = fit_.intercepts};
  for (const DesignTerm& t : design_.terms()) form.terms.push_back({t.column, t.level, t.words, t.mean, t.scale});
  return form;
}

// The strongest terms first, by what a deviation of a number, or the presence of a word, adds.
namespace {
std::string six_digits(double v) { return significant(v, 6); }
}  // namespace

std::vector<std::string> LinearModel::lines() const {
  const int64_t width = design_.width(), sums = fit_.intercepts.numel();
  const auto* const weights = fit_.weights.data<double>();
  const auto* const errors = fit_.errors.data<double>();
  const bool has_errors = std::any_of(errors, errors + fit_.errors.numel(), [](double e) { return e > 0; });
  std::vector<size_t> order(static_cast<size_t>(sums * width));
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return std::fabs(weights[a]) > std::fabs(weights[b]); });
  const char* const gives = link_ == store::RowLink::identity      ? "value"
                            : link_ == store::RowLink::exponential ? "log count"
                                                                   : "log odds";
  std::vector<std::string> lines = {
      cat(gives, " = intercept + coefficients x columns, ", width, " numbers per row",
          has_errors ? "" : "; no standard errors: columns depend on each other, or rows are too few")};
  for (size_t i = 0; i < std::min(order.size(), kMostLines); ++i) {
    const size_t output = order[i] / static_cast<size_t>(width), at = order[i] % static_cast<size_t>(width);
    const double scale = design_.terms()[at].scale;
    std::string text = cat(names_[at], sums > 1 ? cat(" -> ", classes_[output]) : std::string(), "  ",
                           six_digits(weights[order[i]] / scale));
    if (has_errors) text += cat(" +- ", six_digits(errors[output * static_cast<size_t>(width + 1) + at + 1] / scale));
    lines.push_back(std::move(text));
  }
  if (order.size() > kMostLines) lines.push_back(cat("... and ", order.size() - kMostLines, " smaller ones"));
  return lines;
}

void LinearModel::write(io::SafeTensors& file) const {
  Array terms(DType::i64, {design_.width(), 2}), centers(DType::f64, {design_.width(), 2});
  for (int64_t i = 0; i < design_.width(); ++i) {
    const DesignTerm& term = design_.terms()[static_cast<size_t>(i)];
    terms.data<int64_t>()[2 * i] = term.column;
    terms.data<int64_t>()[2 * i + 1] = term.level;
    centers.data<double>()[2 * i] = term.mean;
    centers.data<double>()[2 * i + 1] = term.scale;
  }
  file.metadata[kLink] = kLinks[static_cast<size_t>(link_)];
  file.tensors.emplace_back(kTerms, terms);
  file.tensors.emplace_back(kCenters, centers);
  file.tensors.emplace_back(kWeights, fit_.weights);
  file.tensors.emplace_back(kIntercepts, fit_.intercepts);
  file.tensors.emplace_back(kErrors, fit_.errors);
}

namespace {

// A tensor with the given type and shape and finite numbers; otherwise throws an error that names it.
const Array& need(const io::SafeTensors& file, const std::string& path, const char* name, DType dtype,
                  const Shape& shape) {
  const Array* const found = file.find(name);
  if (!found || found->dtype() != dtype || found->shape() != shape) {
    fail(ErrorKind::checkpoint, path, "the tensor ", name, " is missing, or not ", Type{dtype, shape});
  }
  if (dtype != DType::f64) return *found;
  const auto* const v = found->data<double>();
  if (!std::all_of(v, v + found->numel(), [](double x) { return std::isfinite(x); })) {
    fail(ErrorKind::checkpoint, path, "the tensor ", name, " contains NaN or infinity");
  }
  return *found;
}

Design read_design(const io::SafeTensors& file, const std::string& path, const store::RowShape& shape) {
  const Array* const found = file.find(kTerms);
  const int64_t width = found && found->shape().rank() == 2 ? found->shape()[0] : 0;
  const Array &terms = need(file, path, kTerms, DType::i64, {width, 2}),
              &centers = need(file, path, kCenters, DType::f64, {width, 2});
  std::vector<DesignTerm> all;
  for (int64_t i = 0; i < width; ++i) {
    DesignTerm term{.column = terms.data<int64_t>()[2 * i],
                    .level = terms.data<int64_t>()[2 * i + 1],
                    .mean = centers.data<double>()[2 * i],
                    .scale = centers.data<double>()[2 * i + 1]};
    const bool there = term.column >= 0 && term.column < static_cast<int64_t>(shape.columns.size());
    const store::Column* const column = there ? &shape.columns[static_cast<size_t>(term.column)] : nullptr;
    const bool word =
        column && column->words && term.level >= 0 && term.level < static_cast<int64_t>(column->levels.size());
    const bool value = column && !column->words && term.level == DesignTerm::kValue;
    const bool level = word || value || term.level == DesignTerm::kMissing;
    if (!column || !level || !(term.scale > 0)) {
      fail(ErrorKind::checkpoint, path, "row ", i, " of the tensor ", kTerms, " is of no column that the model has");
    }
    term.words = column->words;
    all.push_back(term);
  }
  return Design(std::move(all));
}

}  // namespace

std::shared_ptr<const store::RowModel> read_linear(const io::SafeTensors& file, const std::string& path,
                                                   const store::RowShape& shape) {
  const auto entry = file.metadata.find(kLink);
  const auto at = entry == file.metadata.end()
                      ? kLinks.end()
                      : std::find(kLinks.begin(), kLinks.end(), std::string_view(entry->second));
  if (at == kLinks.end()) fail(ErrorKind::checkpoint, path, "the entry ", kLink, " is missing, or none of them");
  const auto link = static_cast<store::RowLink>(at - kLinks.begin());
  const auto classes = static_cast<int64_t>(shape.classes.size());
  const bool predicts_classes = link == store::RowLink::logistic || link == store::RowLink::softmax;
  if (predicts_classes != (classes > 0) || (link == store::RowLink::logistic && classes != 2)) {
    fail(ErrorKind::checkpoint, path, "a model of link ", *at, " does not predict ", classes, " classes");
  }
  Design design = read_design(file, path, shape);
  const int64_t sums = link == store::RowLink::softmax ? classes : 1, width = design.width();
  LinearFit fit{.weights = need(file, path, kWeights, DType::f64, {sums, width}),
                .intercepts = need(file, path, kIntercepts, DType::f64, {sums}),
                .errors = need(file, path, kErrors, DType::f64, {sums, width + 1})};
  return std::make_shared<LinearModel>(link, std::move(design), std::move(fit), shape);
}

std::string LinearLearner::name() const { return row_of_kind(kind_).name; }
std::string LinearLearner::doc() const { return row_of_kind(kind_).doc; }

RowData LinearLearner::read(const RowSource& source) const {
  const KindRow& kind = row_of_kind(kind_);
  RowSource asked = source;
  asked.values = !kind.classes;
  RowData data = read_table(asked);
  const bool classes = !data.shape.classes.empty();
  if (classes != kind.classes) {
    fail(ErrorKind::usage, "--model", kind.name, " predicts ", kind.classes ? "classes" : "values", ", and column ",
         data.target, " contains ", classes ? cat(data.shape.classes.size(), " classes") : std::string("values"),
         ": expected ", classes ? "logistic" : "linear, ridge or poisson", ", or another --target");
  }
  return data;
}

train::Cost LinearLearner::cost(const train::Config&, const RowData& data) const {
  const store::RowLink link = link_of(kind_, data.shape.classes.size());
  const Design design(data.shape, data.train);
  const auto width = static_cast<double>(design.width() + 1);
  const double outputs = link == store::RowLink::softmax ? static_cast<double>(data.shape.classes.size()) : 1;
  constexpr double kFlopsPerSecond = 5e9,
                   kMatrices = 4;  // number of live matrices, see linear_fit.cpp
  const double unknowns = link == store::RowLink::identity ? width : outputs * width;
  const double flops = 2 * static_cast<double>(data.train.count()) * width * width * outputs * outputs;
  return {.bytes = sizeof(double) *
                   (kMatrices * unknowns * unknowns + 2 * static_cast<double>(kFitBlockRows) * (width + outputs)),
          .seconds = flops / kFlopsPerSecond};
}

std::shared_ptr<const store::RowModel> LinearLearner::fit(const train::Config& config, const RowData& data,
                                                          const std::function<bool(const Round&)>& on_round) const {
  const store::RowLink link = link_of(kind_, data.shape.classes.size());
  const double lambda = config.lambda < 0 ? row_of_kind(kind_).lambda : config.lambda;
  const Design design(data.shape, data.train);
  std::shared_ptr<const LinearModel> model;
  int64_t number = 0;
  fit_linear(link, design, data.train, static_cast<int64_t>(data.shape.classes.size()), lambda,
             [&](const LinearFit& so_far, bool last) {
               model = std::make_shared<const LinearModel>(link, design, so_far, data.shape);
               ++number;
               return on_round({.number = number,
                                .of = last ? std::optional(number) : std::nullopt,
                                .loss = evaluate(*model, data.train).loss,
                                .model = model.get()});
             });
  return model;
}

}  // namespace freight::tables
