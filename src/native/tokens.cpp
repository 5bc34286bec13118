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

// Both halves of the result depend on all bits: the low ones choose a slot, the high ones tell what is in it.
std::uint64_t mix(std::uint64_t a, std::uint64_t b) {
  const std::uint64_t hash = (a ^ 0x9e3779b185ebca87u) * 0xc2b2ae3d27d4eb4fu ^ std::rotl(b * 0x165667b19e3779f9u, 29);
  return (hash ^ hash >> 32) * 0x9e3779b185ebca87u;
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

std::uint64_t hash_token(Bytes token, Head head) {
  return token.size() > 16 ? xxh64(token, 0) : mix(head.low + token.size(), head.high);
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
