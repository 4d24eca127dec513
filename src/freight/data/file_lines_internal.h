// Reads a file line by line, for formats whose rows are lines; the file need not fit into memory.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

#include "freight/io/byte_stream.h"

namespace freight::data {

class FileLines {
 public:
  // Throws Error(data) that begins with `name` for a line of more than `longest` bytes.
  FileLines(std::unique_ptr<io::ByteStream> stream, std::string name, size_t longest = SIZE_MAX);
  // Reads the next line, without its newline and a byte order mark; false after the last one.
  bool next(std::string& line);
  // Reads the next line that is not blank; false after the last one.
  bool next_text(std::string& line);
  void rewind();
  int64_t number() const { return number_; }  // the number of the line that was read, from 1
  std::string place() const;                  // "runs.jsonl:17"
  uint64_t size() const { return stream_->size(); }
  uint64_t read_so_far() const { return taken_ - (end_ - at_); }

 private:
  std::unique_ptr<io::ByteStream> stream_;
  std::string name_;
  size_t longest_;
  io::Bytes piece_;
  size_t at_ = 0, end_ = 0;  // the unread part of piece_
  uint64_t taken_ = 0;       // bytes taken from the stream
  int64_t number_ = 0;
};

}  // namespace freight::data
