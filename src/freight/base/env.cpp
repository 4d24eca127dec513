// The table of environment variables and the only getenv of the project.
#include "freight/base/env.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>

#include "freight/base/error.h"
#include "freight/base/log.h"
#include "freight/base/usage.h"

namespace freight::env {

const std::vector<Variable>& variables() {
  static const std::vector<Variable> kTable = {
      {"FREIGHT_DATA", "directory that is searched for built-in datasets", "--data-dir"},
      {"FREIGHT_DATA_URL", "base address that datasets are downloaded from", "--url"},
      {"FREIGHT_WEIGHTS_URL", "base address that torchvision's weights are downloaded from: a mirror", ""},
      {"TORCH_HOME", "PyTorch's cache, where torchvision's weights are (hub/checkpoints)", ""},
      {"HF_HOME", "Hugging Face's folder, whose hub/ is the cache of its models", ""},
      {"HF_HUB_CACHE", "that cache, if it is elsewhere", ""},
      {"HF_ENDPOINT", "address that Hugging Face's models are downloaded from: a mirror", ""},
      {"HF_TOKEN", "access token for private and gated models of Hugging Face", "", "", true},
      {"HF_HUB_OFFLINE", "1: use only what is in Hugging Face's cache", ""},
      {"FREIGHT_CACHE", "directory for downloads, measured kernel choices and compiled kernels", ""},
      {"FREIGHT_DEVICE", "default device: auto, cpu, ref, cuda:N, opencl:N", "--device"},
      {"FREIGHT_LOG", "log level: error, warn, info, debug", "-v, -q", "error|warn|info|debug"},
      {"FREIGHT_VERIFY", "1: verify the graph after every pass", "", "0|1"},
      {"FREIGHT_DUMP", "directory: write the graph after every pass", ""},
      {"FREIGHT_TUNE", "0: no plan-time measurement of kernels, fixed choices", "--deterministic", "0|1"},
      {"FREIGHT_BF16", "1: compute in bf16 even where the CPU only emulates it, slowly", "", "0|1"},
      {"FREIGHT_AVX512", "0: kernels of AVX2, on a CPU that has AVX-512 as well", "", "0|1"},
      {"FREIGHT_LAPACK", "file of the LAPACK library for eigh, svd and eig on the CPU; none: slow loops, without one",
       ""},
      {"FREIGHT_CUDA_LIBS", "folders, separated by ':', that are searched first for NVIDIA's libraries", ""},
      {"FREIGHT_CUDA_GRAPH", "0: kernels are launched one by one, not as a CUDA graph", "", "0|1"},
      {"FREIGHT_XGBOOST", "the libxgboost.so that fits and runs trees; none: no trees", "--xgboost"},
      {"CUDA_VISIBLE_DEVICES", "the CUDA devices to use: numbers or UUIDs; empty or -1: none", ""},
      {"CUDA_DEVICE_ORDER", "order of CUDA devices; PCI_BUS_ID unless set", ""},
      {"CUDA_HOME", "a CUDA toolkit", ""},
      {"CUDA_PATH", "a CUDA toolkit", ""},
      {"VIRTUAL_ENV", "a Python environment whose packages may contain NVIDIA's libraries and XGBoost", ""},
      {"CONDA_PREFIX", "a Python environment whose packages may contain NVIDIA's libraries and XGBoost", ""},
      {"FREIGHT_PYTHON_EXECUTABLE", "the Python that launch runs scripts by, set by the Python package", ""},
      {"OMP_NUM_THREADS", "number of compute threads", ""},
      {"FREIGHT_SHARE_CPUS", "0: use all threads even while other programs use the cores", "", "0|1"},
      {"FREIGHT_COMM",
       "what moves data between processes: auto (NCCL between CUDA devices, else shared memory on one host, else "
       "Gloo), shared, gloo, nccl",
       "--comm", "auto|shared|gloo|nccl"},
      {"FREIGHT_INTERFACE", "network interface of this host for that, by name or address", "--interface"},
      {"FREIGHT_TOKEN", "secret that authenticates the processes of a job on several hosts", "", "", true},
      {"FREIGHT_TOKEN_FILE", "file with that secret; rank 0 creates it if it is missing", "--token-file"},
      {"NCCL_MULTI_RANK_GPU_ENABLE", "NCCL, 2.30 or newer: 1: with --comm nccl processes may share a GPU", ""},
      {"FREIGHT_GLOO", "the libgloo.so.0 to load", ""},
      {"FREIGHT_RANK", "rank of this process, set by Freight's launcher together with the next four", ""},
      {"FREIGHT_WORLD_SIZE", "number of processes", ""},
      {"FREIGHT_LOCAL_RANK", "rank of this process on its host", ""},
      {"FREIGHT_LOCAL_WORLD_SIZE", "number of processes on this host", ""},
      {"FREIGHT_JOB", "rendezvous name of the processes of a job on one host", ""},
      {"FREIGHT_RANK_PROCESS", "set by a rank in Python: its process, whose child processes are no ranks", ""},
      {"FREIGHT_STEPS", "set by that launcher with --elastic: the descriptor where rank 0 counts its steps", ""},
      {"RANK", "torchrun: rank of this process", ""},
      {"WORLD_SIZE", "torchrun: number of processes", ""},
      {"LOCAL_RANK", "torchrun: rank of this process on its host", ""},
      {"LOCAL_WORLD_SIZE", "torchrun: number of processes on this host", ""},
      {"MASTER_ADDR", "host of the rendezvous", ""},
      {"MASTER_PORT", "port of the rendezvous", ""},
      {"NPROC_PER_NODE", "processes per machine, where RANK and WORLD_SIZE count machines: refused without LOCAL_RANK",
       ""},
      {"TORCHELASTIC_RUN_ID", "torchrun: the name of the job", ""},
      {"TORCHELASTIC_USE_AGENT_STORE", "torchrun: True if its agent listens on MASTER_PORT; the next port is used", ""},
      {"PET_NODE_RANK", "Kubeflow: index of this machine", ""},
      {"PET_NNODES", "Kubeflow: number of machines", ""},
      {"PET_NPROC_PER_NODE", "Kubeflow: processes per machine; more than 1 require torchrun", ""},
      {"PET_MASTER_ADDR", "Kubeflow: host of the rendezvous", ""},
      {"PET_MASTER_PORT", "Kubeflow: port of the rendezvous", ""},
      {"OMPI_COMM_WORLD_RANK", "Open MPI: rank of this process", ""},
      {"OMPI_COMM_WORLD_SIZE", "Open MPI: number of processes", ""},
      {"OMPI_COMM_WORLD_LOCAL_RANK", "Open MPI: rank of this process on its host", ""},
      {"OMPI_COMM_WORLD_LOCAL_SIZE", "Open MPI: number of processes on this host", ""},
      {"OMPI_MCA_ess_base_jobid", "Open MPI: the name of the job", ""},
      {"PMI_RANK", "PMI (MPICH, Intel MPI): rank of this process", ""},
      {"PMI_SIZE", "PMI: number of processes", ""},
      {"PMI_JOBID", "PMI: the name of the job", ""},
      {"MPI_LOCALRANKID", "PMI: rank of this process on its host", ""},
      {"MPI_LOCALNRANKS", "PMI: number of processes on this host", ""},
      {"PMIX_RANK", "PMIx: rank of this process; must agree with the other variables", ""},
      {"PMIX_NAMESPACE", "PMIx: the name of the job", ""},
      {"SLURM_STEP_ID", "Slurm: the step of srun; without it the other variables of Slurm do not count", ""},
      {"SLURM_JOB_ID", "Slurm: the job", ""},
      {"SLURM_PROCID", "Slurm: rank of this process", ""},
      {"SLURM_STEP_NUM_TASKS", "Slurm: number of processes", ""},
      {"SLURM_NTASKS", "Slurm: number of processes, if the step does not specify it", ""},
      {"SLURM_LOCALID", "Slurm: rank of this process on its host", ""},
      {"SLURM_NODEID", "Slurm: index of this host", ""},
      {"SLURM_STEP_NODELIST", "Slurm: the hosts of the step", ""},
      {"SLURM_JOB_NODELIST", "Slurm: the hosts of the job", ""},
      {"SLURM_STEP_TASKS_PER_NODE", "Slurm: processes by host, of the step", ""},
      {"SLURM_TASKS_PER_NODE", "Slurm: processes by host, of the job", ""},
      {"XDG_CACHE_HOME", "base of the cache directory", ""},
      {"HOME", "base of the cache directory", ""},
      {"TMPDIR", "temporary files", ""},
      {"NO_COLOR", "no colors on the terminal", ""},
      {"CI", "plain lines instead of a rewriting progress line", "--no-progress"},
      {"TERM", "dumb: plain lines instead of a rewriting progress line", "--no-progress"},
  };
  return kTable;
}

namespace {
const char* raw(const char* name) {
  for (const Variable& v : variables()) {
    if (std::string_view(v.name) == name) return std::getenv(name);
  }
  fail(ErrorKind::runtime, "env", "variable ", name, " is not in the table of base/env.cpp");
}
}  // namespace

namespace {
// The name is known to all who can write to the temporary directory: what stands there must be a folder that nobody
// else made, and that nobody else can change.
std::string own_folder(const std::string& path) {
  const bool made = ::mkdir(path.c_str(), 0700) == 0;
  struct stat st {};
  if (!made && errno != EEXIST) {
    logging::warn(cat(path, ": cannot make a folder for caches: ", std::strerror(errno), "; continuing without one"));
  } else if (::lstat(path.c_str(), &st) == 0 && S_ISDIR(st.st_mode) && st.st_uid == ::geteuid() &&
             (st.st_mode & 022) == 0) {
    return path;
  } else {
    logging::warn(cat(path, " can be written by other users: continuing without a cache; set HOME or FREIGHT_CACHE"));
  }
  return {};
}
}  // namespace

bool is_set(const char* name) { return raw(name) != nullptr; }

std::string get(const char* name, const std::string& fallback) {
  const char* v = raw(name);
  return v ? v : fallback;
}

std::string cache_dir() {
  if (auto d = get("FREIGHT_CACHE"); !d.empty()) return d;
  if (auto d = get("XDG_CACHE_HOME"); !d.empty()) return d + "/freight";
  if (auto d = get("HOME"); !d.empty()) return d + "/.cache/freight";
  static const std::string kOwn = own_folder(cat(get("TMPDIR", "/tmp"), "/freight-cache-", ::geteuid()));
  return kOwn;
}

void check() {
  for (const Variable& v : variables()) {
    const std::string got = get(v.name);
    const std::vector<std::string> may = split(v.values, '|');
    if (!*v.values || got.empty() || std::find(may.begin(), may.end(), got) != may.end()) continue;
    refuse_name(v.name, got, may);
  }
}

}  // namespace freight::env
