// Many small files, read whole, one after the other: no object and no copy per file.
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

}  // namespace bushel
