/* mem.h - what the checks of memory share, and those that stand in mem.c's table. */
#ifndef KC_RULES_MEM_H
#define KC_RULES_MEM_H

#include <kd/kd.h>
#include <stdbool.h>

/* Takes buffers of `each` bytes until there is no memory (`refused`), or --max-memory or
 * `room` is reached; returns how many. */
uint32_t mem_exhaust(kd_buffer **buffers, uint32_t capacity, uint64_t each,
                     bool *out_refused);

/* Releases a buffer of the device under test. */
void mem_give(kd_buffer *buffer);

/* mem_full.c */
void mem_full_launch(void);

/* mem_external.c */
void mem_import(void);
void mem_import_readonly(void);
void mem_export(void);
void mem_import_descriptor(void);

#endif /* KC_RULES_MEM_H */
