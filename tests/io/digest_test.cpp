// Hashes of bytes, and of files by parts.
#include "freight/io/digest.h"

#include <gtest/gtest.h>

#include "freight/io/safetensors.h"
#include "tests/support/files.h"

namespace freight::io {
namespace {
using namespace freight::testing;

TEST(Digest, IsThatOfTheStandard) {  // FIPS 180-4, "abc"
  EXPECT_EQ(sha256(bytes_of("abc")), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Digest, XXH3IsThatOfItsCommand) {  // printf abc | xxhsum -H2
  EXPECT_EQ(xxh3_128(bytes_of("abc")), "06b05ab6733a618578af5f94892f3950");
}

TEST(Digest, OfPartsDoesNotDependOnThePieces) {
  const std::string text(40'000'000, 'x');
  const ByteView all = bytes_of(text);
  const PartHashes whole = part_hashes({all}),
                   cut = part_hashes({all.first(7), all.subspan(7, 20'000'000), {}, all.subspan(20'000'007)});
  EXPECT_EQ(whole.bytes, 40'000'000u);
  EXPECT_EQ(whole.parts.size(), 3u);
  EXPECT_EQ(whole.parts, cut.parts);
  EXPECT_EQ(whole.parts[2], xxh3_128(all.subspan(2 * whole.part)));
  EXPECT_TRUE(part_hashes({}).parts.empty());
}

TEST(Digest, AFileThatIsNotAsItWasHashedIsRefusedWithThePlace) {
  const TemporaryDir dir;
  const std::string path = dir / "f";
  std::string text(20'000'000, 'x');
  write_file_atomic(path, std::string_view(text));
  const PartHashes hashes = part_hashes({bytes_of(text)});
  const PartHashes whole{.bytes = text.size(), .part = text.size(), .parts = {xxh3_128(bytes_of(text))}};
  for (const PartHashes& h : {hashes, whole}) {
    const std::shared_ptr<Storage> content = read_verified(path, h);
    EXPECT_EQ(std::string_view(static_cast<const char*>(content->data()), content->size()), text);
  }
  text[17'000'000] = 'y';
  write_file_atomic(path, std::string_view(text));
  expect_error(ErrorKind::checkpoint, {path, "XXH3 differs from byte 16777216 to 20000000"},
               [&] { read_verified(path, hashes); });
  expect_error(ErrorKind::checkpoint, {path, "XXH3 differs: got"}, [&] { read_verified(path, whole); });
  text.pop_back();
  write_file_atomic(path, std::string_view(text));
  expect_error(ErrorKind::checkpoint, {path, "size differs: got 19999999"}, [&] { read_verified(path, hashes); });
  PartHashes few = part_hashes({bytes_of(text)});
  few.parts.pop_back();
  expect_error(ErrorKind::checkpoint, {path, "1 hashes, expected 2"}, [&] { read_verified(path, few); });
  expect_error(ErrorKind::data, {"missing"}, [&] { read_verified(dir / "missing", hashes); });
}

TEST(Digest, OfATensorFileIsThatOfWhatLiesOnDisk) {
  const TemporaryDir dir;
  const SafeTensors content{{{"key", "value"}}, {{"a", Array(DType::f32, {3000, 2000})}, {"b", Array(DType::u8, {3})}}};
  const PartHashes hashes = save_hashed_safetensors(dir / "f", content);
  EXPECT_EQ(hashes.parts.size(), 2u);
  EXPECT_EQ(read_verified(dir / "f", hashes)->size(), std::filesystem::file_size(dir / "f"));
  save_safetensors(dir / "g", content);
  EXPECT_EQ(read_text(dir / "f"), read_text(dir / "g"));
}

}  // namespace
}  // namespace freight::io
