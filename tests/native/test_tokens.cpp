#include <algorithm>
#include <cctype>

#include "check.h"
#include "texts.h"

using namespace bushel;
using Strings = std::vector<std::string>;

namespace {

bool holds(const Buffer& buffer, const std::vector<std::int64_t>& expected) {
  return buffer.size() == expected.size() * sizeof(std::int64_t) &&
         std::equal(expected.begin(), expected.end(), buffer.as<std::int64_t>());
}

}  // namespace

TEST(tokens, words_end_at_what_is_no_letter) {
  CHECK(texts::tokens("Don't stop, caf\xc3\xa9_2!", Unit::word) == Strings{"Don", "t", "stop", "caf\xc3\xa9_2"});
  CHECK(texts::tokens("a\xe2\x80\x94z", Unit::word) == Strings{"a", "z"});  // a dash of three bytes
  CHECK(texts::tokens("a\xffz", Unit::word) == Strings{"a", "z"});
  CHECK(texts::tokens(" ,;", Unit::word).empty());
  CHECK(texts::tokens("", Unit::word).empty());
}

TEST(tokens, whitespace_alone_ends_the_others) {
  CHECK(texts::tokens("  Don't\tstop,\xc2\xa0now\xe3\x80\x80! ", Unit::whitespace) ==
        Strings{"Don't", "stop,", "now", "!"});
  CHECK(texts::tokens("a\xffz", Unit::whitespace) == Strings{"a\xffz"});
}

TEST(tokens, runs_are_the_same_wherever_they_lie) {
  // Bytes are looked at 64 at a time: characters and runs that begin in one such stretch go on in the next.
  for (std::size_t before = 0; before < 140; ++before) {
    const std::string spaces(before, ' ');
    CHECK(texts::tokens(spaces + "caf\xc3\xa9 \xe3\x81\x82\xf0\xa0\x80\x80-b\xff\xc3", Unit::word) ==
          Strings{"caf\xc3\xa9", "\xe3\x81\x82\xf0\xa0\x80\x80", "b"});
    CHECK(texts::tokens(spaces + "a\xe3\x80\x80\xe2\x80\x94\xff\xc3 c", Unit::whitespace) ==
          Strings{"a", "\xe2\x80\x94\xff\xc3", "c"});
    const std::string letters(before + 1, 'x');
    CHECK(texts::tokens(letters, Unit::word) == Strings{letters});
    CHECK(texts::tokens(letters + "\xc3\xa9" + letters + ".", Unit::word) == Strings{letters + "\xc3\xa9" + letters});
  }
}

TEST(tokens, every_ascii_character_belongs_where_it_did) {
  for (int byte = 0; byte < 128; ++byte) {
    const std::string one(1, static_cast<char>(byte));
    const bool is_word = std::isalnum(byte) || byte == '_';
    const bool is_space = (byte >= 9 && byte <= 13) || (byte >= 28 && byte <= 32);
    CHECK(texts::tokens(one, Unit::word).size() == (is_word ? 1u : 0u));
    CHECK(texts::tokens(one, Unit::whitespace).size() == (is_space ? 0u : 1u));
  }
}

TEST(tokens, characters_are_whole) {
  CHECK(texts::tokens("a\xc3\xa9 \xf0\x9f\x98\x80", Unit::character) ==
        Strings{"a", "\xc3\xa9", " ", "\xf0\x9f\x98\x80"});
  CHECK(texts::tokens("\xc3", Unit::character) == Strings{"\xc3"});
}

TEST(tokens, ids_begin_behind_pad_and_unknown) {
  const texts::Rows known({"the", "a", "", "longer than sixteen bytes", "a"});
  const Vocabulary vocabulary(known.view());
  CHECK(vocabulary.size() == 5);
  CHECK(vocabulary.find(texts::bytes("the")) == 2);
  CHECK(vocabulary.find(texts::bytes("a")) == 3);  // the first of the two
  CHECK(vocabulary.find(texts::bytes("")) == 4);
  CHECK(vocabulary.find(texts::bytes("longer than sixteen bytes")) == 5);
  CHECK(vocabulary.find(texts::bytes("longer than sixteen byteS")) == kUnknown);
  CHECK(Vocabulary(texts::Rows({}).view()).find(texts::bytes("a")) == kUnknown);
}

TEST(tokens, many_tokens_are_all_found) {
  Strings many;
  for (int i = 0; i < 20'000; ++i) many.push_back(std::to_string(i * i));
  const texts::Rows rows(many);
  const Vocabulary vocabulary(rows.view());
  bool all = true;
  for (std::size_t i = 0; i < many.size(); ++i)
    all = all && vocabulary.find(texts::bytes(many[i])) == static_cast<std::int64_t>(i) + kReserved;
  CHECK(all);
}

TEST(tokens, rows_are_ragged_or_of_one_length) {
  const texts::Rows known({"a", "b"}), rows({"a b c", "", "b"});
  const Vocabulary vocabulary(known.view());
  const Tokenised ragged = tokenise(rows.view(), Unit::word, &vocabulary, kAnyLength);
  CHECK(holds(ragged.ids, {2, 3, 1, 3}));
  CHECK(holds(ragged.splits, {0, 3, 3, 4}));
  CHECK(ragged.tokens == 4 && ragged.unknown == 1 && ragged.cut_rows == 0);
  const Tokenised fixed = tokenise(rows.view(), Unit::word, &vocabulary, 2);
  CHECK(holds(fixed.ids, {2, 3, 0, 0, 3, 0}));
  CHECK(fixed.tokens == 3 && fixed.unknown == 0 && fixed.cut_rows == 1 && fixed.cut_tokens == 1);
}

TEST(tokens, bytes_need_no_vocabulary) {
  CHECK(holds(tokenise(texts::Rows({std::string("\0\xff", 2)}).view(), Unit::byte, nullptr, 3).ids, {2, 257, 0}));
  CHECK(holds(tokenise(texts::Rows({"a"}).view(), Unit::word, nullptr, 1).ids, {1}));
}

TEST(tokens, rows_that_do_not_fit_are_noticed) {
  const texts::Rows rows({"abc"});
  for (const std::vector<std::int64_t>& offsets : {std::vector<std::int64_t>{0, 4}, {-1, 2}, {0, 3, 2}, {}})
    CHECK(!Texts({offsets, texts::bytes(rows.data)}).is_valid());
  CHECK(rows.view().is_valid());
}

TEST(tokens, small_letters_and_rows_of_other_scripts) {
  const texts::Rows rows({"A-Z", "\xc3\x89", ""});
  const Lowered lowered = lower_ascii(rows.view());
  CHECK(std::string(lowered.data.data(), lowered.data.data() + lowered.data.size()) == "a-z\xc3\x89");
  CHECK(lowered.others.data()[0] == 0 && lowered.others.data()[1] == 1 && lowered.others.data()[2] == 0);
  CHECK(first_not_utf8(rows.view()) == 3);
  CHECK(first_not_utf8(texts::Rows({"a", "\xff"}).view()) == 1);
}
