// Messages of libjpeg as text: its own handlers print and exit.
#pragma once

#include <cstdio>
// after <cstdio>, which it needs
#include <jpeglib.h>

namespace bushel {

// Handlers that only do what is given here. `leave` must not return; `note` gets warnings (level -1) and traces.
void set_jpeg_errors(jpeg_error_mgr& errors, void (*leave)(j_common_ptr), void (*note)(j_common_ptr, int level));

}  // namespace bushel
