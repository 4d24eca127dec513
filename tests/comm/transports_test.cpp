// Collectives by every transport: what they compute, which is the same to the bit.
#include <gtest/gtest.h>

#include "freight/comm/wait_report.h"
#include "tests/comm/collectives.h"
#include "tests/comm/ranks.h"
#include "tests/support/error_of.h"

namespace freight::test {
namespace {

using comm::Comm;

// Around the size below which each rank adds everything, the chunk, the slices and the vectors of the sum.
const std::vector<int64_t> kCounts = {0,    1,    2,     7,     16,    17,    255,   256,   1023,   2047,  2048,
                                      2049, 4099, 16384, 32768, 32769, 65535, 65536, 65537, 131073, 200001};

class Engines : public ::testing::TestWithParam<comm::Transport> {
 protected:
  static std::vector<std::string> by_engine(int world, const std::function<std::string(Comm&)>& body) {
    return reports_of(world, body, 60, GetParam());
  }
};
INSTANTIATE_TEST_SUITE_P(All, Engines, ::testing::Values(comm::Transport::shared_memory, comm::Transport::gloo),
                         [](const auto& row) {
                           return std::string(row.param == comm::Transport::gloo ? "Gloo" : "SharedMemory");
                         });

TEST_P(Engines, AllReduceEqualsTheSerialTreeToTheBit) {
  for (int world = 1; world <= 8; ++world) {
    expect_well(by_engine(world, [](Comm& c) {
      std::string faults;
      for (const int64_t count : kCounts) {
        faults += check_all_reduce<float>(c, count);
        if (count > 70000) continue;
        faults += check_all_reduce<double>(c, count);
        faults += check_all_reduce<int64_t>(c, count);
      }
      return faults;
    }));
  }
}

TEST_P(Engines, MovesAreExact) {
  for (const int world : {1, 2, 3, 5, 8}) {
    expect_well(by_engine(world, [](Comm& c) {
      std::string faults;
      for (const int64_t count :
           {int64_t{0}, int64_t{1}, int64_t{17}, int64_t{4099}, int64_t{70001}, int64_t{300007}}) {
        faults += check_moves<uint8_t>(c, count);
        if (count > 100000) continue;
        faults += check_moves<float>(c, count);
        faults += check_moves<int64_t>(c, count);
      }
      return faults;
    }));
  }
}

// Several chunks of slices of a mebibyte, which both transports cut in their own ways.
TEST_P(Engines, LongArraysAreSummedExactly) {
  for (const int world : {2, 3}) {
    expect_well(by_engine(world, [](Comm& c) {
      constexpr int64_t kCount = 2'300'001;
      std::string faults = check_all_reduce<float>(c, kCount) + check_all_reduce<double>(c, kCount / 2);
      return faults + check_moves<uint8_t>(c, 5'000'011);
    }));
  }
}

// 20 MB in pieces, and slices of pieces.
TEST_P(Engines, LongArraysMoveExactly) {
  expect_well(by_engine(3, [](Comm& c) { return check_moves<float>(c, 5'000'011); }));
}

TEST(LongestWait, NamesTheRankThatOthersWaitFor) {
  const auto told = [](const std::vector<double>& seconds, int world) {  // of 9 s, in 100 steps
    std::vector<double> shares;
    for (const double s : seconds) shares.push_back(s / 9.0);
    return comm::longest_wait(shares, world, 0.09);
  };
  EXPECT_EQ(told({0, 4.0, 0, 0.1, 0, 0, 0, 3.0, 0}, 3), "rank 0 waits 40.0 ms of each 90.0 ms step for rank 1");
  EXPECT_EQ(told({0, 0.5, 0, 0, 0, 0.4, 0, 0.6, 0}, 3), "");
  EXPECT_EQ(told({0}, 1), "");
  EXPECT_EQ(told({0, 2.5, 2.0, 0}, 2), "");  // by turns
}

// Ranks that share processors wait each for whoever has none at the moment, first for the next one.
TEST(LongestWait, NamesNobodyWhereAllWaitAlike) {
  EXPECT_EQ(comm::longest_wait({0, 0.5, 0, 0, 0, 0.5, 0.5, 0, 0}, 3, 0.09), "");
  EXPECT_EQ(comm::longest_wait({0, 0.4, 0.1, 0, 0, 0, 0.1, 0.4, 0}, 3, 0.09),
            "rank 0 waits 45.0 ms of each 90.0 ms step for rank 1");
}

// 8 shards are dealt to 3 ranks as 3, 3 and 2: the last waits a third of each step, and nobody is slow.
TEST(LongestWait, CountsNoWaitForRanksThatHaveMoreToDo) {
  const std::vector<double> shares = {0, 0, 0, 0, 0, 0, 0.3, 0.07, 0};
  EXPECT_EQ(comm::longest_wait(shares, 3, 0.09), "rank 2 waits 33.3 ms of each 90.0 ms step for rank 0");
  EXPECT_EQ(comm::longest_wait(shares, 3, 0.09, {3, 3, 2}), "");
  const std::vector<double> slow = {0, 0.25, 0, 0, 0, 0, 0.2, 0.4, 0};
  EXPECT_EQ(comm::longest_wait(slow, 3, 0.09, {3, 3, 2}), "rank 2 waits 54.0 ms of each 90.0 ms step for rank 1");
}

TEST_P(Engines, TellWhomTheyWaitedFor) {
  expect_well(by_engine(3, [](Comm& c) -> std::string {
    c.barrier();
    comm::WaitReport report(c);
    for (int i = 0; i < 10; ++i) {
      c.at_step(i);
      if (c.rank() == 1) ::usleep(20000);
      int64_t v = 1;
      c.all_reduce(&v, 1, DType::i64);
    }
    const std::string told = report.since_last(c, 10);
    const bool named =
        told.find(" ms step for rank 1") != std::string::npos && told.find("waits ") != std::string::npos;
    return named ? "" : cat("told '", told, "'");
  }));
}

TEST_P(Engines, BarrierWaitsForAll) {
  expect_well(by_engine(3, [](Comm& c) -> std::string {
    for (int i = 0; i < 20; ++i) {
      const auto now = [] { return std::chrono::steady_clock::now().time_since_epoch().count(); };
      if (c.rank() == i % 3) ::usleep(3000);
      const int64_t came = now();
      c.barrier();
      const int64_t left = now();
      std::vector<int64_t> all(3);
      c.all_gather(&came, all.data(), 1, DType::i64);
      if (*std::max_element(all.begin(), all.end()) > left) return cat("left round ", i, " before the last had come");
    }
    return "";
  }));
}

// Collectives of all kinds and sizes behind each other, with ranks that are slow now and then: a slot that is used
// again too early would show.
TEST_P(Engines, RandomRowsOfCollectivesStayExact) {
  for (const int world : {2, 3, 4}) {
    expect_well(by_engine(world, [](Comm& c) {
      uint64_t state = 12345, own = 99 + static_cast<uint64_t>(c.rank());
      const auto next = [](uint64_t& s) { return (s = s * 6364136223846793005ULL + 1442695040888963407ULL) >> 33; };
      std::string faults;
      for (int i = 0; i < 300 && faults.empty(); ++i) {
        const auto kind = next(state) % 5;
        const auto count = static_cast<int64_t>(next(state) % (1 << (next(state) % 17)));
        if (next(own) % 16 == 0) ::usleep(static_cast<unsigned>(next(own) % 400));
        switch (kind) {
          case 0:
          case 1: faults += check_all_reduce<float>(c, count); break;
          case 2: faults += check_all_reduce<double>(c, count / 4); break;
          case 3: faults += check_moves<uint8_t>(c, count); break;
          default: c.barrier();
        }
      }
      return faults;
    }));
  }
}

TEST_P(Engines, EightRanksOnFewProcessorsGetOn) {
  expect_well(by_engine(8, [](Comm& c) -> std::string {
    int64_t sum = 0;
    for (int i = 0; i < 2000; ++i) {
      sum = c.rank() + i;
      c.all_reduce(&sum, 1, DType::i64);
      if (sum != 28 + 8 * i) return cat("round ", i, " gave ", sum);
    }
    return "";
  }));
}

TEST_P(Engines, TwoJobsAtOnceDoNotMeet) {
  const std::string a = new_job(), b = new_job();
  Ranks ranks(4, [&](int r) -> std::string {
    const auto c = join_by(GetParam(), launch_of(r < 2 ? a : b, r % 2, 2));
    int64_t v = r < 2 ? 1 : 100;
    c->all_reduce(&v, 1, DType::i64);
    return v == (r < 2 ? 2 : 200) ? "" : cat("got ", v);
  });
  for (const RankEnd& e : ranks.finish()) EXPECT_EQ(e.report, "");
}

TEST_P(Engines, RefusesWhatNoRankMayAsk) {
  const auto c = join_by(GetParam(), launch_of(new_job(), 0, 1));
  struct Row {
    std::function<void()> call;
    const char* part;
  };
  double d = 0;
  const Row rows[] = {
      {[&] { c->all_reduce(&d, 1, DType::u8); }, "all_reduce: cannot add: expected f32, f64 or i64, got u8"},
      {[&] { c->all_reduce(&d, -1, DType::f64); }, "elements: expected 0 to 1099511627775, got -1"},
      {[&] { c->all_reduce(&d, 1, DType::boolean); }, "all_reduce: cannot add: expected f32, f64 or i64, got bool"},
      {[&] { c->broadcast(&d, 1, DType::f16, 0); }, "broadcast"},
      {[&] { c->broadcast(&d, 1, DType::f64, 1); }, "root rank: expected 0 to 0, got 1"},
      {[&] { c->broadcast(&d, 1, DType::f64, -1); }, "root rank: expected 0 to 0, got -1"},
  };
  for (const Row& row : rows) {
    const Error e = testing::error_of(row.call);
    EXPECT_EQ(e.kind(), ErrorKind::usage);
    EXPECT_NE(std::string(e.what()).find(row.part), std::string::npos) << row.part << " is not in: " << e.what();
  }
}

TEST_P(Engines, ACallThatIsRefusedEndsNeitherTheObjectNorTheJob) {
  expect_well(by_engine(2, [](Comm& c) -> std::string {
    int64_t one = 1;
    if (c.rank() == 0) {
      const Error e = testing::error_of([&] { c.all_reduce(&one, 1, DType::u8); });
      if (e.kind() != ErrorKind::usage) return e.what();
    }
    c.all_reduce(&one, 1, DType::i64);
    return one == 2 ? "" : cat("the sum is ", one);
  }));
}

TEST(SharedMemory, RefusesRanksOfSeveralHosts) {
  const Error e = testing::error_of([] {
    comm::Launch l = launch_of(new_job(), 0, 4);
    l.local_world = 2;
    comm::join_shared_memory(l);
  });
  EXPECT_EQ(e.kind(), ErrorKind::usage);
  EXPECT_NE(std::string(e.what()).find("got 4 ranks, of which 2 are on"), std::string::npos) << e.what();
}

}  // namespace
}  // namespace freight::test
