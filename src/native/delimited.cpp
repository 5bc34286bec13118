#include "delimited.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "few.h"
#include "letters.h"

namespace bushel {

namespace {

using Kind = DelimitedSummary::Kind;
using std::string_view;

// What one value may be.
constexpr std::uint8_t kNothing = 1, kInteger = 2, kReal = 4, kWord = 8, kUnsure = 16, kBlank = 32;

constexpr std::ptrdiff_t kMostDigits = 18;  // any such number fits 64 bits
constexpr std::ptrdiff_t kMostDecimals = 32;
constexpr string_view kNoNumber[] = {"NA", "N/A", "n/a", "#N/A", "NULL", "null", "None", "NaN", "nan", "-nan", "<NA>"};

bool is_digit(char letter) { return letter >= '0' && letter <= '9'; }
bool is_blank(char letter) { return letter == ' ' || letter == '\t'; }

std::uint8_t nothing_or(std::uint8_t otherwise, string_view value) {
  return std::find(std::begin(kNoNumber), std::end(kNoNumber), value) == std::end(kNoNumber) ? otherwise : kNothing;
}

std::ptrdiff_t count_digits(string_view value, std::size_t at) {
  std::size_t end = at;
  while (end < value.size() && is_digit(value[end])) ++end;
  return static_cast<std::ptrdiff_t>(end - at);
}

std::uint8_t kind_of_number(string_view value) {
  const bool is_negative = value[0] == '-';
  std::size_t at = is_negative ? 1 : 0;
  const std::ptrdiff_t digits = count_digits(value, at);
  if (digits == 0) return nothing_or(kUnsure, value);
  const bool has_zero = value[at] == '0';
  if (digits > kMostDigits || (has_zero && digits > 1)) return kUnsure;
  at += static_cast<std::size_t>(digits);
  if (at == value.size()) return has_zero && is_negative ? kUnsure : kInteger;
  if (value[at] == '.') {
    const std::ptrdiff_t decimals = count_digits(value, ++at);
    if (decimals == 0 || decimals > kMostDecimals) return kUnsure;
    at += static_cast<std::size_t>(decimals);
    if (at == value.size()) return kReal;
  }
  if (value[at] != 'e' && value[at] != 'E') return kUnsure;
  ++at;
  const bool is_small = at < value.size() && value[at] == '-';
  if (is_small || (at < value.size() && value[at] == '+')) ++at;
  const std::ptrdiff_t places = count_digits(value, at);
  if (places == 0 || places > 2 || at + static_cast<std::size_t>(places) != value.size()) return kUnsure;
  std::ptrdiff_t exponent = 0;
  for (; at < value.size(); ++at) exponent = exponent * 10 + (value[at] - '0');
  return is_small || digits + exponent <= kMostDigits ? kReal : kUnsure;
}

bool is_same_letters(string_view value, string_view small) {
  return value.size() == small.size() && std::equal(value.begin(), value.end(), small.begin(),
                                                    [](char one, char other) { return (one | 0x20) == other; });
}

std::uint8_t kind_of_letters(string_view value) {
  const char first = static_cast<char>(value[0] | 0x20);
  if (first != 't' && first != 'f' && first != 'i' && first != 'n') return kWord;
  if (nothing_or(kWord, value) == kNothing) return kNothing;
  while (!value.empty() && (is_blank(value.back()) || value.back() == '\r' || value.back() == '\n'))
    value.remove_suffix(1);
  for (const string_view other : {"true", "false", "inf", "infinity", "nan"})
    if (is_same_letters(value, other)) return kUnsure;
  return is_same_letters(value.substr(0, 4), "nan(") ? kUnsure : kWord;
}

std::uint8_t kind_of(string_view value) {
  if (value.empty()) return kNothing | kBlank;
  const auto first = static_cast<unsigned char>(value[0]);
  if (is_digit(value[0]) || first == '-') return kind_of_number(value);
  if ((first >= 'A' && first <= 'Z') || (first >= 'a' && first <= 'z')) return kind_of_letters(value);
  if (first == '#' || first == '<') return nothing_or(kUnsure, value);
  if (is_blank(value[0])) return std::all_of(value.begin(), value.end(), is_blank) ? kUnsure | kBlank : kUnsure;
  // Signs of money and blanks of numbers begin with 0xc2 and 0xe2; other letters make a word.
  return first >= 0xc3 && first != 0xe2 ? kWord : kUnsure;
}

// A value as a parser would have it: quotes in quotes are doubled.
std::string unquoted(string_view written) {
  std::string text;
  const bool is_quoted = !written.empty() && written[0] == '"';
  if (is_quoted) written = written.substr(1, written.size() - 2);
  for (std::size_t i = 0; i < written.size(); ++i) {
    text += written[i];
    if (is_quoted && written[i] == '"') ++i;
  }
  return text;
}

std::string without_blanks(std::string text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

class Column {
 public:
  void add(string_view written, std::uint8_t kind) {
    seen_ |= kind;
    few_.add(written);
  }

  // Ends a block; returns whether it is certain what the column held in it, and whether that is the same as before.
  bool end_block(bool is_text) {
    Kind kind = Kind::text;
    bool has_missing = (seen_ & kBlank) != 0;
    if ((seen_ & kWord) == 0) {
      if (is_text || (seen_ & kUnsure) != 0) return false;
      kind = (seen_ & kReal) != 0 ? Kind::real : (seen_ & kInteger) != 0 ? Kind::integer : Kind::missing;
      has_missing = (seen_ & kNothing) != 0;
    }
    const bool is_same = !has_ended_ || kind == kind_;
    kind_ = kind;
    has_missing_ = has_missing_ || has_missing;
    has_ended_ = true;
    seen_ = 0;
    return is_same;
  }

  DelimitedSummary finish() {
    DelimitedSummary out;
    out.kind = kind_;
    out.has_missing = has_missing_;
    out.has_few = few_.holds() && (kind_ == Kind::text || kind_ == Kind::integer);
    if (out.has_few) keep(out);
    return out;
  }

 private:
  void keep(DelimitedSummary& out) {
    std::vector<std::int8_t> places;
    for (const string_view written : few_.values())
      places.push_back(out.kind == Kind::text ? place_of(without_blanks(unquoted(written)), out)
                                              : number(written, out));
    out.codes = std::move(few_.codes());
    for (std::int8_t& code : out.codes) code = places[static_cast<std::size_t>(code)];
  }

  static std::int8_t place_of(std::string text, DelimitedSummary& out) {
    if (text.empty()) return -1;
    return place_in(out.texts, std::move(text));
  }

  static std::int8_t number(string_view written, DelimitedSummary& out) {
    const std::string text = unquoted(written);
    if ((kind_of(text) & kNothing) != 0) return -1;
    std::int64_t value = 0;
    std::from_chars(text.data(), text.data() + text.size(), value);
    return place_in(out.integers, value);
  }

  template <typename Value>
  static std::int8_t place_in(std::vector<Value>& values, Value value) {
    const auto found = std::find(values.begin(), values.end(), value);
    const auto place = found - values.begin();
    if (found == values.end()) values.push_back(std::move(value));
    return static_cast<std::int8_t>(place);
  }

  std::uint8_t seen_ = 0;  // in this block
  Kind kind_ = Kind::missing;
  bool has_missing_ = false;
  bool has_ended_ = false;
  Few few_;
};

class Reader {
 public:
  Reader(Bytes text, char delimiter)
      : at_(reinterpret_cast<const char*>(text.data())), end_(at_ + text.size()), delimiter_(delimiter) {
    for (const char mark : {delimiter, '\n', '\r', '"'}) is_mark_[static_cast<unsigned char>(mark)] = true;
    if (string_view(at_, text.size()).starts_with("\xef\xbb\xbf")) at_ += 3;  // a byte order mark, which parsers skip
  }

  bool is_at_end() const { return at_ == end_; }

  // The end of a line, if it is here.
  bool take_line_end() {
    if (at_ != end_ && *at_ == '\n') {
      ++at_;
    } else if (end_ - at_ >= 2 && at_[0] == '\r' && at_[1] == '\n') {
      at_ += 2;
    } else {
      return false;
    }
    ++newlines_;
    return true;
  }

  bool take_delimiter() {
    if (at_ == end_ || *at_ != delimiter_) return false;
    ++at_;
    return true;
  }

  // Adds the value that begins here to a column; false if it is quoted in an unusual way.
  bool add_value(Column& column) {
    const char* begin = at_;
    if (at_ != end_ && *at_ == '"') {
      if (!skip_quoted()) return false;
      column.add({begin, at_}, kind_of({begin + 1, at_ - 1}));
      return true;
    }
    std::uint8_t kind = skip_number();
    if (kind == kUnsure) {
      at_ = begin;
      while (at_ != end_ && !is_mark()) ++at_;
      if (at_ != end_ && *at_ == '"') return false;
      kind = kind_of({begin, at_});
    }
    column.add({begin, at_}, kind);
    return true;
  }

  std::size_t newlines() const { return newlines_; }

 private:
  bool is_mark() const { return is_mark_[static_cast<unsigned char>(*at_)]; }

  // Passes over most numbers, and says of what kind they are; unsure of anything else.
  std::uint8_t skip_number() {
    if (at_ != end_ && *at_ == '-') ++at_;
    const char* begin = at_;
    while (at_ != end_ && is_digit(*at_)) ++at_;
    const auto digits = at_ - begin;
    if (digits == 0 || digits > kMostDigits || *begin == '0') {
      // A zero before the point is plain, and others may be.
      if (digits != 1 || at_ == end_ || *at_ != '.') return kUnsure;
    }
    std::uint8_t kind = kInteger;
    if (at_ != end_ && *at_ == '.') {
      begin = ++at_;
      while (at_ != end_ && is_digit(*at_)) ++at_;
      if (at_ == begin || at_ - begin > kMostDecimals) return kUnsure;
      kind = kReal;
    }
    return at_ == end_ || (is_mark() && *at_ != '"') ? kind : kUnsure;
  }

  bool skip_quoted() {
    const char* begin = at_++;
    while (true) {
      at_ = std::find(at_, end_, '"');
      if (at_ == end_) return false;
      ++at_;
      if (at_ == end_ || *at_ != '"') break;
      ++at_;  // doubled
    }
    newlines_ += static_cast<std::size_t>(std::count(begin, at_, '\n'));
    return true;
  }

  const char* at_;
  const char* end_;
  char delimiter_;
  std::array<bool, 256> is_mark_{};  // what may end a value, and quotes
  std::size_t newlines_ = 0;
};

class Table {
 public:
  Table(char delimiter, const std::vector<bool>& is_text)
      : delimiter_(delimiter), is_text_(is_text), columns_(is_text.size()) {}

  // Returns whether it is certain what the rows hold.
  bool add_block(Bytes text) {
    if (columns_.size() < 2) return false;
    Reader reader(text, delimiter_);
    while (!reader.is_at_end()) {
      if (reader.take_line_end()) continue;  // an empty line
      for (std::size_t place = 0; place < columns_.size(); ++place) {
        if (place > 0 && !reader.take_delimiter()) return false;
        if (!reader.add_value(columns_[place])) return false;
      }
      if (!reader.take_line_end() && !reader.is_at_end()) return false;
      ++rows;
    }
    newlines += reader.newlines();
    for (std::size_t place = 0; place < columns_.size(); ++place)
      if (!columns_[place].end_block(is_text_[place])) return false;
    return true;
  }

  DelimitedSummaries finish() {
    DelimitedSummaries out{{}, rows, newlines};
    for (Column& column : columns_) out.columns.push_back(column.finish());
    return out;
  }

  std::size_t rows = 0;
  std::size_t newlines = 0;

 private:
  char delimiter_;
  const std::vector<bool>& is_text_;
  std::vector<Column> columns_;
};

}  // namespace

std::optional<DelimitedSummaries> survey_rows(Bytes text, char delimiter, const std::vector<bool>& is_text) {
  Table table(delimiter, is_text);
  if (!table.add_block(text)) return {};
  return table.finish();
}

std::optional<DelimitedSpan> survey_row_span(const Span& span, char delimiter, const std::vector<bool>& is_text) {
  Table table(delimiter, is_text);
  const auto cut = [](Bytes text) {
    const LastLine last = find_last_line(text);
    return last.quotes % 2 == 0 ? std::optional(last.end) : std::nullopt;
  };
  const auto look = [&](Bytes rows) -> std::optional<SpanBlock> {
    const std::size_t before = table.rows, newlines = table.newlines;
    if (!is_utf8(rows) || !table.add_block(rows) || table.rows == before) return {};
    return SpanBlock{0, table.rows - before, table.newlines - newlines};
  };
  auto blocks = survey_blocks(span, cut, look);
  if (!blocks) return {};
  return DelimitedSpan{table.finish(), std::move(*blocks)};
}

LastLine find_last_line(Bytes text) {
  LastLine found;
  found.end = text.size();
  while (found.end > 0 && text[found.end - 1] != '\n') --found.end;
  // In steps whose counts fit a byte, so that compilers count many bytes at a time.
  for (std::size_t at = 0; at < found.end;) {
    const std::size_t stop = std::min(found.end, at + 255);
    std::uint8_t quotes = 0;
    for (; at < stop; ++at) quotes = static_cast<std::uint8_t>(quotes + (text[at] == '"'));
    found.quotes += quotes;
  }
  return found;
}

}  // namespace bushel
