// Any bytes as Example and SequenceExample: what the survey and the profile count, what decoding gives and what
// encoding makes of that must all be the same.
#include <algorithm>
#include <cstdlib>
#include <span>

#include "build.h"
#include "profile.h"
#include "rows.h"
#include "survey.h"

using namespace bushel;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

struct Surveyed {
  Survey survey;
  std::vector<Name> names;
  bool readable;

  explicit Surveyed(Bytes file) {
    const std::vector<Extent> extents = scan(file, 0, UINT64_MAX, UINT64_MAX).extents;
    readable = survey.add(file, extents, true).empty();
    for (const FeatureFacts& facts : survey.features()) names.push_back({facts.name, facts.sequence, Kind::none});
  }
};

void compare_with_survey(const Decoded& decoded, const Surveyed& surveyed) {
  for (std::size_t c = 0; c < surveyed.names.size(); ++c) {
    const FeatureFacts& facts = surveyed.survey.features()[c];
    const Column& column = decoded.columns[c];
    demand(rows::is_sound(column));
    demand(column.values == facts.values);
    for (std::size_t kind = 1; kind < 4; ++kind)
      demand((facts.kinds[kind] > 0) == (static_cast<std::size_t>(column.kind) == kind));
    if (column.kind == Kind::bytes && column.values == 1) demand(column.data.size() == facts.max_size);
  }
}

void compare_with_itself_encoded(const Decoded& decoded, const std::vector<Name>& names, std::size_t records) {
  std::vector<ColumnView> views;
  std::vector<Name> written;
  for (std::size_t c = 0; c < names.size(); ++c) {
    if (decoded.columns[c].kind == Kind::none) continue;
    views.push_back(rows::view(decoded.columns[c], names[c]));
    written.push_back(names[c]);
  }
  const Encoded encoded = encode(views, records, 1);
  demand(!encoded.too_large);
  const build::Exact file(rows::bytes_of(encoded));
  const Decoded again = rows::decode_all(file.bytes(), written);
  demand(again.faults.empty());
  std::vector<std::string> before(records);
  for (std::size_t c = 0; c < names.size(); ++c)
    if (decoded.columns[c].kind != Kind::none)
      for (std::size_t row = 0; row < records; ++row)
        before[row] += rows::cell(decoded.columns[c], names[c].sequence, row);
  demand(rows::of(again, written, records) == before);
}

struct Profiled {
  Profile profile{request()};

  // Of the records with these numbers.
  Profiled(Bytes file, std::size_t from, std::size_t to) {
    const std::vector<Extent> extents = scan(file, 0, UINT64_MAX, UINT64_MAX).extents;
    const std::span<const Extent> some = std::span(extents).subspan(from, std::min(to, extents.size()) - from);
    const ProfileRows rows = profile.add(file, some, 1, from);
    demand(rows.hashes.size() == 2 * some.size() && rows.columns[0].size() == some.size());
    demand(profile.records() + rows.faults.size() == some.size());
  }

  static ProfileRequest request() {
    ProfileRequest request;
    request.columns = {"x", "label"};
    request.identity = {"id"};
    request.hashes = true;
    return request;
  }
};

void compare_with_profile(const Survey& survey, const Profile& profile) {
  demand(profile.records() == survey.records() && profile.empty().count == survey.empty());
  for (const FeatureFacts& facts : survey.features())
    for (const FeatureProfile& found : profile.features())
      if (found.name == facts.name && found.sequence == facts.sequence) {
        demand(found.values == facts.values && found.nans.count == facts.nans);
        demand(found.infinities.count == facts.infinities);
      }
}

// A profile of all records is the profile of the first merged with that of the others.
void compare_with_itself_merged(Bytes file) {
  const Profiled all(file, 0, SIZE_MAX), others(file, 1, SIZE_MAX);
  Profiled some(file, 0, 1);
  some.profile.merge(others.profile);
  const Profile &first = some.profile, &whole = all.profile;
  demand(first.records() == whole.records() && first.malformed().count == whole.malformed().count);
  demand(first.signatures().counts == whole.signatures().counts);
  demand(first.features().size() <= whole.features().size());
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string message(reinterpret_cast<const char*>(data), size);
  const build::Exact one(build::framed(message));
  const Surveyed surveyed(one.bytes());
  compare_with_profile(surveyed.survey, Profiled(one.bytes(), 0, SIZE_MAX).profile);
  if (surveyed.readable) {
    const Decoded decoded = rows::decode_all(one.bytes(), surveyed.names);
    // Only steps of different kinds are no column, though each of them can be read.
    for (const RowFault& fault : decoded.faults) demand(fault.fault == Fault::wrong_kind);
    if (decoded.faults.empty()) {
      compare_with_survey(decoded, surveyed);
      compare_with_itself_encoded(decoded, surveyed.names, 1);
    }
  }
  // The same bytes as three records, cut where the first byte says: threads must not change what is found.
  const std::size_t cut = size == 0 ? 0 : data[0] % size;
  const build::Exact three(build::file_of({message.substr(cut), message, message.substr(0, cut)}));
  compare_with_itself_merged(three.bytes());
  std::vector<Name> names = Surveyed(three.bytes()).names;
  names.push_back({"x", false, Kind::none});
  const Decoded alone = rows::decode_all(three.bytes(), names, 1), parallel = rows::decode_all(three.bytes(), names, 3);
  for (const Column& column : alone.columns) demand(rows::is_sound(column));
  demand(rows::of(alone, names, 3) == rows::of(parallel, names, 3));
  return 0;
}
