// See whiten.h.
#include "freight/train/whiten.h"

#include <algorithm>

#include "freight/base/error.h"
#include "freight/nn/layers.h"
#include "freight/nn/whitening.h"

namespace freight::train {

namespace {

constexpr int64_t kImages = 5120, kWindows = 5'000'000;

const nn::ConvLayer* whitening_layer(const nn::Module& m) {
  const auto* layer = dynamic_cast<const nn::ConvLayer*>(&m);
  return layer && layer->whitens() ? layer : nullptr;
}

bool any(const nn::Module& m) {
  const auto& below = m.children();
  return whitening_layer(m) || std::any_of(below.begin(), below.end(), [](const auto& c) { return any(*c.module); });
}

}  // namespace

void whiten(const models::Model& model, const Task& task) {
  if (!any(*model.net)) return;
  nn::CallRecorder recorder;
  model.output_type(1);
  for (size_t i = 1; i < recorder.calls.size(); ++i) {
    if (!whitening_layer(*recorder.calls[i].module)) continue;
    fail(ErrorKind::usage, "whiten", "layer ", recorder.calls[i].path, " of ", model.name,
         " has init whiten, and is not the network's first layer: filters are computed from images only; use another "
         "init");
  }
  const nn::ConvLayer* layer = whitening_layer(*recorder.calls.front().module);
  const std::unique_ptr<data::Feed> feed = task.plain_feed();
  if (!layer || !feed) {
    fail(ErrorKind::usage, "whiten", "model ", model.name, " has a layer of init whiten, which needs images (C, H, W)");
  }
  nn::Whitening whitening(layer->weight.shape());
  int64_t images = 0;
  feed->start(0);
  while (images < kImages && whitening.windows() < kWindows) {
    const data::FeedBatch* batch = feed->next();
    if (!batch) break;
    whitening.add(batch->inputs);
    images += batch->count;
  }
  layer->weight.set(whitening.filters());
}

}  // namespace freight::train
