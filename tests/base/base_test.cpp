// The base room: texts, shapes, element types, Philox.
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <limits>

#include <atomic>
#include <cmath>
#include <complex>
#include <filesystem>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "freight/base/array.h"
#include "freight/base/cpu_info.h"
#include "freight/base/dtype.h"
#include "freight/base/env.h"
#include "freight/base/error.h"
#include "freight/base/finite.h"
#include "freight/base/philox.h"
#include "freight/base/printable.h"
#include "freight/base/shape.h"
#include "freight/base/strings.h"
#include "freight/base/threads.h"

namespace freight {
namespace {

TEST(Strings, NearestNamesTheLikelyTypo) {
  EXPECT_EQ(nearest("epohcs", {"epochs", "batch-size", "lr"}), "epochs");
  EXPECT_EQ(nearest("zzz", {"epochs", "batch-size"}), "");
  EXPECT_EQ(nearest("adma", {"sgd", "adam", "adamw"}), "adam");
  EXPECT_EQ(nearest("optimizer", {"optimizer.lr"}), "optimizer.lr");
  EXPECT_EQ(nearest("lenet", {"lenet", "lenet5"}), "lenet");
}

TEST(Strings, NearestIsSilentWhereNothingIsAMisspelling) {
  EXPECT_EQ(nearest("iris", {"digits", "titanic"}), "");
  EXPECT_EQ(nearest("momentum.weight", {"m.weight"}), "");
  EXPECT_EQ(nearest("price", {"rooms", "prime_rate"}), "");
  EXPECT_EQ(nearest("age", {"wage_of_all", "area"}), "");
  EXPECT_EQ(nearest("", {"a", "epochs"}), "");
}

TEST(Strings, NamesDoNotMoveTheCursor) {
  EXPECT_EQ(printable("caf\xc3\xa9 \x1b[2J\r\n\t\x7f\xc2\x9b"
                      "1m"),
            "caf\xc3\xa9 \\x1b[2J\\x0d\\n\\t\\x7f\\x9b1m");
  EXPECT_EQ(printable("two\nlines\x07", "\n"), "two\nlines\\x07");
}

TEST(CpuInfo, MemoryIsNoMoreThanThisProcessMayTake) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "sanitizers take terabytes of addresses";
#endif
  const int64_t before = cpu_info().memory_bytes, limit = std::min(before, int64_t{6} << 30);
  rlimit usual{};
  ASSERT_EQ(::getrlimit(RLIMIT_AS, &usual), 0);
  const rlimit small{static_cast<rlim_t>(limit), usual.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &small), 0);
  const CpuInfo there = cpu_info();
  ASSERT_EQ(::setrlimit(RLIMIT_AS, &usual), 0);
  EXPECT_EQ(there.memory_bytes, limit);
  EXPECT_LT(there.memory_available_bytes, limit);
  EXPECT_EQ(cpu_info().memory_bytes, before);
}

TEST(Strings, NumbersAreReadable) {
  EXPECT_EQ(with_commas(1234567), "1,234,567");
  EXPECT_EQ(with_commas(-12), "-12");
  // -2^63 has no positive counterpart; its digits ended the program by a signal.
  EXPECT_EQ(with_commas(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(fixed(-12.345, 1), "-12.3");
  EXPECT_EQ(fixed(1e300, 0), "1e+300");  // whose 301 digits were cut off
  EXPECT_EQ(human_bytes(9.8 * 1024 * 1024), "9.8 MiB");
  EXPECT_EQ(significant(0.012345, 3), "0.0123");
  EXPECT_EQ(significant(1234567, 6), "1.23457e+06");
  EXPECT_EQ(significant(0.5, 4), "0.5");
  EXPECT_EQ(cat("x ", 0.1, " ", 3, " ", true), "x 0.1 3 true");
}

TEST(ErrorText, ReadsOpMessageWhere) {
  const Error e(ErrorKind::usage, "matmul", "inner dimensions differ", "enc.fc1, train.cpp:42");
  EXPECT_STREQ(e.what(), "matmul: inner dimensions differ (enc.fc1, train.cpp:42)");
  EXPECT_EQ(e.exit_code(), 2);
}

TEST(ShapeTest, StridesOfChannelsLast) {
  EXPECT_EQ(contiguous_strides({2, 3, 4, 5}), (Strides{60, 20, 5, 1}));
  EXPECT_EQ(channels_last_strides({2, 3, 4, 5}), (Strides{60, 1, 15, 3}));
  EXPECT_EQ(Shape{}.numel(), 1);
  EXPECT_EQ((Shape{3, 0}).numel(), 0);
}

TEST(ShapeTest, BroadcastFollowsNumpy) {
  Shape out;
  ASSERT_TRUE(broadcast_shapes({64, 1, 7}, {5, 1}, out));
  EXPECT_EQ(out, (Shape{64, 5, 7}));
  EXPECT_FALSE(broadcast_shapes({3}, {4}, out));
}

TEST(ShapeTest, RankNineIsRefused) { EXPECT_THROW((Shape{1, 1, 1, 1, 1, 1, 1, 1, 1}), Error); }

TEST(Arrays, OfNegativeOrCountlessExtentsAreRefused) {
  EXPECT_THROW(Array(DType::f32, {-1}), Error);
  EXPECT_THROW(Array(DType::f32, {-1, -1}), Error);
  EXPECT_THROW(Array(DType::f32, {int64_t{1} << 62, 4}), Error);
  EXPECT_THROW(Array(DType::f32, {int64_t{1} << 40, int64_t{1} << 40, 0}), Error);
  EXPECT_THROW((void)Array(DType::f32, {0}).reshaped({int64_t{1} << 32, int64_t{1} << 32}), Error);
  EXPECT_EQ(Array(DType::f32, {0, 3}).numel(), 0);
}

TEST(BFloat, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(static_cast<float>(BFloat16(1.0f)), 1.0f);
  EXPECT_EQ(BFloat16(1.00390625f).bits, 0x3f80);  // 1 + 2^-8 lies halfway: to even
  EXPECT_EQ(BFloat16(1.01171875f).bits, 0x3f82);  // 1 + 3 * 2^-8 lies halfway: to even, upward
  EXPECT_TRUE(std::isnan(static_cast<float>(BFloat16(NAN))));
}

TEST(Half, RoundsToNearestEvenOverItsWholeRange) {
  EXPECT_EQ(Float16(1.0f).bits, 0x3c00);
  EXPECT_EQ(Float16(-2.0f).bits, 0xc000);
  EXPECT_EQ(Float16(65504.0f).bits, 0x7bff);
  EXPECT_EQ(Float16(65519.996f).bits, 0x7bff);
  EXPECT_EQ(Float16(65520.0f).bits, 0x7c00);  // halfway to 2^16: infinity is even
  EXPECT_EQ(Float16(-INFINITY).bits, 0xfc00);
  EXPECT_EQ(Float16(-0.0f).bits, 0x8000);
  EXPECT_EQ(Float16(0x1p-24f).bits, 1);
  EXPECT_EQ(Float16(0x1p-25f).bits, 0);
  EXPECT_TRUE(std::isnan(static_cast<float>(Float16(NAN))));
  Float16 h, next;
  for (uint32_t bits = 0; bits < 0x7bff; ++bits) {  // each finite number, and what lies between it and the next
    h.bits = static_cast<uint16_t>(bits);
    next.bits = static_cast<uint16_t>(bits + 1);
    const float a = static_cast<float>(h), b = static_cast<float>(next), middle = 0.5f * (a + b);
    ASSERT_LT(a, b);
    ASSERT_EQ(Float16(a).bits, bits);
    ASSERT_EQ(Float16(-a).bits, bits | 0x8000u);
    ASSERT_EQ(Float16(middle).bits, bits % 2 ? bits + 1 : bits);
    ASSERT_EQ(Float16(std::nextafter(middle, 0.0f)).bits, bits);
    ASSERT_EQ(Float16(std::nextafter(middle, 1e9f)).bits, bits + 1);
  }
}

TEST(PhiloxTest, MatchesTheKnownAnswersOfRandom123) {
  const Philox4 zero = philox(0, 0, 0);
  EXPECT_EQ(zero.v[0], 0x6627e8d5u);
  EXPECT_EQ(zero.v[1], 0xe169c58du);
  EXPECT_EQ(zero.v[2], 0xbc57ac4cu);
  EXPECT_EQ(zero.v[3], 0x9b00dbd8u);
  const Philox4 ones = philox(~0ull, ~0ull, ~0ull);
  EXPECT_EQ(ones.v[0], 0x408f276du);
  EXPECT_EQ(ones.v[1], 0x41c83b0eu);
  EXPECT_EQ(ones.v[2], 0xa20bc7c6u);
  EXPECT_EQ(ones.v[3], 0x6d5451fdu);
}

TEST(Threads, ALimitHoldsForItsThreadWhileItLives) {
  const int all = thread_count();
  {
    const ThreadLimit one(1);
    EXPECT_EQ(thread_count(), 1);
    const ThreadLimit more(all + 1);  // takes no limit back
    EXPECT_EQ(thread_count(), 1);
    int elsewhere = 0;
    std::thread([&] { elsewhere = thread_count(); }).join();
    EXPECT_EQ(elsewhere, all);
    std::set<std::thread::id> used;
    parallel_for(64, [&](int64_t) { used.insert(std::this_thread::get_id()); });
    EXPECT_EQ(used, std::set{std::this_thread::get_id()});
  }
  EXPECT_EQ(thread_count(), all);
}

TEST(Threads, PartsOfATeamWaitForEachOther) {
  constexpr int64_t kRounds = 200;
  Meeting meeting;
  std::atomic<int64_t> done{0}, early{0};
  in_team([&](int64_t, int64_t parts) {
    for (int64_t round = 1; round <= kRounds; ++round) {
      ++done;
      meeting.wait(parts * round);
      early += done < parts * round ? 1 : 0;
    }
  });
  EXPECT_EQ(early, 0);
  EXPECT_EQ(done % kRounds, 0);
}

// The numbers of the threads that compute with this one.
std::set<int> others_of_pool() {
  std::mutex mutex;
  std::set<int> threads;
  const int own = ::gettid();
  in_team([&](int, int) {
    const std::lock_guard lock(mutex);
    if (::gettid() != own) threads.insert(::gettid());
  });
  return threads;
}

TEST(Threads, APoolThatIsReleasedEnds) {
  const std::set<int> before = others_of_pool();
  if (before.empty()) GTEST_SKIP() << "this thread computes alone";
  release_pool();
  for (const int thread : before) EXPECT_FALSE(std::filesystem::exists(cat("/proc/self/task/", thread)));
  std::vector<int> seen(64);
  parallel_for(64, [&](int64_t i) { seen[static_cast<size_t>(i)] = 1; });  // with a new one
  EXPECT_EQ(seen, std::vector<int>(64, 1));
}

#if defined(__x86_64__) || defined(__aarch64__)
TEST(Denormals, CountAsZeroOnAllThreadsWhileTheGuardLives) {
  volatile float small = 1e-30f;
  const auto square = [&] { return small * 1e-10f; };
  EXPECT_GT(square(), 0.0f);
  parallel_for(2, [](int64_t) {});  // the pool is there before the guard
  {
    const FlushDenormals flush;
    std::vector<float> seen(64, 1.0f);
    parallel_for(64, [&](int64_t i) { seen[static_cast<size_t>(i)] = square(); });
    EXPECT_EQ(seen, std::vector<float>(64, 0.0f));
  }
  EXPECT_GT(square(), 0.0f);
}
#endif

TEST(DTypes, AreNamedAndSizedAsTheirElements) {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    DType back{};
    EXPECT_TRUE(parse_dtype(to_string(dtype), back));
    EXPECT_EQ(back, dtype);
    dispatch(dtype, [&]<class T>(T) {
      EXPECT_EQ(DTypeOf<T>::value, dtype);
      EXPECT_EQ(sizeof(T), size_of(dtype));
    });
  }
  for (const auto& [name, dtype] :
       {std::pair{"int8", DType::i8}, {"uint16", DType::u16}, {"complex128", DType::c128}}) {
    DType parsed{};
    EXPECT_TRUE(parse_dtype(name, parsed));
    EXPECT_EQ(parsed, dtype);
  }
}

TEST(Nonfinite, AreNotTheNumbersThatADoubleHoldsAndAFloatDoesNot) {
  EXPECT_EQ(count_nonfinite(Array::of<double>({1e300, -1e300, 0, 5e-324}, {4})), 0);
  EXPECT_EQ(count_nonfinite(Array::of<double>({1e300, NAN, -INFINITY}, {3})), 2);
}

TEST(Nonfinite, AreCountedInBothPartsOfComplexNumbers) {
  const Array c = Array::of<std::complex<double>>({{1, NAN}, {INFINITY, 2}, {3, 4}}, {3});
  EXPECT_EQ(count_nonfinite(c), 2);
  EXPECT_EQ(count_nonfinite(Array::of<std::complex<float>>({{1, 2}}, {1})), 0);
  EXPECT_EQ(count_nonfinite(Array::of<int8_t>({-1}, {1})), 0);
}

TEST(ShellWord, IsQuotedWhereAShellWouldCutIt) {
  EXPECT_EQ(shell_word("runs/a-b_1.safetensors"), "runs/a-b_1.safetensors");
  EXPECT_EQ(shell_word("my run/a"), "'my run/a'");
  EXPECT_EQ(shell_word("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_word("$(x)"), "'$(x)'");
  EXPECT_EQ(shell_word(""), "''");
}

TEST(EnvTable, RefusesVariablesThatAreNotListed) { EXPECT_THROW(env::get("FREIGHT_NO_SUCH"), Error); }

}  // namespace
}  // namespace freight
