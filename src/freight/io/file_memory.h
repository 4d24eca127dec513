// Memory that lies in a file without a name, for data larger than the machine's memory: the system writes pages of it
// to the disk where others need their room, and reads them again where they are used.
#pragma once
#include <cstddef>
#include <string>

#include "freight/base/array.h"

namespace freight::io {

class FileMemory {
 public:
  // The file lies in this folder and goes with the object; none is made before there is something to hold. A folder in
  // memory (tmpfs) gains nothing.
  explicit FileMemory(std::string folder) : folder_(std::move(folder)) {}
  ~FileMemory();
  FileMemory(const FileMemory&) = delete;
  FileMemory& operator=(const FileMemory&) = delete;

  // Keeps what is there, up to the new size; new bytes are 0. The address may change. Throws Error(runtime) that names
  // the folder where the disk has no room, or no file can be made.
  void resize(size_t bytes);
  void* data() const { return data_; }  // null where the size is 0
  size_t size() const { return size_; }

 private:
  void open();
  [[noreturn]] void give_up(const char* what, int error) const;
  std::string folder_;
  int fd_ = -1;
  void* data_ = nullptr;
  size_t size_ = 0;
};

// Makes zeros in a file of this folder; in memory where `folder` is empty.
Array zeros_in(const std::string& folder, DType dtype, const Shape& shape);

}  // namespace freight::io
