// Huffman decoding of ordinary JPEGs: the coefficients that libjpeg-turbo finds, in less time.
//
// The library looks at its source byte by byte, and takes one look for a code and another for its value. Here a scan is
// freed of its stuffing first, and one look gives up to two coefficients, or passes over several. Whatever is not
// plainly right is left to the library, which starts again at the first block, so that its errors and its way with odd
// files stay.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <vector>

#include "bytes.h"

#if defined(BUSHEL_HAS_JPEG)
#include "jpeg_errors.h"
#endif

#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && __has_include(<jpegint.h>)
#define BUSHEL_HAS_HUFFMAN 1

extern "C" {
#include <jpegint.h>
}

namespace bushel {

// The bits of a scan, first bit first. Reading past the end gives zeros; `left` tells.
class ScanBits {
 public:
  // Bytes after the end that may be read. A block that begins at the end takes a mean and 63 values of at most 31 bits,
  // and whole words are read.
  static constexpr std::size_t kMargin = 320;

  void set(const std::uint8_t* data, std::size_t size) {
    next_ = data;
    end_ = data + size;
    bits_ = 0;
    count_ = 0;
  }

  // Ask before each block.
  bool is_past_end() const { return next_ > end_ + sizeof bits_; }
  // 56 bits or more are there afterwards.
  void fill() {
    std::uint64_t word;
    std::memcpy(&word, next_, sizeof word);
    bits_ |= __builtin_bswap64(word) >> count_;
    next_ += (63 - count_) >> 3;
    count_ |= 56;
  }
  std::uint64_t peek(unsigned count) const { return bits_ >> (64 - count); }
  // The bits after the first ones, at the top.
  std::uint64_t after(unsigned skipped) const { return bits_ << skipped; }
  void drop(unsigned count) {
    bits_ <<= count;
    count_ -= count;
  }

  // Bits of the scan that are left; negative if more were read than there are.
  std::ptrdiff_t left() const { return static_cast<std::ptrdiff_t>(count_) + 8 * (end_ - next_); }

 private:
  const std::uint8_t *next_ = nullptr, *end_ = nullptr;
  std::uint64_t bits_ = 0;
  unsigned count_ = 0;
};

// The number that the top bits stand for: if they begin with a zero it is negative. Signs are random, so there is no
// branch.
inline JCOEF value_at(std::uint64_t bits, unsigned size) {
  const std::uint64_t is_negative = (bits >> 63) - 1;
  return static_cast<JCOEF>((bits >> 1 >> (63 - size)) - (is_negative & ((std::uint64_t{1} << size) - 1)));
}

inline constexpr unsigned kBlockEnd = 128;  // how many places further a block ends

// What a code stands for: a value of `size` bits after a run of zeros.
struct HuffmanSymbol {
  unsigned length = 0;  // of the code; 0 if it is none
  unsigned run = 0, size = 0;

  bool is_end() const { return run == 0 && size == 0; }  // of a block
  bool is_zeros() const { return run == 15 && size == 0; }
};

class HuffmanCodes {
 public:
  // False if the codes cannot be.
  bool set(const JHUFF_TBL& table);
  bool is(const JHUFF_TBL& table) const;
  // The first code of 16 bits.
  HuffmanSymbol find(std::uint32_t bits) const {
    const Code code = short_[bits >> (16 - kShort)];
    if (code.length > 0) return code.symbol();
    const std::uint32_t at = bits - first_long_;
    return at < long_.size() ? long_[at].symbol() : find_rare(bits);
  }
  // Calls use(code, symbol) for each, the shortest first.
  template <typename Use>
  void for_each(Use&& use) const {
    std::uint32_t code = 0;
    const std::uint8_t* symbol = symbols_.data();
    for (unsigned length = 1; length <= 16; ++length, code <<= 1)
      for (unsigned i = 0; i < counts_[length]; ++i, ++symbol)
        use(code++, HuffmanSymbol{length, static_cast<unsigned>(*symbol >> 4), *symbol & 15U});
  }

 private:
  static constexpr unsigned kShort = 9;  // bits
  struct Code {
    std::uint8_t length, value;
    HuffmanSymbol symbol() const { return {length, static_cast<unsigned>(value >> 4), value & 15U}; }
  };

  void add(std::uint32_t bits, Code code);
  HuffmanSymbol find_rare(std::uint32_t bits) const;

  std::array<Code, std::size_t{1} << kShort> short_;
  // Longer codes come after all short ones, and few bits are left for them.
  std::array<Code, 1024> long_;
  std::uint32_t first_long_ = 0;
  std::array<std::int32_t, 17> end_{}, first_{};  // by length: one more than the last code; its symbols' place
  std::array<std::uint8_t, 17> counts_{};
  std::array<std::uint8_t, 256> symbols_{};
};

// One or two coefficients by the bits that they begin with. Values may have more bits than a look.
class CoefficientTable {
 public:
  static constexpr unsigned kLook = 11;          // bits: with one more, the tables leave no room in the fastest cache
  static constexpr unsigned kMost = kLook + 15;  // bits of an entry and its values

  // One word: looks follow each other, and each has to wait for the one before.
  class Entry {
   public:
    Entry() = default;
    explicit Entry(const HuffmanSymbol& first)
        : word_((first.length + first.size) | first.length << 5 | first.size << 9 | first.run << 13) {
      if (first.is_end()) end();
    }

    void add(const HuffmanSymbol& second) {
      const unsigned before = total() + second.length;
      word_ = (word_ & ~31U) | (before + second.size) | before << 17 | second.size << 21 | second.run << 25;
      second.is_end() ? end() : more();
    }

    bool is_none() const { return word_ == 0; }                // the code is longer than a look
    unsigned total() const { return word_ & 31; }              // bits of all
    std::size_t run() const { return word_ >> 13 & 15; }       // zeros before the first value
    std::size_t next_run() const { return word_ >> 25 & 15; }  // and before the second
    std::size_t ahead() const { return (word_ >> 29 & 1) | (word_ >> 23 & kBlockEnd); }  // from the second one's place

    JCOEF value(const ScanBits& in) const { return value_at(in.after(word_ >> 5 & 15), word_ >> 9 & 15); }
    // Zero if there is no second value.
    JCOEF next_value(const ScanBits& in) const { return value_at(in.after(word_ >> 17 & 15), word_ >> 21 & 15); }

   private:
    void more() { word_ |= 1U << 29; }
    void end() { word_ |= 1U << 30; }

    std::uint32_t word_ = 0;
  };

  void set(const HuffmanCodes& codes);
  Entry look(const ScanBits& in) const { return entries_[in.peek(kLook)]; }

 private:
  std::array<Entry, std::size_t{1} << kLook> entries_;
};

// As many coefficients as begin in a look, for those who only want to get past them.
class SkipTable {
 public:
  static constexpr unsigned kLook = 12;          // bits
  static constexpr unsigned kMost = kLook + 15;  // bits of an entry and its last value

  class Entry {
   public:
    explicit Entry(std::uint16_t word) : word_(word) {}
    unsigned total() const { return word_ & 31; }     // bits
    std::size_t ahead() const { return word_ >> 5; }  // places

   private:
    std::uint16_t word_;
  };

  void set(const HuffmanCodes& codes);
  Entry look(const ScanBits& in) const { return Entry(words_[in.peek(kLook)]); }

 private:
  static constexpr unsigned kNone = 1024;  // places ahead, for a code that is longer than a look
  static constexpr std::uint16_t word_of(unsigned total, unsigned ahead) {
    return static_cast<std::uint16_t>(total | ahead << 5);
  }

  std::array<std::uint16_t, std::size_t{1} << kLook> words_;
};

// Decodes the blocks of one image instead of the library. Ask after jpeg_start_decompress, with the data that the
// library reads.
class HuffmanScan {
 public:
  // Whether it can decode the image.
  bool take_over(j_decompress_ptr image, Bytes data);

  // The next blocks; `blocks` may be null, as in the library.
  boolean decode(j_decompress_ptr image, JBLOCKROW* blocks);

  // Passes over all blocks, after which the library goes on at the marker that follows. False if the library must look
  // at them, from the first one on.
  bool skip(j_decompress_ptr image, Bytes data);

 private:
  struct Values {
    HuffmanCodes codes;
    CoefficientTable coefficients;
    SkipTable skips;
    bool has_coefficients = false, has_skips = false;  // of these codes
  };
  struct Component {
    const HuffmanCodes* means;
    Values* values;
    int last = 0;  // mean of the last block
  };

  bool begin(const jpeg_decompress_struct& image, Bytes data);
  bool set_codes(const jpeg_decompress_struct& image);
  bool unstuff(Bytes rest);
  bool decode_blocks(const jpeg_decompress_struct& image, JBLOCKROW* blocks);
  bool skip_blocks(const jpeg_decompress_struct& image);
  void leave(j_decompress_ptr image) const;
  boolean give_back(j_decompress_ptr image, JBLOCKROW* blocks);

  boolean (*by_library_)(j_decompress_ptr, JBLOCKROW*) = nullptr;
  std::vector<std::uint8_t> bytes_;
  std::size_t stuffed_ = 0;  // bytes of the scan as they are in the file
  ScanBits bits_;
  std::array<Component, MAX_COMPS_IN_SCAN> components_;
  std::array<HuffmanCodes, NUM_HUFF_TBLS> means_;
  std::array<Values, NUM_HUFF_TBLS> values_;
  std::size_t done_ = 0, count_ = 0;  // groups of blocks
};

}  // namespace bushel

#endif
