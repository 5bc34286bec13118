#include "tokens.h"

#include <bit>

#include "hash.h"

namespace bushel {

namespace {

constexpr bool is_ascii_word(int byte) {
  return (byte >= '0' && byte <= '9') || (byte >= 'A' && byte <= 'Z') || (byte >= 'a' && byte <= 'z') || byte == '_';
}

constexpr bool is_ascii_no_space(int byte) { return !(byte >= 9 && byte <= 13) && !(byte >= 28 && byte <= 32); }

constexpr std::array<std::uint8_t, 256> table_of(bool (*is_inside)(int)) {
  std::array<std::uint8_t, 256> kinds{};
  for (int byte = 0; byte < 256; ++byte) kinds[static_cast<std::size_t>(byte)] = byte >= 0x80 ? 2 : is_inside(byte);
  return kinds;
}

std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t hash = (a ^ 0x9e3779b185ebca87u) * 0xc2b2ae3d27d4eb4fu ^ std::rotl(b * 0x165667b19e3779f9u, 29);
  return (hash ^ hash >> 32) * 0x9e3779b185ebca87u;
}

// Where a token is, or where it would go. There is always a free slot.
template <typename Slots, typename IsSame>
std::size_t place_of(const Slots& slots, std::uint64_t hash, IsSame&& is_same) {
  const std::size_t mask = slots.size() - 1;
  std::size_t at = (hash ^ hash >> 29) & mask;
  while (slots[at].id != 0 && !(slots[at].hash == hash && is_same(slots[at].id))) at = (at + 1) & mask;
  return at;
}

bool is_same(Bytes one, Bytes other) {
  return one.size() == other.size() && (one.empty() || std::memcmp(one.data(), other.data(), one.size()) == 0);
}

}  // namespace

const std::array<std::uint8_t, 256> Words::kinds = table_of(is_ascii_word);
const std::array<std::uint8_t, 256> NoSpaces::kinds = table_of(is_ascii_no_space);

bool Texts::is_valid() const {
  if (offsets.empty() || offsets.front() < 0 || static_cast<std::uint64_t>(offsets.back()) > data.size()) return false;
  return std::is_sorted(offsets.begin(), offsets.end());
}

std::size_t first_not_utf8(const Texts& texts) {
  for (std::size_t i = 0; i < texts.count(); ++i)
    if (!is_utf8(texts.row(i))) return i;
  return texts.count();
}

std::uint64_t hash_token(Bytes token) {
  const std::uint8_t* p = token.data();
  const std::size_t n = token.size();
  if (n > 16) return xxh64(token, 0);
  if (n >= 8) return mix(load64(p) + n, load64(p + n - 8));
  if (n >= 4) return mix(load32(p) + (std::uint64_t{n} << 32), load32(p + n - 4));
  if (n == 0) return mix(0, 0);
  return mix(p[0] | std::uint64_t{p[n / 2]} << 8 | std::uint64_t{p[n - 1]} << 16, n);
}

Vocabulary::Vocabulary(const Texts& tokens)
    : data_(tokens.data.begin(), tokens.data.end()),
      offsets_(tokens.offsets.begin(), tokens.offsets.end()),
      slots_(std::bit_ceil(2 * tokens.count() + 2)) {
  for (std::size_t i = 0; i < tokens.count(); ++i) {
    const std::uint64_t hash = hash_token(token(i));
    Slot& slot = slots_[place_of(slots_, hash, [&](std::int64_t id) {
      return is_same(token(static_cast<std::size_t>(id - kReserved)), token(i));
    })];
    if (slot.id == 0) slot = {hash, static_cast<std::int64_t>(i) + kReserved};
  }
}

std::int64_t Vocabulary::find(Bytes wanted) const {
  const std::size_t at = place_of(slots_, hash_token(wanted), [&](std::int64_t id) {
    return is_same(token(static_cast<std::size_t>(id - kReserved)), wanted);
  });
  return slots_[at].id == 0 ? kUnknown : slots_[at].id;
}

Tokenised tokenise(const Texts& texts, Unit unit, const Vocabulary* vocabulary, std::size_t length) {
  const std::size_t rows = texts.count();
  const bool is_ragged = length == kAnyLength;
  Tokenised out;
  std::vector<std::int64_t> found;
  if (is_ragged) {
    out.splits = Buffer((rows + 1) * sizeof(std::int64_t));
    out.splits.as<std::int64_t>()[0] = 0;
  } else {
    out.ids = Buffer(rows * length * sizeof(std::int64_t));
    std::fill_n(out.ids.as<std::int64_t>(), rows * length, kPad);
  }
  for (std::size_t i = 0; i < rows; ++i) {
    std::size_t count = 0;
    std::int64_t* row = is_ragged ? nullptr : out.ids.as<std::int64_t>() + i * length;
    for_each_token(texts.row(i), unit, [&](Bytes token) {
      if (count++ >= length) return;
      const std::int64_t id = unit == Unit::byte ? token[0] + kReserved
                              : vocabulary       ? vocabulary->find(token)
                                                 : kUnknown;
      out.unknown += id == kUnknown;
      if (is_ragged)
        found.push_back(id);
      else
        row[count - 1] = id;
    });
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
  std::uint8_t* to = out.data.data();
  for (std::size_t i = 0; i < texts.data.size(); ++i) {
    const std::uint8_t byte = texts.data[i];
    to[i] = byte >= 'A' && byte <= 'Z' ? static_cast<std::uint8_t>(byte + ('a' - 'A')) : byte;
  }
  for (std::size_t i = 0; i < texts.count(); ++i) {
    std::uint8_t bits = 0;
    for (const std::uint8_t byte : texts.row(i)) bits |= byte;
    out.others.data()[i] = bits >> 7;
  }
  return out;
}

}  // namespace bushel
