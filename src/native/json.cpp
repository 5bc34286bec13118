#include "json.h"

#include <bit>
#include <charconv>
#include <limits>
#include <string_view>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include "letters.h"

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

  // A value as it is written: text with its quotes, or an integer.
  std::optional<std::string_view> written(bool is_text) {
    const std::uint8_t* begin = at_;
    std::int64_t integer_value = 0;
    if (is_text ? !skip_text() : !integer(integer_value)) return {};
    return std::string_view(reinterpret_cast<const char*>(begin), static_cast<std::size_t>(at_ - begin));
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

#if defined(__SSE2__)
  // Bytes that are not plain are all ones.
  static __m128i not_plain(__m128i sixteen) {
    const __m128i quotes = _mm_cmpeq_epi8(sixteen, _mm_set1_epi8('"'));
    const __m128i slashes = _mm_cmpeq_epi8(sixteen, _mm_set1_epi8('\\'));
    const __m128i control = _mm_cmpeq_epi8(_mm_min_epu8(sixteen, _mm_set1_epi8(0x1f)), sixteen);
    return _mm_or_si128(_mm_or_si128(quotes, slashes), control);
  }

  static __m128i load(const std::uint8_t* at) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(at)); }
#endif

  bool skip_text() {
    if (!take('"')) return false;
    while (true) {
      skip_plain();
      if (at_ == end_ || *at_ < 0x20) return false;
      if (*at_++ == '"') return true;
      std::uint8_t character[4];
      if (unescape(character) == nullptr) return false;
    }
  }

  void skip_plain() {
#if defined(__SSE2__)
    for (; end_ - at_ >= 64; at_ += 64) {
      const __m128i some = _mm_or_si128(not_plain(load(at_)), not_plain(load(at_ + 16)));
      const __m128i more = _mm_or_si128(not_plain(load(at_ + 32)), not_plain(load(at_ + 48)));
      if (_mm_movemask_epi8(_mm_or_si128(some, more)) != 0) break;
    }
    for (; end_ - at_ >= 16; at_ += 16) {
      const auto ends = static_cast<std::uint32_t>(_mm_movemask_epi8(not_plain(load(at_))));
      if (ends != 0) {
        at_ += std::countr_zero(ends);
        return;
      }
    }
#endif
    while (at_ < end_ && is_plain(*at_)) ++at_;
  }

  std::uint8_t* copy_plain(std::uint8_t* out) {
#if defined(__SSE2__)
    // `out` is never ahead of the text, so there is room for all sixteen where sixteen are left.
    while (end_ - at_ >= 16) {
      const __m128i sixteen = load(at_);
      _mm_storeu_si128(reinterpret_cast<__m128i*>(out), sixteen);
      const auto ends = static_cast<std::uint32_t>(_mm_movemask_epi8(not_plain(sixteen)));
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

// Takes the values of a column whole.
class Keeper {
 public:
  using Column = JsonColumn;

  explicit Keeper(std::size_t bytes) : bytes_(bytes) {}

  void begin(JsonColumn& column) const {
    if (!column.is_text) return;
    column.data = Buffer(bytes_);
    column.offsets.push_back(0);
  }

  static bool add(Reader& reader, JsonColumn& column, std::size_t) {
    if (!column.is_text) return reader.integer(column.integers.emplace_back());
    const std::uint8_t* end = reader.text(column.data.data() + column.offsets.back());
    if (end == nullptr) return false;
    column.offsets.push_back(static_cast<std::int32_t>(end - column.data.data()));
    return true;
  }

 private:
  std::size_t bytes_;
};

// Takes the values of a column as long as they are few.
class Summariser {
 public:
  using Column = JsonSummary;

  void begin(const JsonSummary&) { few_.emplace_back(); }

  bool add(Reader& reader, const JsonSummary& column, std::size_t place) {
    const std::optional<std::string_view> written = reader.written(column.is_text);
    if (written) few_[place].add(*written);
    return written.has_value();
  }

  void finish(std::vector<JsonSummary>& columns) {
    for (std::size_t place = 0; place < columns.size(); ++place) {
      columns[place].has_few = few_[place].holds();
      columns[place].codes = std::move(few_[place].codes());
      for (const std::string_view written : few_[place].values()) keep(written, columns[place]);
    }
  }

 private:
  static void keep(std::string_view written, JsonSummary& column) {
    if (!column.is_text) {
      std::from_chars(written.data(), written.data() + written.size(), column.integers.emplace_back());
      return;
    }
    std::string& text = column.texts.emplace_back(written.size(), '\0');
    auto* const begin = reinterpret_cast<std::uint8_t*>(text.data());
    const std::uint8_t* end =
        Reader({reinterpret_cast<const std::uint8_t*>(written.data()), written.size()}).text(begin);
    text.resize(static_cast<std::size_t>(end - begin));
  }

  std::vector<Few> few_;
};

// The first object makes the columns, the others must have them.
template <typename Taker>
class Table {
 public:
  using Column = typename Taker::Column;

  explicit Table(Taker given) : taker(std::move(given)) {}

  // Returns whether all of the text was such objects, one per line.
  bool add_lines(Reader reader) {
    while (true) {
      reader.skip_blanks();
      if (reader.is_at_end()) return true;
      if (!reader.is_at('\n')) {
        if (!add_object(reader)) return false;
        reader.skip_blanks();
        if (reader.is_at_end()) return true;
      }
      if (!reader.take('\n')) return false;
      ++newlines;
    }
  }

  Taker taker;
  std::vector<Column> columns;
  std::size_t rows = 0;
  std::size_t newlines = 0;

 private:
  bool add_object(Reader& reader) {
    if (!reader.take('{')) return false;
    reader.skip_blanks();
    for (std::size_t place = 0;; ++place) {
      const std::optional<std::string_view> name = reader.plain_text();
      if (!name) return false;
      reader.skip_blanks();
      if (!reader.take(':')) return false;
      reader.skip_blanks();
      Column* column = column_at(place, *name, reader.is_at('"'));
      if (column == nullptr || !taker.add(reader, *column, place)) return false;
      reader.skip_blanks();
      if (reader.take('}')) return ++rows, place + 1 == columns.size();
      if (!reader.take(',')) return false;
      reader.skip_blanks();
    }
  }

  Column* column_at(std::size_t place, std::string_view name, bool is_text) {
    if (place < columns.size()) {
      Column& column = columns[place];
      return column.name == name && column.is_text == is_text ? &column : nullptr;
    }
    if (rows > 0 || place == kMostColumns) return nullptr;
    for (const Column& column : columns)
      if (column.name == name) return nullptr;
    Column& column = columns.emplace_back();
    column.name = name;
    column.is_text = is_text;
    taker.begin(column);
    return &column;
  }
};

}  // namespace

std::optional<JsonRows> parse_flat_lines(Bytes text) {
  if (text.size() >= std::numeric_limits<std::int32_t>::max()) return {};
  Table table{Keeper(text.size())};
  if (!table.add_lines(Reader(text))) return {};
  return JsonRows{std::move(table.columns), table.rows};
}

std::optional<JsonSummaries> survey_flat_lines(Bytes text) {
  if (text.size() >= std::numeric_limits<std::int32_t>::max()) return {};
  Table table{Summariser()};
  if (!table.add_lines(Reader(text))) return {};
  table.taker.finish(table.columns);
  return JsonSummaries{std::move(table.columns), table.rows, table.newlines};
}

std::optional<JsonSpan> survey_flat_span(const Span& span) {
  Table table{Summariser()};
  const auto cut = [](Bytes text) {
    std::size_t end = text.size();
    while (end > 0 && text[end - 1] != '\n') --end;
    return std::optional(end);
  };
  const auto look = [&](Bytes lines) -> std::optional<SpanBlock> {
    const std::size_t rows = table.rows, newlines = table.newlines;
    if (!is_utf8(lines) || !table.add_lines(Reader(lines)) || table.rows == rows) return {};
    return SpanBlock{0, table.rows - rows, table.newlines - newlines};
  };
  auto blocks = survey_blocks(span, cut, look);
  if (!blocks) return {};
  table.taker.finish(table.columns);
  return JsonSpan{{std::move(table.columns), table.rows, table.newlines}, std::move(*blocks)};
}

}  // namespace bushel
