#include "profile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "hash.h"
#include "letters.h"
#include "pause.h"

namespace bushel {

namespace {

constexpr std::size_t kLongestText = 80;
constexpr std::uint64_t kListSeed = 1;
constexpr std::size_t kTogether = 256;  // numbers that are counted together: they stay in the nearest cache

void widen(std::uint64_t& low, std::uint64_t& high, std::uint64_t value) {
  low = std::min(low, value);
  high = std::max(high, value);
}

bool is_space(std::uint8_t c) { return c == ' ' || (c >= '\t' && c <= '\r'); }

bool is_number(Bytes text) {
  std::size_t digits = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::uint8_t c = text[i];
    if (c >= '0' && c <= '9') {
      ++digits;
    } else if (!(c == '.' || ((c == '-' || c == '+') && (i == 0 || text[i - 1] == 'e' || text[i - 1] == 'E')) ||
                 ((c == 'e' || c == 'E') && digits > 0))) {
      return false;
    }
  }
  return digits > 0 && text.size() <= 32;
}

template <typename T>
std::uint64_t bits_of(T value) {
  if constexpr (std::is_same_v<T, float>) return std::bit_cast<std::uint64_t>(static_cast<double>(value));
  return static_cast<std::uint64_t>(value);
}

// Sums in eight lanes, so that the compiler may use vectors without changing the order of a single sum.
struct Block {
  double sum = 0, squares = 0;
  float min = std::numeric_limits<float>::infinity(), max = -std::numeric_limits<float>::infinity();
  bool finite = true;
};

Block sum_up(const float* values, std::size_t count) {
  constexpr std::size_t kLanes = 8;
  float sums[kLanes] = {}, squares[kLanes] = {}, low[kLanes], high[kLanes];
  Block block;
  std::fill(low, low + kLanes, block.min);
  std::fill(high, high + kLanes, block.max);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const float v = values[i + lane];
      sums[lane] += v;
      squares[lane] += v * v;
      low[lane] = v < low[lane] ? v : low[lane];
      high[lane] = v > high[lane] ? v : high[lane];
    }
  for (; i < count; ++i) {
    sums[0] += values[i];
    squares[0] += values[i] * values[i];
    low[0] = std::min(low[0], values[i]);
    high[0] = std::max(high[0], values[i]);
  }
  for (std::size_t lane = 0; lane < kLanes; ++lane) {
    block.sum += static_cast<double>(sums[lane]);
    block.squares += static_cast<double>(squares[lane]);
    block.min = std::min(block.min, low[lane]);
    block.max = std::max(block.max, high[lane]);
  }
  block.finite = std::isfinite(block.squares);
  return block;
}

template <typename T>
std::uint64_t count_equal(const T* values, std::size_t count, T value) {
  std::uint64_t found = 0;
  for (std::size_t i = 0; i < count; ++i) found += values[i] == value;
  return found;
}

// For values of which some are not finite: how many are finite, and their extremes.
std::uint64_t take_odd(FeatureProfile& profile, const float* values, std::size_t count, Sighting place, float& low,
                       float& high) {
  std::uint64_t finite = 0;
  low = std::numeric_limits<float>::infinity();
  high = -low;
  for (std::size_t i = 0; i < count; ++i) {
    if (std::isnan(values[i])) {
      profile.nans.add(place);
    } else if (std::isinf(values[i])) {
      profile.infinities.add(place);
    } else {
      const auto value = static_cast<double>(values[i]);
      ++finite;
      profile.sum += value;
      profile.squares += value * value;
      low = std::min(low, values[i]);
      high = std::max(high, values[i]);
    }
  }
  return finite;
}

// The smallest and the largest of some values, none of them NaN.
template <typename T>
void find_extremes(const T* values, std::size_t count, T& low, T& high) {
  constexpr std::size_t kLanes = 8;
  T lows[kLanes], highs[kLanes];
  std::fill(lows, lows + kLanes, values[0]);
  std::fill(highs, highs + kLanes, values[0]);
  std::size_t i = 0;
  for (; i + kLanes <= count; i += kLanes)
    for (std::size_t lane = 0; lane < kLanes; ++lane) {
      const T v = values[i + lane];
      lows[lane] = v < lows[lane] ? v : lows[lane];
      highs[lane] = v > highs[lane] ? v : highs[lane];
    }
  low = *std::min_element(lows, lows + kLanes);
  high = *std::max_element(highs, highs + kLanes);
  for (; i < count; ++i) {
    low = std::min(low, values[i]);
    high = std::max(high, values[i]);
  }
}

bool can_all_be_squared(const float* values, std::size_t count) {
  std::size_t odd = 0;
  for (std::size_t i = 0; i < count; ++i)
    odd += !(values[i] * values[i] <= std::numeric_limits<float>::max());  // also where it is NaN
  return odd == 0;
}

// Takes one extreme of values that stand alone, each in the record of the same position.
template <typename T>
void take_extreme_of(const T* values, std::span<const std::uint64_t> records, T extreme, bool beyond, double& known,
                     std::uint64_t& at, Sighting& where) {
  const auto value = static_cast<double>(extreme);
  if (beyond) {
    std::size_t first = 0;
    while (static_cast<double>(values[first]) != value) ++first;
    known = static_cast<double>(values[first]);  // of 0 and -0 the one that came first
    at = 0;
    where.record = records[first];
  }
  if (value != known) return;
  constexpr double kExact = 9007199254740992.0;  // from 2^53 on, several integers are the same double
  if (std::is_same_v<T, float> || (value < kExact && value > -kExact)) {
    at += count_equal(values, records.size(), extreme);
  } else {
    for (std::size_t i = 0; i < records.size(); ++i) at += static_cast<double>(values[i]) == value;
  }
}

// As if every value were added to the tally alone. Where few are distinct, they are counted first.
template <typename T>
void add_to_tally(Tally& tally, const T* values, std::uint32_t file, std::span<const std::uint64_t> records) {
  struct Slot {
    std::uint64_t value, count, record;
  };
  std::array<Slot, 2 * kTally> slots{};
  std::array<std::uint8_t, kTally> order;  // of the slots, as they were filled
  std::size_t distinct = 0, done = 0;
  const std::size_t room = kTally - tally.counts.size();
  for (; done < records.size(); ++done) {
    const std::uint64_t value = bits_of(values[done]);
    std::size_t at = value * 0x9e3779b97f4a7c15u >> 57;
    while (slots[at].count > 0 && slots[at].value != value) at = (at + 1) % slots.size();
    if (slots[at].count == 0) {
      if (distinct == kTally) break;
      order[distinct++] = static_cast<std::uint8_t>(at);
      slots[at].value = value;
      slots[at].record = records[done];
    }
    ++slots[at].count;
  }
  std::size_t fresh = 0;
  for (std::size_t i = 0; i < distinct; ++i) fresh += !tally.counts.contains(slots[order[i]].value);
  if (done == records.size() && fresh <= room) {
    for (std::size_t i = 0; i < distinct; ++i) {
      const Slot& slot = slots[order[i]];
      tally.add(slot.value, {file, slot.record}, slot.count);
    }
    return;
  }
  for (std::size_t i = 0; i < records.size() && !tally.full; ++i) tally.add(bits_of(values[i]), {file, records[i]});
}

// The place of a text among those that are known, or of a free one; they are never more than half of all places.
KnownText& find_known(KnownTexts& known, const std::uint64_t words[2], std::size_t size) {
  std::size_t at = fold_product(words[0] ^ 0x9e3779b97f4a7c15u, words[1] ^ 0xc2b2ae3d27d4eb4fu) % known.size();
  while (known[at].size > 0 &&
         (known[at].size != size || known[at].words[0] != words[0] || known[at].words[1] != words[1]))
    at = (at + 1) % known.size();
  return known[at];
}

void take_extreme(bool beyond, double value, double& extreme, std::uint64_t& at, Sighting& where, Sighting place) {
  if (!beyond) return;
  extreme = value;
  at = 0;
  where = place;
}

}  // namespace

void Sightings::add(Sighting place) {
  ++count;
  if (first.size() < kShown &&
      (first.empty() || first.back().record != place.record || first.back().file != place.file))
    first.push_back(place);
}

void Sightings::merge(const Sightings& other) {
  count += other.count;
  first.insert(first.end(), other.first.begin(), other.first.end());
  std::sort(first.begin(), first.end(), [](const Sighting& a, const Sighting& b) {
    return a.file != b.file ? a.file < b.file : a.record < b.record;
  });
  if (first.size() > kShown) first.resize(kShown);
}

void Tally::add(std::uint64_t value, Sighting place, std::uint64_t by) {
  const auto found = counts.find(value);
  if (found != counts.end()) {
    found->second += by;
  } else if (counts.size() < kTally) {
    counts.emplace(value, by);
    where.emplace(value, place);
  } else {
    full = true;
  }
}

void Tally::merge(const Tally& other) {
  for (const auto& [value, count] : other.counts) add(value, other.where.at(value), count);
  full |= other.full;
}

template <typename T>
void Sample::add(const T* from, std::size_t count) {
  while (next < count) {
    values.push_back(static_cast<double>(from[next]));
    if (values.size() >= 2 * kSample) {
      for (std::size_t i = 0; i < kSample; ++i) values[i] = values[2 * i];
      values.resize(kSample);
      stride *= 2;
    }
    // An odd step visits every position of a vector whose width is a power of two.
    next += stride | 1;
  }
  next -= count;
}

void Sample::merge(const Sample& other) {
  values.insert(values.end(), other.values.begin(), other.values.end());
  stride = std::max(stride, other.stride);
  while (values.size() > 8 * kSample) {  // after merging: every other value is enough
    for (std::size_t i = 0; 2 * i < values.size(); ++i) values[i] = values[2 * i];
    values.resize((values.size() + 1) / 2);
    stride *= 2;
  }
}

void FeatureProfile::merge(const FeatureProfile& other) {
  records += other.records;
  values += other.values;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    kinds[k] += other.kinds[k];
    kind_places[k].merge(other.kind_places[k]);
  }
  lengths.merge(other.lengths);
  min_count = std::min(min_count, other.min_count);
  max_count = std::max(max_count, other.max_count);
  nans.merge(other.nans);
  infinities.merge(other.infinities);
  if (other.min < min) {
    min = other.min;
    at_min = other.at_min;
    min_place = other.min_place;
  } else if (other.min == min) {
    at_min += other.at_min;
  }
  if (other.max > max) {
    max = other.max;
    at_max = other.at_max;
    max_place = other.max_place;
  } else if (other.max == max) {
    at_max += other.at_max;
  }
  finite += other.finite;
  zeros += other.zeros;
  sum += other.sum;
  squares += other.squares;
  sample.merge(other.sample);
  scalars.merge(other.scalars);
  positions = positions && other.positions &&
              (position_min.empty() || other.position_min.empty() || position_min.size() == other.position_min.size());
  if (position_min.empty()) {
    position_min = other.position_min;
    position_max = other.position_max;
  } else if (positions && !other.position_min.empty()) {
    for (std::size_t i = 0; i < position_min.size(); ++i) {
      position_min[i] = std::min(position_min[i], other.position_min[i]);
      position_max[i] = std::max(position_max[i], other.position_max[i]);
    }
  }
  min_size = std::min(min_size, other.min_size);
  max_size = std::max(max_size, other.max_size);
  texts += other.texts;
  numeric_texts += other.numeric_texts;
  for (std::size_t f = 0; f < kFormats; ++f) {
    formats[f] += other.formats[f];
    format_places[f].merge(other.format_places[f]);
  }
  not_text.merge(other.not_text);
  empty.merge(other.empty);
  not_utf8.merge(other.not_utf8);
  padded.merge(other.padded);
  sizes.merge(other.sizes);
  texts_by_hash.insert(other.texts_by_hash.begin(), other.texts_by_hash.end());
}

ProfileRows Profile::add(Bytes file, std::span<const Extent> extents, std::uint32_t file_id, std::uint64_t first) {
  ProfileRows rows;
  rows.columns.assign(request_.columns.size(), std::vector<std::int64_t>(extents.size(), kMissing));
  if (request_.hashes) rows.hashes.assign(2 * extents.size(), 0);
  file_ = file;
  file_id_ = file_id;
  try {
    add_all(extents, first, rows);
  } catch (...) {  // it was stopped: what was seen until then still counts
    count_all_waiting();
    throw;
  }
  count_all_waiting();
  return rows;
}

void Profile::add_all(std::span<const Extent> extents, std::uint64_t first, ProfileRows& rows) {
  for (std::size_t row = 0; row < extents.size(); ++row) {
    const Extent extent = extents[row];
    const Sighting place{file_id_, first + row};
    breathe(kHeader + extent.length);
    if (request_.verify) {
      if (const Fault fault = bushel::verify(file_, extent); fault != Fault::none) {
        rows.faults.push_back({row, fault, -1});
        continue;
      }
    }
    if (!locator_.locate({file_.data() + extent.offset + kHeader, extent.length}) || !read_all()) {
      rows.faults.push_back({row, Fault::malformed, -1});
      malformed_.add(place);
    } else {
      take_record(place, rows, row);
    }
  }
}

// Decodes into ints_ or floats_.
bool Profile::decode(Slice feature) {
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

// The whole record is read first, so that a malformed one leaves no trace. What holds one value is kept in singles_; a
// list that does not hold varints is cheap to open and is decoded only once, when its values are used.
bool Profile::read_all() {
  const std::size_t count = locator_.names().size();
  if (singles_.size() < count) singles_.resize(count);
  for (std::size_t c = 0; c < count; ++c) {
    const Slice slice = locator_.slices()[c];
    bool readable = true;
    if (!locator_.names()[c].sequence) {
      readable = read_single(slice, singles_[c]);
    } else if (slice.data) {
      readable = for_each_step(slice.bytes(), [&](Slice step) { readable = readable && decode(step); }) && readable;
    }
    if (!readable) return false;
  }
  return true;
}

bool Profile::read_single(Slice slice, Single& single) {
  single.kind = Kind::none;
  if (slice.size == 0) return true;
  const std::uint8_t field = slice.data[0];
  if (field == tag(2, WireType::length) && read_one(slice, single.number)) {
    single.kind = Kind::floats;
  } else if (field == tag(3, WireType::length) && read_one(slice, single.whole)) {
    single.kind = Kind::int64s;
  } else if (field == tag(1, WireType::length) && read_one(slice, single.text)) {
    single.kind = Kind::bytes;
  } else {
    if (!feature_.open(slice, file_)) return false;
    if (feature_.kind() == Kind::int64s && !decode(slice)) return false;
    if (feature_.kind() == Kind::int64s && feature_.count() == 1) {  // below 0, most often
      single.kind = Kind::int64s;
      single.whole = ints_[0];
    }
  }
  return true;
}

void Profile::learn_names() {
  const std::vector<Name>& names = locator_.names();
  for (std::size_t c = profiles_.size(); c < names.size(); ++c) {
    profiles_.emplace_back();
    profiles_[c].name = names[c].text;
    profiles_[c].sequence = names[c].sequence;
    waiting_.emplace_back();
    const Bytes text{reinterpret_cast<const std::uint8_t*>(names[c].text.data()), names[c].text.size()};
    const auto& left_out = request_.identity;
    const auto column = std::find(request_.columns.begin(), request_.columns.end(), names[c].text);
    Role& role = roles_.emplace_back();
    if (std::find(left_out.begin(), left_out.end(), names[c].text) == left_out.end()) role.seeds = seeds_of(text);
    role.mark = xxh64(text, names[c].sequence ? kListSeed : 0);
    if (column != request_.columns.end() && !names[c].sequence)
      role.column = static_cast<int>(column - request_.columns.begin());
    role.sequence = names[c].sequence;
  }
}

std::int64_t Profile::scalar(std::size_t column) const {
  const Single& single = singles_[column];
  if (single.kind == Kind::int64s) return single.whole;
  if (single.kind == Kind::floats) return std::bit_cast<std::int64_t>(static_cast<double>(single.number));
  if (single.kind == Kind::bytes) return static_cast<std::int64_t>(xxh64(single.text, 0));
  if (feature_.count() != 1) return kMissing;  // the feature that was taken last
  if (feature_.kind() == Kind::floats) return std::bit_cast<std::int64_t>(static_cast<double>(floats_[0]));
  std::uint64_t hash = 0;
  feature_.for_each_bytes([&](Bytes value) { hash = xxh64(value, 0); });
  return static_cast<std::int64_t>(hash);
}

void Profile::take_record(Sighting place, ProfileRows& rows, std::size_t row) {
  ++records_;
  if (profiles_.size() < locator_.names().size()) learn_names();
  bool some = false, lists = false;
  std::uint64_t signature = 0;
  ContentHash content;
  const std::size_t count = profiles_.size();
  const Slice* const slices = locator_.slices().data();
  for (std::size_t c = 0; c < count; ++c) {
    const Slice slice = slices[c];
    if (!slice.data) continue;
    const Role& role = roles_[c];
    some = true;
    signature += role.mark;
    if (request_.hashes && role.seeds.whole) content.add(slice.bytes(), role.seeds);
    if (role.sequence) {
      lists = true;
      ++profiles_[c].records;
      for_each_step(slice.bytes(), [&](Slice step) { take_feature(profiles_[c], step, place); });
      continue;
    }
    if (singles_[c].kind != Kind::none) {
      take_single(c, place);
    } else {
      take_several(c, slice, place);
    }
    if (role.column >= 0) rows.columns[static_cast<std::size_t>(role.column)][row] = scalar(c);
  }
  if (request_.hashes) content.finish(&rows.hashes[2 * row]);
  take_signature(signature, place);
  if (!some) empty_.add(place);
  with_lists_ += lists;
}

void Profile::take_signature(std::uint64_t signature, Sighting place) {
  if (signature == last_signature_ && last_signatures_ > 0) {
    ++last_signatures_;
    return;
  }
  signatures_.add(signature, place);
  if (!signatures_.counts.contains(signature)) return;
  if (!signature_names_.contains(signature)) {
    std::vector<std::string>& names = signature_names_[signature];
    for (std::size_t c = 0; c < profiles_.size(); ++c)
      if (locator_.slices()[c].data) names.push_back(profiles_[c].name);
  }
  if (last_signatures_ > 1) signatures_.counts.at(last_signature_) += last_signatures_ - 1;
  last_signature_ = signature;
  last_signatures_ = 1;
}

void Profile::take_several(std::size_t column, Slice slice, Sighting place) {
  if (waiting_[column].kind != Kind::none) {
    count_waiting(column);
    forget_texts(column);
    waiting_[column].kind = Kind::none;
  }
  take_feature(profiles_[column], slice, place);
  profiles_[column].records += feature_.kind() != Kind::none;
}

void Profile::take_single(std::size_t column, Sighting place) {
  const Single& single = singles_[column];
  if (single.kind == Kind::bytes) return take_text(column, place);
  Waiting& waiting = waiting_[column];
  if (waiting.kind != single.kind || waiting.records.size() == kTogether) {
    count_waiting(column);
    if (waiting.kind == Kind::bytes) forget_texts(column);
    waiting.kind = single.kind;
  }
  if (single.kind == Kind::floats) {
    waiting.floats.push_back(single.number);
  } else {
    waiting.ints.push_back(single.whole);
  }
  waiting.records.push_back(place.record);
}

namespace {

struct Look {
  bool is_text = false, is_number = false, is_padded = false;
};

Look take_value(FeatureProfile& profile, Bytes value, Sighting place) {
  widen(profile.min_size, profile.max_size, value.size());
  if (profile.sizes.counts.size() == 1 && profile.sizes.counts.begin()->first == value.size()) {
    ++profile.sizes.counts.begin()->second;
  } else if (!profile.sizes.full) {
    profile.sizes.add(value.size(), place);
  }
  const auto format = static_cast<std::size_t>(format_of(value));
  ++profile.formats[format];
  if (profile.format_places[format].first.size() < kShown) profile.format_places[format].add(place);
  if (value.empty()) {
    profile.empty.add(place);
    return {};
  }
  if (format != 0 || !is_text(value)) {
    profile.not_text.add(place);
    if (format == 0 && !is_utf8(value)) profile.not_utf8.add(place);
    return {};
  }
  const Look look{true, is_number(value), is_space(value.front()) || is_space(value.back())};
  ++profile.texts;
  profile.numeric_texts += look.is_number;
  if (look.is_padded) profile.padded.add(place);
  return look;
}

// Counts a text that stands alone in its record; its hash.
std::uint64_t take_scalar_text(FeatureProfile& profile, Bytes text, Sighting place) {
  const std::uint64_t hash = xxh64(text, 0);
  profile.scalars.add(hash, place);
  if (profile.texts_by_hash.size() < kTally && !profile.texts_by_hash.contains(hash))
    profile.texts_by_hash.emplace(
        hash, std::string(reinterpret_cast<const char*>(text.data()), std::min(text.size(), kLongestText)));
  return hash;
}

// What every feature that holds one value has in common: `count` of them, in these records or in any.
void take_ones(FeatureProfile& profile, Kind kind, std::uint64_t count, std::uint32_t file,
               std::span<const std::uint64_t> records) {
  profile.kinds[static_cast<std::size_t>(kind)] += count;
  Sightings& places = profile.kind_places[static_cast<std::size_t>(kind)];
  for (std::size_t i = 0; i < records.size() && places.first.size() < kShown; ++i) places.add({file, records[i]});
  profile.lengths.add(1, {file, records.empty() ? 0 : records[0]}, count);
  widen(profile.min_count, profile.max_count, 1);
  profile.values += count;
  profile.records += count;
}

// As if each of these values were taken alone, in its record.
template <typename T>
void take_together(FeatureProfile& profile, const T* values, std::uint32_t file,
                   std::span<const std::uint64_t> records) {
  const std::size_t count = records.size();
  T low{}, high{};
  find_extremes(values, count, low, high);
  double sum = profile.sum, squares = profile.squares;
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<double>(values[i]);
    sum += value;
    squares += std::is_same_v<T, float> ? static_cast<double>(values[i] * values[i]) : value * value;
  }
  profile.sum = sum;
  profile.squares = squares;
  profile.finite += count;
  profile.zeros += count_equal(values, count, T{0});
  const bool below = static_cast<double>(low)<profile.min, above = static_cast<double>(high)> profile.max;
  if (below) profile.min_place.file = file;
  if (above) profile.max_place.file = file;
  take_extreme_of(values, records, low, below, profile.min, profile.at_min, profile.min_place);
  take_extreme_of(values, records, high, above, profile.max, profile.at_max, profile.max_place);
  profile.sample.add(values, count);
  if (!profile.scalars.full) add_to_tally(profile.scalars, values, file, records);
}

}  // namespace

void Profile::count_waiting(std::size_t column) {
  Waiting& waiting = waiting_[column];
  if (waiting.records.empty()) return;
  FeatureProfile& profile = profiles_[column];
  const std::span<const std::uint64_t> records = waiting.records;
  take_ones(profile, waiting.kind, records.size(), file_id_, records);
  if (!request_.values) {
  } else if (waiting.kind == Kind::int64s) {
    take_together(profile, waiting.ints.data(), file_id_, records);
  } else if (can_all_be_squared(waiting.floats.data(), records.size())) {
    take_together(profile, waiting.floats.data(), file_id_, records);
  } else {
    for (std::size_t i = 0; i < records.size(); ++i)
      take_numbers(profile, &waiting.floats[i], 1, Sighting{file_id_, records[i]});
  }
  waiting.floats.clear();
  waiting.ints.clear();
  waiting.records.clear();
}

void Profile::count_all_waiting() {
  for (std::size_t c = 0; c < profiles_.size(); ++c) {
    count_waiting(c);
    count_texts(c);
  }
  if (last_signatures_ > 1) signatures_.counts.at(last_signature_) += last_signatures_ - 1;
  last_signatures_ = 0;
}

// A text becomes known when it was counted, nothing about it is odd and all places that are shown have been seen.
// Nothing is known where a tally could become full: its counts are of what came before.
void Profile::take_text(std::size_t column, Sighting place) {
  Waiting& waiting = waiting_[column];
  if (waiting.kind != Kind::bytes) {
    count_waiting(column);
    waiting.kind = Kind::bytes;
  }
  const Bytes text = singles_[column].text;
  const bool is_short = text.size() - 1 < kShort;
  std::uint64_t words[2];
  if (is_short && waiting.texts) {
    load_short(text, words);
    if (KnownText& known = find_known(*waiting.texts, words, text.size()); known.size > 0) {
      ++known.count;
      return;
    }
  }
  FeatureProfile& profile = profiles_[column];
  take_ones(profile, Kind::bytes, 1, place.file, {&place.record, 1});
  const Look look = take_value(profile, text, place);
  if (profile.sizes.counts.size() >= kTally) forget_texts(column);
  if (!look.is_text || profile.scalars.full) return;
  const std::uint64_t hash = take_scalar_text(profile, text, place);
  if (profile.scalars.counts.size() >= kTally) return forget_texts(column);
  const bool is_shown = profile.kind_places[static_cast<std::size_t>(Kind::bytes)].first.size() >= kShown &&
                        profile.format_places[0].first.size() >= kShown;
  if (!is_short || look.is_padded || !is_shown || waiting.forgot_texts) return;
  if (!waiting.texts) waiting.texts = std::make_unique<KnownTexts>();
  load_short(text, words);
  find_known(*waiting.texts, words, text.size()) = {{words[0], words[1]}, hash, 0, text.size(), look.is_number};
}

void Profile::count_texts(std::size_t column) {
  if (!waiting_[column].texts) return;
  FeatureProfile& profile = profiles_[column];
  for (KnownText& known : *waiting_[column].texts) {
    if (known.count == 0) continue;
    take_ones(profile, Kind::bytes, known.count, file_id_, {});
    profile.sizes.add(known.size, {}, known.count);
    profile.formats[0] += known.count;
    profile.texts += known.count;
    profile.numeric_texts += known.is_number ? known.count : 0;
    profile.scalars.add(known.hash, {}, known.count);
    known.count = 0;
  }
}

void Profile::forget_texts(std::size_t column) {
  count_texts(column);
  waiting_[column].texts.reset();
  waiting_[column].forgot_texts = true;
}

void Profile::take_feature(FeatureProfile& profile, Slice feature, Sighting place) {
  decode(feature);
  const auto kind = static_cast<std::size_t>(feature_.kind());
  ++profile.kinds[kind];
  if (profile.kind_places[kind].first.size() < kShown) profile.kind_places[kind].add(place);
  if (feature_.kind() == Kind::none) return;
  const std::size_t count = feature_.count();
  if (profile.min_count == count && profile.max_count == count) {
    ++profile.lengths.counts.begin()->second;
  } else {
    profile.lengths.add(count, place);
  }
  widen(profile.min_count, profile.max_count, count);
  profile.values += count;
  if (feature_.kind() == Kind::bytes) {
    take_bytes(profile, place);
  } else if (!request_.values) {
    return;
  } else if (feature_.kind() == Kind::floats) {
    take_numbers(profile, floats_.data(), count, place);
  } else {
    take_numbers(profile, ints_.data(), count, place);
  }
}

template <typename T>
void Profile::take_numbers(FeatureProfile& profile, const T* values, std::size_t count, Sighting place) {
  if (count == 0) return;
  T low{}, high{};
  std::uint64_t finite = count;
  if constexpr (std::is_same_v<T, float>) {
    const Block block = sum_up(values, count);
    if (block.finite) {
      profile.sum += block.sum;
      profile.squares += block.squares;
      low = block.min;
      high = block.max;
    } else {  // NaN, infinite, or too large to be squared: one by one
      finite = take_odd(profile, values, count, place, low, high);
    }
  } else {
    const auto [least, most] = std::minmax_element(values, values + count);
    low = *least;
    high = *most;
    for (std::size_t i = 0; i < count; ++i) {
      const auto value = static_cast<double>(values[i]);
      profile.sum += value;
      profile.squares += value * value;
    }
  }
  profile.finite += finite;
  profile.zeros += count_equal(values, count, T{0});
  if (finite > 0) {
    take_extreme(static_cast<double>(low) < profile.min, static_cast<double>(low), profile.min, profile.at_min,
                 profile.min_place, place);
    take_extreme(static_cast<double>(high) > profile.max, static_cast<double>(high), profile.max, profile.at_max,
                 profile.max_place, place);
    if (static_cast<double>(low) == profile.min) profile.at_min += count_equal(values, count, low);
    if (static_cast<double>(high) == profile.max) profile.at_max += count_equal(values, count, high);
  }
  profile.sample.add(values, count);
  if (count == 1 && !profile.scalars.full) profile.scalars.add(bits_of(values[0]), place);
  if (!profile.positions || count == 1 || count > kPositions) return;
  if (profile.position_min.empty()) {
    profile.position_min.assign(count, std::numeric_limits<float>::infinity());
    profile.position_max.assign(count, -std::numeric_limits<float>::infinity());
  }
  if (profile.position_min.size() != count) {
    profile.positions = false;
    return;
  }
  float* lows = profile.position_min.data();
  float* highs = profile.position_max.data();
  for (std::size_t i = 0; i < count; ++i) {
    const auto value = static_cast<float>(values[i]);
    lows[i] = value < lows[i] ? value : lows[i];
    highs[i] = value > highs[i] ? value : highs[i];
  }
}

void Profile::take_bytes(FeatureProfile& profile, Sighting place) {
  const bool single = feature_.count() == 1;
  feature_.for_each_bytes([&](Bytes value) {
    if (take_value(profile, value, place).is_text && single && !profile.scalars.full)
      take_scalar_text(profile, value, place);
  });
}

void Profile::merge(const Profile& other) {
  records_ += other.records_;
  with_lists_ += other.with_lists_;
  malformed_.merge(other.malformed_);
  empty_.merge(other.empty_);
  signatures_.merge(other.signatures_);
  for (const auto& [signature, names] : other.signature_names_)
    if (signatures_.counts.contains(signature)) signature_names_.emplace(signature, names);
  for (const FeatureProfile& profile : other.profiles_) {
    const auto own = std::find_if(profiles_.begin(), profiles_.end(), [&](const FeatureProfile& p) {
      return p.name == profile.name && p.sequence == profile.sequence;
    });
    if (own == profiles_.end()) {
      profiles_.push_back(profile);
    } else {
      own->merge(profile);
    }
  }
}

namespace {

// The same function visits all fields to write and to read them, so that neither can forget one.
class Saver {
 public:
  void bytes(void* data, std::size_t size) { out.append(static_cast<const char*>(data), size); }
  std::size_t count(std::size_t held) {
    std::uint64_t size = held;
    bytes(&size, sizeof(size));
    return held;
  }
  std::string out;
};

class Loader {
 public:
  explicit Loader(Bytes saved) : left_(saved) {}
  void bytes(void* data, std::size_t size) {
    if (size > left_.size()) {
      failed = true;
      left_ = {};
      std::memset(data, 0, size);
      return;
    }
    if (size > 0) std::memcpy(data, left_.data(), size);
    left_ = left_.subspan(size);
  }
  std::size_t count(std::size_t) {
    std::uint64_t size = 0;
    bytes(&size, sizeof(size));
    failed |= size > left_.size();  // every counted item takes at least one byte
    return failed ? 0 : size;
  }
  bool is_through() const { return left_.empty() && !failed; }
  bool failed = false;

 private:
  Bytes left_;
};

template <typename A, typename T>
  requires std::is_arithmetic_v<T>
void pass(A& archive, T& value) {
  archive.bytes(&value, sizeof(value));
}

template <typename A>
void pass(A& archive, Sighting& place) {
  pass(archive, place.file);
  pass(archive, place.record);
}

template <typename A>
void pass(A& archive, std::string& text) {
  text.resize(archive.count(text.size()));
  archive.bytes(text.data(), text.size());
}

template <typename A, typename T>
void pass(A& archive, std::vector<T>& values) {
  values.resize(archive.count(values.size()));
  if constexpr (std::is_arithmetic_v<T>) {
    archive.bytes(values.data(), values.size() * sizeof(T));
  } else {
    for (T& value : values) pass(archive, value);
  }
}

template <typename A, typename T, std::size_t n>
void pass(A& archive, std::array<T, n>& values) {
  for (T& value : values) pass(archive, value);
}

template <typename A, typename T>
void pass(A& archive, std::map<std::uint64_t, T>& values) {
  if constexpr (std::is_same_v<A, Saver>) {
    archive.count(values.size());
    for (auto& [key, value] : values) {
      std::uint64_t copy = key;
      pass(archive, copy);
      pass(archive, value);
    }
  } else {
    const std::size_t size = archive.count(0);
    for (std::size_t i = 0; i < size && !archive.failed; ++i) {
      std::uint64_t key = 0;
      pass(archive, key);
      pass(archive, values[key]);
    }
  }
}

template <typename A>
void pass(A& archive, Sightings& places) {
  pass(archive, places.count);
  pass(archive, places.first);
}

template <typename A>
void pass(A& archive, Tally& tally) {
  pass(archive, tally.counts);
  pass(archive, tally.where);
  pass(archive, tally.full);
}

template <typename A>
void pass(A& archive, Sample& sample) {
  pass(archive, sample.values);
  pass(archive, sample.stride);
  pass(archive, sample.next);
}

template <typename A>
void pass(A& archive, FeatureProfile& p) {
  const auto all = [&archive](auto&... fields) { (pass(archive, fields), ...); };
  all(p.name, p.sequence, p.records, p.values, p.kinds, p.kind_places, p.lengths, p.min_count, p.max_count);
  all(p.nans, p.infinities, p.finite, p.zeros, p.at_min, p.at_max, p.min, p.max, p.min_place, p.max_place);
  all(p.sum, p.squares, p.sample, p.scalars, p.position_min, p.position_max, p.positions);
  all(p.min_size, p.max_size, p.texts, p.numeric_texts, p.formats, p.format_places, p.not_text, p.not_utf8, p.empty,
      p.padded);
  all(p.sizes, p.texts_by_hash);
}

}  // namespace

template <typename Archive>
void Profile::pass(Archive& archive) {
  const auto all = [&archive](auto&... fields) { (bushel::pass(archive, fields), ...); };
  all(records_, with_lists_, malformed_, empty_, signatures_, signature_names_, profiles_);
}

std::string Profile::save() const {
  Saver saver;
  const_cast<Profile*>(this)->pass(saver);  // a Saver only reads
  return std::move(saver.out);
}

bool Profile::load(Bytes saved, Profile& into) {
  Loader loader(saved);
  into.pass(loader);
  return loader.is_through();
}

}  // namespace bushel
