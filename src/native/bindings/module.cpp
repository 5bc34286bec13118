#include "bindings/bindings.h"

NB_MODULE(_native, m) {
  using namespace bushel;
  m.doc() = "The C++ core of bushel.";
  nb::set_leak_warnings(false);  // what a script still holds when Python exits is not a leak
  bind_records(m);
  bind_columns(m);
  bind_samples(m);
  bind_building(m);
  bind_checks(m);
  bind_shards(m);
  bind_batches(m);
  bind_texts(m);
  bind_images(m);
  bind_pixels(m);
}
