// See train_result.h.
#include "train_result.h"

#include <cmath>

#include "freight/base/strings.h"
#include "freight/io/json_library.h"

namespace freight::app {

std::string figure(double v) { return std::fabs(v) < 1000 ? fixed(v, 4) : significant(v, 6); }

const char* name_of_set(const std::string& part) { return part == "val" ? "validation" : "test"; }

void add_figures(const train::Result& r, bool tokens, nlohmann::ordered_json& to) {
  if (r.test.count > 0) to[r.measured + "_loss"] = r.test.loss;
  if (r.test.top1) to[r.measured + "_top1"] = *r.test.top1;
  if (tokens && r.test.count > 0) to[r.measured + "_perplexity"] = std::exp(r.test.loss);
  if (r.test.metric) to[cat(r.measured, "_", r.metric_name)] = *r.test.metric;
}

std::string best_line(const train::Result& r) {
  std::string text =
      cat("best    epoch ", r.best_epoch, " of ", r.epochs, ", by ", name_of_set(r.measured), " ", r.best_by);
  if (r.ended == train::Ended::early) text += "; the run ended early, since that did not improve any more";
  return text;
}

std::string result_line(const train::Result& r, bool tokens, const std::string& effort) {
  if (r.test.count == 0) {
    return cat("fitted all samples, without a validation set  (train loss ", figure(r.train_loss), ", ", effort, ")");
  }
  std::string text = cat(name_of_set(r.measured), " ");
  if (r.test.metric) text += cat(r.metric_name, " ", figure(*r.test.metric), ", ");
  if (tokens)
    text += cat("perplexity ", figure(std::exp(r.test.loss)), " over ", with_commas(r.test.count), " tokens, ");
  if (r.test.top1)
    return cat(text, "accuracy ", fixed(*r.test.top1, 2), " %  (loss ", fixed(r.test.loss, 4), ", ", effort, ")");
  return cat(text, "loss ", significant(r.test.loss, 6), "  (", effort, ")");
}

}  // namespace freight::app
