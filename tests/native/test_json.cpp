#include <cstdio>

#include "check.h"
#include "json.h"
#include "texts.h"

using namespace bushel;
using Strings = std::vector<std::string>;

namespace {

std::optional<JsonRows> parse(std::string_view text) { return parse_flat_lines(texts::bytes(text)); }
std::optional<JsonSummaries> survey(std::string_view text) { return survey_flat_lines(texts::bytes(text)); }

Strings strings(const JsonColumn& column) {
  Strings found;
  for (std::size_t i = 0; i + 1 < column.offsets.size(); ++i)
    found.emplace_back(column.data.data() + column.offsets[i], column.data.data() + column.offsets[i + 1]);
  return found;
}

}  // namespace

TEST(json, flat_objects_become_columns) {
  const auto rows = parse(
      "{\"text\": \"a b\", \"label\": -12}\n\n \t\r\n{ \"text\" :\"\" ,\"label\":0 }\r\n{\"text\":\"c\",\"label\":7}");
  CHECK(rows.has_value() && rows->rows == 3 && rows->columns.size() == 2);
  CHECK(rows->columns[0].name == "text" && rows->columns[0].is_text);
  CHECK(strings(rows->columns[0]) == Strings{"a b", "", "c"});
  CHECK(!rows->columns[1].is_text && rows->columns[1].integers == std::vector<std::int64_t>{-12, 0, 7});
}

TEST(json, escapes_are_undone) {
  const auto rows = parse(R"({"t": "\"\\\/\b\f\n\r\t\u0041\u00e9\u20AC\ud83d\ude00 and more than sixteen bytes"})");
  CHECK(rows.has_value());
  CHECK(strings(rows->columns[0]) ==
        Strings{"\"\\/\b\f\n\r\tA\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80 and more than sixteen bytes"});
}

TEST(json, whatever_is_different_is_for_another_parser) {
  for (const char* text : {
           "{\"a\": 1}\n{\"b\": 1}",
           "{\"a\": 1}\n{\"a\": \"1\"}",
           "{\"a\": 1}\n{\"a\": 1, \"b\": 2}",
           "{\"a\": 1, \"b\": 2}\n{\"a\": 1}",
           "{\"a\": 1, \"a\": 2}",
           "{\"a\": 1.5}",
           "{\"a\": 9999999999999999999}",
           "{\"a\": 1e3}",
           "{\"a\": null}",
           "{\"a\": true}",
           "{\"a\": [1]}",
           "{\"a\": {}}",
           "{}",
           "[]",
           "1",
           "{\"a\": 01}",
           "{\"a\": -0}",
           "{\"a\": -}",
           "{\"a\": 1234567890123456789}",
           "{\"a\": \"x}",
           "{\"a\": \"\\x\"}",
           "{\"a\": \"\\ud800\"}",
           "{\"a\": \"\\u12\"}",
           "{\"a\": \"\\udc00\"}",
           "{\"a\": \"\\ud800\\u0041\"}",
           "{\"a\": \"\n\"}",
           "{\"a\": \"\x01\"}",
           "{\"a\": 1,}",
           "{\"a\": 1} {\"a\": 1}",
           "{\"a\" 1}",
           "{\"a\": 1",
           "{\"a\": 1\n}",
           "{\"\\u0061\": 1}",
           "{a: 1}",
           "{\"a\": \"\\",
       })
    CHECK(!parse(text).has_value() && !survey(text).has_value());
  CHECK(parse("").has_value() && parse("")->rows == 0);
  CHECK(parse(" \n\n")->rows == 0);
}

TEST(json, more_columns_than_are_worth_it_are_for_another_parser) {
  std::string text = "{\"0\": 0";
  for (int i = 1; i < 16; ++i) text += ", \"" + std::to_string(i) + "\": 0";
  CHECK(parse(text + "}").has_value());
  CHECK(!parse(text + ", \"16\": 0}").has_value());
}

TEST(json, a_survey_finds_names_kinds_rows_and_newlines) {
  const auto found = survey("{\"text\": \"a b\", \"label\": -12}\n\n \t\r\n{ \"text\" :\"\" ,\"label\":0 }\r\n");
  CHECK(found.has_value() && found->rows == 2 && found->newlines == 4 && found->columns.size() == 2);
  CHECK(found->columns[0].name == "text" && found->columns[0].is_text);
  CHECK(found->columns[1].name == "label" && !found->columns[1].is_text);
  CHECK(survey(" \n\n")->rows == 0 && survey(" \n\n")->newlines == 2);
}

TEST(json, a_survey_keeps_few_values_in_the_order_in_which_they_occur) {
  const auto found = survey(
      R"({"t": "b\u0041", "n": 7}
{"t": "", "n": -1}
{"t": "b\u0041", "n": 7})");
  CHECK(found.has_value());
  CHECK(found->columns[0].has_few && found->columns[0].texts == Strings{"bA", ""});
  CHECK(found->columns[0].codes == std::vector<std::int8_t>{0, 1, 0});
  CHECK(found->columns[1].has_few && found->columns[1].integers == std::vector<std::int64_t>{7, -1});
  CHECK(found->columns[1].codes == std::vector<std::int8_t>{0, 1, 0});
}

TEST(json, a_survey_keeps_no_values_that_are_many_or_long) {
  std::string text;
  for (std::size_t i = 0; i < kFewValues; ++i) text += "{\"n\": " + std::to_string(i) + "}\n";
  CHECK(survey(text)->columns[0].has_few && survey(text)->columns[0].integers.size() == kFewValues);
  text += "{\"n\": 1000}\n";
  CHECK(!survey(text)->columns[0].has_few && survey(text)->rows == kFewValues + 1);
  const std::string longest(1000, 'x');
  const auto found = survey("{\"t\": \"x\"}\n{\"t\": \"" + longest + "\"}");
  CHECK(found.has_value() && found->rows == 2 && !found->columns[0].has_few);
}

TEST(json, a_span_is_surveyed_block_by_block) {
  const std::string text = "{\"t\": \"a\"}\n{\"t\": \"b\"}\n{\"t\": \"a long one\"}\n{\"t\": \"a\"}";
  std::FILE* file = std::tmpfile();
  CHECK(file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size());
  std::fflush(file);
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{15}, std::size_t{1000}}) {
    const auto found = survey_flat_span({fileno(file), 0, text.size(), bytes});
    CHECK(found.has_value() && found->all.rows == 4 && found->all.newlines == 3);
    CHECK(found->all.columns[0].texts == Strings{"a", "b", "a long one"});
    CHECK(found->all.columns[0].codes == std::vector<std::int8_t>{0, 1, 2, 0});
    CHECK(found->blocks.size() == (bytes == 1000 ? 2 : 4) && found->blocks.back().stop == text.size());
  }
  CHECK(!survey_flat_span({fileno(file), 0, text.size() + 1, 100}).has_value());
  CHECK(!survey_flat_span({fileno(file), 1, text.size(), 100}).has_value());
  std::fclose(file);
}
