/* slot_list.c - the list of all slots, and queries of it by table. */
#include "layers/slots.h"

#include <kd/kd.h>
#include <string.h>

/* The list and the headers have the same types. */
#define SLOT(table, name, slot, need, fails, role, without, type, parameters, \
             arguments)                                                       \
  _Static_assert(                                                             \
      _Generic(((table *)NULL)->slot, type(*) parameters : 1, default : 0),   \
      "slots.def has another type of " #table "." #slot);
#include "layers/slots.def"
#undef SLOT

enum { OPTIONAL, NEEDED, NEVER = 0, FAILS };

static const keel_slot slots[] = {
#define SLOT(table, name, slot, need, fails, role, without, type, parameters, \
             arguments)                                                       \
  {#table, #name "." #slot, #slot, offsetof(table, slot), need, fails},
#include "layers/slots.def"
#undef SLOT
};

const keel_slot *keel_slot_at(size_t index) {
  return index < sizeof slots / sizeof *slots ? &slots[index] : NULL;
}

/* Whether a table, of the type's full size, has the slot. */
static bool is_filled(const keel_slot *slot, const void *table) {
  void (*function)(void) = NULL;
  memcpy(&function, (const char *)table + slot->offset, sizeof function);
  return function != NULL;
}

const keel_slot *keel_slot_missing(const char *table, const void *given) {
  for (size_t i = 0; i < sizeof slots / sizeof *slots; i++)
    if (slots[i].needed && !strcmp(slots[i].table, table) &&
        !is_filled(&slots[i], given))
      return &slots[i];
  return NULL;
}

size_t keel_slots_least(const char *table) {
  size_t least = 0;
  for (size_t i = 0; i < sizeof slots / sizeof *slots; i++) {
    size_t end = slots[i].offset + sizeof(void (*)(void));
    if (slots[i].needed && !strcmp(slots[i].table, table) && end > least)
      least = end;
  }
  return least;
}
