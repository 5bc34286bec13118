// The only folder that knows Python: converts, never decides. The GIL is released around all work on data.
#pragma once

#include <nanobind/nanobind.h>

namespace nb = nanobind;

namespace bushel {

void bind_records(nb::module_& m);
void bind_columns(nb::module_& m);
void bind_samples(nb::module_& m);
void bind_building(nb::module_& m);
void bind_checks(nb::module_& m);
void bind_shards(nb::module_& m);
void bind_batches(nb::module_& m);
void bind_texts(nb::module_& m);
void bind_images(nb::module_& m);
void bind_pixels(nb::module_& m);

}  // namespace bushel
