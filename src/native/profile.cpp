#include "profile.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <utility>

#include "hash.h"
#include "pause.h"

namespace bushel {

namespace {

constexpr std::size_t kLongestText = 80;
constexpr std::uint64_t kSecondSeed = 0x62757368656c;
constexpr std::uint64_t kListSeed = 1;

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
  padded.merge(other.padded);
  sizes.merge(other.sizes);
  texts_by_hash.insert(other.texts_by_hash.begin(), other.texts_by_hash.end());
}

ProfileRows Profile::add(Bytes file, std::span<const Extent> extents, std::uint32_t file_id, std::uint64_t first) {
  ProfileRows rows;
  rows.columns.assign(request_.columns.size(), std::vector<std::int64_t>(extents.size(), kMissing));
  if (request_.hashes) rows.hashes.assign(2 * extents.size(), 0);
  file_ = file;
  for (std::size_t row = 0; row < extents.size(); ++row) {
    const Extent extent = extents[row];
    const Sighting place{file_id, first + row};
    breathe(kHeader + extent.length);
    if (request_.verify) {
      if (const Fault fault = bushel::verify(file, extent); fault != Fault::none) {
        rows.faults.push_back({row, fault, -1});
        continue;
      }
    }
    if (!locator_.locate({file.data() + extent.offset + kHeader, extent.length}) || !is_readable()) {
      rows.faults.push_back({row, Fault::malformed, -1});
      malformed_.add(place);
    } else {
      take_record(place, rows, row);
    }
  }
  return rows;
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

// The whole record is opened first, so that a malformed one leaves no trace. A list that does not hold varints is cheap
// to open and is decoded only once, when its values are used.
bool Profile::is_readable() {
  for (std::size_t c = 0; c < locator_.names().size(); ++c) {
    const Slice slice = locator_.slices()[c];
    bool readable = true;
    if (!locator_.names()[c].sequence) {
      readable = feature_.open(slice, file_) && (feature_.kind() != Kind::int64s || decode(slice));
    } else if (slice.data) {
      readable = for_each_step(slice.bytes(), [&](Slice step) { readable = readable && decode(step); }) && readable;
    }
    if (!readable) return false;
  }
  return true;
}

void Profile::learn_names() {
  const std::vector<Name>& names = locator_.names();
  for (std::size_t c = profiles_.size(); c < names.size(); ++c) {
    profiles_.emplace_back();
    profiles_[c].name = names[c].text;
    profiles_[c].sequence = names[c].sequence;
    const auto column = std::find(request_.columns.begin(), request_.columns.end(), names[c].text);
    column_of_.push_back(column == request_.columns.end() || names[c].sequence
                             ? -1
                             : static_cast<int>(column - request_.columns.begin()));
    const auto& left_out = request_.identity;
    const bool counts = std::find(left_out.begin(), left_out.end(), names[c].text) == left_out.end();
    const Bytes text{reinterpret_cast<const std::uint8_t*>(names[c].text.data()), names[c].text.size()};
    name_hashes_.push_back(counts ? xxh64(text, 0) | 1 : 0);
    marks_.push_back(xxh64(text, names[c].sequence ? kListSeed : 0));
  }
}

std::int64_t Profile::scalar() const {
  if (feature_.count() != 1) return kMissing;
  if (feature_.kind() == Kind::int64s) return ints_[0];
  if (feature_.kind() == Kind::floats) return std::bit_cast<std::int64_t>(static_cast<double>(floats_[0]));
  std::uint64_t hash = 0;
  feature_.for_each_bytes([&](Bytes value) { hash = xxh64(value, 0); });
  return static_cast<std::int64_t>(hash);
}

void Profile::take_record(Sighting place, ProfileRows& rows, std::size_t row) {
  ++records_;
  learn_names();
  bool some = false, lists = false;
  std::uint64_t signature = 0;
  for (std::size_t c = 0; c < profiles_.size(); ++c) {
    const Slice slice = locator_.slices()[c];
    FeatureProfile& profile = profiles_[c];
    if (!slice.data) continue;
    some = true;
    signature += marks_[c];
    if (request_.hashes && name_hashes_[c]) {
      rows.hashes[2 * row] += xxh64(slice.bytes(), name_hashes_[c]);
      rows.hashes[2 * row + 1] += xxh64(slice.bytes(), name_hashes_[c] ^ kSecondSeed);
    }
    if (profile.sequence) {
      lists = true;
      ++profile.records;
      for_each_step(slice.bytes(), [&](Slice step) { take_feature(profile, step, place); });
      continue;
    }
    take_feature(profile, slice, place);
    profile.records += feature_.kind() != Kind::none;
    if (column_of_[c] >= 0) rows.columns[static_cast<std::size_t>(column_of_[c])][row] = scalar();
  }
  signatures_.add(signature, place);
  if (signatures_.counts.contains(signature) && !signature_names_.contains(signature)) {
    std::vector<std::string>& names = signature_names_[signature];
    for (std::size_t c = 0; c < profiles_.size(); ++c)
      if (locator_.slices()[c].data) names.push_back(profiles_[c].name);
  }
  if (!some) empty_.add(place);
  with_lists_ += lists;
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
      return;
    }
    if (format != 0 || !is_text(value)) {
      profile.not_text.add(place);
      return;
    }
    ++profile.texts;
    profile.numeric_texts += is_number(value);
    if (is_space(value.front()) || is_space(value.back())) profile.padded.add(place);
    if (!single || profile.scalars.full) return;
    const std::uint64_t hash = xxh64(value, 0);
    profile.scalars.add(hash, place);
    if (profile.texts_by_hash.size() < kTally && !profile.texts_by_hash.contains(hash))
      profile.texts_by_hash.emplace(
          hash, std::string(reinterpret_cast<const char*>(value.data()), std::min(value.size(), kLongestText)));
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
  for (T& value : values) pass(archive, value);
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
  all(p.min_size, p.max_size, p.texts, p.numeric_texts, p.formats, p.format_places, p.not_text, p.empty, p.padded);
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
