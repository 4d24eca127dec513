// `freight models get` as a user meets it, with a server on the loopback interface.
#include <gtest/gtest.h>

#include <filesystem>

#include "freight/base/strings.h"
#include "freight/io/digest.h"
#include "run_command.h"
#include "tests/support/files.h"
#include "tests/support/loopback_server.h"

namespace freight::test {
namespace {
using freight::testing::bytes_of;
using freight::testing::LoopbackServer;

std::vector<std::string> own_caches(const std::string& dir, const std::string& token = {}) {
  return {"TORCH_HOME=" + dir + "/torch",
          "HF_HOME=" + dir + "/hf",
          "HF_HUB_CACHE=",
          "HF_TOKEN=" + token,
          "HF_HUB_OFFLINE=",
          "FREIGHT_CACHE=" + dir + "/cache"};
}

TEST(ModelsGet, ListsTheSourcesAndShowsWhatItDownloads) {
  const std::string dir = scratch_dir();
  const Ran list = run_freight({"models", "get"});
  EXPECT_EQ(list.code, 0) << list.err;
  EXPECT_NE(list.out.find("torchvision:resnet50 "), std::string::npos) << list.out;
  EXPECT_NE(list.out.find("torchvision:resnet50/IMAGENET1K_V1"), std::string::npos);
  EXPECT_NE(run_freight({"models", "get", "--json"}).out.find("\"source\": \"torchvision:vit_b_16\""),
            std::string::npos);

  const std::string content = "not really weights", hash = io::sha256(bytes_of(content));
  LoopbackServer server({{"/net.safetensors", {.body = content}}});
  const std::string address = server.url("/net.safetensors");
  const Ran got = run_freight({"models", "get", address + "#sha256=" + hash}, "", own_caches(dir));
  EXPECT_EQ(got.code, 0) << got.err;
  for (const std::string& line :
       {"address  " + address + "\n", "sha256   " + hash + "\n", std::string("license  not stated")}) {
    EXPECT_NE(got.out.find(line), std::string::npos) << got.out;
  }
  const Ran wrong = run_freight({"models", "get", address + "#sha256=" + std::string(64, '0')}, "", own_caches(dir));
  EXPECT_EQ(wrong.code, 3);
  EXPECT_NE(wrong.err.find("SHA-256 differs: expected " + std::string(64, '0') + ", got " + hash), std::string::npos)
      << wrong.err;
}

TEST(ModelsGet, WithoutAConnectionOrWithARejectedTokenItSaysWhatToDo) {
  const std::string dir = scratch_dir();
  std::vector<std::string> environment = own_caches(dir);
  environment.emplace_back("FREIGHT_WEIGHTS_URL=http://127.0.0.1:9");
  const Ran offline = run_freight({"models", "convert", "torchvision:resnet18", dir + "/out.pth"}, "", environment);
  EXPECT_EQ(offline.code, 3);
  for (const std::string& part :
       {std::string("http://127.0.0.1:9/resnet18-f37072fd.pth"), dir + "/torch/hub/checkpoints"}) {
    EXPECT_NE(offline.err.find(part), std::string::npos) << offline.err;
  }
  LoopbackServer hub({{"/api/models/org/net/revision/main?blobs=true", {.status = 401}}});
  environment = own_caches(dir, "hf_wrong");
  environment.push_back("HF_ENDPOINT=" + hub.url());
  const Ran rejected = run_freight({"models", "get", "hf:org/net"}, "", environment);
  EXPECT_EQ(rejected.code, 3);
  EXPECT_NE(rejected.err.find("HF_TOKEN was rejected"), std::string::npos) << rejected.err;
  EXPECT_EQ(rejected.err.find("hf_wrong"), std::string::npos) << "the token was shown";
  EXPECT_EQ(run_freight({"models", "get", "torchvision:resnet"}).code, 2);
}

TEST(Env, DoesNotShowSecrets) {
  for (const std::vector<std::string>& args : {std::vector<std::string>{"env"}, {"env", "--json"}}) {
    const Ran r = run_freight(args, "", {"HF_TOKEN=hf_secret", "TORCH_HOME=/somewhere"});
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_EQ(r.out.find("hf_secret"), std::string::npos);
    EXPECT_NE(r.out.find("(set, not shown)"), std::string::npos);
    EXPECT_NE(r.out.find("/somewhere"), std::string::npos);
  }
}

}  // namespace
}  // namespace freight::test
