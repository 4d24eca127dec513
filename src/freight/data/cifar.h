// The binary layout of CIFAR-10 and CIFAR-100: records of one (CIFAR-10) or two (CIFAR-100: coarse, fine) label bytes
// and 3,072 pixel bytes, planes R, G, B of 32x32. Errors are Error(data) that names the file.
#pragma once
#include <string>

#include "freight/data/dataset.h"
#include "freight/io/file.h"

namespace freight::data {

enum class CifarKind { cifar10, cifar100 };

// Determines the kind by the files: data_batch_1.bin to 5 and test_batch.bin, or train.bin and test.bin. False for
// neither.
bool is_cifar_dir(const std::string& dir, CifarKind& kind);
// Reads images u8 (N, 3, 32, 32), and class names from batches.meta.txt or fine_label_names.txt if they exist.
TrainTest load_cifar_dir(const std::string& dir, const std::string& name, CifarKind kind);
// The number of records in a file's bytes; throws if they are not a whole number of records.
int64_t cifar_records(size_t bytes, CifarKind kind, const std::string& file);

}  // namespace freight::data
