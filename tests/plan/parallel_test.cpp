// Several devices: what connects them, and how much of summing gradients the backward half hides.
#include "freight/plan/parallel.h"

#include <gtest/gtest.h>

#include "freight/plan/draft.h"

namespace freight::plan {
namespace {

Device device(double link, bool pairs, int pcie) {
  Device d;
  d.name = "D";
  d.kind = "gpu";
  d.link_gb = link;
  d.link_of_pairs = pairs;
  d.pcie = pcie;
  return d;
}

TEST(Link, IsTheSlowestOnTheWayAround) {
  EXPECT_EQ(link_of(device(300, false, 4), {.devices = 8}).gb, 300);
  EXPECT_EQ(link_of(device(56, true, 4), {.devices = 2}).gb, 56);
  EXPECT_EQ(link_of(device(56, true, 4), {.devices = 4}).gb, 31.5);  // a bridge joins two
  EXPECT_EQ(link_of(device(0, false, 3), {.devices = 2}).gb, 15.75);
  EXPECT_EQ(link_of(device(300, false, 4), {.devices = 16, .network_gbit = 200}).gb, 25);
  EXPECT_EQ(link_of(device(0, false, 0), {.devices = 2}).gb, 0);  // nothing is guessed
}

Work step(double gradients) {
  Work w;
  w.kind = "matmul";
  w.backward = true;
  w.gradients = gradients;
  return w;
}

TEST(Gradients, AreHiddenByTheStepsThatFollow) {
  const Fleet four{.devices = 4};
  const Link link{100, "link"};
  const LinkUse use{0.5, 1e-5};
  const double bytes = 64e6,
               ring = 6 * 1e-5 + 2 * 3.0 / 4 * bytes / 50e9;  // 2 (n - 1) hops, 2 (n - 1) / n of the bytes
  const std::vector<Work> early = {step(bytes), step(0)}, late = {step(0), step(bytes)};
  const Summing hidden = sum_gradients(early, {0.1, 0.1}, bytes, four, link, use);
  EXPECT_NEAR(hidden.seconds, ring, 1e-12);
  EXPECT_EQ(hidden.exposed, 0);
  const Summing last = sum_gradients(late, {0.1, 0.1}, bytes, four, link, use);
  EXPECT_NEAR(last.exposed, ring, 1e-12);
  // In part: the second step is shorter than the transfer.
  EXPECT_NEAR(sum_gradients(early, {0.1, 0.001}, bytes, four, link, use).exposed, ring - 0.001, 1e-12);
  // What no step is seen to finish comes last.
  EXPECT_NEAR(sum_gradients(early, {0.1, 0.1}, 2 * bytes, four, link, use).exposed, ring, 1e-12);
}

TEST(Gradients, SmallOnesShareATransfer) {
  const std::vector<Work> many(10, step(1e6));
  const LinkUse use{1, 1e-3};
  const Summing s = sum_gradients(many, std::vector<double>(10, 0.0), 10e6, {.devices = 2}, {10, "link"}, use);
  EXPECT_NEAR(s.seconds, 2e-3 + 10e6 / 10e9, 1e-9);
}

TEST(Gradients, APlanSaysWhenEachIsFinal) {
  train::Config c;
  c.data.clear();
  for (const char* model : {"mlp", "resnet20", "gpt_char"}) {
    for (const char* optimizer : {"sgd", "adamw"}) {
      SCOPED_TRACE(std::string(model) + " " + optimizer);
      c.model = model;
      c.optimizer = optimizer;
      c.model_ema = 0.99;  // reads weights, not gradients
      DraftOptions o;
      o.batch = 4;
      const Draft d = draft(make_subject(c), o);
      double seen = 0;
      size_t steps = 0;
      for (const Work& w : d.stages[0].work) {
        seen += w.gradients;
        steps += w.gradients > 0 ? 1 : 0;
        EXPECT_TRUE(w.backward || w.gradients == 0) << w.path;
      }
      const double all = static_cast<double>(d.parameters) * 4;
      EXPECT_GT(seen, 0.9 * all);  // biases and scales are summed and applied in one step
      EXPECT_LE(seen, 1.02 * all);
      EXPECT_GT(steps, 2u);
    }
  }
}

}  // namespace
}  // namespace freight::plan
