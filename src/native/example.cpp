#include "example.h"

#include <algorithm>

namespace bushel {

namespace {

constexpr std::uint8_t kOneAsLength = tag(1, WireType::length);
constexpr std::uint8_t kTwoAsLength = tag(2, WireType::length);

// Limit on distinct names: a file with new names in every record must not fill the memory.
constexpr std::size_t kMaxKeys = 1 << 16;

inline bool same(const std::uint8_t* p, const std::uint8_t* q, std::size_t n) {
  if (n >= 8) {
    for (std::size_t i = 0; i + 8 < n; i += 8)
      if (load64(p + i) != load64(q + i)) return false;
    return load64(p + n - 8) == load64(q + n - 8);
  }
  if (n >= 4) return load32(p) == load32(q) && load32(p + n - 4) == load32(q + n - 4);
  for (std::size_t i = 0; i < n; ++i)
    if (p[i] != q[i]) return false;
  return true;
}

const std::uint8_t* as_bytes(std::string_view text) { return reinterpret_cast<const std::uint8_t*>(text.data()); }

std::string pattern_of(std::string_view key) {
  std::uint8_t length[10];
  std::uint8_t* const end = write_varint(length, key.size());
  std::string pattern(1, static_cast<char>(kOneAsLength));
  pattern.append(length, end).append(key);
  return pattern + static_cast<char>(kTwoAsLength);
}

bool holds(Bytes memory, Slice slice) {
  const auto begin = reinterpret_cast<std::uintptr_t>(memory.data()), at = reinterpret_cast<std::uintptr_t>(slice.data);
  return at >= begin && at + slice.size <= begin + memory.size();
}

std::string_view as_text(Bytes bytes) { return {reinterpret_cast<const char*>(bytes.data()), bytes.size()}; }

}  // namespace

Locator::Locator(const std::vector<Name>& names, Others others)
    : names_(names), slices_(names.size()), others_(others), reads_lists_(others != Others::ignore) {
  features_.sequence = false;
  lists_.sequence = true;
  for (Group* group : {&features_, &lists_}) {
    group->keys.emplace_back("", -1);
    group->keys[0].size = SIZE_MAX / 2;  // so that no entry is taken for it
  }
  for (std::size_t i = 0; i < names_.size(); ++i) {
    reads_lists_ |= names_[i].sequence;
    add_key(names_[i].text, static_cast<int>(i), names_[i].sequence ? lists_ : features_);
    const std::string_view text = names_[i].text;
    if (!names_[i].sequence && text.ends_with(kContext))
      add_key(text.substr(0, text.size() - kContext.size()), static_cast<int>(i), features_);
  }
}

Locator::Key::Key(std::string_view name, int its_column)
    : head{}, mask{}, column(its_column), after(0), pattern(pattern_of(name)) {
  size = pattern.size();
  std::memcpy(head, pattern.data(), std::min(size, sizeof head));
  std::memset(mask, 0xff, std::min(size, sizeof mask));
}

std::string_view Locator::Key::text() const {
  std::size_t length_size = 1;
  while (static_cast<std::uint8_t>(pattern[length_size]) >= 0x80) ++length_size;
  return std::string_view(pattern).substr(1 + length_size, pattern.size() - 2 - length_size);
}

std::uint32_t Locator::add_key(std::string_view key, int column, Group& group) {
  const auto index = static_cast<std::uint32_t>(group.keys.size());
  group.keys.emplace_back(key, column);
  group.table.emplace(key, index);
  return index;
}

int Locator::look_up(std::string_view key, Group& group) {
  std::uint32_t index = 0;
  if (const auto found = group.table.find(key); found != group.table.end()) {
    index = found->second;
  } else if (group.keys.size() < kMaxKeys) {
    const int column = others_ == Others::add ? static_cast<int>(names_.size()) : -1;
    if (column >= 0) {
      names_.push_back({std::string(key), group.sequence, Kind::none});
      slices_.emplace_back();
    }
    index = add_key(key, column, group);
  } else {
    return -1;
  }
  group.keys[group.last].after = index;
  group.last = index;
  return group.keys[index].column;
}

int Locator::column_of(std::string_view key, Group& group) {
  constexpr int kAhead = 4;  // names that this record may lack
  std::uint32_t index = group.keys[group.last].after;
  for (int i = 0; i < kAhead && index != 0; ++i, index = group.keys[index].after) {
    if (group.keys[index].text() == key) {
      group.last = index;
      return group.keys[index].column;
    }
  }
  return look_up(key, group);
}

std::vector<Name> Locator::others() const {
  std::vector<Name> found;
  for (const Group* group : {&features_, &lists_})
    for (std::size_t i = 1; i < group->keys.size(); ++i)
      if (group->keys[i].column < 0) found.push_back({std::string(group->keys[i].text()), group->sequence, Kind::none});
  return found;
}

bool Locator::read_odd_entry(Bytes entry, Group& group) {
  std::string_view key;
  Slice value{entry.data(), 0};
  int pieces = 0;
  for (Cursor in(entry); !in.done();) {
    std::uint32_t field = 0;
    Bytes bytes;
    if (!read_tag(in, field)) return false;
    if (field == kOneAsLength) {
      if (!read_bytes(in, bytes)) return false;
      key = as_text(bytes);
    } else if (field == kTwoAsLength) {
      if (!read_bytes(in, bytes)) return false;
      if (++pieces == 1) {
        value = {bytes.data(), bytes.size()};
      } else {
        // Two serialized messages in a row stand for the message that both merge into.
        std::string& whole = merged_.emplace_back(as_text(value.bytes()));
        whole.append(as_text(bytes)).append(kReadable, '\0');
        value = {as_bytes(whole), whole.size() - kReadable};
      }
    } else if (!skip(in, field)) {
      return false;
    }
  }
  if (const int column = column_of(key, group); column >= 0) slices_[static_cast<std::size_t>(column)] = value;
  return true;
}

bool Locator::read_entry(Bytes entry, Group& group) {
  Cursor in(entry);
  Bytes key, value;
  const bool usual = !in.done() && *in.p++ == kOneAsLength && read_bytes(in, key) && !in.done() &&
                     *in.p++ == kTwoAsLength && read_bytes(in, value) && in.done();
  if (!usual) return read_odd_entry(entry, group);
  if (const int column = column_of(as_text(key), group); column >= 0)
    slices_[static_cast<std::size_t>(column)] = {value.data(), value.size()};
  return true;
}

// The entry that came here last time, in the form that all writers use, with lengths of one byte each.
// False, with nothing read, if anything else is there.
inline bool Locator::read_expected_entry(Cursor& in, Group& group) {
  const std::uint32_t index = group.keys[group.last].after;
  const Key& key = group.keys[index];
  const std::uint8_t* const p = in.p;
  const std::size_t left = in.left();
  if (left < 3 + sizeof key.head) return false;
  const std::size_t size = p[1];
  const std::uint64_t differs =
      ((load64(p + 2) ^ key.head[0]) & key.mask[0]) | ((load64(p + 10) ^ key.head[1]) & key.mask[1]);
  if (p[0] != kOneAsLength || differs || size >= 0x80 || size > left - 2 || size < 1 + key.size) return false;
  const std::uint8_t* const value = p + 3 + key.size;
  if (value[-1] != size - 1 - key.size) return false;
  if (key.size > sizeof key.head && !same(p + 2, as_bytes(key.pattern), key.size)) return false;
  if (key.column >= 0) slices_[static_cast<std::size_t>(key.column)] = {value, size - 1 - key.size};
  group.last = index;
  in.p += 2 + size;
  return true;
}

bool Locator::read_map(Bytes map, Group& group) {
  for (Cursor in(map); !in.done();) {
    if (read_expected_entry(in, group)) continue;
    std::uint32_t field = 0;
    Bytes entry;
    if (!read_tag(in, field)) return false;
    if (field == kOneAsLength) {
      if (!read_bytes(in, entry) || !read_entry(entry, group)) return false;
    } else if (!skip(in, field)) {
      return false;
    }
  }
  return true;
}

bool Locator::locate(Bytes record) {
  if (!slices_.empty()) std::memset(static_cast<void*>(slices_.data()), 0, slices_.size() * sizeof(Slice));
  features_.last = lists_.last = 0;
  if (others_ == Others::add) merged_.clear();
  for (Cursor in(record); !in.done();) {
    std::uint32_t field = 0;
    Bytes map;
    if (!read_tag(in, field)) return false;
    if (field == kOneAsLength) {
      if (!read_bytes(in, map) || !read_map(map, features_)) return false;
    } else if (field == kTwoAsLength && reads_lists_) {
      if (!read_bytes(in, map) || !read_map(map, lists_)) return false;
    } else if (!skip(in, field)) {
      return false;
    }
  }
  return true;
}

bool Feature::open(Slice feature, Bytes memory) {
  kind_ = Kind::none;
  count_ = 0;
  odd_ = false;
  packed_ = {};
  if (feature.size == 0) return true;
  readable_end_ = holds(memory, feature) ? memory.data() + memory.size() : feature.data + feature.size;

  Cursor in(feature.bytes());
  Bytes list;
  const std::uint8_t field = *in.p++;
  const bool one_list =
      (field == tag(1, WireType::length) || field == tag(2, WireType::length) || field == tag(3, WireType::length)) &&
      read_bytes(in, list) && in.done();
  if (!one_list) return open_odd(feature.bytes());
  kind_ = static_cast<Kind>(field >> 3);
  if (list.empty()) return true;

  Cursor values(list);
  if (kind_ == Kind::bytes) {
    while (!values.done()) {
      Bytes value;
      if (*values.p++ != kOneAsLength || !read_bytes(values, value)) return open_odd(feature.bytes());
      ++count_;
    }
    packed_ = list;
    return true;
  }
  if (*values.p++ != kOneAsLength || !read_bytes(values, packed_) || !values.done()) return open_odd(feature.bytes());
  if (kind_ == Kind::floats) {
    count_ = packed_.size() / sizeof(float);
    return packed_.size() % sizeof(float) == 0;
  }
  count_ = packed_.size() == 1 ? *packed_.data() < 0x80 : count_varints(packed_);
  return packed_.empty() || packed_.back() < 0x80;
}

bool Feature::open_odd(Bytes feature) {
  odd_ = true;
  kind_ = Kind::none;
  count_ = 0;
  for (Cursor in(feature); !in.done();) {
    std::uint32_t field = 0;
    Bytes list;
    if (!read_tag(in, field)) return false;
    const bool is_list = (field & 7) == static_cast<std::uint32_t>(WireType::length) && field >> 3 <= 3;
    if (is_list) {
      if (!read_bytes(in, list) || !read_list(static_cast<Kind>(field >> 3), list)) return false;
    } else if (!skip(in, field)) {
      return false;
    }
  }
  return true;
}

bool Feature::read_list(Kind kind, Bytes list) {
  if (kind != kind_) {  // the last member of a oneof wins; the same one twice is merged
    kind_ = kind;
    count_ = 0;
    ints_.clear();
    floats_.clear();
    strings_.clear();
  }
  for (Cursor in(list); !in.done();) {
    std::uint32_t field = 0;
    if (!read_tag(in, field) || !read_value(kind, field, in)) return false;
  }
  count_ = kind == Kind::bytes ? strings_.size() : kind == Kind::floats ? floats_.size() : ints_.size();
  return true;
}

bool Feature::read_value(Kind kind, std::uint32_t field, Cursor& in) {
  Bytes bytes;
  if (kind == Kind::bytes && field == kOneAsLength) {
    if (!read_bytes(in, bytes)) return false;
    strings_.push_back(bytes);
    return true;
  }
  if (kind == Kind::floats && (field == kOneAsLength || field == tag(1, WireType::fixed32))) {
    if (field == kOneAsLength) {
      if (!read_bytes(in, bytes)) return false;
    } else {
      if (in.left() < sizeof(float)) return false;
      bytes = {in.p, sizeof(float)};
      in.p += sizeof(float);
    }
    if (bytes.size() % sizeof(float) != 0) return false;
    const std::size_t before = floats_.size();
    floats_.resize(before + bytes.size() / sizeof(float));
    if (!bytes.empty()) std::memcpy(floats_.data() + before, bytes.data(), bytes.size());
    return true;
  }
  if (kind == Kind::int64s && field == kOneAsLength) {
    if (!read_bytes(in, bytes)) return false;
    const std::size_t before = ints_.size();
    ints_.resize(before + count_varints(bytes));
    return decode_varints(bytes, in.end, ints_.data() + before);
  }
  if (kind == Kind::int64s && field == tag(1, WireType::varint)) {
    std::uint64_t value = 0;
    if (!read_varint(in, value)) return false;
    ints_.push_back(static_cast<std::int64_t>(value));
    return true;
  }
  return skip(in, field);
}

bool Feature::fill(std::int64_t* out) const {
  if (count_ == 0) return true;
  if (odd_) {
    std::copy(ints_.begin(), ints_.end(), out);
    return true;
  }
  if (packed_.size() == 1) {
    *out = *packed_.data();
    return true;
  }
  return decode_varints(packed_, readable_end_, out);
}

void Feature::fill(float* out) const {
  if (count_ == 0) return;
  const void* from = odd_ ? static_cast<const void*>(floats_.data()) : static_cast<const void*>(packed_.data());
  std::memcpy(out, from, count_ * sizeof(float));
}

}  // namespace bushel
