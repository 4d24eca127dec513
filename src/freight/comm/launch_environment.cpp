// See launch_environment.h.
#include "freight/comm/launch_environment.h"

#include <unistd.h>

#include <initializer_list>
#include <optional>

#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/parse_number.h"
#include "freight/base/printable.h"
#include "freight/base/usage.h"

namespace freight::comm {

namespace {

constexpr int kMostProcesses = 65535;

std::optional<int> number(const char* name, int least, int most) {
  const std::string text = env::get(name);
  if (text.empty()) return std::nullopt;
  const std::optional<int> v = parse_number<int>(text);
  if (!v || *v < least || *v > most) refuse_text(name, cat("a whole number from ", least, " to ", most), text);
  return v;
}

[[noreturn]] void lacks(const char* unset, const char* set) {
  refuse_unset(unset, cat(", but ", set, " is: set both"));
}

// The first of these variables that is set; the last one if none is.
const char* first_set(std::initializer_list<const char*> names) {
  for (const char* name : names) {
    if (!env::get(name).empty()) return name;
  }
  return *(names.end() - 1);
}

// The variables in which a launcher passes the same four numbers; "" for those that it does not have.
struct Names {
  const char *source, *rank, *world, *local_rank, *local_world;
};
constexpr Names kFreight = {"freight", "FREIGHT_RANK", "FREIGHT_WORLD_SIZE", "FREIGHT_LOCAL_RANK",
                            "FREIGHT_LOCAL_WORLD_SIZE"};
constexpr Names kTorchrun = {"torchrun", "RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"};
constexpr Names kOpenMpi = {"Open MPI", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
                            "OMPI_COMM_WORLD_LOCAL_SIZE"};
constexpr Names kPmi = {"PMI", "PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS"};

// A launcher that does not count the ranks of each host has all of them on this one, unless the address of the
// rendezvous says otherwise.
void guess_local(const Names& n, Launch& l) {
  if (const std::string per_node = env::get("NPROC_PER_NODE"); !per_node.empty()) {
    refuse_unset(n.local_rank, cat(", and NPROC_PER_NODE is '", excerpt(per_node), "': ", n.rank, " and ", n.world,
                                   " may count machines; start the processes of a machine by torchrun, or set ",
                                   n.local_rank, " and ", n.local_world));
  }
  if (l.world > 1 && !l.master_address.empty() && !is_loopback(l.master_address)) {
    refuse_unset(n.local_rank, cat(", and MASTER_ADDR is '", excerpt(l.master_address), "': which of the ", l.world,
                                   " processes are on this host? Set ", n.local_rank, " and ", n.local_world));
  }
  l.local_rank = l.rank;
  l.local_world = l.world;
}

void require_below(const char* name, int value, const char* bound_name, int bound) {
  if (value >= bound)
    fail(ErrorKind::usage, name, "expected less than ", bound_name, ", which is ", bound, ", got ", value);
}

std::optional<Launch> read_family(const Names& n) {
  const std::optional<int> rank = number(n.rank, 0, kMostProcesses), world = number(n.world, 1, kMostProcesses);
  if (!rank && !world) return std::nullopt;
  if (!rank || !world) lacks(rank ? n.world : n.rank, rank ? n.rank : n.world);
  Launch l = {.rank = *rank, .world = *world, .source = n.source};
  l.master_address = env::get("MASTER_ADDR");
  l.master_port = number("MASTER_PORT", 1, 65535).value_or(0);
  require_below(n.rank, l.rank, n.world, l.world);
  const std::optional<int> local = number(n.local_rank, 0, kMostProcesses),
                           local_world = number(n.local_world, 1, kMostProcesses);
  if (local && local_world) {
    l.local_rank = *local;
    l.local_world = *local_world;
    require_below(n.local_rank, l.local_rank, n.local_world, l.local_world);
    if (l.local_world > l.world) {
      fail(ErrorKind::usage, n.local_world, "expected at most ", n.world, ", which is ", l.world, ", got ",
           l.local_world);
    }
  } else if (local || local_world) {
    lacks(local ? n.local_world : n.local_rank, local ? n.local_rank : n.local_world);
  } else {
    guess_local(n, l);
  }
  return l;
}

// The tasks by node: "2(x3),1" is 2, 2, 2, 1.
std::vector<int> tasks_per_node(const char* name) {
  std::vector<int> all;
  const std::string text = env::get(name);
  for (const std::string& part : split(text, ',')) {
    std::string_view rest = part;
    const int tasks = take_number<int>(rest).value_or(0);
    int times = 1;
    if (!rest.empty()) {
      const bool repeated = starts_with(rest, "(x") && ends_with(rest, ")");
      times = repeated ? parse_number<int>(rest.substr(2, rest.size() - 3)).value_or(0) : 0;
    }
    const bool sound = tasks > 0 && times > 0 && times <= kMostProcesses;
    if (!sound) refuse_text(name, "numbers of tasks like 2(x3),1", text);
    all.insert(all.end(), static_cast<size_t>(times), tasks);
  }
  return all;
}

std::optional<Launch> read_slurm() {
  if (env::get("SLURM_STEP_ID").empty()) return std::nullopt;
  const char* const world_name = first_set({"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"});
  const std::optional<int> rank = number("SLURM_PROCID", 0, kMostProcesses),
                           world = number(world_name, 1, kMostProcesses);
  if (!rank || !world) lacks(rank ? world_name : "SLURM_PROCID", "SLURM_STEP_ID");
  Launch l = {.rank = *rank, .world = *world, .source = "Slurm"};
  require_below("SLURM_PROCID", l.rank, world_name, l.world);
  const char* const list = first_set({"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"});
  const std::string text = env::get(list);
  const std::vector<std::string> hosts = text.empty() ? std::vector<std::string>{} : expand_host_list(list, text);
  l.local_rank = number("SLURM_LOCALID", 0, kMostProcesses).value_or(hosts.size() <= 1 ? l.rank : 0);
  const auto node = static_cast<size_t>(number("SLURM_NODEID", 0, kMostProcesses).value_or(0));
  const char* const tasks = first_set({"SLURM_STEP_TASKS_PER_NODE", "SLURM_TASKS_PER_NODE"});
  if (hosts.size() <= 1) {
    l.local_world = l.world;
  } else {
    const std::vector<int> all = tasks_per_node(tasks);
    if (node >= all.size()) {
      refuse_value(tasks, env::get(tasks), cat("it has no entry for node ", node));
    }
    l.local_world = all[node];
  }
  require_below("SLURM_LOCALID", l.local_rank, tasks, l.local_world);
  l.master_address = env::get("MASTER_ADDR");
  if (l.master_address.empty() && !hosts.empty()) l.master_address = hosts[0];
  l.master_port = number("MASTER_PORT", 1, 65535).value_or(0);
  l.job = cat("slurm-", env::get("SLURM_JOB_ID"), ".", env::get("SLURM_STEP_ID"));
  return l;
}

// Kubeflow sets PET_* for a torchrun inside the container. Without torchrun they are sufficient if each machine has one
// process.
std::optional<Launch> read_kubeflow() {
  const char *const rank_name = "PET_NODE_RANK", *const world_name = "PET_NNODES";
  const std::optional<int> rank = number(rank_name, 0, kMostProcesses), world = number(world_name, 1, kMostProcesses);
  if (!rank && !world) return std::nullopt;
  if (!rank || !world) lacks(rank ? world_name : rank_name, rank ? rank_name : world_name);
  require_below(rank_name, *rank, world_name, *world);
  if (const std::string per_node = env::get("PET_NPROC_PER_NODE"); !per_node.empty() && per_node != "1") {
    fail(ErrorKind::usage, "PET_NPROC_PER_NODE", "expected 1, got '", excerpt(per_node),
         "': several processes per machine are started by torchrun");
  }
  Launch l{.rank = *rank, .world = *world, .source = "Kubeflow"};
  l.master_address = env::get(first_set({"PET_MASTER_ADDR", "MASTER_ADDR"}));
  l.master_port = number(first_set({"PET_MASTER_PORT", "MASTER_PORT"}), 1, 65535).value_or(0);
  return l;
}

// True if `outer` starts one process per machine, and each of these started the processes of `inner` on its machine.
bool nested(const Launch& inner, const Launch& outer) {
  return outer.world * inner.local_world == inner.world &&
         outer.rank * inner.local_world + inner.local_rank == inner.rank;
}

// For a launcher that runs inside another launcher's job: one of the two must count machines, or both must set the same
// numbers.
void require_agreement(const Launch& inner, const Launch& outer) {
  if (inner.rank == outer.rank && inner.world == outer.world) return;
  if (outer.world == 1 || nested(inner, outer)) return;
  fail(ErrorKind::usage, "launch variables", "contradict each other: ", inner.source, "'s say rank ", inner.rank,
       " of ", inner.world, ", ", outer.source, "'s say rank ", outer.rank, " of ", outer.world,
       "; unset those that are left over from another job");
}

}  // namespace

bool is_loopback(const std::string& host) { return host == "localhost" || host == "::1" || starts_with(host, "127."); }

Launch read_launch_environment() {
  const std::string rank_process = env::get("FREIGHT_RANK_PROCESS");
  if (!rank_process.empty() && rank_process != cat(static_cast<int64_t>(::getpid()))) return {};
  if (std::optional<Launch> own = read_family(kFreight)) {
    own->job = env::get("FREIGHT_JOB");
    if (own->job.empty()) lacks("FREIGHT_JOB", "FREIGHT_RANK");
    return *own;
  }
  // mpirun in a Slurm job starts its daemons by srun, and the ranks inherit Slurm's variables of these daemons, one per
  // machine. Hence MPI's variables come first.
  std::vector<Launch> all;
  for (std::optional<Launch> l : {read_family(kTorchrun), read_family(kOpenMpi), read_family(kPmi), read_slurm()}) {
    if (l) all.push_back(*std::move(l));
  }
  if (all.empty()) {
    if (std::optional<Launch> l = read_kubeflow()) all.push_back(*std::move(l));
  }
  const std::optional<int> pmix = number("PMIX_RANK", 0, kMostProcesses);
  if (all.empty()) {
    if (pmix) {
      fail(ErrorKind::usage, "PMIX_RANK", "is set, but the number of ranks is not: set ",
           "OMPI_COMM_WORLD_SIZE, PMI_SIZE or SLURM_STEP_NUM_TASKS");
    }
    return {};
  }
  Launch& l = all[0];
  for (size_t i = 1; i < all.size(); ++i) require_agreement(l, all[i]);
  if (pmix && *pmix != all.back().rank && *pmix != l.rank) {
    refuse_value("PMIX_RANK", cat(*pmix), cat(l.source, "'s variables say rank ", l.rank));
  }
  if (l.job.empty()) {
    for (const char* name : {"PMIX_NAMESPACE", "OMPI_MCA_ess_base_jobid", "PMI_JOBID", "TORCHELASTIC_RUN_ID"}) {
      if (const std::string id = env::get(name); !id.empty() && l.job.empty())
        l.job = cat(lower(l.source), "-", excerpt(id));
    }
    l.job = cat(l.job.empty() ? lower(l.source) : l.job, "-", l.master_port);
  }
  return l;
}

}  // namespace freight::comm
