// The reference backend's kernels as plan steps: operands of any dtype and strides are converted to double or int64_t
// in scratch memory, one naive loop runs, and the results are rounded back. A fused node runs its body node by node.
#include "freight/backend/ref/ref.h"

#include <algorithm>
#include <array>

#include "freight/backend/ref/kernels.h"
#include "freight/base/error.h"

namespace freight {

namespace ref {
namespace {

KernelFn find_kernel(Op op) {
  static const auto kByOp = [] {
    std::array<KernelFn, kOpCount> table{};
    for (const KernelTable& rows : {pointwise_kernels(), shape_kernels(), reduce_kernels(), contract_kernels(),
                                    linalg_kernels(), pool_kernels(), index_kernels()}) {
      for (const KernelRow& row : rows) table[static_cast<size_t>(row.op)] = row.run;
    }
    return table;
  }();
  return kByOp[static_cast<size_t>(op)];
}

size_t padded(size_t bytes) { return (bytes + 63) / 64 * 64; }

// The bytes that an operand takes as a Tensor.
size_t loaded_bytes(const Type& type) {
  return padded(static_cast<size_t>(type.numel()) * (is_complex(type.dtype) ? sizeof(std::complex<double>) : 8));
}

// Calls f(i, element offset) for all elements in row-major order.
template <class F>
void each_offset(const Operand& operand, F f) {
  const Shape& shape = operand.type.shape;
  if (same_layout(shape, operand.layout, Layout::row_major(shape))) {
    for (int64_t i = 0, n = shape.numel(); i < n; ++i) f(i, i);
  } else {
    for (Counter c(shape); c.more(); c.next()) f(c.index, offset(c.at, operand.layout.strides));
  }
}

void load(const Operand& from, const void* address, const Tensor& to) {
  dispatch(from.type.dtype, [&](auto zero) {
    using T = std::conditional_t<std::is_same_v<decltype(zero), bool>, uint8_t, decltype(zero)>;
    const bool truth = from.type.dtype == DType::boolean;
    by_element(to, [&, src = static_cast<const T*>(address)]<class C>(C) {
      each_offset(from, [&, dst = to.as<C>()](int64_t i, int64_t o) {
        const C v = element_cast<C>(src[o]);
        dst[i] = truth ? C(v != C{}) : v;
      });
    });
  });
}

void store(const Tensor& from, const Operand& to, void* address) {
  dispatch(to.type.dtype, [&]<class T>(T) {
    by_element(from, [&, dst = static_cast<T*>(address)]<class C>(C) {
      each_offset(to, [&, src = from.as<C>()](int64_t i, int64_t o) { dst[o] = element_cast<T>(src[i]); });
    });
  });
}

class LoopKernel : public Kernel {
 public:
  // Errors of the data name `called`.
  LoopKernel(Op op, const Attrs& attrs, const std::vector<Operand>& in, const std::vector<Operand>& out,
             const char* called, std::string where)
      : run_(find_kernel(op)), in_(in), out_(out), called_(called), where_(std::move(where)) {
    if (!run_) fail(ErrorKind::device, freight::name(op), "the reference backend has no kernel for this op");
    call_.op = op;
    call_.attrs = attrs;
    for (const Operand& o : in_) add(call_.in, o);
    for (const Operand& o : out_) add(call_.out, o);
  }

  void run(void* const* operands) override {
    char* scratch = static_cast<char*>(operands[in_.size() + out_.size()]);
    size_t used = 0;
    const auto take = [&](Tensor& t) {
      t.data = scratch + used;
      used += loaded_bytes(t.type);
    };
    for (size_t i = 0; i < in_.size(); ++i) {
      take(call_.in[i]);
      load(in_[i], operands[i], call_.in[i]);
    }
    for (Tensor& t : call_.out) take(t);
    compute();
    for (size_t i = 0; i < out_.size(); ++i) store(call_.out[i], out_[i], operands[in_.size() + i]);
  }
  std::string name() const override { return "ref"; }
  size_t scratch_bytes() const override { return scratch_; }

 private:
  void compute() const {
    try {
      run_(call_);
    } catch (const Error& e) {
      if (!e.where().empty()) throw;
      throw Error(e.kind(), e.kind() == ErrorKind::data ? called_ : e.op(), e.message(), where_);
    }
  }
  void add(std::vector<Tensor>& to, const Operand& operand) {
    if (operand.layout.blocked) {
      fail(ErrorKind::device, freight::name(call_.op), "the reference backend does not read blocked layout ",
           operand.layout);
    }
    to.push_back({operand.type, nullptr});
    scratch_ += loaded_bytes(operand.type);
  }

  KernelFn run_;
  std::vector<Operand> in_, out_;
  std::string called_, where_;
  Call call_;
  size_t scratch_ = 0;
};

// Runs the body of a fused node: every value of the body lies row-major in scratch memory.
class FusedKernel : public Kernel {
 public:
  explicit FusedKernel(const StepSpec& spec)
      : external_(spec.in.size() + spec.out.size()), where_(spec.node->location()) {
    const Graph& body = *attrs<FusedAttrs>(*spec.node).body;
    const std::vector<Operand>&in = spec.in, &out = spec.out;
    std::vector<ValueSlot> slots(body.values.size());  // by value
    size_t inputs = 0;
    for (const Node& node : body.nodes) {
      if (node.op == Op::input) {
        slots[node.out().index()] = {in.at(inputs), inputs};
        ++inputs;
        continue;
      }
      std::vector<ValueSlot> operands, results;
      for (Value v : node.inputs) operands.push_back(slots[v.index()]);
      for (Value v : node.outputs) {
        const Type& type = body.type(v);
        results.push_back({{type, Layout::row_major(type.shape)}, external_ + offsets_.size()});
        slots[v.index()] = results.back();
        offsets_.push_back(values_bytes_);
        values_bytes_ += padded(type.bytes());
      }
      add(node.op, node.attrs, operands, results);
    }
    for (size_t i = 0; i < body.outputs.size(); ++i) {
      add(Op::copy, NoAttrs{}, {slots[body.outputs[i].index()]}, {{out.at(i), in.size() + i}});
    }
  }

  void run(void* const* operands) override {
    char* scratch = static_cast<char*>(operands[external_]);
    for (FusedStep& s : steps_) {
      for (size_t i = 0; i < s.places.size(); ++i) {
        s.addresses[i] = s.places[i] < external_ ? operands[s.places[i]] : scratch + offsets_[s.places[i] - external_];
      }
      s.addresses.back() = scratch + values_bytes_;
      s.kernel->run(s.addresses.data());
    }
  }
  std::string name() const override { return "ref:fused"; }
  size_t scratch_bytes() const override { return values_bytes_ + most_; }

 private:
  struct ValueSlot {
    Operand operand;
    size_t place = 0;  // below external_ a given operand, else a value in scratch
  };
  struct FusedStep {
    std::unique_ptr<LoopKernel> kernel;
    std::vector<size_t> places;  // of inputs, then outputs
    std::vector<void*> addresses;
  };

  void add(Op op, const Attrs& attrs, const std::vector<ValueSlot>& in, const std::vector<ValueSlot>& out) {
    FusedStep step;
    std::vector<Operand> given, made;
    const auto take = [&](const ValueSlot& s, std::vector<Operand>& to) {
      to.push_back(s.operand);
      step.places.push_back(s.place);
    };
    for (const ValueSlot& s : in) take(s, given);
    for (const ValueSlot& s : out) take(s, made);
    step.kernel = std::make_unique<LoopKernel>(op, attrs, given, made, freight::name(op), where_);
    step.addresses.resize(step.places.size() + 1);
    most_ = std::max(most_, step.kernel->scratch_bytes());
    steps_.push_back(std::move(step));
  }

  size_t external_;
  std::string where_;
  std::vector<size_t> offsets_;  // of the values in scratch
  std::vector<FusedStep> steps_;
  size_t values_bytes_ = 0, most_ = 0;  // of the values; of what a step needs beside them
};

class RefBackend : public Backend {
 public:
  std::string name() const override { return "ref"; }
  std::string description() const override { return "naive loops in double precision, the oracle of the tests"; }
  std::string why_unsupported(DType) const override { return {}; }
  bool has_kernel(const Graph&, const Node& node) const override { return info(node.op).kind != OpKind::composite; }
  std::unique_ptr<Kernel> prepare(const StepSpec& spec) override {
    const Node& n = *spec.node;
    if (n.op == Op::fused) return std::make_unique<FusedKernel>(spec);
    return std::make_unique<LoopKernel>(n.op, n.attrs, spec.in, spec.out, n.called(), n.location());
  }
};

}  // namespace
}  // namespace ref

std::unique_ptr<Backend> make_ref_backend() { return std::make_unique<ref::RefBackend>(); }

}  // namespace freight
