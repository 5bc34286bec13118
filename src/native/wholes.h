// Files or ranges of them, read one after the other into one piece of memory: no object and no copy per file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bytes.h"

namespace bushel {

inline constexpr int kOtherSize = -1;  // instead of an errno: the file does not have the size given

// Reads `paths`, which are below `folder`, into `out`, which holds the sum of `sizes`: file i after
// the files before it. Sets faults[i] to 0, to an errno, or to kOtherSize; the bytes of such a file are undefined.
void read_wholes(const std::string& folder, const std::vector<std::string_view>& paths,
                 const std::vector<std::size_t>& sizes, std::size_t threads, std::uint8_t* out, std::int32_t* faults);

struct FileRange {
  std::string_view path;
  std::uint64_t offset;
  std::size_t size;
};

// Reads all ranges into `out`, which holds the sum of their sizes. One file is open at a time; ranges of one file that
// follow each other open it once. Returns the number of a range that cannot be read, whose fault is set to an errno or
// to kOtherSize if the file ends early; the count of ranges if there is none.
std::size_t read_ranges(const std::vector<FileRange>& ranges, std::uint8_t* out, std::int32_t& fault);

}  // namespace bushel
