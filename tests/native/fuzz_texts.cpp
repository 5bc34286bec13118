// Any bytes as texts: tokens lie within them and in order, ids are those of the tokens, counts add up; or as JSON.
#include <cstdlib>

#include "delimited.h"
#include "json.h"
#include "terms.h"
#include "texts.h"

using namespace bushel;

namespace {

void demand(bool holds) {
  if (!holds) std::abort();
}

void check_unit(const texts::Rows& rows, Unit unit) {
  std::vector<std::string> all;
  for (std::size_t row = 0; row < rows.view().count(); ++row) {
    const Bytes text = rows.view().row(row);
    const std::uint8_t* at = text.data();
    for_each_token(text, unit, [&](Bytes token) {
      demand(!token.empty() && token.data() >= at && token.data() + token.size() <= text.data() + text.size());
      at = token.data() + token.size();
      all.push_back(texts::string(token));
    });
  }
  const texts::Rows known(all);
  const Vocabulary vocabulary(known.view());
  const Tokenised made = tokenise(rows.view(), unit, &vocabulary, kAnyLength);
  demand(made.tokens == all.size() && made.ids.size() == all.size() * sizeof(std::int64_t));
  demand(unit == Unit::byte || made.unknown == 0);
  for (std::size_t i = 0; i < all.size() && unit != Unit::byte; ++i)
    demand(texts::string(vocabulary.token(static_cast<std::size_t>(made.ids.as<std::int64_t>()[i] - kReserved))) ==
           all[i]);
  const Tokenised cut = tokenise(rows.view(), unit, &vocabulary, 2);
  demand(cut.tokens + cut.cut_tokens == all.size());

  TermCounter counter({unit, 1, 2});
  counter.add(rows.view());
  std::int64_t counted = 0;
  for (const TermCounter::Entry& entry : counter.ranked()) counted += entry.count;
  demand(counted >= static_cast<std::int64_t>(all.size()));
  hash_terms(rows.view(), {unit, 1, 2}, 7, true, {});
}

void check_rows(Bytes text, const std::vector<bool>& is_text) {
  const LastLine last = find_last_line(text);
  demand(last.end <= text.size() && last.quotes <= last.end);
  const auto found = survey_rows(text, ',', is_text);
  if (!found) return;
  demand(found->columns.size() == is_text.size() && found->newlines <= text.size());
  for (const DelimitedSummary& column : found->columns) {
    if (!column.has_few) continue;
    demand(column.codes.size() == found->rows);
    const auto values = static_cast<std::int64_t>(column.texts.size() + column.integers.size());
    for (const std::int8_t code : column.codes) demand(code >= -1 && code < values);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const std::size_t cut = size == 0 ? 0 : data[0] % size;
  const texts::Rows rows({text.substr(cut), "", text.substr(0, cut)});
  for (const Unit unit : {Unit::whitespace, Unit::word, Unit::character, Unit::byte}) check_unit(rows, unit);
  lower_ascii(rows.view());
  parse_flat_lines({data, size});
  for (const std::size_t width : {2, 3}) check_rows({data, size}, std::vector<bool>(width));
  return 0;
}
