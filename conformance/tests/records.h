/* records.h - the record of a run that passed everything, and files that tests change. */
#ifndef KC_RECORDS_H
#define KC_RECORDS_H

#include "report/claim.h"
#include "runner/run.h"

/* Of a whole run at level 3, without options. */
kc_results record_sound(void);

/* Writes results, but for rules whose name is empty, and frees them. */
void record_write(kc_results *results, const char *path);

/* A file's content, which ends with a zero. */
char *file_content(const char *path, size_t *out_size);
void file_write(const char *path, const char *text, size_t size);

#endif /* KC_RECORDS_H */
