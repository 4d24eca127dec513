// The table of what other programs call commands, flags, models and values names only what there is here.
#include <gtest/gtest.h>

#include <set>
#include <sstream>

#include "freight/base/usage.h"
#include "freight/metrics/scores.h"
#include "freight/models/models.h"
#include "freight/nn/layer_type.h"
#include "freight/optim/create.h"
#include "freight/tables/learners.h"
#include "freight/train/config_fields.h"
#include "freight/train/learner.h"
#include "run_command.h"

namespace freight::test {
namespace {

TEST(OtherNames, EveryCounterpartExists) {
  std::string help;
  for (const char* command : {"train", "predict", "eval"}) help += run_freight({command, "--help", "all"}).out + "\n";
  std::set<std::string> values;
  tables::register_learners();
  for (const train::Learner* learner : train::learners()) values.insert(learner->name());
  for (const models::Entry& e : models::registry()) values.insert(e.name);
  for (const nn::LayerType* type : nn::layer_types()) values.insert(type->name());
  for (const std::string& name : metrics::metric_names()) values.insert(name);
  for (const train::Field& f : train::config_fields()) {
    values.insert(f.limits.one_of.begin(), f.limits.one_of.end());
  }
  std::istringstream commands(run_freight({"--help"}).out);
  for (std::string word; commands >> word;) values.insert(word);
  for (const OtherName& row : other_names()) {
    for (const std::string& here : row.here) {
      if (!starts_with(here, "--")) {
        EXPECT_TRUE(values.contains(here)) << row.name << ": " << here;
        continue;
      }
      const std::string flag = starts_with(here, "--no-") ? "--" + here.substr(5) : here;
      bool found = false;
      for (const char* end : {" ", "\n", ","}) found = found || help.find(" " + flag + end) != std::string::npos;
      EXPECT_TRUE(found) << row.name << ": no command has " << here;
    }
  }
}

}  // namespace
}  // namespace freight::test
