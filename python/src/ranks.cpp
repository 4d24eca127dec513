// The job of several processes of which this one is a rank: joining it, sums and copies over its ranks, and the sums
// within compiled functions. The Python side is freight/distributed.py; fit trains with the ranks (train_run.cpp).
#include "ranks.h"

#include <nanobind/stl/string.h>
#include <unistd.h>

#include <mutex>
#include <set>

#include "array.h"
#include "freight/base/strings.h"
#include "freight/comm/join.h"
#include "freight/comm/launch_environment.h"
#include "freight/ir/attrs.h"
#include "freight/trace/tracer.h"
#include "train.h"

namespace freight::python {

namespace {

// Sums of compiled functions, in host memory: each is made where it stands, since later steps of the plan read most.
class StepSums final : public Collectives {
 public:
  explicit StepSums(job::Ranks& ranks) : ranks_(ranks) {}
  bool sums_behind() const override { return false; }
  int64_t agree(const SumOrder& order, bool, int64_t) override {
    const std::lock_guard lock(mutex_);
    ranks_.comm().at_step(steps_++);
    if (known_.insert(order.hash).second) {  // a plan that is new to this rank is new to all
      std::vector<std::string> sums;
      for (const Type& t : order.within) sums.push_back(cat(t));
      for (const SumOrder::Sum& s : order.behind) sums.push_back(s.state);
      ranks_.need_equal("a compiled function with sums over ranks of", cat(join(sums, ", "), " #", order.hash));
    }
    return 0;
  }
  void ready(void*) override {}
  bool sum_within(std::span<void* const> parts, const Type& type) override {
    const std::lock_guard lock(mutex_);
    ranks_.comm().all_reduce(parts[0], type.numel(), type.dtype);
    return true;
  }

 private:
  job::Ranks& ranks_;
  std::mutex mutex_;
  std::set<uint64_t> known_;  // hashes of the sums of plans
  int64_t steps_ = 0;         // runs with sums so far
};

// freight._core.Job. There is one at a time; a forked child of the rank has none.
struct Job {
  Job(const comm::Launch& launch, const comm::JobOptions& options) : ranks(comm::join_job(launch, options)) {}
  job::Ranks ranks;
  StepSums sums{ranks};
  pid_t process = ::getpid();
};
Job* g_job = nullptr;

Job* joined() { return g_job && g_job->process == ::getpid() ? g_job : nullptr; }

// `name` "": the job, rank and world are the launcher's.
Job* join(const std::string& name, int rank, int world, double timeout) {
  comm::Launch launch{.rank = rank, .world = world, .local_rank = rank, .local_world = world, .job = name};
  if (name.empty()) launch = comm::read_launch_environment();
  const nb::gil_scoped_release unlocked;
  return g_job = new Job(launch, {.timeout = timeout});
}

void leave() {
  const nb::gil_scoped_release unlocked;
  if (joined()) delete g_job;
  g_job = nullptr;
}

nb::tuple launch_environment() {
  const comm::Launch l = comm::read_launch_environment();
  return nb::make_tuple(l.rank, l.world, l.local_rank, l.local_world, l.source);
}

// A copy of the elements, which f changes without the interpreter's lock.
template <class F>
nb::object changed(nb::handle x, const char* what, const F& f) {
  const View elements = copy(host(array_of(x, what)));
  const Array a = to_array(elements);
  {
    const nb::gil_scoped_release unlocked;
    f(a);
  }
  return wrap(elements);
}

nb::object sum_of(Job& job, nb::handle x) {
  return changed(x, "all_reduce", [&](const Array& a) { job.ranks.comm().all_reduce(a.raw(), a.numel(), a.dtype()); });
}

nb::object copy_of(Job& job, nb::handle x, int root) {
  return changed(x, "broadcast", [&](const Array& a) { job.ranks.broadcast(a.raw(), a.bytes(), root); });
}

// Gives the variables rank 0's elements.
void share(Job& job, nb::handle variables) {
  std::vector<nn::NamedVariable> all;
  std::string types;
  for (nb::handle h : nb::borrow<nb::sequence>(variables)) {
    all.push_back({.name = {}, .variable = variable_of(h)});
    types += cat(all.back().variable.name(), " ", all.back().variable.type(), ", ");
  }
  const nb::gil_scoped_release unlocked;
  job.ranks.need_equal("parameters", types);
  job.ranks.broadcast(all);
}

}  // namespace

job::Ranks* current_ranks() {
  Job* const job = joined();
  return job ? &job->ranks : nullptr;
}

Collectives* current_sums() {
  Job* const job = joined();
  return job ? &job->sums : nullptr;
}

void bind_ranks(nb::module_& m) {
  nb::class_<Job>(m, "Job")
      .def_prop_ro("rank", [](const Job& j) { return j.ranks.rank(); })
      .def_prop_ro("world", [](const Job& j) { return j.ranks.world(); })
      .def("sum", sum_of)
      .def("broadcast", copy_of)
      .def("share", share)
      .def(
          "barrier", [](Job& j) { j.ranks.wait_for_all(); }, nb::call_guard<nb::gil_scoped_release>())
      .def("need_equal",
           [](Job& j, const std::string& what, const std::string& mine) { j.ranks.need_equal(what, mine); })
      .def("abort", [](Job& j, const std::string& reason) { j.ranks.comm().abort(reason); })
      .def("lost", [](Job& j) { return j.ranks.comm().lost(); });
  m.def("join", join, nb::rv_policy::reference);
  m.def("leave", leave);
  m.def("launch_environment", launch_environment);
  // Within a compiled function.
  m.def("traced_sum", [](nb::handle x) {
    return wrap(trace::one(Op::all_reduce, PieceAttrs{}, {tensor_of(array_of(x, "all_reduce"))}));
  });
  m.def("assigned", [](nb::handle variable) {
    const trace::Session session;
    return session->use(variable_of(variable).impl()).assigned();
  });
}

}  // namespace freight::python
