// Many records at once: one contiguous array per feature.
#pragma once

#include <string>
#include <vector>

#include "example.h"

namespace bushel {

// The values of one feature over all rows. For a feature list, the rows of `values` are its steps.
struct Column {
  Kind kind = Kind::none;  // none: no row has the feature
  std::size_t rows = 0;
  bool uniform = false;  // each row holds `width` values
  std::size_t width = 0;
  std::size_t values = 0;
  Buffer numbers;      // int64 or float32
  Buffer splits;       // int64, rows + 1: values of row i are [splits[i], splits[i+1]); empty where uniform
  Buffer ends;         // int64, values + 1, of bytes: value i is data[ends[i] : ends[i+1]]
  Buffer data;         // of bytes
  Buffer present;      // uint8, rows; empty where every row has the feature
  Buffer step_splits;  // int64, records + 1, of feature lists: the steps of record i
};

struct Decoded {
  std::vector<Column> columns;
  std::vector<RowFault> faults;  // in order; the content of these rows is undefined
  std::vector<Name> others;      // in the records, but not requested; filled if `note_others` is set
};

struct DecodeOptions {
  bool verify = true;  // compare the checksum of each record's data
  std::size_t threads = 1;
  bool note_others = false;
};

// Decodes the features `names` of the records at `extents`. Each extent is checked against `file`, so they may come
// from an index that is wrong. The result does not depend on the number of threads, and keeps nothing of `file`.
Decoded decode(Bytes file, std::span<const Extent> extents, const std::vector<Name>& names, DecodeOptions options);

}  // namespace bushel
