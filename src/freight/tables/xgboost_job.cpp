// See xgboost_job.h.
#include "freight/tables/xgboost_job.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <future>
#include <memory>
#include <thread>

#include "freight/base/error.h"
#include "freight/base/library.h"
#include "freight/base/strings.h"
#include "freight/io/json_internal.h"
#include "freight/io/json_library.h"

namespace freight::tables {

namespace {

using Json = nlohmann::json;

int64_t whole_seconds(double seconds) { return std::max<int64_t>(static_cast<int64_t>(std::ceil(seconds)), 1); }

// The NCCL that XGBoost loads itself: pip installs it next to XGBoost's package.
std::string nccl_for(const Xgboost& library) {
  const std::filesystem::path packages =
      std::filesystem::path(library.path()).parent_path().parent_path().parent_path();
  const std::string beside = packages / "nvidia/nccl/lib/libnccl.so.2";
  if (std::filesystem::exists(beside)) return beside;
  const Library found = find_library({"libnccl.so.2"}, LibraryKind::toolkit);
  if (found.handle) return found.path;
  fail(ErrorKind::device, "--devices", "several GPUs need NCCL, which is not available: ", found.why,
       "; install it by pip install nvidia-nccl-cu12, or name its folder by FREIGHT_CUDA_LIBS");
}

void hear_nothing(const char*) {}

}  // namespace

XgboostJob::XgboostJob(const Xgboost& library, job::Ranks& ranks, const std::string& device)
    : library_(library), ranks_(ranks) {
  const XgboostCollectives& x = library.collectives();
  ranks.need_equal("XGBoost", library.version().text());
  Json args = {
      {"dmlc_communicator", "rabit"},
      {"dmlc_timeout", whole_seconds(ranks.rendezvous().timeout)},
      // XGBoost sorts ranks by this text, so that its ranks are ours.
      {"dmlc_task_id", std::string(8 - std::min<size_t>(cat(ranks.rank()).size(), 8), '0') + cat(ranks.rank())}};
  if (starts_with(device, "cuda")) args["dmlc_nccl_path"] = nccl_for(library);
  std::string where;
  if (ranks.first()) {
    constexpr int kByTask = 1;
    const Json tracker = {{"dmlc_communicator", "rabit"},
                          {"n_workers", ranks.world()},
                          {"host", ranks.rendezvous().address()},
                          {"port", 0},
                          {"sortby", kByTask},
                          {"timeout", whole_seconds(ranks.rendezvous().timeout)}};
    library.check(x.XGTrackerCreate(tracker.dump().c_str(), &tracker_), "a tracker for its processes");
    library.check(x.XGTrackerRun(tracker_, "{}"), "the tracker of its processes");
    const char* text = nullptr;
    library.check(x.XGTrackerWorkerArgs(tracker_, &text), "the address of its tracker");
    where = text;
  }
  args.update(io::parse_json<Json>(ranks.from_first(where), "XGBoost's tracker"));
  // Without this XGBoost would log the rank of each process.
  library.check(library->XGBRegisterLogCallback(hear_nothing), "its warnings");
  const int joined = x.XGCommunicatorInit(args.dump().c_str());
  check_together(library, ranks, joined, "the rendezvous of its processes");
  library.hear_warnings();
}

void XgboostJob::leave() {
  const XgboostCollectives& x = library_.collectives();
  check_together(library_, ranks_, x.XGCommunicatorFinalize(), "the end of its processes");
  if (!tracker_) return;
  library_.check(
      x.XGTrackerWaitFor(tracker_, cat(R"({"timeout": )", whole_seconds(ranks_.rendezvous().timeout), "}").c_str()),
      "the end of its tracker");
  library_.check(x.XGTrackerFree(tracker_), "the end of its tracker");
  tracker_ = nullptr;
}

void check_together(const Xgboost& library, job::Ranks& ranks, int result, const std::string& what) {
  try {
    library.check(result, what);
  } catch (const Error& e) {
    // The error names the source file of XGBoost: a failed collective waits for the fault of another rank. Any other
    // error is this rank's own and is reported at once, since the others still wait for this rank.
    if (std::string(e.what()).find("collective") != std::string::npos) ranks.wait_for_all();
    throw;
  }
}

void on_thread_of_job(const std::function<void()>& work) {
  const auto done = std::make_shared<std::promise<void>>();  // the thread may outlive this call
  std::future<void> end = done->get_future();
  std::thread thread([done, &work] {
    try {
      work();
    } catch (...) {
      done->set_exception(std::current_exception());
      for (;;) ::pause();
    }
    done->set_value();
  });
  end.wait();
  try {
    end.get();
  } catch (...) {
    thread.detach();
    throw;
  }
  thread.join();
}

}  // namespace freight::tables
