// Texts cut into tokens, counted and weighed.
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include "bindings/bindings.h"
#include "bindings/conversion.h"
#include "delimited.h"
#include "json.h"
#include "terms.h"

namespace bushel {
namespace {

// Rows of text that live as long as the objects given.
class TextView {
 public:
  TextView(const Int64s& offsets, nb::handle data)
      : data_(data, PyBUF_C_CONTIGUOUS), texts_{{offsets.data(), offsets.shape(0)}, data_.bytes()} {
    if (!texts_.is_valid()) throw nb::value_error("offsets must be in order and within data");
  }
  const Texts& texts() const { return texts_; }

 private:
  View data_;
  Texts texts_;
};

Unit unit_named(std::string_view name) {
  if (name == "whitespace") return Unit::whitespace;
  if (name == "word") return Unit::word;
  if (name == "character") return Unit::character;
  if (name == "byte") return Unit::byte;
  throw nb::value_error("unit must be one of whitespace, word, character, byte");
}

TermsOf terms_of(std::string_view unit, std::size_t shortest, std::size_t longest) {
  if (shortest < 1 || longest < shortest) throw nb::value_error("terms must have 1 token or more, the longest most");
  return {unit_named(unit), shortest, longest};
}

Weighing weighing_of(std::string_view norm, bool sublinear, bool binary) {
  if (norm != "none" && norm != "l1" && norm != "l2") throw nb::value_error("norm must be one of none, l1, l2");
  return {norm == "l1" ? Norm::l1 : norm == "l2" ? Norm::l2 : Norm::none, sublinear, binary};
}

// (ids, splits or None, [tokens, unknown, rows cut, tokens cut])
nb::tuple tokenise_texts(const Int64s& offsets, nb::handle data, const std::string& unit, const Vocabulary* vocabulary,
                         std::int64_t length) {
  const TextView view(offsets, data);
  const Unit cut_into = unit_named(unit);
  const std::size_t most = length < 0 ? kAnyLength : static_cast<std::size_t>(length);
  if (most != kAnyLength && most != 0 && view.texts().count() > std::numeric_limits<std::int32_t>::max() / most * 64)
    throw nb::value_error("length must be such that a block of rows fits in memory");
  Tokenised made;
  {
    const Nogil nogil;
    made = tokenise(view.texts(), cut_into, vocabulary, most);
  }
  nb::object splits = made.splits.data() ? to_array<std::int64_t>(std::move(made.splits)) : nb::none();
  nb::object ids = made.ids.data() ? to_array<std::int64_t>(std::move(made.ids)) : copy_to_array<std::int64_t>({}, {0});
  return nb::make_tuple(ids, splits, nb::make_tuple(made.tokens, made.unknown, made.cut_rows, made.cut_tokens));
}

// (data, rows with more than ASCII)
nb::tuple lower_texts(const Int64s& offsets, nb::handle data) {
  const TextView view(offsets, data);
  Lowered made;
  {
    const Nogil nogil;
    made = lower_ascii(view.texts());
  }
  return nb::make_tuple(
      made.data.data() ? to_array<std::uint8_t>(std::move(made.data)) : copy_to_array<std::uint8_t>({}, {0}),
      made.others.data() ? to_array<std::uint8_t>(std::move(made.others)) : copy_to_array<std::uint8_t>({}, {0}));
}

std::size_t find_not_utf8(const Int64s& offsets, nb::handle data) {
  const TextView view(offsets, data);
  const Nogil nogil;
  return first_not_utf8(view.texts());
}

// [(name, offsets or None, data or integers)] and the number of rows; None if the lines are not that simple.
nb::object parse_lines(nb::handle text) {
  const View view(text, PyBUF_C_CONTIGUOUS);
  std::optional<JsonRows> found;
  {
    const Nogil nogil;
    found = parse_flat_lines(view.bytes());
  }
  if (!found) return nb::none();
  nb::list columns;
  for (JsonColumn& column : found->columns) {
    if (column.is_text) {
      const auto size = static_cast<std::size_t>(column.offsets.back());
      columns.append(nb::make_tuple(column.name, copy_to_array(column.offsets, {column.offsets.size()}),
                                    to_array<std::uint8_t>(std::move(column.data), size)));
    } else {
      columns.append(nb::make_tuple(column.name, nb::none(), copy_to_array(column.integers, {column.integers.size()})));
    }
  }
  return nb::make_tuple(columns, found->rows);
}

// The distinct values of a column of which there are few, which are texts or integers.
nb::list to_list(const std::vector<std::string>& texts, const std::vector<std::int64_t>& integers) {
  nb::list values;
  for (const std::string& one : texts)
    values.append(to_bytes({reinterpret_cast<const std::uint8_t*>(one.data()), one.size()}));
  for (const std::int64_t one : integers) values.append(one);
  return values;
}

nb::object codes_of(bool has_few, const std::vector<std::int8_t>& codes) {
  return has_few ? copy_to_array(codes, {codes.size()}) : nb::none();
}

// [(name, whether it is text, codes or None, values)]
nb::list to_list(const JsonSummaries& found) {
  nb::list columns;
  for (const JsonSummary& one : found.columns)
    columns.append(
        nb::make_tuple(one.name, one.is_text, codes_of(one.has_few, one.codes), to_list(one.texts, one.integers)));
  return columns;
}

// [(kind, whether values are missing, codes or None, values)]
nb::list to_list(const DelimitedSummaries& found) {
  nb::list columns;
  for (const DelimitedSummary& one : found.columns)
    columns.append(nb::make_tuple(static_cast<int>(one.kind), one.has_missing, codes_of(one.has_few, one.codes),
                                  to_list(one.texts, one.integers)));
  return columns;
}

// [(end, rows, newlines)]
nb::list to_list(const std::vector<SpanBlock>& blocks) {
  nb::list out;
  for (const SpanBlock& one : blocks) out.append(nb::make_tuple(one.stop, one.rows, one.newlines));
  return out;
}

// (columns, [(None, rows, newlines)]): all of it is one block; None if it is not that simple.
template <typename Survey>
nb::object survey_text(nb::handle text, Survey&& survey) {
  const View view(text, PyBUF_C_CONTIGUOUS);
  decltype(survey(view.bytes())) found;
  {
    const Nogil nogil;
    found = survey(view.bytes());
  }
  if (!found) return nb::none();
  nb::list blocks;
  blocks.append(nb::make_tuple(view.bytes().size(), found->rows, found->newlines));
  return nb::make_tuple(to_list(*found), blocks);
}

// (columns, [(end, rows, newlines)]); None if it is not that simple.
template <typename Survey>
nb::object survey_span(const Span& span, Survey&& survey) {
  if (span.begin > span.stop || span.block_bytes == 0) throw nb::value_error("a span must not end before it begins");
  decltype(survey(span)) found;
  {
    const Nogil nogil;
    found = survey(span);
  }
  if (!found) return nb::none();
  return nb::make_tuple(to_list(found->all), to_list(found->blocks));
}

nb::object survey_lines(nb::handle text) { return survey_text(text, survey_flat_lines); }

nb::object survey_lines_of(int file, std::uint64_t begin, std::uint64_t stop, std::size_t block_bytes) {
  return survey_span({file, begin, stop, block_bytes}, survey_flat_span);
}

std::vector<bool> bools_of(const nb::sequence& values) {
  std::vector<bool> out;
  for (nb::handle one : values) out.push_back(nb::cast<bool>(one));
  return out;
}

nb::object survey_delimited(nb::handle text, char delimiter, const nb::sequence& is_text) {
  const std::vector<bool> marks = bools_of(is_text);
  return survey_text(text, [&](Bytes bytes) { return survey_rows(bytes, delimiter, marks); });
}

nb::object survey_delimited_of(int file, std::uint64_t begin, std::uint64_t stop, std::size_t block_bytes,
                               char delimiter, const nb::sequence& is_text) {
  const std::vector<bool> marks = bools_of(is_text);
  return survey_span({file, begin, stop, block_bytes},
                     [&](const Span& span) { return survey_row_span(span, delimiter, marks); });
}

nb::tuple last_line(nb::handle text) {
  const View view(text, PyBUF_C_CONTIGUOUS);
  LastLine found;
  {
    const Nogil nogil;
    found = find_last_line(view.bytes());
  }
  return nb::make_tuple(found.end, found.quotes);
}

void make_vocabulary(Vocabulary* self, const Int64s& offsets, nb::handle data) {
  const TextView view(offsets, data);
  new (self) Vocabulary(view.texts());
}

void make_counter(TermCounter* self, const std::string& unit, std::size_t shortest, std::size_t longest) {
  new (self) TermCounter(terms_of(unit, shortest, longest));
}

void count_terms(TermCounter& self, const Int64s& offsets, nb::handle data) {
  const TextView view(offsets, data);
  const Nogil nogil;
  self.add(view.texts());
}

void add_term_counts(TermCounter& self, const Int64s& offsets, nb::handle data, const Int64s& counts,
                     const Int64s& texts) {
  const TextView view(offsets, data);
  const std::size_t rows = view.texts().count();
  if (counts.shape(0) != rows || texts.shape(0) != rows) throw nb::value_error("counts must have one number a term");
  const Nogil nogil;
  self.add_counts(view.texts(), {counts.data(), rows}, {texts.data(), rows});
}

// (offsets, data, counts, texts) of the terms: the most frequent first, or as they were first seen.
template <bool is_ranked>
nb::tuple counted_terms(const TermCounter& self) {
  std::vector<std::int64_t> offsets{0}, counts, texts;
  std::vector<std::uint8_t> data;
  const auto add = [&](const std::vector<TermCounter::Entry>& entries) {
    for (const TermCounter::Entry& entry : entries) {
      const Bytes term = self.term(entry);
      data.insert(data.end(), term.begin(), term.end());
      offsets.push_back(static_cast<std::int64_t>(data.size()));
      counts.push_back(entry.count);
      texts.push_back(entry.texts);
    }
  };
  {
    const Nogil nogil;
    if constexpr (is_ranked)
      add(self.ranked());
    else
      add(self.entries());
  }
  return nb::make_tuple(copy_to_array(offsets, {offsets.size()}), copy_to_array(data, {data.size()}),
                        copy_to_array(counts, {counts.size()}), copy_to_array(texts, {texts.size()}));
}

// (indices, values, splits)
nb::tuple to_tuple(SparseRows&& rows) {
  nb::object indices =
      rows.indices.data() ? to_array<std::int64_t>(std::move(rows.indices)) : copy_to_array<std::int64_t>({}, {0});
  nb::object values = rows.values.data() ? to_array<float>(std::move(rows.values)) : copy_to_array<float>({}, {0});
  return nb::make_tuple(indices, values, to_array<std::int64_t>(std::move(rows.splits)));
}

using Doubles = nb::ndarray<const double, nb::ndim<1>, nb::c_contig, nb::device::cpu>;

nb::tuple weigh_texts(const Int64s& offsets, nb::handle data, const std::string& unit,
                      std::pair<std::size_t, std::size_t> ngrams, const Vocabulary& vocabulary, const Doubles& weights,
                      const std::string& norm, bool sublinear, bool binary) {
  const TextView view(offsets, data);
  const TermsOf terms = terms_of(unit, ngrams.first, ngrams.second);
  const Weighing weighing = weighing_of(norm, sublinear, binary);
  if (weights.shape(0) != vocabulary.size()) throw nb::value_error("weights must have one number a term");
  SparseRows made;
  {
    const Nogil nogil;
    made = weigh_terms(view.texts(), terms, vocabulary, {weights.data(), weights.shape(0)}, weighing);
  }
  return to_tuple(std::move(made));
}

nb::tuple hash_texts(const Int64s& offsets, nb::handle data, const std::string& unit,
                     std::pair<std::size_t, std::size_t> ngrams, std::int64_t size, bool is_signed,
                     const std::string& norm, bool binary) {
  const TextView view(offsets, data);
  const TermsOf terms = terms_of(unit, ngrams.first, ngrams.second);
  const Weighing weighing = weighing_of(norm, false, binary);
  if (size < 1 || size > std::numeric_limits<std::int32_t>::max())
    throw nb::value_error("size must be at least 1 and below 2^31");
  SparseRows made;
  {
    const Nogil nogil;
    made = hash_terms(view.texts(), terms, size, is_signed, weighing);
  }
  return to_tuple(std::move(made));
}

nb::list to_list(std::span<const CodeRange> ranges) {
  nb::list out;
  for (const CodeRange& range : ranges) out.append(nb::make_tuple(range.first, range.last));
  return out;
}

}  // namespace

void bind_texts(nb::module_& m) {
  m.def("tokenise", &tokenise_texts, "offsets"_a, "data"_a, "unit"_a, "vocabulary"_a.none(), "length"_a,
        "(ids, splits, (tokens, unknown, rows cut, tokens cut)); splits is None where there is a length, -1 is none.");
  m.def("lower_ascii", &lower_texts, "offsets"_a, "data"_a,
        "(data with ASCII letters made small, rows that hold more).");
  m.def("first_not_utf8", &find_not_utf8, "offsets"_a, "data"_a,
        "The first row that is not UTF-8; the number of rows if there is none.");
  m.def("parse_flat_lines", &parse_lines, "text"_a,
        "([(name, offsets or None, data or integers)], rows) of flat JSON objects, one a line; None of anything else.");
  m.def("survey_flat_lines", &survey_lines, "text"_a,
        "([(name, is text, codes or None, values)], [(end, rows, newlines)]) of what `parse_flat_lines` parses, as one "
        "block; None of the rest.");
  m.def("survey_flat_span", &survey_lines_of, "file"_a, "begin"_a, "stop"_a, "block_bytes"_a,
        "The same of the lines of an open file, block by block.");
  m.def("survey_rows", &survey_delimited, "text"_a, "delimiter"_a, "is_text"_a,
        "([(kind, has missing, codes or None, values)], [(end, rows, newlines)]) of simple rows, where kind 0 is "
        "missing, "
        "1 integer, 2 real and 3 text; None of the rest.");
  m.def("survey_row_span", &survey_delimited_of, "file"_a, "begin"_a, "stop"_a, "block_bytes"_a, "delimiter"_a,
        "is_text"_a, "The same of the rows of an open file, block by block.");
  m.def("last_line", &last_line, "text"_a, "Where the last line ends, and how many quotes are before that.");
  m.def("word_ranges", [] { return to_list(word_ranges()); }, "First and last of the characters that make words.");
  m.def(
      "space_ranges", [] { return to_list(space_ranges()); }, "First and last of the characters that are whitespace.");
  nb::class_<Vocabulary>(m, "Vocabulary", "The ids of tokens: 2 and up, in the order given; 1 is any other.")
      .def("__init__", &make_vocabulary, "offsets"_a, "data"_a)
      .def("__len__", &Vocabulary::size);
  nb::class_<TermCounter>(m, "TermCounter", "How often each term occurs, and in how many texts.")
      .def("__init__", &make_counter, "unit"_a, "shortest"_a = 1, "longest"_a = 1)
      .def("add", &count_terms, "offsets"_a, "data"_a, "Counts the terms of more texts.")
      .def("add_counts", &add_term_counts, "offsets"_a, "data"_a, "counts"_a, "texts"_a,
           "Takes over what was counted elsewhere.")
      .def("counted", &counted_terms<false>, "(offsets, data, counts, texts), as they were first seen.")
      .def("ranked", &counted_terms<true>, "(offsets, data, counts, texts), most frequent first, then by code point.")
      .def("__len__", &TermCounter::size);
  m.def("weigh_terms", &weigh_texts, "offsets"_a, "data"_a, "unit"_a, "ngrams"_a, "vocabulary"_a, "weights"_a, "norm"_a,
        "sublinear"_a, "binary"_a, "(indices, values, splits) of counts times weights.");
  m.def("hash_terms", &hash_texts, "offsets"_a, "data"_a, "unit"_a, "ngrams"_a, "size"_a, "is_signed"_a, "norm"_a,
        "binary"_a, "(indices, values, splits) of counts by hash.");
}

}  // namespace bushel
