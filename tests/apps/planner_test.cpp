// `freight plan`, and what `freight train` makes of a run that does not fit.
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "freight/base/strings.h"
#include "freight/plan/rates.h"
#include "run_command.h"
#include "tests/support/simple_rates.h"

namespace freight::test {
namespace {

using Json = nlohmann::json;

TEST(PlanCommand, TellsMemoryFormulaAndDevices) {
  const Ran r = run_freight({"plan", "--model", "lenet", "-b", "32", "--samples", "60000", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out);
  EXPECT_EQ(j.at("parameters"), 61706);
  int64_t sum = 0;
  for (const auto& [kind, bytes] : j.at("memory").items()) sum += bytes.get<int64_t>();
  EXPECT_EQ(j.at("total_bytes"), sum);
  EXPECT_GT(j.at("formula").at("bytes_per_sample"), 0);
  EXPECT_FALSE(j.at("peak").at("tensors").empty());
  EXPECT_GE(j.at("devices").size(), 84u);  // and this machine
  for (const Json& d : j.at("devices")) EXPECT_TRUE(d.contains("assumed")) << d;
  const Json& second = j.at("devices")[1];
  EXPECT_GT(second.at("run_hours").at("high"), 0);
  EXPECT_FALSE(second.at("source").empty());
  const Ran text = run_freight({"plan", "--model", "lenet", "-b", "32", "--means"});
  for (const char* part : {"formula", "largest batch", "--recompute all", "--precision bf16", "dense"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part;
  }
}

// The memory of a device is enough to say whether a run fits it.
TEST(PlanCommand, MemoryAloneSaysWhatFits) {
  const auto within = [](const char* memory) {
    const Ran r = run_freight({"plan", "--model", "lenet", "-b", "512", "--device-memory", memory, "--json"});
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out).at("device_memory");
  };
  const Json plenty = within("24GiB"), little = within("3MiB"), none = within("100KiB");
  EXPECT_EQ(plenty.at("fits"), true);
  EXPECT_GT(plenty.at("largest_batch"), 512);
  EXPECT_EQ(little.at("fits"), false);
  EXPECT_GT(little.at("largest_batch"), 0);
  EXPECT_LT(little.at("largest_batch"), 512);
  EXPECT_NE(little.at("means").get<std::string>().find("--grad-accum"), std::string::npos);
  EXPECT_EQ(none.at("largest_batch"), 0);
  const Ran text = run_freight({"plan", "--model", "lenet", "-b", "512", "--device-memory", "24GiB"});
  EXPECT_NE(text.out.find("in 24.0 GiB      a batch of 512 fits; the largest that does is "), std::string::npos)
      << text.out;
  // Half a description is none.
  EXPECT_EQ(run_freight({"plan", "--model", "lenet", "--device-memory", "24GiB", "--device-tflops", "9"}).code, 2);
  EXPECT_EQ(run_freight({"advise", "--model", "lenet", "--device-memory", "24GiB"}).code, 2);
}

TEST(PlanCommand, WhatIsNotKnownIsAnsweredWithWhatIs) {
  struct Row {
    std::vector<std::string> args;
    int code;
    std::vector<const char*> parts;
  };
  const Row rows[] = {
      {{"plan", "--device-memory", "24GiB"}, 2, {"freight models list", "freight data list", "--samples"}},
      {{"plan", "imagenet"}, 3, {"no such dataset", "cifar10", "--model NAME", "--samples N"}},
      {{"plan", "imagenet", "--model", "resnet50"}, 3, {"--model resnet50 --samples N"}},
      {{"plan", "--model", "lenet", "--on", "A5000"}, 2, {"A100 SXM4 80GB", "GeForce RTX 4090", "--device-tflops"}},
      {{"plan", "--model", "lenet", "--on", "A100"}, 2, {"A100 PCIe 40GB, A100 PCIe 80GB", "A100 SXM4 80GB"}},
  };
  for (const Row& row : rows) {
    const Ran r = run_freight(row.args);
    EXPECT_EQ(r.code, row.code) << r.err;
    for (const char* part : row.parts) EXPECT_NE(r.err.find(part), std::string::npos) << part << ": " << r.err;
  }
}

TEST(PlanCommand, CsvHasALinePerDevice) {
  const Ran r = run_freight({"plan", "--model", "mlp", "--csv", "--sort", "name"});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_GE(std::count(r.out.begin(), r.out.end(), '\n'), 85);
  EXPECT_EQ(r.out.rfind("device,fits,", 0), 0u);
}

TEST(PlanCommand, ADescribedDeviceComesWithItsPrice) {
  const Ran r = run_freight({"plan", "--model", "mlp", "--samples", "1000", "--device-name", "mine", "--device-memory",
                             "8", "--device-bandwidth", "200", "--device-tflops", "5", "--device-price", "0.5",
                             "--sort", "dollars", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json devices = Json::parse(r.out).at("devices");
  const auto mine =
      std::find_if(devices.begin(), devices.end(), [](const Json& d) { return d.at("device") == "mine"; });
  ASSERT_NE(mine, devices.end());
  EXPECT_GT(mine->at("dollars").at("high"), 0);
}

TEST(PlanCommand, OffloadingIsPlannedWithinTheMemory) {
  const Ran r = run_freight(
      {"plan", "--model", "resnet20", "-b", "32", "--offload", "auto", "--device-memory", "20MiB", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out), offload = j.at("offload");
  EXPECT_EQ(offload.at("fits"), true);
  EXPECT_GT(j.at("total_bytes").get<int64_t>(), 20 << 20);
  EXPECT_LE(offload.at("total_bytes").get<int64_t>(), 20 << 20);
  EXPECT_GT(offload.at("host_bytes"), 0);
  EXPECT_GT(offload.at("copies"), 0);
  EXPECT_GT(offload.at("predicted_slowdown"), 0);
  const Ran text =
      run_freight({"plan", "--model", "resnet20", "-b", "32", "--offload", "auto", "--device-memory", "1MiB"});
  EXPECT_NE(text.out.find("which does not fit 1.0 MiB"), std::string::npos) << text.out;
}

TEST(PlanCommand, RefusesWhatItCannotPlan) {
  struct Row {
    std::vector<std::string> args;
    const char* part;
  };
  const Row rows[] = {
      {{}, "expected a dataset (freight data list), or a model"},
      {{"--model", "lenett"}, "lenet"},
      {{"--model", "lenet", "--batch-size", "0"}, "--batch-size"},
      {{"--model", "lenet", "--input-shape", "3xq"}, "--input-shape"},
      {{"--model", "alexnet", "--input-shape", "3x16x16"}, "alexnet"},
      {{"digits", "--model", "lenet", "--input-shape", "1x28x28"}, "--input-shape"},
      {{"--model", "lenet", "--device-price", "1"}, "--device-price"},
      {{"--model", "lenet", "--device-memory", "8", "--device-bandwidth", "9", "--device-tflops", "1", "--device-price",
        "-1"},
       "dollars: expected a number above 0"},
      {{"--model", "lenet", "--sort", "beauty"}, "--sort"},
      {{"--model", "lenet", "-b", "4", "--devices", "8"}, "--devices"},
      {{"--model", "lenet", "--devices", "0"}, "--devices"},
      {{"--model", "lenet", "--devices", "cuda*x"}, "NAME*COUNT"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> args = {"plan"};
    args.insert(args.end(), row.args.begin(), row.args.end());
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, 2) << row.part << r.out;
    EXPECT_NE(r.err.find(row.part), std::string::npos) << r.err;
  }
  EXPECT_EQ(run_freight({"plan", "--model", "lenet", "--prices", "/nowhere.json"}).code, 3);
}

TEST(PlanCommand, WorldComparesNumbersOfDevices) {
  const std::string file = scratch_dir() + "/devices.json";
  write_file(file, R"({"format": "freight-devices-1", "devices": [{"name": "Card", "kind": "gpu", "vendor": "NVIDIA",
      "year": 2022, "memory_gib": 80, "bandwidth_gb_per_s": 3350, "dense_tflops": {"fp32": 67},
      "link": "to all", "link_gb_per_s": 450, "source": "headline", "date": "2026-01-01"}]})");
  const std::vector<std::string> base = {"plan", "--model", "resnet18", "-b", "256", "--catalog", file};
  const auto plan = [&](const std::vector<std::string>& flags) {
    std::vector<std::string> args = base;
    args.insert(args.end(), flags.begin(), flags.end());
    return run_freight(args);
  };
  const Json j = Json::parse(plan({"--world", "1,2,4", "--json"}).out);
  const Json alone = Json::parse(plan({"--devices", "4", "--json"}).out);
  ASSERT_EQ(j.at("world").size(), 3u);
  const auto card = [](const Json& list) {
    for (const Json& d : list) {
      if (d.at("device") == "Card") return d;
    }
    return Json();
  };
  double before = 0;
  for (const Json& one : j.at("world")) {
    const Json d = card(one.at("estimates"));
    EXPECT_EQ(one.at("batch_per_device").get<int64_t>() * one.at("devices").get<int64_t>(), 256);
    const double rate = d.at("samples_per_second").at("low").get<double>(),
                 of_linear = d.at("efficiency").get<double>();
    EXPECT_GT(rate, before);
    EXPECT_LE(of_linear, 1.0);
    EXPECT_GT(of_linear, 0.2);
    before = rate;
  }
  EXPECT_EQ(card(j.at("world")[2].at("estimates")).at("samples_per_second"),
            card(alone.at("devices")).at("samples_per_second"));
  const Ran table = plan({"--world", "1,2,4"});
  EXPECT_EQ(table.code, 0) << table.err;
  for (const char* part : {"4 devices", "batch of each", "Card", " %", "predicted, not measured"}) {
    EXPECT_NE(table.out.find(part), std::string::npos) << part << "\n" << table.out;
  }
  // Each rank's memory, and with the optimizer's state, sgd's momentum here, dealt out over the ranks.
  for (const Json& one : j.at("world")) {
    const Json& m = one.at("memory");
    const auto n = one.at("devices").get<int64_t>(), state = m.at("optimizer_bytes").get<int64_t>();
    EXPECT_GE(state, 11'000'000 * 4);
    // Tensors stay whole: no rank has less than its even part, and none more than that and the largest tensor.
    const int64_t kept =
        m.at("sharded_optimizer_total_bytes").get<int64_t>() - (m.at("total_bytes").get<int64_t>() - state);
    EXPECT_GE(kept, state / n);
    EXPECT_LE(kept, state / n + 512 * 512 * 9 * 4 + 4096);
    EXPECT_TRUE(n > 1 || kept == state);
  }
  EXPECT_EQ(j.at("world")[2].at("memory").at("total_bytes"), alone.at("total_bytes"));
  for (const char* part : {"ms of all-reduce", "limited by", "sharded", "--on NAME"}) {
    EXPECT_NE(table.out.find(part), std::string::npos) << part << "\n" << table.out;
  }
  // A batch on each device instead of a shared one, at the rate that one was measured at.
  const Json each =
      Json::parse(plan({"--world", "1,4", "--per-device-batch-size", "64", "--rate-of-one", "1000", "--json"}).out);
  EXPECT_EQ(each.at("world")[1].at("batch_per_device"), 64);
  EXPECT_NEAR(card(each.at("world")[0].at("estimates")).at("samples_per_second").at("low").get<double>(), 1000, 1e-6);
  EXPECT_GT(card(each.at("world")[1].at("estimates")).at("samples_per_second").at("low").get<double>(), 2000);
  EXPECT_LE(card(each.at("world")[1].at("estimates")).at("samples_per_second").at("high").get<double>(), 4000 + 1e-6);
  const std::vector<std::pair<std::vector<std::string>, std::string>> refused = {
      {{"--world", "2,4", "--rate-of-one", "9"}, "needs --world 1,"},
      {{"--world", "1,2", "--on", "Cart"}, "did you mean Card"},
      {{"--world", "4,2"}, "expected whole numbers from 1 to 1000000 in ascending order"},
      {{"--world", "1,512"}, "got 512 devices for a batch of 256: expected a sample for each"},
      {{"--world", "1,4", "--shards", "2"}, "got 4 devices for 2 shards: use --shards 4 or fewer devices"},
      {{"--world", "1,2", "--devices", "2"}, "cannot be combined with --devices"},
      {{"--world", "1,2", "--csv"}, "cannot be combined with --csv"}};
  for (const auto& [flags, part] : refused) {
    const Ran r = plan(flags);
    EXPECT_EQ(r.code, 2) << r.out;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  }
}

TEST(PlanCommand, TheLinkIsANameANumberOrAFile) {
  const std::string dir = scratch_dir();
  const auto plan = [&](const std::string& link, const std::string& world = "1,16") {
    return run_freight({"plan", "--model", "resnet18", "-b", "256", "--world", world, "--link", link, "--on",
                        "A100 SXM4 80GB", "--json"});
  };
  const auto last = [&](const std::string& link) {
    const Ran r = plan(link);
    EXPECT_EQ(r.code, 0) << link << r.err;
    return Json::parse(r.out).at("world")[1].at("estimates")[1];
  };
  const Json named = last("25gbit");
  EXPECT_EQ(last("25"), named);  // a bare number is Gbit/s
  EXPECT_EQ(last("NVLINK,25gbit"), named);
  EXPECT_NE(named.at("link").get<std::string>().find("25 Gbit/s"), std::string::npos);
  EXPECT_NE(named.at("limit").get<std::string>().find("all-reduce over a network of 25 Gbit/s"), std::string::npos);
  EXPECT_LT(last("1gbit").at("efficiency").get<double>(), named.at("efficiency").get<double>());
  EXPECT_GT(last("400gbit-rdma").at("efficiency").get<double>(), named.at("efficiency").get<double>());
  write_file(dir + "/own.json", R"({"format": "freight-links-1", "links": [{"name": "switch", "scope": "between",
      "gbit_per_s": 25, "best_share": 0.95, "usual_share": 0.6, "best_hop_us": 37, "usual_hop_us": 50,
      "source": "mine", "date": "2026-11-27"}]})");
  EXPECT_EQ(last(dir + "/own.json").at("step_seconds"), named.at("step_seconds"));
  // What freight bench comm measured stands in for all links; beyond its ranks there is a band, which is told.
  write_file(dir + "/sums.json", R"({"worlds": [{"world": 2, "hosts": 2, "figures": [], "cost": {"start_seconds": 1e-5,
      "seconds_per_byte": 1e-9, "worst_deviation": 0.1}}]})");
  const Json measured = last(dir + "/sums.json");
  EXPECT_NE(measured.at("beyond").get<std::string>().find("beyond the 2 ranks that sums.json measured"),
            std::string::npos);
  EXPECT_TRUE(
      Json::parse(plan(dir + "/sums.json", "1,2").out).at("world")[1].at("estimates")[1].at("beyond").is_null());
  write_file(dir + "/none.json", R"({"format": "freight-links-1", "links": []})");
  write_file(dir + "/one.json", R"({"worlds": [{"world": 1, "figures": [], "cost": {"start_seconds": 0,
      "seconds_per_byte": 0, "worst_deviation": 0}}]})");
  const std::vector<std::pair<std::string, std::string>> refused = {{"nvlynk", "did you mean nvlink"},
                                                                    {"-3", "expected one of nvlink, pcie"},
                                                                    {dir + "/none.json", "has 0 links, expected one"},
                                                                    {dir + "/one.json", "times of one rank alone"}};
  for (const auto& [link, part] : refused) {
    const Ran r = plan(link);
    EXPECT_EQ(r.code, 2) << link << r.out;
    EXPECT_NE(r.err.find(part), std::string::npos) << r.err;
  }
}

TEST(PlanCommand, AFileWithASparsePeakIsQuestioned) {
  const std::string file = scratch_dir() + "/devices.json";
  write_file(file, R"({"format": "freight-devices-1", "devices": [{"name": "Card", "kind": "gpu", "vendor": "NVIDIA",
      "year": 2022, "memory_gib": 80, "bandwidth_gb_per_s": 3350, "dense_tflops": {"fp32": 67, "bf16": 1979},
      "source": "headline", "date": "2026-01-01"}]})");
  const Ran r = run_freight({"plan", "--model", "mlp", "--catalog", file});
  EXPECT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("sparse"), std::string::npos) << r.err;
  EXPECT_NE(r.out.find("Card"), std::string::npos);
}

TEST(PlanCommand, SharesABatchAmongDevices) {
  const std::vector<std::string> args = {"plan", "--model", "resnet20", "-b", "256", "--samples", "50000", "--json"};
  const auto rate = [&](const char* devices) {
    std::vector<std::string> all = args;
    all.insert(all.end(), {"--devices", devices});
    const Ran r = run_freight(all);
    EXPECT_EQ(r.code, 0) << r.err;
    const Json j = Json::parse(r.out);
    EXPECT_EQ(j.at("batch_per_device"), 256 / std::stoi(devices));
    for (const Json& d : j.at("devices")) {
      if (d.at("device") == "A100 SXM4 80GB") return d;
    }
    return Json();
  };
  const Json one = rate("1"), four = rate("4");
  EXPECT_FALSE(one.contains("link"));
  EXPECT_EQ(four.at("devices"), 4);
  EXPECT_NE(four.at("link").get<std::string>().find("300 GB/s"), std::string::npos) << four.at("link");
  const double faster =
      four.at("samples_per_second").at("low").get<double>() / one.at("samples_per_second").at("low").get<double>();
  EXPECT_GT(faster, 0.5);
  EXPECT_LT(faster, 4);
  EXPECT_GT(one.at("checkpoint_hours").at("high"), 0);
}

// Whatever two commands print of the same run on the same device comes from one estimate.
TEST(PlanCommand, MemoryTimeAndCostOfARunAreTheSameInEveryCommand) {
  const std::string rates = scratch_dir() + "/rates.json", device = "H100 SXM5 80GB";
  write_file(rates, plan::simple_rates().to_json());
  const auto ran = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--model", "lenet", "-b", "64", "--samples", "60000", "--epochs", "5", "--rates", rates});
    Ran r = run_freight(args);
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  };
  const auto json_of = [&](std::vector<std::string> args) {
    args.emplace_back("--json");
    return Json::parse(ran(args).out);
  };
  const std::vector<std::string> advise = {"advise", "--deadline", "10d", "--devices-per-machine", "8"};
  const Json planned = json_of({"plan"}), two = json_of({"plan", "--devices", "2"}),
             world = json_of({"plan", "--world", "1,2"}), explained = json_of({"explain", "--on", device}),
             advised = json_of(advise);
  for (const char* key : {"total_bytes", "flops", "parameters", "batch_size", "model"}) {
    EXPECT_EQ(explained.at(key), planned.at(key)) << key;
    EXPECT_EQ(advised.at(key), planned.at(key)) << key;
  }
  std::vector<Json> others = explained.at("devices");
  for (const char* of : {"answer", "cheapest", "fastest", "this_machine"}) others.push_back(advised.at(of));
  for (const Json& e : advised.at("by_devices")) others.push_back(e);
  for (const Json& w : world.at("world")) {
    for (const Json& e : w.at("estimates")) others.push_back(e);
  }
  size_t compared = 0;
  for (const Json& other : others) {
    if (other.at("devices") > 2) continue;
    for (const Json& e : (other.at("devices") == 2 ? two : planned).at("devices")) {
      if (e.at("device") != other.at("device")) continue;
      ++compared;
      for (const char* key : {"total_bytes", "step_seconds", "samples_per_second", "run_hours", "dollars"}) {
        EXPECT_EQ(other.at(key), e.at(key)) << other.at("device") << " " << key;
      }
    }
  }
  EXPECT_GT(compared, 100u);
  // The texts show the same memory.
  const std::string memory = human_bytes(planned.at("total_bytes"));
  for (const std::vector<std::string>& args : {std::vector<std::string>{"plan"}, {"explain", "--on", device}, advise}) {
    const Ran r = ran(args);
    EXPECT_NE(r.out.find(memory), std::string::npos) << args[0] << ": " << r.out;
  }
}

// Frozen layers save gradients, and computed once they leave a step that is small.
TEST(PlanCommand, SaysWhatFrozenLayersSave) {
  const auto plan = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = {"plan", "digits", "--model", "convnet", "--json"};
    args.insert(args.end(), more.begin(), more.end());
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, 0) << r.err;
    return Json::parse(r.out);
  };
  const Json whole = plan({}), once = plan({"--freeze", "backbone"}),
             always = plan({"--freeze", "backbone", "--feature-cache", "off"}),
             two = plan({"--freeze", "backbone", "--devices", "2"});
  EXPECT_FALSE(whole.contains("frozen"));
  EXPECT_EQ(once.at("frozen").at("computed_once"), true);
  EXPECT_EQ(always.at("frozen").at("computed_once"), false);
  EXPECT_EQ(two.at("frozen").at("computed_once"), true);
  const Json& otherwise = once.at("frozen").at("otherwise");
  ASSERT_EQ(otherwise.size(), 2u);
  for (const char* key : {"total_bytes", "flops"}) {
    EXPECT_EQ(otherwise[0].at(key), always.at(key)) << key;
    EXPECT_EQ(otherwise[1].at(key), whole.at(key)) << key;
    EXPECT_EQ(always.at("frozen").at("otherwise")[0].at(key), whole.at(key)) << key;
  }
  EXPECT_LT(10 * once.at("flops").get<double>(), always.at("flops").get<double>());
  EXPECT_LT(2 * always.at("flops").get<double>(), whole.at("flops").get<double>());
  EXPECT_LT(always.at("total_bytes"), whole.at("total_bytes"));
  // The run says the same, where it measures no kernels that need other memory.
  const std::string dir = scratch_dir();
  const Ran trained = run_freight({"train", "digits", "--model", "convnet", "--freeze", "backbone", "--max-steps", "1",
                                   "--deterministic", "--json", "-o", dir + "/run"});
  ASSERT_EQ(trained.code, 0) << trained.err;
  EXPECT_NE(trained.err.find(once.at("frozen").at("notes").back().get<std::string>()), std::string::npos)
      << trained.err;
  EXPECT_EQ(Json::parse(trained.out).at("planned_bytes"), once.at("total_bytes"));

  const Ran text = run_freight({"plan", "digits", "--model", "convnet", "--freeze", "backbone"});
  for (const char* part : {"frozen    frozen: ", "computed once", "with --feature-cache off", "without --freeze"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << ": " << text.out;
  }
  const Ran alone = run_freight({"plan", "--model", "lenet", "--freeze", "backbone"});
  EXPECT_NE(alone.out.find("depends on the data"), std::string::npos) << alone.out;
  const Ran unknown = run_freight({"plan", "digits", "--model", "convnet", "--freeze", "layer9"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("'layer9' matches no layer"), std::string::npos) << unknown.err;
}

TEST(ExplainCommand, ItsLayersAreTheWholeStep) {
  const Ran plan = run_freight({"plan", "--model", "lenet", "-b", "64", "--json"});
  const Ran r = run_freight({"explain", "--model", "lenet", "-b", "64", "--json"});
  ASSERT_EQ(r.code, 0) << r.err;
  const Json j = Json::parse(r.out), whole = Json::parse(plan.out);
  double flops = 0, bytes = 0, seconds = 0;
  size_t steps = 0;
  for (const Json& l : j.at("layers")) {
    flops += l.at("flops").get<double>();
    bytes += l.at("bytes").get<double>();
    seconds += l.at("seconds_there").get<double>();
    steps += l.at("steps").get<size_t>();
    EXPECT_GT(l.at("seconds_there"), 0) << l;
  }
  EXPECT_NEAR(flops, whole.at("flops").get<double>(), 1e-6 * flops);
  EXPECT_NEAR(bytes, whole.at("bytes_moved").get<double>(), 1e-6 * bytes);
  EXPECT_EQ(steps, whole.at("plan_steps"));
  double shares = 0;
  for (const auto& [bound, share] : j.at("share").items()) shares += share.get<double>();
  EXPECT_NEAR(shares, 1, 1e-9);
  // A convolution of 6 x 28 x 28 results for each of 64 images.
  const Json layers = j.at("layers");
  const auto first = std::find_if(layers.begin(), layers.end(), [](const Json& l) { return l.at("path") == "0"; });
  ASSERT_NE(first, layers.end());
  EXPECT_EQ(first->at("independent_outputs"), 6 * 28 * 28 * 64);
  const Ran text = run_freight({"explain", "--model", "lenet", "-b", "64", "--top", "3"});
  EXPECT_NE(text.out.find("more: --top 0"), std::string::npos) << text.out;
}

TEST(ExplainCommand, FindsWhatBoundsAStep) {
  struct Row {
    std::vector<std::string> args;
    const char* finding;
  };
  const Row rows[] = {
      {{"--model", "mlp", "-b", "8", "--on", "H100 SXM5"}, "Launch-bound"},
      {{"--model", "vgg11", "-b", "64", "--on", "GeForce GTX 1080"}, "Compute-bound"},
      {{"--model", "resnet18", "-b", "64", "--on", "H100 SXM5 80GB", "--precision", "bf16"}, "Memory-bound"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> args = {"explain"};
    args.insert(args.end(), row.args.begin(), row.args.end());
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, 0) << r.err;
    EXPECT_NE(r.out.find(row.finding), std::string::npos) << row.finding << "\n" << r.out;
  }
  const Ran unknown = run_freight({"explain", "--model", "mlp", "--on", "GeForce RTX 4091"});
  EXPECT_EQ(unknown.code, 2);
  EXPECT_NE(unknown.err.find("GeForce RTX 4090"), std::string::npos) << unknown.err;
}

TEST(AdviseCommand, AnswersInPlainWords) {
  const std::vector<std::string> run = {"advise", "--model", "resnet50", "--samples",   "1281167", "--epochs",
                                        "90",     "-b",      "256",      "--precision", "bf16"};
  const auto with = [&](const std::vector<std::string>& more) {
    std::vector<std::string> args = run;
    args.insert(args.end(), more.begin(), more.end());
    return run_freight(args, {}, {"FREIGHT_CACHE=" + scratch_dir()});  // no rates of this machine
  };
  const Ran text = with({"--deadline", "7d"});
  EXPECT_EQ(text.code, 0) << text.err << text.out;
  for (const char* part : {"result  ", "GPU", "cheapest", "fastest", "reason", "assumed", "calibrate"}) {
    EXPECT_NE(text.out.find(part), std::string::npos) << part << "\n" << text.out;
  }
  const Ran json = with({"--deadline", "2d", "--budget", "500", "--json"});
  const Json j = Json::parse(json.out);
  EXPECT_EQ(json.code, j.at("answer").is_null() ? 5 : 0);
  EXPECT_EQ(j.at("budget_usd"), 500);
  const Ran late = with({"--deadline", "1m"});
  EXPECT_EQ(late.code, 5);
  EXPECT_NE(late.out.find("more than the deadline of 1.0 min"), std::string::npos) << late.out;
  const Ran poor = with({"--deadline", "60d", "--budget", "0.01"});
  EXPECT_EQ(poor.code, 5);
  EXPECT_NE(poor.out.find("more than the budget of $0.01"), std::string::npos) << poor.out;
}

TEST(AdviseCommand, SmallNetsStayOnTheProcessor) {
  const Ran r = run_freight({"advise", "--model", "lenet", "--samples", "60000", "--epochs", "5", "--json"}, {},
                            {"FREIGHT_CACHE=" + scratch_dir()});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_EQ(Json::parse(r.out).at("answer").at("hardware"), "stay on the CPU");
}

TEST(AdviseCommand, RefusesWhatMeansNothing) {
  const std::string prices = scratch_dir() + "/prices.json";
  write_file(prices, R"({"format": "freight-prices-1", "prices": [{"provider": "P", "instance": "i", "count": 1,
      "usd_per_hour": -1, "date": "2026", "source": "s"}]})");
  struct Row {
    std::vector<std::string> args;
    const char* part;
  };
  const Row rows[] = {
      {{}, "expected a dataset (freight data list), or a model"},
      {{"--model", "lenet"}, "--samples"},
      {{"--model", "lenet", "--samples", "100", "--deadline", "8"}, "--deadline"},
      {{"--model", "lenet", "--samples", "100", "--deadline", "-8h"}, "--deadline"},
      {{"--model", "lenet", "--samples", "100", "--budget", "0"}, "--budget"},
      {{"--model", "lenet", "--samples", "100", "--budget", "-5"}, "--budget"},
      {{"--model", "lenet", "--samples", "100", "--prices", prices}, "above 0"},
  };
  for (const Row& row : rows) {
    std::vector<std::string> args = {"advise"};
    args.insert(args.end(), row.args.begin(), row.args.end());
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, 2) << row.part << r.out;
    EXPECT_NE(r.err.find(row.part), std::string::npos) << r.err;
  }
}

class FitOfTrain : public ::testing::Test {
 protected:
  // Without --fit a run of lenet on digits takes some 30 MiB.
  Ran train(const std::vector<std::string>& more) {
    std::vector<std::string> args = {
        "train",        "digits", "--model",    "lenet", "--max-steps",     "3",  "-b",          "1024",
        "--eval-every", "9",      "--momentum", "0.9",   "--deterministic", "-o", dir_ + "/run", "--json",
        "--overwrite"};
    args.insert(args.end(), more.begin(), more.end());
    return run_freight(args);
  }
  std::string dir_ = scratch_dir();
};

TEST_F(FitOfTrain, IsRefusedWithTheCommandThatWouldFit) {
  const Ran whole = train({});
  ASSERT_EQ(whole.code, 0) << whole.err;
  const Json result = Json::parse(whole.out);
  EXPECT_GT(result.at("planned_bytes"), 0);
  EXPECT_GT(result.at("measured_bytes"), 0);
  const Json kept = Json::parse(read_file(dir_ + "/run/run.json")).at("plan");
  EXPECT_EQ(kept.at("planned_bytes"), result.at("planned_bytes"));
  EXPECT_EQ(kept.at("measured_step_seconds"), result.at("measured_step_seconds"));
  EXPECT_GT(kept.at("measured_step_seconds"), 0);
  EXPECT_NE(whole.err.find("memory  planned"), std::string::npos) << whole.err;

  std::filesystem::remove_all(dir_ + "/run");
  const double gib = result.at("planned_bytes").get<double>() / (1 << 30);
  const std::string limit = std::to_string(0.85 * gib);
  const Ran refused = train({"--memory-limit", limit});
  EXPECT_EQ(refused.code, 5);
  for (const char* part : {"needs", "free", "largest tensors", "--grad-accum 2"}) {
    EXPECT_NE(refused.err.find(part), std::string::npos) << refused.err;
  }
  EXPECT_FALSE(std::filesystem::exists(dir_ + "/run"));

  const Ran adapted = train({"--memory-limit", limit, "--fit", "auto"});
  ASSERT_EQ(adapted.code, 0) << adapted.err;
  EXPECT_NE(adapted.err.find("continuing with --grad-accum 2"), std::string::npos) << adapted.err;
  const Json then = Json::parse(adapted.out);
  EXPECT_LE(then.at("planned_bytes").get<double>(), 0.85 * gib * (1 << 30));
  EXPECT_NEAR(then.at("train_loss").get<double>(), result.at("train_loss").get<double>(), 1e-4);
}

// Before a run, at its begin, at its end, in its record and on its page stands the same figure.
TEST_F(FitOfTrain, OneFigureIsPlannedEverywhere) {
  const auto words = std::vector<std::string>{"digits", "--model", "lenet", "--max-steps", "3", "--deterministic"};
  const auto run = [&](std::vector<std::string> command) {
    command.insert(command.begin() + 1, words.begin(), words.end());
    const Ran r = run_freight(command);
    EXPECT_EQ(r.code, 0) << r.err;
    return r;
  };
  const Ran trained = run({"train", "-o", dir_ + "/run"}), dry = run({"train", "--dry-run"});
  const size_t at = trained.err.find("memory  planned ");
  ASSERT_NE(at, std::string::npos) << trained.err;
  const std::string figure = trained.err.substr(at + 16, trained.err.find(',', at) - at - 16);
  EXPECT_NE(trained.err.find("planned peak " + figure + "\n"), std::string::npos) << trained.err;
  EXPECT_NE(dry.err.find("planned peak " + figure + "\n"), std::string::npos) << dry.err;
  EXPECT_NE(dry.out.find(" " + figure + "\n"), std::string::npos) << dry.out;
  for (const char* part : {"total", "evaluation", "checkpoint", "plan steps", "GFLOP", "time    "}) {
    EXPECT_NE(dry.out.find(part), std::string::npos) << part << ": " << dry.out;
  }
  const auto planned = Json::parse(read_file(dir_ + "/run/run.json")).at("plan").at("planned_bytes").get<int64_t>();
  const std::string metrics = read_file(dir_ + "/run/metrics.jsonl");
  EXPECT_EQ(Json::parse(metrics.substr(0, metrics.find('\n'))).at("mem_bytes"), planned);
  ASSERT_EQ(run_freight({"report", dir_ + "/run"}).code, 0);
  const std::string page = read_file(dir_ + "/run/report.html");
  EXPECT_NE(page.find("planned " + figure + ", measured "), std::string::npos);
  EXPECT_EQ(Json::parse(run({"train", "--dry-run", "--json"}).out).at("model"), "lenet");
}

TEST_F(FitOfTrain, OffloadsWhereNothingElseKeepsTheResults) {
  const auto resnet = [&](const std::vector<std::string>& more) {
    std::filesystem::remove_all(dir_ + "/run");
    std::vector<std::string> args{"--model", "resnet20", "-b", "128", "--max-steps", "2"};
    args.insert(args.end(), more.begin(), more.end());
    return train(args);
  };
  const Ran whole = resnet({});
  ASSERT_EQ(whole.code, 0) << whole.err;
  const auto planned = Json::parse(whole.out).at("planned_bytes").get<int64_t>();
  const auto share = [&](int64_t percent) { return std::to_string(planned * percent / 100) + "B"; };
  // Two fifths: a quarter of the plan is the process and the evaluation, which are not offloaded.
  const Ran adapted = resnet({"--device-memory", share(40), "--fit", "auto"});
  ASSERT_EQ(adapted.code, 0) << adapted.err;
  EXPECT_NE(adapted.err.find("continuing with --offload "), std::string::npos) << adapted.err;
  EXPECT_NE(adapted.err.find("offload "), std::string::npos) << adapted.err;
  EXPECT_NE(adapted.err.find("predicted slowdown"), std::string::npos) << adapted.err;
  EXPECT_EQ(Json::parse(adapted.out).at("train_loss"), Json::parse(whole.out).at("train_loss"));
  // The same by hand, and no copies where everything fits.
  const Ran asked = resnet({"--device-memory", share(75), "--offload", "all"});
  ASSERT_EQ(asked.code, 0) << asked.err;
  EXPECT_EQ(Json::parse(asked.out).at("train_loss"), Json::parse(whole.out).at("train_loss"));
  const Ran idle = resnet({"--offload", "auto"});
  EXPECT_NE(idle.err.find("nothing is offloaded"), std::string::npos) << idle.err;
  const Ran bad = resnet({"--device-memory", "4 bananas"});
  EXPECT_EQ(bad.code, 2);
  EXPECT_NE(bad.err.find("4GiB"), std::string::npos) << bad.err;
}

TEST_F(FitOfTrain, AStepIsTimedAgainstItsPlanWhereTheMachineIsCalibrated) {
  const plan::Rates rates = plan::simple_rates();
  const std::string path = plan::rates_path(), cache = dir_ + "/cache";
  std::filesystem::create_directories(cache);
  write_file(cache + path.substr(path.rfind('/')), rates.to_json());
  const Ran r = run_freight({"train", "digits", "--model", "lenet", "--max-steps", "3", "-o", dir_ + "/timed"}, {},
                            {"FREIGHT_CACHE=" + cache});
  ASSERT_EQ(r.code, 0) << r.err;
  EXPECT_NE(r.err.find("step    planned "), std::string::npos) << r.err;
  const Json kept = Json::parse(read_file(dir_ + "/timed/run.json")).at("plan");
  EXPECT_GT(kept.at("planned_step_seconds"), 0);
  const std::vector<std::string> profile = {"profile", "--model", "mlp", "-b", "8", "--seconds", "0", "--json"};
  const auto planned = [&](const std::string& folder) {
    const Ran p = run_freight(profile, {}, {"FREIGHT_CACHE=" + folder});
    EXPECT_EQ(p.code, 0) << p.err;
    return Json::parse(p.out).at("steps")[0].at("planned_ms");
  };
  EXPECT_GT(planned(cache), 0);
  EXPECT_TRUE(planned(dir_ + "/empty").is_null());
}

TEST_F(FitOfTrain, TheBatchIsChosenAndTried) {
  const Ran r = train({"-b", "auto"});
  ASSERT_EQ(r.code, 0) << r.err;
  // 20,000 samples leave 32 steps of 512 to an epoch; measured rates may choose fewer.
  EXPECT_NE(r.err.find("--batch-size "), std::string::npos) << r.err;
  EXPECT_NE(r.err.find(" was tried: "), std::string::npos) << r.err;
  const Json config = Json::parse(read_file(dir_ + "/run/config.json"));
  const int64_t batch = config.at("batch_size");
  EXPECT_GE(batch, 1);
  EXPECT_LE(batch, 512);
  // What the trial did is gone: the same run by hand ends with the same loss.
  const Ran again = train({"-b", std::to_string(batch)});
  EXPECT_EQ(Json::parse(again.out).at("train_loss"), Json::parse(r.out).at("train_loss"));
  EXPECT_EQ(train({"-b", "automatic"}).code, 2);
  EXPECT_EQ(train({"-b", "0"}).code, 2);
}

TEST_F(FitOfTrain, SaysWhereNothingHelps) {
  const Ran r = train({"--memory-limit", "0.0001", "--fit", "auto"});
  EXPECT_EQ(r.code, 5);
  EXPECT_NE(r.err.find("no batch size"), std::string::npos) << r.err;
  EXPECT_EQ(train({"--memory-limit", "0.0001", "--fit", "off"}).code, 0);
}

}  // namespace
}  // namespace freight::test
