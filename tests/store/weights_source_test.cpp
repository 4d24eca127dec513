// Weights by the name of their source, from servers on the loopback interface and from caches as other tools leave
// them.
#include "freight/store/weights_source.h"

#include <gtest/gtest.h>

#include <filesystem>

#include "freight/io/digest.h"
#include "freight/models/models.h"
#include "freight/store/bundle.h"
#include "tests/support/files.h"
#include "tests/support/loopback_server.h"

namespace freight::store {
namespace {
using namespace freight::testing;
namespace fs = std::filesystem;

const std::string kCommit(40, 'c');
const WeightsOptions kQuick{.fetch = {.tries = 2, .retry_seconds = 0.01}};
const WeightsOptions kNewest{.prefer_cache = false, .fetch = kQuick.fetch};
const std::string kNowhere = "http://127.0.0.1:9";

std::string hash_of_text(const std::string& text) { return io::sha256(bytes_of(text)); }

// Caches in a folder of the test's own.
class WeightsSource : public ::testing::Test {
 protected:
  TemporaryDir dir;
  ScopedEnvironment torch{"TORCH_HOME", dir / "torch"}, hugging{"HF_HOME", dir / "hf"}, cache{"HF_HUB_CACHE", ""},
      token{"HF_TOKEN", ""}, offline{"HF_HUB_OFFLINE", ""}, own{"FREIGHT_CACHE", dir / "own"};
};

// A hub with one repository.
class Hub {
 public:
  // `large`: files that the hub stores by their SHA-256.
  Hub(const std::string& repository, const std::map<std::string, std::string>& files) : repository_(repository) {
    std::string siblings;
    for (const auto& [name, content] : files) {
      const bool large = !ends_with(name, ".json") && name != "README.md";
      const std::string lfs = cat(R"(,"lfs":{"sha256":")", hash_of_text(content), R"(","size":)", content.size(), "}");
      siblings += cat(siblings.empty() ? "" : ",", R"({"rfilename":")", name, R"(","blobId":")",
                      hash_of_text(content).substr(0, 40), R"(","size":)", content.size(), large ? lfs : "", "}");
      server.put(address(name), {.body = content});
    }
    server.put(about(), {.body = cat(R"({"sha":")", kCommit, R"(","siblings":[)", siblings, "]}")});
  }
  std::string address(const std::string& file) const { return cat("/", repository_, "/resolve/", kCommit, "/", file); }
  std::string about() const { return cat("/api/models/", repository_, "/revision/main?blobs=true"); }
  LoopbackServer server;

 private:
  std::string repository_;
};

TEST_F(WeightsSource, AFileOfTorchvisionWithAnotherHashIsRefused) {
  const PublishedWeights& w = published_weights().front();
  LoopbackServer server;
  server.put("/" + w.file, {.body = "not these weights"});
  const ScopedEnvironment mirror("FREIGHT_WEIGHTS_URL", server.url("/"));
  const std::string path = dir / "torch/hub/checkpoints/" + w.file;
  // The digits in the name are those of the published file.
  expect_error(ErrorKind::data,
               {path, server.url("/" + w.file), "SHA-256 differs: expected ", hash_of_text("not these weights")},
               [&] { find_weights("torchvision:" + w.model, kQuick); });
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(WeightsSource, WithoutAConnectionTheErrorNamesAddressFileAndFolder) {
  const ScopedEnvironment mirror("FREIGHT_WEIGHTS_URL", kNowhere);
  expect_error(ErrorKind::data,
               {kNowhere + "/resnet50-11ad3fa6.pth", "offline?", "put resnet50-11ad3fa6.pth into",
                dir / "torch/hub/checkpoints"},
               [&] { find_weights("torchvision:resnet50", kQuick); });
  expect_error(ErrorKind::data, {"resnet50-0676ba61.pth"},
               [&] { find_weights("torchvision:resnet50/IMAGENET1K_V1", kQuick); });
  const ScopedEnvironment endpoint("HF_ENDPOINT", kNowhere);
  expect_error(ErrorKind::data,
               {"hf:timm/resnet50.a1_in1k", kNowhere + "/timm/resnet50.a1_in1k/resolve/main/model.safetensors",
                "put model.safetensors into", dir / "hf/hub/models--timm--resnet50.a1_in1k/snapshots/main"},
               [&] { find_weights("hf:timm/resnet50.a1_in1k", kQuick); });
  expect_error(ErrorKind::data, {kNowhere + "/a/b.safetensors", "put b.safetensors into", dir / "own/weights/"},
               [&] { find_weights(kNowhere + "/a/b.safetensors", kQuick); });
}

TEST_F(WeightsSource, AFileWithDigitsInItsNameIsSharedWithTorchHub) {
  const std::string content = "weights of someone";
  const std::string name = cat("net-", hash_of_text(content).substr(0, 8), ".pth");
  LoopbackServer server;
  server.put("/" + name, {.body = content});
  put(dir / "torch/hub/checkpoints/" + name, content);
  const LocalWeights found = find_weights(server.url("/" + name), kQuick);
  EXPECT_EQ(found.path, dir / "torch/hub/checkpoints/" + name);
  EXPECT_EQ(found.files.at(0).sha256, hash_of_text(content));
  EXPECT_TRUE(server.requests().empty());
  put(found.path, "damaged");  // is replaced
  EXPECT_EQ(read_text(find_weights(server.url("/" + name), kQuick).path), content);
}

TEST_F(WeightsSource, AnAddressWithoutDigitsHasAFolderOfItsOwnAndAHashCanBeGiven) {
  LoopbackServer server({{"/a/model.safetensors", {.body = "first"}}, {"/b/model.safetensors", {.body = "second"}}});
  const std::string a = server.url("/a/model.safetensors"), b = server.url("/b/model.safetensors");
  EXPECT_EQ(read_text(weights_path(a, kQuick)), "first");
  EXPECT_EQ(read_text(weights_path(b, kQuick)), "second");
  EXPECT_EQ(read_text(weights_path(cat(a, "#sha256=", hash_of_text("first")), kQuick)), "first");
  EXPECT_EQ(server.requests("/a/model.safetensors").size(), 1u);
  expect_error(ErrorKind::data, {"SHA-256 differs: expected ", hash_of_text("second"), hash_of_text("first")},
               [&] { weights_path(cat(a, "#sha256=", hash_of_text("second")), kQuick); });
  expect_error(ErrorKind::usage, {"64 hexadecimal digits", "sha256=12"},
               [&] { weights_path(a + "#sha256=12", kQuick); });
  expect_error(ErrorKind::usage, {"does not end in the name of a file"},
               [&] { weights_path(server.url("/a/"), kQuick); });
}

TEST_F(WeightsSource, ARepositoryIsStoredAsHuggingFaceStoresIt) {
  Hub hub("org/net", {{"model.safetensors", "the weights"},
                      {"pytorch_model.bin", "the same"},
                      {"README.md", "---\ntags:\n- timm\nlicense: apache-2.0\n---\n# Net\n"}});
  const ScopedEnvironment endpoint("HF_ENDPOINT", hub.server.url("/"));
  const LocalWeights found = find_weights("hf:org/net", kQuick);
  const std::string folder = dir / "hf/hub/models--org--net";
  EXPECT_EQ(found.path, cat(folder, "/snapshots/", kCommit, "/model.safetensors"));
  EXPECT_EQ(found.license, "apache-2.0");
  EXPECT_EQ(found.page, hub.server.url("/org/net"));
  EXPECT_EQ(found.files.at(0).sha256, hash_of_text("the weights"));
  EXPECT_EQ(found.files[0].address, hub.server.url(hub.address("model.safetensors")));
  EXPECT_EQ(fs::read_symlink(found.path), "../../blobs/" + hash_of_text("the weights"));
  EXPECT_EQ(read_text(folder + "/refs/main"), kCommit);
  EXPECT_TRUE(hub.server.requests(hub.address("pytorch_model.bin")).empty());
  EXPECT_EQ(terms_of("hf:org/net").license, "apache-2.0");
  EXPECT_EQ(terms_of("hf:org/net").page, found.page);
  // From now on no connection is needed.
  const size_t requests = hub.server.requests().size();
  EXPECT_EQ(find_weights("hf:org/net", kQuick).path, found.path);
  EXPECT_EQ(find_weights("hf:org/net@" + kCommit, kQuick).path, found.path);
  EXPECT_EQ(hub.server.requests().size(), requests);
  // The newest version is asked for, and what is there is used without a connection.
  EXPECT_EQ(find_weights("hf:org/net", kNewest).path, found.path);
  EXPECT_EQ(hub.server.requests().size(), requests + 1);
  const ScopedEnvironment nowhere("HF_ENDPOINT", kNowhere);
  EXPECT_EQ(find_weights("hf:org/net", kNewest).path, found.path);
}

TEST_F(WeightsSource, WhatHuggingFaceLeftInItsCacheIsFound) {
  const std::string folder = dir / "elsewhere/models--org--net";
  const std::string snapshot = cat(folder, "/snapshots/", kCommit);
  put(folder + "/refs/main", kCommit);
  put(cat(folder, "/blobs/", hash_of_text("left")), "left");
  fs::create_directories(snapshot);
  fs::create_symlink("../../blobs/" + hash_of_text("left"), snapshot + "/model.safetensors");
  const ScopedEnvironment where("HF_HUB_CACHE", dir / "elsewhere"), only("HF_HUB_OFFLINE", "1"),
      endpoint("HF_ENDPOINT", kNowhere);
  EXPECT_EQ(weights_path("hf:org/net", kQuick), snapshot + "/model.safetensors");
  expect_error(ErrorKind::data, {"hf:org/other", "is not in the cache", "HF_HUB_OFFLINE is 1", "put model.safetensors"},
               [&] { weights_path("hf:org/other", kQuick); });
  // A file that was put by hand where the error says.
  put(dir / "elsewhere/models--org--other/snapshots/main/model.safetensors", "by hand");
  EXPECT_EQ(read_text(weights_path("hf:org/other", kQuick)), "by hand");
  put(cat(folder, "/blobs/", hash_of_text("left")), "damaged");
  expect_error(ErrorKind::data, {"SHA-256 differs", hash_of_text("left"), hash_of_text("damaged")},
               [&] { weights_path("hf:org/net", kQuick); });
}

TEST_F(WeightsSource, AnInterruptedDownloadResumes) {
  const std::string content(50000, 'w');
  Hub hub("org/net", {{"model.safetensors", content}});
  const ScopedEnvironment endpoint("HF_ENDPOINT", hub.server.url());
  const std::string path = hub.address("model.safetensors");
  hub.server.put(path, {.body = content, .break_after = 20000});
  WeightsOptions once = kQuick;
  once.fetch.tries = 1;
  expect_error(ErrorKind::data, {"run the command again to resume"}, [&] { find_weights("hf:org/net", once); });
  EXPECT_EQ(read_text(find_weights("hf:org/net", once).path), content);
  ASSERT_EQ(hub.server.requests(path).size(), 2u);
  EXPECT_NE(hub.server.requests(path)[1].find("Range: bytes=20000-"), std::string::npos);
}

TEST_F(WeightsSource, TokensAreSentAndTheirRejectionIsNamed) {
  Hub hub("org/net", {{"model.safetensors", "private"}});
  const ScopedEnvironment endpoint("HF_ENDPOINT", hub.server.url());
  {
    const ScopedEnvironment secret("HF_TOKEN", "hf_secret");
    EXPECT_EQ(read_text(find_weights("hf:org/net", kQuick).path), "private");
    for (const std::string& request : hub.server.requests()) {
      EXPECT_NE(request.find("Authorization: Bearer hf_secret"), std::string::npos);
    }
    hub.server.put("/api/models/org/wrong/revision/main?blobs=true", {.status = 401});
    expect_error(ErrorKind::data, {"hf:org/wrong", "401", "HF_TOKEN was rejected", "/settings/tokens"},
                 [&] { find_weights("hf:org/wrong", kQuick); });
  }
  expect_error(ErrorKind::data, {"401", "private or gated", "set HF_TOKEN"},
               [&] { find_weights("hf:org/wrong", kQuick); });
  hub.server.put(hub.address("model.safetensors"), {.status = 403});
  fs::remove_all(dir / "hf");
  expect_error(ErrorKind::data, {"403", "accept the terms at " + hub.server.url("/org/net")},
               [&] { find_weights("hf:org/net", kQuick); });
  expect_error(ErrorKind::data, {"404", "no such repository"}, [&] { find_weights("hf:org/none", kQuick); });
}

TEST_F(WeightsSource, ShardsOfAnIndexAreLoadedIntoTheModel) {
  // A network whose weights are in two files.
  const models::Model net = models::create("logistic_regression");
  io::SafeTensors first, second;
  for (const nn::NamedVariable& v : net.net->state_dict()) {
    (first.tensors.empty() ? first : second).tensors.emplace_back(v.name, v.variable.array());
  }
  io::save_safetensors(dir / "1", first);
  io::save_safetensors(dir / "2", second);
  const std::string index = cat(R"({"weight_map":{")", first.tensors[0].first, R"(":"model-1.safetensors",")",
                                second.tensors[0].first, R"(":"model-2.safetensors"}})");
  Hub hub("org/large", {{"model.safetensors.index.json", index},
                        {"model-1.safetensors", read_text(dir / "1")},
                        {"model-2.safetensors", read_text(dir / "2")}});
  const ScopedEnvironment endpoint("HF_ENDPOINT", hub.server.url());
  const LocalWeights found = find_weights("hf:org/large", kQuick);
  EXPECT_EQ(found.files.size(), 3u);
  models::Model other = models::create("logistic_regression");
  for (const nn::NamedVariable& v : other.net->state_dict()) v.variable.set(Array(DType::f32, v.variable.shape()));
  load_weights(other, found.path);
  const Array expected = net.net->state_dict()[0].variable.array(), got = other.net->state_dict()[0].variable.array();
  EXPECT_EQ(got.to_vector<float>(), expected.to_vector<float>());
  // A shard that was removed is downloaded again.
  fs::remove(fs::path(found.path).parent_path() / "model-2.safetensors");
  load_weights(other, weights_path("hf:org/large", kQuick));
}

TEST_F(WeightsSource, PathsOutOfTheCacheAreRefused) {
  Hub hub("org/net", {{"../../../../evil.safetensors", "x"}});
  const ScopedEnvironment endpoint("HF_ENDPOINT", hub.server.url());
  expect_error(ErrorKind::data, {"refused", "leaves the folder"}, [&] { find_weights("hf:org/net", kQuick); });
  for (const char* name : {"hf:../net", "hf:org/..", "hf:org/net@../x", "hf:org/net/../x", "hf:", "hf:org/n?t"}) {
    expect_error(ErrorKind::usage, {"hf:ORG/NAME"}, [&] { find_weights(name, kQuick); });
  }
}

TEST_F(WeightsSource, SeveralFilesOfWeightsAreListed) {
  Hub hub("org/net", {{"a.safetensors", "a"}, {"b.safetensors", "b"}, {"config.json", "{}"}});
  const ScopedEnvironment endpoint("HF_ENDPOINT", hub.server.url());
  expect_error(ErrorKind::data, {"name one", "hf:org/net/a.safetensors", "b.safetensors"},
               [&] { find_weights("hf:org/net", kQuick); });
  EXPECT_EQ(read_text(weights_path("hf:org/net/b.safetensors", kQuick)), "b");
  Hub empty("org/empty", {{"config.json", "{}"}});
  const ScopedEnvironment other("HF_ENDPOINT", empty.server.url());
  expect_error(ErrorKind::data, {"has no weights"}, [&] { find_weights("hf:org/empty", kQuick); });
}

TEST_F(WeightsSource, UnknownNamesGetTheNearest) {
  expect_error(ErrorKind::usage, {"resnet5O", "did you mean resnet50"}, [] { find_weights("torchvision:resnet5O"); });
  expect_error(ErrorKind::usage, {"IMAGENET1K_V2, IMAGENET1K_V1", "V3"},
               [] { find_weights("torchvision:mobilenet_v2/IMAGENET1K_V3"); });
  const auto hint = [](const std::string& text) -> std::string {
    try {
      return weights_path(text);
    } catch (const Error& e) {
      return e.message();
    }
  };
  EXPECT_NE(hint("resnet18").find("did you mean torchvision:resnet18?"), std::string::npos);
  EXPECT_NE(hint("resnet18-f37072fd.pth").find("torchvision:resnet18?"), std::string::npos);
  EXPECT_NE(hint("ResNet50_Weights.IMAGENET1K_V1").find("torchvision:resnet50/IMAGENET1K_V1?"), std::string::npos);
  EXPECT_NE(hint("IMAGENET1K_V1").find("torchvision:NAME?"), std::string::npos);
  EXPECT_NE(hint("timm/resnet50.a1_in1k").find("hf:timm/resnet50.a1_in1k?"), std::string::npos);
  EXPECT_EQ(hint("some/file.safetensors"), "some/file.safetensors");
  put(dir / "resnet18", "a file of that name");
  EXPECT_EQ(hint(dir / "resnet18"), dir / "resnet18");
}

TEST_F(WeightsSource, TermsAreKnownWithoutAConnection) {
  EXPECT_NE(terms_of("torchvision:resnet18").license.find("BSD-3-Clause"), std::string::npos);
  EXPECT_EQ(terms_of("hf:org/unknown").license, "");
  EXPECT_EQ(terms_of("some/file.pth").license, "");
}

TEST_F(WeightsSource, EveryPublishedFileIsOfABuiltInModelAndHasDigitsOfItsHash) {
  for (const PublishedWeights& w : published_weights()) {
    const auto& all = models::registry();
    EXPECT_TRUE(std::any_of(all.begin(), all.end(), [&](const models::Entry& e) { return w.model == e.name; }))
        << w.model;
    EXPECT_GT(w.top1, 50);
    EXPECT_GT(w.mib, 1);
    const size_t dash = w.file.rfind('-');
    EXPECT_EQ(w.file.substr(dash + 9), ".pth") << w.file;
  }
}

}  // namespace
}  // namespace freight::store
