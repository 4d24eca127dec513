// A process that was started as one of several is told about the others by the variables of whoever started it:
// Freight's own launcher (launcher.h), torchrun, Kubeflow's PET_*, Open MPI, PMI and PMIx (MPICH, Intel MPI), Slurm.
#pragma once
#include <string>
#include <vector>

namespace freight::comm {

struct Launch {
  int rank = 0, world = 1;              // of all processes
  int local_rank = 0, local_world = 1;  // of those on this host
  std::string job = {};                 // names this job among those of this host and user; "" where it is alone
  std::string master_address = {};      // host of the rendezvous; "" where it is not set
  int master_port = 0;                  // 0 where nobody said
  std::string source = {};              // "torchrun", "Slurm", ...; "" for a process that was started alone
};

// Throws Error(usage) that names the variable: for what is no number or out of range, for one that is missing beside
// another, and where two launchers contradict each other (a RANK that was exported in a shell beside mpirun's).
// Freight's own variables go before all others, since its launcher may run inside of another's job. Slurm's count only
// in a step of srun (SLURM_STEP_ID): a batch script has SLURM_PROCID and SLURM_NTASKS, too, and runs alone.
Launch read_launch_environment();

// "node[01-03,7],login" as node01, node02, node03, node7, login: Slurm's lists of hosts. Several brackets in a name
// multiply, the last running fastest. Throws Error(usage) that names `variable` for a list that has another form, or
// more than 65,536 hosts.
std::vector<std::string> expand_host_list(const std::string& variable, const std::string& text);

}  // namespace freight::comm
