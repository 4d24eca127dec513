// Frozen weights in the formats of our own kernels: panels of columns for matrix products (kernels/gemm.h), transformed
// filters for Winograd's method. The copy into one is a visible step that runs once per plan.
#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/winograd.h"
#include "freight/backend/cpu/steps.h"

namespace freight::cpu {

namespace {

// Their descriptors are their names; oneDNN's are longer.
constexpr const char *kRows = "panels of rows", *kColumns = "panels of columns", *kWinograd = "winograd";

Layout named(const char* name, int64_t floats) {
  auto blocked = std::make_shared<BlockedLayout>();
  blocked->name = name;
  blocked->bytes = static_cast<size_t>(floats) * sizeof(float);
  blocked->descriptor.assign(blocked->name.begin(), blocked->name.end());
  return {{}, std::move(blocked)};
}

class Packing final : public Kernel {
 public:
  explicit Packing(const StepSpec& spec)
      : shape_(spec.in[0].type.shape), strides_(spec.in[0].layout.strides), format_(spec.out[0].layout.blocked->name) {}
  void run(void* const* o) override {
    const auto* w = static_cast<const float*>(o[0]);
    auto* packed = static_cast<float*>(o[1]);
    if (format_ == kWinograd) {
      return transform_filters(w, packed, shape_[0], shape_[1], shape_[2], strides_[3], strides_[0], strides_[1]);
    }
    const int n = format_ == kRows ? 0 : 1;
    pack_columns(packed, w, strides_[1 - n], strides_[n], shape_[1 - n], shape_[n]);
  }
  std::string name() const override { return "pack"; }

 private:
  Shape shape_;
  Strides strides_;
  std::string format_;
};

}  // namespace

Layout panel_layout(const Shape& weight, int column_axis) {
  return named(column_axis == 0 ? kRows : kColumns, panel_size(weight[1 - column_axis], weight[column_axis]));
}

Layout winograd_layout(const Shape& weight) { return named(kWinograd, filter_floats(weight[1], weight[0], weight[2])); }

bool is_own_packing(const Layout& layout) {
  return layout.blocked &&
         (layout.blocked->name == kRows || layout.blocked->name == kColumns || layout.blocked->name == kWinograd);
}

std::unique_ptr<Kernel> make_packing(const StepSpec& spec) {
  if (!is_own_packing(spec.out[0].layout)) return nullptr;
  return std::make_unique<Packing>(spec);
}

}  // namespace freight::cpu
