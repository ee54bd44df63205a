/* mem.h - the checks of mem_external.c, which stand in mem.c's table. */
#ifndef KC_RULES_MEM_H
#define KC_RULES_MEM_H

#include <kd/kd.h>

/* Releases a buffer of the device under test. */
void mem_give(kd_buffer *buffer);

void mem_import(void);
void mem_import_readonly(void);
void mem_export(void);
void mem_import_descriptor(void);

#endif /* KC_RULES_MEM_H */
