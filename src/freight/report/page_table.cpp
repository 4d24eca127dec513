// Sections on a model of rows: its columns, the rows with the worst predictions, and the models it was compared with.
// See page_internal.h.
#include <algorithm>
#include <numeric>

#include "freight/base/strings.h"
#include "freight/report/document.h"
#include "freight/report/markup.h"
#include "freight/report/page_internal.h"

namespace freight::report {

namespace {

constexpr size_t kColumnsShown = 30, kCellLength = 40;

std::string importance_table(const TableExamination& t) {
  if (t.importance.empty()) return {};
  size_t by = 0;
  std::vector<Column> heads = {{"column", false}};
  for (size_t i = 0; i < t.importance.size(); ++i) {
    if (t.importance[i].measure == "permutation") by = i;
    heads.push_back({t.importance[i].measure});
  }
  std::vector<size_t> order(t.columns.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](size_t a, size_t b) { return t.importance[by].columns[a] > t.importance[by].columns[b]; });
  std::vector<std::vector<std::string>> rows;
  for (size_t i = 0; i < std::min(order.size(), kColumnsShown); ++i) {
    std::vector<std::string> row = {shortened(t.columns[order[i]], 60)};
    for (const store::Importance& m : t.importance) row.push_back(figure(m.columns[order[i]]));
    rows.push_back(std::move(row));
  }
  if (order.size() > kColumnsShown) rows.push_back({cat("and ", order.size() - kColumnsShown, " weaker ones")});
  return cat(
      "<h3>Feature importance</h3><p>permutation: by how much the mean loss of ", with_commas(t.measured_rows),
      " validation rows increases when the column is shuffled. mean |SHAP|: the contribution of the column to the sums "
      "behind their predictions, up or down. gain and cover: the loss reduction of a split of the trees, and the rows "
      "that it divided, on average; splits: their number.</p>",
      data_table(heads, rows));
}

std::string dependence_charts(const TableExamination& t) {
  std::string charts, tables;
  for (const PartialDependence& d : t.dependence) {
    const std::string name = shortened(t.columns[static_cast<size_t>(d.column)], 40);
    if (d.words.empty()) {
      Plot plot{.title = name,
                .x_label = name,
                .y_label = "mean prediction",
                .scale = Plot::Scale::linear,
                .x_from_zero = false};
      for (size_t o = 0; o < d.predictions.size(); ++o) {
        Series s{
            .label = shortened(d.outputs[o], 16), .points = {}, .color = static_cast<int>(o), .value_at_end = false};
        for (size_t i = 0; i < d.at.size(); ++i) s.points.push_back({d.at[i], d.predictions[o][i]});
        plot.series.push_back(std::move(s));
      }
      charts += chart(plot);
      continue;
    }
    std::vector<Column> heads = {{name, false}};
    for (const std::string& output : d.outputs)
      heads.push_back({output.empty() ? "mean prediction" : shortened(output, 24)});
    std::vector<std::vector<std::string>> rows;
    for (size_t i = 0; i < d.words.size(); ++i) {
      std::vector<std::string> row = {shortened(d.words[i], kCellLength)};
      for (const std::vector<double>& predictions : d.predictions) row.push_back(figure(predictions[i]));
      rows.push_back(std::move(row));
    }
    tables += data_table(heads, rows);
  }
  if (charts.empty() && tables.empty()) return {};
  return cat(
      "<h3>Partial dependence</h3><p>The mean prediction if the column had the same value in all rows: of the "
      "strongest "
      "columns.</p>",
      charts.empty() ? charts : cat("<div class=\"charts\">", charts, "</div>"),
      tables.empty() ? tables : cat("<div class=\"charts\">", tables, "</div>"));
}

std::string worst_table(const TableExamination& t) {
  if (t.worst.empty()) return {};
  std::vector<Column> heads = {{"row"}, {"is", false}, {"predicted", false}, {"loss"}};
  for (const std::string& c : t.columns) heads.push_back({shortened(c, kCellLength), false});
  std::vector<std::vector<std::string>> rows;
  for (const WorstRow& w : t.worst) {
    std::vector<std::string> row = {cat(w.row), shortened(w.truth, kCellLength), shortened(w.predicted, kCellLength),
                                    figure(w.loss)};
    for (const std::string& cell : w.cells) row.push_back(shortened(cell, kCellLength));
    rows.push_back(std::move(row));
  }
  return cat("<h3>Worst predictions</h3><p>Row numbers in the validation set, from 0.</p>", data_table(heads, rows));
}

std::string time_of(double seconds) {
  return seconds >= 1      ? cat(figure(seconds), " s")
         : seconds >= 1e-3 ? cat(figure(seconds * 1e3), " ms")
                           : cat(figure(seconds * 1e6), " \u00b5s");
}

}  // namespace

std::string table_section(const TableExamination& t) {
  return importance_table(t) + dependence_charts(t) + worst_table(t);
}

std::string leaderboard_section(const train::Leaderboard& board) {
  if (board.standings.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (const train::ModelScore& s : board.standings) {
    rows.push_back({s.learner, s.deviation > 0 ? cat(figure(s.mean), " \u00b1 ", figure(s.deviation)) : figure(s.mean),
                    cat(s.folds), cat(with_commas(s.rows), s.whole ? "" : " (a fraction)"), time_of(s.fit_seconds),
                    time_of(s.row_seconds), human_bytes(s.bytes), s.settings});
  }
  std::string out = cat(
      "<section><h2>Leaderboard</h2><p>By ", escaped(board.metric),
      " cross-validated on the training set, the chosen one first; ", time_of(board.seconds), " in all.</p>",
      data_table(
          {{"model", false}, {board.metric}, {"folds"}, {"rows"}, {"a fit"}, {"a row"}, {"size"}, {"settings", false}},
          rows));
  for (const std::string& why : board.left_out) out += cat("<p class=\"note\">Skipped: ", escaped(why), "</p>");
  return out + "</section>";
}

}  // namespace freight::report
