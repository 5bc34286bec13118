#include "json.h"

#include <bit>
#include <limits>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace bushel {

namespace {

constexpr std::size_t kMostColumns = 16;  // each takes memory for all of the text
constexpr int kMostDigits = 18;           // any such number fits 64 bits

// A cursor over the text. Every step returns whether it found what it expected.
class Reader {
 public:
  explicit Reader(Bytes text) : at_(text.data()), end_(text.data() + text.size()) {}

  bool is_at_end() const { return at_ == end_; }

  void skip_blanks() {
    while (at_ < end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }

  bool take(char wanted) {
    if (at_ == end_ || *at_ != static_cast<std::uint8_t>(wanted)) return false;
    ++at_;
    return true;
  }

  // Text between quotes, without escapes.
  std::optional<std::string_view> plain_text() {
    if (!take('"')) return {};
    const std::uint8_t* begin = at_;
    while (at_ < end_ && *at_ != '"') {
      if (*at_ == '\\' || *at_ < 0x20) return {};
      ++at_;
    }
    const std::string_view found(reinterpret_cast<const char*>(begin), static_cast<std::size_t>(at_ - begin));
    return take('"') ? std::optional(found) : std::nullopt;
  }

  // Text between quotes, written to `out`, which has room for all remaining text; returns its new end.
  std::uint8_t* text(std::uint8_t* out) {
    if (!take('"')) return nullptr;
    while (true) {
      out = copy_plain(out);
      if (at_ == end_ || *at_ < 0x20) return nullptr;
      if (*at_++ == '"') return out;
      if ((out = unescape(out)) == nullptr) return nullptr;
    }
  }

  bool integer(std::int64_t& value) {
    const bool is_negative = take('-');
    const std::uint8_t* begin = at_;
    value = 0;
    while (at_ < end_ && *at_ >= '0' && *at_ <= '9' && at_ - begin < kMostDigits) value = value * 10 + (*at_++ - '0');
    const auto digits = at_ - begin;  // if more follow, the next is not what may end a number
    if (digits == 0 || (*begin == '0' && (digits > 1 || is_negative))) return false;
    if (is_negative) value = -value;
    return at_ < end_ && (*at_ == ',' || *at_ == '}' || *at_ == ' ' || *at_ == '\t' || *at_ == '\r');
  }

  bool is_at(char wanted) const { return at_ < end_ && *at_ == static_cast<std::uint8_t>(wanted); }

 private:
  static bool is_plain(std::uint8_t byte) { return byte != '"' && byte != '\\' && byte >= 0x20; }

  std::uint8_t* copy_plain(std::uint8_t* out) {
#if defined(__SSE2__)
    // `out` is never ahead of the text, so there is room for all sixteen where sixteen are left.
    while (end_ - at_ >= 16) {
      const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at_));
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), sixteen);
      const __m128i quotes = _mm_cmpeq_epi8(sixteen, _mm_set1_epi8('"'));
      const __m128i slashes = _mm_cmpeq_epi8(sixteen, _mm_set1_epi8('\\'));
      const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(sixteen, _mm_set1_epi8(0x1f)), sixteen);
      const auto ends =
          static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_or_si128(_mm_or_si128(quotes, slashes), control)));
      const int plain = ends == 0 ? 16 : std::countr_zero(ends);
      at_ += plain;
      out += plain;
      if (ends != 0) return out;
    }
#endif
    while (at_ < end_ && is_plain(*at_)) *out++ = *at_++;
    return out;
  }

  std::uint8_t* unescape(std::uint8_t* out) {
    if (at_ == end_) return nullptr;
    constexpr std::string_view kLetters = "\"\\/bfnrt", kMeant = "\"\\/\b\f\n\r\t";
    const char letter = static_cast<char>(*at_++);
    if (letter == 'u') return unescape_code(out);
    const std::size_t place = kLetters.find(letter);
    if (place == std::string_view::npos) return nullptr;
    *out++ = static_cast<std::uint8_t>(kMeant[place]);
    return out;
  }

  std::uint8_t* unescape_code(std::uint8_t* out) {
    std::uint32_t code = 0, low = 0;
    if (!four_digits(code)) return nullptr;
    if (code >= 0xd800 && code < 0xe000) {  // half of a surrogate pair: the other half must follow
      if (code >= 0xdc00 || !take('\\') || !take('u') || !four_digits(low) || low < 0xdc00 || low >= 0xe000)
        return nullptr;
      code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    }
    const auto put = [&](std::uint32_t byte) { *out++ = static_cast<std::uint8_t>(byte); };
    const auto put_rest = [&](int shift) { put(0x80 | (code >> shift & 0x3f)); };
    if (code < 0x80) {
      put(code);
    } else if (code < 0x800) {
      put(0xc0 | code >> 6);
      put_rest(0);
    } else if (code < 0x10000) {
      put(0xe0 | code >> 12);
      put_rest(6);
      put_rest(0);
    } else {
      put(0xf0 | code >> 18);
      put_rest(12);
      put_rest(6);
      put_rest(0);
    }
    return out;
  }

  bool four_digits(std::uint32_t& code) {
    if (end_ - at_ < 4) return false;
    for (int i = 0; i < 4; ++i) {
      const std::uint8_t digit = *at_++;
      const std::uint8_t small = digit | 0x20;
      if (digit >= '0' && digit <= '9')
        code = code << 4 | static_cast<std::uint32_t>(digit - '0');
      else if (small >= 'a' && small <= 'f')
        code = code << 4 | static_cast<std::uint32_t>(small - 'a' + 10);
      else
        return false;
    }
    return true;
  }

  const std::uint8_t* at_;
  const std::uint8_t* end_;
};

// The first object makes the columns, the others must have them.
class Table {
 public:
  explicit Table(std::size_t bytes) : bytes_(bytes) {}

  bool add_object(Reader& reader) {
    if (!reader.take('{')) return false;
    reader.skip_blanks();
    for (std::size_t place = 0;; ++place) {
      const std::optional<std::string_view> name = reader.plain_text();
      if (!name) return false;
      reader.skip_blanks();
      if (!reader.take(':')) return false;
      reader.skip_blanks();
      JsonColumn* column = column_at(place, *name, reader.is_at('"'));
      if (column == nullptr || !add_value(reader, *column)) return false;
      reader.skip_blanks();
      if (reader.take('}')) return ++out_.rows, place + 1 == out_.columns.size();
      if (!reader.take(',')) return false;
      reader.skip_blanks();
    }
  }

  JsonRows finish() { return std::move(out_); }

 private:
  JsonColumn* column_at(std::size_t place, std::string_view name, bool is_text) {
    if (place < out_.columns.size()) {
      JsonColumn& column = out_.columns[place];
      return column.name == name && column.is_text == is_text ? &column : nullptr;
    }
    if (out_.rows > 0 || place == kMostColumns) return nullptr;
    for (const JsonColumn& column : out_.columns)
      if (column.name == name) return nullptr;
    JsonColumn& column = out_.columns.emplace_back();
    column.name = name;
    column.is_text = is_text;
    if (is_text) {
      column.data = Buffer(bytes_);
      column.offsets.push_back(0);
    }
    return &column;
  }

  static bool add_value(Reader& reader, JsonColumn& column) {
    if (!column.is_text) return reader.integer(column.integers.emplace_back());
    const std::uint8_t* end = reader.text(column.data.data() + column.offsets.back());
    if (end == nullptr) return false;
    column.offsets.push_back(static_cast<std::int32_t>(end - column.data.data()));
    return true;
  }

  std::size_t bytes_;
  JsonRows out_;
};

}  // namespace

std::optional<JsonRows> parse_flat_lines(Bytes text) {
  if (text.size() >= std::numeric_limits<std::int32_t>::max()) return {};
  Reader reader(text);
  Table table(text.size());
  while (true) {
    reader.skip_blanks();
    if (reader.is_at_end()) return table.finish();
    if (reader.take('\n')) continue;
    if (!table.add_object(reader)) return {};
    reader.skip_blanks();
    if (!reader.is_at_end() && !reader.take('\n')) return {};
  }
}

}  // namespace bushel
