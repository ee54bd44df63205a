/* slots.h - the list of all slots (slots.def), as data. */
#ifndef KEEL_SLOTS_H
#define KEEL_SLOTS_H

#include <stdbool.h>
#include <stddef.h>

typedef struct keel_slot {
  const char *table; /* its type: "kd_memory_table" */
  const char *name;  /* "memory.copy_in" */
  const char *slot;  /* "copy_in" */
  size_t offset;     /* in the table */
  bool needed;       /* where the table is there */
  bool fails;        /* a layer can return a status in its place */
} keel_slot;

/* The slot of that number; NULL past the last. */
const keel_slot *keel_slot_at(size_t index);

/* The first needed slot of a table that is NULL, or NULL. */
const keel_slot *keel_slot_missing(const char *table, const void *given);

/* Bytes that a table of the type has at least: its needed slots. */
size_t keel_slots_least(const char *table);

#endif /* KEEL_SLOTS_H */
