// Downloads of the built-in data sets.
#include "freight/data/download.h"

#include <gtest/gtest.h>

#include "tests/support/files.h"

namespace freight::data {
namespace {
using namespace freight::testing;

TEST(Download, ASetGoesToItsFolderAndUnknownSetsAreNamed) {
  const TemporaryDir dir;
  expect_error(ErrorKind::usage, {"mnits", "mnist"}, [] { download_set("mnits"); });
  if (env::get("FREIGHT_DATA_URL").empty()) {
    expect_error(ErrorKind::data, {"cifar10", "--url", dir / "cifar10"},
                 [&] { download_set("cifar10", {.data_dir = dir.path()}); });
  }
  const io::FetchOptions fast{.tries = 1, .retry_seconds = 0.01};
  expect_error(ErrorKind::data, {"127.0.0.1:9/sms/SMSSpamCollection", "offline?", "--url", dir / "sms_spam"}, [&] {
    download_set("sms_spam", {.base_urls = {"http://127.0.0.1:9/sms/"}, .data_dir = dir.path(), .fetch = fast});
  });
}

}  // namespace
}  // namespace freight::data
