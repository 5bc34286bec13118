// What checks need to know of records: everything is counted in one pass, in bounded memory.
#pragma once

#include <array>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "contents.h"
#include "survey.h"

namespace bushel {

inline constexpr std::size_t kShown = 5;          // places that are kept; all are counted
inline constexpr std::size_t kTally = 64;         // distinct values that are counted one by one
inline constexpr std::size_t kSample = 4096;      // values that are kept of a feature
inline constexpr std::size_t kPositions = 16384;  // widest vector whose positions are looked at one by one

struct Sighting {
  std::uint32_t file;
  std::uint64_t record;
};

// How often something was found, and where first.
struct Sightings {
  std::uint64_t count = 0;
  std::vector<Sighting> first;
  void add(Sighting place);
  void merge(const Sightings& other);
};

// Counts of distinct values, until there are too many of them.
struct Tally {
  std::map<std::uint64_t, std::uint64_t> counts;
  std::map<std::uint64_t, Sighting> where;
  bool full = false;
  void add(std::uint64_t value, Sighting place, std::uint64_t by = 1);
  void merge(const Tally& other);
};

// Every n-th value of a stream, so that at most kSample are kept.
struct Sample {
  std::vector<double> values;
  std::uint64_t stride = 1, next = 0;  // `next` values are skipped before one is kept
  template <typename T>
  void add(const T* from, std::size_t count);
  void merge(const Sample& other);
};

struct FeatureProfile {
  std::string name;
  bool sequence = false;
  std::uint64_t records = 0, values = 0;
  std::array<std::uint64_t, 4> kinds{};
  std::array<Sightings, 4> kind_places;
  Tally lengths;  // values in one record
  std::uint64_t min_count = UINT64_MAX, max_count = 0;
  // Numbers. The extremes are of the finite ones; how often each occurs reveals a sentinel.
  Sightings nans, infinities;
  std::uint64_t finite = 0, zeros = 0, at_min = 0, at_max = 0;
  double min = std::numeric_limits<double>::infinity(), max = -std::numeric_limits<double>::infinity();
  Sighting min_place{}, max_place{};
  double sum = 0, squares = 0;
  Sample sample;
  Tally scalars;  // of features that hold one value: the number's bits, or the hash of bytes
  std::vector<float> position_min, position_max;
  bool positions = true;  // false: lengths differ, or are too large
  // Bytes.
  std::uint64_t min_size = UINT64_MAX, max_size = 0, texts = 0, numeric_texts = 0;
  std::array<std::uint64_t, kFormats> formats{};
  std::array<Sightings, kFormats> format_places;
  Sightings not_text, not_utf8, empty, padded;
  Tally sizes;
  std::map<std::uint64_t, std::string> texts_by_hash;  // of `scalars`, shortened

  void merge(const FeatureProfile& other);
};

// A short text that came before and has nothing odd about it: one that comes again is only counted.
struct KnownText {
  std::uint64_t words[2] = {};
  std::uint64_t hash = 0, count = 0;
  std::size_t size = 0;  // 0: none is here
  bool is_number = false;
};
using KnownTexts = std::array<KnownText, 2 * kTally>;

// Values of one feature that stand alone in their records, and wait until there are enough to be counted together.
struct Waiting {
  Kind kind = Kind::none;
  std::vector<float> floats;
  std::vector<std::int64_t> ints;
  std::vector<std::uint64_t> records;  // of each number
  std::unique_ptr<KnownTexts> texts;
  bool forgot_texts = false;  // for good
};

// What to return of each record.
struct ProfileRequest {
  std::vector<std::string> columns;   // scalars, or hashes of bytes
  std::vector<std::string> identity;  // names that the content's hash leaves out
  bool verify = true;
  bool values = true;  // false: only the layout is read, no numbers
  bool hashes = false;
};

struct ProfileRows {
  std::vector<RowFault> faults;
  std::vector<std::vector<std::int64_t>> columns;  // kMissing where a record has none, or several
  std::vector<std::uint64_t> hashes;               // two per record
};

inline constexpr std::int64_t kMissing = INT64_MIN;

class Profile {
 public:
  explicit Profile(ProfileRequest request) : locator_({}, Locator::Others::add), request_(std::move(request)) {}

  // Looks at the records at `extents`; the first of them is number `first` of file number `file_id`.
  ProfileRows add(Bytes file, std::span<const Extent> extents, std::uint32_t file_id, std::uint64_t first);
  void merge(const Profile& other);

  // All counts as bytes, for another process on the same kind of machine; and a profile made from them, to be merged.
  std::string save() const;
  static bool load(Bytes saved, Profile& into);

  std::uint64_t records() const { return records_; }
  std::uint64_t with_lists() const { return with_lists_; }
  const Sightings& malformed() const { return malformed_; }
  const Sightings& empty() const { return empty_; }
  const Tally& signatures() const { return signatures_; }
  const std::map<std::uint64_t, std::vector<std::string>>& signature_names() const { return signature_names_; }
  const std::vector<FeatureProfile>& features() const { return profiles_; }

 private:
  template <typename Archive>
  void pass(Archive& archive);
  // The value of a feature that holds one number or text; none: it holds something else.
  struct Single {
    Kind kind = Kind::none;
    float number = 0;
    std::int64_t whole = 0;
    Bytes text;
  };

  // What the values of a name are for, apart from being counted.
  struct Role {
    ContentSeeds seeds;
    std::uint64_t mark = 0;  // those of a record's features add up to its signature
    int column = -1;         // the requested one
    bool sequence = false;
  };

  void add_all(std::span<const Extent> extents, std::uint64_t first, ProfileRows& rows);
  bool read_all();
  bool read_single(Slice slice, Single& single);
  bool decode(Slice feature);
  void take_record(Sighting place, ProfileRows& rows, std::size_t row);
  void take_single(std::size_t column, Sighting place);
  void take_several(std::size_t column, Slice slice, Sighting place);
  void take_text(std::size_t column, Sighting place);
  void take_feature(FeatureProfile& profile, Slice feature, Sighting place);
  void take_signature(std::uint64_t signature, Sighting place);
  void count_waiting(std::size_t column);
  void count_texts(std::size_t column);
  void forget_texts(std::size_t column);
  void count_all_waiting();
  template <typename T>
  void take_numbers(FeatureProfile& profile, const T* values, std::size_t count, Sighting place);
  void take_bytes(FeatureProfile& profile, Sighting place);
  std::int64_t scalar(std::size_t column) const;
  void learn_names();

  Bytes file_;
  std::uint32_t file_id_ = 0;
  Locator locator_;
  ProfileRequest request_;
  Feature feature_;
  std::vector<std::int64_t> ints_;
  std::vector<float> floats_;
  std::vector<FeatureProfile> profiles_;
  std::vector<Single> singles_;   // by name, of the last record
  std::vector<Waiting> waiting_;  // by name
  std::vector<Role> roles_;       // by name
  std::uint64_t records_ = 0, with_lists_ = 0;
  Sightings malformed_, empty_;
  Tally signatures_;
  std::uint64_t last_signature_ = 0, last_signatures_ = 0;  // that of the record before, and how many had it
  std::map<std::uint64_t, std::vector<std::string>> signature_names_;
};

}  // namespace bushel
