#include <cstdio>

#include "check.h"
#include "delimited.h"
#include "few.h"
#include "texts.h"

using namespace bushel;
using Kind = DelimitedSummary::Kind;
using Strings = std::vector<std::string>;
using Codes = std::vector<std::int8_t>;

namespace {

std::optional<DelimitedSummaries> survey(std::string_view text, std::vector<bool> is_text = {false, false}) {
  return survey_rows(texts::bytes(text), ',', is_text);
}

}  // namespace

TEST(delimited, columns_are_integers_reals_text_or_missing) {
  const auto found =
      survey("1,-0.5,red,NA\n\n20,1e-5,\"a \"\"b\"\"\",\r\nnull,3,7,None\n", {false, false, false, false});
  CHECK(found.has_value() && found->rows == 3 && found->newlines == 4);
  CHECK(found->columns[0].kind == Kind::integer && found->columns[0].has_missing);
  CHECK(found->columns[0].integers == std::vector<std::int64_t>{1, 20} && found->columns[0].codes == Codes{0, 1, -1});
  CHECK(found->columns[1].kind == Kind::real && !found->columns[1].has_missing && !found->columns[1].has_few);
  CHECK(found->columns[2].kind == Kind::text && !found->columns[2].has_missing);
  CHECK(found->columns[2].texts == Strings{"red", "a \"b\"", "7"} && found->columns[2].codes == Codes{0, 1, 2});
  CHECK(found->columns[3].kind == Kind::missing && found->columns[3].has_missing && !found->columns[3].has_few);
}

TEST(delimited, text_has_no_blanks_around_it_and_is_missing_if_nothing_else_is_left) {
  const auto found = survey("word, x\n \t,\"x \"\nword ,word\n");
  CHECK(found.has_value() && found->columns[0].has_missing && !found->columns[1].has_missing);
  CHECK(found->columns[0].texts == Strings{"word"} && found->columns[0].codes == Codes{0, -1, 0});
  CHECK(found->columns[1].texts == Strings{"x", "word"} && found->columns[1].codes == Codes{0, 0, 1});
}

TEST(delimited, newlines_in_quotes_are_of_the_value_and_counted) {
  const auto found = survey("\"two\nlines\",1\n\"x,y\",2");
  CHECK(found.has_value() && found->rows == 2 && found->newlines == 2);
  CHECK(found->columns[0].texts == Strings{"two\nlines", "x,y"});
}

TEST(delimited, whatever_is_not_certain_is_for_another_parser) {
  for (const char* value : {"true",
                            "FALSE",
                            "inf",
                            "Nan",
                            "NAN(1)",
                            "2020-01-01",
                            "12:30",
                            "0x1F",
                            "+1",
                            "-",
                            "-0",
                            "007",
                            "1.",
                            ".5",
                            "1e",
                            "1e100",
                            "1e18",
                            " 1",
                            "1 ",
                            "\xe2\x82\xac"
                            "5",
                            "\xc2\xa3"
                            "3",
                            "$5",
                            "1 %",
                            "  ",
                            "1234567890123456789",
                            "#",
                            "a\"b",
                            "\"x\"y",
                            "\"x",
                            "x\ry"})
    CHECK(!survey(std::string(value) + ",1\n").has_value());
  for (const char* text : {"1\n", "1,2,3\n", "1,2\n3\n", "1,2\n3,4,5\n", " \n1,2\n", "\r1,2\n"})
    CHECK(!survey(text).has_value());
  CHECK(!survey("1\n2\n", {false}).has_value());
  CHECK(survey("").has_value() && survey("\n\r\n")->rows == 0);
  CHECK(survey("\xef\xbb\xbf"
               "1,2\n")
            ->columns[0]
            .kind == Kind::integer);  // a byte order mark is no letter
}

TEST(delimited, a_column_with_a_word_is_text_whatever_else_it_holds) {
  const auto found = survey("true,1\n2020-01-01,2\nword,3\n");
  CHECK(found.has_value() && found->columns[0].kind == Kind::text);
  CHECK(survey("word,1\n", {true, false}).has_value() && !survey("word,1\n", {true, true}).has_value());
}

TEST(delimited, many_or_long_values_are_not_kept) {
  std::string text;
  for (std::size_t i = 0; i < kFewValues; ++i) text += std::to_string(i) + ",x" + std::to_string(i) + "\n";
  CHECK(survey(text)->columns[0].has_few && survey(text)->columns[1].texts.size() == kFewValues);
  text += "1000,x\n";
  CHECK(!survey(text)->columns[0].has_few && !survey(text)->columns[1].has_few);
  CHECK(!survey(std::string(kLongValue + 1, 'x') + ",1\n")->columns[0].has_few);
}

TEST(delimited, the_last_line_and_the_quotes_before_its_end_are_found) {
  const auto last = [](std::string_view text) { return find_last_line(texts::bytes(text)); };
  CHECK(last("").end == 0 && last("x\"").end == 0 && last("x\"").quotes == 0);
  CHECK(last("\"a\"\n\"b").end == 4 && last("\"a\"\n\"b").quotes == 2);
  const std::string many(1000, '"');
  CHECK(last(many + "\n").end == 1001 && last(many + "\n").quotes == 1000);
}

namespace {

// A file that disappears when it is closed.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::string_view text) : file_(std::tmpfile()) {
    CHECK(file_ != nullptr && std::fwrite(text.data(), 1, text.size(), file_) == text.size());
    std::fflush(file_);
  }
  ~TemporaryFile() { std::fclose(file_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  Span span(std::uint64_t begin, std::uint64_t stop, std::size_t bytes) const {
    return {fileno(file_), begin, stop, bytes};
  }

 private:
  std::FILE* file_;
};

}  // namespace

TEST(delimited, a_span_is_read_in_blocks_of_whole_rows) {
  const std::string text = "x,y\n1,red\n2,blue\n3,\"a\nb\"\n4,red";
  const TemporaryFile file(text);
  for (const std::size_t bytes : {std::size_t{7}, std::size_t{5}, std::size_t{1000}}) {
    const auto found = survey_row_span(file.span(4, text.size(), bytes), ',', {false, false});
    CHECK(found.has_value() == (bytes != 5));  // where the end of a block would be between quotes, others take over
    if (!found) continue;
    CHECK(found->all.rows == 4 && found->all.newlines == 4 && found->blocks.back().stop == text.size());
    CHECK(found->all.columns[1].texts == Strings{"red", "blue", "a\nb"} &&
          found->all.columns[1].codes == Codes{0, 1, 2, 0});
    std::size_t rows = 0;
    for (const SpanBlock& block : found->blocks) {
      rows += block.rows;
      CHECK(block.stop == text.size() || text[block.stop - 1] == '\n');
    }
    CHECK(rows == 4);
  }
}

TEST(delimited, a_span_whose_blocks_differ_or_that_is_not_there_is_for_another_parser) {
  const TemporaryFile file("1,x\n2,x\nword,x\n");
  CHECK(survey_row_span(file.span(0, 8, 4), ',', {false, false}).has_value());
  CHECK(!survey_row_span(file.span(0, 15, 4), ',', {false, false}).has_value());
  CHECK(!survey_row_span(file.span(0, 100, 1000), ',', {false, false}).has_value());
  CHECK(!survey_row_span({-1, 0, 8, 4}, ',', {false, false}).has_value());
}

TEST(delimited, what_is_not_utf8_in_a_span_is_for_another_parser) {
  const TemporaryFile file("caf\xe9,1\n");
  CHECK(!survey_row_span(file.span(0, 7, 100), ',', {false, false}).has_value());
}
