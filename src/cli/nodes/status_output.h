// A cluster's state as a page of text.
#pragma once
#include <cstdint>
#include <string>

#include "cluster/member/status.h"

namespace butterfly::cli {

// A line on what is served, the table NAME STATE ROLE CPU RAM DISK LAYERS TOK/S LINK VERSION, what the loss
// of each node would mean, the last failure and the last events. Ends with a newline. Where `columns` are too
// few for the table, the columns that matter least are left out.
std::string status_text(const cluster::ClusterStatus& status, size_t events_max = 5,
                        size_t columns = SIZE_MAX);

// The text as a page that is drawn over the one before, without flicker: from the top, each line to its end,
// nothing left below. Of a longer text the first lines, of longer lines the first columns.
std::string page_over(const std::string& text, size_t rows, size_t columns);

}  // namespace butterfly::cli
