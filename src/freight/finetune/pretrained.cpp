// See pretrained.h.
#include "freight/finetune/pretrained.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "freight/base/error.h"
#include "freight/base/listing.h"
#include "freight/base/strings.h"
#include "freight/finetune/layers.h"
#include "freight/models/weight_names.h"
#include "freight/store/bundle.h"

namespace freight::finetune {

namespace {

constexpr size_t kShown = 4;  // names of each list

using Entries = std::map<std::string, Array>;

bool counts(const std::string& name) { return !ends_with(name, "num_batches_tracked"); }

// A network and a file: the tensors that both have by name and shape, and all of each.
struct Overlap {
  size_t common = 0, of_net = 0, of_file = 0;
  // 1 where all are common (the Dice coefficient).
  double share() const { return 2 * static_cast<double>(common) / static_cast<double>(of_net + of_file); }
};

Overlap overlap_of(const nn::Module& net, const std::vector<nn::NamedArray>& entries) {
  std::map<std::string, Shape> shapes;
  for (const nn::NamedVariable& v : net.state_dict()) shapes[v.name] = v.variable.shape();
  Overlap o{.of_net = shapes.size()};
  for (const nn::NamedArray& e : models::with_own_names(net, entries)) {
    if (!counts(e.name)) continue;
    ++o.of_file;
    const auto at = shapes.find(e.name);
    o.common += at != shapes.end() && at->second == e.array.shape() ? 1 : 0;
  }
  return o;
}

// "; the file has the weights of resnet34 (216 of its 218 tensors fit): --model resnet34", or nothing where no other
// built-in network fits better than this one. The head and the channels of the input may differ.
std::string nearest_network(const models::Model& model, const std::vector<nn::NamedArray>& entries) {
  Overlap best = overlap_of(*model.net, entries);
  std::string name;
  for (const models::Entry& e : models::registry()) {
    if (e.vocabulary > 0) continue;
    std::optional<models::Model> other;
    try {
      const bool images = model.input.shape.rank() == 3 && e.input.rank() == 3;
      other = models::create(e.name, {.input = images ? Shape{model.input.shape[0], e.input[1], e.input[2]} : Shape{}});
    } catch (const Error&) {
      continue;  // it does not take such samples
    }
    const Overlap o = overlap_of(*other->net, entries);
    if (o.share() > best.share()) best = o, name = e.name;
  }
  if (name.empty() || name == model.name || best.share() < 0.5) return {};
  return cat("; the file has the weights of ", name, " (", best.common, " of its ", best.of_file,
             " tensors fit): --model ", name);
}

// A load, layer by layer.
struct Matching {
  std::vector<nn::NamedVariable> variables;
  std::vector<nn::NamedArray> values;  // theirs
  LoadReport report;
  std::vector<std::string> missing, misshapen, unexpected;  // as messages list them

  void fit(const nn::NamedVariable& v, const Array& given) {
    variables.push_back(v);
    values.push_back({v.name, given});
    report.loaded.push_back(v.name);
  }
  void keep_new(const nn::NamedVariable& v, const Array* other) {
    report.initialized.push_back(other ? cat(v.name, " ", v.variable.shape(), " (file ", other->shape(), ")") : v.name);
  }
  void refuse(const nn::NamedVariable& v, const Array* other) {
    if (other) {
      misshapen.push_back(cat(v.name, " (file ", other->shape(), ", model ", v.variable.shape(), ")"));
    } else {
      missing.push_back(v.name);
    }
  }
  std::string faults(const std::vector<std::string>& of_file) const {
    std::string out;
    std::vector<std::string> near = missing;
    for (std::string& name : near) {
      if (const std::string other = nearest(name, of_file); !other.empty()) name += cat(" (nearest: ", other, ")");
    }
    if (!missing.empty()) out += cat("; missing: ", join_first(near, kShown));
    if (!misshapen.empty()) out += cat("; wrong shape: ", join_first(misshapen, kShown));
    if (!unexpected.empty()) out += cat("; unexpected: ", join_first(unexpected, kShown));
    return out;
  }
};

bool fits(const nn::NamedVariable& v, const Array* given) {
  return given && given->shape() == v.variable.shape() &&
         is_floating(given->dtype()) == is_floating(v.variable.type().dtype);
}

const Array* find(const Entries& entries, const std::string& name) {
  const auto at = entries.find(name);
  return at == entries.end() ? nullptr : &at->second;
}

// The first layer of the new head: behind the last one of which anything fits.
size_t first_of_head(const std::vector<Layer>& layers, const Entries& entries) {
  size_t first = 0;
  for (size_t i = 0; i < layers.size(); ++i) {
    if (layers[i].auxiliary) continue;
    const auto& vars = layers[i].variables;
    const bool any = std::any_of(vars.begin(), vars.end(),
                                 [&](const nn::NamedVariable& v) { return fits(v, find(entries, v.name)); });
    if (any) first = i + 1;
  }
  return first;
}

// A head takes the features of the layers before it, which have other meanings where there are others of them. `hint`
// makes the end of the message.
void need_same_inputs(const nn::NamedVariable& v, const Array* given, const std::string& path,
                      const std::function<std::string()>& hint) {
  if (!given || given->shape().rank() != v.variable.shape().rank()) return;
  for (int64_t axis = 1; axis < given->shape().rank(); ++axis) {
    if (given->shape()[axis] == v.variable.shape()[axis]) continue;
    fail(ErrorKind::checkpoint, path, "the input of the head does not fit: ", v.name, " takes ", given->shape()[axis],
         " features in the file ", given->shape(), ", the model's layers before it give ", v.variable.shape()[axis],
         " ", v.variable.shape(), hint());
  }
}

std::string line_of(const LoadReport& r, const std::string& path) {
  return cat("weights of ", path, ": ", r.loaded.size(), r.loaded.size() == 1 ? " tensor loaded" : " tensors loaded",
             r.initialized.empty() ? "" : cat("; initialized: ", join_first(r.initialized, kShown)),
             r.ignored.empty() ? "" : cat("; ignored: ", join_first(r.ignored, kShown)));
}

}  // namespace

LoadReport load_pretrained(models::Model& model, const std::string& path, const data::Tokenizer* tokens,
                           FileMayHaveMore more) {
  const std::vector<nn::NamedArray> given = store::read_weights(*model.net, path, tokens);
  Entries entries;
  for (const nn::NamedArray& e : given) {
    if (counts(e.name)) entries.emplace(e.name, e.array);
  }
  std::vector<std::string> unused;
  for (const auto& [name, array] : entries) unused.push_back(name);
  const std::vector<Layer> layers = layers_of(model);
  const size_t head = first_of_head(layers, entries);
  const auto auxiliary = static_cast<size_t>(std::count_if(
      layers.begin(), layers.begin() + static_cast<std::ptrdiff_t>(head), [](const Layer& l) { return l.auxiliary; }));
  const auto hint = [&] {
    const std::string network = nearest_network(model, given);
    return network.empty() ? "; in a spec, give the layer another name to train it from scratch" : network;
  };
  Matching m;
  for (size_t i = 0; i < layers.size(); ++i) {
    const bool replaceable = layers[i].auxiliary || i >= head;
    for (const nn::NamedVariable& v : layers[i].variables) {
      const Array* const array = find(entries, v.name);
      std::erase(unused, v.name);
      if (fits(v, array)) {
        m.fit(v, *array);
      } else if (replaceable) {
        if (i >= head && layers[i].head) need_same_inputs(v, array, path, hint);
        m.keep_new(v, array);
      } else {
        m.refuse(v, array);
      }
    }
  }
  (more == FileMayHaveMore::yes ? m.report.ignored : m.unexpected) = unused;
  // A new head has at most as many layers as what is loaded: a file of which less fits is another network's.
  const bool mostly_new = layers.size() - head > head - auxiliary;
  if (const std::string faults = m.faults(unused); !faults.empty() || mostly_new) {
    fail(ErrorKind::checkpoint, path, "weights do not fit the model ", model.name, ": ", m.report.loaded.size(),
         " of its ", model.net->state_dict().size(), " tensors are in the file", faults, nearest_network(model, given));
  }
  nn::load_values(m.variables, m.values, {.source = path, .adopt = true});
  m.report.line = line_of(m.report, path);
  return m.report;
}

}  // namespace freight::finetune
