// PyTorch's files: what torch.save writes in each format, what it reads of ours, and refusal of pickles that run code,
// of archives that lie, and of damaged files. tests/io/torch/make_files.py wrote the files.
#include "freight/io/torch_file.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <zlib.h>

#include <fstream>

#include "freight/base/philox.h"
#include "freight/io/json_library.h"
#include "freight/io/weights_file.h"
#include "freight/io/zip_internal.h"
#include "tests/support/files.h"
#include "tests/support/folders.h"
#include "tests/support/fuzz.h"
#include "tests/support/process_memory.h"
#include "tests/support/torch_python.h"

namespace freight::io {
namespace {
using namespace freight::testing;
using nlohmann::json;

std::string torch_folder() { return source_dir() + "/tests/io/torch/"; }
json expected_values() { return json::parse(read_text(torch_folder() + "expected.json")); }

SafeTensors parse_torch(const std::string& text, const std::string& name = "bad.pth") {
  const auto bytes = std::make_shared<Bytes>(text.size());
  std::copy(text.begin(), text.end(), bytes->data());
  return parse_torch_file({bytes->data(), bytes->size()}, name, bytes);
}

void expect_values(const SafeTensors& got, const json& expected, const std::string& file) {
  for (const auto& [name, tensor] : got.tensors) {
    if (name == "view") continue;  // of the tar format alone
    ASSERT_TRUE(expected.contains(name)) << file << ": " << name;
    const json& e = expected[name];
    EXPECT_EQ(to_string(tensor.dtype()), e[0]) << file << ": " << name;
    EXPECT_EQ(tensor.shape().vector(), e[1].get<std::vector<int64_t>>()) << file << ": " << name;
    const Array numbers = tensor.dtype() == DType::boolean ? tensor.cast(DType::u8) : tensor;
    EXPECT_EQ(numbers.to_vector<double>(), e[2].get<std::vector<double>>()) << file << ": " << name;
  }
}

TEST(TorchFile, ReadsEveryFormatWithItsViewsAndElementTypes) {
  const json expected = expected_values();
  struct File {
    const char* name;
    size_t tensors;
  };
  for (const File& f : std::vector<File>{
           {"zip.pth", 21}, {"legacy.pth", 18}, {"tar.pth", 12}, {"checkpoint2.pth", 21}, {"checkpoint4.pth", 21}}) {
    const SafeTensors got = load_weights_file(torch_folder() + f.name);
    EXPECT_EQ(got.tensors.size(), f.tensors) << f.name;
    expect_values(got, expected, f.name);
  }
  const SafeTensors tar = load_weights_file(torch_folder() + "tar.pth");
  ASSERT_NE(tar.find("view"), nullptr);
  EXPECT_EQ(tar.find("view")->to_vector<float>(), (std::vector<float>{2, 3, 4, 5}));
}

TEST(TorchFile, TensorsOfOneStorageDoNotChangeWithEachOther) {
  const SafeTensors got = load_weights_file(torch_folder() + "zip.pth");
  Array base = *got.find("base");
  base.data<float>()[0] = 100;
  EXPECT_EQ(got.find("transposed")->to_vector<float>()[0], 0);
}

// Pickles by hand.
std::string text_of(const std::string& s) { return "X" + le(s.size(), 4) + s; }
std::string global_of(const std::string& module, const std::string& name) { return "c" + module + "\n" + name + "\n"; }
std::string number_of(int64_t v) { return "\x8a\x08" + le(static_cast<uint64_t>(v), 8); }
std::string tuple_of(const std::vector<int64_t>& items) {
  std::string out = "(";
  for (const int64_t i : items) out += number_of(i);
  return out + "t";
}
const std::string kHead = "\x80\x02";

struct TensorText {
  std::string storage = "FloatStorage", key = "0";
  int64_t size = 4, offset = 0;
  std::vector<int64_t> shape{4}, stride{1};
  std::string function = "_rebuild_tensor_v2", end = {};
};
std::string tensor_of(const TensorText& t) {
  return global_of("torch._utils", t.function) + "((" + text_of("storage") + global_of("torch", t.storage) +
         text_of(t.key) + text_of("cpu") + number_of(t.size) + "tQ" + number_of(t.offset) + tuple_of(t.shape) +
         tuple_of(t.stride) + "\x89}" + t.end + "tR";
}
std::string dict_of(const std::string& name, const std::string& value) { return "}(" + text_of(name) + value + "u"; }

// Zip archives by hand: what the directory says, and what is there.
struct ZipText {
  std::string name, content;
  bool deflate = false;
  std::string local_name = {};  // empty: as in the directory
  int64_t claimed = -1;         // unpacked size; -1: the true one
  bool shared = false;          // no bytes of its own: those of the member before
};
std::string deflated(const std::string& text) {
  z_stream z{};
  EXPECT_EQ(deflateInit2(&z, Z_BEST_COMPRESSION, Z_DEFLATED, -MAX_WBITS, 9, Z_DEFAULT_STRATEGY), Z_OK);
  std::string out(deflateBound(&z, text.size()), '\0');
  z.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  z.avail_in = static_cast<uInt>(text.size());
  z.next_out = reinterpret_cast<Bytef*>(out.data());
  z.avail_out = static_cast<uInt>(out.size());
  EXPECT_EQ(deflate(&z, Z_FINISH), Z_STREAM_END);
  out.resize(z.total_out);
  deflateEnd(&z);
  return out;
}
std::string zip_of(const std::vector<ZipText>& members) {
  std::string out, directory;
  size_t at = 0;
  for (const ZipText& m : members) {
    if (!m.shared) at = out.size();
    const std::string packed = m.deflate ? deflated(m.content) : m.content;
    const uint64_t size = m.claimed < 0 ? m.content.size() : static_cast<uint64_t>(m.claimed);
    const std::string local = m.local_name.empty() ? m.name : m.local_name;
    const std::string common = le(0, 2) + le(m.deflate ? 8 : 0, 2) + le(0, 4) + le(crc32(bytes_of(m.content)), 4) +
                               le(packed.size(), 4) + le(size, 4);
    if (!m.shared) out += "PK\x03\x04" + le(20, 2) + common + le(local.size(), 2) + le(0, 2) + local + packed;
    directory += "PK\x01\x02" + le(20, 2) + le(20, 2) + common + le(m.name.size(), 2) + std::string(12, '\0') +
                 le(at, 4) + m.name;
  }
  const size_t begin = out.size();
  return out + directory + "PK\x05\x06" + le(0, 4) + le(members.size(), 2) + le(members.size(), 2) +
         le(directory.size(), 4) + le(begin, 4) + le(0, 2);
}
std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}
std::string torch_zip(const std::string& pickle, const std::string& storage = floats({1, 2, 3, 4})) {
  return zip_of({{"a/data.pkl", pickle}, {"a/data/0", storage}, {"a/version", "3\n"}});
}
void expect_refused(const std::vector<std::string>& parts, const std::string& file) {
  expect_error(ErrorKind::checkpoint, parts, [&] { parse_torch(file); });
}

TEST(TorchFile, AStateDictIsFoundInACheckpoint) {
  const std::string w = dict_of("w", tensor_of({}));
  const auto names = [&](const std::string& pickle) {
    std::vector<std::string> out;
    for (const auto& [name, tensor] : parse_torch(torch_zip(kHead + pickle + ".")).tensors) out.push_back(name);
    return join(out, ",");
  };
  EXPECT_EQ(names(w), "w");
  for (const char* key : {"state_dict", "model", "model_state_dict", "net", "anything"}) {
    EXPECT_EQ(names(dict_of(key, w)), "w");
  }
  EXPECT_EQ(names(dict_of("model", dict_of("state_dict", w))), "w");
  EXPECT_EQ(names(dict_of("model", w) + "(" + text_of("ema") + dict_of("x", tensor_of({})) + "u"), "w");
  EXPECT_EQ(names(dict_of("_orig_mod.module.w", tensor_of({}))), "w");
  // DataParallel's prefix is removed only where all names have it.
  EXPECT_EQ(names(dict_of("module.w", tensor_of({})) + "(" + text_of("x") + tensor_of({}) + "u"), "module.w,x");
  expect_refused({"bad.pth", "several state dicts", "generator, other"},
                 torch_zip(kHead + dict_of("generator", w) + "(" + text_of("other") + w + "u."));
  expect_refused({"bad.pth", "contains a list, expected a state_dict"}, torch_zip(kHead + "]."));
  expect_refused({"contains a tensor, expected a state_dict"}, torch_zip(kHead + tensor_of({}) + "."));
  expect_refused({"contains a dict without tensors by name"}, torch_zip(kHead + "}."));
}

// Each call that a pickle can make but those that tensors need.
std::vector<std::pair<std::string, std::string>> malicious_pickles() {
  const std::string touch = text_of("touch /tmp/freight-was-here") + "\x85R.";
  const auto call4 = [&](const std::string& module, const std::string& name) {
    return "\x80\x04\x8c" + le(module.size(), 1) + module + "\x8c" + le(name.size(), 1) + name + "\x93" + touch;
  };
  const std::string w = kHead + dict_of("w", tensor_of({}));
  return {
      {"cos\nsystem\n(S'touch /tmp/freight-was-here'\ntR.", "os.system"},
      {kHead + global_of("posix", "system") + touch, "posix.system"},
      {kHead + global_of("nt", "system") + touch, "nt.system"},
      {call4("builtins", "eval"), "builtins.eval"},
      {call4("builtins", "exec"), "builtins.exec"},
      {call4("builtins", "__import__"), "builtins.__import__"},
      {call4("builtins", "getattr"), "builtins.getattr"},
      {call4("subprocess", "Popen"), "subprocess.Popen"},
      {call4("torch", "serialization.os.system"), "torch.serialization.os.system"},
      {call4("torch", "load"), "torch.load"},
      {call4("torch.hub", "load"), "torch.hub.load"},
      {call4("torch._utils", "_import_dotted_name"), "torch._utils._import_dotted_name"},
      {call4("collections", "OrderedDict.fromkeys"), "collections.OrderedDict.fromkeys"},
      {call4("numpy.core.multiarray", "_reconstruct"), "numpy.core.multiarray._reconstruct"},
      {call4("argparse", "Namespace"), "argparse.Namespace"},
      {call4("torchvision.models.resnet", "ResNet"), "torchvision.models.resnet.ResNet"},
      {call4("torch", "FloatStorage"), "calls torch.FloatStorage"},
      {call4("torch", "float32"), "calls torch.float32"},
      {"(S'touch x'\nios\nsystem\n.", "os.system"},
      {kHead + "ctorch\nTensor\n)\x81.", "calls torch.Tensor"},
      {kHead + "\x82\x01.", "EXT1"},
      {"Pos.system\n.", "PERSID"},
      {w + "(" + text_of("x") + global_of("os", "system") + touch, "os.system"},
      {kHead + tensor_of({}) + "}b.", "sets the state of an object"},
      {kHead + "X\x01" + le(0, 3) + "a)R.", "calls a string"},
      {kHead + global_of("collections", "OrderedDict") + "]" + text_of("x") + "a\x85R.", "other things than pairs"}};
}

// Weights of 2017, which are still the ones of some networks: objects of classes, whose state is set.
TEST(TorchFile, ParametersAndTensorsOfEarlyVersionsAreRead) {
  const std::string early = "Q" + number_of(0) + tuple_of({4}) + tuple_of({1}) + "t";
  const std::string storage = "((" + text_of("storage") + global_of("torch", "FloatStorage") + text_of("0") +
                              text_of("cpu") + number_of(4) + "t";
  const std::string tensor = global_of("torch", "FloatTensor") + ")\x81" + storage + early + "b";
  const std::string class_of = global_of("torch.nn.parameter", "Parameter");
  for (const std::string& value :
       {tensor, class_of + tensor_of({}) + "\x85R", class_of + tensor_of({}) + "\x85\x81(\x88\x89}tb"}) {
    const SafeTensors got = parse_torch(torch_zip(kHead + dict_of("w", value) + "."));
    ASSERT_EQ(got.tensors.size(), 1u);
    EXPECT_EQ(got.tensors[0].second.to_vector<float>(), (std::vector<float>{1, 2, 3, 4}));
  }
  const std::string milestones = global_of("collections", "Counter") + "}(" + number_of(30) + number_of(1) + "u\x85R";
  EXPECT_EQ(parse_torch(torch_zip(kHead + "}(" + text_of("s") + milestones + text_of("w") + tensor_of({}) + "u."))
                .tensors.size(),
            1u);
}

TEST(TorchFile, NoCallableButThoseOfTensorsIsCalled) {
  const std::string mark = "/tmp/freight-was-here";
  std::filesystem::remove(mark);
  for (const auto& [pickle, name] : malicious_pickles()) {
    expect_refused({"bad.pth", name}, torch_zip(pickle));
    if (pickle[0] != 'P')
      expect_refused({"bad.pth", name}, pickle);  // a bare pickle, as the first of the legacy format
  }
  expect_refused(
      {"refused: the pickle names os.system", "none of its code was run", "torch.save(model.state_dict(), FILE)"},
      torch_zip("cos\nsystem\n."));
  EXPECT_FALSE(std::filesystem::exists(mark));
}

// Lists can contain themselves, which tuples cannot.
TEST(TorchFile, TensorsMadeOfThemselvesAreRefused) {
  const std::string from_type = global_of("torch._tensor", "_rebuild_from_type_v2");
  const std::string parameter = global_of("torch._utils", "_rebuild_parameter");
  const std::string in_itself = "]q" + le(0, 1) + from_type + "a" + from_type + "ah" + le(0, 1) + "a";
  const std::string in_its_tensor = "]q" + le(1, 1) + "0" + from_type + "(" + parameter + parameter + "h" + le(1, 1) +
                                    "}tRq" + le(2, 1) + "0h" + le(1, 1) + "h" + le(2, 1) + "a0";
  for (const std::string& pickle :
       {kHead + dict_of("w", from_type + "(" + from_type + from_type + in_itself + "}tR") + ".",
        kHead + in_its_tensor + dict_of("w", "h" + le(2, 1)) + "."}) {
    expect_refused({"bad.pth", "the arguments of a tensor: expected a tuple, got a list"}, torch_zip(pickle));
  }
}

TEST(TorchFile, TensorsThatLieAreRefused) {
  const auto refused = [&](const std::string& what, const TensorText& t) {
    expect_refused({"bad.pth", what}, torch_zip(kHead + dict_of("w", tensor_of(t)) + "."));
  };
  EXPECT_NO_THROW(parse_torch(torch_zip(kHead + dict_of("w", tensor_of({})) + ".")));
  refused("leaves its storage of 4 elements", {.offset = 1});
  refused("leaves its storage", {.shape = {2, 2}, .stride = {3, 1}});
  refused("leaves its storage", {.shape = {2}, .stride = {int64_t{1} << 62}});
  refused("leaves its storage", {.shape = {3, 3}, .stride = {int64_t{1} << 62, int64_t{1} << 62}});
  refused("expected an integer from 0 on, got -1", {.stride = {-1}});
  refused("expected an integer from 0 on, got -4", {.shape = {-4}});
  refused("its storage has 16 bytes, expected 5 elements", {.size = 5});
  refused("its storage 7 is not in the file", {.key = "7"});
  refused("too many axes or elements", {.shape = {1, 1, 1, 1, 1, 1, 1, 1, 1}, .stride = {1, 1, 1, 1, 1, 1, 1, 1, 1}});
  refused("too many axes or elements", {.shape = {int64_t{1} << 40, int64_t{1} << 40}, .stride = {0, 0}});
  refused("1 axes and 2 strides", {.stride = {1, 1}});
  refused("conjugate", {.end = dict_of("conj", "\x88")});
  refused("unknown class torch.float32", {.storage = "float32"});
  refused("got 6 arguments", {.function = "_rebuild_tensor_v3"});
  refused("boolean element 2 is 128", {.storage = "BoolStorage", .size = 16, .shape = {16}});
  expect_refused({"'w': appears twice"},
                 torch_zip(kHead + dict_of("w", tensor_of({})) + "(" + text_of("w") + tensor_of({}) + "u."));
}

TEST(TorchFile, ArchivesThatLieAreRefused) {
  const std::string pickle = kHead + dict_of("w", tensor_of({})) + ".", data = floats({1, 2, 3, 4});
  const ZipText content{"a/data.pkl", pickle}, storage{"a/data/0", data};
  EXPECT_NO_THROW(parse_torch(zip_of({content, storage})));
  EXPECT_NO_THROW(parse_torch(zip_of({{"a/data.pkl", pickle, true}, {"a/data/0", data, true}})));
  for (const char* path : {"/etc/passwd", "../x", "a/../../x", "a\\..\\x", "C:x"}) {
    expect_refused({"refused", "leaves the folder"}, zip_of({content, storage, {path, "x"}}));
  }
  expect_refused({"refused", "b/x", "outside of the folder"}, zip_of({content, storage, {"b/x", "x"}}));
  expect_refused({"refused: two members named a/data/0"}, zip_of({content, storage, storage}));
  expect_refused({"its members overlap"}, zip_of({content, storage, {"a/data/1", data, false, {}, -1, true}}));
  expect_refused({"directory and local header differ"}, zip_of({content, {"a/data/0", data, false, "a/data/1"}}));
  expect_refused({"refused: its member a/x.zip is an archive itself"},
                 zip_of({content, storage, {"a/x.zip", zip_of({content})}}));
  expect_refused({"refused: its member a/data.pkl is an archive itself"},
                 zip_of({{"a/data.pkl", zip_of({content})}, storage}));
  expect_refused({"none of PyTorch", "FOLDER/data.pkl", "model.pth"}, zip_of({{"model.pth", pickle}}));
  expect_refused({"TorchScript"}, zip_of({content, {"a/constants.pkl", pickle}, {"a/code/x.py", "import os"}}));
  expect_refused({"corrupt"}, zip_of({content, {"a/data/0", data, true, {}, 15}}));
  expect_refused({"a/byteorder", "checksum differs"}, [&] {
    std::string bad = zip_of({content, storage, {"a/byteorder", "little"}});
    bad[bad.find("little")] = 'L';
    return bad;
  }());
  expect_refused({"unknown byte order middle"}, zip_of({content, storage, {"a/byteorder", "middle"}}));
  const SafeTensors big = parse_torch(
      zip_of({content, {"a/data/0", std::string("\x3f\x80\0\0\0\0\0\0\0\0\0\0\0\0\0\0", 16)}, {"a/byteorder", "big"}}));
  EXPECT_EQ(big.tensors[0].second.to_vector<float>()[0], 1);
}

// Nothing of this takes more memory than a machine with 1 GiB to spare has.
TEST(TorchFile, BombsAreRefusedWithinTheMemoryLimit) {
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  GTEST_SKIP() << "the allocators of sanitizers need address space of their own";
#endif
  const std::string pickle = kHead + dict_of("w", tensor_of({})) + ".";
  const std::string zeros = zip_of({{"a/data.pkl", pickle}, {"a/data/0", std::string(90 << 20, '\0'), true}});
  const std::string huge = zip_of({{"a/data.pkl", pickle}, {"a/data/0", "x", true, {}, 0xfffffff0}});
  std::string wide = kHead, deep = kHead, copies = kHead + "](", memo = kHead + "(";
  for (int i = 0; i < 3'000'000; ++i) wide += ")";
  for (int i = 0; i < 1000; ++i) deep += i == 0 ? ")" : "\x85";
  for (int i = 0; i < 100'000; ++i) copies += "N";
  copies += "eq\x01" + global_of("builtins", "set") + "q\x02";
  for (int i = 0; i < 100'000; ++i) copies += "0h\x02h\x01\x85R";
  for (int i = 0; i < 200; ++i) memo += "(";
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &limit), 0);
  rlimit small = limit;
  small.rlim_cur = status_bytes("VmSize") + (size_t{1} << 30);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &small), 0);
  expect_refused({"refused", "unpack to 90"}, zeros);
  expect_refused({"refused", "unpack to 4.0 GiB"}, huge);
  expect_refused({"more than 2097152 values, the limit"}, torch_zip(wide));
  expect_refused({"deeper than 100"}, torch_zip(deep));
  expect_refused({"8388608 items, the limit"}, torch_zip(copies));
  expect_refused({"deeper than 100"}, torch_zip(memo));
  expect_refused({"refused: the tensors of a file of", "take 16.0 GiB"},
                 torch_zip(kHead + dict_of("w", tensor_of({.shape = {1 << 16, 1 << 16}, .stride = {0, 0}})) + "."));
  expect_refused({"truncated"}, torch_zip(kHead + "X\xff\xff\xff\x7f"));
  ASSERT_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

// A file is refused with its name, or the damage is in bytes without meaning and every tensor is as it was. In the zip
// format every byte of content has a checksum; in those before it elements have none.
TEST(TorchFile, DamagedFilesAreRefused) {
  for (const char* file : {"zip.pth", "checkpoint4.pth", "legacy.pth", "tar.pth"}) {
    const std::string good = read_text(torch_folder() + file);
    const SafeTensors whole = parse_torch(good);
    const bool checksums = good[0] == 'P';
    int refused = 0;
    constexpr int kFiles = 200;
    for (int i = 0; i < kFiles; ++i) {
      PhiloxStream r(2026, static_cast<uint64_t>(i), 50);
      const std::string bad = mutate(good, r);
      try {
        const SafeTensors got = parse_torch(bad, "bad.pth");
        if (!checksums) continue;
        ASSERT_EQ(got.tensors.size(), whole.tensors.size()) << file << ", mutation " << i;
        for (size_t t = 0; t < got.tensors.size(); ++t) {
          const auto& [name, tensor] = got.tensors[t];
          const auto& [name_before, before] = whole.tensors[t];
          EXPECT_EQ(name, name_before) << file << ", mutation " << i;
          ASSERT_EQ(tensor.bytes(), before.bytes());
          EXPECT_EQ(std::memcmp(tensor.raw(), before.raw(), before.bytes()), 0) << file << ", mutation " << i;
        }
      } catch (const Error& e) {
        ++refused;
        EXPECT_NE(std::string(e.what()).find("bad.pth"), std::string::npos) << e.what();
        EXPECT_EQ(e.kind(), ErrorKind::checkpoint) << e.what();
      }
    }
    EXPECT_GE(refused, checksums ? 180 : 120) << file;
    RecordProperty(file, refused);
  }
}

TEST(TorchFile, WhatIsWrittenIsReadAgain) {
  const TemporaryDir dir;
  SafeTensors content = load_weights_file(torch_folder() + "zip.pth");
  content.metadata["spec"] = "dropped";
  content.tensors.emplace_back("tied", *content.find("float64"));
  save_torch_file(dir / "w.pth", content);
  const SafeTensors again = load_weights_file(dir / "w.pth");
  EXPECT_TRUE(again.metadata.empty());
  ASSERT_EQ(again.tensors.size(), content.tensors.size());
  for (size_t i = 0; i < again.tensors.size(); ++i) {
    const auto& [name, tensor] = again.tensors[i];
    const auto& [name_before, before] = content.tensors[i];
    EXPECT_EQ(name, name_before);
    EXPECT_EQ(tensor.dtype(), before.dtype()) << name;
    ASSERT_EQ(tensor.shape(), before.shape()) << name;
    EXPECT_EQ(std::memcmp(tensor.raw(), before.raw(), before.bytes()), 0) << name;
  }
  save_torch_file(dir / "again.pth", content);
  EXPECT_EQ(read_text(dir / "w.pth"), read_text(dir / "again.pth"));
}

TEST(WeightsFile, TheContentSaysTheFormatNotTheName) {
  const TemporaryDir dir;
  const json expected = expected_values();
  put(dir / "w.safetensors", read_text(torch_folder() + "legacy.pth"));
  expect_values(load_weights_file(dir / "w.safetensors"), expected, "w.safetensors");
  save_safetensors(dir / "w.pth", load_weights_file(torch_folder() + "legacy.pth"));
  expect_values(load_weights_file(dir / "w.pth"), expected, "w.pth");
  std::string first = read_text(torch_folder() + "legacy.pth");  // its first pickle as protocol 1 writes it
  first.replace(0, first.find('.') + 1, "L119547037146038801333356L\n.");
  put(dir / "first.bin", first);
  expect_values(load_weights_file(dir / "first.bin"), expected, "first.bin");
  put(dir / "w.gz", gzip_stored(read_text(dir / "w.pth")));
  expect_error(ErrorKind::checkpoint, {"w.gz", "gunzip"}, [&] { load_weights_file(dir / "w.gz"); });
  put(dir / "other", "just some text");
  expect_error(ErrorKind::checkpoint, {"other", "not a safetensors file"}, [&] { load_weights_file(dir / "other"); });
  put(dir / "net.onnx", std::string("\x08\x08", 2) + std::string(100, 'x'));
  expect_error(ErrorKind::checkpoint, {"net.onnx", "is an ONNX file"}, [&] { load_weights_file(dir / "net.onnx"); });
}

TEST(WeightsFile, AnIndexGathersTheFilesBesideIt) {
  const TemporaryDir dir;
  const SafeTensors all = load_weights_file(torch_folder() + "legacy.pth");
  json map;
  SafeTensors first, second;
  for (const auto& t : all.tensors) (first.tensors.size() < 9 ? first : second).tensors.push_back(t);
  save_safetensors(dir / "a.safetensors", first);
  save_torch_file(dir / "b.bin", second);
  for (const auto& t : first.tensors) map[t.first] = "a.safetensors";
  for (const auto& t : second.tensors) map[t.first] = "b.bin";
  const std::string index = dir / "model.safetensors.index.json";
  const auto write = [&](const json& weights) {
    put(index, json{{"metadata", {{"total_size", 1}}}, {"weight_map", weights}}.dump());
  };
  write(map);
  const SafeTensors got = load_weights_file(index);
  EXPECT_EQ(got.tensors.size(), all.tensors.size());
  expect_values(got, expected_values(), index);
  const auto refused = [&](ErrorKind kind, const std::vector<std::string>& parts, const char* key, const json& file) {
    json changed = map;
    file.is_null() ? void(changed.erase(key)) : void(changed[key] = file);
    write(changed);
    expect_error(kind, parts, [&] { load_weights_file(index); });
  };
  refused(ErrorKind::checkpoint, {"a.safetensors", "contains the tensor base"}, "base", nullptr);
  refused(ErrorKind::checkpoint, {"a.safetensors", "lacks the tensor more"}, "more", "a.safetensors");
  refused(ErrorKind::data, {"c.bin", "is missing", "next to it"}, "more", "c.bin");
  for (const char* path : {"../a.safetensors", "/etc/passwd", "", "sub/a.safetensors"}) {
    refused(ErrorKind::checkpoint, {"refused", "leaves the folder of the index"}, "base", path);
  }
  refused(ErrorKind::checkpoint, {"expected a file name"}, "base", 3);
  put(index, "{\"layers\": []}");
  expect_error(ErrorKind::checkpoint, {"no index of weights"}, [&] { load_weights_file(index); });
}

// PyTorch of today writes every format, and reads what is written here with weights_only=True.
TEST(TorchPeer, ReadsOurFilesAndWritesOnesThatWeRead) {
  const std::string python = torch_python();
  if (python.empty()) GTEST_SKIP() << kWithoutTorch;
  const TemporaryDir dir;
  const auto run = [&](const std::string& arguments) {
    return std::system((python + " -W ignore " + arguments).c_str());
  };
  ASSERT_EQ(run(torch_folder() + "make_files.py " + dir.path()), 0);
  const json expected = json::parse(read_text(dir / "expected.json"));
  for (const char* file : {"zip.pth", "legacy.pth", "tar.pth", "checkpoint2.pth", "checkpoint4.pth"}) {
    expect_values(load_weights_file(dir / file), expected, file);
  }
  save_torch_file(dir / "ours.pth", load_weights_file(dir / "zip.pth"));
  EXPECT_EQ(run(torch_folder() + "check_file.py " + (dir / "ours.pth") + " " + (dir / "zip.pth")), 0);
}

}  // namespace
}  // namespace freight::io
