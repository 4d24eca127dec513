// A layer is declared once: its name, one line on what it does, and its fields with type, default, range and meaning.
// Specs are read and printed by the declaration, constructors check by it, and documents and signatures list it. The
// default of a field stands in the layer's struct of options and nowhere else.
//
//   struct ScaleOptions { double factor = 2; };
//   struct Scale : nn::Module {
//     using Fields = ScaleOptions;
//     explicit Scale(const Fields& f = {}) : fields_(nn::checked<Scale>(f)) {}
//     const Fields& fields() const { return fields_; }
//     Tensor forward(const Tensor& x) override { return x * fields_.factor; }
//     Fields fields_;
//   };
//   nn::register_layer(nn::Layer<Scale>("Scale", "x times a number").field("factor", &ScaleOptions::factor, "above
//   0"));
#pragma once
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <type_traits>
#include <typeindex>
#include <utility>
#include <vector>

#include "freight/nn/config.h"

namespace freight::nn {

class Module;

// Layers without settings: using Fields = NoFields.
struct NoFields {};

// The numbers that a field may have; of extents, each of them.
struct FieldRange {
  double least = -std::numeric_limits<double>::infinity();  // the smallest allowed
  double most = std::numeric_limits<double>::infinity();    // the largest allowed
  bool below_most = false;                                  // `most` itself is too large
};
inline constexpr FieldRange kAny{};                                                   // every number
inline constexpr FieldRange kPositive{.least = 1};                                    // 1 or more
inline constexpr FieldRange kNotNegative{.least = 0};                                 // 0 or more
inline constexpr FieldRange kProbability{.least = 0, .most = 1, .below_most = true};  // [0, 1)

// A setting of a layer as its declaration has it.
struct Field {
  enum class Presence { required, optional, from_input };  // from_input: where it is left out, the input gives it
  Setting usual;                                           // key, kind and default
  std::string doc;                                         // its meaning in a few words
  Presence presence = Presence::optional;                  // whether it may be left out
  int axis = 0;                           // from_input: where it is left out, the extent of this axis of the input
  FieldRange range = {};                  // of numbers and extents
  std::vector<std::string> choices = {};  // of a text; empty: any text

  const std::string& key() const { return usual.key; }  // as in specs
};

// The declaration of a layer, whatever its class.
class LayerType {
 public:
  // A layer of this name and class; `doc` is one line.
  LayerType(std::string name, std::string doc, std::type_index type)
      : name_(std::move(name)), doc_(std::move(doc)), type_(type) {}
  virtual ~LayerType() = default;

  const std::string& name() const { return name_; }             // as in specs: "Linear"
  const std::string& doc() const { return doc_; }               // one line
  const std::vector<Field>& fields() const { return fields_; }  // in order
  std::type_index type() const { return type_; }                // its class
  // Axes that the input has at least, by the sizes that follow from it.
  int rank() const { return rank_; }
  // Made of other layers, which are among its fields.
  bool container() const;

  // A layer of one value per field, in their order. Throws Error(usage) for values that it refuses.
  virtual std::shared_ptr<Module> make(const std::vector<Setting>& values) const = 0;
  // Numbers in the largest weight of such a layer, to refuse typing errors before anything is computed.
  virtual double weight_size(const std::vector<Setting>& values) const = 0;
  // The settings of a layer of this type.
  virtual Config config(const Module& layer) const = 0;

 protected:
  // Throws Error(usage) that names layer, field, what was got and needed.
  void check(const Field& field, const Setting& value) const;
  // The settings to print: required ones, sizes, and what is not the default.
  Config config_of(std::vector<Setting> values) const;

  std::string name_, doc_;     // see name(), doc()
  std::type_index type_;       // see type()
  int rank_ = 0;               // see rank()
  std::vector<Field> fields_;  // see fields()
};

// The declaration of a layer T, which has a struct T::Fields, is made from one, and gives it back by fields().
template <class T>
class Layer : public LayerType {
 public:
  using Fields = typename T::Fields;
  // An empty declaration: the functions below add the fields.
  Layer(std::string name, std::string doc) : LayerType(std::move(name), std::move(doc), typeid(T)) {}

  // A field that has a default, that of a Fields{}. Its type is int64_t, double, bool, Extents, std::string, or, of a
  // container, a std::shared_ptr<Module> (by default null) or a std::vector<Child> of layers by name.
  template <class V, class F>
  Layer& field(const char* key, V F::*member, const char* field_doc, const FieldRange& range = kAny) {
    return add(key, member, {.usual = {}, .doc = field_doc, .range = range});
  }
  // A field without a default.
  template <class V, class F>
  Layer& required(const char* key, V F::*member, const char* field_doc, const FieldRange& range = kPositive) {
    return add(key, member, {.usual = {}, .doc = field_doc, .presence = Field::Presence::required, .range = range});
  }
  // A size that is the extent of an axis of the input where it is left out.
  template <class V, class F>
  Layer& size(const char* key, V F::*member, int axis, const char* field_doc) {
    const int needed = axis < 0 ? -axis : axis + 1;
    if (needed > rank_) rank_ = needed;
    return add(
        key, member,
        {.usual = {}, .doc = field_doc, .presence = Field::Presence::from_input, .axis = axis, .range = kPositive});
  }
  // An enumeration whose values, from 0 on, have these names.
  template <class E, class F>
  Layer& choice(const char* key, E F::*member, std::vector<std::string> names, const char* field_doc) {
    bindings_.push_back(
        {[member, names](const Fields& f, Setting& s) { s.text = names[static_cast<size_t>(f.*member)]; },
         [member, names](Fields& f, const Setting& s) {
           for (size_t i = 0; i < names.size(); ++i) {
             if (names[i] == s.text) f.*member = static_cast<E>(i);
           }
         }});
    return append({.usual = {.key = key, .kind = Setting::Kind::text}, .doc = field_doc, .choices = std::move(names)});
  }
  // Numbers in the largest weight.
  Layer& weight(double (*numbers)(const Fields&)) {
    weight_ = numbers;
    return *this;
  }

  // Throws Error(usage) that names the field which is out of its range.
  void check(const Fields& f) const {
    const std::vector<Setting> values = settings(f);
    for (size_t i = 0; i < values.size(); ++i) LayerType::check(fields_[i], values[i]);
  }
  std::shared_ptr<Module> make(const std::vector<Setting>& values) const override {
    if constexpr (!std::is_empty_v<Fields> && std::is_constructible_v<T, const Fields&>) {
      return std::make_shared<T>(from(values));
    } else if constexpr (std::is_default_constructible_v<T>) {
      return std::make_shared<T>();
    } else {
      return nullptr;
    }
  }
  double weight_size(const std::vector<Setting>& values) const override { return weight_ ? weight_(from(values)) : 0; }
  Config config(const Module& layer) const override {
    if constexpr (std::is_empty_v<Fields>) {
      return config_of({});
    } else {
      return config_of(settings(static_cast<const T&>(layer).fields()));
    }
  }

 private:
  struct Binding {
    std::function<void(const Fields&, Setting&)> get;
    std::function<void(Fields&, const Setting&)> set;
  };
  static void put(Setting& s, int64_t v) { s.integer = v; }
  static void put(Setting& s, double v) { s.number = v; }
  static void put(Setting& s, bool v) { s.flag = v; }
  static void put(Setting& s, const Extents& v) { s.extents = v; }
  static void put(Setting& s, const std::string& v) { s.text = v; }
  static void put(Setting& s, const std::shared_ptr<Module>& v) {
    s.children.clear();
    if (v) s.children.push_back({"", v});
  }
  static void put(Setting& s, const std::vector<Child>& v) { s.children = v; }
  static void take(const Setting& s, int64_t& v) { v = s.integer; }
  static void take(const Setting& s, double& v) { v = s.number; }
  static void take(const Setting& s, bool& v) { v = s.flag; }
  static void take(const Setting& s, Extents& v) { v = s.extents; }
  static void take(const Setting& s, std::string& v) { v = s.text; }
  static void take(const Setting& s, std::shared_ptr<Module>& v) {
    v = s.children.empty() ? nullptr : s.children[0].module;
  }
  static void take(const Setting& s, std::vector<Child>& v) { v = s.children; }
  template <class V>
  static constexpr Setting::Kind kind_of() {
    if constexpr (std::is_same_v<V, int64_t>) return Setting::Kind::integer;
    if constexpr (std::is_same_v<V, double>) return Setting::Kind::number;
    if constexpr (std::is_same_v<V, bool>) return Setting::Kind::flag;
    if constexpr (std::is_same_v<V, std::string>) return Setting::Kind::text;
    if constexpr (std::is_same_v<V, std::shared_ptr<Module>>) return Setting::Kind::layer;
    if constexpr (std::is_same_v<V, std::vector<Child>>) return Setting::Kind::layers;
    return Setting::Kind::extents;
  }

  template <class V, class F>
  Layer& add(const char* key, V F::*member, Field field) {
    bindings_.push_back({[member](const Fields& f, Setting& s) { put(s, f.*member); },
                         [member](Fields& f, const Setting& s) { take(s, f.*member); }});
    field.usual.key = key;
    field.usual.kind = kind_of<V>();
    return append(std::move(field));
  }
  Layer& append(Field field) {
    bindings_.back().get(Fields{}, field.usual);
    fields_.push_back(std::move(field));
    return *this;
  }
  std::vector<Setting> settings(const Fields& f) const {
    std::vector<Setting> out;
    for (size_t i = 0; i < fields_.size(); ++i) {
      out.push_back({.key = fields_[i].key(), .kind = fields_[i].usual.kind});
      bindings_[i].get(f, out.back());
    }
    return out;
  }
  Fields from(const std::vector<Setting>& values) const {
    Fields f{};
    for (size_t i = 0; i < values.size(); ++i) {
      bindings_[i].set(f, values[i]);
    }
    return f;
  }

  std::vector<Binding> bindings_;
  double (*weight_)(const Fields&) = nullptr;
};

// All declared layers: those of this library in the order of their documents, then those that were registered.
std::vector<const LayerType*> layer_types();
// Null where no layer has this name, or this class.
const LayerType* find_layer_type(const std::string& name);
const LayerType* find_layer_type(std::type_index type);
// Registers a custom layer for specs, stored models and listings, from any thread, for the rest of the process.
// Throws Error(usage) where the name or the class is declared already.
void register_layer(std::shared_ptr<const LayerType> type);
template <class T>
void register_layer(Layer<T> type) {
  static_assert(std::is_constructible_v<T, const typename T::Fields&> ||
                    (std::is_empty_v<typename T::Fields> && std::is_default_constructible_v<T>),
                "a layer is made from its Fields: give it a constructor T(const Fields&)");
  register_layer(std::make_shared<const Layer<T>>(std::move(type)));
}

// The fields, which must be in their ranges; a layer that nobody has declared has none.
template <class T>
const typename T::Fields& checked(const typename T::Fields& f) {
  if (const LayerType* type = find_layer_type(typeid(T))) static_cast<const Layer<T>&>(*type).check(f);
  return f;
}

// The declarations of this library, each list at the end of the file that has the layers.
using LayerList = std::vector<std::shared_ptr<const LayerType>>;
// The declaration as an entry of such a list.
template <class T>
std::shared_ptr<const LayerType> declared(const Layer<T>& type) {
  return std::make_shared<const Layer<T>>(type);
}
LayerList basic_layers();       // nn/layers.h
LayerList spatial_layers();     // nn/spatial.h
LayerList norm_layers();        // nn/norm.h
LayerList image_layers();       // nn/image_layers.h
LayerList text_layers();        // nn/text_layers.h
LayerList attention_layers();   // nn/attention.h
LayerList recurrent_layers();   // nn/recurrent.h
LayerList activation_layers();  // nn/activation.h
LayerList container_layers();   // nn/container.h
LayerList graph_layers();       // nn/graph_module.h

}  // namespace freight::nn
