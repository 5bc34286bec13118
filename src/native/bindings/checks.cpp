// Facts about all records, from which schemas are inferred and findings are made.
#include <nanobind/stl/pair.h>

#include <array>

#include "bindings/bindings.h"
#include "bindings/conversion.h"
#include "matrix.h"
#include "profile.h"
#include "shuffle.h"
#include "survey.h"

namespace bushel {
namespace {

nb::dict to_dict(const FeatureFacts& facts) {
  nb::dict out;
  out["name"] = to_str(facts.name);
  out["sequence"] = facts.sequence;
  out["records"] = facts.records;
  out["kinds"] = nb::make_tuple(facts.kinds[0], facts.kinds[1], facts.kinds[2], facts.kinds[3]);
  out["min_count"] = facts.min_count;
  out["max_count"] = facts.max_count;
  out["values"] = facts.values;
  out["min_steps"] = facts.min_steps;
  out["max_steps"] = facts.max_steps;
  out["wire_bytes"] = facts.wire_bytes;
  out["min_int"] = facts.min_int;
  out["max_int"] = facts.max_int;
  out["min_float"] = facts.min_float;
  out["max_float"] = facts.max_float;
  out["finite"] = facts.finite;
  out["nans"] = facts.nans;
  out["infinities"] = facts.infinities;
  out["min_size"] = facts.min_size;
  out["max_size"] = facts.max_size;
  out["text"] = facts.text;
  nb::list formats;
  for (const std::uint64_t count : facts.formats) formats.append(count);
  out["formats"] = nb::tuple(formats);
  return out;
}

nb::list add_to_survey(Survey& survey, nb::handle file, const Extents& extents, bool verify) {
  const View view(file);
  std::vector<RowFault> faults;
  {
    const Nogil nogil;
    faults = survey.add(view.bytes(), span_of(extents), verify);
  }
  return to_list(faults);
}

nb::dict survey_result(const Survey& survey) {
  nb::list features;
  for (const FeatureFacts& facts : survey.features()) features.append(to_dict(facts));
  nb::dict out;
  out["records"] = survey.records();
  out["with_lists"] = survey.with_lists();
  out["empty"] = survey.empty();
  out["features"] = features;
  return out;
}

nb::list to_list(const Sightings& places) {
  nb::list first;
  for (const Sighting& place : places.first) first.append(nb::make_tuple(place.file, place.record));
  nb::list out;
  out.append(places.count);
  out.append(first);
  return out;
}

// {value: (count, file, record)}, and whether there were more.
nb::tuple to_tuple(const Tally& tally) {
  nb::dict counts;
  for (const auto& [value, count] : tally.counts) {
    const Sighting place = tally.where.at(value);
    counts[nb::cast(value)] = nb::make_tuple(count, place.file, place.record);
  }
  return nb::make_tuple(counts, tally.full);
}

template <typename Sightings, std::size_t n>
nb::list to_list(const std::array<Sightings, n>& all) {
  nb::list out;
  for (const auto& one : all) {
    if constexpr (std::is_integral_v<Sightings>) {
      out.append(one);
    } else {
      out.append(to_list(one));
    }
  }
  return out;
}

nb::dict to_dict(const FeatureProfile& profile) {
  nb::dict out;
  out["name"] = to_str(profile.name);
  out["sequence"] = profile.sequence;
  out["records"] = profile.records;
  out["values"] = profile.values;
  out["kinds"] = to_list(profile.kinds);
  out["kind_places"] = to_list(profile.kind_places);
  out["lengths"] = to_tuple(profile.lengths);
  out["min_count"] = profile.min_count;
  out["max_count"] = profile.max_count;
  out["nans"] = to_list(profile.nans);
  out["infinities"] = to_list(profile.infinities);
  out["finite"] = profile.finite;
  out["zeros"] = profile.zeros;
  out["min"] = profile.min;
  out["max"] = profile.max;
  out["at_min"] = profile.at_min;
  out["at_max"] = profile.at_max;
  out["min_place"] = nb::make_tuple(profile.min_place.file, profile.min_place.record);
  out["max_place"] = nb::make_tuple(profile.max_place.file, profile.max_place.record);
  out["sum"] = profile.sum;
  out["squares"] = profile.squares;
  out["sample"] = copy_to_array(profile.sample.values, {profile.sample.values.size()});
  out["scalars"] = to_tuple(profile.scalars);
  out["position_min"] = copy_to_array(profile.position_min, {profile.positions ? profile.position_min.size() : 0});
  out["position_max"] = copy_to_array(profile.position_max, {profile.positions ? profile.position_max.size() : 0});
  out["min_size"] = profile.min_size;
  out["max_size"] = profile.max_size;
  out["texts"] = profile.texts;
  out["numeric_texts"] = profile.numeric_texts;
  out["formats"] = to_list(profile.formats);
  out["format_places"] = to_list(profile.format_places);
  out["not_text"] = to_list(profile.not_text);
  out["empty"] = to_list(profile.empty);
  out["not_utf8"] = to_list(profile.not_utf8);
  out["padded"] = to_list(profile.padded);
  out["sizes"] = to_tuple(profile.sizes);
  nb::dict texts;
  for (const auto& [hash, text] : profile.texts_by_hash) texts[nb::cast(hash)] = to_str(text);
  out["texts_by_hash"] = texts;
  return out;
}

std::vector<std::string> strings_of(nb::sequence names) {
  std::vector<std::string> result;
  for (const nb::handle name : names) result.push_back(from_str(name));
  return result;
}

// (faults, arrays of the columns asked for, hashes of the contents).
nb::tuple add_to_profile(Profile& profile, nb::handle file, const Extents& extents, std::uint32_t file_id,
                         std::uint64_t first) {
  const View view(file);
  ProfileRows rows;
  {
    const Nogil nogil;
    rows = profile.add(view.bytes(), span_of(extents), file_id, first);
  }
  nb::list columns;
  for (std::vector<std::int64_t>& column : rows.columns) {
    const std::size_t count = column.size();
    columns.append(move_to_array(std::move(column), {count}));
  }
  const std::size_t hashed = rows.hashes.size() / 2;
  return nb::make_tuple(to_list(rows.faults), columns, move_to_array(std::move(rows.hashes), {hashed, 2}));
}

// (name, some values) of every feature.
nb::list profile_samples(const Profile& profile) {
  nb::list samples;
  for (const FeatureProfile& feature : profile.features()) {
    const std::vector<double>& values = feature.sample.values;
    samples.append(nb::make_tuple(to_str(feature.name), copy_to_array(values, {values.size()})));
  }
  return samples;
}

nb::dict profile_result(const Profile& profile) {
  nb::list features;
  for (const FeatureProfile& feature : profile.features()) features.append(to_dict(feature));
  nb::dict names;
  for (const auto& [signature, texts] : profile.signature_names()) {
    nb::list list;
    for (const std::string& text : texts) list.append(to_str(text));
    names[nb::cast(signature)] = list;
  }
  nb::dict out;
  out["records"] = profile.records();
  out["with_lists"] = profile.with_lists();
  out["malformed"] = to_list(profile.malformed());
  out["empty"] = to_list(profile.empty());
  out["signatures"] = to_tuple(profile.signatures());
  out["signature_names"] = names;
  out["features"] = features;
  return out;
}

using Codes = nb::ndarray<const std::int32_t, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::tuple simulate_order(const Codes& labels, std::size_t classes, std::size_t buffer, std::size_t batch,
                         std::uint64_t seed) {
  Mixing mixing;
  {
    const Nogil nogil;
    mixing = simulate({labels.data(), labels.shape(0)}, classes, buffer, batch, seed);
  }
  return nb::make_tuple(mixing.classes, mixing.single_class, mixing.batches);
}

nb::bytes save_profile(const Profile& profile) {
  std::string saved;
  {
    const Nogil nogil;
    saved = profile.save();
  }
  return nb::bytes(saved.data(), saved.size());
}

void merge_profile(Profile& profile, const Profile& other) {
  const Nogil nogil;
  profile.merge(other);
}

void merge_saved(Profile& profile, nb::handle saved) {
  const View view(saved);
  bool is_whole = false;
  {
    const Nogil nogil;
    Profile other{ProfileRequest{}};
    is_whole = Profile::load(view.bytes(), other);
    if (is_whole) profile.merge(other);
  }
  if (!is_whole) throw nb::value_error("saved must be what a profile saved");
}

using Hashes = nb::ndarray<const std::uint64_t, nb::shape<-1, 2>, nb::c_contig, nb::device::cpu>;

// (rows as bytes, sorted by partition; how many each partition has). `labels` is as long as `hashes`, or empty.
nb::tuple make_contents(const Hashes& hashes, const Int64s& labels, std::uint32_t file, std::uint64_t first) {
  if (labels.shape(0) != 0 && labels.shape(0) != hashes.shape(0))
    throw nb::value_error("labels must be as many as hashes, or none");
  Buffer rows;
  std::array<std::int64_t, kPartitions> counts;
  {
    const Nogil nogil;
    rows =
        partition_contents({hashes.data(), 2 * hashes.shape(0)}, {labels.data(), labels.shape(0)}, file, first, counts);
  }
  return nb::make_tuple(to_array<std::uint8_t>(std::move(rows)),
                        copy_to_array(std::vector<std::int64_t>(counts.begin(), counts.end()), {counts.size()}));
}

// (values by row, whether each column holds bytes).
nb::tuple make_matrix(nb::handle file, const Extents& extents, nb::sequence columns) {
  const View view(file);
  std::vector<MatrixColumn> wanted;
  std::size_t width = 0;
  for (const nb::handle column : columns) {
    const auto [name, values] = nb::cast<std::pair<nb::object, std::size_t>>(column);
    wanted.push_back({{from_str(name)}, values});
    width += values;
  }
  Matrix matrix;
  {
    const Nogil nogil;
    matrix = matrix_of(view.bytes(), span_of(extents), wanted);
  }
  return nb::make_tuple(copy_to_array(matrix.values, {extents.shape(0), width}),
                        copy_to_array(matrix.texts, {matrix.texts.size()}));
}

void make_profile(Profile* place, nb::sequence columns, nb::sequence identity, bool verify, bool values, bool hashes) {
  new (place) Profile(ProfileRequest{strings_of(columns), strings_of(identity), verify, values, hashes});
}

}  // namespace

void bind_checks(nb::module_& m) {
  nb::class_<Survey>(m, "Survey", "Facts about the features of records.")
      .def(nb::init<>())
      .def("add", &add_to_survey, "file"_a, "extents"_a, "verify"_a,
           "Looks at more records; (row, fault, feature) of those at fault.")
      .def("result", &survey_result, "The facts so far.");
  nb::class_<Profile>(m, "Profile", "All that checks need to know about records, from one pass.")
      .def("__init__", &make_profile, "columns"_a, "identity"_a, "verify"_a, "values"_a, "hashes"_a)
      .def("add", &add_to_profile, "file"_a, "extents"_a, "file_id"_a, "first"_a,
           "Looks at more records; (faults, columns asked for, hashes of contents).")
      .def("merge", &merge_profile, "other"_a, "Takes over what another profile has seen.")
      .def("save", &save_profile, "What was seen so far, for another process.")
      .def("merge_saved", &merge_saved, "saved"_a, "Takes over what a profile of another process has saved.")
      .def("samples", &profile_samples, "(name, some of the numbers) of every feature.")
      .def("result", &profile_result, "What was seen so far.");
  m.def("contents", &make_contents, "hashes"_a, "labels"_a, "file"_a, "first"_a,
        "(rows of `duplicates.ROW` as bytes, sorted by partition; the size of each partition).");
  m.def("matrix", &make_matrix, "file"_a, "extents"_a, "columns"_a,
        "(numbers of each record, 1 for columns of bytes) of (name, width); NaN where there are not so many values.");
  m.def("simulate_order", &simulate_order, "labels"_a, "classes"_a, "buffer"_a, "batch"_a, "seed"_a,
        "(classes in a batch, share of batches of one class, batches) after a shuffle buffer. `labels` must be codes "
        "below `classes`.");
}

}  // namespace bushel
