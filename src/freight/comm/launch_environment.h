// A process that a launcher started learns its rank and finds the others by the variables of Freight's own
// launcher (launcher.h), torchrun, Kubeflow's PET_*, Open MPI, PMI and PMIx (MPICH, Intel MPI) or Slurm.
#pragma once
#include <string>
#include <vector>

namespace freight::comm {

struct Launch {
  int rank = 0, world = 1;              // among all processes
  int local_rank = 0, local_world = 1;  // among those on this host
  std::string job = {};  // identifies the job among those of this host and user; "" for a process without a launcher
  std::string master_address = {};  // host of the rendezvous; "" where it is not set
  int master_port = 0;              // 0 where it is not set
  std::string source = {};          // "torchrun", "Slurm", ...; "" for a process without a launcher
};

// Throws Error(usage) that names the variable if it is not a number, is out of range, or is missing while another is
// set, and if two launchers contradict each other (a RANK exported in a shell and mpirun's). Freight's own variables
// have precedence, since its launcher may run inside another launcher's job. Slurm's variables count only in a step of
// srun (SLURM_STEP_ID): a batch script has SLURM_PROCID and SLURM_NTASKS, too, but runs alone. Processes that a rank in
// Python has started inherit its variables, and run alone as well (FREIGHT_RANK_PROCESS).
Launch read_launch_environment();

// True for "localhost" and addresses that other hosts do not reach.
bool is_loopback(const std::string& host);

// Expands Slurm's lists of hosts: "node[01-03,7],login" is node01, node02, node03, node7, login. Several brackets in a
// name multiply, and the last varies fastest. Throws Error(usage) that names `variable` for a list in another form, or
// of more than 65,536 hosts.
std::vector<std::string> expand_host_list(const std::string& variable, const std::string& text);

}  // namespace freight::comm
