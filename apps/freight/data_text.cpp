// `freight data info` for sets of text: documents, classes and how long the texts are.
#include <algorithm>
#include <cstdio>

#include "data_text.h"
#include "freight/base/strings.h"
#include "freight/data/tokenizer.h"

namespace freight::app {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::pair<const char*, int64_t> kPercentiles[] = {
    {"p50", 50}, {"p90", 90}, {"p95", 95}, {"p99", 99}, {"max", 100}};

// The lengths of the documents in words, sorted.
std::vector<int64_t> lengths_of(const data::TextPart& part) {
  std::vector<int64_t> out;
  for (const std::string& text : part.texts) out.push_back(static_cast<int64_t>(data::words(text).size()));
  std::sort(out.begin(), out.end());
  return out;
}

// The smallest length that `percent` of the documents do not exceed.
int64_t percentile(const std::vector<int64_t>& sorted, int64_t percent) {
  const auto n = static_cast<int64_t>(sorted.size());
  return sorted[static_cast<size_t>(std::max<int64_t>((n * percent + 99) / 100 - 1, 0))];
}

std::vector<int64_t> per_class(const data::TextSet& set, const data::TextPart& part) {
  std::vector<int64_t> counts(set.classes.size(), 0);
  for (const int64_t label : part.labels) ++counts[static_cast<size_t>(label)];
  return counts;
}

Json part_json(const data::TextSet& set, const data::TextPart& part) {
  Json j;
  j["fingerprint"] = data::fingerprint(part);
  const std::vector<int64_t> lengths = lengths_of(part);
  if (set.corpus()) {
    j["words"] = lengths[0];
    j["bytes"] = part.texts[0].size();
    return j;
  }
  j["count"] = part.count();
  j["per_class"] = per_class(set, part);
  for (const auto& [name, percent] : kPercentiles) j["words"][name] = percentile(lengths, percent);
  return j;
}

}  // namespace

Json text_json(const data::TextSet& set, const std::string& path) {
  return {{"name", set.name},
          {"path", path},
          {"kind", set.corpus() ? "corpus" : "documents"},
          {"classes", set.classes},
          {"train", part_json(set, set.train)},
          {"test", part_json(set, set.test)}};
}

void print_text(const data::TextSet& set, const std::string& path) {
  std::printf("name     %s\nwhere    %s\n", set.name.c_str(), path.c_str());
  const std::pair<const char*, const data::TextPart*> parts[] = {{"train", &set.train}, {"test", &set.test}};
  for (const auto& [name, part] : parts) std::printf("%-8s %s\n", name, data::describe(set, *part).c_str());
  for (const auto& [name, part] : parts) {
    if (!part->note.empty()) std::printf("note     %s\n", part->note.c_str());
  }
  if (set.corpus()) {
    std::printf("words    %s train, %s test\n", with_commas(lengths_of(set.train)[0]).c_str(),
                with_commas(lengths_of(set.test)[0]).c_str());
    return;
  }
  const std::vector<int64_t> counts = per_class(set, set.train);
  std::vector<std::string> classes, figures;
  for (size_t i = 0; i < counts.size(); ++i) classes.push_back(cat(set.classes[i], " (", with_commas(counts[i]), ")"));
  std::printf("classes  %s\n", join(classes, ", ").c_str());
  const std::vector<int64_t> lengths = lengths_of(set.train);
  for (const auto& [name, percent] : kPercentiles)
    figures.push_back(cat(with_commas(percentile(lengths, percent)), " (", name, ")"));
  std::printf("words    %s per document of train\n", join(figures, ", ").c_str());
}

}  // namespace freight::app
