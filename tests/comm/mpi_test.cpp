// The engine over MPI, by the MPI of tests/requirements.txt. Its mpiexec starts this program again, in whose processes
// the tests of UnderMpi run.
#include <gtest/gtest.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "freight/base/clock.h"
#include "freight/base/error.h"
#include "freight/comm/join.h"
#include "tests/comm/collectives.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"
#include "tests/support/python.h"

namespace freight::test {
namespace {

std::unique_ptr<comm::Comm> join_by_mpi() {
  return comm::join_job(comm::read_launch_environment(), {.timeout = 60, .engine = comm::Engine::mpi});
}

TEST(UnderMpi, DISABLED_SumsAndMoves) {
  const auto c = join_by_mpi();
  ASSERT_EQ(c->world(), 3);
  std::string faults;
  for (const int64_t count : {int64_t{0}, int64_t{1}, int64_t{17}, int64_t{2049}, int64_t{70001}, int64_t{2'300'001}}) {
    faults += check_all_reduce<float>(*c, count) + check_all_reduce<int64_t>(*c, count);
    faults += check_moves<uint8_t>(*c, count) + check_reduce_scatter<double>(*c, count / 3);
  }
  EXPECT_EQ(faults, "");
}

TEST(UnderMpi, DISABLED_Loss) {
  const auto c = join_by_mpi();
  std::vector<float> data(50000);
  try {
    for (int64_t step = 0;; ++step) {
      c->at_step(step);
      if (c->rank() == 1 && step == 20) ::raise(SIGKILL);
      c->all_reduce(data.data(), static_cast<int64_t>(data.size()), DType::f32);
    }
  } catch (const Error& e) {
    std::printf("code %d: %s\n", e.exit_code(), e.what());
    std::fflush(stdout);
  }
}

TEST(UnderMpi, DISABLED_OfAnotherMpi) {
  try {
    join_by_mpi();
  } catch (const Error& e) {
    std::printf("code %d: %s\n", e.exit_code(), e.what());
  }
}

bool is_mapped(const std::string& file) {
  std::error_code ignored;
  for (const auto& process : std::filesystem::directory_iterator("/proc", ignored)) {
    std::ifstream maps(process.path() / "maps");
    for (std::string line; std::getline(maps, line);) {
      if (line.find(file) != std::string::npos) return true;
    }
  }
  return false;
}

// MPICH leaves its files of shared memory behind where a rank is killed or does not come to MPI_Finalize.
void remove_what_mpi_left() {
  std::error_code ignored;
  for (const auto& f : std::filesystem::directory_iterator("/dev/shm", ignored)) {
    const std::string path = f.path().string();
    if (path.find("/mpich_shm_") != std::string::npos && !is_mapped(path)) std::filesystem::remove(path, ignored);
  }
}

struct Ended {
  int code = -1;
  std::string out;
};

class MpiEngine : public ::testing::Test {
 protected:
  void SetUp() override {
    folder_ = binary_dir() + "/python";
    if (testing::peer_python().empty() || !std::filesystem::exists(folder_ + "/lib/libmpi_abi.so.1")) {
      GTEST_SKIP() << "tests/requirements.txt is not installed: there is no mpich";
    }
  }
  void TearDown() override { remove_what_mpi_left(); }
  // This program's test under `before` and mpiexec.
  Ended run(const std::string& before, const std::string& name) const {
    const std::string out = dir_ / "out", self = std::filesystem::read_symlink("/proc/self/exe").string();
    const std::string command =
        cat("FREIGHT_MPI=", folder_, "/lib/libmpi_abi.so.1 ", before, " ", self,
            " --gtest_also_run_disabled_tests --gtest_filter=UnderMpi.DISABLED_", name, " > ", out, " 2>&1");
    const int status = std::system(command.c_str());
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, testing::read_text(out)};
  }
  std::string mpiexec() const { return folder_ + "/bin/mpiexec"; }

 private:
  testing::TemporaryDir dir_;
  std::string folder_;
};

int count_of(const std::string& text, const std::string& part) {
  int n = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

TEST_F(MpiEngine, SumsHaveTheBitsOfTheOtherEngines) {
  const Ended e = run("timeout 120 " + mpiexec() + " -n 3", "SumsAndMoves");
  EXPECT_EQ(e.code, 0) << e.out;
  EXPECT_EQ(count_of(e.out, "[  PASSED  ] 1 test."), 3) << e.out;
}

TEST_F(MpiEngine, AKilledRankIsNamedWhereMpiLeavesTheOthersAlive) {
  // MPICH's mpiexec kills the other ranks when it sees that one ended, at times even under -disable-auto-cleanup. It
  // sees the shells here, which outlive their ranks.
  const Ended e = run("timeout 120 " + mpiexec() + R"( -n 3 sh -c '"$0" "$@"; sleep 3')", "Loss");
  EXPECT_EQ(count_of(e.out, "code 7: all_reduce: rank 1 is lost: its process "), 2) << e.out;
  EXPECT_EQ(count_of(e.out, "rank 1 was last in all_reduce of f32[50000] at step 19"), 2) << e.out;
}

// An MPI that another one's mpiexec did not start counts one rank.
TEST_F(MpiEngine, RefusesRanksThatAnotherMpiStarted) {
  const Ended e = run("RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2", "OfAnotherMpi");
  EXPECT_EQ(count_of(e.out, "code 2: MPI: "), 1) << e.out;
  EXPECT_EQ(count_of(e.out, "says rank 0 of 1, the launcher's variables say rank 1 of 2: need the mpiexec"), 1)
      << e.out;
}

TEST_F(MpiEngine, NamesALibraryThatIsMissing) {
  const Ended e = run("RANK=0 WORLD_SIZE=1 FREIGHT_MPI=/nowhere/libmpi_abi.so.1", "OfAnotherMpi");
  EXPECT_EQ(count_of(e.out, "code 4: MPI: cannot be used: found no /nowhere/libmpi_abi.so.1"), 1) << e.out;
}

}  // namespace
}  // namespace freight::test
