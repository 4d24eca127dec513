// See null.h.
#include "freight/backend/null/null.h"

namespace freight {

namespace {

class NullKernel : public Kernel {
 public:
  void run(void* const*) override {}
  std::string name() const override { return "null"; }
};

class NullBackend : public Backend {
 public:
  std::string name() const override { return "null"; }
  std::string description() const override { return "computes nothing"; }
  std::string why_unsupported(DType) const override { return {}; }
  bool has_kernel(const Graph&, const Node&) const override { return true; }
  bool fuses() const override { return true; }
  bool has_epilogue(const Graph&, const Node&, const Epilogue&) const override { return true; }
  bool aliases_views() const override { return true; }
  std::unique_ptr<Kernel> prepare(const StepSpec&) override { return std::make_unique<NullKernel>(); }
};

}  // namespace

std::unique_ptr<Backend> make_null_backend() { return std::make_unique<NullBackend>(); }

}  // namespace freight
