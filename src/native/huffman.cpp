#include "huffman.h"

#if defined(BUSHEL_HAS_HUFFMAN)

#include <algorithm>

#include "wide.h"

namespace bushel {

namespace {

constexpr std::size_t kOverrun = 2 * 16;  // places that runs can reach after the last coefficient
constexpr int kLooks = 2;                 // before the bits are filled again
static_assert(kLooks * CoefficientTable::kMost <= 56 && kLooks * SkipTable::kMost <= 56);

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

bool is_ordinary(const jpeg_decompress_struct& image) {
  return !image.progressive_mode && !image.arith_code && image.restart_interval == 0 && image.data_precision == 8 &&
         image.comps_in_scan == image.num_components && image.unread_marker == 0;
}

// Whether a symbol can be, and all of its code is among so many bits.
bool is_known(const HuffmanSymbol& symbol, unsigned bits) {
  return symbol.length > 0 && symbol.length <= bits && (symbol.size > 0 || symbol.is_end() || symbol.is_zeros());
}

}  // namespace

bool HuffmanCodes::is(const JHUFF_TBL& table) const {
  return std::equal(counts_.begin() + 1, counts_.end(), table.bits + 1) &&
         std::equal(symbols_.begin(), symbols_.end(), table.huffval);
}

bool HuffmanCodes::set(const JHUFF_TBL& table) {
  counts_ = {};
  short_.fill({});
  long_.fill({});
  int code = 0, place = 0;
  for (unsigned length = 1; length <= 16; ++length, code <<= 1) {
    const int count = table.bits[length];
    if (code + count > 1 << length || place + count > 256) return false;
    first_[length] = place - code;
    end_[length] = code + count;
    if (length == kShort + 1) first_long_ = static_cast<std::uint32_t>(code) << (16 - length);
    for (int i = 0; i < count; ++i)
      add(static_cast<std::uint32_t>(code + i), {static_cast<std::uint8_t>(length), table.huffval[place + i]});
    code += count;
    place += count;
  }
  std::copy_n(table.bits, counts_.size(), counts_.begin());
  std::copy_n(table.huffval, symbols_.size(), symbols_.begin());
  return true;
}

// All that begins with a code stands for it.
void HuffmanCodes::add(std::uint32_t bits, Code code) {
  const bool is_short = code.length <= kShort;
  const std::span<Code> codes = is_short ? std::span<Code>(short_) : std::span<Code>(long_);
  const unsigned spare = (is_short ? kShort : 16) - code.length;
  const std::size_t begin = (bits << spare) - (is_short ? 0 : first_long_);
  if (begin >= codes.size()) return;
  const std::size_t count = std::min(std::size_t{1} << spare, codes.size() - begin);
  std::fill_n(codes.begin() + static_cast<std::ptrdiff_t>(begin), count, code);
}

HuffmanSymbol HuffmanCodes::find_rare(std::uint32_t bits) const {
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
    Entry& entry = entries_[look] = Entry{};
    const HuffmanSymbol first = codes.find(after(0));
    if (!is_known(first, kLook)) continue;
    entry = Entry(first);
    if (first.is_end() || entry.total() >= kLook) continue;
    const HuffmanSymbol second = codes.find(after(entry.total()));
    if (is_known(second, kLook - entry.total())) entry.add(second);
  }
}

// Those of few bits first: what follows a value is among them. Images may have codes of their own, so this is quick.
void SkipTable::set(const HuffmanCodes& codes) {
  std::array<std::uint16_t, std::size_t{2} << kLook> words{};  // those of n bits begin at 1 << n
  for (unsigned n = 1; n <= kLook; ++n)
    codes.for_each([&](std::uint32_t code, const HuffmanSymbol& symbol) {
      if (!is_known(symbol, n)) return;
      const unsigned spare = n - symbol.length;
      const auto word = word_of(symbol.length + symbol.size, symbol.is_end() ? kBlockEnd : symbol.run + 1);
      std::uint16_t* out = words.data() + (std::size_t{1} << n) + (std::size_t{code} << spare);
      std::uint16_t* const end = out + (std::size_t{1} << spare);
      if (symbol.is_end() || symbol.size >= spare) return std::fill(out, end, word);
      const std::size_t following = std::size_t{1} << (spare - symbol.size);
      for (const std::uint16_t* const next = words.data() + following; out < end; out += following)
        for (std::size_t i = 0; i < following; ++i) {
          const auto both = static_cast<std::uint16_t>(word + next[i]);
          out[i] = (both & word_of(0, DCTSIZE2)) != 0 ? word : both;  // they cannot be of one block
        }
    });
  std::copy_n(words.begin() + words_.size(), words_.size(), words_.begin());
  std::replace(words_.begin(), words_.end(), std::uint16_t{0}, word_of(0, kNone));
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
    if (mark[1] == 0xff) return false;  // filling: what follows it may be of the scan
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

// Most images have the codes of the image before.
bool HuffmanScan::set_codes(const jpeg_decompress_struct& image) {
  for (int i = 0; i < image.comps_in_scan; ++i) {
    const auto dc = static_cast<std::size_t>(image.cur_comp_info[i]->dc_tbl_no),
               ac = static_cast<std::size_t>(image.cur_comp_info[i]->ac_tbl_no);
    if (dc >= means_.size() || ac >= values_.size() || !image.dc_huff_tbl_ptrs[dc] || !image.ac_huff_tbl_ptrs[ac])
      return false;
    if (!means_[dc].is(*image.dc_huff_tbl_ptrs[dc]) && !means_[dc].set(*image.dc_huff_tbl_ptrs[dc])) return false;
    Values& values = values_[ac];
    if (!values.codes.is(*image.ac_huff_tbl_ptrs[ac])) {
      values.has_coefficients = values.has_skips = false;
      if (!values.codes.set(*image.ac_huff_tbl_ptrs[ac])) return false;
    }
    components_[static_cast<std::size_t>(i)] = {&means_[dc], &values};
  }
  return true;
}

bool HuffmanScan::begin(const jpeg_decompress_struct& image, Bytes data) {
  if (!is_ordinary(image) || !set_codes(image)) return false;
  const std::size_t rest = image.src->bytes_in_buffer;
  if (rest > data.size() || image.src->next_input_byte != data.data() + (data.size() - rest)) return false;
  if (!unstuff(data.subspan(data.size() - rest))) return false;
  done_ = 0;
  count_ = std::size_t{image.MCUs_per_row} * image.MCU_rows_in_scan;
  return true;
}

bool HuffmanScan::take_over(j_decompress_ptr image, Bytes data) {
  if (!begin(*image, data)) return false;
  for (int i = 0; i < image->comps_in_scan; ++i) {
    Values& values = *components_[static_cast<std::size_t>(i)].values;
    if (!values.has_coefficients) values.coefficients.set(values.codes);
    values.has_coefficients = true;
  }
  by_library_ = image->entropy->decode_mcu;
  return true;
}

bool HuffmanScan::skip(j_decompress_ptr image, Bytes data) {
  if (!begin(*image, data)) return false;
  for (int i = 0; i < image->comps_in_scan; ++i) {
    Values& values = *components_[static_cast<std::size_t>(i)].values;
    if (!values.has_skips) values.skips.set(values.codes);
    values.has_skips = true;
  }
  if (!skip_blocks(*image) || bits_.left() >= 8) return false;
  leave(image);
  return true;
}

boolean HuffmanScan::decode(j_decompress_ptr image, JBLOCKROW* blocks) {
  if (done_ >= count_ || !decode_blocks(*image, blocks)) return give_back(image, blocks);
  const bool is_last = done_ + 1 == count_;
  // After the last one, the library goes on at the marker, unless something lies before it.
  if (is_last && bits_.left() >= 8) return give_back(image, blocks);
  ++done_;
  if (is_last) leave(image);
  return TRUE;
}

void HuffmanScan::leave(j_decompress_ptr image) const {
  image->src->next_input_byte += stuffed_;
  image->src->bytes_in_buffer -= stuffed_;
}

// The library decodes from the first block on, and drops those that are done.
boolean HuffmanScan::give_back(j_decompress_ptr image, JBLOCKROW* blocks) {
  image->entropy->decode_mcu = by_library_;
  image->entropy->start_pass(image);
  for (std::size_t i = 0; i < done_; ++i) by_library_(image, nullptr);
  for (int i = 0; blocks && i < image->blocks_in_MCU; ++i) std::memset(blocks[i], 0, sizeof(JBLOCK));
  return by_library_(image, blocks);
}

namespace {

// The mean of a block, as it differs from that of the block before.
[[gnu::always_inline]] inline bool decode_mean(const HuffmanCodes& codes, ScanBits& in, int& mean) {
  if (in.is_past_end()) return false;
  in.fill();
  const HuffmanSymbol symbol = codes.find(static_cast<std::uint32_t>(in.peek(16)));
  if (symbol.length == 0 || symbol.run != 0) return false;
  mean += value_at(in.after(symbol.length), symbol.size);
  in.drop(symbol.length + symbol.size);
  return mean <= INT16_MAX && mean >= INT16_MIN;
}

// The value at place k or after it, of a code that may be long. Goes past its place, or to the end; false if it cannot
// be.
[[gnu::always_inline]] inline bool decode_one(const HuffmanCodes& codes, ScanBits& in, JCOEF* block, std::size_t& k) {
  in.fill();
  const HuffmanSymbol symbol = codes.find(static_cast<std::uint32_t>(in.peek(16)));
  if (!is_known(symbol, 16)) return false;
  k += symbol.run;
  block[kOrder[k]] = static_cast<JCOEF>(value_at(in.after(symbol.length), symbol.size));
  in.drop(symbol.length + symbol.size);
  k += symbol.is_end() ? kBlockEnd : 1;
  return true;
}

}  // namespace

BUSHEL_SHIFTS bool HuffmanScan::decode_blocks(const jpeg_decompress_struct& image, JBLOCKROW* blocks) {
  JBLOCK dropped;
  ScanBits in = bits_;
  for (int i = 0; i < image.blocks_in_MCU; ++i) {
    Component& component = components_[static_cast<std::size_t>(image.MCU_membership[i])];
    JCOEF* const block = blocks ? blocks[i][0] : dropped;
    if (!decode_mean(*component.means, in, component.last)) return false;
    block[0] = static_cast<JCOEF>(component.last);
    const CoefficientTable& table = component.values->coefficients;
    std::size_t k = 1;
    while (k < DCTSIZE2) {
      in.fill();
      for (int n = 0;;) {
        const CoefficientTable::Entry entry = table.look(in);
        const std::size_t at = k + entry.run(), next = at + 1 + entry.next_run();
        if (entry.is_none() || at >= DCTSIZE2 - 1) {
          if (!decode_one(component.values->codes, in, block, k)) return false;
          break;
        }
        // A second value that is not there is a zero, which the place after the first has already.
        block[kOrder[next]] = entry.next_value(in);
        block[kOrder[at]] = entry.value(in);
        k = next + entry.ahead();
        in.drop(entry.total());
        if (k >= DCTSIZE2 || ++n == kLooks) break;
      }
    }
    if (k != DCTSIZE2 && k <= kBlockEnd) return false;  // a run of zeros left the block
  }
  bits_ = in;
  return bits_.left() >= 0;
}

BUSHEL_SHIFTS bool HuffmanScan::skip_blocks(const jpeg_decompress_struct& image) {
  JBLOCK dropped;
  ScanBits in = bits_;
  const auto end_of = [](std::size_t k) { return k == DCTSIZE2 || (k > kBlockEnd && k < kBlockEnd + DCTSIZE2); };
  for (std::size_t left = count_ * static_cast<std::size_t>(image.blocks_in_MCU), i = 0; left > 0; --left) {
    Component& component = components_[static_cast<std::size_t>(image.MCU_membership[i])];
    if (++i == static_cast<std::size_t>(image.blocks_in_MCU)) i = 0;
    if (!decode_mean(*component.means, in, component.last)) return false;
    const SkipTable& table = component.values->skips;
    std::size_t k = 1;
    while (k < DCTSIZE2) {
      in.fill();
      for (int n = 0; n < kLooks && k < DCTSIZE2; ++n) {
        const SkipTable::Entry entry = table.look(in);
        const std::size_t next = k + entry.ahead();
        if (next >= DCTSIZE2 && !end_of(next)) {  // only some of these are of this block, or none is known
          if (!decode_one(component.values->codes, in, dropped, k)) return false;
          break;
        }
        k = next;
        in.drop(entry.total());
      }
    }
    if (!end_of(k)) return false;
  }
  bits_ = in;
  return bits_.left() >= 0;
}

}  // namespace bushel

#endif
