// See weight_names.h. Only networks that compute the same are here: timm's MobileNet V3 has another eps, and Hugging
// Face's MobileNets and EfficientNets pad as TensorFlow does.
#include "freight/models/weight_names.h"

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <cstring>
#include <map>
#include <string>

#include "freight/base/parse_number.h"
#include "freight/base/strings.h"

namespace freight::models {

namespace {

// {a}, {b}, {c} stand for numbers, a * at the end for the rest. In `to`, {2a+1} computes with them, and {n} is the
// number of block {b} of stage {a} among the blocks of all stages.
struct Rule {
  const char *from, *to;
  int part = -1;  // of three that are joined along axis 0
};
struct Convention {
  std::vector<Rule> rules;       // the first that matches holds
  std::vector<int> stages = {};  // how many blocks each has, for {n}
};

const std::vector<Convention>& conventions() {
  static const std::vector<Convention> kConventions = {
      // torchvision before 0.3: DenseNet
      {{{"features.denseblock{a}.denselayer{b}.norm.{c}.*", "features.denseblock{a}.denselayer{b}.norm{c}.*"},
        {"features.denseblock{a}.denselayer{b}.conv.{c}.*", "features.denseblock{a}.denselayer{b}.conv{c}.*"}}},
      // torchvision 0.12: vision transformer, as in the files that it still downloads
      {{{"encoder.layers.encoder_layer_{a}.mlp.linear_1.*", "encoder.layers.encoder_layer_{a}.mlp.0.*"},
        {"encoder.layers.encoder_layer_{a}.mlp.linear_2.*", "encoder.layers.encoder_layer_{a}.mlp.3.*"}}},
      // timm: VGG
      {{{"pre_logits.fc1.*", "classifier.0.*"},
        {"pre_logits.fc2.*", "classifier.3.*"},
        {"head.fc.*", "classifier.6.*"}}},
      // timm: MobileNet V2
      {{{"conv_stem.*", "features.0.0.*"},
        {"bn1.*", "features.0.1.*"},
        {"blocks.0.0.conv_dw.*", "features.1.conv.0.0.*"},
        {"blocks.0.0.bn1.*", "features.1.conv.0.1.*"},
        {"blocks.0.0.conv_pw.*", "features.1.conv.1.*"},
        {"blocks.0.0.bn2.*", "features.1.conv.2.*"},
        {"blocks.{a}.{b}.conv_pw.*", "features.{n}.conv.0.0.*"},
        {"blocks.{a}.{b}.bn1.*", "features.{n}.conv.0.1.*"},
        {"blocks.{a}.{b}.conv_dw.*", "features.{n}.conv.1.0.*"},
        {"blocks.{a}.{b}.bn2.*", "features.{n}.conv.1.1.*"},
        {"blocks.{a}.{b}.conv_pwl.*", "features.{n}.conv.2.*"},
        {"blocks.{a}.{b}.bn3.*", "features.{n}.conv.3.*"},
        {"conv_head.*", "features.18.0.*"},
        {"bn2.*", "features.18.1.*"},
        {"classifier.*", "classifier.1.*"}},
       {1, 2, 3, 4, 3, 3, 1}},
      // timm: EfficientNet
      {{{"conv_stem.*", "features.0.0.*"},
        {"bn1.*", "features.0.1.*"},
        {"blocks.0.{b}.conv_dw.*", "features.1.{b}.block.0.0.*"},
        {"blocks.0.{b}.bn1.*", "features.1.{b}.block.0.1.*"},
        {"blocks.0.{b}.se.conv_reduce.*", "features.1.{b}.block.1.fc1.*"},
        {"blocks.0.{b}.se.conv_expand.*", "features.1.{b}.block.1.fc2.*"},
        {"blocks.0.{b}.conv_pw.*", "features.1.{b}.block.2.0.*"},
        {"blocks.0.{b}.bn2.*", "features.1.{b}.block.2.1.*"},
        {"blocks.{a}.{b}.conv_pw.*", "features.{a+1}.{b}.block.0.0.*"},
        {"blocks.{a}.{b}.bn1.*", "features.{a+1}.{b}.block.0.1.*"},
        {"blocks.{a}.{b}.conv_dw.*", "features.{a+1}.{b}.block.1.0.*"},
        {"blocks.{a}.{b}.bn2.*", "features.{a+1}.{b}.block.1.1.*"},
        {"blocks.{a}.{b}.se.conv_reduce.*", "features.{a+1}.{b}.block.2.fc1.*"},
        {"blocks.{a}.{b}.se.conv_expand.*", "features.{a+1}.{b}.block.2.fc2.*"},
        {"blocks.{a}.{b}.conv_pwl.*", "features.{a+1}.{b}.block.3.0.*"},
        {"blocks.{a}.{b}.bn3.*", "features.{a+1}.{b}.block.3.1.*"},
        {"conv_head.*", "features.8.0.*"},
        {"bn2.*", "features.8.1.*"},
        {"classifier.*", "classifier.1.*"}}},
      // timm: RegNet
      {{{"stem.conv.*", "stem.0.*"},
        {"stem.bn.*", "stem.1.*"},
        {"s{a}.b{b}.conv1.conv.*", "trunk_output.block{a}.block{a}-{b-1}.f.a.0.*"},
        {"s{a}.b{b}.conv1.bn.*", "trunk_output.block{a}.block{a}-{b-1}.f.a.1.*"},
        {"s{a}.b{b}.conv2.conv.*", "trunk_output.block{a}.block{a}-{b-1}.f.b.0.*"},
        {"s{a}.b{b}.conv2.bn.*", "trunk_output.block{a}.block{a}-{b-1}.f.b.1.*"},
        {"s{a}.b{b}.conv3.conv.*", "trunk_output.block{a}.block{a}-{b-1}.f.c.0.*"},
        {"s{a}.b{b}.conv3.bn.*", "trunk_output.block{a}.block{a}-{b-1}.f.c.1.*"},
        {"s{a}.b{b}.se.*", "trunk_output.block{a}.block{a}-{b-1}.f.se.*"},
        {"s{a}.b{b}.downsample.conv.*", "trunk_output.block{a}.block{a}-{b-1}.proj.0.*"},
        {"s{a}.b{b}.downsample.bn.*", "trunk_output.block{a}.block{a}-{b-1}.proj.1.*"},
        {"head.fc.*", "fc.*"}}},
      // timm: ConvNeXt
      {{{"stem.{a}.*", "features.0.{a}.*"},
        {"stages.{a}.downsample.{b}.*", "features.{2a}.{b}.*"},
        {"stages.{a}.blocks.{b}.gamma", "features.{2a+1}.{b}.layer_scale"},
        {"stages.{a}.blocks.{b}.conv_dw.*", "features.{2a+1}.{b}.block.0.*"},
        {"stages.{a}.blocks.{b}.norm.*", "features.{2a+1}.{b}.block.2.*"},
        {"stages.{a}.blocks.{b}.mlp.fc1.*", "features.{2a+1}.{b}.block.3.*"},
        {"stages.{a}.blocks.{b}.mlp.fc2.*", "features.{2a+1}.{b}.block.5.*"},
        {"head.norm.*", "classifier.0.*"},
        {"head.fc.*", "classifier.2.*"}}},
      // timm: vision transformer
      {{{"cls_token", "class_token"},
        {"pos_embed", "encoder.pos_embedding"},
        {"patch_embed.proj.*", "conv_proj.*"},
        {"blocks.{a}.norm1.*", "encoder.layers.encoder_layer_{a}.ln_1.*"},
        {"blocks.{a}.attn.qkv.weight", "encoder.layers.encoder_layer_{a}.self_attention.in_proj_weight"},
        {"blocks.{a}.attn.qkv.bias", "encoder.layers.encoder_layer_{a}.self_attention.in_proj_bias"},
        {"blocks.{a}.attn.proj.*", "encoder.layers.encoder_layer_{a}.self_attention.out_proj.*"},
        {"blocks.{a}.norm2.*", "encoder.layers.encoder_layer_{a}.ln_2.*"},
        {"blocks.{a}.mlp.fc1.*", "encoder.layers.encoder_layer_{a}.mlp.0.*"},
        {"blocks.{a}.mlp.fc2.*", "encoder.layers.encoder_layer_{a}.mlp.3.*"},
        {"norm.*", "encoder.ln.*"},
        {"head.*", "heads.head.*"}}},
      // Hugging Face: ResNet
      {{{"resnet.embedder.embedder.convolution.*", "conv1.*"},
        {"resnet.embedder.embedder.normalization.*", "bn1.*"},
        {"resnet.encoder.stages.{a}.layers.{b}.layer.{c}.convolution.*", "layer{a+1}.{b}.conv{c+1}.*"},
        {"resnet.encoder.stages.{a}.layers.{b}.layer.{c}.normalization.*", "layer{a+1}.{b}.bn{c+1}.*"},
        {"resnet.encoder.stages.{a}.layers.{b}.shortcut.convolution.*", "layer{a+1}.{b}.downsample.0.*"},
        {"resnet.encoder.stages.{a}.layers.{b}.shortcut.normalization.*", "layer{a+1}.{b}.downsample.1.*"},
        {"classifier.1.*", "fc.*"}}},
      // Hugging Face: RegNet
      {{{"regnet.embedder.embedder.convolution.*", "stem.0.*"},
        {"regnet.embedder.embedder.normalization.*", "stem.1.*"},
        {"regnet.encoder.stages.{a}.layers.{b}.layer.0.convolution.*",
         "trunk_output.block{a+1}.block{a+1}-{b}.f.a.0.*"},
        {"regnet.encoder.stages.{a}.layers.{b}.layer.0.normalization.*",
         "trunk_output.block{a+1}.block{a+1}-{b}.f.a.1.*"},
        {"regnet.encoder.stages.{a}.layers.{b}.layer.1.convolution.*",
         "trunk_output.block{a+1}.block{a+1}-{b}.f.b.0.*"},
        {"regnet.encoder.stages.{a}.layers.{b}.layer.1.normalization.*",
         "trunk_output.block{a+1}.block{a+1}-{b}.f.b.1.*"},
        {"regnet.encoder.stages.{a}.layers.{b}.layer.2.attention.0.*",
         "trunk_output.block{a+1}.block{a+1}-{b}.f.se.fc1.*"},
        {"regnet.encoder.stages.{a}.layers.{b}.layer.2.attention.2.*",
         "trunk_output.block{a+1}.block{a+1}-{b}.f.se.fc2.*"},
        {"regnet.encoder.stages.{a}.layers.{b}.layer.3.convolution.*",
         "trunk_output.block{a+1}.block{a+1}-{b}.f.c.0.*"},
        {"regnet.encoder.stages.{a}.layers.{b}.layer.3.normalization.*",
         "trunk_output.block{a+1}.block{a+1}-{b}.f.c.1.*"},
        {"regnet.encoder.stages.{a}.layers.{b}.shortcut.convolution.*",
         "trunk_output.block{a+1}.block{a+1}-{b}.proj.0.*"},
        {"regnet.encoder.stages.{a}.layers.{b}.shortcut.normalization.*",
         "trunk_output.block{a+1}.block{a+1}-{b}.proj.1.*"},
        {"classifier.1.*", "fc.*"}}},
      // Hugging Face: ConvNeXt
      {{{"convnext.embeddings.patch_embeddings.*", "features.0.0.*"},
        {"convnext.embeddings.layernorm.*", "features.0.1.*"},
        {"convnext.encoder.stages.{a}.downsampling_layer.{b}.*", "features.{2a}.{b}.*"},
        {"convnext.encoder.stages.{a}.layers.{b}.layer_scale_parameter", "features.{2a+1}.{b}.layer_scale"},
        {"convnext.encoder.stages.{a}.layers.{b}.dwconv.*", "features.{2a+1}.{b}.block.0.*"},
        {"convnext.encoder.stages.{a}.layers.{b}.layernorm.*", "features.{2a+1}.{b}.block.2.*"},
        {"convnext.encoder.stages.{a}.layers.{b}.pwconv1.*", "features.{2a+1}.{b}.block.3.*"},
        {"convnext.encoder.stages.{a}.layers.{b}.pwconv2.*", "features.{2a+1}.{b}.block.5.*"},
        {"convnext.layernorm.*", "classifier.0.*"},
        {"classifier.*", "classifier.2.*"}}},
      // Hugging Face: vision transformer
      {{{"vit.embeddings.cls_token", "class_token"},
        {"vit.embeddings.position_embeddings", "encoder.pos_embedding"},
        {"vit.embeddings.patch_embeddings.projection.*", "conv_proj.*"},
        {"vit.encoder.layer.{a}.layernorm_before.*", "encoder.layers.encoder_layer_{a}.ln_1.*"},
        {"vit.encoder.layer.{a}.attention.attention.query.*",
         "encoder.layers.encoder_layer_{a}.self_attention.in_proj_*", 0},
        {"vit.encoder.layer.{a}.attention.attention.key.*", "encoder.layers.encoder_layer_{a}.self_attention.in_proj_*",
         1},
        {"vit.encoder.layer.{a}.attention.attention.value.*",
         "encoder.layers.encoder_layer_{a}.self_attention.in_proj_*", 2},
        {"vit.encoder.layer.{a}.attention.output.dense.*",
         "encoder.layers.encoder_layer_{a}.self_attention.out_proj.*"},
        {"vit.encoder.layer.{a}.layernorm_after.*", "encoder.layers.encoder_layer_{a}.ln_2.*"},
        {"vit.encoder.layer.{a}.intermediate.dense.*", "encoder.layers.encoder_layer_{a}.mlp.0.*"},
        {"vit.encoder.layer.{a}.output.dense.*", "encoder.layers.encoder_layer_{a}.mlp.3.*"},
        {"vit.layernorm.*", "encoder.ln.*"},
        {"classifier.*", "heads.head.*"}}},
  };
  return kConventions;
}

// The parts of a name that the placeholders of a rule stand for.
struct Match {
  std::array<int64_t, 3> numbers = {};  // {a}, {b}, {c}
  std::string rest;                     // *
};

bool matches(const std::string& pattern, const std::string& name, Match& match) {
  size_t at = 0;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '*') {
      match.rest = name.substr(at);
      return true;
    }
    if (pattern[i] != '{') {
      if (at == name.size() || name[at++] != pattern[i]) return false;
      continue;
    }
    const size_t begin = at;
    while (at < name.size() && std::isdigit(static_cast<unsigned char>(name[at])) != 0) ++at;
    const auto number = parse_number<int64_t>(name.substr(begin, at - begin));
    constexpr int64_t kMost = 10000;
    if (!number || *number > kMost) return false;
    match.numbers[static_cast<size_t>(pattern[i + 1] - 'a')] = *number;
    i += 2;  // the letter and the brace
  }
  return at == name.size();
}

// The value of "a", "2a+1", "b-1" or "n".
int64_t value_of(const std::string& formula, const Match& match, const std::vector<int>& stages) {
  if (formula == "n") {
    int64_t before = 1 + match.numbers[1];
    for (size_t s = 0; s < stages.size() && static_cast<int64_t>(s) < match.numbers[0]; ++s) before += stages[s];
    return before;
  }
  const size_t letter = formula.find_first_of("abc");
  const int64_t factor = letter == 0 ? 1 : formula[0] - '0';
  int64_t value = factor * match.numbers[static_cast<size_t>(formula[letter] - 'a')];
  if (letter + 2 < formula.size()) {
    const int64_t term = formula[letter + 2] - '0';
    value += formula[letter + 1] == '-' ? -term : term;
  }
  return value;
}

std::string filled(const std::string& pattern, const Match& match, const std::vector<int>& stages) {
  std::string out;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == '*') {
      out += match.rest;
    } else if (pattern[i] == '{') {
      const size_t end = pattern.find('}', i);
      out += std::to_string(value_of(pattern.substr(i + 1, end - i - 1), match, stages));
      i = end;
    } else {
      out += pattern[i];
    }
  }
  return out;
}

struct Renamed {
  std::string name;
  int part = -1;
};

Renamed renamed(const Convention& convention, const std::string& name) {
  for (const Rule& rule : convention.rules) {
    Match match;
    if (matches(rule.from, name, match)) return {filled(rule.to, match, convention.stages), rule.part};
  }
  return {name};
}

// Parts along axis 0, which have the same other axes.
Array joined(const std::array<Array, 3>& parts) {
  Shape shape = parts[0].shape();
  size_t bytes = 0;
  for (size_t i = 0; i < parts.size(); ++i) {
    const Shape& s = parts[i].shape();
    if (parts[i].dtype() != parts[0].dtype() || s.rank() == 0 ||
        Shape(s.begin() + 1, s.end()) != Shape(shape.begin() + 1, shape.end())) {
      return {};
    }
    if (i > 0) shape[0] += s[0];
  }
  Array out(parts[0].dtype(), shape);
  for (const Array& part : parts) {
    std::memcpy(static_cast<std::byte*>(out.raw()) + bytes, part.raw(), part.bytes());
    bytes += part.bytes();
  }
  return out;
}

// Lightning and other wrappers put the whole network below one module: "model.conv1.weight". Such prefixes of all names
// are removed if names of the network come out.
void remove_wrappers(std::vector<nn::NamedArray>& entries, const std::map<std::string, Shape>& own) {
  size_t begin = 0;
  while (!entries.empty()) {
    const size_t dot = entries[0].name.find('.', begin);
    if (dot == std::string::npos) return;
    const std::string prefix = entries[0].name.substr(0, dot + 1);
    begin = prefix.size();
    bool fits = false;
    for (const nn::NamedArray& e : entries) {
      if (!starts_with(e.name, prefix)) return;
      fits = fits || own.contains(e.name.substr(begin));
    }
    if (!fits) continue;
    for (nn::NamedArray& e : entries) e.name.erase(0, begin);
    return;
  }
}

}  // namespace

std::vector<nn::NamedArray> with_own_names(const nn::Module& net, std::vector<nn::NamedArray> entries) {
  std::map<std::string, Shape> own;
  for (const nn::NamedVariable& v : net.state_dict()) own[v.name] = v.variable.shape();
  if (std::none_of(entries.begin(), entries.end(), [&](const auto& e) { return own.contains(e.name); })) {
    remove_wrappers(entries, own);
  }
  const auto fitting = [&](const auto& name_of) {
    size_t count = 0;
    for (const nn::NamedArray& e : entries) count += own.count(name_of(e.name));
    return count;
  };
  const Convention* best = nullptr;
  size_t most = fitting([](const std::string& name) { return name; });
  if (most == own.size()) return entries;
  for (const Convention& c : conventions()) {
    const size_t count = fitting([&](const std::string& name) { return renamed(c, name).name; });
    if (count > most) best = &c, most = count;
  }
  if (!best) return entries;
  std::vector<nn::NamedArray> out;
  std::map<std::string, std::array<Array, 3>> parts;
  for (nn::NamedArray& e : entries) {
    const Renamed to = renamed(*best, e.name);
    if (to.part >= 0) {
      std::array<Array, 3>& all = parts[to.name];
      all[static_cast<size_t>(to.part)] = e.array;
      if (!all[0].defined() || !all[1].defined() || !all[2].defined()) continue;
      e.array = joined(all);
      if (!e.array.defined()) e.array = all[0];  // which is refused by its shape
    }
    const auto it = own.find(to.name);
    const bool other_form = it != own.end() && to.name != e.name && it->second != e.array.shape() &&
                            it->second.numel() == e.array.shape().numel();
    out.push_back({to.name, other_form ? e.array.reshaped(it->second) : e.array});
  }
  return out;
}

}  // namespace freight::models
