// `freight launch`: any program as the ranks of a job.
#include <gtest/gtest.h>

#include "run_command.h"

namespace freight::test {
namespace {

TEST(LaunchCommand, StartsAProgramAsRanksAndLeavesItsFlagsToIt) {
  const Ran ran = run_freight(
      {"launch", "-n", "2", "sh", "-c", "echo rank $FREIGHT_RANK of $FREIGHT_WORLD_SIZE, $0 $1", "--epochs", "--help"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(ran.out, "rank 0 of 2, --epochs --help\n");
}

TEST(LaunchCommand, NamesTheRankThatFailsWithItsLastLineAndItsExitCode) {
  const Ran ran =
      run_freight({"launch", "-n", "2", "sh", "-c", "test $FREIGHT_RANK = 0 || { echo no rows left; exit 3; }"});
  EXPECT_EQ(ran.code, 3);
  EXPECT_NE(ran.err.find("rank 1 ended with exit code 3: no rows left"), std::string::npos) << ran.err;
}

TEST(LaunchCommand, RunsScriptsByThePythonThatItsOwnCommandBelongsTo) {
  const Ran ran = run_freight({"launch", "script.py", "--epochs", "3"}, "", {"FREIGHT_PYTHON_EXECUTABLE=echo"});
  EXPECT_EQ(ran.out, "script.py --epochs 3\n") << ran.err;
}

TEST(LaunchCommand, KeepsTheOutputOfTheOtherRanksWhereItIsToldTo) {
  const std::string logs = scratch_dir() + "/logs";
  const Ran ran = run_freight({"launch", "-n", "2", "--log-dir", logs, "sh", "-c", "echo rank $FREIGHT_RANK"});
  EXPECT_EQ(ran.code, 0) << ran.err;
  EXPECT_EQ(read_file(logs + "/rank-1.log"), "rank 1\n");
}

TEST(LaunchCommand, RefusesMissingProgramsAndRanksThatStartRanks) {
  EXPECT_EQ(run_freight({"launch", "-n", "2"}).code, 2);
  EXPECT_EQ(run_freight({"launch", "-n", "0", "true"}).code, 2);
  EXPECT_EQ(run_freight({"launch", "no-such-program"}).code, 2);
  const Ran nested = run_freight(
      {"launch", "launch-is-not-reached"}, "",
      {"RANK=0", "WORLD_SIZE=1", "LOCAL_RANK=0", "LOCAL_WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT=4242"});
  EXPECT_EQ(nested.code, 2);
  EXPECT_NE(nested.err.find("this process is a rank that torchrun started"), std::string::npos) << nested.err;
}

}  // namespace
}  // namespace freight::test
