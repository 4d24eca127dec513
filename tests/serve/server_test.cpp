// The server over sockets: every path, sound and hostile clients, limits, tokens, batches and the graceful end.
#include "freight/serve/server.h"

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <thread>

#include "freight/base/philox.h"
#include "freight/deploy/predictor.h"
#include "freight/io/image.h"
#include "freight/nn/nn.h"
#include "freight/serve/engine.h"
#include "freight/serve/model.h"
#include "running_server.h"

namespace freight::serve {
namespace {

using namespace freight::testing;
using Json = nlohmann::json;

RunningServer& shared_server() {
  static RunningServer server;
  return server;
}
// One request on a connection of its own.
Answer ask(const std::string& request, RunningServer& server = shared_server()) {
  return Client(server.port()).ask(request);
}
std::string error_of(const Answer& a) {
  const Json j = Json::parse(a.body, nullptr, false);
  return j.is_object() && j.contains("error") ? j["error"].get<std::string>() : "no {\"error\"} but: " + a.body;
}
void expect_refused(const Answer& a, int status, const std::vector<std::string>& parts) {
  EXPECT_EQ(a.status, status) << a.body;
  for (const std::string& part : parts) EXPECT_NE(error_of(a).find(part), std::string::npos) << part << "\n" << a.body;
}
void expect_lives(RunningServer& server = shared_server()) {
  EXPECT_EQ(ask(get("/v2/health/ready"), server).status, 200);
}

Array image(uint32_t seed) {
  Array a(DType::u8, {1, 28, 28});
  PhiloxStream random(seed, 0, 0);
  for (int64_t i = 0; i < a.numel(); ++i) a.data<uint8_t>()[i] = static_cast<uint8_t>(random.bits());
  return a;
}
// A binary infer request of these images, UINT8 (N,1,28,28).
std::string infer_images(const std::vector<Array>& images, const std::string& more = {}) {
  std::string bytes;
  for (const Array& a : images) bytes.append(static_cast<const char*>(a.raw()), a.bytes());
  const std::string json = cat(R"({"inputs":[{"name":"input","datatype":"UINT8","shape":[)", images.size(),
                               R"(,1,28,28],"parameters":{"binary_data_size":)", bytes.size(), "}}]", more, "}");
  return post("/v2/models/digits/infer", json + bytes, cat("Inference-Header-Content-Length: ", json.size(), "\r\n"));
}
std::vector<float> probabilities(const Answer& a) {
  EXPECT_EQ(a.status, 200) << a.body;
  return Json::parse(a.body).at("outputs").at(0).at("data").get<std::vector<float>>();
}
std::vector<float> expected(const std::vector<Array>& images) {
  static deploy::Predictor predictor(store::load_bundle(shared_server().dir() / "digits.safetensors"),
                                     {.deterministic = true});
  return predictor.run(images).to_vector<float>();
}
void expect_near(const std::vector<float>& got, const std::vector<float>& need) {
  ASSERT_EQ(got.size(), need.size());
  for (size_t i = 0; i < got.size(); ++i) EXPECT_NEAR(got[i], need[i], 1e-5) << i;
}

TEST(Server, EveryPathOfTheProtocolAnswers) {
  for (const char* path : {"/v2/health/live", "/v2/health/ready", "/v2/models/digits/ready",
                           "/v2/models/digits/versions/1/ready", "/metrics", "/models", "/v2"}) {
    EXPECT_EQ(ask(get(path)).status, 200) << path;
  }
  const Json server = Json::parse(ask(get("/v2")).body);
  EXPECT_EQ(server.at("name"), "freight");
  const Json model = Json::parse(ask(get("/v2/models/digits/versions/1")).body);
  EXPECT_EQ(model.at("inputs"), Json::parse(R"([{"name":"input","datatype":"FP32","shape":[-1,1,28,28]}])"));
  EXPECT_EQ(model.at("outputs"), Json::parse(R"([{"name":"probabilities","datatype":"FP32","shape":[-1,10]}])"));
  EXPECT_EQ(Json::parse(ask(get("/v2/models/text")).body).at("inputs")[0].at("datatype"), "BYTES");
  const Json index = Json::parse(ask(post("/v2/repository/index", "")).body);
  ASSERT_EQ(index.size(), 2u);
  EXPECT_EQ(index[0].at("name"), "digits");
  EXPECT_EQ(index[0].at("state"), "READY");
  const Json cards = Json::parse(ask(get("/models")).body);
  EXPECT_EQ(cards[0].at("parameters"), 61706);
  EXPECT_EQ(cards[1].at("kind"), "text");
}

TEST(Server, ImagesAreAnsweredAsThePredictorAnswers) {
  const std::vector<Array> images = {image(1), image(2), image(3)};
  const std::vector<float> need = expected(images);
  expect_near(probabilities(ask(infer_images(images))), need);
  // The same as JSON numbers from 0 to 1.
  std::string numbers;
  for (const Array& a : images) {
    for (int64_t i = 0; i < a.numel(); ++i) {
      numbers += cat(numbers.empty() ? "" : ",", static_cast<float>(a.data<uint8_t>()[i]) / 255.0f);
    }
  }
  const std::string json =
      cat(R"({"id":"a","inputs":[{"name":"input","datatype":"FP32","shape":[3,1,28,28],"data":[)", numbers, "]}]}");
  const Answer a = ask(post("/v2/models/digits/infer", json));
  expect_near(probabilities(a), need);
  EXPECT_EQ(Json::parse(a.body).at("id"), "a");
  EXPECT_EQ(Json::parse(a.body).at("outputs")[0].at("shape"), Json({3, 10}));
  // And as a PNG through /predict.
  const io::Bytes png = io::encode_png(images[0].reshaped({28, 28, 1}));
  const Answer p = ask(post("/predict/digits?top=2", text_of(png), "Content-Type: image/png\r\n"));
  ASSERT_EQ(p.status, 200) << p.body;
  const Json j = Json::parse(p.body);
  const auto best = std::max_element(need.begin(), need.begin() + 10) - need.begin();
  EXPECT_EQ(j.at("index"), best);
  EXPECT_NEAR(j.at("probability").get<float>(), need[static_cast<size_t>(best)], 1e-5);
  EXPECT_EQ(j.at("top").size(), 2u);
}

TEST(Server, MoreSamplesThanABatchHoldsAreAnsweredInTheirOrder) {
  std::vector<Array> images;
  for (uint32_t i = 0; i < 11; ++i) images.push_back(image(i));
  expect_near(probabilities(ask(infer_images(images))), expected(images));
}

// At the limit, and one above. A full batch is taken whatever the limit.
TEST(Server, SamplesOfOneRequestAreLimited) {
  RunningServer server({.max_samples = 6}), small({.max_samples = 1});
  std::vector<Array> images;
  for (uint32_t i = 0; i < 6; ++i) images.push_back(image(i));
  EXPECT_EQ(probabilities(ask(infer_images(images), server)).size(), 60u);
  images.push_back(image(6));
  expect_refused(ask(infer_images(images), server), 400,
                 {"infer: expected at most 6, got 7 samples in one request", "--max-samples"});
  images.resize(5);
  expect_refused(ask(infer_images(images), small), 400, {"got 5 samples", "expected at most 4"});
  images.resize(4);
  EXPECT_EQ(ask(infer_images(images), small).status, 200);
  const std::string texts =
      R"({"inputs":[{"name":"text","datatype":"BYTES","shape":[7],"data":["","","","","","",""]}]})";
  expect_refused(ask(post("/v2/models/text/infer", texts), server), 400, {"got 7 samples"});
  expect_lives(server);
}

TEST(Server, AModelThatGivesValuesIsNotAskedForClasses) {
  store::Bundle bundle;
  bundle.model = models::create("linear_regression", {.input = {3}});
  bundle.preprocessing.input = {3};
  const ServedModel model("prices", std::move(bundle), {.deterministic = true}, 8192);
  InferRequest request;
  request.outputs = {{"values", false, 0}};
  model.check_outputs(request, "infer");
  request.outputs[0].classification = 2;
  expect_error(ErrorKind::usage, {"infer", "values", "classification", "prices", "remove it"},
               [&] { model.check_outputs(request, "infer"); });
}

TEST(Server, ClassificationNamesTheBest) {
  const Answer a =
      ask(infer_images({image(5)}, R"(,"outputs":[{"name":"probabilities","parameters":{"classification":2}}])"));
  ASSERT_EQ(a.status, 200) << a.body;
  const Json out = Json::parse(a.body).at("outputs")[0];
  EXPECT_EQ(out.at("datatype"), "BYTES");
  EXPECT_EQ(out.at("shape"), Json({1, 2}));
  const std::vector<float> need = expected({image(5)});
  const auto best = std::max_element(need.begin(), need.end()) - need.begin();
  const auto text = out.at("data")[0].get<std::string>();
  EXPECT_NE(text.find(cat(":", best, ":", best)), std::string::npos) << text;
}

TEST(Server, TextsComeAsBytesTokensPlainOrJson) {
  const auto infer = [](const std::string& input) {
    return probabilities(ask(post("/v2/models/text/infer", cat(R"({"inputs":[)", input, "]}"))));
  };
  const std::vector<float> two =
      infer(R"({"name":"text","datatype":"BYTES","shape":[2],"data":["a joy","the film is a bore"]})");
  ASSERT_EQ(two.size(), 4u);
  const Answer plain = ask(post("/predict/text", "a joy", "Content-Type: text/plain\r\n"));
  const Answer json = ask(post("/predict/text", R"({"text":"a joy"})", "Content-Type: application/json\r\n"));
  for (const Answer& a : {plain, json}) {
    ASSERT_EQ(a.status, 200) << a.body;
    const Json j = Json::parse(a.body);
    EXPECT_NEAR(j.at("probability").get<float>(), std::max(two[0], two[1]), 1e-5);
    EXPECT_EQ(j.at("class"), two[0] > two[1] ? "bad" : "good");
  }
  // Tokens without and with padding.
  expect_near(infer(R"({"name":"tokens","datatype":"INT32","shape":[1,2],"data":[2,3]})"),
              infer(R"({"name":"tokens","datatype":"INT32","shape":[1,5],"data":[2,3,0,0,0]})"));
}

TEST(Server, WhatDoesNotFitTheModelIsRefusedWithWhatItTakes) {
  const auto infer = [](const std::string& model, const std::string& input) {
    return ask(post(cat("/v2/models/", model, "/infer"), cat(R"({"inputs":[)", input, "]}")));
  };
  expect_refused(infer("digits", R"({"name":"x","datatype":"FP32","shape":[1,1],"data":[1]})"), 400,
                 {"\"x\"", "\"input\""});
  expect_refused(infer("digits", R"({"name":"input","datatype":"FP32","shape":[1,2],"data":[1,2]})"), 400,
                 {"[1,2]", "[1,28,28]"});
  expect_refused(infer("digits", R"({"name":"input","datatype":"INT32","shape":[1,2],"data":[1,2]})"), 400,
                 {"INT32", "FP32", "UINT8"});
  expect_refused(infer("digits", R"({"name":"input","datatype":"FP32","shape":[0,1,28,28],"data":[]})"), 400,
                 {"no sample"});
  expect_refused(
      infer(
          "digits",
          R"({"name":"input","datatype":"UINT8","shape":[1],"data":[1]},{"name":"b","datatype":"UINT8","shape":[1],"data":[1]})"),
      400, {"expected one input", "got 2"});
  expect_refused(infer("digits", R"({"name":"input","datatype":"FP32","shape":[1],"data":[NaN]})"), 400,
                 {"not valid JSON"});
  expect_refused(ask(infer_images({image(1)}, R"(,"outputs":[{"name":"logits"}])")), 400, {"logits", "probabilities"});
  expect_refused(infer("text", R"({"name":"tokens","datatype":"INT32","shape":[1,1],"data":[99999]})"), 400,
                 {"99999", "expected tokens from 0 to"});
  std::string many = "1";
  for (int i = 1; i < 33; ++i) many += ",1";
  expect_refused(infer("text", cat(R"({"name":"tokens","datatype":"INT32","shape":[1,33],"data":[)", many, "]}")), 400,
                 {"[1,33]", "T from 1 to 32"});
  expect_refused(ask(post("/predict/text", "caf\xe9", "Content-Type: text/plain\r\n")), 400, {"predict", "UTF-8"});
  const std::string png = "Content-Type: image/png\r\n";
  expect_refused(ask(post("/predict/digits", "no image", png)), 400, {"predict"});
  expect_refused(ask(post("/predict/digits", "", png)), 400, {"empty"});
  expect_refused(ask(post("/predict/digits?top=0", "x", png)), 400, {"got top=0", "from 1"});
  std::string pixels = "255";
  for (int i = 1; i < 784; ++i) pixels += ",0";
  expect_refused(
      infer("digits", cat(R"({"name":"input","datatype":"FP32","shape":[1,1,28,28],"data":[)", pixels, "]}")), 400,
      {"sample 0", "got 255", "0 to 1"});
  expect_refused(ask(post("/predict/digits", "x", "Content-Type: text/plain\r\n")), 415, {"digits", "image/png"});
  expect_refused(ask(post("/predict/text", "x", png)), 415, {"text/plain"});
  expect_refused(
      ask(post("/predict/digits", "--b\r\n\r\nx\r\n--b--\r\n", "Content-Type: multipart/form-data; boundary=b\r\n")),
      415, {"form", "--data-binary"});
  expect_refused(ask(post("/predict/text", "{\"text\":5}", "Content-Type: application/json\r\n")), 400, {"text"});
  expect_refused(ask(post("/predict/text", "{\"text\"", "Content-Type: application/json\r\n")), 400,
                 {"not valid JSON"});
  expect_refused(ask(post("/v2/models/digits/infer", "{}", "Inference-Header-Content-Length: x\r\n")), 400,
                 {"Inference-Header"});
  expect_lives();
}

TEST(Server, CodingsThatAreNotUnpackedAreRefused) {
  const auto coded = [](const std::string& coding) {
    return ask(post("/predict/text", "a joy", cat("Content-Type: text/plain\r\nContent-Encoding: ", coding, "\r\n")));
  };
  for (const char* coding : {"zstd", "compress", "gzip, br", "gzip\r\nContent-Encoding: gzip"}) {
    expect_refused(coded(coding), 415, {"Content-Encoding", "gzip, deflate"});
  }
  EXPECT_EQ(coded("identity").status, 200);
  EXPECT_EQ(coded("gzip").status, 400);  // which it is not
  const std::string packed = gzip_stored("a joy");
  EXPECT_EQ(ask(post("/predict/text", packed, "Content-Type: text/plain\r\nContent-Encoding: gzip\r\n")).status, 200);
}

TEST(Server, UnknownPathsAndMethodsAreRefused) {
  expect_refused(ask(get("/v2/models/none")), 404, {"\"none\"", "digits, text"});
  expect_refused(ask(get("/v2/models/digits/versions/2")), 404, {"one version"});
  expect_refused(ask(get("/v2/models/digits/weights")), 404, {"infer"});
  for (const char* path : {"/../../etc/passwd", "/%2e%2e/%2e%2e/etc/passwd", "/..%2f..%2fetc%2fpasswd", "//etc/passwd",
                           "/v2/models/../../etc/passwd", "/predict/..%00", "/page/index.html"}) {
    const Answer a = ask(get(path));
    EXPECT_EQ(a.status, 404) << path;
    EXPECT_EQ(a.body.find("root:"), std::string::npos) << path;
  }
  const Answer wrong = ask(get("/predict"));
  expect_refused(wrong, 405, {"POST"});
  EXPECT_NE(wrong.head.find("Allow: POST"), std::string::npos) << wrong.head;
  expect_refused(ask("DELETE /v2 HTTP/1.1\r\nHost: localhost\r\n\r\n"), 405, {"DELETE"});
  expect_lives();
}

TEST(Server, GarbageIsAnsweredOnceAndTheConnectionCloses) {
  for (const std::string& garbage : {std::string("\x16\x03\x01\x02\x00\x01\x00\x01\xfc", 9) + "\r\n\r\n",
                                     std::string("GET\r\n\r\n"), std::string("GET / HTTP/9.9\r\n\r\n"),
                                     std::string("BREW /pot HTTP/1.1\r\n\r\n"), std::string(64, '\0') + "\r\n\r\n"}) {
    Client c(shared_server().port());
    c.send(garbage + get("/v2/health/live"));  // what follows must not be taken for a request
    const Answer a = c.receive();
    EXPECT_TRUE(a.status == 400 || a.status == 404) << a.status << " " << a.body;
    if (a.status == 400) {
      EXPECT_TRUE(c.closed());
    }
  }
  // Bodies whose end is unclear.
  for (const char* headers :
       {"Content-Length: 2\r\nContent-Length: 3\r\n", "Content-Length: 2\r\nTransfer-Encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n", "Content-Length: -1\r\n", "Content-Length: 2x\r\n"}) {
    Client c(shared_server().port());
    const Answer a =
        c.ask(cat("POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\n", headers, "\r\n{}") + get("/v2"));
    EXPECT_EQ(a.status, 400) << headers;
    EXPECT_TRUE(c.closed()) << headers;
  }
  expect_lives();
}

TEST(Server, PipelinedRequestsAreAnsweredInTheirOrder) {
  Client c(shared_server().port());
  c.send(get("/v2/health/live") + infer_images({image(1)}) + get("/nothing") + post("/predict", "") + get("/v2"));
  EXPECT_EQ(c.receive().status, 200);
  expect_near(probabilities(c.receive()), expected({image(1)}));
  EXPECT_EQ(c.receive().status, 404);
  EXPECT_EQ(c.receive().status, 400);
  EXPECT_NE(c.receive().body.find("freight"), std::string::npos);
}

TEST(Server, ChunkedBodiesAndExpectationsAreTaken) {
  const std::string head = "POST /predict/text HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n";
  EXPECT_EQ(ask(head + "Transfer-Encoding: chunked\r\n\r\n2\r\na \r\n3\r\njoy\r\n0\r\n\r\n").status, 200);
  EXPECT_EQ(ask(head + "Transfer-Encoding: chunked\r\n\r\nzz\r\na").status, 400);
  Client c(shared_server().port());
  EXPECT_EQ(c.ask(head + "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n").status, 100);
  EXPECT_EQ(c.ask("a joy").status, 200);
  // A refusal comes instead of "100 Continue", before the body.
  Client d(shared_server().port());
  EXPECT_EQ(
      d.ask("POST /nothing HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n").status,
      404);
}

TEST(Server, BodiesOfAllRequestsTogetherAreLimited) {
  RunningServer small({.max_body_bytes = 10'000, .max_held_bytes = 10'000});
  const std::string text = "POST /predict/text HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\n";
  const std::string blanks(7999, ' ');
  Client first(small.port());
  first.send(text + "Content-Length: 9000\r\n\r\n" + blanks + "a");
  usleep(300'000);  // until the server has read it
  expect_refused(ask(text + "Content-Length: 5000\r\n\r\n" + std::string(4999, ' ') + "b", small), 503,
                 {"memory", "later"});
  EXPECT_EQ(first.ask(std::string(999, ' ') + "joy").status / 100, 2);
  EXPECT_EQ(ask(text + "Content-Length: 5000\r\n\r\n" + std::string(4999, ' ') + "b", small).status / 100, 2);
}

TEST(Server, TextsAsJsonHaveFourMebibytes) {
  RunningServer server;
  const auto refused = [&](size_t bytes, int status, const std::string& part) {
    std::string body = R"({"text":")";
    body += std::string(bytes - body.size() - 2, 'a') + "\"}";
    expect_refused(ask(post("/predict/text", body, "Content-Type: application/json\r\n"), server), status, {part});
  };
  constexpr size_t kMost = size_t{4} << 20;
  refused(kMost - 1, 400, "the document is too long");  // it was read: a million bytes are what a model reads
  refused(kMost, 400, "the document is too long");
  refused(kMost + 1, 413, "expected at most 4194304");
}

TEST(Server, TooLargeHeadsAndBodiesAreRefused) {
  RunningServer small({.max_header_bytes = 2048, .max_body_bytes = 10'000});
  expect_refused(ask(get("/v2", "X: " + std::string(1500, 'a') + "\r\nY: " + std::string(1500, 'a') + "\r\n"), small),
                 431, {"2048"});
  Client endless(small.port());  // a head without end
  while (endless.send(std::string(1000, 'a'))) {
  }
  // A path has 2 KiB at most, whatever its head may have.
  RunningServer usual;
  for (const size_t path : {2047, 2048}) {
    expect_refused(ask(get("/" + std::string(path - 1, 'a')), usual), 404, {"not found"});
  }
  expect_refused(ask(get("/" + std::string(2048, 'a')), usual), 414, {"2048"});
  const std::string head = "POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\n";
  // Announced: refused before a byte of it is read.
  expect_refused(ask(head + "Content-Length: 1000000000\r\n\r\n", small), 413, {"10000"});
  expect_refused(ask(head + "Content-Length: 1000000000\r\nExpect: 100-continue\r\n\r\n", small), 413, {"10000"});
  // Not announced: refused when it has grown too large.
  Client c(small.port());
  c.send(head + "Transfer-Encoding: chunked\r\n\r\n");
  for (int i = 0; i < 1000 && c.send("400\r\n" + std::string(1024, 'x') + "\r\n"); ++i) {
  }
  const Answer a = c.receive();
  EXPECT_TRUE(a.status == 413 || a.status == 0) << a.status;  // 0: the answer overtaken by the reset
  // A small body that is packed, and grows.
  EXPECT_TRUE(ask(post("/v2/models/digits/infer", "{}"), small).status == 400);
  expect_lives(small);
}

TEST(Server, SlowClientsAreCutOff) {
  RunningServer hasty({.timeout_seconds = 0.4});
  const auto start = std::chrono::steady_clock::now();
  Client slow(hasty.port()), slow_body(hasty.port()), idle(hasty.port());
  slow_body.send("POST /v2/models/digits/infer HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{");
  // A byte now and then does not buy time.
  for (const char c : std::string("GET /v2 HTTP/1.1\r\nX-Slow: aaaaaaaaaaaaaaaaaaaa")) {
    if (!slow.send(std::string(1, c))) break;
    slow_body.send(" ");
    std::this_thread::sleep_for(std::chrono::milliseconds(30));
  }
  for (Client* late : {&slow, &slow_body}) {
    const Answer a = late->receive();
    expect_refused(a, 408, {"0.4 seconds"});
    const size_t said = a.head.find("Connection: close");
    EXPECT_NE(said, std::string::npos) << a.head;
    EXPECT_EQ(a.head.find("Connection", said + 1), std::string::npos) << a.head;
  }
  EXPECT_TRUE(slow.closed());
  EXPECT_TRUE(idle.closed());
  EXPECT_LT(std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count(), 15);
  expect_lives(hasty);
}

TEST(Server, ConnectionsBeyondTheLimitAreRefusedWhereAllAreAtWork) {
  RunningServer small({.max_connections = 3});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 3; ++i) {
    clients.push_back(std::make_unique<Client>(small.port()));
    EXPECT_EQ(clients.back()->ask(get("/v2/health/live")).status, 200);
    clients.back()->send("GET /v2/health/live HTTP/1.1\r\n");  // has begun the next one
  }
  std::this_thread::sleep_for(std::chrono::milliseconds(100));  // until the server has seen it
  Client fourth(small.port());
  expect_refused(fourth.receive(), 503, {"3 connections"});
  EXPECT_TRUE(fourth.closed());
  EXPECT_EQ(clients[0]->ask("Host: localhost\r\n\r\n").status, 200);
  clients.pop_back();
  // A place that became free is found.
  int status = 0;
  for (int i = 0; i < 500 && status != 200; ++i) {
    status = ask(get("/v2/health/live"), small).status;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  EXPECT_EQ(status, 200);
}

TEST(Server, IdleConnectionsMakeRoomForNewOnes) {
  RunningServer small({.max_connections = 3});
  std::vector<std::unique_ptr<Client>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<Client>(small.port()));
    EXPECT_EQ(clients.back()->ask(get("/v2/health/live")).status, 200) << i;
  }
  EXPECT_TRUE(clients.front()->closed());
}

TEST(Server, ItAnswersToItsOwnNamesAlone) {
  RunningServer known({.allowed_hosts = {"models.example.org"}});
  const auto status = [&](const std::string& headers) {
    return ask(cat("GET /v2 HTTP/1.1\r\n", headers, "\r\n"), known).status;
  };
  for (const char* host : {"localhost", "127.0.0.1:8000", "[::1]:80", "MODELS.example.org", "a.localhost:1"}) {
    EXPECT_EQ(status(cat("Host: ", host, "\r\n")), 200) << host;
  }
  for (const char* host : {"evil.example", "localhost.evil.example", "127.0.0.1.evil.example:8000"}) {
    EXPECT_EQ(status(cat("Host: ", host, "\r\n")), 403) << host;
    EXPECT_EQ(status(cat("Host: localhost\r\nOrigin: http://", host, "\r\n")), 403) << host;
  }
  EXPECT_EQ(status("Host: localhost\r\nOrigin: http://localhost:8000\r\n"), 200);
  EXPECT_EQ(status("Host: localhost\r\nOrigin: null\r\n"), 403);
}

// What a proxy before the server could read otherwise: each is 400, the connection is closed, and what follows is not
// read as a request.
TEST(Server, FramingThatIsNotRfc9112sIsRefused) {
  const std::string post = "POST /predict/text HTTP/1.1\r\n", host = "Host: localhost\r\n",
                    five = "Content-Length: 5\r\n";
  const std::string chunked = post + host + "Content-Type: text/plain\r\nTransfer-Encoding: chunked\r\n\r\n";
  for (const std::string& bytes : {
           post + host + "Content-Length : 5\r\n\r\na joy",
           post + host + "Content-Length:\r\n\r\na joy",
           post + host + "Content-Length: %35\r\n\r\na joy",
           post + host + "Content-Length: +5\r\n\r\na joy",
           post + host + "Content-Length: 5, 5\r\n\r\na joy",
           post + host + five + five + "\r\na joy",
           post + host + five + "Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           post + host + "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
           post + host + "Transfer-Encoding: chunked, chunked\r\n\r\n0\r\n\r\n",
           post + host + "Transfer-Encoding: \x0bchunked\r\n\r\n0\r\n\r\n",
           post + host + " Content-Length: 5\r\n\r\na joy",
           post + host + "X: a\r\n b\r\n" + five + "\r\na joy",
           post + host + "X\r\n" + five + "\r\na joy",
           post + "Host: localhost\n" + five + "\r\na joy",
           post + host + "X: a\rb\r\n" + five + "\r\na joy",
           post + host + "X: a" + std::string(1, '\0') + "\r\n\r\n",
           post + five + "\r\na joy",
           post + host + host + five + "\r\na joy",
           "GET  /v2 HTTP/1.1\r\n" + host + "\r\n",
           "GET /v2\tHTTP/1.1\r\n" + host + "\r\n",
           "GET /v2 HTTP/1.0\r\n" + host + "Transfer-Encoding: chunked\r\n\r\n",
           chunked + "0x5\r\na joy\r\n0\r\n\r\n",
           chunked + "+5\r\na joy\r\n0\r\n\r\n",
           chunked + "-5\r\na joy\r\n0\r\n\r\n",
           chunked + "5zz\r\na joy\r\n0\r\n\r\n",
           chunked + " 5\r\na joy\r\n0\r\n\r\n",
           chunked + "5 \r\na joy\r\n0\r\n\r\n",
           chunked + "\r\na joy\r\n0\r\n\r\n",
           chunked + "5\na joy\r\n0\r\n\r\n",
           chunked + "5\r\na joy0\r\n\r\n",
           chunked + "5\r\na joy\n0\r\n\r\n",
           chunked + "fffffffffffffffff\r\na joy",
           chunked + "5\r\na joy\r\n0\r\nContent-Length: 5\r\n\r\n",
           chunked + "5\r\na joy\r\n0\r\nno colon\r\n\r\n",
           chunked + "5\r\na joy\r\n0\r\nX: a\n\r\n",
       }) {
    Client c(shared_server().port());
    c.send(bytes + get("/v2/health/live"));
    const Answer a = c.receive();
    EXPECT_EQ(a.status, 400) << bytes << "\n-> " << a.head << a.body;
    EXPECT_TRUE(c.closed()) << bytes;
  }
  for (const std::string& bytes : {
           chunked + "5\r\na joy\r\n0\r\n\r\n",
           chunked + "00005\r\na joy\r\n000\r\n\r\n",
           chunked + "5;name=value;other=\"quoted\"\r\na joy\r\n0;x\r\n\r\n",
           chunked + "5 ;x\r\na joy\r\n0\r\n\r\n",
           chunked + "2\r\na \r\n3\r\njoy\r\n0\r\nX-Sum: 1\r\nY:\r\n\r\n",
           post + host + "content-length:5\r\nContent-Type:\ttext/plain \r\n\r\na joy",
           "\r\n" + post + host + five + "Content-Type: text/plain\r\n\r\na joy",
       }) {
    Client c(shared_server().port());
    c.send(bytes + get("/v2/health/live"));
    const Answer a = c.receive();
    EXPECT_EQ(a.status, 200) << bytes << "\n-> " << a.head << a.body;
    EXPECT_EQ(c.receive().status, 200) << "what follows " << bytes;
  }
  expect_lives();
}

TEST(Server, HeaderValuesAreTakenAsTheyAre) {
  RunningServer guarded({.token = "a%41+b"});
  EXPECT_EQ(ask(get("/v2", "Authorization: Bearer a%41+b\r\n"), guarded).status, 200);
  EXPECT_EQ(ask(get("/v2", "Authorization: Bearer aA+b\r\n"), guarded).status, 401);
}

TEST(Server, ATokenGuardsAllButHealthAndPage) {
  RunningServer guarded({.token = "s3cret"});
  for (const char* path : {"/", "/v2/health/live", "/v2/health/ready"}) EXPECT_EQ(ask(get(path), guarded).status, 200);
  for (const char* path : {"/v2", "/models", "/metrics", "/v2/models/digits", "/nothing"}) {
    const Answer a = ask(get(path), guarded);
    expect_refused(a, 401, {"Authorization: Bearer"});
    EXPECT_NE(a.head.find("WWW-Authenticate: Bearer"), std::string::npos);
  }
  for (const char* token : {"Bearer s3creT", "Bearer s3cret2", "Bearer ", "s3cret", "Basic s3cret"}) {
    EXPECT_EQ(ask(get("/v2", cat("Authorization: ", token, "\r\n")), guarded).status, 401) << token;
  }
  for (const char* scheme : {"Bearer ", "bearer ", "BEARER  "}) {
    EXPECT_EQ(ask(get("/v2", cat("Authorization: ", scheme, "s3cret\r\n")), guarded).status, 200) << scheme;
  }
  EXPECT_EQ(ask(get("/nothing", "Authorization: Bearer s3cret\r\n"), guarded).status, 404);
  // The body of a stranger is not read.
  EXPECT_EQ(ask("POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n", guarded).status, 401);
}

// Evaluation normalizes by the statistics of the batch itself: a request's results are those of its samples alone.
TEST(Server, RequestsForANetThatMixesSamplesRunApart) {
  store::Bundle bundle;
  bundle.model = models::create("linear_regression", {.input = {3}});
  bundle.preprocessing.input = {3};
  const auto net = std::make_shared<nn::Sequential>();
  net->append(nn::BatchNorm1d(3, {.running = false})).append(nn::Linear(3, 1));
  bundle.model.net = net;
  ServedModel model("mixed", bundle, {.deterministic = true, .batch_size = 8}, 8192);
  deploy::Predictor alone(bundle, {.deterministic = true, .batch_size = 8});
  Engine engine({&model}, {.max_delay_seconds = 0.2}, [](const ServedModel&, int64_t, int64_t) { return true; });
  std::vector<std::vector<Array>> samples(4);
  std::vector<std::vector<float>> got(samples.size());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < samples.size(); ++i) {
    for (int k = 0; k < 3; ++k) {
      Array a(DType::f32, {3});
      for (int j = 0; j < 3; ++j) a.data<float>()[j] = static_cast<float>((i + 1) * (k + 1) + j * k);
      samples[i].push_back(a);
    }
    threads.emplace_back([&, i] { got[i] = engine.run(model, samples[i]).to_vector<float>(); });
  }
  for (std::thread& t : threads) t.join();
  for (size_t i = 0; i < samples.size(); ++i) expect_near(got[i], alone.run(samples[i]).to_vector<float>());
}

TEST(Server, RequestsOfManyConnectionsShareBatches) {
  RunningServer server({.max_batch = 4, .max_delay_seconds = 0.2});
  std::vector<std::vector<float>> got(8);
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < 8; ++i) {
    threads.emplace_back([&, i] { got[i] = probabilities(ask(infer_images({image(i)}), server)); });
  }
  for (std::thread& t : threads) t.join();
  const std::string metrics = ask(get("/metrics"), server).body;
  const auto value = [&](const std::string& name) {
    const size_t at = metrics.find("\n" + name + "{model=\"digits\"} ");
    return at == std::string::npos ? -1 : std::atof(metrics.c_str() + metrics.find("} ", at) + 2);
  };
  EXPECT_EQ(value("freight_requests_total"), 8);
  EXPECT_EQ(value("freight_samples_total"), 8);
  EXPECT_EQ(value("freight_batch_size_sum"), 8);
  EXPECT_LT(value("freight_batches_total"), 8);
  EXPECT_EQ(value("freight_queue_samples"), 0);
  EXPECT_EQ(value("freight_request_seconds_count"), 8);
  EXPECT_NE(metrics.find("freight_http_responses_total{code=\"200\"}"), std::string::npos);
  for (uint32_t i = 0; i < 8; ++i) EXPECT_EQ(got[i].size(), 10u);
}

TEST(Server, StoppingAnswersWhatHasBegunAndTakesNothingNew) {
  RunningServer server({.timeout_seconds = 20});
  Client idle(server.port()), begun(server.port());
  EXPECT_EQ(idle.ask(get("/v2/health/live")).status, 200);
  const std::string request = infer_images({image(1)});
  begun.send(request.substr(0, request.size() - 100));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  bool whole = false;
  std::thread stopper([&] { whole = (*server).stop(20); });
  EXPECT_TRUE(idle.closed());
  while (Client(server.port()).connected()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  begun.send(request.substr(request.size() - 100));
  const Answer a = begun.receive();
  EXPECT_EQ(a.status, 200);
  EXPECT_NE(a.head.find("Connection: close"), std::string::npos) << a.head;
  EXPECT_TRUE(begun.closed());
  stopper.join();
  EXPECT_TRUE(whole);
}

TEST(Server, StoppingDoesNotWaitForABatchToFill) {
  RunningServer server({.max_delay_seconds = 3600, .timeout_seconds = 20});
  Client asking(server.port());
  asking.send(infer_images({image(1)}));
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_TRUE((*server).stop(20));
  EXPECT_EQ(asking.receive().status, 200);
}

TEST(Server, StoppingBreaksOffWhatNeverEnds) {
  RunningServer server({.timeout_seconds = 60});
  Client begun(server.port());
  begun.send("POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n");
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  EXPECT_FALSE((*server).stop(0.1));
}

TEST(Server, WhatCannotBeServedIsRefusedAtTheStart) {
  const TemporaryDir dir;
  const std::string model = dir / "m.safetensors";
  save_digits_model(model);
  const auto serve = [&](const std::vector<ModelFile>& files, ServerOptions options = {}) {
    const Server s(files, options);
  };
  expect_error(ErrorKind::usage, {"no model"}, [&] { serve({}); });
  expect_error(ErrorKind::usage, {"second model named lenet", "NAME="}, [&] {
    serve({{"", model}, {"", model}}, {.port = 0});
  });
  expect_error(ErrorKind::usage, {"a/b", "letters"}, [&] { serve({{"a/b", model}}, {.port = 0}); });
  expect_error(ErrorKind::runtime, {"cannot listen", "--port 0"}, [&] {
    serve({{"", model}}, {.port = shared_server().port()});
  });
  expect_error(ErrorKind::runtime, {"no such address"}, [&] {
    serve({{"", model}}, {.host = "no.such.host.invalid", .port = 0});
  });
}

// 300 mutated heads and bodies: whatever comes, the server answers the next sound request.
TEST(Server, LivesThroughMutatedRequests) {
  const std::string valid = infer_images({image(1)});
  for (uint64_t i = 0; i < 300; ++i) {
    PhiloxStream r(77, i, 0);
    std::string text = valid;
    for (uint32_t edits = 1 + r.below(6); edits > 0; --edits) {
      const size_t at = r.below(static_cast<uint32_t>(std::min<size_t>(text.size(), 320)));
      if (r.below(3) == 0) {
        text.erase(at, 1 + r.below(8));
      } else {
        text[at] = static_cast<char>(r.bits());
      }
    }
    Client c(shared_server().port());
    c.send(text);
    c.finish_sending();
    EXPECT_TRUE(c.closed()) << i;
  }
  expect_lives();
}

}  // namespace
}  // namespace freight::serve
