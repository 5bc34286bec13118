#include <cmath>
#include <limits>

#include "build.h"
#include "check.h"
#include "rows.h"
#include "survey.h"

using namespace bushel;
using build::entry;
using build::Exact;
using build::example;
using build::ints;
using namespace std::string_view_literals;

namespace {

std::vector<RowFault> add_to(Survey& survey, const std::vector<std::string>& records) {
  const Exact file(build::file_of(records));
  return survey.add(file.bytes(), scan(file.bytes(), 0, UINT64_MAX, UINT64_MAX).extents, true);
}

bool text(std::string_view data) { return is_text(Exact(data).bytes()); }
Format format(std::string_view data) { return format_of(Exact(data).bytes()); }

}  // namespace

TEST(survey, facts_add_up_over_records) {
  Survey survey;
  const float infinity = std::numeric_limits<float>::infinity();
  CHECK(add_to(survey, {example(entry("i", ints({5, -7})) + entry("f", build::floats({1.5f, infinity, NAN, -2}))),
                        example(entry("i", ints({9})) + entry("b", build::strings({"text", ""}))), ""})
            .empty());
  CHECK(add_to(survey, {build::lists(entry("s", build::steps({ints({1}), ints({2, 3})})))}).empty());
  CHECK(survey.records() == 4 && survey.empty() == 1 && survey.with_lists() == 1 && survey.features().size() == 4);
  const FeatureFacts &i = survey.features()[0], &f = survey.features()[1], &b = survey.features()[2],
                     &s = survey.features()[3];
  CHECK(i.name == "i" && i.records == 2 && i.min_count == 1 && i.max_count == 2 && i.values == 3);
  CHECK(i.min_int == -7 && i.max_int == 9 && i.kinds[3] == 2);
  CHECK(f.min_float == -2 && f.max_float == 1.5f && f.finite == 2 && f.nans == 1 && f.infinities == 1);
  CHECK(b.text && b.min_size == 0 && b.max_size == 4 && b.formats[0] == 2);
  CHECK(s.sequence && s.min_steps == 2 && s.max_steps == 2 && s.min_count == 1 && s.max_count == 2 && s.records == 1);
}

TEST(survey, a_record_at_fault_leaves_nothing_of_itself) {
  Survey survey;
  const std::string bad = example(entry("i", ints({100})) + entry("j", "\x1a\x05"sv));
  const std::vector<RowFault> faults = add_to(survey, {example(entry("i", ints({1}))), bad});
  CHECK(faults.size() == 1 && faults[0].row == 1 && faults[0].fault == Fault::malformed);
  CHECK(survey.records() == 1 && survey.features()[0].max_int == 1);
  std::string damaged = build::file_of({example(entry("i", ints({100})))});
  damaged[kHeader + 3] ^= 1;
  const Exact file(damaged);
  const auto extents = scan(file.bytes(), 0, 9, UINT64_MAX).extents;
  CHECK(survey.add(file.bytes(), extents, true).size() == 1 && survey.records() == 1);
}

TEST(survey, a_feature_of_no_kind_is_in_no_record) {
  Survey survey;
  CHECK(add_to(survey, {example(entry("x", ""))}).empty());
  CHECK(survey.features()[0].records == 0 && survey.features()[0].kinds[0] == 1);
}

TEST(survey, images_are_told_by_their_first_bytes) {
  CHECK(format("\xff\xd8\xff\xe0") == Format::jpeg && format("\xff\xd8") == Format::other);
  CHECK(format("\x89PNG\r\n\x1a\n....") == Format::png && format("GIF89a") == Format::gif &&
        format("GIF87a") == Format::gif);
  CHECK(format("RIFF....WEBP") == Format::webp && format("RIFF....WAVE") == Format::other &&
        format("RIFF") == Format::other);
  CHECK(format("II*\0"sv) == Format::tiff && format("MM\0*"sv) == Format::tiff && format("") == Format::other);
  CHECK(format("BM" + std::string(30, '\0')) == Format::bmp &&
        format("BM, as in Bee Movie, is a text") == Format::other);
}

TEST(survey, text_is_utf8_without_control_characters) {
  CHECK(text("") && text("plain words, more than eight") && text("tab\tand\nline\r\n"));
  CHECK(text("caf\xc3\xa9 \xe2\x82\xac \xf0\x9f\x98\x80") && text("\xed\x9f\xbf\xee\x80\x80\xf4\x8f\xbf\xbf"));
  for (const std::string_view bad :
       {"\0"sv, "a\x01"sv, "12345678\x1f"sv, "\xff"sv, "\xc3"sv, "\xc0\x80"sv, "\xe0\x80\x80"sv, "\xed\xa0\x80"sv,
        "\xf0\x80\x80\x80"sv, "\xf4\x90\x80\x80"sv, "\xe2\x82"sv, "\x80"sv})
    CHECK(!text(bad));
}
