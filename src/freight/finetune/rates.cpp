// See rates.h.
#include "freight/finetune/rates.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/strings.h"
#include "freight/base/usage.h"

namespace freight::finetune {

namespace {

constexpr const char* kBackbone = "backbone";
constexpr size_t kNamesShown = 12;

// Names of all modules and variables, outer ones first.
std::vector<std::string> paths_in(const std::vector<Layer>& layers) {
  std::vector<std::string> paths;
  std::set<std::string> seen;
  for (const Layer& l : layers) {
    for (const nn::NamedVariable& v : l.variables) {
      for (size_t dot = v.name.find('.'); dot != std::string::npos; dot = v.name.find('.', dot + 1)) {
        if (seen.insert(v.name.substr(0, dot)).second) paths.push_back(v.name.substr(0, dot));
      }
      if (seen.insert(v.name).second) paths.push_back(v.name);
    }
  }
  return paths;
}

[[noreturn]] void refuse_pattern(const char* flag, const std::string& pattern, const std::vector<Layer>& layers) {
  const std::vector<std::string> paths = paths_in(layers);
  // Without the wildcards, what was meant is nearer to a name.
  std::string plain = pattern;
  while (!plain.empty() && (plain.back() == '*' || plain.back() == '.')) plain.pop_back();
  std::vector<std::string> outer;
  for (const std::string& p : paths) {
    if (p.find('.') == std::string::npos && outer.size() < kNamesShown) outer.push_back(p);
  }
  fail(ErrorKind::usage, flag, "the pattern '", pattern, "' matches no layer of the network",
       did_you_mean(plain, paths), "; its layers are ", join(outer, ", "), " (freight models show MODEL lists all; ",
       kBackbone, " means all but the head)");
}

std::vector<std::string> patterns_in(const char* flag, const std::string& text) {
  std::vector<std::string> patterns = split(text, ',');
  for (const std::string& p : patterns) {
    if (p.empty()) refuse_text(flag, "patterns with a comma between them", text);
  }
  return patterns;
}

// Calls f(layer, variable) for all that the pattern means.
template <class F>
void for_matches(const char* flag, const std::string& pattern, const std::vector<Layer>& layers, const F& f) {
  bool any = false;
  const auto visit = [&](const auto& means) {
    for (const Layer& l : layers) {
      for (const nn::NamedVariable& v : l.variables) {
        if (!means(l, v)) continue;
        any = true;
        f(l, v.variable);
      }
    }
  };
  visit([&](const Layer&, const nn::NamedVariable& v) { return matches(pattern, v.name); });
  if (!any && pattern == kBackbone) visit([&](const Layer& l, const nn::NamedVariable&) { return !l.head; });
  if (!any) refuse_pattern(flag, pattern, layers);
}

struct Scale {
  std::string pattern;
  double factor = 1;
};
std::vector<Scale> scales_in(const std::string& text) {
  std::vector<Scale> scales;
  if (text.empty()) return scales;
  for (const std::string& part : patterns_in("--lr-scale", text)) {
    const size_t at = part.rfind('=');
    const auto factor = at == std::string::npos ? std::nullopt : parse_number<double>(part.substr(at + 1));
    if (!factor || at == 0) refuse_text("--lr-scale", "PATTERN=FACTOR, like layer4.*=0.1", part);
    if (!(*factor > 0) || !std::isfinite(*factor)) {
      fail(ErrorKind::usage, "--lr-scale", "expected a factor above 0 for ", part.substr(0, at), ", got ", *factor,
           "; --freeze leaves layers unchanged");
    }
    scales.push_back({part.substr(0, at), *factor});
  }
  return scales;
}

}  // namespace

std::string freeze(const models::Model& model, const std::string& patterns) {
  if (patterns.empty()) return {};
  const std::vector<Layer> layers = layers_of(model);
  for (const std::string& pattern : patterns_in("--freeze", patterns)) {
    for_matches("--freeze", pattern, layers, [](const Layer&, const Variable& v) {
      if (v.role() == Variable::Role::parameter) v.set_trainable(false);
    });
  }
  const int64_t all = count_parameters(*model.net), trained = model.net->parameter_count();
  if (trained == 0) {
    fail(ErrorKind::usage, "--freeze", patterns, " freezes all ", with_commas(all),
         " parameters: nothing is left to train; ", kBackbone, " freezes all but the head");
  }
  return cat("frozen: ", with_commas(all - trained), " of ", with_commas(all), " parameters (", patterns, "), ",
             with_commas(trained), " are trained; BatchNorm in frozen layers uses its running statistics");
}

std::vector<optim::ParameterGroup> groups_of(const models::Model& model, const RateSettings& s) {
  const std::vector<Scale> scales = scales_in(s.scale);
  if (s.head_lr == 0 && s.decay == 1 && scales.empty()) return {{.parameters = model.net->parameters()}};
  const std::vector<Layer> layers = layers_of(model);
  std::map<const void*, double> factors;
  for (const Layer& l : layers) {
    const bool has_own = l.head && s.head_lr > 0;
    const double factor = has_own ? s.head_lr / s.lr : std::pow(s.decay, static_cast<double>(l.depth));
    for (const nn::NamedVariable& v : l.variables) factors.emplace(v.variable.impl().get(), factor);
  }
  for (const Scale& scale : scales) {
    std::set<const void*> once;  // tied variables stand under several names
    for_matches("--lr-scale", scale.pattern, layers, [&](const Layer&, const Variable& v) {
      if (once.insert(v.impl().get()).second) factors[v.impl().get()] *= scale.factor;
    });
  }
  std::vector<optim::ParameterGroup> groups;
  for (const Variable& p : model.net->parameters()) {
    const double factor = factors.at(p.impl().get());
    const std::string name = cat("lr*", factor);
    auto at = std::find_if(groups.begin(), groups.end(), [&](const auto& g) { return g.name == name; });
    if (at == groups.end()) at = groups.insert(groups.end(), {.name = name});
    if (factor != 1) at->lr = factor * s.lr;
    at->parameters.push_back(p);
  }
  return groups;
}

std::string rates_line(const models::Model& model, const RateSettings& s) {
  if (s.head_lr == 0 && s.decay == 1 && s.scale.empty()) return {};
  std::set<const void*> of_head;
  std::string head;
  for (const Layer& l : layers_of(model)) {
    if (!l.head) continue;
    head = l.path;
    for (const nn::NamedVariable& v : l.variables) of_head.insert(v.variable.impl().get());
  }
  struct Range {
    double least = std::numeric_limits<double>::infinity(), most = 0;
    std::string text() const {
      return least == most ? significant(most, 3) : cat(significant(least, 3), " to ", significant(most, 3));
    }
  } at_head, before;
  for (const optim::ParameterGroup& group : groups_of(model, s)) {
    const double rate = group.lr.value_or(s.lr);
    for (const Variable& p : group.parameters) {
      Range& range = of_head.contains(p.impl().get()) ? at_head : before;
      range = {std::min(range.least, rate), std::max(range.most, rate)};
    }
  }
  const std::string of_before = before.most > 0 ? cat(before.text(), " of the layers before it") : std::string();
  if (at_head.most == 0) return cat("learning rates: ", of_before, "; the head is frozen");
  return cat("learning rates: ", at_head.text(), " of the head", head.empty() ? "" : cat(" (", head, ")"),
             of_before.empty() ? "" : ", ", of_before, "; lr in the metrics is that of --lr");
}

}  // namespace freight::finetune
