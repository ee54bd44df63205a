/* forms.h - compiled forms of regions, which belong to a program and are saved in its
 * file. */
#ifndef KEEL_FORMS_H
#define KEEL_FORMS_H

#include <stdatomic.h>

#include "program/fingerprint.h"

/* The compiled form of a graph, as kd_region_table.serialize returns it. */
typedef struct keel_form {
  keel_fingerprint graph;
  const char *maker; /* plugin/version/product/driver */
  /* a hash of the plugin's options, as values may be secret */
  uint64_t options;
  const void *data;
  uint64_t size, sum; /* bytes; keel_hash of them */
} keel_form;

typedef struct keel_forms {
  keel_form *list; /* ascending, no two of one order */
  uint32_t count, capacity;
  uint32_t bare;    /* regions that have none: their plugin gives none */
  bool failed;      /* memory ran out: some are missing */
  atomic_bool told; /* warned that one can't be used; once is enough */
  keel_arena arena; /* of texts and data that are not of a file */
} keel_forms;

/* By graph, maker and options: less than 0, 0, more than 0. */
int keel_form_order(const keel_form *a, const keel_form *b);

/* Adds a copy, unless there is an equal one. If memory runs out, it only sets `failed`:
 * compiling a region does not need this. */
void keel_forms_add(keel_forms *forms, const keel_form *form);

/* Finds the form of `wanted`'s graph, maker and options.
 * Returns KD_OK, KD_NOT_FOUND (none is there for such a device; no message),
 * KD_INCOMPATIBLE (those that are there for it are of another driver, version, product or
 * graph), KD_DATA_LOSS (its bytes have changed). */
keel_status keel_forms_find(const keel_forms *forms, const keel_form *wanted,
                            const keel_form **out_form);

/* Warns that a form can't be used; after the first time, logs at debug level. */
void keel_forms_warn(keel_forms *forms, const keel_log *log, const char *device,
                     const char *why);

/* Suppresses these warnings from now on. */
void keel_forms_no_warnings(keel_forms *forms);

void keel_forms_free(keel_forms *forms);

#endif /* KEEL_FORMS_H */
