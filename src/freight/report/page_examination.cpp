// An examination, what a model got right and wrong, as tables and images. See page_internal.h.
#include <algorithm>
#include <set>

#include "freight/base/strings.h"
#include "freight/io/image.h"
#include "freight/report/document.h"
#include "freight/report/markup.h"
#include "freight/report/page_internal.h"

namespace freight::report {

namespace {

constexpr size_t kTableClasses = 20;  // with more classes, a table of counts is too wide to read
constexpr size_t kListed = 20;        // rows of long lists that are always shown
constexpr size_t kTextLength = 600;   // characters of a text

// Counts per class.
struct ClassFigures {
  size_t number = 0;
  int64_t samples = 0, predicted = 0, right = 0;
  int64_t other = -1, other_count = 0;  // the class with which it was confused most often
  double f1() const {
    return samples + predicted > 0 ? 2 * static_cast<double>(right) / static_cast<double>(samples + predicted) : 0;
  }
  double recall() const { return samples > 0 ? static_cast<double>(right) / static_cast<double>(samples) : 0; }
};

class Examined {
 public:
  explicit Examined(const Examination& e) : e_(e), figures_(e.classes.size()) {
    for (size_t i = 0; i < figures_.size(); ++i) figures_[i].number = i;
    for (const auto& [pair, n] : e.predicted) {
      const auto [truth, predicted] = pair;
      ClassFigures& f = figures_[static_cast<size_t>(truth)];
      f.samples += n;
      figures_[static_cast<size_t>(predicted)].predicted += n;
      if (truth == predicted) {
        f.right += n;
      } else if (n > f.other_count) {
        f.other = predicted;
        f.other_count = n;
      }
    }
  }

  std::string name(int64_t number) const { return escaped(shortened(e_.classes[static_cast<size_t>(number)], 60)); }

  // The confusion matrix: rows are true classes, columns predicted ones, and a cell's shade is its fraction of the row.
  std::string table() const {
    const size_t k = e_.classes.size();
    std::string out =
        "<p>Rows: the true class. Columns: the predicted class. A cell contains the number of samples.</p>"
        "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"Confusion matrix\"><table "
        "class=\"confusion\">"
        "<thead><tr><td></td>";
    for (size_t c = 0; c < k; ++c)
      out += cat("<th scope=\"col\"><span>", name(static_cast<int64_t>(c)), "</span></th>");
    out += "</tr></thead><tbody>";
    for (size_t r = 0; r < k; ++r) {
      out += cat("<tr><th scope=\"row\">", name(static_cast<int64_t>(r)), "</th>");
      for (size_t c = 0; c < k; ++c) {
        const auto cell = e_.predicted.find({static_cast<int64_t>(r), static_cast<int64_t>(c)});
        if (cell == e_.predicted.end()) {
          out += "<td class=\"none\">0</td>";
          continue;
        }
        const double share = static_cast<double>(cell->second) / static_cast<double>(figures_[r].samples);
        out += cat("<td class=\"", r == c ? "hit" : "miss", share > 0.5 ? " deep" : "",
                   "\" style=\"--v:", fixed(0.08 + 0.92 * share, 2), "\">", cell->second, "</td>");
      }
      out += "</tr>";
    }
    return out + "</tbody></table></div>";
  }

  // The confusion matrix as an image, for many classes.
  std::string map() const {
    const double k = static_cast<double>(e_.classes.size());
    std::string out = cat("<figure class=\"map\"><svg viewBox=\"-1 -1 ", fixed(k + 2, 0), " ", fixed(k + 2, 0),
                          "\" role=\"img\" aria-label=\"Confusion matrix of ", e_.classes.size(),
                          " classes\"><rect class=\"frame\" x=\"0\" y=\"0\" width=\"", fixed(k, 0), "\" height=\"",
                          fixed(k, 0), "\"/>");
    for (const auto& [pair, n] : e_.predicted) {
      const auto [truth, predicted] = pair;
      const double share = static_cast<double>(n) / static_cast<double>(figures_[static_cast<size_t>(truth)].samples);
      out += cat("<rect class=\"", truth == predicted ? "hit" : "miss", "\" x=\"", predicted, "\" y=\"", truth,
                 "\" width=\"1\" height=\"1\" fill-opacity=\"", fixed(0.12 + 0.88 * share, 2), "\"><title>",
                 name(truth), " predicted as ", name(predicted), ": ", n, "</title></rect>");
    }
    return out +
           "</svg><figcaption>Rows from the top: the true classes. Columns from the left: the predicted classes. "
           "Darker "
           "is a larger fraction of the row; the diagonal is correct.</figcaption></figure>" +
           pairs();
  }

  std::string per_class() const {
    std::vector<ClassFigures> rows;
    for (const ClassFigures& f : figures_) {
      if (f.samples > 0 || f.predicted > 0) rows.push_back(f);
    }
    const bool many = rows.size() > kTableClasses;
    if (many) {
      std::stable_sort(rows.begin(), rows.end(),
                       [](const ClassFigures& a, const ClassFigures& b) { return a.recall() < b.recall(); });
    }
    const size_t shown = many ? kListed : rows.size();
    std::string out = "<h3>Per class</h3>" + class_table(rows, 0, shown);
    if (many) {
      out += cat("<details><summary>The other ", rows.size() - shown, " classes</summary>",
                 class_table(rows, shown, rows.size()), "</details>");
    }
    return out;
  }

 private:
  // The most frequent confusions.
  std::string pairs() const {
    std::vector<std::pair<int64_t, std::pair<int64_t, int64_t>>> all;
    for (const auto& [pair, n] : e_.predicted) {
      if (pair.first != pair.second) all.push_back({-n, pair});
    }
    if (all.empty()) return {};
    std::sort(all.begin(), all.end());
    all.resize(std::min(all.size(), kListed));
    std::string out =
        "<h3>Most frequent errors</h3><div class=\"scroll\" tabindex=\"0\"><table><thead><tr>"
        "<th scope=\"col\">true class</th><th scope=\"col\">predicted</th><th scope=\"col\" class=\"number\">"
        "samples</th></tr></thead><tbody>";
    for (const auto& [n, pair] : all) {
      out += cat("<tr><td>", name(pair.first), "</td><td>", name(pair.second), "</td><td class=\"number\">", -n,
                 "</td></tr>");
    }
    return out + "</tbody></table></div>";
  }

  std::string class_table(const std::vector<ClassFigures>& rows, size_t first, size_t last) const {
    std::string out =
        "<div class=\"scroll\" tabindex=\"0\"><table class=\"classes\"><thead><tr><th scope=\"col\">class</th>"
        "<th scope=\"col\" class=\"number\">samples</th><th scope=\"col\" class=\"number\">recall</th>"
        "<th scope=\"col\" class=\"number\">precision</th><th scope=\"col\" class=\"number\">F1</th>"
        "<th scope=\"col\">most often confused with</th></tr></thead><tbody>";
    for (size_t i = first; i < last; ++i) {
      const ClassFigures& f = rows[i];
      const double precision = f.predicted > 0 ? static_cast<double>(f.right) / static_cast<double>(f.predicted) : 0;
      out +=
          cat("<tr><th scope=\"row\">", name(static_cast<int64_t>(f.number)), "</th><td class=\"number\">", f.samples,
              "</td><td class=\"number\">", f.samples > 0 ? percent(f.recall()) : "-", "</td><td class=\"number\">",
              f.predicted > 0 ? percent(precision) : "-", "</td><td class=\"number\">", percent(f.f1()), "</td><td>",
              f.other >= 0 ? cat(name(f.other), " (", f.other_count, ")") : "-", "</td></tr>");
    }
    return out + "</tbody></table></div>";
  }

  const Examination& e_;
  std::vector<ClassFigures> figures_;
};

// An image (C, H, W) as a data URI.
std::string image_uri(const Array& image) {
  const int64_t channels = image.shape()[0], rows = image.shape()[1], columns = image.shape()[2];
  Array pixels(DType::u8, {rows, columns, channels});
  for (int64_t c = 0; c < channels; ++c) {
    for (int64_t i = 0; i < rows * columns; ++i) {
      pixels.data<uint8_t>()[i * channels + c] = image.data<uint8_t>()[c * rows * columns + i];
    }
  }
  return "data:image/png;base64," + base64(io::encode_png(pixels));
}

std::string mistake_card(const Mistake& m, const Examined& examined) {
  const std::string predicted = examined.name(m.predicted), truth = examined.name(m.truth);
  std::string shown;
  if (m.image.defined()) {
    const bool small = std::max(m.image.shape()[1], m.image.shape()[2]) <= 64;
    shown = cat("<img", small ? " class=\"pixels\"" : "", " alt=\"", truth, " confused with ", predicted, "\" width=\"",
                m.image.shape()[2], "\" height=\"", m.image.shape()[1], "\" src=\"", image_uri(m.image), "\">");
  } else if (!m.text.empty()) {
    shown = cat("<blockquote dir=\"auto\">", escaped(shortened(m.text, kTextLength)), "</blockquote>");
  }
  const std::string where =
      m.file.empty() ? cat("sample ", m.sample) : escaped(m.file.substr(m.file.find_last_of('/') + 1));
  return cat("<figure class=\"mistake\">", shown, "<figcaption><span class=\"said\">predicted <b>", predicted, "</b>, ",
             percent(m.certainty), "</span> <span class=\"is\">is <b>", truth, "</b>, ", percent(m.truth_probability),
             "</span> <span class=\"where\">", where, "</span></figcaption></figure>");
}

// All metrics with their 95 % intervals.
std::string score_section(const Examination& e) {
  if (e.scores.empty()) return {};
  std::vector<std::vector<std::string>> rows;
  for (const metrics::Score& s : e.scores) {
    const bool known = s.interval == metrics::Score::Interval::known;
    const char* const none = s.interval == metrics::Score::Interval::too_few ? "too few samples" : "-";
    rows.push_back({s.name, figure(s.value), known ? figure(s.low) : none, known ? figure(s.high) : ""});
  }
  std::string out = cat("<h3>Metrics</h3><p>From and to: the 95 % confidence interval.</p>",
                        data_table({{"metric", false}, {"value"}, {"from"}, {"to"}}, rows));
  for (const std::string& note : e.score_notes) out += cat("<p>", escaped(note), ".</p>");
  return out;
}

std::string class_section(const Examination& e) {
  if (e.multilabel) return score_section(e) + curve_section(e);
  const Examined examined(e);
  const int64_t right = e.right(), wrong = e.count - right;
  std::string out = cat("<p><b>", percent(static_cast<double>(right) / static_cast<double>(e.count)),
                        "</b> right: ", with_commas(right), " of ", with_commas(e.count), " samples, ",
                        with_commas(wrong), " wrong.</p>");
  out += "<div class=\"pair\"><div><h3>Confusion matrix</h3>";
  out += e.classes.size() <= kTableClasses ? examined.table() : examined.map();
  out += "</div><div>" + examined.per_class() + "</div></div>" + score_section(e) + curve_section(e);
  if (e.mistakes.empty()) return out;
  out +=
      cat("<h3>Most confident errors</h3><p>Wrong predictions with the highest confidence, as the model saw the "
          "samples",
          e.text ? "" : " (cropped and resized as in evaluation)", ".</p><div class=\"mistakes", e.text ? " texts" : "",
          "\">");
  for (const Mistake& m : e.mistakes) out += mistake_card(m, examined);
  return out + "</div>";
}

// The metrics of a ranking, which has no errors of single rows.
std::string ranking_section(const TableExamination& t) {
  std::vector<std::vector<std::string>> rows;
  for (const metrics::Score& s : t.ranking) rows.push_back({s.name, figure(s.value), figure(s.low), figure(s.high)});
  return cat("<h3>Ranking</h3><p>Means over ", with_commas(t.queries),
             " queries; from and to: the 95 % confidence interval. The loss is 1 - NDCG.</p>",
             data_table({{"metric", false}, {"mean"}, {"from"}, {"to"}}, rows));
}

std::string value_section(const Examination& e) {
  if (e.table && !e.table->ranking.empty()) return ranking_section(*e.table);
  std::string out =
      "<h3>Errors per output</h3><div class=\"scroll\" tabindex=\"0\"><table><thead><tr>"
      "<th scope=\"col\">output</th><th scope=\"col\" class=\"number\">mean absolute</th>"
      "<th scope=\"col\" class=\"number\">root mean square</th><th scope=\"col\" class=\"number\">variance "
      "explained</th></tr></thead><tbody>";
  for (size_t i = 0; i < e.outputs.size(); ++i) {
    const OutputErrors& o = e.outputs[i];
    const std::string name = i < e.output_names.size() ? escaped(shortened(e.output_names[i], 60)) : cat(i);
    out += cat("<tr><th scope=\"row\">", name, "</th><td class=\"number\">", figure(o.mean_absolute),
               "</td><td class=\"number\">", figure(o.root_mean_square), "</td><td class=\"number\">",
               percent(o.explained), "</td></tr>");
  }
  return out + "</tbody></table></div>" + score_section(e) + curve_section(e);
}

}  // namespace

std::string examination_section(const Examination& e) {
  const auto steps =
      std::find_if(e.provenance.begin(), e.provenance.end(), [](const auto& p) { return p.first == "steps"; });
  std::string out = cat("<p>The saved model",
                        steps == e.provenance.end() ? "" : cat(" of step ", escaped(shortened(steps->second, 20))),
                        " on the validation set of ", escaped(e.data), ": ");
  out += e.count + e.left_out == e.held_out || e.count == e.held_out
             ? cat(with_commas(e.count), " samples")
             : cat(with_commas(e.count), " of ", with_commas(e.held_out), " samples, evenly spread");
  out += ", one view of each.";
  if (e.left_out > 0) out += cat(" ", e.left_out, " could not be read and were skipped.");
  if (!e.note.empty()) out += cat(" ", escaped(e.note), ".");
  return out + "</p>" + (e.classification() ? class_section(e) : value_section(e)) +
         (e.table ? table_section(*e.table) : std::string());
}

}  // namespace freight::report
