#include "tokens.h"

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace bushel {

namespace {

#if defined(__SSE2__)

// 0xff for each byte between `first` and `last`.
__m128i between(__m128i bytes, char first, char last) {
  const __m128i moved = _mm_sub_epi8(bytes, _mm_set1_epi8(first));
  return _mm_cmpeq_epi8(_mm_min_epu8(moved, _mm_set1_epi8(static_cast<char>(last - first))), moved);
}

struct AsciiWords {
  static __m128i inside(__m128i bytes) {
    const __m128i letters = between(_mm_or_si128(bytes, _mm_set1_epi8(0x20)), 'a', 'z');
    const __m128i underscores = _mm_cmpeq_epi8(bytes, _mm_set1_epi8('_'));
    return _mm_or_si128(_mm_or_si128(letters, underscores), between(bytes, '0', '9'));
  }
};

struct AsciiNoSpaces {
  static __m128i inside(__m128i bytes) {
    const __m128i spaces = _mm_or_si128(between(bytes, 9, 13), between(bytes, 28, 32));
    return _mm_andnot_si128(spaces, _mm_set1_epi8(-1));
  }
};

template <typename Ascii>
Bits look_at(const std::uint8_t* bytes, std::size_t size) {
  std::uint8_t padded[64];
  if (size < 64) {
    std::memset(padded, 0, sizeof padded);
    std::memcpy(padded, bytes, size);
    bytes = padded;
  }
  Bits found{0, 0};
  for (int part = 0; part < 4; ++part) {
    const __m128i sixteen = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes) + part);
    const auto bits = [&](__m128i mask) {
      return static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm_movemask_epi8(mask))) << 16 * part;
    };
    found.others |= bits(sixteen);
    found.inside |= bits(Ascii::inside(sixteen));
  }
  const std::uint64_t there = bits_of(0, size);
  return {found.inside & ~found.others & there, found.others & there};
}

#else

constexpr std::array<std::uint8_t, 256> table_of(bool (*is_inside)(int)) {
  std::array<std::uint8_t, 256> kinds{};
  for (int byte = 0; byte < 256; ++byte) kinds[static_cast<std::size_t>(byte)] = byte >= 0x80 ? 2 : is_inside(byte);
  return kinds;
}

constexpr bool is_ascii_word(int byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || byte == '_';
}

constexpr bool is_ascii_no_space(int byte) { return !(byte >= 9 && byte <= 13) && !(byte >= 28 && byte <= 32); }

struct AsciiWords {
  static constexpr std::array<std::uint8_t, 256> kinds = table_of(is_ascii_word);
};

struct AsciiNoSpaces {
  static constexpr std::array<std::uint8_t, 256> kinds = table_of(is_ascii_no_space);
};

template <typename Ascii>
Bits look_at(const std::uint8_t* bytes, std::size_t size) {
  Bits found{0, 0};
  for (std::size_t i = 0; i < size; ++i) {
    const std::uint64_t kind = Ascii::kinds[bytes[i]];
    found.inside |= (kind & 1) << i;
    found.others |= (kind >> 1) << i;
  }
  return found;
}

#endif

}  // namespace

Bits Words::look(const std::uint8_t* bytes, std::size_t size) { return look_at<AsciiWords>(bytes, size); }
Bits NoSpaces::look(const std::uint8_t* bytes, std::size_t size) { return look_at<AsciiNoSpaces>(bytes, size); }

bool Texts::is_valid() const {
  if (offsets.empty() || offsets.front() < 0 || static_cast<std::uint64_t>(offsets.back()) > data.size()) return false;
  return std::is_sorted(offsets.begin(), offsets.end());
}

std::size_t first_not_utf8(const Texts& texts) {
  for (std::size_t i = 0; i < texts.count(); ++i)
    if (!is_utf8(texts.row(i))) return i;
  return texts.count();
}

Vocabulary::Vocabulary(const Texts& tokens)
    : data_(tokens.data.begin(), tokens.data.end()),
      offsets_(tokens.offsets.begin(), tokens.offsets.end()),
      slots_(tokens.count()) {
  known_.reserve(tokens.count());
  for (std::size_t i = 0; i < tokens.count(); ++i) {
    const Bytes one = token(i);
    const Head head = head_of(one, data_.data() + data_.size());
    const std::uint64_t hash = hash_token(one, head);
    known_.push_back({head, static_cast<std::size_t>(offsets_[i]), one.size()});
    const std::int64_t slot = slots_.find(hash, [&](std::size_t place) { return is_same(known_[place], one, head); });
    if (slot < 0) slots_.put(slot, hash, i);
  }
}

std::int64_t Vocabulary::find(const Sought& wanted) const {
  const std::int64_t place =
      slots_.find(wanted.hash, [&](std::size_t at) { return is_same(known_[at], wanted.token, wanted.head); });
  return place < 0 ? kUnknown : place + kReserved;
}

Tokenised tokenise(const Texts& texts, Unit unit, const Vocabulary* vocabulary, std::size_t length) {
  const std::size_t rows = texts.count();
  const bool is_ragged = length == kAnyLength;
  const std::uint8_t* limit = texts.data.data() + texts.data.size();
  Tokenised out;
  std::vector<std::int64_t> found;
  if (is_ragged) {
    out.splits = Buffer((rows + 1) * sizeof(std::int64_t));
    out.splits.as<std::int64_t>()[0] = 0;
  } else {
    out.ids = Buffer(rows * length * sizeof(std::int64_t));
    std::fill_n(out.ids.as<std::int64_t>(), rows * length, kPad);
  }
  std::vector<Sought> tokens;
  for (std::size_t i = 0; i < rows; ++i) {
    std::size_t count = 0;
    tokens.clear();
    for_each_token(texts.row(i), unit, [&](Bytes token) {
      if (count++ >= length) return;
      tokens.push_back(sought(token, limit));
      if (vocabulary) vocabulary->prefetch(tokens.back().hash);
    });
    if (vocabulary)
      for (const Sought& token : tokens) vocabulary->prefetch_guess(token.hash);
    std::int64_t* row = is_ragged ? nullptr : out.ids.as<std::int64_t>() + i * length;
    for (const Sought& token : tokens) {
      const std::int64_t id = unit == Unit::byte ? token.token[0] + kReserved
                              : vocabulary       ? vocabulary->find(token)
                                                 : kUnknown;
      out.unknown += id == kUnknown;
      if (is_ragged)
        found.push_back(id);
      else
        *row++ = id;
    }
    out.tokens += std::min(count, length);
    if (count > length) {
      ++out.cut_rows;
      out.cut_tokens += count - length;
    }
    if (is_ragged) out.splits.as<std::int64_t>()[i + 1] = static_cast<std::int64_t>(found.size());
  }
  if (is_ragged) {
    out.ids = Buffer(found.size() * sizeof(std::int64_t));
    if (!found.empty()) std::memcpy(out.ids.data(), found.data(), out.ids.size());
  }
  return out;
}

Lowered lower_ascii(const Texts& texts) {
  Lowered out{Buffer(texts.data.size()), Buffer(texts.count())};
  const std::uint8_t* __restrict from = texts.data.data();
  std::uint8_t* __restrict to = out.data.data();
  const std::size_t size = texts.data.size();
  for (std::size_t i = 0; i < size; ++i) {
    const bool is_large = static_cast<std::uint8_t>(from[i] - 'A') < 26;
    to[i] = static_cast<std::uint8_t>(from[i] + is_large * ('a' - 'A'));
  }
  for (std::size_t row = 0; row < texts.count(); ++row) {
    std::uint8_t bits = 0;
    const auto end = static_cast<std::size_t>(texts.offsets[row + 1]);
    for (auto i = static_cast<std::size_t>(texts.offsets[row]); i < end; ++i) bits |= from[i];
    out.others.data()[row] = bits >> 7;
  }
  return out;
}

}  // namespace bushel
