// Huffman decoding of ordinary JPEGs: the coefficients that libjpeg-turbo finds, in less time.
//
// The library looks at its source byte by byte, and takes one look for a code and another for its value. Here a scan is
// freed of its stuffing first, and one look gives up to two coefficients. Whatever is not plainly right is left to the
// library, which starts again at the first block, so that its errors and its way with odd files stay.
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
  static constexpr std::size_t kMargin = 16;  // bytes after the end that may be read

  void set(const std::uint8_t* data, std::size_t size) {
    next_ = data;
    end_ = data + size;
    bits_ = 0;
    count_ = 0;
  }

  // Bits that may be read before it is filled again.
  unsigned count() const { return count_; }
  // 56 bits or more are there afterwards. False if more was read than there is.
  bool fill() {
    if (next_ > end_ + 8) return false;
    std::uint64_t word;
    std::memcpy(&word, next_, sizeof word);
    bits_ |= __builtin_bswap64(word) >> count_;
    next_ += (63 - count_) >> 3;
    count_ |= 56;
    return true;
  }
  std::uint64_t peek(unsigned count) const { return bits_ >> (64 - count); }
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

// What a code stands for: a value of `size` bits after a run of zeros.
struct HuffmanSymbol {
  unsigned length = 0;  // of the code; 0 if it is none
  unsigned run = 0, size = 0;
};

class HuffmanCodes {
 public:
  // False if the codes cannot be.
  bool set(const JHUFF_TBL& table);
  bool is(const JHUFF_TBL& table) const;
  // The first code of 16 bits.
  HuffmanSymbol find(std::uint32_t bits) const {
    const Short code = short_[bits >> (16 - kShort)];
    if (code.length == 0) return find_long(bits);
    return {code.length, static_cast<unsigned>(code.symbol >> 4), code.symbol & 15U};
  }

 private:
  static constexpr unsigned kShort = 9;  // bits
  struct Short {
    std::uint8_t length, symbol;
  };

  HuffmanSymbol find_long(std::uint32_t bits) const;

  std::array<Short, std::size_t{1} << kShort> short_;
  std::array<std::int32_t, 17> end_{}, first_{};  // by length: one more than the last code; its symbols' place
  std::array<std::uint8_t, 17> counts_{};
  std::array<std::uint8_t, 256> symbols_{};
};

// One or two coefficients by the bits that they begin with.
class CoefficientTable {
 public:
  static constexpr unsigned kLook = 11;  // bits: with one more, the tables leave no room in the fastest cache

  // One word: looks follow each other, and each has to wait for the one before.
  class Entry {
   public:
    Entry() = default;
    Entry(unsigned total, unsigned run, int value) : word_(total | run << 8 | word_of(value) << 16) {}

    void add(unsigned total, unsigned run, int value) {
      word_ = (word_ & ~std::uint64_t{63}) | total | 1U << 6 | word_of(value) << 32 | std::uint64_t{run} << 48;
    }

    bool is_none() const { return word_ == 0; }       // zeros alone, or more bits than a look has
    unsigned total() const { return word_ & 63; }     // bits of all
    unsigned more() const { return word_ >> 6 & 1; }  // values after the first
    std::size_t run() const { return word_ >> 8 & 255; }
    std::size_t next_run() const { return word_ >> 48 & 255; }
    JCOEF value() const { return static_cast<JCOEF>(word_ >> 16); }
    JCOEF next_value() const { return static_cast<JCOEF>(word_ >> 32); }

   private:
    static std::uint64_t word_of(int value) { return static_cast<std::uint16_t>(value); }
    std::uint64_t word_ = 0;
  };
  static constexpr unsigned kEnd = 128;  // run after which a block ends

  void set(const HuffmanCodes& codes);
  Entry look(const ScanBits& in) const { return entries_[in.peek(kLook)]; }

 private:
  std::array<Entry, std::size_t{1} << kLook> entries_;
};

// Decodes the blocks of one image instead of the library.
class HuffmanScan {
 public:
  // Whether it can decode the image; ask after jpeg_start_decompress, with the data that the library reads.
  bool take_over(j_decompress_ptr image, Bytes data);

  // The next blocks; `blocks` may be null, as in the library.
  boolean decode(j_decompress_ptr image, JBLOCKROW* blocks);

 private:
  struct Component {
    const HuffmanCodes *dc, *ac;
    const CoefficientTable* coefficients;
    int last = 0;  // value of the last block's mean
  };

  bool set_tables(const jpeg_decompress_struct& image);
  bool unstuff(Bytes rest);
  bool decode_blocks(const jpeg_decompress_struct& image, JBLOCKROW* blocks);
  static bool decode_mean(Component& component, ScanBits& in, JCOEF* block);
  static bool decode_rest(const Component& component, ScanBits& in, JCOEF* block);
  boolean give_back(j_decompress_ptr image, JBLOCKROW* blocks);

  boolean (*by_library_)(j_decompress_ptr, JBLOCKROW*) = nullptr;
  std::vector<std::uint8_t> bytes_;
  std::size_t stuffed_ = 0;  // bytes of the scan as they are in the file
  ScanBits bits_;
  std::array<Component, MAX_COMPS_IN_SCAN> components_;
  std::array<HuffmanCodes, NUM_HUFF_TBLS> dc_, ac_;
  std::array<CoefficientTable, NUM_HUFF_TBLS> coefficients_;
  std::size_t done_ = 0, count_ = 0;  // groups of blocks
};

}  // namespace bushel

#endif
