// Many small files, read whole and put one behind the other: no object and no copy a file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "bytes.h"

namespace bushel {

inline constexpr int kOtherSize = -1;  // in the place of an errno: the file is not as large as was said

// Reads `paths`, which are below `folder`, into `out`, which holds the sum of `sizes`: file i where the sizes before it
// end. Sets faults[i] to 0, to an errno, or to kOtherSize; what is in the place of such a file is not defined.
void read_wholes(const std::string& folder, const std::vector<std::string_view>& paths,
                 const std::vector<std::size_t>& sizes, std::size_t threads, std::uint8_t* out, std::int32_t* faults);

}  // namespace bushel
