/* list.h - all passes, in their order. */
#ifndef KEEL_LIST_H
#define KEEL_LIST_H

#include "passes/passes.h"

extern const keel_pass keel_all_passes[];
extern const uint32_t keel_all_passes_count;

#endif /* KEEL_LIST_H */
