// `freight data`: listings, descriptions, damage found, downloads from a folder.
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/data/catalog.h"
#include "run_command.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

// A small set in the layout of MNIST: `n` images of 28 x 28 and their labels, plain files.
std::string idx(std::initializer_list<int> dims, size_t bytes) {
  std::string text{'\0', '\0', '\x08', static_cast<char>(dims.size())};
  for (const int d : dims) {
    for (int shift = 24; shift >= 0; shift -= 8) text += static_cast<char>(d >> shift);
  }
  for (size_t i = 0; i < bytes; ++i) text += static_cast<char>(i % 10);
  return text;
}

std::string small_mnist() {
  const std::string dir = scratch_dir();
  for (const char* split : {"train", "t10k"}) {
    write_file(dir + "/" + split + "-images-idx3-ubyte", idx({20, 28, 28}, 20 * 28 * 28));
    write_file(dir + "/" + split + "-labels-idx1-ubyte", idx({20}, 20));
  }
  return dir;
}

TEST(DataCommand, ListsTheKnownSets) {
  const Ran r = run_freight({"data", "list", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  bool digits = false;
  for (const Json& e : Json::parse(r.out)) {
    if (e.at("name") == "digits") digits = e.at("builtin").get<bool>() && e.at("train") == 20000;
  }
  EXPECT_TRUE(digits);
  EXPECT_NE(run_freight({"data", "list"}).out.find("mnist"), std::string::npos);
}

TEST(DataCommand, DescribesAFolder) {
  const std::string dir = small_mnist();
  const Ran r = run_freight({"data", "info", dir, "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  EXPECT_EQ(j.at("train").at("count"), 20);
  EXPECT_EQ(j.at("train").at("shape"), Json({1, 28, 28}));
  EXPECT_EQ(j.at("test").at("per_class"), Json(std::vector<int>(10, 2)));
  EXPECT_EQ(j.at("path"), dir);
  EXPECT_NE(run_freight({"data", "info", dir}).out.find("classes  0, 1, 2"), std::string::npos);
}

TEST(DataCommand, ATruncatedFileIsNamedAndExitsThree) {
  const std::string dir = small_mnist();
  std::filesystem::resize_file(dir + "/train-images-idx3-ubyte", 1000);
  for (const char* command : {"info", "verify"}) {
    const Ran r = run_freight({"data", command, dir});
    EXPECT_EQ(r.code, 3);
    EXPECT_EQ(r.err.rfind("freight: error: " + dir + "/train-images-idx3-ubyte", 0), 0u) << r.err;
  }
}

TEST(DataCommand, AnUnknownSetNamesTheNearest) {
  const Ran r = run_freight({"data", "info", "minst"});
  EXPECT_EQ(r.code, 3);
  EXPECT_NE(r.err.find("did you mean mnist?"), std::string::npos) << r.err;
}

TEST(DataCommand, VerifiesTheHashesOfKnownSets) {
  const std::string dir = small_mnist() + "/mnist";
  std::filesystem::create_directory(dir);
  for (const auto& e : std::filesystem::directory_iterator(dir + "/..")) {
    if (e.is_regular_file()) std::filesystem::rename(e.path(), dir + "/" + e.path().filename().string());
  }
  // An unknown spelling of the files parses, but nothing vouches for it.
  const Ran r = run_freight({"data", "verify", "mnist", "--json", "--data-dir", dir + "/.."});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  EXPECT_TRUE(j.at("ok").get<bool>());
  EXPECT_EQ(j.at("files").at(0).at("state"), "unknown");
}

TEST(DataCommand, GetTakesFilesFromTheGivenPlaceAndRefusesWrongOnes) {
  const std::string dir = scratch_dir();
  for (const auto& f : data::find_entry("cifar10")->files) write_file(dir + "/" + f.name, "not the right content");
  const Ran r = run_freight({"data", "get", "cifar10", "--url", "file://" + dir, "--data-dir", dir + "/out"}, "",
                            {"FREIGHT_CACHE=" + dir});
  EXPECT_NE(r.code, 0);
  EXPECT_EQ(r.out, "");
  EXPECT_FALSE(std::filesystem::exists(dir + "/out/cifar10/data_batch_1.bin"));
}

TEST(DataCommand, GetOfTheBuiltInSetHasNothingToDo) {
  const Ran r = run_freight({"data", "get", "digits"});
  EXPECT_EQ(r.code, 0);
  EXPECT_EQ(r.out, "digits is built in, there is nothing to get\n");
}

TEST(DataCommand, WithoutASubcommandShowsTheUsage) {
  EXPECT_EQ(run_freight({"data"}).code, 2);
  const Ran r = run_freight({"data", "lsit"});
  EXPECT_EQ(r.code, 2);
  EXPECT_EQ(r.err, "freight: error: lsit: unknown command of `freight data`; did you mean list?\n");
  EXPECT_NE(run_freight({"data", "get", "--help"}).out.find("Usage: freight data get"), std::string::npos);
}

}  // namespace
}  // namespace freight::test
