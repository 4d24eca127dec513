// Stored trees are looked through before XGBoost sees them: what it would believe, and read beyond its arrays by.
#include <gtest/gtest.h>

#include <cmath>

#include <nlohmann/json.hpp>
#include "freight/base/strings.h"

#include "freight/tables/ubjson_check.h"
#include "freight/tables/xgboost_trees.h"
#include "tests/support/files.h"

namespace freight::tables {
namespace {
using namespace freight::testing;
using Json = nlohmann::json;

// Two leaves on either side of a word, as XGBoost writes them.
Json one_tree() {
  const Json tree = {{"tree_param", {{"num_nodes", "3"}, {"size_leaf_vector", "1"}}},
                     {"left_children", {1, -1, -1}},
                     {"right_children", {2, -1, -1}},
                     {"parents", {2147483647, 0, 0}},
                     {"split_indices", {1, 0, 0}},
                     {"split_conditions", {0.0, 0.5, -0.5}},
                     {"split_type", {1, 0, 0}},
                     {"default_left", {1, 0, 0}},
                     {"base_weights", {0.0, 0.5, -0.5}},
                     {"loss_changes", {1.0, 0.0, 0.0}},
                     {"sum_hessian", {2.0, 1.0, 1.0}},
                     {"categories", {0}},
                     {"categories_nodes", {0}},
                     {"categories_segments", {0}},
                     {"categories_sizes", {1}}};
  return {{"learner",
           {{"learner_model_param", {{"num_feature", "2"}, {"num_class", "0"}}},
            {"objective", {{"name", "binary:logistic"}}},
            {"gradient_booster",
             {{"name", "gbtree"},
              {"model",
               {{"gbtree_model_param", {{"num_trees", "1"}}},
                {"trees", Json::array({tree})},
                {"tree_info", {0}},
                {"iteration_indptr", {0, 1}}}}}}}}};
}

TEST(StoredTrees, AreLookedThroughBeforeXgboostSeesThem) {
  const auto read = [](const Json& j) {
    const std::vector<uint8_t> bytes = Json::to_ubjson(j);
    return read_trees(bytes, "m.safetensors", 2, 1).facts;
  };
  const TreeFacts facts = read(one_tree());
  EXPECT_EQ(facts.trees, 1);
  EXPECT_EQ(facts.nodes, 3);
  EXPECT_EQ(facts.leaves, 2);
  EXPECT_EQ(facts.depth, 1);
  EXPECT_EQ(facts.objective, "binary:logistic");
  const auto refused = [&](const char* path, const Json& value, const std::string& part) {
    Json j = one_tree();
    j[Json::json_pointer(path)] = value;
    SCOPED_TRACE(path);
    expect_error(ErrorKind::checkpoint, {"m.safetensors", "the saved trees are damaged", part}, [&] { read(j); });
  };
  const std::string tree = "/learner/gradient_booster/model/trees/0/";
  refused((tree + "left_children").c_str(), {3, -1, -1}, "node 0 has the child 3");
  refused((tree + "left_children").c_str(), {-7, -1, -1}, "node 0 has the child -7");
  refused((tree + "left_children").c_str(), {0, -1, -1}, "node 0 has the child 0");
  refused((tree + "right_children").c_str(), {1, -1, -1}, "node 0 has the child 1");
  refused((tree + "right_children").c_str(), {-1, -1, -1}, "node 0 has the child -1");
  refused((tree + "split_indices").c_str(), {2, 0, 0}, "it reads column 2 of 2");
  refused((tree + "split_indices").c_str(), {-1, 0, 0}, "it reads column -1");
  refused((tree + "split_conditions").c_str(), {0.0, NAN, -0.5}, "leaf 1 is NaN or infinite");
  refused((tree + "split_conditions").c_str(), {0.0, 0.5}, "split_conditions: expected 3, got 2 values");
  refused((tree + "default_left").c_str(), Json::array(), "default_left");
  refused((tree + "sum_hessian").c_str(), "none", "sum_hessian");
  refused((tree + "tree_param/num_nodes").c_str(), "4", "expected 4, got 3 values");
  refused((tree + "tree_param/num_nodes").c_str(), "0", "no nodes");
  refused((tree + "tree_param/num_nodes").c_str(), "three", "num_nodes");
  refused((tree + "tree_param/size_leaf_vector").c_str(), "3", "vectors");
  refused((tree + "categories_sizes").c_str(), {2}, "categories");
  refused((tree + "categories_segments").c_str(), {-1}, "categories");
  refused((tree + "categories_nodes").c_str(), {1}, "node 0 has no categories");
  refused((tree + "categories").c_str(), {-1}, "categories");
  refused((tree + "categories").c_str(), {1 << 24}, "categories");
  refused("/learner/gradient_booster/model/tree_info", {1}, "class 1 of 1");
  refused("/learner/gradient_booster/model/iteration_indptr", {0, 2}, "rounds");
  refused("/learner/gradient_booster/model/gbtree_model_param/num_trees", "2", "expected 2, got 1 trees");
  refused("/learner/gradient_booster/name", "gblinear", "gblinear");
  refused("/learner/learner_model_param/num_feature", "3", "they expect 3 columns");
  refused("/learner/learner_model_param/num_class", "3", "they predict 3 numbers");
  refused((tree + "parents").c_str(), {2147483647, 3, 0}, "node 1 has the parent 3");
  refused((tree + "parents").c_str(), {2147483647, 0, -1}, "node 2 has the parent -1");
  refused("/learner/learner_model_param/num_target", "2", "several targets");
  refused("/learner/learner_model_param/num_target", "-1", "several targets");
  refused("/learner", 1, "damaged");
  std::vector<uint8_t> cut = Json::to_ubjson(one_tree());
  cut.resize(cut.size() / 2);
  expect_error(ErrorKind::checkpoint, {"damaged"}, [&] { read_trees(cut, "m", 2, 1); });
}

// A tree of so many levels, whose right children are leaves.
Json chain(int64_t levels) {
  std::vector<int64_t> parents = {2147483647};
  for (int64_t i = 0; i < levels; ++i) parents.insert(parents.end(), {2 * i, 2 * i});
  // Nodes are numbered 0, 1 and 2, 3 and 4, ...: the even ones go on.
  std::vector<int64_t> lefts(parents.size(), -1), rights(parents.size(), -1);
  for (size_t i = 1; i < parents.size(); i += 2) {
    lefts[static_cast<size_t>(parents[i])] = static_cast<int64_t>(i);
    rights[static_cast<size_t>(parents[i])] = static_cast<int64_t>(i) + 1;
  }
  const std::vector<int64_t> zeros(parents.size());
  const std::vector<double> numbers(parents.size());
  Json tree = one_tree()["learner"]["gradient_booster"]["model"]["trees"][0];
  tree["tree_param"]["num_nodes"] = cat(parents.size());
  tree["left_children"] = lefts;
  tree["right_children"] = rights;
  tree["parents"] = parents;
  for (const char* name : {"split_indices", "split_type", "default_left"}) tree[name] = zeros;
  for (const char* name : {"split_conditions", "base_weights", "loss_changes", "sum_hessian"}) tree[name] = numbers;
  for (const char* name : {"categories", "categories_nodes", "categories_segments", "categories_sizes"}) {
    tree[name] = Json::array();
  }
  Json j = one_tree();
  j["learner"]["gradient_booster"]["model"]["trees"][0] = tree;
  return j;
}

TEST(StoredTrees, HaveAsManyLevelsAsXgboostGoesDownSafely) {
  const auto read = [](const Json& j) { return read_trees(Json::to_ubjson(j), "m", 2, 1).facts; };
  EXPECT_EQ(read(chain(511)).depth, 511);
  EXPECT_EQ(read(chain(512)).depth, 512);
  expect_error(ErrorKind::checkpoint, {"more than 512 levels"}, [&] { read(chain(513)); });
}

// XGBoost has 2 MB for the largest number of a category in every node.
TEST(StoredTrees, HaveCategoriesThatFitInMemory) {
  const auto with_trees = [](size_t count) {
    Json j = one_tree();
    Json& model = j["learner"]["gradient_booster"]["model"];
    model["trees"][0]["categories"] = {(1 << 24) - 1};
    model["trees"] = std::vector<Json>(count, model["trees"][0]);
    model["tree_info"] = std::vector<int>(count, 0);
    model["iteration_indptr"] = {0, count};
    model["gbtree_model_param"]["num_trees"] = cat(count);
    return Json::to_ubjson(j);
  };
  EXPECT_EQ(read_trees(with_trees(127), "m", 2, 1).facts.trees, 127);
  expect_error(ErrorKind::checkpoint, {"the numbers of its categories are too large"},
               [&] { read_trees(with_trees(130), "m", 2, 1); });
}

// Nodes that pruning left behind say what they like: columns that are none were counted with.
TEST(StoredTrees, NodesToWhichNoneLeadsAreLeaves) {
  Json j = one_tree();
  Json& tree = j["learner"]["gradient_booster"]["model"]["trees"][0];
  tree["tree_param"]["num_nodes"] = "4";
  for (const char* name :
       {"left_children", "right_children", "parents", "split_indices", "split_type", "default_left"}) {
    tree[name].push_back(0);
  }
  for (const char* name : {"split_conditions", "base_weights", "loss_changes", "sum_hessian"})
    tree[name].push_back(0.5);
  tree["left_children"][3] = 1;
  tree["split_indices"][3] = 1'000'000'000;
  const ReadTrees read = read_trees(Json::to_ubjson(j), "m", 2, 1);
  ASSERT_EQ(read.trees[0].nodes.size(), 4u);
  EXPECT_EQ(read.trees[0].nodes[0].left, 1);
  EXPECT_EQ(read.trees[0].nodes[3].left, -1);
  EXPECT_EQ(read.trees[0].nodes[3].column, 0);
}

// A list of categories that each node repeats is short in the file, and would take any memory.
TEST(StoredTrees, NodesDoNotShareTheirCategories) {
  Json j = one_tree();
  Json& tree = j["learner"]["gradient_booster"]["model"]["trees"][0];
  tree["categories_nodes"] = {0, 0};
  tree["categories_segments"] = {0, 0};
  tree["categories_sizes"] = {1, 1};
  expect_error(ErrorKind::checkpoint, {"m: ", "its categories do not fit its nodes"},
               [&] { read_trees(Json::to_ubjson(j), "m", 2, 1); });
}

TEST(Ubjson, IsOneValueWithinItsBytesWhoseKeysDiffer) {
  const auto fault = [](const std::string& text) {
    return ubjson_fault({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
  };
  const std::string key = "{U\1a", seven(7, '\0');
  for (const Json& j : {Json{{"a", {1, -2, 300, 1.5, "text", nullptr, true}}, {"b", Json::object()}}, one_tree()}) {
    EXPECT_EQ(ubjson_fault(Json::to_ubjson(j)), "");
  }
  EXPECT_EQ(fault(std::string("[$d#L", 5) + seven + "\1" + std::string(4, '\0')), "");
  EXPECT_EQ(fault(std::string(kMostUbjsonDepth, '[') + std::string(kMostUbjsonDepth, ']')), "");
  const struct {
    std::string bytes, part;
  } kFaults[] = {
      {"", "0 do"},
      {std::string(kMostUbjsonDepth + 1, '[') + std::string(kMostUbjsonDepth + 1, ']'), "lists within each other"},
      {std::string(5'000'000, '['), "lists within each other"},
      {key + "Z" + "U\1aZ}", "the key a appears twice"},
      {std::string("[$Z#L\0\0\0\0\xb2\xd0\x5e\0", 13), "has no numbers"},
      {std::string("[$L#L\x3f\xff\xff\xff\xff\xff\xff\xff", 13), "bytes should follow"},
      {std::string("[$L#L\xff\xff\xff\xff\xff\xff\xff\xff", 13), "below 0"},
      {std::string("SL\x7f\xff\xff\xff\xff\xff\xff\xff", 10), "bytes should follow"},
      {std::string("[#L\0\0\0\1\0\0\0\0", 11), "do"},
      {"{$Z#U\5", "expected a length"},
      {"ZZ", "bytes after the end"},
      {"[N]", "no value"},
      {"[U", "1 bytes should follow"},
  };
  for (const auto& [bytes, part] : kFaults) EXPECT_NE(fault(bytes).find(part), std::string::npos) << fault(bytes);
}

// XGBoost takes the first of two equal keys, and what was looked through was the last.
TEST(StoredTrees, HaveNoKeyTwice) {
  std::vector<uint8_t> bytes = Json::to_ubjson(one_tree());
  const std::string key = std::string("i\x5") + "trees", before(bytes.begin(), bytes.end());
  const size_t at = before.find(key);
  ASSERT_NE(at, std::string::npos);
  const std::string twice = before.substr(0, at) + key + "[]" + before.substr(at);
  expect_error(ErrorKind::checkpoint, {"m", "damaged", "the key trees appears twice"}, [&] {
    read_trees({reinterpret_cast<const uint8_t*>(twice.data()), twice.size()}, "m", 2, 1);
  });
}

}  // namespace
}  // namespace freight::tables
