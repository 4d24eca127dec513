// The binary layout of CIFAR-10 and CIFAR-100: records of one (CIFAR-10) or two (CIFAR-100: coarse, fine) label bytes
// and 3,072 pixel bytes, planes R, G, B of 32x32. Faults are Error(data) that names the file.
#pragma once
#include <string>

#include "freight/data/dataset.h"
#include "freight/io/file.h"

namespace freight::data {

enum class CifarKind { cifar10, cifar100 };

// What the directory holds: data_batch_1.bin .. 5 and test_batch.bin, or train.bin and test.bin. False for neither.
bool is_cifar_dir(const std::string& dir, CifarKind& kind);
// Images u8 (N, 3, 32, 32). Class names come from batches.meta.txt or fine_label_names.txt where they are there.
TrainTest load_cifar_dir(const std::string& dir, const std::string& name, CifarKind kind);
// Number of records of a file's bytes; throws when they are no whole number of records.
int64_t cifar_records(size_t bytes, CifarKind kind, const std::string& file);

}  // namespace freight::data
