#include "check.h"
#include "texts.h"

using namespace bushel;

TEST(letters, utf8_is_taken_apart) {
  const std::string text = "a\xc3\xa9\xe6\x97\xa5\xf0\x9f\x98\x80";  // a é 日 and a face
  const std::vector<std::uint32_t> codes = {'a', 0xe9, 0x65e5, 0x1f600};
  std::size_t at = 0;
  for (const std::uint32_t code : codes) {
    const Character character = character_at(texts::bytes(text), at);
    CHECK(character.code == code);
    at += character.size;
  }
  CHECK(at == text.size());
  CHECK(is_utf8(texts::bytes(text)));
}

TEST(letters, what_is_not_utf8_is_noticed) {
  const std::vector<std::string> bad = {
      "\x80",              // continues nothing
      "\xc3",              // cut off
      "\xe6\x97",          // cut off
      "\xc0\xaf",          // a slash in two bytes
      "\xe0\x80\xaf",      // a slash in three
      "\xf0\x80\x80\xaf",  // a slash in four
      "\xed\xa0\x80",      // half of a pair
      "\xf4\x90\x80\x80",  // beyond the last character
      "\xff",
      "eight ascii bytes, then \xc3(",
  };
  for (const std::string& text : bad) CHECK(!is_utf8(texts::bytes(text)));
  CHECK(is_utf8({}));
}

TEST(letters, words_have_letters_marks_and_numbers_of_every_script) {
  for (const std::uint32_t code :
       std::vector<std::uint32_t>{'a', 'Z', '0', '_', 0xe9, 0x416, 0x65e5, 0x93f, 0x301, 0x661, 0x2160})
    CHECK(is_word(code));
  for (const std::uint32_t code : std::vector<std::uint32_t>{' ', '-', '\'', 0xa0, 0x2014, 0x1f600, 0x200b, 0x110000})
    CHECK(!is_word(code));
}

TEST(letters, whitespace_is_that_of_every_script) {
  for (const std::uint32_t code :
       std::vector<std::uint32_t>{' ', '\t', '\n', '\v', '\f', '\r', 0x1c, 0x85, 0xa0, 0x2003, 0x3000})
    CHECK(is_space(code));
  for (const std::uint32_t code : std::vector<std::uint32_t>{'a', 0, 0x200b, 0xfeff, 0x110000}) CHECK(!is_space(code));
}
