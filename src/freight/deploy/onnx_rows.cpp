// See onnx_rows_internal.h. A cell of words is the number of its word among the column's levels, -1 for a word that
// training did not see; a missing cell is NaN. So one encoding serves every learner, whatever it makes of words itself.
#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "freight/base/error.h"
#include "freight/base/strings.h"
#include "freight/deploy/onnx_rows_internal.h"
#include "freight/deploy/predictor.h"

namespace freight::deploy::onnx {

namespace {

using store::ForestForm;
using store::LinearForm;
using store::RowLink;
using store::TreeNode;

constexpr const char* kFeatures = "features";
// Rounding to f32 may move a number by so much of the column's deviation. The results then move by less than `verify`
// allows, 1e-5 of the largest: air pressures (1,013 +- 6 hPa) and years go in as they are, seconds since 1970 do not.
constexpr double kMostOfScale = 2.5e-5;

class RowWriter {
 public:
  explicit RowWriter(Model& model) : model_(model) {}

  std::string constant(const Array& array) {
    std::string name = cat("c", model_.initializers.size());
    model_.initializers.push_back({name, array});
    return name;
  }
  std::string emit(const std::string& op, std::vector<std::string> inputs, std::vector<Attribute> attributes = {},
                   const std::string& domain = {}, std::string output = {}) {
    if (output.empty()) output = cat("v", model_.nodes.size());
    model_.nodes.push_back({.op = op,
                            .name = cat(op, "_", model_.nodes.size()),
                            .inputs = std::move(inputs),
                            .outputs = {output},
                            .attributes = std::move(attributes),
                            .domain = domain});
    return output;
  }

  // Predictions of sums f32 (N, groups), under the name of the output.
  void apply_link(RowLink link, const std::string& sums, const std::string& output) {
    switch (link) {
      case RowLink::identity: emit("Identity", {sums}, {}, {}, output); return;
      case RowLink::exponential: emit("Exp", {sums}, {}, {}, output); return;
      case RowLink::softmax: emit("Softmax", {sums}, {{"axis", int64_t{1}}}, {}, output); return;
      case RowLink::logistic: {
        const std::string second = emit("Sigmoid", {sums}), first = emit("Sigmoid", {emit("Neg", {sums})});
        emit("Concat", {first, second}, {{"axis", int64_t{1}}}, {}, output);
        return;
      }
    }
  }

 private:
  Model& model_;
};

// The lists of a TreeEnsembleRegressor.
struct Ensemble {
  std::vector<int64_t> tree, node, column, left, right, missing_true;
  std::vector<float> values;
  std::vector<std::string> modes;
  std::vector<int64_t> leaf_tree, leaf_node, leaf_group;
  std::vector<float> leaf_weight;

  int64_t add(int64_t of_tree, const char* mode, int64_t of_column, float value, bool missing) {
    const int64_t number = count_++;
    tree.push_back(of_tree);
    node.push_back(number);
    column.push_back(of_column);
    left.push_back(0);
    right.push_back(0);
    missing_true.push_back(missing ? 1 : 0);
    values.push_back(value);
    modes.emplace_back(mode);
    return number;
  }
  void link(size_t at, int64_t if_true, int64_t if_false) {
    left[at] = if_true;
    right[at] = if_false;
  }
  void next_tree() { count_ = 0; }

 private:
  int64_t count_ = 0;  // of the tree at hand
};

// Levels whose cells go right at a node of words, in the order of their numbers. Those that the trees do not know go
// where missing cells go, and so does a word that is no level, which is not listed.
std::vector<int64_t> levels_to_the_right(const TreeNode& node, const ForestForm& form) {
  std::vector<int64_t> levels = node.levels;
  if (!node.missing_left) {
    const std::vector<int64_t>& unknown = form.unknown[static_cast<size_t>(node.column)];
    levels.insert(levels.end(), unknown.begin(), unknown.end());
  }
  std::sort(levels.begin(), levels.end());
  return levels;
}

// Numbers that are f32 lie below both or below neither.
float least_at_or_above(double value) {
  const auto near = static_cast<float>(value);
  return static_cast<double>(near) < value ? std::nextafter(near, std::numeric_limits<float>::infinity()) : near;
}

// Writes the tree below a node and gives the number of what stands in its place. A node of words is a chain of
// comparisons that share the child for those words: the format has no test of membership before its version 5. The last
// one is not of equality: ONNX Runtime (1.31) joins comparisons of equality in a row whose children are equal, those of
// two nodes as well. The second node's leaf, which it then never reads, it adds to the first node of the file if that
// is a leaf, and missing cells go as the first comparison has it.
int64_t add_tree(const store::Tree& tree, int64_t number, size_t at, const ForestForm& form, Ensemble& to) {
  const TreeNode& node = tree.nodes[at];
  if (node.left < 0) {
    const int64_t leaf = to.add(number, "LEAF", 0, 0, false);
    to.leaf_tree.push_back(number);
    to.leaf_node.push_back(leaf);
    to.leaf_group.push_back(tree.group);
    to.leaf_weight.push_back(static_cast<float>(node.value));
    return leaf;
  }
  const auto child = [&](int64_t which) { return add_tree(tree, number, static_cast<size_t>(which), form, to); };
  if (!node.words) {
    const size_t place = to.tree.size();
    const int64_t here = to.add(number, "BRANCH_LT", node.column, least_at_or_above(node.value), node.missing_left);
    const int64_t left = child(node.left);
    to.link(place, left, child(node.right));
    return here;
  }
  std::vector<int64_t> levels = levels_to_the_right(node, form);
  if (levels.empty() && node.missing_left) return child(node.left);  // no cell goes right
  // Where missing cells go right, the last comparison is that with a word that is no level.
  const auto last = static_cast<float>(node.missing_left ? levels.back() : 0);
  if (node.missing_left) levels.pop_back();
  const size_t first = to.tree.size();
  std::vector<int64_t> links;
  for (const int64_t level : levels) {
    links.push_back(to.add(number, "BRANCH_EQ", node.column, static_cast<float>(level), !node.missing_left));
  }
  links.push_back(to.add(number, node.missing_left ? "BRANCH_NEQ" : "BRANCH_LT", node.column, last, true));
  const int64_t right = child(node.right), left = child(node.left);
  for (size_t i = 0; i < levels.size(); ++i) to.link(first + i, right, links[i + 1]);
  to.link(first + levels.size(), node.missing_left ? left : right, node.missing_left ? right : left);
  return links.front();
}

// Sums begin with the bases, as XGBoost's do, by a tree of one leaf for each. As base_values they are added last, and a
// sum of many small leaves that is rounded beside a base of 36 comes out otherwise by a part in 100,000.
std::string sums_of_trees(const ForestForm& form, RowWriter& w) {
  std::vector<store::Tree> trees;
  for (size_t g = 0; g < form.bases.size(); ++g) {
    trees.push_back({.group = static_cast<int64_t>(g), .nodes = {{.value = form.bases[g], .levels = {}}}});
  }
  trees.insert(trees.end(), form.trees.begin(), form.trees.end());
  Ensemble e;
  for (size_t t = 0; t < trees.size(); ++t) {
    e.next_tree();
    add_tree(trees[t], static_cast<int64_t>(t), 0, form, e);
  }
  return w.emit("TreeEnsembleRegressor", {kFeatures},
                {{"n_targets", static_cast<int64_t>(form.bases.size())},
                 {"aggregate_function", std::string("SUM")},
                 {"post_transform", std::string("NONE")},
                 {"nodes_treeids", e.tree},
                 {"nodes_nodeids", e.node},
                 {"nodes_featureids", e.column},
                 {"nodes_modes", e.modes},
                 {"nodes_values", e.values},
                 {"nodes_truenodeids", e.left},
                 {"nodes_falsenodeids", e.right},
                 {"nodes_missing_value_tracks_true", e.missing_true},
                 {"target_treeids", e.leaf_tree},
                 {"target_nodeids", e.leaf_node},
                 {"target_ids", e.leaf_group},
                 {"target_weights", e.leaf_weight}},
                kTreesDomain);
}

// (raw - mean) / scale of each term, 0 where it counts as the mean; times the weights. In f64, as the model does.
std::string sums_of_products(const LinearForm& form, const std::vector<double>& origins, RowWriter& w) {
  const auto width = static_cast<int64_t>(form.terms.size()), groups = form.intercepts.numel();
  Array columns(DType::i64, {width}), levels(DType::f64, {1, width}), means(DType::f64, {1, width}),
      scales(DType::f64, {1, width}), values(DType::boolean, {1, width}), gaps(DType::boolean, {1, width}),
      words(DType::boolean, {1, width}), weights(DType::f64, {width, groups});
  for (int64_t i = 0; i < width; ++i) {
    const LinearForm::Term& t = form.terms[static_cast<size_t>(i)];
    const bool value = t.level == LinearForm::Term::kValue;
    columns.data<int64_t>()[i] = t.column;
    levels.data<double>()[i] = static_cast<double>(t.level);
    means.data<double>()[i] = t.mean - (value ? origins[static_cast<size_t>(t.column)] : 0);
    scales.data<double>()[i] = t.scale;
    values.data<bool>()[i] = value;
    gaps.data<bool>()[i] = t.level == LinearForm::Term::kMissing;
    words.data<bool>()[i] = t.words;
    for (int64_t k = 0; k < groups; ++k) {
      weights.data<double>()[i * groups + k] = form.weights.data<double>()[k * width + i];
    }
  }
  const auto scalar = [&](double v) { return w.constant(Array::of<double>({v}, {1, 1})); };
  const std::string f64 = w.emit("Cast", {kFeatures}, {{"to", data_type(DType::f64)}});
  const std::string cells = w.emit("Gather", {f64, w.constant(columns)}, {{"axis", int64_t{1}}});
  const std::string missing = w.emit("IsNaN", {cells}), gap = w.constant(gaps);
  const auto number = [&](const std::string& v) { return w.emit("Cast", {v}, {{"to", data_type(DType::f64)}}); };
  const std::string same = number(w.emit("Equal", {cells, w.constant(levels)}));
  std::string raw = w.emit("Where", {w.constant(values), cells, same});
  raw = w.emit("Where", {gap, number(missing), raw});
  const std::string unknown = w.emit("And", {w.constant(words), w.emit("Equal", {cells, scalar(store::kUnknownWord)})});
  const std::string mean = w.emit("Or", {unknown, w.emit("And", {missing, w.emit("Not", {gap})})});
  std::string numbers = w.emit("Div", {w.emit("Sub", {raw, w.constant(means)}), w.constant(scales)});
  numbers = w.emit("Where", {mean, scalar(0), numbers});
  const std::string sums =
      w.emit("Add", {w.emit("MatMul", {numbers, w.constant(weights)}), w.constant(form.intercepts)});
  return w.emit("Cast", {sums}, {{"to", data_type(DType::f32)}});
}

// The mean with as many decimals as the deviation needs, none where that is 1 or more: at most a deviation away from
// it.
double origin_near(double mean, double scale) {
  const double parts = std::pow(10, std::max(0.0, std::ceil(-std::log10(scale))));
  const double rounded = std::round(mean * parts) / parts;
  return std::isfinite(rounded) ? rounded : mean;
}

// Origins for a linear model, where f32 would move a number by too much of the deviation.
std::vector<double> origins_of_terms(const LinearForm& form, size_t columns) {
  std::vector<double> origins(columns);
  for (const LinearForm::Term& t : form.terms) {
    const double moved = std::fabs(t.mean) * static_cast<double>(std::numeric_limits<float>::epsilon()) / 2;
    if (t.level == LinearForm::Term::kValue && moved > kMostOfScale * t.scale) {
      origins[static_cast<size_t>(t.column)] = origin_near(t.mean, t.scale);
    }
  }
  return origins;
}

}  // namespace

std::vector<double> origins_of(const store::Bundle& bundle) {
  const store::RowForm form = bundle.rows->form();
  if (const auto* forest = std::get_if<ForestForm>(&form)) return forest->origins;
  if (const auto* linear = std::get_if<LinearForm>(&form)) return origins_of_terms(*linear, bundle.columns.size());
  return std::vector<double>(bundle.columns.size());
}

Array features_of(const store::Bundle& bundle, const Array& rows) {
  constexpr double kMost = std::numeric_limits<float>::max();
  const std::vector<double> origins = origins_of(bundle);
  Array out(DType::f32, rows.shape());
  for (int64_t i = 0; i < rows.numel(); ++i) {
    const double v = rows.data<double>()[i] - origins[static_cast<size_t>(i) % origins.size()];
    out.data<float>()[i] = static_cast<float>(std::isnan(v) ? v : std::clamp(v, -kMost, kMost));
  }
  return out;
}

std::vector<std::string> write_rows(const store::Bundle& bundle, Model& model) {
  const store::RowForm form = bundle.rows->form();
  const auto* forest = std::get_if<ForestForm>(&form);
  const auto* linear = std::get_if<LinearForm>(&form);
  if (!forest && !linear) {
    fail(ErrorKind::usage, "export to ONNX", "a model of ", bundle.learner,
         " has no form there: expected trees or a linear model");
  }
  if (linear && linear->terms.empty()) {
    fail(ErrorKind::usage, "export to ONNX", "the model predicts one value for all rows: no column varied in training");
  }
  const auto width = static_cast<int64_t>(bundle.columns.size());
  const std::string output = bundle.rows->predicts_classes() ? "probabilities" : "values";
  model.inputs.push_back({kFeatures, DType::f32, {{.name = "N"}, {.value = width}}});
  model.outputs.push_back({output, DType::f32, {{.name = "N"}, {.value = bundle.rows->outputs()}}});
  RowWriter w(model);
  const std::vector<double> origins = origins_of(bundle);
  if (forest) model.trees = true;
  const std::string sums = forest ? sums_of_trees(*forest, w) : sums_of_products(*linear, origins, w);
  if (forest) w.apply_link(forest->link, sums, output);
  if (linear) w.apply_link(linear->link, sums, output);
  std::vector<std::string> notes;
  std::string said;
  for (size_t i = 0; i < origins.size(); ++i) {
    if (origins[i] == 0) continue;
    notes.push_back(cat("column ", bundle.columns[i].name,
                        ": f32 is too coarse for its values; the file expects them minus ", origins[i]));
    said += cat(said.empty() ? "" : ", ", bundle.columns[i].name, " - ", origins[i]);
  }
  if (!said.empty()) model.metadata["subtracted"] = said;
  return notes;
}

}  // namespace freight::deploy::onnx
