// See examine_table.h. All figures are measured on a sample of the rows, so that a table of millions is examined in
// seconds.
#include "freight/report/examine_table.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>

#include "freight/base/philox.h"
#include "freight/base/strings.h"
#include "freight/tables/row_learner.h"
#include "freight/tables/row_parts.h"

namespace freight::report {

namespace {

constexpr int64_t kImportanceRows = 1000, kDependenceRows = 300, kBlockRows = 1 << 14;
constexpr size_t kDependentColumns = 6, kWordsShown = 10, kGrid = 20, kClassesShown = 6;
// Of wider tables, the columns that the model uses most are shuffled.
constexpr int64_t kShuffles = 3, kMostShuffled = 256;

// Evenly spread rows, or whole groups of a ranking.
store::Rows thinned(const store::Rows& rows, int64_t most) {
  const int64_t all = rows.count(), n = std::min(all, most);
  std::vector<int64_t> numbers;
  if (!rows.ranked) {
    for (int64_t k = 0; k < n; ++k) numbers.push_back(k * all / n);
    return tables::rows_at(rows, numbers);
  }
  std::vector<int64_t> begins = rows.group_begins();
  const size_t groups = begins.size(), step = static_cast<size_t>((all + most - 1) / most);
  begins.push_back(all);
  for (size_t g = 0; g < groups; g += step) {
    for (int64_t i = begins[g]; i < begins[g + 1]; ++i) numbers.push_back(i);
  }
  return tables::rows_at(rows, numbers);
}

double row_loss(const float* prediction, const store::Rows& rows, int64_t i) {
  if (rows.classification()) {
    const float p = prediction[rows.labels.data<int64_t>()[i]];
    return -std::log(static_cast<double>(std::max(p, std::numeric_limits<float>::min())));
  }
  const double error = static_cast<double>(prediction[0]) - static_cast<double>(rows.labels.data<float>()[i]);
  return error * error;
}

double mean_loss(const Array& predictions, const store::Rows& rows) {
  if (rows.ranked) return tables::evaluate(predictions, rows).loss;
  double sum = 0, all = 0;
  for (int64_t i = 0; i < rows.count(); ++i) {
    sum += rows.weight(i) * row_loss(predictions.data<float>() + i * predictions.shape()[1], rows, i);
    all += rows.weight(i);
  }
  return sum / all;
}

class TableExaminer {
 public:
  TableExaminer(const store::Bundle& bundle, const store::Rows& rows, const std::function<bool()>& poll)
      : bundle_(bundle), rows_(rows), poll_(poll), width_(static_cast<int64_t>(bundle.columns.size())) {}

  TableExamination run(int64_t worst) {
    for (const store::Column& c : bundle_.columns) out_.columns.push_back(c.name);
    if (rows_.ranked) {
      out_.queries = static_cast<int64_t>(rows_.group_begins().size());
      out_.ranking = metrics::scores_of(store::run(*bundle_.rows, rows_.values), rows_.truth());
    } else {
      find_worst(worst);
    }
    out_.importance = bundle_.rows->importance();
    const store::Rows some = thinned(rows_, kImportanceRows);
    out_.measured_rows = some.count();
    shuffle(some);
    explain(some);
    const std::vector<double>& strength = strength_of_columns();
    std::vector<int64_t> order(static_cast<size_t>(width_));
    std::iota(order.begin(), order.end(), int64_t{0});
    std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
      return strength[static_cast<size_t>(a)] > strength[static_cast<size_t>(b)];
    });
    const store::Rows fewer = thinned(rows_, kDependenceRows);
    for (size_t i = 0; i < std::min(order.size(), kDependentColumns) && poll_(); ++i) {
      if (strength[static_cast<size_t>(order[i])] > 0) depend(fewer, order[i]);
    }
    return std::move(out_);
  }

 private:
  const std::vector<double>& strength_of_columns() const {
    for (const store::Importance& i : out_.importance) {
      if (i.measure == kPermutation) return i.columns;
    }
    return out_.importance.back().columns;
  }

  std::string cell_text(int64_t column, double v) const {
    if (std::isnan(v)) return {};
    const store::Column& c = bundle_.columns[static_cast<size_t>(column)];
    if (!c.words) return cat(v);
    return v < 0 ? "(a category that was not in the training set)" : c.levels[static_cast<size_t>(v)];
  }

  void find_worst(int64_t most) {
    std::vector<std::pair<double, int64_t>> found;  // loss and row, the worst first
    std::vector<double> room;
    for (int64_t begin = 0; begin < rows_.count() && poll_(); begin += kBlockRows) {
      const int64_t n = std::min(kBlockRows, rows_.count() - begin), k = bundle_.rows->outputs();
      Array block(DType::f64, {n, width_});
      std::copy_n(rows_.values.read(begin, begin + n, room), n * width_, block.data<double>());
      const Array predictions = bundle_.rows->run(block);
      std::vector<std::pair<double, int64_t>> here;
      for (int64_t i = 0; i < n; ++i)
        here.emplace_back(-row_loss(predictions.data<float>() + i * k, rows_, begin + i), begin + i);
      found.insert(found.end(), here.begin(), here.end());
      std::sort(found.begin(), found.end());
      found.resize(std::min(found.size(), static_cast<size_t>(most)));
    }
    for (const auto& [negative, i] : found) {
      Array row(DType::f64, {1, width_});
      std::copy_n(rows_.values.read(i, i + 1, room), width_, row.data<double>());
      const Array prediction = bundle_.rows->run(row);
      WorstRow w{.row = i, .truth = {}, .predicted = {}, .loss = -negative, .cells = {}};
      if (rows_.classification()) {
        const float* p = prediction.data<float>();
        const int64_t predicted = bundle_.predicted(p, prediction.numel()), truth = rows_.labels.data<int64_t>()[i];
        const auto with_probability = [&](int64_t c) {
          return cat(bundle_.classes[static_cast<size_t>(c)], " (", fixed(100.0 * static_cast<double>(p[c]), 1), " %)");
        };
        w.truth = with_probability(truth);
        w.predicted = with_probability(predicted);
      } else {
        w.truth = cat(rows_.labels.data<float>()[i]);
        w.predicted = cat(prediction.data<float>()[0]);
      }
      for (int64_t c = 0; c < width_; ++c) w.cells.push_back(cell_text(c, row.data<double>()[c]));
      out_.worst.push_back(std::move(w));
    }
  }

  // The columns to shuffle: all, or those with the highest importance in the model.
  std::vector<int64_t> columns_to_shuffle() const {
    std::vector<int64_t> all(static_cast<size_t>(width_));
    std::iota(all.begin(), all.end(), int64_t{0});
    if (width_ <= kMostShuffled) return all;
    if (!out_.importance.empty()) {
      const std::vector<double>& by = out_.importance[0].columns;
      std::stable_sort(all.begin(), all.end(),
                       [&](int64_t a, int64_t b) { return by[static_cast<size_t>(a)] > by[static_cast<size_t>(b)]; });
    }
    all.resize(static_cast<size_t>(kMostShuffled));
    return all;
  }

  void shuffle(const store::Rows& rows) {
    const int64_t n = rows.count();
    const double before = mean_loss(store::run(*bundle_.rows, rows.values), rows);
    store::Importance importance{.measure = kPermutation, .columns = std::vector<double>(static_cast<size_t>(width_))};
    const Array values = rows.values.array().clone();
    for (const int64_t c : columns_to_shuffle()) {
      if (!poll_()) return;
      const std::vector<double> own = rows.values.column(c);
      double rise = 0;
      for (int64_t draw = 0; draw < kShuffles; ++draw) {
        PhiloxStream random(static_cast<uint64_t>(draw), 0, 0);
        for (int64_t i = n - 1; i > 0; --i) {
          const auto other = static_cast<int64_t>(random.below(static_cast<uint32_t>(i + 1)));
          std::swap(values.data<double>()[i * width_ + c], values.data<double>()[other * width_ + c]);
        }
        rise += mean_loss(bundle_.rows->run(values), rows) - before;
      }
      for (int64_t i = 0; i < n; ++i) values.data<double>()[i * width_ + c] = own[static_cast<size_t>(i)];
      importance.columns[static_cast<size_t>(c)] = rise / static_cast<double>(kShuffles);
    }
    out_.importance.push_back(std::move(importance));
  }

  void explain(const store::Rows& rows) {
    if (!bundle_.rows->explains() || !poll_()) return;
    const Array added = bundle_.rows->contributions(rows.values.array());
    const int64_t groups = added.shape()[1];
    store::Importance importance{.measure = "mean |SHAP|", .columns = std::vector<double>(static_cast<size_t>(width_))};
    for (int64_t i = 0; i < rows.count() * groups; ++i) {
      for (int64_t c = 0; c < width_; ++c) {
        importance.columns[static_cast<size_t>(c)] +=
            std::fabs(added.data<double>()[i * (width_ + 1) + c]) / static_cast<double>(rows.count() * groups);
      }
    }
    out_.importance.push_back(std::move(importance));
  }

  // Values that the column has in these rows: quantiles of numbers, or the most frequent categories.
  std::vector<double> grid_of(const store::Rows& rows, int64_t column, bool words) const {
    std::map<double, int64_t> times;
    std::vector<double> all;
    for (const double v : rows.values.column(column)) {
      if (std::isnan(v) || (words && v < 0)) continue;
      ++times[v];
      all.push_back(v);
    }
    std::vector<double> grid;
    if (words) {
      std::vector<std::pair<int64_t, double>> order;
      for (const auto& [v, count] : times) order.emplace_back(-count, v);
      std::sort(order.begin(), order.end());
      for (size_t i = 0; i < std::min(order.size(), kWordsShown); ++i) grid.push_back(order[i].second);
      return grid;
    }
    std::sort(all.begin(), all.end());
    for (size_t i = 0; i < kGrid && !all.empty(); ++i) grid.push_back(all[i * (all.size() - 1) / (kGrid - 1)]);
    grid.erase(std::unique(grid.begin(), grid.end()), grid.end());
    return grid;
  }

  void depend(const store::Rows& rows, int64_t column) {
    const store::Column& c = bundle_.columns[static_cast<size_t>(column)];
    const std::vector<double> grid = grid_of(rows, column, c.words);
    if (grid.size() < 2) return;
    PartialDependence d{.column = column, .words = {}, .at = {}, .predictions = {}, .outputs = {}};
    const int64_t k = bundle_.rows->outputs();
    const bool classes = bundle_.rows->predicts_classes();
    std::vector<int64_t> outputs;
    for (int64_t o = classes && k == 2 ? 1 : 0; o < k && outputs.size() < kClassesShown; ++o) {
      outputs.push_back(o);
      d.outputs.push_back(classes ? bundle_.classes[static_cast<size_t>(o)] : std::string());
    }
    d.predictions.resize(outputs.size());
    const Array values = rows.values.array().clone();
    for (const double v : grid) {
      for (int64_t i = 0; i < rows.count(); ++i) values.data<double>()[i * width_ + column] = v;
      const Array predictions = bundle_.rows->run(values);
      for (size_t o = 0; o < outputs.size(); ++o) {
        double sum = 0;
        for (int64_t i = 0; i < rows.count(); ++i)
          sum += static_cast<double>(predictions.data<float>()[i * k + outputs[o]]);
        d.predictions[o].push_back(sum / static_cast<double>(rows.count()));
      }
      if (c.words) {
        d.words.push_back(c.levels[static_cast<size_t>(v)]);
      } else {
        d.at.push_back(v);
      }
    }
    out_.dependence.push_back(std::move(d));
  }

  static constexpr const char* kPermutation = "permutation";
  const store::Bundle& bundle_;
  const store::Rows& rows_;
  const std::function<bool()>& poll_;
  const int64_t width_;
  TableExamination out_;
};

}  // namespace

TableExamination examine_table(const store::Bundle& bundle, const store::Rows& rows, int64_t worst,
                               const std::function<bool()>& poll) {
  return TableExaminer(bundle, rows, poll).run(worst);
}

}  // namespace freight::report
