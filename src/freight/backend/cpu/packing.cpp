// Frozen weights in the formats of our own kernels: panels of columns for matrix products (kernels/gemm.h), transformed
// filters for Winograd's method. The copy into one is a visible step that runs once per plan.
#include "freight/backend/cpu/families.h"
#include "freight/backend/cpu/kernels/bf16/gemm.h"
#include "freight/backend/cpu/kernels/gemm.h"
#include "freight/backend/cpu/kernels/winograd.h"
#include "freight/backend/cpu/steps.h"

namespace freight::cpu {

namespace {

// Their descriptors are their names; oneDNN's are longer.
constexpr const char *kRows = "panels of rows", *kColumns = "panels of columns", *kWinograd = "winograd";

Layout named(const char* name, int64_t bytes) {
  auto blocked = std::make_shared<BlockedLayout>();
  blocked->name = name;
  blocked->bytes = static_cast<size_t>(bytes);
  blocked->descriptor.assign(blocked->name.begin(), blocked->name.end());
  return {{}, std::move(blocked)};
}

class Packing final : public Kernel {
 public:
  explicit Packing(const StepSpec& spec)
      : type_(spec.in[0].type), strides_(spec.in[0].layout.strides), format_(spec.out[0].layout.blocked->name) {}
  void run(void* const* o) override {
    const Shape& s = type_.shape;
    if (format_ == kWinograd) {
      return transform_filters(static_cast<const float*>(o[0]), static_cast<float*>(o[1]), s[0], s[1], s[2],
                               strides_[3], strides_[0], strides_[1]);
    }
    const int n = format_ == kRows ? 0 : 1;
    if (type_.dtype == DType::bf16) {
      pack_bf16_columns(static_cast<Bf16*>(o[1]), static_cast<const Bf16*>(o[0]), strides_[1 - n], strides_[n],
                        s[1 - n], s[n]);
    } else {
      pack_columns(static_cast<float*>(o[1]), static_cast<const float*>(o[0]), strides_[1 - n], strides_[n], s[1 - n],
                   s[n]);
    }
  }
  std::string name() const override { return "pack"; }

 private:
  Type type_;
  Strides strides_;
  std::string format_;
};

}  // namespace

Layout panel_layout(const Type& weight, int column_axis) {
  const int64_t k = weight.shape[1 - column_axis], n = weight.shape[column_axis];
  const int64_t numbers = weight.dtype == DType::bf16 ? bf16_panel_size(k, n) : panel_size(k, n);
  return named(column_axis == 0 ? kRows : kColumns, numbers * static_cast<int64_t>(size_of(weight.dtype)));
}

Layout winograd_layout(const Shape& weight) {
  return named(kWinograd, filter_floats(weight[1], weight[0], weight[2]) * static_cast<int64_t>(sizeof(float)));
}

bool is_own_packing(const Layout& layout) {
  return layout.blocked &&
         (layout.blocked->name == kRows || layout.blocked->name == kColumns || layout.blocked->name == kWinograd);
}

std::unique_ptr<Kernel> make_packing(const StepSpec& spec) {
  if (!is_own_packing(spec.out[0].layout)) return nullptr;
  return std::make_unique<Packing>(spec);
}

}  // namespace freight::cpu
