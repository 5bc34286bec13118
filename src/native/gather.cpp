#include "gather.h"

#include "pause.h"

namespace bushel {

bool gather(const std::vector<Bytes>& pieces, const std::vector<Place>& places, std::uint8_t* out) {
  constexpr std::size_t kAhead = 16;  // records are far apart: fetch the next ones while this one is copied
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (i + kAhead < places.size()) {
      const Place& coming = places[i + kAhead];
      if (coming.piece < pieces.size() && coming.start < pieces[coming.piece].size())
        __builtin_prefetch(pieces[coming.piece].data() + coming.start);
    }
    const Place& place = places[i];
    breathe(place.length);
    if (place.piece >= pieces.size()) return false;
    const Bytes piece = pieces[place.piece];
    if (place.start > piece.size() || place.length > piece.size() - place.start) return false;
    if (place.length != 0) std::memcpy(out, piece.data() + place.start, place.length);
    out += place.length;
  }
  return true;
}

}  // namespace bushel
