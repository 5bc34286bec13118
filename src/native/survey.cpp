#include "survey.h"

#include <algorithm>
#include <cmath>

#include "pause.h"

namespace bushel {

namespace {

bool starts_with(Bytes data, std::string_view magic, std::size_t at = 0) {
  return data.size() >= at + magic.size() && std::memcmp(data.data() + at, magic.data(), magic.size()) == 0;
}

void widen(std::uint64_t& low, std::uint64_t& high, std::uint64_t value) {
  low = std::min(low, value);
  high = std::max(high, value);
}

// How many bytes the character at data[i] takes; 0 if it is not one. Overlong forms, surrogates and anything beyond
// U+10FFFF are not characters.
std::size_t character_size(Bytes data, std::size_t i) {
  const auto continued = [&](std::size_t at, std::uint8_t low = 0x80, std::uint8_t high = 0xbf) {
    return at < data.size() && data[at] >= low && data[at] <= high;
  };
  const std::uint8_t lead = data[i];
  if (lead < 0x80) return 1;
  if (lead < 0xc2 || lead > 0xf4) return 0;
  if (lead < 0xe0) return continued(i + 1) ? 2 : 0;
  if (lead < 0xf0) {
    const std::uint8_t low = lead == 0xe0 ? 0xa0 : 0x80, high = lead == 0xed ? 0x9f : 0xbf;
    return continued(i + 1, low, high) && continued(i + 2) ? 3 : 0;
  }
  const std::uint8_t low = lead == 0xf0 ? 0x90 : 0x80, high = lead == 0xf4 ? 0x8f : 0xbf;
  return continued(i + 1, low, high) && continued(i + 2) && continued(i + 3) ? 4 : 0;
}

}  // namespace

Format format_of(Bytes data) {
  if (starts_with(data, "\xff\xd8\xff")) return Format::jpeg;
  if (starts_with(data, "\x89PNG\r\n\x1a\n")) return Format::png;
  if (starts_with(data, "GIF87a") || starts_with(data, "GIF89a")) return Format::gif;
  if (starts_with(data, "RIFF") && starts_with(data, "WEBP", 8)) return Format::webp;
  if (starts_with(data, "BM") && data.size() >= 26 && load32(data.data() + 6) == 0) return Format::bmp;
  using namespace std::string_view_literals;
  if (starts_with(data, "II*\0"sv) || starts_with(data, "MM\0*"sv)) return Format::tiff;
  return Format::other;
}

bool is_text(Bytes data) {
  constexpr std::uint64_t kHigh = 0x8080808080808080u, kSpaces = 0x2020202020202020u;
  for (std::size_t i = 0; i < data.size();) {
    if (i + 8 <= data.size()) {
      const std::uint64_t word = load64(data.data() + i);
      if (((word | (word - kSpaces)) & kHigh) == 0) {  // eight characters of ASCII, none of them control
        i += 8;
        continue;
      }
    }
    const std::size_t size = character_size(data, i);
    if (size == 0 || (data[i] < 0x20 && (data[i] < '\t' || data[i] > '\r'))) return false;
    i += size;
  }
  return true;
}

std::vector<RowFault> Survey::add(Bytes file, std::span<const Extent> extents, bool verify) {
  std::vector<RowFault> faults;
  file_ = file;
  for (std::size_t row = 0; row < extents.size(); ++row) {
    const Extent extent = extents[row];
    int column = -1;
    breathe(kHeader + extent.length);
    if (const Fault fault = verify ? bushel::verify(file, extent) : Fault::none; fault != Fault::none) {
      faults.push_back({row, fault, -1});
    } else if (!locator_.locate({file.data() + extent.offset + kHeader, extent.length}) || !is_readable(column)) {
      faults.push_back({row, Fault::malformed, column});
    } else {
      take_record();
    }
  }
  return faults;
}

// Decodes into ints_ or floats_.
bool Survey::decode(Slice feature) {
  if (!feature_.open(feature, file_)) return false;
  if (feature_.kind() == Kind::floats) {
    floats_.resize(feature_.count());
    feature_.fill(floats_.data());
  } else if (feature_.kind() == Kind::int64s) {
    ints_.resize(feature_.count());
    return feature_.fill(ints_.data());
  }
  return true;
}

// The whole record is opened first, so that a malformed one leaves no trace in the facts.
bool Survey::is_readable(int& column) {
  for (std::size_t c = 0; c < locator_.names().size(); ++c) {
    const Slice slice = locator_.slices()[c];
    column = static_cast<int>(c);
    bool readable = true;
    if (!locator_.names()[c].sequence) {
      readable = decode(slice);
    } else if (slice.data) {
      readable = for_each_step(slice.bytes(), [&](Slice step) { readable = readable && decode(step); }) && readable;
    }
    if (!readable) return false;
  }
  column = -1;
  return true;
}

void Survey::take_record() {
  ++records_;
  bool some = false, lists = false;
  const std::vector<Name>& names = locator_.names();
  for (std::size_t c = facts_.size(); c < names.size(); ++c) {
    facts_.emplace_back();
    facts_[c].name = names[c].text;
    facts_[c].sequence = names[c].sequence;
  }
  for (std::size_t c = 0; c < names.size(); ++c) {
    const Slice slice = locator_.slices()[c];
    FeatureFacts& facts = facts_[c];
    if (!slice.data) continue;
    some = true;
    lists |= facts.sequence;
    facts.wire_bytes += names[c].text.size() + slice.size + 6;  // usually the size of the tags and lengths around them
    if (!facts.sequence) {
      take_feature(facts, slice);
      facts.records += feature_.kind() != Kind::none;
      continue;
    }
    ++facts.records;
    std::uint64_t steps = 0;
    for_each_step(slice.bytes(), [&](Slice step) {
      ++steps;
      take_feature(facts, step);
    });
    widen(facts.min_steps, facts.max_steps, steps);
  }
  empty_ += !some;
  with_lists_ += lists;
}

void Survey::take_feature(FeatureFacts& facts, Slice feature) {
  decode(feature);
  ++facts.kinds[static_cast<std::size_t>(feature_.kind())];
  if (feature_.kind() == Kind::none) return;
  widen(facts.min_count, facts.max_count, feature_.count());
  facts.values += feature_.count();
  take_values(facts);
}

void Survey::take_values(FeatureFacts& facts) {
  if (feature_.kind() == Kind::int64s) {
    for (const std::int64_t value : ints_) {
      facts.min_int = std::min(facts.min_int, value);
      facts.max_int = std::max(facts.max_int, value);
    }
  } else if (feature_.kind() == Kind::floats) {
    for (const float value : floats_) {
      facts.nans += std::isnan(value);
      facts.infinities += std::isinf(value);
      if (!std::isfinite(value)) continue;
      facts.min_float = facts.finite ? std::min(facts.min_float, value) : value;
      facts.max_float = facts.finite ? std::max(facts.max_float, value) : value;
      ++facts.finite;
    }
  } else {
    feature_.for_each_bytes([&](Bytes value) {
      widen(facts.min_size, facts.max_size, value.size());
      ++facts.formats[static_cast<std::size_t>(format_of(value))];
      facts.text = facts.text && is_text(value);
    });
  }
}

}  // namespace bushel
