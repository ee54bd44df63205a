/* defects.h - what the simulated device can have wrong, by itself or by what fault.so puts
 * around it: a switch each. */
#ifndef KC_DEFECTS_H
#define KC_DEFECTS_H

#include <stdint.h>

/* How a defect is put in. */
enum {
  KC_BY_SWITCH, /* of fault.so, KEEL_FAULT=name, or of the device, KEEL_SIM=name */
  KC_BY_RACE,    /* the same, and it takes the right moment to show */
  KC_BY_LIBRARY, /* a library of its own: stub_NAME.so */
};

typedef struct kc_defect {
  const char *name;
  const char *rule; /* that must catch it */
  const char *text; /* what is wrong */
  int how;          /* KC_BY_* */
} kc_defect;

/* The defects that fault.so puts around any plugin: the name, and the rule that a
 * plugin must have something for (NULL: the defect's own). */
typedef struct kc_fault {
  const char *name, *needs;
} kc_fault;
extern const kc_fault kc_faults[];
extern const uint32_t kc_fault_count;

extern const kc_defect kc_defects[];
extern const uint32_t kc_defect_count;

/* Odd, but legal: everything must pass. */
extern const char *const kc_oddities[][2]; /* name, text */
extern const uint32_t kc_oddity_count;

#endif /* KC_DEFECTS_H */
