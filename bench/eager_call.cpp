// Measures what one eager op costs beside its kernel, below the tensors: looking it up among the prepared ops
// (run/prepared_op.h) and binding its operands. A million additions of arrays of one element. The bar is one
// microsecond.
#include <cstdio>
#include <vector>

#include "freight/backend/backend.h"
#include "freight/run/plan.h"
#include "freight/run/prepared_op.h"
#include "timing.h"

namespace {

using namespace freight;
constexpr int kCalls = 100000, kRepetitions = 10;  // a million calls, of which the best tenth counts

// Nanoseconds per call of f.
template <class F>
double per_call(F&& f) {
  return best_seconds(
             [&] {
               for (int i = 0; i < kCalls; ++i) f();
             },
             kRepetitions) /
         kCalls * 1e9;
}

void measure(const char* device) {
  const Type type{DType::f32, {1}};
  const Attrs attrs = NoAttrs{};
  const std::vector<Type> types{type, type};
  const std::vector<Array> in{Array::of<float>({1}, {1}), Array::of<float>({2}, {1})}, out{Array(DType::f32, {1})};
  const std::string name = device;
  const double call = per_call([&] { prepare(Op::add, attrs, types, name)->run(in, out); });
  const double look_up = per_call([&] { prepare(Op::add, attrs, types, name); });
  // The kernel alone, at fixed addresses.
  Graph g;
  std::vector<Value> leaves;
  for (const Type& t : types) leaves.push_back(g.add(Op::input, LeafAttrs{"x", t}, {})[0]);
  g.outputs = g.add(Op::add, attrs, leaves);
  const Plan plan(g, eager_options(name));
  std::vector<char> scratch(plan.arena_bytes() + 64);
  void* operands[] = {in[0].raw(), in[1].raw(), out[0].raw(), scratch.data()};
  const double kernel = per_call([&] {
    for (const PlanStep& s : plan.steps()) s.kernel->run(operands);
  });
  std::printf("add f32[1] %-5s call %7.1f ns  (look-up %6.1f ns)  kernel %7.1f ns  bookkeeping %7.1f ns\n", device,
              call, look_up, kernel, call - kernel);
}

}  // namespace

int main() {
  for (const char* device : {"null", "ref", "cpu"}) measure(device);
  return 0;
}
