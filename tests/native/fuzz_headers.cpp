// Any bytes as the header of an image: what is found lies within them, and all that read it agree.
#include <cstdlib>

#include "build.h"
#include "jpeg.h"
#include "orientation.h"
#include "paint.h"
#include "png.h"

using namespace bushel;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

bool lies_in(Bytes part, Bytes whole) {
  return part.empty() || (part.data() >= whole.data() && part.data() + part.size() <= whole.data() + whole.size());
}

void check_jpeg(Bytes image) {
  JpegFrame frame;
  const bool is_whole = walk_jpeg(image, frame, [&](Bytes exif) { demand(lies_in(exif, image)); });
  demand(!is_whole || has_jpeg_end(image, 0));
  const int orientation = jpeg_orientation(image);
  demand(orientation >= 1 && orientation <= 8);
}

void check_png(Bytes image) {
  PngHeader header;
  if (read_png_header(image, header)) demand(header.height > 0 && header.width > 0 && header.channels() <= 4);
  std::size_t chunks = 0;
  for_each_png_chunk(image, [&](const PngChunk& chunk) {
    demand(lies_in(chunk.data, image) && lies_in(chunk.checked, image) && chunk.kind.size() == 4);
    return ++chunks < 1000;
  });
  const int orientation = png_orientation(image);
  demand(orientation >= 1 && orientation <= 8);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const build::Exact exact({reinterpret_cast<const char*>(data), size});
  const Bytes image = exact.bytes();
  check_jpeg(image);
  check_png(image);
  const EncodedHeader header = read_header(image);
  demand(header.orientation >= 1 && header.orientation <= 8);
  return 0;
}
