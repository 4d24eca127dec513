// `freight serve` as a user meets it: start, wrong arguments, signals. What it answers is tested in tests/serve.
#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>

#include "freight/base/strings.h"
#include "freight/models/models.h"
#include "freight/store/bundle.h"
#include "run_command.h"

namespace freight::test {
namespace {

std::string model_file(const std::string& dir) {
  store::Bundle b;
  b.model = models::create("lenet");
  b.preprocessing = {.input = {1, 28, 28}, .mean = {}, .std = {}};
  const std::string path = dir + "/m.safetensors";
  store::save_bundle(path, b);
  return path;
}

// A port that was free a moment ago.
std::string free_port() {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  EXPECT_EQ(::bind(fd, reinterpret_cast<sockaddr*>(&address), size), 0);
  ::getsockname(fd, reinterpret_cast<sockaddr*>(&address), &size);
  ::close(fd);
  return std::to_string(ntohs(address.sin_port));
}

// The status line and all behind it, of one request that closes the connection; "" where nobody listens.
std::string answer_to(const std::string& port, const std::string& request) {
  const int fd = ::socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(static_cast<uint16_t>(std::stoi(port)));
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::string answer;
  if (::connect(fd, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0) {
    char buffer[4096];
    if (::send(fd, request.data(), request.size(), 0) > 0) {
      for (ssize_t n = 0; (n = ::recv(fd, buffer, sizeof buffer, 0)) > 0;)
        answer.append(buffer, static_cast<size_t>(n));
    }
  }
  ::close(fd);
  return answer;
}
std::string get(const std::string& port, const std::string& path, const std::string& header = {}) {
  return answer_to(port, "GET " + path + " HTTP/1.1\r\nHost: localhost\r\n" + header + "Connection: close\r\n\r\n");
}
std::string post(const std::string& port, const std::string& path, const std::string& type, const std::string& body) {
  return answer_to(port, cat("POST ", path, " HTTP/1.1\r\nHost: localhost\r\nContent-Type: ", type,
                             "\r\nConnection: close\r\nContent-Length: ", body.size(), "\r\n\r\n", body));
}

std::string awaited(const std::string& port, const std::string& path, const std::string& header = {}) {
  std::string answer;
  for (int i = 0; i < 600 && answer.empty(); ++i) {
    answer = get(port, path, header);
    if (answer.empty()) ::usleep(50'000);
  }
  return answer;
}

TEST(ServeCommand, AnswersUntilASignalAndExitsAsItSays) {
  for (const int signal : {SIGTERM, SIGINT}) {
    const std::string port = free_port(), model = model_file(scratch_dir());
    Running server({"serve", "digits=" + model, "--port", port, "--max-batch", "2", "--deterministic"});
    EXPECT_NE(awaited(port, "/v2/models/digits/ready").find("200 OK"), std::string::npos);
    EXPECT_NE(get(port, "/").find("<title>Freight</title>"), std::string::npos);
    server.send(signal);
    const Ran r = server.finish();
    EXPECT_EQ(r.code, 128 + signal);
    EXPECT_NE(r.out.find("serving digits on http://127.0.0.1:" + port + "/"), std::string::npos) << r.out;
    EXPECT_NE(r.err.find("digits: 2 plans"), std::string::npos) << r.err;
    EXPECT_EQ(get(port, "/v2"), "");
  }
}

// A model of two columns that nothing bounds: any finite number is read. The file is read once, at the start.
TEST(ServeCommand, AnInfiniteAnswerNamesItsColumnAndTheFileMayGo) {
  const std::string dir = scratch_dir(), port = free_port(), model = dir + "/run/model.safetensors";
  std::string rows = "size,age,price\n";
  for (int i = 0; i < 200; ++i) rows += cat(i % 17, ",", i % 13, ",", 3 * (i % 17) - i % 13 + i % 2, "\n");
  write_file(dir + "/t.csv", rows);
  ASSERT_EQ(
      run_freight({"train", dir + "/t.csv", "--target", "price", "--model", "linear", "-q", "-o", dir + "/run"}).code,
      0);
  Running server({"serve", "price=" + model, "--port", port});
  ASSERT_NE(awaited(port, "/v2/models/price/ready").find("200 OK"), std::string::npos);
  const std::string sound = "size,age\n1,2\n", before = post(port, "/predict", "text/csv", sound);
  EXPECT_NE(before.find("200 OK"), std::string::npos) << before;
  for (const auto& [row, column] : {std::pair("1e308,2", "size is 1e+308"), {"1,-1e308", "age is -1e+308"}}) {
    const std::string answer = post(port, "/predict", "text/csv", cat("size,age\n", row, "\n"));
    EXPECT_NE(answer.find("400 Bad Request"), std::string::npos) << answer;
    EXPECT_NE(answer.find(column), std::string::npos) << answer;
  }
  const std::string second = post(port, "/v2/models/price/infer", "application/json",
                                  R"({"inputs":[{"name":"size","datatype":"FP64","shape":[2],"data":[1,2]},)"
                                  R"({"name":"age","datatype":"FP64","shape":[2],"data":[1,1e308]}]})");
  EXPECT_NE(second.find("400 Bad Request"), std::string::npos) << second;
  EXPECT_NE(second.find("row 1: age is 1e+308"), std::string::npos) << second;
  const auto answers_on = [&](const char* what) {
    const std::string values = before.substr(before.find("\"values\""), 40),
                      after = post(port, "/predict", "text/csv", sound);
    EXPECT_NE(after.find(values.substr(0, values.find(']'))), std::string::npos) << what << "\n" << after;
  };
  std::filesystem::resize_file(model, 10);
  answers_on("cut off");
  write_file(model, "no model");
  answers_on("overwritten");
  std::filesystem::remove(model);
  answers_on("removed");
  server.send(SIGTERM);
  EXPECT_EQ(server.finish().code, 143);
}

TEST(ServeCommand, ATokenMayStandInAFile) {
  const std::string port = free_port(), dir = scratch_dir(), model = model_file(dir), secret = dir + "/secret";
  write_file(secret, "open sesame\n");
  Running server({"serve", model, "--port", port, "--max-batch", "1", "--deterministic", "--token", "@" + secret});
  EXPECT_NE(awaited(port, "/v2").find("401 Unauthorized"), std::string::npos);
  EXPECT_NE(get(port, "/v2", "Authorization: Bearer open sesame\r\n").find("200 OK"), std::string::npos);
  server.send(SIGTERM);
  EXPECT_EQ(server.finish().code, 143);
}

TEST(ServeCommand, WrongArgumentsAreNamed) {
  const std::string dir = scratch_dir(), model = model_file(dir);
  write_file(dir + "/damaged.safetensors", "no model");
  write_file(dir + "/empty", "\n");
  struct Case {
    std::vector<std::string> args;
    int code;
    std::vector<std::string> says;
  };
  const Case kCases[] = {
      {{}, 2, {"models"}},
      {{model, "--prot", "80"}, 2, {"--port"}},
      {{model, "--port", "70000"}, 2, {"--port", "65535"}},
      {{model, "--max-batch", "0"}, 2, {"--max-batch"}},
      {{model, "--token", ""}, 2, {"--token", "empty"}},
      {{model, "--token", "@" + dir + "/empty"}, 2, {"no token in"}},
      {{model, "--token", "@" + dir + "/none"}, 3, {"none"}},
      {{"a b=" + model, "--port", "0"}, 2, {"a b", "NAME=FILE"}},
      {{model, model, "--port", "0"}, 2, {"second model named lenet"}},
      {{dir + "/none.safetensors", "--port", "0"}, 3, {"none.safetensors"}},
      {{dir + "/damaged.safetensors", "--port", "0"}, 8, {"damaged.safetensors"}},
      {{model, "--host", "203.0.113.1", "--port", "0"}, 1, {"203.0.113.1", "cannot listen"}},
  };
  for (const Case& c : kCases) {
    std::vector<std::string> args = c.args;
    args.insert(args.begin(), "serve");
    const Ran r = run_freight(args);
    EXPECT_EQ(r.code, c.code) << r.err;
    EXPECT_EQ(r.out, "");
    for (const std::string& part : c.says) EXPECT_NE(r.err.find(part), std::string::npos) << part << "\n" << r.err;
  }
}

}  // namespace
}  // namespace freight::test
