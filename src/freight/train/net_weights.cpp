// See net_weights_internal.h.
#include "freight/train/net_weights_internal.h"

#include <algorithm>

#include "freight/base/strings.h"
#include "freight/finetune/pretrained.h"
#include "freight/finetune/rates.h"
#include "freight/io/weights_file.h"
#include "freight/job/ranks.h"
#include "freight/job/signals.h"
#include "freight/store/weights_source.h"
#include "freight/train/step_internal.h"
#include "freight/train/whiten.h"

namespace freight::train {

std::optional<store::Preprocessing> pretrained_preprocessing(const NetRun& p, const std::string& path) {
  if (p.config.weights.empty()) return std::nullopt;
  const bool reads = !p.ranks || p.ranks->first();
  io::SafeTensors file;
  if (reads) file = p.start.checkpoint ? *p.start.checkpoint->model : io::load_weights_file(path);
  if (p.ranks) {
    const Array* const tokens = file.find(store::kTokenizer);
    const std::string text = p.ranks->from_first(file.metadata[store::kPreprocessing]),
                      bytes = p.ranks->from_first(
                          tokens ? std::string(static_cast<const char*>(tokens->raw()), tokens->bytes())
                                 : std::string());
    file = {};
    if (!text.empty()) file.metadata[store::kPreprocessing] = text;
    if (!bytes.empty()) {
      const std::vector<uint8_t> values(bytes.begin(), bytes.end());
      file.tensors.emplace_back(store::kTokenizer, Array::of<uint8_t>(values, {static_cast<int64_t>(values.size())}));
    }
  }
  return store::preprocessing_in(file, p.config.weights);
}

std::string weights_file(const NetRun& p) {
  const bool reads = !p.config.weights.empty() && !p.start.checkpoint && (!p.ranks || p.ranks->first());
  return reads ? store::weights_path(p.config.weights, {.fetch = {.cancelled = signals::stop_requested}})
               : std::string();
}

void set_weights(NetRun& p, const Own& own, const std::string& file) {
  for (const std::string& line : {p.net->frozen, finetune::rates_line(p.net->model, rate_settings(p.config))}) {
    if (!line.empty()) p.notes.push_back(line);
  }
  if (p.start.checkpoint || !p.records()) return;
  if (p.config.weights.empty()) {
    if (!p.net->frozen.empty() && !own.model) {
      p.start.warnings.emplace_back(
          "--freeze without --weights: the frozen layers keep the random values of a new network");
    }
    return whiten(p.net->model, *p.task);
  }
  using finetune::FileMayHaveMore;
  const FileMayHaveMore more = own.model || is_spec_file(p.config.model) ? FileMayHaveMore::yes : FileMayHaveMore::no;
  p.notes.push_back(finetune::load_pretrained(p.net->model, file, p.task->preprocessing().tokenizer.get(), more).line);
}

void recommend_recipe(NetRun& p, const data::Source& source) {
  const Config& c = p.config;
  if (!source || c.weights.empty() || p.start.checkpoint || c.recipe != Config().recipe) return;
  const std::vector<std::string> names = recipe_names(source);
  if (std::find(names.begin(), names.end(), "finetune") == names.end() || c.lr != recipe(source, c.recipe).lr) return;
  p.notes.push_back(
      cat("the learning rate of ", c.lr, " is for training from scratch: --recipe finetune is for pretrained weights"));
}

}  // namespace freight::train
