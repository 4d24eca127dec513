// Modules made of modules: Sequential, Residual (main + shortcut), Concat, Sum and Product (of parallel branches),
// Auxiliary (a head that only training runs).
#pragma once
#include <type_traits>

#include "freight/nn/activation.h"
#include "freight/nn/layer_type.h"
#include "freight/nn/module.h"

namespace freight::nn {

// A child from a value (moved in) or a shared pointer.
template <class M>
std::shared_ptr<Module> share(M&& m) {
  using T = std::remove_cvref_t<M>;
  if constexpr (std::is_convertible_v<T, std::shared_ptr<Module>>) {
    return std::forward<M>(m);
  } else {
    static_assert(
        std::is_base_of_v<Module, T>,
        "children are modules: nn::ReLU(), where the function relu is meant; a class derived from nn::Module");
    static_assert(std::is_constructible_v<T, M>,
                  "a module is not copied: hand it over by std::move, or share one that std::make_shared made");
    return owned(new T(std::forward<M>(m)));
  }
}

struct SequentialOptions {
  std::vector<Child> layers;  // in order
};
// Children one after the other: Sequential(Linear(784, 128), ReLU(), Linear(128, 10)). Their names are their numbers,
// or those given to append. call() takes all inputs of the first child and gives all results of the last one; between
// two children the results of one are the inputs of the next.
class Sequential : public Module {
 public:
  using Fields = SequentialOptions;
  Sequential() = default;
  explicit Sequential(const Fields& fields);
  // Children in this order, by value or shared pointer.
  template <class First, class... Rest>
  requires((!std::is_same_v<std::remove_cvref_t<First>, Sequential> &&
            !std::is_same_v<std::remove_cvref_t<First>, Fields>) ||
           sizeof...(Rest) > 0) explicit Sequential(First&& first, Rest&&... rest) {
    append(std::forward<First>(first));
    (append(std::forward<Rest>(rest)), ...);
  }
  // Adds a child at the end; throws Error(usage) when the name is taken.
  template <class M>
  Sequential& append(M&& m) {
    append_next(share(std::forward<M>(m)));
    return *this;
  }
  template <class M>
  Sequential& append(const std::string& name, M&& m) {
    adopt(name, share(std::forward<M>(m)));
    return *this;
  }
  Fields fields() const;
  Tensor forward(const Tensor& x) override;
  std::vector<Tensor> forward_all(const std::vector<Tensor>& inputs) override;

 private:
  void append_next(std::shared_ptr<Module> child);
};

struct ResidualOptions {
  std::shared_ptr<Module> main, shortcut, activation;  // null where left out
};
// activation(main(x) + shortcut(x)); the shortcut is the identity by default. In paths the children of main appear as
// the block's own and the shortcut is "downsample", as in torchvision's residual networks. Throws Error(usage) naming
// both shapes when they differ, and for a layer of main that is named as the shortcut or the activation. He et al.
// 2016.
class Residual : public Module {
 public:
  using Fields = ResidualOptions;
  explicit Residual(const Fields& fields);  // as a declaration makes it
  // `main` is needed; without a shortcut the input itself is added, without an activation the sum is the result.
  explicit Residual(std::shared_ptr<Module> main, std::shared_ptr<Module> shortcut = nullptr,
                    std::shared_ptr<Module> activation = nullptr)
      : Residual(Fields{std::move(main), std::move(shortcut), std::move(activation)}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};

struct BranchesOptions {
  std::vector<Child> branches;  // in order
};
// The base of the following three: branches on the same input, whose results are joined.
class Branches : public Module {
 public:
  using Fields = BranchesOptions;
  // Adds a branch; throws Error(usage) when the name is taken.
  template <class M>
  Branches& append(M&& m) {
    append_next(share(std::forward<M>(m)));
    return *this;
  }
  template <class M>
  Branches& append(const std::string& name, M&& m) {
    adopt(name, share(std::forward<M>(m)));
    return *this;
  }
  Fields fields() const;
  Tensor forward(const Tensor& x) override;

 protected:
  Branches() = default;
  explicit Branches(const Fields& fields);
  virtual Tensor join(const std::vector<Tensor>& results) const = 0;  // the results of the branches in order

 private:
  void append_next(std::shared_ptr<Module> child);
};
// Results are joined along axis 1.
class Concat : public Branches {
 public:
  Concat() = default;
  explicit Concat(const Fields& fields);
  // Branches in this order, by value or shared pointer.
  template <class... M>
  requires(sizeof...(M) > 1) explicit Concat(M&&... branches) { (append(std::forward<M>(branches)), ...); }

 private:
  Tensor join(const std::vector<Tensor>& results) const override;
};
// Results, which have equal shapes, are added.
class Sum : public Branches {
 public:
  Sum() = default;
  explicit Sum(const Fields& fields);

 private:
  Tensor join(const std::vector<Tensor>& results) const override;
};
// Results, which broadcast to each other, are multiplied: a gate, as squeeze-and-excitation has one.
class Product : public Branches {
 public:
  Product() = default;
  explicit Product(const Fields& fields);

 private:
  Tensor join(const std::vector<Tensor>& results) const override;
};

struct AuxiliaryOptions {
  std::shared_ptr<Module> head;  // the layers that only training runs
  double weight = 0.3;           // of its loss
};
// Returns its input. In training it also runs `head` and passes the result to the AuxiliaryOutputs that is active on
// this thread, so that an extra loss, scaled by `weight`, reaches the layers before it directly (deep supervision).
// Evaluation skips the head. In paths the head's children appear as the module's own. Szegedy et al. 2015.
class Auxiliary : public Module {
 public:
  using Fields = AuxiliaryOptions;
  explicit Auxiliary(const Fields& fields);
  explicit Auxiliary(std::shared_ptr<Module> head, double weight = Fields{}.weight)
      : Auxiliary(Fields{std::move(head), weight}) {}
  const Fields& fields() const { return fields_; }
  Tensor forward(const Tensor& x) override;

 private:
  Fields fields_;
};

// The result of one auxiliary head.
struct AuxiliaryOutput {
  Tensor output;  // the head's result
  double weight;  // of its loss
};
// While it lives, collects the results of the Auxiliary modules that are called on this thread, in order.
class AuxiliaryOutputs {
 public:
  // Begins to collect.
  AuxiliaryOutputs();
  ~AuxiliaryOutputs();
  AuxiliaryOutputs(const AuxiliaryOutputs&) = delete;
  AuxiliaryOutputs& operator=(const AuxiliaryOutputs&) = delete;
  std::vector<AuxiliaryOutput> list;  // in the order of the calls

 private:
  AuxiliaryOutputs* before_;
};

}  // namespace freight::nn
