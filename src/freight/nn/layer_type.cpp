// See layer_type.h.
#include "freight/nn/layer_type.h"

#include <algorithm>
#include <cmath>
#include <mutex>
#include <shared_mutex>

#include "freight/base/error.h"
#include "freight/base/printable.h"

namespace freight::nn {

namespace {

struct Declared {
  std::shared_mutex guard;
  LayerList list;
};

Declared& declarations() {
  static Declared all;
  static const bool filled = [] {
    for (const auto& lists :
         {basic_layers(), spatial_layers(), norm_layers(), image_layers(), text_layers(), attention_layers(),
          recurrent_layers(), activation_layers(), container_layers(), graph_layers()}) {
      all.list.insert(all.list.end(), lists.begin(), lists.end());
    }
    return true;
  }();
  (void)filled;
  return all;
}

template <class Matches>
const LayerType* find_declared(const LayerList& list, const Matches& matches) {
  const auto it = std::find_if(list.begin(), list.end(), [&](const auto& t) { return matches(*t); });
  return it == list.end() ? nullptr : it->get();
}

std::string range_text(const std::string& key, const FieldRange& r) {
  const bool low = std::isfinite(r.least), high = std::isfinite(r.most);
  return cat(low ? cat(r.least, " <= ") : "", key, high ? cat(r.below_most ? " < " : " <= ", r.most) : "");
}

}  // namespace

bool LayerType::container() const {
  return std::any_of(fields_.begin(), fields_.end(), [](const Field& f) {
    return f.usual.kind == Setting::Kind::layer || f.usual.kind == Setting::Kind::layers;
  });
}

void LayerType::check(const Field& field, const Setting& value) const {
  const auto check_number = [&](auto v) {
    const FieldRange& r = field.range;
    const auto number = static_cast<double>(v);
    // Written so that NaN fails.
    if (number >= r.least && (r.below_most ? number < r.most : number <= r.most)) return;
    const bool half = !std::isfinite(r.most) && (r.least == 0 || r.least == 1);
    fail(ErrorKind::usage, name_, field.key(),
         !half ? cat(" is out of range: expected ", range_text(field.key(), r), ", got ")
               : cat(r.least == 0 ? " must not be negative" : " must be positive", ": got "),
         v);
  };
  switch (value.kind) {
    case Setting::Kind::layer:
      if (field.presence == Field::Presence::required && value.children.empty()) {
        fail(ErrorKind::usage, name_, "'", field.key(), "' must be a layer: got none");
      }
      break;
    case Setting::Kind::layers:
      if (static_cast<double>(value.children.size()) < field.range.least) {
        fail(ErrorKind::usage, name_, "'", field.key(), "' must have at least ", field.range.least, ": got ",
             value.children.size());
      }
      break;
    case Setting::Kind::integer: check_number(value.integer); break;
    case Setting::Kind::number: check_number(value.number); break;
    case Setting::Kind::extents: std::for_each(value.extents.values.begin(), value.extents.values.end(), check_number);
    default: break;
  }
}

Config LayerType::config_of(std::vector<Setting> values) const {
  Config c{name_};
  for (size_t i = 0; i < values.size(); ++i) {
    if (fields_[i].presence == Field::Presence::optional && values[i] == fields_[i].usual) continue;
    c.settings.push_back(std::move(values[i]));
  }
  return c;
}

std::vector<const LayerType*> layer_types() {
  Declared& d = declarations();
  const std::shared_lock lock(d.guard);
  std::vector<const LayerType*> out;
  for (const auto& t : d.list) out.push_back(t.get());
  return out;
}

const LayerType* find_layer_type(const std::string& name) {
  Declared& d = declarations();
  const std::shared_lock lock(d.guard);
  return find_declared(d.list, [&](const LayerType& t) { return t.name() == name; });
}

const LayerType* find_layer_type(std::type_index type) {
  Declared& d = declarations();
  const std::shared_lock lock(d.guard);
  return find_declared(d.list, [&](const LayerType& t) { return t.type() == type; });
}

void register_layer(std::shared_ptr<const LayerType> type) {
  if (type->name().empty()) fail(ErrorKind::usage, "register_layer", "a layer needs a name: got ''");
  Declared& d = declarations();
  const std::unique_lock lock(d.guard);
  if (find_declared(d.list, [&](const LayerType& t) { return t.name() == type->name(); })) {
    fail(ErrorKind::usage, "register_layer", "there is a layer '", excerpt(type->name()),
         "' already: use another name");
  }
  if (const LayerType* same = find_declared(d.list, [&](const LayerType& t) { return t.type() == type->type(); })) {
    fail(ErrorKind::usage, "register_layer", "the class of '", excerpt(type->name()), "' is declared already, as '",
         same->name(), "'");
  }
  d.list.push_back(std::move(type));
}

}  // namespace freight::nn
