// Ranks are told their place by those who start them.
#include "freight/comm/launch_environment.h"
#include "freight/comm/host_rendezvous.h"

#include <gtest/gtest.h>

#include <memory>

#include "freight/base/env.h"
#include "tests/support/files.h"

namespace freight::test {
namespace {

using comm::Launch;
using comm::read_launch_environment;
using testing::ScopedEnvironment;

using Settings = std::vector<std::pair<const char*, std::string>>;

// Sets these variables, of all that launchers set, and no others.
class Told {
 public:
  explicit Told(const Settings& settings) {
    for (const env::Variable& v : env::variables()) {
      for (const char* part : {"RANK", "WORLD", "SIZE", "PET_", "SLURM_", "MASTER_", "MPI_", "PMIX", "FREIGHT_JOB",
                               "NPROC", "TORCHELASTIC"}) {
        if (std::string(v.name).find(part) == std::string::npos) continue;
        all_.push_back(std::make_unique<ScopedEnvironment>(v.name, ""));
        break;
      }
    }
    for (const auto& [name, value] : settings) all_.push_back(std::make_unique<ScopedEnvironment>(name, value));
  }
  ~Told() {
    while (!all_.empty()) all_.pop_back();  // the last one first: a variable may be there twice
  }

 private:
  std::vector<std::unique_ptr<ScopedEnvironment>> all_;
};

TEST(LaunchEnvironment, ReadsEveryLauncher) {
  struct Row {
    Settings settings;
    int rank, world, local_rank, local_world;
    const char *source, *address;
    int port;
  };
  const Row rows[] = {
      {{}, 0, 1, 0, 1, "", "", 0},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"FREIGHT_RANK_PROCESS", "1"}}, 0, 1, 0, 1, "", "", 0},  // started by a
                                                                                                     // rank
      {{{"FREIGHT_RANK", "2"},
        {"FREIGHT_WORLD_SIZE", "4"},
        {"FREIGHT_LOCAL_RANK", "2"},
        {"FREIGHT_LOCAL_WORLD_SIZE", "4"},
        {"FREIGHT_JOB", "ab"}},
       2,
       4,
       2,
       4,
       "freight",
       "",
       0},
      // Freight's launcher inside of a job of another one.
      {{{"FREIGHT_RANK", "1"},
        {"FREIGHT_WORLD_SIZE", "2"},
        {"FREIGHT_LOCAL_RANK", "1"},
        {"FREIGHT_LOCAL_WORLD_SIZE", "2"},
        {"FREIGHT_JOB", "ab"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "1"}},
       1,
       2,
       1,
       2,
       "freight",
       "",
       0},
      {{{"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"MASTER_ADDR", "node0"},
        {"MASTER_PORT", "29500"}},
       5,
       8,
       1,
       4,
       "torchrun",
       "node0",
       29500},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "127.0.0.1"}}, 1, 2, 1, 2, "torchrun", "127.0.0.1", 0},
      {{{"OMPI_COMM_WORLD_RANK", "3"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
        {"PMIX_RANK", "3"}},
       3,
       4,
       1,
       2,
       "Open MPI",
       "",
       0},
      {{{"PMI_RANK", "1"}, {"PMI_SIZE", "2"}}, 1, 2, 1, 2, "PMI", "", 0},
      {{{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "1"}, {"MPI_LOCALNRANKS", "2"}},
       3,
       4,
       1,
       2,
       "PMI",
       "",
       0},
      {{{"SLURM_STEP_ID", "0"},
        {"SLURM_JOB_ID", "17"},
        {"SLURM_PROCID", "4"},
        {"SLURM_NTASKS", "5"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_NODEID", "2"},
        {"SLURM_JOB_NODELIST", "gpu[08-10]"},
        {"SLURM_TASKS_PER_NODE", "2(x2),1"}},
       4,
       5,
       0,
       1,
       "Slurm",
       "gpu08",
       0},
      {{{"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "1"},
        {"SLURM_STEP_NUM_TASKS", "2"},
        {"SLURM_NTASKS", "16"},
        {"SLURM_LOCALID", "1"},
        {"SLURM_JOB_NODELIST", "a"}},
       1,
       2,
       1,
       2,
       "Slurm",
       "a",
       0},
      // A batch script is no step: it runs alone.
      {{{"SLURM_JOB_ID", "17"},
        {"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "8"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_JOB_NODELIST", "a[1-4]"}},
       0,
       1,
       0,
       1,
       "",
       "",
       0},
      {{{"PET_NODE_RANK", "1"},
        {"PET_NNODES", "3"},
        {"PET_NPROC_PER_NODE", "1"},
        {"PET_MASTER_ADDR", "job-node-0-0"},
        {"PET_MASTER_PORT", "29400"}},
       1,
       3,
       0,
       1,
       "Kubeflow",
       "job-node-0-0",
       29400},
      // torchrun started by srun, once per machine.
      {{{"RANK", "5"},
        {"WORLD_SIZE", "8"},
        {"LOCAL_RANK", "1"},
        {"LOCAL_WORLD_SIZE", "4"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_JOB_NODELIST", "a[1-2]"},
        {"SLURM_TASKS_PER_NODE", "1(x2)"},
        {"SLURM_NODEID", "1"},
        {"SLURM_LOCALID", "0"}},
       5,
       8,
       1,
       4,
       "torchrun",
       "",
       0},
      // mpirun whose daemons srun started: what they inherited is of machines.
      {{{"OMPI_COMM_WORLD_RANK", "3"},
        {"OMPI_COMM_WORLD_SIZE", "4"},
        {"OMPI_COMM_WORLD_LOCAL_RANK", "1"},
        {"OMPI_COMM_WORLD_LOCAL_SIZE", "2"},
        {"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "1"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_LOCALID", "0"},
        {"SLURM_NODEID", "1"},
        {"SLURM_JOB_NODELIST", "a[1-2]"},
        {"SLURM_TASKS_PER_NODE", "1(x2)"}},
       3,
       4,
       1,
       2,
       "Open MPI",
       "",
       0},
  };
  for (const Row& row : rows) {
    const Told told(row.settings);
    const Launch l = read_launch_environment();
    const std::string which = row.settings.empty() ? "none" : row.settings[0].first;
    EXPECT_EQ(l.rank, row.rank) << which;
    EXPECT_EQ(l.world, row.world) << which;
    EXPECT_EQ(l.local_rank, row.local_rank) << which;
    EXPECT_EQ(l.local_world, row.local_world) << which;
    EXPECT_EQ(l.source, row.source) << which;
    EXPECT_EQ(l.master_address, row.address) << which;
    EXPECT_EQ(l.master_port, row.port) << which;
    EXPECT_EQ(l.job.empty(), l.source.empty()) << which;
  }
}

TEST(LaunchEnvironment, NamesWhatIsJunkMissingOrContradictory) {
  struct Row {
    Settings settings;
    std::vector<std::string> parts;
  };
  const Row rows[] = {
      {{{"RANK", "one"}, {"WORLD_SIZE", "2"}}, {"RANK: expected a whole number from 0 to 65535, got 'one'"}},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}}, {"RANK: expected a whole number from 0 to 65535, got '-1'"}},
      {{{"RANK", "0x1"}, {"WORLD_SIZE", "2"}}, {"RANK: expected a whole number from 0 to 65535, got '0x1'"}},
      {{{"RANK", "1"}, {"WORLD_SIZE", "99999999999"}},
       {"WORLD_SIZE: expected a whole number from 1 to 65535, got '99999999999'"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, {"WORLD_SIZE: expected a whole number from 1 to 65535, got '0'"}},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}}, {"RANK: expected less than WORLD_SIZE, which is 2, got 2"}},
      {{{"RANK", "1"}}, {"WORLD_SIZE: is not set, but RANK is"}},
      {{{"WORLD_SIZE", "2"}}, {"RANK: is not set, but WORLD_SIZE is"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}}, {"LOCAL_WORLD_SIZE: is not set, but LOCAL_RANK is"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "3"}, {"LOCAL_WORLD_SIZE", "2"}},
       {"LOCAL_RANK: expected less than LOCAL_WORLD_SIZE, which is 2, got 3"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"LOCAL_RANK", "0"}, {"LOCAL_WORLD_SIZE", "4"}},
       {"LOCAL_WORLD_SIZE: expected at most WORLD_SIZE, which is 2, got 4"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node7"}}, {"LOCAL_RANK: is not set", "node7"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"NPROC_PER_NODE", "8"}},
       {"LOCAL_RANK: is not set", "NPROC_PER_NODE is '8'", "may count machines"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "70000"}},
       {"MASTER_PORT: expected a whole number from 1 to 65535, got '70000'"}},
      {{{"FREIGHT_RANK", "0"}, {"FREIGHT_WORLD_SIZE", "1"}}, {"FREIGHT_JOB: is not set"}},
      {{{"PMIX_RANK", "1"}}, {"PMIX_RANK: is set, but the number of ranks is not"}},
      {{{"PMIX_RANK", "1"}, {"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "2"}},
       {"PMIX_RANK: got 1", "Open MPI's variables say rank 0"}},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"OMPI_COMM_WORLD_RANK", "3"}, {"OMPI_COMM_WORLD_SIZE", "4"}},
       {"launch variables: contradict each other", "torchrun's say rank 0 of 2, Open MPI's say rank 3 of 4"}},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_NTASKS", "2"}}, {"SLURM_PROCID: is not set, but SLURM_STEP_ID is"}},
      {{{"SLURM_STEP_ID", "0"}, {"SLURM_PROCID", "0"}, {"SLURM_NTASKS", "2"}, {"SLURM_JOB_NODELIST", "a[1-"}},
       {"SLURM_JOB_NODELIST: expected a list of hosts", "got 'a[1-'", "brackets do not match"}},
      {{{"SLURM_STEP_ID", "0"},
        {"SLURM_PROCID", "0"},
        {"SLURM_NTASKS", "2"},
        {"SLURM_JOB_NODELIST", "a,b"},
        {"SLURM_TASKS_PER_NODE", "1(y2)"}},
       {"SLURM_TASKS_PER_NODE: expected numbers of tasks like 2(x3),1, got '1(y2)'"}},
      {{{"PET_NODE_RANK", "0"}, {"PET_NNODES", "2"}, {"PET_NPROC_PER_NODE", "4"}},
       {"PET_NPROC_PER_NODE: expected 1, got '4'"}},
      {{{"PET_NNODES", "2"}}, {"PET_NODE_RANK: is not set"}},
      {{{"PET_NODE_RANK", "0"}}, {"PET_NNODES: is not set, but PET_NODE_RANK is"}},
  };
  for (const Row& row : rows) {
    const Told told(row.settings);
    testing::expect_error(ErrorKind::usage, row.parts, [] { read_launch_environment(); });
  }
}

TEST(HostList, IsExpandedAsSlurmWritesIt) {
  struct Row {
    const char* text;
    std::vector<std::string> hosts;
  };
  const Row rows[] = {
      {"login", {"login"}},
      {"a,b,c1", {"a", "b", "c1"}},
      {"node[1-3]", {"node1", "node2", "node3"}},
      {"node[08-11,3],x", {"node08", "node09", "node10", "node11", "node3", "x"}},
      {"r[1-2]n[01-02]-ib", {"r1n01-ib", "r1n02-ib", "r2n01-ib", "r2n02-ib"}},
      {"gnode[10,20,25,37]", {"gnode10", "gnode20", "gnode25", "gnode37"}},
      {"n[5-5]", {"n5"}},
  };
  for (const Row& row : rows) EXPECT_EQ(comm::expand_host_list("L", row.text), row.hosts) << row.text;
}

// Below each limit, at it, and one above.
TEST(HostList, HasSixtyFiveThousandHostsAndNumbersOfTwelveDigits) {
  EXPECT_EQ(comm::expand_host_list("L", "n[1-65535]").size(), 65535u);
  EXPECT_EQ(comm::expand_host_list("L", "n[1-65536]").size(), 65536u);
  EXPECT_EQ(comm::expand_host_list("L", "n[00000000001]"), std::vector<std::string>{"n00000000001"});
  EXPECT_EQ(comm::expand_host_list("L", "n[000000000001]"), std::vector<std::string>{"n000000000001"});
  for (const char* text : {"n[1-65537]", "n[0000000000001]"}) {
    testing::expect_error(ErrorKind::usage, {"L: expected a list of hosts", "got '"},
                          [&] { comm::expand_host_list("L", text); });
  }
}

// 1,024 ranks would wait for each other here: that their number is taken shows in who is missing.
TEST(Meeting, HasAThousandRanksOnAHost) {
  for (const int world : {1023, 1024}) {
    testing::expect_error(ErrorKind::peer_lost, {}, [&] {
      comm::rendezvous_on_host({.job = cat("limit-", world), .world = world, .bytes = 64, .timeout = 0.1});
    });
  }
  testing::expect_error(ErrorKind::usage, {"ranks on one host: expected 1 to 1024, got 1025"},
                        [] { comm::rendezvous_on_host({.job = "limit", .world = 1025, .bytes = 64, .timeout = 0.1}); });
}

TEST(HostList, RefusesOtherForms) {
  for (const char* text : {"", "a,,b", "a[", "a]", "a[]", "a[1", "a[1-2", "a[[1]]", "a[x]", "a[1-]", "a[-2]", "a[3-1]",
                           "a[1-2-3]", "a[1-99999999]", "a[1-300][1-300]", "a[99999999999999]", "a[1,]"}) {
    testing::expect_error(ErrorKind::usage, {"L: expected a list of hosts", "got '"},
                          [&] { comm::expand_host_list("L", text); });
  }
}

}  // namespace
}  // namespace freight::test
