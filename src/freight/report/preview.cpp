// See preview.h. The samples come from the feed that a run trains on.
#include "freight/report/preview.h"

#include <algorithm>
#include <cmath>

#include "freight/base/error.h"
#include "freight/io/image.h"
#include "freight/report/document.h"
#include "freight/report/markup.h"
#include "freight/train/config_fields.h"
#include "freight/train/task.h"

namespace freight::report {

namespace {

// "cat"; of mixed samples "cat 70 %, dog 30 %"; of regressions the values.
std::string label_text(const Array& targets, int64_t i, const std::vector<std::string>& classes) {
  if (targets.dtype() == DType::i64 && targets.shape().rank() == 1) {
    const auto label = static_cast<size_t>(targets.data<int64_t>()[i]);
    return label < classes.size() ? classes[label] : cat(label);
  }
  if (targets.dtype() != DType::f32) return "";
  const int64_t width = targets.numel() / targets.shape()[0];
  const float* const values = targets.data<float>() + i * width;
  std::vector<std::string> parts;
  for (int64_t k = 0; k < width; ++k) {
    const bool mixed = width == static_cast<int64_t>(classes.size());
    if (mixed && values[k] > 0.005f) {
      parts.push_back(cat(classes[static_cast<size_t>(k)], " ", fixed(100 * static_cast<double>(values[k]), 0), " %"));
    } else if (!mixed) {
      parts.push_back(figure(values[k]));
    }
  }
  return join(parts, ", ");
}

// The sample (C, H, W) before it was normalized, as a PNG in the page.
std::string image_markup(const Array& inputs, int64_t i, const store::Preprocessing& p, const std::string& label) {
  const int64_t channels = inputs.shape()[1], rows = inputs.shape()[2], columns = inputs.shape()[3];
  const float* const x = inputs.data<float>() + i * channels * rows * columns;
  Array image(DType::u8, channels == 1 ? Shape{rows, columns} : Shape{rows, columns, channels});
  for (int64_t c = 0; c < channels; ++c) {
    const float mean = p.mean.empty() ? 0 : p.mean[static_cast<size_t>(c)];
    const float std = p.std.empty() ? 1 : p.std[static_cast<size_t>(c)];
    for (int64_t at = 0; at < rows * columns; ++at) {
      const float value = std::clamp((x[c * rows * columns + at] * std + mean) * 255, 0.0f, 255.0f);
      image.data<uint8_t>()[at * channels + c] = static_cast<uint8_t>(std::lround(value));
    }
  }
  constexpr int64_t kShown = 128;  // pixels of the page; small images grow by whole factors
  const int64_t factor = std::max<int64_t>(1, kShown / std::max<int64_t>(columns, 1));
  return cat("<figure class=\"sample\"><img alt=\"", escaped(label), "\" width=\"", columns * factor,
             "\" src=\"data:image/png;base64,", base64(io::encode_png(image)), "\"><figcaption>", escaped(label),
             "</figcaption></figure>\n");
}

std::string text_markup(const Array& tokens, int64_t i, const store::Preprocessing& p, const std::string& label) {
  const int64_t length = tokens.shape()[1];
  const int32_t* begin = tokens.data<int32_t>() + i * length;
  const int32_t* end = begin + length;
  while (end > begin && end[-1] == 0) --end;  // padding
  return cat("<p><b>", escaped(label), "</b> (", end - begin, " tokens) ",
             escaped(p.tokenizer->decode({begin, static_cast<size_t>(end - begin)})), "</p>\n");
}

// The settings that change samples and differ from none at all.
std::string settings_of(const train::Config& config) {
  const train::Config usual;
  std::vector<std::pair<std::string, std::string>> facts;
  for (const train::Field& f : train::config_fields()) {
    const std::string group = f.group;
    if (!starts_with(group, "Regularization") && !starts_with(group, "Image files") && !starts_with(group, "Text"))
      continue;
    std::visit(
        [&](auto member) {
          if (config.*member != usual.*member) facts.emplace_back(f.flag(), escaped(cat(config.*member)));
        },
        f.member);
  }
  return definitions(facts);
}

}  // namespace

std::string preview_page(const train::Config& config, const data::Source& source, const PreviewOptions& options) {
  const data::Content content = source.content();
  if (content == data::Content::table) {
    fail(ErrorKind::usage, source.where(), "is a table, which freight data info describes; expected images or texts");
  }
  train::Config c = config;
  c.batch_size = std::min(c.batch_size, options.samples);
  const std::unique_ptr<train::Task> task = train::make_task(c, source, {.on_bad = data::OnBad::skip});
  const store::Preprocessing p = task->preprocessing();
  const std::vector<std::string> classes = task->classes();
  const std::unique_ptr<data::Feed> feed = task->train_feed({});
  const std::string title = cat("Training samples of ", source.where());
  std::string body =
      cat("<h1>", escaped(title),
          "</h1>\n<style>.sample{display:inline-block;margin:4px}.sample img{image-rendering:pixelated}</style>\n",
          "<p>", with_commas(task->train_count()), " samples of training. Each epoch draws other changes.</p>\n",
          settings_of(config));
  for (int64_t epoch = 0; epoch < options.epochs; ++epoch) {
    body += cat("<h2>Epoch ", epoch + 1, "</h2>\n<div>\n");
    feed->start(epoch);
    int64_t shown = 0;
    for (data::FeedBatch* batch = feed->next(); batch && shown < options.samples; batch = feed->next()) {
      const Array& x = batch->inputs;
      const bool images = x.dtype() == DType::f32 && x.shape().rank() == 4 && (x.shape()[1] == 1 || x.shape()[1] == 3);
      const bool texts = x.dtype() == DType::i32 && x.shape().rank() == 2 && p.tokenizer;
      if (!images && !texts) {
        fail(ErrorKind::usage, source.where(), "has samples of shape ", x.shape(), ": expected images or texts");
      }
      for (int64_t i = 0; i < x.shape()[0] && shown < options.samples; ++i, ++shown) {
        const std::string label = label_text(batch->targets, i, classes);
        body += images ? image_markup(x, i, p, label) : text_markup(x, i, p, label);
      }
    }
    body += "</div>\n";
  }
  return document(title, body);
}

}  // namespace freight::report
