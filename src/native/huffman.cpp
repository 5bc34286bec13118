#include "huffman.h"

#if defined(BUSHEL_HAS_HUFFMAN)

#include <algorithm>

namespace bushel {

namespace {

constexpr unsigned kLongest = 32;          // bits of a code and its value, and one more
constexpr std::size_t kOverrun = 2 * 256;  // places that runs can reach after the last coefficient

// Where the coefficients go, in the order in which they come.
constexpr auto natural_order() {
  std::array<std::uint8_t, DCTSIZE2 + kOverrun> order{};
  std::size_t row = 0, column = 0;
  for (std::size_t i = 0; i < DCTSIZE2; ++i) {
    order[i] = static_cast<std::uint8_t>(row * DCTSIZE + column);
    const bool goes_up = (row + column) % 2 == 0;
    std::size_t& ahead = goes_up ? column : row;
    std::size_t& back = goes_up ? row : column;
    if (ahead == DCTSIZE - 1) {
      ++back;
    } else {
      ++ahead;
      if (back > 0) --back;
    }
  }
  for (std::size_t i = DCTSIZE2; i < order.size(); ++i) order[i] = DCTSIZE2 - 1;
  return order;
}
constexpr auto kOrder = natural_order();

// The number that bits stand for: those that begin with a zero are negative. Signs are random, so there is no branch.
int value_of(std::uint64_t bits, unsigned size) {
  const auto value = static_cast<std::int32_t>(bits);
  const std::int32_t is_negative = (value - (1 << (size - 1))) >> 31;
  return value + (is_negative & (1 - (1 << size)));
}

bool is_ordinary(const jpeg_decompress_struct& image) {
  return !image.progressive_mode && !image.arith_code && image.restart_interval == 0 && image.data_precision == 8 &&
         image.comps_in_scan == image.num_components && image.unread_marker == 0;
}

}  // namespace

bool HuffmanCodes::is(const JHUFF_TBL& table) const {
  return std::equal(counts_.begin() + 1, counts_.end(), table.bits + 1) &&
         std::equal(symbols_.begin(), symbols_.end(), table.huffval);
}

bool HuffmanCodes::set(const JHUFF_TBL& table) {
  counts_ = {};
  short_.fill({});
  int code = 0, place = 0;
  for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
    const int count = table.bits[length];
    if (code + count > 1 << length || place + count > 256) return false;
    first_[length] = place - code;
    end_[length] = code + count;
    for (int i = 0; i < count && length <= kShort; ++i) {
      const unsigned spare = kShort - length;
      std::fill_n(short_.begin() + (static_cast<std::ptrdiff_t>(code + i) << spare), std::size_t{1} << spare,
                  Short{static_cast<std::uint8_t>(length), table.huffval[place + i]});
    }
    code += count;
    place += count;
  }
  std::copy_n(table.bits, counts_.size(), counts_.begin());
  std::copy_n(table.huffval, symbols_.size(), symbols_.begin());
  return true;
}

HuffmanSymbol HuffmanCodes::find_long(std::uint32_t bits) const {
  for (unsigned length = kShort + 1; length <= 16; ++length) {
    const auto code = static_cast<std::int32_t>(bits >> (16 - length));
    if (code >= end_[length]) continue;
    const unsigned symbol = symbols_[static_cast<std::size_t>(first_[length] + code) & 255];
    return {length, symbol >> 4, symbol & 15};
  }
  return {};
}

void CoefficientTable::set(const HuffmanCodes& codes) {
  for (std::uint32_t look = 0; look < entries_.size(); ++look) {
    const auto after = [&](unsigned used) { return (look << (16 - kLook) << used) & 0xffff; };
    Entry& entry = entries_[look] = {};
    const auto [length, run, size] = codes.find(after(0));
    unsigned total = length + size;
    if (length == 0 || size == 0 || total > kLook) continue;
    entry = {total, run, value_of(after(length) >> (16 - size), size)};
    const HuffmanSymbol next = codes.find(after(total));
    const bool is_end = next.size == 0 && next.run == 0;
    if (next.length == 0 || total + next.length + next.size > kLook || (next.size == 0 && !is_end)) continue;
    const int value = is_end ? 0 : value_of(after(total + next.length) >> (16 - next.size), next.size);
    entry.add(total + next.length + next.size, is_end ? kEnd : next.run, value);
  }
}

// The bytes up to the next marker, without the zeros after 255.
bool HuffmanScan::unstuff(Bytes rest) {
  bytes_.resize(rest.size() + ScanBits::kMargin);
  std::uint8_t* out = bytes_.data();
  const std::uint8_t* at = rest.data();
  const std::uint8_t* const end = at + rest.size();
  for (;;) {
    const auto* const mark =
        static_cast<const std::uint8_t*>(std::memchr(at, 0xff, static_cast<std::size_t>(end - at)));
    if (!mark || end - mark < 2) return false;
    const auto size = static_cast<std::size_t>(mark - at);
    std::memcpy(out, at, size);
    out += size;
    if (mark[1] != 0) {
      stuffed_ = static_cast<std::size_t>(mark - rest.data());
      break;
    }
    *out++ = 0xff;
    at = mark + 2;
  }
  std::memset(out, 0, ScanBits::kMargin);
  bits_.set(bytes_.data(), static_cast<std::size_t>(out - bytes_.data()));
  return true;
}

// Most images have the tables of the image before.
bool HuffmanScan::set_tables(const jpeg_decompress_struct& image) {
  for (int i = 0; i < image.comps_in_scan; ++i) {
    const auto dc = static_cast<std::size_t>(image.cur_comp_info[i]->dc_tbl_no),
               ac = static_cast<std::size_t>(image.cur_comp_info[i]->ac_tbl_no);
    if (dc >= dc_.size() || ac >= ac_.size() || !image.dc_huff_tbl_ptrs[dc] || !image.ac_huff_tbl_ptrs[ac])
      return false;
    if (!dc_[dc].is(*image.dc_huff_tbl_ptrs[dc]) && !dc_[dc].set(*image.dc_huff_tbl_ptrs[dc])) return false;
    if (!ac_[ac].is(*image.ac_huff_tbl_ptrs[ac])) {
      if (!ac_[ac].set(*image.ac_huff_tbl_ptrs[ac])) return false;
      coefficients_[ac].set(ac_[ac]);
    }
    components_[static_cast<std::size_t>(i)] = {&dc_[dc], &ac_[ac], &coefficients_[ac]};
  }
  return true;
}

bool HuffmanScan::take_over(j_decompress_ptr image, Bytes data) {
  if (!is_ordinary(*image) || !set_tables(*image)) return false;
  const std::size_t rest = image->src->bytes_in_buffer;
  if (rest > data.size() || image->src->next_input_byte != data.data() + (data.size() - rest)) return false;
  if (!unstuff(data.subspan(data.size() - rest))) return false;
  done_ = 0;
  count_ = std::size_t{image->MCUs_per_row} * image->MCU_rows_in_scan;
  by_library_ = image->entropy->decode_mcu;
  return true;
}

boolean HuffmanScan::decode(j_decompress_ptr image, JBLOCKROW* blocks) {
  if (done_ >= count_ || !decode_blocks(*image, blocks)) return give_back(image, blocks);
  const bool is_last = done_ + 1 == count_;
  // After the last one, the library goes on at the marker, unless something lies before it.
  if (is_last && bits_.left() >= 8) return give_back(image, blocks);
  ++done_;
  if (is_last) {
    image->src->next_input_byte += stuffed_;
    image->src->bytes_in_buffer -= stuffed_;
  }
  return TRUE;
}

// The library decodes from the first block on, and drops those that are done.
boolean HuffmanScan::give_back(j_decompress_ptr image, JBLOCKROW* blocks) {
  image->entropy->decode_mcu = by_library_;
  image->entropy->start_pass(image);
  for (std::size_t i = 0; i < done_; ++i) by_library_(image, nullptr);
  for (int i = 0; blocks && i < image->blocks_in_MCU; ++i) std::memset(blocks[i], 0, sizeof(JBLOCK));
  return by_library_(image, blocks);
}

inline bool HuffmanScan::decode_mean(Component& component, ScanBits& in, JCOEF* block) {
  if (!in.fill()) return false;
  const auto [length, run, size] = component.dc->find(static_cast<std::uint32_t>(in.peek(16)));
  if (length == 0 || run != 0) return false;
  in.drop(length);
  if (size > 0) component.last += value_of(in.peek(size), size);
  if (component.last > INT16_MAX || component.last < INT16_MIN) return false;
  in.drop(size);
  block[0] = static_cast<JCOEF>(component.last);
  return true;
}

inline bool HuffmanScan::decode_rest(const Component& component, ScanBits& in, JCOEF* block) {
  const CoefficientTable& table = *component.coefficients;
  std::size_t k = 1;
  while (k < DCTSIZE2) {
    if (in.count() < kLongest && !in.fill()) return false;
    const CoefficientTable::Entry entry = table.look(in);
    const std::size_t at = k + entry.run(), next = at + 1 + entry.next_run();
    if (!entry.is_none() && at < DCTSIZE2 - 1) {
      // A second value that is not there is a zero, which the place after the first has already.
      block[kOrder[next]] = entry.next_value();
      block[kOrder[at]] = entry.value();
      k = next + entry.more();
      in.drop(entry.total());
      continue;
    }
    const auto [length, run, size] = component.ac->find(static_cast<std::uint32_t>(in.peek(16)));
    if (length == 0) return false;
    in.drop(length);
    k += run;
    if (size > 0) {
      block[kOrder[k]] = static_cast<JCOEF>(value_of(in.peek(size), size));
      in.drop(size);
    } else if (run == 0) {
      k += CoefficientTable::kEnd;
    } else if (run != 15) {
      return false;
    }
    ++k;
  }
  return k == DCTSIZE2 || k > CoefficientTable::kEnd;  // between them, a run of zeros left the block
}

bool HuffmanScan::decode_blocks(const jpeg_decompress_struct& image, JBLOCKROW* blocks) {
  JBLOCK dropped;
  ScanBits in = bits_;
  for (int i = 0; i < image.blocks_in_MCU; ++i) {
    Component& component = components_[static_cast<std::size_t>(image.MCU_membership[i])];
    JCOEF* const block = blocks ? blocks[i][0] : dropped;
    if (!decode_mean(component, in, block) || !decode_rest(component, in, block)) return false;
  }
  bits_ = in;
  return bits_.left() >= 0;
}

}  // namespace bushel

#endif
