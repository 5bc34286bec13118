#include <string>

#include "build.h"
#include "check.h"
#include "jpeg.h"

using namespace bushel;
using build::Exact;

namespace {

std::string segment(unsigned char marker, const std::string& data) {
  const std::size_t length = data.size() + 2;
  return std::string("\xff") + static_cast<char>(marker) + static_cast<char>(length >> 8) + static_cast<char>(length) +
         data;
}

std::string frame(int bits, int height, int width, int channels) {
  std::string data;
  for (const int byte : {bits, height >> 8, height, width >> 8, width, channels}) data += static_cast<char>(byte);
  return segment(0xc0, data + std::string(9, 'c'));
}

const std::string kBegin = "\xff\xd8", kEnd = "\xff\xd9";

bool read(const std::string& text, JpegFrame& frame) {
  const Exact file(text);
  return walk_jpeg(file.bytes(), frame, [](Bytes) {});
}

}  // namespace

TEST(jpeg, size_and_channels_stand_behind_other_segments_and_fill) {
  JpegFrame header;
  const std::string before = segment(0xe0, "JFIF") + segment(0xfe, "a comment");
  CHECK(read(kBegin + before + "\xff" + frame(8, 300, 1000, 3) + "pixels" + kEnd, header));
  CHECK(header.height == 300 && header.width == 1000 && header.channels == 3);
  CHECK(read(kBegin + frame(8, 2, 1, 1) + "pixels" + kEnd + "trailing", header) && header.channels == 1);
}

TEST(jpeg, exif_data_are_handed_over_on_the_way) {
  const Exact file(kBegin + segment(0xe1, std::string("Exif\0\0", 6) + "II") + frame(8, 9, 9, 3) + kEnd);
  JpegFrame header;
  std::string found;
  CHECK(walk_jpeg(file.bytes(), header, [&](Bytes exif) { found.assign(exif.begin(), exif.end()); }));
  CHECK(found == "II");
}

TEST(jpeg, what_is_not_a_whole_jpeg_is_left_to_others) {
  JpegFrame header;
  for (const std::string& text :
       {std::string(), std::string("\xff"), std::string("PNG"), kBegin, kBegin + "\xff", kBegin + kEnd,
        kBegin + frame(8, 9, 9, 3) + "x", kBegin + segment(0xda, "scan first") + frame(8, 9, 9, 3) + kEnd,
        kBegin + "\xff\xe0\xff\xff" + "cut"})
    CHECK(!read(text, header));
}

TEST(jpeg, no_cut_and_no_flip_leads_beyond_the_bytes) {
  const std::string whole = kBegin + segment(0xe0, "JFIF") + frame(8, 30, 100, 3) + "pixels" + kEnd;
  JpegFrame header;
  for (std::size_t size = 0; size < whole.size(); ++size) CHECK(!read(whole.substr(0, size), header));
  for (std::size_t at = 0; at < whole.size(); ++at)
    for (int byte = 0; byte < 256; ++byte) {
      std::string damaged = whole;
      damaged[at] = static_cast<char>(byte);
      read(damaged, header);
    }
}
